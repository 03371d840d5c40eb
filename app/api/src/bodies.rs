//! Bodies of requests: read whole before anything else, within a size, a time and a memory for all of them together.
//!
//! What is not plain JSON in UTF-8 is refused by its headers. Small bodies are bounded by the number of connections; a large
//! one reserves its size, and keeps that until it has been worked on.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::connections::{Doing, Held};
use crate::json;
use crate::reply::Rejection;

/// Largest request body in bytes, where nothing else is said.
const MAX_BODY: usize = 64 * 1024;

/// Largest configuration of a measurement: some 65,536 filters.
const MAX_CONFIGURATION: usize = 8 * 1024 * 1024;

/// Largest plan: one of some 300,000 routes.
const MAX_PLAN: usize = 64 * 1024 * 1024;

/// What bodies larger than [`MAX_BODY`] have together.
const TOGETHER: usize = MAX_PLAN + 2 * MAX_CONFIGURATION;

/// The unit of reservations.
const UNIT: usize = 1024;

/// How bodies are read.
#[derive(Debug)]
pub(crate) struct Bodies {
    patience: Duration,
    /// Whether a plan may be sent.
    plans: bool,
    together: Arc<Semaphore>,
}

impl Bodies {
    /// `patience`: until a body is whole. `plans`: whether plans are taken.
    pub(crate) fn new(patience: Duration, plans: bool) -> Bodies {
        Bodies { patience, plans, together: Arc::new(Semaphore::new(TOGETHER / UNIT)) }
    }

    fn most(&self, path: &str) -> usize {
        match path {
            "/v1/lab/apply" if self.plans => MAX_PLAN,
            "/pnpm" | "/pnpm/" => MAX_CONFIGURATION,
            _ => MAX_BODY,
        }
    }

    async fn read(&self, body: Body, most: usize) -> Result<Whole, Rejection> {
        let told = body.size_hint().exact().map(|told| usize::try_from(told).unwrap_or(usize::MAX));
        if told.is_some_and(|told| told > most) {
            return Err(too_large(most));
        }
        let mut weight = Weight::default();
        weight.hold(&self.together, told.unwrap_or(0))?;
        let mut bytes = Vec::with_capacity(told.unwrap_or(0));
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| {
                Rejection::new(StatusCode::BAD_REQUEST, "body: it ended before it was whole")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > most - bytes.len() {
                return Err(too_large(most));
            }
            if bytes.capacity() - bytes.len() < data.len() {
                // As the vector grows.
                weight
                    .hold(&self.together, (2 * bytes.capacity()).max(bytes.len() + data.len()))?;
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
#[derive(Debug, Default)]
pub(crate) struct Weight(Option<OwnedSemaphorePermit>);

impl Weight {
    /// Reserves memory for this many bytes in all.
    fn hold(&mut self, together: &Arc<Semaphore>, bytes: usize) -> Result<(), Rejection> {
        let held = self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let units = if bytes > MAX_BODY { bytes.div_ceil(UNIT) } else { 0 };
        let Some(more @ 1..) = units.checked_sub(held) else { return Ok(()) };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let Ok(permit) = Arc::clone(together).try_acquire_many_owned(more) else {
            let words =
                "body: the others that are worked on leave no memory for it; send it again later";
            return Err(Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words));
        };
        match &mut self.0 {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }
}

/// A body with its reservation, which goes with it.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    bytes: Bytes,
    _weight: Arc<Weight>,
}

impl Whole {
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
        json::read(&self.bytes)
            .map_err(|e| Rejection::new(StatusCode::BAD_REQUEST, format!("body: {e}")))
    }
}

impl<S: Sync> FromRequestParts<S> for Whole {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Whole, Rejection> {
        parts.extensions.remove().ok_or_else(Rejection::panicked)
    }
}

/// The value of a small body.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Sent<T> {
    type Rejection = Rejection;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Rejection> {
        let whole = Whole::from_request_parts(&mut request.into_parts().0, state).await?;
        whole.read().map(Sent)
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
    let most = bodies.most(parts.uri.path());
    // Who sends a body slowly gives way like who sends nothing.
    held.does(Doing::Idle);
    let whole = match timeout(bodies.patience, bodies.read(body, most)).await {
        Ok(Ok(whole)) => whole,
        Ok(Err(rejection)) => return rejection.into_response(),
        Err(_) => {
            return Rejection::new(StatusCode::REQUEST_TIMEOUT, "body: not whole in time")
                .into_response();
        }
    };
    held.does(Doing::Working);
    parts.extensions.insert(whole);
    let mut answer = pin!(next.run(Request::from_parts(parts, Body::empty())));
    poll_fn(move |cx| {
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
        let together = Arc::new(Semaphore::new(100));
        let mut one = Weight::default();
        one.hold(&together, MAX_BODY).unwrap();
        assert_eq!(together.available_permits(), 100, "small ones take none");
        one.hold(&together, 70 * UNIT).unwrap();
        one.hold(&together, 80 * UNIT).unwrap();
        one.hold(&together, 75 * UNIT).unwrap();
        assert_eq!(together.available_permits(), 20);
        let mut other = Weight::default();
        assert_eq!(other.hold(&together, 90 * UNIT).unwrap_err().status, 503);
        drop(one);
        other.hold(&together, 90 * UNIT).unwrap();
        drop(other);
        assert_eq!(together.available_permits(), 100);
    }
}
