//! Measures a wire between two namespaces: throughput of one TCP stream, error of the delay, rate,
//! and the processor time of an idle wire. To be run as root; needs iperf3.
//!
//! `wire-measure [taps|taps-napi|packet] [tcp|udp|rate|idle]...`; all of it by default. The
//! process that carries frames is one of its own, as in use.

#[path = "../tests/world/mod.rs"]
mod world;

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netloom_wire::control::{Connection, Request};
use world::{ADDRESS, Impairments, WIRE, World, delay};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, path] = &arguments[..]
        && first == "serve"
    {
        let path = Path::new(path);
        let listener = netloom_wire::control::listen(path).expect("listen");
        netloom_wire::serve(listener, path.parent().expect("a folder")).expect("serve");
        return;
    }
    let wants = |what: &str| {
        let kinds = ["taps", "taps-napi", "packet"];
        let chosen = arguments.iter().filter(|a| !kinds.contains(&a.as_str()));
        chosen.clone().next().is_none() || chosen.clone().any(|a| a == what)
    };
    let has = |what: &str| arguments.iter().any(|a| a == what);
    let world = if has("packet") { World::packet_sockets() } else { World::taps(has("taps-napi")) };
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("wire.sock");
    let mut server = start(&path);
    let client = connect(&path);
    if wants("tcp") {
        for ms in [0, 1, 10, 50] {
            tcp(&world, &client, &server, ms);
        }
    }
    if wants("udp") {
        for ms in [1, 10, 50, 100] {
            udp(&world, &client, ms);
        }
    }
    if wants("rate") {
        for rate in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000] {
            rated(&world, &client, rate);
        }
    }
    if wants("idle") {
        idle(&world, &client, &server);
    }
    client.order(&Request::Stop, &[]).expect("stop");
    server.wait().expect("wait for the server");
}

fn start(path: &Path) -> Child {
    let own = std::env::current_exe().expect("own path");
    Command::new(own).arg("serve").arg(path).spawn().expect("start the server")
}

fn connect(path: &Path) -> Connection {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if let Some(client) = Connection::open(path).expect("connect") {
            return client;
        }
        std::thread::yield_now();
    }
    panic!("no server");
}

/// Processor time of a process in ms.
fn processor_ms(server: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).expect("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<u64>().expect("a number");
    (ticks(12) + ticks(13)) * 10
}

/// Memory of a process in MiB.
fn memory_mib(server: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("status");
    let line = status.lines().find(|l| l.starts_with("VmRSS")).expect("VmRSS");
    line.split_whitespace().nth(1).expect("size").parse::<u64>().expect("a number") / 1024
}

