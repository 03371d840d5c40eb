//! Programs in the kernel as a data plane: results of the tables are kept there, and only frames without one come up.
//!
//! See `netloom_ebpf::flow`. Frames are sent by packet sockets that receive nothing, through the interface's egress,
//! so that what is attached there sees them; the programs are at ingress, where such frames do not pass. Programs
//! stay attached without this process, and forward on; the next process finds them at the first port that it adds.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_ebpf::flow::{self, Count, Flow, Limit, List};
use netloom_ebpf::{Hook, feature};
use netloom_netlink::{Batch, IngressDiscipline};
use netloom_openflow::{Field, PortNumber};
use netloom_pipeline::Frame;
use netloom_rawsock::socket;
use netloom_sys::{Failure, Unsupported};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags};

use super::packets::{is_bound, silence};
use crate::data_plane::{
    Credit, DataPlane, Entry, Inherited, PlaneCounters, PlaneFacts, PlanePort, Slot, Upcall,
};
use crate::error::SWITCH;
use crate::{Error, Result};

/// Upcalls of a port in a second: about what one processor takes through the tables. A long frame counts as several.
const RATE: u32 = 400_000;

/// Bytes of the ring of upcalls for each small frame that may wait, and how many there are at least.
const ROOM: u32 = 512;
const LEAST_RING: u32 = 1 << 20;
const MOST_RING: u32 = 1 << 26;

/// Ports whose programs are attached by tcx: for each the kernel waits some 10 ms, and lets no other change of a network
/// begin. Those of further ports are filters of a queueing discipline, for which it does not wait.
const BY_TCX: usize = 32;

/// Upcalls in a turn, however many ports there are: controllers wait meanwhile.
const MOST_UPCALLS: usize = 2048;

/// A port of it.
struct Taken {
    index: u32,
    /// Sends, and receives nothing.
    socket: OwnedFd,
    send_dropped: u64,
}

/// An entry in the programs' memory.
struct Kept {
    /// The programs' generation that it is of.
    generation: u64,
    /// The credited counts.
    credited: Count,
}

impl Kept {
    /// What it forwarded since it was asked last.
    fn credit(&mut self, slot: Slot, count: Count) -> Option<Credit> {
        let before = std::mem::replace(&mut self.credited, count);
        let (packets, bytes) = (count.packets - before.packets, count.bytes - before.bytes);
        (packets > 0).then_some(Credit { slot, packets, bytes, used: count.used })
    }
}

/// The plane.
pub(crate) struct CachePlane {
    flow: Flow,
    /// How many upcalls each port may have.
    limit: Limit,
    /// Whether programs of an earlier process may be at the ports.
    may_adopt: bool,
    /// The ring of upcalls, under a descriptor that stays.
    epoll: OwnedFd,
    ports: BTreeMap<PortNumber, Taken>,
    kept: BTreeMap<Slot, Kept>,
    /// The newest generation that was told; the programs have numbers of their own, which never come again.
    told: u64,
    buffer: Vec<u8>,
}

