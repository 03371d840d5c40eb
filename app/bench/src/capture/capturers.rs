//! The capturers, how each is started, and a single run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};

use super::pair::{Pair, cores, sent};
use super::program::{Program, Said};
use super::said::{self, Account};
use super::traffic::Traffic;
use crate::driver::output;

/// Bytes kept of each frame.
const SNAPLEN: &str = "96";

/// A capturer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// netloom with `--fast`: a single copy, at XDP on ingress, at tc on egress.
    Fast,
    /// netloom's own choice, which never changes the network.
    Auto,
    /// netloom with packet socket rings.
    Tpacket,
    /// netloom with libpcap.
    Pcap,
    Tcpdump,
    Dumpcap,
    Netsniff,
}

impl Who {
    pub(super) const ALL: [Who; 7] =
        [Who::Fast, Who::Auto, Who::Tpacket, Who::Pcap, Who::Tcpdump, Who::Dumpcap, Who::Netsniff];

    pub(super) fn title(self) -> &'static str {
        match self {
            Who::Fast => "netloom --fast",
            Who::Auto => "netloom",
            Who::Tpacket => "netloom, tpacket",
            Who::Pcap => "netloom, pcap",
            Who::Tcpdump => "tcpdump",
            Who::Dumpcap => "dumpcap",
            Who::Netsniff => "netsniff-ng",
        }
    }

    /// Its settings, for the rows.
    pub(super) fn settings(self) -> &'static str {
        match self {
            Who::Fast => "xdp-ring in, tc-ring out; --ring 64MiB, -s 96, pcapng",
            Who::Auto => "tc-ring; --ring 64MiB, -s 96, pcapng",
            Who::Tpacket => "--engine tpacket --ring 64MiB, -s 96, pcapng",
            Who::Pcap => "--engine pcap --ring 64MiB, -s 96, pcapng",
            Who::Tcpdump => "-B 65536 -s 96, pcap; a process for each interface",
            Who::Dumpcap => "-B 64 -s 96, pcapng",
            Who::Netsniff => "--ring-size 64MiB, whole frames, pcap; a process for each interface",
        }
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

    /// Its message once it captures.
    fn begun(self) -> &'static str {
        match self {
            Who::Fast | Who::Auto | Who::Tpacket | Who::Pcap => "b:eth",
            Who::Tcpdump => "listening on",
            Who::Dumpcap => "File: ",
            Who::Netsniff => "Running!",
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

    /// Commands that capture on links 0 to `interfaces`, each with its file, `None` if nothing is stored.
    fn commands(
        self,
        pair: &Pair<'_>,
        interfaces: usize,
        folder: Option<&Path>,
    ) -> Result<Vec<(Command, Option<PathBuf>)>> {
        let names = (0..interfaces).map(|link| pair.receiver(link)).collect::<Result<Vec<_>>>()?;
        let file = |name: &str| folder.map(|folder| folder.join(format!("bench-capture.{name}")));
        let or_null =
            |file: &Option<PathBuf>| file.clone().unwrap_or_else(|| PathBuf::from("/dev/null"));
        let core = cores()[1];
        match self {
            Who::Fast | Who::Auto | Who::Tpacket | Who::Pcap => {
                let mut command = pair.netloom(core);
                command.arg("capture").args(names.iter().map(|name| format!("b:{name}")));
                command.args(["-s", SNAPLEN, "--ring", "64MiB", "--json"]);
                command.args(match self {
                    Who::Fast => &["--fast"][..],
                    Who::Tpacket => &["--engine", "tpacket"],
                    Who::Pcap => &["--engine", "pcap"],
                    _ => &[],
                });
                let file = file("pcapng");
                if let Some(file) = &file {
                    command.arg("-w").arg(file);
                }
                Ok(vec![(command, file)])
            }
            Who::Dumpcap => {
                let mut command = pair.program("b", core, "dumpcap")?;
                for name in names {
                    command.args(["-i", name, "-B", "64", "-s", SNAPLEN]);
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
                        command.args(["-n", "-Z", "root", "-B", "65536", "-s", SNAPLEN]);
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
            Who::Fast | Who::Auto | Who::Tpacket | Who::Pcap => said::netloom(said),
            Who::Tcpdump => said::tcpdump(said),
            Who::Dumpcap => said::dumpcap(said),
            Who::Netsniff => said::netsniff(said),
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
    /// Frames that reached the interfaces, and their rate per second.
    pub(super) offered: u64,
    pub(super) rate: f64,
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
        #[expect(clippy::cast_precision_loss, reason = "counts of seconds are below 2^53")]
        let (lost, offered) = (self.lost().min(self.offered) as f64, self.offered.max(1) as f64);
        100.0 * (1.0 - lost / offered)
    }
}

/// Captures on the first links while each carries traffic; stores into `folder` if requested.
pub(super) fn run(
    pair: &Pair<'_>,
    who: Who,
    traffic: &Traffic,
    interfaces: usize,
    folder: Option<&Path>,
) -> Result<Run> {
    let mut programs = vec![];
    for (number, (mut command, file)) in
        who.commands(pair, interfaces, folder)?.into_iter().enumerate()
    {
        let name = format!("capturer-{number}");
        let program = Program::start(pair.driver().folder(), &mut command, &name)?;
        programs.push((program.until_it_says(who.begun())?, file));
    }
    let senders = (0..interfaces).map(|link| traffic.start(pair, link));
    let senders = senders.collect::<Result<Vec<_>>>()?;
    let mut run = Run::default();
    for sender in senders {
        let (frames, rate) = sent(&sender.result()?)?;
        run.offered += frames;
        run.rate += rate;
    }
    sleep(who.holds());
    for (program, _) in &programs {
        program.until_idle();
    }
    for (program, file) in programs {
        let mut account = who.account(&program.interrupt()?)?;
        if let Some(file) = file {
            // After a reported loss, counting a large file is pointless.
            if account.lost == 0 {
                account.kept = in_file(&file)?;
            }
            std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
        run.account += account;
    }
    Ok(run)
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
        let run = |kept, lost| Run { offered: 1000, rate: 1e6, account: Account { kept, lost } };
        assert_eq!(run(1000, 0).lost(), 0);
        // Other nodes' frames, also captured.
        assert_eq!(run(1002, 0).lost(), 0);
        assert_eq!(run(1000, 2).lost(), 2);
        assert_eq!(run(990, 2).lost(), 10);
        assert!((run(750, 0).captured() - 75.0).abs() < 1e-9);
        assert!((run(0, 5000).captured()).abs() < 1e-9);
    }

    #[test]
    fn a_missing_program_has_no_version() {
        assert_eq!(version("no-such-program-anywhere"), None);
        assert!(Who::Fast.version().is_none());
    }
}
