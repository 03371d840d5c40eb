//! Features of interfaces, and receive work that is done and charged by a thread.

use super::fresh;

use std::cell::RefCell;
use std::fs;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use fresh::{NetNs, with_netns};
use netloom_netlink::charge;
use netloom_netlink::offload::Offloads;
use netloom_netlink::{Address, Batch, Change, EndSpec, Socket, VethSpec};
use netloom_packet::checksum::checksum;
use netloom_sys::cgroup::{self, Groups, Limits};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

/// A pair between two namespaces, both ends `eth0` with index 5, up, 10.0.0.1 and .2.
fn joined(left: &NetNs, right: &NetNs) {
    let a = EndSpec { netns: Some(left.fd()), index: Some(5), ..EndSpec::new("eth0") };
    let b = EndSpec { netns: Some(right.fd()), mac: Some(MAC), ..a };
    let mut batch = Batch::new();
    batch.push("pair", &VethSpec::new(a, b));
    left.run(|| Socket::open().unwrap().run(&mut batch).unwrap());
    for (space, address) in [(left, "10.0.0.1/24"), (right, "10.0.0.2/24")] {
        space.run(|| {
            let mut batch = Batch::new();
            batch.push("address", &Address::new(5, address.parse().unwrap()));
            batch.push("up", &Change::of(5).up());
            Socket::open().unwrap().run(&mut batch).unwrap();
        });
    }
    left.run(|| netloom_kit::wait_for_carrier(5));
}

#[test]
fn features_are_set_by_name() {
    with_netns(&features_are_set_by_name, |[left, right]| {
        joined(&left, &right);
        left.run(|| {
            let mut offloads = Offloads::open().unwrap();
            assert!(offloads.active("eth0").unwrap().contains("tx-tcp-segmentation"));
            let off = [("tx-tcp-segmentation", false), ("rx-gro", true)];
            offloads.set("eth0", &off).unwrap();
            let active = offloads.active(5).unwrap();
            assert!(!active.contains("tx-tcp-segmentation") && active.contains("rx-gro"));
            offloads.set(5, &off.map(|(name, on)| (name, !on))).unwrap();
            let error = offloads.set(5, &[("no-such-thing", true)]).unwrap_err();
            assert_eq!(error.refusals()[0].errno, libc::EOPNOTSUPP, "{error}");
            let error = offloads.set("lo", &[("loopback", false)]).unwrap_err().to_string();
            assert!(error.contains("loopback stays on"), "{error}");
            let error = offloads.active("none").unwrap_err();
            assert_eq!(error.refusals()[0].errno, libc::ENODEV);
        });
    });
}

