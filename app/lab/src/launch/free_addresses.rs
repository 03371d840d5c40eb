//! Addresses of a lab that nobody has on this machine.
//!
//! A plan has the addresses that follow from names. Where its doors would meet the same ones on the host, those of another
//! lab above all, a lab that is new gets another assignment of its pool ([`netloom_model::lab::Pool::variant`]). It keeps
//! that for its life: its state has it, and every plan of its file is made with it.

use std::path::Path;

use netloom_model::Plan;
use netloom_model::plan::PlannedLink;
use netloom_sys::caps;

use crate::Result;
use crate::keep::doors;
use crate::store::state::Folder;

/// How many further assignments are tried.
const MOST: u32 = 64;

/// The plan of a lab, which `again` makes with another variant: the one that the lab has if it is there, else the first
/// whose addresses are free. Where none is, the plan as it is, which opening the doors refuses.
///
/// # Errors
/// The lab's files or the host's addresses cannot be read.
pub fn find(runtime: &Path, plan: Plan, again: impl Fn(u32) -> Option<Plan>) -> Result<Plan> {
    let folder = Folder::new(runtime, &plan.lab);
    let leads_out = plan.links.iter().any(PlannedLink::leads_to_internet);
    if !leads_out && folder.read_host_changes()?.is_empty() {
        return Ok(plan);
    }
    if let Some(state) = folder.read_state()? {
        let variant = state.plan.scheme.map_or(0, |scheme| scheme.pool.variant);
        return Ok(if variant == 0 { plan } else { again(variant).unwrap_or(plan) });
    }
    let user = !caps::is_privileged();
    if doors::has_free_addresses(&folder, &plan, user)? {
        return Ok(plan);
    }
    for other in (1..=MOST).filter_map(again) {
        if doors::has_free_addresses(&folder, &other, user)? {
            return Ok(other);
        }
    }
    Ok(plan)
}
