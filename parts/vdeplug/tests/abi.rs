//! The plug-in as a program sees it: the file, its one symbol, and what its functions answer where
//! there is no switch. With switches and VDE programs it is tested in tests/peers.

use super::library;

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;
use std::ptr;

use library::{Library, plugin};
use netloom_kit::Run;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vdeplug_netloom::{Module, OpenArgs};

/// The functions, by the symbol that libvdeplug asks for.
fn ops() -> (Library, &'static Module) {
    let library = Library::open(&plugin()).expect("the plug-in loads");
    let found = library.symbol(c"vdeplug_ops").cast::<Module>().as_ptr();
    // SAFETY: the plug-in's table, which is constant; the plug-in stays loaded (the test below).
    (library, unsafe { &*found })
}

/// Opens; the connection or errno.
fn open(name: &CStr, version: c_int, args: Option<&OpenArgs>) -> Result<*mut c_void, Errno> {
    let (_library, ops) = ops();
    let args = args.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: strings and arguments live for the call.
    let conn = unsafe { (ops.open)(name.as_ptr(), c"test".as_ptr(), version, args) };
    if conn.is_null() { Err(last_error()) } else { Ok(conn.cast()) }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).expect("an errno")
}

fn args(port: c_int) -> OpenArgs {
    OpenArgs { port, group: ptr::null_mut(), mode: 0o700 }
}

fn name(path: &Path) -> CString {
    CString::new(path.to_str().expect("text")).expect("no zero byte")
}

#[test]
fn one_symbol_is_exported() {
    let listed = Run::new("/usr/bin/nm").args(["-D", "--defined-only"]).args([plugin()]).ok();
    let symbols: Vec<_> = listed.lines().filter_map(|l| l.split_whitespace().last()).collect();
    assert_eq!(symbols, ["vdeplug_ops"]);
}

#[test]
fn it_needs_the_c_library_only_and_stays_loaded() {
    let listed = Run::new("/usr/bin/readelf").args(["-W", "-d"]).args([plugin()]).ok();
    let needed = listed.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let known = ["libc.so", "libgcc_s.so", "ld-linux"].iter().any(|name| line.contains(name));
        assert!(known, "{line}");
    }
    assert!(listed.contains("NODELETE"), "{listed}");
}

#[test]
fn no_connection_is_a_bad_descriptor() {
    let (_library, ops) = ops();
    let mut byte = 0_u8;
    let at = (&raw mut byte).cast::<c_void>();
    let none = ptr::null_mut();
    // SAFETY: a null connection is what is tested; the buffer has one byte.
    assert_eq!((unsafe { (ops.receive)(none, at, 1, 0) }, last_error()), (-1, Errno::BADF));
    // SAFETY: as above.
    assert_eq!((unsafe { (ops.send)(none, at, 1, 0) }, last_error()), (-1, Errno::BADF));
    for ask in [ops.data_fd, ops.control_fd, ops.close] {
        // SAFETY: as above.
        assert_eq!((unsafe { ask(none) }, last_error()), (-1, Errno::BADF));
    }
}

#[test]
fn arguments_of_another_version_are_refused() {
    for version in [0, 2, -1] {
        assert_eq!(open(c"/no/such", version, Some(&args(0))), Err(Errno::INVAL));
        // Without arguments there is nothing to misunderstand.
        assert_eq!(open(c"/no/such", version, None), Err(Errno::NOENT));
    }
    assert_eq!(open(c"/no/such", 1, Some(&args(0))), Err(Errno::NOENT));
}

#[test]
fn what_is_wrong_with_a_name_is_told() {
    for wrong in [c"", c"a/b", c"s[300]", c"s?what=1", c"\xff\xfe"] {
        assert_eq!(open(wrong, 1, None), Err(Errno::INVAL), "{wrong:?}");
    }
    for port in [-1, 256, c_int::MAX] {
        assert_eq!(open(c"/no/such", 1, Some(&args(port))), Err(Errno::INVAL), "port {port}");
    }
    // SAFETY: null pointers are what is tested.
    let conn = unsafe { (ops().1.open)(ptr::null(), ptr::null(), 1, ptr::null()) };
    assert!(conn.is_null() && last_error() == Errno::INVAL);
}

#[test]
fn a_socket_that_nobody_listens_on_refuses() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("switch");
    let kind = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind.0, kind.1, None).expect("socket");
    let address = SocketAddrUnix::new(&path).expect("address");
    rustix::net::bind(&socket, &address).expect("bind");
    assert_eq!(open(&name(&path), 1, None), Err(Errno::CONNREFUSED));
    drop(socket);
    assert_eq!(open(&name(&path), 1, None), Err(Errno::CONNREFUSED));
}

#[test]
fn a_folder_that_one_may_not_enter_is_no_permission() {
    netloom_kit::ordinary_only!("root may enter every folder");
    let folder = tempfile::tempdir().expect("folder");
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).expect("folder");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&closed, mode(0)).expect("close it");
    assert_eq!(open(&name(&closed.join("switch")), 1, None), Err(Errno::ACCESS));
    std::fs::set_permissions(&closed, mode(0o700)).expect("open it again");
}
