//! Questions that wait for a person: a queue that merges, counts and is bounded. Asked by threads of the supervisor,
//! answered by the one thread that has the screen.
//!
//! Requests of a program that differ in nothing a person would decide about (the addresses of one name) share a card. A
//! program that asks for too much at once gets one card for all of it, with a count.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use netloom_policy::{Request, Target};
use rustix::event::{EventfdFlags, eventfd};

use crate::judge::{Question, State};
use crate::rules::{Answer, Ask};
use crate::who::Who;

/// How often a question looks whether its call is still there, while few wait.
const LOOK: Duration = Duration::from_millis(50);
/// The same for each question that waits, so that many cost no more than few.
const LOOK_EACH: Duration = Duration::from_millis(1);
/// Cards of one program; what it asks beyond them shares one.
const CARDS: usize = 8;
/// Cards in all. What needs one more gets the default at once.
const ALL_CARDS: usize = 64;
/// Calls of one program, and in all, that wait; one more gets the default at once. Each holds a thread of the
/// supervisor, of which other programs' calls need some.
const ASKERS: usize = 128;
const ALL_ASKERS: usize = 224;
/// Different requests that share a card, and that a card for a flood shows.
const SHARED: usize = 8;

/// A question as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The card's number.
    pub(crate) id: u64,
    /// Who asked first.
    pub(crate) who: Who,
    /// The different requests, at least one; of a flood only the first ones.
    pub(crate) requests: Vec<Request>,
    /// How many calls asked, if they are too many to be told apart.
    pub(crate) flood: Option<usize>,
    /// Cards behind this one.
    pub(crate) waiting: usize,
    /// Some of these are of the same program.
    pub(crate) same_program: bool,
}

#[derive(Debug)]
struct Card {
    id: u64,
    who: Who,
    requests: Vec<Request>,
    askers: Vec<Asker>,
    flood: bool,
}

/// A call that waits for an answer, as long as the other end of the token is held.
#[derive(Debug)]
struct Asker {
    request: Request,
    answer: Sender<Answer>,
    waits: Weak<()>,
}

impl Card {
    fn program(&self) -> &str {
        &self.who.program.path
    }

    /// Whether `request` may share this card.
    fn takes(&self, request: &Request) -> bool {
        if self.flood {
            return self.program() == request.program.path;
        }
        let known = self.requests.contains(request);
        known
            || (self.requests.len() < SHARED && self.requests.iter().all(|one| alike(one, request)))
    }

    fn add(&mut self, asker: Asker) {
        if self.requests.len() < SHARED && !self.requests.contains(&asker.request) {
            self.requests.push(asker.request.clone());
        }
        self.askers.push(asker);
    }
}

/// Whether two requests differ only in the address that the same names led to.
fn alike(a: &Request, b: &Request) -> bool {
    let names = |request: &Request| match &request.target {
        Target::Ip { port, names, .. } if !names.is_empty() => Some((*port, names.clone())),
        _ => None,
    };
    a.program == b.program
        && (a.direction, a.protocol) == (b.direction, b.protocol)
        && names(a).is_some_and(|of_a| names(b) == Some(of_a))
}

#[derive(Debug, Default)]
struct Queue {
    cards: VecDeque<Card>,
    last: u64,
    closed: bool,
}

impl Queue {
    /// How many calls wait, of a program and in all.
    fn askers(&self, program: &str) -> (usize, usize) {
        let all = || self.cards.iter().flat_map(|card| &card.askers);
        let own = all().filter(|asker| asker.request.program.path == program);
        (own.count(), all().count())
    }

    /// Takes away those who wait no longer, and cards without any.
    fn sweep(&mut self) {
        for card in &mut self.cards {
            card.askers.retain(|asker| asker.waits.strong_count() > 0);
        }
        self.cards.retain(|card| !card.askers.is_empty());
    }

    /// Puts a question on a card; whether there is one for it.
    fn put(&mut self, who: &Who, asker: Asker) -> bool {
        if let Some(card) = self.cards.iter_mut().find(|card| card.takes(&asker.request)) {
            card.add(asker);
            return true;
        }
        // No other program's card has room for it: a card shows one program, and its answer is for that one alone.
        if self.cards.len() >= ALL_CARDS {
            return false;
        }
        let program = &asker.request.program.path;
        let own = self.cards.iter().filter(|card| card.program() == program).count();
        // This card takes all further requests of the program, see `takes`.
        let flood = own >= CARDS;
        self.last += 1;
        let requests = vec![asker.request.clone()];
        let (id, who) = (self.last, who.clone());
        self.cards.push_back(Card { id, who, requests, askers: vec![asker], flood });
        true
    }
}

/// Questions that wait for a person.
#[derive(Debug)]
pub struct Desk {
    queue: Mutex<Queue>,
    bell: OwnedFd,
}

