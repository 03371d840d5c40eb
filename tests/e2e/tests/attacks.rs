//! What programs of an ordinary node try in vain against the machine and against other nodes, and what those of
//! a privileged node may.

use std::time::Duration;

use netloom_tests_e2e::{Machine, Run, is_root, machine, needs, root_only};

/// Tries each attack and prints the names of those that succeed, one a line; then `end`. A call that is refused, or does
/// not exist here, does not count as success. The argument is a path that only the host has.
const ATTACKS: &str = r#"
import ctypes, os, signal, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
host_file = sys.argv[1].lstrip('/')
NUMBERS = {
    'x86_64': dict(bpf=321, perf_event_open=298, keyctl=250, add_key=248, kexec_load=246, finit_module=313,
                   name_to_handle_at=303, open_by_handle_at=304, pidfd_open=434, pidfd_getfd=438, setns=308,
                   ptrace=101, mount=165, umount2=166, unshare=272, syslog=103, settimeofday=164, pivot_root=155,
                   open_tree=428, fsopen=430, process_vm_readv=310, reboot=169, swapon=167, iopl=172),
    'aarch64': dict(bpf=280, perf_event_open=241, keyctl=219, add_key=217, kexec_load=104, finit_module=273,
                    name_to_handle_at=264, open_by_handle_at=265, pidfd_open=434, pidfd_getfd=438, setns=268,
                    ptrace=117, mount=40, umount2=39, unshare=97, syslog=116, settimeofday=170, pivot_root=41,
                    open_tree=428, fsopen=430, process_vm_readv=270, reboot=142, swapon=224),
}[os.uname().machine]

def call(name, *args):
    number = NUMBERS.get(name)
    if number is None:
        raise OSError('not on this machine')
    typed = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    got = libc.syscall(ctypes.c_long(number), *typed)
    if got < 0:
        raise OSError(ctypes.get_errno(), name)
    return got

def mount(kind, source=b'none', flags=0):
    def attack():
        os.makedirs('/tmp/at', exist_ok=True)
        call('mount', source, b'/tmp/at', kind, flags, None)
    return attack

def unmount(path):
    return lambda: call('umount2', path, 2)

def reads(path):
    def attack():
        with open(path, 'rb') as file:
            assert file.read(1), 'nothing there'
    return attack

def opens_for_writing(path):
    def attack():
        fd = os.open(path, os.O_WRONLY)
        rdev = os.fstat(fd)
        assert not stat.S_ISCHR(rdev.st_mode), 'a device without effect'
    return attack

def leads_out(path):
    def attack():
        os.stat(f'{path}/{host_file}')
    return attack

def chroot_escape():
    if os.fork() == 0:
        try:
            os.makedirs('/tmp/inner', exist_ok=True)
            out = os.open('/', os.O_RDONLY)
            os.chroot('/tmp/inner')
            os.fchdir(out)
            for _ in range(40): os.chdir('..')
            os.chroot('.')
            os.stat('/' + host_file)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.wait()[1] == 0, 'refused'

def enters(kind):
    def attack():
        fd = os.open(f'/proc/1/ns/{kind}', os.O_RDONLY)
        call('setns', fd, 0)
    return attack

def enters_others():
    own = {os.readlink(f'/proc/self/ns/{kind}') for kind in ('net', 'mnt')}
    for pid in (name for name in os.listdir('/proc') if name.isdigit()):
        for kind in ('net', 'mnt'):
            try:
                fd = os.open(f'/proc/{pid}/ns/{kind}', os.O_RDONLY)
                if os.readlink(f'/proc/self/fd/{fd}') not in own:
                    call('setns', fd, 0)
                    return
            except OSError:
                pass
    raise OSError('none')

def enters_by_pidfd():
    call('setns', call('pidfd_open', 1, 0), 0x00020000 | 0x40000000)

def traces():
    call('ptrace', 0x4206, 1, 0, 0)
    call('ptrace', 17, 1, 0, 0)

