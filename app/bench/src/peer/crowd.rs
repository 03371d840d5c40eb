//! `crowd COUNT`: starts that many processes, each of which connects to this one and stays; prints the seconds until
//! all have, as `{"seconds"}`. `member ADDRESS` is one of them.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// How long all together may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it took.
#[derive(Debug, Serialize)]
pub(super) struct Took {
    seconds: f64,
}

/// Processes that are ended with their value.
struct Crowd(Vec<Child>);

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(super) fn crowd(count: usize) -> Result<Took> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on 127.0.0.1")?;
    let address = listener.local_addr().context("read own address")?.to_string();
    let start = Instant::now();
    let accepting = std::thread::spawn(move || accept(&listener, count));
    let mut members = Crowd(Vec::with_capacity(count));
    let exe = std::env::current_exe().context("find own path")?;
    for _ in 0..count {
        let mut command = Command::new(&exe);
        command.args(["peer", "member", &address]).stdin(Stdio::null()).stdout(Stdio::null());
        members.0.push(command.spawn().context("start a process")?);
    }
    let joined = accepting.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    let seconds = start.elapsed().as_secs_f64();
    drop(joined);
    Ok(Took { seconds })
}

fn accept(listener: &TcpListener, count: usize) -> Result<Vec<TcpStream>> {
    listener.set_nonblocking(true).context("set not to wait")?;
    let (mut joined, end) = (vec![], Instant::now() + PATIENCE);
    while joined.len() < count {
        match listener.accept() {
            Ok((stream, _)) => joined.push(stream),
            Err(error) if super::idle(error.kind()) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error).context("accept"),
        }
        if Instant::now() > end {
            bail!("{} of {count} processes have connected within {PATIENCE:?}", joined.len());
        }
    }
    Ok(joined)
}

/// Connects, and stays until the other side ends.
pub(super) fn member(address: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(address).context("connect")?;
    stream.read_to_end(&mut vec![]).context("wait for the end")?;
    Ok(())
}