impl Desk {
    /// A desk without questions.
    ///
    /// # Errors
    /// No more descriptors may be open.
    pub fn new() -> std::io::Result<Arc<Desk>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Desk { queue: Mutex::default(), bell }))
    }

    /// Nobody answers any more: questions get the default.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        for card in queue.cards.drain(..) {
            tell(&card, |_| Answer::Nobody);
        }
    }

    /// Becomes readable when the questions change.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Silences the bell.
    pub(crate) fn heard(&self) {
        // An empty counter is silent already.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    /// The first question that somebody waits for.
    pub(crate) fn front(&self) -> Option<View> {
        let mut queue = self.lock();
        queue.sweep();
        let (card, rest) = (queue.cards.front()?, queue.cards.range(1..));
        let same_program = rest.clone().any(|other| other.program() == card.program());
        Some(View {
            id: card.id,
            who: card.who.clone(),
            requests: card.requests.clone(),
            flood: card.flood.then_some(card.askers.len()),
            waiting: rest.len(),
            same_program,
        })
    }

    /// Answers a card.
    pub(crate) fn answer(&self, id: u64, answer: impl Fn(&Request) -> Answer) {
        self.take(|card| card.id == id, answer);
    }

    /// Answers all cards of a program.
    pub(crate) fn answer_program(&self, program: &str, answer: impl Fn(&Request) -> Answer) {
        self.take(|card| card.program() == program, answer);
    }

    fn take(&self, which: impl Fn(&Card) -> bool, answer: impl Fn(&Request) -> Answer) {
        let mut queue = self.lock();
        // Taken out under the lock, told without it: an answer may make the program ask again.
        let (taken, kept): (VecDeque<Card>, _) = queue.cards.drain(..).partition(which);
        queue.cards = kept;
        drop(queue);
        taken.iter().for_each(|card| tell(card, &answer));
    }

    fn put(
        &self,
        question: &Question<'_>,
        token: &Arc<()>,
    ) -> Option<(Receiver<Answer>, Duration)> {
        let mut queue = self.lock();
        queue.sweep();
        let (own, waiting) = queue.askers(&question.request.program.path);
        if queue.closed || own >= ASKERS || waiting >= ALL_ASKERS {
            return None;
        }
        let (sender, answer) = channel();
        let request = question.request.clone();
        let asker = Asker { request, answer: sender, waits: Arc::downgrade(token) };
        if !queue.put(question.who, asker) {
            return None;
        }
        drop(queue);
        self.ring();
        // Each look is a call to the kernel for each question, so many questions look less often.
        let each = LOOK_EACH.saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX));
        Some((answer, LOOK.max(each)))
    }

    fn ring(&self) {
        // A full counter rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(card: &Card, answer: impl Fn(&Request) -> Answer) {
    for asker in &card.askers {
        // One that was withdrawn needs no answer.
        let _ = asker.answer.send(answer(&asker.request));
    }
}

impl Ask for Arc<Desk> {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let token = Arc::new(());
        let Some((answer, look)) = self.put(question, &token) else { return Answer::Nobody };
        loop {
            match answer.recv_timeout(look) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Answer::Nobody,
                Err(RecvTimeoutError::Timeout) if (question.state)() == State::Waiting => {}
                Err(RecvTimeoutError::Timeout) => {
                    // The card goes when the screen finds that nobody waits for it.
                    drop(token);
                    self.ring();
                    return Answer::Withdrawn;
                }
            }
        }
    }

    fn changed(&self) {
        self.take(|_| true, |_| Answer::Again);
    }
}

#[cfg(test)]
mod tests {
    use netloom_policy::{Action, Direction, Port, Program, Protocol};

    use super::*;

    fn who(program: &str) -> Who {
        Who {
            program: Program { path: program.into(), sha256: None },
            called: program.into(),
            arguments: vec![],
            thread: 7,
            pid: 7,
            parent: 6,
            parent_name: "sh".into(),
        }
    }

    fn request(program: &str, address: &str, port: u16, name: Option<&str>) -> Request {
        let names = name.into_iter().map(str::to_owned).collect();
        Request {
            program: who(program).program,
            direction: Direction::Out,
            protocol: Protocol::Tcp,
            target: Target::ip(Direction::Out, address.parse().unwrap(), port, names),
        }
    }

    /// Puts a request on the desk; its answer, and what keeps it waiting.
    fn put(desk: &Desk, request: &Request) -> Option<(Receiver<Answer>, Arc<()>)> {
        let token = Arc::new(());
        let who = who(&request.program.path);
        let question = Question { who: &who, request, state: &|| State::Waiting };
        desk.put(&question, &token).map(|(answer, _)| (answer, token))
    }

