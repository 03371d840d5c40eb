//! Announces that a killed daemon of OSPF restarts, before it does.
//!
//! The program that starts a daemon again leaves a file of this name and waits a moment for it to go; see
//! `netloom_model::plan::frr`. Here a Grace-LSA is sent on all links ([`crate::grace`]), then the file is removed. Without this
//! process the program goes on alone, and neighbours see a router that comes back.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use netloom_sys::journal;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, connect, getsockname, send, socket_with, sockopt};
use serde::{Deserialize, Serialize};

use crate::Interface;
use crate::daemons;
use crate::grace::{ALL_V4, ALL_V6, PROTOCOL, Restart, sequence};

/// How often it is looked for such a file while one may come, and how long that is after a sign of it.
const LOOK: Duration = Duration::from_millis(20);
const EXPECTED: Duration = Duration::from_secs(15);

/// How often an announcement is sent, and the pause in between: nobody is asked whether it arrived.
const TIMES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(30);

/// Announcements for daemons of OSPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ospf {
    /// The router's number.
    pub router: Ipv4Addr,
    /// The area of its links.
    pub area: u32,
    /// For how many seconds neighbours are asked to go on.
    pub grace: u32,
}

/// Looks for daemons that restart.
pub(crate) struct Announcer {
    ospf: Option<Ospf>,
    root: Option<PathBuf>,
    interfaces: Vec<Interface>,
    until: Instant,
}

/// The daemons: the name of the file, and whether IPv4 is theirs.
const DAEMONS: [(&str, bool); 2] = [("ospfd-killed", true), ("ospf6d-killed", false)];

impl Announcer {
    /// One that expects a restart at first: the router may have been recreated.
    pub(crate) fn new(spec: &crate::Spec) -> Announcer {
        Announcer {
            ospf: spec.ospf,
            root: spec.root.clone(),
            interfaces: spec.interfaces.clone(),
            until: Instant::now() + EXPECTED,
        }
    }

    /// A daemon may have ended.
    pub(crate) fn expect(&mut self) {
        self.until = Instant::now() + EXPECTED;
    }

    /// How long nothing is to be looked for; `None`: until there is a sign.
    pub(crate) fn pause(&self, now: Instant) -> Option<Duration> {
        (self.ospf.is_some() && now < self.until).then_some(LOOK)
    }

    /// Announces the restart of daemons that wait for it.
    pub(crate) fn look(&self) {
        let (Some(ospf), Some(root)) = (self.ospf, &self.root) else { return };
        let Ok(folder) = daemons::open(root, "") else { return };
        for (name, is_ipv4) in DAEMONS {
            if rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                self.announce(ospf, is_ipv4);
                remove(&folder, name);
            }
        }
    }

    fn announce(&self, ospf: Ospf, is_ipv4: bool) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let restart = Restart {
            router: ospf.router,
            area: ospf.area,
            grace: ospf.grace,
            sequence: sequence(u64::try_from(now.as_millis()).unwrap_or(0)),
        };
        for time in 0..TIMES {
            if time > 0 {
                std::thread::sleep(PAUSE);
            }
            for interface in &self.interfaces {
                let index = interface.index;
                let sent = if is_ipv4 { say_v4(&restart, index) } else { say_v6(&restart, index) };
                // An interface without an address of the family has no neighbours either.
                if let Err(e) = sent
                    && e != Errno::ADDRNOTAVAIL
                {
                    journal::line(format_args!("announce a restart at interface {index}: {e}"));
                }
            }
        }
    }
}

fn remove(folder: &OwnedFd, name: &str) {
    if let Err(e) = rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        journal::line(format_args!("{name}: remove: {e}"));
    }
}

fn raw(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let protocol = RawProtocol::new(u32::from(PROTOCOL)).map(Protocol::from_raw);
    socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol)
}

fn say_v4(restart: &Restart, interface: u32) -> rustix::io::Result<()> {
    let socket = raw(AddressFamily::INET)?;
    let any = Ipv4Addr::UNSPECIFIED;
    // The TTL stays at the kernel's 1 for groups (ip(7)), as RFC 2328, appendix A.1, asks.
    sockopt::set_ip_multicast_if_with_ifindex(&socket, &any, &any, interface)?;
    // The daemons of this router must not hear it.
    sockopt::set_ip_multicast_loop(&socket, false)?;
    // Sends nothing, but has the kernel choose the address that the announcement names.
    connect(&socket, &SocketAddrV4::new(ALL_V4, 0))?;
    let Ok(SocketAddr::V4(from)) = SocketAddr::try_from(getsockname(&socket)?) else {
        return Err(Errno::ADDRNOTAVAIL);
    };
    if from.ip().is_unspecified() {
        return Err(Errno::ADDRNOTAVAIL);
    }
    send(&socket, &restart.packet_v4(*from.ip()), SendFlags::empty()).map(drop)
}

fn say_v6(restart: &Restart, interface: u32) -> rustix::io::Result<()> {
    let socket = raw(AddressFamily::INET6)?;
    sockopt::set_ipv6_multicast_if(&socket, interface)?;
    sockopt::set_ipv6_multicast_loop(&socket, false)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0))?;
    connect(&socket, &SocketAddrV6::new(ALL_V6, 0, 0, interface))?;
    let Ok(SocketAddr::V6(from)) = SocketAddr::try_from(getsockname(&socket)?) else {
        return Err(Errno::ADDRNOTAVAIL);
    };
    send(&socket, &restart.packet_v6(*from.ip(), interface), SendFlags::empty()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_has_as_its_folder_removes_nothing_outside_of_it() {
        let root = std::env::temp_dir().join(format!("netloom-announce-{}", std::process::id()));
        let (run, elsewhere) = (root.join("node/run"), root.join("elsewhere"));
        std::fs::create_dir_all(&run).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, run.join("frr")).unwrap();
        std::fs::write(elsewhere.join(DAEMONS[0].0), "").unwrap();
        let ospf = Ospf { router: Ipv4Addr::LOCALHOST, area: 0, grace: 1 };
        let root_of_node = Some(root.join("node"));
        let until = Instant::now();
        let announcer =
            Announcer { ospf: Some(ospf), root: root_of_node, interfaces: vec![], until };
        announcer.look();
        assert!(elsewhere.join(DAEMONS[0].0).exists());
        std::fs::remove_file(run.join("frr")).unwrap();
        std::fs::rename(&elsewhere, run.join("frr")).unwrap();
        announcer.look();
        assert!(!run.join("frr").join(DAEMONS[0].0).exists());
        std::fs::remove_dir_all(&root).unwrap();
    }
}
