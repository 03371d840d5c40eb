//! A tap's programs: those of `bpf/capture` with their constants, behind an optional filter.
//!
//! A filter is a program generated at run time: it tail-calls the copying program, or the one that
//! counts rejected frames. The filter is attached if there is one, else the copier.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, OpenObject};
use libbpf_sys::{bpf_map_create_opts, bpf_prog_load_opts, bpf_prog_type};
use netloom_filter::Program as Filter;
use netloom_filter::ebpf::{Flavour, Insn, translate_with};
use netloom_sys::{Failure, Unsupported};

use super::clock::Clock;
use super::cpus::Cpus;
use super::ring::Shape;
use super::{TapOptions, Where};
use crate::load::{Part, set_entries};
use crate::map::{self, Map};
use crate::program::Program;
use crate::{Direction, Error, Result};

const PART: Part =
    Part { name: "capture", object: include_bytes!(concat!(env!("OUT_DIR"), "/capture.bpf.o")) };
const CPUS: &str = "nl_tap_cpus";
const RING: &str = "nl_tap_ring";
const BELL: &str = "nl_tap_bell";
/// The table of the filters' tail calls.
const NEXT: &str = "nl_tap_next";
/// Verdicts: continue, and end here. `XDP_PASS` and `XDP_DROP` (linux/bpf.h), `TC_ACT_UNSPEC` and `TC_ACT_SHOT`
/// (linux/pkt_cls.h).
const XDP: [i32; 2] = [2, 1];
const TC: [i32; 2] = [-1, 2];

/// The loaded programs of a tap at an interface.
#[derive(Debug)]
pub(super) struct Programs {
    /// The attached programs, by direction.
    entries: Vec<(Direction, OwnedFd)>,
    cpus: Map,
    ring: Map,
    bell: Map,
    /// Targets of the filters' tail calls: the kernel empties the table when its last descriptor is closed.
    _next: Option<MapHandle>,
}

impl Programs {
    pub(super) fn load(
        options: &TapOptions,
        shape: &Shape,
        clock: Clock,
        cpus: &Cpus,
    ) -> Result<Self> {
        let names = names(options);
        let loaded = PART.load(|open| {
            // Each program costs the verifier's time, and that of another place may need a newer
            // kernel.
            let wanted = |name: &str| names.iter().any(|(_, copier)| *copier == name);
            for mut program in open.progs_mut() {
                let name = program.name().to_string_lossy().into_owned();
                let refuses = options.filter.is_some() && name == refuser(options.at);
                program.set_autoload(wanted(&name) || refuses);
            }
            set_entries(open, CPUS, cpus.possible)?;
            let online = u32::try_from(cpus.online.len()).unwrap_or(u32::MAX);
            set_entries(open, RING, shape.chunks.saturating_mul(online))?;
            set_value(open, RING, shape.stride())?;
            set_options(open, &constants(options, shape, clock))
        })?;
        let mut entries = Vec::new();
        let mut next = None;
        for (direction, name) in &names {
            let copier = loaded.program(name)?;
            entries.push((
                *direction,
                match &options.filter {
                    None => duplicate(copier.fd())?,
                    Some(filter) => {
                        let table = match &next {
                            Some(table) => table,
                            None => next.insert(table(&loaded.program(refuser(options.at))?)?),
                        };
                        let slot = slot(*direction);
                        put(table, slot, &copier)?;
                        before(filter, options, table.as_fd(), slot)?
                    }
                },
            ));
        }
        let [cpus, ring, bell] = [CPUS, RING, BELL].map(|name| loaded.map(name));
        Ok(Self { entries, cpus: cpus?, ring: ring?, bell: bell?, _next: next })
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Direction, BorrowedFd<'_>)> {
        self.entries.iter().map(|(direction, program)| (*direction, program.as_fd()))
    }

    pub(super) fn first(&self) -> BorrowedFd<'_> {
        // `TapOptions::check` refuses a tap of no direction, so there is one.
        self.entries[0].1.as_fd()
    }

    pub(super) fn cpus(&self) -> BorrowedFd<'_> {
        self.cpus.fd()
    }

    pub(super) fn ring(&self) -> BorrowedFd<'_> {
        self.ring.fd()
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }
}

/// The counting parts of a socket's filter.
pub(super) struct SocketParts {
    pub(super) taker: Program,
    pub(super) refuser: Program,
    pub(super) cpus: Map,
}

