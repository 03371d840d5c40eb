//! Two virtual machines on one network, and streams between them.

use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::guest::Guest;
use super::image::{Image, program};
use super::way::Way;
use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::openflow::vswitch;
use crate::running::{Running, number};
use crate::vde::VdeSwitch;

/// Addresses of the machines.
const ADDRESSES: [&str; 2] = ["10.99.7.1", "10.99.7.2"];
/// Seconds of a stream before it is counted, and while.
const TIMES: [&str; 2] = ["0.4", "0.8"];
const PORT: &str = "5001";
/// The switch of machines that are joined by VDE in a node.
const SOCKET: &str = "/tmp/switch";
/// A file of netloom's that a VDE program loads.
const PLUGIN: &str = "libvdeplug_netloom.so";

/// What the machines are joined to; ends after them.
#[derive(Default)]
struct Net {
    _plugs: Vec<Daemon>,
    _switch: Option<VdeSwitch>,
    _running: Option<Running>,
}

/// Two machines, and what joins them.
pub(super) struct Guests {
    both: [Guest; 2],
    _net: Net,
}

/// Two machines that are up.
pub(super) enum Pair<'a> {
    /// Driven over their consoles.
    Guests(Box<Guests>),
    /// Machines of a lab.
    Lab { driver: &'a Driver, lab: String },
}

impl<'a> Pair<'a> {
    /// Boots them, or says why this way is missing.
    pub(super) fn up(driver: &'a Driver, image: &Image, way: Way) -> Result<Pair<'a>> {
        for name in way.programs() {
            program(name)?;
        }
        let lab = format!("vm-{}", way.name());
        let (mut net, mut guests) = (Net::default(), vec![]);
        match way {
            Way::UmlOwn => return own_machines(driver, lab),
            Way::UmlVde => uml_on_vde(driver, image, &lab, &mut net, &mut guests)?,
            _ => qemu(driver, image, way, &lab, &mut net, &mut guests)?,
        }
        let mut guests: [Guest; 2] = guests.try_into().ok().context("two guests")?;
        for guest in &mut guests {
            guest.hear()?;
        }
        let wait = format!(
            "while ! ping -c 1 -W 1 {} >/dev/null; do :; done; echo '@@ joined'",
            ADDRESSES[0]
        );
        guests[1].tell(&wait)?;
        guests[1].hear()?;
        Ok(Pair::Guests(Box::new(Guests { both: guests, _net: net })))
    }

    /// Gb/s of one TCP stream from the second to the first.
    pub(super) fn stream(&mut self) -> Result<f64> {
        match self {
            Pair::Guests(guests) => console_stream(&mut guests.both),
            Pair::Lab { driver, lab } => {
                let [skip, time] = TIMES;
                let sink = driver.peer(lab, "a", &["tcp-sink", PORT, skip, time])?.ready()?;
                let to = format!("{}:{PORT}", ADDRESSES[0]);
                let source = driver.peer(lab, "b", &["tcp-source", &to, "0", "20"])?;
                let rate = number(&sink.result()?, "bytes_per_s")?;
                source.result()?;
                Ok(rate * 8e-9)
            }
        }
    }
}

/// User-mode Linux machines of a lab, on its shared-memory switch.
fn own_machines(driver: &Driver, lab: String) -> Result<Pair<'_>> {
    let machine = "{kind: vm, accel: uml, memory: 192MiB}";
    let link = |node: &str, address: &str| {
        format!("  - {{ends: [{node}, s], addresses: {{{node}: {address}/24}}}}\n")
    };
    let links = link("a", ADDRESSES[0]) + &link("b", ADDRESSES[1]);
    let text = format!(
        "nodes: {{a: {machine}, b: {machine}}}\nswitches: {{s: {{kind: shm}}}}\nlinks:\n{links}"
    );
    driver.up(&driver.lab_file(&lab, &text)?)?;
    Ok(Pair::Lab { driver, lab })
}

