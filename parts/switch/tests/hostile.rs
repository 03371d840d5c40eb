//! Clients that say what they should not, or nothing, or do not listen: the switch goes on.

use super::world;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use netloom_digest::splitmix::SplitMix64;
use netloom_shm::inbox::Inbox;
use netloom_shm::protocol::{Channel, Incoming, MOST_PART, Message, Posted, Reason, Refused};
use netloom_shm::ring::Writer;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use world::{ALL, BOUND, Raw, Switch, Ticket, connect, frame, mac, tell};

/// Two ports that can talk, and a switch that answers: each wait has its bound.
fn is_well(switch: &Switch, a: &mut Raw, b: &mut Raw) {
    a.send(&frame(ALL, mac(1), b"well?"));
    b.down_until(&frame(ALL, mac(1), b"well?"));
    switch.ask().show().expect("an answer");
}

fn pair(switch: &Switch) -> (Raw, Raw) {
    (Raw::join(&switch.path(), "a"), Raw::join(&switch.path(), "b"))
}

/// A connection by which anything can be sent.
fn plain(switch: &Switch) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(switch.path()).unwrap()).unwrap();
    socket
}

/// Whether the other end closes, after whatever it says.
fn is_closed(channel: &mut Channel) -> bool {
    loop {
        assert!(channel.wait(BOUND).unwrap(), "neither an answer nor an end");
        match channel.receive() {
            Ok(Incoming::Closed) => return true,
            Ok(Incoming::Message { .. }) | Err(_) => {}
            Ok(Incoming::Nothing) => return false,
        }
    }
}

#[test]
fn what_is_no_message_ends_its_connection() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let mut random = SplitMix64::new(1);
    let times = u64::from(netloom_kit::rounds(500));
    for round in 0..times {
        let socket = plain(&switch);
        let length = random.index(1 << 14) + 1;
        let mut bytes = random.bytes(length);
        if round % 2 == 0 {
            // The kind of a message, and garbage behind it.
            let kind = u8::try_from(round % 26 / 2).unwrap();
            bytes.splice(..4.min(length), [kind, 0, 0, 0]);
        }
        rustix::net::send(&socket, &bytes, SendFlags::NOSIGNAL).unwrap();
        let mut channel = Channel::from_fd(socket).unwrap();
        // A part of a request, by chance, may have a next one.
        let part = matches!(Message::decode(&bytes), Ok(Message::Request { .. } | Message::Bye));
        assert!(part || is_closed(&mut channel), "round {round}");
    }
    is_well(&switch, &mut a, &mut b);
    netloom_kit::done("messages to a switch that are none", times);
}

#[test]
fn what_comes_at_the_wrong_time_ends_its_connection() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let request = Message::Request { id: 1, last: true, body: b"\"show\"" };
    let ring = Writer::create(256 * 1024, 1).unwrap();
    let messages: [(Message<'_>, &[_]); 3] = [
        (Message::PortGone { number: 1, generation: 1 }, &[]),
        (Message::Open { to: 1 }, &[ring.fd()]),
        (Message::Refused(Refused { reason: Reason::Other, number: 0, text: "no" }), &[]),
    ];
    for (message, with) in &messages {
        let mut stranger = connect(&switch.path());
        tell(&mut stranger, message, with);
        assert!(is_closed(&mut stranger), "{message:?}");
    }
    for message in [&request, &Ticket::new("again").join(), &messages[0].0] {
        let mut port = Raw::join(&switch.path(), "p");
        let inbox = Inbox::create().unwrap();
        let with: &[_] = match message {
            Message::Join(_) => &[inbox.fd(), ring.fd()],
            _ => &[],
        };
        tell(&mut port.channel, message, with);
        assert!(is_closed(&mut port.channel), "{message:?}");
    }
    // A manager may not join.
    let mut manager = connect(&switch.path());
    tell(&mut manager, &request, &[]);
    manager.wait(BOUND).unwrap();
    assert!(matches!(manager.receive().unwrap(), Incoming::Message { .. }));
    is_well(&switch, &mut a, &mut b);
}

#[test]
fn memory_that_is_not_as_it_must_be_is_refused() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    let inbox = Inbox::create().unwrap();
    let unsealed = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&unsealed, 1 << 20).unwrap();
    let huge = Writer::create(64 << 20, 1).unwrap();
    let right = Writer::create(256 * 1024, 1).unwrap();
    for (inbox, uplink) in [
        (inbox.fd(), file.as_fd()),
        (inbox.fd(), unsealed.as_fd()),
        (inbox.fd(), huge.fd()),
        (inbox.fd(), inbox.fd()),
        (right.fd(), right.fd()),
        (unsealed.as_fd(), right.fd()),
    ] {
        let mut channel = connect(&switch.path());
        tell(&mut channel, &Ticket::new("c").join(), &[inbox, uplink]);
        channel.wait(BOUND).unwrap();
        let refused = channel.receive().unwrap();
        let Incoming::Message { message: Message::Refused(refused), .. } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(refused.reason, Reason::Memory, "{}", refused.text);
    }
    is_well(&switch, &mut a, &mut b);
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let silent: Vec<Channel> = (0..600).map(|_| connect(&switch.path())).collect();
    is_well(&switch, &mut a, &mut b);
    let late = Raw::join(&switch.path(), "late");
    assert_eq!(late.joined.number, 3);
    drop(silent);
    is_well(&switch, &mut a, &mut b);
}

