//! Lets links to other hosts have a carrier only while their other host answers.
//!
//! A thread of the lab process asks the core namespaces of the other hosts, whose kernels answer: a lab process that was killed
//! there takes no carrier away, since links go on without it, and a lab that is down or cannot be reached does. It holds the
//! core namespace, so it lets go of that as soon as its init has ended.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Weak;
use std::time::Duration;

use netloom_model::plan::NodeId;
use netloom_netlink::Socket;
use netloom_node::ping::{Presence, Prober, Version};
use netloom_sys::{describe, journal, namespace, process};

use crate::run::running::{Phase, Running};
use crate::stage::{attach, spaces};
use crate::store::across::Across;
use crate::{Error, Result};

/// Time for an answer, and after how many rounds without one a link loses its carrier: together less than a second.
const ROUND: Duration = Duration::from_millis(250);
const ROUNDS: u32 = 3;

/// How long to wait for a core namespace that is made again.
const PAUSE: Duration = Duration::from_millis(250);

/// Follows the other hosts on a thread of its own, as long as the lab exists.
pub(crate) fn watch(running: Weak<Running>) {
    if running.upgrade().is_none_or(|running| running.state().across.is_none()) {
        return;
    }
    let thread = std::thread::Builder::new().name("netloom-far".into()).stack_size(256 << 10);
    let rounds = move || {
        while let Some(alive) = running.upgrade().filter(|r| r.phase() != Phase::Ended) {
            let across = alive.state().across.clone();
            drop(alive);
            // Another file may give it links to other hosts.
            if let Some(across) = across.filter(|across| !across.peers.is_empty())
                && let Err(e) = follow(&running, &across)
            {
                journal::line(format_args!("netloom: other hosts: {}", describe(&e)));
            }
            std::thread::sleep(PAUSE);
        }
    };
    // Without the thread links keep their carrier.
    let _ = thread.spawn(rounds);
}

/// The core namespace, held by sockets in it.
struct Core {
    init: OwnedFd,
    presence: Presence,
    socket: Socket,
}

impl Core {
    fn open(running: &Running, across: &Across) -> Result<Option<Core>> {
        let (init, space) = {
            let work = running.work();
            let Some(init) = work.inits.get(&NodeId::CORE).filter(|init| init.lives()) else {
                return Ok(None);
            };
            let copied = init.pidfd.try_clone().map_err(Error::at("core", "copy its pidfd"))?;
            (copied, attach::open(&work.inits, NodeId::CORE)?)
        };
        let Some(space) = space else { return Ok(None) };
        let own = Across::presence_of(across.place).0;
        let from = Prober { name: "(core)", netns: space.as_fd(), address: Some(own.into()) };
        let peers = across.peers.iter().map(|peer| Across::presence_of(peer.place).0.into());
        let presence = Presence::open(&from, Version::V4, peers.collect())?;
        let Some(presence) = presence else { return Ok(None) };
        let socket =
            namespace::run_in(space.as_fd(), "netloom-far", || spaces::open("other hosts"))?;
        Ok(Some(Core { init, presence, socket }))
    }
}

/// Follows them until the core namespace or the lab has ended, or there are others.
fn follow(running: &Weak<Running>, across: &Across) -> Result<()> {
    let Some(opened) = running.upgrade().map(|running| Core::open(&running, across)) else {
        return Ok(());
    };
    let Some(mut core) = opened? else { return Ok(()) };
    let mut answered: Vec<Option<bool>> = vec![None; across.peers.len()];
    loop {
        core.presence.round(ROUND, core.init.as_fd());
        let Some(running) = running.upgrade() else { return Ok(()) };
        if running.phase() == Phase::Ended || process::has_ended(core.init.as_fd()) {
            return Ok(());
        }
        if running.state().across.as_ref().is_none_or(|now| now.peers != across.peers) {
            return Ok(());
        }
        for (at, peer) in across.peers.iter().enumerate() {
            let answers = match core.presence.silent(at) {
                0 => true,
                rounds if rounds >= ROUNDS => false,
                // It may have been one packet.
                _ => continue,
            };
            if answered[at] == Some(answers) {
                continue;
            }
            let links = &running.kept.keepers.far_links;
            links.note(&running.state(), &peer.name, answers, &mut core.socket)?;
            if answered[at].is_some() || !answers {
                let (name, word) =
                    (&peer.name, if answers { "answers again" } else { "does not answer" });
                journal::line(format_args!("netloom: host {name:?} {word}"));
            }
            answered[at] = Some(answers);
        }
    }
}
