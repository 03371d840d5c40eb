//! The routes: each handler calls the service once, on a thread that may block, and answers JSON.
//!
//! The router and the document come from the same list, so they have the same routes. A handler only
//! interprets its parameters. Routes that change something are in [`change`], those about switches in
//! [`switches`](crate::switches).

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRef;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use netloom_lab::Service;
use netloom_lab::view::{
    LabStatus, LinkStatus, NodeStatus, PairReachability, Reachability, Repaired, SwitchStatus,
};
use netloom_model::Plan;
use netloom_node::log::Record;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

use crate::change;
use crate::document::empty_document;
use crate::documented::{Schemas, routes};
use crate::handler::{Answer, Lab};
use crate::parameters::{Asked, Named};
use crate::pnpm::{self, Pnpm};
use crate::query::{LogQuery, PairQuery, PingQuery, RepairQuery};
use crate::reply::{Problem, Rejection};

/// All routes with their documentation.
pub(crate) fn router(schemas: Schemas) -> OpenApiRouter<Lab> {
    OpenApiRouter::with_openapi(empty_document())
        .routes(routes!(schemas; status, down))
        .routes(routes!(schemas; plan))
        .routes(routes!(schemas; repair))
        .routes(routes!(schemas; change::apply))
        .routes(routes!(schemas; ping))
        .routes(routes!(schemas; ping_pair))
        .routes(routes!(schemas; nodes, change::create_node))
        .routes(routes!(schemas; node, change::delete_node, change::set_node))
        .routes(routes!(schemas; change::move_control))
        .routes(routes!(schemas; log))
        .routes(routes!(schemas; change::move_interface))
        .routes(routes!(schemas; links, change::create_link))
        .routes(routes!(schemas; change::link, change::set_link, change::delete_link))
        .routes(routes!(schemas; change::fates, change::note_fates))
        .routes(routes!(schemas; switches, crate::switches::create_switch))
        .routes(routes!(schemas; crate::switches::delete_switch))
        .routes(routes!(schemas; crate::switches::ask_switch))
        .routes(routes!(schemas; crate::switches::show_openflow))
        .routes(routes!(schemas; crate::switches::show_slices))
        .routes(routes!(schemas; crate::switches::trace_frame))
        .routes(routes!(schemas; document))
        .merge(pnpm::router(schemas))
}

impl FromRef<Lab> for Pnpm {
    fn from_ref(lab: &Lab) -> Pnpm {
        let service = Arc::clone(&lab.service);
        let find = Arc::new(move || service.probe().map_err(Rejection::from));
        Pnpm::new(find, lab.stopping.clone(), Arc::clone(&lab.calls))
    }
}

/// The OpenAPI 3.1 document of the API as indented JSON, with a final newline.
pub fn openapi() -> String {
    // Serialising plain data to memory fails only for maps with non-string keys, which it does not contain.
    router(Schemas::Told).to_openapi().to_pretty_json().unwrap_or_default() + "\n"
}

/// Show the lab's current state
#[utoipa::path(get, path = "/v1/lab", tag = "lab", responses(
    (status = 200, description = "The lab with all its nodes, switches and links", body = LabStatus),
    (status = "default", description = "Not served", body = Problem),
))]
async fn status(lab: Lab) -> Answer<LabStatus> {
    lab.quick(|s| s.status()).await
}

/// Answer to taking a lab down.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Ended {
    /// The name of the lab that was taken down.
    lab: String,
}

/// Take the lab down
///
/// Answers when only the lab process is left, which then ends.
#[utoipa::path(delete, path = "/v1/lab", tag = "lab", responses(
    (status = 200, description = "Nothing is left of it", body = Ended),
    (status = 503, description = "Something else is done to the lab and does not end; `netloom down` ends the lab process",
        body = Problem),
    (status = "default", description = "Something could not be removed", body = Problem),
))]
async fn down(lab: Lab) -> Answer<Ended> {
    lab.last_call(|s| {
        let name = s.plan().lab.clone();
        s.down().map(|()| Ended { lab: name })
    })
    .await
}

/// Show the plan: names, addresses, routes
#[utoipa::path(get, path = "/v1/lab/plan", tag = "lab", responses(
    (status = 200, description = "The plan of the lab", body = Plan),
    (status = "default", description = "Not served", body = Problem),
))]
async fn plan(lab: Lab) -> Answer<Plan> {
    lab.quick(|s| Ok(Arc::unwrap_or_clone(s.plan()))).await
}

/// Recreate nodes whose init has ended, and revert manual changes made without netloom
#[utoipa::path(post, path = "/v1/lab/repair", tag = "lab", params(RepairQuery), responses(
    (status = 200, description = "The recreated parts", body = Repaired),
    (status = "default", description = "Not served", body = Problem),
))]
async fn repair(lab: Lab, Asked(query): Asked<RepairQuery>) -> Answer<Repaired> {
    lab.call(move |s| s.repair(query.keep_drift.unwrap_or(false))).await
}

