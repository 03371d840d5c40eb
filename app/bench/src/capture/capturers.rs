//! The capturers, how each is started, and a single run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::pair::{Pair, SMALL, cores, refused, sent};
use super::program::{Program, Said};
use super::said::{self, Account};
use super::search::Load;
use super::traffic::Traffic;
use crate::driver::output;

/// Bytes kept of each small frame, and of large ones: all.
const SNAPLEN: &str = "96";
const WHOLE: &str = "0";

/// Bytes kept of frames of a size, as all capturers' `-s` takes it.
fn snaplen(size: u32) -> &'static str {
    if size == SMALL { SNAPLEN } else { WHOLE }
}

fn shown(size: u32) -> &'static str {
    if size == SMALL { "-s 96" } else { "-s 0" }
}

/// A capturer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// netloom with `--sink`: at XDP on ingress, where frames for others end, at tc on egress.
    Sink,
    /// netloom with `--fast`: the same, and every frame passes.
    Fast,
    /// netloom's own choice, which never changes the network.
    Auto,
    /// The same with `--own`: without the filter that leaves out what netloom itself sends.
    Whole,
    /// netloom with packet socket rings.
    Tpacket,
    /// netloom with libpcap.
    Pcap,
    Tcpdump,
    Dumpcap,
    Netsniff,
    /// No capturer: what the core receives at most.
    Nobody,
}

