//! `netloom capture` of several interfaces: frames stand in the order in which they passed.

use std::path::Path;

use netloom_tests_e2e::capturing::{Capturing, Packet, files, read_pcapng};
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, Run, is_root, machine, needs, wait_until};

/// `a` and `b` reach `c` by two routers: each frame passes several links.
const LAB: &str = "
name: order
nodes:
  a: {}
  b: {}
  c: {}
  r1: {forwarding: true}
  r2: {forwarding: true}
switches:
  s: {}
links:
  - [a, s]
  - [b, s]
  - [s, r1]
  - [r1, r2]
  - [r2, c]
";

/// Frames go along the path, both ways, until `enough` says so.
fn traffic<T>(machine: &Machine, mut enough: impl FnMut() -> Option<T>) -> T {
    let mut pings = Held::start(machine.exec("b", &["ping", "-q", "-i", "0.2", "c"]));
    let mut first = 0;
    let found = wait_until("there is enough", SOON, || {
        machine.datagrams("a", "c", first, 500);
        first += 500;
        enough()
    });
    pings.child().kill().expect("end the pings");
    found
}

/// How many frames stand behind later ones.
fn behind(packets: &[Packet]) -> u64 {
    let mut last = 0;
    let late = |packet: &&Packet| {
        let late = packet.time < last;
        last = last.max(packet.time);
        late
    };
    packets.iter().filter(late).count() as u64
}

fn engines() -> &'static [&'static str] {
    if is_root() { &["tc-ring", "tpacket"] } else { &["tpacket"] }
}

#[test]
fn times_never_run_back_in_files() {
    let _kept = netloom_kit::tai_kept();
    let machine = machine!();
    machine.up(LAB);
    for engine in engines() {
        for rotation in ["", " --rotate-size 512KiB", " --rotate-time 200ms"] {
            let stem = format!("{engine}{}", rotation.replace(' ', "_"));
            let args = format!("--all --engine {engine}{rotation}");
            let capture = Capturing::start(&machine, &args, &format!("{stem}.pcapng"));
            let folder = machine.scratch().path();
            let mut left = 4;
            traffic(&machine, || {
                left -= 1;
                let all = files(folder, &stem).len();
                (left <= 0 && (rotation.is_empty() || all > 2)).then_some(())
            });
            let account = capture.stop();
            account.closes();
            let contents: Vec<_> = files(folder, &stem).iter().map(|f| read_pcapng(f)).collect();
            let packets: Vec<_> = contents.iter().flat_map(|c| c.packets.clone()).collect();
            assert_eq!(packets.len() as u64, account.total("written"), "{args}");
            // A processor that stands still between reading a frame's time and giving it on makes it late:
            // that is told to the frame, and is the exception.
            let behind = behind(&packets);
            assert_eq!(Some(behind), account.value["late"].as_u64(), "{args}");
            assert!(behind * 10 < packets.len() as u64, "{args}: {behind} of {}", packets.len());
            // The path was seen, not one link of it.
            let used = |link: u32| packets.iter().any(|p| p.interface == link);
            assert!((0..5).all(used), "{args}");
            assert!(
                account.errors.starts_with(&format!("5 links: {engine}: ")),
                "{}",
                account.errors
            );
        }
    }
    machine.down();
}

#[test]
fn times_run_back_in_a_pipe_only_where_it_is_told() {
    let _kept = netloom_kit::tai_kept();
    let machine = machine!();
    machine.up(LAB);
    let folder = machine.scratch().path();
    for engine in engines() {
        let line = format!(
            "{} capture r1 r2 c --engine {engine} --json -c 6000 -w - 2> told | cat > piped",
            netloom_kit::Binary::find().path().display()
        );
        let run = Run::new("/bin/sh").args(["-c", &line]).dir(folder);
        let mut held = Held::start(run.env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir()));
        traffic(&machine, || held.child().try_wait().expect("look at it"));
        drop(held.rest());
        let told = std::fs::read_to_string(folder.join("told")).expect("what it said");
        let (banner, json) = told.trim().rsplit_once('\n').expect("two lines");
        assert!(banner.starts_with(&format!("5 interfaces: {engine}: ")), "{banner}");
        let account: serde_json::Value = serde_json::from_str(json).expect("its account");
        let packets = read_pcapng(&folder.join("piped")).packets;
        assert_eq!((packets.len(), &account["difference"]), (6000, &0.into()), "{account}");
        assert_eq!(Some(behind(&packets)), account["late"].as_u64(), "{account}");
        assert!(behind(&packets) < 3000, "{account}");
    }
    machine.down();
}

#[test]
fn tshark_sees_times_that_never_run_back() {
    needs!("tshark");
    let _kept = netloom_kit::tai_kept();
    let machine = machine!();
    machine.up(LAB);
    let capture = Capturing::start(&machine, "--all", "all.pcapng");
    let mut left = 4;
    traffic(&machine, || {
        left -= 1;
        (left <= 0).then_some(())
    });
    let account = capture.stop();
    account.closes();
    let file = machine.scratch().path().join("all.pcapng");
    let back = deltas(&file).iter().filter(|delta| delta.starts_with('-')).count() as u64;
    let late = account.value["late"].as_u64();
    assert!(late.is_some_and(|late| back <= late && (back > 0) == (late > 0)), "{back} {late:?}");
    machine.down();
}

/// The time from each frame to the next, as tshark says it.
fn deltas(file: &Path) -> Vec<String> {
    let args = ["-n", "-T", "fields", "-e", "frame.time_delta", "-r"];
    let done = Run::new("tshark").args(args).args([file]).finish().code(0);
    let all: Vec<String> = done.text().lines().map(str::to_owned).collect();
    assert!(all.len() > 1000, "{} frames", all.len());
    all
}
