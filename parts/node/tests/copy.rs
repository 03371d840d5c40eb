//! Copies between this process and a directory that stands for a node's root.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use netloom_kit::{root_only, skip};
use netloom_node::copy::{Bounds, Summary, into_node, open_root, out_of_node};
use netloom_node::{Error, Result};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};

/// A node's root, and a folder of the caller's beside it.
struct World {
    dir: tempfile::TempDir,
    root: OwnedFd,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        for name in ["node", "node/etc", "node/tmp", "host"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(dir.path().join("node"), flags, Mode::empty()).unwrap();
        World { dir, root }
    }

    fn node(&self, path: &str) -> PathBuf {
        self.dir.path().join("node").join(path)
    }

    fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join("host").join(path)
    }

    fn copy_in(&self, source: &str, destination: &str) -> Result<Summary> {
        let bounds = Bounds::default();
        into_node(self.root.as_fd(), &self.host(source), destination, bounds)
    }

    fn copy_out(&self, source: &str, destination: &str) -> Result<Summary> {
        self.copy_out_within(source, destination, Bounds::default())
    }

    fn copy_out_within(
        &self,
        source: &str,
        destination: &str,
        bounds: Bounds<'_>,
    ) -> Result<Summary> {
        out_of_node(self.root.as_fd(), source, &self.host(destination), bounds)
    }

    fn all(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(self.dir.path(), self.dir.path(), &mut found);
        found.sort();
        found
    }
}

fn list(base: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(base).unwrap().to_str().unwrap().to_owned());
        if path.is_dir() && !path.is_symlink() {
            list(base, &path, found);
        }
    }
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The failure with its cause, as it is printed.
fn why(result: Result<Summary>) -> String {
    let error = result.expect_err("the copy is refused");
    assert!(matches!(error, Error::Failed(_)), "{error:?}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    format!("{error}: {cause}")
}

fn fifo(path: &Path) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_file_goes_in_and_comes_out_with_mode_and_time() {
    let world = World::new();
    let file = File::create(world.host("a")).unwrap();
    (&file).write_all(b"hello\n").unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o4751)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
    file.set_modified(time).unwrap();
    let summary = world.copy_in("a", "/tmp/b").unwrap();
    assert_eq!(summary, Summary { files: 1, bytes: 6, ..Summary::default() });
    world.copy_out("tmp/b", "c").unwrap();
    for copy in [world.node("tmp/b"), world.host("c")] {
        let found = fs::metadata(&copy).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, 0o751, "the set-id bit is not copied");
        assert_eq!(found.modified().unwrap(), time);
        assert_eq!(read(copy), "hello\n");
    }
}

#[test]
fn destinations_are_those_of_cp() {
    let world = World::new();
    fs::write(world.host("a"), "1").unwrap();
    world.copy_in("a", "/tmp").unwrap();
    world.copy_in("a", "/tmp/b").unwrap();
    world.copy_in("a", "etc/").unwrap();
    world.copy_in("a", "").unwrap();
    for path in ["tmp/a", "tmp/b", "etc/a", "a"] {
        assert_eq!(read(world.node(path)), "1", "{path}");
    }
    let before = world.all();
    assert!(why(world.copy_in("a", "/new/")).starts_with("/new/: open directory: No such file"));
    assert!(why(world.copy_in("a", "/no/b")).starts_with("/no/b: open its directory: No such"));
    assert!(why(world.copy_in("a", "/tmp/b/")).starts_with("/tmp/b/: open directory: Not a dir"));
    let missing = format!("{}: open: No such file", world.host("x").display());
    assert!(why(world.copy_in("x", "/tmp")).starts_with(&missing));
    fs::create_dir(world.node("tmp/dir")).unwrap();
    fs::create_dir(world.node("tmp/dir/a")).unwrap();
    assert_eq!(why(world.copy_in("a", "/tmp/dir")), "/tmp/dir/a: replace: it is a directory");
    fs::remove_dir_all(world.node("tmp/dir")).unwrap();
    assert_eq!(world.all(), before, "a refused copy leaves nothing");
}

