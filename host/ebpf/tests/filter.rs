//! Filters in the kernel: classic programs on a socket, and their translations on test runs, say what the
//! interpreter says.
//!
//! Frames are given to programs by `BPF_PROG_TEST_RUN`: nothing is attached, no interface is needed. It
//! takes frames of 14 bytes and more.

use super::filter_support as support;

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use netloom_filter::ebpf::{self, Flavour, translate, translate_with};
use netloom_filter::{Insn, Program};
use netloom_kit::root_only;
use support::frames::{corpus, runts, tagged};
use support::noise::Noise;
use support::recorded;

/// How the kernel may run a program.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Xdp,
    Tc,
}

/// A program that was loaded.
struct Loaded(OwnedFd);

impl Loaded {
    fn new(kind: Kind, insns: &[ebpf::Insn]) -> Result<Loaded, String> {
        let kind = match kind {
            Kind::Xdp => libbpf_sys::BPF_PROG_TYPE_XDP,
            Kind::Tc => libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
        };
        let mut log = vec![0_u8; 1 << 16];
        let mut options = libbpf_sys::bpf_prog_load_opts {
            sz: size_of::<libbpf_sys::bpf_prog_load_opts>().try_into().unwrap(),
            log_buf: log.as_mut_ptr().cast(),
            log_size: log.len().try_into().unwrap(),
            ..Default::default()
        };
        // SAFETY: names and licence end in a zero byte; instructions and the log are as long as said.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                kind,
                c"filter".as_ptr(),
                c"Dual MIT/GPL".as_ptr(),
                insns.as_ptr().cast(),
                insns.len().try_into().unwrap(),
                &mut options,
            )
        };
        if fd < 0 {
            let log = CStr::from_bytes_until_nul(&log).unwrap().to_string_lossy().into_owned();
            return Err(format!("error {fd}, {} instructions\n{log}", insns.len()));
        }
        // SAFETY: the call gave a new descriptor.
        Ok(Loaded(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// What the program returns for a frame.
    fn run(&self, frame: &[u8]) -> u32 {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>().try_into().unwrap(),
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len().try_into().unwrap(),
            repeat: 1,
            ..Default::default()
        };
        // SAFETY: the frame is as long as said.
        let done = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) };
        assert_eq!(done, 0, "test run: {}", std::io::Error::last_os_error());
        options.retval
    }
}

fn load(kind: Kind, insns: &[ebpf::Insn], what: &dyn std::fmt::Debug) -> Loaded {
    Loaded::new(kind, insns).unwrap_or_else(|e| panic!("{what:?} as {kind:?}: {e}"))
}

fn wire_len(frame: &[u8]) -> u32 {
    frame.len().try_into().unwrap()
}

/// Pairs of socket whose reader has a classic filter: what arrives is what the kernel keeps.
struct Classic {
    from: UnixDatagram,
    to: UnixDatagram,
}

impl Classic {
    fn new(program: &Program) -> Classic {
        let (from, to) = UnixDatagram::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        let insns: &[Insn] = program.insns();
        let filter = libc::sock_fprog {
            len: insns.len().try_into().unwrap(),
            filter: insns.as_ptr().cast_mut().cast(),
        };
        // SAFETY: the structure is of the size given, and its instructions are as many as it says.
        let done = unsafe {
            libc::setsockopt(
                to.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of::<libc::sock_fprog>().try_into().unwrap(),
            )
        };
        assert_eq!(done, 0, "attach {program:?}: {}", std::io::Error::last_os_error());
        Classic { from, to }
    }

    /// How many bytes of the frame arrive.
    fn run(&self, frame: &[u8]) -> Option<usize> {
        // One that is rejected is an error to the sender.
        let _ = self.from.send(frame);
        self.to.recv(&mut [0; 2048]).ok()
    }
}

fn compare_with_classic(what: &str, program: &Program, frames: &[Vec<u8>]) {
    let classic = Classic::new(program);
    for frame in frames {
        let kept = usize::try_from(program.run(frame, wire_len(frame))).unwrap();
        let expected = (kept > 0).then_some(kept.min(frame.len()));
        assert_eq!(classic.run(frame), expected, "{what}: {program:?}: {frame:02x?}");
    }
}

#[test]
fn sockets_run_expressions_as_the_interpreter_does() {
    let frames = [corpus(), runts()[1..].to_vec()].concat();
    for (expression, program) in recorded::programs() {
        compare_with_classic(&expression, &program, &frames);
    }
}

