//! Blocks of frames from a veth pair in fresh namespaces: every frame counted, as it was sent.

use super::pair;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use netloom_kit::{isolated, wait_for_carrier, wait_until};
use netloom_netlink::Change;
use netloom_rawsock::block::{Statistics, Status};
use netloom_rawsock::{
    BlockFrame, BlockOptions, BlockRing, Error, Fanout, FanoutMode, Frames, Path, RawInsn, Sender,
};
use pair::{A, B, change, delete, frame, pair};

const SMALL: BlockOptions = BlockOptions {
    block_bytes: 64 << 10,
    blocks: 64,
    timeout_ms: 10,
    fanout: None,
    snaplen: 0,
    promiscuous: false,
};
const LONG: Duration = Duration::from_secs(30);

/// A frame as its ring told it, kept.
#[derive(Debug, PartialEq)]
struct Kept {
    bytes: Vec<u8>,
    original: u32,
    time_ns: u64,
    tagged: bool,
    status: Status,
    gso: bool,
    outgoing: bool,
}

fn keep(frame: BlockFrame<'_>) -> Kept {
    Kept {
        bytes: frame.parts().concat(),
        original: frame.original,
        time_ns: frame.time_ns,
        tagged: frame.vlan.is_some(),
        status: frame.status,
        gso: frame.gso,
        outgoing: frame.outgoing,
    }
}

/// Stops the ring, takes all that it has, and checks that nothing is unaccounted for.
fn all(ring: &mut BlockRing) -> (Vec<Kept>, Statistics) {
    ring.stop().unwrap();
    let mut frames = Vec::new();
    while let Some(block) = ring.block(Duration::ZERO).unwrap() {
        let before = frames.len();
        frames.extend(block.frames().map(keep));
        assert_eq!(frames.len() - before, usize::try_from(block.count()).unwrap());
    }
    let told = ring.statistics().unwrap();
    assert_eq!(u64::try_from(frames.len()).unwrap() + told.drops, told.packets);
    (frames, told)
}

/// Sends frames and waits until they have come to the other end: a CPU may put off what comes in. This thread stays on its
/// CPU, so that frames keep their order, and have come to all sockets when they have come to one.
fn send(index: u32, path: Path, frames: &[Vec<u8>]) {
    let mut one = rustix::thread::CpuSet::new();
    one.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    let mut come = BlockRing::open(A + B - index, SMALL, None).unwrap();
    let mut sender = Sender::open(index, path).unwrap();
    for chunk in frames.chunks(256) {
        let set: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
        sender.send(&mut Frames::round(&set, set.len()).unwrap()).unwrap();
    }
    let all = u64::try_from(frames.len()).unwrap();
    assert_eq!(sender.tally().taken, all);
    wait_until("all have come", LONG, || (come.statistics().unwrap().packets >= all).then_some(()));
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|n| frame(60 + usize::try_from(n % 1400).unwrap(), n)).collect()
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

fn bytes(frames: &[Kept]) -> Vec<&[u8]> {
    frames.iter().map(|frame| frame.bytes.as_slice()).collect()
}

/// EtherType equal to `kind`: `then`, else `otherwise` bytes.
fn by_kind(kind: u32, then: u32, otherwise: u32) -> [RawInsn; 4] {
    let insn = |code, jt, jf, k| RawInsn { code, jt, jf, k };
    [
        insn(0x28, 0, 0, 12),
        insn(0x15, 0, 1, kind),
        insn(0x06, 0, 0, then),
        insn(0x06, 0, 0, otherwise),
    ]
}

#[test]
fn every_frame_comes_once_in_order_as_it_was_sent() {
    isolated!({
        pair();
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        let sent = numbered(3000);
        let before = now();
        send(A, Path::Direct, &sent);
        let (got, told) = all(&mut ring);
        assert_eq!(told, Statistics { packets: 3000, drops: 0, freezes: 0 });
        assert_eq!(bytes(&got), sent);
        assert!(got.iter().all(|f| f.original as usize == f.bytes.len()));
        assert!(got.iter().all(|f| !f.outgoing && !f.gso && !f.tagged));
        assert!(before <= got[0].time_ns && got[2999].time_ns <= now());
        assert!(got.is_sorted_by_key(|f| f.time_ns));
    });
}

