//! Machines that are up, and what joins them: a switch, or a bridge. They are measured in pairs.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use super::guest::Guest;
use super::image::{Image, program};
use super::way::Way;
use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::openflow::vswitch;
use crate::processes::{cpu_ns, memory, tree};
use crate::running::{Running, number};
use crate::vde::VdeSwitch;

/// Seconds of a stream before it is counted, and while.
const TIMES: [&str; 2] = ["0.4", "0.8"];
/// Ports of streams and datagrams.
const PORTS: [&str; 2] = ["5001", "5002"];
/// Bytes of data of a datagram that fills a frame of 1,500 bytes.
const DATA: &str = "1472";
/// The switch of machines that are joined by VDE in a node.
const SOCKET: &str = "/tmp/switch";
/// A file of netloom's that a VDE program loads.
const PLUGIN: &str = "libvdeplug_netloom.so";

/// The address of a machine, numbered from 1.
pub(super) fn address(number: usize) -> String {
    format!("10.99.7.{number}")
}

/// The other machine of its pair.
fn partner(number: usize) -> usize {
    if number.is_multiple_of(2) { number - 1 } else { number + 1 }
}

/// What the machines are joined to; ends after them.
#[derive(Default)]
pub(super) struct Net {
    plugs: Vec<Daemon>,
    pub(super) switch: Option<VdeSwitch>,
    running: Option<Running>,
}

impl Net {
    /// Holds a program until the machines have ended.
    pub(super) fn keep(&mut self, plug: Daemon) {
        self.plugs.push(plug);
    }
}

/// Machines that are up, on one switch.
pub(super) struct Machines<'a> {
    driver: &'a Driver,
    way: Way,
    lab: String,
    count: usize,
    /// Those that are driven over their consoles; none if they are nodes of the lab.
    guests: Vec<Guest>,
    net: Net,
}

/// CPU time in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub(super) guests: u64,
    /// `None` if the kernel is the switch.
    pub(super) switch: Option<u64>,
}

/// Datagrams of all machines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Datagrams {
    pub(super) sent: f64,
    pub(super) came: f64,
    /// Those that our switch's ports dropped or missed.
    pub(super) dropped: Option<u64>,
}

