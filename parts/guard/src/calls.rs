//! The calls by which a program reaches the network, their numbers on each machine, and the filter that notifies them.
//!
//! The filter lets through in the kernel what cannot reach anything by itself: sockets of TCP, UDP and UNIX, sending
//! without an address, reading. Calls that would lead around the supervisor are refused there: io_uring does not
//! exist, a terminal takes no typed-ahead input of programs, no other filter may have a listener, and the kernel starts
//! no program of root's to make a key.

use netloom_sys::seccomp::{Answer, Condition, Filter, Machine, Rule};

/// A kind of call that the supervisor decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// socket(2) of an uncommon family, type or protocol.
    Socket,
    /// socketpair(2) of another family than UNIX.
    SocketPair,
    /// connect(2).
    Connect,
    /// bind(2).
    Bind,
    /// listen(2).
    Listen,
    /// sendto(2) with an address.
    SendTo,
    /// sendmsg(2).
    SendMessage,
    /// sendmmsg(2).
    SendMessages,
    /// setsockopt(2) of an option that widens what a socket reaches.
    SetOption,
    /// accept(2), where its connections are judged.
    Accept,
    /// accept4(2), likewise.
    Accept4,
    /// unshare(2) or setns(2), by which a thread gets other mounts.
    Mounts,
    /// ioctl(2) by which a descriptor gets a TUN or TAP interface, which its user may have been given.
    Tunnel,
    /// socketcall(2) of i386, of one of these.
    SocketCall,
}

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const AF_NETLINK: u32 = 16;
/// `SOCK_STREAM` and `SOCK_DGRAM`; flags stand in higher bits.
const KIND_BITS: u32 = 0xF;
const STREAM_OR_DATAGRAM: &[u32] = &[1, 2];
/// None, TCP, UDP, MPTCP, UDP-Lite.
const COMMON_PROTOCOLS: &[u32] = &[0, 6, 17, 262, 136];
/// `NETLINK_ROUTE`: the resolver of the C library lists addresses by it.
const ROUTE: &[u32] = &[0];

const WHOLE: u32 = u32::MAX;
const fn one_of(argument: u8, mask: u32, values: &'static [u32]) -> Condition {
    Condition::OneOf { argument, mask, values }
}

const fn ask(number: u32) -> Rule {
    Rule { number, clauses: &[], otherwise: Answer::Notify }
}

const fn refuse(number: u32, errno: u16) -> Rule {
    Rule { number, clauses: &[], otherwise: Answer::Errno(errno) }
}

const ENOSYS: u16 = 38;
const EPERM: u16 = 1;
const EBUSY: u16 = 16;
const EOPNOTSUPP: u16 = 95;
const ENOKEY: u16 = 126;

/// Conditions and answers of a rule.
type Clauses = &'static [(&'static [Condition], Answer)];

/// Common sockets reach nothing before they are connected, bound, or send.
const COMMON_SOCKETS: Clauses = &[
    (&[one_of(0, WHOLE, &[AF_UNIX])], Answer::Allow),
    (
        &[
            one_of(0, WHOLE, &[AF_INET, AF_INET6]),
            one_of(1, KIND_BITS, STREAM_OR_DATAGRAM),
            one_of(2, WHOLE, COMMON_PROTOCOLS),
        ],
        Answer::Allow,
    ),
    (&[one_of(0, WHOLE, &[AF_NETLINK]), one_of(2, WHOLE, ROUTE)], Answer::Allow),
];

const UNIX_PAIRS: Clauses = &[(&[one_of(0, WHOLE, &[AF_UNIX])], Answer::Allow)];

/// Sending is decided about if there is an address.
const ADDRESSED: Clauses = &[(&[Condition::Set(4)], Answer::Notify)];

/// `SOL_SOCKET`, `SOL_IP`, `SOL_IPV6`, `SOL_SCTP`.
pub(crate) const SOCKET: i32 = 1;
pub(crate) const IP: i32 = 0;
pub(crate) const IPV6: i32 = 41;
const SCTP: u32 = 132;

