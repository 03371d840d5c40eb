//! Waits until the kernel shows the states of links that were just made: who looks at a lab that has come up sees none late.

use std::time::{Duration, Instant};

use netloom_model::plan::{NodeId, Slot};
use netloom_sys::{journal, namespace};

use crate::run::running::{Running, Work};
use crate::stage::attach;
use crate::stage::inits::Inits;
use crate::stage::spaces::{in_parts, open};
use crate::{Error, Result};

/// Time for the kernel. A link that needs longer is shown late, and nothing else is wrong with it.
const PATIENCE: Duration = Duration::from_secs(2);

/// The object of failures.
const STATES: &str = "states of links";

impl Running {
    /// Waits for the links of these nodes, or of the core. The lab is not worse for a failure: it goes to the journal.
    pub(crate) fn await_link_states(&self, work: &Work, slots: &[Slot]) {
        let state = self.state();
        let until = Instant::now() + PATIENCE;
        let settled = in_parts(slots, |slot| {
            let id = state.plan.node_at(slot).map_or(NodeId::CORE, |node| node.id);
            settle(&work.inits, id, until)
        });
        if let Err(e) = settled {
            journal::line(format_args!("netloom: {}", netloom_sys::describe(&e)));
        }
    }
}

/// Waits for the links of a node; one that has ended has none.
fn settle(inits: &Inits, id: NodeId, until: Instant) -> Result<()> {
    let Some(space) = attach::open(inits, id)? else { return Ok(()) };
    namespace::enter_network(space).map_err(Error::of(STATES, "enter a namespace"))?;
    open(STATES)?.await_link_states(until).map(drop).map_err(Error::of(STATES, "read"))
}
