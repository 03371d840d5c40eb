//! Flow entries of a switch: how fast they are made, and how fast they are obeyed.
//!
//! `flow-fill SOCKET COUNT ADDRESS PORT`: replaces all entries of the switch at that socket by COUNT, one for each flow
//! that `netloom generate --flows COUNT` sends from ADDRESS, which all send to port PORT of the switch; one entry matches
//! all. Prints `{"per_s"}`, entries a second up to the barrier's reply.
//!
//! `flow-pass SOCKET`: replaces them by two, from port 1 to port 2 and back. `flow-clear SOCKET`: by none.
//!
//! `flow-obey SOCKET INTERFACE PORT TURNS`: while others send frames through the switch to INTERFACE of this network
//! namespace, which is behind PORT, has the switch drop and pass them in turns. Prints `{"answered_us": [...],
//! "obeyed_us": [...], "late": [...]}`: the time from a change to the reply to a barrier behind it, the time until the
//! last frame came, and the frames that came after the reply.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use netloom_openflow::flow::FlowCommand;
use netloom_traffic::Flows;
use serde::Serialize;

use super::openflow::Client;

/// If no frame comes for this long, the switch drops them.
const QUIET: Duration = Duration::from_millis(50);
/// The longest time that a switch may take to obey.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between turns, in which frames pass.
const BETWEEN: Duration = Duration::from_millis(100);

/// Result of `flow-fill`.
#[derive(Debug, Serialize)]
pub(super) struct Filled {
    per_s: f64,
}

/// Result of `flow-obey`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Obeyed {
    answered_us: Vec<f64>,
    obeyed_us: Vec<f64>,
    late: Vec<u64>,
}

pub(super) fn fill(socket: &Path, count: u32, from: Ipv4Addr, port: u16) -> Result<Filled> {
    let mut client = Client::connect(socket)?;
    client.change(FlowCommand::Delete, "")?;
    client.barrier()?;
    let begin = Instant::now();
    for entry in entries(count, from, port)? {
        client.change(FlowCommand::Add, &entry)?;
    }
    client.barrier()?;
    Ok(Filled { per_s: f64::from(count) / begin.elapsed().as_secs_f64() })
}

/// Replaces all entries by these.
pub(super) fn only(socket: &Path, entries: &[&str]) -> Result<()> {
    let mut client = Client::connect(socket)?;
    client.change(FlowCommand::Delete, "")?;
    for entry in entries {
        client.change(FlowCommand::Add, entry)?;
    }
    client.barrier()
}

/// Entries for the flows of a generator, as text.
fn entries(count: u32, from: Ipv4Addr, port: u16) -> Result<Vec<String>> {
    if count == 1 {
        return Ok(vec![format!("ip,actions=output:{port}")]);
    }
    let flows = Flows::new(count)?;
    let entry = |number: u32| {
        let flow = flows.at(number.into());
        let address = Ipv4Addr::from(u32::from(from).wrapping_add(flow.address));
        format!("udp,nw_src={address},tp_src={},actions=output:{port}", flow.port)
    };
    Ok((0..count).map(entry).collect())
}

pub(super) fn obey(socket: &Path, interface: &str, port: u16, turns: usize) -> Result<Obeyed> {
    let mut client = Client::connect(socket)?;
    let mut told = Obeyed::default();
    for _ in 0..turns {
        pass(&mut client, interface, port)?;
        let begin = Instant::now();
        client.change(FlowCommand::Modify, "ip,actions=drop")?;
        client.barrier()?;
        let (answered, at_reply) = (begin.elapsed(), received(interface)?);
        let (last, count) = silence(interface, begin)?;
        told.answered_us.push(answered.as_secs_f64() * 1e6);
        // Frames that came before the reply were counted when it was there.
        told.obeyed_us.push(last.max(answered).as_secs_f64() * 1e6);
        told.late.push(count - at_reply);
    }
    pass(&mut client, interface, port)?;
    Ok(told)
}

/// Has frames pass, and waits until they do.
fn pass(client: &mut Client, interface: &str, port: u16) -> Result<()> {
    client.change(FlowCommand::Modify, &format!("ip,actions=output:{port}"))?;
    client.barrier()?;
    let (begin, before) = (Instant::now(), received(interface)?);
    while received(interface)? == before {
        if begin.elapsed() > PATIENCE {
            bail!("{interface}: no frame came in {PATIENCE:?}");
        }
    }
    std::thread::sleep(BETWEEN);
    Ok(())
}

/// When the last frame came, after `begin`, and the count of frames then.
fn silence(interface: &str, begin: Instant) -> Result<(Duration, u64)> {
    let (mut last, mut count) = (Duration::ZERO, received(interface)?);
    loop {
        let (now, at) = (received(interface)?, begin.elapsed());
        if now != count {
            (count, last) = (now, at);
        } else if at.saturating_sub(last) > QUIET {
            return Ok((last, count));
        }
        if at > PATIENCE {
            bail!("{interface}: frames still came {PATIENCE:?} after the change");
        }
    }
}

/// Frames that an interface of this network namespace has received.
fn received(interface: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").context("read counters")?;
    let own = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        (name.trim() == interface).then(|| counts.split_whitespace().nth(1)?.parse().ok())?
    };
    text.lines().find_map(own).with_context(|| format!("{interface}: no counters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_those_of_the_generators_flows() {
        let from = Ipv4Addr::new(198, 18, 0, 255);
        assert_eq!(entries(1, from, 2).unwrap(), ["ip,actions=output:2"]);
        let all = entries((1 << 14) + 1, from, 2).unwrap();
        assert_eq!(all[1], "udp,nw_src=198.18.0.255,tp_src=49153,actions=output:2");
        assert_eq!(all[1 << 14], "udp,nw_src=198.18.1.0,tp_src=49152,actions=output:2");
        assert!(entries(0, from, 2).is_err());
    }
}
