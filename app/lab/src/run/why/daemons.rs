//! What FRR's daemons in a node say, at the sockets by which vtysh asks them.
//!
//! They are only asked to show. Their sockets are opened from outside, below the node's root; what listens there is a program
//! of the node: no answer is waited for longer, or read further, than [`PATIENCE`] and [`MOST`] say, and none is trusted.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_sys::lookup::open_within;
use netloom_why::facts::{Daemons, OspfInterface, Session};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use serde_json::Value;

/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Most bytes of an answer.
const MOST: usize = 4 << 20;

/// Asks the daemons of a node, by the process id of its init; `None` if it has none.
pub(super) fn read(pid: i32) -> Option<Daemons> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = format!("/proc/{pid}/root");
    let root = rustix::fs::openat(CWD, root.as_str(), directory, Mode::empty()).ok()?;
    let folder = open_within(&root, "var/run/frr", directory, ResolveFlags::IN_ROOT).ok()?;
    let mut found = Daemons::default();
    let mut any = false;
    for daemon in ["zebra", "ospfd", "bgpd"] {
        let Some(socket) = at(&folder, daemon) else { continue };
        any = true;
        match connect(&socket) {
            Err(Errno::CONNREFUSED) => found.ended.push(daemon.to_owned()),
            Err(_) => {}
            Ok(connected) if daemon == "ospfd" => {
                // One that does not answer in time is busy: that is not known to be silence.
                if let Ok(speaks) = ospf(&connected) {
                    (found.ospf, found.speaks) = (true, speaks);
                }
            }
            Ok(connected) if daemon == "bgpd" => {
                let said = ask(&connected, "show bgp neighbors json");
                found.sessions = said.map_or_else(|_| vec![], |said| sessions(&said));
            }
            Ok(_) => {}
        }
    }
    any.then_some(found)
}

fn at(folder: &OwnedFd, daemon: &str) -> Option<OwnedFd> {
    let name = format!("{daemon}.vty");
    open_within(folder, name.as_str(), OFlags::PATH | OFlags::NOFOLLOW, ResolveFlags::BENEATH).ok()
}

fn connect(socket: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let path = format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd());
    rustix::net::connect(&connected, &SocketAddrUnix::new(path.as_str())?)?;
    Ok(connected)
}

/// A command ends with a zero, its answer with three and the command's result (`vtysh_client_run` of vtysh/vtysh.c).
fn ask(connected: &OwnedFd, command: &str) -> io::Result<Value> {
    let question = [command.as_bytes(), &[0]].concat();
    rustix::net::send(connected, &question, SendFlags::NOSIGNAL)?;
    let end = Instant::now() + PATIENCE;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let ended =
        |answer: &[u8]| answer.len() > 3 && answer[answer.len() - 4..answer.len() - 1] == [0; 3];
    while !ended(&answer) {
        let left = netloom_sys::process::timespec(end.saturating_duration_since(Instant::now()));
        let mut poll = [PollFd::new(connected, PollFlags::IN)];
        if rustix::event::poll(&mut poll, Some(&left))? == 0 || answer.len() > MOST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match rustix::net::recv(connected, &mut buffer, RecvFlags::empty()) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((length, _)) => answer.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    answer.truncate(answer.len() - 4);
    Ok(serde_json::from_slice(&answer)?)
}

/// Interfaces on which OSPF speaks, and the states of their neighbours.
fn ospf(connected: &OwnedFd) -> io::Result<Vec<OspfInterface>> {
    let interfaces = ask(connected, "show ip ospf interface json")?;
    let neighbours = ask(connected, "show ip ospf neighbor json")?;
    Ok(speaking(&interfaces, &neighbours))
}

fn speaking(interfaces: &Value, neighbours: &Value) -> Vec<OspfInterface> {
    let known = neighbours["neighbors"].as_object().into_iter().flatten();
    let known: Vec<&Value> = known.filter_map(|(_, all)| all.as_array()).flatten().collect();
    let speaks = interfaces["interfaces"].as_object().into_iter().flatten();
    let speaks = speaks.filter(|(_, found)| found["ospfEnabled"] == true);
    let interface = |(name, _): (&String, &Value)| {
        // An interface is told with its address: `eth0:10.0.0.1`.
        let here = |found: &&&Value| {
            let told = found["ifaceName"].as_str().unwrap_or_default();
            told.rsplit_once(':').map_or(told, |(name, _)| name) == name
        };
        let state = |found: &&Value| {
            found["nbrState"].as_str().or(found["state"].as_str()).unwrap_or_default().to_owned()
        };
        let states = known.iter().filter(here).map(state).collect();
        OspfInterface { name: name.clone(), states }
    };
    speaks.map(interface).collect()
}

fn sessions(said: &Value) -> Vec<Session> {
    let each = said.as_object().into_iter().flatten();
    let session = |(peer, found): (&String, &Value)| {
        let peer =
            peer.parse::<IpAddr>().ok().or_else(|| found["hostForeign"].as_str()?.parse().ok())?;
        let text = |key: &str| found[key].as_str().map(str::to_owned);
        let families = found["addressFamilyInfo"].as_object().into_iter().flatten();
        let limit = families.filter_map(|(_, family)| family["prefixAllowedMax"].as_u64()).next();
        Some(Session {
            peer,
            numbers: [&found["localAs"], &found["remoteAs"]].map(|n| n.as_u64().unwrap_or(0)),
            state: text("bgpState").unwrap_or_default(),
            reason: text("lastNotificationReason").or_else(|| text("lastResetDueTo")),
            limit,
        })
    };
    each.filter_map(session).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sessions_and_adjacencies_are_read_as_frr_tells_them() {
        let said = json!({"10.0.0.2": {"localAs": 1, "remoteAs": 2, "bgpState": "Idle",
            "lastNotificationReason": "Cease/Maximum Number of Prefixes Reached",
            "addressFamilyInfo": {"ipv4Unicast": {"prefixAllowedMax": 1}}}, "warning": "nothing"});
        let found = sessions(&said);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].numbers, found[0].limit), ([1, 2], Some(1)));
        assert!(found[0].reason.as_ref().unwrap().contains("Prefixes"));
        let interfaces = json!({"interfaces": {"eth0": {"ospfEnabled": true}, "eth1": {"ospfEnabled": true}, "lo": {"ospfEnabled": false}}});
        let neighbours = json!({"neighbors": {"10.9.9.9": [{"nbrState": "Full/-", "ifaceName": "eth1:10.0.1.1"}]}});
        let found = speaking(&interfaces, &neighbours);
        assert_eq!(found.len(), 2);
        assert!(found[0].states.is_empty() && found[1].states == ["Full/-"]);
        for odd in [json!(null), json!([1]), json!({"interfaces": 3, "x": {"bgpState": 1}})] {
            assert!(sessions(&odd).is_empty() && speaking(&odd, &odd).is_empty());
        }
    }
}
