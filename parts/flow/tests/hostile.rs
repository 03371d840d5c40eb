//! Those who send nonsense, flood, never read, or come in thousands: others are served all the while.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use netloom_digest::splitmix::SplitMix64;
use netloom_flow::control::Request;
use netloom_kit::isolated;
use netloom_openflow::multipart::MultipartRequest;
use netloom_openflow::{Match, Message, Reason, Version, encode};
use netloom_sys::scm;

use super::world::{Peer, Switch, frame, wait};

/// Messages of the fuzzer's seeds, as they are.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/openflow");
    let entries = std::fs::read_dir(folder).expect("seeds");
    entries.map(|entry| std::fs::read(entry.expect("a seed").path()).expect("a seed")).collect()
}

#[test]
fn nonsense_costs_at_most_its_own_connection() {
    isolated!({
        let switch = Switch::secure();
        let mut steady = switch.peer();
        let mut random = SplitMix64::new(7);
        let seeds = seeds();
        let mut pick = |most: usize| usize::try_from(random.next_u64()).unwrap_or(0) % most;
        let rounds = netloom_kit::rounds(60);
        for _ in 0..rounds {
            let mut peer = Peer::silent(&switch.openflow());
            if pick(4) > 0 {
                peer = peer.greeted(Version::V13);
            }
            for _ in 0..20 {
                let mut bytes = seeds[pick(seeds.len())].clone();
                for _ in 0..pick(4) {
                    let at = pick(bytes.len().max(1));
                    let value = u8::try_from(pick(256)).expect("a byte");
                    bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
                }
                bytes.truncate(if pick(8) == 0 { pick(bytes.len().max(1)) } else { usize::MAX });
                if !peer.try_write(&bytes) {
                    break;
                }
            }
            steady.barrier();
        }
        netloom_kit::done("connections that sent nonsense", rounds);
        // It works as before.
        steady.flow(netloom_openflow::flow::FlowCommand::Delete, "table=255");
        steady.add("in_port=1,actions=drop");
        steady.barrier();
        assert_eq!(steady.flows().len(), 1);
    });
}

#[test]
fn wrong_messages_are_answered_as_the_specification_says() {
    isolated!({
        let switch = Switch::secure();
        let mut peer = switch.peer();
        // Of a type that is not known, of another version, too short for its type.
        for (bytes, reason) in [
            (vec![4, 99, 0, 8, 0, 0, 0, 1], Reason::BadRequestBadType),
            (vec![1, 5, 0, 8, 0, 0, 0, 2], Reason::BadRequestBadVersion),
            (vec![4, 14, 0, 8, 0, 0, 0, 3], Reason::BadRequestBadLen),
        ] {
            peer.write(&bytes);
            let error = peer.hear(|_, message| match message {
                Message::Error(error) => Some(error.clone()),
                _ => None,
            });
            assert_eq!(error.reason(Version::V13), Some(reason));
            assert_eq!(error.data, bytes);
        }
        peer.barrier();
        // A length below a header's: nothing behind it can be read.
        peer.write(&[4, 2, 0, 3, 0, 0, 0, 0]);
        assert!(peer.next().is_none());
        // Something else than a hello comes first.
        let mut rude = Peer::silent(&switch.openflow());
        rude.write(&[4, 5, 0, 8, 0, 0, 0, 9]);
        rude.hear(|_, message| match message {
            Message::Error(error) => {
                let reason = error.reason(Version::V13);
                (reason == Some(Reason::HelloFailedIncompatible)).then_some(())
            }
            _ => None,
        });
        assert!(rude.next().is_none());
        switch.peer().barrier();
    });
}

#[test]
fn a_full_table_says_so_and_keeps_what_it_has() {
    isolated!({
        let switch = Switch::with(|told| told.max_entries = 10);
        let mut peer = switch.peer();
        for port in 1..=10 {
            peer.add(&format!("in_port={port},actions=drop"));
        }
        peer.barrier();
        peer.add("in_port=11,actions=drop");
        let error = peer.hear(|_, message| match message {
            Message::Error(error) => Some(error.clone()),
            _ => None,
        });
        assert_eq!(error.reason(Version::V13), Some(Reason::FlowModFailedTableFull));
        // One that replaces another needs no room, another table has some.
        peer.add("in_port=1,actions=output:2");
        peer.add("table=1,in_port=11,actions=drop");
        peer.barrier();
        assert_eq!(peer.flows().len(), 11);
    });
}

#[test]
fn one_that_never_reads_is_closed_and_holds_bounded_memory() {
    isolated!({
        let switch = Switch::with(|told| told.probe = 1);
        let mut other = switch.peer();
        for number in 0..2000 {
            other.add(&format!("udp,tp_dst={number},actions=output:1"));
        }
        other.barrier();
        let mut greedy = UnixStream::connect(switch.openflow()).unwrap();
        greedy.set_nonblocking(true).unwrap();
        let hello = [4, 0, 0, 8, 0, 0, 0, 0];
        greedy.write_all(&hello).unwrap();
        let body = netloom_openflow::Request::Flow(netloom_openflow::multipart::FlowRequest::new(
            Match::Oxm(vec![]),
        ));
        let message = Message::MultipartRequest(MultipartRequest { flags: 0, body });
        let request = encode(Version::V13, 1, &message).unwrap();
        let mut longest = 0;
        wait("it is closed", || {
            for _ in 0..100 {
                match greedy.write(&request) {
                    Ok(_) => {}
                    Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(_) => return Some(()),
                }
            }
            other.barrier();
            let queued = switch.show().connections.iter().map(|c| c.queued).max();
            longest = longest.max(queued.unwrap_or(0));
            None
        });
        // One answer beyond what stops reading, and no more: 2,000 entries of a hundred bytes.
        assert!(longest > 0 && longest < 1 << 20, "{longest}");
        assert!(switch.show().counters["connections-dropped"] >= 1);
        other.barrier();
    });
}

