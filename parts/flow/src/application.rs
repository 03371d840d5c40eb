//! Configuration of a switch: at its start, and again over its control socket.
//!
//! Everything here goes between processes as JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use netloom_ofconn::{Controller, NoTarget, OPENFLOW_PORT, Target, Tls};

/// What a switch is told at its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Application {
    /// Its name, for controllers and for people.
    pub name: String,
    /// Its number for controllers.
    pub datapath: u64,
    /// The versions of OpenFlow that it speaks; none: all.
    #[serde(default)]
    pub versions: Vec<Version>,
    /// How many tables it has, 1 to 254.
    #[serde(default = "Application::tables")]
    pub tables: u8,
    /// How many entries a table can have.
    #[serde(default = "Application::max_entries")]
    pub max_entries: u32,
    /// What happens while no controller is connected.
    #[serde(default)]
    pub fail: Fail,
    /// The UNIX socket that speaks OpenFlow; made with mode 0600.
    pub openflow: PathBuf,
    /// The file with what a later process of the switch must know; beside it are others that begin with its name.
    pub state: PathBuf,
    /// How many small frames of a port may wait for the tables; more cost memory.
    #[serde(default = "Application::waiting")]
    pub waiting: u32,
    /// Which data plane is wanted.
    #[serde(default)]
    pub plane: PlaneChoice,
    /// The controllers that it begins with; [`crate::control::Request::SetControllers`] replaces them.
    #[serde(default)]
    pub controllers: Vec<Controller>,
    /// How many connections are made to each controller beside the main one, in OpenFlow 1.3.
    #[serde(default)]
    pub auxiliary: u8,
    /// How controllers are reached by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Seconds of silence after which a controller is asked for an echo; as many later it is given up.
    #[serde(default = "Application::probe")]
    pub probe: u16,
}

impl Application {
    /// A switch with everything that has a default, whose socket and state are in this folder.
    pub fn new(name: &str, datapath: u64, folder: &std::path::Path) -> Application {
        Application {
            name: name.to_owned(),
            datapath,
            versions: vec![],
            tables: Application::tables(),
            max_entries: Application::max_entries(),
            fail: Fail::default(),
            openflow: folder.join("openflow"),
            state: folder.join("state"),
            waiting: Application::waiting(),
            plane: PlaneChoice::default(),
            controllers: vec![],
            auxiliary: 0,
            tls: None,
            probe: Application::probe(),
        }
    }

    const fn tables() -> u8 {
        // OpenFlow numbers tables up to OFPTT_MAX, 0xfe; 0xff stands for all.
        254
    }

    const fn max_entries() -> u32 {
        100_000
    }

    const fn waiting() -> u32 {
        2048
    }

    const fn probe() -> u16 {
        5
    }
}

/// A version of OpenFlow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowVersion))]
pub enum Version {
    /// OpenFlow 1.0.
    #[serde(rename = "1.0")]
    V10,
    /// OpenFlow 1.3.
    #[serde(rename = "1.3")]
    V13,
}

impl From<Version> for netloom_openflow::Version {
    fn from(version: Version) -> netloom_openflow::Version {
        match version {
            Version::V10 => netloom_openflow::Version::V10,
            Version::V13 => netloom_openflow::Version::V13,
        }
    }
}

impl From<netloom_openflow::Version> for Version {
    fn from(version: netloom_openflow::Version) -> Version {
        match version {
            netloom_openflow::Version::V10 => Version::V10,
            netloom_openflow::Version::V13 => Version::V13,
        }
    }
}

/// What happens to packets while no controller is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = FlowFail))]
pub enum Fail {
    /// The tables go on; what would go to controllers is dropped.
    Secure,
    /// It forwards as a learning switch.
    #[default]
    Standalone,
}

/// Which data plane a switch uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneChoice {
    /// The fastest that the machine has.
    #[default]
    Fastest,
    /// Packet sockets: every frame goes through the tables themselves.
    Packets,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_needs_only_what_has_no_default() {
        let text = r#"{"name":"s1","datapath":7,"openflow":"/a/openflow","state":"/a/state"}"#;
        let application: Application = serde_json::from_str(text).unwrap();
        assert_eq!(application, Application::new("s1", 7, std::path::Path::new("/a")));
        let text = serde_json::to_string(&application).unwrap();
        assert_eq!(serde_json::from_str::<Application>(&text).unwrap(), application);
    }
}
