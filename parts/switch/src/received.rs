//! A client's message, owned, with nothing borrowed from its connection.

use std::os::fd::OwnedFd;

use netloom_shm::protocol::{Direction, EdgeName, Incoming, Join, Message};

use crate::application::Application;
use crate::client::Client;

/// One message.
pub(crate) enum Received {
    Join(Box<Application>),
    Open {
        to: u8,
        ring: OwnedFd,
    },
    Close {
        number: u8,
        direction: Direction,
    },
    Bye,
    /// A station that a port knew is at another port.
    Moved,
    Request {
        id: u32,
        body: Vec<u8>,
    },
    /// A part of a request.
    Part,
    Nothing,
    Closed,
    Wrong(String),
}

/// A client's next message.
pub(crate) fn read(client: &mut Client) -> Received {
    // Copied here, because the received message borrows the channel.
    let (id, last, part) = match client.channel.receive() {
        Ok(Incoming::Nothing) => return Received::Nothing,
        Ok(Incoming::Closed) => return Received::Closed,
        Ok(Incoming::Message { message, descriptors }) => {
            let mut descriptors = descriptors.into_iter();
            match message {
                Message::Join(join) => return application(&join, descriptors),
                Message::Open { to } => {
                    let ring = descriptors.next();
                    return ring.map_or(Received::Nothing, |ring| Received::Open { to, ring });
                }
                Message::Close { number, direction } => {
                    return Received::Close { number, direction };
                }
                Message::Bye => return Received::Bye,
                Message::Moved => return Received::Moved,
                Message::Request { id, last, body } => (id, last, body.to_vec()),
                _ => return Received::Wrong("not a message for a switch".into()),
            }
        }
        Err(e) => return Received::Wrong(e.to_string()),
    };
    let Some(collector) = client.collector() else { return Received::Part };
    match collector.push(last, &part) {
        Ok(Some(body)) => Received::Request { id, body },
        Ok(None) => Received::Part,
        Err(e) => Received::Wrong(e.to_string()),
    }
}

fn application(join: &Join<'_>, mut with: impl Iterator<Item = OwnedFd>) -> Received {
    let (Some(inbox), Some(uplink)) = (with.next(), with.next()) else { return Received::Nothing };
    let edges: Vec<EdgeName> = join.edges.into_iter().collect();
    Received::Join(Box::new(Application {
        version: join.version,
        number: join.number,
        name: join.name.to_owned(),
        token: join.token,
        capabilities: join.capabilities,
        edges,
        inbox,
        uplink,
    }))
}
