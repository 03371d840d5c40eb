//! Packet sockets as a data plane: every frame is an upcall, so the tables themselves treat it.
//!
//! Needs no BPF and no rights outside the network namespace. Frames go through the interface's egress, so what is
//! attached there sees them. Each port has a ring of its own, which bounds what waits. The namespace's own stack
//! gets the frames as well; it has no addresses, and IPv6 is switched off on the interface, so it stays silent.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_openflow::PortNumber;
use netloom_packet::VnetHeader;
use netloom_pipeline::Frame;
use netloom_port::{HEADER, Lent, MOST_FRAME, Port, Received, RingOptions, RingPort, Sent};
use netloom_sys::Failure;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::Result;
use crate::data_plane::{
    Credit, DataPlane, Entry, PlaneCounters, PlaneFacts, PlanePort, Slot, Upcall,
};
use crate::error::SWITCH;

/// Most ports of a turn.
const EVENTS: usize = 64;

/// A port of it.
struct Taken {
    ring: RingPort,
    counters: PlaneCounters,
    /// Whether its interface is gone, and nobody watches it any more.
    gone: bool,
}

/// The plane.
pub(crate) struct PacketPlane {
    epoll: OwnedFd,
    ports: BTreeMap<PortNumber, Taken>,
    buffer: Vec<u8>,
    slower: Option<String>,
    /// The port that was served last.
    served: PortNumber,
}

impl PacketPlane {
    /// One without ports; `slower` says why it is not a faster one.
    pub(crate) fn new(slower: Option<String>) -> Result<PacketPlane> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|e| Failure::new(SWITCH, "make an epoll for ports", e))?;
        let (ports, buffer) = (BTreeMap::new(), vec![0; MOST_FRAME]);
        Ok(PacketPlane { epoll, ports, buffer, slower, served: PortNumber(0) })
    }

    /// Numbers of ports with something to read.
    fn ready(&self) -> Vec<(PortNumber, EventFlags)> {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; EVENTS];
        // Only a look: the switch's own loop does the waiting.
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interrupted call is repeated in the next turn.
        let count = epoll::wait(&self.epoll, &mut events, Some(&now)).unwrap_or(0);
        let number = |event: &Event| u32::try_from({ event.data }.u64()).unwrap_or(0);
        let ready = events.iter().take(count).map(|e| (PortNumber(number(e)), e.flags));
        let mut ready: Vec<_> = ready.collect();
        // First those behind the one that was served last.
        ready.sort_by_key(|(port, _)| (*port <= self.served, *port));
        ready
    }
}

impl DataPlane for PacketPlane {
    fn facts(&self) -> PlaneFacts {
        PlaneFacts {
            kind: "packet-sockets".into(),
            slower: self.slower.clone(),
            ..PlaneFacts::default()
        }
    }

    fn add_port(&mut self, port: &PlanePort) -> Result<()> {
        silence(&port.interface);
        let options =
            RingOptions { receive: 1, transmit: 0, promiscuous: true, ..RingOptions::default() };
        let ring = RingPort::open(port.index, options)?;
        let data = EventData::new_u64(u64::from(port.number.0));
        // Only now: if the new interface cannot be opened, the port keeps the old one.
        self.remove_port(port.number);
        epoll::add(&self.epoll, ring.as_fd(), data, EventFlags::IN)
            .map_err(|e| Failure::new(format!("port {:?}", port.name), "watch", e))?;
        let counters = PlaneCounters::default();
        self.ports.insert(port.number, Taken { ring, counters, gone: false });
        Ok(())
    }

    fn has_port(&self, number: PortNumber) -> bool {
        self.ports.get(&number).is_some_and(|port| is_bound(port.ring.as_fd()))
    }

