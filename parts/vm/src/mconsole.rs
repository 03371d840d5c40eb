//! The management console of User-mode Linux: one datagram a command (arch/um/drivers/mconsole.h).

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use netloom_sys::private_socket::Named;
use netloom_sys::process::wait_readable;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::failed;
use crate::{Error, Result};

const MAGIC: u32 = 0xcafe_babe;
const VERSION: u32 = 2;
const MOST: usize = 512;

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends a command to the machine whose socket this is. `own` becomes the socket of the answers.
///
/// # Errors
/// The machine does not answer, or refuses.
pub(crate) fn command(socket: &Path, own: &Path, word: &str) -> Result<()> {
    let done = ask(socket, own, word);
    // It may not have been made.
    let _ = std::fs::remove_file(own);
    done
}

fn ask(socket: &Path, own: &Path, word: &str) -> Result<()> {
    let object = "management console";
    let (unix, kind) = (AddressFamily::UNIX, SocketType::DGRAM);
    let client: OwnedFd = rustix::net::socket_with(unix, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed(object, "make a socket for"))?;
    // The remains of a process that was killed.
    let _ = std::fs::remove_file(own);
    let address = SocketAddrUnix::new(own).map_err(failed(object, "name"))?;
    rustix::net::bind(&client, &address).map_err(failed(object, "bind"))?;
    // The machine's user answers.
    Named::hold(own).and_then(|named| named.set_mode(0o666)).map_err(failed(object, "open"))?;
    let machine = SocketAddrUnix::new(socket).map_err(failed(object, "name"))?;
    rustix::net::sendto(&client, &request(word), SendFlags::NOSIGNAL, &machine)
        .map_err(failed(object, "ask"))?;
    if !wait_readable(&client, PATIENCE) {
        return Err(Error::Refused(format!("{word}: its management console does not answer")));
    }
    let mut answer = [0; 12 + MOST];
    let (length, _) = rustix::net::recv(&client, &mut answer, RecvFlags::empty())
        .map_err(failed(object, "hear"))?;
    understand(word, answer.get(..length).unwrap_or(&[]))
}

fn request(word: &str) -> Vec<u8> {
    let mut data = word.as_bytes().to_vec();
    data.truncate(MOST - 1);
    let length = u32::try_from(data.len()).unwrap_or(0);
    // `struct mconsole_request` has room for 512 bytes, however long the word is.
    data.resize(MOST, 0);
    // In the order of this machine's bytes: both run on one.
    let head = [MAGIC, VERSION, length].into_iter().flat_map(u32::to_ne_bytes);
    head.chain(data).collect()
}

fn understand(word: &str, answer: &[u8]) -> Result<()> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4)?.first_chunk::<4>()?;
        Some(u32::from_ne_bytes(*bytes))
    };
    match number(0) {
        Some(0) => Ok(()),
        _ => {
            let text = String::from_utf8_lossy(answer.get(12..).unwrap_or(&[]));
            Err(Error::Refused(format!("{word}: {}", text.trim_end_matches(['\0', '\n']))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_machines_words() {
        let mut answer: Vec<u8> = [1u32, 0, 3].into_iter().flat_map(u32::to_ne_bytes).collect();
        answer.extend(b"no\n\0");
        let e = understand("halt", &answer).unwrap_err();
        assert_eq!(e.to_string(), "machine: halt: no");
        assert!(understand("halt", &[0; 12]).is_ok());
        assert!(understand("halt", &[]).is_err());
    }

    #[test]
    fn a_request_has_the_kernels_form() {
        let bytes = request("stop");
        assert_eq!(bytes.len(), 12 + MOST);
        assert_eq!(bytes[8..12], 4u32.to_ne_bytes());
        assert_eq!(&bytes[12..17], b"stop\0");
    }
}
