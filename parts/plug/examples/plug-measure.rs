//! Measures a plug: Gb/s of TCP in (from the interface to the switch) and out, with offloads on and off,
//! and what frames of 60 bytes it carries. To be run as root, in namespaces that it makes itself.
//!
//! `plug-measure [tcp|frames|old]... [seconds=N] [rounds=N]`; `tcp` and `frames` by default. The interface is
//! a veth, the far node's a tap behind a pump of its own; between them a member in memory. `old` is for
//! comparison: no header of offloads, slots of 2 KiB.

#[path = "../tests/world/mod.rs"]
mod world;

use std::process::Command;
use std::time::{Duration, Instant};

use netloom_netlink::offload::Offloads;
use netloom_port::{HEADER, PacketPort, Port, RingOptions, RingPort, Sent};
use world::{ADDRESS, Memory, Net, Running, Site, tap_node};

/// How the interface's side is read and written.
#[derive(Clone, Copy, Debug)]
enum Access {
    /// Rings for both, long frames aside.
    Rings,
    /// Rings for both, with slots for any frame.
    Whole,
    /// A ring for what comes, a call a frame for what goes.
    RingAndCalls,
    /// A call a frame for both.
    Calls,
    /// Rings without the header of offloads.
    Old,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let found = arguments.iter().find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        found.map_or(default, |n| n.parse().expect("a number"))
    };
    let (seconds, rounds) = (number("seconds", 2), number("rounds", 2));
    let has = |what: &str| arguments.iter().any(|a| a == what);
    let all = !has("tcp") && !has("frames") && !has("old");
    let ways = [Access::Rings, Access::Whole, Access::RingAndCalls, Access::Calls];
    if all || has("tcp") {
        for offloads in [true, false] {
            for way in ways {
                tcp(way, offloads, seconds, rounds);
            }
        }
    }
    if has("old") {
        tcp(Access::Old, true, seconds, rounds);
        tcp(Access::Old, false, seconds, rounds);
    }
    if all || has("frames") {
        for way in ways {
            frames(way, seconds);
        }
    }
}

fn port(site: &Site, way: Access) -> Box<dyn Port> {
    let rings = RingOptions::default();
    match way {
        Access::Rings => Box::new(site.port(rings)),
        Access::Whole => {
            Box::new(site.port(RingOptions { whole_slots: true, receive: 16, ..rings }))
        }
        Access::RingAndCalls => Box::new(site.port(RingOptions { transmit: 0, ..rings })),
        Access::Calls => Box::new(site.core.run(|| PacketPort::open(100).expect("a port"))),
        Access::Old => Box::new(site.port(RingOptions { without_offloads: true, ..rings })),
    }
}

/// The same stream between two nodes joined by a veth alone, for comparison.
fn direct(seconds: u64) -> f64 {
    let nodes = world::direct();
    iperf([&nodes[0], &nodes[1]], 1, seconds)
}

fn tcp(way: Access, offloads: bool, seconds: u64, rounds: u64) {
    let beside = direct(seconds);
    let site = Site::new(0);
    let (node, tap) = tap_node(1);
    if !offloads {
        for (net, link) in [(&site.node, "eth0"), (&site.core, "p0"), (&node, "eth0")] {
            net.run(|| turn_off(link));
        }
    }
    let [a, b] = Memory::pair(1 << 20, false);
    let plug = Running::start(port(&site, way), Box::new(a));
    let far = Running::start(Box::new(tap), Box::new(b));
    let nodes = [&site.node, &node];
    let (mut into, mut out) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        into.push(iperf(nodes, 1, seconds));
        out.push(iperf(nodes, 0, seconds));
    }
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let (into, out) = (mean(&into), mean(&out));
    println!(
        "tcp, offloads {}, {way:?}: in {into:.2} Gb/s, out {out:.2} Gb/s, in/out {:.2}; veth alone {beside:.2}",
        if offloads { "on " } else { "off" },
        into / out
    );
    println!("    plug {:?}", plug.reading.read());
    drop(far);
}

fn turn_off(link: &str) {
    let mut offloads = Offloads::open().expect("features");
    for feature in [
        "tx-tcp-segmentation",
        "tx-tcp6-segmentation",
        "tx-generic-segmentation",
        "tx-checksum-ip-generic",
        "rx-gro",
    ] {
        // One that an interface does not have is off.
        let _ = offloads.set(link, &[(feature, false)]);
    }
}

/// One TCP stream to node `to`, in Gb/s.
fn iperf(nodes: [&Net; 2], to: usize, seconds: u64) -> f64 {
    let mut listening = nodes[to].run(|| {
        let mut child = Command::new("iperf3")
            .args(["-s", "-1", "--forceflush"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("start iperf3");
        let out = child.stdout.take().expect("output");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
        let _ = lines.find(|l| l.as_ref().is_ok_and(|l| l.contains("listening")));
        std::thread::spawn(move || lines.count());
        child
    });
    let out = nodes[1 - to].run(|| {
        let seconds = seconds.to_string();
        let wanted = ["-c", ADDRESS[to], "-t", &seconds, "-f", "m", "--connect-timeout", "1000"];
        Command::new("iperf3").args(wanted).output().expect("run iperf3")
    });
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|l| l.contains("receiver")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|w| w.ends_with("bits/sec"));
    let mbits = at.and_then(|i| words[i - 1].parse::<f64>().ok());
    if mbits.is_none() {
        // No connection: a listener would wait for ever.
        listening.kill().expect("end iperf3");
    }
    listening.wait().expect("end of iperf3");
    mbits.unwrap_or(0.0) / 1000.0
}

/// Frames of 60 bytes from a ring in the node through the plug into memory, where they are thrown away.
fn frames(way: Access, seconds: u64) {
    let site = Site::new(0);
    let [a, mut b] = Memory::pair(1 << 20, false);
    let plug = Running::start(port(&site, way), Box::new(a));
    let mut node = site.node.run(|| RingPort::open(10, RingOptions::default()).expect("a port"));
    let mut frame = vec![0; HEADER];
    frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame.resize(HEADER + 60, 0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut sent, mut taken) = (0_u64, 0_u64);
    std::thread::scope(|s| {
        s.spawn(|| {
            while Instant::now() < until {
                for _ in 0..32 {
                    sent += u64::from(node.queue(&frame).expect("send") == Sent::Done);
                }
                node.flush().expect("send");
            }
        });
        let mut buffer = vec![0; netloom_port::MOST_FRAME];
        while Instant::now() < until {
            use netloom_plug::{Member, Taken};
            if let Taken::Frame { .. } = b.receive(&mut buffer).expect("receive") {
                taken += 1;
            } else {
                let bell = b.as_fd();
                let mut fds = [rustix::event::PollFd::new(&bell, rustix::event::PollFlags::IN)];
                let most = netloom_sys::process::timespec(Duration::from_millis(10));
                rustix::event::poll(&mut fds, Some(&most)).expect("wait");
            }
        }
    });
    let rate = |count: u64| count as f64 / seconds as f64 / 1e6;
    println!("60 bytes in, {way:?}: offered {:.2}, carried {:.2} Mpps", rate(sent), rate(taken));
    println!("    plug {:?}", plug.reading.read());
}
