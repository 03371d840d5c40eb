//! Compiles filter expressions (`man pcap-filter`) to programs.
//!
//! Compiled for complete Ethernet frames, as in a file: VLAN tags are looked for in the frame, and
//! `inbound`, `ifname` and other primitives that need a live interface are refused. libpcap looks
//! up host names in an expression in the calling thread's network namespace.

use std::ffi::{CStr, CString, c_int};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use netloom_filter::{Insn, Program};

use crate::library::{self, BpfProgram, ETHERNET, Functions, Header, NETMASK_UNKNOWN, Pcap};
use crate::{Error, Result};

/// Before 1.8 libpcap's compiler keeps its state in global variables.
static COMPILER: Mutex<()> = Mutex::new(());

/// A handle of libpcap, closed when dropped.
pub(crate) struct Handle {
    functions: &'static Functions,
    pcap: NonNull<Pcap>,
}

// SAFETY: libpcap keeps no thread-bound state in a handle. Only one thread at a time calls it
// (`Live` is not shared), except `pcap_breakloop`, which other threads may call.
unsafe impl Send for Handle {}
// SAFETY: through a shared handle other threads than the owner's call only `pcap_breakloop`.
unsafe impl Sync for Handle {}

impl Handle {
    /// Takes ownership of a handle; `None` if libpcap gave none.
    pub(crate) fn new(functions: &'static Functions, pcap: *mut Pcap) -> Option<Handle> {
        NonNull::new(pcap).map(|pcap| Handle { functions, pcap })
    }

    /// The raw handle, for calls of libpcap.
    pub(crate) fn as_ptr(&self) -> *mut Pcap {
        self.pcap.as_ptr()
    }

    pub(crate) fn functions(&self) -> &'static Functions {
        self.functions
    }

    /// libpcap's last error message.
    pub(crate) fn message(&self) -> String {
        // SAFETY: the handle is open; the text is inside it and ends in a zero byte.
        let text = unsafe { (self.functions.pcap_geterr)(self.as_ptr()) };
        // SAFETY: as above; it is copied before the next call.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: opened by libpcap, closed once.
        unsafe { (self.functions.pcap_close)(self.as_ptr()) }
    }
}

/// Code that libpcap compiled, freed when dropped.
pub(crate) struct Code {
    functions: &'static Functions,
    pub(crate) program: BpfProgram,
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: filled in by pcap_compile, freed once.
        unsafe { (self.functions.pcap_freecode)(&mut self.program) }
    }
}

impl Code {
    /// Compiles for a handle; the error is libpcap's message.
    pub(crate) fn compile(handle: &Handle, expression: &str) -> std::result::Result<Code, String> {
        Code::compile_as(handle, expression, 1)
    }

    /// The same, without libpcap's optimizer (0) or with it (1).
    fn compile_as(
        handle: &Handle,
        expression: &str,
        optimize: c_int,
    ) -> std::result::Result<Code, String> {
        let text = CString::new(expression).map_err(|_| "has a zero byte".to_owned())?;
        let functions = handle.functions();
        let mut program = BpfProgram { len: 0, insns: std::ptr::null_mut() };
        let one = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: an open handle, a struct to fill in, a text that ends in a zero byte; no other
        // thread compiles.
        let done = unsafe {
            (functions.pcap_compile)(
                handle.as_ptr(),
                &mut program,
                text.as_ptr(),
                optimize,
                NETMASK_UNKNOWN,
            )
        };
        drop(one);
        if done < 0 { Err(handle.message()) } else { Ok(Code { functions, program }) }
    }

    /// The same, but never a program in which libpcap took a protocol's name for protocol 0.
    pub(crate) fn compile_named(
        handle: &Handle,
        expression: &str,
    ) -> std::result::Result<Code, String> {
        let code = Code::compile(handle, expression)?;
        if names_protocol(expression) && !knows_protocols(handle) {
            return Err("libpcap finds no names of protocols, and would take them for protocol 0: install netbase, \
                        which has /etc/protocols, or write numbers (ip proto 6)"
                .to_owned());
        }
        Ok(code)
    }

    fn insns(&self) -> &[Insn] {
        let Ok(len) = usize::try_from(self.program.len) else { return &[] };
        if len == 0 || self.program.insns.is_null() {
            return &[];
        }
        // SAFETY: pcap_compile made as many instructions; they live until the code is dropped.
        unsafe { std::slice::from_raw_parts(self.program.insns, len) }
    }
}

/// Whether an expression gives an IP protocol by a name that libpcap looks up: `ip proto \tcp`, `proto ospf`.
fn names_protocol(expression: &str) -> bool {
    let mut before = "";
    let mut looked_up = false;
    for word in expression.split(separates).filter(|word| !word.is_empty()) {
        // Types of Ethernet are in libpcap itself.
        let protocol = matches!(before, "proto" | "protochain");
        looked_up |= protocol && !word.starts_with(|c: char| c.is_ascii_digit());
        before = if before == "ether" { "" } else { word };
    }
    // Further ones: `ip proto (6 or \udp)`.
    looked_up || (expression.contains('\\') && !expression.contains("ether"))
}

