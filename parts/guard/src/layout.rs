//! Structures of calls as they lie in a program's memory: `msghdr`, `mmsghdr`, `iovec`, control messages.
//!
//! Programs of 64 and 32 bits have different layouts; both become the same values here. Pure: bytes in, values out.

use netloom_sys::seccomp::Machine;

/// How wide pointers and lengths are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32 bits.
    Four,
    /// 64 bits.
    Eight,
}

/// A `struct msghdr` (recvmsg(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Where the address lies.
    pub name: u64,
    /// Its length.
    pub name_length: u32,
    /// Where the pieces are listed.
    pub vectors: u64,
    /// How many there are.
    pub vector_count: u64,
    /// Where the control messages lie.
    pub control: u64,
    /// Their length.
    pub control_length: u64,
}

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The protocol it is of.
    pub level: i32,
    /// Its type.
    pub kind: i32,
    /// What it says.
    pub data: Vec<u8>,
}

impl Width {
    /// The width of a machine's programs.
    pub fn of(machine: Machine) -> Width {
        if machine == Machine::I386 { Width::Four } else { Width::Eight }
    }

    /// Bytes of a pointer or length.
    pub fn bytes(self) -> usize {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
        }
    }

    /// Bytes of a `struct msghdr`.
    pub fn header(self) -> usize {
        match self {
            Width::Four => 28,
            Width::Eight => 56,
        }
    }

    /// Bytes of a `struct mmsghdr`, whose last member is the sent length, right behind its header.
    pub fn many_header(self) -> usize {
        self.header() + self.bytes()
    }

    /// Bytes of a `struct cmsghdr` without data: its length, level and type.
    fn control_header(self) -> usize {
        self.bytes() + 8
    }

    /// A pointer or length at `at`.
    pub fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        let end = at.checked_add(self.bytes())?;
        let part = bytes.get(at..end)?;
        Some(match self {
            Width::Four => u64::from(u32::from_ne_bytes(part.try_into().ok()?)),
            Width::Eight => u64::from_ne_bytes(part.try_into().ok()?),
        })
    }

    /// Reads a `struct msghdr`.
    pub fn read_header(self, bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..self.header())?;
        let word = |place: usize| self.word(bytes, place * self.bytes());
        // `msg_namelen` is an int, padded where pointers have 8 bytes.
        let at = self.bytes();
        let name_length = u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        Some(Header {
            name: word(0)?,
            name_length,
            vectors: word(2)?,
            vector_count: word(3)?,
            control: word(4)?,
            control_length: word(5)?,
        })
    }

    /// Reads an array of `struct iovec`: address and length each.
    pub fn read_vectors(self, bytes: &[u8]) -> Vec<(u64, u64)> {
        let each = bytes.chunks_exact(2 * self.bytes());
        each.filter_map(|one| Some((self.word(one, 0)?, self.word(one, self.bytes())?))).collect()
    }

    /// Reads control messages; `None` if one is malformed, which the kernel refuses with EINVAL.
    pub fn read_controls(self, bytes: &[u8]) -> Option<Vec<Control>> {
        let (mut at, mut all) = (0, vec![]);
        let head = self.control_header();
        // Bytes shorter than a header are not a message, as CMSG_NXTHDR(3) has it.
        while bytes.len().checked_sub(at)? >= head {
            let length = usize::try_from(self.word(bytes, at)?).ok()?;
            let number = |from: usize| -> Option<i32> {
                let from = at + self.bytes() + from;
                Some(i32::from_ne_bytes(bytes.get(from..from + 4)?.try_into().ok()?))
            };
            let end = at.checked_add(length).filter(|end| length >= head && *end <= bytes.len())?;
            let data = bytes.get(at + head..end)?.to_vec();
            all.push(Control { level: number(0)?, kind: number(4)?, data });
            // Messages begin at multiples of the word, as CMSG_ALIGN in linux/socket.h has it.
            at = at.checked_add(length.checked_next_multiple_of(self.bytes())?)?;
            if at > bytes.len() {
                break;
            }
        }
        Some(all)
    }
}

/// Writes control messages in this machine's own layout.
pub fn write_controls(controls: &[Control]) -> Vec<u8> {
    const WIDTH: Width = Width::Eight;
    let mut bytes = vec![];
    for control in controls {
        let length = WIDTH.control_header() + control.data.len();
        bytes.extend((length as u64).to_ne_bytes());
        bytes.extend(control.level.to_ne_bytes());
        bytes.extend(control.kind.to_ne_bytes());
        bytes.extend(&control.data);
        bytes.resize(bytes.len().next_multiple_of(WIDTH.bytes()), 0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing: its flags, which are not read, were missing.
    #[test]
    fn a_header_that_is_cut_is_none() {
        for width in [Width::Four, Width::Eight] {
            assert!(width.read_header(&vec![0; width.header()]).is_some());
            assert_eq!(width.read_header(&vec![0; width.header() - 1]), None);
        }
    }

    #[test]
    fn headers_of_both_widths_are_read() {
        let mut long = vec![];
        for word in [0x1000_u64, 16, 0x2000, 2, 0x3000, 24, 0] {
            long.extend(word.to_ne_bytes());
        }
        let expected = Header {
            name: 0x1000,
            name_length: 16,
            vectors: 0x2000,
            vector_count: 2,
            control: 0x3000,
            control_length: 24,
        };
        assert_eq!(Width::Eight.read_header(&long), Some(expected));
        let short: Vec<u8> = [0x1000_u32, 16, 0x2000, 2, 0x3000, 24, 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        assert_eq!(Width::Four.read_header(&short), Some(expected));
        assert_eq!((short.len(), long.len()), (Width::Four.header(), Width::Eight.header()));
        assert_eq!(Width::Eight.read_header(&long[..40]), None);
    }

    #[test]
    fn the_upper_half_of_a_padded_length_means_nothing() {
        let mut bytes = vec![0; 56];
        bytes[8..16].copy_from_slice(&[16, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
        assert_eq!(Width::Eight.read_header(&bytes).unwrap().name_length, 16);
    }

    #[test]
    fn control_messages_are_read_and_written() {
        let all = vec![
            Control { level: 1, kind: 1, data: 7_i32.to_ne_bytes().to_vec() },
            Control { level: 0, kind: 2, data: vec![1, 2, 3, 4, 5, 6, 7, 8] },
        ];
        assert_eq!(Width::Eight.read_controls(&write_controls(&all)), Some(all.clone()));
        let mut narrow = vec![];
        for control in &all {
            narrow.extend((12 + u32::try_from(control.data.len()).unwrap()).to_ne_bytes());
            narrow.extend(control.level.to_ne_bytes());
            narrow.extend(control.kind.to_ne_bytes());
            narrow.extend(&control.data);
        }
        assert_eq!(Width::Four.read_controls(&narrow), Some(all));
    }

    #[test]
    fn malformed_control_messages_are_refused() {
        let mut bytes = write_controls(&[Control { level: 1, kind: 1, data: vec![0; 8] }]);
        for length in [0_u64, 15, 25, u64::MAX] {
            bytes[..8].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(Width::Eight.read_controls(&bytes), None, "{length}");
        }
        assert_eq!(Width::Eight.read_controls(&bytes[..15]), Some(vec![]));
        assert_eq!(Width::Eight.read_controls(&[]), Some(vec![]));
    }

    #[test]
    fn vectors_are_pairs() {
        let bytes: Vec<u8> = [1_u64, 2, 3, 4, 5].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(Width::Eight.read_vectors(&bytes), [(1, 2), (3, 4)]);
    }
}
