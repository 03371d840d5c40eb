//! The routes of measurements: the source's, word for word, plus a list and a view of a session.
//!
//! A configuration is checked as a whole: the answer lists all errors, each with the path of its field. Every
//! path works with and without a trailing slash. Handlers decide only the status; [`netloom_measure`] has the
//! sessions. An invalid number in a path names no session. Specification: RFC 9341.

mod answers;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRef, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use netloom_marking::session::{Body, Configuration};
use netloom_measure::{
    Error, Measures, Probe, Session, SessionId, State as SessionState, Summary, Wanted,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::handler::{Answer, WAIT_SLICE};
use crate::query::wait;
use crate::reply::{Problem, Rejection, Wrong};
use answers::{Created, SessionStatus, summary};

/// Finds the probe, which may have to be created or may refuse this caller.
type Find = dyn Fn() -> Result<Arc<Probe>, Rejection> + Send + Sync;

/// State shared by the handlers.
#[derive(Clone)]
pub(crate) struct Pnpm {
    find: Arc<Find>,
    /// Becomes true when the server ends.
    stopping: watch::Receiver<bool>,
}

impl Pnpm {
    pub(crate) fn new(find: Arc<Find>, stopping: watch::Receiver<bool>) -> Pnpm {
        Pnpm { find, stopping }
    }

    /// Runs a call that may block.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Probe) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        let find = Arc::clone(&self.find);
        let run = move || work(&*find()?);
        tokio::task::spawn_blocking(run).await.unwrap_or_else(|_| Err(Rejection::panicked()))
    }
}

/// All routes with their documentation.
pub(crate) fn router<S>() -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Pnpm: FromRef<S>,
{
    let all: [UtoipaMethodRouter<S>; 7] = [
        routes!(list, create),
        routes!(show, delete),
        routes!(set_state),
        routes!(measures),
        routes!(measures_of_netif),
        routes!(measures_of_flow),
        routes!(measures_of_both),
    ];
    all.into_iter().fold(OpenApiRouter::new(), |router, routes| {
        let others: Vec<String> = routes.1.paths.keys().map(|path| other_form(path)).collect();
        let handlers = routes.2.clone();
        let with = |router: OpenApiRouter<S>, path: &String| router.route(path, handlers.clone());
        others.iter().fold(router.routes(routes), with)
    })
}

/// Only these routes and their document, for a server of measurements alone.
pub(crate) fn alone() -> Router<Pnpm> {
    let (router, document) = router::<Pnpm>().split_for_parts();
    let mut whole = crate::document::empty_document();
    whole.merge(document);
    // Serialising plain data to memory does not fail.
    let text = whole.to_pretty_json().unwrap_or_default() + "\n";
    let answer = ([(header::CONTENT_TYPE, "application/json")], Bytes::from(text));
    router.route(DOCUMENT, get(async move || answer))
}

/// Path of the document.
const DOCUMENT: &str = "/v1/openapi.json";

/// The path with its trailing slash added or removed.
fn other_form(path: &str) -> String {
    path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned)
}

/// List the sessions
#[utoipa::path(get, path = "/pnpm/", tag = "measure", responses(
    (status = 200, description = "By number", body = Vec<Summary>),
    (status = "default", description = "Not served", body = Problem),
))]
async fn list(State(pnpm): State<Pnpm>) -> Answer<Vec<Summary>> {
    pnpm.call(|probe| Ok(Json(probe.list()))).await
}

/// Send a configuration and prepare a session
///
/// Measuring begins when the session is started.
#[utoipa::path(post, path = "/pnpm/", tag = "measure", request_body = Body,
    responses(
        (status = 201, description = "It is prepared", body = Created,
            headers(("Location" = String, description = "Where it is"))),
        (status = 400, description = "All that is wrong with the configuration", body = Problem),
        (status = 413, description = "More than 8 MiB", body = Problem),
        (status = 429, description = "There are as many as there may be", body = Problem),
        (status = 501, description = "This machine or user lacks what measuring needs", body = Problem),
        (status = "default", description = "Not prepared", body = Problem),
    )
)]
async fn create(
    State(pnpm): State<Pnpm>,
    bytes: Bytes,
) -> Result<impl IntoResponse + use<>, Rejection> {
    let id = pnpm
        .call(move |probe| {
            let configuration = Configuration::read(&bytes).map_err(wrong_configuration)?;
            let names = (configuration.netifs.clone(), configuration.marking.clone());
            probe.create(configuration).map_err(|error| not_created(error, &names))
        })
        .await?;
    let location = [(header::LOCATION, format!("/pnpm/{id}"))];
    Ok((StatusCode::CREATED, location, Json(Created { id })))
}

