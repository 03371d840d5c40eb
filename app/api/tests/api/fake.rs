//! A lab that exists only as data, and does on demand what real ones rarely do.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use netloom_api::{Server, serve};
use netloom_flow::control::requests::{Shown as FlowShown, TraceWhat, Traced};
use netloom_lab::view::{
    Applied, Apply, Changed, FateView, Fates, LabStatus, LinkSettings, LinkStatus, MoveInterface,
    NewLink, NewNode, NewSwitch, NodeSettings, NodeStatus, PairReachability, Reachability,
    Repaired,
};
use netloom_lab::{Error, LogMark, Result, Service};
use netloom_measure::{Interfaces, Probe};
use netloom_model::Plan;
use netloom_model::lookup::LookupError;
use netloom_node::entry::Entry;
use netloom_node::log::Record;
use netloom_node::ping::Pace;
use netloom_slice::control::Shown as Sliced;
use netloom_switch::control::requests::{Answer, MacEntry, MacTable, Request, Shown};
use netloom_sys::cgroup::Join;
use serde_json::json;

/// What the fake was asked, and what it is to do.
pub(crate) struct Fake {
    folder: PathBuf,
    plan: Arc<Plan>,
    /// Failure of the next call that is noted, once.
    pub(crate) fail: Mutex<Option<Error>>,
    /// `repair` panics.
    pub(crate) panics: Mutex<bool>,
    /// `repair` takes until this is false.
    pub(crate) busy: (Mutex<bool>, Condvar),
    /// Calls with their arguments.
    pub(crate) asked: Mutex<Vec<String>>,
    records: Mutex<Vec<Record>>,
    probe: Arc<Probe>,
}

/// Interfaces of the fake, all of which are `lo` of the namespace at hand.
struct Loops;

/// Their names.
pub(crate) const LOOPS: [&str; 2] = ["h1:eth0", "s1/h1:eth0"];

impl Interfaces for Loops {
    fn names(&self) -> netloom_measure::Result<Vec<String>> {
        Ok(LOOPS.map(str::to_owned).to_vec())
    }

    fn visit(
        &self,
        netif: &str,
        work: &mut (dyn FnMut(u32) -> netloom_measure::Result<()> + Send),
    ) -> netloom_measure::Result<()> {
        match LOOPS.contains(&netif) {
            true => work(1),
            false => Err(netloom_measure::Error::NoInterface { netif: netif.to_owned() }),
        }
    }
}

/// A fake lab being served in a folder of its own.
pub(crate) struct Served {
    pub(crate) fake: Arc<Fake>,
    pub(crate) server: Server,
    pub(crate) folder: tempfile::TempDir,
}

impl Served {
    pub(crate) fn new() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::new(folder.path()));
        let server = serve(folder.path(), Arc::clone(&fake) as Arc<dyn Service>).unwrap();
        Served { fake, server, folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn client(&self) -> netloom_api::Client {
        netloom_api::Client::connect(self.path()).unwrap()
    }

    /// Lets every user come as far as the check of users.
    pub(crate) fn open_to_all(&self) {
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(self.path(), 0o755);
        set(&self.path().join("api.sock"), 0o666);
        set(&self.path().join("handles.sock"), 0o666);
    }
}

impl Fake {
    pub(crate) fn new(folder: &Path) -> Fake {
        Fake {
            folder: folder.to_owned(),
            plan: Arc::new(plan()),
            fail: Mutex::new(None),
            panics: Mutex::new(false),
            busy: (Mutex::new(false), Condvar::new()),
            asked: Mutex::new(vec![]),
            records: Mutex::new(vec![]),
            probe: Arc::new(Probe::new("fake".into(), Arc::new(Loops))),
        }
    }

    /// A program of a node writes a line.
    pub(crate) fn write(&self, time_ns: u64, text: &str) {
        let record = Record { time_ns, program: 0, name: None, text: text.to_owned() };
        self.records.lock().unwrap().push(record);
    }

