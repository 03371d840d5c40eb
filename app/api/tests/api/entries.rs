//! Descriptors arrive as what they are.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::fake::Served;

/// The process that a pidfd stands for.
fn process_behind(pidfd: &OwnedFd) -> String {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let info = std::fs::read_to_string(path).unwrap();
    info.lines().find_map(|l| l.strip_prefix("Pid:\t")).unwrap().to_owned()
}

#[test]
fn the_client_knows_the_process_that_serves() {
    let served = Served::new();
    let process = served.client().process().unwrap().unwrap();
    assert_eq!(process_behind(&process), std::process::id().to_string());
}

#[test]
fn a_door_brings_the_init_the_groups_and_the_environment() {
    let served = Served::new();
    let entry = served.client().entry("h1").unwrap();
    assert_eq!((entry.node.as_str(), entry.user), ("h1", true));
    assert_eq!((entry.nested, entry.privileged, entry.by_init), (true, false, true));
    let env = [("PATH".to_owned(), "/bin".to_owned()), ("X".to_owned(), "1 \"2\"\n".to_owned())];
    assert_eq!(entry.env, env);

    // The init of the fake is this process.
    assert_eq!(process_behind(&entry.init), std::process::id().to_string());

    entry.groups.enter_files().unwrap();
    for file in served.fake.tasks() {
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "0", "{file:?}");
    }
    let v2 = rustix::fs::fstat(entry.groups.v2.as_ref().unwrap()).unwrap();
    assert_eq!(v2.st_ino, served.path().metadata().unwrap().ino());

    for fd in [&entry.init, &entry.groups.tasks[0], entry.groups.v2.as_ref().unwrap()] {
        let flags = rustix::io::fcntl_getfd(fd.as_fd()).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn the_core_namespace_has_a_door_of_its_own() {
    let served = Served::new();
    let entry = served.client().core().unwrap();
    assert_eq!(entry.node, "(core)");
    assert_eq!(process_behind(&entry.init), std::process::id().to_string());
}

#[test]
fn descriptors_are_passed_on_to_a_node() {
    let served = Served::new();
    let (read, write) = rustix::pipe::pipe().unwrap();
    served.client().run_in("h1", &[write.as_fd()]).unwrap();
    drop(write);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut std::fs::File::from(read), &mut told).unwrap();
    assert_eq!(told, "passed on");
    assert!(served.client().run_in("h2", &[]).is_err());
}
