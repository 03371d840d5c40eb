//! What the console's commands do: requests to the switch, and the register of clients.
//!
//! The switch is asked again for every command, so the answer is current. Only VLANs that were created and that
//! no port is in are remembered here, and lost with the process.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use netloom_bridge::Vid;
use netloom_vde::console::{
    self, Answer, Code, Command, Endpoint, Known, Member, NO_VLAN, PortLines, help, members,
};

use super::people::{self, GROUPS, USERS};
use super::register::Register;
use super::{CONSOLE, Options, vlans};
use crate::Error;
use crate::control::Connection;
use crate::control::requests::{PortChange, PortShown, Presence, Shown};
use crate::rules::{MOST_PORTS, Vlan};

/// How long the switch may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

type Reply<T> = std::result::Result<T, Code>;

/// Carries out commands.
pub(super) struct Desk {
    switch: PathBuf,
    folder: PathBuf,
    mode: u32,
    ageing: u32,
    register: Arc<Register>,
    created: BTreeSet<u16>,
    since: Instant,
}

impl Desk {
    pub(super) fn new(options: &Options, folder: &Path, register: Arc<Register>) -> Desk {
        Desk {
            switch: options.switch.clone(),
            folder: folder.to_owned(),
            mode: options.mode,
            ageing: options.ageing,
            register,
            created: BTreeSet::new(),
            since: Instant::now(),
        }
    }

    /// Carries out a command.
    pub(super) fn obey(&mut self, command: Command) -> Answer {
        let shown = match &command {
            Command::ShowSocket => Ok(self.socket()),
            Command::Help(only) => Ok(help(only)),
            Command::Show => Ok(self.process()),
            Command::ShowHash => Ok(format!("GC expire {} secs\n", self.ageing)),
            Command::ShowPorts => Ok(format!("Numports={MOST_PORTS}\nHUB=false\ncounters=true\n")),
            Command::Lost => Ok(self.lost()),
            Command::Addresses => self.addresses(),
            Command::Find { mac, vlan } => self.find(*mac, *vlan),
            Command::Ports { only, all } => self.ports(*only, *all),
            Command::Vlans { only, all } => self.vlans(*only, *all),
            _ => {
                let done = self.change(command);
                return done.map_or_else(Answer::failed, |()| Answer::DONE);
            }
        };
        shown.map_or_else(Answer::nothing_shown, Answer::shown)
    }

    fn change(&mut self, command: Command) -> Reply<()> {
        match command {
            Command::SetVlan { port, vlan } => self.set_vlan(port, vlan),
            Command::AddPort { vlan, port } => self.tag(vlan, port, vlans::with_tagged),
            Command::DeletePort { vlan, port } => self.tag(vlan, port, vlans::without_tagged),
            Command::SetUser { port, user } => {
                let uid = Some(person(USERS, &user)?);
                self.set_port(port, PortChange { uid, ..PortChange::default() })
            }
            Command::SetGroup { port, group } => {
                let gid = Some(person(GROUPS, &group)?);
                self.set_port(port, PortChange { gid, ..PortChange::default() })
            }
            Command::Close { port, endpoint } => self.close(port, endpoint),
            Command::Create(vlan) => self.create(vlan),
            Command::Remove(vlan) => self.remove(vlan),
            _ => Err(Code::UNKNOWN),
        }
    }

    fn connection(&self) -> Reply<Connection> {
        let open = Connection::open(&self.switch).map_err(|e| code(&e))?;
        Ok(open.ok_or(Code::LATER)?.within(PATIENCE))
    }

    fn switch(&self) -> Reply<Shown> {
        self.connection()?.show().map_err(|e| code(&e))
    }

    fn socket(&self) -> String {
        let (refused, last) = self.register.refused();
        let clients = self.register.all().len();
        let mut text = format!("ctl dir {}\nstd mode {:04o}\n", self.folder.display(), self.mode);
        let _ = writeln!(text, "clients {clients}, {refused} refused");
        if refused > 0 {
            let _ = writeln!(text, "last refused: {last}");
        }
        text
    }

    fn process(&self) -> String {
        let mut text = console::greeting(env!("CARGO_PKG_VERSION"));
        let (pid, uptime) = (std::process::id(), self.since.elapsed().as_secs());
        let _ = writeln!(text, "\npid {pid} uptime {uptime}");
        let _ = writeln!(text, "mgmt {} perm 0600", self.folder.join(CONSOLE).display());
        text
    }