impl<'a> Machines<'a> {
    /// Boots them, or says why this way is missing.
    pub(super) fn up(
        driver: &'a Driver,
        image: &Image,
        way: Way,
        count: usize,
    ) -> Result<Machines<'a>> {
        for name in way.programs() {
            program(name)?;
        }
        let lab = format!("vm-{}", way.name());
        let (mut net, mut guests) = (Net::default(), vec![]);
        match way {
            Way::UmlOwn => own_machines(driver, &lab, count)?,
            Way::UmlVde => uml_on_vde(driver, image, &lab, &mut net, &mut guests, count)?,
            _ => qemu(driver, image, way, &lab, &mut net, &mut guests, count)?,
        }
        for guest in &mut guests {
            guest.hear()?;
        }
        for (at, guest) in guests.iter_mut().enumerate() {
            let to = address(partner(at + 1));
            let wait =
                format!("while ! ping -c 1 -W 1 {to} >/dev/null; do :; done; echo '@@ joined'");
            guest.tell(&wait)?;
            guest.hear()?;
        }
        Ok(Machines { driver, way, lab, count, guests, net })
    }

    /// Gb/s of one TCP stream from the second to the first of each pair of the first `count`, together.
    pub(super) fn streams(&mut self, count: usize) -> Result<f64> {
        let [skip, time] = TIMES;
        let [port, _] = PORTS;
        if self.guests.is_empty() {
            let (mut sinks, mut sources) = (vec![], vec![]);
            for sink in (1..=count).step_by(2) {
                sinks.push(self.peer(sink, &["tcp-sink", port, skip, time])?.ready()?);
            }
            for sink in (1..=count).step_by(2) {
                let to = format!("{}:{port}", address(sink));
                sources.push(self.peer(sink + 1, &["tcp-source", &to, "0", "20"])?);
            }
            let mut sum = 0.0;
            for sink in sinks {
                sum += number(&sink.result()?, "bytes_per_s")?;
            }
            sources.into_iter().try_for_each(|source| source.result().map(drop))?;
            return Ok(sum * 8e-9);
        }
        for (at, guest) in self.guests.iter_mut().enumerate().take(count) {
            guest.tell(&match at.is_multiple_of(2) {
                true => take(),
                false => give(&address(at)),
            })?;
        }
        let mut sum = 0.0;
        for (at, guest) in self.guests.iter_mut().enumerate().take(count) {
            let said = until_ended(guest)?;
            if at.is_multiple_of(2) {
                sum += found(&said, "bytes_per_s").context("a stream gave no figure")?;
            }
        }
        Ok(sum * 8e-9)
    }

    /// One datagram a frame for a second, from each of the first `count` to its partner, `rate` a second.
    pub(super) fn datagrams(&mut self, count: usize, rate: f64) -> Result<Datagrams> {
        let before = self.dropped()?;
        let [_, port] = PORTS;
        let (each, pace) = (format!("{:.0}", rate.max(1.0)), format!("{:.0}", rate.max(1.0)));
        let mut all = Datagrams::default();
        if self.guests.is_empty() {
            let sinks =
                (1..=count).map(|n| self.peer(n, &["udp-sink", port, "count", "30"])?.ready());
            let sinks = sinks.collect::<Result<Vec<_>>>()?;
            let sources = (1..=count).map(|n| {
                let to = format!("{}:{port}", address(partner(n)));
                self.peer(n, &["udp-source", &to, DATA, &each, &pace, "8"])
            });
            for source in sources.collect::<Result<Vec<_>>>()? {
                all.sent += number(&source.result()?, "sent")?;
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
            for sink in sinks {
                all.came += number(&sink.end()?, "distinct")?;
            }
        } else {
            for (at, guest) in self.guests.iter_mut().enumerate().take(count) {
                let to = format!("{}:{port}", address(partner(at + 1)));
                // The sink ends a while after its input has: it hears the partner's last datagram.
                guest.tell(&format!(
                    "sleep 3 | netloom-bench peer udp-sink {port} count 30 | sed 's/^/@@ /' & sleep 1; \
                     netloom-bench peer udp-source {to} {DATA} {each} {pace} 8 | sed 's/^/@@ /'; wait; \
                     echo '@@ ended'"
                ))?;
            }
            for guest in self.guests.iter_mut().take(count) {
                let said = until_ended(guest)?;
                all.sent += found(&said, "sent").context("no datagrams were sent")?;
                all.came += found(&said, "distinct").context("nobody counted datagrams")?;
            }
        }
        let after = self.dropped()?;
        all.dropped = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Ok(all)
    }

    /// CPU time so far of the first machines, and of what joins them.
    pub(super) fn spent(&self) -> Result<Spent> {
        let of_nodes = match self.guests.is_empty() {
            true => self.of_nodes()?,
            false => vec![],
        };
        let (machines, others): (Vec<u32>, Vec<u32>) =
            of_nodes.into_iter().partition(|pid| is_machine(*pid));
        let mut guests = cpu_ns(&machines);
        for guest in &self.guests {
            guests += cpu_ns(&tree(guest.pid()));
        }
        let switch = self.switch_processes()?;
        let all: Vec<u32> = switch.into_iter().chain(others).collect();
        Ok(Spent { guests, switch: (!all.is_empty()).then(|| cpu_ns(&all)) })
    }

    /// Bytes of memory of what joins the machines, for each of them; `None` if the kernel is the switch.
    pub(super) fn memory(&self) -> Result<Option<f64>> {
        let mut all = self.switch_processes()?;
        if self.guests.is_empty() {
            all.extend(self.of_nodes()?.into_iter().filter(|pid| !is_machine(*pid)));
        }
        #[expect(clippy::cast_precision_loss, reason = "memory below 2^53 bytes, few machines")]
        Ok((!all.is_empty()).then(|| memory(&all) as f64 / self.count as f64))
    }

    /// The processes of nodes that are machines.
    fn of_nodes(&self) -> Result<Vec<u32>> {
        let mut all = vec![];
        for number in 1..=self.count {
            let shown = self.shown("node", &format!("g{number}"))?;
            let pid = shown["pid"].as_u64().context("a node without a process")?;
            all.extend(tree(u32::try_from(pid)?));
        }
        Ok(all)
    }

    /// The processes of what joins the machines.
    fn switch_processes(&self) -> Result<Vec<u32>> {
        let plugs = self.net.plugs.iter().map(Daemon::pid);
        let mut all: BTreeSet<u32> = plugs.flat_map(tree).collect();
        all.extend(self.net.switch.iter().map(VdeSwitch::pid));
        all.extend(self.net.running.iter().flat_map(|running| tree(running.pid())));
        if self.way.is_own() {
            let shown = self.shown("switch", "s")?;
            let pid = |of: &Value| u32::try_from(of["pid"].as_u64()?).ok();
            all.extend(pid(&shown));
            let ports = shown["ports"].as_array().into_iter().flatten();
            // With the plug-in a port's process is the machine.
            all.extend(ports.filter_map(pid).filter(|pid| !is_machine(*pid)));
        }
        Ok(all.into_iter().collect())
    }

    /// Frames that our switch's ports dropped or missed; `None` for others' switches.
    fn dropped(&self) -> Result<Option<u64>> {
        if !self.way.is_own() {
            return Ok(None);
        }
        let shown = self.shown("switch", "s")?;
        let ports = shown["ports"].as_array().into_iter().flatten();
        let counters = ports.filter_map(|port| port["counters"].as_object()).flatten();
        let lost = counters.filter(|(name, _)| name.starts_with("dropped_") || *name == "missed");
        Ok(Some(lost.filter_map(|(_, count)| count.as_u64()).sum()))
    }

    fn shown(&self, what: &str, name: &str) -> Result<Value> {
        self.driver.json(&["-l", &self.lab, what, "show", name, "--json"])
    }

    fn peer(&self, number: usize, words: &[&str]) -> Result<Running> {
        self.driver.peer(&self.lab, &format!("g{number}"), words)
    }
}

