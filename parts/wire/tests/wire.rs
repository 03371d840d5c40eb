//! Frames of real nodes through a served wire: what arrives, when, and what the books say.

use super::world;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use netloom_impair::{Cause, Fate, Loss, RandomLoss, Share};
use netloom_kit::{isolated, needs, needs_tun, wait_until};
use netloom_wire::control::{Connection, DirectionState, Record, Request};
use world::{ADDRESS, Impairments, Server, WIRE, World, delay};

const WAIT: Duration = Duration::from_secs(30);

/// A world of packet sockets, a server, and a connection to it.
fn set_up() -> (World, Server, Connection) {
    let server = Server::start();
    let client = server.connect();
    (World::packet_sockets(), server, client)
}

/// A socket of node 0 that sends to one of node 1.
fn udp(world: &World) -> (UdpSocket, UdpSocket) {
    let [sender, receiver] = [0, 1].map(|i| {
        let socket = world.nodes[i].run(|| UdpSocket::bind((ADDRESS[i], 5000)).unwrap());
        socket.connect((ADDRESS[1 - i], 5000)).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket
    });
    (sender, receiver)
}

fn send(socket: &UdpSocket, count: u16) {
    for number in 0..count {
        socket.send(&number.to_be_bytes()).unwrap();
    }
}

/// The numbers of the next `count` datagrams.
fn receive(socket: &UdpSocket, count: usize) -> Vec<u16> {
    let one = || {
        let mut number = [0; 2];
        assert_eq!(socket.recv(&mut number).unwrap(), 2);
        u16::from_be_bytes(number)
    };
    (0..count).map(|_| one()).collect()
}

fn assert_none_left(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    assert!(socket.recv(&mut [0; 8]).is_err());
}

fn state(client: &Connection, direction: usize) -> DirectionState {
    client.list(Some(WIRE)).unwrap()[&WIRE][direction].clone().unwrap()
}

fn offered(client: &Connection, packets: u64) -> DirectionState {
    wait_until("all have come to the wire", WAIT, || {
        Some(state(client, 0)).filter(|s| s.ledger.offered.packets >= packets)
    })
}

fn pattern(lost: &str) -> Impairments {
    let pattern = lost.chars().map(|c| c == 'x').collect();
    Impairments { loss: Some(Loss::Pattern(pattern)), ..Impairments::default() }
}

/// An expression decides about a packet, whatever a program or a fate says of others; changed, it decides otherwise.
#[test]
fn what_an_expression_matches_is_dropped_and_told() {
    needs!("libpcap");
    isolated!({
        let (world, _server, client) = set_up();
        let dropping = |words: &str| Impairments { drop: Some(words.into()), ..delay(0) };
        let request = world.request(&dropping("udp[8:2] = 1 or udp[8:2] = 3"), &delay(0));
        client.order(&request, &world.fds()).unwrap();
        client.order(&Request::Fates { wire: WIRE, direction: 0, keep: 10 }, &[]).unwrap();
        let (a, b) = udp(&world);
        send(&a, 5);
        assert_eq!(receive(&b, 3), [0, 2, 4]);
        let seen = offered(&client, 5);
        assert_eq!((seen.ledger.lost.drop.packets, seen.ledger.offered.packets), (2, 5));
        let fates = client.fates(WIRE, 0, None, 10).unwrap().records;
        let lost = fates.iter().map(|record| record.fate == Fate::Lost(Cause::Drop));
        assert_eq!(lost.collect::<Vec<_>>(), [false, true, false, true, false]);
        let set = |words: &str| {
            let impairments = dropping(words);
            client.order(&Request::Set { wire: WIRE, direction: 0, impairments }, &[])
        };
        let refused = set("udp port").unwrap_err().to_string();
        assert!(refused.contains("drop: filter \"udp port\": compile: "), "{refused}");
        set("not icmp").unwrap();
        send(&a, 2);
        assert_eq!(offered(&client, 7).ledger.lost.drop.packets, 4);
        client
            .order(&Request::Set { wire: WIRE, direction: 0, impairments: delay(0) }, &[])
            .unwrap();
        send(&a, 1);
        assert_eq!(receive(&b, 1), [0]);
        assert_none_left(&b);
    });
}

