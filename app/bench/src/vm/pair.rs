//! Two virtual machines on one network, and streams between them.

use std::process::Command;

use anyhow::{Context, Result};

use super::guest::{Guest, Image, program};
use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;
use crate::vde::{self, VdeSwitch};

/// Addresses of the machines.
const ADDRESSES: [&str; 2] = ["10.99.7.1", "10.99.7.2"];
/// Seconds of a stream before it is counted, and while.
const TIMES: [&str; 2] = ["0.5", "1.5"];

/// What joins the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    VhostUser,
    Vde,
    Tap,
}

impl Way {
    pub(super) const ALL: [Way; 3] = [Way::VhostUser, Way::Vde, Way::Tap];

    pub(super) fn title(self) -> &'static str {
        match self {
            Way::VhostUser => "netloom, vhost-user",
            Way::Vde => "vde_switch",
            Way::Tap => "tap + bridge",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::VhostUser => "vhost",
            Way::Vde => "vde",
            Way::Tap => "tap",
        }
    }
}

/// What the machines are joined to; ends after them.
#[derive(Default)]
struct Net {
    _plugs: Vec<Daemon>,
    _switch: Option<VdeSwitch>,
}

/// Two machines that are up.
pub(super) struct Pair {
    guests: [Guest; 2],
    _net: Net,
}

impl Pair {
    /// Boots them, or says why this way is missing.
    pub(super) fn up(driver: &Driver, image: &Image, way: Way) -> Result<Pair> {
        let mut net = Net::default();
        let lab = format!("vm-{}", way.name());
        let enter = || -> Result<Command> { Ok(Command::new(program("setpriv")?)) };
        let mut guests = vec![];
        match way {
            Way::Vde => {
                vde::version().context("no vde_switch")?;
                let switch = VdeSwitch::start(driver, "guests")?;
                let card = format!("vde,id=n,sock={}", switch.address()?);
                net._switch = Some(switch);
                for (number, own) in (1..).zip(ADDRESSES) {
                    let card = ["-netdev".to_owned(), card.clone()];
                    guests.push(Guest::start(image, enter()?, own, number, &card)?);
                }
            }
            Way::VhostUser => {
                let text = "switches: {s: {kind: shm}}\n";
                driver.up(&driver.lab_file(&lab, text)?)?;
                for (number, own) in (1..).zip(ADDRESSES) {
                    let path = driver.folder().join(format!("card{number}"));
                    let mut plug = driver.command();
                    plug.arg("plug").arg(format!("vhost-user:{}", path.display()));
                    plug.arg(format!("{lab}.s"));
                    let plug = Daemon::start(driver, &mut plug, &format!("plug{number}"))?;
                    net._plugs.push(plug.until(|_| path.exists())?);
                    let socket = format!("socket,id=c,path={},reconnect=1", path.display());
                    let words = ["-chardev", &socket, "-netdev", "vhost-user,id=n,chardev=c"];
                    let card = words.map(str::to_owned);
                    guests.push(Guest::start(image, enter()?, own, number, &card)?);
                }
            }
            Way::Tap => {
                driver.up(&driver.lab_file(&lab, "nodes: {hub: {}}\n")?)?;
                let script = "ip link add br0 type bridge && ip link set br0 up && for n in 1 2; do \
                              ip tuntap add t$n mode tap && ip link set t$n master br0 up || exit 1; done";
                let mut make = inside(driver, &lab, "hub", "sh")?;
                output(make.args(["-c", script]))?;
                for (number, own) in (1..).zip(ADDRESSES) {
                    let tap =
                        format!("tap,id=n,ifname=t{number},script=no,downscript=no,vhost=off");
                    let card = ["-netdev".to_owned(), tap];
                    let enter = inside(driver, &lab, "hub", "setpriv")?;
                    guests.push(Guest::start(image, enter, own, number, &card)?);
                }
            }
        }
        let guests: [Guest; 2] = guests.try_into().ok().context("two guests")?;
        let mut pair = Pair { guests, _net: net };
        for guest in &mut pair.guests {
            guest.hear()?;
        }
        let wait = format!(
            "while ! ping -c 1 -W 1 {} >/dev/null; do :; done; echo '@@ joined'",
            ADDRESSES[0]
        );
        pair.guests[1].tell(&wait)?;
        pair.guests[1].hear()?;
        Ok(pair)
    }

    /// Gb/s of one TCP stream from the second to the first.
    pub(super) fn stream(&mut self) -> Result<f64> {
        let [skip, time] = TIMES;
        let [sink, source] = &mut self.guests;
        let take = format!(
            "netloom bench-peer tcp-sink 5001 {skip} {time} | sed 's/^/@@ /'; echo '@@ ended'"
        );
        sink.tell(&take)?;
        // `sed` passes lines on as they come only at their end: the listener is there once its socket is.
        let give = format!(
            "until netloom bench-peer tcp-source {}:5001 0 20 >/dev/null 2>&1; do :; done; echo '@@ gave'",
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
}