#[test]
fn a_tree_is_copied_whole_with_its_links() {
    let world = World::new();
    fs::create_dir_all(world.host("t/sub/deep")).unwrap();
    fs::create_dir(world.host("t/empty")).unwrap();
    fs::write(world.host("t/sub/deep/f"), "x").unwrap();
    symlink("/etc/passwd", world.host("t/sub/link")).unwrap();
    symlink("nowhere", world.host("t/dangling")).unwrap();
    fs::set_permissions(world.host("t/empty"), fs::Permissions::from_mode(0o1777)).unwrap();
    let summary = world.copy_in("t", "/tmp").unwrap();
    let want = Summary { files: 1, directories: 4, links: 2, bytes: 1, skipped: vec![] };
    assert_eq!(summary, want);
    assert_eq!(read(world.node("tmp/t/sub/deep/f")), "x");
    assert_eq!(fs::read_link(world.node("tmp/t/sub/link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read_link(world.node("tmp/t/dangling")).unwrap(), Path::new("nowhere"));
    let mode = fs::metadata(world.node("tmp/t/empty")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
    // Again over it, and under a new name; then only the content.
    fs::write(world.host("t/sub/deep/f"), "y").unwrap();
    world.copy_in("t/", "/tmp").unwrap();
    world.copy_in("t", "/tmp/u").unwrap();
    world.copy_in("t/.", "/etc").unwrap();
    for path in ["tmp/t/sub/deep/f", "tmp/u/sub/deep/f", "etc/sub/deep/f"] {
        assert_eq!(read(world.node(path)), "y", "{path}");
    }
    assert_eq!(fs::read_dir(world.node("tmp")).unwrap().count(), 2);
    let clash = why(world.copy_in("t", "/tmp/u/sub/deep/f"));
    assert_eq!(clash, "/tmp/u/sub/deep/f: replace: it is not a directory");
}

#[test]
fn links_of_a_node_never_lead_outside() {
    let world = World::new();
    fs::write(world.dir.path().join("secret"), "the host's").unwrap();
    fs::write(world.node("secret"), "the node's").unwrap();
    symlink("/", world.node("root")).unwrap();
    symlink("../../../..", world.node("up")).unwrap();
    symlink(world.dir.path(), world.node("outside")).unwrap();
    symlink("/secret", world.node("tmp/file")).unwrap();
    for (n, path) in [
        "/root/secret",
        "up/secret",
        "../secret",
        "/../../secret",
        "root/up/root/secret",
        "/tmp/file",
    ]
    .iter()
    .enumerate()
    {
        world.copy_out(path, &n.to_string()).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(read(world.host(&n.to_string())), "the node's", "{path}");
    }
    assert!(why(world.copy_out("/outside/secret", "no")).contains("No such file"));
    fs::write(world.host("new"), "new").unwrap();
    for path in ["/root/", "/up/tmp", "../../x", "/root/root/etc"] {
        world.copy_in("new", path).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    assert!(why(world.copy_in("new", "/outside/new")).contains("No such file"));
    for path in ["new", "tmp/new", "x", "etc/new"] {
        assert_eq!(read(world.node(path)), "new", "{path}");
    }
    let outside = fs::read_dir(world.dir.path()).unwrap().count();
    assert_eq!(outside, 3, "node, host, secret");
}

#[test]
fn a_link_at_the_target_is_replaced_not_followed() {
    let world = World::new();
    fs::write(world.node("precious"), "old").unwrap();
    symlink("/precious", world.node("tmp/a")).unwrap();
    fs::create_dir_all(world.host("t/d")).unwrap();
    fs::write(world.host("a"), "new").unwrap();
    fs::write(world.host("t/d/f"), "new").unwrap();
    world.copy_in("a", "/tmp/a").unwrap();
    assert_eq!(read(world.node("precious")), "old");
    assert!(!world.node("tmp/a").is_symlink());
    // A link where a directory is to be merged could lead anywhere: refused.
    fs::create_dir(world.node("tmp/t")).unwrap();
    symlink("/etc", world.node("tmp/t/d")).unwrap();
    assert_eq!(why(world.copy_in("t", "/tmp")), "/tmp/t/d: replace: it is not a directory");
    assert_eq!(fs::read_dir(world.node("etc")).unwrap().count(), 0);
}

#[test]
fn magic_links_are_not_followed() {
    let world = World::new();
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let path = "/proc/self/root/etc/hostname";
    let result = out_of_node(root.as_fd(), path, &world.host("x"), Bounds::default());
    assert!(why(result).contains("Too many levels of symbolic links"));
}

#[test]
fn a_node_that_swaps_directory_and_link_gains_nothing() {
    let world = World::new();
    fs::create_dir(world.dir.path().join("outside")).unwrap();
    fs::write(world.dir.path().join("outside/f"), "the host's").unwrap();
    fs::create_dir_all(world.node("t/d")).unwrap();
    fs::write(world.node("t/d/f"), "the node's").unwrap();
    symlink(world.dir.path().join("outside"), world.node("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, link) = (world.node("t/d"), world.node("link"));
            while !stop.load(Ordering::Relaxed) {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &d, CWD, &link, swap).unwrap();
            }
        });
        for n in 0..300 {
            let name = n.to_string();
            // Whatever the race gives (a link, the directory, a refusal), never the host's file.
            let _ = world.copy_out("/t", &name);
            if let Ok(found) = fs::symlink_metadata(world.host(&format!("{name}/d")))
                && found.is_dir()
            {
                assert_eq!(read(world.host(&format!("{name}/d/f"))), "the node's");
            }
            let _ = world.copy_out("/t/d/f", "one");
            if let Ok(text) = fs::read_to_string(world.host("one")) {
                assert_eq!(text, "the node's");
            }
            fs::write(world.host("f"), "new").unwrap();
            let _ = world.copy_in("f", "/t/d/new");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(world.dir.path().join("outside")).unwrap().count(), 1);
    let left = world.all().into_iter().filter(|p| p.contains(".netloom-cp")).count();
    assert_eq!(left, 0);
}

#[test]
fn special_files_are_refused_by_name_and_left_out_inside() {
    let world = World::new();
    fifo(&world.node("pipe"));
    fs::create_dir(world.node("t")).unwrap();
    fifo(&world.node("t/pipe"));
    fs::write(world.node("t/f"), "x").unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(world.node("t/sock")).unwrap();
    assert_eq!(why(world.copy_out("/pipe", "x")), "/pipe: copy: a pipe cannot be copied");
    assert_eq!(why(world.copy_out("/t/sock", "x")), "/t/sock: copy: a socket cannot be copied");
    let null = into_node(world.root.as_fd(), Path::new("/dev/null"), "/tmp", Bounds::default());
    assert_eq!(why(null), "/dev/null: copy: a device cannot be copied");
    let mut summary = world.copy_out("/t", "t").unwrap();
    summary.skipped.sort();
    assert_eq!(summary.skipped, ["/t/pipe", "/t/sock"]);
    assert_eq!(fs::read_dir(world.host("t")).unwrap().count(), 1);
}

#[test]
fn a_large_file_arrives_byte_for_byte() {
    let world = World::new();
    let block: Vec<u8> =
        (0..1_000_003_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = File::create(world.host("big")).unwrap();
    for _ in 0..100 {
        file.write_all(&block).unwrap();
    }
    let summary = world.copy_in("big", "/tmp/").unwrap();
    assert_eq!(summary.bytes, 100_000_300);
    let mut copy = File::open(world.node("tmp/big")).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), 100_000_300);
    let mut read = vec![0; block.len()];
    for n in 0..100 {
        copy.read_exact(&mut read).unwrap();
        assert!(read == block, "block {n} differs");
    }
}

#[test]
fn files_of_proc_have_their_content() {
    let world = World::new();
    for path in ["/proc/version", "/sys/kernel/uevent_seqnum"] {
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        into_node(world.root.as_fd(), Path::new(path), "/tmp", Bounds::default()).unwrap();
        assert!(!read(world.node(&format!("tmp/{name}"))).is_empty());
    }
    assert_eq!(read(world.node("tmp/version")), read("/proc/version".into()));
}

#[test]
fn directories_nested_too_deeply_are_refused_and_leave_nothing() {
    let world = World::new();
    let mut dir = rustix::fs::open(world.node("tmp"), OFlags::PATH, Mode::empty()).unwrap();
    for _ in 0..300 {
        rustix::fs::mkdirat(&dir, "d", Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, "d", OFlags::PATH, Mode::empty()).unwrap();
    }
    // `netloom cp` has an 8 MiB stack, a test's thread 2 MiB: 256 unoptimised calls need more.
    let copied = std::thread::scope(|scope| {
        let copy = || world.copy_out("/tmp", "deep");
        let main = std::thread::Builder::new().stack_size(8 << 20);
        main.spawn_scoped(scope, copy).unwrap().join().unwrap()
    });
    assert!(why(copied).contains("nested too deeply"));
    assert_eq!(fs::read_dir(world.host("")).unwrap().count(), 0);
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let world = World::new();
    fs::write(world.node("etc/f"), "x").unwrap();
    let source = world.dir.path().join("node");
    let result = into_node(world.root.as_fd(), &source, "/tmp/copy", Bounds::default());
    assert!(why(result).contains("copied into itself"));
    assert_eq!(fs::read_dir(world.node("tmp")).unwrap().count(), 0);
}

#[test]
fn a_full_disk_leaves_nothing_half() {
    root_only!("mounts a small tmpfs");
    let world = World::new();
    let small = world.node("small");
    fs::create_dir(&small).unwrap();
    rustix::mount::mount("small", &small, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
    fs::create_dir(world.host("t")).unwrap();
    fs::write(world.host("t/a"), "small").unwrap();
    fs::write(world.host("t/big"), vec![1; 2 << 20]).unwrap();
    let file = why(world.copy_in("t/big", "/small/x"));
    let tree = why(world.copy_in("t", "/small"));
    let left = fs::read_dir(&small).unwrap().count();
    rustix::mount::unmount(&small, UnmountFlags::empty()).unwrap();
    let big = format!("{}: copy: its 2097152 bytes do not fit: ", world.host("t/big").display());
    assert!(file.starts_with(&big) && file.ends_with(" are free there"), "{file}");
    assert!(tree.starts_with(&big), "{tree}");
    assert_eq!(left, 0);
}

#[test]
fn a_file_of_holes_takes_no_room() {
    root_only!("mounts a small tmpfs");
    let world = World::new();
    let small = world.host("small");
    fs::create_dir(&small).unwrap();
    let file = File::create(world.node("tmp/holes")).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"middle", 1 << 39).unwrap();
    file.set_len(1 << 40).unwrap();
    rustix::mount::mount("small", &small, "tmpfs", MountFlags::empty(), c"size=1m").unwrap();
    let copied = world.copy_out("/tmp/holes", "small/copy");
    let found = File::open(small.join("copy")).map(|copy| {
        let mut middle = [0; 6];
        copy.read_exact_at(&mut middle, 1 << 39).unwrap();
        (copy.metadata().unwrap().len(), copy.metadata().unwrap().blocks(), middle)
    });
    rustix::mount::unmount(&small, UnmountFlags::empty()).unwrap();
    assert_eq!(copied.unwrap().bytes, 1 << 40);
    let (length, blocks, middle) = found.unwrap();
    assert_eq!((length, &middle), (1 << 40, b"middle"));
    assert!(blocks <= 32, "{blocks}");
}

#[test]
fn no_more_is_written_than_is_allowed() {
    let world = World::new();
    fs::create_dir(world.node("t")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(world.node(&format!("t/{name}")), [1; 1000]).unwrap();
    }
    let max = |max| Bounds { max: Some(max), ..Bounds::default() };
    let refused = why(world.copy_out_within("/t", "t", max(2500)));
    let expected = ": copy: its 1000 bytes are more than --max leaves, which are 500";
    assert!(refused.starts_with("/t/") && refused.ends_with(expected), "{refused}");
    assert_eq!(fs::read_dir(world.host("")).unwrap().count(), 0);
    assert_eq!(world.copy_out_within("/t", "t", max(3000)).unwrap().files, 3);
}

#[test]
fn a_copy_that_is_told_to_end_leaves_nothing() {
    let world = World::new();
    fs::create_dir_all(world.node("t/d")).unwrap();
    for number in 0..50 {
        fs::write(world.node(&format!("t/d/{number}")), "x").unwrap();
    }
    for after in [0, 10, 100] {
        let asked = Cell::new(0);
        let is_told = || asked.replace(asked.get() + 1) >= after;
        let bounds = Bounds { is_told_to_end: Some(&is_told), ..Bounds::default() };
        let ended = why(world.copy_out_within("/t", "t", bounds));
        assert!(ended.ends_with(": copy: interrupted"), "{ended}");
        assert_eq!(fs::read_dir(world.host("")).unwrap().count(), 0, "after {after}");
    }
}

#[test]
fn what_a_killed_copy_left_goes_with_the_next() {
    let world = World::new();
    fs::write(world.node("f"), "x").unwrap();
    fs::set_permissions(world.host(""), fs::Permissions::from_mode(0o755)).unwrap();
    let left = |number: u8| format!(".netloom-cp-{number:016x}");
    let make = |path: PathBuf| {
        fs::create_dir_all(path.join("d")).unwrap();
        fs::write(path.join("d/f"), "x").unwrap();
        fs::set_permissions(path.join("d"), fs::Permissions::from_mode(0o500)).unwrap();
    };
    for number in 0..3 {
        make(world.host(&left(number)));
    }
    // A copy that works, what only looks like one, and what is not the caller's to judge.
    let lives = File::open(world.host(&left(1))).unwrap();
    rustix::fs::flock(&lives, FlockOperation::LockExclusive).unwrap();
    make(world.host(".netloom-cp-of-mine"));
    make(world.node(&left(4)));
    world.copy_out("/f", "f").unwrap();
    world.copy_in("f", "/g").unwrap();
    let there = |paths: [String; 3]| paths.map(|name| world.host(&name).exists());
    assert_eq!(there([left(0), left(1), left(2)]), [false, true, false]);
    assert!(world.host(".netloom-cp-of-mine/d/f").exists());
    assert!(world.node(&left(4)).join("d/f").exists());
    drop(lives);
    // Where others may write, they may have given the name to something else.
    fs::set_permissions(world.host(""), fs::Permissions::from_mode(0o777)).unwrap();
    world.copy_out("/f", "f").unwrap();
    assert!(world.host(&left(1)).join("d/f").exists());
    fs::set_permissions(world.host(""), fs::Permissions::from_mode(0o700)).unwrap();
    world.copy_out("/f", "f").unwrap();
    assert!(!world.host(&left(1)).exists());
}

#[test]
fn names_of_a_node_are_shown_as_they_are() {
    let world = World::new();
    fs::create_dir(world.node("t")).unwrap();
    fifo(&world.node("t/a\n\u{202e}b"));
    assert_eq!(world.copy_out("/t", "t").unwrap().skipped, ["/t/a\\n\\u{202e}b"]);
}

#[test]
fn permission_denied_names_the_path() {
    let world = World::new();
    fs::write(world.node("closed"), "x").unwrap();
    fs::set_permissions(world.node("closed"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(world.node("etc"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(world.host(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(world.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(world.host("f"), "x").unwrap();
    if fs::metadata(world.host("f")).unwrap().uid() == 0 && !heed_permissions() {
        skip!("root-only: gives up its capabilities");
    }
    assert_eq!(
        why(world.copy_out("/closed", "x")),
        "/closed: open: Permission denied (os error 13)"
    );
    let refused = why(world.copy_in("f", "/etc/f"));
    assert_eq!(refused, "/etc/f: create: Permission denied (os error 13)");
}

/// Takes from this thread root's right to pass over file permissions.
fn heed_permissions() -> bool {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let Ok(mut sets) = capabilities(None) else { return false };
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).is_ok()
}

#[test]
fn the_root_is_that_of_a_living_init() {
    let own = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    )
    .unwrap();
    let root = open_root("h1", own.as_fd()).unwrap();
    assert_eq!(rustix::fs::fstat(&root).unwrap().st_ino, fs::metadata("/").unwrap().ino());
    let mut child = Command::new("true").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    child.wait().unwrap();
    let error = open_root("h1", ended.as_fd()).unwrap_err();
    assert!(error.to_string().starts_with("node \"h1\": init: "), "{error}");
}