/// `SO_BINDTODEVICE`, `SO_MARK`, `SO_BINDTOIFINDEX`.
const SOCKET_WAYS: &[u32] = &[25, 36, 62];
/// `IP_HDRINCL` (a raw socket of one protocol then sends any), `IP_OPTIONS`, `IP_TRANSPARENT`, `IP_UNICAST_IF`.
const IP_WAYS: &[u32] = &[3, 4, 19, 50];
/// `IPV6_2292PKTOPTIONS`, `IPV6_FLOWLABEL_MGR` (a label may have a routing header), `IPV6_HDRINCL`, `IPV6_PKTINFO`,
/// `IPV6_RTHDR`, `IPV6_TRANSPARENT`, `IPV6_UNICAST_IF`.
const IPV6_WAYS: &[u32] = &[6, 32, 36, 50, 57, 75, 76];
/// `IP_ADD_MEMBERSHIP`, `IP_ADD_SOURCE_MEMBERSHIP`, `IP_MSFILTER`, and `MCAST_JOIN_GROUP`,
/// `MCAST_JOIN_SOURCE_GROUP`, `MCAST_MSFILTER`.
const IP_JOINS: &[u32] = &[35, 39, 41, 42, 46, 48];
/// `IPV6_ADD_MEMBERSHIP`, `IPV6_JOIN_ANYCAST`, and `MCAST_` as above.
const IPV6_JOINS: &[u32] = &[20, 27, 42, 46, 48];
/// `SCTP_SOCKOPT_BINDX_ADD`, `SCTP_SOCKOPT_CONNECTX_OLD`, `SCTP_SOCKOPT_CONNECTX`: addresses that are not judged.
const SCTP_ADDRESSES: &[u32] = &[100, 107, 110];
/// `SCTP_SOCKOPT_CONNECTX3`, which connects although it is asked for by getsockopt(2).
const SCTP_CONNECTS: &[u32] = &[111];

/// Options that choose the way or the sender of packets, and those by which a group's packets arrive.
const DECIDED_OPTIONS: Clauses = &[
    (&[one_of(1, WHOLE, &[1]), one_of(2, WHOLE, SOCKET_WAYS)], Answer::Notify),
    (&[one_of(1, WHOLE, &[0]), one_of(2, WHOLE, IP_WAYS)], Answer::Notify),
    (&[one_of(1, WHOLE, &[0]), one_of(2, WHOLE, IP_JOINS)], Answer::Notify),
    (&[one_of(1, WHOLE, &[41]), one_of(2, WHOLE, IPV6_WAYS)], Answer::Notify),
    (&[one_of(1, WHOLE, &[41]), one_of(2, WHOLE, IPV6_JOINS)], Answer::Notify),
    (&[one_of(1, WHOLE, &[SCTP]), one_of(2, WHOLE, SCTP_ADDRESSES)], Answer::Errno(EOPNOTSUPP)),
];

const ASKED_OPTIONS: Clauses =
    &[(&[one_of(1, WHOLE, &[SCTP]), one_of(2, WHOLE, SCTP_CONNECTS)], Answer::Errno(EOPNOTSUPP))];

fn among(options: &[u32], option: i32) -> bool {
    u32::try_from(option).is_ok_and(|option| options.contains(&option))
}

/// Whether an option chooses the way or the sender of packets.
pub(crate) fn widens(level: i32, option: i32) -> bool {
    match level {
        SOCKET => among(SOCKET_WAYS, option),
        IP => among(IP_WAYS, option),
        IPV6 => among(IPV6_WAYS, option),
        _ => false,
    }
}

/// Whether an option makes packets of a group arrive.
pub(crate) fn joins(level: i32, option: i32) -> bool {
    match level {
        IP => among(IP_JOINS, option),
        IPV6 => among(IPV6_JOINS, option),
        _ => false,
    }
}

/// Whether an option is `IPV6_FLOWLABEL_MGR`, whose value the kernel also writes.
pub(crate) fn makes_label(level: i32, option: i32) -> bool {
    (level, option) == (IPV6, 32)
}