#[test]
fn sockets_run_random_programs_as_the_interpreter_does() {
    let frames = [corpus(), runts()[1..].to_vec()].concat();
    let mut noise = Noise::new(3);
    for round in 0..400 {
        let program = Program::new(noise.program(8 + round % 60)).unwrap();
        compare_with_classic("random", &program, &frames);
    }
}

/// Whether a test run of tc takes a frame: of IP it wants a whole header.
fn taken(frame: &[u8]) -> bool {
    frame.len()
        >= match frame[12..14] {
            [0x08, 0x00] => 34,
            [0x86, 0xdd] => 54,
            _ => 14,
        }
}

/// A tc program that writes the type into the frame and goes on with the filter.
fn with_type(program: &Program, kind: [u8; 2]) -> Vec<ebpf::Insn> {
    let skb_store_bytes = 9;
    let mut out = vec![
        ebpf::Insn::new(0xbf, 6, 1, 0, 0),
        ebpf::Insn::new(0xb7, 2, 0, 0, u16::from_ne_bytes(kind).into()),
        ebpf::Insn::new(0x6b, 10, 2, -2, 0),
        ebpf::Insn::new(0xb7, 2, 0, 0, 12),
        ebpf::Insn::new(0xbf, 3, 10, 0, 0),
        ebpf::Insn::new(0x07, 3, 0, 0, -2),
        ebpf::Insn::new(0xb7, 4, 0, 0, 2),
        ebpf::Insn::new(0xb7, 5, 0, 0, 0),
        ebpf::Insn::new(0x85, 0, 0, 0, skb_store_bytes),
        ebpf::Insn::new(0xbf, 1, 6, 0, 0),
    ];
    out.extend(translate(program, Flavour::Socket).unwrap());
    out
}

/// Programs as XDP and as tc say what the interpreter says.
fn compare(what: &str, program: &Program, frames: &[Vec<u8>]) {
    let xdp = load(Kind::Xdp, &translate(program, Flavour::Packet).unwrap(), &what);
    let tc = load(Kind::Tc, &translate(program, Flavour::Socket).unwrap(), &what);
    let [tc4, tc6] =
        [[0x08, 0x00], [0x86, 0xdd]].map(|kind| load(Kind::Tc, &with_type(program, kind), &what));
    for frame in frames {
        let expected = program.run(frame, wire_len(frame));
        assert_eq!(xdp.run(frame), expected, "{what} as XDP: {program:?}: {frame:02x?}");
        let by_tc = if taken(frame) {
            tc.run(frame)
        } else {
            let with = if frame[12] == 8 { &tc4 } else { &tc6 };
            with.run(&[&frame[..12], &[0x88, 0xb5], &frame[14..]].concat())
        };
        assert_eq!(by_tc, expected, "{what} as tc: {program:?}: {frame:02x?}");
    }
}

#[test]
fn expressions_mean_the_same_as_ebpf() {
    root_only!("loads programs");
    let frames = corpus();
    let programs = recorded::programs();
    assert!(programs.len() >= 60);
    for (expression, program) in programs {
        compare(&expression, &program, &frames);
    }
    compare("all", &Program::all(), &frames);
}

#[test]
fn random_programs_mean_the_same_as_ebpf() {
    root_only!("loads programs");
    let frames = corpus();
    let mut noise = Noise::new(4);
    let mut kept = 0;
    for round in 0..300 {
        let program = Program::new(noise.program(8 + round % 90)).unwrap();
        let some: Vec<_> = frames.iter().skip(round % 5).step_by(5).cloned().collect();
        kept += some.iter().filter(|frame| program.run(frame, wire_len(frame)) > 0).count();
        compare("random", &program, &some);
    }
    assert!(kept > 1000, "only {kept} frames kept");
}

/// A program before a translated one: the tag beside the frame's bytes, as an interface that takes tags
/// out of frames leaves it.
fn with_tag_beside(program: &Program, kind: u16, tci: u16) -> Vec<ebpf::Insn> {
    let vlan_push = 18;
    let mut out = vec![
        ebpf::Insn::new(0xbf, 6, 1, 0, 0),
        ebpf::Insn::new(0xb7, 2, 0, 0, kind.to_be().into()),
        ebpf::Insn::new(0xb7, 3, 0, 0, tci.into()),
        ebpf::Insn::new(0x85, 0, 0, 0, vlan_push),
        ebpf::Insn::new(0xbf, 1, 6, 0, 0),
    ];
    out.extend(translate(program, Flavour::Socket).unwrap());
    out
}

