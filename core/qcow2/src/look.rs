//! What a file is, by its first bytes.

use crate::MAGIC;

/// How much of a file's beginning tells what it is. A layer's name of the file below lies within its first cluster,
/// which has 64 KiB in what [`crate::layer`] and `qemu-img` make.
pub const HEAD: usize = 64 << 10;

/// A sector in bytes: disks have a whole number of them.
const SECTOR: u64 = 512;

/// The longest name of a file below (qcow2.rst: 1,023 bytes).
const LONGEST_NAME: usize = 1023;

/// Bits of incompatible features: it is corrupt, keeps its data elsewhere. What bit 0 tells, that it was not closed in
/// order, QEMU mends when it opens it.
const CORRUPT: u64 = 1 << 1;
const DATA_ELSEWHERE: u64 = 1 << 2;

/// How a disk's file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Byte by byte.
    Raw,
    /// As qcow2.
    Qcow2,
}

impl Format {
    /// QEMU's word.
    pub fn word(self) -> &'static str {
        match self {
            Format::Raw => "raw",
            Format::Qcow2 => "qcow2",
        }
    }
}

/// A disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its file's format.
    pub format: Format,
    /// What the guest sees of it, in bytes.
    pub size: u64,
}

/// A layer: what was written above another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The name of the file below, as its maker wrote it.
    pub below: String,
    /// What the guest sees, in bytes.
    pub size: u64,
}

