//! `guard -- COMMAND`: policy, log and terminal are made ready, the program runs, and what was answered or learned
//! is written down.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use netloom_guard::{Ask, Deputy, Desk, Gate, Guarded, Log, Options, Rules, terminal};
use netloom_node::entry::{self, Entered, Entry, Task};
use netloom_policy::learn::Learned;
use netloom_policy::{Action, Errno, Policy, Rule};
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::seccomp::{self, launch::Place};

use super::file::{self, PolicyFile};
use super::refusals;
use crate::flags::{Guard, GuardDefault};
use crate::{labs, output};

/// Exit code of a frozen policy that did not know something.
const NOT_IN_POLICY: i32 = 4;

/// The policy to follow, and the files that are written at the end.
struct Policies {
    policy: Policy,
    /// Where answers go; `None` if there is no place for them.
    answers: Option<PolicyFile>,
    learned: Option<PolicyFile>,
}

/// `netloom guard`
pub(super) fn run(lab: Option<&str>, args: &Guard) -> Result<i32> {
    // A policy or a log that cannot be opened is told before the program runs.
    let policies = policies(args)?;
    let append =
        |path: &PathBuf| Log::append(path).with_context(|| format!("{}: open", path.display()));
    let log = args.log.as_ref().map(append).transpose()?;
    let done = follow(lab, args, &policies, log);
    if let (Err(_), Some(file)) = (&done, &policies.learned) {
        file.forget();
    }
    done
}

/// Runs the program, and writes down what came of it.
fn follow(lab: Option<&str>, args: &Guard, policies: &Policies, log: Option<Log>) -> Result<i32> {
    let asks = !args.frozen && args.learn.is_none() && policies.policy.asks();
    let tty = asks.then(terminal);
    let taken = matches!(&tty, Some(Err(e)) if e.kind() == std::io::ErrorKind::ResourceBusy);
    let tty = tty.and_then(Result::ok);
    note(&policies.policy, args, taken);
    let desk = Desk::new().context("guard: make a desk for questions")?;
    let ask = tty.is_some().then(|| Box::new(Arc::clone(&desk)) as Box<dyn Ask>);
    let name = args.command.first().map_or("", String::as_str);
    let sealed = sealed(policies, args, tty.is_some());
    let there = match (&tty, taken) {
        (Some(_), _) => There::Somebody,
        (None, true) => There::Taken,
        (None, false) => There::Nobody,
    };
    let entry = args.node.as_deref().map(|node| entry_of(lab, node)).transpose()?;
    let gate = Gate::here(policies.policy.limits_peers());
    let (guarded, deputy) = Guarded::prepare(name, tty, place(entry.is_some())?, sealed, gate)?;
    let mut guarded = start(entry.as_ref(), args, guarded, deputy)?;
    let (supervisor, is_sealed) = guarded.started()?;
    if !is_sealed && !rustix::process::geteuid().is_root() && std::io::stderr().is_terminal() {
        let what = "the program may write the policy's file, for later runs: nothing seals it here";
        output::notes(&[what.to_owned()]);
    }
    let learn = policies.learned.as_ref().map(|_| Learned::new(args.hash));
    let options = Options { ask, learn, frozen: args.frozen, log };
    let rules = Arc::new(Rules::new(policies.policy.clone(), options));
    let judge = Arc::clone(&rules);
    let code = guarded.attend(supervisor, judge, desk, args.timeout.0)?;
    finish(policies, &rules, &Ran { code, frozen: args.frozen, there, is_sealed })
}

/// Whether somebody could be asked.
enum There {
    Somebody,
    Nobody,
    /// Another program has the terminal for itself.
    Taken,
}

/// A program that has ended.
struct Ran {
    code: i32,
    frozen: bool,
    there: There,
    /// The program could not write its policy.
    is_sealed: bool,
}

/// What the program may not write: policies and the log. A program in a node has other files.
fn sealed(policies: &Policies, args: &Guard, asks: bool) -> Vec<PathBuf> {
    if args.node.is_some() {
        return vec![];
    }
    let own = args.policy.is_none() && asks;
    let folder = || policies.answers.as_ref()?.path().parent().map(Path::to_owned);
    let folder = own.then(folder).flatten();
    if let Some(folder) = &folder {
        // Else the program could make it. If it cannot be made, answers are shown at the end.
        let _ = std::fs::create_dir_all(folder);
    }
    let given = [&args.policy, &args.learn, &args.log].into_iter().flatten().cloned();
    let all = given.chain(folder);
    all.filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}

/// Reads what there is; nothing starts if any of it has an error.
fn policies(args: &Guard) -> Result<Policies> {
    let learned = args.learn.as_deref().map(PolicyFile::to_learn).transpose()?;
    let answers = match (&args.policy, &learned) {
        (Some(path), _) => Some(PolicyFile::read(path)?),
        (None, Some(_)) => None,
        (None, None) => {
            let own = file::of_user();
            own.map(|(path, variable)| PolicyFile::of_user(&path, variable)).transpose()?
        }
    };
    let given = answers.as_ref().or(learned.as_ref()).and_then(|file| file.policy.clone());
    let mut policy = given.unwrap_or_default();
    match args.default {
        Some(GuardDefault::Allow) => policy.unanswered = Action::Allow,
        Some(GuardDefault::Deny) => policy.unanswered = Action::Deny(Errno::default()),
        None => {}
    }
    Ok(Policies { policy, answers, learned })
}

