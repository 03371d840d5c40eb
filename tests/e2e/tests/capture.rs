//! `netloom capture`: every target, every frame accounted for, files that others read, kills, full disks.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use netloom_tests_e2e::capturing::{Capturing, files, read_classic, read_growing, read_pcapng};
use netloom_tests_e2e::live::{Held, SOON};
use netloom_tests_e2e::{Machine, Run, is_root, machine, needs, wait_until};

/// `a`, `b` and the router `r` on a bridge, `c` behind `r`; `a` and `d` on a switch in shared memory. Nobody
/// speaks IPv6, so that little is sent that is not asked for.
const LAB: &str = "
name: watch
pool: {ipv6: none}
nodes:
  a: {sysctls: &quiet {net.ipv6.conf.default.disable_ipv6: 1, net.ipv6.conf.all.disable_ipv6: 1}}
  b: {sysctls: *quiet}
  c: {sysctls: *quiet}
  d: {sysctls: *quiet}
  r: {forwarding: true, sysctls: *quiet}
switches:
  s: {}
  m: {kind: shm}
links:
  - [a, s]
  - [b, s]
  - [s, r]
  - [r, c]
  - [a, m]
  - [d, m]
";

/// Brings the lab up, and waits until `a` reaches the others: datagrams for a neighbour that does not answer yet wait, or are lost.
fn up(machine: &Machine) {
    machine.up(LAB);
    ["b", "c", "d"].iter().for_each(|to| machine.answers("a", to));
}

