//! A path and its way back together: round-trip time and two-way jitter.
//!
//! The source's formulas, in nanoseconds: ARTT = OWAD there + OWAD back; TWAJ = OWAD there - OWAD back, as it is printed
//! there: the difference between the two ways, negative if the way back is the slower one.

use serde::{Deserialize, Serialize};

use crate::Estimate;
use crate::total::{Delays, HopBlock, HopTotal};

/// ARTT and TWAJ of a path and its way back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TwoWay {
    /// Mean round-trip time of all packets; absent unless times of all are kept at each end.
    pub artt_all_ns: Option<Estimate>,
    /// Two-way jitter of all packets, likewise.
    pub twaj_all_ns: Option<Estimate>,
    /// The same of the selected packets; absent unless delays of some are known in both directions.
    pub sampled: Option<SampledTwoWay>,
}

/// ARTT and TWAJ of the mean delays of selected packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SampledTwoWay {
    /// Mean round-trip time.
    pub artt_ns: f64,
    /// Two-way jitter.
    pub twaj_ns: f64,
}

impl TwoWay {
    /// From the mean delays there and back: of all packets, and of selected ones.
    pub fn of(all: [Option<Estimate>; 2], sampled: [Option<f64>; 2]) -> TwoWay {
        let all = all[0].zip(all[1]);
        let sampled = sampled[0].zip(sampled[1]);
        TwoWay {
            artt_all_ns: all.map(|(there, back)| there.plus(back)),
            twaj_all_ns: all.map(|(there, back)| there.minus(back)),
            sampled: sampled.map(|(there, back)| SampledTwoWay {
                artt_ns: there + back,
                twaj_ns: there - back,
            }),
        }
    }

    /// Of a block.
    pub fn of_block(there: &HopBlock, back: &HopBlock) -> TwoWay {
        let mean = |hop: &HopBlock| hop.delays.as_ref().and_then(Delays::mean);
        TwoWay::of([there.comparison.owad, back.comparison.owad], [mean(there), mean(back)])
    }

    /// Of all blocks.
    pub fn of_total(there: &HopTotal, back: &HopTotal) -> TwoWay {
        let all = [there.mean_of_all(), back.mean_of_all()];
        TwoWay::of(all, [there.delays.mean(), back.delays.mean()])
    }

    /// The best mean round-trip time: of all packets if that is exact, else of the selected ones.
    pub fn artt(&self) -> Option<f64> {
        self.best(self.artt_all_ns, |sampled| sampled.artt_ns)
    }

    /// The best two-way jitter, likewise.
    pub fn twaj(&self) -> Option<f64> {
        self.best(self.twaj_all_ns, |sampled| sampled.twaj_ns)
    }

    fn best(&self, all: Option<Estimate>, sampled: fn(&SampledTwoWay) -> f64) -> Option<f64> {
        let exact = all.filter(Estimate::is_exact).map(|all| all.value);
        exact.or_else(|| self.sampled.as_ref().map(sampled)).or_else(|| all.map(|all| all.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delays there of 5 and 7 ms, back of 3 and 3 ms: means 6 and 3.
    const MEANS: [Option<f64>; 2] = [Some(6e6), Some(3e6)];

    #[test]
    fn of_selected_packets() {
        let both = TwoWay::of([None; 2], MEANS);
        assert_eq!(both.sampled, Some(SampledTwoWay { artt_ns: 9e6, twaj_ns: 3e6 }));
        assert_eq!((both.artt(), both.twaj()), (Some(9e6), Some(3e6)));
        let swapped = TwoWay::of([None; 2], [MEANS[1], MEANS[0]]);
        assert_eq!((swapped.artt(), swapped.twaj()), (Some(9e6), Some(-3e6)));
    }

    #[test]
    fn an_uncertain_mean_of_all_stands_back_and_bounds_add_up() {
        let there = Estimate { value: 10.0, low: 8.0, high: 13.0 };
        let back = Estimate { value: 4.0, low: 3.0, high: 4.0 };
        let both = TwoWay::of([Some(there), Some(back)], MEANS);
        assert_eq!(both.artt_all_ns, Some(Estimate { value: 14.0, low: 11.0, high: 17.0 }));
        assert_eq!(both.twaj_all_ns, Some(Estimate { value: 6.0, low: 4.0, high: 10.0 }));
        assert_eq!((both.artt(), both.twaj()), (Some(9e6), Some(3e6)));
        let alone = TwoWay::of([Some(there), Some(back)], [None, Some(1.0)]);
        assert_eq!((alone.artt(), alone.twaj(), alone.sampled), (Some(14.0), Some(6.0), None));
    }

    #[test]
    fn of_one_direction_there_is_none() {
        let both = TwoWay::of([Some(Estimate::ZERO), None], [None, Some(1.0)]);
        assert_eq!((both.artt(), both.twaj()), (None, None));
    }
}