def takes_descriptors():
    pidfd = call('pidfd_open', 1, 0)
    for number in range(3, 40):
        try:
            call('pidfd_getfd', pidfd, number, 0)
            return
        except OSError:
            pass
    raise OSError('none')

def loads_bpf(kind):
    def attack():
        code = struct.pack('<BBhi', 0xb7, 0, 0, 0) + struct.pack('<BBhi', 0x95, 0, 0, 0)
        code, licence = ctypes.create_string_buffer(code, 16), ctypes.create_string_buffer(b'GPL')
        attr = struct.pack('<IIQQ', kind, 2, ctypes.addressof(code), ctypes.addressof(licence)).ljust(120, b'\0')
        call('bpf', 5, ctypes.create_string_buffer(attr, 120), 120)
    return attack

def watches_the_machine():
    if int(open('/proc/sys/kernel/perf_event_paranoid').read()) < 1:
        raise OSError('everybody may')
    attr = struct.pack('<IIQ', 1, 112, 0).ljust(112, b'\0')
    call('perf_event_open', ctypes.create_string_buffer(attr, 112), -1, 0, -1, 0)

def makes_device():
    try:
        os.mknod('/tmp/disk', stat.S_IFBLK | 0o600, os.makedev(8, 0))
    finally:
        if os.path.exists('/tmp/disk'): os.remove('/tmp/disk')

def opens_by_handle():
    handle, mount_id = ctypes.create_string_buffer(struct.pack('<Ii', 128, 0), 136), ctypes.c_int()
    call('name_to_handle_at', -100, b'/usr', handle, ctypes.byref(mount_id), 0)
    where = os.open('/', os.O_RDONLY)
    call('open_by_handle_at', where, handle, os.O_RDONLY)

def gives_capabilities():
    with open('/tmp/capable', 'w'): pass
    os.setxattr('/tmp/capable', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0))

def raises_limit():
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NICE)
    resource.setrlimit(resource.RLIMIT_NICE, (hard + 1, hard + 1))

def writable(path):
    # Root opens all for writing; what nobody may write by its mode takes nothing.
    try:
        fd = os.open(path, os.O_WRONLY)
        mode = os.fstat(fd).st_mode
        os.close(fd)
        return [path] if stat.S_ISREG(mode) and mode & 0o222 else []
    except OSError:
        return []

def writes_sys():
    hits = []
    for top in ('kernel', 'module', 'fs', 'power', 'bus', 'devices/system', 'block', 'firmware'):
        for folder, folders, files in os.walk('/sys/' + top):
            for name in files:
                hits += writable(os.path.join(folder, name))
    print(*hits, file=sys.stderr)
    assert hits, 'none'

def writes_proc():
    hits = []
    for folder, folders, files in os.walk('/proc'):
        if folder == '/proc':
            folders[:] = [f for f in folders if not f.isdigit() and f not in ('self', 'thread-self', 'net')]
        if folder == '/proc/sys':
            folders.remove('net')
        for name in files:
            hits += writable(os.path.join(folder, name))
    print(*hits, file=sys.stderr)
    assert hits, 'none'

def in_user_namespace(kind):
    def attack():
        if os.fork() == 0:
            try:
                # New namespaces: user, mounts, network; PIDs for the child.
                call('unshare', 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000)
                if os.fork() == 0:
                    try:
                        call('mount', b'none', b'/mnt', kind, 0, None)
                        os._exit(0)
                    except BaseException:
                        os._exit(1)
                os._exit(os.wait()[1] != 0)
            except BaseException:
                os._exit(1)
        assert os.wait()[1] == 0, 'refused'
    return attack

def forces_buffers():
    # Beyond what the machine allows for a socket (socket(7), SO_RCVBUFFORCE).
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)

