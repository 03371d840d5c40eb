//! The terminal of a guarded program, with questions over it.
//!
//! The program has a terminal of its own, which this relays to the caller's. A question takes the alternate
//! screen; keys go to it alone then, and the program's output waits. So no program can answer a question, hide it, or
//! show one of its own that would be taken for the supervisor's. The time of a question runs while it is shown in the
//! foreground, and never while nobody can see it.
//!
//! Other guards may have the same terminal: each reads, writes and asks in its [turn](Tty::take_turn).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use netloom_policy::{Action, Errno, Request};
use netloom_sys::process;
use netloom_sys::terminal::Raw;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno as Refusal;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp, tcgetwinsize, tcsetwinsize};

use crate::card::{self, Scope};
use crate::desk::{Desk, View};
use crate::menu::{Choice, DEAD, FLOOD_MINUTES, Menu, Step, denies};
use crate::rules::Answer;
use crate::sheet::Sheet;
use crate::tty::Tty;

/// Output of a program that is kept while a question is shown; more waits in the program.
const KEPT: usize = 1 << 20;
/// How often the terminal is looked at while a question waits.
const LOOK: Duration = Duration::from_millis(500);
/// The longest time between two looks that counts as seen: a stopped supervisor shows nothing.
const GLANCE: Duration = Duration::from_secs(2);
/// The shortest time between other input and a key that a person types.
const TYPED: Duration = Duration::from_millis(30);
/// How often it is looked whether another guard's turn is over, and the same for a question.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_TO_ASK: Duration = Duration::from_millis(2);
/// A guard that has written for this long to a slow terminal leaves the turn to others for a moment, in which that is busy yet.
const LONG: Duration = Duration::from_millis(5);
const MOMENT: Duration = Duration::from_millis(4);
/// Reads of a program's output until keys and questions have their turn.
const READS: usize = 16;
/// Where a question is drawn, whatever a program has begun or set: a sequence or string that would swallow it, another
/// language of terminals or a printer, output that is held back, colours in which it would not be seen, other letters, and
/// bounds of lines and of the screen ("XTerm Control Sequences"; those of Linux's consoles are in console_codes(4)). The
/// alternate screen is cleared, with the cursor at its top.
const CLEAN: &str = "\x18\x1b\\\x1b\x03\x1b<\x1b[4i\x1b[?2026l\
    \x1b]104\x1b\\\x1b]105\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]R\x1b\\\x1b[?5l\x1b[?1049h\x1b(B\x0f\x1b[?6l\x1b[?69l\x1b[r\x1b[?7h\x1b[4l\x1b[0m\x1b[2J\x1b[H";

/// Both terminals.
pub(crate) struct Screen<'t> {
    /// The caller's.
    tty: &'t Tty,
    /// When something was read from it last that is not a key of a question.
    heard: Option<Instant>,
    /// This side of the program's; `None` once either is gone.
    inner: Option<OwnedFd>,
    desk: Arc<Desk>,
    /// Input that the program's terminal has not taken yet.
    typed: Vec<u8>,
    /// Output that is not shown while a question is.
    output: Vec<u8>,
    shown: Option<Shown>,
    /// The alternate screen is in front. It is this guard's turn until it no longer is.
    covers: bool,
    /// It was another guard's turn at the last look; when to look again.
    barred: Option<Duration>,
    /// A line in the background has said that a question waits.
    told: bool,
    /// How long a question is shown.
    timeout: Option<Duration>,
    /// Raw mode, while in the foreground.
    raw: Option<Raw<'t>>,
}

/// A question on the screen.
struct Shown {
    view: View,
    menu: Menu,
    /// Since when keys count, but for the dead time.
    since: Instant,
    /// The keys are shown, as they are once they count.
    ready: bool,
    looked: Instant,
    seen: Duration,
    details: bool,
    /// All of it is on the screen.
    fits: bool,
}