/// sch_netem(8): `limit` bounds what is delayed.
#[test]
fn a_limit_bounds_what_is_delayed() {
    isolated!({
        let (world, _server, client) = set_up();
        let limited = |milliseconds| Impairments { limit: Some(4), ..delay(milliseconds) };
        // Longer than all is sent and looked at, however busy the machine is.
        world.join(&client, &limited(600_000), &delay(0));
        client.order(&Request::Fates { wire: WIRE, direction: 0, keep: 10 }, &[]).unwrap();
        let (a, b) = udp(&world);
        send(&a, 10);
        let seen = offered(&client, 10);
        assert_eq!((seen.ledger.lost.limit.packets, seen.ledger.held.packets), (6, 4));
        let fates = client.fates(WIRE, 0, None, 10).unwrap().records;
        let lost = fates.iter().map(|record| record.fate == Fate::Lost(Cause::Limit));
        assert_eq!(lost.collect::<Vec<_>>(), [[false; 4].as_slice(), &[true; 6]].concat());
        client.remove(WIRE, false).unwrap();
        // What has left makes room.
        world.join(&client, &limited(100), &delay(0));
        for _ in 0..3 {
            send(&a, 4);
            assert_eq!(receive(&b, 4), [0, 1, 2, 3]);
        }
        assert!(state(&client, 0).ledger.closes());
        assert_none_left(&b);
    });
}

fn exchange(world: &World) {
    let server = Server::start();
    let client = server.connect();
    world.join(&client, &delay(20), &delay(30));
    let (a, b) = udp(world);
    for text in ["ping", "pong"] {
        let start = Instant::now();
        a.send(text.as_bytes()).unwrap();
        let mut got = [0; 16];
        let length = b.recv(&mut got).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(20));
        b.send(&got[..length]).unwrap();
        let length = a.recv(&mut got).unwrap();
        assert_eq!(&got[..length], text.as_bytes());
        assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
    }
    let states = client.remove(WIRE, true).unwrap();
    for state in states.into_iter().map(Option::unwrap) {
        assert!(state.ledger.closes());
        assert_eq!((state.ledger.sent.packets, state.held_frames), (2, 0));
        assert_eq!((state.lateness.count, state.trouble), (2, None));
    }
}

#[test]
fn frames_are_delayed_between_packet_sockets() {
    isolated!({
        exchange(&World::packet_sockets());
    });
}

#[test]
fn frames_are_delayed_between_taps() {
    isolated!({
        needs_tun!();
        exchange(&World::taps(false));
    });
}

#[test]
fn exactly_the_pattern_is_lost() {
    isolated!({
        let (world, _server, client) = set_up();
        world.join(&client, &pattern("..x.x"), &delay(0));
        let (a, b) = udp(&world);
        send(&a, 50);
        let wanted: Vec<u16> = (0..50).filter(|n| ![2, 4].contains(&(n % 5))).collect();
        assert_eq!(receive(&b, wanted.len()), wanted);
        assert_none_left(&b);
        let ledger = offered(&client, 50).ledger;
        assert!(ledger.closes());
        assert_eq!((ledger.offered.packets, ledger.sent.packets), (50, 30));
        assert_eq!(ledger.lost.of(Cause::Loss).packets, 20);
        // Ethernet, IPv4 and UDP headers and two bytes.
        assert_eq!(ledger.sent.bytes, 30 * 44);
    });
}

fn fates_with(seed: u64) -> Vec<Record> {
    let (world, _server, client) = set_up();
    let loss = RandomLoss { share: Share(300_000_000), correlation: Share(0) };
    let forth = Impairments { loss: Some(Loss::Random(loss)), ..delay(1) };
    let mut request = world.request(&forth, &delay(0));
    if let Request::Add { directions, .. } = &mut request
        && let [Some(forth), _] = &mut **directions
    {
        forth.seed = seed;
    }
    client.order(&request, &world.fds()).unwrap();
    client.order(&Request::Fates { wire: WIRE, direction: 0, keep: 150 }, &[]).unwrap();
    let (a, _b) = udp(&world);
    send(&a, 200);
    offered(&client, 200);
    let early = client.fates(WIRE, 0, None, 40).unwrap();
    assert_eq!((early.records.len(), early.missed, early.records[0].sequence), (40, 50, 50));
    let last = early.records[39].sequence;
    let rest = client.fates(WIRE, 0, Some(last), 1000).unwrap();
    assert_eq!((rest.records.len(), rest.missed), (110, 0));
    [early.records, rest.records].concat()
}