/// Whether a process runs a machine.
fn is_machine(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = String::from_utf8_lossy(line.split(|byte| *byte == 0).next().unwrap_or_default());
    [super::guest::UML, super::guest::QEMU].iter().any(|name| program.ends_with(name))
}

/// What a machine's console is told to take a stream, and to give one.
pub(super) fn take() -> String {
    let ([skip, time], [port, _]) = (TIMES, PORTS);
    format!("netloom-bench peer tcp-sink {port} {skip} {time} | sed 's/^/@@ /'; echo '@@ ended'")
}

pub(super) fn give(to: &str) -> String {
    let [port, _] = PORTS;
    // `sed` passes lines on as they come only at their end: the listener is there once its socket is.
    format!(
        "until netloom-bench peer tcp-source {to}:{port} 0 20 >/dev/null 2>&1; do :; done; echo '@@ ended'"
    )
}

/// What a machine says until it has ended its part.
pub(super) fn until_ended(guest: &mut Guest) -> Result<Vec<Value>> {
    let mut said = vec![];
    loop {
        let line = guest.hear()?;
        if line == "ended" {
            return Ok(said);
        }
        said.extend(serde_json::from_str(&line).ok());
    }
}

/// A number of this name in what a machine said.
pub(super) fn found(said: &[Value], name: &str) -> Option<f64> {
    said.iter().find_map(|value| value[name].as_f64())
}

/// User-mode Linux machines of a lab, on its shared-memory switch.
fn own_machines(driver: &Driver, lab: &str, count: usize) -> Result<()> {
    let all = |each: fn(usize) -> String| (1..=count).map(each).collect::<String>();
    let nodes = all(|n| format!("  g{n}: {{kind: vm, accel: uml, memory: 192MiB}}\n"));
    let links = all(|n| {
        let address = address(n);
        format!("  - {{ends: [g{n}, s], addresses: {{g{n}: {address}/24}}}}\n")
    });
    let text = format!("nodes:\n{nodes}switches: {{s: {{kind: shm}}}}\nlinks:\n{links}");
    driver.up(&driver.lab_file(lab, &text)?).map(drop)
}

/// User-mode Linux machines on a vde_switch, all in a node, with which they end.
fn uml_on_vde(
    driver: &Driver,
    image: &Image,
    lab: &str,
    net: &mut Net,
    guests: &mut Vec<Guest>,
    count: usize,
) -> Result<()> {
    driver.up(&driver.lab_file(lab, "nodes: {hub: {}}\n")?)?;
    let exec = || {
        let mut command = driver.command();
        command.args(["-l", lab, "exec", "hub", "--"]);
        command
    };
    let mut switch = exec();
    switch.args(["vde_switch", "-s", SOCKET]);
    let switch = Daemon::start(driver, &mut switch, lab)?;
    let there = |_: &Daemon| {
        exec().args(["test", "-S", &format!("{SOCKET}/ctl")]).status().is_ok_and(|s| s.success())
    };
    net.plugs.push(switch.until(there)?);
    for number in 1..=count {
        let card = format!("eth0=vde,{SOCKET},52:54:00:00:00:{number:02x}");
        guests.push(Guest::uml(image, exec(), &address(number), number, &card)?);
    }
    Ok(())
}