/// Why a file is not a disk for a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// Neither format.
    #[error(
        "it is not a disk: {0} bytes are not a whole number of sectors of 512, and it is not a qcow2 image"
    )]
    NoDisk(u64),
    /// Another program's file.
    #[error("it is {0}, not a raw disk or a qcow2 image: `qemu-img convert -O qcow2` makes one")]
    Foreign(&'static str),
    /// A packed file.
    #[error("it is packed with {0}: unpack it first")]
    Packed(&'static str),
    /// A header that ends too early or has impossible values.
    #[error("its qcow2 header is broken: {0}")]
    Broken(&'static str),
    /// A disk in several files.
    #[error("it lies above {0:?}: `qemu-img convert -O qcow2` makes one file of both")]
    HasBelow(String),
    /// The content is in a file of its own.
    #[error("its data are in another file: `qemu-img convert -O qcow2` makes one file of both")]
    DataElsewhere,
    /// A password would be needed.
    #[error("it is encrypted")]
    Encrypted,
    /// QEMU has marked it.
    #[error("it is marked as corrupt: `qemu-img check -r all` may mend it")]
    Corrupt,
    /// Not a layer where one is expected.
    #[error("it is not a layer over a disk")]
    NoLayer,
}

/// Looks at a disk's file by its first [`HEAD`] bytes (fewer if it is shorter) and its length in bytes.
///
/// # Errors
/// It is not a disk that is whole in this one file.
pub fn look(head: &[u8], length: u64) -> Result<Disk, Refusal> {
    if length == 0 || head.is_empty() {
        return Err(Refusal::Empty);
    }
    if let Some(header) = header(head)? {
        if header.below.1 > 0 {
            return Err(Refusal::HasBelow(name_below(head, header.below)?));
        }
        return Ok(Disk { format: Format::Qcow2, size: header.size });
    }
    if let Some(refusal) = foreign(head) {
        return Err(refusal);
    }
    if !length.is_multiple_of(SECTOR) {
        return Err(Refusal::NoDisk(length));
    }
    Ok(Disk { format: Format::Raw, size: length })
}

/// Looks at the file of a layer by its first [`HEAD`] bytes.
///
/// # Errors
/// It is none.
pub fn look_at_layer(head: &[u8]) -> Result<Layer, Refusal> {
    let header = header(head)?.ok_or(Refusal::NoLayer)?;
    if header.below.1 == 0 {
        return Err(Refusal::NoLayer);
    }
    Ok(Layer { below: name_below(head, header.below)?, size: header.size })
}

/// The needed fields of a qcow2 header.
struct Header {
    size: u64,
    /// Where the name of the file below begins, and its length.
    below: (u64, u32),
}

fn header(head: &[u8]) -> Result<Option<Header>, Refusal> {
    if !head.starts_with(&MAGIC) {
        return Ok(None);
    }
    let short = Refusal::Broken("it ends within the header");
    let u32_at = |at: usize| head.get(at..)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
    let u64_at = |at: usize| head.get(at..)?.first_chunk::<8>().map(|b| u64::from_be_bytes(*b));
    let fields = || {
        Some((
            u32_at(4)?,
            (u64_at(8)?, u32_at(16)?),
            u32_at(20)?,
            u64_at(24)?,
            u32_at(32)?,
            // The last field of version 2: the header is whole.
            u64_at(64)?,
        ))
    };
    let (version, below, cluster_bits, size, encryption, _) = fields().ok_or(short.clone())?;
    let features = match version {
        2 => 0,
        3 => u64_at(72).ok_or(short)?,
        _ => return Err(Refusal::Broken("its version is neither 2 nor 3")),
    };
    if !(9..=21).contains(&cluster_bits) {
        return Err(Refusal::Broken("clusters have 512 bytes to 2 MiB"));
    }
    if size == 0 {
        return Err(Refusal::Empty);
    }
    if encryption != 0 {
        return Err(Refusal::Encrypted);
    }
    if features & CORRUPT != 0 {
        return Err(Refusal::Corrupt);
    }
    if features & DATA_ELSEWHERE != 0 {
        return Err(Refusal::DataElsewhere);
    }
    Ok(Some(Header { size, below }))
}

fn name_below(head: &[u8], (at, length): (u64, u32)) -> Result<String, Refusal> {
    let range = || {
        let (at, length) = (usize::try_from(at).ok()?, usize::try_from(length).ok()?);
        (length <= LONGEST_NAME).then_some(())?;
        head.get(at..at.checked_add(length)?)
    };
    let name = range().ok_or(Refusal::Broken("the name of the file below is not in it"))?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Files that are often taken for disks.
fn foreign(head: &[u8]) -> Option<Refusal> {
    let begins: [(&[u8], Refusal); 9] = [
        (b"KDMV", Refusal::Foreign("a VMDK image")),
        (b"# Disk DescriptorFile", Refusal::Foreign("a VMDK image's description")),
        (b"vhdxfile", Refusal::Foreign("a VHDX image")),
        (b"conectix", Refusal::Foreign("a VHD image")),
        (b"\x1f\x8b", Refusal::Packed("gzip")),
        (b"\xfd7zXZ\0", Refusal::Packed("xz")),
        (b"BZh", Refusal::Packed("bzip2")),
        (b"\x28\xb5\x2f\xfd", Refusal::Packed("zstd")),
        (b"PK\x03\x04", Refusal::Packed("zip")),
    ];
    let is_vdi = head.get(64..68) == Some(&0xBEDA_107F_u32.to_le_bytes());
    let vdi = is_vdi.then_some(Refusal::Foreign("a VDI image"));
    begins.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, why)| why).or(vdi)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A qcow2 header of version 3 of 1 MiB.
    fn header() -> Vec<u8> {
        let mut bytes = vec![0; 512];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&3u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&16u32.to_be_bytes());
        bytes[24..32].copy_from_slice(&(1u64 << 20).to_be_bytes());
        bytes
    }

    fn with(at: usize, bytes: &[u8]) -> Result<Disk, Refusal> {
        let mut header = header();
        header[at..at + bytes.len()].copy_from_slice(bytes);
        look(&header, 512)
    }

    #[test]
    fn both_formats_have_their_size() {
        assert_eq!(look(&header(), 9), Ok(Disk { format: Format::Qcow2, size: 1 << 20 }));
        assert_eq!(look(b"any", 1024), Ok(Disk { format: Format::Raw, size: 1024 }));
    }

    #[test]
    fn what_is_no_disk_is_refused_with_the_reason() {
        assert_eq!(look(&[], 0), Err(Refusal::Empty));
        assert_eq!(look(b"text", 4), Err(Refusal::NoDisk(4)));
        assert_eq!(look(b"KDMV", 512), Err(Refusal::Foreign("a VMDK image")));
        assert_eq!(look(b"\x1f\x8b\x08", 512), Err(Refusal::Packed("gzip")));
        let mut vdi = vec![0; 512];
        vdi[64..68].copy_from_slice(&0xBEDA_107F_u32.to_le_bytes());
        assert_eq!(look(&vdi, 512), Err(Refusal::Foreign("a VDI image")));
        assert_eq!(
            with(4, &4u32.to_be_bytes()),
            Err(Refusal::Broken("its version is neither 2 nor 3"))
        );
        assert_eq!(with(24, &[0; 8]), Err(Refusal::Empty));
        assert_eq!(with(32, &[0, 0, 0, 1]), Err(Refusal::Encrypted));
        assert_eq!(with(72, &CORRUPT.to_be_bytes()), Err(Refusal::Corrupt));
        assert_eq!(with(72, &DATA_ELSEWHERE.to_be_bytes()), Err(Refusal::DataElsewhere));
        let cut = Err(Refusal::Broken("it ends within the header"));
        assert_eq!(look(&header()[..70], 70), cut);
        assert_eq!(look(&header()[..76], 76), cut);
    }

    #[test]
    fn a_file_below_is_named_wherever_it_is() {
        let mut bytes = header();
        bytes[8..16].copy_from_slice(&500u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&4u32.to_be_bytes());
        bytes[500..504].copy_from_slice(b"/a/b");
        assert_eq!(look(&bytes, 512), Err(Refusal::HasBelow("/a/b".to_owned())));
        assert_eq!(look_at_layer(&bytes), Ok(Layer { below: "/a/b".to_owned(), size: 1 << 20 }));
        bytes[8..16].copy_from_slice(&u64::MAX.to_be_bytes());
        let broken = Refusal::Broken("the name of the file below is not in it");
        assert_eq!(look_at_layer(&bytes), Err(broken));
        assert_eq!(look_at_layer(&header()), Err(Refusal::NoLayer));
        assert_eq!(look_at_layer(b"text"), Err(Refusal::NoLayer));
    }
}
