//! What a tested lab reports, and how it is shown.

use netloom_config::printable;
use serde::{Deserialize, Serialize};

use super::files::TestedLab;
use crate::output::count;

/// A line of a lab's own process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Line {
    /// A step is done.
    Step(Step),
    /// The lab could not be tested, or not to the end: why, and the output of its programs.
    Error {
        /// Why.
        reason: String,
    },
    /// The last lines of its programs' output, where something was not as expected.
    Logs(String),
}

/// A step that is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: String,
    /// Whether it holds, or was done.
    pub(crate) holds: bool,
    /// The expectation, in words.
    pub(crate) expected: String,
    /// The observation, in words.
    pub(crate) seen: String,
    /// How long it took.
    pub(crate) ms: u64,
}

/// All about a tested lab.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Its file.
    pub(crate) file: String,
    /// Its name in the file.
    pub(crate) lab: String,
    /// Its name while it was tested.
    pub(crate) name: String,
    /// Whether everything was as expected.
    pub(crate) passed: bool,
    /// Why it could not be tested, or not to the end.
    pub(crate) error: Option<String>,
    /// The steps that were done.
    pub(crate) steps: Vec<Step>,
    /// Names of steps that were not come to.
    pub(crate) left_out: Vec<String>,
    /// The last lines of its programs' output, where something was not as expected.
    pub(crate) logs: Option<String>,
    /// The exit code of its process, once that has ended.
    #[serde(skip)]
    code: Option<i32>,
}

impl Report {
    /// Of a lab that has not begun.
    pub(crate) fn new(asked: &TestedLab) -> Report {
        Report {
            file: asked.file.display().to_string(),
            lab: asked.lab.clone(),
            name: asked.name.clone(),
            passed: false,
            error: None,
            steps: vec![],
            left_out: asked.steps.clone(),
            logs: None,
            code: None,
        }
    }

    /// Takes a line.
    pub(crate) fn take(&mut self, line: Line) {
        match line {
            Line::Step(step) => {
                // The first is that the lab comes up.
                if !self.steps.is_empty() && !self.left_out.is_empty() {
                    self.left_out.remove(0);
                }
                self.steps.push(step);
            }
            Line::Error { reason } => self.error = Some(reason),
            Line::Logs(text) => self.logs = Some(text),
        }
    }

    /// Its process has ended.
    pub(crate) fn end(&mut self, code: i32) {
        self.code = Some(code);
        if code != 0 && self.error.is_none() && self.steps.iter().all(|step| step.holds) {
            self.error = Some(format!("its tester ended with exit code {code}"));
        }
        self.passed = code == 0
            && self.error.is_none()
            && self.left_out.is_empty()
            && self.steps.iter().all(|step| step.holds);
    }

    /// Whether its process has not been started.
    pub(crate) fn is_open(&self) -> bool {
        self.code.is_none()
    }

    /// It is not tested, because this process was told to end.
    pub(crate) fn leave_out(&mut self) {
        self.error = Some("interrupted before it began".into());
        self.code = Some(1);
    }

    /// The block of a lab.
    pub(crate) fn text(&self) -> String {
        let mut text = self.head();
        self.steps.iter().for_each(|step| text += &step.text());
        text + &self.tail()
    }

    /// The first line of a lab's block.
    fn head(&self) -> String {
        format!("lab {} ({})\n", self.lab, printable::line(&self.file))
    }

    fn tail(&self) -> String {
        let mut text = String::new();
        if let Some(error) = &self.error {
            text += &format!("  ERROR {}\n", printable::lines(error).replace('\n', "\n        "));
        }
        for name in &self.left_out {
            text += &format!("  -     {}: not come to\n", printable::line(name));
        }
        if let Some(logs) = &self.logs {
            text += "  last lines of its programs:\n";
            let logs = printable::lines(logs);
            logs.lines().for_each(|line| text += &format!("    {line}\n"));
        }
        text
    }
}

impl Line {
    /// Its text when only one lab is tested.
    pub(crate) fn text(&self, report: &Report) -> String {
        let head = if report.steps.is_empty() { report.head() } else { String::new() };
        match self {
            Line::Step(step) => head + &step.text(),
            Line::Error { .. } | Line::Logs(_) => String::new(),
        }
    }
}

impl Step {
    fn text(&self) -> String {
        let word = if self.holds { "ok  " } else { "FAIL" };
        let expected = if self.name == self.expected {
            String::new()
        } else {
            format!(" (expected: {})", printable::line(&self.expected))
        };
        #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
        let seconds = self.ms as f64 / 1000.0;
        let seen = printable::lines(&self.seen).replace('\n', "\n          ");
        let name = printable::line(&self.name);
        format!("  {word}  {name}{expected}: {seen} ({seconds:.1} s)\n")
    }
}