/// Runs iperf3 from node 0 to node 1 and gives Gb/s.
fn iperf(world: &World, seconds: u32) -> f64 {
    let mut listening = world.nodes[1].run(|| {
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
    let out = world.nodes[0].run(|| {
        let seconds = seconds.to_string();
        let arguments = ["-c", ADDRESS[1], "-t", &seconds, "-O", "1", "-f", "m", "-w", "16M"];
        Command::new("iperf3").args(arguments).output().expect("run iperf3")
    });
    listening.wait().expect("end of iperf3");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|l| l.contains("receiver")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|w| w.ends_with("bits/sec"));
    let mbits = at.and_then(|i| words[i - 1].parse::<f64>().ok());
    mbits.unwrap_or_else(|| panic!("iperf3: {text}{}", String::from_utf8_lossy(&out.stderr)))
        / 1000.0
}

fn tcp(world: &World, client: &Connection, server: &Child, ms: u64) {
    world.join(client, &delay(ms), &delay(ms));
    let before = processor_ms(server);
    let seconds = 5;
    let gbits = iperf(world, seconds);
    let used = processor_ms(server) - before;
    let memory = memory_mib(server);
    let state = client.remove(WIRE, true).expect("remove");
    let forth = state[0].as_ref().expect("a direction");
    let late = &forth.lateness;
    println!(
        "tcp  delay {ms:3} ms each way: {gbits:6.2} Gb/s, wire {:3} % of a core, {memory} MiB, \
         late p50 {} us p99 {} us max {} us, lost {:?}",
        used / (10 * u64::from(seconds + 1)),
        late.quantile_ns(1, 2) / 1000,
        late.quantile_ns(99, 100) / 1000,
        late.max_ns / 1000,
        forth.ledger.lost.total().packets,
    );
    assert!(forth.ledger.closes(), "{:?}", forth.ledger);
}

/// Sends stamped datagrams and measures their way, the receiver's waking up included.
fn udp(world: &World, client: &Connection, ms: u64) {
    world.join(client, &delay(ms), &delay(ms));
    let start = Instant::now();
    let count = 2000u32;
    let receiver = world.nodes[1].run(|| UdpSocket::bind((ADDRESS[1], 5000)).expect("bind"));
    receiver.set_read_timeout(Some(Duration::from_secs(1))).expect("timeout");
    let sender = world.nodes[0].run(|| UdpSocket::bind((ADDRESS[0], 5000)).expect("bind"));
    sender.connect((ADDRESS[1], 5000)).expect("connect");
    let sending = std::thread::spawn(move || {
        for _ in 0..count {
            let now = u64::try_from(start.elapsed().as_nanos()).expect("short");
            sender.send(&now.to_ne_bytes()).expect("send");
            std::thread::sleep(Duration::from_micros(997));
        }
    });
    let mut errors = Vec::new();
    let mut stamp = [0; 8];
    while receiver.recv(&mut stamp).is_ok() {
        let way = start.elapsed().as_nanos() - u128::from(u64::from_ne_bytes(stamp));
        errors.push(way.saturating_sub(u128::from(ms) * 1_000_000));
    }
    sending.join().expect("sender");
    errors.sort_unstable();
    let at = |percent: usize| errors[(errors.len() - 1) * percent / 100] / 1000;
    let state = client.remove(WIRE, false).expect("remove");
    let late = &state[0].as_ref().expect("a direction").lateness;
    println!(
        "udp  delay {ms:3} ms: {} of {count} came; one way too long by p50 {} us p99 {} us max {} us; \
         released late p50 {} us p99 {} us max {} us",
        errors.len(),
        at(50),
        at(99),
        at(100),
        late.quantile_ns(1, 2) / 1000,
        late.quantile_ns(99, 100) / 1000,
        late.max_ns / 1000,
    );
}

fn rated(world: &World, client: &Connection, rate: u64) {
    let forth = Impairments { rate: Some(rate), ..delay(1) };
    world.join(client, &forth, &delay(1));
    let stop = Arc::new(AtomicBool::new(false));
    let sender = world.nodes[0].run(|| UdpSocket::bind((ADDRESS[0], 5000)).expect("bind"));
    sender.connect((ADDRESS[1], 5001)).expect("connect");
    let until = stop.clone();
    // A quarter more than the rate, in portions of a millisecond.
    let portion = rate / 1000 * 5 / 4 / (8 * 1442) + 1;
    let sending = std::thread::spawn(move || {
        let mut next = Instant::now();
        while !until.load(Ordering::Relaxed) {
            for _ in 0..portion {
                // Nobody listens there; a refusal comes back now and then.
                let _ = sender.send(&[0; 1400]);
            }
            next += Duration::from_millis(1);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    });
    let sent = || {
        let state = client.list(Some(WIRE)).expect("list");
        let time = Instant::now();
        (time, state[&WIRE][0].as_ref().expect("a direction").ledger.sent.bytes)
    };
    std::thread::sleep(Duration::from_secs(1));
    let before = sent();
    std::thread::sleep(Duration::from_secs(3));
    let after = sent();
    stop.store(true, Ordering::Relaxed);
    sending.join().expect("sender");
    let wanted = rate as f64 * (after.0 - before.0).as_secs_f64() / 8.0;
    let share = 100.0 * (after.1 - before.1) as f64 / wanted;
    println!("rate {:4} Mb/s: delivered {share:.3} % of it", rate / 1_000_000);
    client.remove(WIRE, false).expect("remove");
}

fn idle(world: &World, client: &Connection, server: &Child) {
    world.join(client, &delay(50), &delay(50));
    std::thread::sleep(Duration::from_secs(2));
    let before = processor_ms(server);
    std::thread::sleep(Duration::from_secs(5));
    let used = processor_ms(server) - before;
    println!("idle 5 s: {used} ms of processor time, {} MiB", memory_mib(server));
    client.remove(WIRE, false).expect("remove");
}