#[test]
fn a_seed_gives_the_same_fates_again() {
    isolated!({
        let names = |seed| {
            let lost = |r: &Record| matches!(r.fate, Fate::Lost(Cause::Loss));
            let fates = fates_with(seed);
            assert!(fates.iter().all(|r| r.bytes == 44 && r.packets == 1 && r.time_ns > 0));
            fates.iter().map(|r| (r.sequence, lost(r))).collect::<Vec<_>>()
        };
        let one = names(1);
        assert_eq!(one, names(1));
        assert_ne!(one, names(2));
    });
}

/// Sends `bytes` from node 0 to node 1 and compares what arrives.
fn transfer(world: &World, bytes: usize, meanwhile: impl FnOnce(&dyn Fn() -> bool)) {
    let listener = world.nodes[1].run(|| TcpListener::bind((ADDRESS[1], 5001)).unwrap());
    let value = |at: usize| u8::try_from((at * 31 + at / 251) % 256).unwrap();
    let receiving = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut buffer = vec![0; 1 << 16];
        let mut got = 0;
        loop {
            let n = stream.read(&mut buffer).unwrap();
            if n == 0 {
                return got;
            }
            let wrong = buffer[..n].iter().enumerate().find(|(i, b)| **b != value(got + i));
            assert_eq!(wrong, None, "after {got}");
            got += n;
        }
    });
    let sending = world.nodes[0].spawn(move || {
        let mut stream = TcpStream::connect((ADDRESS[1], 5001)).unwrap();
        let all: Vec<u8> = (0..bytes).map(value).collect();
        stream.write_all(&all).unwrap();
    });
    meanwhile(&|| !receiving.is_finished());
    sending.join().unwrap();
    assert_eq!(receiving.join().unwrap(), bytes);
}

