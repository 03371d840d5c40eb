//! The command line and environment that a process shows in the process list.
//!
//! A process that was forked and never exec'd shows its parent's. [`set`] gives it its own: it
//! tells the kernel the address (prctl(2), PR_SET_MM_MAP, which needs no privilege), so any length
//! fits and the parent's arguments and environment stay intact. On a kernel without this call (no
//! CONFIG_CHECKPOINT_RESTORE) the title overwrites the old one, cut to its length.

use std::fs;

/// `PR_SET_MM_MAP` of linux/prctl.h.
const PR_SET_MM_MAP: libc::c_ulong = 14;

/// `struct prctl_mm_map` of linux/prctl.h.
#[repr(C)]
struct MemoryMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: *mut u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Shows `title` as this process's command line from now on. Only cosmetic: if the kernel refuses,
/// the old one stays.
pub fn set(title: &str) {
    show(title, None);
}

/// The same for a process visible to others than its creator's: of the environment only these
/// variables stay visible. If the kernel refuses, the whole environment stays visible.
pub fn set_with_only(title: &str, variables: &[&str]) {
    let shown = variables.iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        Some([name.as_bytes(), b"=", value.as_encoded_bytes(), b"\0"].concat())
    });
    show(title, Some(shown.collect::<Vec<_>>().concat()));
}

fn show(title: &str, environment: Option<Vec<u8>>) {
    let Some(mut map) = fs::read_to_string("/proc/self/stat").ok().and_then(|s| parse(&s)) else {
        return;
    };
    let mut line = title.replace('\0', " ").into_bytes();
    line.push(0);
    let old = (map.arg_start, map.arg_end);
    // The kernel reads it for the rest of the process's life.
    let line: &'static mut [u8] = line.leak();
    map.arg_start = line.as_ptr() as u64;
    map.arg_end = map.arg_start + line.len() as u64;
    if let Some(mut shown) = environment {
        map.env_end = shown.len() as u64;
        // An empty buffer has no address.
        shown.push(0);
        let shown: &'static mut [u8] = shown.leak();
        map.env_start = shown.as_ptr() as u64;
        map.env_end += map.env_start;
    }
    if !tell(&map) {
        overwrite(old, line);
    }
}

/// Tells the kernel the address ranges of this process's memory.
fn tell(map: &MemoryMap) -> bool {
    let size = std::mem::size_of::<MemoryMap>();
    let at = std::ptr::from_ref(map);
    // SAFETY: the kernel reads `size` bytes of the structure, which outlives the call, and changes
    // only what it shows of this process: all addresses but those of arguments and environment are
    // the kernel's own figures, and none of the process's memory is touched.
    unsafe { libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP, at, size, 0) == 0 }
}

/// Overwrites the old command line, as far as there is room.
fn overwrite((start, end): (u64, u64), line: &[u8]) {
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { return };
    let room = end.saturating_sub(start);
    if start == 0 || room == 0 || crate::process::has_one_thread().is_err() {
        return;
    }
    let text = &line[..line.len().min(room) - 1];
    let old = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel said that the arguments occupy these `room` bytes of the stack, which are
    // writable, and no other thread can read them meanwhile. The last byte is 0, so that a later
    // reader of an argument finds its end.
    let arguments = unsafe { std::slice::from_raw_parts_mut(old, room) };
    arguments.fill(0);
    arguments[..text.len()].copy_from_slice(text);
}

/// The memory layout in `/proc/self/stat` (proc_pid_stat(5)); the arguments are still the old ones.
fn parse(stat: &str) -> Option<MemoryMap> {
    let (_, tail) = stat.rsplit_once(')')?;
    // The first field after the name is field three.
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some(MemoryMap {
        start_code: field(26)?,
        end_code: field(27)?,
        start_data: field(45)?,
        end_data: field(46)?,
        start_brk: field(47)?,
        brk: program_break(),
        start_stack: field(28)?,
        arg_start: field(48)?,
        arg_end: field(49)?,
        env_start: field(50)?,
        env_end: field(51)?,
        auxv: std::ptr::null_mut(),
        auxv_size: 0,
        exe_fd: u32::MAX,
    })
}

/// The current end of the heap.
fn program_break() -> u64 {
    // SAFETY: an address below the heap moves nothing: the kernel only returns the current end.
    let end = unsafe { libc::syscall(libc::SYS_brk, 0) };
    u64::try_from(end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_manual_page() {
        let numbers: Vec<String> = (4..=52).map(|n: u32| n.to_string()).collect();
        let map = parse(&format!("7 (a) b) S {}", numbers.join(" "))).unwrap();
        assert_eq!((map.start_code, map.end_code, map.start_stack), (26, 27, 28));
        assert_eq!((map.start_data, map.end_data, map.start_brk), (45, 46, 47));
        assert_eq!((map.arg_start, map.arg_end), (48, 49));
        assert_eq!((map.env_start, map.env_end), (50, 51));
        assert!(parse("7 (a) S 1 2").is_none());
    }
}
