//! The library's functions, resolved on first use.
//!
//! Signatures are those of `pcap/pcap.h` and `pcap/bpf.h`, unchanged since libpcap 1.5. The library is
//! never closed, so the functions live as long as the process.

use std::ffi::{c_char, c_int, c_uchar, c_uint};
use std::sync::OnceLock;

use netloom_filter::Insn;
use netloom_sys::Unsupported;

/// `DLT_EN10MB`.
pub(crate) const ETHERNET: c_int = 1;
/// `PCAP_NETMASK_UNKNOWN`.
pub(crate) const NETMASK_UNKNOWN: c_uint = 0xffff_ffff;
/// `PCAP_ERRBUF_SIZE`.
pub(crate) const ERROR_LEN: usize = 256;
/// `PCAP_TSTAMP_PRECISION_NANO`.
pub(crate) const NANO: c_int = 1;

/// `pcap_t`.
#[repr(C)]
pub(crate) struct Pcap {
    opaque: [u8; 0],
}

/// `struct bpf_program`; [`Insn`] is `struct bpf_insn`.
#[repr(C)]
pub(crate) struct BpfProgram {
    pub(crate) len: c_uint,
    pub(crate) insns: *mut Insn,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) time: libc::timeval,
    pub(crate) captured: u32,
    pub(crate) original: u32,
}

/// `struct pcap_stat`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Stat {
    pub(crate) received: c_uint,
    pub(crate) dropped: c_uint,
    pub(crate) interface_dropped: c_uint,
}

/// `pcap_handler`.
pub(crate) type Handler = unsafe extern "C" fn(*mut c_uchar, *const Header, *const c_uchar);

/// File names of the library: since 1.0 on most systems, and on Debian.
const NAMES: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions used, each under its own name.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: &libloading::Library) -> std::result::Result<Self, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the signature is that of libpcap's headers.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }?,)*
                })
            }
        }
    };
}

functions! {
    pcap_lib_version: fn() -> *const c_char;
    pcap_open_dead: fn(c_int, c_int) -> *mut Pcap;
    pcap_create: fn(*const c_char, *mut c_char) -> *mut Pcap;
    pcap_set_snaplen: fn(*mut Pcap, c_int) -> c_int;
    pcap_set_promisc: fn(*mut Pcap, c_int) -> c_int;
    pcap_set_timeout: fn(*mut Pcap, c_int) -> c_int;
    pcap_set_immediate_mode: fn(*mut Pcap, c_int) -> c_int;
    pcap_set_buffer_size: fn(*mut Pcap, c_int) -> c_int;
    pcap_set_tstamp_precision: fn(*mut Pcap, c_int) -> c_int;
    pcap_get_tstamp_precision: fn(*mut Pcap) -> c_int;
    pcap_activate: fn(*mut Pcap) -> c_int;
    pcap_datalink: fn(*mut Pcap) -> c_int;
    pcap_compile: fn(*mut Pcap, *mut BpfProgram, *const c_char, c_int, c_uint) -> c_int;
    pcap_setfilter: fn(*mut Pcap, *mut BpfProgram) -> c_int;
    pcap_freecode: fn(*mut BpfProgram);
    pcap_offline_filter: fn(*const BpfProgram, *const Header, *const c_uchar) -> c_int;
    pcap_dispatch: fn(*mut Pcap, c_int, Handler, *mut c_uchar) -> c_int;
    pcap_breakloop: fn(*mut Pcap);
    pcap_stats: fn(*mut Pcap, *mut Stat) -> c_int;
    pcap_geterr: fn(*mut Pcap) -> *const c_char;
    pcap_statustostr: fn(c_int) -> *const c_char;
    pcap_close: fn(*mut Pcap);
}

/// The library, opened by the first caller.
pub(crate) fn get() -> std::result::Result<&'static Functions, Unsupported> {
    static LIBRARY: OnceLock<std::result::Result<Functions, Unsupported>> = OnceLock::new();
    LIBRARY.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> std::result::Result<Functions, Unsupported> {
    // A library of the system brings the system's C library, beside the one that is linked in here.
    if cfg!(target_feature = "crt-static") {
        return Err(Unsupported {
            feature: "libpcap",
            reason: "this netloom is linked statically, and loads no libraries".to_owned(),
            needs: "use the netloom of a deb, an rpm or the other tarball".to_owned(),
        });
    }
    let mut reason = String::new();
    for name in NAMES {
        // SAFETY: libpcap's initialisers have no effect visible to other code.
        match unsafe { libloading::Library::new(name) } {
            Ok(library) => {
                let functions = Functions::find(&library).map_err(|e| missing(e.to_string()))?;
                std::mem::forget(library);
                return Ok(functions);
            }
            Err(e) => reason = e.to_string(),
        }
    }
    Err(missing(reason))
}

fn missing(reason: String) -> Unsupported {
    Unsupported {
        feature: "libpcap",
        reason,
        needs: "install the package libpcap0.8 (Debian, Ubuntu) or libpcap (others)".to_owned(),
    }
}