    /// The files behind the `tasks` descriptors of an entry.
    pub(crate) fn tasks(&self) -> [PathBuf; 2] {
        ["tasks-cpu", "tasks-pids"].map(|name| self.folder.join(name))
    }

    fn note(&self, call: impl Into<String>) -> Result<()> {
        self.asked.lock().unwrap().push(call.into());
        self.fail.lock().unwrap().take().map_or(Ok(()), Err)
    }

    /// Lets calls that take long end.
    pub(crate) fn free(&self) {
        *self.busy.0.lock().unwrap() = false;
        self.busy.1.notify_all();
    }

    fn known_switch(&self, switch: &str) -> Result<()> {
        match switch {
            "s 1" => Ok(()),
            "fault" => panic!("as the test wants"),
            _ => Err(LookupError::NoSwitch {
                lab: "fake".into(),
                switch: switch.into(),
                hint: String::new(),
            }
            .into()),
        }
    }

    fn known_link(&self, link: &str) -> Result<()> {
        match link {
            "t/a:eth0--s 1" | "t/a:eth0" => Ok(()),
            "fault" => panic!("as the test wants"),
            _ => Err(LookupError::NoLink {
                lab: "fake".into(),
                link: link.into(),
                hint: "; `netloom link list` shows them".into(),
            }
            .into()),
        }
    }

    /// A change that did what was asked, and has something to say.
    fn changed(&self, name: &str, call: String) -> Result<Changed> {
        self.note(call)?;
        Ok(Changed { name: name.to_owned(), notes: vec!["3 processes run, 2 are allowed".into()] })
    }

    fn known(&self, node: &str) -> Result<()> {
        match node {
            "h1" | "r 1/x" => Ok(()),
            "dead" => Err(Error::DeadNode(node.into())),
            "fault" => panic!("as the test wants"),
            _ => Err(LookupError::NoNode {
                lab: "fake".into(),
                node: node.into(),
                hint: "; did you mean \"h1\"".into(),
            }
            .into()),
        }
    }
}

impl Service for Fake {
    fn plan_limit(&self) -> usize {
        64 << 20
    }

    fn status(&self) -> Result<LabStatus> {
        self.note("status")?;
        Ok(status())
    }

    fn node(&self, node: &str) -> Result<NodeStatus> {
        self.known(node)?;
        self.note(format!("node {node}"))?;
        Ok(status().nodes.into_iter().find(|n| n.name == node).expect("a node of the fake's"))
    }

