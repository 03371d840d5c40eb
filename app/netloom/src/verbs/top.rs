//! `top`: labs, nodes, links, switches and programs on a terminal, as they are now.
//!
//! `model` is what is known and chosen, and what a key does to it; `columns` are its tables; `view` draws what can be seen of
//! it; `screen` owns the terminal. Here events and keys come together. What a key starts, such as a shell, is another run of this
//! program on the same terminal.

mod columns;
mod model;
mod rates;
mod screen;
mod view;

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_lab::calls::SetLink;
use netloom_lab::{Folder, runtime_dir};
use netloom_sys::{describe, disposition};

use self::model::{Effect, Message, Model, Standing};
use self::screen::Screen;
use super::listening::{Heard, Listener};
use crate::flags::Top;
use crate::labs::{self, Wish};
use crate::output::show;

/// How long the lab may wait for the next event, and the pause between two looks for a lab.
const WAIT: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(300);

/// How long a key is waited for before events are looked at.
const KEY: Duration = Duration::from_millis(100);

/// How long `--once` waits for a second reading, without which there are no rates.
const SECOND: Duration = Duration::from_millis(1500);

/// `netloom top`
pub(crate) fn top(wish: &Wish, args: &Top) -> Result<i32> {
    let wanted = wish.or(args.name.as_deref())?;
    if args.once {
        return once(&labs::chosen(wanted)?);
    }
    let lab = match wanted {
        Some(_) => Some(labs::chosen(wanted)?.name().to_owned()),
        None => match labs::summaries()?.as_slice() {
            [one] => Some(one.name.clone()),
            _ => None,
        },
    };
    // Before the threads, which have the same mask.
    let signals = super::ending()?;
    let mut screen = Screen::enter()?;
    let ended = App::new(signals).run(&mut screen, lab);
    drop(screen);
    ended.map(|()| 0)
}

/// Prints all tables once.
fn once(folder: &Folder) -> Result<i32> {
    drop(labs::connect_to(folder)?);
    let mut listener = Listener::new(folder.clone());
    let mut model = Model::default();
    // It is heard here.
    let _ = model.open(folder.name().to_owned());
    for wait in [Duration::ZERO, SECOND] {
        match listener.hear(wait)? {
            Heard::Events(events) => {
                events.into_iter().map(Box::new).for_each(|event| {
                    drop(model.update(Message::Event(event)));
                });
            }
            Heard::NoProcess | Heard::NoLab => anyhow::bail!("lab {:?}: has ended", folder.name()),
        }
    }
    show(&view::text(&mut model))?;
    Ok(0)
}

/// What runs beside the screen.
struct App {
    signals: OwnedFd,
    model: Model,
    send: Sender<Message>,
    receive: Receiver<Message>,
    /// Ends the thread that listens to a lab.
    stop: Arc<AtomicBool>,
}

impl App {
    fn new(signals: OwnedFd) -> App {
        let (send, receive) = mpsc::channel();
        App { signals, model: Model::default(), send, receive, stop: Arc::default() }
    }

    fn run(&mut self, screen: &mut Screen, lab: Option<String>) -> Result<()> {
        self.list_labs()?;
        if let Some(lab) = lab {
            let opened = self.model.open(lab);
            self.effect(screen, opened)?;
        }
        self.model.update(Message::Rows(screen.rows()?));
        loop {
            screen.draw(&self.model)?;
            for message in self.next(screen)? {
                for effect in self.model.update(message) {
                    if !self.effect(screen, effect)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Waits for something that may change the picture.
    fn next(&self, screen: &mut Screen) -> Result<Vec<Message>> {
        loop {
            let mut messages = screen.keys(KEY)?;
            messages.extend(self.receive.try_iter());
            if screen::is_readable(&self.signals) {
                messages.push(Message::End);
            }
            if !messages.is_empty() {
                return Ok(messages);
            }
        }
    }

    /// Does what the model wants; whether to go on.
    fn effect(&mut self, screen: &mut Screen, effect: Effect) -> Result<bool> {
        match effect {
            Effect::Quit => return Ok(false),
            Effect::Open(lab) => self.listen(&lab)?,
            Effect::Run(words) => {
                let said = screen.aside(|| started(&words))?;
                // Ctrl-C was meant for the program that ran here.
                screen::forget_interrupts(&self.signals);
                self.model.update(Message::Note(said));
            }
            Effect::Set { lab, link, change } => {
                let send = self.send.clone();
                std::thread::spawn(move || {
                    let asked = labs::connect(Some(&lab)).and_then(|client| {
                        Ok(client.call(&SetLink { link: link.clone().into(), change })?)
                    });
                    let note = match asked {
                        Ok(_) => format!("link {link}: set"),
                        Err(error) => {
                            error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
                        }
                    };
                    // The screen may have gone.
                    let _ = send.send(Message::Note(note));
                });
            }
        }
        Ok(true)
    }

    /// Listens to this lab alone from now on.
    fn listen(&mut self, lab: &str) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.stop = Arc::default();
        let listener = Listener::new(Folder::new(&runtime_dir()?, lab));
        let (send, stop) = (self.send.clone(), Arc::clone(&self.stop));
        std::thread::spawn(move || follow(listener, &send, &stop));
        Ok(())
    }

    /// Looks for labs from now on.
    fn list_labs(&self) -> Result<()> {
        self.send.send(Message::Labs(labs::summaries()?)).context("list of labs")?;
        let send = self.send.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(WAIT);
                let labs = labs::summaries().unwrap_or_default();
                if send.send(Message::Labs(labs)).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

/// Passes a lab's events on until somebody else is listened to.
fn follow(mut listener: Listener, send: &Sender<Message>, stop: &AtomicBool) {
    let mut standing = None;
    while !stop.load(Ordering::Relaxed) {
        let (now, events) = match listener.hear(WAIT) {
            Ok(Heard::Events(events)) => (Standing::Heard, events),
            Ok(Heard::NoProcess) => (Standing::NoProcess, vec![]),
            Ok(Heard::NoLab) => (Standing::NoLab, vec![]),
            Err(error) => (Standing::Trouble(describe(error.as_ref())), vec![]),
        };
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let heard = now == Standing::Heard;
        let news = (standing.as_ref() != Some(&now)).then(|| Message::Standing(now.clone()));
        standing = Some(now);
        let quiet = (heard && events.is_empty()).then_some(Message::Quiet);
        let events = events.into_iter().map(Box::new).map(Message::Event);
        for message in news.into_iter().chain(events).chain(quiet) {
            if send.send(message).is_err() {
                return;
            }
        }
        if !heard {
            std::thread::sleep(LOOK);
        }
    }
}

/// Runs this program with these arguments on the terminal; what to say about its end.
fn started(words: &[String]) -> String {
    let line = words.join(" ");
    let mut command = Command::new("/proc/self/exe");
    command.args(words);
    disposition::start_mortal(&mut command);
    match command.status() {
        Ok(status) if status.success() => String::new(),
        Ok(status) => format!("netloom {line}: {status}"),
        Err(error) => format!("netloom {line}: {error}"),
    }
}
