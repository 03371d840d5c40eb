//! Sections of 64-bit little-endian ELF files, by name. Specification: ELF-64 Object File Format.

/// Whether these bytes begin as an ELF file.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The content of a section.
pub(crate) fn section<'a>(file: &'a [u8], name: &str) -> Option<&'a [u8]> {
    // ELFCLASS64, ELFDATA2LSB.
    if !is_elf(file) || file.get(4..6)? != [2, 1] {
        return None;
    }
    let headers = usize::try_from(u64::from_le_bytes(*file.get(0x28..)?.first_chunk()?)).ok()?;
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(*file.get(at..)?.first_chunk()?)));
    // `e_shentsize`, `e_shnum`, `e_shstrndx`; `e_shoff` is at 0x28.
    let (size, count, names) = (half(0x3a)?, half(0x3c)?, half(0x3e)?);
    let header = |number: usize| file.get(headers.checked_add(number.checked_mul(size)?)?..);
    let names = content(file, header(names)?)?;
    (0..count).find_map(|number| {
        let header = header(number)?;
        let at = u32::from_le_bytes(*header.first_chunk()?) as usize;
        let own = names.get(at..)?.split(|byte| *byte == 0).next()?;
        (own == name.as_bytes()).then(|| content(file, header))?
    })
}

/// What a section's header describes.
fn content<'a>(file: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let long = |at: usize| -> Option<usize> {
        usize::try_from(u64::from_le_bytes(*header.get(at..)?.first_chunk()?)).ok()
    };
    // `sh_offset`, then `sh_size`.
    let begin = long(0x18)?;
    file.get(begin..begin.checked_add(long(0x20)?)?)
}
