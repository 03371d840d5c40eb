//! A lab that exists only as data, and does on demand what real ones rarely do.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use netloom_api::{Server, serve};
use netloom_lab::view::{LabStatus, Reachability, Repaired};
use netloom_lab::{Error, Result, Service};
use netloom_model::Plan;
use netloom_node::entry::Door;
use netloom_node::log::Record;
use netloom_sys::cgroup::Join;
use serde_json::json;

/// What the fake was asked, and what it is to do.
pub(crate) struct Fake {
    folder: PathBuf,
    plan: Arc<Plan>,
    /// Failure of `status`, `repair`, `ping` and `down`, once.
    pub(crate) fail: Mutex<Option<Error>>,
    /// `repair` panics.
    pub(crate) panics: Mutex<bool>,
    /// Calls with their arguments.
    pub(crate) asked: Mutex<Vec<String>>,
    records: Mutex<Vec<Record>>,
    written: Condvar,
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
            asked: Mutex::new(vec![]),
            records: Mutex::new(vec![]),
            written: Condvar::new(),
        }
    }

    /// A program of a node writes a line.
    pub(crate) fn write(&self, time_ns: u64, text: &str) {
        let record = Record { time_ns, program: 0, text: text.to_owned() };
        self.records.lock().unwrap().push(record);
        self.written.notify_all();
    }

    /// The files behind the `tasks` descriptors of a door.
    pub(crate) fn tasks(&self) -> [PathBuf; 2] {
        ["tasks-cpu", "tasks-pids"].map(|name| self.folder.join(name))
    }

    fn note(&self, call: impl Into<String>) -> Result<()> {
        self.asked.lock().unwrap().push(call.into());
        self.fail.lock().unwrap().take().map_or(Ok(()), Err)
    }

    fn known(&self, node: &str) -> Result<()> {
        match node {
            "h1" | "r 1/x" => Ok(()),
            "dead" => Err(Error::DeadNode(node.into())),
            "fault" => panic!("as the test wants"),
            _ => Err(Error::NoNode {
                lab: "fake".into(),
                node: node.into(),
                hint: "; did you mean \"h1\"".into(),
            }),
        }
    }
}

