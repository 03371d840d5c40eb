//! Routes that change a running lab, and routes that follow the packets of a link.
//!
//! As in [`routes`](crate::routes), each handler calls the service once and decides nothing. Bodies are JSON
//! objects; an unknown or missing field is refused by name.

use netloom_lab::Service;
use netloom_lab::view::{
    Applied, Apply, Changed, Fates, LinkSettings, LinkStatus, MoveInterface, NewLink, NewNode,
    NodeSettings,
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::bodies::{Sent, Whole};
use crate::handler::{Answer, Lab};
use crate::parameters::{Asked, Named};
use crate::query::{DeleteQuery, FatesQuery, NoteQuery};
use crate::reply::{Problem, Rejection};

/// How a link may be given.
const LINK: &str = "The link's name, an end of it, `NODE:IFACE`, or both of its ends, `A,B`";

/// Turn the lab into the one of a file
///
/// Parts are added, changed where they are, recreated or removed; the rest is not touched. With `dry_run` the steps are only
/// shown.
#[utoipa::path(post, path = "/v1/lab/apply", tag = "lab", request_body = Apply, responses(
    (status = 200, description = "The steps done, or that would be done", body = Applied),
    (status = 400, description = "The body cannot be used, or the lab cannot become that while it lives",
        body = Problem),
    (status = 409, description = "Other steps than the expected ones are needed by now, the lab is not up, or it stands \
        in between and the same request does the rest", body = Problem),
    (status = "default", description = "Not done", body = Problem),
))]
pub(crate) async fn apply(lab: Lab, body: Whole) -> Answer<Applied> {
    // A plan may be long: it is read where nobody else waits for it.
    lab.call(move |s| {
        let request: Apply = body.read()?;
        Ok::<_, Rejection>(s.apply(request)?)
    })
    .await
}

/// Make a node
#[utoipa::path(post, path = "/v1/nodes", tag = "parts", request_body = NewNode, responses(
    (status = 200, description = "It runs", body = Changed),
    (status = 400, description = "The body or a setting cannot be used", body = Problem),
    (status = 404, description = "No such parent", body = Problem),
    (status = 409, description = "The name is taken, or the parent may not have more", body = Problem),
    (status = "default", description = "Not made", body = Problem),
))]
pub(crate) async fn create_node(lab: Lab, Sent(request): Sent<NewNode>) -> Answer<Changed> {
    lab.call(move |s| s.create_node(&request)).await
}

/// Remove a node with all nodes in it
///
/// Refused while processes or sockets live there, unless forced.
#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "parts",
    params(("node" = String, Path, description = "The node's name"), DeleteQuery),
    responses(
        (status = 200, description = "Nothing is left of it", body = Changed),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such node", body = Problem),
        (status = 409, description = "Something lives there; it is listed", body = Problem),
        (status = "default", description = "Something could not be removed", body = Problem),
    )
)]
pub(crate) async fn delete_node(
    lab: Lab,
    Named(node): Named<String>,
    Asked(query): Asked<DeleteQuery>,
) -> Answer<Changed> {
    let force = query.force.unwrap_or(false);
    lab.call(move |s| s.delete_node(&node, force)).await
}

/// Move the control plane of a router to a fresh node
#[utoipa::path(post, path = "/v1/nodes/{node}/move-control", tag = "parts",
    params(("node" = String, Path, description = "The router's name")),
    responses(
        (status = 200, description = "A fresh node is the router", body = Changed),
        (status = 400, description = "It is not a router with a separate plane", body = Problem),
        (status = 404, description = "No such node", body = Problem),
        (status = "default", description = "Not moved", body = Problem),
    )
)]
pub(crate) async fn move_control(lab: Lab, Named(node): Named<String>) -> Answer<Changed> {
    lab.call(move |s| s.move_control(&node)).await
}

/// Change limits, protection or root of a node
#[utoipa::path(patch, path = "/v1/nodes/{node}", tag = "parts",
    params(("node" = String, Path, description = "The node's name")),
    request_body = NodeSettings,
    responses(
        (status = 200, description = "All settings hold", body = Changed),
        (status = 400, description = "The body or a setting cannot be used", body = Problem),
        (status = 404, description = "No such node", body = Problem),
        (status = "default", description = "Not changed", body = Problem),
    )
)]
pub(crate) async fn set_node(
    lab: Lab,
    Named(node): Named<String>,
    Sent(change): Sent<NodeSettings>,
) -> Answer<Changed> {
    lab.call(move |s| s.set_node(&node, &change)).await
}

/// Move an interface to another node
#[utoipa::path(post, path = "/v1/interfaces/move", tag = "parts", request_body = MoveInterface,
    responses(
        (status = 200, description = "It is there", body = Changed),
        (status = 400, description = "The body cannot be used", body = Problem),
        (status = 404, description = "No such node or interface", body = Problem),
        (status = "default", description = "Not moved", body = Problem),
    )
)]
pub(crate) async fn move_interface(
    lab: Lab,
    Sent(request): Sent<MoveInterface>,
) -> Answer<Changed> {
    lab.call(move |s| s.move_interface(&request)).await
}

