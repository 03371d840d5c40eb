//! Messages: data from several places, control messages that are let through, descriptors that go along.

use std::os::fd::{AsRawFd, OwnedFd};

use netloom_policy::Protocol;
use netloom_sys::seccomp::Caller;
use netloom_sys::seccomp::perform::Message;
use netloom_sys::seccomp::rights::Rights;
use rustix::io::Errno;

use super::{Outgoing, Place, Prepared, place};
use crate::layout::{Control, Header, Width, write_controls};
use crate::socket::Socket;

/// Most data of one message that is copied at once.
const MOST_DATA: u64 = 1 << 20;
/// Most pieces of a message (`UIO_MAXIOV`).
const MOST_VECTORS: u64 = 1024;
/// Most bytes of control messages; the kernel has a bound of its own (`net.core.optmem_max`).
const MOST_CONTROL: u64 = 1 << 16;
/// Most descriptors of one message (`SCM_MAX_FD`).
const MOST_DESCRIPTORS: usize = 253;

const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const SCM_CREDENTIALS: i32 = 2;

/// The pieces of a message.
pub(super) fn vectors(caller: &Caller, width: Width, header: &Header) -> Prepared<Vec<(u64, u64)>> {
    if header.vector_count > MOST_VECTORS {
        // As net/socket.c answers; the bound also limits what is copied for one call.
        return Err(Errno::MSGSIZE);
    }
    let count = usize::try_from(header.vector_count).map_err(|_| Errno::MSGSIZE)?;
    let bytes =
        caller.bytes(header.vectors, count * 2 * width.bytes()).map_err(|_| Errno::FAULT)?;
    Ok(width.read_vectors(&bytes))
}

/// Data of the first pieces, which are taken away. A `whole` message is all of them, or is refused; a stream's rest
/// is left.
pub(crate) fn gather(
    caller: &Caller,
    pieces: &mut Vec<(u64, u64)>,
    whole: bool,
) -> Prepared<Vec<u8>> {
    let mut data = vec![];
    let mut left = MOST_DATA;
    let mut done = 0;
    for (at, length) in pieces.iter_mut() {
        if *length > left && whole {
            return Err(Errno::MSGSIZE);
        }
        let taken = (*length).min(left);
        if let Some(count) = usize::try_from(taken).ok().filter(|count| *count > 0) {
            match caller.bytes(*at, count) {
                Ok(bytes) => data.extend(bytes),
                // A stream sends what comes before.
                Err(_) if !whole && !data.is_empty() => {
                    pieces.clear();
                    return Ok(data);
                }
                Err(_) => return Err(Errno::FAULT),
            }
        }
        left -= taken;
        if taken < *length {
            (*at, *length) = (at.wrapping_add(taken), *length - taken);
            break;
        }
        done += 1;
    }
    pieces.drain(..done);
    Ok(data)
}

/// Control messages as they are sent.
#[derive(Default)]
pub(super) struct Controls {
    /// In this machine's layout.
    pub(super) bytes: Vec<u8>,
    /// Descriptors that go along.
    pub(super) descriptors: Vec<OwnedFd>,
    /// Whether one chooses the way or the receiver.
    pub(super) widening: bool,
    /// The control message that names the sender, where that is not this process.
    signature: Vec<u8>,
}

impl Controls {
    /// Of a message without any of the caller's own.
    pub(super) fn signed(caller: &Caller, socket: &Socket) -> Prepared<Controls> {
        let signature = match signer(caller, socket)? {
            Some(rights) => write_controls(&[signature(&rights)]),
            None => vec![],
        };
        Ok(Controls { bytes: signature.clone(), signature, ..Controls::default() })
    }

    /// The message with these, and its further parts.
    pub(super) fn outgoing(
        self,
        data: Vec<u8>,
        rest: Vec<(u64, u64)>,
        place: Option<Place>,
        socket: &Socket,
    ) -> Outgoing {
        let Controls { bytes: control, descriptors, signature, .. } = self;
        let sees_rights = !socket.is_ip() || !control.is_empty();
        let message = Message { address: vec![], data, control };
        Outgoing { message, rest, place, descriptors, sees_rights, signature }
    }
}

/// Control messages, with this process's descriptors in the place of the caller's.
pub(super) fn controls(
    caller: &Caller,
    width: Width,
    header: &Header,
    socket: &Socket,
) -> Prepared<Controls> {
    if header.control == 0 || header.control_length == 0 {
        return Controls::signed(caller, socket);
    }
    if header.control_length > MOST_CONTROL {
        return Err(Errno::NOBUFS);
    }
    let length = usize::try_from(header.control_length).map_err(|_| Errno::NOBUFS)?;
    let bytes = caller.bytes(header.control, length).map_err(|_| Errno::FAULT)?;
    let mut all = width.read_controls(&bytes).ok_or(Errno::INVAL)?;
    let mut controls = Controls::default();
    let signer = signer(caller, socket)?;
    for control in &mut all {
        match (control.level, control.kind) {
            (SOL_SOCKET, SCM_RIGHTS) => controls.descriptors.extend(replace(caller, control)?),
            (SOL_SOCKET, SCM_CREDENTIALS) => sign(caller, control, signer.as_ref())?,
            _ => controls.widening |= socket.is_ip() && !harmless(control),
        }
    }
    if let Some(rights) = signer {
        let own = signature(&rights);
        controls.signature = write_controls(std::slice::from_ref(&own));
        if !all.iter().any(is_signature) {
            all.push(own);
        }
    }
    controls.bytes = write_controls(&all);
    Ok(controls)
}

