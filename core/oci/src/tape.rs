//! Tar archives, block by block: ustar, pax headers, GNU's long names and its sparse files, old and of pax.
//!
//! [`Tape::block`] takes each header block, and says what follows: an entry, whose data the caller reads, or text about
//! the next entry, which the caller hands to [`Tape::text`]. Blocks of zeros end an archive, and so does its end. Names
//! are bytes. See pax(1), and the GNU tar manual, "Basic Tar Format".

use crate::{Error, Result};

/// Bytes of a block.
pub const BLOCK: usize = 512;

/// The most text about one entry.
pub const MOST_TEXT: u64 = 1 << 20;

/// The longest name.
const LONGEST_NAME: usize = 4096;

/// As many pieces as a sparse file may have.
const MOST_PIECES: usize = 100_000;

/// What kind of file an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A regular file with holes: offsets and lengths of its pieces, and its whole size.
    Sparse(Vec<(u64, u64)>, u64),
    /// Another name of a file of the archive or of a layer below.
    Hard,
    /// A symbolic link.
    Symbolic,
    /// A directory.
    Directory,
    /// A FIFO.
    Fifo,
    /// A device.
    Device,
}

/// An entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, as the archive has it.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: Kind,
    /// What a link points to.
    pub link: Vec<u8>,
    /// Bytes of data that follow, before padding.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When it changed, in seconds of Unix time.
    pub mtime: i64,
    /// Extended attributes.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// What follows a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This many bytes of text, and padding, for [`Tape::text`].
    Text(u64),
    /// A block with more of a sparse file's map, for [`Tape::more`].
    More,
    /// An entry; its data follow, and padding.
    Entry(Box<Entry>),
    /// The next block.
    Nothing,
    /// Nothing: the archive ends.
    End,
}

/// Bytes of padding behind `size` bytes of data.
pub fn padding(size: u64) -> u64 {
    let block = BLOCK as u64;
    (block - size % block) % block
}

#[derive(Clone, Copy, Debug)]
enum Text {
    Pax,
    /// Of all entries that follow: passed over.
    Global,
    Name,
    Link,
}

/// What pax headers and long names say of the next entry.
#[derive(Clone, Debug, Default)]
struct Said {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime: Option<i64>,
    xattrs: Vec<(String, Vec<u8>)>,
    sparse: Option<Holes>,
}

/// What pax headers say of a sparse file: formats 0.0, 0.1 and 1.0 of the GNU tar manual, "Storing Sparse Files".
#[derive(Clone, Debug, Default)]
struct Holes {
    name: Option<Vec<u8>>,
    whole: Option<u64>,
    pieces: Vec<(u64, u64)>,
    /// The offset of a piece whose length comes next.
    offset: Option<u64>,
    /// Whether the map stands before the data, as in 1.0.
    in_data: bool,
}

/// The map of holes before a file's data: numbers on lines, of which the first counts the pieces.
#[derive(Debug, Default)]
struct Map {
    /// Digits of a number whose line goes on in the next block.
    digits: Vec<u8>,
    numbers: Vec<u64>,
}

/// A reader of an archive.
#[derive(Debug, Default)]
pub struct Tape {
    said: Said,
    awaited: Option<Text>,
    /// Bytes of text about the next entry so far.
    text: u64,
    /// A sparse entry whose map goes on.
    open: Option<Box<Entry>>,
    /// Its map, where that stands before the data.
    map: Option<Map>,
    /// A block of zeros came.
    zero: bool,
}

