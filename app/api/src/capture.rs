//! Captures for the page: the frames of a link as a pcapng file that comes while they do.
//!
//! A child captures, as `netloom capture` does, and ends by itself after the time that it was started with. While the caller
//! does not read, it keeps as much as it was told to; what it then loses, the file says.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::forward;
use crate::parameters::Query;
use crate::reply::Rejection;
use crate::streams::Streams;

/// The route.
pub(crate) const PATH: &str = "/v1/links/{link}/capture";

/// The longest filter, in bytes.
const MOST_FILTER: usize = 4096;

/// Begins one.
pub(crate) async fn begin(
    State(captures): State<Arc<Streams>>,
    Path(link): Path<String>,
    uri: Uri,
) -> Result<Response, Response> {
    let query = Query::of(uri.query().unwrap_or_default()).map_err(IntoResponse::into_response)?;
    query.only(&["filter", "own"]).map_err(IntoResponse::into_response)?;
    let filter = query.text("filter").unwrap_or_default();
    if filter.len() > MOST_FILTER {
        let words = format!("filter: longer than {MOST_FILTER} bytes");
        return Err(Rejection::new(StatusCode::BAD_REQUEST, words).into_response());
    }
    let own = match query.text("own") {
        None | Some("false") => None,
        Some("true") => Some("--own".into()),
        Some(_) => {
            return Err(Rejection::parameter("own", "write true or false").into_response());
        }
    };
    let path = uri.path().strip_suffix("/capture").unwrap_or_default();
    forward::exists(&captures.socket, path).await?;
    let link = format!("link:{link}").into();
    let words = [filter.into()].into_iter().chain(own).chain([link]);
    captures.start(words, "application/x-pcapng").await
}
