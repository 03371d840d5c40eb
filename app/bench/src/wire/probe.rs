//! A single measurement of a path: delay, loss, rate, throughput.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::cells::Trait;
use super::paths::{LAB, Path};
use crate::running::number;

const PORT: &str = "7000";
/// The discard port (RFC 863): nobody listens there.
const DISCARD: &str = "9";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Bytes of a datagram's data in rate measurements, and of a whole frame with its headers.
const DATA: u32 = 1400;
const FRAME: u32 = DATA + 14 + 20 + 8;
/// Packets sent to measure loss, and packets per second.
const LOST_OF: u32 = 25_000;
const LOSS_PACE: u32 = 25_000;
/// Packets sent to measure delay, and packets per second.
const DELAYED: u32 = 500;
/// Offered rate relative to the configured one.
const EXCESS: f64 = 1.25;
/// Maximum burst after a delay of the source: small where a burst could overflow a queue, large where the
/// path must stay full.
const FEW: u32 = 64;
const MANY: u32 = 10_000;

/// Losses of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lost {
    /// Packets that were sent.
    pub(super) of: f64,
    /// Packets that did not arrive.
    pub(super) count: f64,
    /// Packets that the wire lost for a reason other than random loss.
    pub(super) otherwise: f64,
    /// Packets that are missing without the wire's knowledge; `None` without a wire.
    pub(super) unexplained: Option<f64>,
}

/// Resolves MACs between the nodes, so that no packet waits, or is lost waiting, for that.
pub(super) fn greet(path: &Path<'_>, patience: Duration) -> Result<()> {
    let rate = 200.0;
    let count = (patience.as_secs_f64() * rate).ceil().to_string();
    let to = format!("{}:{DISCARD}", path.b);
    ask(path, "a", &["udp-source", &to, "64", &count, &rate.to_string(), "1"])?;
    path.drained()
}

/// Delay of each packet in nanoseconds.
pub(super) fn delays(path: &Path<'_>, seconds: u32) -> Result<Vec<f64>> {
    let (_, got) = datagrams(path, "delays", 64, DELAYED * seconds, (f64::from(DELAYED), FEW))?;
    let delays = got["delays_ns"].as_array().context("no delays were printed")?;
    let delays: Vec<f64> = delays.iter().filter_map(Value::as_f64).collect();
    if delays.is_empty() {
        bail!("no packet came");
    }
    Ok(delays)
}

/// Counts the packets that did not arrive.
pub(super) fn losses(path: &Path<'_>) -> Result<Lost> {
    let before = path.ledger()?;
    let (sent, got) = datagrams(path, "count", 64, LOST_OF, (f64::from(LOSS_PACE), FEW))?;
    let after = path.ledger()?;
    let count = sent - number(&got, "distinct")?;
    let done = after.zip(before).map(|(after, before)| after.since(before));
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    let ledger = done.map(|done| (done.by_chance as f64, done.otherwise as f64));
    let unexplained = ledger.map(|(chance, otherwise)| count - chance - otherwise);
    let otherwise = ledger.map_or(0.0, |(_, otherwise)| otherwise);
    Ok(Lost { of: sent, count, otherwise, unexplained })
}

/// Mb/s of whole frames received while more were sent.
pub(super) fn rate(path: &Path<'_>, mbit: u32, seconds: f64) -> Result<f64> {
    let pace = EXCESS * f64::from(mbit) * 1e6 / f64::from(8 * FRAME);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 10^7")]
    let count = (pace * seconds) as u32;
    let (_, got) = datagrams(path, "count", DATA, count, (pace, MANY))?;
    Ok(number(&got, "bits_per_s")? / 1e6)
}

/// Gb/s of one TCP connection.
pub(super) fn tcp(path: &Path<'_>, skip: f64, seconds: f64) -> Result<f64> {
    let (skip, seconds) = (skip.to_string(), seconds.to_string());
    let sink = path.driver.peer(LAB, "b", &["tcp-sink", PORT, &skip, &seconds])?.ready()?;
    let to = format!("{}:{PORT}", path.b);
    let source = path.driver.peer(LAB, "a", &["tcp-source", &to, "0", MOST])?;
    let got = sink.result()?;
    source.result()?;
    Ok(number(&got, "bytes_per_s")? * 8e-9)
}

/// Gb/s that a TCP connection's largest buffers allow at a round trip of twice the delay.
pub(super) fn window_limit(path: &Path<'_>, what: Trait) -> Result<Option<f64>> {
    let Trait::Delay(ms) = what else { return Ok(None) };
    let most = |node: &str, name: &str| -> Result<f64> {
        let file = format!("/proc/sys/net/ipv4/{name}");
        let text = crate::driver::output(
            path.driver.command().args(["-l", LAB, "exec", node, "--", "cat", &file]),
        )?;
        let last = text.split_whitespace().last().context("no sizes of buffers")?;
        last.parse().with_context(|| format!("{file}: not a size: {last}"))
    };
    let bytes = most("a", "tcp_wmem")?.min(most("b", "tcp_rmem")?);
    Ok(Some(bytes * 8e-9 / (2.0 * f64::from(ms) * 1e-3)))
}

/// Sends datagrams; returns the number sent and the sink's output.
fn datagrams(
    path: &Path<'_>,
    print: &str,
    data: u32,
    count: u32,
    (rate, burst): (f64, u32),
) -> Result<(f64, Value)> {
    let sink = path.driver.peer(LAB, "b", &["udp-sink", PORT, print, MOST])?.ready()?;
    let to = format!("{}:{PORT}", path.b);
    let (data, count) = (data.to_string(), count.to_string());
    let (rate, burst) = (rate.to_string(), burst.to_string());
    let sent = ask(path, "a", &["udp-source", &to, &data, &count, &rate, &burst])?;
    path.drained()?;
    Ok((number(&sent, "sent")?, sink.end()?))
}

fn ask(path: &Path<'_>, node: &str, words: &[&str]) -> Result<Value> {
    path.driver.peer(LAB, node, words)?.result()
}
