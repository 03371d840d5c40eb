//! Others' programs open our files: the same packets, no warning, padding unseen.

use netloom_kit::needs;
use netloom_pcap::classic::{self, Precision};
use netloom_pcap::read::{Item, Reader};
use netloom_pcap::{ng, run};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const START: u64 = 1_700_000_000_123_456_789;
const NAMES: [&str; 2] = ["h1:eth0", "r1:eth7"];

/// Packets that we read in a file, which must be whole.
pub(crate) fn packets(bytes: &[u8]) -> usize {
    let mut reader = Reader::new(bytes).unwrap();
    let mut count = 0;
    while let Some(item) = reader.next().unwrap() {
        count += usize::from(matches!(item, Item::Packet(_)));
    }
    count
}

/// An IPv4/UDP frame of `len` bytes.
fn frame(len: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, len - 14, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0x13, 0x88, 0x13, 0x88, 0, len - 34, 0, 0]);
    frame.resize(usize::from(len), 0);
    frame
}

/// A file with everything we write, and padding of many lengths between packets.
fn everything(out: &mut Vec<u8>) -> usize {
    let section = ng::Section {
        application: "netloom",
        os: "Linux",
        hardware: Some("x86-64"),
        comment: Some("é, a comment"),
    };
    ng::section(out, &section);
    for name in NAMES {
        let interface = ng::Interface {
            name,
            description: "link \"a\"",
            hardware: Some("veth"),
            filter: Some("udp port 5000"),
            mac: Some([2, 0, 0, 0, 0, 1]),
            addresses: &[([10, 0, 0, 1].into(), 24), ([0xfd; 16].into(), 64)],
            speed: Some(10_000_000_000),
            snaplen: 256,
            linktype: 1,
        };
        ng::interface(out, &interface);
    }
    ng::names(out, &[([10, 0, 0, 1].into(), &["h1", "h1.lab"]), ([0xfd; 16].into(), &["six"])]);
    let gaps = [12, 16, 4, 0, 4096, 100_000, 4 << 20];
    for n in 0..70u8 {
        let data = frame(60 + n % 5);
        let packet = ng::Packet {
            interface: u32::from(n % 2),
            time_ns: START + u64::from(n) * 1_000_001,
            original: 60 + u32::from(n),
            data: &data,
            flags: [0, ng::INBOUND, ng::OUTBOUND | ng::CHECKSUM_UNFINISHED][usize::from(n % 3)],
            drops: (n % 5 == 0).then_some(u64::from(n)),
            id: (n % 7 == 0).then_some(77),
            comment: (n == 9).then_some("here"),
        };
        ng::packet(out, &packet);
        let gap = gaps[usize::from(n) % gaps.len()];
        let to = if gap == 4 { (out.len() + 12).next_multiple_of(4096) } else { out.len() + gap };
        ng::padding(out, to).unwrap();
    }
    for interface in 0..2 {
        let counts = ng::Statistics {
            interface,
            time_ns: START + 100_000_000,
            start_ns: Some(START),
            end_ns: Some(START + 100_000_000),
            received: Some(40),
            dropped: Some(0),
            filter_accepted: Some(35),
            os_dropped: Some(0),
            delivered: Some(35),
        };
        ng::statistics(out, &counts);
    }
    let to = (out.len() + 12).next_multiple_of(4096);
    ng::padding(out, to).unwrap();
    70
}

/// The file with everything, kept as long as the folder.
fn written() -> (tempfile::TempDir, PathBuf, usize) {
    let mut bytes = Vec::new();
    let count = everything(&mut bytes);
    assert_eq!(packets(&bytes), count);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.pcapng");
    std::fs::write(&path, bytes).unwrap();
    (folder, path, count)
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    // What these programs say of every file or user; scapy 2.5 looks for a line feed in comments.
    let usual = |line: &&str| {
        line.starts_with("Running as user")
            || line.starts_with("reading from file")
            || line.is_empty()
            || *line == "WARNING: PcapNg: invalid comment option"
    };
    let unusual: Vec<&str> = errors.lines().filter(|line| !usual(line)).collect();
    assert!(output.status.success() && unusual.is_empty(), "{command:?}: {errors}");
    output
}

