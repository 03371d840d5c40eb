//! The judge that follows a policy: remembers verdicts, asks where the policy says so, learns, and logs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use netloom_policy::learn::{Learned, Merged};
use netloom_policy::pattern::Peers;
use netloom_policy::{Action, Direction, Errno, Indexed, Policy, Protocol, Request, Rule, Verdict};

use crate::digest::Digests;
use crate::judge::{Judge, Judgement, Question, Said, State};
use crate::log::{Decided, Log, Reason};

/// What a person answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This call alone.
    Once(Action),
    /// From now on, by this rule.
    Rule(Box<Rule>),
    /// The policy has changed: it may know the answer by now.
    Again,
    /// Nobody answers: nobody is there, or the time is up.
    Nobody,
    /// The call was gone or signalled before there was an answer.
    Withdrawn,
}

/// Asks a person. Called by several threads at once.
pub trait Ask: Send + Sync {
    /// Waits for an answer.
    fn ask(&self, question: &Question<'_>) -> Answer;

    /// The policy has changed: questions that wait are to be judged [again](Answer::Again).
    fn changed(&self) {}
}

/// How a policy is followed.
#[derive(Default)]
pub struct Options {
    /// The user to ask; without one, questions are answered as the policy says for unanswered ones.
    pub ask: Option<Box<dyn Ask>>,
    /// Allows everything that no rule denies, and collects what would allow it.
    pub learn: Option<Learned>,
    /// Asks nobody: what no rule knows and the default does not allow is refused, and kept.
    pub frozen: bool,
    /// Where each decision is written.
    pub log: Option<Log>,
}

/// Verdicts that are kept. When there are as many, all are forgotten, which costs a second judgement each.
const KEPT: usize = 1 << 16;

/// A policy in use.
pub struct Rules {
    policy: RwLock<Indexed>,
    /// Paths of sockets about which a rule does not let pass.
    kept_paths: Mutex<Arc<[String]>>,
    kept: Mutex<HashMap<Request, Kept>>,
    learned: Option<Mutex<Learned>>,
    frozen: bool,
    /// Requests refused without a rule: by default, and because nobody answered.
    unknown: Mutex<Learned>,
    unanswered: Mutex<Learned>,
    /// Rules without an end that were answers.
    answers: Mutex<Vec<Rule>>,
    digests: Digests,
    /// Whether a rule has `from`; answers have none.
    limits: bool,
    ask: Option<Box<dyn Ask>>,
    log: Option<Log>,
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
        let limits = policy.limits_peers();
        let learns = options.learn.as_ref().is_some_and(Learned::names_digests);
        Rules {
            kept_paths: Mutex::new(policy.kept_paths().into()),
            policy: RwLock::new(Indexed::new(policy)),
            kept: Mutex::default(),
            learned: options.learn.map(Mutex::new),
            frozen: options.frozen,
            unknown: Mutex::default(),
            unanswered: Mutex::default(),
            answers: Mutex::default(),
            digests: Digests::new(wanted || learns),
            limits,
            ask: options.ask,
            log: options.log,
        }
    }

    /// Answers that are to be remembered for ever.
    pub fn answers(&self) -> Vec<Rule> {
        lock(&self.answers).clone()
    }

    /// `base` with what was learned; `None` if nothing was to be.
    pub fn learned(&self, base: &Policy) -> Option<Merged> {
        self.learned.as_ref().map(|learned| lock(learned).merge(base))
    }

    /// Different requests that were too many to be learned.
    pub fn lost(&self) -> u64 {
        self.learned.as_ref().map_or(0, |learned| lock(learned).lost())
    }

    /// What the policy did not know and refused, as what would be learned of it; `None` if there is nothing.
    pub fn missing(&self) -> Option<Merged> {
        would_be_learned(&self.unknown)
    }

    /// A request refused because nobody answered, as the rule that would be learned; `None` if there is none.
    pub fn unanswered(&self) -> Option<Merged> {
        would_be_learned(&self.unanswered)
    }

    /// Decisions that could not be logged, and why the first one could not.
    pub fn unlogged(&self) -> Option<(u64, std::io::Error)> {
        self.log.as_ref().and_then(Log::lost)
    }

    /// The peers that may reach the listener for which `request` asks.
    fn peers_of(&self, request: &Request) -> Option<Peers> {
        let listens = self.limits && request.direction == Direction::In;
        if listens { self.read().peers(request, Timestamp::now()) } else { None }
    }