impl CachePlane {
    /// One without ports, of each of which this many small frames may wait for the tables.
    ///
    /// # Errors
    /// What the machine or the user lacks.
    pub(crate) fn open(waiting: u32) -> Result<CachePlane, Unsupported> {
        feature::hook_supported()?;
        let failed = |reason| Unsupported {
            feature: "switches in the kernel",
            reason,
            needs: "root, and a kernel with BPF, Linux 5.17 or later".to_owned(),
        };
        let flow = Flow::create(&flow::Options { ring: ring(waiting), ..flow::Options::default() })
            .map_err(|e| match e {
                netloom_ebpf::Error::Unsupported(missing) => missing,
                other => failed(netloom_sys::describe(&other)),
            })?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|e| failed(e.to_string()))?;
        let mut plane = CachePlane {
            flow,
            limit: Limit { rate: RATE, burst: waiting },
            may_adopt: true,
            epoll,
            ports: BTreeMap::new(),
            kept: BTreeMap::new(),
            told: 0,
            buffer: vec![],
        };
        plane.watch().map_err(|e| failed(netloom_sys::describe(&e)))?;
        Ok(plane)
    }

    /// Attaches the programs to a further port.
    fn attach(&self, port: &PlanePort) -> Result<()> {
        let (index, number) = (port.index, port.number.0);
        // A refused filter does no harm: tcx is only slower to attach.
        let many = self.flow.hook() == Hook::Tcx && self.ports.len() >= BY_TCX;
        if many
            && takes_filters(index).is_ok()
            && self.flow.attach_by(Hook::Clsact, index, number, self.limit).is_ok()
        {
            return Ok(());
        }
        self.flow.attach(index, number, self.limit).map_err(failed)
    }

    fn watch(&mut self) -> Result<()> {
        epoll::add(&self.epoll, self.flow.upcalls_fd(), EventData::new_u64(0), EventFlags::IN)
            .map_err(|e| Failure::new(SWITCH, "watch the ring of upcalls", e).into())
    }

    /// Takes over the programs that an earlier process attached to an interface. Their results stay in force, unless
    /// it is too late to ask for them.
    fn adopt(&mut self, index: u32) -> Result<()> {
        if !std::mem::take(&mut self.may_adopt) {
            return Ok(());
        }
        let Some(flow) = Flow::reopen(index).map_err(failed)? else { return Ok(()) };
        // A descriptor that is watched twice would bring events of a ring that nobody reads.
        let _ = epoll::delete(&self.epoll, self.flow.upcalls_fd());
        self.flow = flow;
        // What was given up before this process found the programs must not forward on.
        if self.told > 0 {
            self.flow.set_generation(self.flow.generation() + 1);
        }
        let generation = self.flow.generation();
        let of = |kept: flow::Kept| (kept.slot, Kept { generation, credited: kept.noted });
        self.kept = self.flow.kept().map(of).collect();
        self.watch()
    }
}

/// Bytes of the ring of upcalls: all ports share it.
fn ring(waiting: u32) -> u32 {
    waiting.saturating_mul(ROOM).clamp(LEAST_RING, MOST_RING).next_power_of_two()
}

/// Gives an interface a place for filters at its receiving side.
fn takes_filters(index: u32) -> netloom_netlink::Result<()> {
    let mut batch = Batch::new();
    batch.push_tolerant(format!("interface {index}"), &IngressDiscipline(index));
    netloom_netlink::Socket::open()?.run(&mut batch)
}

fn failed(error: netloom_ebpf::Error) -> Error {
    Failure::new(SWITCH, "forward in the kernel", std::io::Error::other(error)).into()
}

impl DataPlane for CachePlane {
    fn facts(&self) -> PlaneFacts {
        let stats = self.flow.stats();
        PlaneFacts {
            kind: match self.flow.hook() {
                Hook::Tcx => "tcx".into(),
                Hook::Clsact => "clsact".into(),
            },
            slower: None,
            entries: u64::try_from(self.flow.results()).unwrap_or(u64::MAX),
            capacity: u64::from(self.flow.room()),
            hits: stats.exact + stats.masked,
        }
    }

    fn add_port(&mut self, port: &PlanePort) -> Result<()> {
        // Before frames pass: a stack that answers would be one more host on the link.
        silence(&port.interface);
        // Those of a process of another version.
        Flow::displace(port.index).map_err(failed)?;
        self.adopt(port.index)?;
        let refused = |e| Error::from(netloom_port::Error::from(e));
        let fd = socket::open(port.index, SocketFlags::NONBLOCK).map_err(refused)?;
        // Protocol 0 receives nothing (packet(7)): only the programs take frames.
        socket::bind(&fd, port.index, 0).map_err(refused)?;
        // Frames are for the addresses of others. The kernel ends it with the socket.
        socket::promiscuous(&fd, port.index).map_err(refused)?;
        // Only now: if the interface cannot be opened, the port keeps the old one.
        self.remove_port(port.number);
        self.attach(port)?;
        let taken = Taken { index: port.index, socket: fd, send_dropped: 0 };
        self.ports.insert(port.number, taken);
        Ok(())
    }

    fn has_port(&self, number: PortNumber) -> bool {
        self.ports.get(&number).is_some_and(|port| is_bound(&port.socket))
    }

