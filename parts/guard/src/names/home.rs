//! The place where a program runs, as far as names go: its files of names and name servers, and sockets in its network.

use std::io::Read;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use netloom_sys::isolated_netns::Maker;
use netloom_sys::setup::open_regular;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use serde::{Deserialize, Serialize};

/// The part of a file that is read.
const LONGEST: u64 = 1 << 20;

/// The files by which programs of a place resolve names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Files {
    /// /etc/hosts.
    pub(crate) hosts: String,
    /// /etc/resolv.conf.
    pub(crate) resolv: String,
}

impl Files {
    /// Those that this process sees.
    pub(crate) fn read() -> Files {
        Files { hosts: text("/etc/hosts"), resolv: text("/etc/resolv.conf") }
    }
}

/// The text of a file; empty if it is none, such as a pipe on which nobody writes.
fn text(path: &str) -> String {
    let mut bytes = vec![];
    if let Ok(file) = open_regular(path.as_ref()) {
        // The part read before an error counts.
        let _ = file.take(LONGEST).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Makes sockets in the program's network.
#[derive(Debug, Default)]
pub(crate) struct Home(Option<Maker>);

impl Home {
    /// Sockets of another network than this process's come from somebody there.
    pub(crate) fn by(maker: Maker) -> Home {
        Home(Some(maker))
    }

    /// A socket, closed on exec.
    pub(super) fn socket(
        &self,
        family: AddressFamily,
        kind: SocketType,
    ) -> std::io::Result<OwnedFd> {
        match &self.0 {
            None => Ok(socket_with(family, kind, SocketFlags::CLOEXEC, None)?),
            Some(maker) => maker.socket(family, kind).map_err(std::io::Error::other),
        }
    }

    /// A socket that is connected, or has tried to for `most`.
    pub(super) fn stream(&self, to: SocketAddr, most: Duration) -> std::io::Result<OwnedFd> {
        let socket = self.socket(family(to), SocketType::STREAM)?;
        // A blocking connect(2) ends only when the kernel gives up its SYNs, after some two minutes
        // (tcp(7)).
        rustix::io::ioctl_fionbio(&socket, true)?;
        match connect(&socket, &to) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => {
                let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
                if poll(&mut polled, Timespec::try_from(most).ok().as_ref())? == 0 {
                    return Err(Errno::TIMEDOUT.into());
                }
                // Writable also means refused: SO_ERROR tells which (connect(2), EINPROGRESS).
                sockopt::socket_error(&socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(socket)
    }
}

/// The family of an address.
pub(super) fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_read() {
        assert_eq!(text("/dev/zero"), "");
        assert_eq!(text("/proc/self/no such file"), "");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, b"10.0.0.1 a\xFF\n").unwrap();
        assert_eq!(text(path.to_str().unwrap()), "10.0.0.1 a\u{FFFD}\n");
        std::fs::File::create(&path).unwrap().set_len(2 * LONGEST).unwrap();
        assert_eq!(text(path.to_str().unwrap()).len() as u64, LONGEST);
    }

    #[test]
    fn a_stream_is_connected_or_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let home = Home::default();
        assert!(home.stream(to, Duration::from_secs(9)).is_ok());
        drop(listener);
        assert!(home.stream(to, Duration::from_secs(9)).is_err());
    }
}
