//! Hears the events of a lab, also after its lab process has ended and another one has adopted it.

use std::time::Duration;

use anyhow::Result;
use netloom_api::{Client, Error};
use netloom_lab::Folder;
use netloom_lab::calls::Events;
use netloom_lab::values::{EventId, Whole};
use netloom_lab::view::LabEvent;

/// A listener.
pub(super) struct Listener {
    folder: Folder,
    client: Option<Client>,
    /// The id of the last event.
    last: Option<String>,
}

/// What a listener hears.
pub(super) enum Heard {
    /// What happened; nothing if nothing came in time.
    Events(Vec<LabEvent>),
    /// The lab is there, and its process is not.
    NoProcess,
    /// The lab was taken down.
    NoLab,
}

impl Listener {
    /// Listens to the lab of this folder from now on.
    pub(super) fn new(folder: Folder) -> Listener {
        Listener { folder, client: None, last: None }
    }

    /// The lab's name.
    pub(super) fn lab(&self) -> &str {
        self.folder.name()
    }

    /// What has happened since the last call; waits for something.
    pub(super) fn hear(&mut self, wait: Duration) -> Result<Heard> {
        match self.ask(wait) {
            Ok(events) => {
                // Without news the place of the last call stays.
                self.last = events.last().map(|event| event.id.clone()).or(self.last.take());
                Ok(Heard::Events(events))
            }
            Err(Error::NotRunning(_) | Error::Closed { .. } | Error::Silent { .. }) => {
                self.client = None;
                Ok(if self.folder.exists()? { Heard::NoProcess } else { Heard::NoLab })
            }
            Err(other) => Err(other.into()),
        }
    }

    fn ask(&mut self, wait: Duration) -> netloom_api::Result<Vec<LabEvent>> {
        let client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(&self.folder.path())?,
        };
        let since = EventId(self.last.clone());
        let events = client.call(&Events { since, wait_ms: Whole::of(wait) });
        self.client = Some(client);
        events
    }
}