#[test]
fn packets_for_one_that_does_not_read_are_left_out() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, _b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("actions=CONTROLLER:65535");
        // A service is told of packets once it says how much of them it wants.
        let config =
            netloom_openflow::switch::SwitchConfig { miss_send_len: 65535, ..Default::default() };
        peer.say(&Message::SetConfig(config));
        peer.barrier();
        let mut sent = frame("dl_src=02:00:00:00:00:01,udp");
        sent.resize(1500, 7);
        wait("packets are left out", || {
            for _ in 0..100 {
                a.send(&sent);
            }
            (switch.show().counters["packet-ins-dropped"] > 0).then_some(())
        });
        // It begins to read: what was kept is there, and so is the answer.
        peer.barrier();
        let told = peer.others.iter().filter(|(_, m)| matches!(m, Message::PacketIn(_))).count();
        assert!(told > 100, "{told}");
    });
}

#[test]
fn a_flood_of_requests_does_not_stop_others() {
    isolated!({
        let switch = Switch::secure();
        let [mut a, mut b] = switch.nodes();
        let mut peer = switch.peer();
        peer.add("in_port=1,actions=output:2");
        peer.barrier();
        let path = switch.openflow();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut stream = UnixStream::connect(&path).unwrap();
                    let _ = stream.write_all(&[4, 0, 0, 8, 0, 0, 0, 0]);
                    let mut reader = stream.try_clone().unwrap();
                    let reading = std::thread::spawn(move || {
                        let _ = std::io::copy(&mut reader, &mut std::io::sink());
                    });
                    let echo = [4, 2, 0, 8, 0, 0, 0, 0].repeat(4096);
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        if stream.write_all(&echo).is_err() {
                            break;
                        }
                    }
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                    reading.join().unwrap();
                });
            }
            for number in 0..50 {
                peer.barrier();
                let sent = frame(&format!("dl_src=02:00:00:00:00:01,udp,tp_dst={number}"));
                a.send(&sent);
                assert_eq!(b.expect(&sent), 0);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(switch.show().cpu_us > 0);
    });
}

#[test]
fn a_thousand_connections_are_served() {
    isolated!({
        use rustix::process::{Resource, Rlimit};
        netloom_kit::needs!("descriptors");
        let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
        let all = Rlimit { current: maximum, maximum };
        rustix::process::setrlimit(Resource::Nofile, all).unwrap();
        let switch = Switch::secure();
        let mut peers: Vec<Peer> = (0..1000).map(|_| switch.peer()).collect();
        assert_eq!(switch.show().connections.len(), 1000);
        for peer in &mut peers {
            peer.say(&Message::BarrierRequest);
        }
        for peer in &mut peers {
            peer.hear(|_, message| matches!(message, Message::BarrierReply).then_some(()));
        }
        drop(peers);
        wait("all are gone", || switch.show().connections.is_empty().then_some(()));
    });
}

#[test]
fn nonsense_on_the_control_socket_is_answered() {
    isolated!({
        let switch = Switch::start();
        let control = switch.control();
        let raw: [&[u8]; 4] =
            [b"{", b"{\"short\":\"no-such\"}", b"{\"long\":5}", b"{\"long\":99999999999}"];
        for bytes in raw {
            scm::send(&*control, bytes, &[]).unwrap();
            let mut buffer = [0; 4096];
            let (length, _) = scm::receive(&*control, &mut buffer).unwrap();
            let answer = String::from_utf8_lossy(&buffer[..length]);
            assert!(answer.contains("failed") && answer.contains("message: "), "{answer}");
        }
        let port = |number, name: &str, interface: &str| {
            let (name, interface) = (name.to_owned(), interface.to_owned());
            netloom_flow::control::PortSpec { number, name, interface, mac: None }
        };
        for (spec, says) in [
            (port(0, "a", "lo"), "its number is 0"),
            (port(0xff00, "a", "lo"), "its number is 65280"),
            (port(1, "", "lo"), "names have 1 to 255 bytes"),
            (port(1, "a", "none"), "no interface \"none\""),
        ] {
            let error = control.add_port(spec).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        control.add_port(port(1, "a", "lo")).unwrap();
        control.add_port(port(1, "b", "lo")).unwrap();
        let taken = control.add_port(port(2, "a", "lo")).unwrap_err();
        assert!(taken.to_string().contains("interface \"lo\" is that of port 1"), "{taken}");
        assert_eq!(switch.show().ports[0].name, "b");
        control.remove_port("b").unwrap();
        let gone = control.remove_port(1).unwrap_err();
        assert!(gone.to_string().contains("port 1: there is none"), "{gone}");
        let long = Request::DropNamespace { name: "x".repeat(100_000) };
        control.ask(&long, &[]).unwrap();
    });
}
