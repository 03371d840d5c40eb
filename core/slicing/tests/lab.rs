//! A switch of `netloom-pipeline`, the slicer before it, and what reaches controllers and ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::multipart::{FlowRequest, MultipartRequest};
use netloom_openflow::port::PortFeatures;
use netloom_openflow::switch::Features;
use netloom_openflow::{
    Action, Field, Hello, Instruction, Match, Message, Oxm, Port, PortNumber, Reply, Request,
    Version, decode, encode, text,
};
use netloom_pipeline::{ConnectionId, Frame, Options, Outputs, Switch};
use netloom_slicing::{
    Error, Found, Key, Memory, Out, Quota, Refusal, Resumed, Slice, SliceId, Slicing, Space,
    VirtualSwitches, Vlan, Work,
};

pub const A: SliceId = SliceId(0);
pub const B: SliceId = SliceId(1);
pub const SECOND: u64 = 1_000_000_000;
const SLICER: ConnectionId = ConnectionId(1);

/// A port that is up.
pub fn port(number: u32) -> Port {
    let address = [2, 0, 0, 0, 0, u8::try_from(number & 0xff).unwrap()];
    let port = Port::new(PortNumber(number), address, &format!("p{number}"));
    Port { current: PortFeatures::FD_1GB, ..port }
}

/// Packets at these ports.
pub fn at(ports: &[u32]) -> Space {
    Space { ports: Some(ports.iter().copied().map(PortNumber).collect()), ..Space::default() }
}

/// Packets of this VLAN at these ports.
pub fn tagged(ports: &[u32], id: u16) -> Space {
    Space { vlans: Some(vec![Vlan::Id(id)]), ..at(ports) }
}

pub fn slice(name: &str, spaces: Vec<Space>) -> Slice {
    Slice { name: name.to_owned(), spaces, ..Slice::default() }
}

pub fn with_quota(slice: Slice, quota: Quota) -> Slice {
    Slice { quota, ..slice }
}

pub fn slicing(slices: Vec<Slice>) -> Slicing {
    Slicing::new(slices, Key([7; 16])).unwrap()
}

/// A switch and the slicer before it.
pub struct Lab {
    pub switch: Switch,
    pub slicer: VirtualSwitches,
    pub version: Version,
    pub now: u64,
    pub told: BTreeMap<SliceId, Vec<(u32, Message)>>,
    pub frames: Vec<Frame>,
    pub refused: Vec<(SliceId, Refusal)>,
    pub closed: Vec<SliceId>,
    /// What the slicer wants to be remembered.
    pub memory: Vec<u8>,
}

impl Lab {
    /// Ports 1 to 4; every slice has a controller.
    pub fn new(version: Version, slices: Vec<Slice>) -> Lab {
        Lab::with(version, slices, 16)
    }

    pub fn with(version: Version, slices: Vec<Slice>, buffers: u32) -> Lab {
        let options = Options { tables: 4, buffers, versions: vec![version], ..Options::default() };
        let mut switch = Switch::new(options);
        let mut out = Outputs::default();
        for number in 1..=4 {
            switch.set_port(port(number), &[1, 2], SECOND, &mut out);
        }
        switch.connect(SLICER, None, &mut out);
        for message in [Message::Hello(Hello::offering(&[version])), Message::FeaturesRequest] {
            let bytes = encode(version, 1, &message).unwrap();
            switch.message(SLICER, &bytes, SECOND, &mut out);
        }
        let features = out.messages.iter().find_map(|(_, bytes)| match decode(bytes).unwrap().1 {
            Message::FeaturesReply(features) => Some(features),
            _ => None,
        });
        let features = features.unwrap();
        let ports: Vec<Port> = switch.ports().copied().collect();
        let slicing = Arc::new(slicing(slices));
        let (slicer, first) =
            VirtualSwitches::new(Arc::clone(&slicing), version, &features, &ports, SECOND).unwrap();
        let mut lab = Lab {
            switch,
            slicer,
            version,
            now: SECOND,
            told: BTreeMap::new(),
            frames: vec![],
            refused: vec![],
            closed: vec![],
            memory: vec![],
        };
        lab.memory = lab.slicer.remember();
        lab.run(first);
        assert_eq!(lab.refused, [], "the switch takes what it is begun with");
        for id in slicing.ids() {
            let out = lab.slicer.connected(SECOND, id, version);
            lab.run(out);
        }
        lab
    }

