//! A lab that exists only as data, and does on demand what real ones rarely do.

use std::any::Any;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use netloom_api::{Server, serve};
use netloom_flow::control::requests::{Shown as FlowShown, Traced};
use netloom_lab::call::{Answers, Call, Parameter, Within, Write};
use netloom_lab::calls::{
    ApplyPlan, AskSwitch, CreateLink, CreateNode, CreateSwitch, DeleteNode, DeleteSwitch, Events,
    Move, Packets, ReadFates, ReadLog, Repair, SetNode, ShowPlan, Why,
};
use netloom_lab::metrics::Metrics;
use netloom_lab::stream::{Kept, Recorder};
use netloom_lab::view::{
    Applied, Changed, Ended, FateView, Fates, FoundPackets, LabCounts, LabFacts, LabStatus,
    LinkCounters, LogLine, NodeStatus, Noting, PairReachability, Reachability, Repaired,
};
use netloom_lab::{Error, LogMark, Result, Service, Subject};
use netloom_measure::{Interfaces, Probe};
use netloom_model::Plan;
use netloom_model::lookup::LookupError;
use netloom_node::entry::Entry;
use netloom_node::log::Record;
use netloom_slice::control::{Shown as Sliced, SliceShown};
use netloom_switch::control::requests::{Answer, MacEntry, MacTable, Request, Shown};
use netloom_sys::cgroup::Join;
use serde::Serialize;
use serde_json::json;

