//! Senders tell receivers of the same user how many frames they sent, over sockets in a folder.
//!
//! A receiver has a socket there from the moment it receives. A sender connects to all of them, tells its stream and
//! destination, and at the end its counts. A connection that ends before the counts is a sender that was killed: its
//! counts stay unknown. Sockets are addressed through their folder's descriptor, so the length of its path does not
//! matter; they are not part of any network namespace. Invariant: neither side ever waits for the other.

use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use netloom_sys::Failure;
use netloom_sys::trusted::TrustedDir;
use netloom_traffic::{NOTICE, Notice, SentFrames};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Result;

/// Most senders that a receiver listens to; further ones remain unheard.
const SENDERS: usize = 1024;

/// The path of a folder by its descriptor, which is as short as it lasts.
fn short(folder: &TrustedDir) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))
}

/// A connection that is there at once or never: to wait for a receiver's room in its queue would be to wait for it.
fn connect(to: &Path) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(to)?)?;
    Ok(socket.into())
}

/// A sender as seen by the receivers that it told of its beginning.
#[derive(Debug)]
pub struct Announced {
    receivers: Vec<UnixStream>,
    notice: Notice,
}

impl Announced {
    /// Tells all receivers of a folder that frames of a stream will be sent. Without a folder, or receivers, nobody is
    /// told.
    pub fn begin(folder: &Path, stream: u16, to: IpAddr) -> Announced {
        let notice = Notice { stream, to, sent: None };
        let mut receivers = vec![];
        if let Ok(Some(folder)) = TrustedDir::open(folder) {
            let entries = folder.entries().unwrap_or_default().into_iter();
            for (name, _) in entries.filter(|(_, kind)| kind.is_socket()) {
                match connect(&short(&folder).join(&name)) {
                    Ok(receiver) => receivers.push(receiver),
                    // A receiver that was killed.
                    Err(Errno::CONNREFUSED) => {
                        let _ = folder.remove_file(&name);
                    }
                    // One that was stopped has no room: it is left out.
                    Err(_) => {}
                }
            }
        }
        let mut announced = Announced { receivers, notice };
        announced.tell();
        announced
    }

    /// Tells how many frames were sent.
    pub fn end(mut self, sent: SentFrames) {
        self.notice.sent = Some(sent);
        self.tell();
    }

    /// A receiver that does not listen any more, or has no room, is left out.
    fn tell(&mut self) {
        let bytes = self.notice.bytes();
        self.receivers.retain(|receiver| {
            let mut receiver = receiver;
            receiver.write_all(&bytes).is_ok()
        });
    }
}

/// One sender as seen by a receiver.
#[derive(Debug)]
struct Sender {
    stream: UnixStream,
    read: Vec<u8>,
    begun: Option<Notice>,
    /// When its connection ended, and what it had told by then.
    ended: Option<(Instant, Option<SentFrames>)>,
}

/// The senders that a receiver hears of.
#[derive(Debug)]
pub struct Senders {
    listener: UnixListener,
    path: PathBuf,
    all: Vec<Sender>,
}

impl Senders {
    /// Begins to listen in a folder, which is made.
    ///
    /// # Errors
    /// The folder cannot be made or used.
    pub fn listen(folder: &Path) -> Result<Senders> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let failed = Failure::of(format!("socket for senders in {}", folder.display()), "make");
        let bind = || -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            let (at, _) = TrustedDir::make(folder)?;
            // Left by a process of the same number that was killed.
            let _ = at.remove_file(&name);
            let listener = UnixListener::bind(short(&at).join(&name))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        // Another receiver that ends removes the folder if it is empty.
        let listener = bind().or_else(|_| bind()).map_err(failed)?;
        Ok(Senders { listener, path: folder.join(name), all: vec![] })
    }

    /// Hears what there is to hear.
    pub(crate) fn hear(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.all.len() < SENDERS && stream.set_nonblocking(true).is_ok() {
                self.all.push(Sender { stream, read: vec![], begun: None, ended: None });
            }
        }
        self.all.iter_mut().filter(|sender| sender.ended.is_none()).for_each(Sender::hear);
    }

    /// Whether one of these senders is still sending.
    pub(crate) fn are_busy(&self, of: impl Fn(&Notice) -> bool) -> bool {
        self.of(of).any(|(sender, _)| sender.ended.is_none())
    }

    /// When the last of these senders ended.
    pub(crate) fn ended(&self, of: impl Fn(&Notice) -> bool) -> Option<Instant> {
        self.of(of).filter_map(|(sender, _)| Some(sender.ended?.0)).max()
    }

    /// What these senders sent, by stream. A sender that did not tell leaves its stream unknown.
    pub(crate) fn sent(&self, of: impl Fn(&Notice) -> bool) -> Vec<(u16, SentFrames)> {
        let mut all: Vec<(u16, Option<SentFrames>)> = vec![];
        for (sender, begun) in self.of(of) {
            let sent = sender.ended.and_then(|(_, sent)| sent);
            match all.iter_mut().find(|(stream, _)| *stream == begun.stream) {
                None => all.push((begun.stream, sent)),
                Some((_, known)) => {
                    // Runs of one stream one after the other have the same numbers: the longest counts.
                    *known =
                        known.zip(sent).map(|(a, b)| if a.offered >= b.offered { a } else { b });
                }
            }
        }
        all.into_iter().filter_map(|(stream, sent)| Some((stream, sent?))).collect()
    }

    fn of(&self, of: impl Fn(&Notice) -> bool) -> impl Iterator<Item = (&Sender, Notice)> {
        let begun = self.all.iter().filter_map(|sender| Some((sender, sender.begun?)));
        begun.filter(move |(_, notice)| of(notice))
    }
}