/// QEMU's machines.
fn qemu(
    driver: &Driver,
    image: &Image,
    way: Way,
    lab: &str,
    net: &mut Net,
    guests: &mut Vec<Guest>,
    count: usize,
) -> Result<()> {
    if let Err(why) = &image.kernel {
        return Err(anyhow!(why.clone()));
    }
    match way {
        Way::Vde => net.switch = Some(VdeSwitch::start(driver, "guests")?),
        Way::VhostUser | Way::Plugin => {
            driver.up(&driver.lab_file(lab, "switches: {s: {kind: shm}}\n")?)?;
        }
        _ => taps(driver, way, lab, net, count)?,
    }
    for number in 1..=count {
        let mut enter = Command::new("setpriv");
        let card = match way {
            Way::VhostUser => vhost_card(driver, lab, number, net)?,
            Way::Plugin => {
                // libvdeplug then finds no other plug-in.
                let folder = driver.exe().parent().context("the binary lies nowhere")?;
                anyhow::ensure!(
                    folder.join(PLUGIN).exists(),
                    "no {PLUGIN} in {}",
                    folder.display()
                );
                enter.env("VDEPLUGIN_PATH", folder).env("NETLOOM_RUNTIME_DIR", driver.runtime());
                vec!["-netdev".to_owned(), format!("vde,id=n,sock=netloom://{lab}.s")]
            }
            Way::Vde => {
                let switch = net.switch.as_ref().context("a switch")?;
                vec!["-netdev".to_owned(), format!("vde,id=n,sock={}", switch.address()?)]
            }
            _ => {
                enter = inside(driver, lab, "hub", "setpriv")?;
                // Open vSwitch's userspace takes no super-frames of a tap.
                let header = if way == Way::Vswitch { ",vnet_hdr=off" } else { "" };
                let tap = format!("tap,id=n,ifname=t{number},script=no,downscript=no,vhost=off");
                vec!["-netdev".to_owned(), tap + header]
            }
        };
        guests.push(Guest::qemu(image, enter, &address(number), number, &card)?);
    }
    Ok(())
}

/// Taps in a node, on a bridge or on Open vSwitch.
fn taps(driver: &Driver, way: Way, lab: &str, net: &mut Net, count: usize) -> Result<()> {
    driver.up(&driver.lab_file(lab, "nodes: {hub: {}}\n")?)?;
    let script = "for n in $(seq $2); do ip tuntap add t$n mode tap $1 && ip link set t$n up || exit 1; done";
    let many = count.to_string();
    let vector = if way == Way::Vswitch { "" } else { "vnet_hdr" };
    output(inside(driver, lab, "hub", "sh")?.args(["-c", script, "sh", vector, &many]))?;
    if way == Way::Vswitch {
        let folder = driver.folder().join("guests.ovs");
        let ports: Vec<String> = (1..=count).map(|n| format!("t{n}")).collect();
        net.running = Some(vswitch::start(driver, lab, "hub", &folder, &ports, None)?);
        return Ok(());
    }
    let script = "ip link add br0 type bridge && ip link set br0 up && \
                  for n in $(seq $1); do ip link set t$n master br0 || exit 1; done";
    output(inside(driver, lab, "hub", "sh")?.args(["-c", script, "sh", &many])).map(drop)
}

/// A port by vhost-user: its plug, and QEMU's words for it.
pub(super) fn vhost_card(
    driver: &Driver,
    lab: &str,
    number: usize,
    net: &mut Net,
) -> Result<Vec<String>> {
    let path = driver.folder().join(format!("card{number}"));
    let mut plug = driver.command();
    plug.arg("plug").arg(format!("vhost-user:{}", path.display())).arg(format!("{lab}.s"));
    let plug = Daemon::start(driver, &mut plug, &format!("plug{number}"))?;
    net.plugs.push(plug.until(|_| path.exists())?);
    let socket = format!("socket,id=c,path={},reconnect=1", path.display());
    let words = ["-chardev", &socket, "-netdev", "vhost-user,id=n,chardev=c"];
    Ok(words.map(str::to_owned).into())
}