/// Send one echo request from every node to every other
#[utoipa::path(post, path = "/v1/lab/ping", tag = "lab", params(PingQuery), responses(
    (status = 200, description = "Which node reaches which", body = Reachability),
    (status = 400, description = "A parameter cannot be used", body = Problem),
    (status = "default", description = "Not served", body = Problem),
))]
async fn ping(lab: Lab, Asked(query): Asked<PingQuery>) -> Answer<Reachability> {
    let (families, timeout) = (query.families()?, query.timeout()?);
    lab.call(move |s| s.ping(&families, timeout)).await
}

/// Send echo requests from one node to another
#[utoipa::path(post, path = "/v1/nodes/{node}/ping", tag = "lab",
    params(("node" = String, Path, description = "The name of the node that sends"), PairQuery),
    responses(
        (status = 200, description = "Its answers", body = PairReachability),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such node", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn ping_pair(
    lab: Lab,
    Named(from): Named<String>,
    Asked(query): Asked<PairQuery>,
) -> Answer<PairReachability> {
    let (families, pace) = (query.families()?, query.pace()?);
    lab.call(move |s| s.ping_pair(&from, &query.to, &families, pace)).await
}

/// List all nodes with their state
#[utoipa::path(get, path = "/v1/nodes", tag = "parts", responses(
    (status = 200, description = "In the order of the file", body = Vec<NodeStatus>),
    (status = "default", description = "Not served", body = Problem),
))]
async fn nodes(lab: Lab) -> Answer<Vec<NodeStatus>> {
    lab.quick(|s| s.status().map(|s| s.nodes)).await
}

/// Show a node
#[utoipa::path(get, path = "/v1/nodes/{node}", tag = "parts",
    params(("node" = String, Path, description = "The node's name")),
    responses(
        (status = 200, description = "The node", body = NodeStatus),
        (status = 404, description = "No such node", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn node(lab: Lab, Named(node): Named<String>) -> Answer<NodeStatus> {
    lab.quick(move |s| s.node(&node)).await
}

/// A line of a program's output.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Line {
    #[serde(flatten)]
    record: Record,
    /// Where it is, for the parameter `after`.
    cursor: String,
}

impl From<Record> for Line {
    fn from(record: Record) -> Line {
        Line { cursor: record.time_ns.to_string(), record }
    }
}

/// Read the output of a node's programs
///
/// To read on, pass the `cursor` of the last line as `after`. With `time_ns` instead, lines may be lost or come twice, because
/// many JSON readers round numbers of that size.
#[utoipa::path(get, path = "/v1/nodes/{node}/log", tag = "parts",
    params(("node" = String, Path, description = "The node's name"), LogQuery),
    responses(
        (status = 200, description = "In order of time; empty when nothing came in time",
            body = Vec<Line>),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such node", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn log(
    lab: Lab,
    Named(node): Named<String>,
    Asked(query): Asked<LogQuery>,
) -> Answer<Vec<Line>> {
    let (after, end) = (query.after()?, Instant::now() + query.wait()?);
    // A log that has not changed is not read again.
    let seen = Arc::new(Mutex::new(None));
    lab.wait_for(end, || {
        let (node, seen) = (node.clone(), Arc::clone(&seen));
        move |s: &dyn Service, last| {
            let mark = s.log_mark(&node)?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.replace(mark) == Some(mark) {
                return Ok(last.then(Vec::new));
            }
            let records = s.log(&node, after)?;
            let ends = last || !records.is_empty();
            Ok(ends.then(|| records.into_iter().map(Line::from).collect()))
        }
    })
    .await
}

/// List all links with their state
#[utoipa::path(get, path = "/v1/links", tag = "parts", responses(
    (status = 200, description = "In the order of the file", body = Vec<LinkStatus>),
    (status = "default", description = "Not served", body = Problem),
))]
async fn links(lab: Lab) -> Answer<Vec<LinkStatus>> {
    lab.quick(|s| s.status().map(|s| s.links)).await
}

/// List all switches with their state
#[utoipa::path(get, path = "/v1/switches", tag = "parts", responses(
    (status = 200, description = "In the order of the file", body = Vec<SwitchStatus>),
    (status = "default", description = "Not served", body = Problem),
))]
async fn switches(lab: Lab) -> Answer<Vec<SwitchStatus>> {
    lab.quick(|s| s.status().map(|s| s.switches)).await
}

/// Get this document
#[utoipa::path(get, path = "/v1/openapi.json", tag = "document", responses(
    (status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"),
))]
async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], openapi())
}

/// For unknown paths.
pub(crate) async fn no_route(uri: Uri) -> Rejection {
    Rejection::new(
        StatusCode::NOT_FOUND,
        format!("{:?}: no such route; GET /v1/openapi.json lists them", uri.path()),
    )
}

/// For methods that a route does not support.
pub(crate) async fn no_method(uri: Uri) -> Rejection {
    Rejection::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{:?}: does not have this method", uri.path()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_documented_routes_and_parameters() {
        let (told, left_out) = (router(Schemas::Told), router(Schemas::LeftOut));
        assert!(told.get_openapi().paths == left_out.get_openapi().paths);
        let schemas = |of: &OpenApiRouter<Lab>| {
            of.get_openapi().components.as_ref().map_or(0, |all| all.schemas.len())
        };
        assert!(schemas(&told) > 50 && schemas(&left_out) == 0);
    }
}