def speaks_to_the_audit():
    # A message of a user's (audit(7)) for the machine's log, to be acknowledged.
    text = b'op=attack'
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as s:
        s.settimeout(10)
        s.sendto(struct.pack('=IHHII', 16 + len(text), 1005, 5, 1, 0) + text, (0, 0))
        answer = s.recv(4096)
    assert struct.unpack_from('=i', answer, 16)[0] == 0, 'refused'

def uncovers():
    # In mounts of one's own, what covers the machine's files.
    if os.fork() == 0:
        try:
            call('unshare', 0x00020000)
        except BaseException:
            os._exit(1)
        for path in (b'/proc/sys', b'/proc/sysrq-trigger', b'/proc/keys', b'/proc/kcore', b'/sys'):
            try:
                call('umount2', path, 2)
                os._exit(0)
            except BaseException:
                pass
        for kind in (b'proc', b'sysfs'):
            try:
                call('mount', b'none', b'/mnt', kind, 0, None)
                os._exit(0)
            except BaseException:
                pass
        os._exit(1)
    assert os.wait()[1] == 0, 'refused'

def finds_keys():
    # The user's keyring, and the session's: which number they have.
    for special in (-4, -3):
        call('keyctl', 0, special, 0)

ATTACKS = {
    'mount tmpfs': mount(b'tmpfs'),
    'mount proc': mount(b'proc'),
    'mount sysfs': mount(b'sysfs'),
    'mount cgroup': mount(b'cgroup2'),
    'mount debugfs': mount(b'debugfs'),
    'mount tracefs': mount(b'tracefs'),
    'mount bpf': mount(b'bpf'),
    'mount securityfs': mount(b'securityfs'),
    'mount devtmpfs': mount(b'devtmpfs'),
    'bind': mount(None, b'/', 4096),
    'fsopen': lambda: call('fsopen', b'tmpfs', 0),
    'open_tree': lambda: call('open_tree', -100, b'/', 1),
    'unmount /proc': unmount(b'/proc'),
    'unmount /proc/sys': unmount(b'/proc/sys'),
    'unmount /sys': unmount(b'/sys'),
    'unmount /run': unmount(b'/run'),
    'unmount labs': unmount(os.path.dirname(os.path.dirname(sys.argv[1])).encode()),
    'see labs': leads_out(''),
    'pivot_root': lambda: call('pivot_root', b'/tmp', b'/tmp'),
    'unshare mounts': lambda: call('unshare', 0x00020000),
    'enter mounts': enters('mnt'),
    'enter network': enters('net'),
    'enter others': enters_others,
    'enter by pidfd': enters_by_pidfd,
    'root of 1': lambda: os.stat('/proc/1/root/etc'),
    'directory of 1': lambda: os.stat('/proc/1/cwd/etc'),
    'descriptors of 1': lambda: os.readlink('/proc/1/fd/0'),
    'environment of 1': reads('/proc/1/environ'),
    'memory of 1': lambda: os.open('/proc/1/mem', os.O_RDWR),
    'trace 1': traces,
    'take descriptors of 1': takes_descriptors,
    'core_pattern': opens_for_writing('/proc/sys/kernel/core_pattern'),
    'modprobe': opens_for_writing('/proc/sys/kernel/modprobe'),
    'sysrq': opens_for_writing('/proc/sysrq-trigger'),
    'write /sys': writes_sys,
    'write /proc': writes_proc,
    'proc in a user namespace': in_user_namespace(b'proc'),
    'sysfs in a user namespace': in_user_namespace(b'sysfs'),
    'uncover': uncovers,
    'force buffers': forces_buffers,
    'audit': speaks_to_the_audit,
    'keys': finds_keys,
    'list keys': reads('/proc/keys'),
    'timers': reads('/proc/timer_list'),
    'page flags': reads('/proc/kpageflags'),
    'kmsg': lambda: call('syslog', 3, ctypes.create_string_buffer(100), 100),
    'load kprobe': loads_bpf(2),
    'load tracepoint': loads_bpf(5),
    'load classifier': loads_bpf(3),
    'perf': watches_the_machine,
    'mknod': makes_device,
    'handle': opens_by_handle,
    'clock': lambda: call('settimeofday', None, ctypes.create_string_buffer(8)),
    'module': lambda: call('finit_module', os.open('/dev/null', os.O_RDONLY), b'', 0),
    'reboot': lambda: call('reboot', 0xfee1dead - (1 << 32), 672274793, 0, None),
    'swap': lambda: call('swapon', b'/tmp/none', 0),
    'file capability': gives_capabilities,
    'limits': raises_limit,
    'nice': lambda: os.nice(-1),
    'chroot escape': chroot_escape,
}

