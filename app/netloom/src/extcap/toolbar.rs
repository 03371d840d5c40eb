//! Wireshark's toolbar: delay and loss of the captured link, set while it is captured.
//!
//! The lab checks the values; what it says goes to the toolbar. Both directions of the link are set. Captures of several links
//! have no values to show, so their controls are disabled.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use netloom_api::Client;
use netloom_lab::calls::{SetLink, ShowLink};
use netloom_lab::view::{LinkSettings, LinkStatus};

use super::list::Named;
use super::messages::{Command, Message};

/// The keys of the controls, by their numbers.
const KEYS: [&str; 2] = ["delay", "loss"];

/// The number that stands for no control.
const NONE: u8 = 255;

/// A toolbar, and the link that it sets.
pub(super) struct Toolbar {
    client: Client,
    link: Option<LinkStatus>,
    from: File,
    to: File,
}

impl Toolbar {
    /// Opens the pipes of a toolbar for this interface.
    pub(super) fn open(client: Client, named: &Named, from: &Path, to: &Path) -> Result<Toolbar> {
        // Opened in both directions, a pipe waits for nobody, and does not end (fifo(7)).
        let open = |path: &Path| {
            let file = File::options().read(true).write(true).open(path);
            file.with_context(|| format!("{path:?}: open"))
        };
        let (from, to) = (open(from)?, open(to)?);
        rustix::io::ioctl_fionbio(&to, true).with_context(|| "toolbar: set up")?;
        let end = named.target().map(|target| match target.strip_prefix("switch:") {
            // The port of a switch has the name of the link's other end.
            Some(port) => port.split_once('/').map_or("", |(_, port)| port).to_owned(),
            None => target,
        });
        let link = end.filter(|end| end.contains(':'));
        // A node's loopback, say, is not an end of a link.
        let link = link.and_then(|end| client.call(&ShowLink { link: end.into() }).ok());
        Ok(Toolbar { client, link, from, to })
    }

    /// Serves it on a thread of its own, which ends with this process.
    pub(super) fn serve(mut self) -> Result<()> {
        let thread = std::thread::Builder::new().name("toolbar".to_owned());
        thread.spawn(move || self.run()).map(drop).context("toolbar: start a thread")
    }

    fn run(&mut self) {
        self.show();
        while let Ok(Some(message)) = Message::read(&mut self.from) {
            if message.command == Command::Initialized as u8 {
                self.show();
            } else if message.command == Command::Set as u8 {
                self.set(&message);
            }
        }
    }

    /// Shows what the link does now.
    fn show(&mut self) {
        for (number, key) in (0..).zip(KEYS) {
            match &self.link {
                Some(link) => self.tell(number, Command::Set, &value(link, key)),
                None => self.tell(number, Command::Disable, ""),
            }
        }
    }

    /// Sets a value, and shows what came of it.
    fn set(&mut self, message: &Message) {
        let Some(key) = KEYS.get(usize::from(message.control)) else { return };
        let Some(link) = &self.link else { return };
        let text = String::from_utf8_lossy(&message.payload);
        let text = text.trim();
        // Wireshark also tells of what it was told.
        if text == value(link, key) {
            return;
        }
        let setting = if text.is_empty() { "none" } else { text };
        let settings = vec![((*key).to_owned(), setting.to_owned())];
        let change = LinkSettings { settings, ..LinkSettings::default() };
        let name = link.name.clone();
        match self.client.call(&SetLink { link: name.as_str().into(), change }) {
            Ok(now) => {
                self.tell(NONE, Command::Status, &format!("link {name}: {key} {setting}"));
                self.link = Some(now);
            }
            Err(error) => self.tell(NONE, Command::Warning, &netloom_sys::describe(&error)),
        }
        self.show();
    }

    /// Tells the toolbar something; one that does not read misses it.
    fn tell(&mut self, control: u8, command: Command, text: &str) {
        let _ = Message::of(control, command, text).write(&mut self.to);
    }
}

/// What a link does by this key, as far as both directions do the same.
fn value(link: &LinkStatus, key: &str) -> String {
    let Some(wire) = &link.wire else { return String::new() };
    let values: Vec<Option<&String>> = wire
        .directions
        .iter()
        .map(|direction| direction.as_ref().and_then(|direction| direction.impairments.get(key)))
        .collect();
    match values.as_slice() {
        [Some(one), Some(other)] if one == other => (*one).clone(),
        [Some(one), None] | [None, Some(one)] => format!("{one} one way"),
        [Some(one), Some(other)] => format!("{one} and {other}"),
        _ => String::new(),
    }
}
