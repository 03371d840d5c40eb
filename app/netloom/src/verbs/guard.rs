//! `guard`: a program whose network calls are decided by a policy, or by a person; and its policies and logs.

mod check;
mod file;
mod refusals;
mod report;
mod run;

use anyhow::Result;

use crate::flags::{Guard, GuardVerb};

/// `netloom guard`
pub(crate) fn guard(lab: Option<&str>, args: &Guard) -> Result<i32> {
    match &args.verb {
        Some(GuardVerb::Check(args)) => check::check(args),
        Some(GuardVerb::Diff(args)) => check::diff(args),
        Some(GuardVerb::Report(args)) => report::report(args),
        None => run::run(lab, args),
    }
}
