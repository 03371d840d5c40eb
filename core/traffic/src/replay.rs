//! When frames of a file are due: with their own gaps, faster or slower, or at a rate.
//!
//! Exact: the time of a frame follows only from the file's times, not from the previous frame's due time. A
//! frame whose time goes back is due with the previous one, and counted. Gaps can be bounded: the excess is
//! deducted from all later times, and a jump back by more than the bound restarts
//! from there. When a file is played again, its first frame follows the last one after the mean gap.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Rate, Result, Schedule};

/// The highest speed, and the inverse of the lowest.
const MOST: u64 = 1_000_000;

/// The factor of the recorded speed, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    thousandths: u64,
}

impl Speed {
    /// The recorded speed.
    pub const RECORDED: Speed = Speed { thousandths: 1000 };

    /// This many thousandths of it.
    ///
    /// # Errors
    /// [`Error::Range`] for less than one thousandth, or a speed of more than a million.
    pub fn thousandths(thousandths: u64) -> Result<Speed> {
        if (1..=MOST * 1000).contains(&thousandths) {
            return Ok(Speed { thousandths });
        }
        Err(Error::range("speed in thousandths", thousandths, 1, MOST * 1000))
    }

    /// The recorded time that becomes this time.
    fn recorded(self, ns: u64) -> u64 {
        let recorded = u128::from(ns) * u128::from(self.thousandths) / 1000;
        u64::try_from(recorded).unwrap_or(u64::MAX)
    }

    /// What a time becomes at this speed.
    fn of(self, ns: u128) -> u64 {
        u64::try_from(ns * 1000 / u128::from(self.thousandths)).unwrap_or(u64::MAX)
    }
}

impl FromStr for Speed {
    type Err = Error;

    /// `1`, `0.5`, `2x`: at most three digits after the point.
    fn from_str(text: &str) -> Result<Speed> {
        let wrong = || Error::text("speed", text, "write a factor like 1, 0.5 or 10x");
        let number = text.trim();
        let number = number.strip_suffix('x').unwrap_or(number);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 3 {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        // Padded to three digits: `.5` is 500 thousandths.
        let fraction: u64 = format!("{fraction:0<3}").parse().map_err(|_| wrong())?;
        Speed::thousandths(whole.saturating_mul(1000).saturating_add(fraction))
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.thousandths / 1000, self.thousandths % 1000);
        let text = format!("{whole}.{part:03}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// How fast a file is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tempo {
    /// With its own gaps, at a speed.
    Recorded(Speed),
    /// At a rate; [`Rate::Max`]: as fast as possible.
    Rate(Rate),
}

/// The times of a file's frames.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    tempo: Tempo,
    rate: Schedule,
    /// The time of the file's first frame.
    first: Option<u64>,
    /// The time of the latest frame since then.
    latest: u64,
    /// Frames in this round.
    frames: u64,
    /// Nanoseconds of the previous rounds.
    rounds: u128,
    backwards: u64,
    /// The longest gap of the file, in recorded time.
    most: u64,
    cut: u64,
}

impl Replay {
    /// Plays a file at this tempo.
    pub fn new(tempo: Tempo) -> Replay {
        let rate = match tempo {
            Tempo::Rate(rate) => rate,
            Tempo::Recorded(_) => Rate::Max,
        };
        Replay {
            tempo,
            rate: Schedule::new(rate),
            first: None,
            latest: 0,
            frames: 0,
            rounds: 0,
            backwards: 0,
            most: u64::MAX,
            cut: 0,
        }
    }

    /// The same; at a recorded tempo gaps last at most this many nanoseconds when played.
    pub fn with_gaps_of(mut self, most_ns: u64) -> Replay {
        if let Tempo::Recorded(speed) = self.tempo {
            self.most = speed.recorded(most_ns);
        }
        self
    }

    /// When the next frame is due, in nanoseconds after the start. It was recorded at `time_ns` (if the
    /// file says so) and has `size` bytes with its check sequence.
    pub fn next(&mut self, time_ns: Option<u64>, size: u32) -> u64 {
        self.frames += 1;
        if let Some(time) = time_ns {
            self.take(time);
        }
        match self.tempo {
            Tempo::Rate(_) => self.rate.next(size),
            Tempo::Recorded(speed) => speed.of(self.rounds + u128::from(self.latest)),
        }
    }

    /// Processes the time of a frame.
    fn take(&mut self, time: u64) {
        let first = *self.first.get_or_insert(time);
        let before = first.saturating_add(self.latest);
        if time < before {
            self.backwards += 1;
            if before - time > self.most {
                // Not disorder, but another clock: its gaps count from here.
                self.cut += 1;
                self.rounds += u128::from(self.latest);
                (self.first, self.latest) = (Some(time), 0);
            }
            return;
        }
        let gap = time - before;
        if gap > self.most {
            self.cut += 1;
            // Later times are measured from the start, which moves along.
            self.first = Some(first.saturating_add(gap - self.most));
        }
        self.latest = self.latest.saturating_add(gap.min(self.most));
    }

