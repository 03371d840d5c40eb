//! `netloom fmt`: lab files in one style, as commands and editors use it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use netloom_tests_e2e::{Machine, machine, workspace_root};

const MESSY: &str =
    "# all\nnodes:\n    h1:   {forwarding : true }   # a router\n    'h2': {}\nlinks:\n- [h1,h2]\n";
const NEAT: &str =
    "# all\nnodes:\n  h1: {forwarding: true}         # a router\n  h2: {}\nlinks:\n  - [h1, h2]\n";

#[test]
fn a_file_is_replaced_as_a_whole_and_once() {
    let machine = machine!();
    let file = machine.file(MESSY);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = machine.scratch().path().join("link.yaml");
    symlink("lab.yaml", &link).unwrap();
    let told = machine.netloom(["fmt", "--check", "lab.yaml", "link.yaml"]).finish().code(4);
    assert_eq!(told.text(), "lab.yaml:3: not formatted\nlink.yaml:3: not formatted\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), MESSY);
    let before = fs::metadata(&file).unwrap();
    assert_eq!(machine.netloom(["fmt", "link.yaml"]).ok(), "link.yaml: formatted\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), NEAT);
    let after = fs::metadata(&file).unwrap();
    assert_ne!(before.ino(), after.ino(), "written in place");
    assert_eq!(
        (before.mode(), before.uid(), before.gid()),
        (after.mode(), after.uid(), after.gid())
    );
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    // A second time there is nothing to do, and nothing is written.
    assert_eq!(machine.netloom(["fmt", "lab.yaml"]).ok(), "");
    assert_eq!(machine.netloom(["fmt", "--check", "lab.yaml"]).ok(), "");
    assert_eq!(fs::metadata(&file).unwrap().ino(), after.ino());
    machine.untouched();
}

#[test]
fn standard_input_becomes_standard_output() {
    let machine = machine!();
    assert_eq!(machine.netloom(["fmt", "-"]).input(MESSY).ok(), NEAT);
    assert_eq!(machine.netloom(["fmt", "-"]).input(NEAT).ok(), NEAT);
    let told = machine.netloom(["fmt", "--check", "-"]).input(MESSY).finish().code(4);
    assert_eq!(told.text(), "(standard input):3: not formatted\n");
    machine.untouched();
}

#[test]
fn what_is_refused_stays_as_it_is() {
    let machine = machine!();
    let bad: [(&str, &[u8], &str); 5] = [
        (
            "key.yaml",
            b"nodes:\n  ? h1\n  : {}\n",
            "key.yaml:2:3: error: a key behind \"?\" cannot be formatted\n  help: write KEY: VALUE",
        ),
        (
            "word.yaml",
            b"nodes:\n    h1: {forwardin: true}\n",
            "word.yaml:2:10: error: nodes.h1: unknown key \"forwardin\"\n  help: did you mean \"forwarding\"?",
        ),
        (
            "open.yaml",
            b"nodes: {h1: {}\n",
            "open.yaml:1:8: error: not valid YAML: \"{\" is not closed",
        ),
        (
            "bytes.yaml",
            b"nodes:\n    \xff: {}\n",
            "bytes.yaml:2:5: error: invalid UTF-8: byte 0xff",
        ),
        ("lab.conf", b"pc1[0]=A\n", "lab.conf:1:1: error: "),
    ];
    for (name, text, _) in bad {
        fs::write(machine.scratch().path().join(name), text).unwrap();
    }
    machine.file(MESSY);
    // The others are formatted nevertheless.
    let names = bad.iter().map(|(name, ..)| *name).chain(["none.yaml", "lab.yaml"]);
    let told = machine.netloom(["fmt"]).args(names).finish().code(2);
    assert_eq!(told.text(), "lab.yaml: formatted\n");
    for (name, text, wanted) in bad {
        assert!(told.errors().contains(wanted), "{wanted}\n{}", told.errors());
        assert_eq!(fs::read(machine.scratch().path().join(name)).unwrap(), text, "{name}");
    }
    assert!(told.errors().contains("none.yaml\": open: No such file"), "{}", told.errors());
    machine.netloom(["fmt"]).finish().code(2).says("<FILE>");
    machine.untouched();
}

#[test]
fn the_examples_are_formatted() {
    let machine = Machine::new();
    let folder = workspace_root().join("examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect();
    assert!(files.len() > 20, "{}", files.len());
    assert_eq!(machine.netloom(["fmt", "--check"]).args(&files).ok(), "");
    machine.untouched();
}
