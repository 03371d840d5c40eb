//! Measurements for the page: loss and delay of each hop between two nodes, a line of JSON a block, while they come.
//!
//! A child measures, as `netloom measure` does. It marks packets, so it is nothing for a port that is for looking alone.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};

use crate::forward;
use crate::parameters::Query;
use crate::reply::Rejection;
use crate::streams::Streams;

/// The route.
pub(crate) const PATH: &str = "/v1/nodes/{node}/measure";

/// Begins one.
pub(crate) async fn begin(
    State(measurements): State<Arc<Streams>>,
    Path(node): Path<String>,
    uri: Uri,
) -> Result<Response, Response> {
    let query = Query::of(uri.query().unwrap_or_default()).map_err(IntoResponse::into_response)?;
    query.only(&["to"]).map_err(IntoResponse::into_response)?;
    let to = query.text("to").filter(|to| !to.is_empty());
    let to = to.ok_or_else(|| {
        Rejection::parameter("to", "write the node that receives").into_response()
    })?;
    let path = uri.path().strip_suffix("/measure").unwrap_or_default();
    forward::exists(&measurements.socket, path).await?;
    // Behind `--` nothing is a flag.
    let words = ["--".into(), node.into(), to.into()];
    measurements.start(words, "application/x-ndjson").await
}