/// User-mode Linux machines on a vde_switch, all in a node, with which they end.
fn uml_on_vde(
    driver: &Driver,
    image: &Image,
    lab: &str,
    net: &mut Net,
    guests: &mut Vec<Guest>,
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
    net._plugs.push(switch.until(there)?);
    for (number, own) in (1..).zip(ADDRESSES) {
        let card = format!("eth0=vde,{SOCKET},52:54:00:00:00:{number:02x}");
        guests.push(Guest::uml(image, exec(), own, number, &card)?);
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
) -> Result<()> {
    if let Err(why) = &image.kernel {
        return Err(anyhow!(why.clone()));
    }
    match way {
        Way::Vde => net._switch = Some(VdeSwitch::start(driver, "guests")?),
        Way::VhostUser | Way::Plugin => {
            driver.up(&driver.lab_file(lab, "switches: {s: {kind: shm}}\n")?)?;
        }
        _ => taps(driver, way, lab, net)?,
    }
    for (number, own) in (1..).zip(ADDRESSES) {
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
                let switch = net._switch.as_ref().context("a switch")?;
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
        guests.push(Guest::qemu(image, enter, own, number, &card)?);
    }
    Ok(())
}

/// Two taps in a node, on a bridge or on Open vSwitch.
fn taps(driver: &Driver, way: Way, lab: &str, net: &mut Net) -> Result<()> {
    driver.up(&driver.lab_file(lab, "nodes: {hub: {}}\n")?)?;
    let script =
        "for n in 1 2; do ip tuntap add t$n mode tap $1 && ip link set t$n up || exit 1; done";
    let vector = if way == Way::Vswitch { "" } else { "vnet_hdr" };
    output(inside(driver, lab, "hub", "sh")?.args(["-c", script, "sh", vector]))?;
    if way == Way::Vswitch {
        let folder = driver.folder().join("guests.ovs");
        let ports = ["t1", "t2"].map(str::to_owned);
        net._running = Some(vswitch::start(driver, lab, "hub", &folder, &ports, None)?);
        return Ok(());
    }
    let script = "ip link add br0 type bridge && ip link set br0 up && \
                  ip link set t1 master br0 && ip link set t2 master br0";
    output(inside(driver, lab, "hub", "sh")?.args(["-c", script])).map(drop)
}

/// A port by vhost-user: its plug, and QEMU's words for it.
fn vhost_card(driver: &Driver, lab: &str, number: u8, net: &mut Net) -> Result<Vec<String>> {
    let path = driver.folder().join(format!("card{number}"));
    let mut plug = driver.command();
    plug.arg("plug").arg(format!("vhost-user:{}", path.display())).arg(format!("{lab}.s"));
    let plug = Daemon::start(driver, &mut plug, &format!("plug{number}"))?;
    net._plugs.push(plug.until(|_| path.exists())?);
    let socket = format!("socket,id=c,path={},reconnect=1", path.display());
    let words = ["-chardev", &socket, "-netdev", "vhost-user,id=n,chardev=c"];
    Ok(words.map(str::to_owned).into())
}

/// A stream between machines that are driven over their consoles.
fn console_stream([sink, source]: &mut [Guest; 2]) -> Result<f64> {
    let [skip, time] = TIMES;
    let take = format!(
        "netloom bench-peer tcp-sink {PORT} {skip} {time} | sed 's/^/@@ /'; echo '@@ ended'"
    );
    sink.tell(&take)?;
    // `sed` passes lines on as they come only at their end: the listener is there once its socket is.
    let give = format!(
        "until netloom bench-peer tcp-source {}:{PORT} 0 20 >/dev/null 2>&1; do :; done; echo '@@ gave'",
        ADDRESSES[0]
    );
    source.tell(&give)?;
    let mut rate = None;
    loop {
        let line = sink.hear()?;
        if line == "ended" {
            break;
        }
        let printed: Option<serde_json::Value> = serde_json::from_str(&line).ok();
        rate = rate.or(printed.and_then(|value| value["bytes_per_s"].as_f64()));
    }
    source.hear()?;
    Ok(rate.context("a stream between guests gave no figure")? * 8e-9)
}