#[test]
fn who_does_not_read_its_messages_is_told_of_no_more_edges() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let deaf = Raw::join(&switch.path(), "deaf");
    let ring = Writer::create(256 * 1024, 1).unwrap();
    let mut refused = 0;
    for n in 0..1500 {
        let mut opener = Raw::join(&switch.path(), &format!("opener {n}"));
        tell(&mut opener.channel, &Message::Open { to: 3 }, &[ring.fd()]);
        let answer = opener.message().expect("an answer");
        assert!(answer.contains("Opened") || answer.contains("Refused"), "{answer}");
        refused += u32::from(answer.contains("Refused"));
    }
    println!("{refused} of 1500 edges refused");
    assert!(refused > 500, "{refused}");
    is_well(&switch, &mut a, &mut b);
    // It is still there: it was not let go for what others did.
    assert!(switch.ask().show().unwrap().ports.iter().any(|p| p.name == "deaf"));
    drop(deaf);
}

#[test]
fn who_does_not_read_its_answers_is_asked_no_more() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let mut manager = connect(&switch.path());
    let request = Message::Request { id: 1, last: true, body: b"\"show\"" };
    // Until the switch has stopped reading, and its own buffer is full.
    let mut sent = 0;
    while manager.send_wait(&request, &[], Duration::from_millis(200)).unwrap() == Posted::Done {
        sent += 1;
        assert!(sent < 100_000, "it reads for ever");
    }
    println!("{sent} requests");
    is_well(&switch, &mut a, &mut b);
    // All that was asked is answered when it reads.
    let mut answers = 0;
    while answers < sent {
        assert!(manager.wait(BOUND).unwrap(), "{answers} of {sent}");
        while let Incoming::Message { message: Message::Answer { last, .. }, .. } =
            manager.receive().unwrap()
        {
            answers += u32::from(last);
        }
    }
}

#[test]
fn a_request_has_a_greatest_length() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let mut manager = connect(&switch.path());
    let part = vec![b' '; MOST_PART];
    for _ in 0..5 {
        let request = Message::Request { id: 1, last: false, body: &part };
        if manager.send_wait(&request, &[], BOUND).unwrap() == Posted::Closed {
            break;
        }
    }
    assert!(is_closed(&mut manager));
    for body in [&b"{"[..], b"\"format\"", b"", &[0xff; 9], br#"{"disconnect":{"port":77}}"#] {
        let mut manager = connect(&switch.path());
        tell(&mut manager, &Message::Request { id: 9, last: true, body }, &[]);
        manager.wait(BOUND).unwrap();
        let answer = manager.receive().unwrap();
        let Incoming::Message { message: Message::Answer { id: 9, failed: true, .. }, .. } = answer
        else {
            panic!("{answer:?}")
        };
    }
    is_well(&switch, &mut a, &mut b);
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let switch = Switch::start();
    let (mut a, mut b) = pair(&switch);
    let descriptors = || {
        let folder = format!("/proc/{}/fd", switch.process.0.id());
        std::fs::read_dir(folder).unwrap().count()
    };
    is_well(&switch, &mut a, &mut b);
    let before = descriptors();
    let ring = Writer::create(256 * 1024, 1).unwrap();
    let times = netloom_kit::rounds(200);
    for n in 0..times {
        let mut port = Raw::join(&switch.path(), &format!("p{n}"));
        tell(&mut port.channel, &Message::Open { to: 1 }, &[ring.fd()]);
        tell(&mut port.channel, &Message::Open { to: 2 }, &[ring.fd()]);
        drop(connect(&switch.path()));
    }
    netloom_kit::wait_until("all to be gone", BOUND, || {
        (switch.ask().show().unwrap().ports.len() == 2).then_some(())
    });
    netloom_kit::wait_until("descriptors to be closed", BOUND, || {
        // What they have not read yet keeps some.
        for port in [&mut a, &mut b] {
            while !matches!(port.channel.receive().unwrap(), Incoming::Nothing) {}
        }
        (descriptors() <= before + 1).then_some(())
    });
    assert_eq!(switch.ask().show().unwrap().edges, 0);
    netloom_kit::done("ports that joined, opened edges and went", times);
}
