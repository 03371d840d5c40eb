//! Namespaces with links between them, traffic of which every packet is known to arrive, and sessions.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, FlowBlock, Marking, points_at};
use netloom_marking::session::Configuration;
use netloom_measure::{ClosedBlock, Error, Interfaces, Result, Session, Setup, Spot, State};
use netloom_netlink::{Address, Batch, Change, DeleteLink, EndSpec, LinkRef, Socket, VethSpec};
use netloom_sys::namespace;
use netloom_sys::realtime::RealTime;

/// Longest that anything is waited for.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// The port that is measured, and the one by which receivers answer.
pub(crate) const PORT: u16 = 5000;

/// Indexes that no two links of a test run share, so that what is attached where can be told.
static NEXT_INDEX: AtomicU32 = AtomicU32::new(1000);

/// A network namespace that goes with this value.
#[derive(Debug)]
pub(crate) struct NetNs(File);

impl NetNs {
    pub(crate) fn create() -> NetNs {
        let made = on_thread(|| {
            namespace::new_network().unwrap();
            for name in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
                std::fs::write(path, "1").unwrap();
            }
            File::open("/proc/thread-self/ns/net").unwrap()
        });
        NetNs(made)
    }

    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        on_thread(|| {
            namespace::enter_network(self.0.as_fd()).unwrap();
            body()
        })
    }

    pub(crate) fn change(&self, fill: impl FnOnce(&mut Batch) + Send) {
        self.run(|| {
            let mut batch = Batch::new();
            fill(&mut batch);
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
    }
}

fn on_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(body).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Two namespaces with a link: `near` (10.7.0.1) and `far` (10.7.0.2) are the names of its ends.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) near: NetNs,
    pub(crate) far: NetNs,
}

impl Pair {
    pub(crate) fn create() -> Arc<Pair> {
        let pair = Pair { near: NetNs::create(), far: NetNs::create() };
        pair.link();
        Arc::new(pair)
    }

    /// Makes the link; the indexes of its ends.
    pub(crate) fn link(&self) -> [u32; 2] {
        let first = NEXT_INDEX.fetch_add(2, Ordering::Relaxed);
        let [near, far] = [first, first + 1];
        let b =
            EndSpec { index: Some(far), netns: Some(self.far.0.as_fd()), ..EndSpec::new("far") };
        let a = EndSpec { index: Some(near), ..EndSpec::new("near") };
        self.near.change(|batch| {
            batch.push("link", &VethSpec { a_up: true, ..VethSpec::new(a, b) });
        });
        self.far.change(|batch| batch.push("up", &Change::of(far).up()));
        self.near.run(|| netloom_kit::wait_for_carrier(near));
        for (space, index, last) in [(&self.near, near, 1), (&self.far, far, 2)] {
            let net = Ipv4Net::new(Ipv4Addr::new(10, 7, 0, last), 24).unwrap();
            let address = Address::new(index, IpNet::V4(net));
            space.change(|batch| batch.push("address", &address));
        }
        [near, far]
    }

    /// How many points there are at its two ends.
    pub(crate) fn points(&self, [near, far]: [u32; 2]) -> [usize; 2] {
        let at = |space: &NetNs, index| space.run(|| points_at(index).unwrap());
        [at(&self.near, near), at(&self.far, far)]
    }

    pub(crate) fn unlink(&self) {
        self.near.change(|batch| batch.push("link", &DeleteLink(LinkRef::Name("near"))));
    }

    /// Sends datagrams from each of this many ports on; each was received when this returns. Every eighth is
    /// waited for, so that no queue is ever full.
    pub(crate) fn udp(&self, datagrams: u32, from: u16) {
        let receiver = self.far.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        receiver.set_read_timeout(Some(BOUND)).unwrap();
        self.near.run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, from)).unwrap();
            let (mut room, mut waiting) = ([0; 2048], 0);
            for n in 1..=datagrams {
                socket.send_to(&[7; 100], (Ipv4Addr::new(10, 7, 0, 2), PORT)).unwrap();
                waiting += 1;
                while (n % 8 == 0 || n == datagrams) && waiting > 0 {
                    receiver.recv(&mut room).expect("every datagram arrives");
                    waiting -= 1;
                }
            }
        });
    }

    /// Sends bytes by TCP; all were received when this returns.
    pub(crate) fn tcp(&self, bytes: usize) {
        let listener = self.far.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        thread::scope(|scope| {
            let received = scope.spawn(|| {
                let mut room = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut room).unwrap()
            });
            self.near.run(|| {
                let mut stream = TcpStream::connect((Ipv4Addr::new(10, 7, 0, 2), PORT)).unwrap();
                stream.write_all(&vec![7; bytes]).unwrap();
            });
            assert_eq!(received.join().unwrap(), bytes);
        });
    }
}

/// The ends of pairs by name: `near`, `far`, or of the second pair `near2`, `far2`.
pub(crate) struct Ends(BTreeMap<String, (Arc<Pair>, bool)>);

impl Ends {
    pub(crate) fn of(pairs: &[&Arc<Pair>]) -> Arc<Ends> {
        let mut ends = BTreeMap::new();
        for (n, pair) in pairs.iter().enumerate() {
            let tail = if n == 0 { String::new() } else { format!("{}", n + 1) };
            ends.insert(format!("near{tail}"), (Arc::clone(pair), true));
            ends.insert(format!("far{tail}"), (Arc::clone(pair), false));
        }
        Arc::new(Ends(ends))
    }
}

