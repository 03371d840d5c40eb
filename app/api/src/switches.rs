//! Routes that make, remove and query switches.
//!
//! As in [`routes`](crate::routes), each handler calls the service once and decides nothing. A request to a
//! shared-memory switch goes to its process unchanged.

use netloom_flow::control::requests::{Shown, TraceWhat, Traced};
use netloom_lab::view::{Changed, NewSwitch};
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::{Answer as SwitchAnswer, Request};

use crate::bodies::Sent;
use crate::handler::{Answer, Lab};
use crate::parameters::{Asked, Named};
use crate::query::DeleteSwitchQuery;
use crate::reply::Problem;

/// Make a switch
#[utoipa::path(post, path = "/v1/switches", tag = "parts", request_body = NewSwitch, responses(
    (status = 200, description = "It runs", body = Changed),
    (status = 400, description = "The body or a setting cannot be used", body = Problem),
    (status = 409, description = "The name is taken", body = Problem),
    (status = "default", description = "Not made", body = Problem),
))]
pub(crate) async fn create_switch(lab: Lab, Sent(request): Sent<NewSwitch>) -> Answer<Changed> {
    lab.call(move |s| s.create_switch(&request)).await
}

/// Remove a switch
///
/// Refused while ports are on it, unless forced.
#[utoipa::path(delete, path = "/v1/switches/{switch}", tag = "parts",
    params(("switch" = String, Path, description = "The switch's name"), DeleteSwitchQuery),
    responses(
        (status = 200, description = "Nothing is left of it", body = Changed),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such switch", body = Problem),
        (status = 409, description = "Ports are on it, or links end in it", body = Problem),
        (status = "default", description = "Something could not be removed", body = Problem),
    )
)]
pub(crate) async fn delete_switch(
    lab: Lab,
    Named(switch): Named<String>,
    Asked(query): Asked<DeleteSwitchQuery>,
) -> Answer<Changed> {
    let force = query.force.unwrap_or(false);
    lab.call(move |s| s.delete_switch(&switch, force)).await
}

/// Send a request to a shared-memory switch
#[utoipa::path(post, path = "/v1/switches/{switch}/requests", tag = "parts",
    params(("switch" = String, Path, description = "The switch's name")),
    request_body = Request,
    responses(
        (status = 200, description = "Its answer to this request",
            body = SwitchAnswer),
        (status = 400, description = "The body cannot be used, it is to stop, or the switch is not of kind `shm`",
            body = Problem),
        (status = 404, description = "No such switch", body = Problem),
        (status = 409, description = "The switch refuses it, or its process is not there at the moment",
            body = Problem),
        (status = "default", description = "Not done", body = Problem),
    )
)]
pub(crate) async fn ask_switch(
    lab: Lab,
    Named(switch): Named<String>,
    Sent(request): Sent<Request>,
) -> Answer<SwitchAnswer> {
    lab.call(move |s| s.ask_switch(&switch, &request)).await
}

/// Show an OpenFlow switch
#[utoipa::path(get, path = "/v1/switches/{switch}/openflow", tag = "parts",
    params(("switch" = String, Path, description = "The switch's name")),
    responses(
        (status = 200, description = "Its process, ports, controllers and counters", body = Shown),
        (status = 400, description = "The switch is not of kind `openflow`", body = Problem),
        (status = 404, description = "No such switch", body = Problem),
        (status = 409, description = "Its process is not there at the moment", body = Problem),
        (status = "default", description = "Not shown", body = Problem),
    )
)]
pub(crate) async fn show_openflow(lab: Lab, Named(switch): Named<String>) -> Answer<Shown> {
    lab.call(move |s| s.show_openflow(&switch)).await
}

/// Show the lab's slices
///
/// Switches that are sliced, and each slice's ports, controllers, rules, quotas, counters and last refusals.
#[utoipa::path(get, path = "/v1/slices", tag = "parts", responses(
    (status = 200, description = "What the slicer says", body = Sliced),
    (status = 400, description = "The lab has no slices", body = Problem),
    (status = 409, description = "The slicer's process is not there at the moment", body = Problem),
    (status = "default", description = "Not shown", body = Problem),
))]
pub(crate) async fn show_slices(lab: Lab) -> Answer<Sliced> {
    lab.call(move |s| s.show_slices()).await
}

/// Trace a frame through an OpenFlow switch
///
/// Nothing is counted or sent.
#[utoipa::path(post, path = "/v1/switches/{switch}/trace", tag = "parts",
    params(("switch" = String, Path, description = "The switch's name")),
    request_body = TraceWhat,
    responses(
        (status = 200, description = "What would happen to the frame", body = Traced),
        (status = 400, description = "The body cannot be used, or the switch is not of kind `openflow`",
            body = Problem),
        (status = 404, description = "No such switch", body = Problem),
        (status = 409, description = "Its process is not there at the moment", body = Problem),
        (status = "default", description = "Not traced", body = Problem),
    )
)]
pub(crate) async fn trace_frame(
    lab: Lab,
    Named(switch): Named<String>,
    Sent(what): Sent<TraceWhat>,
) -> Answer<Traced> {
    lab.call(move |s| s.trace_frame(&switch, &what)).await
}
