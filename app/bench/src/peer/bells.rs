//! `bells SECONDS`: two threads wake each other by eventfds and sleep in poll(2) in between: the minimum cost
//! of sleeping on this machine. Prints `{"count", "p50_us", "p99_us"}`. `bells-apart SECONDS`: a core for
//! each thread.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_stats::percentile;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use serde::Serialize;

use super::clock::now;

/// Round-trip times.
#[derive(Debug, Serialize)]
pub(super) struct Times {
    count: usize,
    p50_us: f64,
    p99_us: f64,
}

pub(super) fn ping(time: Duration, is_apart: bool) -> Result<Times> {
    let bell = || eventfd(0, EventfdFlags::CLOEXEC).context("make an eventfd");
    let (there, back) = (bell()?, bell()?);
    let (heard, answer) = (there.try_clone()?, back.try_clone()?);
    let answering = std::thread::spawn(move || -> Result<()> {
        if is_apart {
            super::pin(None, 1)?;
        }
        while hear(&heard)? == 1 {
            ring(&answer, 1)?;
        }
        Ok(())
    });
    if is_apart {
        super::pin(None, 0)?;
    }
    let (start, mut times) = (Instant::now(), vec![]);
    while start.elapsed() < time {
        let asked = now();
        ring(&there, 1)?;
        hear(&back)?;
        #[expect(clippy::cast_precision_loss, reason = "seconds in ns are below 2^53")]
        times.push((now() - asked) as f64 / 1e3);
    }
    ring(&there, 2)?;
    match answering.join() {
        Ok(ended) => ended?,
        Err(_) => bail!("the other thread panicked"),
    }
    let (p50_us, p99_us) = (percentile(&times, 50.0)?, percentile(&times, 99.0)?);
    Ok(Times { count: times.len(), p50_us, p99_us })
}

fn ring(bell: &OwnedFd, number: u64) -> Result<()> {
    rustix::io::write(bell, &number.to_ne_bytes()).context("ring")?;
    Ok(())
}

fn hear(bell: &OwnedFd) -> Result<u64> {
    poll(&mut [PollFd::new(&bell.as_fd(), PollFlags::IN)], None).context("poll")?;
    let mut number = [0; 8];
    rustix::io::read(bell, &mut number).context("hear")?;
    Ok(u64::from_ne_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_wake_each_other() {
        for is_apart in [false, true] {
            let times = ping(Duration::from_millis(20), is_apart).unwrap();
            assert!(times.count > 0 && times.p50_us > 0.0, "{times:?}");
            assert!(times.p50_us <= times.p99_us, "{times:?}");
        }
    }
}
