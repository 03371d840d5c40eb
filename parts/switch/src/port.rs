//! The switch's side of a port: its memories and its identity.

use std::borrow::Cow;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use netloom_shm::inbox::{Inbox, PeerInbox};
use netloom_shm::layout::ring as at;
use netloom_shm::protocol::{Capabilities, Peer};
use netloom_shm::ring::{Outgoing, Reader, Writer};
use netloom_shm::wake::Bell;
use netloom_sys::describe;

use crate::notices::Notices;
use crate::pace::{Pace, Reached};
use crate::shares::Shares;
use crate::system::{now, random};

/// Most bytes of an uplink: the backlog that a port can have the switch relay before it gets an edge.
const MOST_UPLINK: u64 = (1 << 20) + 4096;

/// A connected port.
pub(crate) struct Port {
    /// The connection by which it joined.
    pub(crate) client: u64,
    pub(crate) peer: Peer,
    pub(crate) generation: u32,
    pub(crate) capabilities: Capabilities,
    /// Seconds since 1970.
    pub(crate) since: u64,
    /// Passed to those who open edges to it.
    pub(crate) inbox: Rc<OwnedFd>,
    pub(crate) uplink: Reader,
    /// Requested edges, granted when enough of its uplink is relayed.
    pub(crate) opens: Vec<Open>,
    /// Rung by the port.
    pub(crate) bell: Rc<OwnedFd>,
    /// Position in the uplink up to which frames were relayed or dropped.
    pub(crate) relayed: u64,
    /// Bytes it may still send in this turn; negative if it has overdrawn.
    pub(crate) credit: i64,
    /// A frame of its uplink that no receiver has room for yet.
    pub(crate) held: Option<Held<'static>>,
    pub(crate) downlink: Outgoing,
    /// Each sender's share of the downlink.
    pub(crate) shares: Shares,
    /// Position at which a wait for it timed out: there is no further wait until it moves.
    pub(crate) stalled: Option<u64>,
    /// How it has kept up with frames for many.
    pub(crate) pace: Option<Pace>,
    /// What it was told of stations.
    pub(crate) told: Notices,
    /// What the switch had dropped of earlier ports with this number.
    pub(crate) dropped_before: u64,
    /// Whether its downlink has frames that are not published yet.
    pub(crate) written: bool,
    /// Relayed frames that its downlink had no room for.
    pub(crate) missed: u64,
    /// Bytes of its inbox, uplink and downlink.
    pub(crate) bytes: u64,
}

impl Port {
    /// Whether the downlink may take a frame of this many bytes, header included, from a sender. `None` if
    /// the port reports an impossible read position.
    pub(crate) fn admits(&mut self, sender: u8, bytes: usize) -> Option<bool> {
        let slot = slot_bytes(bytes);
        if self.shares.admit(sender, slot) {
            return Some(true);
        }
        // How far the port has read is looked at only now: mostly there is room by what is known.
        self.shares.took(self.downlink.taken()?);
        Some(self.shares.admit(sender, slot))
    }
}

/// Bytes of a ring that a frame of this size, header included, occupies.
fn slot_bytes(bytes: usize) -> u64 {
    let whole = (at::VNET_AT + bytes).next_multiple_of(at::SLOT);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// A frame with its header on its way to receivers; while it waits for room it blocks its uplink.
pub(crate) struct Held<'a> {
    pub(crate) whole: Cow<'a, [u8]>,
    pub(crate) since: Instant,
    pub(crate) reached: Reached,
}

impl<'a> Held<'a> {
    pub(crate) fn new(whole: &'a [u8], now: Instant) -> Held<'a> {
        Held { whole: Cow::Borrowed(whole), since: now, reached: Reached::default() }
    }

    /// To be kept.
    pub(crate) fn owned(self) -> Held<'static> {
        Held { whole: Cow::Owned(self.whole.into_owned()), ..self }
    }
}

/// A requested edge.
pub(crate) struct Open {
    pub(crate) to: u8,
    pub(crate) ring: OwnedFd,
    /// Position up to which the uplink must be relayed first.
    pub(crate) after: u64,
}

/// The parts made for a port and sent to it.
pub(crate) struct Made {
    pub(crate) port: Port,
    /// The ring from the switch, the bell of the ring to it, the bell of the ring from it.
    pub(crate) given: [Rc<OwnedFd>; 3],
}

/// The memories that a port brings, and its identity.
pub(crate) struct Brought {
    pub(crate) client: u64,
    pub(crate) peer: Peer,
    pub(crate) number: u8,
    pub(crate) generation: u32,
    pub(crate) capabilities: Capabilities,
    pub(crate) inbox: OwnedFd,
    pub(crate) uplink: OwnedFd,
}

/// Opens a port's memories and makes the switch's part for it, or tells what is wrong with them.
pub(crate) fn make(brought: Brought, own: &Inbox, downlink: usize) -> Result<Made, String> {
    let system = |e: std::io::Error| format!("copy a descriptor: {e}");
    let text = |e: netloom_shm::Error| describe(&e);
    let uplink_bytes = length(&brought.uplink);
    if uplink_bytes > MOST_UPLINK {
        return Err(format!("an uplink of {uplink_bytes} bytes; at most {MOST_UPLINK}"));
    }
    let inbox = PeerInbox::open(brought.inbox.as_fd()).map_err(text)?;
    let uplink =
        Reader::open(brought.uplink.as_fd(), u16::from(brought.number), own).map_err(text)?;
    // Very likely different from that of any ring of an earlier process of the switch.
    let generation = u32::from_ne_bytes(random().map_err(|e| describe(&e))?).max(1);
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
        pace: None,
        told: Notices::new(Instant::now()),
        dropped_before: own.drops_of(brought.number.into()),
        bell: up.clone(),
        downlink,
        written: false,
        missed: 0,
        bytes,
    };
    Ok(Made { port, given: [Rc::new(ring_fd), up, Rc::new(down_fd)] })
}

/// Bytes of a memory; a descriptor without a size counts as too large.
pub(crate) fn length(memory: &OwnedFd) -> u64 {
    rustix::fs::fstat(memory).ok().and_then(|s| u64::try_from(s.st_size).ok()).unwrap_or(u64::MAX)
}
