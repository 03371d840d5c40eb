//! Turns errors into answers: the one place that assigns HTTP statuses to failures.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use netloom_lab::Error;
use netloom_model::lookup::LookupError;
use netloom_sys::describe;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::PROBLEM;

/// As many errors of one body are told: an answer should not be much longer than its request.
const MOST_PROBLEMS: usize = 1000;

/// Why a request failed (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Problem {
    /// The meaning of the status.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// A word for programs, which stays the same: `no_such_node`, `in_use`, `invalid_parameter`, ...
    pub(crate) code: String,
    /// The operation, its object, and why it failed.
    pub(crate) detail: String,
    /// The object, if it is a single one.
    pub(crate) object: Option<Subject>,
    /// The errors in a body whose fields are checked one by one, at most 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) problems: Vec<Wrong>,
}

/// An error in a field of a body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Wrong)]
pub(crate) struct Wrong {
    /// The field, such as `filters[1].src_ip`; empty for the body itself.
    pub(crate) path: String,
    /// The error, and what is allowed.
    pub(crate) message: String,
}

/// The object of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Subject {
    /// `lab`, `node`, `link`, `switch`, `slice`, `feature`, `parameter`, `session`, `filter`, `interface` or `end` (of a link).
    pub(crate) kind: String,
    /// Its name.
    pub(crate) name: String,
}

/// A problem and its HTTP status: the error type of handlers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) status: u16,
    pub(crate) problem: Box<Problem>,
}

impl Rejection {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Rejection {
        let problem = Problem { detail: error.into(), ..Problem::default() };
        Rejection { status: status.as_u16(), problem: Box::new(problem) }.with_status(status)
    }

    /// An invalid query parameter.
    pub(crate) fn parameter(name: &str, why: &str) -> Rejection {
        Rejection::new(StatusCode::BAD_REQUEST, format!("parameter {name:?}: {why}"))
            .about("parameter", name)
            .with_code("invalid_parameter")
    }

    /// A body that cannot be used.
    pub(crate) fn body(why: &str) -> Rejection {
        Rejection::new(StatusCode::BAD_REQUEST, format!("body: {why}")).with_code("invalid_body")
    }

    /// A body where none is taken.
    pub(crate) fn no_body(method: &str, path: &str) -> Rejection {
        Rejection::body(&format!("{method} {path} takes none"))
    }

    /// The path is unknown, or has no such method.
    pub(crate) fn no_route(status: StatusCode, why: String) -> Rejection {
        Rejection::new(status, why).with_code("no_such_route")
    }

    /// A body with several errors. The message names the first, and how many there are.
    pub(crate) fn wrong(object: &str, mut problems: Vec<Wrong>) -> Rejection {
        let first = match problems.first() {
            None => "cannot be used".to_owned(),
            Some(Wrong { path, message }) if path.is_empty() => message.clone(),
            Some(Wrong { path, message }) => format!("{path}: {message}"),
        };
        let more = match problems.len() {
            0 | 1 => String::new(),
            count => format!("; {} more", count - 1),
        };
        let mut failure =
            Rejection::new(StatusCode::BAD_REQUEST, format!("{object}: {first}{more}"));
        problems.truncate(MOST_PROBLEMS);
        failure.problem.problems = problems;
        failure
    }

    /// A path refers to something that does not exist.
    pub(crate) fn unknown(kind: &str, name: &str, why: &str) -> Rejection {
        Rejection::new(StatusCode::NOT_FOUND, format!("{kind} {name:?}: {why}")).about(kind, name)
    }

