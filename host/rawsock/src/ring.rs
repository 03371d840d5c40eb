//! Rings of slots shared by a packet socket and this process (the kernel's packet_mmap.rst).
//!
//! Sets them up on a socket and maps them, for [`RxRing`] and [`TxRing`]. Slots have version 2
//! (TPACKET_V2): one frame each, handed over by one status word, so a frame is visible as soon as
//! it arrives. Blocks of many frames, handed over whole, are for users that can wait. Invariant: at
//! any time a slot is the kernel's or ours, by its status word; only the owner touches the rest of
//! it. A ring lends one slot of ours at a time as `&mut`, through its own `&mut`.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use netloom_sys::Failure;

use crate::area::{Area, BLOCK, Mapping};
use crate::socket::object;
use crate::{Error, Result, RxRing, TxRing, option, socket};

/// A slot of this size holds any frame: the kernel's prefix, the offload header, the longest IP
/// packet with an Ethernet header and two tags. A whole number of pages, because the kernel sends
/// pages and accepts at most 17 for a frame.
pub const WHOLE_SLOT: u32 = 17 * 4096;

/// Sizes of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Bytes of a receive slot: a multiple of 16. Longer frames are cut.
    pub receive_slot: u32,
    /// MiB of memory for incoming frames; 0: no receive ring.
    pub receive: u32,
    /// Whether frames that do not fit a slot are also queued whole, to be received from the socket.
    pub aside: bool,
    /// Bytes of a transmit slot: a multiple of 16.
    pub transmit_slot: u32,
    /// MiB of memory for outgoing frames; 0: no transmit ring.
    pub transmit: u32,
}

impl Default for RingSizes {
    /// 15 frames of any length per MiB.
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

/// Sets up the rings of a socket that has none; one without memory is `None`. Unread frames on the
/// socket are lost. Set the offload header (`PACKET_VNET_HDR`) before.
///
/// # Errors
/// [`Error::Failed`] if the kernel refuses: EBUSY if it has rings, EINVAL for a slot that is too small
/// or no multiple of 16, or if neither ring has memory, ENOMEM.
pub fn rings(fd: &OwnedFd, options: RingSizes) -> Result<(Option<RxRing>, Option<TxRing>)> {
    let index = socket::interface(fd)?.unwrap_or(0);
    let failed =
        |operation| move |e: std::io::Error| Error::from(Failure::new(object(index), operation, e));
    // The conversion cannot fail: the constant is 1.
    let version = i32::try_from(libc::tpacket_versions::TPACKET_V2 as u32).unwrap_or(1);
    socket::set(fd, index, libc::PACKET_VERSION, version, "have slots of the second form on")?;
    let header = get_flag(fd, libc::PACKET_VNET_HDR);
    // Any size works: it only says that they are kept.
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
    // Only for a ring that there is: the slots of one without memory would be those of the other, and
    // its slot's size, which the kernel has not checked, may be 0.
    let area = |from: u32, blocks: u32, slot: u32| {
        (blocks > 0).then(|| Area {
            memory: memory.clone(),
            from: BLOCK as usize * from as usize,
            slot: slot as usize,
            per_block: (BLOCK / slot) as usize,
            slots: (BLOCK / slot) as usize * blocks as usize,
        })
    };
    // The kernel maps the receive ring first (packet_mmap.rst).
    let receive = area(0, options.receive, slot_in).map(|area| RxRing::new(area, header));
    let transmit = area(options.receive, options.transmit, slot_out);
    Ok((receive, transmit.map(|area| TxRing::new(area, header))))
}

fn get_flag(fd: impl AsFd, name: i32) -> bool {
    option::get::<i32>(fd, libc::SOL_PACKET, name).is_ok_and(|value| value != 0)
}
