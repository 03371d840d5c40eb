//! Token buckets, and the rule by which senders share a budget.
//!
//! [`Bucket`] is the generic cell rate algorithm (ITU-T I.371, annex A; RFC 2697 calls the same a
//! token bucket) with exact integers. [`FairBudget`] is the reference of flood protection: every
//! active sender is guaranteed its share of what a node is willing to receive, and anybody may use
//! the rest. Its bounds, over any input and any time T of up to a second: at most
//! rate x T plus three bursts pass, and once more every frame above a sixteenth of the burst
//! that empties a seat; a sender with a seat that stays within its share loses nothing,
//! whatever others do.

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// How many senders have a share of a [`FairBudget`] at a time.
pub const SEATS: usize = 16;

/// The least number divisible by all of 1 to 16: shares in parts of it are exact.
const PARTS: i128 = 720_720;

/// One token bucket. Time is kept as the theoretical arrival time in parts of 1/rate ns, so that
/// nothing is rounded.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    rate: u128,
    burst: u128,
    due: u128,
}

impl Bucket {
    /// A full bucket of `burst` tokens that gains `rate_per_s` a second.
    pub fn new(rate_per_s: u64, burst: u64) -> Self {
        let burst = u128::from(burst) * u128::from(SECOND);
        Bucket { rate: u128::from(rate_per_s), burst, due: 0 }
    }

    /// Takes `n` tokens if available. A rate of 0 gives only the burst, once.
    pub fn take(&mut self, now_ns: u64, n: u64) -> bool {
        let now = u128::from(now_ns) * self.rate;
        let cost = u128::from(n) * u128::from(SECOND);
        // An idle bucket saves up no more than its burst.
        let due = self.due.max(now).saturating_add(cost);
        let fits = due <= now.saturating_add(self.burst);
        if fits {
            self.due = due;
        }
        fits
    }
}

/// What a node is willing to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Packets per second; a super-frame counts as one.
    pub packets: u64,
    /// Bytes per second.
    pub bytes: u64,
    /// Packets at once.
    pub packet_burst: u64,
    /// Bytes at once.
    pub byte_burst: u64,
}

/// Why a packet passed, or that it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its sender is within its share.
    Share,
    /// The budget has room.
    Room,
    /// Neither.
    Dropped,
}

/// A budget shared by senders.
///
/// The first [`SEATS`] senders have a seat, which they can lose to another after a second of silence.
/// A seat fills at budget / (seats whose sender sent within the last second), up to a sixteenth of
/// the burst. A packet passes if its seat has enough for it, or is full, in packets and bytes; it
/// is charged to the seat and to the whole (both may become negative). Otherwise it passes
/// if the whole has enough for it, or is full, and is charged to the whole. Otherwise it is dropped.
/// Senders without a seat share the rest.
#[derive(Clone, Debug)]
pub struct FairBudget {
    budget: Budget,
    whole: Pair,
    seats: [Option<Seat>; SEATS],
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    sender: u64,
    heard: u64,
    level: Pair,
}

/// Levels in tokens x [`SECOND`] x [`PARTS`], and the time they refer to.
#[derive(Clone, Copy, Debug)]
struct Pair {
    packets: i128,
    bytes: i128,
    at: u64,
}

impl FairBudget {
    /// An unused budget.
    pub fn new(budget: Budget, now_ns: u64) -> Self {
        FairBudget { budget, whole: Pair::full(&budget, 1, now_ns), seats: [None; SEATS] }
    }

    /// Judges a frame that counts as one packet of `bytes` bytes. `now_ns` never runs backwards.
    pub fn take(&mut self, now_ns: u64, sender: u64, bytes: u64) -> Verdict {
        let seats = i128::try_from(SEATS).unwrap_or(1);
        let (budget, now) = (self.budget, now_ns);
        self.whole.fill(&budget, 1, 1, now);
        let seat = self.seat(sender, now);
        // A sender without a seat may find nobody active, and rates are divided by this.
        let active = i128::try_from(self.active(now)).unwrap_or(1).max(1);
        if let Some(seat) = seat.and_then(|at| self.seats.get_mut(at)).and_then(Option::as_mut) {
            seat.level.fill(&budget, active, seats, now);
            if seat.level.covers(&budget, seats, bytes) {
                seat.level.charge(bytes);
                self.whole.charge(bytes);
                return Verdict::Share;
            }
        }
        if self.whole.covers(&budget, 1, bytes) {
            self.whole.charge(bytes);
            return Verdict::Room;
        }
        Verdict::Dropped
    }

    /// How many senders with a seat sent within the last second.
    pub fn active(&self, now_ns: u64) -> usize {
        self.seats
            .iter()
            .flatten()
            .filter(|seat| seat.heard.saturating_add(SECOND) > now_ns)
            .count()
    }

    /// The sender's seat: its own, else a free one, else one whose sender has been silent.
    fn seat(&mut self, sender: u64, now: u64) -> Option<usize> {
        let silent = |seat: &Seat| seat.heard.saturating_add(SECOND) <= now;
        let own = self.seats.iter().position(|s| s.is_some_and(|s| s.sender == sender));
        let at = own.or_else(|| self.seats.iter().position(|s| s.as_ref().is_none_or(silent)))?;
        let seats = i128::try_from(SEATS).unwrap_or(1);
        let fresh = Seat { sender, heard: now, level: Pair::full(&self.budget, seats, now) };
        let place = self.seats.get_mut(at)?;
        match place {
            // After its second of silence a sender's own seat is as full as a new one.
            Some(seat) if own.is_some() && !silent(seat) => seat.heard = now,
            _ => *place = Some(fresh),
        }
        Some(at)
    }
}

impl Pair {
    /// Its capacity: the `divisor`-th part of the bursts.
    fn most(budget: &Budget, divisor: i128) -> (i128, i128) {
        let scale = i128::from(SECOND) * PARTS / divisor;
        (i128::from(budget.packet_burst) * scale, i128::from(budget.byte_burst) * scale)
    }

    fn full(budget: &Budget, divisor: i128, at: u64) -> Pair {
        let (packets, bytes) = Pair::most(budget, divisor);
        Pair { packets, bytes, at }
    }

    /// Adds the tokens since then, at the `active`-th part of the rates.
    fn fill(&mut self, budget: &Budget, active: i128, divisor: i128, now: u64) {
        let (packets, bytes) = Pair::most(budget, divisor);
        // Whole for each number of seats: that is what PARTS is for.
        let since = i128::from(now.saturating_sub(self.at)) * (PARTS / active);
        self.packets = self
            .packets
            .saturating_add(since.saturating_mul(i128::from(budget.packets)))
            .min(packets);
        self.bytes =
            self.bytes.saturating_add(since.saturating_mul(i128::from(budget.bytes))).min(bytes);
        self.at = now.max(self.at);
    }

    /// Whether there is enough for a frame, or the bucket is full.
    fn covers(&self, budget: &Budget, divisor: i128, bytes: u64) -> bool {
        // A frame that is larger than the bucket passes a full one, or it never would; the level is negative then.
        let most = Pair::most(budget, divisor);
        let scale = i128::from(SECOND) * PARTS;
        self.packets >= scale.min(most.0) && self.bytes >= (i128::from(bytes) * scale).min(most.1)
    }

    fn charge(&mut self, bytes: u64) {
        let scale = i128::from(SECOND) * PARTS;
        self.packets = self.packets.saturating_sub(scale);
        self.bytes = self.bytes.saturating_sub(i128::from(bytes) * scale);
    }
}

#[cfg(test)]
mod tests;
