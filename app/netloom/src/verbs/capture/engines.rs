//! Engines for targets: each opens in the namespace of its interface, and reopens when the interface returns.
//!
//! An engine in a node releases its resources there as soon as the node ends, so a capture never blocks a
//! lab's teardown.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use netloom_capture::engine::{
    Direction, InterfaceKind, Machine, Pcap, Ring, Switch, Tpacket, TpacketOptions, Wish,
};
use netloom_capture::{
    Counts, Description, Engine, EngineKind, Filler, Reopen, Round, Source, choose,
};
use netloom_ebpf::capture::{TapOptions, Where};
use netloom_filter::Program;
use netloom_libpcap::LiveOptions;
use netloom_model::Plan;
use netloom_model::lookup::target::{Mirrored, Point};
use netloom_netlink::{LinkInfo, Socket};
use netloom_shm::{JoinOptions, SwitchPort};
use netloom_switch::control::requests::{Answer, PortShown, Request, Shown};
use netloom_switch::rules::{self, Mirror};
use netloom_sys::process;

use crate::flags::{Capture, CaptureDirection, CaptureEngine};
use crate::output::count;
use crate::spaces::{Spaces, interface, run_in};

/// A snapshot length that fits any frame, for libpcap.
const WHOLE: u32 = 262_144;

/// The capture filter.
pub(super) struct Filter {
    /// In libpcap syntax; empty for all frames.
    text: String,
    program: Option<Program>,
}

