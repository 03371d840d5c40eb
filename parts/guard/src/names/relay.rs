//! Carries queries to the machine's name servers and answers back, and notes what answers say. Of a query goes on what asks for
//! its name, and nothing that programs may put beside that.
//!
//! A door stands in the namespace apart, at a server's own address. What arrives there, and asks for a name that may be
//! looked up, goes on from a socket of this process to that server, and its answers come back; other names are said not to
//! be there. A note is made only of an answer that a server sent to a query that was carried to it: programs reach neither
//! this process's sockets nor its doors' other side.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use netloom_packet::dns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketType;

use super::home::{Home, family};
use super::seats::Asker;
use super::shared::{Awaited, Door, Matter, PORT, Shared, name_of};
use super::stream;
use crate::judge::Judge;

/// Most clients whose answers are awaited. Beyond, the one that asked longest ago is left.
const MOST_CLIENTS: usize = 256;
/// How long a client is remembered that asks nothing.
const IDLE: Duration = Duration::from_secs(60);
/// Messages that are carried before others get their turn.
const BURST: usize = 64;
/// Longest message.
const LONGEST: usize = 65_535;

/// A program's socket, which waits for answers of a server.
struct Client {
    /// To the server.
    socket: UdpSocket,
    asker: Option<Arc<Asker>>,
    awaited: Awaited,
    asked: Instant,
}

/// A client by its door and its address apart.
type Key = (usize, SocketAddr);

/// Carries messages until it is ended, as `judge` allows.
pub(super) fn run(doors: &[Door], shared: &Arc<Shared>, judge: &dyn Judge) {
    let mut clients: HashMap<Key, Client> = HashMap::new();
    let mut buffer = vec![0; LONGEST];
    while !shared.has_ended() {
        let keys: Vec<Key> = clients.keys().copied().collect();
        let ready = wait(doors, &keys, &clients, shared);
        shared.attend(judge);
        let (at_doors, at_clients) = ready.split_at((2 * doors.len()).min(ready.len()));
        for (at, door) in doors.iter().enumerate() {
            if at_doors.get(2 * at) == Some(&true) {
                ask((at, door), shared, judge, &mut clients, &mut buffer);
            }
            if at_doors.get(2 * at + 1) == Some(&true) {
                stream::accept(door, shared);
            }
        }
        // In the order in which they were polled: `ask` may have added and removed clients since.
        for (key, _) in keys.iter().zip(at_clients).filter(|(_, ready)| **ready) {
            if let (Some(client), Some(door)) = (clients.get_mut(key), doors.get(key.0)) {
                answer(client, (door, key.1), shared, judge, &mut buffer);
            }
        }
        clients.retain(|_, client| client.asked.elapsed() < IDLE);
    }
    shared.leave();
}

/// Waits; tells for each door whether a datagram or a connection is there, then for each client whether an answer is.
fn wait(
    doors: &[Door],
    keys: &[Key],
    clients: &HashMap<Key, Client>,
    shared: &Shared,
) -> Vec<bool> {
    let at_doors = doors.iter().flat_map(|door| [door.datagrams.as_fd(), door.streams.as_fd()]);
    let at_clients = keys.iter().filter_map(|key| clients.get(key)).map(|c| c.socket.as_fd());
    let all: Vec<BorrowedFd<'_>> = at_doors.chain(at_clients).collect();
    let mut polled: Vec<PollFd<'_>> =
        all.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::new(shared, PollFlags::IN));
    let most = Timespec::try_from(IDLE).ok();
    if poll(&mut polled, most.as_ref()).is_err() {
        // Interrupted by a signal: the next round polls again.
        return vec![];
    }
    polled.pop();
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// Carries queries from a door to its server.
fn ask(
    (at, door): (usize, &Door),
    shared: &Shared,
    judge: &dyn Judge,
    clients: &mut HashMap<Key, Client>,
    buffer: &mut [u8],
) {
    for _ in 0..BURST {
        let Ok((length, from)) = door.datagrams.recv_from(buffer) else { return };
        let query = &buffer[..length];
        let asker = shared.seats.of(SocketType::DGRAM, from.port());
        if !shared.settle(Matter::Query(name_of(query)), asker.as_deref(), judge) {
            if let Some(none) = dns::no_such_name(query) {
                let _ = door.datagrams.send_to(&none, from);
            }
            continue;
        }
        if !clients.contains_key(&(at, from)) {
            make_room(clients);
            let Ok(client) = Client::new(door.server, &shared.home, asker.clone()) else {
                refuse(door, from, query);
                continue;
            };
            clients.insert((at, from), client);
        }
        let Some(client) = clients.get_mut(&(at, from)) else { return };
        client.asked = Instant::now();
        client.asker = asker;
        client.awaited.add(query);
        if client.socket.send(&dns::plain(query)).is_err() {
            client.refuse(door, from);
        }
    }
}

/// Carries answers from a server to the asking program.
fn answer(
    client: &mut Client,
    (door, to): (&Door, SocketAddr),
    shared: &Shared,
    judge: &dyn Judge,
    buffer: &mut [u8],
) {
    for _ in 0..BURST {
        match client.socket.recv(buffer) {
            Ok(length) => {
                if let Some(answer) = client.awaited.answered(&buffer[..length]) {
                    shared.settle(answer, client.asker.as_deref(), judge);
                }
                // A client that has closed its socket needs no answer.
                let _ = door.datagrams.send_to(&buffer[..length], to);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            // Nobody listens there.
            Err(_) => return client.refuse(door, to),
        }
    }
}

/// A server that cannot be reached: its client need not wait for it.
fn refuse(door: &Door, to: SocketAddr, query: &[u8]) {
    if let Some(failure) = dns::failure(query) {
        let _ = door.datagrams.send_to(&failure, to);
    }
}

fn make_room(clients: &mut HashMap<Key, Client>) {
    if clients.len() < MOST_CLIENTS {
        return;
    }
    let first = clients.iter().min_by_key(|(_, client)| client.asked);
    if let Some(key) = first.map(|(key, _)| *key) {
        clients.remove(&key);
    }
}

impl Client {
    fn new(server: IpAddr, home: &Home, asker: Option<Arc<Asker>>) -> std::io::Result<Client> {
        let socket = home.socket(family((server, PORT).into()), SocketType::DGRAM)?;
        let socket = UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        // From now on the kernel takes datagrams of the server alone.
        socket.connect((server, PORT))?;
        Ok(Client { socket, asker, awaited: Awaited::default(), asked: Instant::now() })
    }

    /// Answers to all that it awaits that there is no server.
    fn refuse(&mut self, door: &Door, own: SocketAddr) {
        for query in self.awaited.take_all() {
            refuse(door, own, &query);
        }
    }
}