/// The way into a node.
fn entry_of(lab: Option<&str>, node: &str) -> Result<Entry> {
    let entry = labs::connect(lab)?.entry(node)?;
    entry.check_entry()?;
    Ok(entry)
}

/// A user namespace of the program's own, where the kernel allows it: then the supervisor sees its memory even if
/// the program forbids that. Root needs none, nor does the user that made the program's node.
fn place(in_node: bool) -> Result<Place> {
    let probed = seccomp::probe::supported()?;
    let root = rustix::process::geteuid().is_root();
    Ok(Place { own_user: probed.own_user && !root && !in_node, ..Place::default() })
}

/// Tells a person, never a program that reads standard error, what guard cannot do.
fn note(policy: &Policy, args: &Guard, taken: bool) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut notes = vec![];
    if rustix::process::geteuid().is_root() {
        notes.push(
            "the program runs as root: it has root's rights, and could undo the guard".to_owned(),
        );
    }
    if taken {
        notes.push(
            "nobody is asked: another program has the terminal for itself, as `netloom guard` does where user namespaces \
             are not allowed"
                .to_owned(),
        );
    }
    if args.log.is_none() && policy.rules.iter().any(|rule| rule.action == Action::Log) {
        notes.push("the policy has rules `log`, but there is no --log FILE".to_owned());
    }
    output::notes(&notes);
}

/// Forks the deputy, here or in a node, which starts the program.
fn start(entry: Option<&Entry>, args: &Guard, guarded: Guarded, deputy: Deputy) -> Result<Guarded> {
    let command = match entry {
        None => match process::fork_alone(Namespaces::NONE, None)? {
            Forked::Parent(_) => return Ok(guarded),
            Forked::Child => {
                drop(guarded);
                command(&args.command)
            }
        },
        Some(entry) => {
            let task = Task { argv: args.command.clone(), own_group: false, keep_root: false };
            match entry::fork_into(entry, &task, &deputy.kept()) {
                Ok(Entered::Caller) => return Ok(guarded),
                Ok(Entered::Inside(command)) => {
                    // Its descriptors are closed there already.
                    std::mem::forget(guarded);
                    command
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    deputy.run(command)
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1));
    command
}

/// Writes down what was answered or learned, and tells what was refused; the exit code.
fn finish(policies: &Policies, rules: &Rules, ran: &Ran) -> Result<i32> {
    let answers = rules.answers();
    if !answers.is_empty() {
        remember(policies.answers.as_ref(), &answers);
    }
    if let Some(file) = &policies.learned {
        learned(file, rules, ran.is_sealed)?;
    }
    if let Some((lines, why)) = rules.unlogged() {
        let lines = output::count(usize::try_from(lines).unwrap_or(usize::MAX), "decision");
        tell_line!("netloom: guard: {lines} not in the log: {why}");
    }
    let missing = rules.missing();
    if let Some(missing) = &missing {
        let head = if ran.frozen { refusals::NOT_IN_POLICY } else { refusals::BY_DEFAULT };
        tell!("{}", refusals::refused(head, missing));
    }
    if let Some(unanswered) = rules.unanswered() {
        let head = match ran.there {
            There::Somebody => refusals::UNANSWERED,
            There::Nobody => refusals::NOBODY_THERE,
            There::Taken => refusals::TAKEN,
        };
        tell!("{}", refusals::refused(head, &unanswered));
    }
    Ok(if ran.frozen && missing.is_some() { NOT_IN_POLICY } else { ran.code })
}

/// Answers that cannot be written are shown, so that they are not lost.
fn remember(file: Option<&PolicyFile>, answers: &[Rule]) {
    let written = match file {
        Some(file) => file.add(answers).map(|()| file.path()),
        None => Err(anyhow::anyhow!("there is no XDG_CONFIG_HOME and no HOME for a policy")),
    };
    match written {
        Ok(path) => {
            let rules = output::count(answers.len(), "rule");
            tell_line!("netloom: guard: {rules} remembered in {}", path.display());
        }
        Err(error) => {
            let why = netloom_sys::describe(&*error);
            tell_line!("netloom: guard: answers are not remembered: {why}");
            answers.iter().for_each(|rule| tell_line!("  {rule}"));
        }
    }
}

/// Learned rules are merged with the file's present ones. If they cannot be written, they are shown.
fn learned(file: &PolicyFile, rules: &Rules, is_sealed: bool) -> Result<()> {
    let merge = |base: &Policy| rules.learned(base);
    let written = file.change(is_sealed, |now| {
        merge(now).map_or_else(|| (now.clone(), vec![]), |merged| (merged.policy, merged.left_out))
    });
    let left_out = match written {
        Ok(left_out) => left_out.len(),
        Err(error) => {
            if let Some(all) = merge(&Policy::nothing()) {
                tell!("{}", refusals::refused(refusals::NOT_WRITTEN, &all));
            }
            return Err(error);
        }
    };
    let lost = usize::try_from(rules.lost()).unwrap_or(usize::MAX);
    let left_out = left_out.saturating_add(lost);
    if left_out > 0 {
        let what = output::count(left_out, "request");
        tell_line!(
            "netloom: guard: {}: {what} left out, that no rule can name",
            file.path().display()
        );
    }
    Ok(())
}
