//! The control plane of a router moves to a fresh node, while its packets pass beside it.
//!
//! FRR's daemons of OSPF are asked to announce a restart, so that neighbours go on as they are (RFC 3623); what they put
//! down for the next ones goes with the move. BGP needs no announcement (RFC 4724). Then the node ends and is recreated,
//! with the plan's configuration. The switch that is its plane keeps its entries meanwhile.
//!
//! Neighbours help one router at a time, and stop when routes change. So one control plane moves at a time, after all others are
//! whole, and a move is over when all of its routes are confirmed and neighbours have all its news. Both waits have a bound.

mod daemons;

use std::path::Path;
use std::time::{Duration, Instant};

use netloom_model::lookup::slot;
use netloom_model::plan::PlannedNode;
use netloom_sys::describe;
use rustix::process::Pid;
use serde_json::Value;

use crate::build::keeper::Gone;
use crate::keep::routers::unconfirmed;
use crate::run::running::{Phase, Running, Work};
use crate::run::teardown;
use crate::stage::inits::Init;
use crate::store::state::Folder;
use crate::view::Changed;
use crate::{Error, Result, Subject};
use daemons::Daemons;

/// Daemons that announce a restart: the command, and the file that they leave for the next one.
const ANNOUNCED: [(&str, &str, &str); 2] = [
    ("ospfd", "graceful-restart prepare ip ospf", "ospfd-gr.json"),
    ("ospf6d", "graceful-restart prepare ipv6 ospf", "ospf6d-gr.json"),
];

/// Daemons that tell how it stands with their neighbours.
const NEIGHBOURS: [(&str, &str); 2] =
    [("ospfd", "show ip ospf neighbor json"), ("ospf6d", "show ipv6 ospf6 neighbor json")];

/// How long routers may take until their routes are confirmed: others before a move, this one after it.
const BEFORE: Duration = Duration::from_secs(30);
const AFTER: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

impl Running {
    /// See [`MoveControl`](crate::calls::MoveControl).
    pub(crate) fn move_control(&self, node: &str) -> Result<Changed> {
        let _alone = self.moves();
        self.check_move(node)?;
        let mut notes: Vec<String> = self
            .wait_until_whole(|_| true, BEFORE)
            .map(|why| format!("not waited for: {why}"))
            .into_iter()
            .collect();
        let state = self.state();
        notes.extend(self.move_now(node)?);
        let id = state.plan.nodes[slot(&state.plan, node)?].id;
        notes.extend(self.wait_until_whole(|other| other.id == id, AFTER));
        Ok(Changed { name: node.to_owned(), notes })
    }

    fn check_move(&self, node: &str) -> Result<()> {
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        if planned.kind.has_separate_plane() {
            return Ok(());
        }
        Err(Error::Invalid {
            object: Subject::of("node", node),
            reason: "only the control plane of a router with plane: separate can move".into(),
        })
    }