impl<'t> Screen<'t> {
    /// Relays between the caller's terminal and the program's.
    ///
    /// # Errors
    /// The program's terminal cannot be read without waiting.
    pub(crate) fn new(
        tty: &'t Tty,
        inner: OwnedFd,
        desk: Arc<Desk>,
        timeout: Option<Duration>,
    ) -> std::io::Result<Screen<'t>> {
        // One thread does all: a program that reads nothing
        // must not keep a question from being answered.
        rustix::io::ioctl_fionbio(&inner, true)?;
        let (typed, output) = (vec![], vec![]);
        let (shown, covers, barred, told, raw) = (None, false, None, false, None);
        let inner = Some(inner);
        let heard = None;
        let mut screen = Screen {
            tty,
            heard,
            inner,
            desk,
            typed,
            output,
            shown,
            covers,
            barred,
            told,
            timeout,
            raw,
        };
        screen.fit();
        screen.look();
        if screen.raw.is_none() {
            // In the background it is another's.
            tty.give_back();
        }
        Ok(screen)
    }

    /// What to wait for.
    pub(crate) fn polls(&self) -> Vec<PollFd<'_>> {
        let mut polls = vec![PollFd::from_borrowed_fd(self.desk.bell(), PollFlags::IN)];
        if let Some(inner) = &self.inner {
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, self.output.len() < KEPT);
            events.set(PollFlags::OUT, !self.typed.is_empty());
            polls.push(PollFd::new(inner, events));
            // Keys that the program has not read yet wait in the
            // terminal, whose queue is bounded, and not here.
            if self.raw.is_some() && self.typed.is_empty() && self.barred.is_none() {
                polls.push(PollFd::from_borrowed_fd(self.tty.as_fd(), PollFlags::IN));
            }
        }
        polls
    }

    /// When to look again although nothing happens: while a question waits, time and foreground matter.
    pub(crate) fn look_in(&self) -> Option<Duration> {
        match &self.shown {
            _ if self.barred.is_some() => self.barred,
            Some(shown) if !shown.ready => Some(DEAD.saturating_sub(shown.since.elapsed())),
            Some(_) => Some(LOOK),
            None => self.told.then_some(LOOK),
        }
    }

    /// Does what there is to do, without waiting.
    pub(crate) fn turn(&mut self) {
        self.desk.heard();
        self.look();
        self.write_typed();
        self.barred = None;
        self.relay();
        if self.raw.is_some() {
            self.keys();
        }
        self.next_card();
        self.tick();
    }

    /// Takes the terminal while this process is in its foreground, and leaves it alone otherwise.
    fn look(&mut self) {
        let front = tcgetpgrp(self.tty).is_ok_and(|group| group == rustix::process::getpgrp());
        if !front && self.raw.is_some() {
            self.leave();
        } else if front && self.raw.is_none() && self.inner.is_some() {
            self.tty.keep();
            self.raw = Raw::set(self.tty.as_fd());
            self.fit();
        } else if let Some(raw) = &mut self.raw {
            raw.renew();
        }
    }

    /// Whether this guard may read and write now; if so, until it [passes](Screen::passes_turn) the turn on.
    fn takes_turn(&mut self) -> bool {
        let takes = self.covers || self.tty.take_turn();
        if !takes {
            self.barred = self.barred.or(Some(RETRY));
        }
        takes
    }

    fn passes_turn(&self) {
        if !self.covers {
            self.tty.pass_turn();
        }
    }

    /// Gives the terminal back: before this process stops, or because another one has it.
    pub(crate) fn leave(&mut self) {
        self.shown = None;
        self.uncover();
        self.raw = None;
        self.tty.give_back();
    }

    /// The caller's terminal is gone: so is the program's, and questions get the default.
    pub(crate) fn hang_up(&mut self) {
        self.desk.close();
        self.shown = None;
        self.inner = None;
    }

    /// Shows what the program has written last, and gives the terminal back. The turn stays this guard's.
    pub(crate) fn finish(mut self) {
        self.desk.close();
        self.shown = None;
        self.uncover();
        self.tty.wait_for_turn();
        // The program has ended: what lies in its terminal is all that comes.
        while self.read_output() || !self.output.is_empty() {
            self.show_output();
        }
        self.leave();
    }

    fn write_typed(&mut self) {
        let Some(inner) = self.inner.as_ref().filter(|_| !self.typed.is_empty()) else { return };
        match rustix::io::write(inner, &self.typed) {
            Ok(n) => drop(self.typed.drain(..n)),
            Err(Refusal::AGAIN | Refusal::INTR) => {}
            Err(_) => self.typed.clear(),
        }
    }

    /// Shows or keeps what the program writes.
    fn relay(&mut self) {
        for _ in 0..READS {
            let more = self.read_output();
            if !self.covers && !self.output.is_empty() && self.takes_turn() {
                let begun = Instant::now();
                self.show_output();
                self.passes_turn();
                // Other guards try every 2 ms (`RETRY_TO_ASK`): without a pause they would never
                // find the turn free.
                if begun.elapsed() > LONG {
                    std::thread::sleep(MOMENT);
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Whether the program has written something.
    fn read_output(&mut self) -> bool {
        let mut buffer = [0; 1 << 14];
        while self.output.len() < KEPT {
            let Some(inner) = &self.inner else { return false };
            match rustix::io::read(inner, &mut buffer) {
                Err(Refusal::INTR) => {}
                Ok(n @ 1..) => {
                    self.output.extend(&buffer[..n]);
                    return true;
                }
                // No process has the other side open now, or it has written nothing.
                Ok(_) | Err(_) => return false,
            }
        }
        false
    }

    fn show_output(&mut self) {
        self.show(&self.output);
        self.output.clear();
    }

    fn keys(&mut self) {
        if !self.typed.is_empty() || !process::wait_readable(self.tty, Duration::ZERO) {
            return;
        }
        if self.takes_turn() {
            self.read_keys();
            self.passes_turn();
        }
    }

    fn read_keys(&mut self) {
        let mut buffer = [0; 1024];
        match rustix::io::read(self.tty, &mut buffer) {
            Err(Refusal::INTR | Refusal::AGAIN) => {}
            Ok(0) | Err(_) => self.hang_up(),
            Ok(n) => {
                let quiet = self.heard.map(|heard| heard.elapsed());
                if self.shown.is_some() && is_typed(n, quiet) {
                    return self.press(buffer[0]);
                }
                self.heard = Some(Instant::now());
                if self.shown.is_none() {
                    self.typed.extend(&buffer[..n]);
                    self.write_typed();
                }
            }
        }
    }

    fn press(&mut self, key: u8) {
        // To deny is safe whatever of the question was seen.
        let counts = |shown: &&mut Shown| (shown.ready && shown.fits) || denies(key);
        let Some(shown) = self.shown.as_mut().filter(counts) else { return };
        let (id, step) = (shown.view.id, shown.menu.press(key, shown.since.elapsed()));
        let program = shown.view.who.program.path.clone();
        let deny = Action::Deny(Errno::default());
        match step {
            Step::Nothing => return,
            Step::Shown => return self.draw(),
            Step::Details => {
                shown.details = true;
                return self.draw();
            }
            Step::Answer(choice) => self.desk.answer(id, |request| answer(choice, request)),
            Step::DenyAll => self.desk.answer_program(&program, |_| Answer::Once(deny)),
            Step::DenyProgram => {
                let (scope, minutes) = (Some(Scope::Program), Some(FLOOD_MINUTES));
                let choice = Choice { action: deny, scope, minutes };
                self.desk.answer_program(&program, |request| answer(choice, request));
            }
        }
        self.shown = None;
    }

    /// Shows the first question, or that it has changed, or that there is none any more.
    fn next_card(&mut self) {
        let Some(view) = self.desk.front() else {
            self.shown = None;
            self.told = false;
            return self.uncover();
        };
        if self.raw.is_none() {
            return self.tell();
        }
        match &mut self.shown {
            Some(shown) if shown.view.id == view.id => {
                // What a person has not seen yet is not answered by a key on its way.
                let fresh =
                    shown.view.flood.is_none() && shown.view.requests.len() != view.requests.len();
                if fresh {
                    (shown.since, shown.ready) = (Instant::now(), false);
                }
                let late = !shown.ready && shown.since.elapsed() >= DEAD;
                if late {
                    // What was typed until now was typed before its keys were shown.
                    let _ = tcflush(self.tty, QueueSelector::IFlush);
                }
                shown.ready |= late;
                let same = !late
                    && (shown.view.requests.len(), shown.view.waiting, shown.view.flood)
                        == (view.requests.len(), view.waiting, view.flood);
                shown.view = view;
                if !same {
                    self.draw();
                }
            }
            _ => {
                if self.takes_turn() {
                    self.begin(view);
                } else {
                    self.barred = Some(RETRY_TO_ASK);
                }
            }
        }
    }

    fn begin(&mut self, view: View) {
        let menu = match (view.flood, view.requests.first()) {
            (None, Some(request)) => Menu::new(request, view.same_program),
            _ => Menu::flood(),
        };
        let now = Instant::now();
        let (ready, seen, details, fits) = (false, Duration::ZERO, false, false);
        self.shown =
            Some(Shown { view, menu, since: now, ready, looked: now, seen, details, fits });
        self.draw();
    }

    /// In the background a line says once that a question waits.
    fn tell(&mut self) {
        if self.told || self.inner.is_none() || !self.takes_turn() {
            return;
        }
        self.told = true;
        self.show(b"\r\nnetloom guard: a question waits; bring it to the foreground (fg)\r\n");
        self.passes_turn();
    }

    /// Counts the time in which the question was seen.
    fn tick(&mut self) {
        let Some(shown) = &mut self.shown else { return };
        let passed = shown.looked.elapsed();
        shown.looked = Instant::now();
        if shown.fits {
            // Only where the whole question was on the screen: else nobody could have answered it.
            shown.seen += passed.min(GLANCE);
        }
        if self.timeout.is_some_and(|timeout| shown.seen >= timeout) {
            let id = shown.view.id;
            self.shown = None;
            self.desk.answer(id, |_| Answer::Nobody);
        }
    }

    fn draw(&mut self) {
        let Some(shown) = &mut self.shown else { return };
        let View { who, requests, flood, waiting, .. } = &shown.view;
        let (mut lines, mut more) = match flood {
            Some(count) => (card::flood(who, *count, *waiting), card::wishes(requests)),
            None => (card::lines(who, requests, *waiting), vec![]),
        };
        if let Some(request) = requests.first().filter(|_| shown.details) {
            more.extend(card::details(who, request));
        }
        let sheet = Sheet::of(tcgetwinsize(self.tty).ok());
        let menu = shown.menu.lines();
        if sheet.holds(&lines, &menu) && !shown.fits {
            // It is seen from now on. Keys that were typed before are not meant for it.
            (shown.since, shown.ready) = (Instant::now(), false);
            let _ = tcflush(self.tty, QueueSelector::IFlush);
        }
        shown.fits = sheet.holds(&lines, &menu);
        let below = match (shown.fits, shown.ready) {
            (true, true) => menu.clone(),
            (true, false) => vec!["…".to_owned()],
            (false, _) => vec![],
        };
        if shown.fits {
            lines.extend(sheet.beside(&lines, &menu, more));
        } else {
            lines = sheet.too_small(&lines, &menu);
        }
        let text = format!("{CLEAN}{}", sheet.text(&lines, &below));
        self.covers = true;
        self.show(text.as_bytes());
    }

    /// Shows the program's screen again, with what it wrote meanwhile.
    fn uncover(&mut self) {
        if std::mem::take(&mut self.covers) {
            self.show(b"\x1b[?1049l");
            self.show_output();
            self.passes_turn();
        }
    }

    /// Gives the program's terminal the size of the caller's.
    pub(crate) fn fit(&mut self) {
        let Some(inner) = &self.inner else { return };
        let Ok(size) = tcgetwinsize(self.tty) else { return };
        if tcgetwinsize(inner).ok() != Some(size) {
            let _ = tcsetwinsize(inner, size);
        }
        self.draw();
    }

    /// Writes to the caller's terminal; if that is gone, drops the text.
    fn show(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match rustix::io::write(self.tty, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Refusal::INTR) => {}
                Err(Refusal::AGAIN) => {
                    let mut writable = [PollFd::from_borrowed_fd(self.tty.as_fd(), PollFlags::OUT)];
                    let _ = rustix::event::poll(&mut writable, None);
                }
                Err(_) => return,
            }
        }
    }
}

/// Whether this many bytes are a key that a person has typed, this long after other input. What comes at once is a paste, a key
/// that is not a letter, or what the terminal says by itself, which programs make it say.
fn is_typed(bytes: usize, quiet: Option<Duration>) -> bool {
    bytes == 1 && quiet.is_none_or(|quiet| quiet >= TYPED)
}

fn answer(choice: Choice, request: &Request) -> Answer {
    let Choice { action, scope, minutes } = choice;
    let rule =
        scope.and_then(|scope| card::rule(action, scope, request, minutes, Timestamp::now()));
    rule.map_or(Answer::Once(action), |rule| Answer::Rule(Box::new(rule)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stands_alone() {
        let after = |milliseconds| Some(Duration::from_millis(milliseconds));
        assert!(is_typed(1, None) && is_typed(1, after(30)));
        assert!(!is_typed(1, after(29)) && !is_typed(1, after(0)));
        assert!(!is_typed(2, None) && !is_typed(8, after(1000)));
    }
}
