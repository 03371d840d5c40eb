//! Two nodes on a switch: `a` on port 1 sends, `b` on port 2 receives.

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::vswitch;
use crate::capture::pair::{cores, milliseconds};
use crate::capture::program::on;
use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::running::{Running, number};

const A: &str = "198.18.0.1";
const B: &str = "198.18.0.2";
/// Nobody's, so that what comes to `b` is dropped there without an answer.
const NOBODY: &str = "198.18.0.77";
const PORT: &str = "7000";
/// A server that runs longer than this was forgotten.
const MOST: &str = "60";
/// Time after the first frame, and until the count ends.
const SETTLE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_millis(600);
/// How long a switch may take to begin to forward or to find its controller.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time for what still comes.
const LATE: Duration = Duration::from_millis(100);
/// Every frame is a new flow for longer than a cell lasts.
const FRESH: &str = "4000000";
/// New flows a second that are offered, one after another, for this long each; and those of which the delay is measured.
const OFFERED: [u32; 5] = [20_000, 30_000, 40_000, 60_000, 80_000];
const STEP: f64 = 0.3;
const SPARSE: &str = "500pps";
/// Rate while an entry changes, how often it does, and seconds that this may take.
const STEADY: &str = "100kpps";
const TURNS: &str = "5";
const LONGEST: f64 = 30.0;
/// Frames a second by which flows are made known before they are counted.
const FIRST: f64 = 20_000.0;

/// The switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// netloom's OpenFlow switch.
    Own,
    /// The same behind a slicer, in whose one slice both nodes are.
    Sliced,
    /// Open vSwitch's userspace switch.
    Vswitch,
    /// The kernel's bridge.
    Bridge,
}

impl Kind {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Own => "netloom",
            Kind::Sliced => "netloom, through a slicer",
            Kind::Vswitch => "Open vSwitch",
            Kind::Bridge => "kernel bridge",
        }
    }

    pub(crate) fn settings(self) -> &'static str {
        match self {
            Kind::Own => "kind: openflow, veth, all offloads",
            Kind::Sliced => "kind: openflow, two slices, veth, all offloads",
            Kind::Vswitch => "netdev datapath, defaults, veth, the nodes' offloads off",
            Kind::Bridge => "kind: kernel, veth, all offloads",
        }
    }

    fn lab(self) -> &'static str {
        match self {
            Kind::Own => "bench-flow-own",
            Kind::Sliced => "bench-flow-sliced",
            Kind::Vswitch => "bench-flow-ovs",
            Kind::Bridge => "bench-flow-bridge",
        }
    }
}

/// The time from changes of an entry, over some turns, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Obeyed {
    /// Until the reply to a barrier, median.
    pub(crate) answered: f64,
    /// Until the last frame that disobeyed came, median.
    pub(crate) obeyed: f64,
    /// The same, the longest.
    pub(crate) worst: f64,
    /// Frames that disobeyed after the reply, in all turns.
    pub(crate) late: f64,
}

/// Flows a second that a controller sets up, the most at any offered rate and those at the highest; and the delay of a
/// packet that it decides about, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Controlled {
    pub(crate) setups: f64,
    pub(crate) overload: f64,
    /// `None`: none of a peer's came within a second.
    pub(crate) first: Option<f64>,
}

/// A lab with one switch.
pub(crate) struct Field<'a> {
    driver: &'a Driver,
    kind: Kind,
    /// Where the switch speaks OpenFlow.
    openflow: PathBuf,
    /// Where its controller listens, when there is one.
    controller: PathBuf,
    /// The hardware address of `b`.
    to: String,
    _vswitch: Option<Running>,
}