    /// Replaces the status.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Rejection {
        self.status = status.as_u16();
        self.problem.status = self.status;
        self.problem.title = status.canonical_reason().unwrap_or_default().to_owned();
        self.problem.code = self.problem.title.to_lowercase().replace([' ', '-'], "_");
        self
    }

    /// Says more than the status.
    fn with_code(mut self, code: &str) -> Rejection {
        code.clone_into(&mut self.problem.code);
        self
    }

    /// The request ended in a panic, which the process survives.
    pub(crate) fn panicked() -> Rejection {
        Rejection::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "lab: a fault in netloom ended this request",
        )
    }

    fn of(self, object: &netloom_lab::Subject) -> Rejection {
        match object.named() {
            Some((kind, name)) => self.about(kind, name),
            None => self,
        }
    }

    fn about(mut self, kind: &str, name: &str) -> Rejection {
        self.problem.object = Some(Subject { kind: kind.to_owned(), name: name.to_owned() });
        match self.status {
            404 => self.with_code(&format!("no_such_{kind}")),
            501 => self.with_code("unsupported"),
            _ => self,
        }
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Rejection {
        let failure = |status| Rejection::new(status, describe(&error));
        match &error {
            Error::NoLab(lab) => failure(StatusCode::NOT_FOUND).about("lab", lab),
            Error::Lookup(LookupError::NoNode { node, .. }) => {
                failure(StatusCode::NOT_FOUND).about("node", node)
            }
            Error::Lookup(LookupError::NoLink { link, .. }) => {
                failure(StatusCode::NOT_FOUND).about("link", link)
            }
            Error::Lookup(LookupError::NoSwitch { switch, .. }) => {
                failure(StatusCode::NOT_FOUND).about("switch", switch)
            }
            Error::Lookup(LookupError::NoPart { kind, name, .. }) => {
                failure(StatusCode::NOT_FOUND).about(kind, name)
            }
            Error::Busy { object, .. } => {
                failure(StatusCode::CONFLICT).of(object).with_code("in_use")
            }
            Error::Visited { .. } => failure(StatusCode::CONFLICT).with_code("in_use"),
            Error::Invalid { object, .. } => {
                failure(StatusCode::BAD_REQUEST).of(object).with_code("invalid")
            }
            Error::Lookup(LookupError::Invalid { .. }) => {
                failure(StatusCode::BAD_REQUEST).with_code("invalid")
            }
            Error::DeadNode(node) => {
                failure(StatusCode::CONFLICT).about("node", node).with_code("node_has_ended")
            }
            Error::Conflict { lab, .. } => failure(StatusCode::CONFLICT).about("lab", lab),
            Error::Stuck { lab, .. } => failure(StatusCode::SERVICE_UNAVAILABLE).about("lab", lab),
            _ => match unsupported(&error) {
                Some(feature) => failure(StatusCode::NOT_IMPLEMENTED).about("feature", feature),
                None => failure(StatusCode::INTERNAL_SERVER_ERROR),
            },
        }
    }
}

/// The missing feature, if the error reports one at any depth.
fn unsupported<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
    netloom_sys::Unsupported::behind(error).map(|unsupported| unsupported.feature)
}

impl From<netloom_measure::Error> for Rejection {
    fn from(error: netloom_measure::Error) -> Rejection {
        use netloom_measure::Error as Measure;
        let failure = |status| Rejection::new(status, describe(&error));
        match &error {
            Measure::NoInterface { netif } | Measure::NoSpot { netif, .. } => {
                failure(StatusCode::NOT_FOUND).about("interface", netif)
            }
            Measure::NoSession { id } => {
                failure(StatusCode::NOT_FOUND).about("session", &id.to_string())
            }
            Measure::NoFlow { flow, .. } => {
                failure(StatusCode::NOT_FOUND).about("filter", &flow.to_string())
            }
            Measure::Order { .. } => failure(StatusCode::CONFLICT),
            Measure::TooMany { .. } => failure(StatusCode::TOO_MANY_REQUESTS),
            Measure::Marking(_) | Measure::Invalid { .. } | Measure::Period { .. } => {
                failure(StatusCode::BAD_REQUEST)
            }
            _ => match unsupported(&error) {
                Some(feature) => failure(StatusCode::NOT_IMPLEMENTED).about("feature", feature),
                None => failure(refused(&error)),
            },
        }
    }
}

