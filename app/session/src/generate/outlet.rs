//! The sending or receiving end: an interface in its namespace, or a port of a switch.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netloom_generate::{
    Announced, Engine, FarEnd, Generator, Receive, ReceiveOptions, ReceiveReport, ReplayOptions,
    ReplayReport, Replayer, SendReport, Senders, Spec, SwitchPort, Target,
};
use netloom_lab::{Folder, runtime_dir};
use netloom_model::Plan;
use netloom_model::lookup::target::{Point, Space};
use netloom_model::plan::PlannedEnd;
use netloom_netlink::{LinkInfo, Socket};
use netloom_shm::JoinOptions;
use netloom_sys::{Failure, process};
use netloom_traffic::{Addresses, SentFrames};

use super::addressing::{Addressing, Destination};
use crate::spaces::{interface, run_in};
use crate::{Error, Lab, Result, Spaces, switch};

/// The folder of receivers' sockets.
const RECEIVERS: &str = "receivers";

/// How often a recording that keeps its reader waiting looks whether it is to be read on.
const LOOK: Duration = Duration::from_millis(100);

/// A resolved target.
pub struct Outlet {
    spaces: Spaces,
    end: End,
    /// The folder in which senders find receivers. Looked up before the lab's user namespace is entered, where this user
    /// has another id.
    meeting_place: netloom_lab::Result<PathBuf>,
}

enum End {
    /// An interface, with namespace and name of its peer if that is known.
    Interface { point: Point, far: Option<(Arc<OwnedFd>, String)> },
    /// A port that was joined.
    Port(Box<SwitchPort>),
}

impl Outlet {
    /// Resolves a target; `sends`: frames will be sent there. `name` is the lab's name if the caller gave one.
    ///
    /// # Errors
    /// [`Error::Request`] for a target that is not one interface or one switch, and for receiving at a switch;
    /// errors of [`Spaces::find`]; a switch that cannot be joined.
    pub fn find(
        lab: Option<Box<dyn Lab>>,
        name: Option<&str>,
        text: &str,
        sends: bool,
    ) -> Result<Outlet> {
        let (mut spaces, found) = Spaces::find(lab, &[text.to_owned()], false)?;
        let end = match (found.points.as_slice(), found.mirrors.as_slice()) {
            ([point], []) => {
                let far = if sends { far(&mut spaces, point)? } else { None };
                End::Interface { point: point.clone(), far }
            }
            ([], [mirror]) if mirror.ports.is_empty() && sends => {
                End::Port(join(name, &mirror.switch)?)
            }
            (points, _) => {
                let all: Vec<&str> = points.iter().map(|p| p.name.as_str()).collect();
                let what = match all.as_slice() {
                    [] => "a port of a switch cannot be used here".to_owned(),
                    all => format!("it is several interfaces, name one: {}", all.join(", ")),
                };
                return Err(Error::Request(format!("target {text:?}: {what}")));
            }
        };
        let meeting_place = meeting_place(spaces.plan());
        Ok(Outlet { spaces, end, meeting_place })
    }

    /// Source and destination of frames sent from here.
    ///
    /// # Errors
    /// As [`Addressing::find`].
    pub fn way(&self, destination: &Destination) -> Result<Addressing> {
        let point = match &self.end {
            End::Interface { point, .. } => Some(point),
            End::Port(_) => None,
        };
        Addressing::find(self.spaces.plan(), point, destination)
    }

    /// Enters the lab's user namespace, if any, before any other thread starts.
    ///
    /// # Errors
    /// [`Error::UserNamespace`].
    pub fn enter(&mut self) -> Result<()> {
        self.spaces.enter()
    }

    /// Sends frames on this way, as `spec` says for their addresses, until they are sent or `stop` is set. Receivers in
    /// the same lab are told.
    ///
    /// # Errors
    /// [`Error::NoSource`], [`Error::Generate`]; an interface that is not there any more.
    pub fn send(
        self,
        way: &Addressing,
        engine: Engine,
        spec: impl FnOnce(Addresses) -> Spec + Send,
        stop: &AtomicBool,
    ) -> Result<SendReport> {
        run(self.spaces, self.end, |target, link| {
            let spec = spec(way.addresses(link)?);
            let (stream, to) = (spec.stream, spec.addresses.target);
            let mut generator = Generator::open(target, engine, spec)?;
            // Receivers say that they are not told where the folder cannot be used.
            let folder = self.meeting_place.ok();
            let announced = folder.map(|folder| Announced::begin(&folder, stream, to));
            let report = generator.run(stop)?;
            let offered = report.frames_sent + report.frames_refused;
            let sent = SentFrames { offered, refused: report.frames_refused };
            announced.into_iter().for_each(|announced| announced.end(sent));
            Ok(report)
        })
    }

