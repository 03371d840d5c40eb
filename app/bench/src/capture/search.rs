//! Searches the highest loss-free rate: bisection by single runs, then enough runs at the rate found to
//! confirm it.
//!
//! It starts at the generator's top speed. The interface refuses frames that its receiving core does not take;
//! they were never offered to the capturer. If nothing is lost and nothing refused at top speed, the rate is the
//! generator's limit and the capturer's stays unknown. A rate counts when [`ENOUGH`] of [`ENOUGH`] runs lose nothing; one run
//! with a loss rules it out, and every rate above it. It is run [`WANTED`] times if the time allows it, for an
//! interval of the offered rate.

/// Loss-free runs that make a rate count.
pub(super) const ENOUGH: usize = 3;
/// Runs that end the search.
pub(super) const WANTED: usize = crate::report::FEWEST;
/// Frames refused at top speed: below this share they may come from pauses of the machine alone.
const LITTLE: f64 = 0.02;
/// Lowest rate searched, in frames per second.
const LEAST: f64 = 10_000.0;

/// Rate of the next run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ask {
    /// Top speed.
    Max,
    /// This many frames per second.
    Rate(f64),
}

/// Frames per second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// That the generator made.
    pub(super) made: f64,
    /// Of these, that the interface took.
    pub(super) taken: f64,
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.made += other.made;
        self.taken += other.taken;
    }
}

/// A loss-free rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// Frames per second offered in each of its runs.
    pub(super) offered: Vec<f64>,
    /// Frames per second that the generator made in each.
    pub(super) made: Vec<f64>,
    /// The rate requested of the generator.
    pub(super) asked: Ask,
    /// Lowest rate with a loss.
    pub(super) lost_at: Option<f64>,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Largest ratio between the lowest rate with a loss and the highest without.
    near: f64,
    /// Loss-free runs at top speed.
    top: Vec<Load>,
    /// Lowest rate with a loss.
    high: Option<f64>,
    /// Loss-free rates in ascending order, with the load of each run.
    low: Vec<(f64, Vec<Load>)>,
    over: bool,
}

impl Search {
    /// `tolerance` is 0.05 for 5 %.
    pub(super) fn new(tolerance: f64) -> Search {
        Search { near: 1.0 + tolerance, top: vec![], high: None, low: vec![], over: false }
    }

    /// The next run; `None` when the search is over.
    pub(super) fn next(&self) -> Option<Ask> {
        if self.over || self.top.len() >= WANTED {
            return None;
        }
        let Some(high) = self.high else { return Some(Ask::Max) };
        let Some((low, runs)) = self.low.last() else {
            return (high / 2.0 >= LEAST).then_some(Ask::Rate(high / 2.0));
        };
        if high / low > self.near {
            // The geometric mean, so that each run halves the remaining range.
            return Some(Ask::Rate((low * high).sqrt()));
        }
        (runs.len() < WANTED).then_some(Ask::Rate(*low))
    }

    /// Records a run: its load, and whether any frame was lost.
    pub(super) fn told(&mut self, ask: Ask, load: Load, lost: bool) {
        let rate = match ask {
            Ask::Max => load.taken,
            Ask::Rate(rate) => rate,
        };
        match (ask, lost) {
            (Ask::Max, false) => self.top.push(load),
            (_, true) => {
                self.top.clear();
                self.high = Some(self.high.map_or(rate, |high| high.min(rate)));
                self.low.retain(|(low, _)| *low < rate);
            }
            (Ask::Rate(_), false) => match self.low.iter_mut().find(|(low, _)| *low == rate) {
                Some((_, runs)) => runs.push(load),
                None => {
                    self.low.push((rate, vec![load]));
                    self.low.sort_by(|a, b| a.0.total_cmp(&b.0));
                }
            },
        }
    }

    /// Ends the search with the results so far.
    pub(super) fn end(&mut self) {
        self.over = true;
    }

    /// The highest rate that counts.
    pub(super) fn found(&self) -> Option<Found> {
        if self.top.len() >= ENOUGH {
            return Some(Found::of(&self.top, Ask::Max, None));
        }
        let counts = self.low.iter().rev().find(|(_, runs)| runs.len() >= ENOUGH);
        counts.map(|(rate, runs)| Found::of(runs, Ask::Rate(*rate), self.high))
    }

    /// Bounds if no rate counts: the highest loss-free rate of any run, the lowest with a loss.
    pub(super) fn bounds(&self) -> (Option<f64>, Option<f64>) {
        (self.low.last().map(|(rate, _)| *rate), self.high)
    }
}

impl Found {
    fn of(runs: &[Load], asked: Ask, lost_at: Option<f64>) -> Found {
        let offered = runs.iter().map(|load| load.taken).collect();
        let made = runs.iter().map(|load| load.made).collect();
        Found { offered, made, asked, lost_at }
    }

