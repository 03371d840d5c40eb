//! One connection: its role and its unsent messages.
//!
//! Nothing here blocks. Messages that a peer does not read are queued up to a bound, beyond which the peer is
//! dropped. Queued descriptors are shared, not duplicated.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use netloom_shm::protocol::{Channel, Collector, MOST_PART, Message, Peer, Posted};

use crate::access::Person;
use crate::control::MOST_REQUEST;

/// Most messages queued for a port: every other port can open an edge to it and leave again.
const MOST_LETTERS: usize = 1024;

/// Most bytes of answers queued for a manager.
const MOST_UNREAD: usize = crate::control::MOST_ANSWER;

/// How often in a row a peer reported as writable may turn out to have no room. This happens when too many
/// descriptors are in flight to this process's peers (unix(7), ETOOMANYREFS).
const MOST_FUTILE: u32 = 1000;

/// The peer is gone, or is to be dropped.
#[derive(Debug)]
pub(crate) struct Gone;

/// Role of a connection.
#[derive(Debug)]
pub(crate) enum Role {
    /// Has sent nothing yet.
    New,
    /// The port with this number.
    Port(u8),
    /// Has sent a request.
    Manager(Collector),
}

/// A queued message.
#[derive(Debug)]
struct QueuedMessage {
    message: Message<'static>,
    with: Vec<Rc<OwnedFd>>,
}

/// An answer being sent.
#[derive(Debug)]
struct Reply {
    id: u32,
    failed: bool,
    body: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) channel: Channel,
    pub(crate) peer: Peer,
    pub(crate) role: Role,
    letters: VecDeque<QueuedMessage>,
    replies: VecDeque<Reply>,
    futile: u32,
    /// Whether epoll watches it for room to write.
    pub(crate) watched: bool,
}

impl Client {
    pub(crate) fn new(channel: Channel, peer: Peer) -> Client {
        Client {
            channel,
            peer,
            role: Role::New,
            letters: VecDeque::new(),
            replies: VecDeque::new(),
            futile: 0,
            watched: false,
        }
    }

    pub(crate) fn person(&self) -> Person {
        Person { uid: self.peer.uid, gid: Some(self.peer.gid) }
    }

    /// Sends a message, or queues it.
    pub(crate) fn post(
        &mut self,
        message: Message<'static>,
        with: Vec<Rc<OwnedFd>>,
    ) -> Result<(), Gone> {
        // Not past what is queued: messages stay in their order.
        if !self.has_unread() && self.send(&message, &with)? {
            return Ok(());
        }
        if self.letters.len() >= MOST_LETTERS {
            return Err(Gone);
        }
        self.letters.push_back(QueuedMessage { message, with });
        Ok(())
    }

    /// Sends an answer as far as there is room.
    pub(crate) fn reply(&mut self, id: u32, failed: bool, body: Vec<u8>) -> Result<(), Gone> {
        let kept: usize = self.replies.iter().map(|r| r.body.len()).sum();
        if kept + body.len() > MOST_UNREAD {
            return Err(Gone);
        }
        self.replies.push_back(Reply { id, failed, body, sent: 0 });
        self.send_replies()
    }

    /// Number of queued messages.
    pub(crate) fn unread(&self) -> usize {
        self.letters.len()
    }

    /// Whether anything is queued.
    pub(crate) fn has_unread(&self) -> bool {
        !self.letters.is_empty() || !self.replies.is_empty()
    }

    /// Sends queued messages when there may be room again.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        let before = self.letters.len();
        while let Some(letter) = self.letters.pop_front() {
            if !self.send(&letter.message, &letter.with)? {
                self.letters.push_front(letter);
                break;
            }
        }
        let stuck = before != 0 && before == self.letters.len();
        self.futile = if stuck { self.futile + 1 } else { 0 };
        if self.futile > MOST_FUTILE {
            return Err(Gone);
        }
        self.send_replies()
    }

    /// The collector of a manager's request; a connection that has sent nothing becomes a manager.
    pub(crate) fn collector(&mut self) -> Option<&mut Collector> {
        if matches!(self.role, Role::New) {
            self.role = Role::Manager(Collector::new(MOST_REQUEST));
        }
        match &mut self.role {
            Role::Manager(collector) => Some(collector),
            _ => None,
        }
    }

    fn send(&mut self, message: &Message<'_>, with: &[Rc<OwnedFd>]) -> Result<bool, Gone> {
        let with: Vec<BorrowedFd<'_>> = with.iter().map(|fd| fd.as_fd()).collect();
        match self.channel.send(message, &with) {
            Ok(Posted::Done) => Ok(true),
            Ok(Posted::Full) => Ok(false),
            Ok(Posted::Closed) | Err(_) => Err(Gone),
        }
    }

    fn send_replies(&mut self) -> Result<(), Gone> {
        while let Some(mut reply) = self.replies.pop_front() {
            loop {
                let end = reply.body.len().min(reply.sent + MOST_PART);
                let last = end == reply.body.len();
                let body = reply.body.get(reply.sent..end).unwrap_or_default();
                let message = Message::Answer { id: reply.id, last, failed: reply.failed, body };
                if !self.send(&message, &[])? {
                    self.replies.push_front(reply);
                    return Ok(());
                }
                reply.sent = end;
                if last {
                    break;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_shm::protocol::Incoming;

    fn pair() -> (Client, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        let peer = ours.peer().unwrap();
        (Client::new(ours, peer), theirs)
    }

    const GONE: Message<'static> = Message::PortGone { number: 7, generation: 1 };

    #[test]
    fn what_is_not_read_is_kept_up_to_a_bound_and_then_read_in_order() {
        let (mut client, mut theirs) = pair();
        let mut posted = 0;
        while client.post(Message::PortGone { number: 7, generation: posted }, vec![]).is_ok() {
            posted += 1;
        }
        assert!(posted > 1024, "{posted}");
        let mut read = 0;
        while read < posted {
            match theirs.receive().unwrap() {
                Incoming::Message { message, .. } => {
                    assert_eq!(message, Message::PortGone { number: 7, generation: read });
                    read += 1;
                }
                Incoming::Nothing => client.flush().unwrap(),
                Incoming::Closed => panic!("closed"),
            }
        }
        assert!(!client.has_unread());
    }

    #[test]
    fn a_long_answer_comes_whole() {
        let (mut client, mut theirs) = pair();
        let body: Vec<u8> = (0..3_000_000u32).map(|n| n.to_le_bytes()[1]).collect();
        client.reply(5, false, body.clone()).unwrap();
        client.reply(6, true, vec![]).unwrap();
        let mut collector = Collector::new(4 << 20);
        let mut got = vec![];
        while got.len() < 2 {
            match theirs.receive().unwrap() {
                Incoming::Message {
                    message: Message::Answer { id, last, failed, body }, ..
                } => {
                    got.extend(collector.push(last, body).unwrap().map(|body| (id, failed, body)));
                }
                Incoming::Nothing => client.flush().unwrap(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, [(5, false, body), (6, true, vec![])]);
    }

    #[test]
    fn a_peer_that_is_gone_is_noticed() {
        let (mut client, theirs) = pair();
        drop(theirs);
        assert!(client.post(GONE, vec![]).is_err());
        assert!(client.reply(1, false, vec![1]).is_err());
    }
}
