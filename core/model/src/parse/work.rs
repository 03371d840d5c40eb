//! How much unrolling one file may ask for: a budget, so that a small file cannot run away.

/// About one byte of memory, or a few nanoseconds, each.
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Work {
    /// What a whole file may cost: some seconds and some hundred MiB at the very worst.
    pub(crate) const WHOLE_FILE: usize = 256 << 20;
    /// What a combination of indices costs before anything is made from it.
    pub(crate) const COMBINATION: usize = 64;

    /// What each value or operation of an expression costs at each evaluation.
    pub(crate) const OPERATION: usize = 32;

    pub(crate) fn new(units: usize) -> Work {
        Work { left: units }
    }

    /// Takes so many units.
    pub(crate) fn spend(&mut self, units: usize) -> Result<(), Exhausted> {
        match self.left.checked_sub(units) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Exhausted)
            }
        }
    }
}
