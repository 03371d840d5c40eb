//! TCP: each connection to the port of the host becomes one in the node, and bytes are passed on both ways.
//!
//! A thread a direction: the kernel moves the bytes between the sockets (splice(2), by [`std::io::copy`]). An end of one
//! direction is passed on and leaves the other open. A connection that finds no program is closed at once, as a port without a
//! listener would.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections of a port at a time; more wait in the listener's queue.
const MOST: usize = 512;

/// Time limit for a program to accept: only a program that does not take what waits for it makes this matter.
const PATIENCE: Duration = Duration::from_secs(10);

/// The stack of a thread, which only copies.
const STACK: usize = 64 << 10;

/// The pause when the system has no descriptor or thread to give.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes connections for ever.
pub(crate) fn take(listener: &TcpListener, places: &[SocketAddr]) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        if open.load(Ordering::Relaxed) >= MOST {
            thread::sleep(PAUSE);
            continue;
        }
        let Ok((outer, _)) = listener.accept() else {
            // The peer may have gone, or descriptors are used up: neither is for ever.
            thread::sleep(PAUSE);
            continue;
        };
        let (places, counted) = (places.to_vec(), Counted::new(&open));
        let carry = move || {
            let _counted = counted;
            carry(outer, &places)
        };
        // Without a thread the connection is closed.
        let _ = spawn(carry);
    }
}

fn spawn<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name("netloom-port".into()).stack_size(STACK).spawn(work)
}

/// One of the open connections.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Counted {
        open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes a connection on until both directions have ended.
fn carry(outer: TcpStream, places: &[SocketAddr]) {
    let Some(inner) = places.iter().find_map(|to| TcpStream::connect_timeout(to, PATIENCE).ok())
    else {
        return reset(&outer);
    };
    let _ = (outer.set_nodelay(true), inner.set_nodelay(true));
    let (Ok(outer_too), Ok(inner_too)) = (outer.try_clone(), inner.try_clone()) else {
        return reset(&outer);
    };
    let Ok(back) = spawn(move || pass(&inner_too, &outer_too)) else { return reset(&outer) };
    pass(&outer, &inner);
    let _ = back.join();
}

/// Passes one direction on, and its end.
fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let copied = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    if copied.is_err() {
        // One of both is broken: the other direction would wait for ever.
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}

/// Closes a connection as broken, so that a peer does not take it for an empty answer.
fn reset(outer: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(outer, Some(Duration::ZERO));
}