fn wrong_configuration(problems: Vec<netloom_marking::session::Problem>) -> Rejection {
    let field = |p: netloom_marking::session::Problem| Wrong { path: p.path, message: p.message };
    Rejection::wrong("configuration", problems.into_iter().map(field).collect())
}

/// A missing interface is an error in the configuration field that names it.
fn not_created(error: Error, (netifs, marking): &(Vec<String>, Vec<String>)) -> Rejection {
    let Error::NoInterface { netif } = &error else { return Rejection::from(error) };
    let place = |list: &str, names: &[String]| {
        let at = names.iter().position(|name| name == netif)?;
        Some(format!("{list}[{at}].netif"))
    };
    let path = place("netifs", netifs).or_else(|| place("marking", marking));
    match path {
        Some(path) => {
            let message = format!("there is no interface {netif:?} here");
            Rejection::wrong("configuration", vec![Wrong { path, message }])
        }
        None => Rejection::from(error),
    }
}

/// Show a session
#[utoipa::path(get, path = "/pnpm/{id}", tag = "measure",
    params(("id" = u64, Path, description = "The session's number")),
    responses(
        (status = 200, description = "The session", body = SessionStatus),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn show(
    State(pnpm): State<Pnpm>,
    id: Result<Path<String>, PathRejection>,
) -> Answer<SessionStatus> {
    let Path(id) = id?;
    let shown = move |probe: &Probe| {
        let (id, session) = find(probe, &id)?;
        Ok(Json(SessionStatus::of(id, &session)))
    };
    pnpm.call(shown).await
}

/// End a session and delete its results
#[utoipa::path(delete, path = "/pnpm/{id}", tag = "measure",
    params(("id" = u64, Path, description = "The session's number")),
    responses(
        (status = 200, description = "It is gone", body = Created),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn delete(
    State(pnpm): State<Pnpm>,
    id: Result<Path<String>, PathRejection>,
) -> Answer<Created> {
    let Path(id) = id?;
    let deleted = move |probe: &Probe| {
        let id = number(&id)?;
        probe.delete(id)?;
        Ok(Json(Created { id }))
    };
    pnpm.call(deleted).await
}

/// An order to a session.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Order)]
enum Order {
    /// Start measuring.
    Start,
    /// Stop measuring.
    Stop,
}

/// The requested state of a session.
#[derive(Debug, ToSchema)]
#[schema(as = SetState)]
#[allow(dead_code, reason = "only its shape is used: reading tells what is wrong by its path")]
struct SetState {
    /// `start` or `stop`.
    state: Order,
}

/// Start or stop a session
///
/// Its results stay readable until it is deleted. It ends by itself after its last whole block.
#[utoipa::path(put, path = "/pnpm/{id}/state", tag = "measure",
    params(("id" = u64, Path, description = "The session's number")),
    request_body(content = SetState, description = "Or just the word as a JSON text"),
    responses(
        (status = 200, description = "It does so", body = Summary),
        (status = 400, description = "The body is neither", body = Problem),
        (status = 404, description = "No such session", body = Problem),
        (status = 409, description = "Not as it is: it was started before, or does not run", body = Problem),
        (status = 501, description = "This machine or user lacks what measuring needs", body = Problem),
        (status = "default", description = "Not done", body = Problem),
    )
)]
async fn set_state(
    State(pnpm): State<Pnpm>,
    id: Result<Path<String>, PathRejection>,
    bytes: Bytes,
) -> Answer<Summary> {
    let Path(id) = id?;
    let set = move |probe: &Probe| {
        let (id, session) = find(probe, &id)?;
        match order(&bytes)? {
            Order::Start => session.start().map_err(not_started)?,
            Order::Stop => stop(&session)?,
        }
        Ok(Json(summary(id, &session)))
    };
    pnpm.call(set).await
}