impl<'a> Field<'a> {
    pub(crate) fn up(driver: &'a Driver, kind: Kind) -> Result<Field<'a>> {
        let lab = kind.lab();
        let controller = match kind {
            // The only one that it accepts.
            Kind::Vswitch => driver.folder().join("ovs/br0.controller"),
            _ => driver.folder().join(format!("{lab}.controller")),
        };
        let text = lab_file(kind, controller.to_str().context("the folder's path is not UTF-8")?);
        driver.up(&driver.lab_file(lab, &text)?)?;
        let (openflow, vswitch) = match kind {
            Kind::Vswitch => {
                for (node, address) in [("a", A), ("b", B)] {
                    let address = format!("{address}/24");
                    exec(driver, lab, node, &["ip", "addr", "add", &address, "dev", "eth0"])?;
                    driver.peer(lab, node, &["offloads-off", "eth0"])?.result()?;
                }
                let folder = driver.folder().join("ovs");
                let links = ["eth0", "eth1"].map(str::to_owned);
                vswitch::clear(driver, lab, "ovs", &links)?;
                let of = Some(controller.as_path());
                let running = vswitch::start(driver, lab, "ovs", &folder, &links, of)?;
                (folder.join("br0.mgmt"), Some(running))
            }
            Kind::Own => (own_socket(driver, lab)?, None),
            Kind::Sliced => (slice_socket(driver, lab)?, None),
            Kind::Bridge => (PathBuf::new(), None),
        };
        let to = exec(driver, lab, "b", &["cat", "/sys/class/net/eth0/address"])?.trim().to_owned();
        Ok(Field { driver, kind, openflow, controller, to, _vswitch: vswitch })
    }

    /// Has the switch forward by this many entries; returns how many a second were made.
    pub(crate) fn fill(&self, rules: u32) -> Result<f64> {
        number(&self.client(&["flow-fill", "SOCKET", &rules.to_string(), A, "2"])?, "per_s")
    }

    /// Resident MiB of the slicer, and the seconds of CPU time that it has had.
    pub(crate) fn slicer(&self) -> Result<(f64, f64)> {
        let shown = self.driver.json(&["-l", self.kind.lab(), "slice", "show", "--json"])?;
        let pid = number(&shown, "pid")?;
        let status = std::fs::read_to_string(format!("/proc/{pid:.0}/status"))
            .context("read the slicer's memory")?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 = kib
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok())
            .context("the slicer's memory is not told")?;
        Ok((kib / 1024.0, number(&shown, "cpu_us")? / 1e6))
    }

    /// Has the switch forward everything to where it belongs.
    pub(crate) fn pass(&self) -> Result<()> {
        self.client(&["flow-pass", "SOCKET"]).map(|_| ())
    }

    /// Smallest frames a second that arrive by this many entries, each used in turn.
    pub(crate) fn forward(&self, rules: u32) -> Result<f64> {
        let flows = rules.to_string();
        if rules > 1 {
            // Caches learn what they can before anything is counted.
            let seconds = (2.0 * f64::from(rules) / FIRST).clamp(0.2, 12.0);
            let rate = format!("{FIRST:.0}pps");
            self.generate(&["--flows", &flows, "--rate", &rate], seconds)?.result()?;
        }
        let before = self.received()?;
        let running =
            self.generate(&["--flows", &flows, "--rate", "max", "--engine", "live-frames"], 1.4)?;
        let rate = self.window(before)?;
        running.result()?;
        Ok(rate)
    }

    /// Gb/s of a TCP stream.
    pub(crate) fn tcp(&self) -> Result<f64> {
        let sink = self.peer("b", &["tcp-sink", PORT, "0.4", "0.8"])?.ready()?;
        let source = self.peer("a", &["tcp-source", &format!("{B}:{PORT}"), "0", MOST])?;
        let rate = number(&sink.result()?, "bytes_per_s")?;
        source.result()?;
        Ok(rate * 8e-9)
    }

    /// What a switch does with a controller that has to decide about every flow.
    pub(crate) fn controller(&self) -> Result<Controlled> {
        self.controller_of(&OFFERED)
    }

    /// The same while this many flows a second are offered, one number after another.
    pub(crate) fn controller_of(&self, all: &[u32]) -> Result<Controlled> {
        let controller = self.controlled()?;
        let first = self.first()?;
        let (mut most, mut overload) = (0.0_f64, 0.0);
        for (number, offered) in (1..).zip(all.iter().copied()) {
            overload = self.setups(number, offered)?;
            most = most.max(overload);
        }
        drop(controller);
        Ok(Controlled { setups: most, overload, first })
    }

    /// Flows a second that are set up while this many are offered: every frame is a new one.
    fn setups(&self, number: u16, offered: u32) -> Result<f64> {
        let before = self.received()?;
        // Flows that were set up before are not sent again: the port tells them apart.
        let (rate, port) = (format!("{offered}pps"), (9 + number).to_string());
        self.generate(&["--flows", FRESH, "--rate", &rate, "--port", &port], STEP)?.result()?;
        sleep(LATE);
        #[expect(clippy::cast_precision_loss, reason = "counts of a second are below 2^53")]
        let frames = self.received()?.saturating_sub(before) as f64;
        Ok(frames / STEP)
    }

