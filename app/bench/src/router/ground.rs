//! A router that is up, and its measurements: frames and a TCP stream from `a`, to the router itself or through it to `b`.
//!
//! A packet socket sends the frames: what makes them in the kernel would have to know the other end of each link.

use std::cell::RefCell;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::bare::Bare;
use super::guest;
use super::place::{End, Place};
use super::way::{A, AT_A, AT_B, B, CONTROL, Machine, Shape, Way, entries};
use crate::capture::pair::{cores, milliseconds};
use crate::driver::{Driver, output};
use crate::facts::Facts;
use crate::openflow::vswitch;
use crate::running::{Running, number};
use crate::ticks::Ticks;
use crate::vm::guest::Guest;
use crate::vm::image::program;

/// The port of streams, and of controllers.
const PORT: &str = "7000";
const OPENFLOW: &str = "6653";
/// Seconds of a flow before it is counted, and while.
const SKIP: f64 = 0.2;
const TIME: f64 = 0.5;
/// A program that runs longer was forgotten.
const LONGEST: &str = "3600";
/// How long a router may take until it forwards.
const PATIENCE: Duration = Duration::from_secs(30);
/// The rate offered to routers that have no time left in a flood, beside the largest that can be made.
const OFFERED: [&str; 2] = ["max", "50kpps"];

/// Where a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Path {
    /// At the router.
    Point,
    /// Behind it.
    Routed,
}

/// What flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// UDP frames of this size, with the check sequence.
    Frames(u32),
    /// A TCP stream.
    Tcp,
}

/// A figure, frames or bits a second, and CPUs that the whole machine used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) figure: f64,
    pub(super) busy: f64,
}

impl Seen {
    /// The mean of several; there is at least one.
    pub(super) fn mean(all: &[Seen]) -> Seen {
        let count = f64::from(u32::try_from(all.len()).unwrap_or(u32::MAX));
        let of = |figure: fn(&Seen) -> f64| all.iter().map(figure).sum::<f64>() / count;
        Seen { figure: of(|seen| seen.figure), busy: of(|seen| seen.busy) }
    }
}

/// A router that is up.
pub(super) struct Ground<'a> {
    way: Way,
    a: Place,
    /// The network of the router; a machine's is its node's.
    router: Option<Place>,
    /// Where the ends of flows are: the router, and `b`.
    ends: [End<'a>; 2],
    /// The hardware address that `a` sends to.
    gateway: String,
    note: String,
    held: Vec<Running>,
}

