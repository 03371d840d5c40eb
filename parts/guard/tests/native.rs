//! What a program sees of its calls under guard where all is allowed: what it would see without, also of signals, time
//! limits and errors.

use std::sync::atomic::{AtomicUsize, Ordering};

use netloom_guard::{Judge, Judgement, Question, State};
use netloom_kit::{needs, wait_until};
use netloom_policy::{Request, Target};

use super::redteam::{ALLOWED, doors, run};

macro_rules! alike {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            needs!("cc");
            let program = doors();
            let free = run(program, stringify!($name), None).said;
            assert_eq!(run(program, stringify!($name), Some(&ALLOWED)).said, free);
            assert!(!free.is_empty());
        })*
    };
}

alike!(interrupted restarted stopped time_limit time_limit_and_signal in_progress refused faults bad_fourth large names names_elsewhere);

/// Does not answer the first question, which is withdrawn when a signal waits, and denies further ones.
struct Nobody(AtomicUsize);

impl Judge for Nobody {
    fn known(&self, _: &Request) -> Option<Judgement> {
        None
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            return Judgement::Deny(13);
        }
        let bound = std::time::Duration::from_secs(30);
        let withdrawn = || ((question.state)() != State::Waiting).then_some(());
        wait_until("the question is withdrawn", bound, withdrawn);
        Judgement::Withdrawn
    }
}

fn asked(door: &'static str) -> (String, usize) {
    let judge = Nobody(AtomicUsize::new(0));
    let said = run(doors(), door, Some(&judge)).said;
    (said, judge.0.into_inner())
}

#[test]
fn a_signal_interrupts_a_question() {
    needs!("cc");
    assert_eq!(asked("interrupted"), ("EINTR\n".to_owned(), 1));
}

#[test]
fn a_signal_that_restarts_calls_asks_again() {
    needs!("cc");
    assert_eq!(asked("asked_again"), ("EACCES\n".to_owned(), 2));
}

/// Allows everything but one address; whether it has to be asked.
struct AllBut(&'static str, bool);

impl Judge for AllBut {
    fn known(&self, request: &Request) -> Option<Judgement> {
        (!self.1).then(|| self.verdict(request))
    }

    fn decide(&self, question: &Question<'_>) -> Judgement {
        self.verdict(question.request)
    }
}

impl AllBut {
    fn verdict(&self, request: &Request) -> Judgement {
        match &request.target {
            Target::Ip { address, .. } if address.to_string() == self.0 => Judgement::Deny(13),
            _ => Judgement::Allow,
        }
    }
}

/// As by the kernel where a message cannot be sent: those before it are, and it fails with the next call.
#[test]
fn messages_before_a_denied_one_are_sent() {
    needs!("cc");
    for asks in [false, true] {
        let tried = run(doors(), "denied_third", Some(&AllBut("127.0.0.9", asks)));
        assert_eq!(tried.said, "first 2  5 5 0\nthird -1 EACCES 0 0 0\n", "asks: {asks}");
        assert_eq!(tried.reached, 2, "asks: {asks}");
    }
}
