//! `guarded RULES PROGRAM ARGUMENT...`: runs a program under guard, by a policy of that many rules which allows what
//! programs here do. Its exit code is the program's.
//!
//! A few rules allow; the others are about single addresses that nobody asks for.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};
use netloom_guard::{Options, Rules, start};
use netloom_policy::{Policy, read};
use netloom_sys::seccomp::launch::Place;

/// Rules that allow what programs of experiments do.
const ALLOWING: [&str; 3] = [
    "{allow: out, to: 127.0.0.0/8}",
    "{allow: in, to: 127.0.0.0/8}",
    "{allow: open, protocol: netlink}",
];

pub(super) fn guarded(rules: u32, words: &[&str]) -> Result<()> {
    let [program, arguments @ ..] = words else { bail!("peer guarded: no program") };
    let rules = Rules::new(policy(rules)?, Options::default());
    let mut command = Command::new(program);
    command.args(arguments);
    let place = Place { own_user: own_user(), ..Place::default() };
    let (mut child, supervisor) = start(command, place).context("start under guard")?;
    supervisor.serve(&rules).context("guard")?;
    let status = child.wait().context("wait for the program")?;
    if !status.success() {
        bail!("{program}: {status}");
    }
    Ok(())
}

/// Whether this user may make a user namespace.
fn own_user() -> bool {
    netloom_sys::feature::in_child(netloom_sys::feature::enter_own_user_namespace).is_ok()
}

fn policy(rules: u32) -> Result<Policy> {
    let mut text = "default: deny\nrules:\n".to_owned();
    for rule in ALLOWING {
        let _ = writeln!(text, "  - {rule}");
    }
    for number in 0..rules.saturating_sub(3) {
        let address = std::net::Ipv4Addr::from(0x0A00_0000 + number);
        let _ = writeln!(text, "  - {{allow: out, to: {address}, port: 443, protocol: tcp}}");
    }
    read("policy", text.as_bytes()).map_err(|errors| anyhow::anyhow!("{errors}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_as_many_rules_as_asked() {
        for count in [3, 10, 10_000] {
            assert_eq!(policy(count).unwrap().rules.len(), count as usize);
        }
    }
}