impl Interfaces for Ends {
    fn names(&self) -> Result<Vec<String>> {
        Ok(self.0.keys().cloned().collect())
    }

    fn visit(&self, netif: &str, work: &mut (dyn FnMut(u32) -> Result<()> + Send)) -> Result<()> {
        let none = || Error::NoInterface { netif: netif.to_owned() };
        let (pair, near) = self.0.get(netif).ok_or_else(none)?;
        let (space, name) = if *near { (&pair.near, "near") } else { (&pair.far, "far") };
        namespace::run_in(space.0.as_fd(), "netloom-test", || {
            match Socket::open_to_ask()?.link(name)? {
                Some(link) => work(link.index),
                None => Err(none()),
            }
        })
    }
}

/// A time in which this machine does as much as another: translated machines say how much slower they are.
pub(crate) fn slower(time: f64) -> f64 {
    let by = std::env::var("NETLOOM_TEST_SLOWER").map_or(1.0, |by| by.parse().unwrap());
    time * by
}

/// Filter 1 is UDP to the port, filter 2 TCP to it, 3 the way back of both.
pub(crate) fn configuration(program: &str, blocks: u32) -> Configuration {
    let (block, guard) = (slower(0.2), slower(0.05));
    let duration = block * f64::from(blocks) + 0.01;
    let body = format!(
        r#"{{"prog_id": {program}, "mp": {block}, "mpc": {duration}, "guard": {guard},
            "starter_mark": 8, "next_mark": 16, "mark_mask": 56, "filters": [
            {{"id": 1, "dst_ip": "10.7.0.2", "proto": "udp", "dst_port": 5000}},
            {{"id": 2, "dst_ip": "10.7.0.2", "proto": "tcp", "dst_port": 5000}},
            {{"id": 3, "src_ip": "10.7.0.2", "src_port": 5000}}]}}"#
    );
    Configuration::read(body.as_bytes()).unwrap()
}

/// A spot that does not mark.
pub(crate) fn observer(netif: &str, direction: Direction) -> Spot {
    Spot { netif: netif.to_owned(), direction, marking: Marking::Off }
}

/// A spot at egress that marks.
pub(crate) fn marker(netif: &str) -> Spot {
    Spot { netif: netif.to_owned(), direction: Direction::Egress, marking: Marking::Single }
}

/// Marked where it leaves, observed where it arrives.
pub(crate) fn way() -> Vec<Spot> {
    vec![observer("far", Direction::Ingress), marker("near")]
}

/// Blocks of 200 ms, or longer on a slow machine; with 0 of them until it is stopped.
pub(crate) fn setup(blocks: u32, spots: Vec<Spot>) -> Setup {
    let mut configuration = configuration("1", blocks.max(1));
    if blocks == 0 {
        configuration.duration = 0;
    }
    Setup { configuration, spots, clock: Clock::Monotonic, keep: 1000, cache: 0, flows: 0 }
}

pub(crate) fn prepare(ends: &Arc<Ends>, setup: Setup) -> Session {
    let ends: Arc<dyn Interfaces> = Arc::<Ends>::clone(ends);
    Session::prepare(ends, setup).unwrap_or_else(|e| panic!("{e}: {e:?}"))
}

pub(crate) fn started(ends: &Arc<Ends>, setup: Setup) -> Session {
    let session = prepare(ends, setup);
    start(&session);
    session
}

/// Starts it. Its thread must read each block before a later one takes its place, which is soon in a short test: the thread
/// inherits a policy by which it comes before all ordinary threads of a busy machine, where the kernel lets it.
pub(crate) fn start(session: &Session) {
    let first = RealTime::take();
    let started = session.start();
    drop(first);
    started.unwrap_or_else(|e| panic!("{e}: {e:?}"));
}

/// Waits until a block is told; all that are.
pub(crate) fn until_told(session: &Session, block: u64) -> Vec<Arc<ClosedBlock>> {
    let found = session.blocks(block, BOUND);
    assert!(!found.is_empty(), "block {block} never came: {session:?}, {:?}", session.trouble());
    session.blocks(0, Duration::ZERO)
}

/// Waits until it ends by itself; all blocks.
pub(crate) fn until_end(session: &Session) -> Vec<Arc<ClosedBlock>> {
    let _ = session.blocks(u64::MAX, BOUND);
    assert_eq!(session.state(), State::Ended);
    session.blocks(0, Duration::ZERO)
}

/// A flow of a block at a spot.
pub(crate) fn flow(told: &ClosedBlock, spot: usize, id: u32) -> &FlowBlock {
    let point = &told.points[spot];
    assert_eq!(point.spot, spot);
    point.flows.iter().find(|flow| flow.id == id).unwrap()
}

/// Packets of a flow in all blocks.
pub(crate) fn packets(told: &[Arc<ClosedBlock>], spot: usize, id: u32) -> u64 {
    told.iter().map(|told| flow(told, spot, id).record.all.packets).sum()
}

/// What stands against a block at a spot.
pub(crate) fn reasons(told: &ClosedBlock, spot: usize) -> Vec<&'static str> {
    flow(told, spot, 1).record.completeness.reasons()
}
