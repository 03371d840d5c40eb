//! State shared by request handlers: the lab they query, and how long they wait for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use netloom_lab::Service;
use netloom_node::log::Record;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::reply::Rejection;

/// A long wait is cut into slices of this length, so that no thread keeps waiting after the caller has gone
/// or the server has ended.
pub(crate) const WAIT_SLICE: Duration = Duration::from_millis(200);

/// State shared by handlers.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) service: Arc<dyn Service>,
    /// Becomes true when the server ends.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Limit on a quick call.
    pub(crate) patience: Duration,
}

pub(crate) type Answer<T> = Result<Json<T>, Rejection>;

impl Lab {
    /// Runs a call that may block without limit.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> netloom_lab::Result<T> + Send + 'static,
    ) -> Result<T, Rejection> {
        let service = Arc::clone(&self.service);
        match tokio::task::spawn_blocking(move || work(&*service)).await {
            Ok(result) => result.map_err(Rejection::from),
            Err(_) => Err(Rejection::panicked()),
        }
    }

    /// Runs a quick call.
    pub(crate) async fn quick<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Service) -> netloom_lab::Result<T> + Send + 'static,
    ) -> Result<T, Rejection> {
        timeout(self.patience, self.call(work)).await.unwrap_or_else(|_| {
            Err(Rejection::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("lab: no answer within {} s", self.patience.as_secs()),
            ))
        })
    }

    /// Waits for records of a node until `end`, in slices.
    pub(crate) async fn log(
        &self,
        node: &str,
        after_ns: u64,
        end: Instant,
    ) -> Result<Vec<Record>, Rejection> {
        loop {
            let slice_end = end.min(Instant::now() + WAIT_SLICE);
            let wait = slice_end.saturating_duration_since(Instant::now());
            let name = node.to_owned();
            let records = self.call(move |s| s.log(&name, after_ns, wait)).await?;
            if !records.is_empty() || Instant::now() >= end {
                return Ok(records);
            }
            // A service may give up early, e.g. where there are no programs.
            sleep_until(slice_end).await;
        }
    }
}
