//! `port-edges SWITCH COUNT`: joins with COUNT + 1 ports, sends from the first to each of the others until
//! every ring has been used in full, and prints `{"kib_per_edge", "kib_joined"}`: this process's share of the
//! switch's memories per additional edge, and for a port without edges.
//!
//! It counts proportional sizes (Pss) of mapped memfds, so that memory mapped by both ends counts once.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_shm::{HEADER, MOST_FRAME, Received, Sent, SwitchPort};
use serde::Serialize;

use super::line::join;

/// Bytes sent over each edge: more than any ring holds by default.
const AMOUNT: usize = 4 << 20;
/// Frame size in bytes, Ethernet header included.
const FRAME: usize = 9000;
/// Longest wait for a frame.
const PATIENCE: Duration = Duration::from_secs(10);

/// Result of `port-edges`.
#[derive(Debug, Serialize)]
pub(super) struct Weight {
    kib_per_edge: f64,
    kib_joined: f64,
}

pub(super) fn weigh(switch: &str, count: u8) -> Result<Weight> {
    let nothing = shared_kib()?;
    let mut sender = join(switch, "bench-edges")?;
    let mut others = (0..count)
        .map(|number| join(switch, &format!("bench-edges-{number}")))
        .collect::<Result<Vec<_>>>()?;
    // A broadcast by each port shows the sender where it is, and makes every port use the common memory.
    for (number, other) in (0..count).zip(&mut others) {
        give(other, &frame([0xff; 6], mac(number), 60))?;
        take(&mut sender, None)?;
    }
    let joined = shared_kib()?;
    for (number, other) in (0..count).zip(&mut others) {
        let frame = frame(mac(number), mac(u8::MAX), FRAME);
        for _ in 0..AMOUNT / FRAME {
            give(&mut sender, &frame)?;
            // The broadcasts of later ports come first.
            while take(other, Some(&mut sender))? != frame.len() {}
        }
    }
    let used = shared_kib()?;
    let count = f64::from(count);
    Ok(Weight {
        kib_per_edge: (used - joined) / count,
        kib_joined: (joined - nothing) / (count + 1.0),
    })
}

fn mac(number: u8) -> [u8; 6] {
    let [a, b, c, d] = std::process::id().to_be_bytes();
    [2, number, a, b, c, d]
}

fn frame(to: [u8; 6], from: [u8; 6], bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADER + bytes];
    frame[HEADER..HEADER + 6].copy_from_slice(&to);
    frame[HEADER + 6..HEADER + 12].copy_from_slice(&from);
    frame[HEADER + 12..HEADER + 14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

fn give(port: &mut SwitchPort, frame: &[u8]) -> Result<()> {
    match port.send(frame)? {
        Sent::Done => Ok(()),
        other => bail!("a frame was not taken: {other:?}"),
    }
}

/// Length of the next frame, header included; meanwhile `sender` handles requests for new edges.
fn take(port: &mut SwitchPort, mut sender: Option<&mut SwitchPort>) -> Result<usize> {
    let (mut buffer, until) = (vec![0; MOST_FRAME], Instant::now() + PATIENCE);
    while Instant::now() < until {
        if let Some(sender) = &mut sender {
            sender.service()?;
        }
        match port.receive_wait(&mut buffer, Some(Duration::from_millis(1)))? {
            Received::Frame { length, .. } => return Ok(length),
            Received::Empty => {}
            other => bail!("a frame did not come: {other:?}"),
        }
    }
    bail!("a frame did not come")
}

/// KiB of memfds mapped by this process.
fn shared_kib() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/smaps").context("read /proc/self/smaps")?;
    Ok(memfd_kib(&text))
}

fn memfd_kib(smaps: &str) -> f64 {
    let (mut counts, mut sum) = (false, 0.0);
    for line in smaps.lines() {
        // A mapping starts with its addresses; its details follow.
        let is_start = line.split_once(' ').is_some_and(|(first, _)| !first.ends_with(':'));
        if is_start {
            counts = line.contains("/memfd:");
        } else if let Some(size) = line.strip_prefix("Pss:").filter(|_| counts) {
            let size: Option<f64> = size.trim().strip_suffix(" kB").and_then(|n| n.parse().ok());
            sum += size.unwrap_or(0.0);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memfds_are_weighed() {
        let smaps = "\
7f00-7f01 rw-s 00000000 00:01 7 /memfd:netloom-ring (deleted)
Size:               1028 kB
Pss:                 514 kB
Pss_Dirty:           100 kB
VmFlags: rd wr sh
7f02-7f03 rw-p 00000000 00:00 0
Pss:                  40 kB
7f04-7f05 r--s 00000000 00:01 7 /memfd:netloom-ring (deleted)
Pss:                 514 kB
";
        assert!((memfd_kib(smaps) - 1028.0).abs() < 1e-9);
    }
}