/// Loads the programs behind a socket's filter; `kept` is the copier's return value.
pub(super) fn socket(kept: u32, cpus: &Cpus) -> Result<SocketParts> {
    const NAMES: [&str; 2] = ["nl_tap_sk_yes", "nl_tap_sk_no"];
    let loaded = PART.load(|open| {
        for mut program in open.progs_mut() {
            let wanted = NAMES.iter().any(|name| program.name() == *name);
            program.set_autoload(wanted);
        }
        if let Some(mut bell) = open.maps_mut().find(|map| map.name() == BELL) {
            bell.set_autocreate(false)?;
        }
        set_entries(open, CPUS, cpus.possible)?;
        // There is no ring here: of these a socket's programs use the verdict alone.
        set_options(open, &[0, 1, 0, kept, 0, 0, 0, 0, 0, 0])
    })?;
    let [taker, refuser] = NAMES.map(|name| loaded.program(name));
    Ok(SocketParts { taker: taker?, refuser: refuser?, cpus: loaded.map(CPUS)? })
}

/// The copying programs of the requested directions.
fn names(options: &TapOptions) -> Vec<(Direction, &'static str)> {
    let name = |direction| match (options.at, direction) {
        (Where::Xdp, _) => "nl_tap_xdp",
        (Where::Tc, Direction::Ingress) => "nl_tap_in",
        (Where::Tc, Direction::Egress) => "nl_tap_eg",
    };
    options.directions().into_iter().map(|direction| (direction, name(direction))).collect()
}

/// The program that counts frames rejected by the filter.
fn refuser(at: Where) -> &'static str {
    match at {
        Where::Xdp => "nl_tap_xdp_no",
        Where::Tc => "nl_tap_tc_no",
    }
}

/// Slots in the tail-call table; the first is the refuser's.
const REFUSED: u32 = 0;

fn slot(direction: Direction) -> u32 {
    1 + direction.word()
}

fn verdict(options: &TapOptions) -> i32 {
    let [on, end] = match options.at {
        Where::Xdp => XDP,
        Where::Tc => TC,
    };
    if options.sink { end } else { on }
}

/// `struct nl_tap_options`.
fn constants(options: &TapOptions, shape: &Shape, clock: Clock) -> [u32; 10] {
    // x86 makes stores visible in their order; other machines need barriers.
    let strong = cfg!(any(target_arch = "x86", target_arch = "x86_64"));
    let unaligned = strong || cfg!(target_arch = "aarch64");
    [
        shape.chunk - 1,
        shape.most,
        options.interface,
        verdict(options).cast_unsigned(),
        options.direction.into(),
        (clock == Clock::Tai).into(),
        (!strong).into(),
        unaligned.into(),
        options.others.into(),
        options.veth.into(),
    ]
}

fn set_value(open: &mut OpenObject, name: &str, bytes: u32) -> libbpf_rs::Result<()> {
    match open.maps_mut().find(|map| map.name() == name) {
        Some(mut map) => map.set_value_size(bytes),
        None => Ok(()),
    }
}

/// Writes the constants, the object's only read-only data.
fn set_options(open: &mut OpenObject, words: &[u32; 10]) -> libbpf_rs::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    match map.as_mut().and_then(|map| map.initial_value_mut()) {
        Some(value) if value.len() == bytes.len() => {
            value.copy_from_slice(&bytes);
            Ok(())
        }
        _ => Err(std::io::Error::from(std::io::ErrorKind::InvalidData).into()),
    }
}

fn duplicate(program: BorrowedFd<'_>) -> Result<OwnedFd> {
    program.try_clone_to_owned().map_err(|e| Failure::new("capture program", "duplicate", e).into())
}

/// A tail-call table with the refuser in its slot.
pub(super) fn table(refuser: &Program) -> Result<MapHandle> {
    let opts =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..Default::default() };
    let table = MapHandle::create(MapType::ProgArray, Some(NEXT), 4, 4, 3, &opts);
    let table = table.map_err(map::refused(NEXT, "create"))?;
    put(&table, REFUSED, refuser)?;
    Ok(table)
}

pub(super) fn put(table: &MapHandle, slot: u32, program: &Program) -> Result<()> {
    let fd = program.fd().as_raw_fd().to_ne_bytes();
    table.update(&slot.to_ne_bytes(), &fd, MapFlags::ANY).map_err(map::refused(NEXT, "add program"))
}

