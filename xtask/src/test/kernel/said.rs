//! What a guest prints: facts about it, a line for each test, and its end.

use std::collections::BTreeMap;

use crate::test::execute::Outcome;

/// Lines that are shown of a guest that did not come to its end.
const LAST: usize = 20;
/// Tests that are told with their times.
const LONGEST: usize = 10;

/// Read so far.
#[derive(Debug, Default)]
pub(super) struct Said {
    total: Outcome,
    /// Hundredths of a second of each test, by executable.
    took: BTreeMap<String, Vec<(u64, String)>>,
    ended: bool,
    /// A failed test's output is being shown.
    shows: bool,
    last: Vec<String>,
}

impl Said {
    /// Takes a line.
    pub(super) fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if self.last.len() == LAST {
            self.last.remove(0);
        }
        self.last.push(line.to_owned());
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        self.shows = match words.as_slice() {
            ["@", "passed", ..] => {
                self.total.passed += 1;
                false
            }
            ["@", "skipped", of, test, reason] => {
                self.total.skipped.push((format!("{of}: {test}"), (*reason).to_owned()));
                false
            }
            ["@", "failed", of, test, reason] => {
                self.total.failed.push(format!("{of}: {test} ({reason})"));
                true
            }
            ["@", "took", of, test, hundredths] => {
                let hundredths = hundredths.parse().unwrap_or(0);
                let of = self.took.entry((*of).to_owned()).or_default();
                of.push((hundredths, (*test).to_owned()));
                false
            }
            ["@@", "end"] => {
                self.ended = true;
                false
            }
            ["@@", release] => {
                println!("Linux {release}");
                false
            }
            _ => self.shows,
        };
        if self.shows {
            println!("{line}");
        }
    }

    /// All results. Without its last line the guest did not end by itself.
    pub(super) fn end(mut self) -> Outcome {
        if !self.ended {
            println!("{}", self.last.join("\n"));
            self.total.failed.push("kernel: the guest did not come to its end".to_owned());
        }
        self.tell_times();
        self.total
    }

    /// What each executable took by the guest's clock, tests beside each other counted apart, and the longest tests.
    fn tell_times(&self) {
        let mut all = vec![];
        for (of, tests) in &self.took {
            let sum: u64 = tests.iter().map(|(hundredths, _)| hundredths).sum();
            println!("{of:<44} {} tests, {:.0} s", tests.len(), sum as f64 / 100.0);
            all.extend(tests.iter().map(|(hundredths, test)| (hundredths, of, test)));
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (hundredths, of, test) in all.into_iter().take(LONGEST) {
            println!("{:>7.1} s {of}: {test}", *hundredths as f64 / 100.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Outcome {
        let mut said = Said::default();
        text.lines().for_each(|line| said.line(line));
        said.end()
    }

    #[test]
    fn what_the_guest_prints_is_counted() {
        let outcome = said(
            "noise\r\n@@ 6.1.0-56-cloud-amd64\r\n@ passed x a::b\r\n\
             @ skipped x a::c missing:perl: has none\r\n@ failed x a::d exit code 101\r\npanicked\r\n@@ end\r\n",
        );
        assert_eq!(outcome.tally(), "1 passed, 1 failed, 1 skipped");
        let skip = ("x: a::c".to_owned(), "missing:perl: has none".to_owned());
        assert_eq!(outcome.skipped[0], skip);
    }

    #[test]
    fn a_missing_end_is_a_failure() {
        assert_eq!(said("@@ 6.1.0\n@ passed x a\n@@ end\n").failed.len(), 0);
        assert_eq!(said("@@ 6.1.0\n@ passed x a\n").failed.len(), 1, "no end");
    }
}
