//! Frames made by a program in the kernel and given to an interface without becoming packets first.
//!
//! [`LiveFrames`] runs a program on pages of the kernel's (`BPF_PROG_TEST_RUN` with
//! `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18); the program writes headers, sequence number, time and flow of
//! each frame. Nothing on the sending side sees these frames: no queueing discipline, no program at
//! egress, no packet socket.
//!
//! * The time in a frame is Unix time: CLOCK_MONOTONIC, and what is between the two clocks at the
//!   start of each call. It is the program's; frames leave the kernel in bulks of up to 16.
//! * An interface takes such frames only where it is run in its driver's receive loop: both ends of a veth
//!   pair need an XDP program. [`Pass`] is one that lets all through, attached by a link that goes with it.
//! * A program that is on no interface costs each call some ten milliseconds: the kernel puts it among those
//!   that it calls without an indirect jump, and takes it out again, and waits each time until nobody uses
//!   the list. So ours is also put on the loopback interface of a namespace of its own, where nothing comes by.
//! * What was taken is counted where the interface is called, by a trace point; what is made and not
//!   taken is refused.
//!
//! Whoever opens and sends must be in the interface's network namespace, and be one thread.

use netloom_sys::{clock, namespace};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_sys::{bpf_link_create_opts, bpf_test_run_opts, xdp_md};

use crate::load::{Loaded, Part, set_entries};
use crate::map::{Map, pair};
use crate::program::Program;
use crate::{Error, Result};

const PART: Part = Part {
    name: "frames made in the kernel",
    object: include_bytes!(concat!(env!("OUT_DIR"), "/generate.bpf.o")),
};
const V4: &str = "nl_gen_v4";
const V6: &str = "nl_gen_v6";
const PASS: &str = "nl_gen_pass";
const SENT: &str = "nl_gen_sent";
const WHAT: &str = "nl_gen_what";
const RUN: &str = "nl_gen_run";
const TOOK: &str = "nl_gen_took";
const LENGTHS: &str = "nl_gen_lengths";

/// Bytes of a head of IPv4: `NL_GEN_V4_HEAD`.
const V4_HEAD: usize = 60;
/// Of IPv6.
const V6_HEAD: usize = 80;
const ETHERNET: usize = 14;
/// The longest frame that fits a page with what the kernel keeps beside it, where a page has 4 KiB.
pub const LONGEST: u32 = 3200;
/// The most lengths that frames may have.
pub const MOST_LENGTHS: usize = 16_384;
/// The most frames that the kernel makes before it gives them to the interface.
pub const MOST_BATCH: u32 = 256;
/// Frames of one call; more are asked for again.
const MOST_A_CALL: u64 = 1 << 30;
const ZERO: [u8; 4] = [0; 4];

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// Ethernet, IPv4 or IPv6, UDP and a stamp: 60 or 80 bytes. What differs from frame to frame is
    /// zero but for the source's address: lengths, checksums, the source's port, number and time.
    pub head: &'a [u8],
    /// Lengths in bytes without check sequence, in turn.
    pub lengths: &'a [u32],
    /// How many flows there are, in turn.
    pub flows: u32,
    /// For how many frames one look at the clock does; 0: for all of a call.
    pub clock_every: u32,
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Made by the program.
    pub made: u64,
    /// Bytes of these, without check sequence.
    pub bytes: u64,
    /// Taken by the interface.
    pub taken: u64,
    /// Not taken: the other end has no room, or does not take such frames.
    pub refused: u64,
}

/// A program on an interface that lets all frames through, as long as this value lives.
#[derive(Debug)]
pub struct Pass {
    _link: OwnedFd,
}

impl Pass {
    /// Attaches it; `None` where another program is there already, which does as well.
    ///
    /// # Errors
    /// There is no such interface, or its driver runs no such programs.
    pub fn attach(ifindex: u32) -> Result<Option<Pass>> {
        Pass::of(&load(1)?, ifindex)
    }

    fn of(loaded: &Loaded, ifindex: u32) -> Result<Option<Pass>> {
        // Not the generic mode: there frames are packets already.
        match attach(&loaded.program(PASS)?, ifindex, libbpf_sys::XDP_FLAGS_DRV_MODE) {
            Ok(link) => Ok(Some(Pass { _link: link })),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => Ok(None),
            Err(e) => Err(Error::call(object(ifindex), "attach XDP program", e)),
        }
    }
}

/// Frames of one kind for one interface.
#[derive(Debug)]
pub struct LiveFrames {
    ifindex: u32,
    program: Program,
    run: Map,
    took: Map,
    /// What pages are filled with.
    page: Vec<u8>,
    tally: Tally,
    _sent: OwnedFd,
    _pass: Option<Pass>,
    _known: Option<Known>,
}

/// Keeps a program on an interface that nothing comes by, and its namespace.
#[derive(Debug)]
struct Known {
    _link: OwnedFd,
    _netns: OwnedFd,
}

