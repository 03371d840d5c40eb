//! Starts the programs of nodes, all nodes at once, and waits until each is ready.
//!
//! The nodes' inits do the work, by the order of `setup`, `run`, `ready`; here they are asked and heard.
//! Nothing is locked meanwhile: a lab that starts can be looked at, entered and taken down. What a node
//! cannot become ready without is an error; a program that ended with an error in a node that is ready is
//! only told, because the lab stands.

use netloom_model::Plan;
use netloom_model::lab::Ready;
use netloom_model::plan::PlannedNode;
use netloom_model::plan::Slot;
use netloom_node::control::{Answer, Connection, Request};
use netloom_node::spec::socket_name;
use netloom_sys::process::wait_readable;

use crate::store::state::Folder;
use crate::{Error, Result};

/// A node that was asked to start its programs.
struct Asked<'a> {
    node: &'a str,
    connection: Connection,
    failures: Vec<Error>,
    troubles: Vec<String>,
}

/// Starts the programs of the nodes in these slots. Gives which programs ended with an error until
/// all nodes were ready: node, program, how, and its last lines.
///
/// # Errors
/// Why nodes cannot become ready, all of them.
pub(crate) fn start(
    folder: &Folder,
    plan: &Plan,
    slots: &[Slot],
    progress: &dyn Fn(&str, usize, usize),
) -> Result<Vec<String>> {
    let nodes = slots.iter().filter_map(|slot| plan.node_at(*slot)).filter(|n| has_work(n));
    let ask = |node: &'_ netloom_model::plan::PlannedNode| -> Result<Connection> {
        let path = folder.sockets().join(socket_name(node.id.get()));
        let connection = Connection::open(&node.name, &path)?.ok_or_else(|| ended(&node.name))?;
        connection.send(&Request::Start)?;
        Ok(connection)
    };
    let mut asked = Vec::new();
    for node in nodes {
        let connection = ask(node)?;
        asked.push(Asked { node: &node.name, connection, failures: vec![], troubles: vec![] });
    }
    let total = asked.len();
    for (done, one) in asked.iter_mut().enumerate() {
        progress("programs", done, total);
        one.hear_whole()?;
    }
    // What has ended while others were waited for has been told by now.
    for one in &mut asked {
        one.hear_rest()?;
    }
    let (failures, troubles): (Vec<_>, Vec<_>) =
        asked.into_iter().map(|one| (one.failures, one.troubles)).unzip();
    Error::of_all(failures.into_iter().flatten().collect())?;
    Ok(troubles.into_iter().flatten().collect())
}

impl Asked<'_> {
    /// Hears until the node is ready, or cannot become so.
    fn hear_whole(&mut self) -> Result<()> {
        loop {
            match self.connection.receive()? {
                Some(Answer::Ready) => return Ok(()),
                Some(Answer::Ended(story)) => self.trouble(&story),
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

    /// Hears what has been said since.
    fn hear_rest(&mut self) -> Result<()> {
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
        self.troubles.push(format!("node {:?}: {story}", self.node));
    }
}

fn ended(node: &str) -> netloom_node::Error {
    let report = "its init ended while its programs were started".to_owned();
    netloom_node::Error::Init { node: node.to_owned(), report }
}

/// Whether an init has something to start or to wait for.
pub(crate) fn has_work(node: &PlannedNode) -> bool {
    !node.run.is_empty()
        || !node.setup.is_empty()
        || node.ready != Ready { timeout: node.ready.timeout, ..Ready::default() }
}
