//! `vhost-port from|to BYTES SECONDS`: frames through the port of a virtual machine's card, with a front end and driver
//! in a thread of this process, without a guest; prints `{"frames_per_s"}`.
//!
//! The driver uses its buffers again as soon as they come back, as they are: neither side makes or reads frames. Each
//! thread has a core. Everything is offered and accepted; both sides poll.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_port::{HEADER, MOST_FRAME, Port, Received, Sent};
use netloom_vhost::front::{Machine, Setup};
use netloom_vhost::{Options, VhostPort};
use serde::Serialize;

/// Frames after which the guest is shown what there is, as a plug does.
const BURST: u32 = 64;
/// Longest wait for the card's set-up.
const PATIENCE: Duration = Duration::from_secs(10);
/// The queues to the guest and from it.
const TO_GUEST: usize = 0;
const FROM_GUEST: usize = 1;

/// Result of `vhost-port`.
#[derive(Debug, Serialize)]
pub(super) struct Rate {
    frames_per_s: f64,
}

pub(super) fn port(way: &str, bytes: usize, time: Duration) -> Result<Rate> {
    let to_guest = match way {
        "to" => true,
        "from" => false,
        _ => bail!("peer vhost-port: `{way}`: neither to nor from"),
    };
    let folder = tempfile::tempdir().context("make a folder for the socket")?;
    let path = folder.path().join("card");
    let mut port = VhostPort::open(Options::new(&path))?;
    let mut machine = Machine::new(Setup::default()).context("make a guest's memory")?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| -> Result<()> {
            super::pin(None, 1)?;
            let _link = machine.connect(&path).context("connect")?;
            drive(&mut machine, to_guest, bytes, &over);
            Ok(())
        });
        let measured = measure(&mut port, to_guest, bytes, time);
        over.store(true, Ordering::Relaxed);
        match driver.join() {
            Ok(driven) => driven.and(measured),
            Err(_) => bail!("the driver panicked"),
        }
    })
}

/// The driver: gives all its buffers, and each again.
fn drive(machine: &mut Machine, to_guest: bool, bytes: usize, over: &AtomicBool) {
    let index = if to_guest { TO_GUEST } else { FROM_GUEST };
    if to_guest {
        machine.fill(index);
    } else {
        let frame = [&vec![0; machine.header()][..], &frame(bytes)].concat();
        for descriptor in 0..Setup::default().size {
            machine.transmit(index, descriptor, &frame);
        }
    }
    while !over.load(Ordering::Relaxed) {
        if machine.recycle(index) == 0 {
            std::hint::spin_loop();
        }
    }
}

fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.resize(bytes, 0);
    frame
}

fn measure(port: &mut VhostPort, to_guest: bool, bytes: usize, time: Duration) -> Result<Rate> {
    super::pin(None, 0)?;
    let mut buffer = vec![0; MOST_FRAME];
    let until = Instant::now() + PATIENCE;
    while !port.is_up() {
        if Instant::now() > until {
            bail!("the card was not set up");
        }
        port.rest();
        port.receive(&mut buffer)?;
    }
    let whole = [&[0; HEADER][..], &frame(bytes)].concat();
    let (start, mut frames) = (Instant::now(), 0_u64);
    loop {
        frames += match to_guest {
            true => give(port, &whole, &mut buffer)?,
            false => take(port, &mut buffer, HEADER + bytes)?,
        };
        let took = start.elapsed();
        if took >= time {
            #[expect(clippy::cast_precision_loss, reason = "a count below 2^53")]
            return Ok(Rate { frames_per_s: frames as f64 / took.as_secs_f64() });
        }
    }
}

fn give(port: &mut VhostPort, frame: &[u8], buffer: &mut [u8]) -> Result<u64> {
    // A port does everything else when it is asked for frames.
    port.receive(buffer)?;
    let mut given = 0;
    for _ in 0..BURST {
        match port.queue(frame)? {
            Sent::Done => given += 1,
            Sent::Full | Sent::Down => break,
            other => bail!("a frame was not taken: {other:?}"),
        }
    }
    port.flush()?;
    Ok(given)
}

fn take(port: &mut VhostPort, buffer: &mut [u8], whole: usize) -> Result<u64> {
    let mut taken = 0;
    for _ in 0..BURST {
        match port.receive(buffer)? {
            Received::Frame { length, .. } if length == whole => taken += 1,
            Received::Empty => break,
            other => bail!("no frame of {whole} bytes: {other:?}"),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_pass_both_ways() {
        for way in ["to", "from"] {
            let rate = port(way, 1500, Duration::from_millis(50)).unwrap();
            assert!(rate.frames_per_s > 100.0, "{way}: {rate:?}");
        }
        assert!(port("into", 60, Duration::ZERO).is_err());
    }
}
