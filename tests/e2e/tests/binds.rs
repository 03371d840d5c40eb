//! Files and directories of the host that nodes see: read-only or not, for root and for ordinary users alike.

use std::fs;
use std::os::unix::fs::symlink;

use netloom_tests_e2e::machine;

#[test]
fn what_is_bound_is_the_hosts_and_only_rw_can_be_changed() {
    let machine = machine!();
    let folder = machine.scratch().path();
    for name in ["site", "site/deep", "data"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(folder.join("site/index.html"), "hello\n").unwrap();
    fs::write(folder.join("data/inner"), "").unwrap();
    fs::write(folder.join("one.conf"), "one\n").unwrap();
    machine.up(
        "name: t\nnodes:\n  a:\n    binds:\n      /srv/new/site: site\n      /srv/new/site/deep: {from: data, access: rw}\n      \
         /srv/one.conf: {from: ./one.conf, access: rw}\n      /opt/here: data\n  b: {}\nlinks: [[a, b]]\n",
    );
    let sh = |script: &str| machine.exec("a", &["sh", "-c", script]);
    assert_eq!(sh("cat /srv/new/site/index.html").ok(), "hello\n");
    for refused in ["cp /etc/hosts /srv/new/site/", "touch /srv/new/site/x", "rm /opt/here/inner"] {
        sh(refused).finish().code(1).says("Read-only file system");
    }
    sh("echo from the node > /srv/new/site/deep/new; echo two >> /srv/one.conf").finish().code(0);
    assert_eq!(fs::read_to_string(folder.join("data/new")).unwrap(), "from the node\n");
    assert_eq!(fs::read_to_string(folder.join("one.conf")).unwrap(), "one\ntwo\n");
    // It is the directory itself, not a copy.
    fs::write(folder.join("site/later"), "later\n").unwrap();
    assert_eq!(sh("cat /srv/new/site/later /opt/here/new").ok(), "later\nfrom the node\n");
    machine.exec("b", &["ls", "/srv/new"]).finish().code(2);
    machine.down();
}

#[test]
fn a_missing_source_is_named_before_anything_is_made() {
    let machine = machine!();
    let file = machine.file("name: t\nnodes: {a: {binds: {/srv/x: missing/site}}}\n");
    let failed = machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    failed.code(1).says("node \"a\": binds./srv/x").says("missing/site: No such file or directory");
    machine.untouched();
}

#[test]
fn the_folder_of_labs_cannot_be_shown() {
    let machine = machine!();
    let folder = machine.scratch().path();
    symlink(folder, folder.join("around")).unwrap();
    let file = machine.file("name: t\nnodes: {a: {binds: {/srv/x: around}}}\n");
    let failed = machine.netloom(["up".as_ref(), file.as_os_str()]).finish();
    failed.code(1).says("the node would see the folder of labs");
    machine.untouched();
}

#[test]
fn links_in_a_nodes_root_lead_to_nothing_outside_of_it() {
    let machine = machine!();
    let folder = machine.scratch().path();
    for name in ["root", "root/srv", "outside", "data"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for name in ["bin", "lib", "lib64", "usr"] {
        symlink(format!("/{name}"), folder.join("root").join(name)).unwrap();
    }
    symlink(folder.join("outside"), folder.join("root/srv/absolute")).unwrap();
    symlink("../../outside", folder.join("root/srv/relative")).unwrap();
    for name in ["absolute", "relative"] {
        let text =
            format!("name: t\nnodes: {{a: {{root: root, binds: {{/srv/{name}/x: data}}}}}}\n");
        let file = machine.file(&text);
        machine
            .netloom(["up".as_ref(), file.as_os_str()])
            .finish()
            .code(1)
            .says("make a place for");
        assert_eq!(fs::read_dir(folder.join("outside")).unwrap().count(), 0, "{name}");
    }
    assert_eq!(fs::read_dir(folder.join("root/srv")).unwrap().count(), 2);
    machine.untouched();
}