impl Filter {
    /// Compiles an expression in which hosts may be nodes of a lab.
    ///
    /// # Errors
    /// libpcap's own message if the expression is wrong or libpcap is missing.
    pub(super) fn compile(text: &str, plan: Option<&Plan>) -> Result<Filter> {
        let addresses = |name: &str| -> Option<Vec<IpAddr>> {
            let plan = plan?;
            let node = &plan.nodes[plan.node(name)?];
            let all = node.interfaces.iter().flat_map(|i| &i.addresses);
            Some(all.map(|address| address.addr()).collect())
        };
        let text = netloom_filter::expand::expand(text.trim(), &addresses)
            .map_err(|e| crate::Usage(e.to_string()))?;
        if text.is_empty() {
            return Ok(Filter { text, program: None });
        }
        match netloom_libpcap::compile(&text, WHOLE) {
            Ok(program) => Ok(Filter { text, program: Some(program) }),
            Err(e @ netloom_libpcap::Error::Expression { .. }) => {
                Err(crate::Usage(e.to_string()).into())
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// Engine options that do not depend on the interface.
#[derive(Clone)]
struct Wanted {
    wish: Wish,
    machine: Arc<Machine>,
    filter: Option<Program>,
    text: Option<String>,
    snaplen: u32,
    ring: usize,
    threads: usize,
    promiscuous: bool,
    /// Whether frames are merged in time order with those of other interfaces.
    merged: bool,
}

impl Wanted {
    fn of(args: &Capture, filter: &Filter, merged: bool) -> Result<Wanted> {
        let direction = match args.direction {
            CaptureDirection::Both => Direction::Both,
            CaptureDirection::In => Direction::In,
            CaptureDirection::Out => Direction::Out,
        };
        let engine = match args.engine {
            CaptureEngine::Auto => None,
            CaptureEngine::Tpacket => Some(EngineKind::Tpacket),
            CaptureEngine::XdpRing => Some(EngineKind::XdpRing),
            CaptureEngine::TcRing => Some(EngineKind::TcRing),
            CaptureEngine::Switch => Some(EngineKind::Switch),
            CaptureEngine::Pcap => Some(EngineKind::Pcap),
        };
        Ok(Wanted {
            wish: Wish { engine, fast: args.fast, direction },
            machine: Arc::new(Machine::probe()),
            filter: filter.program.clone(),
            text: Some(filter.text.clone()).filter(|text| !text.is_empty()),
            snaplen: args.snaplen,
            ring: usize::try_from(args.ring).context("--ring: more than can be addressed")?,
            threads: args.threads.into(),
            promiscuous: args.promiscuous,
            merged,
        })
    }
}

/// An interface to capture from.
#[derive(Clone)]
struct Spot {
    wanted: Wanted,
    init: Option<Arc<OwnedFd>>,
    /// Its name in its namespace, and in the lab.
    name: String,
    shown: String,
    /// Its number in the file.
    number: u32,
    only_in: bool,
}

/// Sources for interfaces, numbered from 0.
pub(super) fn open(
    spaces: &Spaces,
    plan: Option<&Plan>,
    points: &[Point],
    filter: &Filter,
    args: &Capture,
) -> Result<Vec<Source>> {
    if points.is_empty() {
        return Ok(vec![]);
    }
    let wanted = Wanted::of(args, filter, points.len() > 1)?;
    let mut told: Vec<(String, Vec<&str>)> = vec![];
    let mut sources = vec![];
    for (number, point) in points.iter().enumerate() {
        let spot = Spot {
            wanted: wanted.clone(),
            init: spaces.init(&point.place),
            name: point.interface.clone(),
            shown: point.name.clone(),
            number: u32::try_from(number)?,
            only_in: point.only_in,
        };
        let (mut source, words) = spot.source(plan, point)?;
        source.statistics = args.statistics.as_ref().map(|dir| dir.join(file_name(&point.name)));
        match told.iter_mut().find(|(those, _)| *those == words) {
            Some((_, names)) => names.push(&point.name),
            None => told.push((words, vec![&point.name])),
        }
        sources.push(source);
    }
    if !args.quiet {
        told.iter().for_each(|(words, names)| eprintln!("{}: {words}", those(names, args.all)));
    }
    Ok(sources)
}

/// Interfaces captured in one way: the name, or their number.
fn those(names: &[&str], links: bool) -> String {
    match names {
        [one] => (*one).to_owned(),
        many => count(many.len(), if links { "link" } else { "interface" }),
    }
}

/// A file name for an interface.
fn file_name(shown: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    format!("{}.txt", shown.chars().map(plain).collect::<String>())
}

impl Spot {
    fn source(&self, plan: Option<&Plan>, point: &Point) -> Result<(Source, String)> {
        let (engines, link, addresses, words) = run_in(self.init.as_deref(), || {
            let link = interface(&self.name, &self.shown)?;
            let (parts, words) = self.choose(&link)?;
            let engines: Vec<_> =
                parts.iter().map(|part| self.engines(*part, &link)).collect::<Result<_>>()?;
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
            filter: self.wanted.text.clone(),
            mac: link.mac,
            addresses,
            snaplen: self.wanted.snaplen,
            ..Description::default()
        };
        let single = engines.len() == 1 || self.wanted.threads == 1;
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
            None if link.name == "lo" => InterfaceKind::Loopback,
            None => InterfaceKind::Card,
            Some(_) => InterfaceKind::Other,
        };
        let mut wish = self.wanted.wish;
        if self.only_in {
            wish.direction = match wish.direction {
                Direction::Both | Direction::In => Direction::In,
                Direction::Out => Direction::Out,
            };
        }
        let refused = |why: String| anyhow!("interface {:?}: {why}", self.shown);
        let fastest = wish.fast || wish.engine == Some(EngineKind::XdpRing);
        if fastest && wish.direction == Direction::Both {
            // XDP for ingress, tc for egress.
            let half = Wish { direction: Direction::In, ..wish };
            let choice = choose(kind, &self.wanted.machine, &half).map_err(refused)?;
            if choice.engine == EngineKind::XdpRing {
                let both =
                    [(EngineKind::XdpRing, Direction::In), (EngineKind::TcRing, Direction::Out)];
                return Ok((both.to_vec(), format!("xdp-ring in, tc-ring out: {}", choice.reason)));
            }
        }
        let choice = choose(kind, &self.wanted.machine, &wish).map_err(refused)?;
        let words = format!("{}: {}", choice.engine, choice.reason);
        Ok((vec![(choice.engine, choice.direction)], words))
    }

    /// The engines of a kind, opened in the calling thread's namespace.
    fn engines(
        &self,
        (kind, direction): (EngineKind, Direction),
        link: &LinkInfo,
    ) -> Result<Vec<Box<dyn Engine>>> {
        let object = || format!("interface {:?}: capture by {kind}", self.shown);
        let wanted = &self.wanted;
        let one = |engine: Box<dyn Engine>| vec![engine];
        match kind {
            EngineKind::Tpacket => {
                let options = TpacketOptions {
                    threads: wanted.threads,
                    ring: wanted.ring,
                    snaplen: wanted.snaplen,
                    promiscuous: wanted.promiscuous,
                    direction,
                    filter: wanted.filter.clone(),
                };
                let rings = Tpacket::open(link.index, &options).with_context(object)?;
                Ok(rings.into_iter().map(|ring| Box::new(ring) as Box<dyn Engine>).collect())
            }
            EngineKind::XdpRing | EngineKind::TcRing => {
                let at = if kind == EngineKind::XdpRing { Where::Xdp } else { Where::Tc };
                let options = TapOptions {
                    ingress: direction != Direction::Out,
                    egress: direction != Direction::In,
                    snaplen: wanted.snaplen,
                    interface: self.number,
                    bytes_per_cpu: wanted.ring,
                    filter: wanted.filter.clone(),
                    direction: direction == Direction::Both,
                    others: wanted.wish.fast,
                    veth: link.kind.as_deref() == Some("veth"),
                    ..TapOptions::at(at)
                };
                Ok(one(Box::new(Ring::attach(link.index, &options).with_context(object)?)))
            }
            EngineKind::Pcap => {
                let options = LiveOptions {
                    snaplen: if wanted.snaplen == 0 { WHOLE } else { wanted.snaplen },
                    buffer_bytes: wanted.ring,
                    promiscuous: wanted.promiscuous,
                    filter: wanted.text.clone(),
                    // Frames that others wait for must not be delayed further.
                    timeout_ms: if wanted.merged { 10 } else { 0 },
                    ..LiveOptions::default()
                };
                Ok(one(Box::new(Pcap::open(&link.name, &options).with_context(object)?)))
            }
            EngineKind::Switch => Err(anyhow!("interface {:?}: it is no switch", self.shown)),
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
                let part = parts.get(number).copied().context("no such engine")?;
                spot.engines(part, &link)
            });
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
        self.last = engine.counts()?;
        finished
    }

    fn lag(&self) -> Duration {
        self.engine.as_ref().map_or(Duration::ZERO, |engine| engine.lag())
    }

    fn counts(&mut self) -> netloom_capture::Result<Counts> {
        match &mut self.engine {
            Some(engine) => engine.counts(),
            None => Ok(self.last),
        }
    }
}

/// Mirror ports on shared-memory switches.
pub(super) struct Mirrors(Vec<(String, SwitchPort)>);

impl Mirrors {
    /// Joins each switch and requests copies. The mirror sessions end with the ports, even if this process is
    /// killed.
    pub(super) fn join(spaces: &Spaces, lab: Option<&str>, wanted: &[Mirrored]) -> Result<Mirrors> {
        let mut ports = vec![];
        for (number, mirrored) in wanted.iter().enumerate() {
            let client = spaces.client().context("switches are of labs")?;
            let object = || format!("switch {:?}", mirrored.switch);
            let address = super::super::plug::switch(lab, &mirrored.switch)?;
            let name = format!("capture:{}.{number}", std::process::id());
            let port = SwitchPort::join(&JoinOptions {
                reconnect: false,
                only_copies: true,
                ..JoinOptions::new(&address.path, &name)
            });
            let port = port.with_context(|| format!("switch {:?}: join", mirrored.switch))?;
            let shown = match client.ask_switch(&mirrored.switch, &Request::Show)? {
                Answer::Shown(shown) => shown,
                _ => return Err(anyhow!("{}: a strange answer", object())),
            };
            let sources = sources(&shown, port.number(), &mirrored.ports).with_context(object)?;
            let mirror = Mirror {
                to: port.number(),
                sources,
                filter: "all".parse().map_err(|_| anyhow!("all"))?,
                temporary: true,
            };
            client.ask_switch(&mirrored.switch, &Request::AddMirror(mirror))?;
            let shown = match mirrored.ports.first() {
                Some(port) => format!("{}/{port}", mirrored.switch),
                None => mirrored.switch.clone(),
            };
            ports.push((shown, port));
        }
        Ok(Mirrors(ports))
    }

    /// Sources, numbered after those of interfaces.
    pub(super) fn sources(self, filter: &Filter, args: &Capture) -> Vec<Source> {
        let source = |(shown, port): (String, SwitchPort)| {
            let description = Description {
                name: format!("switch:{shown}"),
                description: format!("copies of port {}", port.number()),
                filter: Some(filter.text.clone()).filter(|text| !text.is_empty()),
                snaplen: args.snaplen,
                ..Description::default()
            };
            let statistics =
                args.statistics.as_ref().map(|dir| dir.join(file_name(&description.name)));
            let engine = Box::new(Switch::new(port, filter.program.clone()));
            Source { statistics, ..Source::new(description, engine) }
        };
        self.0.into_iter().map(source).collect()
    }
}

/// Mirror sources: named ports in both directions, or else all ports on ingress, so each frame is copied
/// once.
fn sources(shown: &Shown, own: u16, names: &[String]) -> Result<Vec<rules::Source>> {
    let others = shown.ports.iter().filter(|p| p.number != own);
    if names.is_empty() {
        let all = others.map(|p| rules::Source { port: p.number, direction: rules::Direction::In });
        let all: Vec<_> = all.collect();
        return if all.is_empty() { Err(anyhow!("nobody is on it")) } else { Ok(all) };
    }
    let find = |name: &String| {
        let number = name.parse::<u16>().ok();
        let same = |p: &&PortShown| number.map_or(p.name == *name, |number| p.number == number);
        let port =
            others.clone().find(same).ok_or_else(|| anyhow!("port {name:?}: there is none"))?;
        Ok(rules::Source { port: port.number, direction: rules::Direction::Both })
    };
    names.iter().map(find).collect()
}