    fn lost(&self) -> String {
        let mut text = String::new();
        for (port, entry) in self.register.all() {
            let lost = &entry.lost;
            let [unread, stalled, malformed] = [&lost.unread, &lost.stalled, &lost.malformed]
                .map(|counter| counter.load(Ordering::Relaxed));
            let _ = writeln!(
                text,
                "Port {port:04} not read {unread} no room {stalled} malformed {malformed}"
            );
        }
        text
    }

    /// All known addresses, each once; of what several ports know, the latest.
    fn known(&self) -> Reply<Vec<Known>> {
        let tables = self.connection()?.macs(None).map_err(|e| code(&e))?;
        let mut known = BTreeMap::<(u16, [u8; 6]), Known>::new();
        for entry in tables.into_iter().flat_map(|table| table.entries) {
            let found =
                Known { mac: entry.mac.0, vlan: entry.vlan, port: entry.port, age: entry.age };
            let latest = known.entry((found.vlan, found.mac)).or_insert(found);
            if found.age < latest.age {
                *latest = found;
            }
        }
        Ok(known.into_values().collect())
    }

    fn addresses(&self) -> Reply<String> {
        Ok(self.known()?.iter().enumerate().map(|(at, known)| known.line(at)).collect())
    }

    fn find(&self, mac: [u8; 6], vlan: Option<u16>) -> Reply<String> {
        let known = self.known()?;
        let meant = |known: &Known| known.mac == mac && vlan.is_none_or(|vlan| vlan == known.vlan);
        let lines = known.iter().enumerate().filter(|(_, known)| meant(known));
        let text: String = lines.map(|(at, known)| known.line(at)).collect();
        if text.is_empty() { Err(Code::NO_ADDRESS) } else { Ok(text) }
    }

    fn ports(&self, only: Option<u8>, all: bool) -> Reply<String> {
        let switch = self.switch()?;
        let wanted = |port: &&PortShown| {
            (all || is_active(port)) && only.is_none_or(|only| port.number == u16::from(only))
        };
        let mut found = switch.ports.iter().filter(wanted).peekable();
        if only.is_some() && found.peek().is_none() {
            return Err(Code::NONE);
        }
        Ok(found.map(|port| console::port(&self.lines(port, switch.vlans))).collect())
    }

    fn lines(&self, port: &PortShown, separated: bool) -> PortLines {
        let clients = self.register.all();
        let client = u8::try_from(port.number).ok().and_then(|number| clients.get(&number));
        let endpoint = match client {
            Some(client) => Some(Endpoint {
                id: client.id,
                module: "unix prog",
                description: client.description.clone(),
            }),
            None => is_active(port).then(|| Endpoint {
                id: 0,
                module: "netloom",
                description: port.name.clone(),
            }),
        };
        let counter = |name: &str| port.counters.get(name).copied().unwrap_or(0);
        let user = client.map(|client| client.uid).or(port.uid);
        PortLines {
            number: port.number,
            untagged: vlans::untagged(port.rules.vlan.as_ref(), separated),
            active: is_active(port),
            // A number that is reserved for a name is given to nobody else.
            allocatable: port.rules.name.is_none(),
            user: user.map(|uid| people::name(USERS, uid)),
            owner: port.rules.uid.map(|uid| people::name(USERS, uid)),
            group: port.rules.gid.map(|gid| people::name(GROUPS, gid)),
            sent: (counter("sent-frames"), counter("sent-bytes")),
            received: (counter("received-frames"), counter("received-bytes")),
            endpoint,
        }
    }

    /// VLANs that exist: the default ones, those created, and those of ports.
    fn existing(&self, switch: &Shown) -> BTreeSet<u16> {
        let mut all: BTreeSet<u16> = [0].into();
        all.extend(switch.vlans.then_some(1));
        all.extend(&self.created);
        for port in &switch.ports {
            let rule = port.rules.vlan.as_ref();
            all.insert(vlans::untagged(rule, switch.vlans));
            // A trunk for all VLANs makes none exist.
            let tagged = vlans::tagged(rule);
            let some = tagged.len() < usize::from(Vid::MAX) - 1;
            all.extend(tagged.iter().filter(|_| some).map(Vid::number));
        }
        // It stands for a port without untagged frames.
        all.remove(&NO_VLAN);
        all
    }

