//! Front ends that come, go and come back; ports that do.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

use netloom_port::{Port, Received, Sent};
use netloom_vhost::front::{Machine, Setup};
use netloom_vhost::{Error, Options, Role, VhostPort};

use super::site::{RX, Site, TX, exists, frame, serve_until, serving};

fn passes(site: &mut Site, text: u8) {
    let sent = frame(600, text);
    site.transmit(u16::from(text), &sent);
    assert_eq!(site.take(), Ok(sent.clone()));
    assert_eq!(site.give(&sent), Sent::Done);
    let (got, heads) = site.machine.received(RX).expect("a frame");
    assert_eq!(&got[12..], sent);
    heads.iter().for_each(|head| site.machine.post(RX, *head));
}

/// The guest's rings outlive a port, and continue with the next one at the same path.
#[test]
fn a_new_port_goes_on_where_the_last_one_was_killed() {
    let mut site = Site::new(Setup::default());
    site.machine.fill(RX);
    passes(&mut site, 1);
    assert_eq!(site.take(), Err(Received::Empty), "and so the first is returned");
    // Taken and not returned: the guest's frame is sent again, none is lost.
    for text in 2..12 {
        site.transmit(text, &frame(60, text as u8));
    }
    assert_eq!(site.take(), Ok(frame(60, 2)));
    let path = site.path();
    // As after a kill: the socket's file stays.
    let hidden = site.folder.path().join("hidden");
    std::fs::rename(&path, &hidden).unwrap();
    let (next, link) = (site.folder.path().join("next"), site.link.take());
    let old = std::mem::replace(&mut site.port, VhostPort::open(Options::new(next)).unwrap());
    // It had no time to return what it took.
    drop(old);
    std::fs::rename(&hidden, &path).unwrap();
    drop(link);
    site.port = VhostPort::open(Options::new(&path)).unwrap();
    site.connect();
    for text in 2..12 {
        assert_eq!(site.take(), Ok(frame(60, text)));
    }
    assert_eq!(site.take(), Err(Received::Empty));
    passes(&mut site, 13);
}

#[test]
fn a_front_end_may_go_and_come_back() {
    let mut site = Site::new(Setup::default());
    site.machine.fill(RX);
    for text in 0..20 {
        passes(&mut site, text);
        site.disconnect();
        assert_eq!(site.give(&frame(60, 0)), Sent::Down);
        site.connect();
    }
    assert_eq!(site.port.faults(), netloom_vhost::Faults::default());
}

/// QEMU enables queues before it tells what the driver has accepted, as soon as the driver is there.
#[test]
fn queues_may_be_enabled_before_features_are_accepted() {
    let mut site = Site::new(Setup::default());
    site.disconnect();
    let path = site.path();
    let stream = serving(&mut site.port, || {
        let mut stream = UnixStream::connect(&path).unwrap();
        for (index, refused) in [(0, 0), (1, 0), (32, 1)] {
            // SET_VRING_ENABLE in version 1, with a wish for an answer.
            let request = [18, 1 | 8, 8, index, 1_u32].map(u32::to_ne_bytes);
            stream.write_all(request.as_flattened()).unwrap();
            let mut answer = [0; 20];
            stream.read_exact(&mut answer).unwrap();
            let wanted = [18, 1 | 4, 8, refused, 0_u32].map(u32::to_ne_bytes);
            assert_eq!(answer, wanted.as_flattened(), "queue {index}");
        }
        stream
    });
    let machine = &site.machine;
    let link = serving(&mut site.port, || machine.over(stream).unwrap());
    site.link = Some(link);
    site.machine.fill(RX);
    passes(&mut site, 1);
    assert_eq!(site.port.faults().requests, 1, "there is no queue 32");
}

/// The port looks for a front end that listens, now or later, and again when that one was gone.
#[test]
fn a_port_may_be_the_one_that_connects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let options = Options { role: Role::Connect, ..Options::new(&path) };
    let mut port = VhostPort::open(options).unwrap();
    let mut machine = Machine::new(Setup::default()).unwrap();
    for text in 1..4_u8 {
        let listener = UnixListener::bind(&path).unwrap();
        let _link = serving(&mut port, || {
            let (stream, _) = listener.accept().unwrap();
            machine.over(stream).unwrap()
        });
        let sent = frame(60, text);
        machine.transmit(TX, 0, &[&[0; 12], &sent[..]].concat());
        let mut buffer = vec![0; netloom_port::MOST_FRAME];
        let Received::Frame { start, length } = port.receive(&mut buffer).unwrap() else {
            panic!()
        };
        assert_eq!(buffer[start + 10..start + length], sent);
        drop((_link, listener));
        std::fs::remove_file(&path).unwrap();
        serve_until(&mut port, |port| !port.is_connected());
    }
    drop(port);
    assert!(!exists(&path), "it makes no file");
}

#[test]
fn the_socket_is_private_and_goes_with_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let port = VhostPort::open(Options::new(&path)).unwrap();
    let found = path.symlink_metadata().unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    // One that is listened on is nobody else's.
    assert!(matches!(VhostPort::open(Options::new(&path)), Err(Error::Taken { .. })));
    assert!(exists(&path));
    drop(port);
    assert!(!exists(&path));
    // What a killed process left is replaced; other files are not.
    drop(UnixListener::bind(&path).unwrap());
    drop(VhostPort::open(Options::new(&path)).unwrap());
    std::fs::write(&path, "text").unwrap();
    assert!(VhostPort::open(Options::new(&path)).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
}

/// A second front end waits until the first is gone; meanwhile the port can still sleep.
#[test]
fn one_front_end_at_a_time() {
    let mut site = Site::new(Setup::default());
    let second = UnixStream::connect(site.path()).unwrap();
    assert_eq!(site.take(), Err(Received::Empty));
    site.port.rest();
    assert!(!site.shows());
    site.link = None;
    let mut machine = Machine::new(Setup::default()).unwrap();
    let _link = serving(&mut site.port, || machine.over(second).unwrap());
    machine.transmit(TX, 0, &[&[0; 12], &frame(60, 9)[..]].concat());
    assert_eq!(site.take(), Ok(frame(60, 9)));
}

/// A user who is not ours is turned away.
#[test]
fn strangers_are_turned_away() {
    use std::io::Read;
    netloom_kit::root_only!("is another user");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // The other user may not pass the folders above.
    let open = std::fs::File::open(folder.path()).unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let inherited = format!("/proc/self/fd/{}/card", open.as_raw_fd());
    for (user, welcome) in [(None, false), (Some(65_534), true)] {
        let mut port = VhostPort::open(Options { user, ..Options::new(&path) }).unwrap();
        // The file's mode must not be what keeps it away.
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let mut command = netloom_kit::again(&a_stranger);
        command.env("NETLOOM_TEST_PATH", &inherited).stdout(std::process::Stdio::piped());
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        let mut child = command.spawn().unwrap();
        if welcome {
            serve_until(&mut port, |port| port.is_connected());
        } else {
            serve_until(&mut port, |_| child.try_wait().unwrap().is_some());
            assert!(!port.is_connected());
        }
        let _ = child.kill();
        let _ = child.wait();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said.contains("turned away"), !welcome, "{said}");
    }
}

#[test]
#[ignore = "helper: a front end of another user"]
fn a_stranger() {
    use std::io::Read;
    let path = std::env::var_os("NETLOOM_TEST_PATH").unwrap();
    let mut stream = UnixStream::connect(path).unwrap();
    if stream.read(&mut [0; 1]).is_ok_and(|read| read == 0) {
        println!("turned away");
    }
}
