//! Engines for targets: each opens in the namespace of its interface, and reopens when the interface returns.
//!
//! An engine in a node releases its resources there as soon as the node ends, so a capture never blocks a
//! lab's teardown.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use netloom_capture::engine::{
    Direction, Impossible, InterfaceKind, Machine, Pcap, Ring, Tpacket, TpacketOptions, Wish,
};
use netloom_capture::{
    Counts, Description, Engine, EngineKind, Filler, Reopen, Round, Source, choose,
};
use netloom_ebpf::capture::{TapOptions, Where};
use netloom_filter::Program;
use netloom_libpcap::LiveOptions;
use netloom_model::Plan;
use netloom_model::lookup::target::Point;
use netloom_netlink::{LinkInfo, Socket};
use netloom_sys::{Failure, process};

use super::filter::{Filter, WHOLE};
use super::{Choice, Wanted, sink};
use crate::spaces::{interface, run_in};
use crate::{Error, Result, Spaces};

/// Engine options that do not depend on the interface.
#[derive(Clone)]
struct Common {
    wish: Wish,
    machine: Arc<Machine>,
    filter: Option<Program>,
    text: Option<String>,
    whole_text: Option<String>,
    snaplen: u32,
    ring: usize,
    threads: usize,
    promiscuous: bool,
    /// Whether frames are merged in time order with those of other interfaces.
    merged: bool,
}

impl Common {
    fn of(wanted: &Wanted, filter: &Filter, merged: bool) -> Common {
        Common {
            wish: wanted.wish,
            machine: Arc::new(Machine::probe()),
            filter: filter.program.clone(),
            text: filter.text(),
            whole_text: filter.whole(),
            snaplen: wanted.snaplen,
            ring: wanted.ring,
            threads: wanted.threads,
            promiscuous: wanted.promiscuous,
            merged,
        }
    }
}

/// An interface to capture from.
#[derive(Clone)]
struct Tapped {
    common: Common,
    init: Option<Arc<OwnedFd>>,
    /// Its name in its namespace, and in the lab.
    name: String,
    shown: String,
    /// Its number in the file.
    number: u32,
    only_in: bool,
}

/// Sources for interfaces, numbered from 0, and how each is captured.
pub(super) fn open(
    spaces: &Spaces,
    plan: Option<&Plan>,
    points: &[Point],
    filter: &Filter,
    wanted: &Wanted,
) -> Result<(Vec<Source>, Vec<Choice>)> {
    if points.is_empty() {
        return Ok((vec![], vec![]));
    }
    let common = Common::of(wanted, filter, points.len() > 1);
    let mut all = (vec![], vec![]);
    for (number, point) in (0..).zip(points) {
        let spot = Tapped {
            common: common.clone(),
            init: spaces.init(&point.space),
            name: point.interface.clone(),
            shown: point.name.clone(),
            number,
            only_in: point.only_in,
        };
        let (mut source, reason) = spot.source(plan, point)?;
        source.statistics = wanted.statistics.as_ref().map(|dir| dir.join(file_name(&point.name)));
        all.0.push(source);
        all.1.push(Choice { interface: point.name.clone(), reason });
    }
    Ok(all)
}

/// A file name for an interface.
pub(super) fn file_name(shown: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    format!("{}.txt", shown.chars().map(plain).collect::<String>())
}

impl Tapped {
    fn source(&self, plan: Option<&Plan>, point: &Point) -> Result<(Source, String)> {
        let (engines, link, addresses, words) = run_in(self.init.as_deref(), || {
            let link = interface(&self.name, &self.shown)?;
            let (parts, words) = self.choose(&link)?;
            let engines: Vec<_> =
                parts.iter().map(|part| self.engines(*part, &link)).collect::<Result<_>>()?;
            // Only describe the interface in the file: a capture goes without them, too.
            let addresses = addresses(link.index).unwrap_or_default();
            Ok((engines.into_iter().flatten().collect::<Vec<_>>(), link, addresses, words))
        })?;
        let lab = plan.map(|plan| format!("lab {}, ", plan.lab)).unwrap_or_default();
        let description = Description {
            name: self.shown.clone(),
            description: match &point.link {
                Some(link) => format!("{lab}link {link}"),
                None => format!("{lab}interface {}", self.name),
            },
            filter: self.common.text.clone(),
            mac: link.mac,
            addresses,
            snaplen: self.common.snaplen,
            ..Description::default()
        };
        let single = engines.len() == 1 || self.common.threads == 1;
        let source = Source {
            description,
            engines: engines.into_iter().map(|engine| self.watched(engine)).collect(),
            // Threads that share frames must be reopened together.
            reopen: single.then(|| self.reopen()),
            statistics: None,
        };
        Ok((source, words))
    }

