//! Times, in processor time, the requests of a lab of 1,000 nodes and 2,000 links in a ring, encoding and kernel.
//!
//! Run as root, or in a user namespace of one's own. Everything it makes goes with it.
#![allow(clippy::print_stdout, reason = "prints what it measured")]

use std::error::Error;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use netloom_netlink::{Address, Batch, Change, EndSpec, Route, Socket, VethSpec};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::{ClockId, clock_gettime};

const NODES: u16 = 1000;
const LINKS: u16 = 2000;
const ROUTES: u16 = 10;

/// Processor time of this thread, user and kernel: what others do on the machine does not count.
struct Clock(Duration);

impl Clock {
    fn now() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }

    fn start() -> Self {
        Self(Self::now())
    }

    fn elapsed(&self) -> Duration {
        Self::now().saturating_sub(self.0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let core = fresh()?;
    let nodes = (0..NODES).map(|_| fresh()).collect::<Result<Vec<_>, _>>()?;
    move_into_link_name_space(core.as_fd(), Some(LinkNameSpaceType::Network))?;
    time_links(&nodes)?;
    time_nodes(&nodes)?;
    Ok(())
}

/// Link `l` joins node `l` to node `l + 1 + l / NODES`; each end's index is 10 + `l`.
fn time_links(nodes: &[File]) -> Result<(), Box<dyn Error>> {
    let mut socket = Socket::open()?;
    let mut batch = Batch::new();
    let begin = Clock::start();
    for link in 0..LINKS {
        let name = format!("eth{link}");
        let end = |node: u16| EndSpec {
            netns: Some(nodes[usize::from(node % NODES)].as_fd()),
            index: Some(10 + u32::from(link)),
            mac: Some([2, 0, 0, 0, link.to_be_bytes()[0], link.to_be_bytes()[1]]),
            mtu: Some(1500),
            name: &name,
        };
        let pair = VethSpec::new(end(link), end(link + 1 + link / NODES));
        batch.push(format!("link \"{link}\""), &VethSpec { a_up: true, ..pair });
    }
    let encoded = begin.elapsed();
    let begin = Clock::start();
    socket.run(&mut batch)?;
    let took = begin.elapsed();
    println!("{LINKS} veth pairs: encoding {encoded:?}, kernel {took:?}, {:?} each", took / 2000);
    Ok(())
}

fn time_nodes(nodes: &[File]) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::new();
    let (mut encoding, mut kernel, mut entering) =
        (Duration::ZERO, [Duration::ZERO; 2], Duration::ZERO);
    let mut count = 0;
    for (node, space) in (0..NODES).zip(nodes) {
        let begin = Clock::start();
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?;
        let mut socket = Socket::open()?;
        entering += begin.elapsed();
        for (step, took) in kernel.iter_mut().enumerate() {
            let begin = Clock::start();
            if step == 0 {
                set_up(&mut batch, node)
            } else {
                add_routes(&mut batch, node)
            }
            encoding += begin.elapsed();
            count += batch.len();
            let begin = Clock::start();
            socket.run(&mut batch)?;
            *took += begin.elapsed();
        }
    }
    let routes = u32::from(NODES * ROUTES);
    println!("enter and open, {NODES} times: {entering:?}");
    println!("{count} messages: encoding {encoding:?}");
    println!("links up and addresses: {:?}", kernel[0]);
    println!("{routes} routes: {:?}, {:?} each", kernel[1], kernel[1] / routes);
    Ok(())
}

/// The four links of a node: two it begins, two that end at it.
fn links_of(node: u16) -> [(u16, u8); 4] {
    let before = |steps: u16| (node + NODES - steps) % NODES;
    [(node, 1), (NODES + node, 1), (before(1), 2), (NODES + before(2), 2)]
}

fn set_up(batch: &mut Batch, node: u16) {
    let object: Arc<str> = format!("node \"{node}\"").into();
    batch.push(object.clone(), &Change::of(1).up());
    for (link, side) in links_of(node) {
        let index = 10 + u32::from(link);
        let [high, low] = link.to_be_bytes();
        let four = Ipv4Addr::new(10, high, low, side);
        let six = Ipv6Addr::new(0xfd00, link, 0, 0, 0, 0, 0, side.into());
        batch.push(object.clone(), &Change::of(index).up());
        batch.push(object.clone(), &Address::new(index, net(four.into(), 24)));
        batch.push(object.clone(), &Address::new(index, net(six.into(), 64)));
    }
}

fn add_routes(batch: &mut Batch, node: u16) {
    let object: Arc<str> = format!("node \"{node}\"").into();
    let [high, low] = node.to_be_bytes();
    let via = IpAddr::from(Ipv4Addr::new(10, high, low, 2));
    for number in 0..ROUTES {
        let to = Ipv4Addr::new(172, 16, number.to_be_bytes()[1], 0);
        let route = Route::new(net(to.into(), 24), Some(via), 10 + u32::from(node));
        batch.push(object.clone(), &route);
    }
}

fn net(address: IpAddr, length: u8) -> IpNet {
    IpNet::new(address, length).unwrap_or_else(|_| IpNet::from(address))
}

/// A new network namespace, which a thread makes and leaves behind by its descriptor.
fn fresh() -> std::io::Result<File> {
    let make = || {
        // SAFETY: unshare takes no pointer, and the namespace is that of this thread alone.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => File::open("/proc/thread-self/ns/net"),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    made.unwrap_or_else(|_| Err(std::io::Error::other("the thread failed")))
}
