//! Our switch in a process of its own: the test's or the program's executable, started again.

use std::env;
use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use netloom_flow::application::{Application, Controller, Fail, PlaneChoice, Version};
use netloom_flow::control::{Connection, PortSpec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen};
use serde::{Deserialize, Serialize};

/// What the process is to be: an [`OwnSwitch`] as JSON.
pub const VARIABLE: &str = "NETLOOM_OWN_SWITCH";
/// Set for the process that adds the ports.
const HAND: &str = "NETLOOM_OWN_SWITCH_HAND";
/// How long a switch may take to begin and to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The data plane that a switch is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plane {
    /// The best that this machine and these rights allow.
    #[default]
    Best,
    /// Programs in the kernel; a switch that cannot have them ends.
    Kernel,
    /// Packet sockets.
    Packets,
}

impl std::str::FromStr for Plane {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Plane> {
        match text {
            "best" => Ok(Plane::Best),
            "kernel" => Ok(Plane::Kernel),
            "packets" => Ok(Plane::Packets),
            _ => anyhow::bail!("`{text}`: best, kernel or packets"),
        }
    }
}

/// A switch of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnSwitch {
    /// Its name; its files are in a folder of this name.
    pub name: String,
    /// The folder of that folder.
    pub folder: PathBuf,
    /// Its number for controllers.
    pub datapath: u64,
    /// The versions of OpenFlow that it speaks; none: all.
    #[serde(default)]
    pub versions: Vec<Version>,
    /// What it does without a controller.
    #[serde(default)]
    pub fail: Fail,
    /// The interfaces of its ports, which have numbers from 1.
    pub ports: Vec<String>,
    /// Its controllers, told when it has its ports.
    #[serde(default)]
    pub controllers: Vec<String>,
}

impl OwnSwitch {
    /// The folder of its files.
    pub fn home(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    /// Its socket that speaks OpenFlow.
    pub fn openflow(&self) -> PathBuf {
        self.home().join("openflow")
    }

    /// A connection for requests.
    ///
    /// # Panics
    /// Nobody listens.
    pub fn connection(&self) -> Connection {
        let control = self.home().join("control");
        let connection = netloom_kit::wait_until("the switch's control socket", PATIENCE, || {
            Connection::open(&control).expect("connect to the switch")
        });
        connection.within(PATIENCE)
    }

    /// A command that starts it: `start` starts this executable so that it calls [`OwnSwitch::become_it`].
    ///
    /// # Panics
    /// It cannot be written as JSON.
    #[must_use]
    pub fn command(&self, mut start: Command) -> Command {
        start.env(VARIABLE, serde_json::to_string(self).expect("a switch as JSON"));
        start
    }

    /// Is the switch that [`VARIABLE`] says, with this data plane, until its end.
    ///
    /// # Errors
    /// The variable is missing or wrong, or the switch fails.
    pub fn become_it(plane: Plane) -> Result<()> {
        let text = env::var(VARIABLE).with_context(|| format!("{VARIABLE} says no switch"))?;
        let switch: OwnSwitch = serde_json::from_str(&text).context(VARIABLE)?;
        if env::var_os(HAND).is_some() {
            return switch.complete(plane);
        }
        fs::create_dir_all(switch.home()).context("make the switch's folder")?;
        let listener = control(&switch.home().join("control"))?;
        // Requests come from another process, since a switch has one thread.
        let own = env::current_exe().context("own path")?;
        Command::new(own)
            .args(env::args_os().skip(1))
            .env(HAND, "1")
            .spawn()
            .context("start the hand")?;
        Ok(netloom_flow::serve(listener, &switch.home(), &switch.application(plane))?)
    }

    fn application(&self, plane: Plane) -> Application {
        let mut application = Application::new(&self.name, self.datapath, &self.home());
        if plane == Plane::Packets {
            application.plane = PlaneChoice::Packets;
        }
        application.versions.clone_from(&self.versions);
        application.fail = self.fail;
        application
    }

    /// Adds ports, then controllers.
    fn complete(&self, plane: Plane) -> Result<()> {
        let connection = self.connection();
        let has = connection.show()?.plane;
        eprintln!("data plane: {}", has.kind);
        if let (Plane::Kernel, Some(reason)) = (plane, has.slower) {
            eprintln!("no programs in the kernel: {reason}");
            return Ok(connection.stop()?);
        }
        for (number, interface) in (1..).zip(&self.ports) {
            connection.add_port(PortSpec {
                number,
                name: interface.clone(),
                interface: interface.clone(),
                mac: None,
            })?;
        }
        let controller = |text: &String| {
            Ok::<Controller, anyhow::Error>(Controller { target: text.parse()?, namespace: None })
        };
        let controllers = self.controllers.iter().map(controller).collect::<Result<_>>()?;
        Ok(connection.set_controllers(controllers, None)?)
    }
}

/// A listening control socket.
fn control(path: &Path) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?).context("bind the control socket")?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
        .context("protect the control socket")?;
    listen(&socket, 16).context("listen on the control socket")?;
    Ok(socket)
}
