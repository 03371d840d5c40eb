//! Real files of others: those that come with the source of pcap-parser, where cargo has it.

use netloom_kit::needs;
use std::path::{Path, PathBuf};
use std::process::Command;

use netloom_digest::splitmix::SplitMix64;
use netloom_pcap::read::{Item, Reader};

use super::cuts::check_any;
use super::peers::{capinfos, packets};

/// Samples and the packets in them, as tcpdump counts them.
const SAMPLES: &[(&str, usize)] = &[
    ("err-buffertoosmall.pcapng", 27),
    ("modified-format.pcap", 1),
    ("ntp.pcap", 12),
    ("test001-be.pcapng", 4),
    ("test001-le.pcapng", 4),
    ("test010-le.pcapng", 4),
    ("test016-be.pcapng", 4),
    ("test016-le.pcapng", 4),
    ("test017-be.pcapng", 0),
    ("test017-le.pcapng", 0),
    ("wireshark_samples-test.pcapng", 5898),
];

/// Where the samples are: cargo says where it has the package, whose reader tests are built with. These tests may have been
/// built where cargo's cache was another, so that it may fetch what it lacks.
fn folder() -> PathBuf {
    let run = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = String::from_utf8(run.stdout).unwrap();
    let manifests = text.split("\"manifest_path\":\"").skip(1).filter_map(|t| t.split('"').next());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).parent());
    let ours = |path: &&Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pcap-parser-"))
    };
    folders.filter(ours).map(|path| path.join("assets")).next().expect("cargo has pcap-parser")
}

#[test]
fn samples_are_read_to_the_end() {
    let folder = folder();
    for (name, count) in SAMPLES {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut packets = 0;
        while let Some(item) = reader.next().unwrap_or_else(|error| panic!("{name}: {error}")) {
            packets += usize::from(matches!(item, Item::Packet(_)));
        }
        assert_eq!(packets, *count, "{name}");
    }
}

#[test]
fn damaged_samples_are_read() {
    let folder = folder();
    let mut random = SplitMix64::new(3);
    for (name, _) in SAMPLES {
        let mut bytes = std::fs::read(folder.join(name)).unwrap();
        bytes.truncate(20_000);
        for _ in 0..200 {
            let mut damaged = bytes.clone();
            for _ in 0..random.below(8) {
                let at = random.index(damaged.len());
                damaged[at] = u8::try_from(random.below(256)).unwrap();
            }
            check_any(&damaged);
        }
    }
}

/// The time of each packet as tcpdump shows it: 0 where there is none.
fn stamps(bytes: &[u8]) -> Vec<String> {
    let mut reader = Reader::new(bytes).unwrap();
    let mut stamps = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        if let Item::Packet(packet) = item {
            let time = packet.time_ns.unwrap_or(0);
            stamps.push(format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000));
        }
    }
    stamps
}

#[test]
fn tcpdump_sees_the_same_times_in_samples() {
    let folder = folder();
    needs!("tcpdump");
    for (name, count) in SAMPLES {
        if *count == 0 {
            continue;
        }
        let path = folder.join(name);
        let mut command = Command::new("tcpdump");
        command.args(["-n", "-q", "-tt", "--time-stamp-precision=nano", "-r"]).arg(&path);
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // A packet may take further lines, which are indented.
        let times = output.lines().filter(|line| !line.starts_with(char::is_whitespace));
        let times: Vec<&str> = times.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(stamps(&std::fs::read(&path).unwrap()), times, "{name}");
    }
}

#[test]
fn capinfos_counts_the_same_in_samples() {
    let folder = folder();
    needs!("capinfos");
    for (name, _) in SAMPLES {
        let path = folder.join(name);
        let ours = packets(&std::fs::read(&path).unwrap());
        assert_eq!(capinfos(&path), ours, "{name}");
    }
}
