//! Report at the end of a run: refused calls, as rules that would allow them.

use netloom_guard::card::plain;
use netloom_policy::learn::Merged;

/// Of a frozen policy.
pub(super) const NOT_IN_POLICY: &str = "not in the policy, and refused";
/// By a policy whose default denies.
pub(super) const BY_DEFAULT: &str = "refused, since no rule is about it";
/// While somebody could have answered.
pub(super) const UNANSWERED: &str = "refused, since nobody answered";
/// Where nobody could be asked.
pub(super) const NOBODY_THERE: &str =
    "refused, since no rule is about it and nobody can be asked without a terminal";
/// Where another program had the terminal.
pub(super) const TAKEN: &str =
    "refused, since no rule is about it and another program has the terminal for itself";
/// Learned rules that could not be written.
pub(super) const NOT_WRITTEN: &str = "learned, and not written";

/// Most lines that are shown.
const LINES: usize = 40;
/// Most letters of a line: a rule may have thousands of destinations.
const LETTERS: usize = 1000;

/// The lines about requests, each kind of them once.
pub(super) fn refused(head: &str, requests: &Merged) -> String {
    let rules = requests.policy.rules.iter().map(|rule| format!("  allowed by: {rule}"));
    let others = requests.left_out.iter().map(|request| {
        let (program, target) = (&request.program.path, &request.target);
        let words = format!("{program} {} {target}", request.direction.name());
        format!("  by no rule that names it alone: {}", plain(&words))
    });
    let mut text = format!("netloom: guard: {head}:\n");
    for line in rules.chain(others).take(LINES) {
        text += &cut(&line);
        text.push('\n');
    }
    let all = requests.policy.rules.len() + requests.left_out.len();
    if all > LINES {
        text += &format!("  and {} more; --log FILE has all\n", all - LINES);
    }
    text
}

fn cut(line: &str) -> String {
    let mut short: String = line.chars().take(LETTERS).collect();
    if short.len() < line.len() {
        short += "… (too long to be shown)";
    }
    short
}

#[cfg(test)]
mod tests {
    use netloom_policy::learn::Learned;
    use netloom_policy::{Direction, Policy, Program, Protocol, Request, Target};

    use super::*;

    fn merged(programs: usize, ports: u16) -> Merged {
        let mut learned = Learned::new(false);
        for program in 0..programs {
            for port in 1..=ports {
                let address = std::net::Ipv4Addr::LOCALHOST.into();
                learned.add(&Request {
                    program: Program { path: format!("/bin/{program:03}"), sha256: None },
                    direction: Direction::Out,
                    protocol: Protocol::Tcp,
                    target: Target::ip(Direction::Out, address, 2 * port, vec![]),
                });
            }
        }
        learned.merge(&Policy::nothing())
    }

    #[test]
    fn what_was_refused_is_told_once_and_in_few_lines() {
        let text = refused(BY_DEFAULT, &merged(1, 2));
        assert_eq!(
            text,
            "netloom: guard: refused, since no rule is about it:\n  \
             allowed by: {allow: out, program: /bin/000, to: 127.0.0.1, port: [2, 4], protocol: tcp}\n"
        );
        let text = refused(NOT_IN_POLICY, &merged(LINES + 2, 1));
        assert!(text.ends_with("\n  and 2 more; --log FILE has all\n"), "{text}");
        assert_eq!(text.lines().count(), LINES + 2);
    }

    #[test]
    fn a_long_rule_is_cut() {
        let text = refused(BY_DEFAULT, &merged(1, 5000));
        assert!(text.len() < LETTERS + 200 && text.contains("… (too long"), "{}", text.len());
    }
}
