//! Loading shared libraries, and where the plug-in that is tested lies.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// A loaded library; closed when dropped.
pub(crate) struct Library(NonNull<c_void>);

impl Library {
    /// Loads it as libvdeplug loads its plug-ins; `None` when there is none.
    pub(crate) fn open(path: &Path) -> Option<Library> {
        let name = CString::new(path.as_os_str().as_bytes()).expect("no zero byte");
        // SAFETY: the name is a string; what is loaded has no constructors but those of Rust and C.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_DEEPBIND) };
        NonNull::new(handle).map(Library)
    }

    /// The address of a symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> NonNull<c_void> {
        // SAFETY: the library is loaded as long as this value is.
        let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(found).unwrap_or_else(|| panic!("{name:?}: {}", reason()))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: loaded once by `open`, closed once.
        let closed = unsafe { libc::dlclose(self.0.as_ptr()) };
        assert_eq!(closed, 0, "close a library");
    }
}

/// What dlopen(3) or dlsym(3) said.
fn reason() -> String {
    // SAFETY: null, or a string of the C library's that stays until the thread's next such call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The plug-in: where `cargo xtask test` has put it, or where cargo builds it beside tests.
pub(crate) fn plugin() -> PathBuf {
    if let Some(path) = std::env::var_os("NETLOOM_VDEPLUG") {
        return path.into();
    }
    let own = std::env::current_exe().expect("own path");
    let places = own.ancestors().skip(1).take(2).map(|at| at.join("libvdeplug_netloom.so"));
    places.into_iter().find(|path| path.is_file()).expect("the plug-in is built with its tests")
}
