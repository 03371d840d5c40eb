//! Ways in which a program runs: by itself, under guard, and under peers.

use std::process::Command;

use anyhow::Result;

use crate::driver::{Driver, output};

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// By itself.
    Plain,
    /// Under guard, by a policy of this many rules.
    Guard(u32),
    /// Under strace(1), which looks at one call and does nothing about it.
    Strace,
    /// In bubblewrap, with the machine's files and network.
    Bubblewrap,
    /// In firejail, without a profile.
    Firejail,
}

/// Rules of a policy as people have it.
pub(super) const FEW: u32 = 10;
/// Rules of a long policy.
pub(super) const MANY: u32 = 10_000;

impl Way {
    pub(super) fn title(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Guard(MANY) => "guard, 10,000 rules",
            Way::Guard(_) => "guard",
            Way::Strace => "strace",
            Way::Bubblewrap => "bubblewrap",
            Way::Firejail => "firejail",
        }
    }

    pub(super) fn settings(self) -> &'static str {
        match self {
            Way::Plain => "",
            Way::Guard(_) => "an allowed call, by a rule for 127.0.0.0/8",
            Way::Strace => "ptrace: -f --seccomp-bpf -e trace=connect -o /dev/null",
            Way::Bubblewrap => "bwrap --dev-bind / /: decides about no call",
            Way::Firejail => "firejail --quiet --noprofile: decides about no call",
        }
    }

    /// The program of a peer.
    fn program(self) -> Option<&'static str> {
        match self {
            Way::Plain | Way::Guard(_) => None,
            Way::Strace => Some("strace"),
            Way::Bubblewrap => Some("bwrap"),
            Way::Firejail => Some("firejail"),
        }
    }

    /// The version of its program; `None` if that is not installed.
    pub(super) fn version(self) -> Option<String> {
        let said = output(Command::new(self.program()?).arg("--version")).ok()?;
        said.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// Why it cannot be measured here; `None` if it can. A peer that is installed may still be refused what it needs.
    pub(super) fn missing(self, driver: &Driver) -> Option<String> {
        let program = self.program()?;
        if self.version().is_none() {
            return Some(format!("no {program}"));
        }
        let tried = self.command(driver, None, &["true"]).and_then(|mut c| output(&mut c));
        let refused = tried.err().map(|error| format!("{error:#}"))?;
        Some(refused.lines().last().unwrap_or("it does not run").to_owned())
    }

    /// A command that runs `words` this way, all of it on one core if that is given.
    pub(super) fn command(
        self,
        driver: &Driver,
        core: Option<usize>,
        words: &[&str],
    ) -> Result<Command> {
        let own = driver.own_text()?;
        let core = core.map(|core| core.to_string());
        let mut all: Vec<&str> = vec![];
        if let Some(core) = &core {
            all.extend([own, "peer", "on", core, "exec"]);
        }
        let rules = if let Way::Guard(rules) = self { rules.to_string() } else { String::new() };
        match self {
            Way::Plain => {}
            Way::Guard(_) => all.extend([own, "peer", "guarded", &rules]),
            Way::Strace => {
                all.extend(["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=connect"]);
                all.extend(["-o", "/dev/null"]);
            }
            Way::Bubblewrap => all.extend(["bwrap", "--dev-bind", "/", "/"]),
            Way::Firejail => all.extend(["firejail", "--quiet", "--noprofile"]),
        }
        all.extend(words);
        let mut command = Command::new(all[0]);
        command.args(&all[1..]);
        Ok(command)
    }

    /// What a small program prints this way.
    pub(super) fn peer(
        self,
        driver: &Driver,
        core: Option<usize>,
        words: &[&str],
    ) -> Result<String> {
        let own = driver.own_text()?;
        let words = [&[own, "peer"], words].concat();
        output(&mut self.command(driver, core, &words)?)
    }
}
