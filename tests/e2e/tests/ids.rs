//! Users and groups of nodes: real ones, fake ones, and root alone.

use std::collections::BTreeSet;

use netloom_tests_e2e::given::Given;
use netloom_tests_e2e::{
    Machine, is_root, machine, needs, ordinary_only, root_only, skip, with_command_line,
};

/// Makes each call that changes owners and users, with arguments that nobody may have done in an ordinary user's lab, and
/// prints what the kernel answers: for this machine's calls, those of x32, and those of 32 bits. Then tells whether it has all
/// of its users and groups still, since root may leave some of them without an error, and who it is.
const CALLS: &str = r"
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
own = {
    'x86_64': [92, 93, 94, 260, 105, 106, 113, 114, 117, 119, 116, 122, 123],
    'aarch64': [55, 54, 146, 144, 145, 143, 147, 149, 159, 151, 152],
}[machine]
def ask(call):
    answer = libc.syscall(call, -1, 12345, 12345, 12345, 12345)
    return 0 if answer == 0 else ctypes.get_errno()
def held():
    status = open('/proc/self/status').read().splitlines()
    return [line for line in status if line.startswith(('Uid:', 'Gid:', 'Groups:'))]
before = held()
print('own', sorted(set(ask(call) for call in own)))
if machine == 'x86_64':
    print('x32', sorted(set(ask(call | 0x40000000) for call in own)))
    # mov eax, edi; mov ebx, -1; mov ecx, 12345; mov edx, ecx; mov esi, ecx; int 0x80; ret, with rbx saved
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex('53 89f8 bbffffffff b939300000 89ca 89ce cd80 5b c3'))
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    old = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(start)
    narrow = [182, 95, 16, 298, 23, 46, 70, 71, 164, 170, 81, 138, 139]
    wide = [212, 207, 198, 213, 214, 203, 204, 208, 210, 206, 215, 216]
    print('i386', sorted(set(-old(call) for call in narrow + wide)))
print('kept', held() == before)
print('then', os.getuid(), os.getgid(), os.stat('/tmp').st_uid)
";

fn calls(machine: &Machine, node: &str) -> String {
    machine.python(node, CALLS, &[]).ok()
}

#[test]
fn with_fake_ids_all_calls_are_done_and_nothing_is() {
    needs!("python3");
    let machine = machine!();
    machine.up("name: fake\nids: fake\nnodes: {a: {}, p: {privileged: true}}\n");
    for node in ["a", "p"] {
        let told = calls(&machine, node);
        assert!(told.starts_with("own [0]\n"), "{told}");
        if cfg!(target_arch = "x86_64") {
            // Where the kernel runs no programs of 32 bits, the filter answers all the same.
            assert!(told.contains("x32 [0]\ni386 [0]\n"), "{told}");
        }
        assert!(told.ends_with("kept True\nthen 0 0 0\n"), "{told}");
        // Programs of `run`, of `exec` and those with the caller's files get the same answers.
        let keeping = ["exec", "--no-root", node, "--", "python3", "-c", CALLS];
        assert!(machine.netloom(keeping).ok().starts_with("own [0]\n"));
        assert_eq!(machine.node(node)["ids"], "fake");
    }
    // A program that has changed its user keeps its rights: this is not `no_new_privs`.
    let status = machine.exec("a", &["grep", "NoNewPrivs", "/proc/self/status"]).ok();
    assert_eq!(status, "NoNewPrivs:\t0\n");
    machine.down();
}

#[test]
fn with_one_id_changes_are_refused() {
    needs!("python3", "setpriv");
    let machine = machine!();
    machine.up("name: one\nnodes: {a: {ids: one}}\n");
    let told = calls(&machine, "a");
    assert!(!told.starts_with("own [0]\n") && told.contains("kept True\n"), "{told}");
    for (what, words) in [
        ("chown", "touch /tmp/x && chown 33:33 /tmp/x"),
        ("setuid", "setpriv --reuid=33 true"),
        ("setgroups", "setpriv --clear-groups true"),
    ] {
        let done = machine.exec("a", &["sh", "-c", words]).finish();
        assert!(!done.status.success(), "{what}: {}", done.errors());
    }
    assert_eq!(machine.node("a")["ids"], "one");
    machine.down();
}

