//! Connections: their beginning and end, roles, auxiliary connections (sections 6.3.1, 6.3.6, 6.3.7).

use netloom_openflow::async_config::AsyncConfig;
use netloom_openflow::hello::{Hello, negotiate};
use netloom_openflow::multipart::{Gather, Request};
use netloom_openflow::role::{Role, RoleMessage};
use netloom_openflow::{ErrorMessage, Message, Reason, Version};

use super::{ConnectionId, FailMode, Outputs, Switch};

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The version, once both said hello.
    pub(super) version: Option<Version>,
    /// The main connection and its number, if this one is auxiliary.
    pub(super) auxiliary: Option<(ConnectionId, u8)>,
    /// Whether it is not a controller, but a client that asks and orders now and then.
    pub(super) service: bool,
    /// Whether it is told what it did not ask for; a service is not before it says what it wants.
    pub(super) told: bool,
    pub(super) role: Role,
    pub(super) interests: AsyncConfig,
    /// How many bytes it gets of packets without a match.
    pub(super) miss_send_len: u16,
    /// Whether packets are not told to it for now.
    pub(super) full: bool,
    /// Parts of a request.
    pub(super) gather: Gather<Request>,
}

impl Connection {
    /// Whether it is up, and that of a controller.
    pub(super) fn controls(&self) -> bool {
        self.is_main() && !self.service
    }

    /// Whether it is up, and not auxiliary.
    pub(super) fn is_main(&self) -> bool {
        self.version.is_some() && self.auxiliary.is_none()
    }

    /// Which of a pair of settings is for its role.
    pub(super) fn side(&self) -> usize {
        usize::from(self.role == Role::Slave)
    }
}

impl Switch {
    /// A connection was made: says hello. `auxiliary` is the main connection that it belongs to, and its number.
    pub fn connect(
        &mut self,
        id: ConnectionId,
        auxiliary: Option<(ConnectionId, u8)>,
        out: &mut Outputs,
    ) {
        self.begin(id, auxiliary, false, out);
    }

    /// A client that is not a controller connected, such as `ovs-ofctl`: says hello. The fail mode does not
    /// look at it, and it is told of packets, ports and entries only once it sets how much of a packet it wants, or
    /// which messages.
    pub fn connect_service(&mut self, id: ConnectionId, out: &mut Outputs) {
        self.begin(id, None, true, out);
    }

    fn begin(
        &mut self,
        id: ConnectionId,
        auxiliary: Option<(ConnectionId, u8)>,
        service: bool,
        out: &mut Outputs,
    ) {
        let offered = self.offered(auxiliary);
        let highest = offered.iter().copied().max().unwrap_or(Version::V13);
        let hello = match highest {
            // Controllers of that time expect none.
            Version::V10 => Hello::default(),
            Version::V13 => Hello::offering(&offered),
        };
        let connection = Connection {
            version: None,
            auxiliary,
            service,
            told: !service,
            role: Role::Equal,
            interests: AsyncConfig::default(),
            // OFP_DEFAULT_MISS_SEND_LEN.
            miss_send_len: 128,
            full: false,
            gather: Gather::default(),
        };
        self.connections.insert(id, connection);
        out.send(id, highest, 0, &Message::Hello(hello));
    }

    /// The versions that a connection may have: an auxiliary one has that of its main one.
    fn offered(&self, auxiliary: Option<(ConnectionId, u8)>) -> Vec<Version> {
        let main = auxiliary.and_then(|(main, _)| self.version(main));
        main.map_or_else(|| self.options.versions.clone(), |version| vec![version])
    }

    /// A connection ended; its auxiliary ones are closed.
    pub fn disconnect(&mut self, id: ConnectionId, out: &mut Outputs) {
        let before = self.is_standalone();
        if self.connections.remove(&id).is_none() {
            return;
        }
        self.leave_job(id);
        // Without their main connection they are not part of any (section 6.3.7).
        let belongs =
            |connection: &Connection| connection.auxiliary.is_some_and(|(main, _)| main == id);
        let orphans: Vec<_> =
            self.connections.iter().filter(|(_, c)| belongs(c)).map(|(id, _)| *id).collect();
        for orphan in orphans {
            self.connections.remove(&orphan);
            // Here, since `disconnect` of it finds no connection any more.
            self.leave_job(orphan);
            out.closed.push(orphan);
        }
        if self.is_standalone() != before {
            self.changed();
        }
    }

