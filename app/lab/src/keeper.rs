//! What keepers of a running lab are told: its folder, its state, its inits.

use crate::inits::Inits;
use crate::state::{Folder, State};

/// What putting in and taking out needs to know.
pub(crate) struct Context<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) state: &'a State,
    pub(crate) inits: &'a Inits,
}
