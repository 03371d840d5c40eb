//! What `why` said, compared with what was planted.

use serde_json::Value;

use super::list::{Fault, Named};
use super::plant::Answers;
use crate::test::user::User;

/// What came of one fault as one user.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) fault: Fault,
    pub(super) user: User,
    pub(super) result: Result<Scored, String>,
    /// Whether it was not planted, since something is missing.
    pub(super) skipped: bool,
}

/// An answer, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scored {
    /// In short.
    pub(super) answered: String,
    pub(super) place: bool,
    pub(super) cause: bool,
    /// Causes that were not planted.
    pub(super) wrong: usize,
    pub(super) millis: u128,
}

impl Row {
    pub(super) fn skipped(fault: &Fault, user: User, why: String) -> Row {
        Row { fault: fault.clone(), user, result: Err(why), skipped: true }
    }

    pub(super) fn failed(fault: &Fault, user: User, why: String) -> Row {
        Row { fault: fault.clone(), user, result: Err(why), skipped: false }
    }
}

pub(super) fn row(fault: &Fault, user: User, answers: &Answers) -> Row {
    let scored = score(fault, &answers.report, &answers.sound, answers.took.as_millis());
    Row { fault: fault.clone(), user, result: Ok(scored), skipped: false }
}

fn score(fault: &Fault, report: &Value, sound: &[Value], millis: u128) -> Scored {
    let told = all_of(report);
    let is_it = |told: &Named| fault.causes.iter().any(|wanted| same(wanted, told));
    let is_true = |told: &Named| is_it(told) || fault.also.iter().any(|also| same(also, told));
    let wrong = told.iter().filter(|told| !is_true(told)).count();
    // What is said of a flow that does not suffer is wrong, whatever it is.
    let of_sound = sound.iter().map(|report| {
        let causes = report["causes"].as_array().map_or(0, Vec::len);
        causes + usize::from(!arrives(report))
    });
    let (place, cause) = match fault.causes.is_empty() {
        true => (arrives(report), arrives(report) && told.is_empty()),
        false => (
            told.iter().any(|told| fault.causes.iter().any(|wanted| wanted.place == told.place))
                || told.is_empty()
                    && fault.causes.iter().any(|wanted| located(report, &wanted.place)),
            told.iter().any(is_it),
        ),
    };
    Scored {
        answered: words(report, &told),
        place,
        cause,
        wrong: wrong + of_sound.sum::<usize>(),
        millis,
    }
}

fn arrives(report: &Value) -> bool {
    report["verdict"] == "answered" || report["verdict"] == "delivered"
}

/// Causes and hindrances.
fn all_of(report: &Value) -> Vec<Named> {
    let of = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = [of("causes"), of("hindrances")].concat();
    all.iter().map(|c| Named { cause: text(&c["name"]), place: text(&c["place"]) }).collect()
}

/// A place may be given as `link *`, where the fault is of a link whose name the lab chooses.
fn same(wanted: &Named, told: &Named) -> bool {
    wanted.cause == told.cause && wanted.place == told.place
}

/// Whether an answer without a cause says at least where: the last place that saw the probe, or the first that did not.
fn located(report: &Value, place: &str) -> bool {
    let Some((kind, name)) = place.split_once(' ') else { return false };
    ["there", "back"].iter().any(|way| {
        let last = report[way]["last"].as_str().unwrap_or_default();
        let lost = report[way]["lost"].as_str().unwrap_or_default();
        if lost.is_empty() {
            return false;
        }
        let at = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
        match kind {
            "node" => [last, lost].iter().any(|seen| at(seen).split(':').next() == Some(name)),
            "switch" => [last, lost].iter().any(|seen| at(seen).split('/').next() == Some(name)),
            _ => {
                let ends = |seen: &str| {
                    let seen = at(seen);
                    let seen = seen.rsplit('/').next().unwrap_or_default().to_owned();
                    name.split("--").any(|end| end == seen)
                };
                ends(last) && ends(lost)
            }
        }
    })
}

fn words(report: &Value, told: &[Named]) -> String {
    if told.is_empty() {
        if arrives(report) {
            return "arrives".into();
        }
        let missing = report["missing"][0].as_str().unwrap_or_default();
        return format!("not known: {}", missing.split(", and no table").next().unwrap_or(missing));
    }
    let one = |told: &Named| format!("{} at {}", told.cause, told.place);
    told.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fault(causes: &[(&str, &str)]) -> Fault {
        let named = |(cause, place): &(&str, &str)| Named {
            cause: (*cause).into(),
            place: (*place).into(),
        };
        Fault { causes: causes.iter().map(named).collect(), ..Fault::default() }
    }

    #[test]
    fn places_causes_and_wrong_causes_are_counted() {
        let report = json!({"verdict": "stopped", "causes": [
            {"name": "no_route", "place": "node r1"}, {"name": "nft_drop", "place": "node r2"}]});
        let found = score(&fault(&[("no_route", "node r1")]), &report, &[], 7);
        assert!(found.place && found.cause);
        assert_eq!((found.wrong, found.millis), (1, 7));
        let found = score(&fault(&[("ttl_ended", "node r1")]), &report, &[], 0);
        assert!(found.place && !found.cause);
        assert_eq!(found.wrong, 2);
        let found = score(&fault(&[]), &report, &[], 0);
        assert!(!found.place && !found.cause);
        let sound = json!({"verdict": "answered", "causes": []});
        let found = score(&fault(&[]), &sound, &[report], 0);
        assert!(found.place && found.cause);
        assert_eq!(found.wrong, 3, "two causes of a flow that arrives, which is said not to");
    }

    #[test]
    fn an_answer_without_a_cause_may_say_where() {
        let report = json!({"verdict": "not_known", "causes": [], "missing": ["lost"],
            "there": {"last": "r1:eth1 out", "lost": "r2:eth0 in"}});
        for (place, right) in [
            ("node r1", true),
            ("node r2", true),
            ("node web", false),
            ("link r1:eth1--r2:eth0", true),
            ("link r1:eth1--r3:eth0", false),
            ("switch r1", false),
        ] {
            let found = score(&fault(&[("x", place)]), &report, &[], 0);
            assert_eq!(found.place, right, "{place}");
            assert!(!found.cause && found.wrong == 0);
        }
    }
}
