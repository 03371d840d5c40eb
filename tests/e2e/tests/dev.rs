//! `/dev` of a node: its own, so that programs may change its content.

use netloom_tests_e2e::{is_root, machine, needs, pair};

#[test]
fn programs_make_give_away_and_remove_what_is_in_dev() {
    let machine = machine!();
    machine.up(&pair("files: {/dev/put: here}"));
    let script = "set -e; cat /dev/put; echo text > /dev/file; chmod 600 /dev/file; chown 0:0 /dev/file; \
                  mkdir /dev/dir; ln -s null /dev/link; echo gone > /dev/link; mkfifo /dev/log; \
                  test \"$(cat /dev/file)\" = text; rm /dev/file /dev/stdout; \
                  test -c /dev/null; test -c /dev/tty; test -c /dev/net/tun; test -w /dev/shm; \
                  head -c 3 /dev/zero | wc -c";
    assert_eq!(machine.exec("a", &["sh", "-c", script]).ok(), "here3\n");
    machine.exec("b", &["test", "-e", "/dev/dir"]).finish().code(1);
    machine.exec("b", &["sh", "-c", "echo x > /dev/null"]).ok();
    machine.down();
}

#[test]
fn a_device_is_the_nodes_own_where_the_kernel_allows_it() {
    let machine = machine!();
    machine.up(&pair(""));
    let before = std::fs::metadata("/dev/null").expect("the host has it");
    let change = machine.exec("a", &["sh", "-c", "chown 7:8 /dev/null && chmod 640 /dev/null"]);
    if is_root() {
        change.ok();
        let seen = |node| machine.exec(node, &["stat", "-c", "%u %g %a", "/dev/null"]).ok();
        assert_eq!((seen("a").as_str(), seen("b").as_str()), ("7 8 640\n", "0 0 666\n"));
    } else {
        // In a user namespace it is the host's, which an ordinary user cannot give away.
        change.finish().code(1);
    }
    let after = std::fs::metadata("/dev/null").expect("the host has it");
    use std::os::unix::fs::MetadataExt;
    assert_eq!((before.uid(), before.mode()), (after.uid(), after.mode()));
    machine.down();
}

#[test]
fn tcpdump_writes_to_dev_null() {
    needs!("tcpdump");
    let machine = machine!();
    machine.up(&pair(""));
    // It ends by itself after one packet, which ping sends.
    let script = "tcpdump -i lo -c 1 -w /dev/null icmp 2>/tmp/said & \
                  until grep -qs listening /tmp/said || ! kill -0 $! 2>/dev/null; do sleep 0.02; done; \
                  ping -c 1 127.0.0.1 >/dev/null; wait $!; code=$?; cat /tmp/said; exit $code";
    let said = machine.exec("a", &["sh", "-c", script]).ok();
    assert!(said.contains("1 packet captured"), "{said}");
    machine.down();
}