fn lines(command: &mut Command) -> Vec<String> {
    String::from_utf8(ran(command).stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The packets that capinfos counts.
pub(crate) fn capinfos(path: &Path) -> usize {
    let said = lines(Command::new("capinfos").args(["-c", "-M"]).arg(path));
    said.last().and_then(|line| line.split_whitespace().last()).unwrap().parse().unwrap()
}

#[test]
fn capinfos_counts_the_packets() {
    needs!("capinfos");
    let (_folder, path, count) = written();
    assert_eq!(capinfos(&path), count);
    let all = lines(Command::new("capinfos").args(["-M"]).arg(&path)).join("\n");
    for part in ["netloom", "Number of interfaces in file: 2", "Time precision = nanoseconds (9)"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn tshark_shows_every_packet_and_no_padding() {
    needs!("tshark");
    let (_folder, path, count) = written();
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name"];
    let fields = fields.iter().chain(&["frame.packet_flags", "frame.comment", "frame.protocols"]);
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-r"]).arg(&path);
    for field in fields {
        command.args(["-e", field]);
    }
    let said = lines(&mut command);
    assert_eq!(said.len(), count);
    for (n, line) in said.iter().enumerate() {
        let time = START + u64::try_from(n).unwrap() * 1_000_001;
        let flags = ["", "0x00000001", "0x00000202"][n % 3];
        let expected = [
            format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000),
            (60 + n).to_string(),
            (60 + n % 5).to_string(),
            NAMES[n % 2].to_owned(),
            flags.to_owned(),
            if n == 9 { "here" } else { "" }.to_owned(),
        ];
        assert!(line.starts_with(&expected.join("\t")), "{line}: {expected:?}");
        assert!(line.contains("eth:ethertype:ip"), "{line}");
    }
}

#[test]
fn tcpdump_reads_the_packets() {
    needs!("tcpdump");
    let (_folder, path, count) = written();
    let mut command = Command::new("tcpdump");
    command.args(["-n", "-tt", "--time-stamp-precision=nano", "-r"]).arg(&path);
    let said = lines(&mut command);
    assert_eq!(said.len(), count);
    assert!(said[1].starts_with("1700000000.124456790 IP 10.0.0.1.5000 > 10.0.0.2.5000: UDP"));
}

#[test]
fn scapy_reads_the_packets() {
    needs!("scapy");
    let (_folder, path, count) = written();
    let script =
        "import sys; from scapy.utils import PcapReader; print(len(list(PcapReader(sys.argv[1]))))";
    let said = lines(Command::new("python3").args(["-c", script]).arg(&path));
    assert_eq!(said, [count.to_string()]);
}

/// Classic files with one packet, each with its time as it is shown.
fn classic() -> impl Iterator<Item = (tempfile::TempDir, PathBuf, String)> {
    let mut all = Vec::new();
    ng::packet(
        &mut all,
        &ng::Packet { time_ns: START, original: 99, data: &frame(60), ..Default::default() },
    );
    let precisions = [(Precision::Micro, "123456"), (Precision::Nano, "123456789")];
    precisions.into_iter().map(move |(precision, time)| {
        let mut bytes = Vec::new();
        classic::header(&mut bytes, precision, 0, 1);
        for record in run::records(&all) {
            classic::record(&mut bytes, precision, record.time_ns, record.original, record.data);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("classic.pcap");
        std::fs::write(&path, &bytes).unwrap();
        (folder, path, format!("1700000000.{time:0<9}"))
    })
}

#[test]
fn tcpdump_opens_classic_files() {
    needs!("tcpdump");
    for (_folder, path, time) in classic() {
        let mut command = Command::new("tcpdump");
        let said =
            lines(command.args(["-n", "-tt", "--time-stamp-precision=nano", "-r"]).arg(&path));
        assert!(said[0].starts_with(&format!("{time} IP")), "{said:?}");
    }
}

#[test]
fn capinfos_opens_classic_files() {
    needs!("capinfos");
    for (_folder, path, _) in classic() {
        assert_eq!(capinfos(&path), 1);
    }
}