impl Who {
    /// All capturers.
    pub(super) const ALL: [Who; 9] = [
        Who::Sink,
        Who::Fast,
        Who::Auto,
        Who::Whole,
        Who::Tpacket,
        Who::Pcap,
        Who::Tcpdump,
        Who::Dumpcap,
        Who::Netsniff,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Who::Sink => "netloom --sink",
            Who::Fast => "netloom --fast",
            Who::Auto => "netloom",
            Who::Whole => "netloom --own",
            Who::Tpacket => "netloom, tpacket",
            Who::Pcap => "netloom, pcap",
            Who::Tcpdump => "tcpdump",
            Who::Dumpcap => "dumpcap",
            Who::Netsniff => "netsniff-ng",
            Who::Nobody => "no capturer",
        }
    }

    /// Its settings for frames of a size, for the rows.
    pub(super) fn settings(self, size: u32) -> String {
        let (how, format) = match self {
            Who::Sink => {
                ("xdp-ring in, tc-ring out, frames for others end; --ring 64MiB", "pcapng")
            }
            Who::Fast => ("xdp-ring in, tc-ring out, all frames pass; --ring 64MiB", "pcapng"),
            Who::Auto => ("tc-ring, all frames pass; --ring 64MiB", "pcapng"),
            Who::Whole => ("tc-ring, all frames pass, nothing left out; --ring 64MiB", "pcapng"),
            Who::Tpacket => ("--engine tpacket --ring 64MiB", "pcapng"),
            Who::Pcap => ("--engine pcap --ring 64MiB", "pcapng"),
            Who::Tcpdump => ("a process for each interface; -B 65536", "pcap"),
            Who::Dumpcap => ("-B 64", "pcapng"),
            Who::Netsniff => ("a process for each interface; --ring-size 64MiB", "pcap"),
            Who::Nobody => {
                return "the most that a capturer without any cost would be offered".to_owned();
            }
        };
        let kept = if self == Who::Netsniff { "whole frames" } else { shown(size) };
        format!("{how}, {kept}, {format}")
    }

    /// Its name and settings.
    pub(super) fn given(self, size: u32) -> String {
        format!("{}, {}", self.title(), self.settings(size))
    }

    /// The peer's program; `None` for netloom.
    pub(super) fn peer(self) -> Option<&'static str> {
        match self {
            Who::Tcpdump | Who::Dumpcap | Who::Netsniff => Some(self.title()),
            _ => None,
        }
    }

    /// Its version, or the peer's first line about itself; `None` when it is missing.
    pub(super) fn version(self) -> Option<String> {
        version(self.peer()?)
    }

    /// Its message once it captures this many interfaces.
    fn begun(self, interfaces: usize) -> &'static str {
        match self {
            Who::Sink | Who::Fast | Who::Auto | Who::Whole | Who::Tpacket | Who::Pcap
                if interfaces > 1 =>
            {
                " interfaces: "
            }
            Who::Sink | Who::Fast | Who::Auto | Who::Whole | Who::Tpacket | Who::Pcap => "b:eth",
            Who::Tcpdump => "listening on",
            Who::Dumpcap => "File: ",
            Who::Netsniff => "Running!",
            Who::Nobody => "",
        }
    }

    /// How long it may leave frames in the kernel before it takes them.
    fn holds(self) -> Duration {
        match self {
            // libpcap's timeouts: tcpdump asks for a second, dumpcap for a quarter of one.
            Who::Tcpdump => Duration::from_millis(1050),
            Who::Dumpcap => Duration::from_millis(300),
            _ => Duration::ZERO,
        }
    }

    /// Commands that capture on links, each with its file, `None` if nothing is stored.
    fn commands(
        self,
        pair: &Pair<'_>,
        snaplen: &str,
        links: Range<usize>,
        folder: Option<&Path>,
    ) -> Result<Vec<(Command, Option<PathBuf>)>> {
        let names = links.map(|link| pair.receiver(link)).collect::<Result<Vec<_>>>()?;
        let file = |name: &str| folder.map(|folder| folder.join(format!("bench-capture.{name}")));
        let or_null =
            |file: &Option<PathBuf>| file.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
        let core = cores()[1];
        match self {
            Who::Nobody => Ok(vec![]),
            Who::Sink | Who::Fast | Who::Auto | Who::Whole | Who::Tpacket | Who::Pcap => {
                let mut command = pair.netloom(core);
                command.arg("capture").args(names.iter().map(|name| format!("b:{name}")));
                command.args(["-s", snaplen, "--ring", "64MiB", "--json"]);
                command.args(match self {
                    Who::Sink => &["--sink"][..],
                    Who::Fast => &["--fast"],
                    Who::Whole => &["--own"],
                    Who::Tpacket => &["--engine", "tpacket"],
                    Who::Pcap => &["--engine", "pcap"],
                    _ => &[],
                });
                let file = file("pcapng");
                if let Some(file) = &file {
                    command.args(["--sync", "-w"]).arg(file);
                }
                Ok(vec![(command, file)])
            }
            Who::Dumpcap => {
                let mut command = pair.program("b", core, "dumpcap")?;
                for name in names {
                    command.args(["-i", name, "-B", "64", "-s", snaplen]);
                }
                let file = file("pcapng");
                command.arg("-w").arg(or_null(&file));
                Ok(vec![(command, file)])
            }
            Who::Tcpdump | Who::Netsniff => {
                let each = |name: &&str| {
                    let (file, program) = (file(&format!("{name}.pcap")), self.title());
                    let mut command = pair.program("b", core, program)?;
                    if self == Who::Tcpdump {
                        command.args(["-n", "-Z", "root", "-B", "65536", "-s", snaplen]);
                        command.args(["-i", name, "-w"]).arg(or_null(&file));
                    } else {
                        command.args(["--silent", "--ring-size", "64MiB", "--notouch-irq"]);
                        command.args(["--no-hwtimestamp", "--no-promisc", "--bind-cpu", core]);
                        command.args(["--in", name, "--out"]).arg(or_null(&file));
                    }
                    Ok((command, file))
                };
                names.iter().map(each).collect()
            }
        }
    }

    fn account(self, said: &Said) -> Result<Account> {
        match self {
            Who::Sink | Who::Fast | Who::Auto | Who::Whole | Who::Tpacket | Who::Pcap => {
                said::netloom(said)
            }
            Who::Tcpdump => said::tcpdump(said),
            Who::Dumpcap => said::dumpcap(said),
            Who::Netsniff => said::netsniff(said),
            Who::Nobody => Ok(Account::default()),
        }
    }
}