impl Tape {
    /// Takes a header block.
    ///
    /// # Errors
    /// It is not a header, or one that cannot be obeyed.
    pub fn block(&mut self, block: &[u8; BLOCK]) -> Result<Step> {
        if block.iter().all(|b| *b == 0) {
            // Two end an archive; some writers write one.
            let end = std::mem::replace(&mut self.zero, true);
            return Ok(if end { Step::End } else { Step::Nothing });
        }
        if std::mem::take(&mut self.zero) {
            return Ok(Step::End);
        }
        // The field of the sum itself counts as blanks.
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, b)| if (148..156).contains(&at) { 32 } else { u64::from(*b) })
            .sum();
        if number(&block[148..156]) != Some(sum) {
            return Err(Error::Archive("a header's checksum is wrong".into()));
        }
        let size = number(&block[124..136]).ok_or_else(|| odd("size"))?;
        let text = match block[156] {
            b'x' => Some(Text::Pax),
            b'g' => Some(Text::Global),
            b'L' => Some(Text::Name),
            b'K' => Some(Text::Link),
            _ => None,
        };
        match text {
            Some(text) => {
                self.text = self.text.saturating_add(size);
                if self.text > MOST_TEXT {
                    let why = format!("{} bytes of text about one entry", self.text);
                    return Err(Error::Archive(why));
                }
                self.awaited = Some(text);
                Ok(Step::Text(size))
            }
            None => self.entry(block, size),
        }
    }

    /// Takes the text that [`Step::Text`] announced.
    ///
    /// # Errors
    /// It cannot be understood.
    pub fn text(&mut self, text: &[u8]) -> Result<()> {
        match self.awaited.take() {
            Some(Text::Pax) => self.said.read(text),
            Some(Text::Name) => {
                self.said.path = Some(until_nul(text).to_vec());
                Ok(())
            }
            Some(Text::Link) => {
                self.said.link = Some(until_nul(text).to_vec());
                Ok(())
            }
            Some(Text::Global) | None => Ok(()),
        }
    }

    /// Takes a block with more of a sparse file's map.
    ///
    /// # Errors
    /// It cannot be understood.
    pub fn more(&mut self, block: &[u8; BLOCK]) -> Result<Step> {
        let Some(mut entry) = self.open.take() else { return Ok(Step::Nothing) };
        if let Some(map) = &mut self.map {
            let fits = entry.size.checked_sub(BLOCK as u64);
            entry.size =
                fits.ok_or_else(|| Error::entry(&entry.path, "its map of holes is cut short"))?;
            let Some(found) = map.take(block)? else {
                self.open = Some(entry);
                return Ok(Step::More);
            };
            self.map = None;
            if let Kind::Sparse(pieces, _) = &mut entry.kind {
                *pieces = found;
            }
            return whole(entry);
        }
        if let Kind::Sparse(pieces, _) = &mut entry.kind {
            // 21 pieces, and whether another such block follows.
            add_pieces(pieces, &block[..504])?;
        }
        if block[504] != 0 {
            self.open = Some(entry);
            return Ok(Step::More);
        }
        whole(entry)
    }

    fn entry(&mut self, block: &[u8; BLOCK], size: u64) -> Result<Step> {
        let said = std::mem::take(&mut self.said);
        self.text = 0;
        let is_ustar = &block[257..262] == b"ustar";
        let mut path = said.path.unwrap_or_else(|| {
            let name = until_nul(&block[..100]);
            let prefix = until_nul(&block[345..500]);
            // GNU's format has other things where ustar has a prefix.
            match is_ustar && &block[257..263] == b"ustar\0" && !prefix.is_empty() {
                true => [prefix, b"/", name].concat(),
                false => name.to_vec(),
            }
        });
        let flag = block[156];
        // Before ustar, a directory was a file with a slash at the end of its name.
        let is_old_directory = matches!(flag, b'0' | 0) && path.ends_with(b"/");
        let size = said.size.unwrap_or(size);
        let holes = said.sparse.filter(|_| matches!(flag, b'0' | 0 | b'7'));
        if let Some(name) = holes.as_ref().and_then(|holes| holes.name.clone()) {
            path = name;
        }
        let in_data = holes.as_ref().is_some_and(|holes| holes.in_data);
        let kind = match flag {
            _ if holes.is_some() => {
                let holes = holes.unwrap_or_default();
                let whole = holes.whole.ok_or_else(|| odd("size"))?;
                Kind::Sparse(holes.pieces, whole)
            }
            _ if is_old_directory => Kind::Directory,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::Hard,
            b'2' => Kind::Symbolic,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            b'S' => {
                // The old GNU format: four pieces from byte 386, whether more of them follow, and the whole size.
                let whole = number(&block[483..495]).ok_or_else(|| odd("size"))?;
                Kind::Sparse(Vec::new(), whole)
            }
            _ => return Err(Error::entry(&path, "its kind is unknown")),
        };
        let has_data = matches!(kind, Kind::File | Kind::Sparse(..));
        let link = said.link.unwrap_or_else(|| until_nul(&block[157..257]).to_vec());
        if path.len() > LONGEST_NAME || link.len() > LONGEST_NAME {
            path.truncate(80);
            return Err(Error::entry(&path, "its name is longer than 4096 bytes"));
        }
        let id = |said: Option<u32>, field: &[u8]| {
            said.or_else(|| u32::try_from(number(field)?).ok()).ok_or_else(|| odd("owner"))
        };
        let mut entry = Box::new(Entry {
            kind,
            link,
            // Of a link, writers may give the size of what it leads to; no data follow.
            size: if has_data { size } else { 0 },
            mode: u32::try_from(number(&block[100..108]).unwrap_or(0) & 0o7777).unwrap_or(0),
            uid: id(said.uid, &block[108..116])?,
            gid: id(said.gid, &block[116..124])?,
            mtime: said.mtime.or_else(|| signed(&block[136..148])).unwrap_or(0),
            xattrs: said.xattrs,
            path,
        });
        if in_data {
            (self.open, self.map) = (Some(entry), Some(Map::default()));
            return Ok(Step::More);
        }
        if let (Kind::Sparse(pieces, _), b'S') = (&mut entry.kind, flag) {
            add_pieces(pieces, &block[386..482])?;
            if block[482] != 0 {
                self.open = Some(entry);
                return Ok(Step::More);
            }
        }
        whole(entry)
    }
}

