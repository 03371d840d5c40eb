//! `netloom generate` and `replay`: sent frames arrive, or are lost where the counters say so.

use netloom_tests_e2e::capturing::{Capturing, read_growing, read_pcapng};
use netloom_tests_e2e::live::{Held, SOON, gone};
use netloom_tests_e2e::{Machine, Run, machine, pair, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Nodes on a bridge, on a switch in shared memory, and a link with a wire that leads to `e`: at its
/// end itself a packet socket sees frames before the wire takes them. Nobody speaks IPv6, so
/// that little is sent that is not asked for.
const LAB: &str = "
name: gen
pool: {ipv6: none}
nodes:
  a: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  b: {sysctls: *quiet}
  c: {sysctls: *quiet}
  d: {forwarding: true, sysctls: *quiet}
  e: {sysctls: *quiet}
switches:
  s: {}
  m: {kind: shm}
links:
  - [a, b]
  - [a, s]
  - [c, s]
  - [a, m]
  - [d, m]
  - {ends: [c, d], delay: 1ms}
  - [d, e]
";

/// The link with the wire.
const WIRED: &str = "c:eth1--d:eth1";

/// Starts a receiver and waits until it hears.
fn receiver(machine: &Machine, target: &str, count: Option<u64>) -> Held {
    let mut args = vec!["generate".to_owned(), target.to_owned()];
    args.extend(["--receive", "--json"].map(str::to_owned));
    args.extend(count.into_iter().flat_map(|count| ["-c".to_owned(), count.to_string()]));
    let mut held = Held::start(machine.netloom(&args));
    assert_eq!(held.error_line(), format!("{target}: receiving"));
    held
}

/// Its report.
fn report(held: Held) -> Value {
    serde_json::from_str(&held.rest()).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

fn sent(machine: &Machine, words: &str) -> u64 {
    let report = machine.ok(&format!("generate {words} --json")).json();
    assert_eq!(report["frames_refused"], 0, "{report}");
    number(&report["frames_sent"])
}

/// Received, lost, twice and reordered of the first stream.
fn figures(report: &Value) -> [u64; 4] {
    assert_eq!(report["frames_dropped_here"], 0, "{report}");
    let keys = ["frames_received", "frames_lost", "frames_duplicated", "frames_reordered"];
    keys.map(|key| number(&report["streams"][0][key]))
}

/// Frames for which the queues between the interfaces of this machine had no room so far: all its
/// namespaces, and whatever else runs on it, share them.
fn without_room() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").expect("counters of the queues");
    let dropped = |line: &str| {
        let field = line.split_whitespace().nth(1).expect("two fields");
        u64::from_str_radix(field, 16).expect("a hexadecimal number")
    };
    text.lines().map(dropped).sum()
}

/// Fewer than the shortest queue on the way, a tap's of 500, takes: none is lost even while the receiver waits
/// for its turn.
#[test]
fn all_that_is_sent_is_received() {
    let machine = machine!();
    machine.up(LAB);
    ["b", "c", "d"].iter().for_each(|to| machine.answers("a", to));
    let address = |node: &str, interface: &str| {
        let shown = machine.exec(node, &["ip", "-j", "-4", "address", "show", interface]).finish();
        let shown = shown.code(0).json();
        shown[0]["addr_info"][0]["local"].as_str().expect("an address").to_owned()
    };
    // A client that asks the switch gets the station from an address on its segment.
    let from = address("a", "eth2");
    let by_port = format!("switch:m --to d --from {from}");
    for (from, to) in [
        ("a:eth0", "b:eth0"),
        ("link:a:eth0--b:eth0 --size imix", "b:eth0"),
        ("a:eth0 --to b --size 64-1518 --flows 64", "b:eth0"),
        ("a:eth1 --to c", "c:eth0"),
        (by_port.as_str(), "d:eth0"),
    ] {
        let (before, hears) = (without_room(), receiver(&machine, to, None));
        assert_eq!(sent(&machine, &format!("{from} -c 480 --rate 20kpps")), 480, "{from}");
        let report = report(hears);
        let [received, lost, twice, reordered] = figures(&report);
        assert_eq!((received + lost, twice, reordered), (480, 0, 0), "{from}: {report}");
        assert!(lost <= without_room() - before, "{from}: {report}");
    }
    machine.down();
}

/// Programs in the kernel lose nothing; packet sockets may, on a busy machine, and what they lose is known.
#[test]
fn what_is_sent_through_an_openflow_switch_is_received() {
    let machine = machine!();
    let lab = LAB.replace("  s: {}", "  s: {kind: openflow}").replace("delay: 1ms", "mtu: 1500");
    machine.up(&lab);
    machine.ok("flow add s in_port=a,actions=output:c");
    let plane = || machine.ok("switch show s --json").json()["flow"]["plane"].clone();
    // The first ones come through the process, which keeps the result where it can. A result may be that of a neighbour's
    // question, and later frames would overtake those that still wait for the process: so none may come to it any more.
    wait_until("the result is kept", SOON, || {
        let before = plane();
        for _ in 0..3 {
            sent(&machine, "a:eth1 --to c -c 1");
        }
        let after = plane();
        let kept = number(&after["hits"]) >= number(&before["hits"]) + 3;
        (!after["slower"].is_null() || kept).then_some(())
    });
    let hears = receiver(&machine, "c:eth0", None);
    let sent = sent(&machine, "a:eth1 --to c -c 1000 --rate 2kpps");
    let report = report(hears);
    let [received, lost, twice, _] = figures(&report);
    assert!(received > 0 && received + lost <= sent && twice == 0, "{report}");
    if netloom_tests_e2e::is_root() {
        assert_eq!(figures(&report), [sent, 0, 0, 0], "{report}");
    }
    machine.down();
}

#[test]
fn as_fast_as_it_goes_what_arrives_is_in_order_and_counted() {
    let machine = machine!();
    machine.up(LAB);
    let hears = receiver(&machine, "b:eth0", None);
    let sent = sent(&machine, "a:eth0 -c 100000");
    assert_eq!(sent, 100_000);
    let report = report(hears);
    let keys = ["frames_received", "frames_lost", "frames_duplicated"];
    let [received, lost, twice] = keys.map(|key| number(&report["streams"][0][key]));
    assert_eq!(report["streams"][0]["frames_offered"], sent, "{report}");
    assert_eq!((received + lost, twice), (sent, 0), "{report}");
    machine.down();
}

#[test]
fn what_is_lost_at_the_end_is_counted() {
    let machine = machine!();
    machine.up(LAB);
    machine.answers("a", "c");
    // It takes frames of up to 622 bytes: half of the sizes, which are sent in ascending order.
    machine.exec("c", &["ip", "link", "set", "eth0", "mtu", "600"]).finish().code(0);
    let hears = receiver(&machine, "c:eth0", None);
    assert_eq!(sent(&machine, "a:eth1 --to c -c 1000 --rate 20kpps --size 123-1122"), 1000);
    let half = report(hears);
    assert_eq!(figures(&half), [500, 500, 0, 0], "{half}");
    assert_eq!(half["streams"][0]["frames_offered"], 1000, "{half}");
    // A receiver to which nothing comes ends, too, and knows how much it was.
    let hears = receiver(&machine, "c:eth0", None);
    assert_eq!(sent(&machine, "a:eth1 --to c -c 300 --rate 20kpps --size 1000 --stream 7"), 300);
    let all = report(hears);
    assert_eq!(figures(&all), [0, 300, 0, 0], "{all}");
    assert_eq!(
        (number(&all["streams"][0]["stream"]), all["streams"].as_array().map(Vec::len)),
        (7, Some(1))
    );
    machine.down();
}

#[test]
fn what_is_sent_to_another_is_not_missed() {
    let machine = machine!();
    machine.up(LAB);
    let hears = receiver(&machine, "b:eth0", None);
    // The same stream, to somewhere else.
    assert_eq!(sent(&machine, "a:eth1 --to c -c 500 --rate 20kpps"), 500);
    assert_eq!(sent(&machine, "a:eth0 --to b -c 100 --rate 20kpps"), 100);
    let report = report(hears);
    assert_eq!(figures(&report), [100, 0, 0, 0], "{report}");
    machine.down();
}

/// Offered, sent and lost by chance of the direction from `c`.
fn books(machine: &Machine) -> [u64; 3] {
    let link = machine.link(WIRED);
    let direction = &link["wire"]["directions"][0];
    let lost = direction["lost"].get("loss").map_or(0, number);
    [number(&direction["offered_packets"]), number(&direction["sent_packets"]), lost]
}

#[test]
fn what_a_wire_loses_is_what_is_missing() {
    let machine = machine!();
    machine.up(LAB);
    // Both ends know each other's stations for good, so that nothing else passes.
    machine.answers("c", "e");
    machine.ok(&format!("link set {WIRED} --end a --delay none --loss 10% --seed 5"));
    machine.keep_neighbours(&["c", "d"]);
    let before = books(&machine);
    let hears = receiver(&machine, "e:eth0", None);
    assert_eq!(sent(&machine, "c:eth1 --to e -c 5000 --rate 20kpps"), 5000);
    let report = report(hears);
    let after = books(&machine);
    let [offered, carried, lost] = [0, 1, 2].map(|i| after[i] - before[i]);
    let [received, missing, twice, reordered] = figures(&report);
    assert_eq!(carried + lost, offered, "{report}");
    // What nodes say by themselves passes the wire, too, and is lost by chance as well.
    let own = offered.checked_sub(5000).filter(|own| *own <= 5);
    let own = own.unwrap_or_else(|| panic!("{offered} frames offered: {report}"));
    assert!((carried - own..=carried).contains(&received), "{carried} of {offered}: {report}");
    assert!((300..700).contains(&lost), "{lost} of 5000 lost at 10 %");
    assert_eq!(missing, 5000 - received, "{report}");
    assert!(missing <= lost && lost - missing <= own, "{missing} of {lost}, {own} of others");
    assert_eq!([twice, reordered], [0, 0]);
    machine.down();
}

#[test]
fn what_overtakes_and_comes_twice_is_seen() {
    let machine = machine!();
    machine.up(LAB);
    machine.answers("c", "e");
    let what = "--end a --delay 5ms --reorder 5% --duplicate 2% --seed 5";
    machine.ok(&format!("link set {WIRED} {what}"));
    let hears = receiver(&machine, "e:eth0", None);
    assert_eq!(sent(&machine, "c:eth1 --to e -c 2000 --rate 5kpps"), 2000);
    let report = report(hears);
    let [received, lost, twice, reordered] = figures(&report);
    assert_eq!(lost, 0, "{report}");
    assert!(received == 2000, "{report}");
    assert!((15..100).contains(&twice) && reordered > 20, "{report}");
    // Delayed by the wire: most take 5 ms.
    assert!(number(&report["streams"][0]["latency"]["p50_ns"]) >= 5_000_000, "{report}");
    machine.down();
}

#[test]
fn a_replayed_file_arrives_frame_by_frame() {
    let machine = machine!();
    machine.up(LAB);
    let path = |name: &str| machine.scratch().path().join(name);
    // Sent is not arrived.
    let has = |name: &str, count: usize| {
        wait_until("all are in the file", SOON, || {
            (read_growing(&path(name)).packets.len() >= count).then_some(())
        });
    };
    let first = Capturing::start(&machine, "b:eth0 --direction in", "first.pcapng");
    assert_eq!(sent(&machine, "a:eth0 -c 500 --rate 5kpps --size imix"), 500);
    has("first.pcapng", 500);
    first.stop().closes();
    let recorded = read_pcapng(&path("first.pcapng")).packets;
    for (number, how) in
        ["--speed 1", "--top-speed", "--rate 20kpps", "--speed 10 --loop 3"].into_iter().enumerate()
    {
        let name = format!("again{number}.pcapng");
        let again = Capturing::start(&machine, "b:eth0 --direction in", &name);
        let file = path("first.pcapng").display().to_string();
        let report = machine.ok(&format!("replay {file} a:eth0 {how} --json")).json();
        let rounds = if how.contains("loop") { 3 } else { 1 };
        has(&name, rounds * recorded.len());
        again.stop().closes();
        let wanted: Vec<_> = (0..rounds).flat_map(|_| recorded.iter().map(|p| &p.bytes)).collect();
        let came = read_pcapng(&path(&name)).packets;
        assert_eq!(Ok(number_of(&report)), u64::try_from(wanted.len()), "{how}: {report}");
        let same = came.iter().map(|p| &p.bytes).eq(wanted.iter().copied());
        assert!(same, "{how}: {} of {} frames", came.len(), wanted.len());
        if how == "--speed 1" {
            // 500 frames at 5,000 a second.
            assert!(report["elapsed_ns"].as_u64() >= Some(90_000_000), "{report}");
        }
    }
    machine.down();
}

fn number_of(report: &Value) -> u64 {
    number(&report["frames_sent"])
}

#[test]
fn it_ends_with_its_lab_and_with_ctrl_c() {
    let machine = machine!();
    machine.up(LAB);
    let start = |words: &str| {
        let words = format!("generate {words} --json");
        Held::start(machine.netloom(words.split(' ')))
    };
    let mut sends = start("a:eth0 --rate 5kpps -d 10m");
    let mut hears = receiver(&machine, "b:eth0", None);
    let arrived = || {
        let text = machine.exec("b", &["cat", "/sys/class/net/eth0/statistics/rx_packets"]).ok();
        text.trim().parse::<u64>().expect("a number")
    };
    // Since it hears.
    let before = arrived();
    wait_until("frames arrive", SOON, || (arrived() > before + 50).then_some(()));
    signal(hears.child().id().cast_signed(), rustix::process::Signal::INT);
    assert!(figures(&report(hears))[0] > 0);
    signal(sends.child().id().cast_signed(), rustix::process::Signal::INT);
    assert!(number_of(&report(sends)) > 50);
    // A lab is removed although a program sends in it.
    let mut sends = start("a:eth0 --rate 5kpps -d 10m");
    let mut switched = start("a:eth1 --to c --rate 5kpps -d 10m");
    machine.netloom(["down", "gen"]).finish().code(0);
    for held in [&mut sends, &mut switched] {
        wait_until("it ends", SOON, || held.child().try_wait().expect("look at it"));
    }
    drop((sends, switched));
    machine.down();
}

#[test]
fn what_cannot_be_sent_is_named() {
    let machine = machine!();
    machine.up(LAB);
    machine.scratch().file("text", "no capture\n");
    machine.scratch().file("empty", "");
    // A capture without a packet: the header alone, and one that is packed.
    let header: Vec<u8> = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    machine.scratch().file("none", header);
    machine.scratch().file("packed.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    for (words, code, parts) in [
        ("generate a", 2, &["target \"a\"", "a:eth0, a:eth1, a:eth2"][..]),
        ("generate a:eth9", 1, &["node \"a\"", "no interface \"eth9\""]),
        ("generate nobody", 1, &["node \"nobody\""]),
        ("generate switch:s", 2, &["target \"switch:s\"", "several interfaces"]),
        ("generate switch:m", 2, &["--to is needed"]),
        ("generate switch:m --receive", 2, &["switch:m"]),
        ("generate switch:m --to d", 2, &["--to-mac is needed"]),
        ("generate a:eth1", 2, &["--to is needed"]),
        ("generate a:eth0 --to nobody", 2, &["--to \"nobody\""]),
        ("generate a:eth0 --rate 5", 2, &["--rate", "\"5\""]),
        ("generate a:eth0 --rate 0", 2, &["--rate"]),
        ("generate a:eth0 --size 10", 2, &["--size", "64"]),
        ("generate a:eth0 --size 1518-64", 2, &["--size"]),
        ("generate a:eth0 --flows 0", 2, &["--flows"]),
        ("generate a:eth0 --to-mac 1:2", 2, &["--to-mac"]),
        ("generate a:eth0 --engine shm", 1, &["shm"]),
        ("generate a:eth0 --receive --rate max", 2, &["--receive"]),
        ("generate host:nothere --to 10.0.0.1", 2, &["--to-mac is needed"]),
        ("generate host:nothere --receive", 1, &["host:nothere", "none of this name"]),
        ("replay text a:eth0", 1, &["text", "neither pcap nor pcapng"]),
        ("replay empty a:eth0", 1, &["empty"]),
        ("replay nothing a:eth0", 1, &["nothing", "No such file"]),
        ("replay none a:eth0", 1, &["none", "no frame was sent"]),
        ("replay packed.gz a:eth0", 1, &["packed.gz", "gzip: unpack it first"]),
        ("replay text nobody", 1, &["node \"nobody\""]),
        ("replay text a", 2, &["target \"a\"", "several interfaces"]),
        ("replay text a:eth0 --speed 0", 2, &["--speed"]),
        ("replay text a:eth0 --speed 2 --top-speed", 2, &["--speed", "--top-speed"]),
    ] {
        let run = machine.netloom(words.split(' ')).dir(machine.scratch().path());
        let done = run.finish().code(code);
        parts.iter().fold(done, |done, part| done.says(part));
    }
    machine.down();
}

#[test]
fn a_pipe_that_says_nothing_does_not_keep_replay_from_ending() {
    let machine = machine!();
    machine.up(&pair(""));
    let pipe = machine.scratch().path().join("pipe");
    Run::new("mkfifo").args([&pipe]).ok();
    let writer = std::fs::File::options().read(true).write(true).open(&pipe).expect("open it");
    let words = ["replay".as_ref(), pipe.as_os_str(), "a:eth0".as_ref()];
    let mut replay = Held::start(machine.netloom(words));
    let pid = replay.pid();
    replay.until("it reads", || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let mut names = threads.map(|thread| std::fs::read_to_string(thread.path().join("comm")));
        names.any(|name| name.is_ok_and(|name| name == "netloom-read\n")).then_some(())
    });
    signal(pid, Signal::TERM);
    wait_until("it has ended", SOON, || gone(pid).then_some(()));
    drop((writer, replay));
    machine.down();
}
