//! The sending end: an interface in its namespace, or a port of a switch.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, Result};
use netloom_generate::{FarEnd, SwitchPort, Target};
use netloom_model::Plan;
use netloom_model::lookup::target::{Place, Point};
use netloom_model::plan::PlannedEnd;
use netloom_netlink::LinkInfo;
use netloom_shm::JoinOptions;

use super::way::Way;
use crate::Usage;
use crate::flags::Generate;
use crate::spaces::{Spaces, interface, run_in};

/// A resolved target.
pub(super) struct Outlet {
    spaces: Spaces,
    point: Option<Point>,
    port: Option<Box<SwitchPort>>,
    /// Namespace and name of the interface's peer.
    far: Option<(Arc<OwnedFd>, String)>,
}

impl Outlet {
    /// Resolves a target; `sends`: frames will be sent there.
    pub(super) fn find(lab: Option<&str>, text: &str, sends: bool) -> Result<Outlet> {
        let (mut spaces, found) = Spaces::find(lab, &[text.to_owned()], false)?;
        match (found.points.as_slice(), found.mirrors.as_slice()) {
            ([point], []) => {
                let far = if sends { far(&mut spaces, point)? } else { None };
                Ok(Outlet { spaces, point: Some(point.clone()), port: None, far })
            }
            ([], [mirror]) if mirror.ports.is_empty() && sends => {
                let address = super::super::plug::switch(lab, &mirror.switch)?;
                let name = format!("generate:{}", std::process::id());
                let options =
                    JoinOptions { reconnect: false, ..JoinOptions::new(&address.path, &name) };
                let port = SwitchPort::join(&options)
                    .with_context(|| format!("switch {:?}: join", mirror.switch))?;
                Ok(Outlet { spaces, point: None, port: Some(Box::new(port)), far: None })
            }
            (points, _) => {
                let all: Vec<&str> = points.iter().map(|p| p.name.as_str()).collect();
                let what = match all.as_slice() {
                    [] => "a port of a switch cannot be used here".to_owned(),
                    all => format!("it is several interfaces, name one: {}", all.join(", ")),
                };
                Err(Usage(format!("target {text:?}: {what}")).into())
            }
        }
    }

    /// Source and destination of the frames.
    pub(super) fn way(&self, args: &Generate) -> Result<Way> {
        Way::find(self.spaces.plan(), self.point.as_ref(), args)
    }

    /// Enters the lab's user namespace, if any, before any other thread starts.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.spaces.enter()
    }

    /// Runs `f` in the interface's namespace; a switch has no interface.
    pub(super) fn run<T: Send>(
        mut self,
        f: impl FnOnce(Target, Option<&LinkInfo>) -> Result<T> + Send,
    ) -> Result<T> {
        let Some(point) = self.point.take() else {
            let port = self.port.take().context("no port was joined")?;
            return f(Target::Switch(port), None);
        };
        let far = match self.far.take() {
            None => None,
            Some((init, name)) => {
                let link = run_in(Some(&*init), || interface(&name, &name))?;
                let netns = init.try_clone().context("copy a descriptor of the other end")?;
                Some(FarEnd { netns, index: link.index })
            }
        };
        let init = self.spaces.init(&point.place);
        run_in(init.as_deref(), || {
            let link = interface(&point.interface, &point.name)?;
            f(Target::Interface { index: link.index, far }, Some(&link))
        })
    }
}

/// The other end of a point's link, if it is an interface of the lab.
fn far(spaces: &mut Spaces, point: &Point) -> Result<Option<(Arc<OwnedFd>, String)>> {
    let other = spaces.plan().and_then(|plan| other_end(plan, point));
    let Some((place, name)) = other else { return Ok(None) };
    spaces.open(&place)?;
    Ok(spaces.init(&place).map(|init| (init, name)))
}

/// Place and name of the interface at the other end of a point's link.
fn other_end(plan: &Plan, point: &Point) -> Option<(Place, String)> {
    let link = &plan.links[plan.link(point.link.as_deref()?)?];
    let all: Vec<(Place, String)> = link
        .ends
        .iter()
        .filter_map(|end| match end {
            PlannedEnd::Node { node, interface } => {
                let node = &plan.nodes[*node];
                let name = node.interfaces[*interface].name.clone();
                Some((Place::Node(node.name.clone()), name))
            }
            PlannedEnd::Port { switch, name, .. } if plan.switches[*switch].kind.is_in_kernel() => {
                Some((Place::Core, name.clone()))
            }
            _ => None,
        })
        .collect();
    let own = |(place, name): &(Place, String)| *place == point.place && *name == point.interface;
    match all.iter().position(own) {
        Some(at) => all.into_iter().enumerate().find(|(i, _)| *i != at).map(|(_, end)| end),
        None => None,
    }
}