/// Whether an option of SCTP has addresses that are not judged.
pub(crate) fn hides_addresses(level: i32, option: i32) -> bool {
    among(&[SCTP], level) && among(SCTP_ADDRESSES, option)
}

/// `TIOCSTI` and `TIOCLINUX` would put typing into the terminal of the answering user; by `TUNSETIFF` frames go out without a
/// socket.
const CONTROLS: Clauses = &[
    (&[one_of(1, WHOLE, &[0x5412, 0x541C])], Answer::Errno(EPERM)),
    (&[one_of(1, WHOLE, &[0x4004_54CA])], Answer::Notify),
];

/// request_key(2) that may have a key made: by /sbin/request-key, a program of root's outside, which looks names up
/// (`dns_resolver`). There is no such key then.
const UPCALLS: Clauses = &[(&[Condition::Set(2)], Answer::Errno(ENOKEY))];

/// `SECCOMP_SET_MODE_FILTER` with `SECCOMP_FILTER_FLAG_NEW_LISTENER`: it would decide in place of this one.
const LISTENER: Clauses = &[(&[one_of(0, WHOLE, &[1]), one_of(1, 8, &[8])], Answer::Errno(EBUSY))];

/// `PR_SET_MM`, by which a process gives itself another program's name.
const NAMES: Clauses = &[(&[one_of(0, WHOLE, &[35])], Answer::Errno(EPERM))];

/// `PTRACE_ATTACH`, `PTRACE_SEIZE`.
const TRACES: Clauses = &[(&[one_of(0, WHOLE, &[16, 0x4206])], Answer::Errno(EPERM))];

/// prlimit(2) with new limits for another process: one of processor time ends it. One's own is process 0 to the C library.
const LIMITS: Clauses =
    &[(&[one_of(0, WHOLE, &[0])], Answer::Allow), (&[Condition::Set(2)], Answer::Errno(EPERM))];

/// `SYS_SOCKET` to `SYS_SENDMMSG` of linux/net.h that are decided about. Others (reading, names) are not.
const SOCKET_CALLS: &[u32] = &[1, 2, 3, 4, 8, 11, 14, 16, 20];
const DECIDED_CALLS: Clauses = &[(&[one_of(0, WHOLE, SOCKET_CALLS)], Answer::Notify)];
/// `SYS_ACCEPT` and `SYS_ACCEPT4`.
const ACCEPTING_CALLS: &[u32] = &[5, 18];
const ALL_CALLS: Clauses = &[
    (&[one_of(0, WHOLE, SOCKET_CALLS)], Answer::Notify),
    (&[one_of(0, WHOLE, ACCEPTING_CALLS)], Answer::Notify),
];

/// `CLONE_NEWNS`: in other mounts a program may have another one's name.
const NEW_MOUNTS: Clauses = &[(&[one_of(0, 0x2_0000, &[0x2_0000])], Answer::Notify)];

const fn unless(number: u32, clauses: Clauses) -> Rule {
    Rule { number, clauses, otherwise: Answer::Notify }
}

const fn only(number: u32, clauses: Clauses) -> Rule {
    Rule { number, clauses, otherwise: Answer::Allow }
}

/// linux/arch/x86/entry/syscalls/syscall_64.tbl.
const X86_64: [Rule; 21] = [
    unless(41, COMMON_SOCKETS),
    ask(42),
    ask(46),
    only(44, ADDRESSED),
    ask(49),
    ask(50),
    unless(53, UNIX_PAIRS),
    only(54, DECIDED_OPTIONS),
    only(55, ASKED_OPTIONS),
    only(157, NAMES),
    only(302, LIMITS),
    only(272, NEW_MOUNTS),
    ask(308),
    only(16, CONTROLS),
    only(249, UPCALLS),
    ask(307),
    only(317, LISTENER),
    refuse(425, ENOSYS),
    refuse(426, ENOSYS),
    refuse(427, ENOSYS),
    refuse(321, EPERM),
];

/// ptrace, process_vm_writev, pidfd_getfd: ways to other processes' sockets, where the kernel does not bar them.
const X86_64_FOREIGN: [Rule; 3] = [only(101, TRACES), refuse(311, EPERM), refuse(438, EPERM)];