/// `{"state": "start"}`, `{"state": "stop"}`, or the word alone.
fn order(bytes: &[u8]) -> Result<Order, Rejection> {
    let wrong = |path: &str, message: String| {
        Rejection::wrong("state", vec![Wrong { path: path.to_owned(), message }])
    };
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| wrong("", format!("cannot be read as JSON: {error}")))?;
    let (path, word) = match &value {
        Value::Object(fields) => {
            if let Some(name) = fields.keys().find(|name| *name != "state") {
                return Err(wrong(name, "is not a field here; there is state".to_owned()));
            }
            let word =
                fields.get("state").ok_or_else(|| wrong("state", "is missing".to_owned()))?;
            ("state", word)
        }
        other => ("", other),
    };
    Order::deserialize(word).map_err(|_| wrong(path, "must be \"start\" or \"stop\"".to_owned()))
}

/// An interface that disappeared after the session was prepared is not an invalid request.
fn not_started(error: Error) -> Rejection {
    let gone = matches!(error, Error::NoInterface { .. });
    let failure = Rejection::from(error);
    if gone { failure.with_status(StatusCode::CONFLICT) } else { failure }
}

fn stop(session: &Session) -> Result<(), Rejection> {
    let state = match session.state() {
        SessionState::Running => {
            session.stop();
            return Ok(());
        }
        SessionState::Prepared => "prepared",
        SessionState::Ended => "ended",
    };
    Err(Rejection::from(Error::Order { operation: "stop", state }))
}

/// Parameters for reading measures.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MeasuresQuery {
    /// Only blocks from this number on; all that are kept if absent.
    from: Option<u64>,
    /// How long to wait in milliseconds for a block if there is none yet and the session runs; default 0.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

type Queried = Result<Query<MeasuresQuery>, QueryRejection>;

