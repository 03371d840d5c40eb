//! Changes of a running lab.

use std::time::Duration;

use crate::running::Running;
use crate::view::{Changed, Fates, LinkSettings, LinkStatus, MoveInterface, NewNode, NodeSettings};
use crate::{Error, Result};

impl Running {
    fn not_yet<T>(&self) -> Result<T> {
        Err(Error::Conflict { lab: self.folder.name().to_owned(), reason: "being built".into() })
    }
    pub(crate) fn create(&self, _request: &NewNode) -> Result<Changed> {
        self.not_yet()
    }
    pub(crate) fn delete(&self, _node: &str, _force: bool) -> Result<Changed> {
        self.not_yet()
    }
    pub(crate) fn set(&self, _node: &str, _change: &NodeSettings) -> Result<Changed> {
        self.not_yet()
    }
    pub(crate) fn move_to(&self, _request: &MoveInterface) -> Result<Changed> {
        self.not_yet()
    }
    pub(crate) fn impair(&self, _link: &str, _change: &LinkSettings) -> Result<LinkStatus> {
        self.not_yet()
    }
    pub(crate) fn note(&self, _link: &str, _keep: Option<usize>) -> Result<()> {
        self.not_yet()
    }
    pub(crate) fn fates_of(
        &self,
        _link: &str,
        _end: usize,
        _after: Option<u64>,
        _wait: Duration,
    ) -> Result<Fates> {
        self.not_yet()
    }
}