impl Known {
    /// `None` where that is not permitted: calls take longer, then.
    fn keep(program: &Program) -> Option<Known> {
        let work = || {
            namespace::new_network().ok()?;
            // The first interface of any namespace is its loopback interface, which is down.
            let link = attach(program, 1, libbpf_sys::XDP_FLAGS_SKB_MODE).ok()?;
            Some(Known { _link: link, _netns: namespace::current_network().ok()? })
        };
        std::thread::scope(|scope| {
            let named = std::thread::Builder::new().name("netloom-known".to_owned());
            named.spawn_scoped(scope, work).ok()?.join().ok()?
        })
    }
}

impl LiveFrames {
    /// Prepares to send by this interface, with a [`Pass`] on it where no program is. The other end is
    /// the caller's to see to: without a program there all frames are refused.
    ///
    /// # Errors
    /// [`Error::Unknown`] for frames that cannot be made; [`Error::Unsupported`] where the kernel or the
    /// user lacks something; there is no such interface.
    pub fn open(ifindex: u32, frames: &Frames<'_>) -> Result<LiveFrames> {
        check(frames)?;
        let loaded = load(u32::try_from(frames.lengths.len()).unwrap_or(1))?;
        let pass = Pass::of(&loaded, ifindex)?;
        let v6 = frames.head.len() == V6_HEAD;
        let longest = frames.lengths.iter().copied().max().unwrap_or(0);
        loaded.map(WHAT)?.put(&ZERO, &what(frames, longest))?;
        let lengths = loaded.map(LENGTHS)?;
        for (index, length) in (0_u32..).zip(frames.lengths) {
            lengths.put(&index.to_ne_bytes(), &[u64::from(*length)])?;
        }
        let took = loaded.map(TOOK)?;
        let mut page = frames.head.to_vec();
        page.resize(usize::try_from(longest).unwrap_or(0), 0);
        let program = loaded.program(if v6 { V6 } else { V4 })?;
        Ok(LiveFrames {
            ifindex,
            _known: Known::keep(&program),
            program,
            run: loaded.map(RUN)?,
            took,
            page,
            tally: Tally::default(),
            _sent: listen(&loaded.program(SENT)?)?,
            _pass: pass,
        })
    }

    /// Makes so many frames, `batch` at a time (1 to [`MOST_BATCH`]; else it is brought into that), and
    /// tells what became of them. A signal ends it before.
    ///
    /// # Errors
    /// The interface is gone, or does not take such frames at all. What was sent is in the
    /// [`LiveFrames::tally`].
    pub fn send(&mut self, frames: u64, batch: u32) -> Result<Tally> {
        let mut run: [u64; 8] = self.run.get(&ZERO)?.unwrap_or_default();
        let [_, next, flow, length, .., bytes] = run;
        let now = frames.min(MOST_A_CALL);
        let to_unix = clock::offset(clock::realtime, clock::monotonic).cast_unsigned();
        run = [now, next, flow, length, to_unix, 0, 0, bytes];
        self.run.put(&ZERO, &run)?;
        let before = self.taken()?;
        self.name_thread(before)?;
        let answer = self.call(now, batch.clamp(1, MOST_BATCH));
        let after: [u64; 8] = self.run.get(&ZERO)?.unwrap_or_default();
        let [taken, _] = self.taken()?;
        let made = after[1].wrapping_sub(next);
        let taken = taken.wrapping_sub(before[0]);
        let refused = made.saturating_sub(taken);
        let sent = Tally { made, bytes: after[7].wrapping_sub(bytes), taken, refused };
        self.tally.made += sent.made;
        self.tally.bytes += sent.bytes;
        self.tally.taken += sent.taken;
        self.tally.refused += sent.refused;
        match answer {
            Err(e) if e.raw_os_error() != Some(libc::EINTR) => {
                Err(Error::call(object(self.ifindex), "send frames made in the kernel by", e))
            }
            _ => Ok(sent),
        }
    }

    /// Totals since it was opened.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What the trace point has counted: taken, refused.
    fn taken(&self) -> Result<[u64; 2]> {
        let [taken, refused, ..]: [u64; 6] = self.took.get(&ZERO)?.unwrap_or_default();
        Ok([taken, refused])
    }