impl Service for Fake {
    fn status(&self) -> Result<LabStatus> {
        self.note("status")?;
        Ok(status())
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn repair(&self) -> Result<Repaired> {
        let panics = *self.panics.lock().unwrap();
        assert!(!panics, "as the test wants");
        self.note("repair")?;
        Ok(Repaired { nodes: vec!["h1".into()] })
    }

    fn ping(&self, families: &[u8], timeout: Duration) -> Result<Reachability> {
        self.note(format!("ping {families:?} {timeout:?}"))?;
        Ok(reachability())
    }

    fn log(&self, node: &str, after_ns: u64, wait: Duration) -> Result<Vec<Record>> {
        self.known(node)?;
        let after = |all: &Vec<Record>| {
            all.iter().filter(|r| r.time_ns > after_ns).cloned().collect::<Vec<_>>()
        };
        let records = self.records.lock().unwrap();
        self.asked.lock().unwrap().push(format!("log {node} {after_ns}"));
        let waited = self.written.wait_timeout_while(records, wait, |all| after(all).is_empty());
        Ok(after(&waited.unwrap().0))
    }

    fn door(&self, node: &str) -> Result<Door> {
        self.known(node)?;
        let tasks = self.tasks().map(|path| File::create(path).unwrap().into()).into();
        Ok(Door {
            node: node.to_owned(),
            init: netloom_sys::process::pidfd(rustix::process::getpid())?,
            groups: Join { tasks, v2: Some(File::open(&self.folder).unwrap().into()) },
            user: true,
            env: vec![("PATH".into(), "/bin".into()), ("X".into(), "1 \"2\"\n".into())],
        })
    }

    fn down(&self) -> Result<()> {
        self.note("down")
    }
}

/// A status in which everything is there once, with and without its optional values.
pub(crate) fn status() -> LabStatus {
    let limits = json!({"cpu_milli": 500, "memory": 1 << 28, "processes": null});
    let traffic = json!({"rx_bytes": u64::MAX, "rx_packets": 2, "rx_lost": 3,
        "tx_bytes": 4, "tx_packets": 5, "tx_lost": 6});
    let interface = json!({"name": "eth0", "link": "l", "mac": "02:00:00:00:00:01", "mtu": 1500,
        "addresses": ["10.0.0.1/24", "fd00::1/64"], "up": true, "traffic": traffic});
    let gone = json!({"name": "eth1", "link": "m", "mac": "02:00:00:00:00:02", "mtu": 1500,
        "addresses": [], "up": null, "traffic": null});
    let node = |name: &str, pid: Option<i32>| {
        json!({"name": name, "alive": pid.is_some(), "pid": pid, "forwarding": false,
            "cpu_ns": 7, "memory": null, "processes": 1, "limits": limits,
            "programs": [{"command": ["a", "b"], "pid": 9, "exit_code": null, "restarts": 0}],
            "interfaces": [interface, gone]})
    };
    serde_json::from_value(json!({
        "name": "fake", "state": "degraded", "digest": "0123456789abcdef", "pid": 5, "since": 6,
        "read_ns": 7, "user": false, "nodes": [node("h1", Some(3)), node("r 1/x", None)],
        "switches": [{"name": "s1", "kind": "kernel", "bridge": "s1", "links": ["l"]}],
        "links": [{"name": "l", "ends": ["h1:eth0", "s1"], "up": true}],
    }))
    .unwrap()
}

/// A plan in which everything is there once, with and without its optional values.
pub(crate) fn plan() -> Plan {
    let mac = [2, 0, 0, 0, 0, 255];
    let ready = json!({"tcp": [80], "exec": ["true"], "files": ["/x"],
        "timeout": {"secs": 30, "nanos": 5}});
    let node = |root: Option<&str>, restart: &str, content, via: Option<&str>| {
        json!({"name": "h1", "forwarding": true, "root": root, "internet": false,
            "limits": {"cpu_milli": 10, "memory": null, "processes": 4},
            "run": [{"command": ["sleep", "9"], "restart": restart}], "env": [["A", "b"]],
            "files": [{"path": "/f", "content": content, "mode": 0o644}], "ready": ready,
            "sysctls": [["net/ipv4/ip_forward", "1"]],
            "interfaces": [{"name": "eth0", "link": 0, "mac": mac, "mtu": 1500,
                "addresses": ["10.0.0.1/24", "fd00::1/64"]}],
            "routes": [{"to": "::/0", "via": via, "interface": 0}]})
    };
    serde_json::from_value(json!({
        "lab": "fake", "digest": "0123456789abcdef", "hosts": "127.0.0.1 localhost\n",
        "nodes": [node(None, "never", json!({"text": "t"}), Some("fd00::2")),
            node(Some("/r"), "on-failure", json!({"from": "/t"}), None),
            node(None, "always", json!({"text": ""}), None)],
        "switches": [{"name": "s1", "bridge": "s1", "mac": mac, "mtu": 9000}],
        "links": [
            {"name": "l", "mtu": 1500, "ends": [{"node": {"node": 0, "interface": 0}},
                {"port": {"switch": 0, "name": "p0", "mac": mac}}]},
            {"name": "m", "mtu": 1500, "ends": [{"host": {"iface": "eth1"}},
                {"internet": {"addresses": ["10.1.0.1/24"]}}]}],
    }))
    .unwrap()
}

/// A matrix of two nodes.
pub(crate) fn reachability() -> Reachability {
    serde_json::from_value(json!({"nodes": ["h1", "h2"], "families": [
        {"version": 4, "rtt_us": [[null, 35], [null, null]], "asked": 2, "answered": 1}]}))
    .unwrap()
}