#[test]
fn both_directions_are_seen_and_told_apart() {
    isolated!({
        pair();
        let mut ring = BlockRing::open(A, SMALL, None).unwrap();
        send(A, Path::Queue, &[frame(60, 1), frame(61, 2)]);
        send(B, Path::Queue, &[frame(62, 3)]);
        let (got, _) = all(&mut ring);
        let seen: Vec<_> = got.iter().map(|f| (f.bytes.len(), f.outgoing)).collect();
        assert_eq!(seen, [(60, true), (61, true), (62, false)]);
    });
}

#[test]
fn a_frame_comes_soon_even_when_none_follows() {
    isolated!({
        pair();
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        assert!(ring.block(Duration::from_millis(30)).unwrap().is_none());
        send(A, Path::Direct, &[frame(60, 1)]);
        let block = ring.block(LONG).unwrap().unwrap();
        assert_eq!((block.count(), block.frames().count()), (1, 1));
    });
}

#[test]
fn tags_are_put_back_where_they_were() {
    isolated!({
        pair();
        let tagged = |kind: u16, more: &[u8]| {
            let mut bytes = frame(100, 5);
            let [high, low] = kind.to_be_bytes();
            bytes.splice(12..12, [[high, low, 0x20, 7].as_slice(), more].concat());
            bytes
        };
        let sent = [tagged(0x8100, &[]), tagged(0x88a8, &[0x81, 0, 0, 9]), frame(60, 6)];
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        let cut = BlockOptions { snaplen: 40, ..SMALL };
        let mut short = BlockRing::open(B, cut, None).unwrap();
        let mut leaving = BlockRing::open(A, SMALL, None).unwrap();
        send(A, Path::Queue, &sent);
        let (got, _) = all(&mut ring);
        assert_eq!(bytes(&got), sent);
        let told: Vec<_> = got.iter().map(|f| (f.tagged, f.original)).collect();
        assert_eq!(told, [(true, 104), (true, 108), (false, 60)]);
        let (got, _) = all(&mut short);
        assert_eq!(bytes(&got), sent.each_ref().map(|frame| &frame[..40]));
        assert_eq!(got.iter().map(|f| f.original).collect::<Vec<_>>(), [104, 108, 60]);
        assert_eq!(bytes(&all(&mut leaving).0), sent);
    });
}

#[test]
fn a_filter_takes_some_and_cuts_them() {
    isolated!({
        pair();
        let mut other = frame(200, 7);
        other[13] = 0xb6;
        let sent = [frame(100, 1), other.clone(), frame(1500, 2), other.clone()];
        let cut = |snaplen| BlockOptions { snaplen, ..SMALL };
        let kinds = by_kind(0x88b6, 0x4_0000, 0);
        let mut chosen = BlockRing::open(B, SMALL, Some(&kinds)).unwrap();
        let mut shorter = BlockRing::open(B, cut(70), Some(&kinds)).unwrap();
        let mut own = BlockRing::open(B, cut(90), Some(&by_kind(0x88b6, 20, 30))).unwrap();
        let mut none = BlockRing::open(B, SMALL, Some(&by_kind(0, 1, 0))).unwrap();
        send(A, Path::Direct, &sent);
        let (got, told) = all(&mut chosen);
        assert_eq!((bytes(&got), told.packets), (vec![&other[..], &other[..]], 2));
        let (got, _) = all(&mut shorter);
        assert_eq!(bytes(&got), [&other[..70], &other[..70]]);
        assert!(got.iter().all(|f| f.original == 200));
        let (got, _) = all(&mut own);
        let lengths: Vec<_> = got.iter().map(|f| (f.bytes.len(), f.original)).collect();
        assert_eq!(lengths, [(30, 100), (20, 200), (30, 1500), (20, 200)]);
        assert_eq!(all(&mut none).1, Statistics::default());
        let wrong = BlockRing::open(B, SMALL, Some(&kinds[..2])).unwrap_err();
        assert_eq!(wrong.raw_os_error(), Some(libc::EINVAL), "{wrong}");
        assert!(
            matches!(wrong, Error::Failed(failure) if failure.operation() == "attach a filter to")
        );
    });
}

