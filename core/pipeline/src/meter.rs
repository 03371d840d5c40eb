//! Meters (section 5.7): a token bucket for each band; the band with the highest rate of those that a packet exceeds applies.
//!
//! Tokens are in millionths of a bit, or billionths of a packet, so that a nanosecond adds a whole number of them: the
//! rate. A band without a burst may save up a tenth of a second, at least one packet of 1,500 bytes.

use netloom_openflow::meter::{Band, BandKind, MeterFlags};

use crate::rule::Time;

/// A meter.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) flags: MeterFlags,
    pub(crate) bands: Vec<Band>,
    /// Tokens of each band.
    tokens: Vec<u64>,
    refilled: Time,
    pub(crate) created: Time,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets and bytes to which each band applied.
    pub(crate) applied: Vec<(u64, u64)>,
}

/// What a meter does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Pass,
    /// Drops it.
    Drop,
    /// Raises its drop precedence.
    Remark(u8),
}

/// Millionths of a bit in a kilobit, billionths of a packet in a packet.
const SCALE: u64 = 1_000_000_000;

impl Meter {
    pub(crate) fn new(flags: MeterFlags, bands: &[Band], now: Time) -> Meter {
        // A copy, as of a group's buckets.
        let bands = bands.to_vec();
        let mut meter = Meter {
            flags,
            tokens: vec![],
            applied: vec![(0, 0); bands.len()],
            bands,
            refilled: now,
            created: now,
            packets: 0,
            bytes: 0,
        };
        meter.tokens = meter.bands.iter().map(|band| meter.most(band)).collect();
        meter
    }

    fn in_packets(&self) -> bool {
        self.flags.has(MeterFlags::PKTPS)
    }

    /// How many tokens a band can have.
    fn most(&self, band: &Band) -> u64 {
        if self.flags.has(MeterFlags::BURST) && band.burst > 0 {
            return u64::from(band.burst) * SCALE;
        }
        // At least one packet: a bucket that cannot hold one would never let any through.
        let least = if self.in_packets() { SCALE } else { 12 * SCALE };
        (u64::from(band.rate) * (SCALE / 10)).max(least)
    }

    /// A packet goes through.
    pub(crate) fn pass(&mut self, bytes: u64, now: Time) -> Verdict {
        self.refill(now);
        self.packets += 1;
        self.bytes += bytes;
        let cost = if self.in_packets() { SCALE } else { bytes.saturating_mul(8 * 1_000_000) };
        let mut applies: Option<usize> = None;
        for (index, (band, tokens)) in self.bands.iter().zip(&mut self.tokens).enumerate() {
            if *tokens >= cost {
                *tokens -= cost;
                continue;
            }
            let rate = |index: usize| self.bands.get(index).map_or(0, |band| band.rate);
            if applies.is_none_or(|best| rate(best) < band.rate) {
                applies = Some(index);
            }
        }
        let Some(index) = applies else { return Verdict::Pass };
        if let Some((packets, sum)) = self.applied.get_mut(index) {
            *packets += 1;
            *sum += bytes;
        }
        match self.bands.get(index).map(|band| &band.kind) {
            Some(BandKind::Drop) => Verdict::Drop,
            Some(BandKind::DscpRemark(level)) => Verdict::Remark(*level),
            _ => Verdict::Pass,
        }
    }

    fn refill(&mut self, now: Time) {
        let passed = now.saturating_sub(self.refilled);
        self.refilled = self.refilled.max(now);
        let most: Vec<u64> = self.bands.iter().map(|band| self.most(band)).collect();
        for ((tokens, band), most) in self.tokens.iter_mut().zip(&self.bands).zip(most) {
            let more = passed.saturating_mul(u64::from(band.rate));
            *tokens = tokens.saturating_add(more).min(most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(rate: u32, kind: BandKind) -> Band {
        Band { rate, burst: 0, kind }
    }

    /// How many of the packets of a second pass, sent every `gap` nanoseconds.
    fn passed(meter: &mut Meter, bytes: u64, gap: u64) -> u64 {
        let sent = SCALE / gap;
        let pass = |count: u64| meter.pass(bytes, SCALE + count * gap) == Verdict::Pass;
        u64::try_from((0..sent).map(pass).filter(|passes| *passes).count()).unwrap()
    }

    #[test]
    fn the_rate_holds_for_small_and_large_packets() {
        for bytes in [60, 1500] {
            let mut meter = Meter::new(MeterFlags::KBPS, &[band(10_000, BandKind::Drop)], SCALE);
            let bits = passed(&mut meter, bytes, 10_000) * bytes * 8;
            // A tenth of a second was saved up.
            assert!((11_000_000 - 8 * bytes..=11_000_000).contains(&bits), "{bits}");
        }
        let mut meter = Meter::new(MeterFlags::PKTPS, &[band(100, BandKind::Drop)], SCALE);
        assert_eq!(passed(&mut meter, 60, 1_000_000), 109);
        assert_eq!(meter.applied, [(891, 891 * 60)]);
        assert_eq!((meter.packets, meter.bytes), (1000, 60_000));
    }

    #[test]
    fn the_highest_exceeded_band_applies() {
        let bands = vec![band(10, BandKind::DscpRemark(1)), band(100, BandKind::Drop)];
        let mut meter = Meter::new(MeterFlags::PKTPS, &bands, 0);
        let verdicts: Vec<_> = (0..12).map(|_| meter.pass(60, 0)).collect();
        assert_eq!(verdicts[0], Verdict::Pass);
        assert_eq!(verdicts[1..10], [Verdict::Remark(1); 9]);
        assert_eq!(verdicts[10..], [Verdict::Drop; 2]);
    }

    #[test]
    fn a_burst_is_what_is_given() {
        let bands = vec![Band { rate: 1, burst: 5, kind: BandKind::Drop }];
        let mut meter = Meter::new(MeterFlags::PKTPS | MeterFlags::BURST, &bands, 0);
        let passed = (0..9).filter(|_| meter.pass(60, 0) == Verdict::Pass).count();
        assert_eq!(passed, 5);
    }
}