/// A refusal of a point counts as the client's error if it concerns the request or a missing interface.
fn refused(error: &netloom_measure::Error) -> StatusCode {
    use netloom_ebpf::Error as Ebpf;
    use netloom_measure::Error as Measure;
    let (Measure::Ebpf(source) | Measure::Point { source, .. }) = error else {
        return StatusCode::INTERNAL_SERVER_ERROR;
    };
    match source {
        Ebpf::Unknown { .. } => StatusCode::BAD_REQUEST,
        Ebpf::Failed(failure) if failure.raw_os_error() == Some(NODEV) => StatusCode::CONFLICT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The interface has disappeared.
const NODEV: i32 = rustix::io::Errno::NODEV.raw_os_error();

impl IntoResponse for Rejection {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = [(header::CONTENT_TYPE, PROBLEM)];
        (status, kind, netloom_form::to_vec(&self.problem).unwrap_or_default()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_sys::{Failure, Unsupported};

    fn missing() -> Unsupported {
        Unsupported { feature: "limits", reason: "none".into(), needs: "a mount".into() }
    }

    #[test]
    fn errors_of_a_body_are_counted_and_not_all_listed() {
        let one = |n: usize| Wrong { path: format!("k{n}"), message: "is not a field".into() };
        let failure = Rejection::wrong("configuration", (0..5000).map(one).collect());
        assert_eq!(failure.problem.detail, "configuration: k0: is not a field; 4999 more");
        assert_eq!(failure.problem.problems.len(), 1000);
    }

    #[test]
    fn every_kind_of_error_has_its_status_and_object() {
        let no_node =
            LookupError::NoNode { lab: "l".into(), node: "h9".into(), hint: "; hm".into() };
        let conflict = Error::Conflict { lab: "l".into(), reason: "busy".into() };
        let no_link =
            LookupError::NoLink { lab: "l".into(), link: "a:b".into(), hint: "; hm".into() };
        let no_switch =
            LookupError::NoSwitch { lab: "l".into(), switch: "s".into(), hint: "".into() };
        let no_use = LookupError::Invalid { object: "link \"a:b\"".into(), reason: "no".into() };
        let object = netloom_lab::Subject::of("node", "a/b");
        let busy = Error::Busy { object, reason: "2 processes".into() };
        let object = netloom_lab::Subject::of("node", "a").part("cpu");
        let invalid = Error::Invalid { object, reason: "no".into() };
        let lacking = netloom_sys::Error::Unsupported(missing());
        let deep = Error::Node(Failure::new("node \"h1\"", "limit", lacking).into());
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let io = Error::Failed(Failure::path("/x", "write", full));
        let cases = [
            (Error::NoLab("l".into()), 404, Some(("lab", "l"))),
            (no_node.into(), 404, Some(("node", "h9"))),
            (no_link.into(), 404, Some(("link", "a:b"))),
            (no_switch.into(), 404, Some(("switch", "s"))),
            (no_use.into(), 400, None),
            (busy, 409, Some(("node", "a/b"))),
            (invalid, 400, Some(("node", "a"))),
            (Error::DeadNode("h1".into()), 409, Some(("node", "h1"))),
            (conflict, 409, Some(("lab", "l"))),
            (Error::Stuck { lab: "l".into(), seconds: 1 }, 503, Some(("lab", "l"))),
            (Error::Unsupported(missing()), 501, Some(("feature", "limits"))),
            (deep, 501, Some(("feature", "limits"))),
            (io, 500, None),
            (Error::Several(vec![]), 500, None),
        ];
        for (error, status, object) in cases {
            let words = describe(&error);
            let failure = Rejection::from(error);
            assert_eq!(failure.status, status, "{words}");
            let found = failure.problem.object.as_ref();
            assert_eq!(found.map(|o| (o.kind.as_str(), o.name.as_str())), object, "{words}");
            assert_eq!(failure.problem.detail, words);
            assert_eq!(failure.problem.status, status);
            let code = &failure.problem.code;
            assert!(!code.is_empty() && code.bytes().all(|b| b == b'_' || b.is_ascii_lowercase()));
        }
    }
}