const X86_64_ACCEPTS: [Rule; 2] = [ask(43), ask(288)];

/// linux/arch/x86/entry/syscalls/syscall_32.tbl.
const I386: [Rule; 22] = [
    unless(359, COMMON_SOCKETS),
    unless(360, UNIX_PAIRS),
    ask(361),
    ask(362),
    ask(363),
    only(366, DECIDED_OPTIONS),
    only(365, ASKED_OPTIONS),
    only(172, NAMES),
    only(340, LIMITS),
    only(310, NEW_MOUNTS),
    ask(346),
    only(369, ADDRESSED),
    ask(370),
    ask(345),
    only(102, DECIDED_CALLS),
    only(54, CONTROLS),
    only(287, UPCALLS),
    only(354, LISTENER),
    refuse(425, ENOSYS),
    refuse(426, ENOSYS),
    refuse(427, ENOSYS),
    refuse(357, EPERM),
];

const I386_FOREIGN: [Rule; 3] = [only(26, TRACES), refuse(348, EPERM), refuse(438, EPERM)];

/// Stands before the rest: of two rules for a number the first one counts.
const I386_ACCEPTS: [Rule; 2] = [ask(364), only(102, ALL_CALLS)];

/// linux/include/uapi/asm-generic/unistd.h.
const AARCH64: [Rule; 21] = [
    unless(198, COMMON_SOCKETS),
    unless(199, UNIX_PAIRS),
    ask(200),
    ask(201),
    ask(203),
    only(206, ADDRESSED),
    only(208, DECIDED_OPTIONS),
    only(209, ASKED_OPTIONS),
    only(167, NAMES),
    only(261, LIMITS),
    only(97, NEW_MOUNTS),
    ask(268),
    ask(211),
    ask(269),
    only(29, CONTROLS),
    only(218, UPCALLS),
    only(277, LISTENER),
    refuse(425, ENOSYS),
    refuse(426, ENOSYS),
    refuse(427, ENOSYS),
    refuse(280, EPERM),
];

const AARCH64_FOREIGN: [Rule; 3] = [only(117, TRACES), refuse(271, EPERM), refuse(438, EPERM)];

const AARCH64_ACCEPTS: [Rule; 2] = [ask(202), ask(242)];

/// The filter for this machine's programs. Calls on other processes are left to the kernel where it bars those that are
/// not under guard; whether `accepts` are notified is up to the policy.
pub(crate) fn filter(barred: bool, accepts: bool) -> Filter {
    let table = |own: &[Rule], foreign: &[Rule], accepting: &[Rule]| {
        // A user namespace or a domain of Landlock keeps them from processes outside then, and
        // within debuggers work (ADR 0044).
        let foreign = if barred { &[] } else { foreign };
        let accepting = if accepts { accepting } else { &[] };
        // Of two rules for a number the first one counts, so those that accept stand in front.
        [accepting, own, foreign].concat()
    };
    match Machine::OWN {
        // A program of 32 bits that such a kernel may start is of a
        // machine without a table: its calls get ENOSYS (ADR 0043).
        Machine::Aarch64 => {
            let rules = table(&AARCH64, &AARCH64_FOREIGN, &AARCH64_ACCEPTS);
            Filter::compile(&[(Machine::Aarch64, &rules)])
        }
        // A program of 64 bits may call by `int 0x80` with i386's numbers, so both tables always
        // apply.
        Machine::X86_64 | Machine::I386 => Filter::compile(&[
            (Machine::X86_64, &table(&X86_64, &X86_64_FOREIGN, &X86_64_ACCEPTS)),
            (Machine::I386, &table(&I386, &I386_FOREIGN, &I386_ACCEPTS)),
        ]),
    }
}

