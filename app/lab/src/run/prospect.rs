//! What applying a file would do, by what is on disk: for the lab process, and for those who only look.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use netloom_digest::fnv1a;
use netloom_model::Plan;
use netloom_model::difference::Kind;
use netloom_model::merging::{Act, KeyChange, Machine, Merged, Step, merge, merge_over};
use netloom_model::plan::{LinkId, NodeId, PlannedLink, PlannedNode};

use crate::run::drift::Differences;
use crate::stage::allowed::allowed;
use crate::stage::images;
use crate::store::moved::{Home, Moved};
use crate::store::state::{Folder, State};
use crate::view::{Applied, AppliedStep};
use crate::{Error, Result, Subject};

/// What applying a file would do.
pub(crate) struct Prospect {
    /// The plan of the file.
    pub(crate) wanted: Plan,
    pub(crate) merged: Merged,
    pub(crate) drift: Drift,
    /// All steps: of the plan, and of what was moved or set down by hand.
    pub(crate) steps: Vec<Step>,
    /// Identifies the steps and the file.
    pub(crate) digest: String,
    /// What stood before an earlier attempt that was cut off.
    pub(crate) before: Option<State>,
}

/// Manual changes outside the plan.
#[derive(Default)]
pub(crate) struct Drift {
    pub(crate) moved: Vec<Moved>,
    pub(crate) down: BTreeSet<LinkId>,
    /// Without netloom.
    pub(crate) kernel: Differences,
}

/// What applying a file would do, and of what that was found.
pub(crate) struct Looked {
    pub(crate) found: Prospect,
    pub(crate) state: Arc<State>,
    pub(crate) keep_drift: bool,
    /// The interfaces of living nodes that mattered.
    pub(crate) there: Vec<(NodeId, Vec<(String, u32)>)>,
}

impl Looked {
    /// See [`look`].
    pub(crate) fn of(
        folder: &Folder,
        state: &Arc<State>,
        mut wanted: Plan,
        keep_drift: bool,
        there: &dyn Fn(NodeId) -> Vec<(String, u32)>,
        kernel: &dyn Fn() -> Result<Differences>,
    ) -> Result<Looked> {
        wanted.make_absolute(std::path::Path::new("/"));
        let seen = RefCell::new(Vec::new());
        let noted = |node| {
            let found = there(node);
            seen.borrow_mut().push((node, found.clone()));
            found
        };
        let found = look(folder, state, wanted, keep_drift, &noted, kernel)?;
        Ok(Looked { found, state: Arc::clone(state), keep_drift, there: seen.into_inner() })
    }
}

/// Compares the state of a lab with a wanted plan; `kernel` compares it with what the kernel has.
///
/// # Errors
/// Why the lab cannot become that while it lives.
pub(crate) fn look(
    folder: &Folder,
    state: &State,
    wanted: Plan,
    keep_drift: bool,
    there: &dyn Fn(NodeId) -> Vec<(String, u32)>,
    kernel: &dyn Fn() -> Result<Differences>,
) -> Result<Prospect> {
    let mut wanted = dressed(state, wanted)?;
    let mut state = without_unfinished(state);
    if state.across.is_some() {
        wanted.number_links();
        state.to_mut().plan.number_links();
    }
    let state = &*state;
    let before = folder.read_before()?;
    let made = folder.read_made()?.filter(|made| made.plan.digest == state.plan.digest);
    let form = |link: &PlannedLink| state.form(link);
    let machine =
        Machine { there, form: &form, allowed: allowed(state.user, &wanted), hides: &hides };
    let earlier = before.as_ref().map(|state| &state.plan);
    let merged = match &made {
        Some(made) => merge_over(&made.plan, &state.plan, earlier, &wanted, &machine, keep_drift),
        None => merge(&state.plan, earlier, &wanted, &machine),
    };
    let merged = merged.map_err(|refusal| Error::Invalid {
        object: format!("lab {:?}", state.plan.lab).into(),
        reason: refusal.to_string(),
    })?;
    let drift = match keep_drift {
        true => Drift::default(),
        false => Drift::of(state, &merged, kernel()?),
    };
    let mut steps = drift.steps(state);
    steps.extend(merged.steps.iter().cloned());
    // What was shown must be what is done: a later call repeats this digest.
    let text = serde_json::to_string(&(&steps, &wanted.digest, keep_drift))
        .map_err(|e| Error::of("steps", "encode")(std::io::Error::from(e)))?;
    let digest = format!("{:016x}", fnv1a::hash(text.as_bytes()));
    Ok(Prospect { wanted, merged, drift, steps, digest, before })
}