fn compare_with_tag_beside(what: &str, program: &Program, frames: &[Vec<u8>]) {
    for (kind, tci) in [(0x8100, 5), (0x88a8, 0xe064)] {
        let loaded = load(Kind::Tc, &with_tag_beside(program, kind, tci), &what);
        for frame in frames.iter().filter(|frame| taken(frame)) {
            let wire = tagged(frame, kind, tci);
            assert_eq!(
                loaded.run(frame),
                program.run(&wire, wire_len(&wire)),
                "{what}: {program:?}: {wire:02x?}"
            );
        }
    }
}

#[test]
fn a_tag_beside_the_bytes_is_seen_as_on_the_wire() {
    root_only!("loads programs");
    let frames = corpus();
    for (expression, program) in recorded::programs() {
        compare_with_tag_beside(&expression, &program, &frames);
    }
}

#[test]
fn random_programs_see_a_tag_beside_the_bytes() {
    root_only!("loads programs");
    let frames = corpus();
    let mut noise = Noise::new(5);
    for round in 0..150 {
        let program = Program::new(noise.program(8 + round % 60)).unwrap();
        let some: Vec<_> = frames.iter().skip(round % 5).step_by(5).cloned().collect();
        compare_with_tag_beside("random", &program, &some);
    }
}

#[test]
fn every_load_across_a_tag_beside_the_bytes_is_right() {
    root_only!("loads programs");
    let frames = [(0..40).collect::<Vec<u8>>(), (0..14).collect()];
    for code in [0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xb1] {
        for at in 0..24_u32 {
            let indirect = code & 0x40 != 0 && code & 0x80 == 0;
            let k = if indirect { at.wrapping_sub(3) } else { at };
            let insns = vec![
                Insn::new(0x01, 0, 0, 3),
                Insn::new(code, 0, 0, k),
                // X is the result of the last.
                Insn::new(if code == 0xb1 { 0x87 } else { 0x05 }, 0, 0, 0),
                Insn::new(0x44, 0, 0, 0x8000_0000),
                Insn::new(0x16, 0, 0, 0),
            ];
            compare_with_tag_beside("load", &Program::new(insns).unwrap(), &frames);
        }
    }
}

#[test]
fn the_callers_instructions_find_context_and_verdict() {
    root_only!("loads programs");
    // r0 = r0 + len of the context's; r0 = 1,000 + len.
    let (add, exit) = (ebpf::Insn::new(0x0f, 0, 1, 0, 0), ebpf::Insn::new(0x95, 0, 0, 0, 0));
    let len = ebpf::Insn::new(0x61, 1, 6, 0, 0);
    let accept = [len, add, exit];
    let reject = [len, add, ebpf::Insn::new(0x07, 0, 0, 0, 1000), exit];
    let insns = vec![
        Insn::new(0x28, 0, 0, 12),
        Insn::new(0x15, 0, 1, 0x0800),
        Insn::new(0x06, 0, 0, 96),
        Insn::new(0x20, 0, 0, 60),
        Insn::new(0x06, 0, 0, 0),
    ];
    let program = Program::new(insns).unwrap();
    let out = translate_with(&program, Flavour::Socket, &accept, &reject).unwrap();
    let loaded = load(Kind::Tc, &out, &"epilogue");
    for frame in corpus().iter().filter(|frame| taken(frame)) {
        let base = if frame[12..14] == [8, 0] { 96 } else { 1000 };
        assert_eq!(loaded.run(frame), base + wire_len(frame));
    }
}

#[test]
fn long_programs_pass_the_verifier() {
    root_only!("loads programs");
    let frames: Vec<_> = corpus().into_iter().step_by(9).collect();
    let mut ports = Vec::new();
    let mut diamonds = Vec::new();
    for index in 0..400_u32 {
        ports.extend([
            Insn::new(0xb1, 0, 0, 14),
            Insn::new(0x48, 0, 0, 14 + index % 3),
            Insn::new(0x15, 0, 1, index),
            Insn::new(0x06, 0, 0, 96),
        ]);
        // One of the branches knows more of the frame than the other.
        diamonds.extend([
            Insn::new(0x30, 0, 0, index % 7),
            Insn::new(0x45, 0, 1, 1 << (index % 8)),
            Insn::new(0x28, 0, 0, (index * 17) % 50),
            Insn::new(0x02, 0, 0, 0),
        ]);
    }
    for mut insns in [ports, diamonds] {
        insns.push(Insn::new(0x80, 0, 0, 0));
        insns.push(Insn::new(0x16, 0, 0, 0));
        compare("long", &Program::new(insns).unwrap(), &frames);
    }
}
