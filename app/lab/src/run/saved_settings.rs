//! Saved configuration of interfaces that were set down, to be restored.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use netloom_model::plan::LinkId;
use netloom_netlink::Carried;

/// Saved configuration of nodes' interfaces that were set down, by the link's id: routes that are not planned.
#[derive(Default)]
pub(crate) struct SavedSettings(Mutex<BTreeMap<LinkId, Carried>>);

impl SavedSettings {
    pub(crate) fn put(&self, link: LinkId, carried: Carried) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(link, carried);
    }

    pub(crate) fn take(&self, link: LinkId) -> Option<Carried> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&link)
    }
}
