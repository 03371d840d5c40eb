//! Bodies of requests: read whole before anything else, within a size, a time and a memory for all of them together.
//!
//! A body that is not plain JSON in UTF-8 is refused by its headers. Small bodies are bounded by the number of connections; a large
//! one reserves its size, and keeps that until it has been worked on.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::connections::{Doing, Held};
use crate::reply::Rejection;

/// Largest request body in bytes, where nothing else is said.
const MAX_BODY: usize = 64 * 1024;

/// The path of the lab's file, which may be as long as a plan.
pub(crate) const LAB_FILE: &str = "/v1/lab/file";

/// Largest configuration of a measurement: some 65,536 filters.
const MAX_CONFIGURATION: usize = 8 * 1024 * 1024;

/// What large bodies have together, beside one plan.
const BESIDES: usize = 2 * MAX_CONFIGURATION;

/// How long a plan may be at the moment, in bytes; 0 where none is taken.
pub(crate) type MostPlan = dyn Fn() -> usize + Send + Sync;

/// How bodies are read.
pub(crate) struct Bodies {
    patience: Duration,
    plan: Box<MostPlan>,
    /// Bytes that large bodies have.
    room: Arc<AtomicUsize>,
}

impl Bodies {
    /// `patience`: until a body is whole.
    pub(crate) fn new(patience: Duration, plan: Box<MostPlan>) -> Bodies {
        Bodies { patience, plan, room: Arc::default() }
    }

    async fn read(&self, path: &str, body: Body) -> Result<Whole, Rejection> {
        let applies = matches!(path, "/v1/lab/apply" | LAB_FILE);
        let configures = matches!(path, "/pnpm" | "/pnpm/");
        // It depends on the lab's own plan, so it is asked for only where it is needed.
        let plan = if applies || configures { (self.plan)() } else { 0 };
        let most = match (applies, configures) {
            (true, _) => plan.max(MAX_BODY),
            (_, true) => MAX_CONFIGURATION,
            _ => MAX_BODY,
        };
        let together = plan + BESIDES;
        let told = body.size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
        // Refused by its length alone: nothing of it is read.
        if told.is_some_and(|told| told > most) {
            return Err(too_large(most));
        }
        let mut weight = Weight { room: Arc::clone(&self.room), held: 0 };
        // Before the vector is made: that would take the memory.
        weight.hold(told.unwrap_or(0), together)?;
        let mut bytes = Vec::with_capacity(told.unwrap_or(0));
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| {
                Rejection::new(StatusCode::BAD_REQUEST, "body: it ended before it was whole")
            })?;
            // Trailers (RFC 9110, section 6.5) do not belong to the body.
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > most - bytes.len() {
                return Err(too_large(most));
            }
            let grown = bytes.len() + data.len();
            if grown > bytes.capacity() {
                // What the vector takes when it grows.
                let capacity = grown.max(2 * bytes.capacity()).min(most);
                weight.hold(capacity, together)?;
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(Whole { bytes: bytes.into(), _weight: Arc::new(weight) })
    }
}

fn too_large(most: usize) -> Rejection {
    let words = format!("body: larger than {most} bytes");
    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, words)
}

/// The memory that a body has reserved.
#[derive(Debug)]
pub(crate) struct Weight {
    room: Arc<AtomicUsize>,
    held: usize,
}

impl Weight {
    /// Reserves memory for this many bytes in all, if bodies have no more than `most` together.
    fn hold(&mut self, bytes: usize, most: usize) -> Result<(), Rejection> {
        // Small ones are bounded by the number of connections.
        let wanted = if bytes > MAX_BODY { bytes } else { 0 };
        let Some(more @ 1..) = wanted.checked_sub(self.held) else { return Ok(()) };
        let fits = |used: usize| used.checked_add(more).filter(|used| *used <= most);
        if self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            let words =
                "body: the others that are worked on leave no memory for it; send it again later";
            return Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words));
        }
        self.held = wanted;
        Ok(())
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.room.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// A body with its reservation, which goes with it.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    bytes: Bytes,
    _weight: Arc<Weight>,
}

