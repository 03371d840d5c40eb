//! What runs of the same cases say about a switch.

use crate::{Allowed, Case, Outcome, Outcomes};

/// Runs of the same cases, judged.
#[derive(Debug)]
pub struct Verdict<'a> {
    runs: &'a [Outcomes],
    allowed: &'a Allowed,
}

/// Counts of cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed in every run.
    pub passed: usize,
    /// Failed in a run, and may not.
    pub failed: usize,
    /// Failed in a run, and may; or depend on what the tester can offer.
    pub allowed: usize,
    /// Differ between runs; also counted as failed.
    pub differ: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { passed, failed, allowed, differ } = self;
        write!(f, "OK {passed}, failed {failed}, allowed {allowed}, differ {differ}")
    }
}

/// A case in all runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Passed,
    Failed,
    Allowed,
    Differs,
    /// In the list of those that may fail, but passed.
    Unexpected,
}

impl<'a> Verdict<'a> {
    /// Judges runs of the same cases.
    pub fn new(runs: &'a [Outcomes], allowed: &'a Allowed) -> Verdict<'a> {
        Verdict { runs, allowed }
    }

    fn cases(&self) -> impl Iterator<Item = (&'a Case, Kind)> {
        let first = self.runs.first().into_iter().flatten();
        first.map(|(case, outcome)| (case, self.kind(case, outcome)))
    }

    fn kind(&self, case: &Case, outcome: &Outcome) -> Kind {
        let same =
            |run: &Outcomes| run.get(case).is_some_and(|other| other.passed == outcome.passed);
        match (outcome.passed, self.allowed.reason(case).is_some()) {
            _ if self.allowed.either_way(case) => Kind::Allowed,
            _ if !self.runs.iter().all(same) => Kind::Differs,
            (true, true) => Kind::Unexpected,
            (true, false) => Kind::Passed,
            (false, true) => Kind::Allowed,
            (false, false) => Kind::Failed,
        }
    }

    /// Counts of a directory's cases.
    pub fn tally(&self, directory: &str) -> Tally {
        let mut tally = Tally::default();
        for (_, kind) in self.cases().filter(|(case, _)| case.is_in(directory)) {
            match kind {
                Kind::Passed => tally.passed += 1,
                Kind::Allowed => tally.allowed += 1,
                Kind::Failed | Kind::Unexpected => tally.failed += 1,
                Kind::Differs => {
                    tally.failed += 1;
                    tally.differ += 1;
                }
            }
        }
        tally
    }

    /// A line for each case that is not as it is to be.
    pub fn wrong(&self) -> Vec<String> {
        self.cases().filter_map(|(case, kind)| self.complaint(case, kind)).collect()
    }

    fn complaint(&self, case: &Case, kind: Kind) -> Option<String> {
        let first = self.runs.first()?.get(case)?;
        let runs = self.runs.iter().filter_map(|run| run.get(case));
        match kind {
            Kind::Passed | Kind::Allowed => None,
            Kind::Failed => Some(format!("{case}: {}: {}", first.title, first.detail)),
            Kind::Unexpected => {
                Some(format!("{case}: {}: passed; take it out of allowed.txt", first.title))
            }
            Kind::Differs => {
                let said =
                    runs.map(|outcome| if outcome.passed { "passed" } else { &outcome.detail });
                let said: Vec<&str> = said.collect();
                Some(format!("{case}: {}: differs: {}", first.title, said.join(" | ")))
            }
        }
    }

    /// A run as text, a line a case, sorted: the same for the same results.
    pub fn text(&self, run: usize) -> String {
        let lines = self.runs.get(run).into_iter().flatten().map(|(case, outcome)| {
            let Outcome { title, passed, detail } = outcome;
            match (passed, self.allowed.reason(case)) {
                (true, _) => format!("OK      {case} {title}\n"),
                (false, Some(reason)) => format!("allowed {case} {title}: {detail} ({reason})\n"),
                (false, None) => format!("failed  {case} {title}: {detail}\n"),
            }
        });
        lines.collect()
    }

    /// Cases of a directory that passed in each run, and those that passed in any.
    pub fn passed(&self, directory: &str) -> (Vec<usize>, usize) {
        let of_run = |run: &Outcomes| {
            let cases = run.iter().filter(|(case, _)| case.is_in(directory));
            cases.filter(|(_, outcome)| outcome.passed).count()
        };
        let in_any = |case: &Case| {
            let outcomes = self.runs.iter().filter_map(|run| run.get(case));
            outcomes.into_iter().any(|outcome| outcome.passed)
        };
        let all = self.runs.first().into_iter().flatten().map(|(case, _)| case);
        let any = all.filter(|case| case.is_in(directory) && in_any(case)).count();
        (self.runs.iter().map(of_run).collect(), any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_tester_may_pass_fail_and_differ() {
        let list = "of13/m.json#0 rate: slow\nof13/m.json#1 sleep: slow\nof13/m.json#2 other\n";
        let list = Allowed::parse(list).unwrap();
        let cases = |passed: [bool; 3]| {
            run(&[
                ("of13/m.json#0", passed[0]),
                ("of13/m.json#1", passed[1]),
                ("of13/m.json#2", passed[2]),
            ])
        };
        let runs = [cases([true, true, false]), cases([true, false, false])];
        let verdict = Verdict::new(&runs, &list);
        assert_eq!(verdict.tally("of13"), Tally { allowed: 3, ..Tally::default() });
        assert!(verdict.wrong().is_empty());
        // What does not depend on it is judged as before.
        let runs = [cases([true; 3])];
        assert_eq!(Verdict::new(&runs, &list).wrong().len(), 1);
    }

    fn run(results: &[(&str, bool)]) -> Outcomes {
        let outcome = |passed| Outcome { title: "t".into(), passed, detail: "d".into() };
        let entry = |(case, passed): &(&str, bool)| (case.parse().unwrap(), outcome(*passed));
        results.iter().map(entry).collect()
    }

    #[test]
    fn a_failure_a_difference_and_a_needless_allowance_are_told() {
        let first =
            run(&[("of10/a.json#0", true), ("of10/a.json#1", false), ("of10/b.json#0", true)]);
        let second =
            run(&[("of10/a.json#0", true), ("of10/a.json#1", false), ("of10/b.json#0", false)]);
        let (runs, none) = ([first, second], Allowed::default());
        let verdict = Verdict::new(&runs, &none);
        let tally = Tally { passed: 1, failed: 2, allowed: 0, differ: 1 };
        assert_eq!(verdict.tally("of10"), tally);
        assert_eq!(verdict.tally("of13"), Tally::default());
        assert_eq!(
            verdict.wrong(),
            ["of10/a.json#1: t: d", "of10/b.json#0: t: differs: passed | d"]
        );
        assert_eq!(verdict.passed("of10"), (vec![2, 1], 2));
        assert_eq!(verdict.text(1).lines().count(), 3);
    }
}
