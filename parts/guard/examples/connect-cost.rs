//! What guard adds to an allowed connect(2): medians of many, with policies of few and of many rules.
//!
//! `connect-cost [CALLS]`: pinned to one CPU, supervisor and program alike, and to two.

use std::process::{Command, Stdio};
use std::time::Instant;

use netloom_guard::{Options, Rules, start};
use netloom_policy::{Policy, read};
use netloom_sys::seccomp::launch::Place;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::thread::{CpuSet, sched_setaffinity};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("calls") => println!("{}", median(words[2].parse().expect("a number"))),
        calls => compare(calls.map_or(20_000, |calls| calls.parse().expect("a number"))),
    }
}

/// Median time of a connect(2) of a UDP socket, in nanoseconds.
fn median(calls: usize) -> u128 {
    let fd = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    let address: std::net::SocketAddr = "127.0.0.1:9".parse().expect("an address");
    let mut times: Vec<u128> = (0..calls)
        .map(|_| {
            let begun = Instant::now();
            connect(&fd, &address).expect("allowed");
            begun.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn pin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).expect("pinned");
}

fn compare(calls: usize) {
    for cpus in [&[0][..], &[0, 1]] {
        pin(cpus);
        let plain = median(calls);
        for rules in [1, 10_000] {
            let guarded = guarded(calls, &policy(rules));
            let added = guarded.saturating_sub(plain);
            println!(
                "cpus {cpus:?} rules {rules}: plain {plain} ns, guarded {guarded} ns, added {added} ns"
            );
        }
    }
}

fn policy(rules: usize) -> Policy {
    let lines = (0..rules - 1)
        .map(|at| format!("  - {{allow: out, to: 10.{}.{}.0/24, port: 80}}\n", at / 256, at % 256));
    let text: String = lines.collect();
    let text =
        format!("default: deny\nrules:\n{text}  - {{allow: out, to: 127.0.0.0/8, port: 9}}\n");
    read("policy", text.as_bytes()).expect("a policy")
}

fn guarded(calls: usize, policy: &Policy) -> u128 {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["calls", &calls.to_string()]).stdout(Stdio::piped());
    let (child, supervisor) = start(command, Place::default()).expect("started");
    supervisor.serve(&Rules::new(policy.clone(), Options::default())).expect("served");
    let output = child.wait_with_output().expect("ended");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}