/// Whether libpcap's look-up of names works. libpcap 1.10.3 takes a name for protocol 0 where `getprotobyname_r` fails, as
/// it does on a minimal Debian, without /etc/protocols.
fn knows_protocols(handle: &Handle) -> bool {
    let [name, number] = ["ip proto \\tcp", "ip proto 6"].map(|e| Code::compile(handle, e).ok());
    name.zip(number).is_some_and(|(name, number)| name.insns() == number.insns())
}

/// Compiles an expression for Ethernet frames. Matching frames are kept up to `snaplen` bytes (at
/// least 1).
///
/// # Errors
///
/// [`Error::Expression`] with libpcap's message, [`Error::Filter`] for `protochain`, whose loops no
/// kernel accepts, [`Error::Unsupported`] without the library.
pub fn compile(expression: &str, snaplen: u32) -> Result<Program> {
    program(expression, &handle(snaplen)?)
}

/// [`compile`], for keeping no more than whether a frame matches, in a process on which others depend: within some
/// 0.3 s of a processor, and without asking anybody for a name. Those of `/etc/hosts`, `/etc/services` and the like are
/// known.
///
/// # Errors
/// As [`compile`]; the expression has more than [`MOST_WORDS`] words, or libpcap makes more than [`MOST_BOUNDED`]
/// instructions of it at first.
pub fn compile_bounded(expression: &str) -> Result<Program> {
    let wrong = |message: String| Error::Expression { expression: expression.to_owned(), message };
    let words = expression.split(separates).filter(|word| !word.is_empty()).count();
    if words > MOST_WORDS {
        return Err(wrong(format!("it has {words} words, of at most {MOST_WORDS}")));
    }
    let handle = handle(1)?;
    netloom_sys::seccomp::without_sockets(|| {
        // libpcap's optimizer takes a time that grows with the cube of the length.
        let first = Code::compile_as(&handle, expression, 0).map_err(&wrong)?;
        let length = first.insns().len();
        if length > MOST_BOUNDED {
            return Err(wrong(format!(
                "it takes {length} instructions, of at most {MOST_BOUNDED}: make it shorter, or name protocols \
                 (`tcp port 80` instead of `port 80`)"
            )));
        }
        program(expression, &handle)
    })?
    .map_err(explained)
}

/// Most words of an expression of [`compile_bounded`].
pub const MOST_WORDS: usize = 160;

/// Most instructions of it before they are optimized: as many as a kernel takes.
pub const MOST_BOUNDED: usize = 4096;

/// Names that are looked up elsewhere are unknown: what to write instead.
fn explained(error: Error) -> Error {
    match error {
        Error::Expression { expression, message } if message.starts_with("unknown host") => {
            let message = format!("{message}: write an address, or the name of a node");
            Error::Expression { expression, message }
        }
        other => other,
    }
}

fn handle(snaplen: u32) -> Result<Handle> {
    let functions = library::get()?;
    let snaplen = c_int::try_from(snaplen.max(1)).unwrap_or(c_int::MAX);
    // SAFETY: takes numbers and gives a new handle or null.
    let pcap = unsafe { (functions.pcap_open_dead)(ETHERNET, snaplen) };
    Handle::new(functions, pcap).ok_or(Error::Memory { operation: "open for compiling" })
}

fn program(expression: &str, handle: &Handle) -> Result<Program> {
    let code = Code::compile_named(handle, expression)
        .map_err(|message| Error::Expression { expression: expression.to_owned(), message })?;
    Program::new(code.insns().to_vec())
        .map_err(|source| Error::Filter { expression: expression.to_owned(), source })
}

/// Whether a character stands between words.
fn separates(c: char) -> bool {
    c.is_whitespace() || "()!&|".contains(c)
}

/// The verdict of libpcap's own interpreter on a frame: the bytes to keep, 0 for none. For
/// comparison; [`Program::run`] is faster.
///
/// # Errors
///
/// [`Error::Unsupported`] without the library.
pub fn offline_filter(program: &Program, frame: &[u8], original: u32) -> Result<u32> {
    let functions = library::get()?;
    let insns = program.insns();
    let code = BpfProgram {
        len: u32::try_from(insns.len()).unwrap_or(0),
        insns: insns.as_ptr().cast_mut(),
    };
    let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let captured = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let header = Header { time, captured, original };
    // SAFETY: the program was checked and is only read; the header has the frame's length.
    let kept = unsafe { (functions.pcap_offline_filter)(&code, &header, frame.as_ptr()) };
    Ok(kept.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::names_protocol;

    #[test]
    fn names_of_protocols_are_those_that_are_looked_up() {
        for named in
            ["ip proto \\tcp", "not (ip6 proto ospf)", "ip proto (6 or \\udp)", "proto gre"]
        {
            assert!(names_protocol(named), "{named}");
        }
        for other in [
            "tcp",
            "ip proto 6",
            "ether proto \\ip",
            "ether proto 0x88cc",
            "ip[9] = 6",
            "host proto",
        ] {
            assert!(!names_protocol(other), "{other}");
        }
    }
}
