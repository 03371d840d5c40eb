//! Two nodes joined by a wire: namespaces, ports, addresses, and a server to carry frames.
//!
//! Namespaces live by their descriptors. The server is a thread of the test or a process of its
//! own; either way it is talked to over its socket.

#![allow(dead_code, unreachable_pub, reason = "each user uses a part")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_netlink::{Address, Batch, Change, EndSpec, Socket, VethSpec};
use netloom_port::{PacketPort, Tap, TapOptions};
use netloom_sys::namespace;
use netloom_wire::control::{Connection, DirectionSpec, PortKind, Request, listen};

pub use netloom_impair::Impairments;

/// Addresses of the two nodes.
pub const ADDRESS: [&str; 2] = ["10.9.0.1", "10.9.0.2"];

/// The only wire's number.
pub const WIRE: usize = 7;

/// A network namespace.
#[derive(Debug)]
pub struct Net(OwnedFd);

impl Net {
    pub fn new() -> Net {
        let made = std::thread::spawn(|| {
            namespace::new_network()?;
            namespace::current_network()
        });
        Net(made.join().expect("thread").expect("network namespace"))
    }

    /// Runs `f` on a thread in it.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            namespace::enter_network(&self.0).expect("enter the namespace");
            f()
        };
        std::thread::scope(|s| s.spawn(inside).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }

    /// Starts `f` on a thread in it.
    pub fn spawn<T: Send + 'static>(
        &self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let net = self.0.try_clone().expect("copy a descriptor");
        std::thread::spawn(move || {
            namespace::enter_network(net).expect("enter the namespace");
            f()
        })
    }
}

/// Two nodes and the descriptors of their ports.
#[derive(Debug)]
pub struct World {
    pub nodes: [Net; 2],
    pub ports: [OwnedFd; 2],
    pub kind: PortKind,
    core: Option<Net>,
}

impl World {
    /// Nodes whose interfaces are taps.
    pub fn taps(napi: bool) -> World {
        let nodes = [Net::new(), Net::new()];
        let ports = [0, 1].map(|i| {
            nodes[i].run(|| {
                let options = TapOptions { index: Some(10), napi, ..TapOptions::default() };
                let tap = Tap::create("eth0", options).expect("tap");
                raise(i);
                tap.into_fd()
            })
        });
        World { nodes, ports, kind: PortKind::Tap, core: None }
    }

    /// Nodes with veths whose other ends are in a namespace of their own.
    pub fn packet_sockets() -> World {
        let nodes = [Net::new(), Net::new()];
        let core = Net::new();
        let ports = [0u32, 1].map(|i| {
            let node = &nodes[usize::try_from(i).expect("small")];
            let index = 100 + i;
            let fd = core.run(|| {
                let name = format!("p{i}");
                let a = EndSpec { index: Some(index), ..EndSpec::new(&name) };
                let b = EndSpec {
                    netns: Some(node.0.as_fd()),
                    index: Some(10),
                    ..EndSpec::new("eth0")
                };
                let mut batch = Batch::new();
                batch.push("veth", &VethSpec { a_up: true, ..VethSpec::new(a, b) });
                Socket::open().expect("netlink").run(&mut batch).expect("make a veth");
                PacketPort::open(index).expect("packet socket").into_fd()
            });
            node.run(|| raise(usize::try_from(i).expect("small")));
            core.run(|| netloom_kit::wait_for_carrier(index));
            fd
        });
        World { nodes, ports, kind: PortKind::Packet, core: Some(core) }
    }

    /// Joins the nodes by a wire.
    pub fn join(&self, client: &Connection, forth: &Impairments, back: &Impairments) {
        client.order(&self.request(forth, back), &self.fds()).expect("add a wire");
    }

    pub fn request(&self, forth: &Impairments, back: &Impairments) -> Request {
        let spec = |impairments: &Impairments, input: usize| {
            let seed = 42 + u64::try_from(input).expect("small");
            Some(DirectionSpec { impairments: impairments.clone(), seed, input, output: 1 - input })
        };
        let directions = Box::new([spec(forth, 0), spec(back, 1)]);
        Request::Add { wire: WIRE, ports: vec![self.kind; 2], directions }
    }

    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.ports[0].as_fd(), self.ports[1].as_fd()]
    }
}

/// Gives the interface with index 10 its address and a name for the other node's.
fn raise(node: usize) {
    let mut batch = Batch::new();
    let quiet = std::fs::write("/proc/sys/net/ipv6/conf/eth0/disable_ipv6", "1");
    assert!(quiet.is_ok() || !Path::new("/proc/sys/net/ipv6").exists(), "{quiet:?}");
    let number = u8::try_from(node).expect("small");
    batch.push("eth0", &Change::of(10).mac([2, 0, 0, 0, 0, number + 1]));
    batch.push("eth0", &Change::of(10).up());
    let address = format!("{}/24", ADDRESS[node]).parse().expect("address");
    batch.push("eth0", &Address::new(10, address));
    let neighbour = netloom_netlink::Neighbour {
        link: 10,
        address: ADDRESS[1 - node].parse().expect("address"),
        mac: [2, 0, 0, 0, 0, 2 - number],
    };
    batch.push("eth0", &neighbour);
    Socket::open().expect("netlink").run(&mut batch).expect("configure eth0");
}

/// A server in a thread of this process.
pub struct Server {
    folder: tempfile::TempDir,
    thread: Option<std::thread::JoinHandle<netloom_wire::Result<()>>>,
}

impl Server {
    pub fn start() -> Server {
        let folder = tempfile::tempdir().expect("folder");
        let listener = listen(&folder.path().join("wire.sock")).expect("listen");
        let path = folder.path().to_owned();
        let thread = std::thread::spawn(move || netloom_wire::serve(listener, &path));
        Server { folder, thread: Some(thread) }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("wire.sock")
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.path()).expect("connect").expect("a server")
    }

    /// Waits until it has ended by itself.
    pub fn ended(&mut self) {
        let thread = self.thread.take().expect("a thread");
        thread.join().expect("no panic").expect("no failure");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let client = self.connect();
            client.order(&Request::Stop, &[]).expect("stop");
            thread.join().expect("no panic").expect("no failure");
        }
    }
}

/// Only a delay.
pub fn delay(milliseconds: u64) -> Impairments {
    Impairments { delay: Duration::from_millis(milliseconds), ..Impairments::default() }
}
