//! A running lab as it is served: all calls, and what is not asked over HTTP.

pub mod call;
pub mod calls;
pub mod values;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use netloom_measure::Probe;
use netloom_node::entry::Entry;

use self::call::Answers;
use self::calls::calls;
use crate::Result;

/// Of both files of a log: its size, and when it was written last, in nanoseconds.
pub type LogMark = [(u64, i128); 2];

macro_rules! served {
    ($($name:ident = $row:tt do |$lab:ident, $call:ident| $run:expr;)*) => {
        /// A running lab: it answers all calls. They may block, and may come from several threads at once.
        pub trait Service: Send + Sync + 'static + $(Answers<calls::$name> +)* {
            /// The longest plan that [`ApplyPlan`](calls::ApplyPlan) takes, as JSON in bytes; 0 where it takes none.
            fn plan_limit(&self) -> usize;

            /// The state of a node's log: while it is the same, so is the log. Much cheaper than reading that.
            ///
            /// # Errors
            /// No such node.
            fn log_mark(&self, node: &str) -> Result<LogMark>;

            /// The lab as Prometheus reads it ([`crate::metrics`]).
            ///
            /// # Errors
            /// The request comes from inside a node; nothing can be read.
            fn metrics(&self) -> Result<String>;

            /// Descriptors for entering a node.
            ///
            /// # Errors
            /// No such node, or its init has ended.
            fn entry(&self, node: &str) -> Result<Entry>;

            /// Passes a caller's descriptors on to a node's init, which starts a program with them
            /// ([`netloom_node::by_init`]).
            ///
            /// # Errors
            /// No such node, or its init has ended.
            fn run_in(&self, node: &str, fds: &[OwnedFd]) -> Result<()>;

            /// The same for the lab's core namespace, where the ports of its switches are.
            ///
            /// # Errors
            /// Its init has ended, or the request comes from inside a node.
            fn core(&self) -> Result<Entry>;

            /// The probe for measurements at the lab's interfaces. Its sessions end with the lab.
            ///
            /// # Errors
            /// The request comes from inside a node, or the lab is being taken down.
            fn probe(&self) -> Result<Arc<Probe>>;
        }
    };
}
calls!(served);
