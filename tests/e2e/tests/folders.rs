//! Folders, links and processes of others where a lab's should be: none is read, filled, emptied or ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use netloom_kit::again;
use netloom_tests_e2e::{
    Finished, Machine, Run, Scratch, done, is_root, machine, needs, root_only, rounds,
};
use rustix::fs::{CWD, FlockOperation, Mode, RenameFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// `daemon`, a stranger to everybody else here.
const STRANGER: u32 = 1;

/// Verbs that look into the folder of labs; `FILE` is a good lab file.
const VERBS: [&str; 16] = [
    "ls",
    "status",
    "down lab",
    "down",
    "down --all",
    "up FILE",
    "up --replace FILE",
    "up --name lab --replace FILE",
    "run FILE",
    "apply FILE",
    "apply --dry-run FILE",
    "exec a -- true",
    "node create b",
    "switch list",
    "capture -l lab a -w out.pcapng",
    "serve -l lab",
];

/// A user of this machine without labs, whose folder of labs is `/tmp/netloom-UID`.
struct Victim {
    uid: u32,
    scratch: Scratch,
    file: PathBuf,
}

impl Victim {
    fn new() -> Victim {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let uid = 100_000 + std::process::id() * 4 + COUNT.fetch_add(1, Ordering::Relaxed);
        let scratch = Scratch::within_reach();
        let file = scratch.file("lab.yaml", "name: lab\nnodes: {a: {}}\n");
        for path in [scratch.path(), &file] {
            chown(path, Some(uid), Some(uid)).expect("give it to the user");
        }
        Victim { uid, scratch, file }
    }

    /// Where the user's labs are, and what a stranger has made first.
    fn runtime(&self) -> PathBuf {
        PathBuf::from(format!("/tmp/netloom-{}", self.uid))
    }

    /// A folder of the user's with something in it.
    fn precious(&self) -> Precious {
        let precious = Precious::new(self.scratch.path());
        for path in [&precious.0, &precious.0.join("inner"), &precious.0.join("inner/file")] {
            chown(path, Some(self.uid), Some(self.uid)).expect("give it to the user");
        }
        precious
    }

    fn netloom(&self, words: &str) -> Run {
        self.netloom_with(words, None)
    }

    fn netloom_with(&self, words: &str, variable: Option<&str>) -> Run {
        let user = self.uid.to_string();
        let file = self.file.to_str().expect("a path in UTF-8");
        let words = words.split(' ').map(|word| if word == "FILE" { file } else { word });
        Run::new("env")
            .args(["-u", "NETLOOM_RUNTIME_DIR", "-u", "XDG_RUNTIME_DIR"])
            .args(variable)
            .args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"])
            .args([netloom_kit::Binary::find().path()])
            .args(words)
            .env("HOME", self.scratch.path())
            .dir(self.scratch.path())
    }
}

/// A folder that must stay as it is.
struct Precious(PathBuf);

impl Precious {
    fn new(within: &Path) -> Precious {
        let folder = within.join("precious");
        fs::create_dir_all(folder.join("inner")).expect("make a folder");
        fs::write(folder.join("inner/file"), "kept").expect("write a file");
        Precious(folder)
    }

    fn assert_whole(&self) {
        let names: Vec<_> = fs::read_dir(&self.0).expect("it is there").flatten().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert_eq!(fs::read_to_string(self.0.join("inner/file")).expect("the file"), "kept");
    }
}

/// A folder of a stranger's, which goes with this.
struct Strangers(PathBuf);

impl Strangers {
    fn make(path: PathBuf) -> Strangers {
        fs::DirBuilder::new().mode(0o755).create(&path).expect("make a folder");
        chown(&path, Some(STRANGER), Some(STRANGER)).expect("give it to a stranger");
        Strangers(path)
    }

    /// Makes a folder in it, of the same owner.
    fn folder(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(&path).expect("make a folder");
        chown(&path, Some(STRANGER), Some(STRANGER)).expect("give it to a stranger");
        path
    }

    fn link(&self, name: &str, to: &Path) {
        let path = self.0.join(name);
        symlink(to, &path).expect("make a link");
        lchown(&path, Some(STRANGER), Some(STRANGER)).expect("give it to a stranger");
    }

    /// Everything in it.
    fn content(&self) -> Vec<PathBuf> {
        let (mut found, mut left) = (vec![], vec![self.0.clone()]);
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).expect("list it").flatten() {
                if entry.file_type().expect("its type").is_dir() {
                    left.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found.sort();
        found
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The refusal of a folder of labs, which names it, why, and what to do.
fn assert_refused(refused: Finished, folder: &Path, why: &str) {
    refused
        .code(1)
        .says(&format!("folder of labs {folder:?} is not used: "))
        .says(why)
        .says("set NETLOOM_RUNTIME_DIR");
}

#[test]
fn a_folder_of_labs_that_a_stranger_made_is_refused_by_every_verb() {
    root_only!("makes folders of several users");
    let victim = Victim::new();
    let precious = victim.precious();
    let strangers = Strangers::make(victim.runtime());
    strangers.link("lab", &precious.0);
    let before = strangers.content();
    for verb in VERBS {
        let refused = victim.netloom(verb).finish();
        assert_refused(
            refused,
            &strangers.0,
            "it is a folder of user 1, who can put anything there",
        );
        assert_eq!(strangers.content(), before, "{verb}");
        precious.assert_whole();
    }
    // Nobody reads what completion says of errors.
    let line = ["completions", "--complete", "netloom down "].join(" ");
    drop(victim.netloom(&line).finish());
    precious.assert_whole();
    done("verbs with a stranger's folder of labs", VERBS.len());
}

#[test]
fn a_folder_of_labs_may_be_named_from_where_one_is() {
    root_only!("is another user");
    needs!("userns", "setpriv");
    let victim = Victim::new();
    let runtime = Some("XDG_RUNTIME_DIR=.");
    fs::set_permissions(victim.scratch.path(), fs::Permissions::from_mode(0o700))
        .expect("close it");
    victim.netloom_with("up FILE", runtime).finish().code(0);
    let id = victim.netloom_with("exec a -- id -u", runtime).finish().code(0).text();
    assert_eq!(id, "0\n");
    victim.netloom_with("down", runtime).finish().code(0);
}

#[test]
fn a_folder_and_a_link_that_a_stranger_exchanges_lead_nowhere() {
    root_only!("makes folders of several users");
    let victim = Victim::new();
    let precious = victim.precious();
    let strangers = Strangers::make(victim.runtime());
    strangers.folder("lab");
    strangers.folder("lab/inner");
    strangers.link("link", &precious.0);
    // Like this the victim can empty it, whichever user made it.
    for path in ["lab", "lab/inner", ""] {
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(strangers.0.join(path), open).expect("let everybody write");
    }
    let times = rounds(20);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (lab, link) = (strangers.0.join("lab"), strangers.0.join("link"));
            while !stop.load(Ordering::Relaxed) {
                let _ = rustix::fs::renameat_with(CWD, &lab, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let attempt = || {
            for _ in 0..times {
                let refused = victim.netloom("down --all").finish();
                assert_refused(refused, &strangers.0, "it is a folder of user 1");
                precious.assert_whole();
            }
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt));
        stop.store(true, Ordering::Relaxed);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    done("takings down while a folder and a link are exchanged", times);
}

#[test]
fn root_uses_no_folder_of_labs_of_or_below_a_strangers() {
    root_only!("makes folders of several users");
    let machine = machine!();
    let site = Strangers::make(machine.scratch().path().join("site"));
    let precious = Precious::new(machine.scratch().path());
    let target = machine.scratch().file("target", "kept");
    machine.file("name: lab\nnodes: {a: {}}\n");
    let runtime = site.folder("run");
    // What the stranger says that netloom has changed of the host: it leads to a file of this test's.
    let outward = format!("../..{}", target.display());
    let changes = serde_json::json!([{"sysctl": {"path": outward, "old": "owned"}}]);
    let lab = site.folder("run/forged");
    site.folder("run/forged/n");
    fs::write(lab.join("host.json"), changes.to_string()).expect("write");
    site.link("run/link", &precious.0);
    let below = format!("{}: it is a folder of user 1, who can exchange", site.0.display());
    for (owner, why) in [(STRANGER, below.as_str()), (0, &below)] {
        chown(&runtime, Some(owner), None).expect("change the owner");
        for verb in ["down --all", "down forged", "down link", "ls", "up --replace lab.yaml"] {
            let run = machine.netloom(verb.split(' ')).env("NETLOOM_RUNTIME_DIR", &runtime);
            assert_refused(run.finish(), &runtime, why);
            precious.assert_whole();
            assert_eq!(fs::read_to_string(&target).expect("the target"), "kept", "{verb}");
        }
    }
    let refused = machine.netloom(["ls"]).env("NETLOOM_RUNTIME_DIR", &site.0).finish();
    assert_refused(refused, &site.0, "it is a folder of user 1, who can put anything there");
    machine.untouched();
}

#[test]
fn a_state_undoes_only_what_netloom_does() {
    root_only!("undoes changes of the host");
    let machine = machine!();
    let target = machine.scratch().file("target", "kept");
    // All of these would do harm to this test alone.
    let outward = |before: &str| format!("{before}../..{}", target.display());
    let link = format!("nlx{:x}", std::process::id());
    for change in [
        serde_json::json!({"sysctl": {"path": outward(""), "old": "owned"}}),
        serde_json::json!({"sysctl": {"path": outward("net/ipv4/conf/../../../"), "old": "1"}}),
        serde_json::json!({"sysctl": {"path": format!("net/ipv4/conf/{link}/mtu"), "old": "1"}}),
        serde_json::json!({"link": link}),
        serde_json::json!({"nat": format!("other-{link}")}),
        serde_json::json!({"raised": format!("{link}/../{link}")}),
    ] {
        let lab = lab_folder(&machine);
        fs::write(lab.join("host.json"), serde_json::json!([change]).to_string()).expect("write");
        let refused = machine.netloom(["down", "lab"]).finish().code(1);
        refused.says("host.json").says("is not a change that netloom makes");
        assert_eq!(fs::read_to_string(&target).expect("the target"), "kept", "{change}");
        fs::remove_dir_all(&lab).expect("remove it");
    }
    machine.untouched();
}

#[test]
fn a_state_removes_only_cgroups() {
    let machine = machine!();
    machine.up("name: lab\nnodes: {a: {}}\n");
    let lab = machine.scratch().runtime_dir().join("lab");
    let text = fs::read(lab.join("state.json")).expect("the state of a lab");
    machine.netloom(["down", "lab"]).finish().code(0);
    let site = machine.scratch().path().join("site");
    for (base, id) in [(site.clone(), "lab"), ("/sys/fs/cgroup".into(), "../../../../site")] {
        let empty = site.join("netloom/lab/empty");
        fs::create_dir_all(&empty).expect("make a folder");
        let mut state: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let one = serde_json::json!({"version": "V2", "base": base, "controllers": ["pids"]});
        let groups = state["groups"].as_object_mut().expect("its groups");
        groups.insert("hierarchies".into(), serde_json::json!([one]));
        groups.insert("id".into(), id.into());
        let lab = lab_folder(&machine);
        fs::write(lab.join("state.json"), state.to_string()).expect("write");
        let refused = machine.netloom(["down", "lab"]).finish().code(1);
        refused.says("the state has its cgroups there, where none are");
        assert!(empty.is_dir(), "{id}");
        fs::remove_dir_all(&lab).expect("remove it");
    }
    machine.untouched();
}

/// A folder of this user's as a lab leaves it.
fn lab_folder(machine: &Machine) -> PathBuf {
    let lab = machine.scratch().runtime_dir().join("lab");
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(true).create(lab.join("n")).expect("make a lab's folder");
    lab
}

/// A process of somebody's that listens at a socket and holds a lock.
struct Bystander {
    process: Child,
}

const SOCKET: &str = "NETLOOM_TEST_SOCKET";
const LOCK: &str = "NETLOOM_TEST_LOCK";
const BECOMES: &str = "NETLOOM_TEST_UID";

#[test]
#[ignore = "helper: a process that has nothing to do with a lab"]
fn listens_and_holds_a_lock() {
    let path = PathBuf::from(std::env::var_os(SOCKET).expect("the socket"));
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    rustix::net::bind(&socket, &SocketAddrUnix::new(&path).expect("a short path")).expect("bind");
    if let Ok(uid) = std::env::var(BECOMES) {
        let uid = rustix::process::Uid::from_raw(uid.parse().expect("a number"));
        rustix::thread::set_thread_uid(uid).expect("become another user");
    }
    // The kernel notes here whose it is.
    rustix::net::listen(&socket, 16).expect("listen");
    let lock = std::env::var_os(LOCK).map(|path| {
        let file = fs::File::options().write(true).create(true).truncate(false).open(path);
        let file = file.expect("open the lock's file");
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).expect("lock");
        file
    });
    println!("ready");
    let _ = std::io::stdin().read_line(&mut String::new());
    drop((socket, lock));
}

impl Bystander {
    fn start(socket: &Path, set: &[(&str, &Path)]) -> Bystander {
        let mut command = again(&listens_and_holds_a_lock);
        command.env(SOCKET, socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(set.iter().copied());
        let mut process = command.spawn().expect("start it");
        let mut lines = BufReader::new(process.stdout.as_mut().expect("stdout is piped")).lines();
        let ready = lines.any(|line| line.is_ok_and(|line| line.ends_with("ready")));
        assert!(ready, "it listens");
        Bystander { process }
    }

    fn assert_lives(&mut self) {
        assert!(self.process.try_wait().expect("look").is_none(), "it was ended");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn links_in_a_labs_folder_end_nobody_and_empty_nothing() {
    let machine = machine!();
    let elsewhere = machine.scratch().path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("make a folder");
    let precious = Precious::new(machine.scratch().path());
    let (socket, lock) = (elsewhere.join("socket"), elsewhere.join("lock"));
    let mut bystander = Bystander::start(&socket, &[(LOCK, &lock)]);
    for (name, to) in [
        ("n/0.sock", &socket),
        ("n/core.sock", &socket),
        ("wire.sock", &socket),
        ("o/s/control", &socket),
        ("sl/control", &socket),
        ("k/0-0.lock", &lock),
        ("k/s.vde.lock", &lock),
        ("o/@0/router.lock", &lock),
        ("0.ports.lock", &lock),
        ("uplink.lock", &lock),
        ("s", &precious.0),
        ("o", &precious.0),
        ("sl", &precious.0),
        ("fs", &precious.0),
    ] {
        let lab = lab_folder(&machine);
        let link = lab.join(name);
        fs::create_dir_all(link.parent().expect("a folder")).expect("make its folder");
        symlink(to, &link).expect("make a link");
        machine.netloom(["down", "lab"]).finish().code(0);
        assert!(!lab.exists(), "{name}");
        bystander.assert_lives();
        precious.assert_whole();
    }
    // A lab's folder that is a link itself, and one whose sockets are elsewhere.
    let runtime = machine.scratch().runtime_dir();
    symlink(&precious.0, runtime.join("linked")).expect("make a link");
    let refused = machine.netloom(["down", "linked"]).finish().code(1);
    refused.says("linked: it is a symbolic link");
    machine.netloom(["down", "--all"]).finish().code(0);
    fs::remove_file(runtime.join("linked")).expect("remove the link");
    let lab = lab_folder(&machine);
    fs::remove_dir(lab.join("n")).expect("remove it");
    symlink(&elsewhere, lab.join("n")).expect("make a link");
    machine.netloom(["down", "lab"]).finish().code(1).says("n: it is a symbolic link");
    fs::remove_file(lab.join("n")).expect("remove the link");
    machine.netloom(["down", "lab"]).finish().code(0);
    bystander.assert_lives();
    precious.assert_whole();
    machine.untouched();
}

#[test]
fn a_process_that_has_what_a_labs_should_have_is_named_and_left_alone() {
    let machine = machine!();
    for place in ["n/0.sock", "wire.sock", "o/s/control", "sl/control"] {
        let lab = lab_folder(&machine);
        let socket = lab.join(place);
        fs::create_dir_all(socket.parent().expect("a folder")).expect("make its folder");
        let mut bystander = Bystander::start(&socket, &[]);
        let pid = bystander.process.id();
        let refused = machine.netloom(["down", "lab"]).finish().code(1);
        refused.says(&format!("process {pid} (")).says("is not of this lab");
        bystander.assert_lives();
        assert!(socket.exists(), "{place}: what it has stays");
        drop(bystander);
        machine.netloom(["down", "lab"]).finish().code(0);
    }
    let lab = lab_folder(&machine);
    fs::create_dir(lab.join("k")).expect("make a folder");
    let lock = lab.join("k/0-0.lock");
    let mut bystander = Bystander::start(&machine.scratch().path().join("sock"), &[(LOCK, &lock)]);
    machine.netloom(["down", "lab"]).finish().code(1).says("is not of this lab");
    bystander.assert_lives();
    drop(bystander);
    machine.netloom(["down", "lab"]).finish().code(0);
    machine.untouched();
}

#[test]
fn a_lock_that_is_a_link_makes_no_file() {
    let machine = machine!();
    let made = machine.scratch().path().join("made");
    for verb in ["ls", "down lab", "down --all", "up --replace lab.yaml"] {
        let lab = lab_folder(&machine);
        machine.file("name: lab\nnodes: {a: {}}\n");
        symlink(&made, lab.join("lock")).expect("make a link");
        machine.netloom(verb.split(' ')).finish().code(1).says("lock");
        assert!(!made.exists(), "{verb}");
        fs::remove_dir_all(&lab).expect("remove it");
    }
    machine.untouched();
}

#[test]
fn a_switch_is_found_in_no_folder_of_a_strangers_and_joined_at_no_strangers_process() {
    root_only!("makes folders of several users");
    let machine = machine!();
    // Root's other folder of labs, in a /tmp that only this process sees.
    let script = r#"
        mount -t tmpfs -o mode=1777 none /tmp
        mkdir -p /tmp/netloom-0/.switches
        : > /tmp/netloom-0/.switches/site.s
        chown -R 1:1 /tmp/netloom-0
        exec env -u NETLOOM_RUNTIME_DIR "$@" plug lo site.s
    "#;
    let binary = netloom_kit::Binary::find();
    // Files in /tmp are not seen there.
    let program = machine.scratch().path().join("netloom");
    fs::copy(binary.path(), &program).expect("copy the binary");
    let seen = Run::new("unshare").args([
        "-m",
        "sh",
        "-c",
        &format!("exec 9<\"$1\"; shift; {script}"),
        "sh",
    ]);
    let refused = seen.args([&program]).args(["/proc/self/fd/9"]).finish().code(1);
    refused.says("\"/tmp/netloom-0\"").says("it is a folder of user 1");
    fs::remove_file(program).expect("remove the copy");
    // A folder of root's with a socket that root has given away.
    let switches = machine.scratch().runtime_dir().join(".switches");
    fs::create_dir(&switches).expect("make a folder");
    let socket = switches.join("site.s");
    let bystander = Bystander::start(&socket, &[(BECOMES, Path::new("1"))]);
    let refused = machine.netloom(["plug", "lo", "site.s"]).finish().code(1);
    refused.says("user 1 runs it, not you or root");
    drop(bystander);
    fs::remove_dir_all(switches).expect("remove it");
    machine.untouched();
}

#[test]
fn a_lab_file_that_is_a_fifo_is_refused_and_nobody_waited_for() {
    let machine = machine!();
    let fifo = machine.scratch().path().join("fifo.yaml");
    rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).expect("make a FIFO");
    for verb in ["up", "check", "apply", "test", "slice check"] {
        let args = verb.split(' ').chain(["fifo.yaml"]);
        let refused = machine.netloom(args).finish();
        assert!(refused.status.code().is_some_and(|code| code != 0), "{refused}");
        refused.says("fifo.yaml").says("not a regular file");
    }
    let disk = "name: lab\nnodes: {m: {kind: vm, disk: fifo.yaml}}\n";
    let refused = machine.netloom(["up", machine.file(disk).to_str().expect("UTF-8")]).finish();
    assert!(refused.status.code().is_some_and(|code| code != 0), "{refused}");
    // What the caller's shell has opened, as for <(command), is read to its end.
    let good = "name: lab\nnodes: {a: {}}\n";
    machine.netloom(["check", "/dev/stdin"]).input(good).finish().code(0);
    let binary = netloom_kit::Binary::find();
    let script = format!("exec {} check /dev/fd/3 3<&0", binary.path().display());
    Run::new("sh").args(["-c", &script]).input(good).finish().code(0);
    machine.untouched();
}

#[test]
fn a_token_of_another_user_or_in_a_fifo_is_not_taken() {
    let machine = machine!();
    let token = machine.scratch().path().join("token");
    let serve = || {
        let args = ["serve", "--listen", "127.0.0.1:0", "--token-file", "token"];
        machine.netloom(args).finish().code(1)
    };
    rustix::fs::mkfifoat(CWD, &token, Mode::RUSR | Mode::WUSR).expect("make a FIFO");
    serve().says("not a regular file");
    fs::remove_file(&token).expect("remove it");
    fs::write(&token, "0123456789abcdef0123456789abcdef\n").expect("write it");
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).expect("set its mode");
        serve().says("chmod 600");
    }
    if is_root() {
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set its mode");
        chown(&token, Some(STRANGER), None).expect("give it to a stranger");
        serve().says("belongs to user 1, who knows the token");
        assert_eq!(token.metadata().expect("it stays").uid(), STRANGER);
    }
    machine.untouched();
}
