//! The control plane of a router moves to a fresh node, while its packets pass beside it.
//!
//! FRR's daemons of OSPF are asked to announce a restart, so that neighbours go on as they are (RFC 3623); what they put
//! down for the next ones goes with the move. BGP needs no announcement (RFC 4724). Then the node ends and is made anew,
//! with the plan's configuration. The switch that is its plane keeps its entries meanwhile.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_model::lookup::slot;
use netloom_model::plan::PlannedNode;
use netloom_sys::describe;

use crate::build::keeper::Gone;
use crate::run::running::{Running, Work};
use crate::run::teardown;
use crate::stage::inits::Init;
use crate::view::Changed;
use crate::{Error, Result};

/// Where FRR's daemons listen and put things down, below a node's root directory.
const FOLDER: &str = "run/frr";

/// Daemons that announce a restart: the command, and the file that they leave for the next one.
const ANNOUNCED: [(&str, &str, &str); 2] = [
    ("ospfd", "graceful-restart prepare ip ospf", "ospfd-gr.json"),
    ("ospf6d", "graceful-restart prepare ipv6 ospf", "ospf6d-gr.json"),
];

/// Time limit for an answer of a daemon.
const PATIENCE: Duration = Duration::from_secs(10);

impl Running {
    /// See [`Service::move_control`](crate::Service::move_control).
    pub(crate) fn move_control(&self, node: &str) -> Result<Changed> {
        let mut work = self.work();
        let state = self.state();
        let planned = &state.plan.nodes[slot(&state.plan, node)?];
        if !planned.kind.has_separate_plane() {
            return Err(Error::Invalid {
                object: format!("node {node:?}"),
                reason: "only the control plane of a router with plane: separate can move".into(),
            });
        }
        let carried = self.folder.carried(&planned.plane_name());
        let _ = std::fs::remove_dir_all(&carried);
        let notes = match work.inits.get(&planned.id).filter(|init| init.lives()) {
            Some(init) => announce(init, &carried),
            None => vec!["it had ended, so that its neighbours were told nothing".to_owned()],
        };
        let moved = self.renew(&mut work, planned);
        let _ = std::fs::remove_dir_all(&carried);
        moved?;
        Ok(Changed { name: node.to_owned(), notes })
    }

    /// Ends a node's init and makes it anew; its plane stays as it is.
    fn renew(&self, work: &mut Work, node: &PlannedNode) -> Result<()> {
        self.kept.forget(&self.state(), Gone { nodes: &[node.id], links: &[] });
        let inits = work.inits.remove(&node.id).into_iter().collect();
        teardown::end_inits(inits, || true)?;
        self.make_with(work).map(drop)
    }
}

/// Has daemons announce their restart, and takes what they leave for the next ones; returns what did not work.
fn announce(init: &Init, carried: &Path) -> Vec<String> {
    let folder = PathBuf::from(format!("/proc/{}/root", init.pid.as_raw_nonzero())).join(FOLDER);
    let mut notes = Vec::new();
    for (daemon, command, file) in ANNOUNCED {
        let socket = folder.join(format!("{daemon}.vty"));
        if !socket.exists() {
            continue;
        }
        let taken = say(&socket, &["enable", command]).and_then(|()| {
            std::fs::create_dir_all(carried)?;
            std::fs::copy(folder.join(file), carried.join(file)).map(drop)
        });
        if let Err(e) = taken {
            notes.push(format!("{daemon} announces no restart: {}", describe(&e)));
        }
    }
    notes
}

/// Commands for a daemon, over the socket that `vtysh` uses: each ends with a zero byte, and an answer with three and a
/// byte that says how it went.
fn say(socket: &Path, commands: &[&str]) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for command in commands {
        stream.write_all(command.as_bytes())?;
        stream.write_all(&[0])?;
        let mut answer = Vec::new();
        let mut byte = [0];
        let status = loop {
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
            if let [.., 0, 0, 0, status] = answer.as_slice() {
                break *status;
            }
        };
        if status != 0 {
            let text = String::from_utf8_lossy(&answer).trim_matches(['\0', '\n', '\r']).to_owned();
            return Err(std::io::Error::other(format!("{command}: {text}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_a_daemon_refuses_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vty");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; 7];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(&[0, 0, 0, 0]).unwrap();
            let mut heard = [0; 4];
            stream.read_exact(&mut heard).unwrap();
            stream.write_all(b"unknown\n\0\0\0\x02").unwrap();
        });
        let error = say(&path, &["enable", "bad"]).unwrap_err();
        assert!(error.to_string().contains("bad: unknown"), "{error}");
        server.join().unwrap();
    }
}
