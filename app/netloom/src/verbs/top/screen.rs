//! The terminal: what is on it while `top` runs, and as it was before, also after a panic.

use std::io::{Stdout, stdout};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::{Terminal, try_init, try_restore};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::model::{Message, Model};
use super::view;

/// The terminal in the hands of `top`.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal. A panic gives it back before it is told.
    pub(super) fn enter() -> Result<Screen> {
        use std::io::IsTerminal;
        if !stdout().is_terminal() || !std::io::stdin().is_terminal() {
            anyhow::bail!(
                "terminal: input and output are not one; `netloom top --once` prints tables"
            );
        }
        try_init().context("terminal: take it").map(Screen)
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> Result<u16> {
        Ok(self.0.size().context("terminal: ask for its size")?.height)
    }

    /// Draws what can be seen.
    pub(super) fn draw(&mut self, model: &Model) -> Result<()> {
        self.0.draw(|frame| view::draw(frame, model)).context("terminal: draw")?;
        Ok(())
    }

    /// Keys that were pressed, and new sizes; waits for a key.
    pub(super) fn keys(&mut self, wait: Duration) -> Result<Vec<Message>> {
        // crossterm 0.29 reads a terminal that was hung up for ever, so it may only look at one that lives.
        if !lives(wait) {
            return Ok(vec![Message::End]);
        }
        let mut messages = Vec::new();
        while event::poll(Duration::ZERO).context("terminal: wait for keys")? {
            match event::read().context("terminal: read a key")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    messages.push(Message::Key(key))
                }
                Event::Resize(_, rows) => messages.push(Message::Rows(rows)),
                _ => {}
            }
        }
        Ok(messages)
    }

    /// Gives the terminal to something else for as long as that takes.
    pub(super) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> Result<T> {
        try_restore().context("terminal: give it back")?;
        let done = work();
        self.0 = try_init().context("terminal: take it")?;
        Ok(done)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = try_restore();
    }
}

/// Waits for a key; whether the terminal is still there.
fn lives(wait: Duration) -> bool {
    let input = std::io::stdin();
    let mut watched = [PollFd::new(&input, PollFlags::IN)];
    let wait = Timespec::try_from(wait).ok();
    // A signal, such as that of a new size, ends the wait early.
    let _ = rustix::event::poll(&mut watched, wait.as_ref());
    !watched[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Whether there is something to read.
pub(super) fn is_readable(fd: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Takes interrupts off a signalfd; another signal stays, as one that is sent again.
pub(super) fn forget_interrupts(signals: &OwnedFd) {
    use rustix::process::{Signal, getpid, kill_process};
    // `struct signalfd_siginfo`, whose first word is the signal.
    let mut told = [0; 128];
    let mut others = Vec::new();
    while let Ok(128) = rustix::io::read(signals, &mut told) {
        let number = told.first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
        others.extend(
            [Signal::TERM, Signal::HUP].into_iter().find(|s| s.as_raw().cast_unsigned() == number),
        );
    }
    for signal in others {
        let _ = kill_process(getpid(), signal);
    }
}
