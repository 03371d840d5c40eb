//! A call between its reading and its answer, and the verdict on it.

use netloom_policy::{Program, Request};
use netloom_sys::seccomp::{Call, Caller, Listener};

use crate::judge::{Judge, Judgement, Question};
use crate::perform::state;
use crate::ports::Gained;
use crate::prepare::{Operation, Want};
use crate::who::Who;

/// A call that was read, and has no answer yet.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) caller: Caller,
    pub(crate) deed: Operation,
    pub(crate) gained: Gained,
    /// Listeners that it asks for, where their peers matter.
    pub(crate) listeners: Vec<Want>,
    pub(crate) program: Program,
    /// Whether it is the caller's beyond doubt that was read, and no time has passed since.
    pub(crate) sure: bool,
}

impl Job {
    /// The verdict on all that the call wants, if it is known without asking.
    pub(crate) fn known(&mut self, judge: &dyn Judge) -> Option<Judgement> {
        for at in 0..self.deed.wants.len() {
            match judge.known(&request(&self.program, &self.deed.wants[at]))? {
                Judgement::Allow => {}
                other => return Some(self.refused(at, other)),
            }
        }
        Some(Judgement::Allow)
    }

    /// The same, asking if need be.
    pub(crate) fn judged(&mut self, listener: &Listener, judge: &dyn Judge) -> Judgement {
        for at in 0..self.deed.wants.len() {
            let request = request(&self.program, &self.deed.wants[at]);
            let asked = || self.question(listener, &request, |question| judge.decide(question));
            let verdict = judge.known(&request).unwrap_or_else(asked);
            if verdict != Judgement::Allow {
                return self.refused(at, verdict);
            }
        }
        Judgement::Allow
    }

    /// The verdict on a call one of whose wants is not allowed: messages before that one are.
    fn refused(&mut self, want: usize, verdict: Judgement) -> Judgement {
        match verdict {
            // As sendmmsg(2): it tells how many messages went, and the error comes with the next
            // call.
            Judgement::Deny(_) if self.deed.end_before(want) => Judgement::Allow,
            verdict => verdict,
        }
    }

    /// What a judge learns of the calling program, and of the call.
    pub(crate) fn question<T>(
        &self,
        listener: &Listener,
        request: &Request,
        tell: impl FnOnce(&Question<'_>) -> T,
    ) -> T {
        let who = Who::of(self.caller.tid(), self.program.clone());
        let state = || state(listener, self.call.id, self.caller.tid());
        tell(&Question { who: &who, request, state: &state })
    }
}

pub(crate) fn request(program: &Program, want: &Want) -> Request {
    let Want { direction, protocol, target, .. } = want.clone();
    Request { program: program.clone(), direction, protocol, target }
}
