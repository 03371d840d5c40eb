//! `guard -- COMMAND`: policy, log and terminal are made ready, the program runs, and what was answered or learned
//! is written down.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use netloom_guard::{Ask, Deputy, Desk, Guarded, Log, Options, Rules, terminal};
use netloom_node::entry::{self, Entered, Entry, Task};
use netloom_policy::learn::Learned;
use netloom_policy::{Action, Errno, Policy, Rule};
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_sys::seccomp::{self, launch::Place};

use super::file::{self, PolicyFile};
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
    let policies = policies(args)?;
    let append =
        |path: &PathBuf| Log::append(path).with_context(|| format!("{}: open", path.display()));
    let log = args.log.as_ref().map(append).transpose()?;
    let asks = !args.frozen && args.learn.is_none() && policies.policy.asks();
    let tty = if asks { terminal() } else { None };
    note(&policies.policy, args);
    let desk = Desk::new().context("guard: make a desk for questions")?;
    let ask = tty.is_some().then(|| Box::new(Arc::clone(&desk)) as Box<dyn Ask>);
    let name = args.command.first().map_or("", String::as_str);
    let sealed = sealed(&policies, args, tty.is_some());
    let entry = args.node.as_deref().map(|node| entry_of(lab, node)).transpose()?;
    let (guarded, deputy) = Guarded::prepare(name, tty, place(entry.is_some())?, sealed)?;
    let guarded = start(entry.as_ref(), args, guarded, deputy)?;
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
    finish(&policies, &rules, code)
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
    let learned = args.learn.as_deref().map(PolicyFile::read_if_there).transpose()?;
    let answers = match (&args.policy, &learned) {
        (Some(path), _) => Some(PolicyFile::read(path)?),
        (None, Some(_)) => None,
        (None, None) => file::of_user().map(|path| of_user(&path)).transpose()?,
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

fn of_user(path: &Path) -> Result<PolicyFile> {
    let file = PolicyFile::read_if_there(path)?;
    file.check_owner()?;
    Ok(file)
}

/// The way into a node.
fn entry_of(lab: Option<&str>, node: &str) -> Result<Entry> {
    let entry = labs::connect(lab)?.entry(node)?;
    entry.check_entry()?;
    Ok(entry)
}

/// A user namespace of the program's own, where the kernel allows it: then the supervisor sees its memory even if
/// the program forbids that. Root needs none, nor does who has made the node that the program is in.
fn place(in_node: bool) -> Result<Place> {
    let probed = seccomp::probe::supported()?;
    let root = rustix::process::geteuid().is_root();
    Ok(Place { own_user: probed.own_user && !root && !in_node, ..Place::default() })
}

/// Tells a person, never a program that reads standard error, what guard cannot do.
fn note(policy: &Policy, args: &Guard) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    let mut notes = vec![];
    if rustix::process::geteuid().is_root() {
        notes.push(
            "the program runs as root: it has root's rights, and could undo the guard".to_owned(),
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

/// Writes down what was answered or learned; the exit code.
fn finish(policies: &Policies, rules: &Rules, code: i32) -> Result<i32> {
    let answers = rules.answers();
    if !answers.is_empty() {
        remember(policies.answers.as_ref(), &answers);
    }
    if let Some(file) = &policies.learned {
        learned(file, rules)?;
    }
    let Some(missing) = rules.missing() else { return Ok(code) };
    let mut text = String::from("netloom: guard: not in the policy, and refused:\n");
    for rule in &missing.policy.rules {
        text += &format!("  allowed by: {rule}\n");
    }
    for request in &missing.left_out {
        let (program, target) = (&request.program.path, &request.target);
        let words = format!("{program} {} {target}", request.direction.name());
        text +=
            &format!("  by no rule that names it alone: {}\n", netloom_guard::card::plain(&words));
    }
    tell!("{text}");
    Ok(NOT_IN_POLICY)
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

fn learned(file: &PolicyFile, rules: &Rules) -> Result<()> {
    let denial = Action::Deny(Errno::default());
    let nothing = Policy { default: denial, unanswered: denial, rules: vec![] };
    let base = file.policy.clone().unwrap_or(nothing);
    let Some(merged) = rules.learned(&base) else { return Ok(()) };
    file.replace(&merged.policy)?;
    let lost = usize::try_from(rules.lost()).unwrap_or(usize::MAX);
    let left_out = merged.left_out.len().saturating_add(lost);
    if left_out > 0 {
        let what = output::count(left_out, "request");
        tell_line!(
            "netloom: guard: {}: {what} left out, that no rule can name",
            file.path().display()
        );
    }
    Ok(())
}