fn counted(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// 0..100.
fn hundred() -> Vec<u32> {
    (0..100).collect()
}

#[test]
fn every_target_has_each_frame_once() {
    let machine = machine!();
    up(&machine);
    for (target, to, seen) in [
        ("a:eth0", "b", &["a:eth0"][..]),
        ("b", "b", &["b:eth0"]),
        ("r", "c", &["r:eth0", "r:eth1"]),
        ("link:a:eth0--s", "b", &["a:eth0"]),
        ("switch:s", "b", &["s/a:eth0"]),
        ("switch:s/b:eth0", "b", &["s/b:eth0"]),
        ("switch:m", "d", &["switch:m"]),
        ("switch:m/a:eth1", "d", &["switch:m/a:eth1"]),
        ("a:eth0 link:r:eth1--c:eth0 switch:m", "c", &["a:eth0", "r:eth1"]),
        ("--all", "c", &["a:eth0", "r:eth0", "r:eth1"]),
        ("--all", "d", &["a:eth1", "d:eth0"]),
    ] {
        let file = machine.scratch().path().join("all.pcapng");
        let capture = Capturing::start(&machine, target, "all.pcapng");
        machine.datagrams("a", to, 0, 100);
        // Sent is not arrived: a switch in shared memory has processes on the way, and the kernel queues.
        wait_until("all are in the file", SOON, || {
            let contents = read_growing(&file);
            let whole = |name: &&str| {
                contents.names.iter().any(|n| n == name) && contents.numbers(name).len() >= 100
            };
            seen.iter().all(whole).then_some(())
        });
        let account = capture.stop();
        account.closes();
        let contents = read_pcapng(&file);
        for name in &contents.names {
            let wanted = if seen.contains(&&**name) { hundred() } else { vec![] };
            let mut numbers = contents.numbers(name);
            // On a switch in shared memory frames for those nobody knows yet go another way than the rest.
            numbers.sort_unstable();
            assert_eq!(numbers, wanted, "{target}, {name}");
        }
        assert!(seen.iter().all(|name| contents.names.iter().any(|n| n == name)), "{target}");
        assert_eq!(contents.counts(), account.written(), "{target}");
        // Names of nodes, and counters of each interface.
        assert_eq!(contents.blocks.get(&4), Some(&1), "{target}: {:?}", contents.blocks);
        assert!(contents.blocks[&5] >= contents.names.len(), "{target}: {:?}", contents.blocks);
        std::fs::remove_file(file).expect("remove the file");
    }
    machine.down();
}

#[test]
fn every_engine_that_is_there_accounts_for_all() {
    let machine = machine!();
    up(&machine);
    for engine in ["tpacket", "pcap", "tc-ring", "xdp-ring"] {
        let name = format!("{engine}.pcapng");
        let tried =
            machine.netloom(["capture", "a:eth0", "-q", "-d", "1ms", "--engine", engine]).finish();
        match tried.status.code() {
            Some(0) => {}
            // BPF is root's; libpcap may not be there.
            Some(3) if engine.ends_with("ring") && !is_root() || engine == "pcap" => continue,
            _ => panic!("{engine}: {tried}"),
        }
        let capture = Capturing::start(&machine, &format!("a:eth0 --engine {engine}"), &name);
        machine.datagrams("a", "b", 0, 100);
        let account = capture.stop();
        account.closes();
        let contents = read_pcapng(&machine.scratch().path().join(&name));
        assert_eq!(contents.numbers("a:eth0"), hundred(), "{engine}");
        assert_eq!(contents.counts(), account.written(), "{engine}");
    }
    machine.down();
}

/// What a program says of a file, in columns; it must not complain.
fn told(program: &str, args: &[&str], file: &Path) -> String {
    let done = Run::new(program).args(args).args([file]).finish().code(0);
    let errors = done.errors();
    let mut complaints = errors.lines().filter(|line| !line.contains("Running as user"));
    assert_eq!(complaints.next(), None, "{errors}");
    done.text()
}

#[test]
fn tshark_counts_the_same_and_knows_the_names() {
    needs!("tshark");
    let machine = machine!();
    up(&machine);
    let capture = Capturing::start(&machine, "--all", "all.pcapng");
    machine.exec("a", &["ping", "-q", "-c", "5", "-i", "0.05", "-W", "30", "c"]).finish().code(0);
    machine.datagrams("a", "b", 0, 20);
    let account = capture.stop();
    account.closes();
    let fields = ["frame.interface_name", "frame.interface_description", "ip.src_host"];
    let mut args = vec!["-N", "n", "-T", "fields"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    args.push("-r");
    let text = told("tshark", &args, &machine.scratch().path().join("all.pcapng"));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    for (name, count) in account.written() {
        let here = rows.iter().filter(|row| row[0] == name).count();
        assert_eq!(u64::try_from(here), Ok(count), "{name}");
    }
    assert!(rows.iter().any(|row| row[1..] == ["lab watch, link r:eth1--c:eth0", "c"]), "{text}");
    machine.down();
}

#[test]
fn capinfos_finds_whole_files_of_all_formats() {
    needs!("capinfos");
    let machine = machine!();
    machine.up(LAB);
    for name in ["one.pcapng", "one.pcap", "one.ns"] {
        let format = if name == "one.ns" { "b --format pcap-ns" } else { "b" };
        let capture = Capturing::start(&machine, format, name);
        machine.datagrams("a", "b", 0, 50);
        let account = capture.stop();
        account.closes();
        let text = told("capinfos", &["-M", "-c"], &machine.scratch().path().join(name));
        let count = text.lines().find_map(|line| line.strip_prefix("Number of packets:"));
        assert_eq!(count.map(str::trim), Some(&*account.total("written").to_string()), "{text}");
    }
    machine.down();
}

/// Runs a line of a shell until it ends, while datagrams go from `a` to `b`; what it printed.
fn piped(machine: &Machine, line: &str) -> String {
    let binary = netloom_kit::Binary::find();
    let line = line.replace("netloom", &binary.path().display().to_string());
    let run = Run::new("/bin/sh")
        .args(["-c", &line])
        .dir(machine.scratch().path())
        .env("NETLOOM_RUNTIME_DIR", machine.scratch().runtime_dir());
    let mut held = Held::start(run);
    wait_until("the capture has its frames", SOON, || {
        machine.datagrams("a", "b", 0, 10);
        held.child().try_wait().expect("look at it")
    });
    held.rest()
}

#[test]
fn a_pipe_takes_the_file() {
    let machine = machine!();
    machine.up(LAB);
    piped(&machine, "netloom capture a:eth0 -q -c 40 -w - | cat > piped");
    let contents = read_pcapng(&machine.scratch().path().join("piped"));
    assert_eq!(contents.counts(), counted(&[("a:eth0", 40)]));
    // The reader may go.
    piped(&machine, "netloom capture a:eth0 -q -w - | head -c 1000 | wc -c");
    machine.down();
}

#[test]
fn a_pipe_into_tshark_shows_names() {
    needs!("tshark");
    let machine = machine!();
    machine.up(LAB);
    let show = "tshark -r - -N n -T fields -e ip.dst_host -e frame.interface_name";
    let text = piped(&machine, &format!("netloom capture a:eth0 -q -c 40 -w - | {show}"));
    assert_eq!(text.lines().count(), 40, "{text}");
    assert!(text.lines().any(|line| line == "b\ta:eth0"), "{text}");
    machine.down();
}

#[test]
fn filters_know_nodes_and_flows() {
    needs!("libpcap");
    let machine = machine!();
    up(&machine);
    for (filter, seen) in [
        ("udp and dst host b", 30),
        ("src host a and dst port 9", 30),
        ("flow:a->b:9/udp", 30),
        ("flow:b->a:9/udp", 0),
        ("flow:a->c", 0),
        ("udp and not host b", 0),
        ("udp[8:4] < 10", 10),
    ] {
        let file = machine.scratch().path().join("some.pcapng");
        let mut args = vec!["capture", "--json", "a:eth0", "-f", filter, "-w"];
        let path = file.display().to_string();
        args.push(&path);
        let mut child = Held::start(machine.netloom(&args));
        child.until("it captures", || file.exists().then_some(()));
        machine.datagrams("a", "b", 0, 30);
        let pid = child.child().id().cast_signed();
        netloom_tests_e2e::signal(pid, rustix::process::Signal::INT);
        let account: serde_json::Value = serde_json::from_str(&child.rest()).expect("JSON");
        assert_eq!(account["total"]["written"], seen, "{filter}: {account}");
        assert_eq!(account["difference"], 0, "{filter}: {account}");
        assert_eq!(read_pcapng(&file).packets.len(), seen, "{filter}");
        std::fs::remove_file(&file).expect("remove the file");
    }
    machine.down();
}

#[test]
fn limits_end_it_and_cut_frames() {
    let machine = machine!();
    machine.up(LAB);
    let path = |name: &str| machine.scratch().path().join(name);
    let capture = Capturing::start(&machine, "a:eth0 -s 60 -c 25", "count.pcapng");
    machine.datagrams("a", "b", 0, 200);
    let account = capture.finish(0);
    assert_eq!(account.value["difference"], 0);
    let contents = read_pcapng(&path("count.pcapng"));
    assert_eq!(contents.packets.len(), 25);
    let cut = contents.packets.iter().filter(|p| p.length > 60).count();
    let figures = [account.total("written"), account.total("truncated")];
    assert_eq!(figures.map(usize::try_from), [Ok(25), Ok(cut)]);
    assert!(contents.packets.iter().all(|p| p.bytes.len() <= 60), "{contents:?}");
    let ours = contents.packets.iter().filter(|p| p.number().is_some());
    assert!(ours.clone().count() > 10 && ours.clone().all(|p| p.length == 142));
    let begun = Instant::now();
    let capture = Capturing::start(&machine, "a:eth0 -d 300ms", "time.pcapng");
    let account = capture.finish(0);
    let most = begun.elapsed().as_secs_f64();
    assert_eq!(account.value["end"], "duration");
    let seconds = account.value["seconds"].as_f64().expect("a number");
    assert!((0.3..most).contains(&seconds), "{seconds} of {most}");
    machine.down();
}

#[test]
fn classic_files_are_whole() {
    let machine = machine!();
    up(&machine);
    for (name, args, magic) in [
        ("b.pcap", "b", 0xa1b2_c3d4),
        ("b.cap", "b", 0xa1b2_c3d4),
        ("b.ns", "b --format pcap-ns", 0xa1b2_3c4d),
    ] {
        let capture = Capturing::start(&machine, args, name);
        machine.datagrams("a", "b", 0, 100);
        // Sent is not arrived.
        let file = machine.scratch().path().join(name);
        wait_until("all are in the file", SOON, || {
            (file.metadata().expect("the file").len() >= 24 + 100 * (16 + 142)).then_some(())
        });
        let account = capture.stop();
        account.closes();
        let (found, packets) = read_classic(&machine.scratch().path().join(name));
        assert_eq!(found, magic, "{name}");
        assert_eq!(u64::try_from(packets.len()), Ok(account.total("written")), "{name}");
        let numbers: Vec<u32> = packets.iter().filter_map(|p| p.number()).collect();
        assert_eq!(numbers, hundred(), "{name}");
    }
    machine.down();
}

#[test]
fn files_are_rotated_and_the_newest_kept() {
    let machine = machine!();
    up(&machine);
    let folder = machine.scratch().path().to_owned();
    let capture = Capturing::start(&machine, "a:eth0 --rotate-size 512KiB", "size.pcapng");
    machine.datagrams("a", "b", 0, 12_000);
    let account = capture.stop();
    account.closes();
    let all = files(&folder, "size");
    assert!(all.len() > 3, "{all:?}");
    let contents: Vec<_> = all.iter().map(|file| read_pcapng(file)).collect();
    let numbers: Vec<u32> = contents.iter().flat_map(|c| c.numbers("a:eth0")).collect();
    assert_eq!(numbers, (0..12_000).collect::<Vec<_>>(), "{all:?}");
    let frames: usize = contents.iter().map(|c| c.packets.len()).sum();
    assert_eq!(u64::try_from(frames), Ok(account.total("written")));
    for file in &all {
        assert!(file.metadata().expect("its size").len() <= 512 << 10, "{}", file.display());
    }

    let ring = "a:eth0 --rotate-size 512KiB --files 2";
    let capture = Capturing::start(&machine, ring, "ring.pcapng");
    machine.datagrams("a", "b", 0, 12_000);
    capture.stop().closes();
    let kept = files(&folder, "ring");
    assert_eq!(kept.len(), 2, "{kept:?}");
    let kept: Vec<u32> = kept.iter().flat_map(|f| read_pcapng(f).numbers("a:eth0")).collect();
    let first = *kept.first().expect("frames");
    assert!(first > 0 && kept == (first..12_000).collect::<Vec<_>>(), "{kept:?}");

    let capture = Capturing::start(&machine, "a:eth0 --rotate-time 50ms", "time.pcapng");
    wait_until("there are three files", SOON, || {
        machine.datagrams("a", "b", 0, 10);
        (files(&folder, "time").len() > 2).then_some(())
    });
    let account = capture.stop();
    account.closes();
    let all = files(&folder, "time");
    let frames: usize = all.iter().map(|file| read_pcapng(file).packets.len()).sum();
    assert_eq!(u64::try_from(frames), Ok(account.total("written")));
    machine.down();
}

#[test]
fn statistics_are_a_line_a_second() {
    let machine = machine!();
    machine.up(LAB);
    let folder = machine.scratch().path().join("figures");
    let args = format!("a:eth0 b --statistics {}", folder.display());
    let capture = Capturing::start(&machine, &args, "some.pcapng");
    machine.datagrams("a", "b", 0, 100);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    wait_until("there are two lines", SOON, || {
        (read("a_eth0.txt").lines().count() > 1).then_some(())
    });
    let account = capture.stop();
    account.closes();
    for (interface, name) in [("a:eth0", "a_eth0.txt"), ("b:eth0", "b_eth0.txt")] {
        let text = read(name);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let columns: Vec<Vec<f64>> = lines
            .map(|line| line.split_whitespace().map(|w| w.parse().expect("a number")).collect())
            .collect();
        assert!(columns.iter().all(|c| c.len() == 4 && c[0] > 1e9 && c[3] == 0.0), "{text}");
        let received: f64 = columns.iter().map(|c| c[2]).sum();
        let written = u32::try_from(account.written()[interface]).expect("a small number");
        assert!((received - f64::from(written)).abs() < 0.5, "{interface}: {written}\n{text}");
    }
    machine.down();
}

#[test]
fn down_ends_it_at_once_with_a_whole_file() {
    let machine = machine!();
    for target in ["--all", "switch:s", "switch:m", "a:eth0 switch:m"] {
        machine.up(LAB);
        let capture = Capturing::start(&machine, target, "down.pcapng");
        machine.datagrams("a", "b", 0, 50);
        machine.datagrams("a", "d", 0, 50);
        // Sent is not arrived: a switch in shared memory has processes on the way.
        let file = machine.scratch().path().join("down.pcapng");
        wait_until("fifty are in the file", SOON, || {
            (read_growing(&file).counts().values().sum::<u64>() >= 50).then_some(())
        });
        machine.netloom(["down", "watch"]).finish().code(0);
        let account = capture.finish(0);
        account.closes();
        assert!(account.errors.contains("is gone"), "{target}: {}", account.errors);
        assert_eq!(read_pcapng(&file).counts(), account.written(), "{target}");
        assert!(account.total("written") >= 50, "{target}");
        std::fs::remove_file(file).expect("remove the file");
        netloom_tests_e2e::assert_same(machine.before());
    }
    machine.untouched();
}

#[test]
fn killed_it_leaves_a_file_that_is_read_and_nothing_else() {
    let machine = machine!();
    machine.up(LAB);
    // What a generator sends is not seen where it goes out, past all taps.
    let send = ["generate", "a:eth0", "--to", "b", "--size", "570", "--rate", "20kpps", "-d", "1h"];
    let traffic = Held::start(machine.netloom(send));
    let fast = if is_root() { "--all --fast" } else { "--all --threads 2" };
    for (number, args) in ["--all", fast, "switch:s", "b switch:m"].iter().enumerate() {
        let name = format!("killed{number}.pcapng");
        let file = machine.scratch().path().join(&name);
        let capture = Capturing::start(&machine, args, &name);
        wait_until("frames are on the disk", SOON, || {
            (file.metadata().expect("the file").len() > 100 << 10).then_some(())
        });
        capture.kill();
        let contents = read_pcapng(&file);
        assert!(
            contents.packets.len() > 100,
            "{args}: {:?}, {:?}",
            contents.blocks,
            contents.counts()
        );
    }
    drop(traffic);
    // Nothing is attached any more: no program, no copies.
    let shown = machine.exec("a", &["ip", "-d", "link", "show", "eth0"]).ok();
    assert!(!shown.contains("xdp"), "{shown}");
    wait_until("the switch copies to nobody", SOON, || {
        machine.ok("switch mirror m --json").json().as_object()?.is_empty().then_some(())
    });
    machine.down();
}

#[test]
fn an_interface_that_leaves_and_returns_goes_on_in_the_same_file() {
    let machine = machine!();
    up(&machine);
    let file = machine.scratch().path().join("moves.pcapng");
    let capture = Capturing::start(&machine, "c:eth0 r:eth1", "moves.pcapng");
    machine.datagrams("a", "c", 0, 20);
    wait_until("all are in the file", SOON, || {
        (read_growing(&file).numbers("c:eth0").len() >= 20).then_some(())
    });
    machine.ok("node move-interface c:eth0 b --name away");
    // r's end stays and sees what nobody gets.
    machine.ok("node move-interface b:away c --name eth0");
    machine.exec("c", &["ip", "link", "set", "eth0", "up"]).finish().code(0);
    wait_until("it is captured from again", SOON, || {
        machine.ok("generate r:eth1 --to c -c 10 --rate 1kpps");
        let contents = read_growing(&file);
        let at_c = contents.packets.iter().filter(|p| p.interface == 0);
        (at_c.filter(|p| p.length == 60).count() > 0).then_some(())
    });
    let account = capture.stop();
    account.closes();
    let contents = read_pcapng(&file);
    assert_eq!(contents.names, ["c:eth0", "r:eth1"]);
    // Generated frames are for the same port; a stamp is not such a number.
    let numbers = contents.numbers("c:eth0").into_iter().filter(|number| *number < 1000);
    assert!(numbers.eq(0..20));
    assert_eq!(contents.counts(), account.written());
    machine.down();
}

/// Sends this many frames of this many bytes by an interface, numbered like datagrams. On one CPU: frames wait for their receiver
/// on the CPU that sent them, so a sender that moves to another one may overtake its own frames.
const FRAMES: &str = r"
import os, socket, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
to.bind((sys.argv[1], 0))
frame = bytearray(int(sys.argv[4]))
frame[0:15] = b'\xff' * 6 + b'\x02' * 6 + b'\x08\x00\x45'
frame[23], frame[36:38] = 17, (9).to_bytes(2, 'big')
for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    frame[42:46] = number.to_bytes(4, 'big')
    to.send(frame)
";

fn frames(first: u32, count: u32, bytes: u32) {
    let numbers = [first, count, bytes].map(|number| number.to_string());
    let args = ["-c", FRAMES, "v1"].map(str::to_owned);
    Run::new("python3").args(args).args(numbers).finish().code(0);
}

/// A command with spaces between its words.
fn ran(words: &str) {
    let (program, args) = words.split_once(' ').expect("words");
    Run::new(program).args(args.split(' ')).finish().code(0);
}

/// Makes the pair `v0`, `v1` in the caller's namespace.
fn pair() {
    ran("ip link add v0 type veth peer name v1");
    for link in ["v0", "v1"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{link}/disable_ipv6"), "1")
            .expect("turn IPv6 off");
        ran(&format!("ip link set {link} up"));
    }
}

#[test]
fn a_host_interface_that_is_deleted_and_made_again_goes_on_in_the_same_file() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        pair();
        let file = machine.scratch().path().join("again.pcapng");
        let capture = Capturing::start(&machine, "host:v0", "again.pcapng");
        frames(0, 50, 100);
        // Those that wait to be received go with the interface.
        wait_until("all are in the file", SOON, || {
            (read_growing(&file).numbers("host:v0").len() >= 50).then_some(())
        });
        ran("ip link del v0");
        pair();
        let mut next = 1000;
        wait_until("it is captured from again", SOON, || {
            frames(next, 10, 100);
            next += 10;
            let numbers = read_growing(&file).numbers("host:v0");
            (*numbers.last()? >= 1000).then_some(())
        });
        let account = capture.stop();
        account.closes();
        let contents = read_pcapng(&file);
        assert_eq!(contents.names, ["host:v0"]);
        let numbers = contents.numbers("host:v0");
        assert_eq!(numbers[..50], (0..50).collect::<Vec<_>>()[..]);
        // From when it was opened again nothing is missing.
        assert!(numbers[50] >= 1000 && numbers[50..].windows(2).all(|w| w[1] == w[0] + 1));
        assert_eq!(contents.counts(), account.written());
        ran("ip link del v0");
        machine.untouched();
    });
}

