//! A port, as the switch has it: its memories, who it is.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::ring as at;
use netloom_shm::protocol::{Capabilities, Peer};
use netloom_shm::ring::{Outgoing, Reader, Writer};
use netloom_shm::wake::Bell;

use crate::shares::Shares;
use crate::system::{now, random};

/// Most bytes of an uplink: what one port can make the switch relay before it gets an edge.
const MOST_UPLINK: u64 = (1 << 20) + 4096;

/// Of a port that is there.
pub(crate) struct Port {
    /// The connection by which it joined.
    pub(crate) client: u64,
    pub(crate) peer: Peer,
    pub(crate) generation: u32,
    pub(crate) capabilities: Capabilities,
    /// Seconds since 1970.
    pub(crate) since: u64,
    /// For those who open edges to it.
    pub(crate) inbox: Rc<OwnedFd>,
    pub(crate) uplink: Reader,
    /// Edges that it has asked for, and that it gets when enough of its uplink was relayed.
    pub(crate) opens: Vec<Open>,
    /// Rung by the port.
    pub(crate) bell: Rc<OwnedFd>,
    /// So much of the uplink was relayed, or dropped.
    pub(crate) relayed: u64,
    /// What it may still send in this turn; below 0, what it has sent more.
    pub(crate) credit: i64,
    /// A frame of its uplink that nobody has room for yet.
    pub(crate) held: Option<Held>,
    pub(crate) downlink: Outgoing,
    /// Who has how much of the downlink.
    pub(crate) shares: Shares,
    /// Where it was when it was waited for in vain: it is not waited for again before it moves.
    pub(crate) stalled: Option<u64>,
    /// Whether its downlink has frames that are not shown yet.
    pub(crate) written: bool,
    /// Relayed frames that its downlink had no room for.
    pub(crate) missed: u64,
    /// Bytes of its inbox, uplink and downlink.
    pub(crate) bytes: u64,
}

impl Port {
    /// Whether a sender may have a frame of so many bytes, with its header, in the downlink; none if the
    /// port tells of what it has taken what cannot be.
    pub(crate) fn admits(&mut self, sender: u8, bytes: usize) -> Option<bool> {
        let slot = slot_bytes(bytes);
        if self.shares.admit(sender, slot) {
            return Some(true);
        }
        self.shares.took(self.downlink.taken()?);
        Some(self.shares.admit(sender, slot))
    }
}

/// Bytes of a ring that a frame of so many bytes, with its header, takes.
fn slot_bytes(bytes: usize) -> u64 {
    let whole = (at::VNET_AT + bytes).next_multiple_of(at::SLOT);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// A frame that waits for room, with its header, and its uplink with it.
pub(crate) struct Held {
    pub(crate) whole: Vec<u8>,
    pub(crate) since: Instant,
}

/// An edge that a port wants.
pub(crate) struct Open {
    pub(crate) to: u8,
    pub(crate) ring: OwnedFd,
    /// So much of the uplink is relayed before.
    pub(crate) after: u64,
}

/// What is made for a port, and sent to it.
pub(crate) struct Made {
    pub(crate) port: Port,
    /// The ring from the switch, the bell of the ring to it, the bell of the ring from it.
    pub(crate) given: [Rc<OwnedFd>; 3],
}

/// What a port brings, and what is known of it.
pub(crate) struct Brought {
    pub(crate) client: u64,
    pub(crate) peer: Peer,
    pub(crate) number: u8,
    pub(crate) generation: u32,
    pub(crate) capabilities: Capabilities,
    pub(crate) inbox: OwnedFd,
    pub(crate) uplink: OwnedFd,
}

/// Takes a port's memories and makes the switch's part for it; or says what is wrong with them.
pub(crate) fn make(brought: Brought, own: &Inbox, downlink: usize) -> Result<Made, String> {
    let system = |e: std::io::Error| format!("copy a descriptor: {e}");
    let text = |e: netloom_shm::Error| with_source(&e);
    let uplink_bytes = length(&brought.uplink);
    if uplink_bytes > MOST_UPLINK {
        return Err(format!("an uplink of {uplink_bytes} bytes; at most {MOST_UPLINK}"));
    }
    let inbox = PeerInbox::open(brought.inbox.as_fd()).map_err(text)?;
    let uplink =
        Reader::open(brought.uplink.as_fd(), u16::from(brought.number), own).map_err(text)?;
    let mut generation = [0; 4];
    random(&mut generation).map_err(|e| with_source(&e))?;
    // Not that of a ring of an earlier process of the switch, for all that is likely.
    let generation = u32::from_ne_bytes(generation).max(1);
    let ring = Writer::create(downlink, generation).map_err(text)?;
    let ring_fd = ring.fd().try_clone_to_owned().map_err(system)?;
    let (up, down) = (Bell::create().map_err(text)?, Bell::create().map_err(text)?);
    let up = Rc::new(up.fd().try_clone_to_owned().map_err(system)?);
    let down_fd = down.fd().try_clone_to_owned().map_err(system)?;
    let bytes = length(&brought.inbox) + uplink_bytes + length(&ring_fd);
    let downlink = ring.connect(Arc::new(inbox), 0, down).map_err(text)?;
    let port = Port {
        client: brought.client,
        peer: brought.peer,
        generation: brought.generation,
        capabilities: brought.capabilities,
        since: now(),
        inbox: Rc::new(brought.inbox),
        uplink,
        opens: Vec::new(),
        relayed: 0,
        credit: 0,
        held: None,
        shares: Shares::new(downlink.size()),
        stalled: None,
        bell: up.clone(),
        downlink,
        written: false,
        missed: 0,
        bytes,
    };
    Ok(Made { port, given: [Rc::new(ring_fd), up, Rc::new(down_fd)] })
}

/// Bytes of a memory; what is none counts as too many.
pub(crate) fn length(memory: &OwnedFd) -> u64 {
    rustix::fs::fstat(memory).ok().and_then(|s| u64::try_from(s.st_size).ok()).unwrap_or(u64::MAX)
}

/// An error with what it came from.
pub(crate) fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", with_source(source)),
        None => error.to_string(),
    }
}
