//! Wireshark's extcap: tshark lists and captures; a reader that goes; the toolbar, played by the test.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{
    Machine, Run, machine, needs, pair, signal, wait_until, with_command_line,
};

const LINK: &str = "a:eth0--b:eth0";

/// Where a user's programs for extcap are below the home folder: in Wireshark 4.0, and since 4.2.
const FOLDERS: [&str; 2] = [".config/wireshark/extcap", ".local/lib/wireshark/extcap"];

/// tshark of a user with netloom in these folders, and no settings.
fn tshark(machine: &Machine, words: &[&str]) -> Run {
    let home = machine.scratch().path();
    for folder in FOLDERS.map(|folder| home.join(folder)) {
        std::fs::create_dir_all(&folder).expect("make a folder");
        let link = folder.join("netloom");
        if !link.exists() {
            let binary = netloom_kit::Binary::find();
            std::os::unix::fs::symlink(binary.path(), link).expect("make a link");
        }
    }
    Run::new("tshark")
        .args(words)
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir())
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join(".config"))
        // Its pipes are there, so that other tests' are not taken for them.
        .env("TMPDIR", home)
}

/// netloom as Wireshark calls it.
fn extcap(machine: &Machine, words: &[&str]) -> Run {
    machine.netloom(words)
}

fn fifo(machine: &Machine, name: &str) -> PathBuf {
    let path = machine.scratch().path().join(name);
    Run::new("mkfifo").args(["-m", "600"]).args([&path]).ok();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this test")
}

