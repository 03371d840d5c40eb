//! Answers as streams of Server-Sent Events: the same call again and again, each time for what came after the last event.
//!
//! A stream keeps nothing but the id of its last event and what is being written. While its listener takes nothing, nothing is
//! asked for; afterwards the call decides whether what came meanwhile is still there. It ends with the server, when its
//! connection has to give way, or when the listener goes. Specification: HTML, section 9.2 (server-sent events).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame};
use netloom_lab::Service;
use netloom_lab::call::{Answers, Call, Told};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::connections::Doing;
use crate::handler::Lab;
use crate::reply::Rejection;

/// The content type of a stream.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The header with the last event's id, which browsers send when they connect again.
pub(crate) const LAST_EVENT: &str = "last-event-id";

/// After this time without events a comment is sent, so that a listener that has gone is noticed.
const QUIET: Duration = Duration::from_secs(15);

/// Whether a caller wants a stream.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let mut accepted =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| {
        let kinds = value.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
        kinds.into_iter().any(|kind| kind.eq_ignore_ascii_case(EVENTS))
    })
}

/// Answers a call with a stream.
pub(crate) fn answer<C: Call>(lab: Lab, call: C, headers: &HeaderMap) -> Response
where
    dyn Service: Answers<C>,
{
    let last = headers.get(LAST_EVENT).and_then(|id| id.to_str().ok());
    let call = last.map_or_else(|| call.clone(), |id| call.after(id, QUIET));
    // One text at a time: the next one is made when this has been taken.
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(follow(lab, call, send));
    let headers = [(header::CONTENT_TYPE, EVENTS), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::new(Stream(receive))).into_response()
}

/// Sends events until nobody wants more.
async fn follow<C: Call>(lab: Lab, mut call: C, send: mpsc::Sender<Bytes>)
where
    dyn Service: Answers<C>,
{
    loop {
        let (text, last) = match next(&lab, &call).await {
            Ok(found) => found,
            // The listener comes again, and then hears why.
            Err(_) => return,
        };
        if let Some(last) = &last {
            call = call.after(last, QUIET);
        }
        if send.send(text.into()).await.is_err() || *lab.stopping.borrow() {
            return;
        }
        // As one that waits: what it waits for may be its listener.
        if lab.held.does(Doing::Waiting) {
            return;
        }
    }
}

/// The next events as text, and the id of the last one; a comment if there are none for a while.
async fn next<C: Call>(lab: &Lab, call: &C) -> Result<(String, Option<String>), Rejection>
where
    dyn Service: Answers<C>,
{
    lab.wait_for(Instant::now() + QUIET, || {
        let call = call.clone();
        move |service: &dyn Service, last| {
            let found = C::told(&service.answer(call)?);
            Ok((last || !found.is_empty()).then(|| text(&found)))
        }
    })
    .await
}

fn text(events: &[Told]) -> (String, Option<String>) {
    let one = |Told { id, kind, json }: &Told| format!("id: {id}\nevent: {kind}\ndata: {json}\n\n");
    let all: String = events.iter().map(one).collect();
    match events.last() {
        Some(last) => (all, Some(last.id.clone())),
        None => (":\n\n".to_owned(), None),
    }
}

/// What is sent, as the body of an answer.
struct Stream(mpsc::Receiver<Bytes>);

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|sent| sent.map(|bytes| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_asked_for() {
        let wanted = |accept: &'static str| {
            is_wanted(&[(header::ACCEPT, accept.parse().unwrap())].into_iter().collect())
        };
        assert!(wanted("text/event-stream"));
        assert!(wanted("application/json;q=0.5, Text/Event-Stream; charset=utf-8"));
        for other in ["", "*/*", "text/*", "application/json", "text/event-streams"] {
            assert!(!wanted(other), "{other}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn events_are_blocks_of_lines() {
        let told =
            |id: &str| Told { id: id.to_owned(), kind: "change", json: "{\"a\":1}".to_owned() };
        assert_eq!(
            text(&[told("a.1"), told("a.2")]),
            (
                "id: a.1\nevent: change\ndata: {\"a\":1}\n\nid: a.2\nevent: change\ndata: {\"a\":1}\n\n".to_owned(),
                Some("a.2".to_owned())
            )
        );
        assert_eq!(text(&[]), (":\n\n".to_owned(), None));
    }
}
