//! What moves frames: the interface between the tables and whatever forwards by them.
//!
//! A plane delivers as upcalls the frames that it has no result for, sends frames, and may keep results of the
//! pipeline ([`Entry`]) and treat further frames by them. Rules that every plane obeys:
//!
//! * An entry applies to frames whose key agrees with `key` in the bits of `consulted`, only while its
//!   `generation` is the newest that [`DataPlane::invalidate`] was told, and never to a frame with a TTL of 1 or less,
//!   or whose IPv4 header is damaged, if an effect decrements it: that one is an upcall.
//! * When [`DataPlane::invalidate`] has returned, no frame is treated by an older entry any more, and all that
//!   were are in the next [`DataPlane::credits`]. The same goes for [`DataPlane::remove`] and single entries.
//! * Memory for upcalls is bounded for each port, so that one that floods does not keep others out.
//!
//! * Results may outlive the process that had them kept. They stay in force, under the generation that they
//!   had, until the next [`DataPlane::invalidate`]; [`DataPlane::inherited`] tells of them.
//!
//! Frames go through the agent's own thread; a plane has no other callers.

use std::os::fd::BorrowedFd;

use netloom_openflow::PortNumber;
use netloom_packet::VnetHeader;
use netloom_pipeline::{Effect, FlowKey, Frame, Time};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A port to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanePort {
    /// Its number.
    pub number: PortNumber,
    /// Its name on the switch, for errors.
    pub name: String,
    /// The index of its interface, in the network namespace of the calling thread.
    pub index: u32,
    /// The name of its interface.
    pub interface: String,
}

/// A frame for the tables. It may be a super-frame, or have an unfinished checksum: see its header.
#[derive(Debug)]
pub struct Upcall<'a> {
    /// The port that it came in by.
    pub port: PortNumber,
    /// What offload left undone.
    pub header: VnetHeader,
    /// Its bytes from the Ethernet header on, with its VLAN tag in place.
    pub frame: &'a mut [u8],
}

/// A place for counters of an entry; the caller chooses numbers, from 0 on, and reuses one only after the
/// entry has been removed, or its generation has been invalidated and credited.
pub type Slot = u32;

/// A result to keep.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Where it is counted.
    pub slot: Slot,
    /// The newest generation that the plane was told.
    pub generation: u64,
    /// The port of the frames.
    pub port: PortNumber,
    /// The key of the frame that it was found with.
    pub key: &'a FlowKey,
    /// The bits of it that decided.
    pub consulted: &'a FlowKey,
    /// The operations, in order; none: the frame is dropped.
    pub effects: &'a [Effect],
}

/// A result of an earlier process that is still in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    /// Where it is counted.
    pub slot: Slot,
    /// The port of the frames.
    pub port: PortNumber,
    /// The bits of the key that decided, others zero.
    pub key: FlowKey,
    /// Which bits decided.
    pub consulted: FlowKey,
}

/// What entries forwarded since they were asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// The entry's place.
    pub slot: Slot,
    /// Packets; a super-frame counts as those that it stands for.
    pub packets: u64,
    /// Their bytes as they came in.
    pub bytes: u64,
    /// When the last one came, in nanoseconds of the machine's monotonic clock.
    pub used: Time,
}

/// Counters of a port that the pipeline does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneCounters {
    /// Frames delivered as upcalls.
    pub upcalls: u64,
    /// Frames that were to be upcalls and found no room, or exceeded the port's rate.
    pub upcalls_dropped: u64,
    /// Frames that were to be sent and were not.
    pub send_dropped: u64,
    /// Frames that could not be read: cut, or of a kind that is not known.
    pub malformed: u64,
}

/// What a plane is, for status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowPlane))]
pub struct PlaneFacts {
    /// Its kind: `packet-sockets`, `tcx`, `clsact`.
    pub kind: String,
    /// Why a faster one is not used; absent if there is none.
    pub slower: Option<String>,
    /// Results that it keeps now.
    pub entries: u64,
    /// How many it can keep; 0 if it keeps none.
    pub capacity: u64,
    /// Frames that it treated by kept results, since its start.
    pub hits: u64,
}

/// Something that moves frames.
pub trait DataPlane {
    /// What it is.
    fn facts(&self) -> PlaneFacts;

    /// Takes frames of an interface from now on; they no longer reach the namespace's own stack.
    ///
    /// # Errors
    /// The system refuses; nothing is taken then.
    fn add_port(&mut self, port: &PlanePort) -> Result<()>;

    /// Whether frames of the interface that was taken for a port are still taken; not if it is gone, even if another
    /// has its index now.
    fn has_port(&self, number: PortNumber) -> bool;

    /// Lets go of an interface; unknown numbers are ignored.
    fn remove_port(&mut self, number: PortNumber);

    /// A descriptor that is readable while upcalls wait (an epoll over its ports, for example). It stays the same.
    fn as_fd(&self) -> BorrowedFd<'_>;

    /// Gives `hear` what waits, at most about `most` frames of each port, and all ports a fair share; until it says that no
    /// more is to come now.
    ///
    /// # Errors
    /// An answer that no kernel is known to give here; the plane remains usable.
    fn receive(&mut self, most: usize, hear: &mut dyn FnMut(Upcall<'_>) -> bool) -> Result<()>;

    /// Sends whole frames with finished checksums, in order; what cannot be sent is dropped and counted. None of them
    /// comes back as an upcall of its port.
    fn send(&mut self, frames: &[Frame]);

    /// Keeps a result; returns whether it does. One that it cannot keep stays an upcall.
    fn install(&mut self, entry: &Entry<'_>) -> bool;

    /// Makes all entries of other generations ineffective.
    ///
    /// # Errors
    /// The system refuses: nothing can be promised to controllers any more.
    fn invalidate(&mut self, generation: u64) -> Result<()>;

    /// Makes some entries ineffective, and appends what they forwarded since they were asked last.
    ///
    /// # Errors
    /// As [`DataPlane::invalidate`].
    fn remove(&mut self, slots: &[Slot], into: &mut Vec<Credit>) -> Result<()>;

    /// Appends what was forwarded since the last call, of entries of any generation.
    ///
    /// # Errors
    /// The system refuses.
    fn credits(&mut self, into: &mut Vec<Credit>) -> Result<()>;

    /// The newest generation that an earlier process told it; 0 if there was none.
    fn generation(&self) -> u64 {
        0
    }

    /// Results of an earlier process that are in force, once its ports have been added again.
    ///
    /// # Errors
    /// The system refuses.
    fn inherited(&mut self) -> Result<Vec<Inherited>> {
        Ok(vec![])
    }

    /// The credited counts are in the state file: should results outlive this process, the next one is credited what
    /// came later.
    fn saved(&mut self) {}

    /// Counters of a port since it was added.
    fn counters(&mut self, number: PortNumber) -> PlaneCounters;
}
