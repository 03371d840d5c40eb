//! The queueing discipline `ingress`, a place for filters at an interface's receiving side and nothing else, and removal of
//! the discipline that sends.
//!
//! Unlike `clsact` it leaves the sending side as it is. Filters are attached by others. Specification:
//! `linux/rtnetlink.h`, `linux/pkt_sched.h`.

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::encode::Encoder;
use crate::uapi::{CREATE, EXCLUSIVE, REQUEST, RTM_DELQDISC, RTM_NEWQDISC};

const TCA_KIND: u16 = 1;
/// `TC_H_INGRESS` as parent, and the discipline's own number, `ffff:`.
const PARENT: u32 = 0xffff_fff1;
const HANDLE: u32 = 0xffff_0000;
/// `TC_H_ROOT` as parent.
const ROOT: u32 = 0xffff_ffff;

/// Gives an interface the discipline. One that has it, or `clsact`, keeps what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressDiscipline(pub u32);

impl Encode for IngressDiscipline {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWQDISC, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            encoder.fixed(&header(self.0, HANDLE, PARENT));
            encoder.string(TCA_KIND, "ingress");
        });
    }
}

impl Request for IngressDiscipline {
    fn operation(&self) -> &'static str {
        "give the discipline of incoming frames to"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

/// Gives an interface the kernel's own discipline for sending instead of the one that somebody gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeleteDiscipline(pub u32);

impl Encode for DeleteDiscipline {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELQDISC, REQUEST, |encoder| {
            encoder.fixed(&header(self.0, 0, ROOT));
        });
    }
}

impl Request for DeleteDiscipline {
    fn operation(&self) -> &'static str {
        "remove the queueing discipline of"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

/// `struct tcmsg`: family and padding, interface, handle, parent, info.
fn header(ifindex: u32, handle: u32, parent: u32) -> [u8; 20] {
    let mut header = [0; 20];
    for (at, word) in [(4, ifindex), (8, handle), (12, parent)] {
        header[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    header
}