#[test]
fn a_full_disk_ends_it_and_leaves_the_file_whole() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        pair();
        let at = machine.scratch().path().join("small");
        std::fs::create_dir(&at).expect("make a folder");
        ran(&format!("mount -t tmpfs -o size=8m none {}", at.display()));
        let mut capture = Held::start(machine.netloom([
            "capture".as_ref(),
            "host:v0".as_ref(),
            "--json".as_ref(),
            "-w".as_ref(),
            at.join("full.pcapng").as_os_str(),
        ]));
        capture.until("it captures", || at.join("full.pcapng").exists().then_some(()));
        let ended = wait_until("the disk is full", SOON, || {
            frames(0, 2000, 1000);
            capture.child().try_wait().expect("look at it")
        });
        assert_eq!(ended.code(), Some(1));
        let (mut text, mut errors) = (String::new(), String::new());
        let streams = capture.child();
        std::io::Read::read_to_string(streams.stdout.as_mut().expect("piped"), &mut text)
            .expect("read");
        std::io::Read::read_to_string(streams.stderr.as_mut().expect("piped"), &mut errors)
            .expect("read");
        assert!(errors.contains("the disk is full"), "{errors}");
        let account: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(account["difference"], 0, "{account}");
        let contents = read_pcapng(&at.join("full.pcapng"));
        let written = account["total"]["written"].as_u64();
        assert_eq!(u64::try_from(contents.packets.len()).ok(), written, "{account}");
        assert!(written > Some(500), "{account}");
        ran(&format!("umount {}", at.display()));
        ran("ip link del v0");
        machine.untouched();
    });
}

