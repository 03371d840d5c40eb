//! The peers that may reach a socket: a filter in the kernel on the sender's address, which the socket's owner cannot take off.
//!
//! The kernel runs a socket's filter (socket(7), `SO_ATTACH_FILTER`) on each packet before anything is made of it: a
//! connection of TCP whose first packet is dropped is never begun, and a datagram of UDP is never queued. Sockets that
//! a listener accepts have its filter. `SO_LOCK_FILTER` keeps it as it is for ever, root's calls included.
//!
//! A filter that the socket has already goes on to decide about what this one lets through. One that is neither ours
//! nor can be read is refused.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::seccomp::perform::{number_option, set_option};
use crate::socket_filter::{attach, attached};

/// Keeps all senders from a socket whose addresses are in none of `nets` (an address, and how many of its bits count).
///
/// # Errors
/// EPERM if the socket has a locked filter that lets others through; ENOPROTOOPT where the kernel lets only root filter such
/// sockets (Linux 6.18 those of TCP: EPERM for `SO_ATTACH_FILTER`); else the kernel's: EOPNOTSUPP for MPTCP, EACCES for
/// a filter that cannot be read, EINVAL if all is too long.
pub fn admit(fd: BorrowedFd<'_>, nets: &[(IpAddr, u8)]) -> io::Result<()> {
    let head = head(nets);
    let present = attached(fd)?;
    // Locked, it cannot be replaced; it will do if ours is its beginning.
    if number_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER)? != 0 {
        return starts(&present, &head);
    }
    attach(fd, &[&head[..], &tail(&present)].concat()).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::EPERM) => io::Error::from_raw_os_error(libc::ENOPROTOOPT),
            _ => error,
        }
    })?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1_i32.to_ne_bytes())?;
    // Another thread may have put its own in that place before the lock.
    starts(&attached(fd)?, &head)
}

/// Whether this process may filter sockets of TCP in its network, as [`admit`] does.
pub fn filters_tcp() -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    socket.is_ok_and(|socket| attach(socket.as_fd(), &[finish(PASS)]).is_ok())
}

fn starts(filter: &[libc::sock_filter], head: &[libc::sock_filter]) -> io::Result<()> {
    let words = |one: &libc::sock_filter| (one.code, one.jt, one.jf, one.k);
    let is_ours = filter.len() >= head.len()
        && filter.iter().zip(head).all(|(one, ours)| words(one) == words(ours));
    if is_ours { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Where loads find the IP header (`SKF_NET_OFF`), whatever lies before it.
const HEADER: u32 = 0xFFF0_0000;
/// Of the sender in the headers of IPv4 (RFC 791) and IPv6 (RFC 8200).
const SENDER_4: u32 = HEADER + 12;
const SENDER_6: u32 = HEADER + 8;

/// Instructions of the classic BPF, by their names in linux/filter.h and linux/bpf_common.h.
fn word(code: u32, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

#[expect(clippy::cast_possible_truncation, reason = "codes are below 256")]
fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn go_on(by: usize) -> libc::sock_filter {
    word(libc::BPF_JMP | libc::BPF_JA, u32::try_from(by).unwrap_or(u32::MAX))
}

fn finish(length: u32) -> libc::sock_filter {
    word(libc::BPF_RET | libc::BPF_K, length)
}

const DROP: u32 = 0;
const PASS: u32 = u32::MAX;

/// Drops what comes from elsewhere, and goes on behind its end with what comes from `nets`. Packets of IPv4 have the
/// header of IPv4 also where the socket is one of IPv6.
fn head(nets: &[(IpAddr, u8)]) -> Vec<libc::sock_filter> {
    let tests_of = |v6: bool| -> Vec<Vec<libc::sock_filter>> {
        let family = nets.iter().filter(|(address, _)| address.is_ipv6() == v6);
        family.map(|(address, bits)| tests(*address, *bits)).collect()
    };
    let (four, six) =
        (section(&[SENDER_4], &tests_of(false)), section(&six_words(), &tests_of(true)));
    let version = [
        word(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, HEADER),
        word(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 4),
        jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 4, 2, 0),
        jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 6, 2, 0),
        finish(DROP),
        // Conditional jumps reach 255 instructions, and a section may be longer.
        go_on(1),
        go_on(four.len()),
    ];
    let mut code = [&version[..], &four, &six].concat();
    let end = code.len();
    // Matches stand as jumps of no length until it is known where the end is.
    for (at, instruction) in code.iter_mut().enumerate() {
        if instruction.code == MATCH {
            *instruction = go_on(end - at - 1);
        }
    }
    code
}

fn six_words() -> [u32; 4] {
    [0, 4, 8, 12].map(|at| SENDER_6 + at)
}

/// Stands for a jump to the end.
const MATCH: u16 = 0xFFFF;

/// Loads the words of an address to memory, and tests it against each prefix in turn.
fn section(words: &[u32], tests: &[Vec<libc::sock_filter>]) -> Vec<libc::sock_filter> {
    let mut code = vec![];
    for (at, from) in (0..).zip(words) {
        code.push(word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, *from));
        // Each test overwrites the accumulator; BPF has 16 words of memory besides.
        code.push(word(libc::BPF_ST, at));
    }
    code.extend(tests.iter().flatten());
    code.push(finish(DROP));
    code
}

