//! The routes: one for each of [`netloom_lab::calls`], and that of the document.
//!
//! The router and the document come from the same calls, so they have the same routes. A handler reads its call's values,
//! asks the service once, on a thread that may block, and answers JSON.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRef;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use netloom_lab::call::{Answers, Call, Each, Parameter, Read, Takes};
use netloom_lab::{Service, calls};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use utoipa::openapi::HttpMethod;
use utoipa_axum::router::OpenApiRouter;

use crate::bodies::Whole;
use crate::document::{self, empty_document};
use crate::documented::{self, Schemas, routes};
use crate::handler::{Answer, Encoded, Lab};
use crate::parameters::{Names, Query};
use crate::pnpm::{self, Pnpm};
use crate::reply::{Problem, Rejection};
use crate::streaming;

/// All routes with their documentation.
pub(crate) fn router(schemas: Schemas) -> OpenApiRouter<Lab> {
    let router = OpenApiRouter::with_openapi(empty_document());
    let mut all = Routes { router, schemas };
    calls::each(&mut all);
    let router = all.router.routes(routes!(schemas; show_document));
    router.routes(routes!(schemas; show_metrics)).merge(pnpm::router(schemas))
}

impl FromRef<Lab> for Pnpm {
    fn from_ref(lab: &Lab) -> Pnpm {
        let service = Arc::clone(&lab.service);
        let find = Arc::new(move || service.probe().map_err(Rejection::from));
        Pnpm::new(find, lab.stopping.clone(), Arc::clone(&lab.calls))
    }
}

/// The OpenAPI 3.1 document of the API as indented JSON, with a final newline.
pub fn openapi() -> String {
    document::text(router(Schemas::Told).get_openapi())
}

/// The routes up to here.
struct Routes {
    router: OpenApiRouter<Lab>,
    schemas: Schemas,
}

impl Each for Routes {
    fn call<C: Call>(&mut self)
    where
        dyn Service: Answers<C>,
    {
        let (filter, method) = match C::OPERATION.method {
            "POST" => (MethodFilter::POST, HttpMethod::Post),
            "PUT" => (MethodFilter::PUT, HttpMethod::Put),
            "PATCH" => (MethodFilter::PATCH, HttpMethod::Patch),
            "DELETE" => (MethodFilter::DELETE, HttpMethod::Delete),
            _ => (MethodFilter::GET, HttpMethod::Get),
        };
        let route = documented::of_call::<C>(method, self.schemas);
        let handler = MethodRouter::new().on(filter, answer::<C>);
        let router = std::mem::take(&mut self.router);
        self.router = router.routes((route.1, route.0, handler));
    }
}

/// The values of a request.
struct Given {
    names: Names,
    query: Query,
    body: Whole,
    /// Whether the body was asked for.
    takes_body: Cell<bool>,
}

impl Given {
    /// The call; a body that it does not take is refused: who sends one expects something else to be done.
    fn call<C: Call>(&self) -> Result<C, Rejection> {
        let call = C::read(self)?;
        match self.takes_body.get() || self.body.bytes().is_empty() {
            true => Ok(call),
            false => Err(Rejection::no_body(C::OPERATION.method, C::OPERATION.path)),
        }
    }
}

impl Read for Given {
    type Error = Rejection;

    fn path<T: Parameter>(&self, name: &str) -> Result<T, Rejection> {
        T::read(self.names.text(name)).map_err(|why| Rejection::parameter(name, &why))
    }

    fn query<T: Parameter>(&self, name: &str) -> Result<T, Rejection> {
        T::read(self.query.text(name)).map_err(|why| Rejection::parameter(name, &why))
    }

    fn body<T: DeserializeOwned>(&self, _: &str) -> Result<T, Rejection> {
        self.takes_body.set(true);
        self.body.read()
    }
}

/// Answers a call.
async fn answer<C: Call>(
    lab: Lab,
    names: Names,
    query: Query,
    headers: HeaderMap,
    body: Whole,
) -> Result<Response, Rejection>
where
    dyn Service: Answers<C>,
{
    let given = Given { names, query, body, takes_body: Cell::new(false) };
    if given.body.is_large() {
        // It is read where nobody else waits for it.
        let answer = lab.call(move |s| asked::<C>(s, given.call()?)).await;
        return answer.map(IntoResponse::into_response);
    }
    let call: C = given.call()?;
    if C::STREAMS && streaming::is_wanted(&headers) {
        return Ok(streaming::answer(lab, call, &headers));
    }
    let answer = match (call.waits(), C::OPERATION.takes) {
        (Some(wait), _) => waited(lab, call, wait).await,
        (None, Takes::Moments) => lab.quick(move |s| asked(s, call)).await,
        (None, Takes::Asking | Takes::Long) => lab.call(move |s| asked(s, call)).await,
        (None, Takes::Last) => lab.last_call(move |s| asked(s, call)).await,
    };
    answer.map(IntoResponse::into_response)
}

fn asked<C: Call>(service: &dyn Service, call: C) -> Answer<C::Answer>
where
    dyn Service: Answers<C>,
{
    Encoded::of_call::<C>(&service.answer(call)?)
}

/// Answers a call when there is something, or the time is over.
async fn waited<C: Call>(lab: Lab, call: C, wait: Duration) -> Answer<C::Answer>
where
    dyn Service: Answers<C>,
{
    // What has not changed is not read again.
    let seen = Arc::new(Mutex::new(None));
    lab.wait_for(Instant::now() + wait, || {
        let (call, seen) = (call.clone(), Arc::clone(&seen));
        move |s: &dyn Service, last| {
            let mark = call.mark(s)?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if !last && mark.is_some() && *seen == mark {
                return Ok(None);
            }
            *seen = mark;
            let found = s.answer(call)?;
            (last || C::has(&found)).then(|| Encoded::of(&found)).transpose()
        }
    })
    .await
}

/// Get this document
#[utoipa::path(get, path = "/v1/openapi.json", tag = "document", responses(
    (status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"),
))]
async fn show_document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], openapi())
}

/// Tell the lab's counters to Prometheus
///
/// In Prometheus's text format. The lab is read at most once a second, for all callers together.
#[utoipa::path(get, path = "/metrics", tag = "lab", responses(
    (status = 200, description = "The lab as series", body = String, content_type = "text/plain"),
    (status = "default", description = "Not told", body = Problem),
), extensions(("x-rights" = json!("reads"))))]
async fn show_metrics(lab: Lab) -> Result<Response, Rejection> {
    let text = lab.quick_text(|service| Ok(service.metrics()?)).await?;
    let kind = HeaderValue::from_static(netloom_lab::metrics::CONTENT_TYPE);
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// For unknown paths.
pub(crate) async fn no_route(uri: Uri) -> Rejection {
    Rejection::no_route(
        StatusCode::NOT_FOUND,
        format!("{:?}: no such route; GET /v1/openapi.json lists them", uri.path()),
    )
}

/// For methods that a route does not support.
pub(crate) async fn no_method(uri: Uri) -> Rejection {
    Rejection::no_route(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{:?}: does not have this method", uri.path()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_the_documented_routes_and_parameters() {
        let (told, left_out) = (router(Schemas::Told), router(Schemas::LeftOut));
        assert!(told.get_openapi().paths == left_out.get_openapi().paths);
        let schemas = |of: &OpenApiRouter<Lab>| {
            of.get_openapi().components.as_ref().map_or(0, |all| all.schemas.len())
        };
        assert!(schemas(&told) > 50 && schemas(&left_out) == 0);
    }
}
