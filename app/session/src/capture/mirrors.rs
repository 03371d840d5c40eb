//! Captures of shared-memory switches: mirror ports, and the requests for copies to them.

use std::sync::atomic::{AtomicU32, Ordering};

use netloom_capture::engine::Switch;
use netloom_capture::{Description, Source};
use netloom_model::lookup::target::Mirrored;
use netloom_shm::{JoinOptions, SwitchPort};
use netloom_switch::control::requests::{Answer, PortShown, Request, Shown};
use netloom_switch::rules::{self, Mirror};

use super::Wanted;
use super::engines::file_name;
use super::filter::Filter;
use crate::{Error, Result, Spaces, switch};

/// Mirror ports on shared-memory switches, each with the name of what it gets copies of.
pub(super) struct Mirrors(Vec<(String, SwitchPort)>);

impl Mirrors {
    /// Joins each switch and requests copies. The mirror sessions end with the ports, even if this process is
    /// killed.
    pub(super) fn join(spaces: &Spaces, lab: Option<&str>, wanted: &[Mirrored]) -> Result<Mirrors> {
        // A recorder joins again for links that come later, beside ports that it has.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let joined = wanted.iter().map(|mirrored| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("capture:{}.{number}", std::process::id());
            join(spaces, lab, mirrored, &name)
        });
        Ok(Mirrors(joined.collect::<Result<_>>()?))
    }

    /// Sources, numbered after those of interfaces.
    pub(super) fn sources(self, filter: &Filter, wanted: &Wanted) -> Vec<Source> {
        let source = |(shown, port): (String, SwitchPort)| {
            let description = Description {
                name: format!("switch:{shown}"),
                description: format!("copies of port {}", port.number()),
                filter: filter.text(),
                snaplen: wanted.snaplen,
                ..Description::default()
            };
            let statistics =
                wanted.statistics.as_ref().map(|dir| dir.join(file_name(&description.name)));
            let engine = Box::new(Switch::new(port, filter.program.clone()));
            Source { statistics, ..Source::new(description, engine) }
        };
        self.0.into_iter().map(source).collect()
    }
}

/// Joins a switch under this name.
fn join(
    spaces: &Spaces,
    lab: Option<&str>,
    mirrored: &Mirrored,
    name: &str,
) -> Result<(String, SwitchPort)> {
    let (running, _) = spaces.lab()?;
    let object = || format!("switch {:?}", mirrored.switch);
    let address = switch::address(lab, &mirrored.switch)?;
    let port = SwitchPort::join(&JoinOptions {
        // A switch that was restarted knows nothing of the mirror, and would copy nothing.
        reconnect: false,
        only_copies: true,
        ..JoinOptions::at(&address, name)
    });
    let port = port.map_err(Error::joining(&mirrored.switch))?;
    let ask = |request| running.ask_switch(&mirrored.switch, &request).map_err(Error::Lab);
    let Answer::Shown(shown) = ask(Request::Show)? else {
        return Err(Error::unfit(object(), "a strange answer"));
    };
    let sources = sources(&shown, port.number(), &mirrored.ports)
        .map_err(|reason| Error::unfit(object(), reason))?;
    let mirror = Mirror {
        to: port.number(),
        sources,
        filter: "all".parse().map_err(|_| Error::unfit(object(), "all"))?,
        temporary: true,
    };
    ask(Request::AddMirror(mirror))?;
    let shown = match mirrored.ports.first() {
        Some(port) => format!("{}/{port}", mirrored.switch),
        None => mirrored.switch.clone(),
    };
    Ok((shown, port))
}

/// Mirror sources: named ports in both directions, or else all ports on ingress, so each frame is copied
/// once; or why there are none.
fn sources(shown: &Shown, own: u16, names: &[String]) -> Result<Vec<rules::Source>, String> {
    let others = shown.ports.iter().filter(|p| p.number != own);
    if names.is_empty() {
        let all = others.map(|p| rules::Source { port: p.number, direction: rules::Direction::In });
        let all: Vec<_> = all.collect();
        return if all.is_empty() { Err("nobody is on it".to_owned()) } else { Ok(all) };
    }
    let find = |name: &String| {
        let number = name.parse::<u16>().ok();
        let same = |p: &&PortShown| number.map_or(p.name == *name, |number| p.number == number);
        let port =
            others.clone().find(same).ok_or_else(|| format!("port {name:?}: there is none"))?;
        Ok(rules::Source { port: port.number, direction: rules::Direction::Both })
    };
    names.iter().map(find).collect()
}
