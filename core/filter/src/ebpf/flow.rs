//! What is known about a filter before it runs: which instructions are reached, and how many bytes of
//! the frame have been seen to be there on every path to each.
//!
//! Jumps go forward only, so one pass finds both.

use crate::insn::Op;
use crate::program::successors;

/// For each instruction `None` if no path reaches it, else the known bytes before it.
pub(super) struct Flow(Vec<Option<u32>>);

impl Flow {
    /// Of a program that was checked.
    pub(super) fn of(ops: &[Op]) -> Flow {
        let mut known = vec![None; ops.len()];
        if let Some(first) = known.first_mut() {
            *first = Some(0);
        }
        for (at, op) in ops.iter().enumerate() {
            let Some(before) = known[at] else { continue };
            let after = before.max(op.needs().unwrap_or(0));
            for next in successors(at, *op).into_iter().flatten() {
                if let Some(slot) = known.get_mut(next) {
                    *slot = Some(slot.map_or(after, |other| after.min(other)));
                }
            }
        }
        Flow(known)
    }

    /// Bytes of the frame that are there for sure; `None` for what is never reached.
    pub(super) fn known(&self, at: usize) -> Option<u32> {
        self.0.get(at).copied().flatten()
    }
}
