//! Any bytes as what a peer sends to a switch or a port: read as one message, then as a script of
//! messages with descriptors over a real socket. Shared by the tests and the fuzz target `join`.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use netloom_shm::Error;
use netloom_shm::name;
use netloom_shm::protocol::{
    Channel, Collector, Incoming, MOST_DESCRIPTORS, MOST_MESSAGE, Message, Posted,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Descriptors that a step sends at most: more than any message may have.
const MOST_SENT: usize = 8;

pub(crate) fn run(bytes: &[u8]) {
    one_message(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = name::resolve(text);
    }
    let (mut ours, theirs) = Channel::pair().expect("a pair");
    let memory = rustix::fs::memfd_create("fuzz", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
    let mut collector = Collector::new(4 * MOST_MESSAGE);
    let mut rest = bytes;
    // A step: how many descriptors, the length (u16), this many bytes of a message.
    while let Some(([descriptors, low, high], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([*low, *high]) % 2048).min(after.len());
        let (message, after) = after.split_at(length);
        rest = after;
        let with = usize::from(*descriptors) % (MOST_SENT + 1);
        if !post(&theirs, message, &vec![memory.as_fd(); with]) {
            return;
        }
        read(&mut ours, message, with, &mut collector);
    }
    drop(theirs);
    assert!(matches!(ours.receive(), Ok(Incoming::Closed)));
    assert_eq!(ours.send(&Message::Bye, &[]).expect("send"), Posted::Closed);
}

/// A decoded message is encoded the same, and is within the limits.
fn one_message(bytes: &[u8]) {
    let Ok(message) = Message::decode(bytes) else { return };
    let mut again = Vec::new();
    message.encode(&mut again).expect("what was read can be written");
    assert_eq!(bytes, again);
    assert!(message.descriptors() <= MOST_DESCRIPTORS);
    if let Message::Join(join) = message {
        assert_eq!(join.edges.into_iter().count(), join.edges.len());
    }
}

fn post(to: &Channel, message: &[u8], with: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SENT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(with)));
    }
    rustix::net::sendmsg(to, &[IoSlice::new(message)], &mut control, SendFlags::DONTWAIT).is_ok()
}

/// One message was sent: it is read, or refused, or, without anything in it, an end.
fn read(from: &mut Channel, sent: &[u8], with: usize, collector: &mut Collector) {
    let expected = Message::decode(sent).ok().filter(|message| message.descriptors() == with);
    match from.receive() {
        Ok(Incoming::Message { message, descriptors }) => {
            assert_eq!(Some(message), expected);
            assert_eq!(descriptors.len(), with);
            descriptors.iter().for_each(is_closed_on_exec);
            if let Message::Request { last, body, .. } = message {
                let _ = collector.push(last, body);
            }
        }
        Err(Error::Message { .. }) => assert_eq!(expected, None),
        Ok(Incoming::Closed) => assert!(sent.is_empty() && with == 0),
        other => panic!("{other:?}"),
    }
}

fn is_closed_on_exec(fd: &OwnedFd) {
    let flags = rustix::io::fcntl_getfd(fd).expect("flags");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}