    fn vlans(&self, only: Option<u16>, all: bool) -> Reply<String> {
        let switch = self.switch()?;
        let existing = self.existing(&switch);
        let wanted: Vec<u16> = match only {
            Some(vlan) => existing.get(&vlan).copied().into_iter().collect(),
            None => existing.into_iter().collect(),
        };
        if wanted.is_empty() {
            return Err(Code::NONE);
        }
        let within =
            |vlan| switch.ports.iter().filter_map(move |port| member(port, vlan, switch.vlans));
        Ok(wanted
            .into_iter()
            .map(|vlan| members(vlan, within(vlan).filter(|member| all || member.active)))
            .collect())
    }

    fn port<'a>(&self, switch: &'a Shown, port: u8) -> Reply<&'a PortShown> {
        switch.ports.iter().find(|shown| shown.number == u16::from(port)).ok_or(Code::NONE)
    }

    fn set_vlan(&self, port: u8, vlan: u16) -> Reply<()> {
        let switch = self.switch()?;
        let shown = self.port(&switch, port)?;
        let exists = matches!(vlan, 0 | 1 | NO_VLAN) || self.existing(&switch).contains(&vlan);
        if !exists {
            return Err(Code::NONE);
        }
        self.set_rule(port, vlans::with_untagged(shown.rules.vlan.as_ref(), vlan))
    }

    fn tag(
        &self,
        vlan: u16,
        port: u8,
        change: fn(Option<&Vlan>, Vid) -> Option<Vlan>,
    ) -> Reply<()> {
        let switch = self.switch()?;
        let shown = self.port(&switch, port)?;
        if vlan > 1 && !self.existing(&switch).contains(&vlan) {
            return Err(Code::NONE);
        }
        // Tagged frames have a VLAN.
        let vid = Vid::new(vlan).ok_or(Code::INVALID)?;
        self.set_rule(port, change(shown.rules.vlan.as_ref(), vid))
    }

    fn set_rule(&self, port: u8, rule: Option<Vlan>) -> Reply<()> {
        self.connection()?.set_vlan(u16::from(port), rule).map_err(|e| code(&e))
    }

    fn set_port(&self, port: u8, change: PortChange) -> Reply<()> {
        self.connection()?.set_port(u16::from(port), change).map_err(|e| code(&e))
    }

    fn close(&self, port: u8, endpoint: u32) -> Reply<()> {
        if self.register.close(port, endpoint) { Ok(()) } else { Err(Code::NONE) }
    }

    fn create(&mut self, vlan: u16) -> Reply<()> {
        if vlan == 1 || self.existing(&self.switch()?).contains(&vlan) {
            return Err(Code::EXISTS);
        }
        self.created.insert(vlan);
        Ok(())
    }

    fn remove(&mut self, vlan: u16) -> Reply<()> {
        let switch = self.switch()?;
        let used =
            vlan < 2 || switch.ports.iter().any(|port| member(port, vlan, switch.vlans).is_some());
        match self.existing(&switch).contains(&vlan) {
            _ if used => Err(Code::IN_USE),
            true => {
                self.created.remove(&vlan);
                Ok(())
            }
            false => Err(Code::NONE),
        }
    }
}

fn is_active(port: &PortShown) -> bool {
    port.presence == Presence::Here
}

/// Whether and how a port is in a VLAN.
fn member(port: &PortShown, vlan: u16, separated: bool) -> Option<Member> {
    let rule = port.rules.vlan.as_ref();
    let is_tagged = Vid::new(vlan).is_some_and(|vid| vlans::tagged(rule).contains(vid));
    let is_within = is_tagged || vlans::untagged(rule, separated) == vlan;
    is_within.then(|| Member { port: port.number, tagged: is_tagged, active: is_active(port) })
}

/// A user or group by name or number; `NONE` for everybody.
fn person(file: &str, name: &str) -> Reply<Option<u32>> {
    if name == "NONE" {
        return Ok(None);
    }
    people::number(file, name).map(Some).ok_or(Code::INVALID)
}

/// The number for a failure of the switch.
fn code(error: &Error) -> Code {
    match error {
        Error::Refused(_) => Code::INVALID,
        Error::Failed(_) => Code::LATER,
        _ => Code::FAILED,
    }
}
