//! A program that polls the data descriptor, receives and sends, and looks at nothing else, over the
//! end and the return of its switch, which the test plays.

use super::port_hand;

use std::ffi::{CString, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Instant;

use netloom_shm::HEADER;
use port_hand::{ALL, BOUND, Hand, Member, frame, mac, readable, take};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vdeplug_netloom::{Module, OPS, abi::Ask};

/// A connection by the plug-in's functions.
struct Program(*mut c_void);

// SAFETY: libvdeplug's connections may go from one thread to another.
unsafe impl Send for Program {}

const FUNCTIONS: &Module = &OPS;

impl Program {
    fn open(path: &Path) -> Program {
        let name = CString::new(path.to_str().expect("text")).expect("no zero byte");
        // SAFETY: strings that live for the call, and no arguments.
        let conn =
            unsafe { (FUNCTIONS.open)(name.as_ptr(), c"program".as_ptr(), 1, std::ptr::null()) };
        assert!(!conn.is_null(), "{}", std::io::Error::last_os_error());
        Program(conn.cast())
    }

    fn descriptor(&self, ask: Ask) -> BorrowedFd<'_> {
        // SAFETY: the connection is open.
        let fd: c_int = unsafe { ask(self.0.cast()) };
        assert!(fd >= 0);
        // SAFETY: it stays open as long as the connection, which is borrowed.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    fn is_told_of_the_loss(&self) -> bool {
        readable(self.descriptor(FUNCTIONS.control_fd))
    }

    /// One turn of the program: waits a little, and receives once if something is there.
    fn turn(&self) -> Option<Vec<u8>> {
        let data = self.descriptor(FUNCTIONS.data_fd);
        let bound = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let mut polled = [PollFd::new(&data, PollFlags::IN)];
        if poll(&mut polled, Some(&bound)).expect("poll") == 0 {
            return None;
        }
        let mut buffer = [0_u8; 2000];
        // SAFETY: the connection is open, and the buffer as long as is said.
        let got = unsafe {
            (FUNCTIONS.receive)(self.0.cast(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
        };
        // One byte is to be dropped; an error would be the program's end.
        let got = usize::try_from(got).expect("no error");
        (got > 1).then(|| buffer[..got].to_vec())
    }

    fn until<T>(&self, what: &str, mut done: impl FnMut(Option<Vec<u8>>) -> Option<T>) -> T {
        let end = Instant::now() + BOUND;
        loop {
            if let Some(found) = done(self.turn()) {
                return found;
            }
            assert!(Instant::now() < end, "{what}");
        }
    }

    fn send(&self, frame: &[u8]) {
        let bytes = &frame[HEADER..];
        // SAFETY: the connection is open, and the bytes are as many as is said.
        let sent =
            unsafe { (FUNCTIONS.send)(self.0.cast(), bytes.as_ptr().cast(), bytes.len(), 0) };
        assert_eq!(usize::try_from(sent).ok(), Some(bytes.len()));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: opened, and closed once.
        unsafe { (FUNCTIONS.close)(self.0.cast()) };
    }
}

#[test]
fn who_looks_at_frames_alone_is_back_with_the_switch() {
    let mut hand = Hand::new("return");
    let path = hand.options("").switch;
    let (program, member) = std::thread::scope(|scope| {
        let program = scope.spawn(|| Program::open(&path));
        let member = hand.welcome(1, 1).expect("welcome");
        (program.join().expect("no panic"), member)
    });
    assert!(!program.is_told_of_the_loss());
    drop(member);
    assert!(program.is_told_of_the_loss(), "at once");
    hand.start_again();
    let mut member = std::thread::scope(|scope| {
        let member = scope.spawn(|| hand.welcome(1, 1).expect("welcome"));
        program.until("it comes back", |_| member.is_finished().then_some(()));
        member.join().expect("no panic")
    });
    assert_eq!(member.token, [1; 16]);
    // It is a member: relayed frames come, and an edge can be made both ways.
    let mut other = hand.port(2);
    meet(&hand, &program, &mut member, &mut other);
    program.send(&frame(mac(2), mac(1), b"to"));
    hand.open(&mut member, &mut other.1);
    program.turn();
    assert_eq!(take(&mut other.0), Some(frame(mac(2), mac(1), b"to")));
    other.0.send(&frame(mac(1), mac(2), b"fro")).expect("send");
    hand.open(&mut other.1, &mut member);
    other.0.service().expect("service");
    let fro = program.until("a frame", |got| got);
    assert_eq!(fro, frame(mac(1), mac(2), b"fro")[HEADER..]);
    assert!(program.is_told_of_the_loss(), "it remembers");
}

/// Both greet all, and learn of each other.
fn meet(
    hand: &Hand,
    program: &Program,
    member: &mut Member,
    other: &mut (netloom_shm::SwitchPort, Member),
) {
    other.0.send(&frame(ALL, mac(2), b"hello")).expect("send");
    hand.relay(&mut other.1, member);
    assert_eq!(program.until("a greeting", |got| got), frame(ALL, mac(2), b"hello")[HEADER..]);
    program.send(&frame(ALL, mac(1), b"hello"));
    hand.relay(member, &mut other.1);
    assert_eq!(take(&mut other.0), Some(frame(ALL, mac(1), b"hello")));
}
