//! A controller's side of OpenFlow 1.3: entries as text, over a switch's UNIX socket or a connection that it made.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use netloom_ofconn::Target;
use netloom_ofconn::client;
use netloom_openflow::flow::FlowCommand;
use netloom_openflow::text::flow;
use netloom_openflow::{Message, Version};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection.
pub(super) struct Client(client::Client);

impl Client {
    pub(super) fn connect(path: &Path) -> Result<Client> {
        let client = client::Client::connect(&Target::Unix(path.to_owned()), &[Version::V13])?;
        Ok(Client(client.within(PATIENCE)))
    }

    /// Over a connection that a switch made.
    pub(super) fn over(stream: TcpStream) -> Result<Client> {
        let client = client::Client::over(Box::new(stream), "switch".into(), &[Version::V13])?;
        Ok(Client(client.within(PATIENCE)))
    }

    /// Queues a change of flow entries, in the syntax of ovs-ofctl.
    pub(super) fn change(&mut self, command: FlowCommand, text: &str) -> Result<()> {
        let change = Message::FlowMod(flow(command, text, Version::V13)?);
        Ok(self.0.queue(&change).map(|_| ())?)
    }

    /// Sends what is queued and waits until the switch says that all of it is done; an error is one here.
    pub(super) fn barrier(&mut self) -> Result<()> {
        match self.0.barrier()?.first() {
            None => Ok(()),
            Some((_, reason)) => bail!("the switch refuses a change: {reason}"),
        }
    }

    /// Answers what the switch asks for this long; what else it sends is let go.
    pub(super) fn attend(&mut self, within: Duration) -> Result<()> {
        Ok(self.0.receive(Some(within)).map(|_| ())?)
    }
}
