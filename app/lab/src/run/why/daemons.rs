//! What FRR's daemons in a node say, at the sockets by which vtysh asks them.
//!
//! They are only asked to show. Their sockets are opened from outside, below the node's root; what listens there is a program
//! of the node: no answer is waited for longer, or read further, than [`PATIENCE`] and [`MOST`] say, and none is trusted.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use netloom_sys::lookup::open_within;
use netloom_why::facts::{BgpRoute, Daemons, OspfInterface, PolicyFilter, Session};
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
    let folder = folder(pid)?;
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

/// Where the daemons of a node have their sockets.
fn folder(pid: i32) -> Option<OwnedFd> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = format!("/proc/{pid}/root");
    let root = rustix::fs::openat(CWD, root.as_str(), directory, Mode::empty()).ok()?;
    open_within(&root, "var/run/frr", directory, ResolveFlags::IN_ROOT).ok()
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
    let interface = |(name, said): (&String, &Value)| {
        // An interface is told with its address: `eth0:10.0.0.1`.
        let here = |found: &&&Value| {
            let told = found["ifaceName"].as_str().unwrap_or_default();
            told.rsplit_once(':').map_or(told, |(name, _)| name) == name
        };
        let state = |found: &&Value| {
            found["nbrState"].as_str().or(found["state"].as_str()).unwrap_or_default().to_owned()
        };
        let states = known.iter().filter(here).map(state).collect();
        let passive = said["timerPassiveIface"] == true;
        OspfInterface { name: name.clone(), states, passive, settings: settings(said) }
    };
    speaks.map(interface).collect()
}

/// RFC 2328 section 10.5, and the kind of network, which FRR tells in capitals.
fn settings(said: &Value) -> BTreeMap<&'static str, String> {
    let text = |key: &str| said[key].as_str().map(str::to_owned);
    let number = |key: &str, of: u64| said[key].as_u64().map(|n| (n / of).to_string());
    [
        ("area", text("area")),
        ("network type", text("networkType")),
        ("hello interval", number("timerMsecs", 1000)),
        ("dead interval", number("timerDeadSecs", 1)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
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
            filters: filters(&found["addressFamilyInfo"]),
        })
    };
    each.filter_map(session).collect()
}

/// By the keys of `bgp_show_peer_afi` (bgpd/bgp_vty.c).
fn filters(families: &Value) -> Vec<PolicyFilter> {
    let kinds = [
        ("outgoingUpdatePrefixFilterList", true, "prefix-list"),
        ("outgoingUpdateNetworkFilterList", true, "distribute-list"),
        ("outgoingUpdateAsPathFilterList", true, "filter-list"),
        ("routeMapForOutgoingAdvertisements", true, "route-map"),
        ("incomingUpdatePrefixFilterList", false, "prefix-list"),
        ("incomingUpdateNetworkFilterList", false, "distribute-list"),
        ("incomingUpdateAsPathFilterList", false, "filter-list"),
        ("routeMapForIncomingAdvertisements", false, "route-map"),
    ];
    let families = families.as_object().into_iter().flatten();
    let of = |(_, family): (&String, &Value)| {
        let found = kinds.iter().filter_map(|(key, out, kind)| {
            let name = family[*key].as_str()?.to_owned();
            Some(PolicyFilter { out: *out, kind, name })
        });
        found.collect::<Vec<_>>()
    };
    families.flat_map(of).collect()
}

/// What bgpd of a node knows of a destination; `None` where none answers.
pub(super) fn bgp_route(pid: i32, to: IpAddr) -> Option<BgpRoute> {
    let socket = at(&folder(pid)?, "bgpd")?;
    let family = if to.is_ipv4() { "ipv4" } else { "ipv6" };
    let said =
        ask(&connect(&socket).ok()?, &format!("show bgp {family} unicast {to} json")).ok()?;
    Some(known(&said))
}

fn known(said: &Value) -> BgpRoute {
    let told = said["advertisedTo"].as_object().into_iter().flatten();
    let hops = said["paths"].as_array().into_iter().flatten();
    let hops: Vec<&Value> = hops.filter_map(|path| path["nexthops"].as_array()).flatten().collect();
    let all_away = hops.iter().all(|hop| hop["accessible"] == false);
    let away = hops.iter().filter(|_| all_away);
    BgpRoute {
        prefix: said["prefix"].as_str().and_then(|prefix| prefix.parse().ok()),
        told_to: told.filter_map(|(peer, _)| peer.parse().ok()).collect(),
        unreachable: away.filter_map(|hop| hop["ip"].as_str()?.parse().ok()).collect(),
    }
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
        assert!(found.iter().all(|i| !i.passive && i.settings.is_empty()));
        let interfaces = json!({"interfaces": {"r8": {"ospfEnabled": true, "area": "0.0.0.0", "timerMsecs": 1000,
            "networkType": "POINTOPOINT", "timerDeadSecs": 4, "timerPassiveIface": true}}});
        let found = &speaking(&interfaces, &json!(null))[0];
        assert!(found.passive);
        let told: Vec<String> = found.settings.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let wanted =
            ["area 0.0.0.0", "dead interval 4", "hello interval 1", "network type POINTOPOINT"];
        assert_eq!(told, wanted);
        for odd in [json!(null), json!([1]), json!({"interfaces": 3, "x": {"bgpState": 1}})] {
            assert!(sessions(&odd).is_empty() && speaking(&odd, &odd).is_empty());
            assert_eq!(known(&odd), BgpRoute::default());
        }
    }

    #[test]
    fn routes_and_filters_of_bgp_are_read_as_frr_tells_them() {
        let said = json!({"prefix": "10.2.0.0/24", "advertisedTo": {"10.0.0.1": {"hostname": "r3"}, "x": 1},
            "paths": [{"nexthops": [{"ip": "10.0.0.9", "accessible": false}]}]});
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let found = known(&said);
        assert_eq!(found.prefix, Some("10.2.0.0/24".parse().unwrap()));
        assert_eq!(found.told_to, [address("10.0.0.1")]);
        assert_eq!(found.unreachable, [address("10.0.0.9")]);
        let hop = |ip: &str, accessible: bool| json!({"ip": ip, "accessible": accessible});
        let both =
            json!({"paths": [{"nexthops": [hop("10.0.0.9", false), hop("10.0.0.8", true)]}]});
        assert!(known(&both).unreachable.is_empty());
        let families = json!({"ipv4Unicast": {"outgoingUpdatePrefixFilterList": "no",
            "routeMapForIncomingAdvertisements": "some", "sentPrefixCounter": 2}});
        let told: Vec<String> = filters(&families)
            .iter()
            .map(|f| format!("{} {} {}", f.kind, f.name, if f.out { "out" } else { "in" }))
            .collect();
        assert_eq!(told, ["prefix-list no out", "route-map some in"]);
    }
}
