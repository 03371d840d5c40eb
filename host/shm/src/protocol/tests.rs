//! Round trips of every message, refusal of everything else, and descriptors over a real socket.

use std::os::fd::{AsFd, OwnedFd};

use proptest::prelude::*;

use super::*;
use crate::Error;

fn name() -> impl Strategy<Value = String> {
    "[a-zé .-]{1,20}"
}

fn edge() -> impl Strategy<Value = EdgeName> {
    (1u8.., any::<bool>(), any::<u32>()).prop_map(|(number, out, generation)| {
        let direction = if out { Direction::Out } else { Direction::In };
        EdgeName { number, direction, generation }
    })
}

/// Decodes an encoded message and encodes it again.
fn round(message: &Message<'_>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes).expect("encode");
    assert!(bytes.len() <= MOST_MESSAGE);
    let back = Message::decode(&bytes).expect("decode");
    let mut again = Vec::new();
    back.encode(&mut again).expect("encode again");
    assert_eq!(bytes, again);
    if !matches!(message, Message::Join(_)) {
        assert_eq!(*message, back);
    }
    for cut in 0..bytes.len() {
        if let Ok(shorter) = Message::decode(&bytes[..cut]) {
            assert!(matches!(
                shorter,
                Message::Refused(_) | Message::Request { .. } | Message::Answer { .. }
            ));
        }
    }
}

proptest! {
    #[test]
    fn join_goes_round(
        version: u16, number: u8, super_frames: bool, checksums: bool, token: Token,
        name in name(), edges in prop::collection::vec(edge(), 0..20),
    ) {
        let capabilities = Capabilities { super_frames, checksums };
        let join = Join {
            version, number, capabilities, token, name: &name, edges: Edges::Given(&edges),
        };
        round(&Message::Join(join));
        let mut bytes = Vec::new();
        Message::Join(join).encode(&mut bytes).expect("encode");
        let Ok(Message::Join(back)) = Message::decode(&bytes) else { panic!("no join") };
        prop_assert_eq!(
            (back.version, back.number, back.capabilities, back.token, back.name),
            (version, number, capabilities, token, name.as_str())
        );
        prop_assert_eq!(back.edges.into_iter().collect::<Vec<_>>(), edges);
    }

    #[test]
    fn others_go_round(
        number in 1u8.., generation: u32, token: Token, id: u32, last: bool, failed: bool,
        text in "[a-z ]{0,100}", body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let version = VERSION;
        round(&Message::Joined(Joined { version, number, generation, token }));
        round(&Message::Refused(Refused { reason: Reason::Full, number, text: &text }));
        round(&Message::Open { to: number });
        round(&Message::Opened { to: number, generation });
        round(&Message::Edge { from: number, generation });
        round(&Message::PortGone { number, generation });
        let direction = if last { Direction::Out } else { Direction::In };
        round(&Message::Close { number, direction });
        let mac = [2, token[0], token[1], token[2], token[3], token[4]];
        round(&Message::Station { number, vid: u16::from(number), mac });
        round(&Message::Station { number, vid: 0, mac });
        round(&Message::Moved);
        round(&Message::Bye);
        round(&Message::Request { id, last, body: &body });
        round(&Message::Answer { id, last, failed, body: &body });
    }

    #[test]
    fn what_is_read_is_written_the_same(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u8..15) {
        let mut bytes = bytes;
        if let Some(start) = bytes.first_chunk_mut() {
            *start = [kind, 0, 0, 0];
        }
        if let Ok(message) = Message::decode(&bytes) {
            let mut again = Vec::new();
            message.encode(&mut again).expect("encode");
            prop_assert_eq!(bytes, again);
        }
    }

    #[test]
    fn bodies_go_round_in_parts(length in 0usize..3 * MOST_PART + 2) {
        let body: Vec<u8> = (0..length).map(|i| i.to_le_bytes()[0]).collect();
        let mut collector = Collector::new(length);
        let mut whole = None;
        for (last, part) in split(&body) {
            prop_assert!(whole.is_none());
            whole = collector.push(last, part).expect("push");
        }
        prop_assert_eq!(whole, Some(body));
        prop_assert!(Collector::new(length).push(true, &vec![0; length + 1]).is_err());
    }
}

