//! Static knowledge about a filter: which instructions are reached, and how many bytes of
//! the frame are known to exist on every path to each.
//!
//! All jumps go forward, so one pass finds both.

use crate::insn::Op;
use crate::program::successors;

/// For each instruction `None` if no path reaches it, else the bytes known before it.
pub(super) struct Flow(Vec<Option<u32>>);

impl Flow {
    /// Analyses a checked program.
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
                    // Only what every path to here has made sure of is known.
                    *slot = Some(slot.map_or(after, |other| after.min(other)));
                }
            }
        }
        Flow(known)
    }

    /// Bytes of the frame known to exist; `None` for an instruction that is never reached.
    pub(super) fn known(&self, at: usize) -> Option<u32> {
        self.0.get(at).copied().flatten()
    }
}