/// A filter that continues at a slot of the table, or at the refuser.
fn before(
    filter: &Filter,
    options: &TapOptions,
    table: BorrowedFd<'_>,
    slot: u32,
) -> Result<OwnedFd> {
    let otherwise = verdict(options);
    match options.at {
        Where::Xdp => Entry {
            kind: libbpf_sys::BPF_PROG_TYPE_XDP,
            name: c"nl_tap_filter",
            flavour: Flavour::Packet,
            flags: libbpf_sys::BPF_F_XDP_HAS_FRAGS,
            attach: libbpf_sys::BPF_XDP,
            otherwise,
        },
        Where::Tc => Entry {
            kind: libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            name: c"nl_tap_filter",
            flavour: Flavour::Socket,
            flags: 0,
            attach: 0,
            otherwise,
        },
    }
    .load(filter, table, slot)
}

/// A program to generate from a filter.
pub(super) struct Entry {
    pub(super) kind: bpf_prog_type,
    pub(super) name: &'static CStr,
    pub(super) flavour: Flavour,
    pub(super) flags: u32,
    pub(super) attach: u32,
    /// The return value if the tail call finds no program.
    pub(super) otherwise: i32,
}

impl Entry {
    pub(super) fn load(
        &self,
        filter: &Filter,
        table: BorrowedFd<'_>,
        slot: u32,
    ) -> Result<OwnedFd> {
        // Both answers lead to a program, because rejected frames are counted, too.
        let [yes, no] = [slot, REFUSED].map(|to| go_on(table, to, self.otherwise));
        let insns = translate_with(filter, self.flavour, &yes, &no)
            .map_err(|e| Failure::new("filter", "translate", std::io::Error::other(e)))?;
        let raw: Vec<u64> = insns.iter().map(|insn| insn.raw()).collect();
        let mut opts = bpf_prog_load_opts {
            sz: size_of::<bpf_prog_load_opts>() as u64,
            prog_flags: self.flags,
            expected_attach_type: self.attach,
            ..Default::default()
        };
        let licence = c"Dual MIT/GPL";
        // SAFETY: names end in a zero; `raw` has the stated number of instructions, in the kernel's layout
        // (`Insn::raw`); `opts` is a complete structure of its stated size; all outlive the call.
        let fd = unsafe {
            libbpf_sys::bpf_prog_load(
                self.kind,
                self.name.as_ptr(),
                licence.as_ptr(),
                raw.as_ptr().cast(),
                raw.len() as u64,
                &raw mut opts,
            )
        };
        if fd < 0 {
            return Err(refused(std::io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: the descriptor is new and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn refused(error: std::io::Error) -> Error {
    match error.raw_os_error() {
        // More instructions, or more steps of the verifier, than the kernel allows.
        Some(libc::E2BIG) => Error::Unsupported(Unsupported {
            feature: "capture filters",
            reason: "the kernel's verifier does not take so long a filter".to_owned(),
            needs: "a shorter filter".to_owned(),
        }),
        _ => Failure::new("filter", "load", error).into(),
    }
}

/// Tail-calls another program; r6 holds the context.
fn go_on(table: BorrowedFd<'_>, slot: u32, otherwise: i32) -> [Insn; 7] {
    const MOVE: u8 = 0xbf;
    const SET: u8 = 0xb7;
    const LOAD_64: u8 = 0x18;
    const PSEUDO_MAP_FD: u8 = 1;
    const CALL: u8 = 0x85;
    const TAIL_CALL: i32 = 12;
    const EXIT: u8 = 0x95;
    [
        // The arguments of bpf_tail_call: context, table and slot, in r1, r2 and r3.
        Insn::new(MOVE, 1, 6, 0, 0),
        Insn::new(LOAD_64, 2, PSEUDO_MAP_FD, 0, table.as_raw_fd()),
        // The upper half of the load's 64 bits.
        Insn::new(0, 0, 0, 0, 0),
        Insn::new(SET, 3, 0, 0, slot.cast_signed()),
        Insn::new(CALL, 0, 0, 0, TAIL_CALL),
        // A tail call does not return: this runs only if its slot is empty.
        Insn::new(SET, 0, 0, 0, otherwise),
        Insn::new(EXIT, 0, 0, 0, 0),
    ]
}