impl<'a> Ground<'a> {
    /// Brings it up, or says what is missing.
    pub(super) fn up(driver: &'a Driver, way: Way) -> Result<Ground<'a>> {
        for name in way.programs() {
            program(name)?;
        }
        let ground = match way.shape() {
            Shape::Bare => Ground::bare(driver)?,
            _ => Ground::lab(driver, way)?,
        };
        ground.until_it_forwards()?;
        Ok(ground)
    }

    fn bare(driver: &'a Driver) -> Result<Ground<'a>> {
        let Bare { places: [a, b, r], running } = Bare::up(driver)?;
        let mut held = vec![running];
        for place in [&b, &r] {
            held.push(place.peer(&["hold", LONGEST])?.ready()?);
        }
        let gateway = r.mac("eth0")?;
        let (way, note) = (Way::Kernel, Way::Kernel.settings().to_owned());
        let ends = [End::Here(r.clone()), End::Here(b)];
        Ok(Ground { way, a, router: Some(r), ends, gateway, note, held })
    }

    fn lab(driver: &'a Driver, way: Way) -> Result<Ground<'a>> {
        let lab = way.lab();
        let text = way.lab_file(&guest::keys(driver, way)?);
        driver.up(&driver.lab_file(lab, &text)?)?;
        let place = |node: &str| Place::node(driver, lab, node);
        let (a, b) = (place("a")?, place("b")?);
        let mut held = vec![b.peer(&["hold", LONGEST])?.ready()?];
        let (router, end) = match way.machine() {
            None => {
                let r = place("r")?;
                held.push(r.peer(&["hold", LONGEST])?.ready()?);
                (Some(r.clone()), End::Here(r))
            }
            Some(Machine::Uml) => {
                held.push(driver.peer(lab, "r", &["hold", LONGEST])?.ready()?);
                (None, End::Agent(driver, lab.to_owned()))
            }
            Some(Machine::Qemu { .. }) => (None, console(driver, lab)?),
        };
        let facts = Facts::of(driver, lab)?;
        let gateway = match way.shape() {
            Shape::Bare | Shape::Direct => facts.mac("r", "a")?,
            Shape::Switched | Shape::Vswitch => facts.mac("r", "ra")?,
        };
        let mut ground = Ground {
            way,
            a,
            router,
            ends: [end, End::Here(b)],
            gateway,
            note: noted(driver, way)?,
            held,
        };
        if matches!(way.shape(), Shape::Switched | Shape::Vswitch) {
            ground.switch(driver, &facts)?;
        }
        Ok(ground)
    }

    /// Gives the ends of a switch their addresses, and the switch its entries.
    fn switch(&mut self, driver: &'a Driver, facts: &Facts) -> Result<()> {
        let lab = self.way.lab();
        let End::Here(b) = &self.ends[1] else { bail!("b is a node") };
        for (place, own, at) in [(&self.a, A, AT_A), (b, B, AT_B)] {
            place.ip(&format!("addr add {own}/24 dev eth0"))?;
            place.ip(&format!("route add default via {at}"))?;
        }
        self.in_router(&[
            &format!("ip addr add {AT_A}/24 dev eth0"),
            &format!("ip addr add {AT_B}/24 dev eth1"),
        ])?;
        let macs = [("a", "a"), ("b", "b"), ("r", "ra"), ("r", "rb")]
            .map(|(node, link)| facts.mac(node, link));
        let [a, b, at_a, at_b] = macs;
        let all = entries([&a?, &b?, &at_a?, &at_b?]);
        if self.way.shape() == Shape::Vswitch {
            return self.vswitch(driver, &all);
        }
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let words = [&["flow-control", OPENFLOW, LONGEST], &all[..]].concat();
        let control = match &self.ends[0] {
            End::Here(place) => place.peer(&words)?.ready()?,
            End::Agent(..) => {
                self.held.push(relay(driver, lab)?);
                driver.peer(lab, "r", &words)?.ready()?
            }
            End::Console(guest) => {
                let quoted: Vec<String> = all.iter().map(|entry| format!("'{entry}'")).collect();
                let words = format!("flow-control {OPENFLOW} {LONGEST} {}", quoted.join(" "));
                let said = "while read -r line; do echo \"@@ $line\"; done";
                guest
                    .borrow_mut()
                    .tell(&format!("sleep {LONGEST} | netloom-bench peer {words} | {said} &"))?;
                let relay = relay(driver, lab)?;
                let heard = guest.borrow_mut().hear()?;
                anyhow::ensure!(heard == "ready", "the controller in the guest: {heard}");
                relay
            }
        };
        self.held.push(control);
        Ok(())
    }

    /// Open vSwitch in its node, with the same entries.
    fn vswitch(&mut self, driver: &Driver, entries: &[String]) -> Result<()> {
        let lab = self.way.lab();
        let links = ["eth0", "eth1", "eth2", "eth3"].map(str::to_owned);
        let folder = driver.folder().join(lab);
        vswitch::clear(driver, lab, "ovs", &links)?;
        for (node, interface) in [("a", "eth0"), ("b", "eth0"), ("r", "eth0"), ("r", "eth1")] {
            driver.peer(lab, node, &["offloads-off", interface])?.result()?;
        }
        self.held.push(vswitch::start(driver, lab, "ovs", &folder, &links, None)?);
        let mut command = driver.peer_command();
        command.arg("flow-entries").arg(folder.join("br0.mgmt"));
        output(command.args(entries)).map(drop)
    }

    /// Runs commands where the router's stack is.
    fn in_router(&self, commands: &[&str]) -> Result<()> {
        match &self.ends[0] {
            End::Here(place) => {
                for command in commands {
                    output(place.command("sh").args(["-c", command]))?;
                }
            }
            End::Agent(driver, lab) => {
                for command in commands {
                    let mut exec = driver.command();
                    output(exec.args(["-l", lab, "exec", "r", "--", "sh", "-c", command]))?;
                }
            }
            End::Console(guest) => {
                let mut guest = guest.borrow_mut();
                guest.tell(&format!("{}; echo '@@ done'", commands.join("; ")))?;
                anyhow::ensure!(guest.hear()? == "done", "a guest did not do as it was told");
            }
        }
        Ok(())
    }

    /// Waits until frames reach `b`, and answers `a`.
    fn until_it_forwards(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        for to in [AT_A, B] {
            while output(self.a.command("ping").args(["-c", "1", "-W", "1", to])).is_err() {
                if Instant::now() > end {
                    bail!("{}: no answer of {to} in {PATIENCE:?}", self.way.title());
                }
            }
        }
        Ok(())
    }

    pub(super) fn note(&self) -> &str {
        &self.note
    }

    /// Where the router's routes are, if that is a network namespace.
    pub(super) fn router(&self) -> Option<&Place> {
        self.router.as_ref()
    }

    /// Measures once.
    pub(super) fn measure(&self, path: Path, load: Load) -> Result<Seen> {
        let size = match load {
            Load::Tcp => return self.tcp(path),
            Load::Frames(size) => size,
        };
        let rates: &[&str] = if self.way.is_slow() { &OFFERED } else { &OFFERED[..1] };
        let mut most = Seen::default();
        for rate in rates {
            let seen = self.frames(path, size, rate)?;
            if seen.figure > most.figure {
                most = seen;
            }
        }
        Ok(most)
    }

    fn end(&self, path: Path) -> (&End<'a>, &'static str) {
        match path {
            Path::Point => (&self.ends[0], AT_A),
            Path::Routed => (&self.ends[1], B),
        }
    }

    /// Frames a second that arrive.
    fn frames(&self, path: Path, size: u32, rate: &str) -> Result<Seen> {
        let (end, to) = self.end(path);
        let (skip, time) = (SKIP.to_string(), TIME.to_string());
        let counting = end.start(&["arrived", "eth0", &skip, &time])?;
        let [first, rest @ ..] = crate::capture::program::on(cores()[0]);
        let mut sender = self.a.command(first);
        sender.args(rest).arg(self.a.exe()).args([
            "generate",
            "host:eth0",
            "--to",
            to,
            "--from",
            A,
        ]);
        sender.args(["--to-mac", &self.gateway, "--size", &size.to_string(), "--rate", rate]);
        sender.args(["--engine", "ring", "--json", "--duration", &milliseconds(SKIP + TIME + 0.2)]);
        let sender = Running::start(&mut sender, "generate")?;
        let busy = busy()?;
        let arrived = counting.result()?;
        sender.result()?;
        Ok(Seen { figure: number(&arrived, "per_s")?, busy })
    }

    /// Frames of a stream to `b` that are lost while something happens.
    pub(super) fn lost(
        &self,
        rate: &str,
        time: f64,
        happen: impl FnOnce() -> Result<()>,
    ) -> Result<f64> {
        let End::Here(b) = &self.ends[1] else { bail!("b is a node") };
        let mut receiver = b.netloom(&["generate", "host:eth0", "--receive", "--json"]);
        let receiver = Running::start(
            receiver.args(["--duration", &milliseconds(time + 1.0)]),
            "generate --receive",
        )?;
        sleep(Duration::from_millis(300));
        let mut sender =
            self.a.netloom(&["generate", "host:eth0", "--to", B, "--from", A, "--to-mac"]);
        sender.args([&self.gateway, "--size", "64", "--rate", rate, "--json"]);
        let sender = Running::start(sender.args(["--duration", &milliseconds(time)]), "generate")?;
        happen()?;
        sender.result()?;
        super::received::lost(&receiver.result()?)
    }

    /// Bits a second.
    fn tcp(&self, path: Path) -> Result<Seen> {
        let (end, to) = self.end(path);
        let (skip, time) = (SKIP.to_string(), TIME.to_string());
        let sink = end.start(&["tcp-sink", PORT, &skip, &time])?;
        let to = format!("{to}:{PORT}");
        let source = self.a.peer(&["on", cores()[0], "tcp-source", &to, "0", "20"])?;
        let busy = busy()?;
        let bytes = number(&sink.result()?, "bytes_per_s")?;
        source.result()?;
        Ok(Seen { figure: bytes * 8.0, busy })
    }
}

/// CPUs that the whole machine uses while a flow is counted.
fn busy() -> Result<f64> {
    sleep(Duration::from_secs_f64(SKIP));
    let before = Ticks::now()?;
    sleep(Duration::from_secs_f64(TIME));
    Ok(Ticks::now()?.busy_since(before))
}

/// A guest's console, which listens.
fn console(driver: &Driver, lab: &str) -> Result<End<'static>> {
    let mut shell: Command = driver.command();
    shell.args(["-l", lab, "shell", "r"]);
    let mut guest = Guest::start(shell)?;
    guest.tell(&format!(
        "sleep {LONGEST} | netloom-bench peer hold {LONGEST} >/dev/null & echo '@@ here'"
    ))?;
    while guest.hear()? != "here" {}
    Ok(End::Console(RefCell::new(guest)))
}

/// What leads the switch to the controller in the guest.
fn relay(driver: &Driver, lab: &str) -> Result<Running> {
    let words = ["relay", OPENFLOW, &format!("{CONTROL}:{OPENFLOW}"), LONGEST];
    Place::node(driver, lab, "c")?.peer(&words)?.ready()
}

/// The settings of a router, with the accelerator of a machine.
fn noted(driver: &Driver, way: Way) -> Result<String> {
    let settings = way.settings();
    let version = match way.machine() {
        None => return Ok(settings.to_owned()),
        Some(Machine::Uml) => format!("User-mode Linux {}", crate::vm::uml()),
        Some(Machine::Qemu { .. }) => {
            let shown = driver.json(&["-l", way.lab(), "node", "show", "r", "--json"])?;
            let pid = shown["pid"].as_u64().context("a machine without a process")?;
            let accelerator = guest::accelerator(u32::try_from(pid)?);
            let accelerator = accelerator.unwrap_or_else(|| "an unknown accelerator".to_owned());
            format!("{}, {accelerator}", crate::vm::qemu_version())
        }
    };
    Ok(format!("{settings}; {version}, one processor"))
}
