//! Programs that give files other names: in mounts of their own, by descriptors from there, by links. Each is judged by
//! what its path leads to as guard sees the files, and never by the name that it chose.
//!
//! What listens is never reached under a name that is not its own, and is reached where its own is allowed.

use std::io::Read;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use netloom_guard::{Options, Rules, start};
use netloom_kit::needs;
use netloom_policy::read;

use super::redteam::{doors, place};

/// Mounts one path over another one, in mounts of its own, and runs the rest of its words there.
const OVER: &str = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";

/// Connects to each of the paths, or sends to those of datagrams, and says how that went.
const REACH: &str = "
import errno, os, socket, sys
for path in sys.argv[1:]:
    kind = socket.SOCK_DGRAM if 'datagram' in path else socket.SOCK_STREAM
    s = socket.socket(socket.AF_UNIX, kind)
    try:
        s.sendto(b'x', path) if kind == socket.SOCK_DGRAM else s.connect(path)
        print('yes')
    except OSError as e:
        print(errno.errorcode[e.errno])
";

/// A folder with two sockets of each kind, of which one is open to the program, and two copies of a program.
struct Ground {
    folder: tempfile::TempDir,
    streams: Vec<UnixListener>,
    datagrams: Vec<UnixDatagram>,
}

impl Ground {
    fn new() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let at = |name: &str| folder.path().join("in").join(name);
        let streams: Vec<_> =
            ["open", "closed"].iter().map(|name| UnixListener::bind(at(name)).unwrap()).collect();
        let datagrams: Vec<_> = ["open-datagram", "closed-datagram"]
            .iter()
            .map(|name| UnixDatagram::bind(at(name)).unwrap())
            .collect();
        streams.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        datagrams.iter().for_each(|one| one.set_nonblocking(true).unwrap());
        Ground { folder, streams, datagrams }
    }

    fn at(&self, name: &str) -> String {
        let folder = self.folder.path().canonicalize().unwrap();
        folder.join("in").join(name).to_str().unwrap().to_owned()
    }

    /// Whether the open sockets were reached, and whether the closed ones were.
    fn reached(&self) -> [bool; 2] {
        [0, 1].map(|at: usize| {
            let stream = self.streams[at].accept().is_ok();
            let datagram = self.datagrams[at].recv(&mut [0; 9]).is_ok();
            stream || datagram
        })
    }

    /// What a command says under a policy with these rules.
    fn run(&self, rules: &str, command: &mut Command) -> String {
        let rules = rules.replace("IN/", &self.at(""));
        let rules = Rules::new(read("policy", rules.as_bytes()).unwrap(), Options::default());
        let (mut child, supervisor) =
            start(std::mem::replace(command, Command::new("true")), place()).unwrap();
        supervisor.serve(&rules).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        said.replace('\n', " ").trim_end().to_owned()
    }
}

/// A command in mounts of its own, where `from` lies over `to`.
fn over(from: &str, to: &str, words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-ec", OVER, "sh", from, to]);
    command.args(words).stdout(Stdio::piped());
    command
}

fn python(script: &str, words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(words).stdout(Stdio::piped());
    command
}

const ONE_OPEN: &str =
    "default: deny\nrules: [{allow: out, to: [\"unix:IN/open\", \"unix:IN/open-datagram\"]}]";
const ONE_CLOSED: &str =
    "default: allow\nrules: [{deny: out, to: [\"unix:IN/closed\", \"unix:IN/closed-datagram\"]}]";

#[test]
fn a_socket_under_another_ones_name_is_not_the_other_one() {
    needs!("userns");
    let ground = Ground::new();
    let [open, closed] = ["open", "closed"].map(|name| ground.at(name));
    let [open_datagram, closed_datagram] =
        ["open-datagram", "closed-datagram"].map(|name| ground.at(name));
    let reach = |path: &str| ["python3", "-c", REACH, path].map(str::to_owned);
    for (from, to) in [(&closed, &open), (&closed_datagram, &open_datagram)] {
        let words = reach(to);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(ground.run(ONE_OPEN, &mut over(from, to, &words)), "EACCES");
        assert_eq!(ground.reached(), [false, false]);
    }
    // By its own name, and without mounts in between.
    let mut plain = python(REACH, &[&open, &closed, &open_datagram, &closed_datagram]);
    assert_eq!(ground.run(ONE_OPEN, &mut plain), "yes EACCES yes EACCES");
    assert_eq!(ground.reached(), [true, false]);
}