#[test]
fn a_program_filters_as_instructions_do() {
    isolated!({
        // mov r0, 33; exit
        let program = match program(&[0x0000_0021_0000_00b7, 0x95]) {
            Ok(program) => program,
            Err(e) => netloom_kit::skip!("root-only: loads a program of BPF: {e}"),
        };
        pair();
        let fd = std::os::fd::AsFd::as_fd(&program);
        let mut ring = BlockRing::open_with_program(B, SMALL, fd).unwrap();
        let cut = BlockOptions { snaplen: 20, ..SMALL };
        let mut short = BlockRing::open_with_program(B, cut, fd).unwrap();
        send(A, Path::Direct, &numbered(50));
        assert!(all(&mut ring).0.iter().all(|f| f.bytes.len() == 33 && f.original >= 60));
        let (got, told) = all(&mut short);
        assert!(got.iter().all(|f| f.bytes.len() == 20));
        assert_eq!(told.packets, 50);
    });
}

/// Loads a socket filter.
fn program(insns: &[u64]) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    /// The beginning of the kernel's `union bpf_attr` for `BPF_PROG_LOAD`.
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        insns: u64,
        license: u64,
        log: [u64; 3],
    }
    let load = Load {
        kind: 1,
        count: u32::try_from(insns.len()).unwrap(),
        insns: insns.as_ptr() as u64,
        license: c"MIT".as_ptr() as u64,
        log: [0; 3],
    };
    // SAFETY: the kernel only reads `load` and what it names, all of which is live.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, 5, &raw const load, size_of::<Load>()) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(i32::try_from(fd).unwrap()) })
}

#[test]
fn what_no_block_has_room_for_is_counted() {
    isolated!({
        pair();
        // A block that is closed early, with one of the last frames in it, would take the room of the others: the timeout is
        // long, and both blocks are free before.
        let tiny = BlockOptions { block_bytes: 4096, blocks: 2, timeout_ms: 500, ..SMALL };
        let mut ring = BlockRing::open(B, tiny, None).unwrap();
        let sent = numbered(5000);
        send(A, Path::Direct, &sent);
        let early = ring.statistics().unwrap();
        assert!(early.packets == 5000 && early.drops > 4900 && early.freezes > 0, "{early:?}");
        let mut first = ring.block(LONG).unwrap().unwrap().frames().map(keep).count();
        first += ring.block(LONG).unwrap().unwrap().frames().map(keep).count();
        // The blocks are free again: what comes now is taken.
        send(A, Path::Direct, &sent[..7]);
        ring.stop().unwrap();
        let mut rest = Vec::new();
        while let Some(block) = ring.block(Duration::ZERO).unwrap() {
            rest.extend(block.frames().map(keep));
        }
        let told = ring.statistics().unwrap();
        assert_eq!(told.packets, 5007);
        assert_eq!(u64::try_from(first + rest.len()).unwrap() + told.drops, told.packets);
        assert_eq!(told, ring.statistics().unwrap());
        let last: Vec<_> = bytes(&rest).into_iter().rev().take(7).rev().collect();
        assert_eq!(last, sent[..7]);
    });
}

#[test]
fn a_group_shares_every_frame_out_once() {
    isolated!({
        pair();
        for mode in [FanoutMode::RoundRobin, FanoutMode::Hash, FanoutMode::Cpu] {
            let member = |id| {
                let options = BlockOptions { fanout: Some(Fanout { id, mode }), ..SMALL };
                BlockRing::open(B, options, None).unwrap()
            };
            let mut first = member(None);
            let group = first.group().unwrap();
            let mut second = member(group);
            let mut apart = member(None);
            assert!(group.is_some() && second.group().unwrap() == group);
            assert_ne!(apart.group().unwrap(), group);
            let sent = numbered(1000);
            send(A, Path::Direct, &sent);
            let (mut got, one) = all(&mut first);
            let (more, other) = all(&mut second);
            if mode == FanoutMode::RoundRobin {
                assert_eq!((one.packets, other.packets), (500, 500));
            }
            got.extend(more);
            got.sort_by(|a, b| a.bytes[14..18].cmp(&b.bytes[14..18]));
            assert_eq!(bytes(&got), sent, "{mode:?}");
            assert_eq!(bytes(&all(&mut apart).0), sent, "{mode:?}: a group of one");
        }
        assert_eq!(BlockRing::open(B, SMALL, None).unwrap().group().unwrap(), None);
    });
}

