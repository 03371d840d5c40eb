//! VDE as a peer: its switch, and taps plugged into it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::driver::{Driver, output};
use crate::inside::inside;

/// Its version, if switch and plugs are installed.
pub(crate) fn version() -> Option<String> {
    let plug = Command::new("vde_plug2tap").arg("--help").output();
    plug.ok()?;
    // It prints its version and then fails, because there is no terminal user.
    let text = output(Command::new("vde_switch").arg("--version")).ok()?;
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// Whether its plug for cards is available.
pub(crate) fn has_pcap_plug() -> bool {
    Command::new("vde_pcapplug").arg("--help").output().is_ok()
}

/// A running vde_switch.
pub(crate) struct VdeSwitch {
    daemon: Daemon,
    folder: PathBuf,
}

impl VdeSwitch {
    pub(crate) fn start(driver: &Driver, name: &str) -> Result<VdeSwitch> {
        let folder = driver.folder().join(name);
        let mut command = Command::new("vde_switch");
        command.arg("-s").arg(&folder).args(["-n", "32"]);
        let daemon = Daemon::start(driver, &mut command, name)?;
        let control = folder.join("ctl");
        Ok(VdeSwitch { daemon: daemon.until(|_| control.exists())?, folder })
    }

    /// Its address for joining.
    pub(crate) fn address(&self) -> Result<&str> {
        self.folder.to_str().context("the path of the folder for the labs is not UTF-8")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// A tap `tap0` in a node, up, with this address and prefix length.
    pub(crate) fn tap(&self, driver: &Driver, at: (&str, &str), address: &str) -> Result<Daemon> {
        let (lab, node) = at;
        let mut command = inside(driver, lab, node, "vde_plug2tap")?;
        command.args(["-s", self.address()?, "tap0"]);
        let daemon = Daemon::start(driver, &mut command, &format!("{lab}-{node}"))?;
        let ip = |words: &[&str]| {
            let mut command = driver.command();
            output(command.args(["-l", lab, "exec", node, "--", "ip"]).args(words))
        };
        let daemon = daemon.until(|_| ip(&["link", "show", "tap0"]).is_ok())?;
        ip(&["addr", "add", address, "dev", "tap0"])?;
        ip(&["link", "set", "tap0", "up"])?;
        Ok(daemon)
    }
}