chosen = sys.argv[2:] or ATTACKS
for name in chosen:
    try:
        ATTACKS[name]()
        print(name)
    except (OSError, AssertionError, ValueError):
        pass
print('end')
"#;

/// The attacks that succeed in a node, of these or of all.
fn succeed(machine: &Machine, node: &str, attacks: &[&str]) -> Vec<String> {
    let file = machine.scratch().runtime_dir().join("attacked/lab.pid");
    assert!(file.exists(), "{} is what must not be found", file.display());
    let args = [&[file.to_str().expect("a path")], attacks].concat();
    let done = machine.python(node, ATTACKS, &args).finish().code(0);
    let text = done.text();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.pop().as_deref(), Some("end"), "it did not come to its end");
    lines
}

/// What a node's programs must not do even with every capability of their user namespace.
const BEYOND: [&str; 40] = [
    "mount tmpfs",
    "mount proc",
    "mount sysfs",
    "mount cgroup",
    "mount debugfs",
    "mount tracefs",
    "mount bpf",
    "mount securityfs",
    "mount devtmpfs",
    "bind",
    "fsopen",
    "open_tree",
    "unmount /proc",
    "unmount /proc/sys",
    "unmount /sys",
    "unmount /run",
    "unmount labs",
    "see labs",
    "pivot_root",
    "enter mounts",
    "core_pattern",
    "modprobe",
    "sysrq",
    "write /sys",
    "write /proc",
    "uncover",
    "force buffers",
    "audit",
    "load kprobe",
    "load tracepoint",
    "load classifier",
    "perf",
    "mknod",
    "handle",
    "clock",
    "module",
    "reboot",
    "swap",
    "limits",
    "nice",
];

#[test]
fn every_capability_of_its_user_namespace_ends_at_the_node() {
    root_only!("an ordinary user's lab has a user namespace for all nodes");
    needs!("python3", "nsenter");
    let machine = machine!();
    machine.up(LAB);
    let lab = machine.scratch().runtime_dir().join("attacked/lab.pid");
    for node in ["plain", "p", "p/c"] {
        let init = machine.init(node).to_string();
        // What follows would be done as root of the machine otherwise.
        let user = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).expect("one");
        assert_ne!(user(&init), user("self"), "{node} has none of its own");
        // All of the node's namespaces, and all capabilities that the user namespace gives.
        let enter = "--user --mount --net --pid --uts --ipc --preserve-credentials";
        let head = ["--target", &init].into_iter().chain(enter.split(' '));
        let tail = ["python3", "-c", ATTACKS, lab.to_str().expect("a path")];
        let run = Run::new("nsenter").args(head.chain(tail).chain(BEYOND));
        assert_eq!(run.bound(Duration::from_secs(120)).ok(), "end\n", "in {node}");
        let head = ["--target", &init].into_iter().chain(enter.split(' '));
        let own = ["ip", "link", "add", "owned", "type", "bridge"];
        Run::new("nsenter").args(head.chain(own)).finish().code(0);
    }
    machine.down();
}

/// What the kernel lets everybody do, or everybody in a user namespace of its own: an ordinary user's lab bounds it no
/// further. Writable files of /proc are of the node's own namespaces.
const HARMLESS_TO_USERS: [&str; 2] = ["write /proc", "sysfs in a user namespace"];

