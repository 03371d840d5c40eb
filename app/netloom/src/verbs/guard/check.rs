//! `guard check` and `guard diff`: what policies say, without a program.

use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::Timestamp;
use netloom_policy::compare::compare;
use netloom_policy::{Action, Policy, Program, Target, Verdict, words};
use netloom_sys::seccomp::Sight;

use super::file::PolicyFile;
use crate::flags::{GuardCheck, GuardDiff};
use crate::output;

/// Addresses that would change a verdict and are shown.
const SHOWN: usize = 10;

/// `netloom guard check`
pub(super) fn check(args: &GuardCheck) -> Result<i32> {
    let policy = match read(&args.policy) {
        Ok(policy) => policy,
        Err(error) => return wrong(&error),
    };
    let Some((program, request)) = args.request.split_first() else {
        let rules = output::count(policy.rules.len(), "rule");
        let shown = args.policy.display();
        output::print(&format!("{shown}: good: {rules}, otherwise {}\n", policy.default))?;
        return Ok(0);
    };
    let program = program_of(program, &policy);
    let path = program.path.clone();
    let mut asked = words::request(program, request).map_err(crate::Usage)?;
    // As when a program starts here; rules are shown as they are written.
    let sight = Sight::here()?;
    let judge = policy.clone().followed(|path| sight.follow(path));
    if let Target::Path(path) = &mut asked.request.target
        && let Some(followed) = sight.follow(path)
    {
        *path = followed;
    }
    let now = Timestamp::now();
    let verdict = judge.decide(&asked.request, now);
    let mut text = format!("{path}: {}\n", because(&policy, verdict));
    if asked.without_address {
        let others = words::by_address(&judge, &asked.request, now);
        for (net, verdict) in others.iter().take(SHOWN) {
            text += &format!("  at an address in {net}: {}\n", because(&policy, *verdict));
        }
        if others.len() > SHOWN {
            text += &format!("  and {} more prefixes\n", others.len() - SHOWN);
        }
    }
    let mut passes = verdict.action.passes();
    if let Some(from) = asked.from.filter(|_| passes) {
        let peers = judge.peers(&asked.request, now);
        passes = peers.as_ref().is_none_or(|peers| peers.contains(from));
        let who = peers.map_or("anybody".to_owned(), |peers| match peers.nets() {
            [] => "nobody".to_owned(),
            _ => peers.to_string(),
        });
        let is = if passes { "let in" } else { "kept out" };
        text += &format!("  from {from}: {is}, since {who} may come\n");
    }
    output::print(&text)?;
    Ok(i32::from(!passes))
}

/// `netloom guard diff`
pub(super) fn diff(args: &GuardDiff) -> Result<i32> {
    let (old, new) = match (read(&args.old), read(&args.new)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => return wrong(&error),
        (Err(one), Err(other)) => {
            wrong(&one)?;
            return wrong(&other);
        }
    };
    let changes = compare(&old, &new);
    let lines: String = changes.iter().map(|change| format!("{change}\n")).collect();
    output::print(&lines)?;
    Ok(i32::from(!changes.is_empty()))
}

fn read(path: &Path) -> Result<Policy> {
    Ok(PolicyFile::read(path)?.policy.unwrap_or_default())
}

/// Errors of a policy are what was asked for: they go to standard output.
fn wrong(error: &anyhow::Error) -> Result<i32> {
    match error.downcast_ref::<netloom_config::Diagnostics>() {
        Some(diagnostics) => output::print(&format!("{diagnostics}\n"))?,
        None => tell_line!("netloom: {}", netloom_sys::describe(&**error)),
    }
    Ok(2)
}

fn because(policy: &Policy, verdict: Verdict) -> String {
    let errno = match verdict.action {
        Action::Deny(errno) => format!(" ({})", errno.name()),
        _ => String::new(),
    };
    match verdict.rule.and_then(|at| policy.rules.get(at)) {
        Some(rule) => format!("{}{errno}, by {rule}", verdict.action),
        None => format!("{}{errno}, by default", verdict.action),
    }
}

/// The program of a path, or of a name as a shell finds it; its content where a rule names one.
fn program_of(name: &str, policy: &Policy) -> Program {
    let path = found(name).unwrap_or_else(|| PathBuf::from(name));
    let wanted = policy.rules.iter().any(|rule| rule.program.sha256.is_some());
    let sha256 = if wanted { netloom_guard::digest::of_file(&path) } else { None };
    Program { path: path.to_string_lossy().into_owned(), sha256 }
}

/// The executable file that would run, without symbolic links, as the kernel names it.
fn found(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return std::fs::canonicalize(name).ok();
    }
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find_map(|file| std::fs::canonicalize(file).ok().filter(|file| file.is_file()))
}
