//! The budget of unrolling for one file, so that a small file cannot cost unbounded work.

/// Units of about one byte of memory, or a few nanoseconds.
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
}

/// The budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Work {
    /// The budget of a whole file: at worst some seconds and some hundred MiB.
    pub(crate) const WHOLE_FILE: usize = 256 << 20;
    /// The cost of a combination of indices before anything is made from it.
    pub(crate) const COMBINATION: usize = 64;

    /// The cost of each value or operation of an expression per evaluation.
    pub(crate) const OPERATION: usize = 32;

    pub(crate) fn new(units: usize) -> Work {
        Work { left: units }
    }

    /// Spends units.
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