    /// Waits until routers are whole; returns what is not after that time. Those whose node has ended are not waited for.
    fn wait_until_whole(
        &self,
        of: impl Fn(&PlannedNode) -> bool,
        time: Duration,
    ) -> Option<String> {
        let until = Instant::now() + time;
        loop {
            let state = self.state();
            let separate = state.plan.nodes.iter().filter(|node| node.kind.has_separate_plane());
            let (node, open) = separate.filter(|node| of(node)).find_map(|node| {
                let init = self.work().inits.get(&node.id).filter(|i| i.lives()).map(|i| i.pid)?;
                Some((node, open(&self.folder, node, init)?))
            })?;
            if self.phase() == Phase::Ended || Instant::now() > until {
                return Some(format!("node {:?}: {open}", node.name));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Moves the control plane; returns what did not work.
    fn move_now(&self, node: &str) -> Result<Vec<String>> {
        let mut work = self.work();
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        let carried = self.folder.carried(&planned.plane_name());
        // What a move that was cut off has left is too old for these daemons.
        let _ = std::fs::remove_dir_all(&carried);
        let notes = match work.inits.get(&planned.id).filter(|init| init.lives()) {
            Some(init) => announce(init, &carried),
            None => {
                vec!["it had ended, so that its neighbours were told when it came back".to_owned()]
            }
        };
        let moved = self.renew(&mut work, planned);
        let _ = std::fs::remove_dir_all(&carried);
        moved?;
        Ok(notes)
    }

    /// Ends a node's init and recreates it; its plane stays as it is.
    fn renew(&self, work: &mut Work, node: &PlannedNode) -> Result<()> {
        self.kept.forget(&self.state(), Gone { nodes: &[node.id], links: &[] });
        let inits = work.inits.remove(&node.id).into_iter().collect();
        teardown::end_inits(inits, || true)?;
        self.make_with(work).map(drop)
    }
}

/// Why a router is not whole yet; `None` if it is: nothing waits to be confirmed, and OSPF has no news that a neighbour has
/// not got.
fn open(folder: &Folder, node: &PlannedNode, init: Pid) -> Option<String> {
    match unconfirmed(folder, node) {
        None => return Some("nobody follows its routes yet".to_owned()),
        Some(0) => {}
        Some(number) => {
            return Some(format!("routes not confirmed: {number}; they stay for its `grace`"));
        }
    }
    let daemons = Daemons::of(init).ok()?;
    let is_open = |(daemon, question): &(&str, &str)| {
        let answer = daemons.ask(daemon, &["enable", question]).ok().flatten();
        let answer = answer.and_then(|text| serde_json::from_str(&text).ok());
        answer.is_some_and(|neighbours: Value| waits(&neighbours))
    };
    let daemon = NEIGHBOURS.iter().find(|asked| is_open(asked))?.0;
    Some(format!("{daemon} still speaks with its neighbours"))
}

/// Whether a description of neighbours has one with which databases are exchanged, or that has not got everything.
fn waits(neighbours: &Value) -> bool {
    let Some(fields) = neighbours.as_object() else {
        return neighbours.as_array().is_some_and(|all| all.iter().any(waits));
    };
    let state = fields.get("state").and_then(Value::as_str);
    let settled = |state: &str| {
        ["full", "2-way", "twoway"].iter().any(|s| state.to_lowercase().starts_with(s))
    };
    let unsent = fields.get("retransmitCounter").and_then(Value::as_u64);
    state.is_some_and(|state| !settled(state))
        || unsent.is_some_and(|number| number > 0)
        || fields.values().any(waits)
}

/// Has daemons announce their restart, and takes what they leave for the next ones; returns what did not work.
fn announce(init: &Init, carried: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    for (daemon, command, file) in ANNOUNCED {
        let taken = Daemons::of(init.pid).and_then(|daemons| {
            if daemons.ask(daemon, &["enable", command])?.is_none() {
                return Ok(());
            }
            std::fs::create_dir_all(carried)?;
            daemons.copy(file, &carried.join(file))
        });
        if let Err(e) = taken {
            notes.push(format!("{daemon} announces no restart: {}", describe(&e)));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_waited_for_until_they_have_everything() {
        let told = |state: &str, unsent: u64| {
            let one = serde_json::json!({"state": state, "retransmitCounter": unsent});
            waits(&serde_json::json!({"neighbors": {"10.0.0.1": [one]}}))
        };
        assert!(!told("Full/-", 0) && !told("2-Way/DROther", 0));
        assert!(told("Full/-", 2) && told("Exchange/-", 0));
        assert!(waits(&serde_json::json!({"neighbors": [{"state": "Loading"}]})));
        assert!(!waits(
            &serde_json::json!({"neighbors": [{"state": "Full"}, {"state": "Twoway"}]})
        ));
        assert!(!waits(&serde_json::json!({})));
    }
}