    /// Receives stamped frames until the options say that it is enough, or `stop` is set; calls `ready` when
    /// frames are received from then on: with the reason if senders cannot tell what they send.
    ///
    /// # Errors
    /// [`Error::Request`] for a switch, [`Error::Generate`]; an interface that is not there any more.
    pub fn receive(
        self,
        options: ReceiveOptions,
        ready: impl FnOnce(Option<Error>) + Send,
        stop: &AtomicBool,
    ) -> Result<ReceiveReport> {
        run(self.spaces, self.end, |_, link| {
            let nowhere = "a switch is received from at a node's interface";
            let link = link.ok_or_else(|| Error::Request(nowhere.to_owned()))?;
            let mut receive = Receive::open(link.index, options)?;
            let place = self.meeting_place.map_err(|e| Error::Lab(e.into()));
            let untold = match place.and_then(|folder| Ok(Senders::listen(&folder)?)) {
                Ok(senders) => {
                    receive.heed(senders, own_addresses());
                    None
                }
                Err(e) => Some(e),
            };
            ready(untold);
            receive.run(stop)?;
            Ok(receive.report(&[]))
        })
    }

    /// Sends the frames of a recording, until they are sent or `stop` is set.
    ///
    /// # Errors
    /// [`Error::Failed`], [`Error::Generate`]; an interface that is not there any more.
    pub fn replay(
        self,
        file: &Path,
        engine: Engine,
        options: ReplayOptions,
        stop: &AtomicBool,
    ) -> Result<ReplayReport> {
        run(self.spaces, self.end, |target, _| {
            let mut replayer = Replayer::open(target, engine, options)?;
            let open = || File::open(file).map(|file| Recording { file, stop });
            let played = replayer.run(open, stop);
            played.map_err(|e| Failure::path(file, "play", e).into())
        })
    }
}

/// A recording that is read until `stop` is set: a pipe may keep its reader waiting for as long as its writer wants.
struct Recording<'s> {
    file: File,
    stop: &'s AtomicBool,
}

impl Read for Recording<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        while !process::wait_readable(&self.file, LOOK) {
            if self.stop.load(Ordering::Relaxed) {
                // The end of the file, as far as the replayer sees; `stop` tells it why.
                return Ok(0);
            }
        }
        self.file.read(room)
    }
}

/// Runs `f` in the interface's namespace; a switch has no interface.
fn run<T: Send>(
    spaces: Spaces,
    end: End,
    f: impl FnOnce(Target, Option<&LinkInfo>) -> Result<T> + Send,
) -> Result<T> {
    let (point, far) = match end {
        End::Interface { point, far } => (point, far),
        End::Port(port) => return f(Target::Switch(port), None),
    };
    let far = match far {
        None => None,
        Some((init, name)) => {
            let link = run_in(Some(&*init), || interface(&name, &name))?;
            let netns = init.try_clone().map_err(Error::Copy)?;
            Some(FarEnd { netns, index: link.index })
        }
    };
    let init = spaces.init(&point.space);
    run_in(init.as_deref(), || {
        let link = interface(&point.interface, &point.name)?;
        f(Target::Interface { index: link.index, far }, Some(&link))
    })
}

/// The folder in which senders find receivers: the lab's own, or one that all others of this user share.
fn meeting_place(plan: Option<&Plan>) -> netloom_lab::Result<PathBuf> {
    let runtime = runtime_dir()?;
    Ok(match plan {
        Some(plan) => Folder::new(&runtime, &plan.lab).path().join(RECEIVERS),
        None => runtime.join(format!(".{RECEIVERS}")),
    })
}

/// The addresses of the calling thread's network namespace, none if they cannot be read.
fn own_addresses() -> Vec<IpAddr> {
    let found = Socket::open_to_ask().and_then(|mut socket| socket.addresses());
    found.unwrap_or_default().iter().map(|own| own.address.addr()).collect()
}

/// Joins a switch to send to it; `lab` is the lab's name if the caller gave one.
fn join(lab: Option<&str>, switch: &str) -> Result<Box<SwitchPort>> {
    let address = switch::address(lab, switch)?;
    let name = format!("generate:{}", std::process::id());
    let options = JoinOptions { reconnect: false, ..JoinOptions::at(&address, &name) };
    Ok(Box::new(SwitchPort::join(&options).map_err(Error::joining(switch))?))
}

/// The other end of a point's link, if it is an interface of the lab.
fn far(spaces: &mut Spaces, point: &Point) -> Result<Option<(Arc<OwnedFd>, String)>> {
    let other = spaces.plan().and_then(|plan| other_end(plan, point));
    let Some((space, name)) = other else { return Ok(None) };
    spaces.open(&space)?;
    Ok(spaces.init(&space).map(|init| (init, name)))
}

/// Space and name of the interface at the other end of a point's link.
fn other_end(plan: &Plan, point: &Point) -> Option<(Space, String)> {
    let link = &plan.links[plan.link(point.link.as_deref()?)?];
    let all: Vec<(Space, String)> = link
        .ends
        .iter()
        .filter_map(|end| match end {
            PlannedEnd::Node { node, interface } => {
                let node = &plan.nodes[*node];
                let name = node.interfaces[*interface].name.clone();
                Some((Space::Node(node.name.clone()), name))
            }
            PlannedEnd::Port { switch, name, .. }
                if plan.switches[*switch].kind.forwards_at_ports() =>
            {
                Some((Space::Core, name.clone()))
            }
            _ => None,
        })
        .collect();
    let own = |(space, name): &(Space, String)| *space == point.space && *name == point.interface;
    match all.iter().position(own) {
        Some(at) => all.into_iter().enumerate().find(|(i, _)| *i != at).map(|(_, end)| end),
        None => None,
    }
}