fn refused(bytes: &[u8], reason: &str) {
    match Message::decode(bytes) {
        Err(Error::Message { operation: "read", reason: found }) => assert_eq!(found, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_no_one_writes_is_refused() {
    refused(&[], "shorter than its kind");
    refused(&[9, 0, 0], "shorter than its kind");
    refused(&[9, 0, 0, 1], "reserved bytes set");
    refused(&[9, 0, 0, 0, 0], "longer than its kind");
    refused(&[14, 0, 0, 0], "unknown kind");
    refused(&[12, 0, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0], "reserved bytes set");
    refused(&[12, 0, 0, 0, 1, 0, 255, 15, 2, 0, 0, 0, 0, 1, 0, 0], "no VLAN has this number");
    refused(&[12, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0], "no station has this address");
    refused(&[12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "no station has this address");
    refused(&[4, 0, 0, 0, 0, 0, 0, 0], "0 is not a port");
    refused(&[8, 0, 0, 0, 1, 2, 0, 0], "unknown direction");
    refused(&[10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], "unknown flags");
    refused(&[3, 0, 0, 0, 1, 0, 0, 0, 0xff], "text is none");
    refused(&vec![0; MOST_MESSAGE + 1], "too long");
    let mut join = Vec::new();
    let edges = [EdgeName { number: 1, direction: Direction::In, generation: 1 }];
    let message = Join {
        version: 1,
        number: 0,
        capabilities: Capabilities::default(),
        token: [0; 16],
        name: "a",
        edges: Edges::Given(&edges),
    };
    Message::Join(message).encode(&mut join).expect("encode");
    let changed = |at: usize, value: u8| {
        let mut bytes = join.clone();
        bytes[at] = value;
        bytes
    };
    refused(&changed(7, 4), "unknown capabilities");
    refused(&changed(24, 2), "shorter than its kind");
    refused(&changed(25, 2), "too many edges");
    refused(&changed(26, 0), "reserved bytes set");
    refused(&changed(26, 65), "name too long");
    refused(&changed(28, 7), "name has control characters");
    refused(&changed(28, 0xff), "name is not text");
    refused(&changed(29, b'b'), "reserved bytes set");
    for name in ["", "\n", &"x".repeat(MOST_NAME + 1)] {
        let mut bytes = Vec::new();
        assert!(Message::Join(Join { name, ..message }).encode(&mut bytes).is_err(), "{name:?}");
    }
}

fn memory() -> OwnedFd {
    rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd")
}

#[test]
fn descriptors_arrive_owned_and_close_on_exec() {
    let (mut a, mut b) = Channel::pair().expect("pair");
    assert!(matches!(b.receive(), Ok(Incoming::Nothing)));
    let sent = memory();
    rustix::fs::ftruncate(&sent, 4711).expect("size");
    let posted = a.send(&Message::Open { to: 3 }, &[sent.as_fd()]).expect("send");
    assert_eq!(posted, Posted::Done);
    let Ok(Incoming::Message { message: Message::Open { to: 3 }, descriptors }) = b.receive()
    else {
        panic!("nothing came")
    };
    let [came] = descriptors.as_slice() else { panic!("{descriptors:?}") };
    assert_eq!(rustix::fs::fstat(came).expect("stat").st_size, 4711);
    assert!(rustix::io::fcntl_getfd(came).expect("flags").contains(rustix::io::FdFlags::CLOEXEC));
}

#[test]
fn wrong_numbers_of_descriptors_are_refused_and_the_channel_goes_on() {
    let (mut a, b) = Channel::pair().expect("pair");
    let fd = memory();
    let mut raw = Channel::from_fd(b.as_fd().try_clone_to_owned().expect("clone")).expect("raw");
    assert!(a.send(&Message::Open { to: 3 }, &[]).is_err());
    let post = |count: usize| {
        let mut bytes = Vec::new();
        Message::Open { to: 3 }.encode(&mut bytes).expect("encode");
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let with = vec![fd.as_fd(); count];
        if count > 0 {
            assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&with)));
        }
        let part = [std::io::IoSlice::new(&bytes)];
        let flags = rustix::net::SendFlags::empty();
        rustix::net::sendmsg(&a, &part, &mut control, flags).expect("send");
    };
    for count in [0, 2, 5, 9] {
        post(count);
        assert!(matches!(raw.receive(), Err(Error::Message { .. })), "{count}");
    }
    post(1);
    assert!(matches!(raw.receive(), Ok(Incoming::Message { .. })));
    rustix::net::send(&a, &[7; MOST_MESSAGE + 9], rustix::net::SendFlags::empty()).expect("send");
    assert!(matches!(raw.receive(), Err(Error::Message { .. })));
    assert!(matches!(raw.receive(), Ok(Incoming::Nothing)));
}

#[test]
fn a_peer_that_is_gone_or_does_not_read_is_an_answer() {
    let (mut a, b) = Channel::pair().expect("pair");
    let body = [0; MOST_PART];
    let full = loop {
        match a.send(&Message::Request { id: 1, last: true, body: &body }, &[]).expect("send") {
            Posted::Done => {}
            other => break other,
        }
    };
    assert_eq!(full, Posted::Full);
    drop(b);
    assert_eq!(a.send(&Message::Bye, &[]).expect("send"), Posted::Closed);
    // Unread data of the peer first causes a reset; then the end shows.
    assert!(matches!(a.receive(), Ok(Incoming::Closed)));
    assert!(matches!(a.receive(), Ok(Incoming::Closed)));
}

#[test]
fn long_paths_can_be_bound_and_found() {
    let folder = std::env::temp_dir().join(format!("netloom-channel-{}", std::process::id()));
    let deep = folder.join("x".repeat(100));
    std::fs::create_dir_all(&deep).expect("folder");
    let path = deep.join("socket");
    let listener = Listener::bind(&path).expect("bind");
    assert!(listener.accept().expect("accept").is_none());
    let channel = Channel::connect(&path, std::time::Duration::ZERO).expect("connect");
    let other = listener.accept().expect("accept").expect("one");
    let own = rustix::process::getuid().as_raw();
    assert_eq!(other.peer().expect("peer").uid, own);
    assert_eq!(channel.peer().expect("peer").uid, own);
    drop(listener);
    std::fs::remove_dir_all(&folder).expect("remove");
}
