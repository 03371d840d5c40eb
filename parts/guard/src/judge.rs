//! Who decides: the interface between the supervisor and a policy, with a person behind it or none.

use std::sync::Arc;

use netloom_policy::Request;
use netloom_policy::pattern::Peers;

use crate::who::Who;

/// The verdict on a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It takes place.
    Allow,
    /// It fails with this error, positive.
    Deny(i32),
    /// There is nobody left to whom an answer would matter.
    Withdrawn,
}

/// What became of a call that waits for its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits.
    Waiting,
    /// Its thread was killed, or all of its program.
    Gone,
    /// A signal waits for its thread, whose handler is not to wait longer.
    Signalled,
}

/// A question that may take long to answer.
pub struct Question<'q> {
    /// The asking program.
    pub who: &'q Who,
    /// For what.
    pub request: &'q Request,
    /// What became of the call meanwhile; to be looked at while an answer is awaited.
    pub state: &'q dyn Fn() -> State,
}

/// What rules say about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The words by which they say it: names that are said by the same words are judged alike.
    pub by: String,
    /// Whether a rule about it denies or asks.
    pub kept: bool,
}

/// Decides about requests. Called by several threads at once.
pub trait Judge: Send + Sync {
    /// The verdict, if it is known without asking or long work.
    fn known(&self, request: &Request) -> Option<Judgement>;

    /// The verdict, for which a person may be asked. Returns early if the call is gone or signalled.
    fn decide(&self, question: &Question<'_>) -> Judgement;

    /// Told once, before any call is judged: how paths of the place where the program runs are followed to what they lead
    /// to.
    fn follow_paths(&self, _follow: &dyn Fn(&str) -> Option<String>) {}

    /// Paths of sockets about which there is a rule that does not let pass: what they lead to is also judged by them, whichever
    /// way it is reached.
    fn kept_paths(&self) -> Arc<[String]> {
        Arc::default()
    }

    /// What rules say about a name; `None` if no rule says it, so that it changes no verdict.
    fn said(&self, _name: &str) -> Option<Said> {
        None
    }

    /// Whether there are listeners that not everybody may reach; else [`Judge::peers`] is not asked.
    fn limits_peers(&self) -> bool {
        false
    }

    /// The peers that may reach an allowed listener; `None` is all.
    fn peers(&self, _question: &Question<'_>) -> Option<Peers> {
        None
    }

    /// A listener that was allowed is refused with an error (positive), since others than its peers could not be kept from it.
    fn unlimited(&self, _question: &Question<'_>, _why: &'static str, _errno: i32) {}
}
