//! Any bytes as what a peer sends to a control socket: every message is read or refused, whatever is in it and however many
//! descriptors come with it, and the connection goes on. Shared by the tests and the fuzz target `control`.

use std::os::fd::{AsFd, OwnedFd};

use netloom_control::Form;
use netloom_control::envelope::Received;
use netloom_sys::scm;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

/// A request with the kinds of parts that requests have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Any {
    Show,
    Text(String),
    Fields {
        number: Option<u64>,
        #[serde(default)]
        list: Vec<i32>,
    },
}

const FORMS: [Form; 2] = [Form::Envelope, Form::Bare { most: 1000 }];

/// Descriptors that a message has at most.
const MOST_SENT: usize = scm::MAX_FDS;

pub(crate) fn run(bytes: &[u8]) {
    for form in FORMS {
        script(form, bytes);
    }
}

/// A step: how many descriptors, the length (u16), this many bytes of a message.
fn script(form: Form, mut rest: &[u8]) {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).expect("a pair");
    let memory = memory(rest);
    while let Some(([descriptors, low, high], after)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([*low, *high]) % 2048).min(after.len());
        let (message, after) = after.split_at(length);
        rest = after;
        let with = usize::from(*descriptors) % (MOST_SENT + 1);
        // An empty message is a connection's end.
        if message.is_empty() || scm::send(&theirs, message, &vec![memory.as_fd(); with]).is_err() {
            continue;
        }
        match form.receive::<Any>("ours", &ours).expect("a message") {
            Received::Value(value, fds) => {
                assert!(fds.len() <= with);
                again(form, &ours, &theirs, &value);
            }
            Received::Malformed(reason) => assert!(!reason.is_empty()),
            Received::Ended => panic!("it goes on"),
        }
    }
    drop(theirs);
    assert!(matches!(form.receive::<Any>("ours", &ours), Ok(Received::Ended)));
    assert!(form.send("ours", &ours, &Any::Show, &[]).is_err());
}

/// What was read is sent and read the same.
fn again(form: Form, ours: &OwnedFd, theirs: &OwnedFd, value: &Any) {
    // It may be too long where it was read from memory.
    if form.send("theirs", theirs, value, &[]).is_err() {
        return;
    }
    match form.receive::<Any>("ours", ours).expect("a message") {
        Received::Value(same, fds) => assert!(same == *value && fds.is_empty()),
        other => panic!("{other:?}"),
    }
}

/// What a message's memory may have.
fn memory(bytes: &[u8]) -> OwnedFd {
    let memory = rustix::fs::memfd_create("outside", rustix::fs::MemfdFlags::CLOEXEC);
    let memory = memory.expect("memory");
    rustix::io::write(&memory, bytes.get(..2048).unwrap_or(bytes)).expect("write");
    memory
}