/// First line of a program's version output.
pub(crate) fn version(program: &str) -> Option<String> {
    let told = Command::new(program).arg("--version").output().ok()?;
    let text = [told.stdout, told.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Frames that reached the interfaces.
    pub(super) offered: u64,
    /// Frames per second that were made, and that reached the interfaces.
    pub(super) load: Load,
    /// Bytes stored, and the time from the first frame until they were.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Frames that the capturer has, and frames that it reports as lost.
    pub(super) account: Account,
}

impl Run {
    /// Frames lost: the capturer's own count or the frames missing from it, whichever is more.
    pub(super) fn lost(&self) -> u64 {
        self.account.lost.max(self.offered.saturating_sub(self.account.kept))
    }

    /// Percent of frames captured.
    pub(super) fn captured(&self) -> f64 {
        let (lost, offered) = (self.lost().min(self.offered), self.offered.max(1));
        100.0 * (1.0 - float(lost) / float(offered))
    }

    /// Frames captured per second of those offered.
    pub(super) fn rate(&self) -> f64 {
        self.load.taken * self.captured() / 100.0
    }

    /// Gigabytes stored a second.
    pub(super) fn gbytes_per_s(&self) -> f64 {
        float(self.bytes) / self.seconds.max(1e-9) / 1e9
    }
}

/// Captures on these links while each carries traffic; stores into `folder` if requested.
pub(super) fn run(
    pair: &Pair<'_>,
    who: Who,
    traffic: &Traffic,
    links: Range<usize>,
    folder: Option<&Path>,
) -> Result<Run> {
    let mut programs = vec![];
    let commands = who.commands(pair, snaplen(traffic.size()), links.clone(), folder)?;
    for (number, (mut command, file)) in commands.into_iter().enumerate() {
        let name = format!("capturer-{number}");
        let program = Program::start(pair.driver().folder(), &mut command, &name)?;
        programs.push((program.until_it_says(who.begun(links.len()))?, file));
    }
    let senders = links.map(|link| traffic.start(pair, link));
    let senders = senders.collect::<Result<Vec<_>>>()?;
    let mut run = Run::default();
    for sender in senders {
        let report = sender.result()?;
        let (frames, rate) = sent(&report)?;
        run.offered += frames;
        run.load += load(frames, rate, refused(&report));
        run.seconds = run.seconds.max(float(frames) / rate.max(1.0));
    }
    let over = Instant::now();
    let mut drained = Duration::ZERO;
    sleep(who.holds());
    for (program, _) in &programs {
        program.until_idle();
    }
    for (program, file) in programs {
        let mut account = who.account(&program.interrupt()?)?;
        if let Some(file) = file {
            drained = over.elapsed();
            let size = file.metadata().with_context(|| format!("look at {}", file.display()))?;
            run.bytes += size.len();
            // After a reported loss, counting a large file is pointless.
            if account.lost == 0 {
                account.kept = in_file(&file)?;
            }
            std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
        run.account += account;
    }
    run.seconds += drained.as_secs_f64();
    if who == Who::Nobody {
        run.account.kept = run.offered;
    }
    Ok(run)
}

/// A count of frames or bytes of seconds.
#[expect(clippy::cast_precision_loss, reason = "counts of seconds are below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

/// The load of a sender: `frames` were taken, `rate` a second.
fn load(frames: u64, rate: f64, refused: u64) -> Load {
    let more = float(refused) / float(frames.max(1));
    Load { made: rate * (1.0 + more), taken: rate }
}

/// Frames in a file, by capinfos.
fn in_file(file: &Path) -> Result<u64> {
    said::capinfos(&output(Command::new("capinfos").args(["-c", "-M"]).arg(file))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_lost_whoever_says_so() {
        let run =
            |kept, lost| Run { offered: 1000, account: Account { kept, lost }, ..Run::default() };
        assert_eq!(run(1000, 0).lost(), 0);
        // Other nodes' frames, also captured.
        assert_eq!(run(1002, 0).lost(), 0);
        assert_eq!(run(1000, 2).lost(), 2);
        assert_eq!(run(990, 2).lost(), 10);
        assert!((run(750, 0).captured() - 75.0).abs() < 1e-9);
        assert!((run(0, 5000).captured()).abs() < 1e-9);
        let stored = Run { bytes: 3_000_000_000, seconds: 2.0, ..run(1000, 0) };
        assert!((stored.gbytes_per_s() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn what_was_refused_was_made() {
        assert_eq!(load(1000, 1e6, 3000), Load { made: 4e6, taken: 1e6 });
        assert_eq!(load(0, 0.0, 5).taken, 0.0);
    }

    #[test]
    fn a_missing_program_has_no_version() {
        assert_eq!(version("no-such-program-anywhere"), None);
        assert!(Who::Sink.version().is_none());
    }
}