    /// Median delay, in microseconds, of packets that the controller has to decide about.
    fn first(&self) -> Result<Option<f64>> {
        let mut command = self.netloom(cores()[1]);
        command.args(["generate", "b:eth0", "--receive", "--json", "--duration", "1300ms"]);
        let receiver = Running::start(&mut command, "generate --receive")?;
        sleep(SETTLE);
        self.generate(&["--flows", FRESH, "--rate", SPARSE], 0.6)?.result()?;
        let told = receiver.result()?;
        let delays = &told["streams"][0]["latency"];
        if delays.is_null() && self.kind == Kind::Vswitch {
            return Ok(None);
        }
        let lab = self.kind.lab();
        let median = number(delays, "p50_ns").with_context(|| format!("{lab}: received {told}"))?;
        Ok(Some(median / 1e3))
    }

    /// The time until changed entries are obeyed.
    pub(crate) fn obey(&self) -> Result<Obeyed> {
        let before = self.received()?;
        let sender = self.generate(&["--rate", STEADY], LONGEST)?;
        self.begun(before)?;
        let words = ["flow-obey", "SOCKET", "eth0", "2", TURNS];
        let told = self.client_at("b", &words)?;
        drop(sender);
        obeyed(&told)
    }

    /// A controller that has the switch learn, which knows where `b` is.
    fn controlled(&self) -> Result<Daemon> {
        self.client(&["flow-clear", "SOCKET"])?;
        let _ = std::fs::remove_file(&self.controller);
        let mut command = Command::new("ovs-testcontroller");
        command.args(["-vconsole:off", &format!("punix:{}", self.controller.display())]);
        command.env("OVS_RUNDIR", self.driver.folder());
        let name = format!("{}.testcontroller", self.kind.lab());
        let daemon = Daemon::start(self.driver, &mut command, &name)?;
        let end = Instant::now() + PATIENCE;
        while exec(self.driver, self.kind.lab(), "b", &["ping", "-c", "1", "-W", "0.2", A]).is_err()
        {
            if Instant::now() > end {
                bail!("{}: no controller in {PATIENCE:?}: {}", self.kind.lab(), daemon.said());
            }
        }
        Ok(daemon)
    }

    /// Frames per second that arrive over a window, some time after the first.
    fn window(&self, before: u64) -> Result<f64> {
        self.begun(before)?;
        sleep(SETTLE);
        let (before, start) = (self.received()?, Instant::now());
        sleep(WINDOW);
        let (after, time) = (self.received()?, start.elapsed());
        #[expect(clippy::cast_precision_loss, reason = "counts of a second are below 2^53")]
        let frames = after.saturating_sub(before) as f64;
        Ok(frames / time.as_secs_f64())
    }

    /// Waits until frames arrive.
    fn begun(&self, before: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.received()? < before + 100 {
            if Instant::now() > end {
                bail!("{}: no frames arrive", self.kind.lab());
            }
        }
        Ok(())
    }

    /// Starts a generator at `a` with smallest frames for `b`, which drops them.
    fn generate(&self, words: &[&str], seconds: f64) -> Result<Running> {
        let mut command = self.netloom(cores()[0]);
        command.args(["generate", "a:eth0", "--to", NOBODY, "--to-mac", &self.to, "--json"]);
        command.args(["--from", A, "--size", "64", "--duration", &milliseconds(seconds)]);
        Running::start(command.args(words), "generate")
    }

    /// `netloom VERB` on the lab, pinned to a core.
    fn netloom(&self, core: &str) -> Command {
        let [first, rest @ ..] = on(core);
        let mut command = Command::new(first);
        command.args(rest).arg(self.driver.exe()).args(["-l", self.kind.lab()]);
        command.env("NETLOOM_RUNTIME_DIR", self.driver.runtime());
        command
    }

    /// A small program that speaks OpenFlow with the switch; `SOCKET` stands for where.
    fn client(&self, words: &[&str]) -> Result<Value> {
        self.asked(&mut self.driver.peer_command(), words)
    }

    /// The same in a node's network.
    fn client_at(&self, node: &str, words: &[&str]) -> Result<Value> {
        let mut command = inside(self.driver, self.kind.lab(), node, "env")?;
        self.asked(command.arg(self.driver.own()).arg("peer"), words)
    }

    fn asked(&self, command: &mut Command, words: &[&str]) -> Result<Value> {
        for word in words {
            match *word {
                "SOCKET" => command.arg(&self.openflow),
                word => command.arg(word),
            };
        }
        let text = output(command)?;
        serde_json::from_str(&text).with_context(|| format!("read what {words:?} printed"))
    }

    fn peer(&self, node: &str, words: &[&str]) -> Result<Running> {
        self.driver.peer(self.kind.lab(), node, words)
    }

