//! Refuses impairments that are meaningless or would take too much memory.
//!
//! It returns the first problem found, with the key as in the lab file and figures.

use std::time::Duration;

use crate::spec::{LONGEST, LONGEST_UNBOUNDED, MOST_HELD};
use crate::{Bursts, Impairments, Loss, Problem, Queue, Share};

/// The longest pattern of losses.
const LONGEST_PATTERN: usize = 65_536;
/// The longest expression of `drop`, in bytes.
const LONGEST_EXPRESSION: usize = 4096;
/// The lowest rate of a link, in bits a second.
pub const LEAST_RATE: u64 = 1000;
/// The smallest MTU that IPv4 allows (RFC 791).
const LEAST_MTU: u32 = 68;
/// Assumed bytes of a packet in a queue: an Ethernet frame of full length.
const FULL: u64 = 1514;
/// The assumed rate of frames on a link without one, in bits per second.
const UNBOUNDED: u128 = 10_000_000_000;

type Checked = Result<(), Problem>;

impl Impairments {
    /// Refuses what is meaningless or needs unbounded memory.
    ///
    /// # Errors
    ///
    /// The first [`Problem`].
    pub fn check(&self) -> Checked {
        self.check_shares()?;
        self.loss.as_ref().map_or(Ok(()), check_loss)?;
        if let Some(jitter) = &self.jitter {
            correlation("jitter", jitter.correlation)?;
        }
        if self.reorder != Share::NONE && self.delay.is_zero() {
            return no("reorder", "needs a `delay`: packets overtake by not being delayed");
        }
        if self.mtu.is_some_and(|mtu| mtu < LEAST_MTU) {
            let mtu = self.mtu.unwrap_or(0);
            return no("mtu", format!("{mtu} is less than IPv4 needs; at least {LEAST_MTU}"));
        }
        self.check_queue()?;
        self.check_drop()?;
        self.check_memory()
    }

    fn check_shares(&self) -> Checked {
        share("duplicate", "", self.duplicate)?;
        share("reorder", "", self.reorder)?;
        share("corrupt", "", self.corrupt)
    }

    fn check_queue(&self) -> Checked {
        match self.queue {
            Some(Queue::Packets(0)) => {
                no("queue", "has room for no packet, so all but single ones would be lost")
            }
            Some(Queue::Time(time)) if time.is_zero() => {
                no("queue", "has room for no time, so all but single packets would be lost")
            }
            _ if self.limit == Some(0) => no("limit", "lets no packet through: write loss: 100%"),
            _ => Ok(()),
        }
    }

    fn check_drop(&self) -> Checked {
        let Some(expression) = &self.drop else { return Ok(()) };
        if expression.trim().is_empty() {
            return no("drop", "is empty, and would match every packet: write loss: 100%");
        }
        if expression.len() > LONGEST_EXPRESSION || expression.chars().any(char::is_control) {
            let most = LONGEST_EXPRESSION;
            return no("drop", format!("is not one line of at most {most} bytes"));
        }
        Ok(())
    }

    /// Whether the bytes held at a time stay within [`MOST_HELD`].
    fn check_memory(&self) -> Checked {
        let spread = self.jitter.map_or(Duration::ZERO, |jitter| jitter.spread);
        let longest = self.delay.saturating_add(spread);
        let with = if spread.is_zero() { "" } else { " with its jitter" };
        if longest > LONGEST {
            return no("delay", format!("{longest:?}{with} is too long; at most {LONGEST:?}"));
        }
        let limit = self.limit.map(|most| u64::from(most) * FULL);
        let is_bounded = limit.is_some_and(|most| most <= MOST_HELD);
        let Some(rate) = self.rate else {
            if !is_bounded && longest > LONGEST_UNBOUNDED {
                let held = bytes(longest.as_nanos() * UNBOUNDED / 8_000_000_000);
                return no(
                    "delay",
                    format!(
                        "on a link without `rate`, {longest:?}{with} would have to hold {held} at \
                         10 Gb/s; at most {LONGEST_UNBOUNDED:?}"
                    ),
                );
            }
            return Ok(());
        };
        if rate < LEAST_RATE {
            return no("rate", format!("{rate} bit/s is too low; at least {LEAST_RATE} bit/s"));
        }
        if is_bounded {
            return Ok(());
        }
        let within =
            |time: Duration| time.as_nanos().saturating_mul(u128::from(rate)) / 8_000_000_000;
        let (key, queue) = match self.queue.unwrap_or(Queue::DEFAULT) {
            Queue::Packets(most) => ("packets of 1514 bytes", u128::from(most) * u128::from(FULL)),
            Queue::Time(most) => ("time", within(most)),
        };
        let most = bytes(u128::from(MOST_HELD));
        if queue > u128::from(MOST_HELD) {
            let held = bytes(queue);
            return no("queue", format!("would have to hold {held} of {key}; at most {most}"));
        }
        // Four deviations: only one packet in 10,000 exceeds that, whatever the form.
        let delayed = within(self.delay.saturating_add(spread.saturating_mul(4)));
        if delayed.saturating_add(queue) > u128::from(MOST_HELD) {
            let (held, queue) = (bytes(delayed), bytes(queue));
            return no(
                "delay",
                format!(
                    "{longest:?}{with} at {rate} bit/s would have to hold {held}, and {queue} in \
                     the queue; at most {most} together"
                ),
            );
        }
        Ok(())
    }
}

fn check_loss(loss: &Loss) -> Checked {
    match loss {
        Loss::Random(random) => {
            share("loss", "", random.share)?;
            correlation("loss", random.correlation)
        }
        Loss::Bursts(bursts) => check_bursts(bursts),
        Loss::Pattern(pattern) if pattern.is_empty() => no("loss", "the pattern is empty"),
        Loss::Pattern(pattern) if pattern.len() > LONGEST_PATTERN => {
            let length = pattern.len();
            no("loss", format!("a pattern of {length} packets is too long; at most 65536"))
        }
        Loss::Pattern(_) => Ok(()),
    }
}

fn check_bursts(bursts: &Bursts) -> Checked {
    for (name, value) in [
        ("`enter` ", bursts.enter),
        ("`leave` ", bursts.leave),
        ("`bad` ", bursts.bad),
        ("`good` ", bursts.good),
    ] {
        share("loss", name, value)?;
    }
    if bursts.enter == Share::NONE {
        return no("loss", "`enter` is 0, so no burst would ever begin");
    }
    if bursts.leave == Share::NONE {
        return no("loss", "`leave` is 0, so the first burst would never end");
    }
    Ok(())
}

fn share(key: &'static str, name: &str, value: Share) -> Checked {
    if value <= Share::ALL {
        return Ok(());
    }
    no(key, format!("{name}{} % is more than all; at most 100 %", f64::from(value.0) / 1e7))
}

fn correlation(key: &'static str, value: Share) -> Checked {
    share(key, "correlation ", value)?;
    if value == Share::ALL {
        return no(key, "a correlation of 100 % would give all packets the first one's value");
    }
    Ok(())
}

fn no(key: &'static str, reason: impl Into<String>) -> Checked {
    Err(Problem { key, reason: reason.into() })
}

/// Bytes in readable form, rounded to a tenth.
fn bytes(count: u128) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if count >> shift > 0 {
            let tenths = count.saturating_mul(10).saturating_add(1 << (shift - 1)) >> shift;
            return match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                rest => format!("{}.{rest} {unit}", tenths / 10),
            };
        }
    }
    format!("{count} bytes")
}

#[cfg(test)]
mod tests;