/// What the fake was asked, and what it is to do.
pub(crate) struct Fake {
    folder: PathBuf,
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
    /// Names of what was made and not removed, by kind.
    made: Mutex<BTreeSet<(String, String)>>,
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
        Served::by(serve)
    }

    /// One that closes no connection for being silent.
    pub(crate) fn patient() -> Served {
        Served::by(crate::server::patient::serve)
    }

    fn by(serve: impl FnOnce(&Path, Arc<dyn Service>) -> netloom_api::Result<Server>) -> Served {
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
            fail: Mutex::new(None),
            panics: Mutex::new(false),
            busy: (Mutex::new(false), Condvar::new()),
            asked: Mutex::new(vec![]),
            records: Mutex::new(vec![]),
            probe: Arc::new(Probe::new("fake".into(), Arc::new(Loops))),
            made: Mutex::default(),
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

    /// Lets calls that take long end.
    pub(crate) fn free(&self) {
        *self.busy.0.lock().unwrap() = false;
        self.busy.1.notify_all();
    }

    /// Whether the object that a value names is there.
    fn known(kind: &str, name: &str) -> Result<()> {
        let (lab, asked) = ("fake".to_owned(), name.to_owned());
        match (kind, name) {
            (_, "fault") => panic!("as the test wants"),
            (_, "dead") => Err(Error::DeadNode(asked)),
            ("node" | "to", "h1" | "r 1/x") | ("switch", "s 1") => Ok(()),
            ("link", "l" | "h1:eth0" | "h1,s1" | "t/a:eth0--s 1" | "t/a:eth0") => Ok(()),
            ("node" | "to", _) => {
                let hint = "; did you mean \"h1\"".to_owned();
                Err(LookupError::NoNode { lab, node: asked, hint }.into())
            }
            ("link", _) => {
                let hint = "; `netloom link list` shows them".to_owned();
                Err(LookupError::NoLink { lab, link: asked, hint }.into())
            }
            ("interface", "eth0" | "eth1") | ("slice", "red") => Ok(()),
            ("interface" | "slice", _) => {
                let kind = if kind == "slice" { "slice" } else { "interface" };
                let name = if kind == "slice" { asked } else { format!("h1:{name}") };
                Err(LookupError::NoPart { lab, kind, name }.into())
            }
            ("switch", _) => {
                Err(LookupError::NoSwitch { lab, switch: asked, hint: String::new() }.into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses what a lab would refuse.
    fn check(call: &dyn Any) -> Result<()> {
        let is = |reason: &str| reason.to_owned();
        let taken = Err(Error::Conflict { lab: is("fake"), reason: is("the name is taken") });
        let busy = |object: Subject, reason: &str| Err(Error::Busy { object, reason: is(reason) });
        let invalid =
            |object: Subject, reason: &str| Err(Error::Invalid { object, reason: is(reason) });
        if call.downcast_ref().is_some_and(|call: &CreateNode| call.new.name == "h1")
            || call.downcast_ref().is_some_and(|call: &CreateSwitch| call.new.name == "s 1")
        {
            return taken;
        }
        if let Some(DeleteNode { node, force: false }) = call.downcast_ref()
            && &**node == "r 1/x"
        {
            return busy(Subject::of("node", &*node.0), "it has 1 process: sleep (7)");
        }
        if let Some(DeleteSwitch { switch, force: false }) = call.downcast_ref() {
            return busy(Subject::of("switch", &*switch.0), "ports are on it: p");
        }
        if let Some(SetNode { node, change }) = call.downcast_ref()
            && let Some((key, _)) = change.settings.iter().find(|(_, value)| value == "wrong")
        {
            return invalid(Subject::of("node", &*node.0), &format!("{key}: takes a number"));
        }
        if let Some(AskSwitch { switch, request }) = call.downcast_ref() {
            let object = Subject::of("switch", &*switch.0);
            return match request {
                Request::DeleteMirror { mirror } if *mirror != 1 => {
                    busy(object, &format!("mirror {mirror}: there is none"))
                }
                Request::Stop => invalid(object, "it ends with its lab"),
                _ => Ok(()),
            };
        }
        if let Some(Move { request }) = call.downcast_ref() {
            Self::known("node", &request.to)?;
        }
        if let Some(Why { request }) = call.downcast_ref() {
            Self::known("node", &request.from)?;
            if request.family.is_some_and(|family| !matches!(family, 4 | 6)) {
                return invalid("the flow".into(), "the family is 4 or 6");
            }
        }
        if let Some(Packets { request }) = call.downcast_ref()
            && request.last_ms.is_none()
        {
            return invalid("the question".into(), "say which part");
        }
        match call.downcast_ref::<ApplyPlan>() {
            Some(call) if call.request.plan.is_none() => invalid("plan".into(), "is missing"),
            _ => Ok(()),
        }
    }

    /// Remembers what is made, until it is removed.
    fn remember<C: Call>(&self, call: &dyn Any, named: Option<&(String, String)>) {
        let mut made = self.made.lock().unwrap();
        if C::OPERATION.method == "DELETE"
            && let Some(named) = named
        {
            made.remove(named);
        }
        let node = call.downcast_ref().map(|call: &CreateNode| ("node", call.new.name.clone()));
        let switch =
            call.downcast_ref().map(|call: &CreateSwitch| ("switch", call.new.name.clone()));
        let link = call.is::<CreateLink>().then(|| ("link", "a:eth0--b:eth0".to_owned()));
        made.extend(node.or(switch).or(link).map(|(kind, name)| (kind.to_owned(), name)));
    }

    /// Answers that depend on the call.
    fn of_call(&self, call: &dyn Any, name: &str) -> Box<dyn Any> {
        let records = self.records.lock().unwrap();
        if let Some(call) = call.downcast_ref::<ReadLog>() {
            let later = records.iter().filter(|r| r.time_ns > call.after.0).cloned();
            return Box::new(later.map(LogLine::from).collect::<Vec<_>>());
        }
        if let Some(call) = call.downcast_ref::<Events>() {
            // A record is an event: its time is the number of it.
            let mut kept = Kept::new(0xfa);
            let mut recorder = Recorder::default();
            for record in records.iter() {
                recorder
                    .node(NodeStatus { name: record.text.clone(), ..status().nodes[0].clone() });
                kept.push(recorder.take(), record.time_ns);
            }
            return Box::new(kept.since(call.since.0.as_deref(), recorder.picture()));
        }
        if let Some(ReadFates { end, after, .. }) = call.downcast_ref() {
            // A record is a packet: its time the sequence number, its text the fate.
            let later = records.iter().filter(|r| after.is_none_or(|after| r.time_ns > after));
            let fates = later.map(|r| fate(r.time_ns, end.size(), &r.text)).collect();
            return Box::new(Fates { fates, missed: 0 });
        }
        if let Some(AskSwitch { request, .. }) = call.downcast_ref() {
            let mac = netloom_switch::rules::Mac([2, 0, 0, 0, 0, 1]);
            let entry = MacEntry { mac, vlan: 7, port: 1, age: 3 };
            return Box::new(match request {
                Request::Show => Answer::Shown(Box::new(shown())),
                Request::Macs { .. } => {
                    Answer::Macs(vec![MacTable { port: 1, entries: vec![entry] }])
                }
                Request::AddMirror(_) => Answer::Mirror(1),
                _ => Answer::Done,
            });
        }
        let name = match () {
            () if call.is::<Move>() => "eth7".to_owned(),
            () if call.is::<CreateLink>() => "a:eth0--b:eth0".to_owned(),
            () => {
                let node = call.downcast_ref::<CreateNode>().map(|call| call.new.name.clone());
                let switch = call.downcast_ref::<CreateSwitch>().map(|call| call.new.name.clone());
                node.or(switch).unwrap_or_else(|| name.to_owned())
            }
        };
        // A change did what was asked, and has something to say.
        Box::new(Changed { name, notes: vec!["3 processes run, 2 are allowed".into()] })
    }

    /// An answer of each type, about the object of this name.
    fn answers(&self, name: &str) -> Vec<Box<dyn Any>> {
        let LabStatus { nodes, mut links, switches, .. } = status();
        let link =
            links.clone().swap_remove(usize::from(!["l", "h1:eth0", "h1,s1"].contains(&name)));
        links.truncate(2);
        // What was made is like the first.
        let node = nodes.iter().find(|node| node.name == name).unwrap_or(&nodes[0]).clone();
        let switch = switches.iter().find(|switch| switch.name == name).unwrap_or(&switches[0]);
        let switch = switch.clone();
        let repaired = Repaired {
            nodes: vec!["h1".into()],
            troubles: vec!["t".into()],
            notes: vec!["n".into()],
            drift: vec![],
        };
        vec![
            Box::new(status()),
            Box::new(LabCounts::of(&status())),
            Box::new(plan()),
            Box::new(netloom_model::drawing::positions(&plan())),
            Box::new(reachability()),
            Box::new(pair_reachability()),
            Box::new(repaired),
            Box::new(nodes[0].interfaces.clone()),
            Box::new(nodes[0].interfaces[1].clone()),
            Box::new(nodes),
            Box::new(links),
            Box::new(switches),
            Box::new(link),
            Box::new(Noting { link: name.to_owned(), keep: 0 }),
            Box::new(FlowShown { name: name.to_owned(), entries: 3, ..FlowShown::default() }),
            Box::new(Sliced { name: "fake".to_owned(), pid: 9, ..Sliced::default() }),
            Box::new(SliceShown { name: name.to_owned(), ..SliceShown::default() }),
            Box::new(Traced { port: 7, ..Traced::default() }),
            Box::new(netloom_why::Report { from: "h1".into(), ..netloom_why::Report::default() }),
            Box::new(FoundPackets { more: true, ..FoundPackets::default() }),
            Box::new(Applied { digest: "d".into(), done: true, ..Applied::default() }),
            Box::new(netloom_lab::view::FidelityView::default()),
            Box::new(Ended { lab: "fake".to_owned() }),
            Box::new(node),
            Box::new(switch),
        ]
    }
}

/// A call in one line, with all its values; and what it names.
#[derive(Default)]
struct Line {
    text: String,
    names: Vec<(String, String)>,
}

impl Write for Line {
    fn path<T: Parameter>(&mut self, name: &str, value: &T) {
        self.query(name, value);
    }

    fn query<T: Parameter>(&mut self, name: &str, value: &T) {
        let value = value.write();
        self.text += &value.as_ref().map_or_else(String::new, |value| format!(" {value}"));
        self.names.extend(value.map(|value| (name.to_owned(), value)));
    }

    fn body<T: Serialize>(&mut self, _: &str, value: &T) {
        self.text += &format!(" {}", serde_json::to_string(value).unwrap());
    }
}

impl<C: Call> Answers<C> for Fake {
    fn answer(&self, call: C) -> Result<C::Answer> {
        let mut line = Line { text: C::OPERATION.name.to_owned(), names: vec![] };
        call.write(&mut line);
        for named in &line.names {
            if !self.made.lock().unwrap().contains(named) {
                Self::known(&named.0, &named.1)?;
            }
        }
        Self::check(&call)?;
        assert!(
            C::OPERATION.name != "repair" || !*self.panics.lock().unwrap(),
            "as the test wants"
        );
        self.asked.lock().unwrap().push(line.text);
        self.fail.lock().unwrap().take().map_or(Ok(()), Err)?;
        if C::OPERATION.name == "repair" {
            let (busy, free) = &self.busy;
            drop(free.wait_while(busy.lock().unwrap(), |busy| *busy).unwrap());
        }
        let name = line.names.first().map_or("", |(_, name)| name);
        self.remember::<C>(&call, line.names.first());
        let of_call = self.of_call(&call, name);
        let all = std::iter::once(of_call).chain(self.answers(name));
        let found = all.filter_map(|answer| answer.downcast::<C::Answer>().ok()).next();
        Ok(*found.unwrap_or_else(|| panic!("{}: no answer of its type", C::OPERATION.name)))
    }
}

impl Service for Fake {
    fn plan_limit(&self) -> usize {
        64 << 20
    }

    fn log_mark(&self, node: &str) -> Result<LogMark> {
        Self::known("node", node)?;
        Ok([(self.records.lock().unwrap().len() as u64, 0), (0, 0)])
    }

    fn entry(&self, node: &str) -> Result<Entry> {
        Self::known("node", node)?;
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
        Self::known("node", node)?;
        for fd in fds {
            let _ = rustix::io::write(fd, b"passed on");
        }
        Ok(())
    }

    fn core(&self) -> Result<Entry> {
        Ok(Entry { node: "(core)".to_owned(), ..self.entry("h1")? })
    }

    fn metrics(&self) -> Result<String> {
        self.asked.lock().unwrap().push("metrics".to_owned());
        self.fail.lock().unwrap().take().map_or(Ok(()), Err)?;
        let LabStatus { name, state, pid, since, nodes, links, switches, .. } = status();
        let mut recorder = Recorder::default();
        recorder.lab(LabFacts { name, state, pid, since });
        nodes.into_iter().for_each(|node| recorder.node(node));
        links.into_iter().for_each(|link| recorder.link(link, LinkCounters::default()));
        switches.into_iter().for_each(|switch| recorder.switch(switch));
        Ok(Metrics::default().exposition(recorder.picture()).0)
    }

    fn probe(&self) -> Result<Arc<Probe>> {
        Ok(Arc::clone(&self.probe))
    }
}

/// A repair of what is broken.
pub(crate) const REPAIR: Repair = Repair { keep_drift: false, from: Within::ALL };

/// The plan of all.
pub(crate) const PLAN: ShowPlan = ShowPlan { of: Within::ALL };

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
    let traffic = json!({"rx_bytes": netloom_form::MOST, "rx_packets": 2, "rx_lost": 3,
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
