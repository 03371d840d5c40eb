//! The entries of an OpenFlow switch for the page.
//!
//! They are asked for over OpenFlow, which the lab process does not speak with its own switches: a child of this process does, with
//! the verb that users have, `flow dump`. It changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::forward;
use crate::lab_file::Files;
use crate::parameters::Query;
use crate::reply::Rejection;

/// The route.
pub(crate) const PATH: &str = "/v1/switches/{switch}/flows";

/// Entries that are shown: each is read, written and sent.
const MOST: u64 = 5000;

/// A switch's account of itself is smaller.
const MOST_BYTES: usize = 16 << 20;

/// Of such an account, what is read here.
#[derive(Deserialize)]
struct Shown {
    entries: u64,
}

/// What it needs.
#[derive(Debug)]
pub(crate) struct Flows {
    /// Of the lab's API.
    socket: Arc<PathBuf>,
    verbs: Files,
}

impl Flows {
    pub(crate) fn new(socket: Arc<PathBuf>, verbs: Files) -> Flows {
        Flows { socket, verbs }
    }
}

/// Shows all entries, in the order of their tables and priorities.
pub(crate) async fn show(
    State(flows): State<Arc<Flows>>,
    Path(switch): Path<String>,
    uri: Uri,
) -> Result<Response, Response> {
    let query = Query::of(uri.query().unwrap_or_default()).map_err(IntoResponse::into_response)?;
    query.only(&[]).map_err(IntoResponse::into_response)?;
    // A name that the lab does not have could be another program's address.
    let path = uri.path().strip_suffix("/flows").unwrap_or_default();
    let answer = forward::answer(&flows.socket, &format!("{path}/openflow")).await?;
    let refused = |status, words| Rejection::new(status, words).into_response();
    let bytes = to_bytes(Body::new(answer), MOST_BYTES).await;
    let shown: Shown = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| refused(StatusCode::BAD_GATEWAY, "lab: a strange answer".to_owned()))?;
    if shown.entries > MOST {
        let words = format!(
            "switch {switch:?}: has {} entries, and {MOST} are shown here; `netloom flow dump` shows all",
            shown.entries
        );
        return Err(refused(StatusCode::CONFLICT, words));
    }
    let entries = flows.verbs.run(&["flow", "dump", "--json", &switch], String::new()).await;
    let entries = entries.map_err(IntoResponse::into_response)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], entries).into_response())
}