fn change_while_tcp_runs(world: &World) {
    let server = Server::start();
    let client = server.connect();
    world.join(&client, &delay(5), &delay(5));
    let mut changes = 0u64;
    transfer(world, 64 << 20, |runs| {
        while runs() {
            changes += 1;
            for direction in [0, 1] {
                let impairments = delay([1, 7, 0, 3][usize::try_from(changes % 4).unwrap()]);
                client.order(&Request::Set { wire: WIRE, direction, impairments }, &[]).unwrap();
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    assert!(changes > 2, "{changes} changes: the transfer was too short");
    for state in client.remove(WIRE, true).unwrap().into_iter().map(Option::unwrap) {
        assert!(state.ledger.closes());
        assert_eq!(state.ledger.lost.total().packets, 0, "{:?}", state.ledger);
    }
}

#[test]
fn delays_change_while_tcp_runs_over_packet_sockets() {
    isolated!({
        change_while_tcp_runs(&World::packet_sockets());
    });
}

#[test]
fn delays_change_while_tcp_runs_over_taps() {
    isolated!({
        needs_tun!();
        change_while_tcp_runs(&World::taps(false));
    });
}

#[test]
fn super_frames_are_cut_where_packets_have_fates() {
    isolated!({
        let (world, _server, client) = set_up();
        let hundredth = format!("{}x", ".".repeat(199));
        let forth = Impairments { duplicate: Share(10_000_000), ..pattern(&hundredth) };
        world.join(&client, &forth, &delay(0));
        client.order(&Request::Fates { wire: WIRE, direction: 0, keep: 1000 }, &[]).unwrap();
        transfer(&world, 4 << 20, |_| {});
        let records = client.fates(WIRE, 0, None, 1000).unwrap().records;
        assert!(records.len() > 900);
        assert!(records.iter().all(|r| r.packets == 1 && r.bytes <= 1514));
        let state = client.remove(WIRE, true).unwrap()[0].clone().unwrap();
        assert!(state.ledger.closes(), "{:?}", state.ledger);
        let lost = state.ledger.lost.of(Cause::Loss).packets;
        assert_eq!(lost, state.ledger.offered.packets / 200);
        assert!(lost > 10 && state.ledger.duplicated.packets > 10, "{:?}", state.ledger);
    });
}

#[test]
fn a_damaged_datagram_is_found_out_by_its_receiver() {
    isolated!({
        let (world, _server, client) = set_up();
        let (a, b) = udp(&world);
        world.join(&client, &Impairments { corrupt: Share::ALL, ..delay(0) }, &delay(0));
        // Long, so that the one bit is nearly always in what the checksum covers.
        let text = [7; 1400];
        for _ in 0..50 {
            a.send(&text).unwrap();
        }
        let state = offered(&client, 50);
        assert_eq!((state.ledger.sent.packets, state.ledger.corrupted.packets), (50, 50));
        client.remove(WIRE, true).unwrap();
        world.join(&client, &delay(0), &delay(0));
        a.send(b"whole").unwrap();
        let mut got = [0; 2000];
        let length = b.recv(&mut got).unwrap();
        assert_eq!(&got[..length], b"whole", "none of those before came through");
    });
}

#[test]
fn packets_leave_at_the_rate() {
    isolated!({
        let (world, _server, client) = set_up();
        // A frame of 1,000 bytes takes 10 ms.
        let forth = Impairments { rate: Some(800_000), ..Impairments::default() };
        world.join(&client, &forth, &delay(0));
        let (a, b) = udp(&world);
        let start = Instant::now();
        for _ in 0..30 {
            a.send(&[0; 1000 - 42]).unwrap();
        }
        for number in 1..=30 {
            b.recv(&mut [0; 1500]).unwrap();
            assert!(start.elapsed() >= Duration::from_millis(number * 10));
        }
    });
}

/// A delay that outlasts a test however busy the machine is, which only a limit permits.
fn lasting() -> Impairments {
    Impairments { limit: Some(1000), ..delay(600_000) }
}

#[test]
fn what_is_held_is_delivered_or_lost_with_the_wire() {
    isolated!({
        let (world, _server, client) = set_up();
        let (a, b) = udp(&world);
        for drain in [true, false] {
            let forth = if drain { delay(300) } else { lasting() };
            let holds = forth.delay;
            world.join(&client, &forth, &delay(0));
            let start = Instant::now();
            send(&a, 10);
            let held = offered(&client, 10);
            // On a busy machine some may have left by then.
            if start.elapsed() < holds {
                assert_eq!((held.held_frames, held.ledger.held.packets), (10, 10));
            }
            let state = client.remove(WIRE, drain).unwrap()[0].clone().unwrap();
            assert!(state.ledger.closes());
            assert_eq!((state.held_frames, state.held_bytes), (0, 0));
            assert!(client.list(None).unwrap().is_empty());
            if drain {
                assert!(start.elapsed() >= Duration::from_millis(300));
                assert_eq!(receive(&b, 10), (0..10).collect::<Vec<_>>());
                assert_eq!(state.ledger.sent.packets, 10);
            } else {
                assert_eq!(state.ledger.lost.of(Cause::Closed).packets, 10);
            }
        }
        assert_none_left(&b);
    });
}

#[test]
fn a_drain_is_cut_short_by_who_does_not_want_to_wait() {
    isolated!({
        let (world, server, client) = set_up();
        world.join(&client, &lasting(), &delay(0));
        let (a, _b) = udp(&world);
        send(&a, 5);
        offered(&client, 5);
        client.send(&Request::Remove { wire: WIRE, drain: true }, &[]).unwrap();
        let other = server.connect();
        wait_until("the drain has begun", WAIT, || {
            // The direction without frames ends at once.
            other.list(Some(WIRE)).unwrap()[&WIRE][1].as_ref().filter(|s| s.held_frames == 0)?;
            Some(())
        });
        let state = other.remove(WIRE, false).unwrap()[0].clone().unwrap();
        assert_eq!(state.ledger.lost.of(Cause::Closed).packets, 5);
        let told = client.answer().unwrap();
        assert!(matches!(told, netloom_wire::control::Answer::Removed(_)), "{told:?}");
    });
}

#[test]
fn a_wire_whose_tap_is_gone_says_so_and_ends_as_any() {
    isolated!({
        needs_tun!();
        let server = Server::start();
        let client = server.connect();
        let world = World::taps(false);
        world.join(&client, &delay(0), &delay(0));
        world.nodes[0].run(|| {
            let mut batch = netloom_netlink::Batch::new();
            batch.push("eth0", &netloom_netlink::DeleteLink::new(10));
            netloom_netlink::Socket::open().unwrap().run(&mut batch).unwrap();
        });
        wait_until("the input is gone", WAIT, || state(&client, 0).input_gone.then_some(()));
        let sender = world.nodes[1].run(|| UdpSocket::bind((ADDRESS[1], 5000)).unwrap());
        sender.send_to(b"into the void", (ADDRESS[0], 5000)).unwrap();
        wait_until("the frame is refused", WAIT, || {
            let ledger = state(&client, 1).ledger;
            (ledger.closes() && ledger.lost.of(Cause::Refused).packets == 1).then_some(())
        });
        client.remove(WIRE, true).unwrap();
    });
}
