//! Both sockets of a lab and the two threads that serve them; a probe's port and its thread.
//!
//! [`serve`] binds and returns; the sockets answer from then on. Everything that can fail happens before a
//! thread starts.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use netloom_lab::Service;
use netloom_measure::Probe;
use netloom_sys::Failure;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::SocketType;
use tokio::sync::watch;

use crate::handles::{Handles, PATIENCE};
use crate::offer::Offer;
use crate::rest::Rest;
use crate::socket::{self, Bound};
use crate::{API_SOCKET, Gate, HANDLES_SOCKET, Result};

/// A lab or a probe being served. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    sockets: Vec<Bound>,
    stop_rest: watch::Sender<bool>,
    stop_handles: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

/// Serves a lab on the two sockets in its folder, which should have mode 0700, until [`Server::stop`].
///
/// Starts the threads `netloom-api` and `netloom-entries`, and threads called `netloom-call` while calls run.
/// They inherit the signal mask of the calling thread.
///
/// # Errors
/// [`crate::Error::Busy`] when another process serves the folder; errors of the system, as for a path of more than
/// 107 bytes. Nothing is left behind then.
pub fn serve(folder: &Path, service: Arc<dyn Service>) -> Result<Server> {
    on_sockets(folder, service, |rest| rest, PATIENCE)
}

fn on_sockets(
    folder: &Path,
    service: Arc<dyn Service>,
    with: impl FnOnce(Rest) -> Rest,
    patience: std::time::Duration,
) -> Result<Server> {
    let (stop_rest, stopping) = watch::channel(false);
    let stop_handles = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(Failure::of("stop signal", "make"))?;
    // From here on, an early return drops the server, which removes what has been created.
    let mut server = Server {
        sockets: vec![],
        stop_rest,
        stop_handles: Arc::new(stop_handles),
        threads: vec![],
    };

    let path = folder.join(API_SOCKET);
    let (listener, bound) = socket::listen(&path, SocketType::STREAM)?;
    server.sockets.push(bound);
    let rest = with(Rest::new(listener, path, Arc::clone(&service), stopping)?);

    let path = folder.join(HANDLES_SOCKET);
    let (listener, bound) = socket::listen(&path, SocketType::SEQPACKET)?;
    server.sockets.push(bound);
    let stop = Arc::clone(&server.stop_handles);
    let handles = Handles { listener, path, service, stop, patience };

    server.start("netloom-api", move || rest.run())?;
    server.start("netloom-entries", move || handles.run())?;
    Ok(server)
}

/// Serves a probe's measurements on a port to callers that the gate admits, until [`Server::stop`].
///
/// Starts the thread `netloom-api`, and others as [`serve`] does. Anyone who can reach the port can hold a
/// connection for ten seconds, unless somebody else needs it.
///
/// # Errors
/// Errors of the system.
pub fn serve_probe(listener: TcpListener, probe: Arc<Probe>, gate: Gate) -> Result<Server> {
    on_port(|stopping| Rest::probe(listener, probe, gate, stopping))
}

/// Serves the running lab in `folder` on a port, as [`serve_probe`] does, with the answers of its socket.
///
/// # Errors
/// Errors of the system.
pub fn serve_lab(listener: TcpListener, folder: &Path, gate: Gate, offer: Offer) -> Result<Server> {
    let socket = folder.join(API_SOCKET);
    on_port(|stopping| Rest::lab(listener, socket, gate, offer, stopping))
}

fn on_port(make: impl FnOnce(watch::Receiver<bool>) -> Result<Rest>) -> Result<Server> {
    let (stop_rest, stopping) = watch::channel(false);
    let stop_handles = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(Failure::of("stop signal", "make"))?;
    let rest = make(stopping)?;
    let mut server = Server {
        sockets: vec![],
        stop_rest,
        stop_handles: Arc::new(stop_handles),
        threads: vec![],
    };
    server.start("netloom-api", move || rest.run())?;
    Ok(server)
}

impl Server {
    /// Removes the sockets and ends both threads. Requests in progress get up to 2 s, so that the answer to
    /// the one that took the lab down still goes out; a slower call to the service leaves its thread behind.
    /// The service must never call this.
    pub fn stop(self) {
        drop(self);
    }

    fn start(&mut self, name: &'static str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)
            .map_err(Failure::of(name, "start thread"))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Before the threads end: a new process of the lab must be able to bind at once.
        for socket in &self.sockets {
            socket.remove();
        }
        // No receiver: the thread has ended already.
        let _ = self.stop_rest.send(true);
        if let Err(e) = rustix::io::write(&*self.stop_handles, &1u64.to_ne_bytes()) {
            tracing::warn!("stop signal: {e}");
        }
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::warn!("thread {name:?} ended in a panic");
            }
        }
    }
}

/// [`serve`], and [`serve_probe`], with [`Rest::patient`].
#[cfg(test)]
pub(crate) mod patient {
    use super::*;

    pub(crate) fn serve(folder: &Path, service: Arc<dyn Service>) -> Result<Server> {
        on_sockets(folder, service, Rest::patient, std::time::Duration::from_secs(3600))
    }

    pub(crate) fn serve_probe(
        listener: TcpListener,
        probe: Arc<Probe>,
        gate: Gate,
    ) -> Result<Server> {
        on_port(|stopping| Ok(Rest::probe(listener, probe, gate, stopping)?.patient()))
    }
}