    fn remove_port(&mut self, number: PortNumber) {
        if let Some(port) = self.ports.remove(&number) {
            let _ = epoll::delete(&self.epoll, port.ring.as_fd());
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn receive(&mut self, most: usize, hear: &mut dyn FnMut(Upcall<'_>) -> bool) -> Result<()> {
        let goes_on = Cell::new(true);
        let mut hear = |upcall: Upcall<'_>| goes_on.set(hear(upcall));
        for (number, flags) in self.ready() {
            self.served = number;
            let Some(port) = self.ports.get_mut(&number) else { continue };
            // An error alone may pass: only an interface that is gone ends it.
            if flags.contains(EventFlags::ERR) && port.ring.fault() == Received::Gone {
                port.gone = true;
                // Else epoll reports the error for ever.
                let _ = epoll::delete(&self.epoll, port.ring.as_fd());
                continue;
            }
            for _ in 0..most {
                if !port.next(number, &mut self.buffer, &mut hear)? {
                    break;
                }
                if !goes_on.get() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, frames: &[Frame]) {
        for frame in frames {
            let Some(port) = self.ports.get_mut(&frame.port) else { continue };
            let whole = HEADER + frame.bytes.len();
            let Some(room) = self.buffer.get_mut(..whole) else {
                port.counters.send_dropped += 1;
                continue;
            };
            let (header, body) = room.split_at_mut(HEADER);
            header.fill(0);
            body.copy_from_slice(&frame.bytes);
            // The ring is for receiving; a full queue loses the frame, as a switch's does.
            if !matches!(port.ring.send(room), Ok(Sent::Done)) {
                port.counters.send_dropped += 1;
            }
        }
    }

    fn install(&mut self, _entry: &Entry<'_>) -> bool {
        false
    }

    fn invalidate(&mut self, _generation: u64) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, _slots: &[Slot], _into: &mut Vec<Credit>) -> Result<()> {
        Ok(())
    }

    fn credits(&mut self, _into: &mut Vec<Credit>) -> Result<()> {
        Ok(())
    }

    fn counters(&mut self, number: PortNumber) -> PlaneCounters {
        let Some(port) = self.ports.get_mut(&number) else { return PlaneCounters::default() };
        let upcalls_dropped = port.ring.overruns().unwrap_or(0);
        PlaneCounters { upcalls_dropped, ..port.counters }
    }
}

impl Taken {
    /// Gives the next frame to `hear`; returns whether there may be more.
    fn next(
        &mut self,
        number: PortNumber,
        buffer: &mut [u8],
        hear: &mut dyn FnMut(Upcall<'_>),
    ) -> Result<bool> {
        match self.ring.lend() {
            Lent::Frame(frame) => {
                tell(&mut self.counters, number, frame, hear);
                self.ring.give_back();
            }
            Lent::Truncated => {
                self.counters.malformed += 1;
                self.ring.give_back();
            }
            Lent::Empty => return Ok(false),
            Lent::Never => match self.ring.receive(buffer)? {
                Received::Frame { start, length } => {
                    let frame = buffer.get_mut(start..start + length).unwrap_or(&mut []);
                    tell(&mut self.counters, number, frame, hear);
                }
                Received::Truncated => self.counters.malformed += 1,
                Received::Empty | Received::Down | Received::Gone => return Ok(false),
            },
        }
        Ok(true)
    }
}

/// An upcall of a frame behind its header.
fn tell(
    counters: &mut PlaneCounters,
    port: PortNumber,
    frame: &mut [u8],
    hear: &mut dyn FnMut(Upcall<'_>),
) {
    let Some((header, frame)) = frame.split_at_mut_checked(HEADER) else {
        counters.malformed += 1;
        return;
    };
    match VnetHeader::parse(header) {
        Ok(header) => {
            counters.upcalls += 1;
            hear(Upcall { port, header, frame });
        }
        Err(_) => counters.malformed += 1,
    }
}

/// Whether a port's packet socket still has its interface.
pub(crate) fn is_bound(socket: impl AsFd) -> bool {
    netloom_rawsock::socket::interface(socket).is_ok_and(|interface| interface.is_some())
}

/// Keeps the namespace's own stack from speaking by an interface: without an address it says nothing in IPv4.
pub(crate) fn silence(interface: &str) {
    let quiet = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
    // Without IPv6 there is no such file; where it may not be written, the maker of the interface sets it.
    let _ = std::fs::write(quiet, "1");
}
