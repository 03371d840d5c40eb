//! The program's tap: its queue has room for what connections have in flight, and its gateway stays known.
//!
//! The kernel drops frames for which a tap has no room. The usual 1,000 frames are less than the window of one connection,
//! and the programs have nothing but a timeout with which a sender learns of such a loss.
//!
//! The program answers for its gateway's addresses (ARP, neighbour discovery). The kernel asks again from time to time, and
//! after three seconds without an answer it refuses what leaves. So the first answer is kept as a permanent entry: a
//! program that gets no time is late then, and not gone.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use netloom_netlink::{Batch, Change, Family, Neighbour, Socket, UseNeighbour};
use netloom_sys::namespace;

use crate::{Error, INTERFACE, Result};

/// Frames of the tap's queue: the windows of some connections of 4 MiB each, the most that senders have by default. Each has
/// about 2,300 bytes of the kernel's memory at the usual MTU.
const QUEUE: u32 = 10_000;

/// Gives the tap of this index its queue, by a socket of its network namespace.
///
/// # Errors
/// The system refuses it.
pub fn give_room(socket: &mut Socket, index: u32) -> Result<()> {
    let mut batch = Batch::new();
    batch.push(INTERFACE, &Change::of(index).queue(QUEUE));
    Ok(socket.run(&mut batch)?)
}

/// What a look at the tap found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// How many frames the program has passed by it, `None` if there is none.
    pub(crate) frames: Option<u64>,
    /// Nothing is left to be done at it.
    pub(crate) ready: bool,
}

/// The tap in a network namespace.
pub(crate) struct Tap {
    /// Of that namespace.
    socket: Socket,
    /// Index of the tap that has its queue.
    index: Option<u32>,
    /// Its gateways that are known for good.
    known: Vec<IpAddr>,
}

impl Tap {
    pub(crate) fn in_space(space: &OwnedFd) -> Result<Tap> {
        let socket = namespace::run_in(space.as_fd(), "tap", || Ok::<_, Error>(Socket::open()?))?;
        Ok(Tap { socket, index: None, known: vec![] })
    }

    /// Gives a tap that has come its queue, and keeps its gateways.
    /// That of a program that was killed may be there for a moment still.
    pub(crate) fn tend(&mut self) -> Result<Look> {
        let tap = self.socket.link(INTERFACE)?;
        let index = tap.as_ref().map(|tap| tap.index);
        if let Some(index) = index.filter(|index| Some(*index) != self.index) {
            give_room(&mut self.socket, index)?;
            // A new tap has new neighbours: the kernel forgot the entries with the old one.
            self.known.clear();
        }
        self.index = index;
        let ready = match index {
            Some(index) => self.keep_gateways(index)?,
            None => false,
        };
        let frames = tap.map(|tap| tap.traffic.rx_packets + tap.traffic.tx_packets);
        Ok(Look { frames, ready })
    }

    /// Keeps those gateways of the tap that have answered, and asks the others; whether that of IPv4 is kept, which every
    /// program has.
    fn keep_gateways(&mut self, index: u32) -> Result<bool> {
        let mut batch = Batch::new();
        let mut found = Vec::new();
        for family in [Family::V4, Family::V6] {
            let routes = self.socket.routes(family)?;
            let gateways = routes.iter().filter(|route| route.links == [index]);
            let mut gateways: Vec<IpAddr> = gateways.filter_map(|route| route.via).collect();
            gateways.retain(|gateway| !self.known.contains(gateway));
            if gateways.is_empty() {
                continue;
            }
            let answered = self.socket.neighbours(family)?;
            for address in gateways {
                let here = answered.iter().find(|n| n.link == index && n.address == address);
                match here.and_then(|neighbour| neighbour.mac) {
                    Some(mac) => {
                        batch.push(INTERFACE, &Neighbour { link: index, address, mac });
                        found.push(address);
                    }
                    None => batch.push(INTERFACE, &UseNeighbour { link: index, address }),
                }
            }
        }
        if !batch.is_empty() {
            self.socket.run(&mut batch)?;
        }
        self.known.extend(found);
        Ok(self.known.iter().any(IpAddr::is_ipv4))
    }
}