    /// Whether the generator, not the capturer, was the limit: the interface took all that it made at top speed, or
    /// it did not make what was requested.
    pub(super) fn is_generators_limit(&self) -> bool {
        match self.asked {
            Ask::Max => self.refused() < LITTLE,
            Ask::Rate(rate) => self.made.iter().any(|made| *made < 0.95 * rate),
        }
    }

    /// The share of frames that the receiving core refused, in all runs.
    pub(super) fn refused(&self) -> f64 {
        let [made, taken] = [&self.made, &self.offered].map(|all| all.iter().sum::<f64>());
        1.0 - taken / made.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of which the interface took everything.
    fn all(taken: f64) -> Load {
        Load { made: taken, taken }
    }

    /// Simulates a capturer that loses above `capacity` and a generator limited to `most`. Returns the result
    /// and the number of runs.
    fn search(capacity: f64, most: f64, tolerance: f64) -> (Option<Found>, usize) {
        let mut search = Search::new(tolerance);
        let mut runs = 0;
        while let Some(ask) = search.next() {
            runs += 1;
            assert!(runs < 50, "{search:?}");
            let offered = match ask {
                Ask::Max => most,
                Ask::Rate(rate) => rate.min(most),
            };
            search.told(ask, all(offered), offered > capacity);
        }
        (search.found(), runs)
    }

    #[test]
    fn the_rate_is_found_within_the_tolerance() {
        for capacity in [30_000.0, 123_456.0, 999_999.0, 1_400_000.0, 4_700_000.0] {
            for tolerance in [0.05, 0.1] {
                let (found, runs) = search(capacity, 5e6, tolerance);
                let found = found.unwrap();
                let rate = found.offered[0];
                assert!(rate <= capacity && capacity <= rate * (1.0 + tolerance), "{found:?}");
                assert_eq!(found.offered.len(), WANTED);
                assert!(!found.is_generators_limit());
                assert!(runs <= 19, "{runs} runs for {capacity}");
            }
        }
    }

    #[test]
    fn what_loses_nothing_at_the_top_is_at_the_generators_limit() {
        let (found, runs) = search(6e6, 5e6, 0.05);
        let found = found.unwrap();
        assert_eq!((runs, found.asked, found.lost_at), (WANTED, Ask::Max, None));
        assert!(found.is_generators_limit());
    }

    #[test]
    fn what_the_receiving_core_refuses_shows_that_the_generator_could_do_more() {
        let mut search = Search::new(0.1);
        for taken in [1.5e6, 1.6e6, 1.4e6, 1.5e6, 1.5e6] {
            assert_eq!(search.next(), Some(Ask::Max));
            search.told(Ask::Max, Load { made: 6e6, taken }, false);
        }
        let found = search.found().unwrap();
        assert!(!found.is_generators_limit() && search.next().is_none());
        assert!((found.refused() - (1.0 - 1.5 / 6.0)).abs() < 1e-9);
        assert_eq!(found.offered[2], 1.4e6);
    }

    #[test]
    fn a_generator_that_does_not_give_what_was_asked_is_told() {
        let found = |offered: Vec<f64>| Found {
            made: offered.clone(),
            offered,
            asked: Ask::Rate(1e6),
            lost_at: Some(1.1e6),
        };
        assert!(found(vec![1e6, 9e5, 1e6]).is_generators_limit());
        assert!(!found(vec![1e6, 9.9e5, 1e6]).is_generators_limit());
    }

    #[test]
    fn what_loses_always_has_no_rate() {
        let (found, runs) = search(0.0, 5e6, 0.05);
        assert_eq!(found, None);
        assert!(runs < 12, "{runs}");
    }

    #[test]
    fn a_loss_while_a_rate_is_confirmed_rules_it_out() {
        let mut search = Search::new(0.1);
        let mut seen = 0;
        // 1 M is loss-free once; lower rates always are.
        while let Some(ask) = search.next() {
            let Ask::Rate(rate) = ask else {
                search.told(ask, all(2e6), true);
                continue;
            };
            let edge = (0.95e6..1.05e6).contains(&rate);
            seen += usize::from(edge);
            search.told(ask, all(rate), rate >= 1.05e6 || edge && seen > 1);
        }
        let found = search.found().unwrap();
        assert!(found.offered[0] < 0.95e6, "{found:?}");
        assert!(found.lost_at.unwrap() <= 1.05e6);
    }

    #[test]
    fn a_search_cut_short_tells_what_it_knows() {
        let mut search = Search::new(0.05);
        search.told(Ask::Max, all(2e6), true);
        search.told(Ask::Rate(1e6), all(1e6), false);
        search.end();
        assert_eq!((search.next(), search.found()), (None, None));
        assert_eq!(search.bounds(), (Some(1e6), Some(2e6)));
    }
}