    fn read(&self) -> RwLockReadGuard<'_, Indexed> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdict, by policy, person or default.
    fn settle(&self, question: &Question<'_>, request: &Request) -> (Judgement, Reason) {
        loop {
            let policy = self.read();
            let now = Timestamp::now();
            let verdict = policy.decide(request, now);
            if let Some(settled) = self.without_asking(&policy, request, verdict, now) {
                return settled;
            }
            // Not held while a person is asked: an answer has to write to it.
            let unanswered = policy.policy().unanswered;
            drop(policy);
            if let Some(settled) = self.asked(question, request, unanswered) {
                return settled;
            }
        }
    }

    /// The verdict, unless a person is to be asked. Kept before the policy can change, so that none outlives a change.
    fn without_asking(
        &self,
        policy: &Indexed,
        request: &Request,
        verdict: Verdict,
        now: Timestamp,
    ) -> Option<(Judgement, Reason)> {
        let denies = matches!(verdict.action, Action::Deny(_));
        if let Some(learned) = &self.learned
            && !(denies && verdict.rule.is_some())
        {
            lock(learned).add(request);
            return Some((Judgement::Allow, Reason::Learning));
        }
        let unknown = verdict.action == Action::Ask || (denies && verdict.rule.is_none());
        if self.frozen && unknown {
            lock(&self.unknown).add(request);
            let action = if denies { verdict.action } else { policy.policy().unanswered };
            return Some((done(action), Reason::Frozen));
        }
        if verdict.action == Action::Ask {
            let looks_up = request.protocol == Protocol::Dns;
            return looks_up.then(|| self.looked_up(request, policy.policy().unanswered));
        }
        if unknown {
            lock(&self.unknown).add(request);
        }
        let judgement = done(verdict.action);
        self.keep(request, Kept { judgement, until: policy.next_end(now) });
        let rule = verdict.rule.and_then(|at| policy.policy().rules.get(at));
        let reason = rule.filter(|_| self.log.is_some()).map(|rule| Reason::Rule(rule.to_string()));
        Some((judgement, reason.unwrap_or(Reason::Default)))
    }

    /// The verdict on a name about which a person is to be asked: a program's resolver waits less long than a person takes,
    /// and whether it may reach what the name leads to is asked then. Without anybody it is as any question.
    fn looked_up(&self, request: &Request, unanswered: Action) -> (Judgement, Reason) {
        if self.ask.is_some() {
            return (Judgement::Allow, Reason::LookedUp);
        }
        if matches!(unanswered, Action::Deny(_)) {
            lock(&self.unanswered).add(request);
        }
        (done(unanswered), Reason::Unanswered)
    }

    /// The verdict on a request that was not seen before, if the policy knows it: the asking program need not be looked up.
    fn known_at_first(&self, request: &Request) -> Option<Judgement> {
        let policy = self.read();
        let now = Timestamp::now();
        let verdict = policy.decide(request, now);
        self.without_asking(&policy, request, verdict, now).map(|(judgement, _)| judgement)
    }

    /// A person's verdict; `None` if the policy is to be asked again.
    fn asked(
        &self,
        question: &Question<'_>,
        request: &Request,
        unanswered: Action,
    ) -> Option<(Judgement, Reason)> {
        let question = Question { request, ..*question };
        match self.ask.as_ref().map_or(Answer::Nobody, |ask| ask.ask(&question)) {
            Answer::Once(action) => Some((done(action), Reason::Answer)),
            Answer::Rule(rule) => {
                let judgement = done(rule.action);
                self.remember(*rule);
                Some((judgement, Reason::Answer))
            }
            Answer::Again => None,
            Answer::Nobody => {
                if matches!(unanswered, Action::Deny(_)) {
                    lock(&self.unanswered).add(request);
                }
                Some((done(unanswered), Reason::Unanswered))
            }
            Answer::Withdrawn => Some((Judgement::Withdrawn, Reason::Unanswered)),
        }
    }

    fn remember(&self, rule: Rule) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        // One answer reaches all who asked the same.
        if policy.policy().rules.contains(&rule) {
            return;
        }
        if rule.until.is_none() {
            lock(&self.answers).push(rule.clone());
        }
        policy.remember(rule);
        // The policy stays locked until the verdicts are gone: none of the old policy is kept after
        // that.
        *lock(&self.kept_paths) = policy.policy().kept_paths().into();
        lock(&self.kept).clear();
        drop(policy);
        if let Some(ask) = &self.ask {
            ask.changed();
        }
    }

    fn keep(&self, request: &Request, verdict: Kept) {
        let mut kept = lock(&self.kept);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(request.clone(), verdict);
    }
}