/// The lines below all labs.
pub(crate) fn summary(reports: &[Report]) -> String {
    let mut text = String::new();
    if let [one] = reports {
        if one.steps.is_empty() {
            text += &one.head();
        }
        text += &one.tail();
        let holding = one.steps.iter().filter(|step| step.holds).count();
        let all = one.steps.len() + one.left_out.len();
        return text + &format!("{holding} of {}\n", count(all, "step"));
    }
    let passed = reports.iter().filter(|report| report.passed).count();
    text += &format!("{passed} of {} passed\n", count(reports.len(), "lab"));
    for report in reports.iter().filter(|report| !report.passed) {
        text += &format!("failed: {} ({})\n", report.lab, printable::line(&report.file));
    }
    text
}

/// The exit code: 3 if nothing went wrong but that labs are not supported here.
pub(crate) fn code(reports: &[Report]) -> i32 {
    let failed: Vec<i32> =
        reports.iter().filter(|report| !report.passed).map(|r| r.code.unwrap_or(1)).collect();
    match failed.as_slice() {
        [] => 0,
        codes if codes.iter().all(|code| *code == 3) => 3,
        _ => 1,
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// A lab of which the second step does not hold, and the third was not come to.
    pub(crate) fn failed() -> Report {
        let asked = TestedLab {
            file: "a&b.yaml".into(),
            lab: "talk".into(),
            name: "talk-test-1-0".into(),
            steps: vec!["<one>".into(), "two".into()],
            memory: 0,
        };
        let mut report = Report::new(&asked);
        let step = |name: &str, holds, seen: &str| {
            let (name, seen) = (name.to_owned(), seen.to_owned());
            Line::Step(Step { expected: name.clone(), name, holds, seen, ms: 1250 })
        };
        report.take(step("comes up", true, "2 nodes"));
        report.take(step("<one>", false, "\u{1}no answer \"]]>\" & 'none'\u{fffe}"));
        report.take(Line::Error { reason: "interrupted".into() });
        report.take(Line::Logs("a | hello <there>".into()));
        report.end(1);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::samples::failed;
    use super::*;

    #[test]
    fn a_block_says_what_holds_and_what_was_seen() {
        let report = failed();
        assert!(!report.passed);
        assert_eq!(report.left_out, ["two"]);
        let text = report.text();
        assert!(
            text.starts_with("lab talk (a&b.yaml)\n  ok    comes up: 2 nodes (1.2 s)\n"),
            "{text}"
        );
        assert!(text.contains("\n  FAIL  <one>: \\u{1}no answer"), "{text}");
        assert!(text.contains("\n  ERROR interrupted\n  -     two: not come to\n"), "{text}");
        assert!(summary(&[failed(), failed()]).starts_with("0 of 2 labs passed\nfailed: talk"));
        assert!(summary(&[failed()]).ends_with("1 of 3 steps\n"));
    }

    #[test]
    fn names_stay_on_their_line() {
        let asked = TestedLab {
            file: "x\n  ok    all: holds\u{202e}.yaml".into(),
            lab: "talk".into(),
            name: "talk-test-1-0".into(),
            steps: vec!["two\u{1b}[1A".into()],
            memory: 0,
        };
        let mut report = Report::new(&asked);
        let name = "one\n  ok    two".to_owned();
        let (expected, seen) = (name.clone(), "no\r  ok    one".to_owned());
        report.take(Line::Step(Step { name, holds: false, expected, seen, ms: 0 }));
        report.take(Line::Logs("a | \u{1b}]0;x\u{7}\nb | y\n".into()));
        assert_eq!(
            report.text(),
            "lab talk (x\\n  ok    all: holds\\u{202e}.yaml)\n  \
             FAIL  one\\n  ok    two: no\\r  ok    one (0.0 s)\n  \
             -     two\\u{1b}[1A: not come to\n  last lines of its programs:\n    \
             a | \\u{1b}]0;x\\u{7}\n    b | y\n"
        );
    }

    #[test]
    fn only_what_is_not_supported_has_a_code_of_its_own() {
        let ended = |code| {
            let mut report = failed();
            report.end(code);
            report
        };
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[ended(3), ended(3)]), 3);
        assert_eq!(code(&[ended(3), ended(1)]), 1);
        assert_eq!(code(&[ended(137)]), 1);
    }
}
