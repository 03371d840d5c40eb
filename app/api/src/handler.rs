//! What request handlers share: the lab that they query, and how long they wait for it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use netloom_lab::Service;
use netloom_lab::call::Call;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::calls::{Calls, Kind, Looks};
use crate::connections::Held;
use crate::parameters::encoded;
use crate::reply::Rejection;

/// The lab, as it is asked on a connection.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) service: Arc<dyn Service>,
    /// Becomes true when the server ends.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) calls: Arc<Calls>,
    /// Limit on a quick call.
    patience: Duration,
    /// The connection of the request.
    pub(crate) held: Held,
}

/// An answer as JSON. It is encoded by the call that found it: that of a large lab takes time, and the thread of the
/// connections has others to serve.
pub(crate) struct Encoded<T> {
    bytes: Bytes,
    /// Where the object is that was made.
    made: Option<String>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> Encoded<T> {
    pub(crate) fn of(value: &T) -> Result<Encoded<T>, Rejection> {
        // Plain data has no key that JSON lacks.
        let bytes = netloom_form::to_vec(value).map_err(|_| Rejection::panicked())?;
        Ok(Encoded { bytes: bytes.into(), made: None, of: PhantomData })
    }

    /// The answer to a call.
    pub(crate) fn of_call<C: Call<Answer = T>>(value: &T) -> Result<Encoded<T>, Rejection> {
        let made = C::made(value).map(|name| format!("{}/{}", C::OPERATION.path, encoded(name)));
        Ok(Encoded { made, ..Encoded::of(value)? })
    }
}

impl<T> IntoResponse for Encoded<T> {
    fn into_response(self) -> Response {
        let json = [(header::CONTENT_TYPE, "application/json")];
        match self.made {
            Some(place) => {
                (StatusCode::CREATED, [(header::LOCATION, place)], json, self.bytes).into_response()
            }
            None => (json, self.bytes).into_response(),
        }
    }
}

pub(crate) type Answer<T> = Result<Encoded<T>, Rejection>;

impl FromRequestParts<Lab> for Lab {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, lab: &Lab) -> Result<Lab, Self::Rejection> {
        let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
        Ok(Lab { held, ..lab.clone() })
    }
}

impl Lab {
    pub(crate) fn new(
        service: Arc<dyn Service>,
        stopping: watch::Receiver<bool>,
        patience: Duration,
    ) -> Lab {
        Lab { service, stopping, calls: Arc::default(), patience, held: Held::default() }
    }

    async fn run<T: 'static>(
        &self,
        kind: Kind,
        work: impl FnOnce(&dyn Service) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let service = Arc::clone(&self.service);
        self.calls.run(kind, &self.held, move || work(&*service)).await
    }

    /// Runs a call that may block without limit.
    pub(crate) async fn call<T: 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        self.run(Kind::Long, work).await
    }

    /// Runs the call that takes the lab down.
    pub(crate) async fn last_call<T: 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        self.run(Kind::Last, work).await
    }

    /// Runs a quick call.
    pub(crate) async fn quick<T: 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        timeout(self.patience, self.run(Kind::Quick, work))
            .await
            .unwrap_or_else(|_| Err(self.late()))
    }

    /// Runs a quick call whose answer is text.
    pub(crate) async fn quick_text(
        &self,
        work: impl FnOnce(&dyn Service) -> Result<String, Rejection> + Send + 'static,
    ) -> Result<String, Rejection> {
        let service = Arc::clone(&self.service);
        let run = self.calls.run(Kind::Quick, &self.held, move || work(&*service));
        timeout(self.patience, run).await.unwrap_or_else(|_| Err(self.late()))
    }

    fn late(&self) -> Rejection {
        let words = format!("lab: no answer within {} s", self.patience.as_secs());
        Rejection::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// Looks until there is something, the time is over, or the request has to end; `look` is told whether it is the last
    /// one, which finds something in any case.
    pub(crate) async fn wait_for<T: Send + 'static, L>(
        &self,
        end: Instant,
        mut look: impl FnMut() -> L,
    ) -> Result<T, Rejection>
    where
        L: FnOnce(&dyn Service, bool) -> Result<Option<T>, Rejection> + Send + 'static,
    {
        let mut looks = Looks::new(end, &self.held, &self.stopping);
        loop {
            let (look, last) = (look(), looks.are_over());
            let service = Arc::clone(&self.service);
            let found = move || look(&*service, last);
            if let Some(found) = self.calls.run(Kind::Look, &self.held, found).await? {
                return Ok(found);
            }
            looks.pause().await;
        }
    }
}
