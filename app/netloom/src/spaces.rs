//! The network namespaces of a verb that carries frames: resolves targets, opens doors.
//!
//! The caller's own process does the work: a short-lived thread enters a namespace and opens what is needed
//! there; descriptors work everywhere. Namespaces are held by their inits' pidfds, which do not keep them
//! alive: a node can go down at any time.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, Result};
use netloom_api::Client;
use netloom_model::Plan;
use netloom_model::lookup::target::{self, Mirrored, Place, Point, Target};
use netloom_netlink::{LinkInfo, Socket};
use netloom_sys::namespace;

use crate::labs;

/// The namespaces of a verb.
pub(crate) struct Spaces {
    lab: Option<(Client, Plan)>,
    inits: BTreeMap<Place, Arc<OwnedFd>>,
    /// One of the places is the host.
    on_host: bool,
    /// The lab's user namespace, if this process has not entered it yet.
    outside: Option<Arc<OwnedFd>>,
}

/// The resolved targets.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) points: Vec<Point>,
    pub(crate) mirrors: Vec<Mirrored>,
}

impl Spaces {
    /// Resolves targets; with `all`, every link. Contacts a lab only if a target is in one.
    pub(crate) fn find(
        lab: Option<&str>,
        targets: &[String],
        all: bool,
    ) -> Result<(Spaces, Found)> {
        let only_host = !all && lab.is_none() && targets.iter().all(|t| target::host(t).is_some());
        let lab = if only_host { None } else { Some(connect(lab)?) };
        let mut found = Found::default();
        for text in targets {
            let target = match (&lab, target::host(text)) {
                (Some((_, plan)), _) => target::resolve(plan, text)?,
                (None, Some(point)) => Target::Points(vec![point]),
                (None, None) => continue,
            };
            match target {
                Target::Points(points) => found.points.extend(points),
                Target::Mirror(mirror) => found.mirrors.push(mirror),
            }
        }
        if let Some((_, plan)) = lab.as_ref().filter(|_| all) {
            found.points = target::all(plan);
        }
        let mut seen = std::collections::BTreeSet::new();
        found.points.retain(|p| seen.insert((p.place.clone(), p.interface.clone())));
        let mut spaces = Spaces {
            lab,
            inits: BTreeMap::new(),
            on_host: found.points.iter().any(|p| p.place == Place::Host),
            outside: None,
        };
        for point in &found.points {
            spaces.open(&point.place)?;
        }
        Ok((spaces, found))
    }

    /// A lab without any open door.
    pub(crate) fn of_lab(lab: Option<&str>) -> Result<Spaces> {
        let lab = Some(connect(lab)?);
        Ok(Spaces { lab, inits: BTreeMap::new(), on_host: false, outside: None })
    }

    /// The lab's plan.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.lab.as_ref().map(|(_, plan)| plan)
    }

    /// The connection to the lab.
    pub(crate) fn client(&self) -> Option<&Client> {
        self.lab.as_ref().map(|(client, _)| client)
    }

    /// Opens the door to a place.
    pub(crate) fn open(&mut self, place: &Place) -> Result<()> {
        let Some((client, _)) = &self.lab else { return Ok(()) };
        let door = match place {
            Place::Host => return Ok(()),
            _ if self.inits.contains_key(place) => return Ok(()),
            Place::Node(node) => client.door(node)?,
            Place::Core => client.core()?,
        };
        door.check_entry()?;
        let init = Arc::new(door.init);
        if door.user {
            self.outside = Some(Arc::clone(&init));
        }
        self.inits.insert(place.clone(), init);
        Ok(())
    }

    /// Enters the lab's user namespace, if it has one: once, before any other thread starts, and after
    /// everything that needs the caller's rights is open.
    pub(crate) fn enter(&mut self) -> Result<()> {
        match self.outside.take() {
            Some(init) => namespace::enter_user(&*init).context("enter the lab's user namespace"),
            None => Ok(()),
        }
    }

    /// Whether none of the places is the host.
    pub(crate) fn only_nodes(&self) -> bool {
        !self.inits.is_empty() && !self.on_host
    }

    /// The inits of all places.
    pub(crate) fn inits(&self) -> impl Iterator<Item = &OwnedFd> {
        self.inits.values().map(|init| &**init)
    }

    /// The init whose end ends a place; `None` for the host.
    pub(crate) fn init(&self, place: &Place) -> Option<Arc<OwnedFd>> {
        self.inits.get(place).cloned()
    }
}

fn connect(lab: Option<&str>) -> Result<(Client, Plan)> {
    let client = labs::connect(lab)?;
    let plan = client.plan()?;
    Ok((client, plan))
}

/// Runs `f` in the network namespace of an init, or in the caller's.
pub(crate) fn run_in<T: Send>(
    init: Option<&OwnedFd>,
    f: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    match init {
        None => f(),
        Some(init) => {
            let run = || f().map_err(Inside);
            namespace::run_in(init.as_fd(), "netloom-open", run).map_err(|inside| inside.0)
        }
    }
}

/// An error of [`namespace`] or of the code that ran inside.
struct Inside(anyhow::Error);

impl From<netloom_sys::Error> for Inside {
    fn from(error: netloom_sys::Error) -> Inside {
        Inside(error.into())
    }
}

/// An interface in the calling thread's network namespace.
pub(crate) fn interface(name: &str, shown: &str) -> Result<LinkInfo> {
    let found = Socket::open_to_ask().and_then(|mut socket| socket.link(name));
    found
        .with_context(|| format!("interface {shown:?}: find"))?
        .with_context(|| format!("interface {shown:?}: there is none of this name here"))
}
