//! Rings of slots that a packet socket and this process share (packet_mmap.rst of the kernel).
//!
//! Sets them up on a socket and maps them; [`RxRing`] and [`TxRing`] use them. Slots are of the second
//! form (TPACKET_V2): one frame each, handed over by one status word, so that a frame is seen as soon
//! as it is there. Blocks that hold many frames and are handed over whole are for who can wait.
//! Invariant: at any time a slot is the kernel's or ours, as its status word says; only the owner
//! touches the rest of it. A ring has a slot of ours at a time as `&mut`, by its own `&mut`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::area::{Area, BLOCK, Mapping};
use crate::socket::object;
use crate::{Error, Result, RxRing, TxRing, option, socket};

/// A slot of this many bytes takes any frame: what the kernel puts before it, the header of offloads,
/// the longest IP packet behind an Ethernet header with two tags. A whole number of pages, because
/// the kernel sends pages and takes no more than 17 for a frame.
pub const WHOLE_SLOT: u32 = 17 * 4096;

/// How large rings are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Bytes of a slot for frames that come in: a multiple of 16. Longer frames are cut.
    pub receive_slot: u32,
    /// MiB of memory for frames that come in.
    pub receive: u32,
    /// Whether frames that do not fit a slot are also kept whole, to be received from the socket.
    pub aside: bool,
    /// Bytes of a slot for frames that go out: a multiple of 16.
    pub transmit_slot: u32,
    /// MiB of memory for frames that go out; 0: no ring for these.
    pub transmit: u32,
}

impl Default for RingSizes {
    /// 15 frames of any length in a MiB.
    fn default() -> Self {
        RingSizes {
            receive_slot: WHOLE_SLOT,
            receive: 16,
            aside: false,
            transmit_slot: WHOLE_SLOT,
            transmit: 4,
        }
    }
}

/// Sets up the rings of a socket that has none. What waits on it unread is lost. Whether frames have a
/// header of offloads (`PACKET_VNET_HDR`) must be said before.
///
/// # Errors
/// [`Error::Call`] when the kernel refuses: EBUSY when it has rings, ENOMEM.
pub fn rings(fd: &OwnedFd, options: RingSizes) -> Result<(RxRing, Option<TxRing>)> {
    let index = socket::interface(fd)?.unwrap_or(0);
    let failed = |operation| move |e: std::io::Error| Error::call(object(index), operation, e);
    let version = i32::try_from(libc::tpacket_versions::TPACKET_V2 as u32).unwrap_or(1);
    socket::set(fd, index, libc::PACKET_VERSION, version, "have slots of the second form on")?;
    let header = get_flag(fd, libc::PACKET_VNET_HDR);
    // Any size will do: it says only that they are kept.
    let keep = i32::from(options.aside);
    socket::set(fd, index, libc::PACKET_COPY_THRESH, keep, "keep what fits no slot of")?;
    let (slot_in, slot_out) = (options.receive_slot, options.transmit_slot);
    let mut length = 0;
    for (name, blocks, slot, operation) in [
        (libc::PACKET_RX_RING, options.receive, slot_in, "make a ring for frames that come in by"),
        (libc::PACKET_TX_RING, options.transmit, slot_out, "make a ring for frames that go out by"),
    ] {
        if blocks == 0 {
            continue;
        }
        // struct tpacket_req: block size, blocks, frame size, frames.
        let slots = (BLOCK / slot.max(1)).saturating_mul(blocks);
        let request = [BLOCK, blocks, slot, slots];
        option::set(fd, libc::SOL_PACKET, name, request).map_err(failed(operation))?;
        length += BLOCK as usize * blocks as usize;
    }
    let memory = Arc::new(Mapping::new(fd, length).map_err(failed("map the rings of"))?);
    let area = |from: u32, blocks: u32, slot: u32| Area {
        memory: memory.clone(),
        from: BLOCK as usize * from as usize,
        slot: slot as usize,
        per_block: (BLOCK / slot) as usize,
        slots: (BLOCK / slot) as usize * blocks as usize,
    };
    let receive = RxRing::new(area(0, options.receive, slot_in), header);
    let transmit = area(options.receive, options.transmit, slot_out);
    let transmit = (options.transmit > 0).then(|| TxRing::new(transmit, header));
    Ok((receive, transmit))
}

fn get_flag(fd: impl AsFd, name: i32) -> bool {
    option::get::<i32>(fd, libc::SOL_PACKET, name).is_ok_and(|value| value != 0)
}
