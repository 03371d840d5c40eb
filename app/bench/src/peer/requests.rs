//! `requests SECONDS`: a client and a server over one connection of 127.0.0.1, in one process; prints requests per
//! second. A request and its answer have 64 bytes each.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Bytes of a request, and of an answer.
const SIZE: usize = 64;

pub(super) fn requests(time: Duration) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen on 127.0.0.1")?;
    let address = listener.local_addr().context("read own address")?;
    let server = std::thread::spawn(move || -> Result<()> {
        let (stream, _) = listener.accept().context("accept")?;
        serve(stream)
    });
    let mut stream = TcpStream::connect(address).context("connect to 127.0.0.1")?;
    stream.set_nodelay(true).context("set not to wait")?;
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        stream.write_all(&[0x5a; SIZE]).context("ask")?;
        stream.read_exact(&mut [0; SIZE]).context("read the answer")?;
        count += 1;
    }
    let rate = f64::from(count) / start.elapsed().as_secs_f64();
    drop(stream);
    server.join().map_err(|_| anyhow::anyhow!("the server panicked"))??;
    Ok(rate)
}

/// Answers until the other side ends.
fn serve(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true).context("set not to wait")?;
    let mut request = [0; SIZE];
    while stream.read_exact(&mut request).is_ok() {
        stream.write_all(&request).context("answer")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered() {
        assert!(requests(Duration::from_millis(20)).unwrap() > 0.0);
    }
}
