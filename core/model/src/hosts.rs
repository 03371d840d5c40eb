//! The hosts that make a lab together, as a hosts file gives them.
//!
//! They are not part of the lab: its names, addresses and routes are the same on one host and on nine.
//! [`parse_hosts`](crate::parse_hosts) reads the file.

use std::net::IpAddr;

/// Maximum number of hosts.
pub const MAX_HOSTS: usize = 4096;

/// The MTU of an underlay whose file gives none: Ethernet's.
pub const USUAL_UNDERLAY: u32 = 1500;

/// All hosts of a file; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// In the order of the file. Names differ, and so do addresses of the underlay, which are all of one family.
    pub list: Vec<Host>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 63 bytes.
    pub name: String,
    /// Where ssh(1) reaches it.
    pub ssh: Ssh,
    /// How its agent is started.
    pub agent: Agent,
    /// Where the other hosts send the frames of links across.
    pub underlay: IpAddr,
    /// The largest packet that reaches it there without fragments, in bytes.
    pub mtu: u32,
    /// Bytes of memory that its nodes may be given; any if absent.
    pub memory: Option<u64>,
    /// Thousandths of CPUs that its nodes may be given; any if absent.
    pub cpu_milli: Option<u32>,
}

/// How the agent of a host is started, which does there what it is told on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Agent {
    /// By ssh(1).
    #[default]
    Ssh,
    /// As a process of this machine.
    Local,
    /// By a program and its arguments.
    Command(Vec<String>),
}

/// Where ssh(1) reaches a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ssh {
    /// The user there; the caller's choice if absent.
    pub user: Option<String>,
    /// A name or address.
    pub host: String,
    /// The port; the caller's choice if absent.
    pub port: Option<u16>,
}

impl std::fmt::Display for Ssh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.port {
            None => f.write_str(&self.host),
            Some(port) if self.host.contains(':') => write!(f, "[{}]:{port}", self.host),
            Some(port) => write!(f, "{}:{port}", self.host),
        }
    }
}

impl Hosts {
    /// The index of a host by name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.list.iter().position(|host| host.name == name)
    }
}
