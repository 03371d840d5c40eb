//! The command line that a process shows in the process list, and the environment.
//!
//! A process that was forked and never exec'd shows its maker's. [`set`] gives it one of its own: the
//! kernel is told where it lies (prctl(2), PR_SET_MM_MAP, which needs no privilege), so that any length
//! fits and the maker's arguments and environment stay as they are. A kernel without that (no
//! CONFIG_CHECKPOINT_RESTORE) gets it in the place of the old one, cut to its length.

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

/// Shows `title` as this process's command line from now on. Only cosmetic: a kernel that refuses it leaves
/// the old one.
pub fn set(title: &str) {
    show(title, None);
}

/// The same for a process that is seen by others than its maker's: of the environment nothing is shown any
/// more but these variables. A kernel that refuses the rest shows it as before.
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
    // The kernel reads it for as long as the process lives.
    let line: &'static mut [u8] = line.leak();
    map.arg_start = line.as_ptr() as u64;
    map.arg_end = map.arg_start + line.len() as u64;
    if let Some(mut shown) = environment {
        map.env_end = shown.len() as u64;
        // What is empty has no address.
        shown.push(0);
        let shown: &'static mut [u8] = shown.leak();
        map.env_start = shown.as_ptr() as u64;
        map.env_end += map.env_start;
    }
    if !tell(&map) {
        overwrite(old, line);
    }
}

/// Tells the kernel where the parts of this process's memory lie.
fn tell(map: &MemoryMap) -> bool {
    let size = std::mem::size_of::<MemoryMap>();
    let at = std::ptr::from_ref(map);
    // SAFETY: the kernel reads `size` bytes of the structure, which outlives the call, and changes only
    // what it shows of this process: all addresses but those of arguments and environment are as it told them, and
    // nothing of the process's own memory is touched.
    unsafe { libc::prctl(libc::PR_SET_MM, PR_SET_MM_MAP, at, size, 0) == 0 }
}

/// Writes a command line over the old one, as far as there is room.
fn overwrite((start, end): (u64, u64), line: &[u8]) {
    let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else { return };
    let room = end.saturating_sub(start);
    if start == 0 || room == 0 || crate::process::has_one_thread().is_err() {
        return;
    }
    let text = &line[..line.len().min(room) - 1];
    let old = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel said that the arguments lie in these `room` bytes of the stack, which are
    // writable, and that there is no other thread that could read them meanwhile. The last byte is 0, so
    // that whoever reads an argument later finds its end.
    let arguments = unsafe { std::slice::from_raw_parts_mut(old, room) };
    arguments.fill(0);
    arguments[..text.len()].copy_from_slice(text);
}

/// What `/proc/self/stat` says of the memory (proc_pid_stat(5)); the arguments are still the old ones.
fn parse(stat: &str) -> Option<MemoryMap> {
    let (_, tail) = stat.rsplit_once(')')?;
    // The first field after the name is the third.
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

/// Where the heap ends now.
fn program_break() -> u64 {
    // SAFETY: an address below the heap moves nothing: the kernel only tells where its end is.
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