fn is_signature(control: &Control) -> bool {
    (control.level, control.kind) == (SOL_SOCKET, SCM_CREDENTIALS)
}

/// The user shown as a message's sender where root's supervisor sends it for a program that has given up root: a receiver
/// that asks for credentials would else see root's.
fn signer(caller: &Caller, socket: &Socket) -> Prepared<Option<Rights>> {
    if socket.protocol == Protocol::Unix { place::fewer_rights(caller) } else { Ok(None) }
}

/// A `struct ucred` of this process, with another one's user and group.
fn signature(rights: &Rights) -> Control {
    let numbers = [own_process(), rights.user().to_ne_bytes(), rights.group().to_ne_bytes()];
    Control { level: SOL_SOCKET, kind: SCM_CREDENTIALS, data: numbers.concat() }
}

fn own_process() -> [u8; 4] {
    rustix::process::getpid().as_raw_nonzero().get().to_ne_bytes()
}

/// The kernel takes this process for the sender, and lets nobody but root name another process: where the caller
/// names itself, this process is put in its place. A user that only root may name is refused to other callers.
fn sign(caller: &Caller, control: &mut Control, signer: Option<&Rights>) -> Prepared<()> {
    if let (Some(rights), Some(ids)) = (signer, control.data.get(4..12)) {
        let [user, group] =
            [&ids[..4], &ids[4..]].map(|id| id.try_into().map_or(u32::MAX, u32::from_ne_bytes));
        if !rights.may_sign_as(user, group) {
            return Err(Errno::PERM);
        }
    }
    let Some(pid) = control.data.first_chunk_mut::<4>() else { return Ok(()) };
    let names_itself = || i32::from_ne_bytes(*pid) == caller.process();
    if (signer.is_some() || place::unprivileged()) && names_itself() {
        *pid = own_process();
    }
    Ok(())
}

/// Puts this process's duplicates in the place of the caller's descriptors.
fn replace(caller: &Caller, control: &mut Control) -> Prepared<Vec<OwnedFd>> {
    let numbers: Vec<i32> = control
        .data
        .chunks_exact(4)
        .filter_map(|part| part.try_into().ok().map(i32::from_ne_bytes))
        .collect();
    if numbers.len() > MOST_DESCRIPTORS {
        // As `scm_fp_copy` in net/core/scm.c.
        return Err(Errno::INVAL);
    }
    let duplicates: Result<Vec<OwnedFd>, _> =
        numbers.iter().map(|number| caller.descriptor(*number)).collect();
    let duplicates = duplicates.map_err(|_| Errno::BADF)?;
    control.data = duplicates.iter().flat_map(|fd| fd.as_raw_fd().to_ne_bytes()).collect();
    Ok(duplicates)
}

/// Control messages of IP sockets that choose neither the way nor the receiver: time stamps and times of sending,
/// TTL, type of service, segment size, fragmentation, record types of TLS.
fn harmless(control: &Control) -> bool {
    const IP: i32 = 0;
    const IPV6: i32 = 41;
    const UDP: i32 = 17;
    const TLS: i32 = 282;
    // `SO_TIMESTAMPING`, `SCM_TXTIME`; `IP_TOS`, `IP_TTL`; `IPV6_HOPLIMIT`, `IPV6_DONTFRAG`,
    // `IPV6_TCLASS`; `UDP_SEGMENT`; `TLS_SET_RECORD_TYPE`.
    matches!(
        (control.level, control.kind),
        (SOL_SOCKET, 37 | 61) | (IP, 1 | 2) | (IPV6, 52 | 62 | 67) | (UDP, 103) | (TLS, 1)
    ) || from_any_interface(control, IP, IPV6)
}

/// `IP_PKTINFO` and `IPV6_PKTINFO` that choose the sender's address and leave the interface to the routes.
fn from_any_interface(control: &Control, ip: i32, ipv6: i32) -> bool {
    // `in_pktinfo` begins with the interface's index; in `in6_pktinfo` it is behind the address.
    let interface = match (control.level, control.kind) {
        (level, 8) if level == ip => control.data.get(..4),
        (level, 50) if level == ipv6 => control.data.get(16..20),
        _ => return false,
    };
    interface == Some(&[0; 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: i32, data: &[u8]) -> Control {
        Control { level, kind, data: data.to_vec() }
    }

    #[test]
    fn what_chooses_a_way_is_not_harmless() {
        assert!(harmless(&control(17, 103, &[0, 5])));
        assert!(harmless(&control(0, 1, &[0])));
        assert!(!harmless(&control(0, 7, &[0; 8])), "IP_RETOPTS");
        assert!(!harmless(&control(41, 57, &[0; 8])), "IPV6_RTHDR");
        assert!(!harmless(&control(1, 36, &[0; 4])), "SO_MARK");
    }

    #[test]
    fn an_interface_is_not_to_be_chosen() {
        let v4 = |interface: u8| control(0, 8, &[interface, 0, 0, 0, 10, 0, 0, 1, 0, 0, 0, 0]);
        assert!(harmless(&v4(0)) && !harmless(&v4(1)));
        let v6 =
            |interface: u8| control(41, 50, &[[0; 16].as_slice(), &[interface, 0, 0, 0]].concat());
        assert!(harmless(&v6(0)) && !harmless(&v6(2)));
        assert!(!harmless(&control(41, 50, &[0; 19])));
    }
}
