//! `cp`: files and directories into and out of a node.

use netloom_tests_e2e::{machine, pair};

#[test]
fn files_and_directories_go_both_ways() {
    let machine = machine!();
    machine.up(&pair(""));
    let dir = machine.scratch().path().to_owned();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[1]).collect();
    machine.scratch().file("one", &bytes);
    std::fs::create_dir_all(dir.join("tree/below")).unwrap();
    std::fs::write(dir.join("tree/below/two"), "two").unwrap();
    machine.netloom(["cp", "one", "a:/tmp/one"]).ok();
    machine.netloom(["cp", "tree", "a:/tmp/tree"]).ok();
    assert_eq!(machine.exec("a", &["cat", "/tmp/tree/below/two"]).ok(), "two");
    machine.netloom(["cp", "a:/tmp/one", "back"]).ok();
    machine.netloom(["cp", "a:/tmp/tree", "tree-back"]).ok();
    assert!(std::fs::read(dir.join("back")).unwrap() == bytes, "the file came back changed");
    assert_eq!(std::fs::read_to_string(dir.join("tree-back/below/two")).unwrap(), "two");
    machine.down();
}

#[test]
fn errors_name_the_object() {
    let machine = machine!();
    machine.up(&pair(""));
    machine.netloom(["cp", "not-there", "a:/tmp/x"]).finish().code(1).says("not-there");
    machine.netloom(["cp", "a:/not-there", "x"]).finish().code(1).says("/not-there");
    machine.scratch().file("one", "1");
    let done = machine.netloom(["cp", "one", "zed:/tmp/x"]).finish().says("zed");
    assert_ne!(done.status.code(), Some(0));
    machine.netloom(["cp", "one", "two"]).finish().code(2);
    machine.down();
}
