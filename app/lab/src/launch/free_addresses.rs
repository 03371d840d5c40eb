//! Addresses of a lab that nobody has on this machine, and that stay.
//!
//! A plan has the addresses that follow from names, and from which nodes forward. Where its doors would meet the same ones on
//! the host, those of another lab above all, a lab that is new gets another assignment of its pool
//! ([`netloom_model::lab::Pool::variant`]). It keeps both for its life ([`Numbering`]): its state has them, and every plan of its
//! file is made with them.

use std::path::Path;

use netloom_model::Plan;
use netloom_model::plan::{Numbering, PlannedLink};
use netloom_sys::caps;

use crate::Result;
pub use crate::keep::claims::Claim;
use crate::keep::claims::Claims;
use crate::keep::doors;
use crate::keep::ledger::Ledger;
use crate::store::state::Folder;

/// How many further assignments are tried.
const MOST: u32 = 64;

/// The plan of a lab, which `again` makes with another numbering: the one that the lab has if it is there, else the first
/// whose addresses are free. Where none is, the plan as it is, which opening the doors refuses. A new lab of root has the
/// addresses until the claim is dropped; by then its doors are to have them.
///
/// # Errors
/// The lab's files or the host's addresses cannot be read.
pub fn find(
    runtime: &Path,
    plan: Plan,
    again: impl Fn(&Numbering) -> Option<Plan>,
) -> Result<(Plan, Option<Claim>)> {
    let folder = Folder::new(runtime, &plan.lab);
    if let Some(state) = folder.read_state()? {
        return Ok((again(&Numbering::of(&state.plan)).unwrap_or(plan), None));
    }
    if !plan.links.iter().any(PlannedLink::leads_to_internet) {
        return Ok((plan, None));
    }
    let user = !caps::is_privileged();
    // An ordinary user's doors lead into a network of the lab's own.
    let claims = match user {
        true => None,
        false => Some(Claims::open(Ledger::open()?, &folder)?),
    };
    let is_free = |plan: &Plan| -> Result<bool> {
        let left = claims.as_ref().is_none_or(|claims| claims.leave(&doors::lab_prefixes(plan)));
        Ok(left && doors::has_free_addresses(&folder, plan, user)?)
    };
    let mut chosen = None;
    if !is_free(&plan)? {
        let variants = (1..=MOST).map(|variant| Numbering { variant, ..Numbering::default() });
        for other in variants.filter_map(|numbering| again(&numbering)) {
            if is_free(&other)? {
                chosen = Some(other);
                break;
            }
        }
    }
    let plan = chosen.unwrap_or(plan);
    let claim = claims.map(|claims| claims.take(&doors::lab_prefixes(&plan))).transpose()?;
    Ok((plan, claim.flatten()))
}