impl Map {
    /// Takes a block; the pieces once all are there.
    fn take(&mut self, block: &[u8; BLOCK]) -> Result<Option<Vec<(u64, u64)>>> {
        for byte in block {
            if *byte != b'\n' {
                self.digits.push(*byte);
                // More than any number of 64 bits.
                if self.digits.len() > 20 {
                    return Err(odd("map of holes"));
                }
                continue;
            }
            let digits = std::mem::take(&mut self.digits);
            self.numbers.push(decimal(&digits).ok_or_else(|| odd("map of holes"))?);
            let count = self.numbers.first().copied().unwrap_or(0);
            if count > MOST_PIECES as u64 {
                return Err(Error::Archive(format!(
                    "a sparse file of more than {MOST_PIECES} pieces"
                )));
            }
            if self.numbers.len() as u64 > 2 * count {
                let pairs = self.numbers[1..].chunks_exact(2);
                return Ok(Some(pairs.map(|pair| (pair[0], pair[1])).collect()));
            }
        }
        Ok(None)
    }
}

/// A sparse entry whose map is whole: its pieces are in order, within the file, and as long as the data.
fn whole(entry: Box<Entry>) -> Result<Step> {
    if let Kind::Sparse(pieces, whole) = &entry.kind {
        let mut end = 0_u64;
        let mut sum = 0_u64;
        for (offset, length) in pieces {
            let next = offset.checked_add(*length).filter(|next| *offset >= end && next <= whole);
            end = next.ok_or_else(|| Error::entry(&entry.path, "its map of holes is wrong"))?;
            sum = sum.saturating_add(*length);
        }
        if sum != entry.size {
            return Err(Error::entry(&entry.path, "its map of holes does not fit its data"));
        }
    }
    Ok(Step::Entry(entry))
}

/// Adds the pieces of a part of a map: pairs of twelve digits, ended by an empty one.
fn add_pieces(pieces: &mut Vec<(u64, u64)>, map: &[u8]) -> Result<()> {
    for pair in map.chunks_exact(24) {
        if pair[0] == 0 {
            break;
        }
        let piece = number(&pair[..12]).zip(number(&pair[12..]));
        pieces.push(piece.ok_or_else(|| odd("map of holes"))?);
        if pieces.len() > MOST_PIECES {
            return Err(Error::Archive(format!("a sparse file of more than {MOST_PIECES} pieces")));
        }
    }
    Ok(())
}