    fn link(&self, link: &str) -> Result<LinkStatus> {
        let at = match link {
            "l" | "h1:eth0" | "h1,s1" => 0,
            other => self.known_link(other).map(|()| 1)?,
        };
        self.note(format!("link {link}"))?;
        Ok(status().links.remove(at))
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn repair(&self, keep_drift: bool) -> Result<Repaired> {
        let panics = *self.panics.lock().unwrap();
        assert!(!panics, "as the test wants");
        self.note(if keep_drift { "repair but drift" } else { "repair" })?;
        let (busy, free) = &self.busy;
        drop(free.wait_while(busy.lock().unwrap(), |busy| *busy).unwrap());
        Ok(Repaired {
            nodes: vec!["h1".into()],
            troubles: vec!["t".into()],
            notes: vec!["n".into()],
            drift: vec![],
        })
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        self.note(format!("ping {families:?} {timeout:?}"))?;
        Ok(reachability())
    }

    fn ping_pair(
        &self,
        from: &str,
        to: &str,
        families: &[u8],
        pace: Pace,
    ) -> Result<PairReachability> {
        self.known(from)?;
        self.known(to)?;
        let Pace { count, interval, timeout } = pace;
        self.note(format!("ping {from} {to} {families:?} {count} {interval:?} {timeout:?}"))?;
        Ok(pair_reachability())
    }

    fn log(&self, node: &str, after_ns: u64) -> Result<Vec<Record>> {
        self.known(node)?;
        self.asked.lock().unwrap().push(format!("log {node} {after_ns}"));
        let records = self.records.lock().unwrap();
        Ok(records.iter().filter(|r| r.time_ns > after_ns).cloned().collect())
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        self.known(node)?;
        Ok([(self.records.lock().unwrap().len() as u64, 0), (0, 0)])
    }

    fn entry(&self, node: &str) -> Result<Entry> {
        self.known(node)?;
        let tasks = self.tasks().map(|path| File::create(path).unwrap().into()).into();
        Ok(Entry {
            node: node.to_owned(),
            init: netloom_sys::process::pidfd(rustix::process::getpid())?,
            groups: Join { tasks, v2: Some(File::open(&self.folder).unwrap().into()) },
            user: true,
            own_user: true,
            env: vec![("PATH".into(), "/bin".into()), ("X".into(), "1 \"2\"\n".into())],
            nested: true,
            privileged: false,
            users: netloom_node::Users::Pretended,
            by_init: true,
            machine: true,
        })
    }

    fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()> {
        self.known(node)?;
        for fd in fds {
            let _ = rustix::io::write(fd, b"passed on");
        }
        Ok(())
    }

    fn core(&self) -> Result<Entry> {
        Ok(Entry { node: "(core)".to_owned(), ..self.entry("h1")? })
    }

    fn create_node(&self, request: &NewNode) -> Result<Changed> {
        let NewNode { name, settings, root } = request;
        if name == "h1" {
            let reason = "the name is taken".to_owned();
            return Err(Error::Conflict { lab: "fake".into(), reason });
        }
        self.changed(name, format!("create {name} {settings:?} {root:?}"))
    }

    fn delete_node(&self, node: &str, force: bool) -> Result<Changed> {
        self.known(node)?;
        if node == "r 1/x" && !force {
            let reason = "it has 1 process: sleep (7)".to_owned();
            return Err(Error::Busy { object: format!("node {node:?}"), reason });
        }
        self.changed(node, format!("delete {node} {force}"))
    }

    fn move_control(&self, node: &str) -> Result<Changed> {
        self.known(node)?;
        self.changed(node, format!("move control {node}"))
    }

    fn set_node(&self, node: &str, change: &NodeSettings) -> Result<Changed> {
        self.known(node)?;
        if let Some((key, _)) = change.settings.iter().find(|(_, value)| value == "wrong") {
            let reason = format!("{key}: takes a number");
            return Err(Error::Invalid { object: format!("node {node:?}"), reason });
        }
        self.changed(node, format!("set {node} {:?}", change.settings))
    }

    fn move_interface(&self, request: &MoveInterface) -> Result<Changed> {
        let MoveInterface { interface, to, name, carry } = request;
        self.known(to)?;
        self.changed("eth7", format!("move {interface} {to} {name:?} {carry}"))
    }

    fn set_link(&self, link: &str, change: &LinkSettings) -> Result<LinkStatus> {
        self.known_link(link)?;
        let LinkSettings { end, clear, settings, up } = change;
        let up = up.map_or_else(String::new, |up| format!(" {up}"));
        self.note(format!("impair {link} {end:?} {clear} {settings:?}{up}"))?;
        Ok(status().links.remove(1))
    }

    fn create_link(&self, request: &NewLink) -> Result<Changed> {
        let NewLink { a, b, name, addresses, macs, settings } = request;
        let words = format!("create link {a} {b} {name:?} {addresses:?} {macs:?} {settings:?}");
        self.changed("a:eth0--b:eth0", words)
    }

    fn delete_link(&self, link: &str) -> Result<Changed> {
        self.known_link(link)?;
        self.changed(link, format!("delete link {link}"))
    }

    fn note_fates(&self, link: &str, keep: Option<usize>) -> Result<()> {
        self.known_link(link)?;
        self.note(format!("note {link} {keep:?}"))
    }

    fn fates(&self, link: &str, end: usize, after: Option<u64>) -> Result<Fates> {
        self.known_link(link)?;
        self.asked.lock().unwrap().push(format!("fates {link} {end} {after:?}"));
        // A record is a packet: its time the sequence number, its text the fate.
        let records = self.records.lock().unwrap();
        let later = records.iter().filter(|r| after.is_none_or(|after| r.time_ns > after));
        let fates = later.map(|r| fate(r.time_ns, end, &r.text)).collect();
        Ok(Fates { fates, missed: 0 })
    }

    fn create_switch(&self, request: &NewSwitch) -> Result<Changed> {
        let NewSwitch { name, settings } = request;
        if name == "s 1" {
            let reason = "the name is taken".to_owned();
            return Err(Error::Conflict { lab: "fake".into(), reason });
        }
        self.changed(name, format!("create switch {name} {settings:?}"))
    }

    fn delete_switch(&self, switch: &str, force: bool) -> Result<Changed> {
        self.known_switch(switch)?;
        if !force {
            let reason = "ports are on it: p".to_owned();
            return Err(Error::Busy { object: format!("switch {switch:?}"), reason });
        }
        self.changed(switch, format!("delete switch {switch} {force}"))
    }

    fn show_openflow(&self, switch: &str) -> Result<FlowShown> {
        self.known_switch(switch)?;
        self.note(format!("show openflow {switch}"))?;
        Ok(FlowShown { name: switch.to_owned(), entries: 3, ..FlowShown::default() })
    }

    fn show_slices(&self) -> Result<Sliced> {
        self.note("show slices".to_owned())?;
        Ok(Sliced { name: "fake".to_owned(), pid: 9, ..Sliced::default() })
    }

    fn trace_frame(&self, switch: &str, what: &TraceWhat) -> Result<Traced> {
        self.known_switch(switch)?;
        self.note(format!("trace {switch} {}", serde_json::to_string(what).unwrap()))?;
        Ok(Traced { port: 7, ..Traced::default() })
    }

    fn ask_switch(&self, switch: &str, request: &Request) -> Result<Answer> {
        self.known_switch(switch)?;
        self.note(format!("ask {switch} {}", serde_json::to_string(request).unwrap()))?;
        let object = format!("switch {switch:?}");
        let mac = netloom_switch::rules::Mac([2, 0, 0, 0, 0, 1]);
        let entry = MacEntry { mac, vlan: 7, port: 1, age: 3 };
        Ok(match request {
            Request::Show => Answer::Shown(Box::new(shown())),
            Request::Macs { .. } => Answer::Macs(vec![MacTable { port: 1, entries: vec![entry] }]),
            Request::AddMirror(_) => Answer::Mirror(1),
            Request::DeleteMirror { mirror } if *mirror != 1 => {
                return Err(Error::Busy {
                    object,
                    reason: format!("mirror {mirror}: there is none"),
                });
            }
            Request::Stop => {
                let reason = "it ends with its lab".to_owned();
                return Err(Error::Invalid { object, reason });
            }
            _ => Answer::Done,
        })
    }

    fn apply(&self, request: Apply) -> Result<Applied> {
        let Apply { plan, expected, keep_drift, dry_run, .. } = request;
        let Some(plan) = plan else {
            let (object, reason) = ("plan".to_owned(), "is missing".to_owned());
            return Err(Error::Invalid { object, reason });
        };
        self.note(format!("apply {} {expected:?} {keep_drift} {dry_run}", plan.lab))?;
        Ok(Applied { digest: "d".into(), done: !dry_run, ..Applied::default() })
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        Ok(Arc::clone(&self.probe))
    }

    fn down(&self) -> Result<()> {
        self.note("down")
    }
}

/// A packet's fate with and without its optional value.
pub(crate) fn fate(sequence: u64, end: usize, fate: &str) -> FateView {
    FateView {
        sequence,
        end,
        time_ns: 5,
        hash: "00ff".into(),
        bytes: 98,
        fate: fate.to_owned(),
        delay_ns: (fate == "sent").then_some(7),
        duplicated: false,
        corrupted: true,
    }
}

/// A status in which everything is there once, with and without its optional values.
pub(crate) fn status() -> LabStatus {
    let limits = json!({"cpu_milli": 500, "memory": 1 << 28, "weight": 50, "processes": null,
        "sockets": 9});
    let traffic = json!({"rx_bytes": u64::MAX, "rx_packets": 2, "rx_lost": 3,
        "tx_bytes": 4, "tx_packets": 5, "tx_lost": 6});
    let interface = json!({"name": "eth0", "link": "l", "mac": "02:00:00:00:00:01", "mtu": 1500,
        "addresses": ["10.0.0.1/24", "fd00::1/64"], "up": true, "traffic": traffic});
    let gone = json!({"name": "eth1", "link": "m", "mac": "02:00:00:00:00:02", "mtu": 1500,
        "addresses": [], "up": null, "traffic": null});
    let sender = json!({"sender": "h2:eth0", "passed_packets": 1, "dropped_packets": 2,
        "dropped_bytes": 3});
    let protect = json!({"packets": 1000, "bytes": null, "passed_packets": 1, "passed_bytes": 2,
        "dropped_packets": 3, "dropped_bytes": 4, "senders": [sender]});
    let full = json!({"name": "h1", "alive": true, "pid": 3, "forwarding": false,
        "privileged": true, "parent": null,
        "children": {"count": 1, "limit": 4}, "cpu_ns": 7, "cpu_user_ns": 3, "cpu_system_ns": 2,
        "cpu_receive_ns": 2, "load": [0.5, 0.25, 0.0], "memory": 5, "processes": 1, "sockets": 4,
        "sockets_counted": 3, "sockets_refused": 2, "limits": limits, "protect": protect,
        "drops": [{"cause": "protect", "packets": 3}],
        "programs": [{"command": ["a", "b"], "pid": 9, "exit_code": null, "restarts": 0}],
        "addresses": ["10.0.0.1/24"], "interfaces": [interface, gone]});
    let bare = json!({"name": "r 1/x", "alive": false, "pid": null, "forwarding": true,
        "parent": "h1", "children": null, "cpu_ns": null, "cpu_user_ns": null,
        "cpu_system_ns": null, "cpu_receive_ns": null, "load": null, "memory": null,
        "processes": null, "sockets": null, "sockets_counted": null, "sockets_refused": null,
        "limits": {"cpu_milli": null, "memory": null, "weight": null, "processes": null,
            "sockets": null},
        "protect": null, "drops": [], "programs": [], "addresses": [], "interfaces": []});
    serde_json::from_value(json!({
        "name": "fake", "state": "degraded", "digest": "0123456789abcdef", "pid": 5, "since": 6,
        "read_ns": 7, "user": false, "nodes": [full, bare],
        "switches": [{"name": "s1", "kind": "kernel", "bridge": "s1", "links": ["l"]},
            {"name": "s 1", "kind": "shm", "bridge": "", "links": []}],
        "links": [{"name": "l", "ends": ["h1:eth0", "s1"], "up": true, "down": false, "wire": null},
            {"name": "t/a:eth0--s 1", "ends": ["t/a:eth0", "s 1"], "up": false, "down": true,
                "wire": wire()}],
    }))
    .unwrap()
}

/// A wire with an impairment in one direction.
fn wire() -> serde_json::Value {
    let direction = json!({"from": "t/a:eth0", "impairments": {"delay": "10ms"},
        "offered_packets": 1, "offered_bytes": 2, "sent_packets": 3, "sent_bytes": 4,
        "duplicated": 5, "corrupted": 6, "reordered": 7, "held_packets": 8, "held_bytes": 9,
        "lost": {"loss": 1, "queue": 2}, "late_us": [1.5, 20.0]});
    json!({"state": "running", "restarts": 0, "directions": [direction, null]})
}

/// A plan in which everything is there once, with and without its optional values.
pub(crate) fn plan() -> Plan {
    let mac = [2, 0, 0, 0, 0, 255];
    let time = json!({"secs": 30, "nanos": 5});
    let ready = json!({"tcp": [80], "exec": ["true"], "files": ["/x"], "timeout": time});
    let node = |id: usize, root: Option<&str>, restart: &str, content, via: Option<&str>| {
        json!({"id": id, "name": "h1", "parent": id.checked_sub(1), "children": root.map(|_| 4),
            "forwarding": if id == 0 { json!(true) } else { json!("ipv6") },
            "hostname": "x", "loopback": ["10.9.0.1/32"],
            "binds": [{"to": "/a", "from": "/b", "write": true}],
            "exec": [{"program": {"command": ["a"], "restart": "never"}, "fatal": true, "timeout": time}],
            "health": {"check": ready, "interval": time, "retries": 3},
            "privileged": true, "root": root, "storage": 1 << 20, "internet": false,
            "limits": {"cpu_milli": 10, "memory": null, "weight": 50, "processes": 4,
                "sockets": 5},
            "protect": {"packets": 1000, "bytes": null}, "charge_receive": true,
            "run": [{"command": ["sleep", "9"], "restart": restart}], "env": [["A", "b"]],
            "files": [{"path": "/f", "content": content, "mode": 0o644}], "ready": ready,
            "sysctls": [["net/ipv4/ip_forward", "1"]],
            "interfaces": [{"name": "eth0", "index": 2, "link": 0, "mac": mac, "mtu": 1500,
                "addresses": ["10.0.0.1/24", "fd00::1/64"]}],
            "routes": [{"to": "::/0", "via": via, "interface": 0},
                {"to": "fd01::/64", "via": "fd00::3", "interface": 0,
                    "also": [{"via": "fd00::4", "interface": 0}]}]})
    };
    let impaired = impairments();
    serde_json::from_value(json!({
        "lab": "fake", "digest": "0123456789abcdef", "hosts": "127.0.0.1 localhost\n",
        "next_id": 3,
        "scheme": {"pool": {"ipv4": "10.0.0.0/8", "ipv6": null}, "routing": true, "ecmp": false,
            "switches": {"s1": ["10.0.0.0/24"]}, "blocks": [[0, "10.1.0.0/22"]],
            "routed_by_hand": [2], "next_link": 2},
        "nodes": [node(0, None, "never", json!({"text": "t"}), Some("fd00::2")),
            node(1, Some("/r"), "on-failure", json!({"from": "/t"}), None),
            node(2, None, "always", json!({"text": ""}), None)],
        "switches": [
            {"name": "s1", "index": 2, "bridge": "s1", "mac": mac, "mtu": 9000, "shm": null},
            {"name": "s2", "index": 3, "bridge": "s2", "mac": mac, "mtu": 1500, "shm": shm()}],
        "links": [
            {"id": 0, "name": "l", "mtu": 1500, "impairments": impaired[..2],
                "ends": [{"node": {"node": 0, "interface": 0}},
                    {"port": {"switch": 0, "name": "p0", "mac": mac}}]},
            {"id": 1, "name": "m", "mtu": 1500, "impairments": impaired[2..],
                "ends": [{"host": {"iface": "eth1"}},
                    {"internet": {"addresses": ["10.1.0.1/24"]}}]},
            {"id": 2, "name": "n", "mtu": 1500, "impairments": impaired[..2],
                "ends": [{"node": {"node": 0, "interface": 0}}, {"nowhere": {"name": "p1", "mac": mac}}]}],
    }))
    .unwrap()
}

/// A shared-memory switch with ports of all kinds.
fn shm() -> serde_json::Value {
    let port = |vlan| json!({"number": 1, "owner": "root", "vlan": vlan, "lock": ["2:0:0:0:0:1"]});
    let mirror = |direction: &str| json!({"from": ["a"], "direction": direction, "to": "b", "filter": "tcp"});
    json!({"mode": 0o600, "group": "users", "arena": 1 << 18, "ageing": 60,
        "ports": {"a": port(json!({"access": 7})), "b": {"number": null, "owner": null,
            "vlan": null, "lock": []},
            "c": port(json!({"trunk": {"native": 7, "allowed": "1-3"}}))},
        "mirrors": [mirror("in"), mirror("out"), mirror("both")]})
}

/// What the fake's only switch answers, as if all of it were there.
fn shown() -> Shown {
    let rules = json!({"name": "p", "uid": 5, "gid": 6, "learn": false,
        "vlan": {"trunk": {"native": 7, "allowed": "1-3"}}, "macs": ["02:00:00:00:00:01"]});
    let port = json!({"number": 1, "name": "p", "presence": "here", "pid": 9, "uid": 5, "since": 4,
        "edges-out": 1, "edges-in": 2, "memory-kib": 3, "super-frames": true, "checksums": true,
        "counters": {"sent-frames": 5}, "rules": rules});
    let mut free = port.clone();
    for (key, value) in [
        ("presence", json!("free")),
        ("rules", json!({"vlan": {"access": 7}})),
        ("pid", json!(null)),
        ("uid", json!(null)),
        ("since", json!(null)),
    ] {
        free[key] = value;
    }
    let mut awaited = free.clone();
    (awaited["presence"], awaited["rules"]) = (json!("awaited"), json!({}));
    let mirror = json!({"to": 3, "filter": "tcp", "sources": [{"port": 1, "direction": "both"}]});
    serde_json::from_value(json!({"pid": 1, "uid": 0, "since": 2, "cpu-us": 3, "memory-kib": 4,
        "edges": 5, "vlans": true, "relay": {"dropped-full": 1}, "joins": 6, "refused": 7,
        "expelled": 8, "ports": [port, free, awaited], "mirrors": {"1": mirror}}))
    .unwrap()
}

/// Impairments with every form of jitter, loss and queue, and with none.
fn impairments() -> [serde_json::Value; 4] {
    let time = json!({"secs": 0, "nanos": 1_000_000});
    let one = |form: &str, loss, queue| {
        json!({"delay": time, "loss": loss, "queue": queue, "duplicate": 1, "reorder": 2,
            "corrupt": 3, "rate": 1000, "mtu": 1400, "seed": 5,
            "jitter": {"spread": time, "distribution": form, "correlation": 4}})
    };
    let bursts = json!({"bursts": {"enter": 1, "leave": 2, "bad": 3, "good": 4}});
    [
        one("pareto", json!({"random": {"share": 6, "correlation": 7}}), json!({"packets": 8})),
        one("uniform", bursts, json!({"time": time})),
        one("normal", json!({"pattern": [true, false]}), json!(null)),
        json!({}),
    ]
}

/// A matrix of two nodes.
/// What pinging one node of the fake from another gives.
pub(crate) fn pair_reachability() -> PairReachability {
    serde_json::from_value(json!({"from": "h1", "to": "r 1/x", "families": [
        {"version": 4, "address": "10.0.0.1", "rtt_us": [null, 35]}]}))
    .unwrap()
}

pub(crate) fn reachability() -> Reachability {
    serde_json::from_value(json!({"nodes": ["h1", "h2"], "families": [
        {"version": 4, "rtt_us": [[null, 35], [null, null]], "asked": 2, "answered": 1}]}))
    .unwrap()
}
