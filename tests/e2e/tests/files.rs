//! `files`: files put into a node before anything runs, their owners, and the directories on the way.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use netloom_tests_e2e::{Machine, is_root, machine, ordinary_only, pair, root_only};

/// Owner, group and permission bits of something in node `a`, seen from outside, where there is
/// no program in the node.
fn seen(machine: &Machine, path: &str) -> (u32, u32, u32) {
    let inits = machine.inits();
    let (_, pid) = inits.iter().find(|(name, _)| name == "a").expect("node a");
    let found = std::fs::metadata(format!("/proc/{pid}/root{path}")).expect("it is in the node");
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// A directory with these owner, group and permission bits.
fn directory(path: &Path, owner: Option<(u32, u32)>, mode: u32) {
    std::fs::create_dir_all(path).expect("make directory");
    if let Some((uid, gid)) = owner {
        chown(path, Some(uid), Some(gid)).expect("give directory away");
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("set permissions");
}

#[test]
fn owners_come_from_the_nodes_own_lists_and_directories_stay_as_they_were() {
    root_only!("gives files to others");
    let machine = machine!();
    let root = machine.scratch().path().join("root");
    directory(&root.join("etc/frr"), Some((92, 93)), 0o2750);
    std::fs::write(root.join("etc/passwd"), "frr:x:92:93::/:/bin/false\n").unwrap();
    std::fs::write(root.join("etc/group"), "frr:x:93:\nfrrvty:x:94:\n").unwrap();
    machine.up("name: owners\nnodes:\n  a:\n    root: root\n    files:\n      \
         /etc/frr/frr.conf: {text: x, owner: frr, group: frr, mode: \"0640\"}\n      \
         /etc/frr/vtysh.conf: {text: x, group: frrvty}\n      \
         /etc/frr/daemons: {text: x, owner: 7, mode: \"4755\"}\n      \
         /etc/frr/plain: x\n      /srv/new/x: x\n");
    for (path, expected) in [
        ("/etc/frr", (92, 93, 0o2750)),
        ("/etc/frr/frr.conf", (92, 93, 0o640)),
        ("/etc/frr/vtysh.conf", (0, 94, 0o644)),
        ("/etc/frr/daemons", (7, 0, 0o4755)),
        // As of any file that is made in a directory with this bit.
        ("/etc/frr/plain", (0, 93, 0o644)),
        ("/srv/new", (0, 0, 0o755)),
        ("/srv/new/x", (0, 0, 0o644)),
    ] {
        assert_eq!(seen(&machine, path), expected, "{path}");
    }
    machine.down();
}

#[test]
fn names_may_come_with_the_files_themselves() {
    root_only!("gives files to others");
    let machine = machine!();
    let text = "files: {/srv/x: {text: x, owner: me}, /etc/passwd: \"me:x:77:78::/:\\n\"}";
    machine.up(&pair(text));
    assert_eq!(machine.exec("a", &["stat", "-c", "%u %g %a", "/srv/x"]).ok(), "77 0 644\n");
    machine.down();
}

#[test]
fn a_directory_of_the_host_keeps_owner_group_and_mode() {
    let machine = machine!();
    let dir = machine.scratch().path().join("conf");
    directory(&dir, is_root().then_some((92, 93)), 0o750);
    let inner = dir.join("x");
    machine.up(&pair(&format!("files: {{{}: hello}}", inner.display())));
    let dir = dir.to_str().expect("a plain path");
    // An ordinary user's own number is root's in the lab.
    let expected = if is_root() { "92 93 750\n" } else { "0 0 750\n" };
    assert_eq!(machine.exec("a", &["stat", "-c", "%u %g %a", dir]).ok(), expected);
    assert_eq!(machine.exec("b", &["stat", "-c", "%u %g %a", dir]).ok(), expected);
    assert_eq!(machine.exec("a", &["cat", &format!("{dir}/x")]).ok(), "hello");
    machine.down();
}

#[test]
fn an_owner_that_is_not_there_is_named_with_node_and_file() {
    let machine = machine!();
    let text = pair("files: {/srv/x: {text: x, owner: nobody-at-all}}");
    let file = machine.file(&text);
    let expected = "node \"a\": file \"/srv/x\": find its owner: no user \"nobody-at-all\" in the \
                    node's /etc/passwd";
    machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1).says(expected);
    machine.untouched();
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let machine = machine!();
    let fifo = machine.scratch().path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("make a FIFO");
    let wrong = [fifo.to_str().expect("a plain name"), "/dev/zero", "/etc"];
    let whys = ["it is not a regular file", "it is not a regular file", "it is a directory"];
    for (from, why) in wrong.into_iter().zip(whys) {
        let file = machine.file(&pair(&format!("files: {{/srv/x: {{from: {from:?}}}}}")));
        let refused = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
        refused.says(from).says(why);
    }
    machine.untouched();
}

#[test]
fn an_ordinary_users_lab_has_no_other_owner_than_its_root() {
    ordinary_only!("root may give files to anybody");
    let machine = machine!();
    let file = machine.file(&pair("ids: one, files: {/srv/x: {text: x, group: 7}}"));
    let up = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    up.says("node \"a\": file \"/srv/x\": give it to its owner").says("`ids: one`");
    let fine =
        machine.file(&pair("ids: one, files: {/srv/x: {text: x, owner: root, group: \"0\"}}"));
    machine.up_file(&fine);
    machine.down();
}

#[test]
fn a_file_in_a_directory_that_is_shown_read_only_is_refused() {
    ordinary_only!("as root every directory can be written");
    let machine = machine!();
    let file = machine.file(&pair("files: {/usr/local/bin/x: text}"));
    let up = machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1);
    up.says("node \"a\": file \"/usr/local/bin/x\"").says("/usr is shown read-only");
    machine.untouched();
}