#[test]
fn a_ring_outlives_an_interface_that_is_down() {
    isolated!({
        pair();
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        for _ in 0..2 {
            send(A, Path::Direct, &numbered(5));
            change(&Change::of(B).down());
            // What came before is not lost, and comes first; in several blocks, where a busy machine sends it slower than a
            // block waits.
            let mut count = 0;
            while count < 5 {
                count += ring.block(LONG).unwrap().expect("frames have come").count();
            }
            assert_eq!(count, 5);
            let down = ring.block(LONG).unwrap_err();
            assert!(matches!(down, Error::Down { index: B }), "{down}");
            assert!(ring.block(Duration::from_millis(120)).unwrap().is_none(), "told once");
            assert!(ring.interface_alive().unwrap());
            change(&Change::of(B).up());
            wait_for_carrier(A);
            send(A, Path::Direct, &numbered(3));
            let mut count = 0;
            while count < 3 {
                count += ring.block(LONG).unwrap().expect("frames arrive").count();
            }
            assert_eq!(count, 3);
        }
        assert_eq!(ring.statistics().unwrap().packets, 16);
    });
}

#[test]
fn an_interface_may_be_down_when_a_ring_is_opened() {
    isolated!({
        pair();
        change(&Change::of(B).down());
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        assert!(matches!(ring.block(LONG).unwrap_err(), Error::Down { index: B }));
        change(&Change::of(B).up());
        wait_for_carrier(A);
        send(A, Path::Direct, &numbered(3));
        assert_eq!(all(&mut ring).0.len(), 3);
    });
}

#[test]
fn a_deleted_interface_is_told_behind_its_last_frames() {
    isolated!({
        pair();
        let missing = BlockRing::open(4711, SMALL, None).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENODEV), "{missing}");
        let mut ring = BlockRing::open(B, SMALL, None).unwrap();
        let mut idle = BlockRing::open(B, SMALL, None).unwrap();
        let mut stopped = BlockRing::open(B, SMALL, None).unwrap();
        stopped.stop().unwrap();
        send(A, Path::Direct, &numbered(5));
        std::thread::scope(|scope| {
            // One that waits sees it, too; it may see it down on the way.
            let waiting = scope.spawn(|| {
                let mut told = Vec::new();
                while !matches!(told.last(), Some(Err(Error::Gone { index: B }))) {
                    let block = idle.block(LONG * 10);
                    told.push(block.map(|block| block.map_or(0, |block| block.count())));
                }
                told
            });
            delete();
            let told = waiting.join().unwrap();
            assert_eq!(told.iter().flatten().sum::<u32>(), 5, "{told:?}");
            // Frames may come in several blocks; down and gone are told once each.
            assert!(told.iter().filter(|told| told.is_err()).count() <= 2, "{told:?}");
        });
        let mut seen = 0;
        let gone = loop {
            match ring.block(LONG) {
                Ok(block) => seen += block.map_or(0, |block| block.count()),
                Err(Error::Down { index: B }) => {}
                Err(e) => break e,
            }
        };
        assert!(matches!(gone, Error::Gone { index: B }), "{gone}");
        assert_eq!(seen, 5);
        let again = ring.block(LONG).unwrap_err();
        assert!(matches!(again, Error::Gone { index: B }), "{again}");
        assert!(!ring.interface_alive().unwrap());
        assert_eq!(ring.statistics().unwrap().packets, 5);
        ring.stop().unwrap();
        assert!(ring.block(LONG).unwrap().is_none(), "at once, and no error");
        assert_eq!(all(&mut stopped).1.packets, 0);
    });
}

#[test]
fn promiscuous_mode_lasts_as_long_as_the_ring() {
    isolated!({
        use rustix::mount::{MountFlags, mount};
        pair();
        mount("sysfs", "/sys", "sysfs", MountFlags::RDONLY, None::<&std::ffi::CStr>).unwrap();
        let flagged = || {
            let text = std::fs::read_to_string("/sys/class/net/b/flags").unwrap();
            u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).unwrap() & 0x100 != 0
        };
        let options = BlockOptions { promiscuous: true, ..SMALL };
        let ring = BlockRing::open(B, options, None).unwrap();
        assert!(flagged());
        drop(ring);
        assert!(!flagged());
    });
}
