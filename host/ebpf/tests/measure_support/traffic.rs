//! Senders and receivers in namespaces, and programs that drop and count.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, TC_INGRESS, TcHook, TcHookBuilder};
use libbpf_sys::{bpf_map_create_opts, bpf_prog_attach_opts, bpf_prog_load_opts};

use super::measure_support::run::GSO_SEGS;
use super::support::net::NetNs;

/// Sends this many bytes by TCP. When it returns they are received and the connection is closed: nothing of it
/// is sent any more.
pub(crate) fn tcp(from: &NetNs, to: &NetNs, address: Ipv4Addr, port: u16, bytes: usize) {
    let listener = to.run(|| TcpListener::bind((address, port)).unwrap());
    std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut room = vec![0; 1 << 16];
            let mut all = 0;
            loop {
                match stream.read(&mut room).unwrap() {
                    0 => break all,
                    n => all += n,
                }
            }
        });
        from.run(|| {
            let mut stream = TcpStream::connect((address, port)).unwrap();
            stream.write_all(&vec![7; bytes]).unwrap();
        });
        assert_eq!(received.join().unwrap(), bytes);
    });
    drop(listener);
    // The receiver is the second to close, so its end goes when the last acknowledgement has come.
    netloom_kit::wait_until("the connection is closed", Duration::from_secs(20), || {
        (!to.run(|| has_socket(port))).then_some(())
    });
}

/// Whether an IPv4 socket has this local port in the calling thread's namespace.
fn has_socket(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let own = |line: &str| {
        line.split_whitespace().nth(1).is_some_and(|own| own.ends_with(&format!(":{port:04X}")))
    };
    sockets.lines().any(own)
}

/// Sends this many datagrams; nobody has to receive them.
pub(crate) fn udp(from: &NetNs, to: (Ipv4Addr, u16), datagrams: u32, size: usize) {
    from.run(|| {
        let socket = UdpSocket::bind("0.0.0.0:4000").unwrap();
        for n in 0..datagrams {
            let mut data = vec![0; size];
            data[..4].copy_from_slice(&n.to_be_bytes());
            socket.send_to(&data, to).unwrap();
        }
    });
}

/// One instruction: code, registers, offset, constant.
fn insn(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> u64 {
    u64::from(code)
        | u64::from(to | from << 4) << 8
        | u64::from(offset.cast_unsigned()) << 16
        | u64::from(constant.cast_unsigned()) << 32
}

/// Loads a program of traffic control.
fn load(program: &[u64]) -> OwnedFd {
    let opts =
        bpf_prog_load_opts { sz: size_of::<bpf_prog_load_opts>() as u64, ..Default::default() };
    // SAFETY: as many instructions as said, names that end in zeros, options of the size they say.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"dropper".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr().cast(),
            program.len() as u64,
            (&raw const opts).cast_mut(),
        )
    };
    assert!(fd >= 0, "{fd}");
    // SAFETY: just made for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A filter of ours at an interface's ingress, attached or not.
fn filter(program: &OwnedFd, ifindex: u32, priority: u32) -> TcHook {
    let mut builder = TcHookBuilder::new(program.as_fd());
    builder.ifindex(i32::try_from(ifindex).unwrap()).priority(priority).handle(1);
    builder.hook(TC_INGRESS)
}

/// A filter of somebody else's that lets all frames continue; it goes with the interface.
pub(crate) struct Foreign<'a> {
    space: &'a NetNs,
    ifindex: u32,
    priority: u32,
    program: OwnedFd,
}

impl Foreign<'_> {
    pub(crate) fn attach(space: &NetNs, ifindex: u32, priority: u32) -> Foreign<'_> {
        let program = load(&[insn(0xb7, 0, 0, 0, -1), insn(0x95, 0, 0, 0, 0)]);
        let made = Foreign { space, ifindex, priority, program };
        space.run(|| {
            let mut hook = filter(&made.program, ifindex, priority);
            hook.create().unwrap();
            hook.attach().unwrap();
        });
        made
    }

    /// The id of the program that is there.
    pub(crate) fn program(&self) -> u32 {
        self.space.run(|| filter(&self.program, self.ifindex, self.priority).query().unwrap())
    }
}

/// A program at an interface's ingress that drops one frame in `every`, and counts packets: all, dropped.
pub(crate) struct Dropper {
    counts: MapHandle,
    _program: OwnedFd,
}

impl Dropper {
    /// Before all other programs; it goes with the interface.
    pub(crate) fn attach(ifindex: u32, every: i32) -> Dropper {
        let opts = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let counts = MapHandle::create(MapType::Array, Some("drops"), 4, 24, 1, &opts).unwrap();
        let map = counts.as_fd().as_raw_fd();
        let value = [insn(0x18, 2, 2, 0, map), 0];
        let segments = i16::try_from(GSO_SEGS).unwrap();
        let program = load(&[
            // r6: packets of the frame, 1 without segments.
            insn(0x61, 6, 1, segments, 0),
            insn(0x55, 6, 0, 1, 0),
            insn(0xb7, 6, 0, 0, 1),
            value[0],
            value[1],
            // All packets, then frames: r3 is how many came before.
            insn(0xdb, 2, 6, 0, 0),
            insn(0xb7, 3, 0, 0, 1),
            insn(0xdb, 2, 3, 16, 1),
            insn(0xb7, 0, 0, 0, -1),
            insn(0xb7, 4, 0, 0, every),
            insn(0x9f, 3, 4, 0, 0),
            insn(0x55, 3, 0, 2, every - 1),
            insn(0xdb, 2, 6, 8, 0),
            insn(0xb7, 0, 0, 0, 2),
            insn(0x95, 0, 0, 0, 0),
        ]);
        if netloom_ebpf::feature::tcx_supported().is_ok() {
            first_by_tcx(&program, ifindex);
        } else {
            let mut hook = filter(&program, ifindex, 1);
            hook.create().unwrap();
            hook.attach().unwrap();
        }
        Dropper { counts, _program: program }
    }

    /// Packets that came, and those of them that were dropped.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let value = self.counts.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        let word = |at: usize| u64::from_ne_bytes(value[at..at + 8].try_into().unwrap());
        (word(0), word(8))
    }
}

fn first_by_tcx(program: &OwnedFd, ifindex: u32) {
    let opts = bpf_prog_attach_opts {
        sz: size_of::<bpf_prog_attach_opts>() as u64,
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    let (index, at) = (i32::try_from(ifindex).unwrap(), libbpf_sys::BPF_TCX_INGRESS);
    // SAFETY: options of the size they say.
    let refused = unsafe {
        libbpf_sys::bpf_prog_attach_opts(program.as_raw_fd(), index, at, &raw const opts)
    };
    assert_eq!(refused, 0);
}

/// Ends the test as skipped where the kernel has no tcx, by which the test itself attaches or looks.
macro_rules! tcx_only {
    () => {
        if netloom_ebpf::feature::tcx_supported().is_err() {
            netloom_kit::lacks!("linux-6.6", "has no tcx");
        }
    };
}

/// Ends the test as skipped where programs cannot look into the kernel's own structures: they do not know
/// then which checksums are left to the card, hash fewer packets than the reference for that, and leave
/// frames for other stations to the stack.
macro_rules! insight_only {
    () => {
        let known = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        if !known.contains(" bpf_cast_to_kern_ctx") {
            netloom_kit::lacks!("linux-6.2", "shows programs nothing of its own structures");
        }
    };
}

pub(crate) use {insight_only, tcx_only};