#[test]
fn a_denied_socket_is_denied_under_every_name() {
    let ground = Ground::new();
    let [closed, closed_datagram] = ["closed", "closed-datagram"].map(|name| ground.at(name));
    let folder = ground.folder.path().canonicalize().unwrap();
    for name in ["closed", "closed-datagram"] {
        std::fs::hard_link(ground.at(name), folder.join(name)).unwrap();
    }
    let beside = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let names = [closed.clone(), closed_datagram, beside("closed"), beside("closed-datagram")];
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let denied = "EACCES EACCES EACCES EACCES";
    assert_eq!(ground.run(ONE_CLOSED, &mut python(REACH, &names)), denied);
    assert_eq!(ground.reached(), [false, false]);
    let open = [ground.at("open"), ground.at("open-datagram")];
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    assert_eq!(ground.run(ONE_CLOSED, &mut python(REACH, &open)), "yes yes");
    assert_eq!(ground.reached(), [true, false]);
}

#[test]
fn a_denied_socket_is_denied_where_it_is_moved() {
    let ground = Ground::new();
    let moved = format!(
        "import os, sys\nfor path in sys.argv[1:]: os.rename(path.replace('moved', 'closed'), path)\n{REACH}"
    );
    let names = ["moved", "moved-datagram"].map(|name| ground.at(name));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(ground.run(ONE_CLOSED, &mut python(&moved, &names)), "EACCES EACCES");
    assert_eq!(ground.reached(), [false, false]);
}

#[test]
fn a_denied_socket_is_denied_in_mounts_of_ones_own() {
    needs!("userns");
    let ground = Ground::new();
    let elsewhere = ground.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let elsewhere = elsewhere.canonicalize().unwrap().to_str().unwrap().to_owned();
    let there = ["closed", "closed-datagram"].map(|name| format!("{elsewhere}/{name}"));
    let words: Vec<&str> =
        ["python3", "-c", REACH].into_iter().chain(there.iter().map(String::as_str)).collect();
    let inside = ground.at("");
    for rules in [ONE_CLOSED, "default: allow\nrules: [{deny: out, to: \"unix:IN/**\"}]"] {
        let said = ground.run(rules, &mut over(&inside, &elsewhere, &words));
        assert_eq!(said, "EACCES EACCES", "{rules}");
        assert_eq!(ground.reached(), [false, false]);
    }
}

#[test]
fn a_program_under_another_ones_name_is_not_the_other_one() {
    needs!("userns", "cc");
    let program = doors();
    let ground = Ground::new();
    let [good, bad] = ["good", "bad"].map(|name| ground.at(name));
    std::fs::copy(program, &good).unwrap();
    std::fs::copy(program, &bad).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let rules = "default: deny\nrules: [{allow: out, program: IN/good}]";
    let run = |command: &mut Command| {
        let said = ground.run(rules, command.env("TCP4", &port));
        (said, listener.accept().is_ok())
    };
    let mut plain = Command::new(&good);
    assert_eq!(run(plain.arg("connect4").stdout(Stdio::piped())), (String::new(), true));
    assert_eq!(run(&mut over(&bad, &good, &[&good, "connect4"])), ("EACCES".into(), false));
    // The program's own name in mounts of its own: what else is mounted there, nobody sees.
    assert_eq!(run(&mut over(&good, &good, &[&good, "connect4"])), ("EACCES".into(), false));
    // By a descriptor from there, executed in the mounts that guard sees.
    let script = format!(
        "import os, socket, subprocess, sys\n\
         a, b = socket.socketpair()\n\
         held = \"import os, socket, sys; s = socket.socket(fileno=int(sys.argv[1]))\\n\
         socket.send_fds(s, [b'x'], [os.open(sys.argv[2], os.O_RDONLY)])\\n\"\n\
         subprocess.run(['unshare', '--user', '--map-root-user', '--mount', 'sh', '-ec', {OVER:?}, 'sh', {bad:?}, {good:?}, \
         'python3', '-c', held, str(b.fileno()), {good:?}], pass_fds=[b.fileno()], check=True)\n\
         fd = socket.recv_fds(a, 9, 1)[1][0]\n\
         os.execve(fd, ['good', 'connect4'], os.environ)"
    );
    assert_eq!(run(&mut python(&script, &[])), ("EACCES".into(), false));
}