/// Read the results of a session
#[utoipa::path(get, path = "/pnpm/{id}/measures", tag = "measure",
    params(("id" = u64, Path, description = "The session's number"), MeasuresQuery),
    responses(
        (status = 200, description = "Of all its interfaces and filters", body = Measures),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn measures(
    State(pnpm): State<Pnpm>,
    path: Result<Path<String>, PathRejection>,
    query: Queried,
) -> Answer<Measures> {
    let Path(id) = path?;
    read(pnpm, Asked { id, netif: None, flow: None }, query?.0).await
}

/// Read the results of a session at an interface
#[utoipa::path(get, path = "/pnpm/{id}/measures/netif/{netif}/", tag = "measure",
    params(
        ("id" = u64, Path, description = "The session's number"),
        ("netif" = String, Path, description = "The interface's name"),
        MeasuresQuery,
    ),
    responses(
        (status = 200, description = "Of all its filters", body = Measures),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such session, or it does not measure there", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn measures_of_netif(
    State(pnpm): State<Pnpm>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Queried,
) -> Answer<Measures> {
    let Path((id, netif)) = path?;
    read(pnpm, Asked { id, netif: Some(netif), flow: None }, query?.0).await
}

/// Read the results of a session for a filter
#[utoipa::path(get, path = "/pnpm/{id}/measures/flow/{flow}/", tag = "measure",
    params(
        ("id" = u64, Path, description = "The session's number"),
        ("flow" = u32, Path, description = "The filter's id"),
        MeasuresQuery,
    ),
    responses(
        (status = 200, description = "At all its interfaces", body = Measures),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such session, or it has no such filter", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn measures_of_flow(
    State(pnpm): State<Pnpm>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Queried,
) -> Answer<Measures> {
    let Path((id, flow)) = path?;
    read(pnpm, Asked { id, netif: None, flow: Some(flow) }, query?.0).await
}

/// Read the results of a session for a filter at an interface
#[utoipa::path(get, path = "/pnpm/{id}/measures/netif/{netif}/flow/{flow}/", tag = "measure",
    params(
        ("id" = u64, Path, description = "The session's number"),
        ("netif" = String, Path, description = "The interface's name"),
        ("flow" = u32, Path, description = "The filter's id"),
        MeasuresQuery,
    ),
    responses(
        (status = 200, description = "In each direction", body = Measures),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such session, interface or filter", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn measures_of_both(
    State(pnpm): State<Pnpm>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    query: Queried,
) -> Answer<Measures> {
    let Path((id, netif, flow)) = path?;
    read(pnpm, Asked { id, netif: Some(netif), flow: Some(flow) }, query?.0).await
}

/// A selection as given in a path.
#[derive(Clone)]
struct Asked {
    id: String,
    netif: Option<String>,
    flow: Option<String>,
}

impl Asked {
    /// The selection with parsed numbers.
    fn wanted(&self, id: SessionId, from: u64) -> Result<Wanted, Rejection> {
        let flow = |text: &String| {
            let none = format!("session {id} has none of this number");
            plain(text).ok_or_else(|| Rejection::unknown("filter", text, &none))
        };
        let flow = self.flow.as_ref().map(flow).transpose()?;
        Ok(Wanted { netif: self.netif.clone(), flow, from })
    }
}

/// Reads measures, waiting in slices for the first block.
async fn read(pnpm: Pnpm, asked: Asked, query: MeasuresQuery) -> Answer<Measures> {
    let end = Instant::now() + wait(query.wait_ms)?;
    let from = query.from.unwrap_or(0);
    loop {
        let slice_end = end.min(Instant::now() + WAIT_SLICE);
        let wait: Duration = slice_end.saturating_duration_since(Instant::now());
        let last = Instant::now() >= end || *pnpm.stopping.borrow();
        let asked = asked.clone();
        let look = move |probe: &Probe| {
            let (id, session) = find(probe, &asked.id)?;
            let wanted = asked.wanted(id, from)?;
            let runs = session.state() == SessionState::Running;
            if !last && runs && session.blocks(from, wait).is_empty() {
                return Ok(None);
            }
            Ok(Some(probe.measures(id, &wanted)?))
        };
        if let Some(measures) = pnpm.call(look).await? {
            return Ok(Json(measures));
        }
        // The service may give up early.
        sleep_until(slice_end).await;
    }
}

fn find(probe: &Probe, id: &str) -> Result<(SessionId, Arc<Session>), Rejection> {
    let id = number(id)?;
    Ok((id, probe.session(id)?))
}

/// Parses a session's number; anything else names no session.
fn number(id: &str) -> Result<SessionId, Rejection> {
    plain(id).ok_or_else(|| Rejection::unknown("session", id, "there is none of this number"))
}

/// Parses a number that consists of digits only.
fn plain<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_an_object_or_a_word() {
        for text in ["{\"state\": \"start\"}", "\"start\"", " \"start\"\n"] {
            assert!(matches!(order(text.as_bytes()), Ok(Order::Start)), "{text}");
        }
        assert!(matches!(order(b"{\"state\": \"stop\"}"), Ok(Order::Stop)));
        for (text, path) in [
            ("", ""),
            ("start", ""),
            ("[\"start\"]", ""),
            ("\"pause\"", ""),
            ("null", ""),
            ("{}", "state"),
            ("{\"state\": 1}", "state"),
            ("{\"state\": \"Start\"}", "state"),
            ("{\"state\": \"start\", \"at\": 1}", "at"),
        ] {
            let failure = order(text.as_bytes()).unwrap_err();
            let [wrong] = &failure.problem.problems[..] else { panic!("{failure:?}") };
            assert_eq!((failure.status, wrong.path.as_str()), (400, path), "{text}");
        }
    }

    #[test]
    fn numbers_of_sessions_are_plain() {
        assert_eq!(number("7").ok(), Some(7));
        assert_eq!(number("18446744073709551615").ok(), Some(u64::MAX));
        for id in ["", "+7", "-1", "7 ", "x", "18446744073709551616", "٧"] {
            assert_eq!(number(id).unwrap_err().status, 404, "{id:?}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_found_in_the_configuration() {
        let names = (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]);
        let told =
            |netif: &str| not_created(Error::NoInterface { netif: netif.to_owned() }, &names);
        let paths = |failure: &Rejection| failure.problem.problems.first().map(|p| p.path.clone());
        assert_eq!(paths(&told("b")).as_deref(), Some("netifs[1].netif"));
        assert_eq!(paths(&told("c")).as_deref(), Some("marking[0].netif"));
        assert_eq!((told("b").status, told("d").status), (400, 404));
    }
}