/// Whether a node's root has a file at this path below what the lab puts there.
fn hides(node: &PlannedNode, path: &str) -> bool {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = node.root.as_deref().unwrap_or(std::path::Path::new("/"));
    // A root that cannot be looked into might have the file.
    let Ok(root) = rustix::fs::open(root, flags, Mode::empty()) else { return true };
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let found = netloom_sys::lookup::open_within(&root, path, flags, ResolveFlags::IN_ROOT);
    let missing = matches!(found, Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR));
    // An image is not unpacked here to look: it may have any file.
    node.image.is_some() || !missing
}

/// The state without nodes and links that an earlier attempt made only in part: they are removed before anything else.
fn without_unfinished(state: &State) -> Cow<'_, State> {
    if state.unfinished.is_empty() && state.leaving.is_empty() {
        return Cow::Borrowed(state);
    }
    let mut state = state.clone();
    let plan = &mut state.plan;
    plan.forget_links(&state.unfinished);
    let left = plan.slots().filter(|slot| state.leaving.contains(&plan.nodes[*slot].id)).collect();
    plan.remove_nodes(&left);
    Cow::Owned(state)
}

/// The wanted plan with what images say; those that the lab does not have are refused, because they are fetched and pinned
/// when a lab is made.
fn dressed(state: &State, mut plan: Plan) -> Result<Plan> {
    for node in &plan.nodes {
        let Some(image) = node.image.as_ref().filter(|i| !state.images.contains_key(&i.name))
        else {
            continue;
        };
        let reason = format!(
            "image {:?} is none that the lab has; `netloom up --replace FILE` brings it up with that",
            image.name
        );
        return Err(Error::Invalid { object: Subject::of("node", &node.name), reason });
    }
    images::dress(state, &mut plan);
    Ok(plan)
}

impl Prospect {
    /// The steps, not done yet.
    pub(crate) fn shown(&self, state: &State) -> Applied {
        let step =
            |step: &Step| AppliedStep { line: step.words(), done_ms: None, step: step.clone() };
        let steps = self.steps.iter().map(step).collect();
        // What a file says of pictures alone is in its text, and in no step.
        let text = |plan: &Plan| plan.scheme.as_ref().and_then(|scheme| scheme.file.clone());
        let stale = self.before.is_some()
            || state.plan.digest != self.wanted.digest
            || text(&state.plan) != text(&self.wanted);
        Applied { steps, digest: self.digest.clone(), stale, ..Applied::default() }
    }
}

impl Drift {
    /// What stays, and is elsewhere or down.
    fn of(state: &State, merged: &Merged, kernel: Differences) -> Drift {
        // What goes needs no way home.
        let goes = |id: &NodeId| merged.early.nodes.contains(id) || merged.late.nodes.contains(id);
        let home_goes =
            |moved: &Moved| matches!(moved.home, Home::Node { node, .. } if goes(&node));
        let moved = state.moved.iter().filter(|m| !home_goes(m) && !goes(&m.node));
        let links = merged.target.links.iter().map(|link| link.id);
        let stays = links.filter(|id| !merged.added.links.contains(id));
        Drift {
            moved: moved.cloned().collect(),
            down: stays.filter(|id| state.down.contains(id)).collect(),
            kernel: kernel.without_gone(state, merged),
        }
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        let names: HashMap<NodeId, &str> =
            state.plan.nodes.iter().map(|node| (node.id, node.name.as_str())).collect();
        let name = |id: NodeId| names.get(&id).copied().unwrap_or_default().to_owned();
        let step = |kind, name: String, key: &str, words: String| Step {
            act: Act::Change,
            kind: Some(kind),
            name,
            changes: vec![KeyChange { key: key.to_owned(), words }],
            with: vec![],
            ends: false,
            drift: true,
        };
        let moved = self.moved.iter().map(|moved| {
            let (at, old) = (name(moved.node), &moved.old_name);
            match moved.home {
                Home::Node { node, .. } => {
                    let words = format!("interface {old} home, was in node {at}");
                    step(Kind::Node, name(node), "interface", words)
                }
                Home::Host => {
                    let words = format!("interface host:{old} to the host, was in node {at}");
                    step(Kind::Node, at, "interface", words)
                }
            }
        });
        let down = state.plan.links.iter().filter(|link| self.down.contains(&link.id));
        let down =
            down.map(|link| step(Kind::Link, link.name.clone(), "up", "up, was down".to_owned()));
        moved.chain(down).chain(self.kernel.steps(state)).collect()
    }
}
