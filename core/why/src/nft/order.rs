//! The order in which the kernel runs the chains of a hook.

use super::Chain;

/// Puts chains, listed as the kernel lists them, into the order in which it runs them. It lists a table's chains by age, and
/// puts a new one before those of equal priority (`nf_hook_entries_grow`).
pub(super) fn sort(chains: &mut [&Chain]) {
    chains.reverse();
    chains.sort_by_key(|chain| priority(chain));
}

/// The other orders that sorted chains may have, if any. Whether a table's chain is newer than another table's is in no list, so each
/// table is once the one with the newest.
pub(super) fn others<'a>(chains: &[&'a Chain]) -> Vec<Vec<&'a Chain>> {
    let is_open = chains
        .windows(2)
        .any(|pair| priority(pair[0]) == priority(pair[1]) && table(pair[0]) != table(pair[1]));
    if !is_open {
        return vec![];
    }
    let mut tables: Vec<_> = chains.iter().map(|chain| table(chain)).collect();
    tables.sort();
    tables.dedup();
    let first = |newest: (&str, &str)| {
        let mut order = chains.to_vec();
        order.sort_by_key(|chain| (priority(chain), table(chain) != newest));
        order
    };
    tables.into_iter().map(first).collect()
}

fn priority(chain: &Chain) -> Option<i32> {
    chain.attached.as_ref().map(|at| at.priority)
}

fn table(chain: &Chain) -> (&str, &str) {
    (chain.family.name(), &chain.table)
}