    /// Carries messages to and fro until there are none.
    pub fn run(&mut self, out: Vec<Out>) {
        let mut open: std::collections::VecDeque<Out> = out.into();
        while let Some(one) = open.pop_front().or_else(|| self.proceed(&mut open)) {
            match one {
                Out::ToSwitch { xid, message } => {
                    let bytes = encode(self.version, xid, &message)
                        .unwrap_or_else(|error| panic!("{error}: {message:?}"));
                    let mut out = Outputs::default();
                    self.switch.message(SLICER, &bytes, self.now, &mut out);
                    open.extend(self.outputs(out));
                }
                Out::ToController { slice, xid, message } => {
                    encode(self.version, xid, &message)
                        .unwrap_or_else(|error| panic!("{error}: {message:?}"));
                    self.told.entry(slice).or_default().push((xid, message));
                }
                Out::Refused { slice, refusal, .. } => self.refused.push((slice, *refusal)),
                Out::Close { slice, .. } => self.closed.push(slice),
            }
        }
        self.memory.extend(self.slicer.take_notes());
    }

    /// What the switch says to a message.
    pub fn switch_says(&mut self, xid: u32, message: &Message) -> Vec<(u32, Message)> {
        let bytes = encode(self.version, xid, message).unwrap();
        let mut out = Outputs::default();
        self.switch.message(SLICER, &bytes, self.now, &mut out);
        let decoded = out.messages.iter().map(|(_, bytes)| decode(bytes).unwrap());
        decoded.map(|(header, message)| (header.xid, message)).collect()
    }

    /// Goes on with what slices asked for; returns the first of what follows.
    fn proceed(&mut self, open: &mut std::collections::VecDeque<Out>) -> Option<Out> {
        loop {
            let (slice, _) = self.slicer.unfinished().next()?;
            open.extend(self.slicer.proceed(self.now, slice, &mut Work::all()));
            if let Some(first) = open.pop_front() {
                return Some(first);
            }
        }
    }

    /// The slicer ends, and another one goes on with what it remembered, by these slices.
    pub fn restart(&mut self, slices: Vec<Slice>) -> Result<Resumed, Error> {
        let memory = Memory::read(&self.memory).unwrap().expect("something");
        let (features, ports, found) = self.found();
        let slicing =
            Arc::new(Slicing::numbered(memory.placed(slices, |slice| &slice.name), Key([9; 16]))?);
        let (slicer, first, resumed) = VirtualSwitches::resume(
            Arc::clone(&slicing),
            self.version,
            &features,
            &ports,
            self.now,
            memory,
            found,
        )?;
        self.slicer = slicer;
        self.memory = self.slicer.remember();
        self.refused.clear();
        self.run(first);
        for id in slicing.ids() {
            let out = self.slicer.connected(self.now, id, self.version);
            self.run(out);
        }
        Ok(resumed)
    }

    /// The switch connects again; the slicer goes on in turns of this many steps, which are returned.
    pub fn comes_back(&mut self, steps: u64) -> (Resumed, Vec<u64>) {
        let (features, ports, found) = self.found();
        let (slicing, nobody) = (Slicing::new(vec![], Key([7; 16])).unwrap(), &features);
        let none = VirtualSwitches::new(Arc::new(slicing), self.version, nobody, &[], self.now);
        let old = std::mem::replace(&mut self.slicer, none.unwrap().0);
        let mut resuming = old.again(self.version, &features, &ports, found).unwrap();
        let (mut turns, mut out) = (vec![], vec![]);
        let mut turn = |act: &mut dyn FnMut(&mut Work) -> bool| {
            let mut work = Work::steps(steps);
            let done = act(&mut work);
            turns.push(work.done());
            done
        };
        while !turn(&mut |work| resuming.goes_on(self.now, work).unwrap()) {}
        while !turn(&mut |work| resuming.carry_out(self.now, work, &mut out)) {}
        let (slicer, resumed) = resuming.finish();
        self.slicer = slicer;
        self.run(out);
        (resumed, turns)
    }