/// What a notified number is; `None` for one that the filter does not notify.
pub(crate) fn kind(machine: Machine, number: u32) -> Option<Kind> {
    let numbers: &[(u32, Kind)] = match machine {
        Machine::X86_64 => &[
            (41, Kind::Socket),
            (42, Kind::Connect),
            (43, Kind::Accept),
            (44, Kind::SendTo),
            (46, Kind::SendMessage),
            (49, Kind::Bind),
            (50, Kind::Listen),
            (53, Kind::SocketPair),
            (54, Kind::SetOption),
            (288, Kind::Accept4),
            (307, Kind::SendMessages),
            (272, Kind::Mounts),
            (308, Kind::Mounts),
            (16, Kind::Tunnel),
        ],
        Machine::I386 if number == 102 => return Some(Kind::SocketCall),
        Machine::I386 => &[
            (359, Kind::Socket),
            (362, Kind::Connect),
            (369, Kind::SendTo),
            (370, Kind::SendMessage),
            (361, Kind::Bind),
            (363, Kind::Listen),
            (360, Kind::SocketPair),
            (366, Kind::SetOption),
            (345, Kind::SendMessages),
            (364, Kind::Accept4),
            (310, Kind::Mounts),
            (346, Kind::Mounts),
            (54, Kind::Tunnel),
        ],
        Machine::Aarch64 => &[
            (198, Kind::Socket),
            (202, Kind::Accept),
            (203, Kind::Connect),
            (206, Kind::SendTo),
            (211, Kind::SendMessage),
            (200, Kind::Bind),
            (201, Kind::Listen),
            (199, Kind::SocketPair),
            (208, Kind::SetOption),
            (242, Kind::Accept4),
            (269, Kind::SendMessages),
            (97, Kind::Mounts),
            (268, Kind::Mounts),
            (29, Kind::Tunnel),
        ],
    };
    numbers.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind)
}

/// The kind of a call of socketcall(2), by linux/net.h.
pub(crate) fn socket_call_kind(call: u32) -> Option<Kind> {
    Some(match call {
        1 => Kind::Socket,
        2 => Kind::Bind,
        3 => Kind::Connect,
        4 => Kind::Listen,
        5 => Kind::Accept,
        8 => Kind::SocketPair,
        11 => Kind::SendTo,
        14 => Kind::SetOption,
        16 => Kind::SendMessage,
        18 => Kind::Accept4,
        20 => Kind::SendMessages,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notified_number_is_known_and_every_known_one_is_in_a_table() {
        for (machine, table, accepting) in [
            (Machine::X86_64, &X86_64[..], &X86_64_ACCEPTS[..]),
            (Machine::I386, &I386, &I386_ACCEPTS),
            (Machine::Aarch64, &AARCH64, &AARCH64_ACCEPTS),
        ] {
            for rule in table.iter().chain(accepting) {
                let notifies = rule.otherwise == Answer::Notify
                    || rule.clauses.iter().any(|(_, answer)| *answer == Answer::Notify);
                assert_eq!(kind(machine, rule.number).is_some(), notifies, "{machine:?} {rule:?}");
            }
            let known = (0..500).filter(|number| kind(machine, *number).is_some()).count();
            assert_eq!(known, 14, "{machine:?}");
            let accepts = |rule: &Rule| {
                matches!(kind(machine, rule.number), Some(Kind::Accept | Kind::Accept4))
            };
            assert!(!table.iter().any(accepts), "{machine:?}: everybody would pay for it");
        }
        let socket_calls = [SOCKET_CALLS, ACCEPTING_CALLS].concat();
        assert!(socket_calls.iter().all(|call| socket_call_kind(*call).is_some()));
        assert_eq!(
            (0..64).filter(|call| socket_call_kind(*call).is_some()).count(),
            socket_calls.len()
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn numbers_are_this_machines() {
        for accepts in [false, true] {
            filter(false, accepts);
            filter(true, accepts);
        }
    }

    #[test]
    fn options_that_widen_are_those_of_the_filter() {
        assert!(widens(SOCKET, 25) && widens(IP, 19) && widens(IPV6, 57));
        assert!(!widens(SOCKET, 2) && !widens(IP, 25) && !widens(6, 25));
        assert!(joins(IP, 35) && joins(IPV6, 20) && !joins(SOCKET, 35) && !joins(IP, -1));
        assert!(hides_addresses(132, 110) && !hides_addresses(132, 3));
    }
}