impl Said {
    /// Reads records `LENGTH KEY=VALUE\n`.
    fn read(&mut self, mut text: &[u8]) -> Result<()> {
        let wrong = || Error::Archive("a pax header is wrong".into());
        while !text.is_empty() {
            let space = text.iter().position(|b| *b == b' ').ok_or_else(wrong)?;
            let length = decimal(&text[..space]).and_then(|n| usize::try_from(n).ok());
            let length = length.filter(|n| *n > space + 1 && *n <= text.len()).ok_or_else(wrong)?;
            let record = text[space + 1..length].strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|b| *b == b'=').ok_or_else(wrong)?;
            self.take(&record[..equals], &record[equals + 1..])?;
            text = &text[length..];
        }
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let id = |value: &[u8]| decimal(value).and_then(|n| u32::try_from(n).ok());
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(decimal(value).ok_or_else(|| odd("size"))?),
            b"uid" => self.uid = Some(id(value).ok_or_else(|| odd("owner"))?),
            b"gid" => self.gid = Some(id(value).ok_or_else(|| odd("owner"))?),
            b"mtime" => {
                let seconds = value.split(|b| *b == b'.').next().unwrap_or_default();
                self.mtime = std::str::from_utf8(seconds).ok().and_then(|text| text.parse().ok());
            }
            _ => {
                if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.get_or_insert_default().take(key, value)?;
                } else if let Some(name) = key.strip_prefix(b"SCHILY.xattr.")
                    && let Ok(name) = std::str::from_utf8(name)
                {
                    self.xattrs.push((name.to_owned(), value.to_vec()));
                }
            }
        }
        Ok(())
    }
}

impl Holes {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let number = |value: &[u8]| decimal(value).ok_or_else(|| odd("map of holes"));
        match key {
            b"major" => self.in_data = value != b"0",
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.whole = Some(number(value)?),
            b"offset" => self.offset = Some(number(value)?),
            b"numbytes" => {
                let offset = self.offset.take().ok_or_else(|| odd("map of holes"))?;
                self.pieces.push((offset, number(value)?));
            }
            b"map" => {
                let numbers: Vec<u64> =
                    value.split(|b| *b == b',').map(number).collect::<Result<_>>()?;
                self.pieces.extend(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])));
            }
            _ => {}
        }
        if self.pieces.len() > MOST_PIECES {
            return Err(Error::Archive(format!("a sparse file of more than {MOST_PIECES} pieces")));
        }
        Ok(())
    }
}

fn odd(what: &str) -> Error {
    Error::Archive(format!("the {what} of an entry is not a number"))
}

fn until_nul(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
    &field[..end]
}

fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

/// Octal digits with spaces around them, or a binary number behind a set bit.
fn number(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|b| b & 0x80 != 0) {
        // A negative one has all bits set.
        let fits = field[0] == 0x80 && field[1..].iter().rev().skip(8).all(|b| *b == 0);
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        return fits.then(|| field[1..].iter().fold(0, add));
    }
    let text = until_nul(field);
    let text = text.trim_ascii();
    if !text.iter().all(|b| (b'0'..=b'7').contains(b)) {
        return None;
    }
    text.iter()
        .try_fold(0_u64, |sum, digit| sum.checked_mul(8)?.checked_add(u64::from(digit - b'0')))
}

