//! Tar archives by hand: also such as no program would write.

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Tar {
        Tar::default()
    }

    /// A header as it is, with its checksum.
    pub(crate) fn raw(mut self, name: &str, flag: u8, mode: u32, link: &str, size: u64) -> Tar {
        let mut block = [0_u8; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..107].copy_from_slice(format!("{mode:07o}").as_bytes());
        let (uid, gid) = if netloom_kit::is_root() { (33, 34) } else { (0, 0) };
        block[108..115].copy_from_slice(format!("{uid:07o}").as_bytes());
        block[116..123].copy_from_slice(format!("{gid:07o}").as_bytes());
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[136..147].copy_from_slice(b"00000000007");
        block[156] = flag;
        block[157..157 + link.len()].copy_from_slice(link.as_bytes());
        block[257..265].copy_from_slice(b"ustar\x0000");
        self.seal(block);
        self
    }

    fn seal(&mut self, mut block: [u8; 512]) {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
    }

    fn data(mut self, data: &[u8]) -> Tar {
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn file(self, name: &str, mode: u32, text: &str) -> Tar {
        self.raw(name, b'0', mode, "", text.len() as u64).data(text.as_bytes())
    }

    pub(crate) fn dir(self, name: &str, mode: u32) -> Tar {
        self.raw(name, b'5', mode, "", 0)
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Tar {
        self.raw(name, b'2', 0o777, to, 0)
    }

    pub(crate) fn hard(self, name: &str, to: &str) -> Tar {
        self.raw(name, b'1', 0o644, to, 0)
    }

    pub(crate) fn white(self, name: &str) -> Tar {
        self.file(name, 0, "")
    }

    /// A pax header for the entry that follows.
    pub(crate) fn pax(self, records: &[(&str, &str)]) -> Tar {
        let mut text = String::new();
        for (key, value) in records {
            let body = format!(" {key}={value}\n");
            let mut length = body.len() + 1;
            while format!("{length}{body}").len() != length {
                length += 1;
            }
            text.push_str(&format!("{length}{body}"));
        }
        self.raw("pax", b'x', 0o644, "", text.len() as u64).data(text.as_bytes())
    }

    /// A sparse file of one piece behind a hole.
    pub(crate) fn sparse(mut self, name: &str, whole: u64, offset: u64, text: &str) -> Tar {
        let start = self.0.len();
        self = self.raw(name, b'S', 0o644, "", text.len() as u64);
        let mut block: [u8; 512] = self.0[start..].try_into().unwrap();
        self.0.truncate(start);
        let piece = format!("{offset:011o}\0{:011o}\0", text.len());
        block[386..410].copy_from_slice(piece.as_bytes());
        block[483..494].copy_from_slice(format!("{whole:011o}").as_bytes());
        self.seal(block);
        self.data(text.as_bytes())
    }

    /// The archive with its closing blocks.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    /// The archive as some programs leave it: without padding and closing blocks.
    pub(crate) fn bare(self, cut: usize) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.truncate(bytes.len() - cut);
        bytes
    }
}