    /// What the switch says that it is and has.
    fn found(&mut self) -> (Features, Vec<Port>, Found) {
        let flow = match self.version {
            Version::V10 => FlowRequest::new(Match::V10(Match::default().to_10().0)),
            Version::V13 => FlowRequest::new(Match::default()),
        };
        let mut asked = vec![Message::FeaturesRequest, ask(Request::Flow(flow))];
        if self.version == Version::V13 {
            asked.extend([ask(Request::GroupDesc), ask(Request::MeterConfig(u32::MAX))]);
        }
        let mut out = Outputs::default();
        for message in asked {
            let bytes = encode(self.version, 1, &message).unwrap();
            self.switch.message(SLICER, &bytes, self.now, &mut out);
        }
        let (mut features, mut found) = (None, Found::default());
        for (_, bytes) in out.messages {
            match decode(&bytes).unwrap().1 {
                Message::FeaturesReply(told) => features = Some(told),
                Message::MultipartReply(reply) => match reply.body {
                    Reply::Flow(flows) => found.flows.extend(flows),
                    Reply::GroupDesc(groups) => found.groups.extend(groups),
                    Reply::MeterConfig(meters) => found.meters.extend(meters),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        (features.unwrap(), self.switch.ports().copied().collect(), found)
    }

    fn outputs(&mut self, out: Outputs) -> Vec<Out> {
        assert_eq!(out.lost, 0);
        self.frames.extend(out.frames);
        let mut all = vec![];
        for (_, bytes) in out.messages {
            let (header, message) = decode(&bytes).unwrap();
            all.extend(self.slicer.from_switch(self.now, header.xid, message));
        }
        all
    }

    /// Somebody else tells the switch something; the slicer does not hear what follows.
    pub fn by_the_way(&mut self, message: &Message) {
        let bytes = encode(self.version, 1, message).unwrap();
        let mut out = Outputs::default();
        self.switch.message(SLICER, &bytes, self.now, &mut out);
    }

    /// A controller sends a message; returns what it is told in answer.
    pub fn ask(&mut self, slice: SliceId, message: Message) -> Vec<Message> {
        self.told.remove(&slice);
        let out = self.slicer.from_controller(self.now, slice, 77, message);
        self.run(out);
        let told = self.told.remove(&slice).unwrap_or_default();
        told.into_iter()
            .map(|(xid, message)| {
                assert!(xid == 77 || xid == 0, "{xid}: {message:?}");
                message
            })
            .collect()
    }

    /// The same, when it is refused.
    pub fn refused(&mut self, slice: SliceId, message: Message) -> Refusal {
        self.refused.clear();
        let answers = self.ask(slice, message);
        let [(whose, refusal)] = &self.refused[..] else {
            panic!("refused: {:?}, answers: {answers:?}", self.refused)
        };
        assert_eq!(*whose, slice);
        let [Message::Error(error)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((error.kind, error.code), refusal.reason.numbers(self.version));
        assert!(error.data.len() >= 8 && error.data[4..8] == 77u32.to_be_bytes(), "{error:?}");
        refusal.clone()
    }

    /// Adds a rule in the syntax of `ovs-ofctl`.
    pub fn add(&mut self, slice: SliceId, said: &str) {
        self.refused.clear();
        let answers = self.ask(slice, self.flow(FlowCommand::Add, said));
        assert_eq!(answers, [], "{said}: {:?}", self.refused);
    }

    /// A change of rules in the syntax of `ovs-ofctl`.
    pub fn flow(&self, command: FlowCommand, said: &str) -> Message {
        let change = text::flow(command, said, self.version);
        Message::FlowMod(change.unwrap_or_else(|error| panic!("{said}: {error}")))
    }

    /// A frame comes in; returns what leaves, by port.
    pub fn frame(&mut self, port: u32, bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.frames.clear();
        let mut out = Outputs::default();
        self.switch.frame(PortNumber(port), bytes, self.now, &mut out);
        let out = self.outputs(out);
        self.run(out);
        self.frames.iter().map(|frame| (frame.port.0, frame.bytes.clone())).collect()
    }

    /// The ports by which it leaves.
    pub fn ports(&mut self, port: u32, bytes: &[u8]) -> Vec<u32> {
        self.frame(port, bytes).into_iter().map(|(port, _)| port).collect()
    }

    /// Time passes for both.
    pub fn wait(&mut self, time: u64) {
        self.now += time;
        let mut out = Outputs::default();
        self.switch.tick(self.now, &mut out);
        let out = self.outputs(out);
        self.run(out);
        let out = self.slicer.tick(self.now);
        self.run(out);
    }

    /// A port comes.
    pub fn port_added(&mut self, number: u32) {
        let mut out = Outputs::default();
        self.switch.set_port(port(number), &[], self.now, &mut out);
        let out = self.outputs(out);
        self.run(out);
    }

    /// A port goes.
    pub fn port_gone(&mut self, number: u32) {
        let mut out = Outputs::default();
        self.switch.remove_port(PortNumber(number), &mut out);
        let out = self.outputs(out);
        self.run(out);
    }

    /// How many entries the real switch has beside those of discovery.
    pub fn entries(&self) -> usize {
        self.switch.rules().filter(|rule| rule.cookie != 0).count()
    }

    pub fn told(&mut self, slice: SliceId) -> Vec<Message> {
        let told = self.told.remove(&slice).unwrap_or_default();
        told.into_iter().map(|(_, message)| message).collect()
    }
}

fn ask(body: Request) -> Message {
    Message::MultipartRequest(MultipartRequest { flags: 0, body })
}

/// A frame with these fields, in the syntax of `ovs-ofctl`.
pub fn frame(said: &str) -> Vec<u8> {
    let change = text::flow(FlowCommand::Delete, said, Version::V13).unwrap();
    netloom_pipeline::example(&change.matching.to_oxm())
}

/// A rule that sends what matches to a port.
pub fn send(fields: &[Oxm], port: PortNumber) -> FlowMod {
    FlowMod {
        instructions: vec![Instruction::ApplyActions(vec![Action::output(port)])],
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields.to_vec()))
    }
}

pub fn in_port(port: u32) -> Oxm {
    Oxm::exact(Field::InPort, u128::from(port))
}
