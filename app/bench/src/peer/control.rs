//! `flow-control PORT SECONDS ENTRY...`: an OpenFlow controller with static flow entries. It takes one switch at a time at that
//! port, replaces all its entries by these, and answers it, until standard input ends; prints `ready` when the first one obeys,
//! and `{"switches"}`, how many there were. Packets that the switch sends it are let go.
//! `relay PORT ADDRESS SECONDS`: hands connections to 127.0.0.1:PORT on to an address; prints `{"carried"}`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_openflow::flow::FlowCommand;
use serde::Serialize;

use super::openflow::Client;
use super::ready;
use super::stop::Stop;

/// How often a waiting program looks whether it is to end.
const LOOK: Duration = Duration::from_millis(10);
/// A switch that is asked has to answer within this time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Result of `flow-control`.
#[derive(Debug, Serialize)]
pub(super) struct Controlled {
    switches: u64,
}

/// Result of `relay`.
#[derive(Debug, Serialize)]
pub(super) struct Relayed {
    carried: u64,
}

pub(super) fn control(port: u16, most: Duration, entries: &[&str]) -> Result<Controlled> {
    let listener = listen(Ipv4Addr::UNSPECIFIED, port)?;
    let (stop, mut switches) = (Stop::new(most), 0);
    while let Some(stream) = next(&listener, &stop)? {
        stream.set_nodelay(true).context("send at once")?;
        stream.set_write_timeout(Some(PATIENCE)).context("set a send timeout")?;
        let Ok(mut client) = Client::over(stream) else { continue };
        client.change(FlowCommand::Delete, "")?;
        for entry in entries {
            client.change(FlowCommand::Add, entry)?;
        }
        client.barrier()?;
        if switches == 0 {
            ready();
        }
        switches += 1;
        // An error is the end of this connection.
        while !stop.over() && client.attend(LOOK).is_ok() {}
    }
    Ok(Controlled { switches })
}

pub(super) fn relay(port: u16, to: SocketAddr, most: Duration) -> Result<Relayed> {
    let listener = listen(Ipv4Addr::LOCALHOST, port)?;
    let (stop, mut carried) = (Stop::new(most), 0);
    ready();
    while let Some(near) = next(&listener, &stop)? {
        // The switch retries a controller that is not there yet.
        let Ok(far) = TcpStream::connect_timeout(&to, PATIENCE) else { continue };
        let ends = [(near.try_clone()?, far.try_clone()?), (far, near)];
        for (from, to) in ends {
            from.set_nodelay(true).context("send at once")?;
            std::thread::spawn(move || pass(from, to));
        }
        carried += 1;
    }
    Ok(Relayed { carried })
}

/// Passes bytes on until there are no more.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may have closed it.
    let _ = to.shutdown(Shutdown::Write);
}

fn listen(at: Ipv4Addr, port: u16) -> Result<TcpListener> {
    let listener =
        TcpListener::bind((at, port)).with_context(|| format!("listen at {at}:{port}"))?;
    listener.set_nonblocking(true).context("set not to wait")?;
    Ok(listener)
}

/// The next connection; `None` when it is time to end.
fn next(listener: &TcpListener, stop: &Stop) -> Result<Option<TcpStream>> {
    while !stop.over() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).context("set to wait")?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK),
            Err(error) => return Err(error).context("accept"),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_carries_both_ways() {
        let far = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (to, at) = (far.local_addr().unwrap(), own.local_addr().unwrap());
        let mut client = TcpStream::connect(at).unwrap();
        let (near, _) = own.accept().unwrap();
        let beyond = TcpStream::connect(to).unwrap();
        let (mut server, _) = far.accept().unwrap();
        let ends = [(near.try_clone().unwrap(), beyond.try_clone().unwrap()), (beyond, near)];
        let threads = ends.map(|(from, to)| std::thread::spawn(move || pass(from, to)));
        client.write_all(b"there").unwrap();
        let mut buffer = [0; 5];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"there");
        server.write_all(b"back.").unwrap();
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"back.");
        drop((client, server));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