    /// Says who sends.
    fn name_thread(&self, [taken, refused]: [u64; 2]) -> Result<()> {
        let failed = |e| Error::call("/proc/self/ns/pid", "ask for its number", io::Error::from(e));
        let namespace = rustix::fs::stat("/proc/self/ns/pid").map_err(failed)?;
        let (major, minor) =
            (rustix::fs::major(namespace.st_dev), rustix::fs::minor(namespace.st_dev));
        // As the kernel has it inside.
        let device = u64::from(major) << 20 | u64::from(minor);
        let id = |pid: rustix::process::Pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs());
        let thread = id(rustix::process::getpid()) << 32 | id(rustix::thread::gettid());
        let ifindex = u64::from(self.ifindex);
        self.took.put(&ZERO, &[taken, refused, thread, device, namespace.st_ino, ifindex])
    }

    /// The call itself.
    fn call(&mut self, frames: u64, batch: u32) -> io::Result<()> {
        let length = u32::try_from(self.page.len()).map_err(io::Error::other)?;
        let mut context =
            xdp_md { data_end: length, ingress_ifindex: self.ifindex, ..Default::default() };
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            data_in: self.page.as_ptr().cast(),
            data_size_in: length,
            ctx_in: (&raw mut context).cast(),
            ctx_size_in: u32::try_from(size_of::<xdp_md>()).map_err(io::Error::other)?,
            repeat: c_int::try_from(frames.max(1)).map_err(io::Error::other)?,
            flags: libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES,
            batch_size: batch,
            ..Default::default()
        };
        let fd = self.program.fd().as_raw_fd();
        // SAFETY: `options` is a whole structure of the size it says; page and context that it names have
        // the lengths given and outlive the call, which only reads them.
        let refused = unsafe { libbpf_sys::bpf_prog_test_run_opts(fd, &raw mut options) };
        if refused < 0 { Err(io::Error::from_raw_os_error(-refused)) } else { Ok(()) }
    }
}

/// Tries whether frames can be made here: none is sent.
pub(crate) fn probe() -> Result<()> {
    let loaded = load(1)?;
    let sent = listen(&loaded.program(SENT)?)?;
    let mut live = LiveFrames {
        // The kernel takes the loopback interface for it.
        ifindex: 0,
        program: loaded.program(V4)?,
        run: loaded.map(RUN)?,
        took: loaded.map(TOOK)?,
        page: vec![0; V4_HEAD],
        tally: Tally::default(),
        _sent: sent,
        _pass: None,
        _known: None,
    };
    live.send(0, 1).map(drop)
}

fn load(lengths: u32) -> Result<Loaded> {
    PART.load(|open| set_entries(open, LENGTHS, lengths.max(1)))
}

/// Puts a program on an interface for as long as the descriptor is open.
fn attach(program: &Program, ifindex: u32, flags: u32) -> io::Result<OwnedFd> {
    let target = c_int::try_from(ifindex).map_err(io::Error::other)?;
    let size = size_of::<bpf_link_create_opts>() as u64;
    let options = bpf_link_create_opts { sz: size, flags, ..Default::default() };
    let fd = program.fd().as_raw_fd();
    // SAFETY: `options` is a whole structure of the size it says and outlives the call.
    let link =
        unsafe { libbpf_sys::bpf_link_create(fd, target, libbpf_sys::BPF_XDP, &raw const options) };
    owned(link)
}

fn object(ifindex: u32) -> String {
    format!("interface {ifindex}")
}

fn owned(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the descriptor was just made for us and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets a program hear its trace point as long as the descriptor is open.
fn listen(program: &Program) -> Result<OwnedFd> {
    let fd = program.fd().as_raw_fd();
    // SAFETY: such a program knows its trace point; a null name says so.
    let link = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), fd) };
    owned(link).map_err(|e| Error::call("trace point xdp_devmap_xmit", "attach to", e))
}

fn check(frames: &Frames<'_>) -> Result<()> {
    let wrong =
        |reason| Err(Error::Unknown { object: "frames made in the kernel".to_owned(), reason });
    let head = frames.head.len();
    let kind = frames.head.get(12..14);
    if !matches!((head, kind), (V4_HEAD, Some([8, 0])) | (V6_HEAD, Some([0x86, 0xdd]))) {
        return wrong("the head is not one of IPv4 or IPv6, UDP and a stamp");
    }
    if frames.lengths.is_empty() || frames.lengths.len() > MOST_LENGTHS {
        return wrong("there are no lengths, or more than 16384");
    }
    let least = u32::try_from(head).unwrap_or(0);
    if frames.lengths.iter().any(|length| !(least..=LONGEST).contains(length)) {
        return wrong("a length is less than the head's, or more than 3200");
    }
    if frames.flows == 0 {
        return wrong("there are no flows");
    }
    Ok(())
}

/// `struct nl_gen_what` as words.
fn what(frames: &Frames<'_>, longest: u32) -> Vec<u64> {
    let mut head = frames.head.to_vec();
    let v6 = head.len() == V6_HEAD;
    let at = ETHERNET + if v6 { 20 } else { 12 };
    let source = u32::from_be_bytes(std::array::from_fn(|i| head[at + i]));
    head[at..at + 4].fill(0);
    // IPv4: its header. IPv6: addresses and UDP's number, UDP's header and the stamp's start.
    let constant = if v6 { sum(&head[22..]) + 17 } else { sum(&head[ETHERNET..34]) };
    head.resize(V6_HEAD, 0);
    let words = head.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
    let lengths = u32::try_from(frames.lengths.len()).unwrap_or(1);
    let numbers = [(constant, source), (frames.flows, lengths), (longest, frames.clock_every)];
    let numbers = numbers.map(|(first, second)| u64::from_ne_bytes(pair(first, second)));
    words.chain(numbers).collect()
}

/// The sum of words of 16 bits; at most 40 of them here.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.as_chunks::<2>().0.iter();
    words.map(|word| u32::from(u16::from_be_bytes(*word))).sum()
}