impl Sender {
    fn hear(&mut self) {
        let mut bytes = [0; NOTICE];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return self.end(None),
                Ok(count) => self.read.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.end(None),
            }
            while let Some((first, rest)) = self.read.split_first_chunk::<NOTICE>() {
                let (notice, rest) = (Notice::read(first), rest.to_vec());
                self.read = rest;
                match notice {
                    Some(Notice { sent: Some(sent), .. }) => return self.end(Some(sent)),
                    Some(begun) => self.begun = Some(begun),
                    None => return self.end(None),
                }
            }
        }
    }

    fn end(&mut self, sent: Option<SentFrames>) {
        self.ended = Some((Instant::now(), sent));
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // Its folder with the last one.
        let _ = self.path.parent().map(std::fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_kit::wait_until;
    use std::time::Duration;

    const BOUND: Duration = Duration::from_secs(30);
    const TO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn any(_: &Notice) -> bool {
        true
    }

    #[test]
    fn a_receiver_hears_of_beginning_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a folder that is not there yet");
        let mut all = [(); 2].map(|()| Senders::listen(&at).unwrap());
        let one = Announced::begin(&at, 3, TO);
        for senders in &mut all {
            wait_until("the beginning", BOUND, || {
                senders.hear();
                senders.are_busy(any).then_some(())
            });
            assert!(!senders.are_busy(|notice| notice.stream == 4) && senders.sent(any).is_empty());
        }
        one.end(SentFrames { offered: 7, refused: 1 });
        for mut senders in all {
            wait_until("the end", BOUND, || {
                senders.hear();
                senders.ended(any)
            });
            assert_eq!(senders.sent(any), [(3, SentFrames { offered: 7, refused: 1 })]);
        }
        assert!(!at.exists(), "left behind");
    }

    #[test]
    fn a_sender_that_is_killed_leaves_the_count_unknown() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("r");
        let mut senders = Senders::listen(&at).unwrap();
        Announced::begin(&at, 3, TO).end(SentFrames { offered: 5, refused: 0 });
        drop(Announced::begin(&at, 3, TO));
        wait_until("both ends", BOUND, || {
            senders.hear();
            (senders.all.len() == 2 && !senders.are_busy(any)).then_some(())
        });
        assert_eq!(senders.sent(any), []);
    }

    /// A receiver that was stopped takes no connections, so that its queue fills.
    #[test]
    fn a_sender_does_not_wait_for_a_receiver_that_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("r");
        let mut senders = Senders::listen(&at).unwrap();
        rustix::net::listen(&senders.listener, 1).unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn({
            let at = at.clone();
            move || {
                for stream in 0..5 {
                    Announced::begin(&at, stream, TO).end(SentFrames { offered: 7, refused: 0 });
                }
                done.send(()).unwrap();
            }
        });
        ended.recv_timeout(BOUND).expect("it waits");
        wait_until("those that there was room for", BOUND, || {
            senders.hear();
            (senders.sent(any).len() == 2).then_some(())
        });
        assert!(senders.path.exists(), "it lives");
    }

    #[test]
    fn strange_words_end_a_connection_and_dead_sockets_go() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("r");
        let mut senders = Senders::listen(&at).unwrap();
        let mut stranger = UnixStream::connect(&senders.path).unwrap();
        stranger.write_all(&[7; 100]).unwrap();
        wait_until("the connection", BOUND, || {
            senders.hear();
            senders.all.first().filter(|sender| sender.ended.is_some()).map(drop)
        });
        let dead = at.join("dead");
        drop(UnixListener::bind(&dead).unwrap());
        Announced::begin(&at, 1, TO).end(SentFrames::default());
        assert!(!dead.exists() && senders.path.exists());
        Announced::begin(Path::new("/nowhere/at/all"), 1, TO).end(SentFrames::default());
    }
}