#[test]
fn what_netloom_does_in_a_node_goes_on_with_fake_ids() {
    needs!("python3");
    let machine = machine!();
    machine.up(
        "name: all\nids: fake\nnodes:\n  a:\n    run: [[sleep, infinity]]\n    files: {/srv/f: {text: x, owner: daemon}}\n    \
         ready: {exec: [sh, -c, 'touch /run/r && chown 1:1 /run/r']}\n  b: {}\n  p: {children: {limit: 2, nodes: {c: {}}}}\n\
         links: [[a, b]]\n",
    );
    // Owners of the file and of what a ready command makes are root's.
    assert_eq!(machine.exec("a", &["stat", "-c", "%u:%g", "/srv/f", "/run/r"]).ok(), "0:0\n0:0\n");
    // Into it and out of it.
    machine.scratch().file("in", "content");
    machine.ok("cp in a:/srv/in");
    machine.ok("cp a:/srv/in out");
    let out = machine.scratch().path().join("out");
    assert_eq!(std::fs::read_to_string(out).expect("the copy"), "content");
    machine.ok("ping a b");
    machine.ok("capture a:eth0 --duration 200ms -w none.pcapng");
    // A child has what its parent has, from within, too; a made one likewise.
    assert_eq!(machine.node("p/c")["ids"], "fake");
    machine.inside("p", ["node", "create", "later"]).finish().code(0);
    let own = [
        "exec",
        "later",
        "--",
        "sh",
        "-c",
        "touch /tmp/x && chown 7:7 /tmp/x && stat -c %u /tmp/x",
    ];
    assert_eq!(machine.inside("p", own).ok(), "0\n");
    machine.down();
}

#[test]
fn a_guarded_program_in_a_node_has_fake_ids() {
    needs!("setpriv");
    let machine = machine!();
    machine.up("name: kept\nnodes: {a: {ids: fake}}\n");
    let words =
        ["guard", "--in", "a", "--default", "allow", "--", "setpriv", "--reuid=33", "id", "-u"];
    assert_eq!(machine.netloom(words).finish().code(0).text(), "0\n");
    machine.down();
}

#[test]
fn a_running_node_gets_other_ids_when_it_is_made_anew() {
    let machine = machine!();
    machine.up("name: set\nids: one\nnodes: {a: {}, b: {}}\n");
    let chown = ["sh", "-c", "touch /tmp/x && chown 33:33 /tmp/x"];
    assert!(!machine.exec("a", &chown).finish().status.success());
    machine.ok("node set a ids=fake").says("recreated");
    machine.exec("a", &chown).ok();
    machine.ok("node create c ids=fake");
    machine.exec("c", &chown).ok();
    machine.refused("node set a ids=some", 2, &["ids: expected one of real, fake, one"]);
    if !is_root() {
        machine.refused("node set a ids=real", 2, &["made with root alone"]);
    }
    machine.down();
}

#[test]
fn doctor_names_the_ids_that_nodes_get() {
    let machine = machine!();
    let found = machine.netloom(["doctor", "--json"]).finish().json();
    let row = found.as_array().expect("a list").iter().find(|f| f["feature"] == "users in nodes");
    let row = row.expect("the feature");
    let real = row["available"].as_bool().expect("a verdict");
    machine.up("name: told\nnodes: {a: {}}\n");
    assert_eq!(machine.node("a")["ids"], if real { "real" } else { "fake" }, "{row}");
    if !real {
        assert!(
            row["instead"]
                .as_str()
                .is_some_and(|s| s.contains("`ids: fake`") && s.contains("sshd"))
        );
        assert!(row["needs"].as_str().is_some_and(|s| s.contains("sudo ")), "{row}");
    }
    machine.down();
}

#[test]
fn real_ids_are_refused_where_there_are_none() {
    ordinary_only!("root has all users");
    needs!("user-without-subids");
    let machine = machine!();
    let file = machine.file("name: real\nnodes: {a: {}, b: {ids: real}}\n");
    let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(3);
    refused.says("users in nodes: not available here").says("sudo ");
    machine.netloom(["check".as_ref(), file.as_os_str()]).finish().code(0);
    machine.untouched();
}

/// Who one is after changing to user 33, whose file is whose, and the map.
const CHANGE: &str = "touch /tmp/x && chown 33:34 /tmp/x && stat -c %u:%g /tmp/x && \
                      setpriv --reuid=33 --regid=34 --groups=35 id -u && wc -l < /proc/self/uid_map";

#[test]
fn given_ids_are_real_in_a_lab_of_an_ordinary_user() {
    needs!("setpriv", "unshare");
    let given = match Given::new() {
        Ok(given) => given,
        Err(reason) => skip!("{reason}"),
    };
    let lab = "name: real\nnodes:\n  a: {files: {/etc/x: {text: x, owner: daemon, group: '7'}}}\n  b: {ids: one}\n  \
               c: {ids: fake}\nlinks: [[a, b]]\n";
    given.up(lab);
    assert_eq!(given.node("a")["ids"], "real");
    assert_eq!(given.exec("a", &["sh", "-c", CHANGE]).ok(), "33:34\n33\n2\n");
    assert_eq!(given.exec("a", &["stat", "-c", "%u:%g", "/etc/x"]).ok(), "1:7\n");
    // Directories of the host's root are the node's root's, not those of the user whom the kernel shows instead.
    assert_eq!(
        given.exec("a", &["stat", "-c", "%u:%g", "/var", "/tmp", "/etc"]).ok(),
        "0:0\n".repeat(3)
    );
    // A node that wants less has less.
    assert!(!given.exec("b", &["setpriv", "--reuid=33", "true"]).finish().status.success());
    assert_eq!(given.exec("c", &["setpriv", "--reuid=33", "id", "-u"]).ok(), "0\n");
    // The next lab process, and nodes that it makes, have the same users.
    for pid in with_command_line("netloom-lab: real") {
        netloom_tests_e2e::kill(pid);
    }
    given.up(lab);
    given.netloom(["node", "create", "late"]).finish().code(0);
    assert_eq!(given.exec("late", &["sh", "-c", CHANGE]).ok(), "33:34\n33\n2\n");
    given.down();
}