/// Whether the address in memory has the first `bits` of `address`: then to the end, else on to what follows.
fn tests(address: IpAddr, bits: u8) -> Vec<libc::sock_filter> {
    let octets = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let words =
        octets.chunks_exact(4).filter_map(|word| word.try_into().ok().map(u32::from_be_bytes));
    let mut code = vec![];
    let mut left = u32::from(bits);
    for (at, own) in (0..).zip(words) {
        if left == 0 {
            break;
        }
        // `left` is not 0 here, so the shift is below 32.
        let mask = u32::MAX << (32 - left.min(32));
        code.push(word(libc::BPF_LD | libc::BPF_MEM, at));
        if mask != u32::MAX {
            code.push(word(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask));
        }
        code.push(jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, own & mask, 0, 0));
        left -= left.min(32);
    }
    code.push(libc::sock_filter { code: MATCH, jt: 0, jf: 0, k: 0 });
    let length = code.len();
    for (at, instruction) in code.iter_mut().enumerate() {
        if u32::from(instruction.code) == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
            instruction.jf = u8::try_from(length - at - 1).unwrap_or(u8::MAX);
        }
    }
    code
}

/// What becomes of packets that may come: what the socket's own filter says of them, which begins with empty registers.
fn tail(present: &[libc::sock_filter]) -> Vec<libc::sock_filter> {
    if present.is_empty() {
        return vec![finish(PASS)];
    }
    let begin = [word(libc::BPF_LD | libc::BPF_IMM, 0), word(libc::BPF_MISC | libc::BPF_TAX, 0)];
    [&begin[..], present].concat()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    fn net(text: &str, bits: u8) -> (IpAddr, u8) {
        (text.parse().unwrap(), bits)
    }

    /// Whether a datagram from one address to another, or a connection, is let in.
    fn hears(own: &str, nets: &[(IpAddr, u8)], from: &str) -> bool {
        let socket = UdpSocket::bind((own, 0)).unwrap();
        admit(socket.as_fd(), nets).unwrap();
        let to = |port: u16| -> SocketAddr {
            let to: IpAddr = from.parse().unwrap();
            let to = if to.is_ipv4() {
                Ipv4Addr::LOCALHOST.into()
            } else {
                IpAddr::from(Ipv6Addr::LOCALHOST)
            };
            (to, port).into()
        };
        let sender = UdpSocket::bind((from, 0)).unwrap();
        let to = to(socket.local_addr().unwrap().port());
        passes(&sender, b"x", to);
        socket.set_nonblocking(true).unwrap();
        socket.recv(&mut [0; 1]).is_ok()
    }

    /// Sends a datagram and waits until it has arrived or has been dropped: another that is sent after it by the same
    /// CPU has arrived. A CPU may put off what comes in.
    fn passes(sender: &UdpSocket, text: &[u8], to: SocketAddr) {
        let mut one = rustix::thread::CpuSet::new();
        one.set(rustix::thread::sched_getcpu());
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        sender.send_to(text, to).unwrap();
        let open = UdpSocket::bind((to.ip(), 0)).unwrap();
        open.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        netloom_kit::wait_until("a later datagram", Duration::from_secs(30), || {
            sender.send_to(b"later", open.local_addr().unwrap()).unwrap();
            open.recv(&mut [0; 5]).ok()
        });
    }

    #[test]
    fn prefixes_of_both_families_are_told_apart() {
        let six = std::fs::exists("/proc/net/if_inet6").unwrap_or(false);
        let mut nets = vec![net("127.0.0.2", 32), net("127.1.0.0", 16), net("127.2.2.128", 25)];
        for (from, heard) in [
            ("127.0.0.1", false),
            ("127.0.0.2", true),
            ("127.0.0.3", false),
            ("127.1.255.255", true),
            ("127.2.2.127", false),
            ("127.2.2.129", true),
        ] {
            assert_eq!(hears("0.0.0.0", &nets, from), heard, "{from}");
            if six {
                assert_eq!(hears("::", &nets, from), heard, "{from} to a socket of IPv6");
            }
        }
        if !six {
            return;
        }
        assert!(!hears("::", &nets, "::1"));
        nets.push(net("fd00::", 8));
        assert!(!hears("::", &nets, "::1"));
        for (words, bits) in
            [("::1", 128), ("::", 127), ("::", 96), ("::", 64), ("::", 1), ("::", 0)]
        {
            assert!(hears("::", &[net(words, bits)], "::1"), "{words}/{bits}");
            assert!(!hears("::", &[net(words, bits)], "127.0.0.1"), "{words}/{bits}");
        }
        assert!(!hears("::", &[net("::2", 127), net("::", 128), net("0:0:0:1::", 64)], "::1"));
        assert!(hears("0.0.0.0", &[net("0.0.0.0", 0)], "127.0.0.1"));
        assert!(!hears("0.0.0.0", &[], "127.0.0.1"));
    }

    /// Asks for a connection and does not wait for it.
    fn asks(from: &str, to: SocketAddr) -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, socket};
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&client, &SocketAddr::from((from.parse::<IpAddr>().unwrap(), 0))).unwrap();
        rustix::io::ioctl_fionbio(&client, true).unwrap();
        let _ = rustix::net::connect(&client, &to);
        TcpStream::from(client)
    }

    /// In a network of its own, since Linux 6.18 lets only its root filter sockets of TCP.
    #[test]
    fn a_connection_from_elsewhere_is_never_begun() {
        netloom_kit::isolated!({
            let lo = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
            assert!(lo.unwrap().success());
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            admit(listener.as_fd(), &[net("127.0.0.2", 32)]).unwrap();
            let to = (Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()).into();
            // By one CPU, so that the first has come to the listener before the second.
            let mut one = rustix::thread::CpuSet::new();
            one.set(rustix::thread::sched_getcpu());
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            let [refused, _taken] = ["127.0.0.1", "127.0.0.2"].map(|from| asks(from, to));
            assert_eq!(listener.accept().unwrap().1.ip().to_string(), "127.0.0.2");
            assert!(refused.peer_addr().is_err());
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err());
        });
    }

    #[test]
    fn what_was_attached_stays_and_goes_on_behind_ours() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        // The program's own: only datagrams of one byte, 9 with the header; the length is that of A plus X.
        let own = [
            word(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0),
            word(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
            jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 9, 0, 1),
            finish(PASS),
            finish(DROP),
        ];
        attach(socket.as_fd(), &own).unwrap();
        let peers = [net("127.0.0.2", 32)];
        admit(socket.as_fd(), &peers).unwrap();
        for (from, text, heard) in
            [("127.0.0.1", "x", false), ("127.0.0.2", "xy", false), ("127.0.0.2", "x", true)]
        {
            passes(&UdpSocket::bind((from, 0)).unwrap(), text.as_bytes(), to);
            assert_eq!(socket.recv(&mut [0; 8]).is_ok(), heard, "{text} from {from}");
        }
        admit(socket.as_fd(), &peers).unwrap();
        let refused = |done: io::Result<()>| done.unwrap_err().raw_os_error();
        assert_eq!(refused(admit(socket.as_fd(), &[net("127.0.0.0", 8)])), Some(libc::EPERM));
        assert_eq!(refused(attach(socket.as_fd(), &own)), Some(libc::EPERM));
        for option in [libc::SO_DETACH_FILTER, libc::SO_LOCK_FILTER] {
            let set = set_option(socket.as_fd(), libc::SOL_SOCKET, option, &0_i32.to_ne_bytes());
            assert_eq!(refused(set), Some(libc::EPERM));
        }
    }

    #[test]
    fn a_filter_that_its_owner_has_locked_is_refused() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        attach(socket.as_fd(), &[finish(PASS)]).unwrap();
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &1_i32.to_ne_bytes())
            .unwrap();
        let refused = admit(socket.as_fd(), &[net("127.0.0.1", 32)]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    }
}