#[test]
fn a_program_that_leaves_guards_mounts_is_named_by_no_path_from_then_on() {
    needs!("userns", "cc");
    let program = doors();
    let ground = Ground::new();
    let good = ground.at("good");
    std::fs::copy(program, &good).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let rules = "default: deny\nrules: [{allow: out, program: IN/good}]";
    let mut command = Command::new(&good);
    command.arg("leaves_mounts").env("TCP4", &port).stdout(Stdio::piped());
    assert_eq!(ground.run(rules, &mut command), "yes yes yes EACCES EACCES EACCES");
}

#[test]
fn what_a_policy_names_may_be_a_link() {
    needs!("cc");
    let program = doors();
    let ground = Ground::new();
    std::fs::copy(program, ground.at("good")).unwrap();
    let folder = ground.folder.path().canonicalize().unwrap();
    std::os::unix::fs::symlink(folder.join("in"), folder.join("link")).unwrap();
    let link = |name: &str| folder.join("link").join(name).to_str().unwrap().to_owned();
    let [open, closed] = ["open", "closed"].map(link);
    for (to, denied) in [("IN/../link/closed", "yes EACCES"), ("IN/../link/*", "EACCES EACCES")] {
        let to = to.replace("IN/..", folder.to_str().unwrap());
        let rules = format!("default: allow\nrules: [{{deny: out, to: \"unix:{to}\"}}]");
        assert_eq!(ground.run(&rules, &mut python(REACH, &[&open, &closed])), denied);
        assert!(!ground.reached()[1]);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for name in ["good", "*"] {
        let rules = format!("default: deny\nrules: [{{allow: out, program: \"{}\"}}]", link(name));
        let mut command = Command::new(ground.at("good"));
        command.arg("connect4").env("TCP4", &port).stdout(Stdio::piped());
        assert_eq!(ground.run(&rules, &mut command), "", "{name}");
    }
}

/// A path is followed from the root and the folder that the program has, whatever links are in it.
#[test]
fn links_and_roots_are_the_programs() {
    needs!("userns");
    let ground = Ground::new();
    let root: PathBuf = ground.folder.path().canonicalize().unwrap().join("root");
    std::fs::create_dir_all(root.join("in")).unwrap();
    std::fs::create_dir_all(root.join("deep/er")).unwrap();
    let inner = UnixListener::bind(root.join("in/open")).unwrap();
    inner.set_nonblocking(true).unwrap();
    std::os::unix::fs::symlink("/in/open", root.join("absolute")).unwrap();
    std::os::unix::fs::symlink(ground.at("closed"), root.join("outside")).unwrap();
    let script = format!(
        "import ctypes, errno, os, socket\nctypes.CDLL(None).unshare(0x10000000)\n\
         os.chroot({root:?})\nos.chdir('/deep')\n\
         for path in ['/absolute', '../absolute', '/../in/open', '../../../in/open', 'er/../../in/open', '/outside', '../outside']:\n \
         try:\n  socket.socket(socket.AF_UNIX).connect(path); print('yes')\n \
         except OSError as e:\n  print(errno.errorcode[e.errno])"
    );
    let said = ground.run("default: allow", &mut python(&script, &[]));
    assert_eq!(said, "yes yes yes yes yes ENOENT ENOENT");
    let came = std::iter::from_fn(|| inner.accept().ok()).count();
    assert_eq!((came, ground.reached()), (5, [false, false]));
}