/// As [`number`], of a time, which may lie before 1970.
fn signed(field: &[u8]) -> Option<i64> {
    if field.first() == Some(&0xff) {
        let add = |sum: i64, byte: &u8| (sum << 8) | i64::from(*byte);
        return Some(field.iter().fold(-1, add));
    }
    i64::try_from(number(field)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(path: &str, flag: u8, size: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[100..107].copy_from_slice(b"0000755");
        block[108..115].copy_from_slice(b"0000041");
        block[116..123].copy_from_slice(b"0000042");
        block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
        block[136..147].copy_from_slice(b"00000000007");
        block[156] = flag;
        block[257..265].copy_from_slice(b"ustar\x0000");
        seal(block)
    }

    fn seal(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
        block[148..156].copy_from_slice(b"        ");
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    fn entry(tape: &mut Tape, block: &[u8; BLOCK]) -> Entry {
        match tape.block(block).unwrap() {
            Step::Entry(entry) => *entry,
            other => panic!("{other:?}"),
        }
    }

    /// A pax header with these records, then the entry.
    fn pax(records: &[(&str, &str)], size: u64) -> (Tape, Step) {
        let mut text = vec![];
        for (key, value) in records {
            let rest = format!(" {key}={value}\n");
            let mut length = rest.len() + 1;
            while length != rest.len() + length.to_string().len() {
                length = rest.len() + length.to_string().len();
            }
            text.extend(format!("{length}{rest}").into_bytes());
        }
        let mut tape = Tape::default();
        let step = tape.block(&header("PaxHeaders/x", b'x', text.len() as u64)).unwrap();
        assert_eq!(step, Step::Text(text.len() as u64));
        tape.text(&text).unwrap();
        let step = tape.block(&header("GNUSparseFile.0/x", b'0', size)).unwrap();
        (tape, step)
    }

    #[test]
    fn sparse_files_of_pax_have_their_holes() {
        let want = Kind::Sparse(vec![(0, 10), (100, 5)], 200);
        let name = ("GNU.sparse.name", "dir/x");
        // Format 0.0, 0.1, then 1.0, as GNU tar 1.34 writes them with --sparse-version.
        let pieces = [("offset", "0"), ("numbytes", "10"), ("offset", "100"), ("numbytes", "5")];
        let keys: Vec<(String, &str)> =
            pieces.iter().map(|(key, value)| (format!("GNU.sparse.{key}"), *value)).collect();
        let mut first = vec![("GNU.sparse.size", "200"), ("GNU.sparse.numblocks", "2")];
        first.extend(keys.iter().map(|(key, value)| (key.as_str(), *value)));
        let second = [("GNU.sparse.size", "200"), ("GNU.sparse.map", "0,10,100,5"), name];
        for (records, path) in [(&first[..], "GNUSparseFile.0/x"), (&second[..], "dir/x")] {
            let (_, Step::Entry(found)) = pax(records, 15) else { panic!("{records:?}") };
            assert_eq!((&found.kind, found.size), (&want, 15));
            assert_eq!(found.path, path.as_bytes());
        }
        let third = [
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.minor", "0"),
            name,
            ("GNU.sparse.realsize", "200"),
        ];
        let (mut tape, step) = pax(&third, 512 + 15);
        assert_eq!(step, Step::More);
        let mut map = [0; BLOCK];
        map[..13].copy_from_slice(b"2\n0\n10\n100\n5\n");
        let Step::Entry(found) = tape.more(&map).unwrap() else { panic!() };
        assert_eq!((found.kind, found.size, found.path.as_slice()), (want, 15, &b"dir/x"[..]));
        // A map that does not end, or has no numbers, is an error.
        let (mut tape, _) = pax(&third, 512 + 15);
        assert!(tape.more(&[b'1'; BLOCK]).is_err());
    }

    #[test]
    fn a_header_becomes_an_entry() {
        let found = entry(&mut Tape::default(), &header("etc/x", b'0', 5));
        assert_eq!((found.path.as_slice(), found.size, found.kind), (&b"etc/x"[..], 5, Kind::File));
        assert_eq!((found.mode, found.uid, found.gid, found.mtime), (0o755, 33, 34, 7));
        let mut block = header("x", b'0', 0);
        block[345..351].copy_from_slice(b"prefix");
        assert_eq!(entry(&mut Tape::default(), &seal(block)).path, b"prefix/x");
        assert_eq!(entry(&mut Tape::default(), &header("d/", 0, 0)).kind, Kind::Directory);
    }

    #[test]
    fn text_before_an_entry_is_about_it_alone() {
        let mut tape = Tape::default();
        let long = "n".repeat(300);
        assert_eq!(tape.block(&header("././@LongLink", b'L', 301)).unwrap(), Step::Text(301));
        tape.text(format!("{long}\0").as_bytes()).unwrap();
        assert_eq!(entry(&mut tape, &header("n", b'0', 1)).path, long.as_bytes());
        let records =
            [&b"uid=70000"[..], b"SCHILY.xattr.user.a=b\nc=d", b"size=8589934592", b"path=a=b\xff"];
        let text: Vec<u8> = records
            .iter()
            .flat_map(|record| {
                // All of these have a length of two digits, a space and a line's end.
                [format!("{} ", record.len() + 4).as_bytes(), record, b"\n"].concat()
            })
            .collect();
        assert!(matches!(tape.block(&header("p", b'x', 9)).unwrap(), Step::Text(9)));
        tape.text(&text).unwrap();
        let found = entry(&mut tape, &header("n", b'0', 1));
        assert_eq!(
            (found.uid, found.size, found.path.as_slice()),
            (70000, 8_589_934_592, &b"a=b\xff"[..])
        );
        assert_eq!(found.xattrs, [("user.a".to_owned(), b"b\nc=d".to_vec())]);
        let plain = entry(&mut tape, &header("n", b'0', 1));
        assert_eq!((plain.uid, plain.size, plain.xattrs.len()), (33, 1, 0));
    }

    #[test]
    fn holes_are_within_the_file() {
        let sparse = |pieces: &[(u64, u64)], whole: u64, size: u64| {
            let mut block = header("s", b'S', size);
            for (at, (offset, length)) in pieces.iter().enumerate() {
                let text = format!("{offset:011o}\0{length:011o}\0");
                block[386 + 24 * at..410 + 24 * at].copy_from_slice(text.as_bytes());
            }
            block[483..494].copy_from_slice(format!("{whole:011o}").as_bytes());
            Tape::default().block(&seal(block))
        };
        let Ok(Step::Entry(found)) = sparse(&[(0, 10), (100, 5)], 200, 15) else { panic!() };
        assert_eq!(found.kind, Kind::Sparse(vec![(0, 10), (100, 5)], 200));
        assert!(sparse(&[(0, 10), (5, 5)], 200, 15).is_err());
        assert!(sparse(&[(0, 10), (199, 5)], 200, 15).is_err());
        assert!(sparse(&[(0, 10)], 200, 15).is_err());
    }

    #[test]
    fn archives_end_by_zeros_and_wrong_blocks_are_refused() {
        let mut tape = Tape::default();
        let zeros = [0; BLOCK];
        assert_eq!(tape.block(&zeros).unwrap(), Step::Nothing);
        assert_eq!(tape.block(&zeros).unwrap(), Step::End);
        let mut broken = header("x", b'0', 1);
        broken[0] = b'y';
        assert!(Tape::default().block(&broken).is_err());
        assert!(Tape::default().block(&header("x", b'Z', 1)).is_err());
        let bomb = Tape::default().block(&header("x", b'x', MOST_TEXT + 1)).unwrap_err();
        assert!(bomb.to_string().contains("bytes of text"), "{bomb}");
        for text in [&b"x"[..], b"5", b"99 a=b\n", b"0 a=b\n", b"7 a=b\n", b"6 path\n"] {
            let mut tape = Tape::default();
            tape.block(&header("x", b'x', 9)).unwrap();
            assert!(tape.text(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn texts_about_one_entry_are_bounded_together() {
        let mut tape = Tape::default();
        for flag in [b'x', b'g', b'L', b'K'] {
            let part = header("x", flag, MOST_TEXT / 4);
            assert_eq!(tape.block(&part).unwrap(), Step::Text(MOST_TEXT / 4));
            tape.text(b"").unwrap();
        }
        let bomb = tape.block(&header("x", b'x', 1)).unwrap_err();
        assert!(bomb.to_string().contains("1048577 bytes of text"), "{bomb}");
        let mut tape = Tape::default();
        tape.block(&header("x", b'x', MOST_TEXT)).unwrap();
        tape.text(b"").unwrap();
        entry(&mut tape, &header("x", b'0', 0));
        assert_eq!(tape.block(&header("x", b'x', 1)).unwrap(), Step::Text(1));
    }

    #[test]
    fn padding_fills_the_block() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
        assert!(padding(u64::MAX) < 512);
    }
}
