//! Strangers' folders, links and exchanges, and whole files and trees.

use std::fs::{self, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use netloom_kit::{needs, root_only};
use rustix::fs::{CWD, RenameFlags};

use super::*;

/// `daemon`, who is a stranger to root and to `nobody`.
const STRANGER: u32 = 1;

fn refused(path: &Path) -> String {
    let error = TrustedDir::open(path).expect_err("it is not trusted");
    assert!(matches!(error, Error::Untrusted { .. }), "{error:?}");
    error.to_string()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set the mode");
}

#[test]
fn what_is_not_there_is_none_and_can_be_made() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("a/b");
    assert!(TrustedDir::open(&path).unwrap().is_none());
    assert!(!base.path().join("a").exists(), "looking makes nothing");
    let (made, new) = TrustedDir::make(&path).unwrap();
    assert!(new && made.path() == path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(!TrustedDir::make(&path).unwrap().1);
    assert!(TrustedDir::open(&path).unwrap().is_some());
}

#[test]
fn others_may_not_write_on_the_path_or_at_its_end() {
    let base = tempfile::tempdir().unwrap();
    let (above, path) = (base.path().join("above"), base.path().join("above/at"));
    fs::create_dir_all(&path).unwrap();
    assert!(TrustedDir::open(&path).unwrap().is_some());
    for open in [0o770, 0o707, 0o1777] {
        mode(&path, open);
        let words = refused(&path);
        assert!(words.contains(&format!("(mode {open:04o}); chmod go-w it")), "{words}");
    }
    mode(&path, 0o755);
    for open in [0o770, 0o777] {
        mode(&above, open);
        assert!(refused(&path).starts_with(&format!("{above:?}: others may write")));
    }
    // Nobody but the owner of an entry moves it there.
    mode(&above, 0o1777);
    assert!(TrustedDir::open(&path).unwrap().is_some());
}

#[test]
fn folders_and_links_of_strangers_are_refused_and_named() {
    root_only!("only root gives a folder away");
    let base = tempfile::tempdir().unwrap();
    let (above, path) = (base.path().join("above"), base.path().join("above/at"));
    fs::create_dir_all(&path).unwrap();
    chown(&path, Some(STRANGER), None).unwrap();
    assert_eq!(
        refused(&path),
        format!("{path:?}: it is a folder of user 1, who can put anything there")
    );
    chown(&path, Some(0), None).unwrap();
    chown(&above, Some(STRANGER), None).unwrap();
    let words = format!("{above:?}: it is a folder of user 1, who can exchange what is in it");
    assert_eq!(refused(&path), words);
    // An absent object could be made there by somebody else.
    assert_eq!(refused(&above.join("new")), words);
    chown(&above, Some(0), None).unwrap();
    let link = base.path().join("link");
    symlink(&above, &link).unwrap();
    assert!(TrustedDir::open(&link.join("at")).unwrap().is_some());
    std::os::unix::fs::lchown(&link, Some(STRANGER), None).unwrap();
    let words = "it is a symbolic link of user 1, who can change where it leads";
    assert_eq!(refused(&link.join("at")), format!("{link:?}: {words}"));
}

#[test]
fn links_are_followed_above_and_never_at_the_end() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir_all(base.path().join("there/lab")).unwrap();
    symlink("there", base.path().join("near")).unwrap();
    symlink(base.path().join("near"), base.path().join("far")).unwrap();
    symlink("round", base.path().join("round")).unwrap();
    let found = TrustedDir::open(&base.path().join("far/lab/../lab")).unwrap();
    assert!(found.is_some_and(|dir| dir.entries().unwrap().is_empty()));
    assert!(refused(&base.path().join("near")).contains("it is a symbolic link, which"));
    let round = TrustedDir::open(&base.path().join("round/x")).unwrap_err();
    assert_eq!(round.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    fs::write(base.path().join("file"), "").unwrap();
    for path in ["file", "file/x"] {
        assert!(refused(&base.path().join(path)).ends_with("it is not a folder"));
    }
}

#[test]
fn no_name_in_it_leads_elsewhere() {
    let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = TrustedDir::open(base.path()).unwrap().unwrap();
    let precious = elsewhere.path().join("precious");
    fs::write(&precious, "kept").unwrap();
    for name in ["state", "state.new", "lock"] {
        symlink(&precious, base.path().join(name)).unwrap();
    }
    symlink(elsewhere.path(), base.path().join("n")).unwrap();
    rustix::fs::mkfifoat(CWD, base.path().join("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    assert_eq!(dir.read("state").unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
    assert!(dir.read("fifo").unwrap_err().raw_os_error().is_none());
    dir.write("state", b"new").unwrap_err();
    dir.open_file("lock", OFlags::WRONLY | OFlags::CREATE).unwrap_err();
    dir.open_file("fifo", OFlags::WRONLY).unwrap_err();
    assert!(matches!(dir.dir("n"), Err(Error::Untrusted { .. })));
    assert!(matches!(dir.make_dir("n"), Err(Error::Untrusted { .. })));
    for name in ["..", ".", "", "n/precious", "/"] {
        dir.read(name).unwrap_err();
        dir.remove_all(name).unwrap_err();
        assert!(dir.dir(name).is_err() && !dir.has(name));
    }
    for name in ["state", "state.new", "lock", "n", "fifo"] {
        dir.remove_all(name).unwrap();
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
    assert!(dir.entries().unwrap().is_empty());
}

#[test]
fn a_file_is_written_whole_and_read_again() {
    let base = tempfile::tempdir().unwrap();
    let dir = TrustedDir::open(base.path()).unwrap().unwrap();
    assert!(dir.read("a").unwrap().is_none());
    dir.write("a", b"one").unwrap();
    assert!(dir.link("a", "first").unwrap() && !dir.link("a", "first").unwrap());
    dir.write("a", b"two").unwrap();
    assert_eq!(dir.read("a").unwrap().as_deref(), Some(&b"two"[..]));
    assert_eq!(dir.read("first").unwrap().as_deref(), Some(&b"one"[..]));
    // One that is too long takes no memory.
    let long = File::options().write(true).open(dir.path_of("first")).unwrap();
    long.set_len(MOST_CONTENT + 1).unwrap();
    let refused = crate::describe(&dir.read("first").unwrap_err());
    assert!(refused.ends_with("first\": read: it is longer than 256 MiB"), "{refused}");
    let file = dir.open_file("a", OFlags::RDONLY).unwrap();
    assert!(dir.is("a", &file) && !dir.is("first", &file));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(dir.remove_file("a").unwrap() && !dir.remove_file("a").unwrap());
    assert_eq!(dir.entries().unwrap(), [("first".into(), FileType::RegularFile)]);
}

#[test]
fn a_tree_of_any_depth_goes_and_links_in_it_stay_links() {
    let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(elsewhere.path().join("precious"), "kept").unwrap();
    let dir = TrustedDir::open(base.path()).unwrap().unwrap();
    // Deeper than descriptors may be open, and longer than a path may be.
    let mut at = dir.make_dir("tree").unwrap();
    for depth in 0..1200 {
        if depth % 500 == 0 {
            symlink(elsewhere.path(), format!("/proc/self/fd/{}/out", at.fd.as_raw_fd())).unwrap();
            fs::write(format!("/proc/self/fd/{}/file", at.fd.as_raw_fd()), "").unwrap();
        }
        at = at.make_dir("deeper").unwrap();
    }
    drop(at);
    // One that its owner has closed to himself, within another.
    fs::create_dir_all(base.path().join("closed/inner/most")).unwrap();
    mode(&base.path().join("closed/inner"), 0);
    mode(&base.path().join("closed"), 0o500);
    for name in ["tree", "closed", "none"] {
        dir.remove_all(name).unwrap();
    }
    assert!(dir.entries().unwrap().is_empty());
    assert_eq!(fs::read_to_string(elsewhere.path().join("precious")).unwrap(), "kept");
}

#[test]
fn a_folder_exchanged_for_a_link_while_it_is_removed_leads_to_nothing() {
    let (base, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let precious = elsewhere.path().join("precious");
    fs::create_dir_all(&precious).unwrap();
    fs::write(precious.join("file"), "kept").unwrap();
    let dir = TrustedDir::open(base.path()).unwrap().unwrap();
    let (lab, link) = (base.path().join("lab"), base.path().join("link"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &lab, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..netloom_kit::rounds(200) {
            let _ = fs::create_dir_all(lab.join("inner/most"));
            let _ = symlink(elsewhere.path(), &link);
            // Which of the two it finds is chance; it may see the other one at any step.
            let _ = dir.remove_all("lab");
            if let Ok(Some(found)) = dir.dir("lab") {
                let _ = found.remove_all("precious");
            }
            assert!(precious.join("file").exists());
        }
        done.store(true, Ordering::Relaxed);
    });
    netloom_kit::done("exchanges of a folder and a link", netloom_kit::rounds(200));
    for name in ["lab", "link"] {
        dir.remove_all(name).unwrap();
    }
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "kept");
}

/// A file system whose only directory is said to be this process's own, until it is unmounted.
fn serve(requests: OwnedFd, asked: u32) {
    const GETATTR: u32 = 3;
    const STATFS: u32 = 17;
    const INIT: u32 = 26;
    let mut request = vec![0; 64 << 10];
    while let Ok(length) = rustix::io::read(&requests, &mut request) {
        assert!(length >= 40, "a header has 40 bytes");
        let word = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        let answer: Vec<u32> = match word(4) {
            // Version 7.31, and no wishes.
            INIT => [7, 31].into_iter().chain([0; 14]).collect(),
            GETATTR => {
                let owner = rustix::process::geteuid().as_raw();
                let (number, rest) = ([0, 0, 0, 0, 1], [0; 14]);
                let kind = [0o40700, 2, owner, 0, 0, 4096, 0];
                number.into_iter().chain(rest).chain(kind).collect()
            }
            STATFS if asked == 0 => vec![0; 20],
            _ => vec![],
        };
        let error = if answer.is_empty() { -Errno::NOSYS.raw_os_error() } else { 0 };
        let body: Vec<u8> = answer.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut whole = u32::try_from(16 + body.len()).unwrap().to_le_bytes().to_vec();
        whole.extend(error.to_le_bytes());
        whole.extend_from_slice(&request[8..16]);
        whole.extend(body);
        let _ = rustix::io::write(&requests, &whole);
    }
}

#[test]
fn a_file_system_that_a_stranger_serves_is_not_believed() {
    root_only!("mounts a file system for somebody else");
    needs!("fuse");
    for (user, statfs) in [(STRANGER, 0), (STRANGER, 1), (0, 0)] {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("labs");
        fs::create_dir(&path).unwrap();
        let opened = std::thread::scope(|scope| {
            let mounted = scope.spawn(|| {
                crate::namespace::private_mounts().unwrap();
                let requests =
                    fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
                let fd = requests.as_raw_fd();
                let options =
                    format!("fd={fd},rootmode=40000,user_id={user},group_id={user},allow_other");
                let options = std::ffi::CString::new(options).unwrap();
                let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
                rustix::mount::mount("x", &path, "fuse", flags, Some(options.as_c_str())).unwrap();
                let server = scope.spawn(move || serve(requests.into(), statfs));
                // Even to itself it is this user's, and nobody else's to write to.
                let found = fs::metadata(&path).unwrap();
                let mode = found.permissions().mode() & 0o7777;
                let seen = (found.st_uid(), mode);
                let opened = TrustedDir::open(&path).map(|found| found.is_some());
                rustix::mount::unmount(&path, rustix::mount::UnmountFlags::DETACH).unwrap();
                server.join().unwrap();
                (seen, opened)
            });
            mounted.join().unwrap()
        });
        let (seen, opened) = opened;
        assert_eq!(seen, (rustix::process::geteuid().as_raw(), 0o700));
        match (user, statfs) {
            (0, _) => assert!(opened.unwrap()),
            (_, 0) => {
                let why = "it is on a file system that user 1 serves, who can put anything there";
                assert_eq!(opened.unwrap_err().to_string(), format!("{path:?}: {why}"));
            }
            (..) => {
                assert_eq!(opened.unwrap_err().raw_os_error(), Some(Errno::NOSYS.raw_os_error()))
            }
        }
    }
}

#[test]
fn links_of_proc_are_not_followed() {
    let base = tempfile::tempdir().unwrap();
    fs::create_dir(base.path().join("labs")).unwrap();
    let folder = fs::File::open(base.path()).unwrap();
    let path = format!("/proc/{}/fd/{}/labs", std::process::id(), folder.as_raw_fd());
    assert!(refused(Path::new(&path)).contains("it is a link of /proc, which leads elsewhere"));
}
