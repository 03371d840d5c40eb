//! What request handlers share: the lab that they query, and how long they wait for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use netloom_lab::Service;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::calls::{Calls, Kind, Looks};
use crate::connections::Held;
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
    held: Held,
}

pub(crate) type Answer<T> = Result<Json<T>, Rejection>;

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

    async fn run<T: Send + 'static, E: Into<Rejection>>(
        &self,
        kind: Kind,
        work: impl FnOnce(&dyn Service) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Rejection> {
        let service = Arc::clone(&self.service);
        self.calls.run(kind, &self.held, move || work(&*service).map_err(Into::into)).await
    }

    /// Runs a call that may block without limit.
    pub(crate) async fn call<T: Send + 'static, E: Into<Rejection>>(
        &self,
        work: impl FnOnce(&dyn Service) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Rejection> {
        self.run(Kind::Long, work).await
    }

    /// Runs the call that takes the lab down.
    pub(crate) async fn last_call<T: Send + 'static, E: Into<Rejection>>(
        &self,
        work: impl FnOnce(&dyn Service) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Rejection> {
        self.run(Kind::Last, work).await
    }

    /// Runs a quick call.
    pub(crate) async fn quick<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> netloom_lab::Result<T> + Send + 'static,
    ) -> Result<T, Rejection> {
        timeout(self.patience, self.run(Kind::Quick, work)).await.unwrap_or_else(|_| {
            Err(Rejection::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("lab: no answer within {} s", self.patience.as_secs()),
            ))
        })
    }

    /// Looks until there is something, the time is over, or the request has to end; `look` is told whether it is the last
    /// one.
    pub(crate) async fn wait_for<T: Send + 'static, L>(
        &self,
        end: Instant,
        mut look: impl FnMut() -> L,
    ) -> Result<Option<T>, Rejection>
    where
        L: FnOnce(&dyn Service, bool) -> netloom_lab::Result<Option<T>> + Send + 'static,
    {
        let mut looks = Looks::new(end, &self.held, &self.stopping);
        loop {
            let (look, last) = (look(), looks.are_over());
            let found = self.run(Kind::Look, move |service| look(service, last)).await?;
            if found.is_some() || last {
                return Ok(found);
            }
            looks.pause().await;
        }
    }
}
