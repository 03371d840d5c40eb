//! The judge that follows a policy: remembers verdicts, asks where the policy says so, learns, and logs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use jiff::Timestamp;
use netloom_policy::learn::Learned;
use netloom_policy::{Action, Errno, Policy, Request, Rule, Verdict};

use crate::digest::Digests;
use crate::judge::{Judge, Judgement, Question, State};
use crate::log::{Decided, Log, Reason};

/// What a person answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call alone.
    Once(Action),
    /// From now on, by this rule.
    Rule(Rule),
    /// Nobody answers: nobody is there, or the time is up.
    Nobody,
    /// The call was gone or signalled before there was an answer.
    Withdrawn,
}

/// Asks a person. Called by several threads at once.
pub trait Ask: Send + Sync {
    /// Waits for an answer.
    fn ask(&self, question: &Question<'_>) -> Answer;
}

/// How a policy is followed.
#[derive(Default)]
pub struct Options {
    /// Who is asked; without anybody, questions are answered as the policy says for unanswered ones.
    pub ask: Option<Box<dyn Ask>>,
    /// Allows everything, and collects what would allow it.
    pub learn: Option<Learned>,
    /// Asks nobody: what the policy neither allows nor denies is refused, and counted.
    pub frozen: bool,
    /// Where each decision is written.
    pub log: Option<Log>,
}

/// Verdicts that are kept. When there are as many, all are forgotten, which costs a second judgement each.
const KEPT: usize = 1 << 16;

/// A policy in use.
pub struct Rules {
    policy: RwLock<Policy>,
    kept: Mutex<HashMap<Request, Kept>>,
    learned: Option<Mutex<Learned>>,
    digests: Digests,
    ask: Option<Box<dyn Ask>>,
    log: Option<Log>,
    frozen: bool,
    refused: AtomicU64,
}

/// A verdict and the time until which it holds.
#[derive(Clone, Copy)]
struct Kept {
    judgement: Judgement,
    until: Option<Timestamp>,
}

impl Rules {
    /// Follows a policy.
    pub fn new(policy: Policy, options: Options) -> Rules {
        let wanted = policy.rules.iter().any(|rule| rule.program.sha256.is_some());
        Rules {
            policy: RwLock::new(policy),
            kept: Mutex::default(),
            learned: options.learn.map(Mutex::new),
            digests: Digests::new(wanted),
            ask: options.ask,
            log: options.log,
            frozen: options.frozen,
            refused: AtomicU64::new(0),
        }
    }

    /// Requests that a frozen policy did not know.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The policy with all answers that are to be remembered.
    pub fn policy(&self) -> Policy {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was learned; `None` if nothing was to be.
    pub fn learned(&self) -> Option<Policy> {
        self.learned.as_ref().map(|learned| lock(learned).policy())
    }

    fn verdict(&self, request: &Request) -> Verdict {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        policy.decide(request, Timestamp::now())
    }

    /// The verdict, by policy, person or default.
    fn settle(&self, question: &Question<'_>, request: &Request) -> (Judgement, Reason) {
        if let Some(learned) = &self.learned {
            lock(learned).add(request);
            return (Judgement::Allow, Reason::Learning);
        }
        let verdict = self.verdict(request);
        let reason = verdict.rule.map_or(Reason::Default, |at| self.rule(at));
        match verdict.action {
            Action::Ask if self.frozen => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                (denied(self.unanswered()), Reason::Frozen)
            }
            Action::Ask => self.asked(question, request),
            action => {
                let judgement = denied(action);
                self.keep(request, judgement, None);
                (judgement, reason)
            }
        }
    }

    fn rule(&self, at: usize) -> Reason {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        policy.rules.get(at).map_or(Reason::Default, |rule| Reason::Rule(rule.to_string()))
    }

    fn unanswered(&self) -> Action {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        match policy.unanswered {
            Action::Ask => Action::Deny(Errno::default()),
            action => action,
        }
    }

    fn asked(&self, question: &Question<'_>, request: &Request) -> (Judgement, Reason) {
        let question = Question { request, ..*question };
        match self.ask.as_ref().map_or(Answer::Nobody, |ask| ask.ask(&question)) {
            Answer::Once(action) => (denied(action), Reason::Answer),
            Answer::Rule(rule) => {
                let (judgement, until) = (denied(rule.action), rule.until);
                self.policy.write().unwrap_or_else(PoisonError::into_inner).remember(rule);
                lock(&self.kept).clear();
                // The rule may be about something else than what was asked.
                if self.verdict(request).action == Action::Ask {
                    return (judgement, Reason::Answer);
                }
                self.keep(request, judgement, until);
                (judgement, Reason::Answer)
            }
            Answer::Nobody => (denied(self.unanswered()), Reason::Unanswered),
            Answer::Withdrawn => (Judgement::Withdrawn, Reason::Unanswered),
        }
    }

    /// Keeps a verdict, until the first rule of the policy ends.
    fn keep(&self, request: &Request, judgement: Judgement, until: Option<Timestamp>) {
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        let ends = policy.rules.iter().filter_map(|rule| rule.until).filter(|end| *end > now);
        let until = ends.chain(until).min();
        drop(policy);
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(request.clone(), Kept { judgement, until });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an action other than asking does.
fn denied(action: Action) -> Judgement {
    match action {
        Action::Allow | Action::Log => Judgement::Allow,
        Action::Deny(errno) => Judgement::Deny(errno.number()),
        Action::Ask => Judgement::Deny(Errno::default().number()),
    }
}

impl Judge for Rules {
    /// With a log or learning every request takes the longer way, which writes it down.
    fn known(&self, request: &Request) -> Option<Judgement> {
        if self.log.is_some() || self.learned.is_some() || self.digests.wanted() {
            return None;
        }
        let found = lock(&self.kept).get(request).copied()?;
        let holds = found.until.is_none_or(|end| Timestamp::now() < end);
        holds.then_some(found.judgement)
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        let begun = Instant::now();
        let mut request = question.request.clone();
        request.program.sha256 = self.digests.of(question.who.pid);
        let (judgement, reason) = self.settle(question, &request);
        if let Some(log) = &self.log
            && (question.state)() != State::Gone
        {
            let took = begun.elapsed();
            log.write(&Decided { who: question.who, request: &request, judgement, reason, took });
        }
        judgement
    }
}