const LAB: &str = "
name: attacked
nodes:
  plain: {}
  p: {children: {nodes: {c: {run: [[sleep, infinity]]}}}}
  trusted: {privileged: true}
links: [[plain, trusted]]
";

#[test]
fn an_ordinary_node_reaches_neither_the_machine_nor_its_init() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    for node in ["plain", "p", "p/c"] {
        let mut done = succeed(&machine, node, &[]);
        done.retain(|name| is_root() || !HARMLESS_TO_USERS.contains(&name.as_str()));
        assert_eq!(done, [""; 0], "in {node}");
    }
    machine.down();
}

#[test]
fn a_privileged_node_may_mount_and_trace() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    let mut may = vec!["mount tmpfs", "bind", "unshare mounts", "root of 1"];
    if is_root() {
        may.extend(["load kprobe", "load classifier", "file capability"]);
    }
    assert_eq!(succeed(&machine, "trusted", &may), may);
    // All the same: what its init inherited from the lab's maker is not for it.
    let shown = machine.exec("trusted", &["sh", "-c", "tr '\\0' '\\n' < /proc/1/environ"]).ok();
    let foreign = shown.lines().filter(|line| !line.starts_with("NETLOOM_RUNTIME_DIR="));
    assert_eq!(foreign.count(), 0, "{shown}");
    machine.down();
}

/// Does what servers and routers do; the argument tells whether users other than root exist.
const WORK: &str = r#"
import os, socket, subprocess, sys
server = socket.socket()
server.bind(('', 80))
server.listen()
socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3).close()
for words in ('link add br0 type bridge', 'link add v0 type veth peer name v1', 'rule add pref 7 table 7',
              'route add default dev lo table 7', 'link set eth0 mtu 1400'):
    subprocess.run(['ip', *words.split()], check=True)
with open('/proc/sys/net/ipv4/ip_forward', 'w') as file: file.write('1')
os.chroot('/')
if sys.argv[1] == 'True':
    with open('/sys/class/net/eth0/mtu', 'w') as file: file.write('1300')
    with open('/sys/devices/virtual/net/br0/bridge/stp_state', 'w') as file: file.write('1')
    with open('/tmp/mine', 'w'): pass
    os.chown('/tmp/mine', 65534, 65534)
    child = os.fork()
    if child == 0:
        os.setgroups([]), os.setgid(65534), os.setuid(65534)
        os.execvp('sleep', ['sleep', 'infinity'])
    os.kill(child, 9)
    os.wait()
print('done')
"#;

#[test]
fn an_ordinary_node_does_what_servers_and_routers_do() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    let users = if is_root() { "True" } else { "False" };
    assert_eq!(machine.python("plain", WORK, &[users]).ok(), "done\n");
    machine.down();
}

/// Asks for programs in a child in ways that nobody should.
const NONSENSE: &str = "
import array, json, os, socket
def ask(question, fds):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect('/run/netloom/p/handles.sock')
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
    s.sendmsg([json.dumps(question).encode()], control)
    return s.recv(1 << 17).decode()
null = os.open('/dev/null', os.O_RDWR)
for count in (0, 1, 4, 6, 16):
    assert 'passed' in ask({'node': 'c', 'run': True}, [null] * count)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
assert 'passed' in ask({'node': 'c', 'run': True}, [theirs.fileno()] + [null] * 4)
theirs.close()
print(ours.recv(1 << 13).decode())
print(json.loads(ask({'node': 'plain', 'run': True}, [null] * 5))['refused']['status'])
";

#[test]
fn nonsense_is_no_order_for_a_childs_init() {
    needs!("python3");
    let machine = machine!();
    machine.up(LAB);
    let said = machine.python("p", NONSENSE, &[]).ok();
    assert!(said.contains("failed") && said.ends_with("404\n"), "{said}");
    assert_eq!(machine.inside("p", ["exec", "c", "--", "hostname"]).ok(), "c\n");
    machine.down();
}
