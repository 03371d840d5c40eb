//! The routes of measurements: the source's, word for word, plus a list and a view of a session.
//!
//! A configuration is checked as a whole: the answer lists all errors, each with the path of its field. Every
//! path works with and without a trailing slash. Handlers decide only the status; [`netloom_measure`] has the
//! sessions. An invalid number in a path names no session. Specification: RFC 9341.

mod answers;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use netloom_marking::session::{Body, Configuration};
use netloom_measure::{
    Between, Error, Measures, Probe, Session, SessionId, State as SessionState, Summary, TwoWays,
    Wanted,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::bodies::Whole;
use crate::calls::{Calls, Kind, Looks};
use crate::connections::Held;
use crate::documented::{Schemas, routes};
use crate::handler::{Answer, Encoded};
use crate::parameters::{Asked, FromQuery, Named, Query, missing, wait};
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
    calls: Arc<Calls>,
    /// The connection of the request.
    held: Held,
}

impl<S> FromRequestParts<S> for Pnpm
where
    S: Send + Sync,
    Pnpm: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Pnpm, Self::Rejection> {
        let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
        Ok(Pnpm { held, ..Pnpm::from_ref(state) })
    }
}

impl Pnpm {
    pub(crate) fn new(find: Arc<Find>, stopping: watch::Receiver<bool>, calls: Arc<Calls>) -> Pnpm {
        Pnpm { find, stopping, calls, held: Held::default() }
    }

    async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnOnce(&Probe) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        let find = Arc::clone(&self.find);
        self.calls.run(kind, &self.held, move || work(&*find()?)).await
    }

    /// Runs a call that may block.
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Probe) -> Result<T, Rejection> + Send + 'static,
    ) -> Result<T, Rejection> {
        self.run(Kind::Long, work).await
    }
}

/// All routes with their documentation.
pub(crate) fn router<S>(schemas: Schemas) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Pnpm: FromRef<S>,
{
    let all: [UtoipaMethodRouter<S>; 8] = [
        routes!(schemas; list, create),
        routes!(schemas; show, delete),
        routes!(schemas; set_state),
        routes!(schemas; measures),
        routes!(schemas; measures_of_netif),
        routes!(schemas; measures_of_flow),
        routes!(schemas; measures_of_both),
        routes!(schemas; two_ways),
    ];
    all.into_iter().fold(OpenApiRouter::new(), |router, routes| {
        let others: Vec<String> = routes.1.paths.keys().map(|path| other_form(path)).collect();
        let handlers = routes.2.clone();
        let with = |router: OpenApiRouter<S>, path: &String| router.route(path, handlers.clone());
        others.iter().fold(router.routes(routes), with)
    })
}

/// Only these routes and their document, for a server of measurements alone.
pub(crate) fn alone() -> OpenApiRouter<Pnpm> {
    let router = router::<Pnpm>(Schemas::Told);
    let mut whole = crate::document::empty_document();
    whole.merge(router.get_openapi().clone());
    let text = crate::document::text(&whole);
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
#[utoipa::path(operation_id = "list_sessions", get, path = "/pnpm/", tag = "measure", responses(
    (status = 200, description = "By number", body = Vec<Summary>),
    (status = "default", description = "Not served", body = Problem),
))]
async fn list(pnpm: Pnpm) -> Answer<Vec<Summary>> {
    pnpm.call(|probe| Encoded::of(&probe.list())).await
}

