//! FRR's daemons in a node: their sockets, and the files that they put down.
//!
//! The node's programs decide what is there. So nothing is reached by a path of the host: a link in the node leads to what it
//! names in the node. Answers and files are bounded, and so is the time for an answer.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use netloom_sys::lookup::open_within;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::process::Pid;

/// Where they listen and put things down, below a node's root directory.
const FOLDER: &str = "run/frr";

/// Time limit for the answer to a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most bytes of an answer, and of a file.
const MOST_BYTES: usize = 64 << 20;

/// The daemons of a node, by its root directory.
pub(super) struct Daemons(OwnedFd);

impl Daemons {
    /// Those of the node with this init.
    pub(super) fn of(init: Pid) -> Result<Daemons> {
        let process = Path::new("/proc").join(init.as_raw_nonzero().to_string());
        Daemons::below(&process.join("root"))
    }

    fn below(root: &Path) -> Result<Daemons> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Daemons(rustix::fs::open(root, flags, Mode::empty())?))
    }

    fn open(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = Path::new(FOLDER).join(name);
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        open_within(&self.0, &path, flags | OFlags::CLOEXEC, resolve)
    }

    /// The answer to the last of some commands, over the socket that `vtysh` uses; `None` if there is no such daemon.
    pub(super) fn ask(&self, daemon: &str, commands: &[&str]) -> Result<Option<String>> {
        let socket = match self.open(&format!("{daemon}.vty"), OFlags::PATH) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        if !FileType::from_raw_mode(rustix::fs::fstat(&socket)?.st_mode).is_socket() {
            return Err(Error::other("it is not a socket"));
        }
        let path = Path::new("/proc/self/fd").join(socket.as_raw_fd().to_string());
        say(UnixStream::connect(path)?, commands).map(Some)
    }

    /// Copies a file that they have put down.
    pub(super) fn copy(&self, name: &str, to: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.open(name, flags)?);
        if !file.metadata()?.is_file() {
            return Err(Error::other(format!("{name} is not a regular file")));
        }
        let copied = std::io::copy(&mut file.take(MOST_BYTES as u64), &mut File::create(to)?)?;
        if copied == MOST_BYTES as u64 { Err(too_long(name)) } else { Ok(()) }
    }
}

/// Says commands: each ends with a zero byte, and an answer with three and a byte that says how it went.
fn say(mut stream: UnixStream, commands: &[&str]) -> Result<String> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut last = String::new();
    for command in commands {
        stream.write_all(command.as_bytes())?;
        stream.write_all(&[0])?;
        let (answer, status) = hear(&mut stream, command)?;
        let text = String::from_utf8_lossy(&answer).trim_matches(['\0', '\n', '\r']).to_owned();
        if status != 0 {
            return Err(Error::other(format!("{command}: {text}")));
        }
        last = text;
    }
    Ok(last)
}

/// Hears an answer, and how the command went.
fn hear(stream: &mut UnixStream, command: &str) -> Result<(Vec<u8>, u8)> {
    let until = Instant::now() + PATIENCE;
    let (mut answer, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut some)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&some[..count]);
        if let [text @ .., 0, 0, 0, status] = answer.as_slice() {
            return Ok((text.to_vec(), *status));
        }
        if answer.len() > MOST_BYTES {
            return Err(too_long(command));
        }
    }
}

fn too_long(what: &str) -> Error {
    Error::other(format!("{what}: more than {} MiB", MOST_BYTES >> 20))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A node's root directory, and the daemons in it.
    fn node() -> (tempfile::TempDir, Daemons) {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(FOLDER)).unwrap();
        let daemons = Daemons::below(root.path()).unwrap();
        (root, daemons)
    }

    #[test]
    fn what_a_daemon_refuses_is_told() {
        let (root, daemons) = node();
        let listener = UnixListener::bind(root.path().join(FOLDER).join("ospfd.vty")).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; 7];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(&[0, 0, 0, 0]).unwrap();
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(b"unknown\n\0\0\0\x02").unwrap();
        });
        let error = daemons.ask("ospfd", &["enable", "bad"]).unwrap_err();
        assert!(error.to_string().contains("bad: unknown"), "{error}");
        server.join().unwrap();
        assert!(daemons.ask("ospf6d", &["enable"]).unwrap().is_none());
    }

    #[test]
    fn links_in_a_node_lead_to_nothing_of_the_host() {
        let (root, daemons) = node();
        let host = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        let [secret, socket, copy] =
            ["secret", "socket", "copy"].map(|name| host.path().join(name));
        std::fs::write(&secret, "of the host").unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        symlink(&secret, folder.join("ospfd-gr.json")).unwrap();
        symlink(format!("../../../../../../../..{}", secret.display()), folder.join("up.json"))
            .unwrap();
        symlink(&socket, folder.join("ospfd.vty")).unwrap();
        for name in ["ospfd-gr.json", "up.json"] {
            let missing = daemons.copy(name, &copy).unwrap_err();
            assert_eq!(missing.kind(), std::io::ErrorKind::NotFound, "{name}");
        }
        assert!(daemons.ask("ospfd", &["enable"]).unwrap().is_none());
        assert!(listener.accept().is_err() && !copy.exists());
        // A FIFO is not waited for.
        let fifo = folder.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(daemons.copy("fifo", &copy).unwrap_err().to_string().contains("not a regular"));
        assert!(daemons.ask("fifo", &[]).unwrap().is_none());
        // One within the node is followed.
        std::fs::write(root.path().join("own"), "of the node").unwrap();
        symlink("/own", folder.join("own.json")).unwrap();
        daemons.copy("own.json", &copy).unwrap();
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "of the node");
    }
}