    fn remove_port(&mut self, number: PortNumber) {
        if let Some(port) = self.ports.remove(&number) {
            // The interface may be gone, and its programs with it.
            let _ = self.flow.detach(port.index);
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn receive(&mut self, most: usize, hear: &mut dyn FnMut(Upcall<'_>) -> bool) -> Result<()> {
        let CachePlane { flow, ports, buffer, .. } = self;
        // One ring has the frames of all ports.
        let most = (most * ports.len().max(1)).min(MOST_UPCALLS);
        let mut goes_on = true;
        for _ in 0..most {
            // One at a time, so that `hear` can end the turn without losing what is behind.
            let heard = flow.upcalls().receive(1, &mut |told| {
                let port = PortNumber(told.port);
                // A port that was removed may still have frames in the ring.
                if ports.contains_key(&port) {
                    buffer.clear();
                    buffer.extend_from_slice(told.frame);
                    goes_on = hear(Upcall { port, header: told.header, frame: buffer });
                }
            });
            if heard == 0 || !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn send(&mut self, frames: &[Frame]) {
        for frame in frames {
            // The port went while the frame was made.
            let Some(port) = self.ports.get_mut(&frame.port) else { continue };
            let sent = || rustix::net::send(&port.socket, &frame.bytes, SendFlags::DONTWAIT);
            let mut done = sent();
            while done == Err(Errno::INTR) {
                done = sent();
            }
            port.send_dropped += u64::from(done.is_err());
        }
    }

    fn install(&mut self, entry: &Entry<'_>) -> bool {
        let to = |port: PortNumber| self.ports.get(&port).map(|port| port.index);
        // Programs that cannot do one of the effects leave the frame to the tables.
        let list = match List::of(entry.effects, entry.key, to) {
            Some(list) if entry.generation == self.told => list,
            _ => return false,
        };
        let generation = self.flow.generation();
        let result = flow::Entry {
            slot: entry.slot,
            generation,
            key: entry.key,
            mask: entry.consulted,
            list: &list,
        };
        // A map that cannot be written keeps nothing.
        if !self.flow.install(&result).unwrap_or(false) {
            return false;
        }
        self.kept.insert(entry.slot, Kept { generation, credited: Count::default() });
        true
    }

    fn invalidate(&mut self, generation: u64) -> Result<()> {
        self.told = generation;
        // A number in the programs' memory, compared for each packet: no entry need be touched.
        self.flow.set_generation(self.flow.generation() + 1);
        Ok(())
    }

    fn remove(&mut self, slots: &[Slot], into: &mut Vec<Credit>) -> Result<()> {
        for slot in slots {
            self.flow.remove(*slot);
        }
        // Their counters are final then.
        self.flow.settle();
        for slot in slots {
            let Some(mut kept) = self.kept.remove(slot) else { continue };
            into.extend(kept.credit(*slot, self.flow.counts(*slot)));
        }
        Ok(())
    }

    fn credits(&mut self, into: &mut Vec<Credit>) -> Result<()> {
        let (flow, now) = (&self.flow, self.flow.generation());
        self.kept.retain(|slot, kept| {
            into.extend(kept.credit(*slot, flow.counts(*slot)));
            // No more will come of those of an older generation.
            kept.generation == now
        });
        self.flow.order_masks();
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.told
    }

    fn inherited(&mut self) -> Result<Vec<Inherited>> {
        let of = |kept: flow::Kept| {
            let number = kept.key.get(Field::InPort);
            let port = PortNumber(u32::try_from(number).unwrap_or(0));
            Inherited { slot: kept.slot, port, key: kept.key, consulted: kept.mask }
        };
        Ok(self.flow.kept().map(of).collect())
    }

    fn saved(&mut self) {
        for (slot, kept) in &self.kept {
            self.flow.note(*slot, kept.credited);
        }
    }

    fn counters(&mut self, number: PortNumber) -> PlaneCounters {
        let Some(port) = self.ports.get(&number) else { return PlaneCounters::default() };
        let counts = self.flow.port_counts(port.index).ok().flatten().unwrap_or_default();
        PlaneCounters {
            upcalls: counts.upcalls,
            upcalls_dropped: counts.limited + counts.full,
            send_dropped: port.send_dropped,
            malformed: counts.long,
        }
    }
}