    #[test]
    fn addresses_of_one_name_share_a_card() {
        let desk = Desk::new().unwrap();
        let held = [
            put(&desk, &request("/bin/a", "::1", 443, Some("x.org"))),
            put(&desk, &request("/bin/a", "192.0.2.1", 443, Some("x.org"))),
            put(&desk, &request("/bin/a", "192.0.2.1", 443, Some("x.org"))),
            put(&desk, &request("/bin/a", "192.0.2.1", 80, Some("x.org"))),
            put(&desk, &request("/bin/b", "192.0.2.1", 443, Some("x.org"))),
            put(&desk, &request("/bin/a", "192.0.2.1", 443, None)),
        ];
        let view = desk.front().unwrap();
        assert_eq!((view.requests.len(), view.waiting, view.flood), (2, 3, None));
        desk.answer(view.id, |_| Answer::Once(Action::Allow));
        let answered = held.iter().flatten().filter(|(answer, _)| answer.try_recv().is_ok());
        assert_eq!(answered.count(), 3);
        assert_eq!(desk.front().unwrap().waiting, 2);
    }

    #[test]
    fn a_card_goes_when_nobody_waits_for_it() {
        let desk = Desk::new().unwrap();
        let first = put(&desk, &request("/bin/a", "192.0.2.1", 1, None));
        let second = put(&desk, &request("/bin/a", "192.0.2.1", 2, None));
        drop(first);
        let view = desk.front().unwrap();
        assert_eq!((view.waiting, view.requests[0].target.port()), (0, Port::Named(2)));
        drop(second);
        assert!(desk.front().is_none());
    }

    #[test]
    fn a_flood_is_one_card_with_a_count_and_bounded() {
        let desk = Desk::new().unwrap();
        let ports = 1..=u16::try_from(ASKERS).unwrap();
        let held: Vec<_> =
            ports.map(|port| put(&desk, &request("/bin/a", "192.0.2.1", port, None))).collect();
        assert!(held.iter().all(Option::is_some));
        let late = put(&desk, &request("/bin/a", "192.0.2.1", 1, None));
        assert!(late.is_none(), "one more gets the default at once");
        assert!(put(&desk, &request("/bin/b", "192.0.2.1", 1, None)).is_some());
        for _ in 0..CARDS {
            let view = desk.front().unwrap();
            assert_eq!((view.flood, view.requests.len()), (None, 1));
            desk.answer(view.id, |_| Answer::Once(Action::Allow));
        }
        let view = desk.front().unwrap();
        assert_eq!(
            (view.flood, view.requests.len(), view.waiting),
            (Some(ASKERS - CARDS), SHARED, 0)
        );
        desk.answer(view.id, |_| Answer::Nobody);
        assert!(desk.front().is_none());
        assert!(held.iter().flatten().all(|(answer, _)| answer.try_recv().is_ok()));
    }

    #[test]
    fn no_program_waits_on_the_card_of_another() {
        let desk = Desk::new().unwrap();
        let ask = |n: usize| put(&desk, &request(&format!("/bin/{n}"), "192.0.2.1", 1, None));
        let held: Vec<_> = (0..ALL_CARDS).map(ask).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(ask(ALL_CARDS).is_none(), "one more program gets the default at once");
        let again = ask(ALL_CARDS - 1);
        assert!(again.is_some(), "one that has a card goes on");
        for n in 0..ALL_CARDS {
            let view = desk.front().unwrap();
            assert_eq!((view.who.program.path, view.flood), (format!("/bin/{n}"), None));
            desk.answer(view.id, |asked| {
                assert_eq!(asked.program.path, format!("/bin/{n}"));
                Answer::Once(Action::Allow)
            });
        }
        assert!(desk.front().is_none());
    }

    #[test]
    fn a_bounded_number_of_calls_waits_in_all() {
        let desk = Desk::new().unwrap();
        let ask = |n: usize| put(&desk, &request(&format!("/bin/{}", n % 8), "192.0.2.1", 1, None));
        let held: Vec<_> = (0..ALL_ASKERS).map(ask).collect();
        assert!(held.iter().all(Option::is_some) && ask(0).is_none());
    }

    #[test]
    fn a_closed_desk_answers_by_the_default() {
        let desk = Desk::new().unwrap();
        let asked = request("/bin/a", "192.0.2.1", 1, None);
        let (answer, _token) = put(&desk, &asked).unwrap();
        desk.close();
        assert_eq!(answer.try_recv(), Ok(Answer::Nobody));
        assert!(put(&desk, &asked).is_none());
    }

    #[test]
    fn all_are_judged_again_after_an_answer_that_is_a_rule() {
        let desk = Desk::new().unwrap();
        let (answer, _token) = put(&desk, &request("/bin/a", "192.0.2.1", 1, None)).unwrap();
        desk.changed();
        assert_eq!(answer.try_recv(), Ok(Answer::Again));
    }
}