/// Send a configuration and prepare a session
///
/// Measuring begins when the session is started.
#[utoipa::path(operation_id = "create_session", post, path = "/pnpm/", tag = "measure", request_body = Body,
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
async fn create(pnpm: Pnpm, body: Whole) -> Result<impl IntoResponse + use<>, Rejection> {
    let id = pnpm
        .call(move |probe| {
            let configuration = Configuration::read(body.bytes()).map_err(wrong_configuration)?;
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
#[utoipa::path(operation_id = "show_session", get, path = "/pnpm/{id}", tag = "measure",
    params(("id" = u64, Path, description = "The session's number")),
    responses(
        (status = 200, description = "The session", body = SessionStatus),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn show(pnpm: Pnpm, Named(id): Named<String>) -> Answer<SessionStatus> {
    let shown = move |probe: &Probe| {
        let (id, session) = find(probe, &id)?;
        Encoded::of(&SessionStatus::of(id, &session))
    };
    pnpm.call(shown).await
}

/// End a session and delete its results
#[utoipa::path(operation_id = "delete_session", delete, path = "/pnpm/{id}", tag = "measure",
    params(("id" = u64, Path, description = "The session's number")),
    responses(
        (status = 200, description = "It is gone", body = Created),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn delete(pnpm: Pnpm, Named(id): Named<String>) -> Answer<Created> {
    let deleted = move |probe: &Probe| {
        let id = number(&id)?;
        probe.delete(id)?;
        Encoded::of(&Created { id })
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
#[utoipa::path(operation_id = "set_session_state", put, path = "/pnpm/{id}/state", tag = "measure",
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
async fn set_state(pnpm: Pnpm, Named(id): Named<String>, body: Whole) -> Answer<Summary> {
    let set = move |probe: &Probe| {
        let (id, session) = find(probe, &id)?;
        match order(body.bytes())? {
            Order::Start => session.start().map_err(not_started)?,
            Order::Stop => stop(&session)?,
        }
        Encoded::of(&summary(id, &session))
    };
    pnpm.call(set).await
}

/// `{"state": "start"}`, `{"state": "stop"}`, or the word alone.
fn order(bytes: &[u8]) -> Result<Order, Rejection> {
    let wrong = |path: &str, message: String| {
        Rejection::wrong("state", vec![Wrong { path: path.to_owned(), message }])
    };
    let value: Value = netloom_form::read(bytes)
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
#[derive(Clone, Copy, Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
struct MeasuresQuery {
    /// Only blocks from this number on; all that are kept if absent.
    from: Option<u64>,
    /// How long to wait in milliseconds for a block if there is none yet and the session runs; default 0.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

impl FromQuery for MeasuresQuery {
    fn from_query(query: &Query) -> Result<MeasuresQuery, Rejection> {
        Ok(MeasuresQuery { from: query.number("from")?, wait_ms: query.number("wait_ms")? })
    }
}

/// Read the results of a session
#[utoipa::path(operation_id = "read_measures", get, path = "/pnpm/{id}/measures", tag = "measure",
    params(("id" = u64, Path, description = "The session's number"), MeasuresQuery),
    responses(
        (status = 200, description = "Of all its interfaces and filters", body = Measures),
        (status = 400, description = "A parameter cannot be used", body = Problem),
        (status = 404, description = "No such session", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn measures(
    pnpm: Pnpm,
    Named(id): Named<String>,
    Asked(query): Asked<MeasuresQuery>,
) -> Answer<Measures> {
    read(pnpm, Selected { id, netif: None, flow: None }, query).await
}

/// Read the results of a session at an interface
#[utoipa::path(operation_id = "read_measures_of_netif", get, path = "/pnpm/{id}/measures/netif/{netif}/", tag = "measure",
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
    pnpm: Pnpm,
    Named((id, netif)): Named<(String, String)>,
    Asked(query): Asked<MeasuresQuery>,
) -> Answer<Measures> {
    read(pnpm, Selected { id, netif: Some(netif), flow: None }, query).await
}

/// Read the results of a session for a filter
#[utoipa::path(operation_id = "read_measures_of_flow", get, path = "/pnpm/{id}/measures/flow/{flow}/", tag = "measure",
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
    pnpm: Pnpm,
    Named((id, flow)): Named<(String, String)>,
    Asked(query): Asked<MeasuresQuery>,
) -> Answer<Measures> {
    read(pnpm, Selected { id, netif: None, flow: Some(flow) }, query).await
}

/// Read the results of a session for a filter at an interface
#[utoipa::path(operation_id = "read_measures_of_both", get, path = "/pnpm/{id}/measures/netif/{netif}/flow/{flow}/", tag = "measure",
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
    pnpm: Pnpm,
    Named((id, netif, flow)): Named<(String, String, String)>,
    Asked(query): Asked<MeasuresQuery>,
) -> Answer<Measures> {
    read(pnpm, Selected { id, netif: Some(netif), flow: Some(flow) }, query).await
}

/// Which two interfaces to compare.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
struct TwoWayQuery {
    /// The interface where packets leave, and where those back arrive.
    near: String,
    /// The interface where packets arrive, and where those back leave.
    far: String,
    /// The id of the filter of packets there; the first filter if absent.
    flow: Option<u32>,
    /// The id of the filter of packets back; that of packets there if absent.
    back: Option<u32>,
    /// Only blocks from this number on; all that are kept if absent.
    from: Option<u64>,
    /// How long to wait in milliseconds for a block if there is none yet and the session runs; default 0.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

impl FromQuery for TwoWayQuery {
    fn from_query(query: &Query) -> Result<TwoWayQuery, Rejection> {
        let netif = |name| query.text(name).map(str::to_owned).ok_or_else(|| missing(name));
        Ok(TwoWayQuery {
            near: netif("near")?,
            far: netif("far")?,
            flow: query.number("flow")?,
            back: query.number("back")?,
            from: query.number("from")?,
            wait_ms: query.number("wait_ms")?,
        })
    }
}

/// Compare two interfaces of a session in both directions
///
/// Loss, one-way delay and jitter of each direction, the mean round-trip time (ARTT) and the two-way jitter (TWAJ).
#[utoipa::path(operation_id = "compare_two_ways", get, path = "/pnpm/{id}/two-way", tag = "measure",
    params(("id" = u64, Path, description = "The session's number"), TwoWayQuery),
    responses(
        (status = 200, description = "Block by block", body = TwoWays),
        (status = 400, description = "A parameter is missing or cannot be used", body = Problem),
        (status = 404, description = "No such session, interface or filter", body = Problem),
        (status = "default", description = "Not served", body = Problem),
    )
)]
async fn two_ways(
    pnpm: Pnpm,
    Named(id): Named<String>,
    Asked(query): Asked<TwoWayQuery>,
) -> Answer<TwoWays> {
    let from = query.from.unwrap_or(0);
    let TwoWayQuery { near, far, flow, back, wait_ms, .. } = query;
    let between = Between { netifs: [near, far], flow, back, from };
    closed(pnpm, id, (from, wait_ms), move |probe, id| Encoded::of(&probe.two_ways(id, &between)?))
        .await
}

/// A selection as given in a path.
#[derive(Clone)]
struct Selected {
    id: String,
    netif: Option<String>,
    flow: Option<String>,
}

impl Selected {
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

/// Reads measures, waiting for the first block.
async fn read(pnpm: Pnpm, selected: Selected, query: MeasuresQuery) -> Answer<Measures> {
    let from = query.from.unwrap_or(0);
    closed(pnpm, selected.id.clone(), (from, query.wait_ms), move |probe, id| {
        Encoded::of(&probe.measures(id, &selected.wanted(id, from)?)?)
    })
    .await
}

/// Reads something of a session's closed blocks. While there is none from that number on and the session runs, it is read
/// once, to say what is wrong with the request, and again when there is one or the time is over.
async fn closed<T: Send + 'static>(
    pnpm: Pnpm,
    id: String,
    (from, wait_ms): (u64, Option<u64>),
    work: impl Fn(&Probe, SessionId) -> Result<Encoded<T>, Rejection> + Clone + Send + 'static,
) -> Answer<T> {
    let end = Instant::now() + wait(wait_ms)?;
    let mut looks = Looks::new(end, &pnpm.held, &pnpm.stopping);
    let mut checked = false;
    loop {
        let (id, work, last) = (id.clone(), work.clone(), looks.are_over());
        let before = std::mem::replace(&mut checked, true);
        let look = move |probe: &Probe| {
            let (id, session) = find(probe, &id)?;
            let runs = session.state() == SessionState::Running;
            let early = !last && runs && session.blocks(from, Duration::ZERO).is_empty();
            if early && before {
                return Ok(None);
            }
            let found = work(probe, id)?;
            Ok((!early).then_some(found))
        };
        if let Some(measures) = pnpm.run(Kind::Look, look).await? {
            return Ok(measures);
        }
        looks.pause().await;
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
            ("{\"state\": \"start\", \"state\": \"stop\"}", ""),
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
