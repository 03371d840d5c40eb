//! The terminal of a guarded program, with questions over it.
//!
//! The program has a terminal of its own, which this relays to the caller's. A question takes the alternate
//! screen; keys go to it alone then, and the program's output waits. So no program can answer a question, hide it, or
//! show one of its own that would be taken for the supervisor's.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use netloom_policy::{Action, Errno, Request};
use netloom_sys::terminal::Raw;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno as Refusal;
use rustix::termios::{QueueSelector, tcflush, tcgetwinsize, tcsetwinsize};

use crate::card;
use crate::judge::{Question, State};
use crate::menu::{Choice, Menu, Step};
use crate::rules::{Answer, Ask};
use crate::who::Who;

/// How often a question looks whether its call is still there.
const LOOK: Duration = Duration::from_millis(50);
/// Output of a program that is kept while a question is shown; more waits in the program.
const KEPT: usize = 1 << 20;

/// A question that waits for a person.
struct Card {
    who: Who,
    request: Request,
    /// All who asked the same.
    askers: Vec<Asker>,
}

/// Who waits for an answer, for as long as the other end of the token is held.
struct Asker {
    answer: Sender<Answer>,
    waits: Weak<()>,
}

impl Card {
    fn is_wanted(&self) -> bool {
        self.askers.iter().any(|asker| asker.waits.strong_count() > 0)
    }
}

/// Questions by threads of the supervisor, for the thread that has the screen.
pub struct Desk {
    cards: Mutex<VecDeque<Card>>,
    bell: OwnedFd,
    closed: Mutex<bool>,
}