    /// Says whether there is no room for packets that a connection would be told: they are neither buffered nor put into a
    /// message then, only counted ([`Outputs::left_out`]).
    pub fn set_full(&mut self, id: ConnectionId, full: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.full = full;
        }
    }

    /// Whether packets are forwarded without OpenFlow, because no controller is there.
    pub fn is_standalone(&self) -> bool {
        self.options.fail_mode == FailMode::Standalone
            && !self.connections.values().any(Connection::controls)
    }

    /// The versions that it speaks.
    pub fn versions(&self) -> &[Version] {
        &self.options.versions
    }

    /// Sets what happens while no controller is connected.
    pub fn set_fail_mode(&mut self, mode: FailMode) {
        if self.options.fail_mode != mode {
            self.options.fail_mode = mode;
            self.changed();
        }
    }

    /// The version agreed on with a connection.
    pub fn version(&self, id: ConnectionId) -> Option<Version> {
        self.connections.get(&id)?.version
    }

    /// The role of a connection; an auxiliary one has that of its main one.
    pub fn role(&self, id: ConnectionId) -> Option<Role> {
        let connection = self.connections.get(&id)?;
        let main = connection.auxiliary.and_then(|(main, _)| self.connections.get(&main));
        Some(main.unwrap_or(connection).role)
    }

    /// The other side said hello.
    pub(super) fn greeted(
        &mut self,
        id: ConnectionId,
        number: u8,
        hello: &Hello,
        xid: u32,
        out: &mut Outputs,
    ) {
        let auxiliary = self.connections.get(&id).and_then(|connection| connection.auxiliary);
        let version = negotiate(&self.offered(auxiliary), number, hello);
        let before = self.is_standalone();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.version = version;
        }
        if version.is_none() {
            self.incompatible(id, xid, out);
        }
        if self.is_standalone() != before {
            self.changed();
        }
    }

    /// Refuses a connection without a common version.
    pub(super) fn incompatible(&mut self, id: ConnectionId, xid: u32, out: &mut Outputs) {
        let version = self.options.versions.iter().copied().max().unwrap_or(Version::V13);
        let numbers: Vec<_> = self.options.versions.iter().map(ToString::to_string).collect();
        let text = format!("supported versions: {}", numbers.join(", "));
        let error = ErrorMessage::new(version, Reason::HelloFailedIncompatible, text.as_bytes());
        out.send(id, version, xid, &Message::Error(error));
        self.connections.remove(&id);
        out.closed.push(id);
    }

    /// A controller asks for a role.
    pub(super) fn role_request(
        &mut self,
        id: ConnectionId,
        request: RoleMessage,
    ) -> Result<RoleMessage, Reason> {
        let own = self.connections.get(&id).and_then(|c| c.auxiliary).map_or(id, |(main, _)| main);
        if matches!(request.role, Role::Master | Role::Slave) {
            self.elect(request.generation)?;
        }
        // There is at most one (section 6.3.6).
        if request.role == Role::Master {
            for connection in self.connections.values_mut() {
                if connection.role == Role::Master {
                    connection.role = Role::Slave;
                }
            }
        }
        let connection = self.connections.get_mut(&own).ok_or(Reason::RoleRequestFailedUnsup)?;
        if request.role != Role::NoChange {
            connection.role = request.role;
        }
        let generation = self.election.unwrap_or(u64::MAX);
        Ok(RoleMessage { role: connection.role, generation })
    }

    /// A generation may not be older than the last; numbers go round (section 6.3.6).
    fn elect(&mut self, generation: u64) -> Result<(), Reason> {
        // The distance is signed (section 6.3.6), so that numbers may pass from the largest to zero.
        let older = |last: u64| generation.wrapping_sub(last) > u64::MAX / 2;
        if self.election.is_some_and(older) {
            return Err(Reason::RoleRequestFailedStale);
        }
        self.election = Some(generation);
        self.note(super::Change::Settings);
        Ok(())
    }
}