/// The value that stands behind a word of each line, sorted and once each.
fn once(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn tshark_lists_and_captures() {
    needs!("tshark");
    let machine = machine!();
    let none = tshark(&machine, &["-D"]).finish().text();
    assert!(!none.contains("netloom:"), "{none}");
    machine.up(&pair(""));
    let listed = tshark(&machine, &["-D"]).finish().text();
    for line in [
        "netloom:pair (netloom pair: all links)",
        "netloom:pair/a (netloom pair: node a)",
        "netloom:pair/b:eth0 (netloom pair: b:eth0)",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
    let types = tshark(&machine, &["-L", "-i", "netloom:pair"]).finish();
    assert!(types.text().contains("EN10MB"), "{types}");

    // Pings until tshark has what it wants; quietly, since nobody reads what it says.
    let ping = |machine: &Machine| {
        Held::start(machine.exec("a", &["ping", "-4", "-q", "-i", "0.05", "b"]))
    };
    let fields = ["-T", "fields", "-e", "frame.interface_name", "-l"];
    let capture = |interface: &str, more: &[&str]| {
        // A filter before the interfaces is that of all.
        let head = ["-f", "icmp", "-i", interface, "-c", "6"];
        let words: Vec<&str> = head.into_iter().chain(fields).chain(more.iter().copied()).collect();
        tshark(&machine, &words).finish().code(0)
    };
    let pinging = ping(&machine);
    let found = capture("netloom:pair/b:eth0", &["-e", "ip.proto"]).text();
    assert_eq!(once(&found), ["b:eth0\t1"], "{found}");
    // Several interfaces in one capture, and two of netloom's at once.
    let both = capture("netloom:pair/a", &["-i", "netloom:pair/b", "-e", "ip.src"]).text();
    assert!(once(&both).len() >= 2, "{both}");
    drop(pinging);
    let own = machine.scratch().path().join("wireshark_extcap");
    let fifos = || with_command_line(text(&own));
    wait_until("no capture is left", SOON, || fifos().is_empty().then_some(()));

    let wrong = tshark(&machine, &["-i", "netloom:pair", "-f", "host nobody", "-c", "1"]).finish();
    assert!(!wrong.status.success() && wrong.errors().contains("nobody"), "{wrong}");
    machine.down();
}

#[test]
fn all_links_are_one_file_with_their_names() {
    needs!("tshark");
    let machine = machine!();
    machine
        .up("name: line\nnodes: {a: {}, b: {forwarding: true}, c: {}}\nlinks: [[a, b], [b, c]]\n");
    machine.answers("a", "c");
    let pinging = Held::start(machine.exec("a", &["ping", "-4", "-q", "-i", "0.05", "c"]));
    // Each link's frames come in blocks of a tenth of a second and more: those of 2.5 s are of both links.
    let words = [
        "-i",
        "netloom:line",
        "-f",
        "icmp",
        "-c",
        "100",
        "-T",
        "fields",
        "-e",
        "frame.interface_name",
    ];
    let found = tshark(&machine, &words).finish().code(0).text();
    assert_eq!(once(&found), ["a:eth0", "b:eth1"], "{found}");
    drop(pinging);
    machine.down();
}

#[test]
fn a_filter_is_checked_before_it_is_used() {
    let machine = machine!();
    machine.up(&pair(""));
    let check = |filter: &str| {
        let words = ["--extcap-interface", "netloom:pair", "--extcap-capture-filter", filter];
        extcap(&machine, &words).finish().code(0).text()
    };
    assert_eq!([check("tcp port 80"), check("host a and icmp"), check("")], ["", "", ""]);
    assert!(check("tcp port").contains("syntax error"));
    assert!(check("flow:a->nobody").contains("nobody"));
    for (words, code, part) in [
        (
            &["--extcap-interface", "eth0", "--capture", "--fifo", "/x"][..],
            2,
            "not one of netloom's",
        ),
        (
            &["--extcap-interface", "netloom:../pair", "--capture", "--fifo", "/x"],
            2,
            "not one of netloom's",
        ),
        (&["--capture", "--extcap-interface", "netloom:none", "--fifo", "/x"], 1, "\"none\""),
        (&["--capture", "--extcap-interface", "netloom:pair/zz", "--fifo", "/x"], 1, "zz"),
        (&["--capture", "--extcap-interface", "netloom:pair"], 2, "--fifo is missing"),
        (
            &["--capture", "--extcap-interface", "netloom:pair", "--fifo", "/x", "--colour", "red"],
            2,
            "--colour",
        ),
        (&["--extcap-version=4.0"], 2, "Personal Extcap path"),
    ] {
        extcap(&machine, words).finish().code(code).says(part);
    }
    machine.down();
}

#[test]
fn a_capture_ends_with_its_reader_and_when_it_is_told() {
    let machine = machine!();
    machine.up(&pair(""));
    let pipe = fifo(&machine, "frames");
    let words = ["--capture", "--extcap-interface", "netloom:pair/a:eth0", "--fifo", text(&pipe)];
    let mut capture = Held::start(extcap(&machine, &words));
    let mut reader = File::open(&pipe).expect("read the pipe");
    let mut head = [0; 4];
    reader.read_exact(&mut head).expect("the head of a file");
    assert_eq!(head, [0x0a, 0x0d, 0x0d, 0x0a]);
    // No frame passes: what it notices is that nobody reads.
    drop(reader);
    let ended = |capture: &mut Held| {
        let child = capture.child();
        wait_until("it ends", SOON, || child.try_wait().expect("look at it"))
    };
    assert_eq!(ended(&mut capture).code(), Some(0));

    // Nobody reads yet.
    let mut waiting = Held::start(extcap(&machine, &words));
    let caught = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        let blocked = blocked.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        // While a thread is made all signals are blocked, and then none.
        blocked.is_some_and(|mask| mask & (1 << 14) != 0 && mask & (1 << 10) == 0)
    };
    let pid = waiting.pid();
    wait_until("it takes signals", SOON, || caught(pid).then_some(()));
    signal(pid, rustix::process::Signal::TERM);
    assert_eq!(ended(&mut waiting).code(), Some(0));
    machine.down();
}

/// A message of Wireshark's toolbar: control, command, text.
type Message = (u8, u8, String);

fn send(to: &mut File, (control, command, text): (u8, u8, &str)) {
    let length = u8::try_from(text.len() + 2).expect("a short text");
    let mut bytes = vec![b'T', 0, 0, length, control, command];
    bytes.extend(text.as_bytes());
    to.write_all(&bytes).expect("tell");
}

fn receive(from: &mut File) -> Message {
    let mut head = [0; 6];
    from.read_exact(&mut head).expect("a head");
    assert_eq!(head[0], b'T');
    let length = u32::from_be_bytes([0, head[1], head[2], head[3]]);
    let mut text = vec![0; usize::try_from(length).expect("a length") - 2];
    from.read_exact(&mut text).expect("a text");
    (head[4], head[5], String::from_utf8(text).expect("UTF-8"))
}

fn message(control: u8, command: u8, text: &str) -> Message {
    (control, command, text.to_owned())
}

const SET: u8 = 1;

#[test]
fn the_toolbar_sets_delay_and_loss_of_the_captured_link() {
    let machine = machine!();
    machine.up(&pair(""));
    let [pipe, from, to] = ["frames", "in", "out"].map(|name| fifo(&machine, name));
    let start = |interface: &str| {
        let words = ["--capture", "--extcap-interface", interface, "--fifo", text(&pipe)];
        let control = ["--extcap-control-in", text(&from), "--extcap-control-out", text(&to)];
        let words: Vec<&str> = words.into_iter().chain(control).collect();
        let capture = Held::start(extcap(&machine, &words));
        // As Wireshark, it has all pipes open before anything is said.
        let both = |path: &Path| File::options().read(true).write(true).open(path).expect("open");
        (capture, both(&pipe), both(&from), both(&to))
    };
    let (capture, _frames, mut tell, mut told) = start("netloom:pair/a:eth0");
    let mut next = || receive(&mut told);
    assert_eq!([next(), next()], [message(0, SET, ""), message(1, SET, "")]);
    send(&mut tell, (255, 0, ""));
    assert_eq!([next(), next()], [message(0, SET, ""), message(1, SET, "")]);
    send(&mut tell, (0, SET, " 50ms "));
    assert_eq!(next(), message(255, 6, &format!("link {LINK}: delay 50ms")));
    assert_eq!([next(), next()], [message(0, SET, "50ms"), message(1, SET, "")]);
    let impairments = |machine: &Machine| {
        let link = machine.link(LINK);
        [0, 1].map(|way| link["wire"]["directions"][way]["impairments"].to_string())
    };
    assert_eq!(impairments(&machine), [r#"{"delay":"50ms"}"#; 2]);
    send(&mut tell, (1, SET, "sometimes"));
    let (control, command, words) = next();
    assert_eq!((control, command), (255, 8));
    assert!(words.contains("loss") && words.contains("sometimes"), "{words}");
    assert_eq!([next(), next()], [message(0, SET, "50ms"), message(1, SET, "")]);
    send(&mut tell, (1, SET, "2%"));
    assert_eq!(next(), message(255, 6, &format!("link {LINK}: loss 2%")));
    assert_eq!([next(), next()], [message(0, SET, "50ms"), message(1, SET, "2%")]);
    // The capture goes on, and a control that there is not is nobody's.
    send(&mut tell, (7, SET, "x"));
    send(&mut tell, (0, SET, ""));
    assert_eq!(next(), message(255, 6, &format!("link {LINK}: delay none")));
    assert_eq!([next(), next()], [message(0, SET, ""), message(1, SET, "2%")]);
    assert_eq!(impairments(&machine), [r#"{"loss":"2%"}"#; 2]);
    drop(capture);

    let (capture, _frames, _tell, mut told) = start("netloom:pair");
    assert_eq!([receive(&mut told), receive(&mut told)], [message(0, 5, ""), message(1, 5, "")]);
    drop(capture);
    machine.down();
}