#[test]
fn a_full_disk_is_waited_for_if_asked() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        pair();
        let at = machine.scratch().path().join("small");
        std::fs::create_dir(&at).expect("make a folder");
        ran(&format!("mount -t tmpfs -o size=12m none {}", at.display()));
        let ballast = at.join("ballast");
        std::fs::write(&ballast, vec![1; 10 << 20]).expect("fill the disk");
        let file = at.join("waits.pcapng");
        let capture = Capturing::start(&machine, "host:v0 --wait-for-space", "small/waits.pcapng");
        let mut next = 0;
        let mut send = |count: u32| {
            frames(next, count, 1000);
            next += count;
        };
        // More than there is room for.
        send(4000);
        // A refused write changes the file's times, not its length.
        let (mut tries, mut length) = (BTreeSet::new(), 0);
        wait_until("it tries again and again", SOON, || {
            let found = file.metadata().expect("the file");
            if found.len() != length {
                length = found.len();
                tries.clear();
            }
            tries.insert((found.ctime(), found.ctime_nsec()));
            (tries.len() > 3).then_some(())
        });
        // These have no room but in memory.
        send(1000);
        std::fs::remove_file(&ballast).expect("make room");
        wait_until("it goes on", SOON, || {
            (file.metadata().expect("the file").len() > length).then_some(())
        });
        send(100);
        let account = capture.stop();
        account.closes();
        let contents = read_pcapng(&file);
        assert_eq!(contents.numbers("host:v0"), (0..next).collect::<Vec<_>>());
        assert_eq!(contents.counts(), account.written());
        ran(&format!("umount {}", at.display()));
        ran("ip link del v0");
        machine.untouched();
    });
}

