//! What living nodes see of the host changes.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;

use netloom_model::lab::Bind;
use netloom_model::plan::NodeId;
use netloom_node::copy;
use netloom_sys::shown;

use super::changing::Was;
use crate::run::running::{Running, Work};
use crate::{Error, Result};

impl Running {
    /// Takes away binds of a node that are no longer given, and shows new and other ones. A bind below one of
    /// these goes and comes with it.
    pub(super) fn bind_anew(&self, work: &Work, id: NodeId, was: &Was<'_>) -> Result<()> {
        let state = self.state();
        let Some(slot) = state.plan.slot_of(id) else { return Ok(()) };
        let node = &state.plan.nodes[slot];
        let Some(init) = work.inits.get(&id).filter(|init| init.lives()) else { return Ok(()) };
        let olds = was.nodes(id);
        let touched =
            touched(&olds.iter().map(|old| &old.binds[..]).collect::<Vec<_>>(), &node.binds);
        if touched.is_empty() {
            return Ok(());
        }
        let fail = Error::of(format!("node {:?}", node.name), "show it other files of the host");
        let root = copy::open_root(&node.name, init.pidfd.as_fd())?;
        let place = (init.pidfd.as_fd(), root.as_fd());
        let all = || olds.iter().flat_map(|old| &old.binds).chain(&node.binds);
        let is_there = |at: &str| olds.iter().any(|old| old.binds.iter().any(|b| b.to == at));
        // Binds below come later in this order.
        for at in touched.iter().rev().filter(|at| is_there(at)) {
            let sources: Vec<&Path> =
                all().filter(|b| b.to == **at).map(|b| b.from.as_path()).collect();
            shown::hide_in(place, Path::new(at), &sources, was.before.is_none()).map_err(&fail)?;
        }
        let fresh = node.binds.iter().filter(|bind| touched.contains(bind.to.as_str()));
        for bind in fresh {
            shown::show_in(place, &bind.from, Path::new(&bind.to), bind.write).map_err(&fail)?;
        }
        Ok(())
    }
}

/// Paths in the node at which something else is shown than in one of the older lists, with what is bound below them.
fn touched<'a>(olds: &[&'a [Bind]], new: &'a [Bind]) -> BTreeSet<&'a str> {
    let mut touched = BTreeSet::new();
    for old in olds {
        let of = |some: &'a [Bind], others: &[Bind]| -> Vec<&'a str> {
            some.iter().filter(|bind| !others.contains(bind)).map(|bind| bind.to.as_str()).collect()
        };
        touched.extend(of(old, new));
        touched.extend(of(new, old));
    }
    let below = |bind: &&Bind| touched.iter().any(|at| Path::new(&bind.to).starts_with(at));
    let all = olds.iter().copied().flatten().chain(new);
    let more: Vec<&str> = all.filter(below).map(|bind| bind.to.as_str()).collect();
    touched.extend(more);
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bound_below_goes_along() {
        let bind = |to: &str, from: &str| Bind { to: to.into(), from: from.into(), write: false };
        let old = [bind("/a", "/x"), bind("/a/b", "/y"), bind("/ab", "/z")];
        assert!(touched(&[&old], &old).is_empty());
        let other = [bind("/a", "/w"), bind("/a/b", "/y"), bind("/ab", "/z")];
        assert_eq!(touched(&[&old], &other).into_iter().collect::<Vec<_>>(), ["/a", "/a/b"]);
        // Another one that stood before, and was cut off.
        assert_eq!(touched(&[&old, &other], &old).len(), 2);
        assert_eq!(touched(&[&old[2..]], &old).len(), 2);
    }
}
