//! Figures to pixels: an axis with round ticks, linear from zero or logarithmic.

/// A logarithmic axis takes over where the largest figure is more than this many times the smallest.
const DECADES: f64 = 100.0;
/// Ticks of a linear axis, at most.
const TICKS: f64 = 6.0;

/// An axis between two pixels.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// Figures, or their logarithms, at the two pixels.
    ends: [f64; 2],
    pixels: [f64; 2],
    logarithmic: bool,
}

impl Axis {
    /// An axis for ratios: logarithmic, with room around. Figures that have no logarithm are left out.
    pub(super) fn ratios(figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let [low, high] = range(figures.filter(|figure| *figure > 0.0), 1.0);
        let ends = [(low / 1.3).log10(), (high * 1.3).log10()];
        Axis { ends, pixels: [from, to], logarithmic: true }
    }

    /// An axis for figures of one unit: linear from zero, or logarithmic where they span decades.
    pub(super) fn figures(figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let [low, high] = range(figures, 0.0);
        let pixels = [from, to];
        if low > 0.0 && high / low > DECADES {
            let ends = [(low / 1.3).log10(), (high * 1.3).log10()];
            return Axis { ends, pixels, logarithmic: true };
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if high > low { high } else { low + 1.0 };
        Axis { ends: [low, high], pixels, logarithmic: false }
    }

    /// A linear axis that need not start at zero.
    pub(super) fn parameter(figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let [low, high] = range(figures, 0.0);
        if low > 0.0 && high / low > DECADES / 10.0 {
            return Axis {
                ends: [low.log10(), high.log10()],
                pixels: [from, to],
                logarithmic: true,
            };
        }
        let high = if high > low { high } else { low + 1.0 };
        Axis { ends: [low, high], pixels: [from, to], logarithmic: false }
    }

    /// Whether zero is on the axis, so that bars can start there.
    pub(super) fn has_bars(&self) -> bool {
        !self.logarithmic
    }

    /// The pixel of a figure; one that is off the axis is at its end.
    pub(super) fn at(&self, figure: f64) -> f64 {
        let [low, high] = self.ends;
        let place = match self.logarithmic {
            true if figure > 0.0 => figure.log10(),
            true => low,
            false => figure,
        };
        let share = ((place - low) / (high - low)).clamp(0.0, 1.0);
        self.pixels[0] + (self.pixels[1] - self.pixels[0]) * share
    }

    /// Round figures on the axis.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let [low, high] = self.ends;
        if self.logarithmic {
            return logarithmic_ticks(low, high);
        }
        let step = round_step((high - low) / TICKS);
        // At most a handful: the step is a good part of the axis.
        (0..40)
            .map(|at| ((low / step).ceil() + f64::from(at)) * step)
            .take_while(|tick| *tick <= high * (1.0 + 1e-9))
            .collect()
    }
}

/// Powers of ten; on a short axis also their double and five-fold.
fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let factors: &[f64] = if high - low > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    #[expect(clippy::cast_possible_truncation, reason = "logarithms of numbers: below 310")]
    let decades = low.floor() as i32..=high.ceil() as i32;
    let all = decades.flat_map(|decade| factors.iter().map(move |f| f * 10f64.powi(decade)));
    all.filter(|tick| (low..=high).contains(&tick.log10())).collect()
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * decade >= least);
    factor.unwrap_or(10.0) * decade
}

/// Smallest and largest; twice `otherwise` if there are none.
fn range(figures: impl Iterator<Item = f64>, otherwise: f64) -> [f64; 2] {
    let all = figures.filter(|figure| figure.is_finite());
    let found = all.fold(None, |found: Option<[f64; 2]>, figure| {
        Some(found.map_or([figure; 2], |[low, high]| [low.min(figure), high.max(figure)]))
    });
    found.unwrap_or([otherwise; 2])
}

/// A tick's figure in few letters.
pub(super) fn tick_text(figure: f64) -> String {
    let (size, unit) = match figure.abs() {
        size if size >= 1e9 => (1e9, "G"),
        size if size >= 1e6 => (1e6, "M"),
        size if size >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let text = format!("{:.6}", figure / size);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_start_at_zero_and_end_at_the_largest() {
        let axis = Axis::figures([2.0, 10.0].into_iter(), 100.0, 200.0);
        assert_eq!((axis.at(0.0), axis.at(5.0), axis.at(10.0)), (100.0, 150.0, 200.0));
        assert_eq!((axis.at(-3.0), axis.at(99.0)), (100.0, 200.0));
        assert_eq!(axis.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert!(axis.has_bars());
    }

    #[test]
    fn decades_are_logarithmic() {
        let axis = Axis::figures([0.01, 1000.0].into_iter(), 0.0, 100.0);
        assert!(!axis.has_bars());
        assert_eq!(axis.ticks(), [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert!(axis.at(0.0) == 0.0 && axis.at(1.0) > 35.0 && axis.at(1.0) < 45.0);
    }

    #[test]
    fn ratios_have_one_in_the_middle_of_equal_factors() {
        let axis = Axis::ratios([0.5, 2.0].into_iter(), 0.0, 100.0);
        assert!((axis.at(1.0) - 50.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [0.5, 1.0, 2.0]);
        assert!(Axis::ratios([].into_iter(), 0.0, 1.0).at(1.0).is_finite());
    }

    #[test]
    fn ticks_are_short() {
        let text = [0.0, 0.05, 2.5, 1000.0, 20_000.0, 3e6, 1e10].map(tick_text);
        assert_eq!(text, ["0", "0.05", "2.5", "1000", "20k", "3M", "10G"]);
    }

    #[test]
    fn a_parameter_need_not_start_at_zero() {
        let axis = Axis::parameter([2.0, 8.0].into_iter(), 0.0, 60.0);
        assert_eq!((axis.at(2.0), axis.at(5.0)), (0.0, 30.0));
        assert_eq!(Axis::parameter([3.0].into_iter(), 0.0, 60.0).at(3.0), 0.0);
    }
}
