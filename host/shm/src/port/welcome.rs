//! What a switch gives to a port that it admits.

use std::os::fd::{AsFd, OwnedFd};

use super::rules::Rules;
use crate::inbox::PeerInbox;
use crate::page::PeerPage;
use crate::protocol::{Joined, VERSION};
use crate::wake::Bell;
use crate::{Error, Result, layout};

/// Bytes of an uplink's ring.
pub(super) const UPLINK: usize = layout::ring::LEAST_ARENA;

/// What a switch gives to a new member.
pub(super) struct Welcome {
    pub(super) joined: Joined,
    pub(super) rules: Rules,
    pub(super) ways: Ways,
}

/// The uplink and the downlink.
pub(super) struct Ways {
    pub(super) inbox: PeerInbox,
    pub(super) downlink: OwnedFd,
    pub(super) up: Bell,
    pub(super) down: Bell,
}

impl Welcome {
    pub(super) fn read(joined: Joined, descriptors: Vec<OwnedFd>) -> Result<Welcome> {
        let wrong = |reason| Error::Message { operation: "read", reason };
        if joined.version != VERSION {
            return Err(wrong("of another version"));
        }
        let [page, inbox, downlink, up, down] =
            <[OwnedFd; 5]>::try_from(descriptors).map_err(|_| wrong("without its descriptors"))?;
        let rules = Rules::new(PeerPage::open(page.as_fd())?);
        let inbox = PeerInbox::open(inbox.as_fd())?;
        let (up, down) = (Bell::from_fd(up), Bell::from_fd(down));
        Ok(Welcome { joined, rules, ways: Ways { inbox, downlink, up, down } })
    }
}
