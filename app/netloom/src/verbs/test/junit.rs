//! Results as JUnit XML, as programs for continuous integration read it: a suite a lab, a case a step.

use netloom_config::printable;

use super::report::{Report, Step};

/// The whole document.
pub(crate) fn text(reports: &[Report]) -> String {
    let all: Vec<Suite<'_>> = reports.iter().map(Suite::of).collect();
    let sum = |of: fn(&Suite<'_>) -> usize| all.iter().map(of).sum::<usize>();
    let ms: u64 = all.iter().map(|suite| suite.ms).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml += &format!(
        "<testsuites name=\"netloom\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\">\n",
        sum(|s| s.tests),
        sum(|s| s.failures),
        sum(|s| s.errors),
        sum(|s| s.skipped),
        seconds(ms)
    );
    all.iter().for_each(|suite| xml += &suite.text());
    xml + "</testsuites>\n"
}

/// A lab with its numbers.
struct Suite<'r> {
    report: &'r Report,
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
    ms: u64,
}

impl Suite<'_> {
    fn of(report: &Report) -> Suite<'_> {
        let errors = usize::from(report.error.is_some());
        Suite {
            report,
            tests: report.steps.len() + report.left_out.len() + errors,
            failures: report.steps.iter().filter(|step| !step.holds).count(),
            errors,
            skipped: report.left_out.len(),
            ms: report.steps.iter().map(|step| step.ms).sum(),
        }
    }

    fn text(&self) -> String {
        let Suite { report, tests, failures, errors, skipped, ms } = self;
        let (lab, file) = (escaped(&report.lab), escaped(&report.file));
        let time = seconds(*ms);
        let mut xml = format!(
            "  <testsuite name=\"{lab}\" file=\"{file}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" \
             skipped=\"{skipped}\" time=\"{time}\">\n"
        );
        for step in &report.steps {
            xml += &case(&lab, step);
        }
        for name in &report.left_out {
            let name = escaped(name);
            xml += &format!(
                "    <testcase classname=\"{lab}\" name=\"{name}\" time=\"0.000\">\n      <skipped/>\n    </testcase>\n"
            );
        }
        if let Some(error) = &report.error {
            let error = escaped(error);
            xml += &format!(
                "    <testcase classname=\"{lab}\" name=\"is tested to the end\" time=\"0.000\">\n      \
                 <error message=\"{error}\"/>\n    </testcase>\n"
            );
        }
        if let Some(logs) = &report.logs {
            xml += &format!("    <system-out>{}</system-out>\n", escaped(logs));
        }
        xml + "  </testsuite>\n"
    }
}

fn case(lab: &str, step: &Step) -> String {
    let (name, time) = (escaped(&step.name), seconds(step.ms));
    let head = format!("    <testcase classname=\"{lab}\" name=\"{name}\" time=\"{time}\"");
    if step.holds {
        return head + "/>\n";
    }
    let (expected, seen) = (escaped(&step.expected), escaped(&step.seen));
    format!(
        "{head}>\n      <failure message=\"{seen}\">expected: {expected}\nseen: {seen}</failure>\n    </testcase>\n"
    )
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn seconds(ms: u64) -> String {
    format!("{:.3}", ms as f64 / 1000.0)
}

/// Text for an attribute or between tags, as it may be shown. Characters that XML 1.0 cannot have (section 2.2) become a
/// question mark.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in printable::lines(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            // An attribute's white space would become spaces.
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::report::samples::failed;
    use super::*;

    #[test]
    fn nothing_in_it_is_markup_but_what_is_meant() {
        let xml = text(&[failed()]);
        assert!(xml.contains("name=\"&lt;one&gt;\" time=\"1.250\">"), "{xml}");
        assert!(
            xml.contains("message=\"\\u{1}no answer &quot;]]&gt;&quot; &amp; &apos;none&apos;?\""),
            "{xml}"
        );
        assert!(xml.contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("<system-out>a | hello &lt;there&gt;</system-out>"), "{xml}");
    }

    #[test]
    fn every_character_is_one_that_xml_can_have() {
        let all: String = (0..=0x2_0000).filter_map(char::from_u32).collect();
        let out = escaped(&all);
        let fits = |c: char| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}' | '<' | '>' | '"');
        assert!(out.chars().all(fits));
    }
}