impl Whole {
    /// Whether reading it takes a while.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes.len() > MAX_BODY
    }

    /// The bytes as they came.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, without a copy.
    pub(crate) fn shared(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The value that it says.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Rejection> {
        netloom_form::read(&self.bytes).map_err(|e| Rejection::body(&e.to_string()))
    }
}

impl<S: Sync> FromRequestParts<S> for Whole {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Whole, Rejection> {
        parts.extensions.remove().ok_or_else(Rejection::panicked)
    }
}

/// Reads a request's body completely before anything else, and turns a panic into an answer.
pub(crate) async fn bounded(
    State(bodies): State<Arc<Bodies>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Err(rejection) = plain(&parts.headers) {
        return rejection.into_response();
    }
    let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
    // A client that sends a body slowly gives way like one that sends nothing.
    held.does(Doing::Idle);
    let whole = match timeout(bodies.patience, bodies.read(parts.uri.path(), body)).await {
        Ok(Ok(whole)) => whole,
        Ok(Err(rejection)) => return rejection.into_response(),
        Err(_) => {
            return Rejection::new(StatusCode::REQUEST_TIMEOUT, "body: not whole in time")
                .into_response();
        }
    };
    held.does(Doing::Working);
    if matches!(parts.method, Method::GET | Method::HEAD | Method::DELETE)
        && !whole.bytes().is_empty()
    {
        return Rejection::no_body(parts.method.as_str(), parts.uri.path()).into_response();
    }
    parts.extensions.insert(whole);
    let mut answer = pin!(next.run(Request::from_parts(parts, Body::empty())));
    poll_fn(move |cx| {
        // A handler runs in many polls; each of them may panic.
        catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Rejection::panicked().into_response()))
    })
    .await
}

/// Refuses bodies that would have to be decoded.
fn plain(headers: &HeaderMap) -> Result<(), Rejection> {
    let refused = |words: String| Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, words));
    let shown = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        if !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity") {
            let value = shown(value.as_bytes());
            return refused(format!("content-encoding: {value:?}: send the body as it is"));
        }
    }
    for value in headers.get_all(header::TRANSFER_ENCODING) {
        if !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") {
            let value = shown(value.as_bytes());
            return refused(format!("transfer-encoding: {value:?}: only chunked is taken"));
        }
    }
    for value in headers.get_all(header::CONTENT_TYPE) {
        if let Some(charset) = charset(&shown(value.as_bytes())) {
            return refused(format!("content-type: charset {charset:?}: send the body in UTF-8"));
        }
    }
    Ok(())
}

/// The character set of a content type, if it is neither UTF-8 nor a part of it.
fn charset(value: &str) -> Option<String> {
    let parameters = value.split(';').skip(1).filter_map(|one| one.split_once('='));
    let of_set = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let sets = of_set.map(|(_, set)| set.trim().trim_matches('"').to_owned());
    let known = ["utf-8", "utf8", "us-ascii", "ascii"];
    sets.into_iter().find(|set| !known.iter().any(|known| known.eq_ignore_ascii_case(set)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_utf_8_is_read() {
        for good in [
            "application/json",
            "text/plain; charset=utf-8",
            "a/b; x=y; Charset=\"UTF-8\"",
            "",
            ";",
            "a;charset=us-ascii",
        ] {
            assert_eq!(charset(good), None, "{good}");
        }
        for bad in [
            "a/b; charset=latin1",
            "a/b;charset=\"utf-16\"",
            "a; charset=utf-8; charset=x",
            "a; charset=",
        ] {
            assert!(charset(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn memory_is_reserved_once_and_given_back() {
        let room = Arc::new(AtomicUsize::new(0));
        let weight = || Weight { room: Arc::clone(&room), held: 0 };
        let used = || room.load(Ordering::Relaxed);
        let mut one = weight();
        one.hold(MAX_BODY, 0).unwrap();
        assert_eq!(used(), 0, "small ones take none");
        for bytes in [70_000, 80_000, 75_000] {
            one.hold(bytes, 100_000).unwrap();
        }
        assert_eq!(used(), 80_000);
        let mut other = weight();
        assert_eq!(other.hold(70_000, 100_000).unwrap_err().status, 503);
        drop(one);
        other.hold(70_000, 100_000).unwrap();
        drop(other);
        assert_eq!(used(), 0);
    }
}