/// What would allow these requests alone.
fn would_be_learned(refused: &Mutex<Learned>) -> Option<Merged> {
    let refused = lock(refused);
    (!refused.is_empty()).then(|| refused.merge(&Policy::nothing()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an action other than asking does.
fn done(action: Action) -> Judgement {
    match action {
        Action::Allow | Action::Log => Judgement::Allow,
        Action::Deny(errno) => Judgement::Deny(errno.number()),
        Action::Ask => Judgement::Deny(Errno::default().number()),
    }
}

impl Judge for Rules {
    /// With a log or learning every request takes the longer way, which writes it down.
    fn known(&self, request: &Request) -> Option<Judgement> {
        // A digest needs the caller's file, which only `decide` reads.
        if self.log.is_some() || self.learned.is_some() || self.digests.wanted() {
            return None;
        }
        let found = lock(&self.kept).get(request).copied();
        let holds = |kept: &Kept| kept.until.is_none_or(|end| Timestamp::now() < end);
        found
            .filter(holds)
            .map_or_else(|| self.known_at_first(request), |kept| Some(kept.judgement))
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        let begun = Instant::now();
        let mut request = question.request.clone();
        if self.digests.wanted() {
            request.program.sha256 = self.digests.of(question.who.thread);
            // Only now is the content known to be the caller's and not that of a later thread of its number.
            if (question.state)() == State::Gone {
                if request.protocol != Protocol::Dns {
                    return Judgement::Withdrawn;
                }
                request.program.sha256 = None;
            }
        }
        let (judgement, reason) = self.settle(question, &request);
        // A query goes out, also when its program has ended meanwhile.
        let is_there = || request.protocol == Protocol::Dns || (question.state)() != State::Gone;
        if let Some(log) = &self.log
            && is_there()
        {
            let took = begun.elapsed();
            let from = self.peers_of(&request).filter(|_| judgement == Judgement::Allow);
            log.write(&Decided {
                who: question.who,
                request: &request,
                judgement,
                reason,
                from,
                took,
            });
        }
        judgement
    }

    fn follow_paths(&self, follow: &dyn Fn(&str) -> Option<String>) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        let followed = policy.policy().clone().followed(follow);
        *lock(&self.kept_paths) = followed.kept_paths().into();
        *policy = Indexed::new(followed);
    }

    fn kept_paths(&self) -> Arc<[String]> {
        Arc::clone(&lock(&self.kept_paths))
    }

    fn said(&self, name: &str) -> Option<Said> {
        let policy = self.read();
        let said = policy.said(name)?;
        let by = if said.exact { said.by.to_owned() } else { format!("*.{}", said.by) };
        Some(Said { by, kept: said.kept })
    }

    fn limits_peers(&self) -> bool {
        self.limits
    }

    fn peers(&self, question: &Question<'_>) -> Option<Peers> {
        let mut request = question.request.clone();
        request.program.sha256 = self.digests.of(question.who.thread);
        self.peers_of(&request)
    }

    fn unlimited(&self, question: &Question<'_>, why: &'static str, errno: i32) {
        let Some(log) = &self.log else { return };
        let (judgement, from) = (Judgement::Deny(errno), self.peers(question));
        let (reason, took) = (Reason::Peers(why), Duration::ZERO);
        let Question { who, request, .. } = *question;
        log.write(&Decided { who, request, judgement, reason, from, took });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Barrier;

    use netloom_policy::{Program, Target};

    use super::*;
    use crate::who::Who;

    fn request() -> Request {
        Request {
            program: Program { path: "/usr/bin/curl".into(), sha256: None },
            direction: Direction::Out,
            protocol: Protocol::Tcp,
            target: Target::ip(Direction::Out, Ipv4Addr::LOCALHOST.into(), 80, vec![]),
        }
    }

    /// An answer that changes the policy while a call is judged: what was judged before is not kept.
    #[test]
    fn no_verdict_outlives_the_policy_that_gave_it() {
        let (who, request) = (Who::of(0, request().program), request());
        let denial = Rule::every(Action::Deny(Errno::default()), Direction::Out);
        for round in 0..2000 {
            let allowing = Policy { default: Action::Allow, ..Policy::default() };
            let rules = Rules::new(allowing, Options::default());
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let state = || State::Waiting;
                    start.wait();
                    rules.decide(&Question { who: &who, request: &request, state: &state });
                });
                start.wait();
                // From the same moment to that at which the verdict is there.
                (0..round % 40).for_each(|_| std::thread::yield_now());
                rules.remember(denial.clone());
            });
            assert_ne!(rules.known(&request), Some(Judgement::Allow), "in round {round}");
        }
    }
}
