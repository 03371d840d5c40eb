//! Starts the programs of all nodes at once, and waits until each node is ready.
//!
//! The nodes' inits do the work, in the order `setup`, `run`, `ready`, and `exec` once all nodes are ready; this module sends the requests and reads the
//! replies. No lock is held meanwhile: a starting lab can be inspected, entered and taken down. A failure that keeps a
//! node from becoming ready is an error; a program that ends with an error in a ready node is only reported, because
//! the lab works.

use netloom_model::Plan;
use netloom_model::lab::Ready;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::Slot;
use netloom_node::control::{Answer, Connection, Request};
use netloom_node::spec::socket_name;
use netloom_sys::process::wait_readable;

use crate::store::state::Folder;
use crate::{Error, Result};

/// What went wrong while nodes became ready, without keeping them from it: node, program, cause, and its last lines.
#[derive(Debug, Default)]
pub(crate) struct ReadinessNotes {
    /// Programs that ended with an error before all nodes were ready.
    pub(crate) troubles: Vec<String>,
    /// Commands of `exec` that failed and may.
    pub(crate) notes: Vec<String>,
}

/// A node that was asked to start its programs, or to do its commands of `exec`.
struct StartingNode<'a> {
    node: &'a str,
    connection: Connection,
    failures: Vec<Error>,
    told: ReadinessNotes,
}

/// Starts the programs of the nodes in these slots, which are whole now, and does their commands of `exec` once all are ready.
///
/// # Errors
/// All reasons why nodes cannot become ready.
pub(crate) fn start(
    folder: &Folder,
    plan: &Plan,
    slots: &[Slot],
    progress: &dyn Fn(&str, usize, usize),
) -> Result<ReadinessNotes> {
    // An earlier start may have been cut off in the middle of it.
    folder.forget_half_made()?;
    let of_slots = |has: fn(&PlannedNode) -> bool| -> Vec<&PlannedNode> {
        slots.iter().filter_map(|slot| plan.node_at(*slot)).filter(|node| has(node)).collect()
    };
    let ReadinessNotes { mut troubles, .. } =
        ask_all(folder, &of_slots(has_work), &Request::Start, &|done, total| {
            progress("programs", done, total);
        })?;
    // Every node of the lab is ready now.
    let after = of_slots(|node| !node.exec.is_empty());
    let told =
        ask_all(folder, &after, &Request::Exec, &|done, total| progress("exec", done, total))?;
    troubles.extend(told.troubles);
    Ok(ReadinessNotes { troubles, notes: told.notes })
}

/// Sends a request to the inits of these nodes, and waits until each has done it.
fn ask_all(
    folder: &Folder,
    nodes: &[&PlannedNode],
    request: &Request,
    progress: &dyn Fn(usize, usize),
) -> Result<ReadinessNotes> {
    let ask = |node: &'_ netloom_model::plan::PlannedNode| -> Result<Connection> {
        let path = folder.sockets().join(socket_name(node.id.get()));
        let connection = Connection::open(&node.name, &path)?.ok_or_else(|| ended(&node.name))?;
        connection.send(request)?;
        Ok(connection)
    };
    let mut asked = Vec::new();
    for node in nodes {
        // Asked before any is heard: all work at the same time.
        let connection = ask(node)?;
        let (failures, told) = (vec![], ReadinessNotes::default());
        asked.push(StartingNode { node: &node.name, connection, failures, told });
    }
    heard(asked, progress)
}

/// Waits until these nodes, which were asked to start programs, are ready. Returns programs that ended with an error.
///
/// # Errors
/// As [`start`].
pub(crate) fn hear(asked: Vec<(&str, Connection)>) -> Result<ReadinessNotes> {
    let one = |(node, connection)| {
        let (failures, told) = (vec![], ReadinessNotes::default());
        StartingNode { node, connection, failures, told }
    };
    heard(asked.into_iter().map(one).collect(), &|_, _| {})
}

fn heard(
    mut asked: Vec<StartingNode<'_>>,
    progress: &dyn Fn(usize, usize),
) -> Result<ReadinessNotes> {
    let total = asked.len();
    // In order: each wait covers what the others do meanwhile.
    for (done, one) in asked.iter_mut().enumerate() {
        progress(done, total);
        one.hear_whole()?;
    }
    // Programs that ended while this waited for others have been reported by now.
    for one in &mut asked {
        one.hear_rest()?;
    }
    let (mut failures, mut all) = (Vec::new(), ReadinessNotes::default());
    for one in asked {
        failures.extend(one.failures);
        all.troubles.extend(one.told.troubles);
        all.notes.extend(one.told.notes);
    }
    Error::of_all(failures)?;
    Ok(all)
}

impl StartingNode<'_> {
    /// Reads replies until the node is ready or cannot become ready.
    fn hear_whole(&mut self) -> Result<()> {
        loop {
            match self.connection.receive()? {
                Some(Answer::Ready) => return Ok(()),
                Some(Answer::Ended(story)) => self.trouble(&story),
                Some(Answer::Missed(story)) => {
                    self.told.notes.push(format!("node {:?}: {story}", self.node));
                }
                Some(Answer::Failed(report)) => {
                    let node = self.node.to_owned();
                    self.failures.push(netloom_node::Error::Init { node, report }.into());
                    return Ok(());
                }
                _ => {
                    self.failures.push(ended(self.node).into());
                    return Ok(());
                }
            }
        }
    }

    /// Reads the replies that have arrived since.
    fn hear_rest(&mut self) -> Result<()> {
        // Without waiting: only what has come.
        while self.failures.is_empty() && wait_readable(&self.connection, std::time::Duration::ZERO)
        {
            match self.connection.receive()? {
                Some(Answer::Ended(story)) => self.trouble(&story),
                Some(_) => {}
                None => self.failures.push(ended(self.node).into()),
            }
        }
        Ok(())
    }

    fn trouble(&mut self, story: &str) {
        self.told.troubles.push(format!("node {:?}: {story}", self.node));
    }
}

fn ended(node: &str) -> netloom_node::Error {
    let report = "its init ended while its programs were started".to_owned();
    netloom_node::Error::Init { node: node.to_owned(), report }
}

/// Whether a node has programs to start or something to wait for.
pub(crate) fn has_work(node: &PlannedNode) -> bool {
    node.kind.as_vm().is_some()
        || node.kind.as_router().is_some_and(|router| router.frr)
        || !node.run.is_empty()
        || !node.setup.is_empty()
        || !node.exec.is_empty()
        || node.health.is_some()
        // Another time limit alone gives nothing to wait for.
        || node.ready != Ready { timeout: node.ready.timeout, ..Ready::default() }
}
