//! Parameters of requests: names in paths, and queries. A query has only what the document says that its route has, each once.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, MatchedPath, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use netloom_lab::call::Parameter as _;
use netloom_lab::calls::Wait;
use serde::de::DeserializeOwned;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use crate::reply::Rejection;

/// The parameters of each route and method, from the document.
pub(crate) struct Known(HashMap<(String, Method), BTreeSet<String>>);

impl Known {
    pub(crate) fn of(document: &OpenApi) -> Known {
        let routes = document.paths.paths.iter().flat_map(|(path, item)| {
            operations(item).map(|(method, of)| ((form(path).to_owned(), method), queries(of)))
        });
        Known(routes.collect())
    }

    /// Refuses what a query should not have.
    fn check(&self, path: &str, method: &Method, query: &Query) -> Result<(), Rejection> {
        let none = BTreeSet::new();
        // The router answers HEAD by GET's handler.
        let asked = if *method == Method::HEAD { &Method::GET } else { method };
        let known = self.0.get(&(form(path).to_owned(), asked.clone())).unwrap_or(&none);
        let mut seen = BTreeSet::new();
        for (name, _) in &query.0 {
            if !known.contains(name) {
                let all: Vec<&str> = known.iter().map(String::as_str).collect();
                let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
                let why = format!("is not known here; {method} {path} has {all}");
                return Err(Rejection::parameter(name, &why));
            }
            if !seen.insert(name) {
                return Err(Rejection::parameter(name, "is there twice"));
            }
        }
        Ok(())
    }
}

/// A path in the form without a slash at its end.
fn form(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter().filter_map(|(method, of)| Some((method, of.as_ref()?)))
}

fn queries(of: &Operation) -> BTreeSet<String> {
    let all = of.parameters.iter().flatten().filter_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter),
        RefOr::Ref(_) => None,
    });
    let queries = all.filter(|parameter| parameter.parameter_in == ParameterIn::Query);
    queries.map(|parameter| parameter.name.clone()).collect()
}

/// Passes on requests whose query is known.
pub(crate) async fn checked(
    State(known): State<Arc<Known>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map_or_else(|| request.uri().path(), MatchedPath::as_str);
    let query = Query::of(request.uri().query().unwrap_or_default())
        .and_then(|query| known.check(path, request.method(), &query).map(|()| query));
    match query {
        Ok(query) => {
            request.extensions_mut().insert(query);
            next.run(request).await
        }
        Err(rejection) => rejection.into_response(),
    }
}

/// A query, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(text: &str) -> Result<Query, Rejection> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Option<_>>().map(Query).ok_or_else(|| {
            let words = "parameters: must be UTF-8, with other bytes as %XX";
            Rejection::new(StatusCode::BAD_REQUEST, words)
        })
    }

    /// Refuses parameters that a route does not have, and those that are there twice.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), Rejection> {
        for (at, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(Rejection::parameter(name, "this route does not have it"));
            }
            if self.0[..at].iter().any(|(other, _)| other == name) {
                return Err(Rejection::parameter(name, "is there twice"));
            }
        }
        Ok(())
    }

    /// The value of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The same as a whole number.
    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Rejection> {
        // A sign is part of no number here.
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let read = |text: &str| digits(text).then(|| text.parse().ok()).flatten();
        self.read(name, "a whole number", read)
    }

    fn read<T>(
        &self,
        name: &str,
        what: impl Display,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Rejection> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => Err(Rejection::parameter(name, &format!("takes {what}, is {text:?}"))),
        }
    }
}

/// A parameter that must be there is not.
pub(crate) fn missing(name: &str) -> Rejection {
    Rejection::parameter(name, "is missing")
}

/// How long to wait.
pub(crate) fn wait(ms: Option<u64>) -> Result<Duration, Rejection> {
    let text = ms.map(|ms| ms.to_string());
    Wait::read(text.as_deref()).map(Wait::time).map_err(|why| Rejection::parameter("wait_ms", &why))
}

/// A path segment, with all but unreserved characters as `%XX` (RFC 3986, section 2).
pub(crate) fn encoded(segment: &str) -> String {
    let mut text = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// A text with its `%XX` and `+` decoded; `None` if that is not possible.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            // As HTML forms write a blank in queries.
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// The names in a request's path, by their places in the route's.
pub(crate) struct Names(HashMap<String, String>);

impl Names {
    /// The name at a place.
    pub(crate) fn text(&self, place: &str) -> Option<&str> {
        self.0.get(place).map(String::as_str)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Names, Rejection> {
        Named::from_request_parts(parts, state).await.map(|Named(names)| Names(names))
    }
}

/// Parameters that are read from a query.
pub(crate) trait FromQuery: Sized {
    /// Reads them, unless one cannot be used.
    fn from_query(query: &Query) -> Result<Self, Rejection>;
}

/// The query of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: FromQuery, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>, Rejection> {
        let none = Query::default();
        T::from_query(parts.extensions.get().unwrap_or(&none)).map(Asked)
    }
}

/// Names in the path of a request.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named<T>, Rejection> {
        let path: Result<Path<T>, PathRejection> = Path::from_request_parts(parts, state).await;
        path.map(|Path(names)| Named(names)).map_err(|_| {
            let words = "path: must be UTF-8, with other bytes as %XX";
            Rejection::new(StatusCode::BAD_REQUEST, words)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_or_refused() {
        let pairs = |text: &str| Query::of(text).ok().map(|query| query.0);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs(""), Some(vec![]));
        assert_eq!(
            pairs("a=1&b&c=%C3%A9+x&&d=="),
            Some(vec![pair("a", "1"), pair("b", ""), pair("c", "é x"), pair("d", "=")])
        );
        for bad in ["a=%FF", "%C3=1", "a=%", "a=%4", "a=%zz"] {
            assert_eq!(pairs(bad), None, "{bad}");
        }
    }

    #[test]
    fn segments_keep_only_unreserved_characters() {
        assert_eq!(encoded("h1.lab-2_x~"), "h1.lab-2_x~");
        assert_eq!(encoded("a/b?c%d e#é"), "a%2Fb%3Fc%25d%20e%23%C3%A9");
    }

    #[test]
    fn numbers_are_digits() {
        let number = |text: &str| Query::of(&format!("n={text}")).unwrap().number::<u64>("n");
        assert_eq!(number("18446744073709551615").unwrap(), Some(u64::MAX));
        for bad in ["", "-1", "%2B1", "1.0", "1e3", "18446744073709551616", "%201", "٧"] {
            assert_eq!(number(bad).unwrap_err().status, 400, "{bad}");
        }
        assert_eq!(Query::default().number::<u64>("n").unwrap(), None);
    }
}