/// Make a link
///
/// Between two nodes, or a node and a switch. It gets the addresses and routes that it would get at the end
/// of the lab file.
#[utoipa::path(post, path = "/v1/links", tag = "parts", request_body = NewLink, responses(
    (status = 200, description = "It carries frames", body = Changed),
    (status = 400, description = "The body, an end or a setting cannot be used", body = Problem),
    (status = 404, description = "No such node", body = Problem),
    (status = 409, description = "A node's init has ended", body = Problem),
    (status = "default", description = "Not made", body = Problem),
))]
pub(crate) async fn create_link(lab: Lab, Sent(request): Sent<NewLink>) -> Answer<Changed> {
    lab.call(move |s| s.create_link(&request)).await
}

/// Remove a link with its interfaces
#[utoipa::path(delete, path = "/v1/links/{link}", tag = "parts",
    params(("link" = String, Path, description = LINK)),
    responses(
        (status = 200, description = "Nothing is left of it", body = Changed),
        (status = 400, description = "It cannot be removed, or several are meant", body = Problem),
        (status = 404, description = "No such link", body = Problem),
        (status = 409, description = "An interface of it is elsewhere", body = Problem),
        (status = "default", description = "Something could not be removed", body = Problem),
    )
)]
pub(crate) async fn delete_link(lab: Lab, Named(link): Named<String>) -> Answer<Changed> {
    lab.call(move |s| s.delete_link(&link)).await
}

/// Show a link
#[utoipa::path(get, path = "/v1/links/{link}", tag = "parts",
    params(("link" = String, Path, description = LINK)),
    responses(
        (status = 200, description = "The link", body = LinkStatus),
        (status = 400, description = "Several are meant; they are listed", body = Problem),
        (status = 404, description = "No such link", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
pub(crate) async fn link(lab: Lab, Named(link): Named<String>) -> Answer<LinkStatus> {
    lab.quick(move |s| s.link(&link)).await
}

/// Change a link's impairments, take it down or up
#[utoipa::path(patch, path = "/v1/links/{link}", tag = "parts",
    params(("link" = String, Path,
        description = "The link's name, or an end of it, `NODE:IFACE`, which then is the one that sends")),
    request_body = LinkSettings,
    responses(
        (status = 200, description = "The link as it is now", body = LinkStatus),
        (status = 400, description = "The body or a setting cannot be used", body = Problem),
        (status = 404, description = "No such link", body = Problem),
        (status = "default", description = "Not changed", body = Problem),
    )
)]
pub(crate) async fn set_link(
    lab: Lab,
    Named(link): Named<String>,
    Sent(change): Sent<LinkSettings>,
) -> Answer<LinkStatus> {
    lab.call(move |s| s.set_link(&link, &change)).await
}

/// Current recording of fates.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Noting {
    /// The link.
    link: String,
    /// Fates kept in each direction; 0 means that nothing is recorded.
    keep: usize,
}

/// Start or stop recording the fate of every packet of a link
#[utoipa::path(put, path = "/v1/links/{link}/fates", tag = "parts",
    params(("link" = String, Path, description = "The link's name, or an end of it"), NoteQuery),
    responses(
        (status = 200, description = "What is recorded from now on", body = Noting),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such link", body = Problem),
        (status = "default", description = "Not changed", body = Problem),
    )
)]
pub(crate) async fn note_fates(
    lab: Lab,
    Named(link): Named<String>,
    Asked(query): Asked<NoteQuery>,
) -> Answer<Noting> {
    let keep = query.keep()?;
    lab.call(move |s| {
        let noted = s.note_fates(&link, (keep > 0).then_some(keep));
        noted.map(|()| Noting { link, keep })
    })
    .await
}

/// List recorded fates of packets in one direction of a link
#[utoipa::path(get, path = "/v1/links/{link}/fates", tag = "parts",
    params(("link" = String, Path, description = "The link's name, or an end of it"), FatesQuery),
    responses(
        (status = 200, description = "In order, at most 4096; none when nothing came in time",
            body = Fates),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such link", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
pub(crate) async fn fates(
    lab: Lab,
    Named(link): Named<String>,
    Asked(query): Asked<FatesQuery>,
) -> Answer<Fates> {
    let (side, end) = (query.end()?, Instant::now() + query.wait()?);
    lab.wait_for(end, || {
        let link = link.clone();
        move |s: &dyn Service, last| {
            let found = s.fates(&link, side, query.after)?;
            Ok((last || !found.fates.is_empty() || found.missed > 0).then_some(found))
        }
    })
    .await
}
