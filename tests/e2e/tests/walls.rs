//! What a node that manages nodes of its own gets of the host by its socket: nothing.

use std::path::{Path, PathBuf};

use netloom_tests_e2e::live::{Held, kill_and_wait};
use netloom_tests_e2e::{Machine, Run, done, machine, needs, rounds};

/// The folder of the scopes of a lab's nodes, each named by the node's number.
fn scopes(machine: &Machine, lab: &str) -> PathBuf {
    machine.scratch().runtime_dir().join(lab).join("s")
}

/// A run of the binary that calls on the socket of the node with the number 0, from outside of it.
fn by_socket(machine: &Machine, lab: &str, words: &str) -> Run {
    let all = ["-l", "0"].into_iter().chain(words.split(' '));
    machine.netloom(all).env("NETLOOM_RUNTIME_DIR", scopes(machine, lab))
}

/// A directory of the host with one file, `note`.
fn directory(machine: &Machine, content: &str) -> String {
    let folder = machine.scratch().path().join("of-the-host");
    std::fs::create_dir(&folder).expect("make a directory");
    std::fs::write(folder.join("note"), content).expect("write a file");
    text(&folder).to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn no_root_is_named_from_inside() {
    let machine = machine!();
    machine.up("name: narrow\nnodes:\n  p: {children: {limit: 4, nodes: {c: {}}}}\n");
    let folder = directory(&machine, "the host's\n");
    let lab = scopes(&machine, "narrow");
    let times = rounds(3);
    for root in ["/", text(&lab), &folder].into_iter().cycle().take(usize::try_from(times).unwrap())
    {
        for words in [
            format!("node create evil --root {root}"),
            format!("node create evil root={root}"),
            format!("node create c/evil --root {root}"),
            format!("node set c root={root}"),
            format!("node set c cpu=none root={root}"),
        ] {
            machine.refused_inside("p", &words, 1, &["\"p\"", "root", "outside"]);
        }
    }
    machine.refused_inside("p", "node set c root=none", 1, &["\"p\"", "root", "outside"]);
    assert_eq!(machine.nodes(), ["p", "p/c"]);
    done("paths of the host named from inside a node, in five ways each", times);
    machine.inside("p", ["node", "create", "good"]).finish().code(0);
    // The lab's maker names roots as before.
    machine.ok(&format!("node create p/other --root {folder}"));
    machine.ok(&format!("node set p/c root={folder}"));
    machine.down();
}

#[test]
fn nodes_made_from_inside_have_the_root_of_their_parent() {
    let machine = machine!();
    let root = directory(&machine, "of the small root\n");
    let outside = machine.scratch().file("outside", "of the host\n");
    machine.up(&format!("name: small\nnodes:\n  p: {{root: {root}, children: {{limit: 4}}}}\n"));
    by_socket(&machine, "small", "node create c children=2").finish().code(0);
    by_socket(&machine, "small", "node create c/deep").finish().code(0);
    for node in ["p/c", "p/c/deep"] {
        let root = PathBuf::from(format!("/proc/{}/root", machine.init(node)));
        let note = std::fs::read_to_string(root.join("note")).expect("its parent's file");
        assert_eq!(note, "of the small root\n");
        let there = root.join(outside.strip_prefix("/").expect("absolute"));
        assert!(!there.exists(), "{node} sees {}", outside.display());
    }
    machine.down();
}

#[test]
fn what_a_node_puts_into_its_folder_of_sockets_leads_nowhere() {
    let machine = machine!();
    let file = machine.file("name: folder\nnodes:\n  p: {children: {limit: 4}}\n");
    machine.up_file(&file);
    let precious = machine.scratch().file("precious", "content\n");
    let link = format!("ln -sf {} /run/netloom/p/scope", text(&precious));
    let tried = machine.exec("p", &["sh", "-c", &link]).finish();
    assert!(!tried.status.success(), "the folder can be written\n{tried}");
    // One that a node of an earlier version made, whose folder could be written.
    let mark = scopes(&machine, "folder").join("0/scope");
    std::fs::remove_file(&mark).expect("remove the mark");
    std::os::unix::fs::symlink(&precious, &mark).expect("a link in its place");
    kill_and_wait(machine.lab_process());
    let again = machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    assert_eq!(std::fs::read_to_string(&precious).expect("read"), "content\n", "{again}");
    machine.down();
}

/// Asks for what is needed to enter a node and tells of each descriptor whether it is a directory.
const DESCRIPTORS: &str = "
import array, json, os, socket, stat
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect('/run/netloom/p/handles.sock')
s.send(json.dumps({'node': 'c'}).encode())
space = socket.CMSG_SPACE(16 * array.array('i').itemsize)
answer, control, *_ = s.recvmsg(1 << 17, space)
assert 'door' in json.loads(answer), answer
fds = array.array('i')
for level, kind, data in control:
    fds.frombytes(data[:len(data) - len(data) % fds.itemsize])
print(len(fds) > 0, any(stat.S_ISDIR(os.fstat(fd).st_mode) for fd in fds))
";

#[test]
fn no_directory_of_the_host_is_handed_out_inside() {
    needs!("python3");
    let machine = machine!();
    machine.up("nodes:\n  p: {children: {nodes: {c: {}}}}\n");
    assert_eq!(machine.python("p", DESCRIPTORS, &[]).ok(), "True False\n");
    assert_eq!(machine.inside("p", ["exec", "c", "--", "hostname"]).ok(), "c\n");
    machine.down();
}

/// Looks at all processes that the node sees, again and again until its input ends: whether one leads to a
/// file that only the host has, by its root, its directory or a descriptor, and whether one can be traced that may
/// do more than this one. Tells how often it looked, then what it found.
const WATCHER: &str = "
import ctypes, os, select, sys
SEIZE, INTERRUPT, DETACH, ANY = 0x4206, 0x4207, 17, 0x40000000
inner = sys.argv[1].lstrip('/')
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.ptrace.restype = ctypes.c_long

def capabilities(pid):
    with open(f'/proc/{pid}/status') as status:
        return int(next(l for l in status if l.startswith('CapPrm:')).split()[1], 16)

def leads_out(base):
    for up in ('', '../' * 24):
        try:
            os.stat(f'{base}/{up}{inner}')
            return True
        except OSError:
            pass
    return False

def traced(pid):
    if libc.ptrace(SEIZE, pid, 0, 0) != 0:
        return False
    seen.add(pid)
    try:
        more = capabilities(pid) & ~own != 0 or leads_out(f'/proc/{pid}/root')
        libc.ptrace(INTERRUPT, pid, 0, 0)
        os.waitpid(pid, ANY)
        libc.ptrace(DETACH, pid, 0, 0)
        return more
    except (OSError, StopIteration):
        return False

def look(pid):
    for kind in ('root', 'cwd'):
        if leads_out(f'/proc/{pid}/{kind}'):
            found[kind] = found.get(kind, 0) + 1
    try:
        numbers = os.listdir(f'/proc/{pid}/fd')
    except OSError:
        numbers = []
    for number in numbers:
        if leads_out(f'/proc/{pid}/fd/{number}'):
            found['fd'] = found.get('fd', 0) + 1
    if pid not in seen and traced(pid):
        found['ptrace'] = found.get('ptrace', 0) + 1

own, found, rounds = capabilities('self'), {}, 0
seen = {1, os.getpid(), os.getppid()}
print('begun', flush=True)
while not select.select([0], [], [], 0)[0]:
    rounds += 1
    for pid in [int(name) for name in os.listdir('/proc') if name.isdigit()]:
        if pid != os.getpid():
            look(pid)
print(rounds > 0, found)
";

/// A watcher in node `p` of the lab `watched`.
fn watch(machine: &Machine) -> Held {
    let file = machine.scratch().runtime_dir().join("watched/lab.pid");
    assert!(file.exists(), "{} is what must not be found", file.display());
    let mut watcher = Held::start(machine.python("p", WATCHER, &[text(&file)]));
    assert_eq!(watcher.line(), "begun");
    watcher
}

const WATCHED: &str = "name: watched\nnodes:\n  p: {children: {limit: 4, nodes: {c: {}}}}\n";

/// Does something this many times while node `p` looks for a way out, which it must not find.
fn watched(what: &str, once: impl Fn(&Machine)) {
    needs!("python3");
    let machine = machine!();
    machine.up(WATCHED);
    let watcher = watch(&machine);
    let times = rounds(40);
    (0..times).for_each(|_| once(&machine));
    assert_eq!(watcher.rest(), "True {}\n");
    done(what, times);
    machine.down();
}

#[test]
fn a_child_that_is_made_shows_its_parent_nothing_of_the_host() {
    watched("children made and deleted while their parent looks for a way out", |machine| {
        machine.ok("node create p/new");
        machine.ok("node delete p/new --force");
    });
}

#[test]
fn a_process_that_enters_shows_the_node_nothing_of_the_host() {
    let what = "pairs of programs started in a node that looks for a way out, and in its child";
    watched(what, |machine| {
        machine.exec("p", &["true"]).finish().code(0);
        machine.exec("p/c", &["true"]).finish().code(0);
    });
}
