//! What a client writes on the control socket (`request_v1`, `request_v3`), the answer, and data sockets' names.
//!
//! Numbers are in the byte order of the machine, since both ends are on it. A description has no length and no
//! end mark: it is what is left of the one read that takes the request. The answer is the address of the data
//! socket; a refused client gets none, its connection is closed.

/// The most bytes read as a request; whatever is beyond is not read.
pub const MOST: usize = 256;

/// Bytes of a socket's path, including the zero that ends it (`sun_path`).
pub const PATH: usize = 108;

/// Bytes of an answer: a `struct sockaddr_un`.
pub const ANSWER: usize = 2 + PATH;

/// Longest path of the folder: a data socket's, and the name that a client binds in it, must fit in a
/// socket's path. Clients name theirs `.PPPPP-CCCCC`, with a process id of up to seven digits.
pub const MOST_FOLDER: usize = PATH - 1 - "/.1234567-12345".len();

const MAGIC: u32 = 0xfeed_face;
const AF_UNIX: u16 = 1;
/// Where the address and the description begin.
const V3: (usize, usize) = (12, 122);
const V1: (usize, usize) = (14, 124);

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The port wanted; 0 for any.
    pub port: u8,
    /// The path of the client's data socket, from the root.
    pub path: Vec<u8>,
    /// What it says of itself, as one line.
    pub description: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Shorter than a request.
    Short,
    /// Not a request of VDE.
    Magic,
    /// A version that no client has.
    Version(u32),
    /// Neither a client of the switch nor one of its management port, which does not exist here.
    Kind(u8),
    /// No number of a port.
    Port(i32),
    /// The client's data socket has no path from the root.
    Address,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Short => write!(f, "shorter than a request"),
            Refused::Magic => write!(f, "no request of VDE"),
            Refused::Version(version) => write!(f, "version {version}; 1 and 3 are known"),
            Refused::Kind(kind) => write!(f, "kind {kind} of request, which is not offered"),
            Refused::Port(port) => write!(f, "port {port}; numbers are 1 to 255"),
            Refused::Address => write!(f, "no path of a socket from the root"),
        }
    }
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Refused`]: the client is to be disconnected without an answer.
    pub fn read(bytes: &[u8]) -> Result<Request, Refused> {
        if word(bytes, 0).ok_or(Refused::Short)? != MAGIC {
            return Err(Refused::Magic);
        }
        // In version 1 the kind, 0 or 1, is where others have their version.
        let second = word(bytes, 4).ok_or(Refused::Short)?;
        let (kind, (address, description)) = match second {
            0 | 1 => (second, V1),
            3 => (word(bytes, 8).ok_or(Refused::Short)?, V3),
            version => return Err(Refused::Version(version)),
        };
        let address = bytes.get(address..description).ok_or(Refused::Short)?;
        let [low, ..] = kind.to_le_bytes();
        if low != 0 {
            return Err(Refused::Kind(low));
        }
        // The low byte is the kind, the rest the port: negative numbers are refused, not cut.
        let port = kind.cast_signed() >> 8;
        let port = u8::try_from(port).map_err(|_| Refused::Port(port))?;
        let path = path(address).ok_or(Refused::Address)?;
        let rest = bytes.get(description..MOST.min(bytes.len())).unwrap_or_default();
        Ok(Request { port, path, description: line(rest) })
    }

    /// The request as a client of version 3 writes it.
    pub fn write(&self) -> Vec<u8> {
        let kind = u32::from(self.port) << 8;
        let mut bytes = [MAGIC, 3, kind].map(u32::to_ne_bytes).concat();
        bytes.extend(answer(&self.path).unwrap_or([0; ANSWER]));
        bytes.extend(self.description.bytes().take(MOST - V3.1));
        bytes
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..at + 4)?.first_chunk()?;
    Some(u32::from_ne_bytes(*found))
}

/// The path in a `struct sockaddr_un`.
fn path(address: &[u8]) -> Option<Vec<u8>> {
    let (family, path) = address.split_first_chunk()?;
    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
    let path = path.get(..end)?;
    (u16::from_ne_bytes(*family) == AF_UNIX && path.first() == Some(&b'/')).then(|| path.to_vec())
}

/// Text up to the first zero, as one line.
fn line(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.trim().to_owned()
}

/// The answer: the address of the client's data socket. `None` if the path is too long.
pub fn answer(path: &[u8]) -> Option<[u8; ANSWER]> {
    let mut bytes = [0; ANSWER];
    let (family, rest) = bytes.split_at_mut(2);
    family.copy_from_slice(&AF_UNIX.to_ne_bytes());
    // The last byte stays zero.
    rest.get_mut(..path.len()).filter(|_| path.len() < PATH)?.copy_from_slice(path);
    Some(bytes)
}

/// The name of a data socket in the folder: the port, and the number of the connection.
pub fn data_name(port: u8, connection: u32) -> String {
    format!("{port:03}.{connection}")
}

/// Whether a file of the folder is named like a data socket.
pub fn is_data_name(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('.').is_some_and(|(port, rest)| port.len() == 3 && digits(port) && digits(rest))
}

#[cfg(test)]
mod tests;