impl Desk {
    /// A desk without questions.
    ///
    /// # Errors
    /// No more descriptors may be open.
    pub fn new() -> std::io::Result<Arc<Desk>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Desk { cards: Mutex::default(), bell, closed: Mutex::new(false) }))
    }

    /// Nobody answers any more: questions get the default.
    pub fn close(&self) {
        *lock(&self.closed) = true;
        for card in lock(&self.cards).drain(..) {
            tell(&card.askers, &Answer::Nobody);
        }
    }

    fn put(&self, question: &Question<'_>, token: &Arc<()>) -> Option<Receiver<Answer>> {
        let closed = lock(&self.closed);
        if *closed {
            return None;
        }
        let (sender, answer) = channel();
        let asker = Asker { answer: sender, waits: Arc::downgrade(token) };
        let mut cards = lock(&self.cards);
        // The same question of several threads or processes of a program is one.
        let same = cards.iter_mut().find(|card| card.request == *question.request);
        match same {
            Some(card) => card.askers.push(asker),
            None => cards.push_back(Card {
                who: question.who.clone(),
                request: question.request.clone(),
                askers: vec![asker],
            }),
        }
        drop(cards);
        self.ring();
        Some(answer)
    }

    fn ring(&self) {
        // A full counter rings already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Ask for Arc<Desk> {
    fn ask(&self, question: &Question<'_>) -> Answer {
        let token = Arc::new(());
        let Some(answer) = self.put(question, &token) else { return Answer::Nobody };
        loop {
            match answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Answer::Nobody,
                Err(RecvTimeoutError::Timeout) => {
                    if (question.state)() != State::Waiting {
                        // The card goes when the screen finds that nobody waits for it.
                        drop(token);
                        self.ring();
                        return Answer::Withdrawn;
                    }
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell(askers: &[Asker], answer: &Answer) {
    for asker in askers {
        // One that was withdrawn needs no answer.
        let _ = asker.answer.send(answer.clone());
    }
}

/// Both terminals.
pub struct Screen {
    /// This side of the program's terminal.
    inner: OwnedFd,
    desk: Arc<Desk>,
    /// Input that the program's terminal has not taken yet.
    typed: Vec<u8>,
    /// Output that is not shown while a question is.
    output: Vec<u8>,
    shown: Option<Shown>,
    /// The alternate screen is in front.
    covers: bool,
    reads: bool,
    _raw: Raw<'static>,
}

/// A question on the screen.
struct Shown {
    card: Card,
    menu: Menu,
    since: Instant,
    details: bool,
}

impl Screen {
    /// `None` if the caller has no terminal.
    pub fn new(inner: OwnedFd, desk: Arc<Desk>) -> Option<Screen> {
        rustix::io::ioctl_fionbio(&inner, true).ok()?;
        let raw = Raw::set(rustix::stdio::stdin())?;
        let screen = Screen {
            inner,
            desk,
            typed: vec![],
            output: vec![],
            shown: None,
            covers: false,
            reads: true,
            _raw: raw,
        };
        screen.fit();
        Some(screen)
    }

    /// Relays, and asks, until the program's side is closed or `ended` is readable.
    pub fn run(&mut self, ended: impl AsFd) {
        while self.turn(ended.as_fd()) {
            self.fit();
        }
        self.hide();
        self.desk.close();
    }

    /// Waits for something and does it; false at the end.
    fn turn(&mut self, ended: rustix::fd::BorrowedFd<'_>) -> bool {
        let stdin = rustix::stdio::stdin();
        let mut inner = PollFlags::empty();
        inner.set(PollFlags::IN, self.output.len() < KEPT);
        inner.set(PollFlags::OUT, !self.typed.is_empty());
        let input =
            if self.reads && self.typed.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        let mut polled = [
            PollFd::new(&self.inner, inner),
            PollFd::new(&self.desk.bell, PollFlags::IN),
            PollFd::from_borrowed_fd(ended, PollFlags::IN),
            PollFd::from_borrowed_fd(stdin, input),
        ];
        let timeout = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        if poll(&mut polled, Some(&timeout)).is_err() {
            return true;
        }
        let [from_program, rung, over, keys] = polled.map(|one| one.revents());
        if !from_program.is_empty() && !self.relay() {
            return false;
        }
        if !rung.is_empty() {
            let _ = rustix::io::read(&self.desk.bell, &mut [0; 8]);
        }
        if !keys.is_empty() {
            self.keys();
        }
        self.next_card();
        over.is_empty()
    }

    /// Moves bytes between the two terminals; false if the program's is closed.
    fn relay(&mut self) -> bool {
        if !self.typed.is_empty() {
            match rustix::io::write(&self.inner, &self.typed) {
                Ok(n) => drop(self.typed.drain(..n)),
                Err(Refusal::AGAIN | Refusal::INTR) => {}
                Err(_) => self.typed.clear(),
            }
        }
        let mut buffer = [0; 1 << 14];
        while self.output.len() < KEPT {
            match rustix::io::read(&self.inner, &mut buffer) {
                Ok(0) => return false,
                Ok(n) if self.covers => self.output.extend(&buffer[..n]),
                Ok(n) => show(&buffer[..n]),
                Err(Refusal::INTR) => {}
                Err(Refusal::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn keys(&mut self) {
        let mut buffer = [0; 1024];
        let n = match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
            Ok(0) => {
                self.reads = false;
                return self.nobody();
            }
            Ok(n) => n,
            Err(Refusal::INTR | Refusal::AGAIN) => return,
            Err(_) => {
                self.reads = false;
                return self.nobody();
            }
        };
        match &self.shown {
            None => self.typed.extend(&buffer[..n]),
            // What comes at once is not typed: a paste, or an escape sequence of a key that is no letter.
            Some(_) if n > 1 => {}
            Some(_) => self.press(buffer[0]),
        }
    }

    /// The caller's terminal is gone.
    fn nobody(&mut self) {
        if let Some(shown) = self.shown.take() {
            tell(&shown.card.askers, &Answer::Nobody);
        }
        self.desk.close();
    }

    fn press(&mut self, key: u8) {
        let Some(shown) = &mut self.shown else { return };
        match shown.menu.press(key, shown.since.elapsed()) {
            Step::Nothing => {}
            Step::Shown => self.draw(),
            Step::Details => {
                shown.details = true;
                self.draw();
            }
            Step::Answer(choice) => {
                let answer = answer(choice, &shown.card.request);
                tell(&shown.card.askers, &answer);
                self.shown = None;
                self.next_card();
            }
            Step::DenyAll => self.deny_all(),
        }
    }

    fn deny_all(&mut self) {
        let Some(shown) = self.shown.take() else { return };
        let answer = Answer::Once(Action::Deny(Errno::default()));
        tell(&shown.card.askers, &answer);
        let program = &shown.card.request.program.path;
        lock(&self.desk.cards).retain(|card| {
            let other = card.request.program.path != *program;
            if !other {
                tell(&card.askers, &answer);
            }
            other
        });
        self.next_card();
    }

    /// Shows the next question, if there is one and none is shown; takes away one for which nobody waits.
    fn next_card(&mut self) {
        if self.shown.as_ref().is_some_and(|shown| shown.card.is_wanted()) || !self.reads {
            return;
        }
        self.shown = None;
        let desk = Arc::clone(&self.desk);
        let mut cards = lock(&desk.cards);
        cards.retain(Card::is_wanted);
        let Some(card) = cards.pop_front() else {
            drop(cards);
            return self.hide();
        };
        let program = &card.request.program.path;
        let many = cards.iter().filter(|other| other.request.program.path == *program).count() > 0;
        drop(cards);
        // Keys that were typed before the question appeared are not meant for it.
        let _ = tcflush(rustix::stdio::stdin(), QueueSelector::IFlush);
        let menu = Menu::new(&card.request, many);
        self.shown = Some(Shown { card, menu, since: Instant::now(), details: false });
        self.covers = true;
        self.draw();
    }

    fn draw(&self) {
        let Some(shown) = &self.shown else { return };
        let waiting = lock(&self.desk.cards).len();
        let Card { who, request, .. } = &shown.card;
        // Alternate screen, cleared, cursor at its top.
        let mut text = String::from("\x1b[?1049h\x1b[2J\x1b[H\r\n  netloom guard\r\n\r\n");
        let details = if shown.details { card::details(who, request) } else { vec![] };
        let menu = shown.menu.lines();
        for part in [card::lines(who, request, waiting), details, menu] {
            for line in &part {
                text.push_str("  ");
                text.push_str(line);
                text.push_str("\r\n");
            }
            text.push_str("\r\n");
        }
        show(text.as_bytes());
    }

    /// Shows the program's screen again, with what it wrote meanwhile.
    fn hide(&mut self) {
        if let Some(shown) = self.shown.take() {
            tell(&shown.card.askers, &Answer::Nobody);
        }
        if std::mem::take(&mut self.covers) {
            show(b"\x1b[?1049l");
            show(&std::mem::take(&mut self.output));
        }
    }

    /// Gives the program's terminal the size of the caller's.
    fn fit(&self) {
        let Ok(size) = tcgetwinsize(rustix::stdio::stdout()) else { return };
        if tcgetwinsize(&self.inner).ok() != Some(size) {
            let _ = tcsetwinsize(&self.inner, size);
        }
    }
}

fn answer(choice: Choice, request: &Request) -> Answer {
    let Choice { action, scope, minutes } = choice;
    let rule =
        scope.and_then(|scope| card::rule(action, scope, request, minutes, Timestamp::now()));
    rule.map_or(Answer::Once(action), Answer::Rule)
}

/// Writes to the caller's terminal; if that is gone, drops the text.
fn show(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
