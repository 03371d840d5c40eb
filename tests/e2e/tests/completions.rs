//! Completions: real shells, with a lab that runs, and where nothing runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use netloom_kit::Binary;
use netloom_tests_e2e::{Machine, Run, Terminal, machine, needed};

const LAB: &str = "name: two\n\
    nodes: {h1: {}, h2: {}, web.srv: {}}\n\
    switches: {s1: {}, wall: {kind: shm}}\n\
    links: [[h1, s1], [h2, wall], [h2, \"web.srv:lan0\"]]\n";

/// The text before the tabulator, and the words afterwards.
const TYPED: &[(&str, &[&str])] = &[
    ("netloom stat", &["netloom", "status"]),
    ("netloom exec we", &["netloom", "exec", "web.srv"]),
    ("netloom down t", &["netloom", "down", "two"]),
    ("netloom --lab=t", &["netloom", "--lab=two"]),
    ("netloom -l two switch show w", &["netloom", "-l", "two", "switch", "show", "wall"]),
    ("netloom capture web.srv:", &["netloom", "capture", "web.srv:lan0"]),
    ("netloom capture link:h2:eth1-", &["netloom", "capture", "link:h2:eth1--web.srv:lan0"]),
    ("netloom capture --engine x", &["netloom", "capture", "--engine", "xdp-ring"]),
    ("netloom check only-o", &["netloom", "check", "only-one.yaml"]),
    // One that has no end yet gets no blank.
    ("netloom cp we", &["netloom", "cp", "web.srv:"]),
];

/// A folder with the binary as `netloom`, to stand in PATH.
fn folder_of_binary(machine: &Machine) -> PathBuf {
    let folder = machine.scratch().path().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let binary = Binary::find().path().canonicalize().unwrap();
    std::os::unix::fs::symlink(binary, folder.join("netloom")).unwrap();
    folder
}

fn path(machine: &Machine) -> String {
    let rest = std::env::var("PATH").unwrap_or_default();
    format!("{}:{rest}", folder_of_binary(machine).display())
}

/// Types each line with a tabulator into a shell and lets it print its words one by one.
fn type_into(machine: &Machine, shell: &Path, args: &[&str], setup: &str) {
    machine.scratch().file("only-one.yaml", "nodes: {a: {}}\n");
    let path = path(machine);
    let runtime = machine.scratch().runtime_dir();
    let home = machine.scratch().path();
    let env = [
        ("PATH", Path::new(&path)),
        ("NETLOOM_RUNTIME_DIR", &runtime),
        ("HOME", home),
        ("TERM", Path::new("dumb")),
        ("PS1", Path::new("> ")),
    ];
    let mut terminal = Terminal::start(shell, args, &env);
    terminal.type_text(&format!("cd {}\n{setup}\nprintf '<%s>' r''eady\n", home.display()));
    terminal.expect("<ready>");
    for (typed, words) in TYPED {
        // To the start of the line, and there a command that shows what came out of it.
        terminal.type_text(&format!("{typed}\t\x01printf '<%s>' \n"));
        terminal.expect(&words.iter().map(|word| format!("<{word}>")).collect::<String>());
    }
    terminal.type_text("exit\n");
    terminal.finish();
}

#[test]
fn bash_completes_verbs_and_what_runs() {
    let bash = needed!("bash");
    let machine = machine!();
    machine.up(LAB);
    let setup = "bind 'set bell-style none'\nsource <(netloom completions bash)";
    type_into(&machine, &bash, &["--norc", "--noprofile", "-i"], setup);
    machine.down();
}

#[test]
fn zsh_completes_verbs_and_what_runs() {
    let zsh = needed!("zsh");
    let machine = machine!();
    machine.up(LAB);
    let setup = "bindkey -e\nautoload -U compinit\ncompinit -u -D\n\
                 source <(netloom completions zsh)";
    type_into(&machine, &zsh, &["-f", "-i"], setup);
    machine.down();
}

#[test]
fn zsh_finds_the_script_where_it_is_installed() {
    let zsh = needed!("zsh");
    let machine = machine!();
    machine.up(LAB);
    let functions = machine.scratch().path().join("functions");
    std::fs::create_dir(&functions).unwrap();
    let script = machine.netloom(["completions", "zsh"]).ok();
    std::fs::write(functions.join("_netloom"), script).unwrap();
    let setup = format!(
        "bindkey -e\nfpath=({} $fpath)\nautoload -U compinit\ncompinit -u -D",
        functions.display()
    );
    type_into(&machine, &zsh, &["-f", "-i"], &setup);
    machine.down();
}

#[test]
fn fish_completes_verbs_and_what_runs() {
    let fish = needed!("fish");
    let machine = machine!();
    machine.up(LAB);
    machine.scratch().file("only-one.yaml", "nodes: {a: {}}\n");
    let path = path(&machine);
    for (typed, words) in TYPED {
        let script = format!("netloom completions fish | source; complete --do-complete '{typed}'");
        let run = Run::new(&fish).args(["--no-config", "-c", &script]).env("PATH", &path);
        let run = run.env("HOME", machine.scratch().path()).dir(machine.scratch().path());
        let shown = run.env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir()).ok();
        let word = words[words.len() - 1];
        let first = shown.lines().map(|line| line.split('\t').next().unwrap_or_default());
        assert_eq!(first.collect::<Vec<_>>(), [word], "{typed}: {shown}");
    }
    machine.down();
}

/// What may stand in the place of the last word.
fn words<S: AsRef<OsStr>>(machine: &Machine, line: impl IntoIterator<Item = S>) -> String {
    let run = machine.netloom(["complete-words", "--"]).args(line).finish().code(0);
    assert_eq!(run.errors(), "");
    run.text()
}

#[test]
fn where_nothing_runs_nothing_is_said() {
    let machine = Machine::new();
    for line in [&["exec", ""][..], &["down", ""], &["-l", "x", "link", "show", ""], &["logs", "h"]]
    {
        assert_eq!(words(&machine, line), "", "{line:?}");
    }
    // Remains of a lab, and a folder that is not one.
    let runtime = machine.scratch().runtime_dir();
    for (name, names) in [("half", "{\"nodes\": ["), ("odd", "[]"), ("empty", "")] {
        let folder = runtime.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("names.json"), names).unwrap();
        assert_eq!(words(&machine, ["-l", name, "exec", ""]), "", "{name}");
    }
    assert_eq!(words(&machine, ["-l", "h"]), "half\n");
    assert_eq!(words(&machine, ["exec", ""]), "", "several labs, and none is named");
    for name in ["half", "odd", "empty"] {
        std::fs::remove_dir_all(runtime.join(name)).unwrap();
    }
    machine.untouched();
}

#[test]
fn other_shells_get_a_script_of_verbs_and_flags() {
    let machine = Machine::new();
    for shell in ["elvish", "powershell"] {
        let script = machine.netloom(["completions", shell]).ok();
        assert!(
            script.contains("move-interface") && !script.contains("complete-words -"),
            "{script}"
        );
    }
    machine.untouched();
}