    /// Restarts the file.
    pub fn again(&mut self) {
        // A single frame has no gap to go on with.
        let gap = match self.frames {
            0 | 1 => 0,
            // Rounded to the nearest, so that a file of equal gaps continues with the same gap.
            frames => (self.latest + (frames - 1) / 2) / (frames - 1),
        };
        self.rounds += u128::from(self.latest) + u128::from(gap);
        self.first = None;
        self.latest = 0;
        self.frames = 0;
    }

    /// Gaps cut to the bound, and longer jumps back.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Frames recorded before one that precedes them in the file.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_speeds() {
        for (text, thousandths, shown) in
            [("1", 1000, "1"), ("0.5", 500, "0.5"), ("2x", 2000, "2"), ("1.125", 1125, "1.125")]
        {
            let speed: Speed = text.parse().unwrap();
            assert_eq!(speed, Speed { thousandths });
            assert_eq!(speed.to_string(), shown);
        }
        for text in ["", "x", "1.2345", "-1", "1e3", "fast", ".5"] {
            let error = text.parse::<Speed>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("speed {text:?}: write a factor")), "{error}");
        }
        assert!("0".parse::<Speed>().is_err() && "1000001".parse::<Speed>().is_err());
    }

    #[test]
    fn rounds_follow_after_the_mean_gap() {
        let mut replay = Replay::new(Tempo::Recorded("2".parse().unwrap()));
        let due = |replay: &mut Replay| [1000, 1100, 1200].map(|t| replay.next(Some(t), 64));
        assert_eq!(due(&mut replay), [0, 50, 100]);
        replay.again();
        assert_eq!(due(&mut replay), [150, 200, 250]);
    }

    #[test]
    fn time_that_goes_back_is_held_and_counted() {
        let mut replay = Replay::new(Tempo::Recorded(Speed::RECORDED));
        let due = [500, 600, 550, 400, 601].map(|time| replay.next(Some(time), 64));
        assert_eq!(due, [0, 100, 100, 100, 101]);
        assert_eq!(replay.backwards(), 2);
        assert_eq!(replay.next(None, 64), 101);
    }

    #[test]
    fn gaps_are_cut_to_their_bound_and_what_is_behind_keeps_its_own() {
        const YEARS: u64 = 100 * 365 * 86_400 * 1_000_000_000;
        let bounded = Replay::new(Tempo::Recorded(Speed::RECORDED)).with_gaps_of(50);
        let due = |mut replay: Replay, times: &[u64]| -> (Vec<u64>, u64, u64) {
            let due = times.iter().map(|time| replay.next(Some(*time), 64)).collect();
            (due, replay.cut(), replay.backwards())
        };
        let (late, later) = (500 + YEARS, 540 + YEARS);
        assert_eq!(due(bounded, &[500, late, later]), (vec![0, 50, 90], 1, 0));
        // One frame with a wrong clock.
        assert_eq!(due(bounded, &[500, late, 520, 530]), (vec![0, 50, 50, 60], 2, 1));
        // A small step back is disorder.
        assert_eq!(due(bounded, &[500, 540, 520, 545]), (vec![0, 40, 40, 45], 0, 1));
        let mut fast = Replay::new(Tempo::Recorded("2".parse().unwrap())).with_gaps_of(50);
        assert_eq!([0, 100, 300].map(|time| fast.next(Some(time), 64)), [0, 50, 100]);
        fast.again();
        // The mean of the gaps as they are played.
        assert_eq!([0, 100].map(|time| fast.next(Some(time), 64)), [150, 200]);
        let edge = due(bounded, &[0, u64::MAX, 0, u64::MAX]);
        assert_eq!(edge, (vec![0, 50, 50, 100], 3, 1));
    }

    #[test]
    fn at_a_rate_the_recorded_times_do_not_matter() {
        let mut replay = Replay::new(Tempo::Rate(Rate::Packets(1e6)));
        let due = [9, 5, 7].map(|time| replay.next(Some(time), 64));
        assert_eq!(due, [0, 1000, 2000]);
    }

    proptest! {
        #[test]
        fn gaps_are_exact_at_any_speed(thousandths in 1_u64..100_000, rounds in 1_usize..4,
                                       gaps in proptest::collection::vec(0_u64..1 << 40, 1..50)) {
            let speed = Speed::thousandths(thousandths).unwrap();
            let mut replay = Replay::new(Tempo::Recorded(speed));
            let mut base = 0_u128;
            for _ in 0..rounds {
                let mut time = 1 << 50;
                let mut total = 0_u128;
                for gap in &gaps {
                    time += gap;
                    total += u128::from(*gap);
                    let since = base + total - u128::from(gaps[0]);
                    let exact = since * 1000 / u128::from(thousandths);
                    prop_assert_eq!(u128::from(replay.next(Some(time), 64)), exact);
                }
                let span = total - u128::from(gaps[0]);
                let n = u128::try_from(gaps.len()).unwrap() - 1;
                base += span + (span + n / 2).checked_div(n).unwrap_or(0);
                replay.again();
            }
        }
    }
}
