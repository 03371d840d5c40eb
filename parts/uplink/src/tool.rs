//! The programs that pass packets: where they are, and their argument lists.
//!
//! Specification: pasta(1), slirp4netns(1). Options are those that both Debian 12's versions and later ones have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use netloom_sys::Unsupported;
use serde::{Deserialize, Serialize};

use crate::{GATEWAY, GATEWAY6, INTERFACE, NAME_SERVER, NETWORK, OWN, OWN6};

/// The device that makes taps.
const TUN: &str = "/dev/net/tun";

/// A program's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// pasta, of the package `passt`: passes IPv6, too, and needs a default route on the host.
    Pasta,
    /// slirp4netns.
    Slirp,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its kind.
    pub kind: Kind,
    /// Its path.
    pub program: PathBuf,
}

impl Kind {
    /// All kinds, the better first.
    pub const ALL: [Kind; 2] = [Kind::Pasta, Kind::Slirp];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pasta => "pasta",
            Kind::Slirp => "slirp4netns",
        }
    }
}

/// The programs in these folders, in the manner of PATH: the better first.
pub fn installed(path: &std::ffi::OsStr) -> Vec<Tool> {
    let find = |kind: Kind| {
        let programs = std::env::split_paths(path).map(|folder| folder.join(kind.name()));
        let program = programs.into_iter().find(|program| is_program(program))?;
        Some(Tool { kind, program })
    };
    Kind::ALL.into_iter().filter_map(find).collect()
}

fn is_program(path: &Path) -> bool {
    path.is_absolute() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The programs that can be used here, the better first.
///
/// # Errors
/// None is installed, or ordinary users may make no taps.
pub fn usable(path: &std::ffi::OsStr) -> Result<Vec<Tool>, Unsupported> {
    let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
    if let Err(e) = rustix::fs::access(TUN, both) {
        let why = std::io::Error::from(e);
        return Err(lacking(
            format!("{TUN}: {why}"),
            "let users make taps: sudo chmod 666 /dev/net/tun; or run it as root: sudo netloom up …",
        ));
    }
    match installed(path) {
        none if none.is_empty() => Err(none_installed()),
        found => Ok(found),
    }
}

/// The missing packages where no program is installed.
pub fn none_installed() -> Unsupported {
    lacking(
        "neither pasta nor slirp4netns is installed".to_owned(),
        "sudo apt install passt; or run it as root: sudo netloom up …",
    )
}

fn lacking(reason: String, needs: &str) -> Unsupported {
    Unsupported { feature: "internet without root", reason, needs: needs.to_owned() }
}

impl Tool {
    /// Its arguments, for the network namespace at `place`.
    pub fn arguments(&self, place: &Path) -> Vec<OsString> {
        let (own, gateway, dns) = (OWN.to_string(), GATEWAY.to_string(), NAME_SERVER.to_string());
        let (own6, gateway6) = (OWN6.to_string(), GATEWAY6.to_string());
        let network = format!("{NETWORK}/24");
        let words: Vec<&str> = match self.kind {
            Kind::Pasta => vec![
                "--foreground",
                "--quiet",
                "--config-net",
                "--ns-ifname",
                INTERFACE,
                "--address",
                &own,
                "--netmask",
                "24",
                "--gateway",
                &gateway,
                "--address",
                &own6,
                "--gateway",
                &gateway6,
                "--dns-forward",
                &dns,
                // Neither the host's loopback from inside, nor the inside from the host.
                "--no-map-gw",
                "--tcp-ports",
                "none",
                "--udp-ports",
                "none",
                "--tcp-ns",
                "none",
                "--udp-ns",
                "none",
                // The process is in the lab's user namespace already: none to join or make.
                "--netns-only",
                "--netns",
            ],
            Kind::Slirp => vec![
                "--configure",
                // With its usual 1500 bytes it is several times slower.
                "--mtu",
                "65520",
                "--enable-ipv6",
                "--disable-host-loopback",
                // Of this network it takes .100, .2 and .3, the addresses of this crate.
                "--cidr",
                &network,
                "--netns-type",
                "path",
            ],
        };
        let mut all: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        all.push(place.into());
        if self.kind == Kind::Slirp {
            all.push(INTERFACE.into());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_better_program_is_found_first_and_what_is_no_program_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, mode| {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let path = std::env::join_paths([Path::new("relative"), folder.path()]).unwrap();
        put("pasta", 0o644);
        put("slirp4netns", 0o755);
        // For root, too, no file without any execute bit is a program.
        assert_eq!(
            installed(&path).iter().map(|tool| tool.kind).collect::<Vec<_>>(),
            [Kind::Slirp]
        );
        put("pasta", 0o755);
        assert_eq!(
            installed(&path).iter().map(|tool| tool.kind).collect::<Vec<_>>(),
            [Kind::Pasta, Kind::Slirp]
        );
        assert!(installed(std::ffi::OsStr::new("/nowhere")).is_empty());
    }

    #[test]
    fn no_program_reaches_the_hosts_loopback_or_listens() {
        let arguments = |kind| {
            let tool = Tool { kind, program: "/usr/bin/x".into() };
            let all = tool.arguments(Path::new("/place"));
            all.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
        };
        let pasta = arguments(Kind::Pasta);
        assert!(pasta.contains(&"--no-map-gw".to_owned()));
        for ports in ["--tcp-ports", "--udp-ports", "--tcp-ns", "--udp-ns"] {
            let at = pasta.iter().position(|word| word == ports).unwrap();
            assert_eq!(pasta[at + 1], "none", "{ports}");
        }
        assert_eq!(pasta.last().unwrap(), "/place");
        let slirp = arguments(Kind::Slirp);
        assert!(slirp.contains(&"--disable-host-loopback".to_owned()));
        assert_eq!(slirp[slirp.len() - 2..], ["/place", INTERFACE]);
    }
}