/// Sends numbered frames of 1400 bytes by `v1` for ever, but is never more than a MiB ahead of the files of a folder.
/// What a capture's ring holds is bounded in time, too: each of its 64 blocks waits 10 ms for more frames. So who
/// sends in small turns fills it with few frames, and a capture that has no turn for 0.64 s would lose some.
/// On one CPU: frames wait for their receiver on the CPU that sent them, so a sender that moves to another one may overtake its own frames.
const NEVER_FAR_AHEAD: &str = r"
import os, socket, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
to = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
to.bind(('v1', 0))
frame = bytearray(1400)
frame[0:15] = b'\xff' * 6 + b'\x02' * 6 + b'\x08\x00\x45'
frame[23], frame[36:38] = 17, (9).to_bytes(2, 'big')
number = 0
while True:
    if number * 1400 - sum(file.stat().st_size for file in os.scandir(sys.argv[1])) > 1 << 20:
        time.sleep(0.001)
        continue
    for number in range(number, number + 50):
        frame[42:46] = number.to_bytes(4, 'big')
        to.send(frame)
    number += 1
";

#[test]
fn killed_while_files_change_it_leaves_files_that_are_read() {
    netloom_kit::isolated!({
        let machine = Machine::new();
        pair();
        for kill in 0..7 {
            let folder = machine.scratch().path().join(format!("killed{kill}"));
            std::fs::create_dir(&folder).expect("make a folder");
            let name = format!("killed{kill}/row.pcapng");
            let capture = Capturing::start(&machine, "host:v0 --rotate-size 512KiB", &name);
            let run = Run::new("python3").args(["-c", NEVER_FAR_AHEAD]).args([&folder]);
            let traffic = Held::start(run);
            // Each time as many more files have come.
            wait_until("files change", SOON, || {
                (files(&folder, "row").len() > 2 + 3 * kill).then_some(())
            });
            capture.kill();
            drop(traffic);
            let (mut seen, mut certain, mut lost) = (vec![], 0, 0);
            let left = files(&folder, "");
            for (at, file) in left.iter().enumerate() {
                let contents = read_pcapng(file);
                assert_eq!(contents.names, ["host:v0"], "{}", file.display());
                seen.extend(contents.numbers("host:v0"));
                // A file is whole before the next is begun: nothing more of it had room but a chunk, of 256 KiB at
                // most, and it has its counters at the end.
                if at + 1 < left.len() {
                    let length = file.metadata().expect("its size").len();
                    assert!(length > 248 << 10, "{}: {length} bytes", file.display());
                    assert!(contents.blocks.contains_key(&5), "{}", file.display());
                    (certain, lost) = (seen.len(), contents.lost);
                }
            }
            assert!(seen.len() > 100 * (left.len() - 1), "{} in {}", seen.len(), left.len());
            assert!(seen.is_sorted_by(|one, next| one < next), "{seen:?}");
            // None is missing between files but what a starved ring lost, which the counters say.
            let missing = u64::from(seen[certain - 1]) + 1 - certain as u64;
            assert!(
                missing <= lost,
                "{missing} of {certain} are missing, {lost} are said to be lost"
            );
        }
        ran("ip link del v0");
        machine.untouched();
    });
}

