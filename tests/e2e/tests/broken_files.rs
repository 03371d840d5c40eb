//! Files of a lab's folder that cannot be read: `down` takes the lab down by what the kernel shows, and other verbs name it.

use std::fs;
use std::path::{Path, PathBuf};

use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine};

/// A lab with each kind of process that may outlive its lab process.
fn lab(machine: &Machine) -> (String, PathBuf) {
    let vde = machine.scratch().path().join("vde");
    let port = netloom_kit::free_port();
    let text = format!(
        "name: holed\nnodes:\n  a: {{run: [[tail, -f, /dev/null]]}}\n  b: {{ports: ['{port}:80']}}\n  c: {{}}\n\
         switches:\n  m: {{kind: shm, vde: {vde:?}}}\n  o: {{kind: openflow}}\n\
         slices: {{red: {{controllers: host, switches: {{o: {{ports: [b]}}}}}}}}\n\
         links: [[a, m], [b, o], {{ends: [a, c], delay: 1ms}}]\n"
    );
    (text, machine.scratch().runtime_dir().join("holed"))
}

/// Files of a folder, and of those in it, that are of a kind.
fn files(folder: &Path, kind: fn(&fs::FileType) -> bool) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(folder).expect("list it").flatten() {
        match entry.file_type().expect("its type") {
            inner if inner.is_dir() => found.extend(files(&entry.path(), kind)),
            other if kind(&other) => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// Brings the lab up, kills its process, spoils the folder, and takes the lab down.
fn spoiled(machine: &Machine, spoil: impl FnOnce(&Path), parts: &[&str]) {
    let (text, folder) = lab(machine);
    machine.up(&text);
    kill_and_wait(machine.lab_process());
    spoil(&folder);
    let down = machine.netloom(["down", "holed"]).finish().code(0);
    parts.iter().fold(down, |down, part| down.says(part));
    assert_eq!(machine.before().difference_that_stays(), "");
}

/// A state that is whole JSON, and none that this version wrote.
fn of_another_version(folder: &Path) {
    let path = folder.join("state.json");
    let state = fs::read_to_string(&path).expect("the state");
    fs::write(path, state.replacen("\"nodes\":", "\"houses\":", 1)).expect("write it");
}

#[test]
fn down_needs_no_state() {
    let machine = machine!();
    let state = |folder: &Path| folder.join("state.json");
    let cannot = ["state.json\" cannot be read: ", "; taking down what the kernel shows"];
    let cut = |folder: &Path| {
        let whole = fs::read(state(folder)).expect("the state");
        fs::write(state(folder), &whole[..whole.len() / 2]).expect("write it");
    };
    spoiled(&machine, cut, &cannot);
    spoiled(&machine, of_another_version, &cannot);
    // What a newer version says may mean something else, of the lab and of anything in it.
    for (place, told) in [
        ("{", "newer: unknown field `newer`"),
        ("\"nodes\":[{", "plan.nodes[0].newer: unknown field"),
    ] {
        let newer = |folder: &Path| {
            let text = fs::read_to_string(state(folder)).expect("the state");
            let with = text.replacen(place, &format!("{place}\"newer\":1,"), 1);
            assert_ne!(with, text, "{place}");
            fs::write(state(folder), with).expect("write it");
        };
        spoiled(&machine, newer, &[&format!("state.json\" cannot be read: {told}")]);
    }
    spoiled(&machine, |folder| fs::write(state(folder), b"\x01\xff").expect("write it"), &cannot);
    let by_a_folder = |folder: &Path| {
        fs::remove_file(state(folder)).expect("remove it");
        fs::create_dir(state(folder)).expect("make a folder");
    };
    spoiled(&machine, by_a_folder, &cannot);
    spoiled(&machine, |folder| fs::remove_file(state(folder)).expect("remove it"), &[]);
    machine.untouched();
}

#[test]
fn down_needs_none_of_the_other_files() {
    let machine = machine!();
    let all_but_the_state = |folder: &Path| {
        fs::write(folder.join("host.json"), "").expect("write it");
        let others = files(folder, fs::FileType::is_file).into_iter();
        for path in others.filter(|path| !path.ends_with("state.json")) {
            fs::write(path, "\x01[{").expect("write it");
        }
    };
    spoiled(&machine, all_but_the_state, &["host.json\" cannot be read: "]);
    // What leads to processes: sockets, and files whose locks they hold.
    let all_that_is_held = |folder: &Path| {
        let locks = files(folder, fs::FileType::is_file).into_iter();
        let locks = locks.filter(|path| path.extension().is_some_and(|is| is == "lock"));
        let sockets = files(folder, |kind| !kind.is_file()).into_iter();
        let sockets = sockets.filter(|path| !path.starts_with(folder.join("n")));
        for path in locks.chain(sockets) {
            fs::remove_file(path).expect("remove it");
        }
    };
    spoiled(&machine, all_that_is_held, &[]);
    let a_folder_as_lock = |folder: &Path| {
        fs::remove_file(folder.join("lock")).expect("remove it");
        fs::create_dir(folder.join("lock")).expect("make a folder");
    };
    spoiled(&machine, a_folder_as_lock, &[]);
    machine.untouched();
}

#[test]
fn a_stopped_lab_process_is_found_without_its_number() {
    let machine = machine!();
    let (text, folder) = lab(&machine);
    machine.up(&text);
    let process = machine.lab_process();
    fs::write(folder.join("lab.pid"), "1").expect("write it");
    netloom_kit::stop(process);
    let told = format!("the lab process (pid {process}) is killed");
    machine.netloom(["down"]).finish().code(0).says(&told);
    machine.untouched();
}

#[test]
fn verbs_name_a_lab_that_cannot_be_read_and_go_on_with_others() {
    let machine = machine!();
    let (text, folder) = lab(&machine);
    machine.up(&text);
    machine.up("name: sound\nnodes: {a: {}}\n");
    let pid = machine.netloom(["ls", "--json"]).finish().code(0).json()[0]["pid"].as_i64();
    kill_and_wait(i32::try_from(pid.expect("a lab process")).expect("a pid"));
    of_another_version(&folder);
    let why = "state.json\" cannot be read: plan.houses: unknown field";
    let advice = "`netloom down holed` takes the lab down without it";
    let listed = machine.netloom(["ls"]).finish().code(0).says(why).says(advice);
    let is_line = |name: &str, state: &str| {
        let text = listed.text();
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.any(|words| words.starts_with(&[name, state]))
    };
    assert!(is_line("holed", "broken") && is_line("sound", "up"), "{}", listed.text());
    let json = machine.netloom(["ls", "--json"]).finish().code(0).json();
    assert!(json[0]["unreadable"].as_str().is_some_and(|words| words.contains(why)), "{json}");
    machine.netloom(["-l", "sound", "status"]).finish().code(0);
    machine.netloom(["-l", "holed", "status"]).finish().code(1).says(why).says(advice);
    let file = machine.file(&text);
    machine.netloom(["up".as_ref(), file.as_os_str()]).finish().code(1).says(why).says(advice);
    machine.netloom(["down", "--all"]).finish().code(0);
    machine.untouched();
}
