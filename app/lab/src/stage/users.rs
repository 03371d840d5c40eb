//! Users and groups of nodes: what a node asks for, and what this lab has.
//!
//! In root's labs all users of the machine are there. An ordinary user's lab has one user namespace for all its nodes,
//! with many users if this user is given any and a node can use them; what less a node wants is taken from it alone.

use netloom_model::Plan;
use netloom_model::plan::PlannedNode;
use netloom_model::users::Ids;
use netloom_node::Users;
use netloom_sys::subordinate::{self, Given};
use netloom_sys::{Unsupported, fake_chown};

use crate::store::state::State;
use crate::{Error, Result, Subject};

/// Whether an ordinary user's lab is to have many users, if it can. A lab without nodes gets some later.
pub(crate) fn wants_many(plan: &Plan) -> bool {
    let any = |node: &PlannedNode| {
        node.kind.as_vm().is_none() && matches!(node.ids, None | Some(Ids::Real))
    };
    plan.nodes.is_empty() || plan.nodes.iter().any(any)
}

/// Whether it must have them.
pub(crate) fn needs_many(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| node.ids == Some(Ids::Real))
}

/// Refuses what a plan asks for and this machine or, if `user`, this user visibly does not have.
pub(crate) fn check(plan: &Plan, user: bool) -> Result<()> {
    if user && needs_many(plan) {
        Given::find()?;
    }
    if plan.nodes.iter().any(|node| node.ids == Some(Ids::Fake)) {
        fake_chown::supported()?;
    }
    Ok(())
}

/// As [`check`], by trying.
pub(crate) fn try_out(plan: &Plan, user: bool) -> Result<()> {
    if user && needs_many(plan) {
        subordinate::probe()?;
    }
    check(plan, user)
}

/// Refuses users that a running lab cannot give to a node.
pub(crate) fn check_node(state: &State, node: &PlannedNode) -> Result<()> {
    match node.ids {
        Some(Ids::Real) if state.user && !state.many_users => {
            let object = Subject::of("node", &node.name);
            let reason = "ids: this lab was made with root alone, so real ones are out of reach; `netloom doctor` says \
                          whether a new one has more";
            Err(Error::Invalid { object, reason: reason.to_owned() })
        }
        Some(Ids::Fake) => Ok(fake_chown::supported()?),
        _ => Ok(()),
    }
}

/// What a node has.
pub(crate) fn of(state: &State, node: &PlannedNode) -> Ids {
    let by_default = || {
        if !state.user || state.many_users {
            return Ids::Real;
        }
        fake_chown::supported().map_or(Ids::One, |()| Ids::Fake)
    };
    node.ids.unwrap_or_else(by_default)
}

/// What its init does for that. The process of a virtual machine drops its rights by itself, and keeps its lab's owner,
/// who may open the machine's files.
pub(crate) fn in_node(state: &State, node: &PlannedNode) -> Users {
    let is_one_of_many = !state.user || state.many_users;
    if node.kind.as_vm().is_some() {
        return if state.user && state.many_users { Users::RootAlone } else { Users::Kernel };
    }
    match of(state, node) {
        Ids::Real => Users::Kernel,
        Ids::Fake => Users::Pretended,
        Ids::One if is_one_of_many => Users::RootAlone,
        Ids::One => Users::Kernel,
    }
}

/// What `doctor` says: which users nodes have by default, and why.
///
/// # Errors
/// The missing parts for real ones.
pub(crate) fn found(root: bool) -> std::result::Result<String, Unsupported> {
    if root {
        return Ok("real: all users of this machine".to_owned());
    }
    let users = subordinate::probe()?;
    Ok(format!("real: root and {users} more, by newuidmap and /etc/subuid"))
}