/// Sends 16 MiB to `b`, never more at once than any queue on the way has room for; prints its bytes sent and its retransmissions (tcp_info of linux/tcp.h), and whether
/// the interface segments.
const SEND: &str = r"
import ctypes, fcntl, socket, struct
to = socket.create_connection(('b', 5001))
to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 15)
to.sendall(bytes(16 << 20))
to.shutdown(socket.SHUT_WR)
assert to.recv(1) == b''
info = to.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 208)
value = ctypes.create_string_buffer(struct.pack('II', 0x1e, 0))
fcntl.ioctl(to, 0x8946, struct.pack('16sP16x', b'eth0', ctypes.addressof(value)))
print(*struct.unpack_from('Q', info, 200), *struct.unpack_from('I', info, 100),
      struct.unpack('II', value.raw[:8])[1])
";

const TAKE: &str = r"
import socket
listener = socket.create_server(('0.0.0.0', 5001))
print('listens', flush=True)
taken, _ = listener.accept()
while taken.recv(1 << 16): pass
";

fn transfer(machine: &Machine) -> String {
    let mut taker = Held::start(machine.python("b", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    let sent = machine.python("a", SEND, &[]).ok();
    taker.rest();
    sent
}

#[test]
fn tapping_changes_nothing() {
    let machine = machine!();
    machine.up(LAB);
    // A segment that is acknowledged late on a busy machine is not sent again: neither as a probe, nor after the 200 ms
    // that are the least timeout otherwise (Linux 6.11 has the setting).
    let patience = "cd /proc/sys/net/ipv4; echo 0 > tcp_early_retrans; \
                    [ ! -e tcp_rto_min_us ] || echo 10000000 > tcp_rto_min_us";
    machine.exec("a", &["sh", "-c", patience]).finish().code(0);
    let without = transfer(&machine);
    assert_eq!(without.trim(), "16777216 0 1");
    for target in ["--all", "switch:s", "a b"] {
        let capture = Capturing::start(&machine, &format!("{target} -s 96"), "tapped.pcapng");
        let with = transfer(&machine);
        let account = capture.stop();
        account.closes();
        assert_eq!(with, without, "{target}");
        assert!(account.total("written") > 256, "{target}: {}", account.value);
        std::fs::remove_file(machine.scratch().path().join("tapped.pcapng")).expect("remove");
    }
    machine.down();
}

#[test]
fn what_cannot_be_captured_is_named() {
    let machine = machine!();
    machine.up(LAB);
    for (words, code, parts) in [
        ("a:eth9", 1, &["node \"a\"", "no interface \"eth9\"", "eth0, eth1"][..]),
        ("nobody", 1, &["node \"nobody\"", "lab \"watch\""]),
        ("link:x", 1, &["link \"x\"", "lab \"watch\""]),
        ("switch:z", 1, &["switch \"z\"", "lab \"watch\""]),
        ("switch:s/q", 1, &["switch \"s\"", "no port \"q\"", "b:eth0"]),
        ("switch:m/q", 1, &["switch \"m\"", "port \"q\""]),
        ("host:nothere", 1, &["interface \"host:nothere\"", "none of this name"]),
        ("a:eth0 -f flow:a->nobody", 2, &["flow:a->nobody", "\"nobody\""]),
        ("a -w x.pcap", 2, &["classic pcap", "these are 2"]),
        ("a:eth0 -w /nonexistent/x.pcapng", 1, &["/nonexistent/x.pcapng", "create"]),
        ("a:eth0 -w /", 1, &["\"/\"", "directory"]),
        ("a:eth0 --rotate-size 1MB", 2, &["-w"]),
        ("a:eth0 --files 3 -w -", 2, &["-w"]),
        ("a:eth0 --rotate-size 64KiB -w x.pcapng", 2, &["--rotate-size", "512 KiB"]),
        ("a:eth0 -c 0", 2, &["--count"]),
        ("a:eth0 -d soon", 2, &["--duration", "soon"]),
        ("a:eth0 --ring 0", 2, &["--ring"]),
        ("a:eth0 --memory much", 2, &["--memory", "much"]),
        ("a:eth0 --threads 0", 2, &["--threads"]),
        ("a:eth0 --engine fast", 2, &["--engine", "fast"]),
        ("a:eth0 --engine switch", 1, &["a:eth0", "switch"]),
        ("switch:m --engine tpacket", 2, &["switch \"m\"", "engine"]),
        ("--all a", 2, &["--all"]),
        ("", 2, &["--all"]),
    ] {
        let args = words.split(' ').filter(|word| !word.is_empty());
        let done = machine.netloom(["capture"].into_iter().chain(args)).finish().code(code);
        parts.iter().fold(done, |done, part| done.says(part));
    }
    machine.refused("--lab none capture --all", 1, &["lab \"none\"", "not running"]);
    if is_root() {
        let ring = "capture a:eth0 -d 1ms --engine xdp-ring";
        machine.ok(ring);
    } else {
        machine.refused("capture a:eth0 --engine tc-ring", 3, &["a:eth0", "BPF"]);
    }
    words_of_libpcap(&machine);
    let left = std::fs::read_dir(machine.scratch().path()).expect("the folder").count();
    assert_eq!(left, 2, "a file was made");
    machine.down();
}

/// A filter that does not compile is told in libpcap's words.
fn words_of_libpcap(machine: &Machine) {
    for (filter, words) in [("tcp prot 80", "syntax error"), ("host nobody", "unknown host")] {
        let done = machine.netloom(["capture", "a:eth0", "-f", filter]).finish();
        match netloom_kit::missing("libpcap") {
            None => done.code(2).says(filter).says(words),
            Some(_) => done.code(3).says("libpcap: not available here"),
        };
    }
}

/// The loader looks into this folder first, and takes no file that is not a library.
#[test]
fn without_libpcap_filters_are_not_supported_and_all_else_is() {
    let machine = machine!();
    machine.up(LAB);
    let hidden = machine.scratch().path().join("hidden");
    std::fs::create_dir(&hidden).expect("make a folder");
    for name in ["libpcap.so.1", "libpcap.so.0.8"] {
        std::fs::write(hidden.join(name), "").expect("write");
    }
    let netloom =
        |words: &str| machine.netloom(words.split(' ')).env("LD_LIBRARY_PATH", &hidden).finish();
    for words in ["-f udp", "-f flow:a->b -w x.pcapng", "--engine pcap"] {
        let done = netloom(&format!("capture a:eth0 {words}")).code(3);
        done.says("libpcap: not available here").says("install the package libpcap0.8");
    }
    assert!(!machine.scratch().path().join("x.pcapng").exists());
    // Faults of the request itself are reported first.
    netloom("capture a:eth0 -f flow:a->nobody").code(2);
    netloom("capture a:eth0 -d 1ms -w y.pcapng").code(0);
    machine.down();
}