#[test]
fn more_ids_than_are_given_are_refused_for_files() {
    needs!("setpriv", "unshare");
    let given = match Given::new() {
        Ok(given) => given,
        Err(reason) => skip!("{reason}"),
    };
    let file =
        given.file("name: far\nnodes: {a: {files: {/srv/x: {text: x, owner: '4000000'}}}}\n");
    let refused = given.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    refused.says("user 4000000 with group 0 does not exist here").says("/etc/subuid");
    given.down();
}

/// A /var as a server's package leaves it: logs and a directory of www-data's, which nobody else may read.
const SERVED: &str = r#"
var="$HOME/var"
mkdir -p "$var"
mount -t tmpfs none "$var"
mkdir -p "$var/log/served" "$var/lib/served/body" "$var/tmp"
chmod 1777 "$var/tmp"
echo secret | tee "$var/log/served/error.log" "$var/log/plain.log" >"$var/lib/served/body/own"
chown 33:4 "$var/log/served/error.log" "$var/lib/served/body"
chmod 640 "$var/log/served/error.log"
chmod 700 "$var/lib/served/body"
mount --bind "$var" /var
umount "$var"
"#;

#[test]
fn servers_add_to_logs_and_fill_directories_that_only_their_user_may_read() {
    root_only!("gives files to other users");
    needs!("setpriv", "unshare");
    let given = match Given::new() {
        Ok(given) => given,
        Err(reason) => skip!("{reason}"),
    };
    let file = given.file("name: served\nnodes: {r: {ids: real}, f: {ids: fake}, late: {}}\n");
    let up = given.netloom(["up".as_ref(), file.as_os_str()]);
    up.env("NETLOOM_TEST_BEFORE", SERVED).finish().code(0);
    // nginx opens its log, makes its directory, and gives it to its user if it belongs to another.
    let serve = "cd /var && echo started >> log/served/error.log && echo started >> log/plain.log && \
                 cat log/served/error.log log/plain.log && stat -c %a:%u log/served/error.log && \
                 ls lib/served/body && chown 33 lib/served/body && touch lib/served/body/new && echo filled";
    for node in ["r", "f"] {
        let told = given.exec(node, &["sh", "-c", serve]).ok();
        assert_eq!(told, "started\nstarted\n640:0\nfilled\n", "{node}");
    }
    let owner = |node| given.exec(node, &["stat", "-c", "%u", "/var/lib/served/body"]).ok();
    assert_eq!((owner("r"), owner("f")), ("33\n".to_owned(), "0\n".to_owned()));
    // What one node writes is its own.
    assert_eq!(given.exec("late", &["cat", "/var/log/plain.log"]).ok(), "");
    given.down();
}

#[test]
fn programs_fill_directories_of_the_hosts_other_users() {
    let machine = machine!();
    machine.up("name: fill\nnodes: {a: {}, b: {}}\n");
    let fill = "mkdir /var/lib/own /var/cache/own && echo x > /var/log/own && echo x > /var/tmp/own && \
                mkdir -p /etc/own/deep && stat -c %a:%u /var/tmp";
    assert_eq!(machine.exec("a", &["sh", "-c", fill]).ok(), "1777:0\n");
    // What the host has there shows as before, can be replaced, and stays the host's.
    let replace =
        "sed -i 's/^/# /' /etc/login.defs && head -c 2 /etc/login.defs && echo && ls /var/lib";
    let host = std::fs::read("/etc/login.defs").expect("a file of the host");
    let names = || -> BTreeSet<String> {
        let entries = std::fs::read_dir("/var/lib").expect("a directory of the host").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let before = names();
    let told = machine.exec("a", &["sh", "-c", replace]).ok();
    assert!(told.starts_with("# "), "{told}");
    // What somebody else adds or removes on the host meanwhile is there or not.
    for name in before.intersection(&names()) {
        assert!(told.lines().any(|line| line == name), "{name}: {told}");
    }
    assert_eq!(std::fs::read("/etc/login.defs").expect("a file of the host"), host);
    assert!(!machine.exec("b", &["ls", "/var/lib/own"]).finish().status.success());
    machine.down();
}