    /// Frames that `b` has received.
    fn received(&self) -> Result<u64> {
        let mut command = inside(self.driver, self.kind.lab(), "b", "cat")?;
        let text = output(command.arg("/proc/self/net/dev"))?;
        let own = |line: &str| {
            let (name, counts) = line.split_once(':')?;
            (name.trim() == "eth0").then(|| counts.split_whitespace().nth(1)?.parse().ok())?
        };
        text.lines().find_map(own).context("b has no counters of eth0")
    }
}

fn exec(driver: &Driver, lab: &str, node: &str, words: &[&str]) -> Result<String> {
    output(driver.command().args(["-l", lab, "exec", node, "--"]).args(words))
}

/// Where netloom's switch speaks OpenFlow.
fn own_socket(driver: &Driver, lab: &str) -> Result<PathBuf> {
    let shown = driver.json(&["-l", lab, "switch", "show", "s", "--json"])?;
    let path = shown["openflow"]["socket"].as_str();
    Ok(path.with_context(|| format!("no socket in {shown}"))?.into())
}

/// Where the slice that is measured speaks OpenFlow, once its switch is there.
fn slice_socket(driver: &Driver, lab: &str) -> Result<PathBuf> {
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = driver.json(&["-l", lab, "slice", "show", "--json"])?;
        if let Some(path) = shown["slices"][0]["switches"][0]["socket"].as_str() {
            return Ok(path.into());
        }
        if Instant::now() > end {
            bail!("{lab}: the slicer has no switch: {shown}");
        }
        sleep(LATE);
    }
}

fn obeyed(told: &Value) -> Result<Obeyed> {
    let list = |name: &str| -> Result<Vec<f64>> {
        let all = told[name].as_array().with_context(|| format!("no `{name}` in {told}"))?;
        Ok(all.iter().filter_map(Value::as_f64).collect())
    };
    let median = |figures: &[f64]| netloom_stats::percentile(figures, 50.0);
    let times = list("obeyed_us")?;
    Ok(Obeyed {
        answered: median(&list("answered_us")?)?,
        obeyed: median(&times)?,
        worst: times.into_iter().reduce(f64::max).unwrap_or(0.0),
        late: list("late")?.iter().sum(),
    })
}

fn lab_file(kind: Kind, controller: &str) -> String {
    let (node, switch, end) = match kind {
        Kind::Own => {
            let options =
                format!("kind: openflow, fail: secure, controllers: [\"unix:{controller}\"]");
            ("", format!("switches: {{s: {{subnet: [198.18.0.0/24], {options}}}}}\n"), "s")
        }
        Kind::Sliced => {
            let slices = format!(
                "slices:\n  red: {{controllers: [\"unix:{controller}\"], switches: {{s: {{ports: [a, b]}}}}}}\n  \
                 blue: {{switches: {{s: {{ports: c}}}}}}\n"
            );
            let switch = "switches: {s: {subnet: [198.18.0.0/24], kind: openflow}}\n";
            (", c: {}", format!("{switch}{slices}"), "s")
        }
        Kind::Bridge => ("", "switches: {s: {subnet: [198.18.0.0/24]}}\n".to_owned(), "s"),
        Kind::Vswitch => (", ovs: {}", String::new(), "ovs"),
    };
    let link = |name: &str, address: &str| {
        let addresses = match kind {
            // Both links would have one prefix.
            Kind::Vswitch => "none".to_owned(),
            _ => format!("{{{name}: {address}/24}}"),
        };
        format!("  - {{ends: [{name}, {end}], name: {name}, addresses: {addresses}}}\n")
    };
    let mut links = link("a", A) + &link("b", B);
    if kind == Kind::Sliced {
        links += "  - [c, s]\n";
    }
    format!("name: {}\nnodes: {{a: {{}}, b: {{}}{node}}}\n{switch}links:\n{links}", kind.lab())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_obeyed_is_summed_up() {
        let told = json!({"answered_us": [3.0, 1.0, 2.0], "obeyed_us": [9.0, 4.0, 5.0], "late": [1, 0, 2]});
        let expected = Obeyed { answered: 2.0, obeyed: 5.0, worst: 9.0, late: 3.0 };
        assert_eq!(obeyed(&told).unwrap(), expected);
        assert!(obeyed(&json!({})).is_err());
    }

    #[test]
    fn labs_differ_in_their_switch() {
        let text = lab_file(Kind::Own, "/c");
        assert!(text.contains("kind: openflow") && text.contains("ends: [b, s]"), "{text}");
        let text = lab_file(Kind::Vswitch, "/c");
        let sliced = lab_file(Kind::Sliced, "/c");
        assert!(sliced.contains("ports: [a, b]") && sliced.contains("- [c, s]"), "{sliced}");
        assert!(text.contains("ovs: {}}\nlinks:") && text.contains("ends: [a, ovs]"), "{text}");
    }
}
