//! Namespaces, nodes, and frames made by hand.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use netloom_netlink::{Address, Batch, Change, DeleteLink, EndSpec, Neighbour, Socket, VethSpec};
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::{Version, text};
use netloom_packet::{VnetHeader, vnet};
use netloom_port::{HEADER, MOST_FRAME, PacketPort, Port, Received, Sent};
use netloom_sys::namespace;

/// A network namespace.
#[derive(Debug)]
pub struct Net(OwnedFd);

impl Net {
    pub fn new() -> Net {
        let made = std::thread::spawn(|| {
            namespace::new_network()?;
            // Unrequested messages should not be sent.
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
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
        std::thread::scope(|s| s.spawn(inside).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl AsFd for Net {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sets `lo` of the calling thread's namespace up.
pub fn raise_lo() {
    let mut batch = Batch::new();
    batch.push("lo", &Change::of("lo").up());
    Socket::open().expect("netlink").run(&mut batch).expect("raise lo");
}

/// A node with one interface, `eth0`, and a packet socket on it.
pub struct Node {
    pub net: Net,
    /// The switch's end of its link.
    pub outer: String,
    port: PacketPort,
    buffer: Vec<u8>,
}

impl Node {
    /// The node with MAC address 02:00:00:00:00:NN.
    pub fn new(number: u8) -> Node {
        Node::with(number, None)
    }

    /// The same, after the link of this one is gone: the switch's end has its name and its index.
    pub fn instead_of(self, number: u8) -> Node {
        let mut socket = Socket::open().expect("netlink");
        let index = socket.index_of(&self.outer).expect("its index");
        let mut batch = Batch::new();
        batch.push("veth", &DeleteLink::new(index));
        socket.run(&mut batch).expect("delete a veth");
        Node::with(number, Some(index))
    }

    fn with(number: u8, index: Option<u32>) -> Node {
        let net = Net::new();
        let outer = format!("p{number}");
        let _ = std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let mut batch = Batch::new();
        let mac = Some([2, 0, 0, 0, 0, number]);
        let inner = EndSpec { netns: Some(net.as_fd()), mac, ..EndSpec::new("eth0") };
        let end = EndSpec { index, ..EndSpec::new(&outer) };
        let veth = VethSpec { a_up: true, ..VethSpec::new(end, inner) };
        batch.push("veth", &veth);
        Socket::open().expect("netlink").run(&mut batch).expect("make a veth");
        let port = net.run(|| {
            let quiet = std::fs::read_to_string("/proc/sys/net/ipv6/conf/eth0/disable_ipv6");
            let silent = quiet.is_ok_and(|text| text.trim() == "1");
            assert!(silent || !Path::new("/proc/sys/net/ipv6").exists());
            let mut socket = Socket::open().expect("netlink");
            let mut batch = Batch::new();
            batch.push("eth0", &Change::of("eth0").up());
            socket.run(&mut batch).expect("raise eth0");
            let index = socket.index_of("eth0").expect("its index");
            let port = PacketPort::open(index).expect("a packet socket");
            netloom_kit::wait_for_carrier(index);
            port
        });
        let index = Socket::open().expect("netlink").index_of(&outer).expect("its index");
        netloom_kit::wait_for_carrier(index);
        Node { net, outer, port, buffer: vec![0; MOST_FRAME] }
    }

    /// Gives it the address 10.9.0.N, and the neighbours of the others.
    pub fn configure(&self, own: u8, others: &[u8]) {
        self.net.run(|| {
            let mut socket = Socket::open().expect("netlink");
            let link = socket.index_of("eth0").expect("its index");
            let mut batch = Batch::new();
            let address = |of: u8| format!("10.9.0.{of}");
            let own = format!("{}/24", address(own)).parse().expect("address");
            batch.push("eth0", &Address::new(link, own));
            for other in others {
                let neighbour = Neighbour {
                    link,
                    address: address(*other).parse().expect("address"),
                    mac: [2, 0, 0, 0, 0, *other],
                };
                batch.push("eth0", &neighbour);
            }
            socket.run(&mut batch).expect("configure eth0");
        });
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) {
        let mut bytes = vec![0; HEADER];
        bytes.extend(frame);
        let sent = crate::integration::world::wait("room to send", || {
            Some(self.port.send(&bytes).expect("send")).filter(|sent| *sent != Sent::Full)
        });
        assert_eq!(sent, Sent::Done);
    }

    /// The next frame, if it is there.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        match self.port.receive(&mut self.buffer).expect("receive") {
            Received::Frame { start, length } => {
                let (header, frame) = self.buffer[start..start + length].split_at(vnet::LEN);
                let header = VnetHeader::parse(header).expect("a header");
                assert!(!header.needs_csum, "an unfinished checksum");
                Some(frame.to_vec())
            }
            _ => None,
        }
    }

    /// Waits for this frame, and returns how many others came before it.
    pub fn expect(&mut self, frame: &[u8]) -> usize {
        let mut others = 0;
        crate::integration::world::wait("a frame", || {
            while let Some(got) = self.receive() {
                if got == frame {
                    return Some(());
                }
                others += 1;
            }
            None
        });
        others
    }
}

/// A frame with these fields, in the syntax of ovs-ofctl.
pub fn frame(said: &str) -> Vec<u8> {
    let change = text::flow(FlowCommand::Delete, said, Version::V13).expect("a match");
    netloom_pipeline::example(&change.matching.to_oxm())
}