    /// The engines, each with its direction, and the reason for the choice.
    fn choose(&self, link: &LinkInfo) -> Result<(Vec<(EngineKind, Direction)>, String)> {
        let kind = match link.kind.as_deref() {
            Some("veth") => InterfaceKind::Veth,
            // A card has no kind (IFLA_INFO_KIND) either: only the name tells them apart.
            None if link.name == "lo" => InterfaceKind::Loopback,
            None => InterfaceKind::Card,
            Some(_) => InterfaceKind::Other,
        };
        let mut wish = self.common.wish;
        if self.only_in {
            wish.direction = match wish.direction {
                Direction::Both | Direction::In => Direction::In,
                Direction::Out => Direction::Out,
            };
        }
        let refused = |why: Impossible| {
            let interface = format!("interface {:?}", self.shown);
            match why {
                Impossible::Unfit(why) => Error::unfit(interface, why),
                missing => Failure::new(interface, "choose engine", missing).into(),
            }
        };
        let sink = if wish.sink { sink::words(link) } else { String::new() };
        let fastest = wish.fast || wish.sink || wish.engine == Some(EngineKind::XdpRing);
        if fastest && wish.direction == Direction::Both {
            // XDP for ingress, tc for egress.
            let half = Wish { direction: Direction::In, ..wish };
            let choice = choose(kind, &self.common.machine, &half).map_err(refused)?;
            if choice.engine == EngineKind::XdpRing {
                let both =
                    [(EngineKind::XdpRing, Direction::In), (EngineKind::TcRing, Direction::Out)];
                let words = format!("xdp-ring in, tc-ring out: {}{sink}", choice.reason);
                return Ok((both.to_vec(), words));
            }
        }
        let choice = choose(kind, &self.common.machine, &wish).map_err(refused)?;
        let words = format!("{}: {}{sink}", choice.engine, choice.reason);
        Ok((vec![(choice.engine, choice.direction)], words))
    }

    /// The engines of a kind, opened in the calling thread's namespace.
    fn engines(
        &self,
        (kind, direction): (EngineKind, Direction),
        link: &LinkInfo,
    ) -> Result<Vec<Box<dyn Engine>>> {
        let refused =
            |source| Error::Engine { interface: self.shown.clone(), engine: kind, source };
        let common = &self.common;
        let one = |engine: Box<dyn Engine>| vec![engine];
        match kind {
            EngineKind::Tpacket => {
                let options = TpacketOptions {
                    threads: common.threads,
                    ring: common.ring,
                    snaplen: common.snaplen,
                    promiscuous: common.promiscuous,
                    direction,
                    filter: common.filter.clone(),
                };
                let rings = Tpacket::open(link.index, &options).map_err(refused)?;
                Ok(rings.into_iter().map(|ring| Box::new(ring) as Box<dyn Engine>).collect())
            }
            EngineKind::XdpRing | EngineKind::TcRing => {
                let at = if kind == EngineKind::XdpRing { Where::Xdp } else { Where::Tc };
                let options = TapOptions {
                    ingress: direction != Direction::Out,
                    egress: direction != Direction::In,
                    snaplen: common.snaplen,
                    interface: self.number,
                    bytes_per_cpu: common.ring,
                    filter: common.filter.clone(),
                    direction: direction == Direction::Both,
                    others: common.wish.sink,
                    veth: link.kind.as_deref() == Some("veth"),
                    ..TapOptions::at(at)
                };
                Ok(one(Box::new(Ring::attach(link.index, &options).map_err(refused)?)))
            }
            EngineKind::Pcap => {
                let options = LiveOptions {
                    snaplen: if common.snaplen == 0 { WHOLE } else { common.snaplen },
                    buffer_bytes: common.ring,
                    promiscuous: common.promiscuous,
                    filter: common.whole_text.clone(),
                    // Frames that others wait for must not be delayed further.
                    timeout_ms: if common.merged { 10 } else { 0 },
                    ..LiveOptions::default()
                };
                Ok(one(Box::new(Pcap::open(&link.name, &options).map_err(refused)?)))
            }
            EngineKind::Switch => {
                Err(Error::unfit(format!("interface {:?}", self.shown), "it is not a switch"))
            }
        }
    }

    fn watched(&self, engine: Box<dyn Engine>) -> Box<dyn Engine> {
        match &self.init {
            None => engine,
            Some(init) => Box::new(Watched {
                init: Arc::clone(init),
                engine: Some(engine),
                last: Counts::default(),
            }),
        }
    }

    /// Reopens an engine once the interface exists again.
    fn reopen(&self) -> Reopen {
        let spot = self.clone();
        Box::new(move |number| {
            let opened = run_in(spot.init.as_deref(), || {
                let link = interface(&spot.name, &spot.shown)?;
                let (parts, _) = spot.choose(&link)?;
                let part = parts.get(number).copied();
                part.map_or(Ok(vec![]), |part| spot.engines(part, &link))
            });
            // Whatever failed is tried again: the interface may be there and not yet set up.
            opened.ok()?.into_iter().next().map(|engine| spot.watched(engine))
        })
    }
}

fn addresses(index: u32) -> Result<Vec<(IpAddr, u8)>> {
    let all = Socket::open_to_ask()?.addresses()?;
    let own = all.into_iter().filter(|a| a.link == index);
    Ok(own.map(|a| (a.address.addr(), a.address.prefix_len())).collect())
}

/// An engine in a node, which ends with the node.
struct Watched {
    init: Arc<OwnedFd>,
    engine: Option<Box<dyn Engine>>,
    last: Counts,
}

impl Engine for Watched {
    fn round(&mut self, into: &mut Filler, wait: Duration) -> netloom_capture::Result<Round> {
        if process::has_ended(self.init.as_fd()) {
            self.finish(into)?;
        }
        match &mut self.engine {
            Some(engine) => engine.round(into, wait),
            None => Ok(Round::Gone),
        }
    }

    fn finish(&mut self, into: &mut Filler) -> netloom_capture::Result<()> {
        let Some(mut engine) = self.engine.take() else { return Ok(()) };
        let finished = engine.finish(into);
        // Kept, since the engine's own go with it.
        self.last = engine.counts()?;
        finished
    }

    fn lag(&self) -> Duration {
        self.engine.as_ref().map_or(Duration::ZERO, |engine| engine.lag())
    }

    fn heeds_calls(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.heeds_calls())
    }

    fn counts(&mut self) -> netloom_capture::Result<Counts> {
        match &mut self.engine {
            Some(engine) => engine.counts(),
            None => Ok(self.last),
        }
    }
}
