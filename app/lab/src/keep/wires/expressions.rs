//! Expressions of `drop`: names of nodes in them become the nodes' addresses, and what libpcap does not take is refused.
//!
//! The process of the wires gets an expression without names, and compiles it.

use netloom_impair::Impairments;
use netloom_model::Plan;
use netloom_model::plan::PlannedLink;

use crate::{Error, Result, Subject};

/// Impairments of a link as the process of the wires gets them: with the addresses that nodes have now.
///
/// # Errors
/// An invalid flow, or a node without address.
pub(super) fn expanded(plan: &Plan, link: &str, asked: &Impairments) -> Result<Impairments> {
    // Names are resolved here: the process knows nothing of the lab.
    let expand =
        |text: &String| netloom_filter::expand::expand(text, &|name: &str| plan.addresses_of(name));
    let drop = asked.drop.as_ref().map(expand).transpose();
    let drop = drop.map_err(|e| invalid(link, &e.to_string()))?;
    Ok(Impairments { drop, ..asked.clone() })
}

/// Refuses an expression of `drop` that libpcap does not take.
///
/// # Errors
/// With libpcap's message; libpcap is missing.
pub(crate) fn check(plan: &Plan, link: &str, asked: &Impairments) -> Result<()> {
    let Some(text) = expanded(plan, link, asked)?.drop else { return Ok(()) };
    match netloom_libpcap::compile_bounded(&text) {
        Ok(_) => Ok(()),
        Err(netloom_libpcap::Error::Unsupported(missing)) => Err(missing.into()),
        Err(e) => Err(invalid(link, &netloom_sys::describe(&e))),
    }
}

/// The same for all links, before anything is made.
///
/// # Errors
/// The first of them.
pub fn check_all(plan: &Plan) -> Result<()> {
    check_of(plan, plan.links.iter())
}

/// The same for these links of a plan.
///
/// # Errors
/// The first of them.
pub(crate) fn check_of<'p>(
    plan: &Plan,
    links: impl Iterator<Item = &'p PlannedLink>,
) -> Result<()> {
    let mut all = links.flat_map(|l| l.impairments.iter().map(move |i| (&l.name, i)));
    all.try_for_each(|(link, asked)| check(plan, link, asked))
}

fn invalid(link: &str, reason: &str) -> Error {
    Error::Invalid { object: Subject::of("link", link), reason: format!("drop: {reason}") }
}
