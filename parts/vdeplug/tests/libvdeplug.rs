//! The plug-in under the real libvdeplug: found by its name, and its errors come through.
//!
//! One test only: it sets the variable by which libvdeplug finds plug-ins.

use super::library;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use library::{Library, plugin};
use rustix::io::Errno;

type Open = unsafe extern "C" fn(*mut c_char, *mut c_char, c_int, *mut c_void) -> *mut c_void;

/// Opens a name that cannot be opened; errno.
fn refused(open: Open, name: &CStr) -> Errno {
    let (name, about) = (name.to_owned().into_raw(), c"test".to_owned().into_raw());
    // SAFETY: strings of our own, writable and alive; no arguments.
    let conn = unsafe { open(name, about, 1, ptr::null_mut()) };
    let error = Errno::from_io_error(&std::io::Error::last_os_error());
    for text in [name, about] {
        // SAFETY: of `into_raw` above, and libvdeplug keeps copies only.
        drop(unsafe { std::ffi::CString::from_raw(text) });
    }
    assert!(conn.is_null());
    error.expect("an errno")
}

#[test]
fn it_is_found_by_its_name_and_says_what_is_wrong() {
    netloom_kit::needs!("libvdeplug");
    let real = Library::open(Path::new("libvdeplug.so.2")).expect("the loader has found it");
    let plugin = plugin();
    let folder = plugin.parent().expect("a folder");
    // SAFETY: this executable has one test, and libvdeplug reads the variable in its thread only.
    unsafe { std::env::set_var("VDEPLUGIN_PATH", folder) };
    let symbol = real.symbol(c"vde_open_real").as_ptr();
    // SAFETY: the symbol is a function of this type (libvdeplug.h).
    let open: Open = unsafe { std::mem::transmute(symbol) };
    assert_eq!(refused(open, c"netloom:///no/such/switch"), Errno::NOENT);
    assert_eq!(refused(open, c"netloom:///no/such/switch[7]"), Errno::NOENT);
    assert_eq!(refused(open, c"netloom://"), Errno::INVAL);
    // Again, since the plug-in was closed and stays loaded.
    assert_eq!(refused(open, c"netloom://no-such-lab.switch"), Errno::NOENT);
    assert_eq!(refused(open, c"nosuchplugin://x"), Errno::PROTONOSUPPORT, "not by another way");
}