/// As in a container: its numbers of processes are not those of the kernel's threads.
#[test]
fn a_pid_namespace_without_kernel_threads_charges_nothing() {
    netloom_kit::isolated!({
        let (left, right) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        joined(&left, &right);
        left.run(|| {
            let error = charge::enable("eth0").unwrap_err();
            assert!(matches!(error, netloom_netlink::Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains("first PID namespace"), "{error}");
            assert!(!Offloads::open().unwrap().active("eth0").unwrap().contains("rx-gro"));
        });
    });
}

#[test]
fn a_charged_interface_has_threads_until_it_is_let_go() {
    with_netns(&a_charged_interface_has_threads_until_it_is_let_go, |[left, right]| {
        joined(&left, &right);
        right.run(|| {
            match charge::threads("eth0") {
                Err(netloom_netlink::Error::Unsupported { .. }) => {
                    netloom_kit::lacks!("linux-6.8", "has no list of receive threads")
                }
                threads => assert!(threads.unwrap().is_empty()),
            }
            let threads = charge::enable("eth0").unwrap();
            assert_eq!(threads.len(), 1);
            let comm = fs::read_to_string(format!("/proc/{}/comm", threads[0])).unwrap();
            assert!(comm.starts_with("napi/eth0-"), "{comm}");
            assert_eq!(charge::enable(5).unwrap(), threads);
            let mut offloads = Offloads::open().unwrap();
            assert!(offloads.active("eth0").unwrap().contains("tx-tcp-segmentation"));
            charge::disable("eth0").unwrap();
            assert!(charge::threads("eth0").unwrap().is_empty());
            assert!(!offloads.active("eth0").unwrap().contains("rx-gro"));
            charge::disable("eth0").unwrap();
            let mut batch = Batch::new();
            batch.push("down", &Change::of(5).down());
            Socket::open().unwrap().run(&mut batch).unwrap();
            let error = charge::enable("eth0").unwrap_err();
            assert_eq!(error.refusals()[0].errno, libc::ENETDOWN);
            let error = charge::enable("none").unwrap_err();
            assert_eq!(error.refusals()[0].errno, libc::ENODEV);
        });
        let mut offloads = left.run(|| Offloads::open().unwrap());
        assert!(offloads.active("eth0").unwrap().contains("tx-tcp-segmentation"));
    });
}

/// Groups that go with this value, and the threads that were put into them.
struct Owned(Groups, RefCell<Vec<i32>>);

impl Drop for Owned {
    fn drop(&mut self) {
        // One that is still there keeps its group, which is then told.
        let _ = self.1.borrow().iter().try_for_each(|thread| self.0.release_thread(*thread));
        let removed = self.0.remove();
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

#[test]
fn a_flood_is_charged_to_the_group_of_its_receiver() {
    netloom_kit::root_only!("puts a kernel thread into a group");
    let found = cgroup::hierarchies_of_root().unwrap();
    let groups = Groups::new(found, &format!("test-charge-{}", std::process::id()), [].into());
    if !groups.has("cpuacct") {
        netloom_kit::lacks!("controllers", "no CPU time is counted");
    }
    let owned = Owned(groups, RefCell::default());
    let groups = &owned.0;
    groups.create().unwrap();
    groups.create_node(7, &Limits::default()).unwrap();
    with_netns(&a_flood_is_charged_to_the_group_of_its_receiver, |[left, right]| {
        joined(&left, &right);
        let threads = right.run(|| charge::enable("eth0").unwrap());
        owned.1.borrow_mut().extend(&threads);
        groups.move_thread(threads[0], 7).unwrap();
        let path = format!("/proc/{}/cgroup", threads[0]);
        assert!(fs::read_to_string(&path).unwrap().contains("/netloom/test-charge-"));
        let before = groups.usage(7).cpu_ns.unwrap();
        let receiver = right.run(|| UdpSocket::bind("10.0.0.2:10").unwrap());
        receiver.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let sent = left.run(|| {
            let socket = packet_socket();
            let frame_to_nobody = frame(9);
            let sent = (0..FLOOD).map(|_| u64::from(send(&socket, &frame_to_nobody))).sum::<u64>();
            // A frame behind all others arrives last; while the queue is full it is dropped.
            netloom_kit::wait_until(
                "the thread has done its work",
                Duration::from_secs(30),
                || {
                    send(&socket, &frame(10));
                    receiver.recv(&mut [0; 64]).ok()
                },
            );
            sent
        });
        let charged = groups.usage(7).cpu_ns.unwrap() - before;
        assert!(sent > 1000, "{sent}");
        // Even at 10 ns a frame.
        assert!(charged > sent * 10, "{charged} ns for {sent} frames");
        drop(receiver);
        groups.remove_node(7).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("/netloom/"));
    });
}

const FLOOD: u64 = 200_000;

/// A packet socket bound to the interface with index 5.
fn packet_socket() -> OwnedFd {
    let kind = (AddressFamily::PACKET, SocketType::RAW);
    let socket = rustix::net::socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, None).unwrap();
    // SAFETY: all fields of sockaddr_ll are numbers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).unwrap();
    address.sll_ifindex = 5;
    let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).unwrap();
    // SAFETY: the address is a sockaddr_ll of that length and outlives the call.
    let code = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    assert_eq!(code, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// UDP from 10.0.0.1 to 10.0.0.2, without a checksum.
fn frame(port: u8) -> Vec<u8> {
    let mut frame = vec![0u8; 60];
    frame[..6].copy_from_slice(&MAC);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 0xa, 8, 0]);
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame[14..34].copy_from_slice(&header);
    frame[24..26].copy_from_slice(&checksum(&header).to_be_bytes());
    frame[34..42].copy_from_slice(&[0, 9, 0, port, 0, 26, 0, 0]);
    frame
}

/// Whether a frame found room in the receiver's queue.
fn send(socket: &OwnedFd, frame: &[u8]) -> bool {
    match rustix::net::send(socket, frame, SendFlags::empty()) {
        Ok(_) => true,
        Err(rustix::io::Errno::NOBUFS) => false,
        Err(error) => panic!("send: {error}"),
    }
}
