//! A switch with ports and a controller, for tests: what goes in, and what came out as messages.

use netloom_openflow::port::PortFeatures;
use netloom_openflow::{Hello, Message, Port, PortNumber, Version, decode, encode};
use netloom_pipeline::{ConnectionId, Frame, Options, Outputs, Switch, Time, Trace};

/// The controller that most tests have.
pub const CONTROLLER: ConnectionId = ConnectionId(1);

/// A switch, its clock, and the version of its controllers.
pub struct Bench {
    pub switch: Switch,
    pub version: Version,
    pub now: Time,
}

/// A second.
pub const SECOND: Time = 1_000_000_000;

/// A port that is up.
pub fn port(number: u32) -> Port {
    let address = [2, 0, 0, 0, 0, u8::try_from(number & 0xff).unwrap()];
    let port = Port::new(PortNumber(number), address, &format!("p{number}"));
    Port { current: PortFeatures::FD_1GB, ..port }
}

impl Bench {
    /// Ports 1 to 4 and a controller of this version.
    pub fn new(version: Version) -> Bench {
        Bench::with(version, Options { tables: 8, ..Options::default() })
    }

    pub fn with(version: Version, options: Options) -> Bench {
        let mut bench = Bench { switch: Switch::new(options), version, now: SECOND };
        for number in 1..=4 {
            bench.switch.set_port(port(number), &[1, 2], bench.now, &mut Outputs::default());
        }
        bench.connect(CONTROLLER);
        bench
    }

    /// Connects another controller.
    pub fn connect(&mut self, id: ConnectionId) {
        let mut out = Outputs::default();
        self.switch.connect(id, None, &mut out);
        let hello = Message::Hello(Hello::offering(&[self.version]));
        let hello = encode(self.version, 1, &hello).unwrap();
        self.switch.message(id, &hello, self.now, &mut out);
        assert_eq!(self.switch.version(id), Some(self.version));
    }

    /// Sends bytes as a controller; returns all that came out.
    pub fn bytes(&mut self, id: ConnectionId, bytes: &[u8]) -> Outputs {
        let mut out = Outputs::default();
        self.switch.message(id, bytes, self.now, &mut out);
        assert_eq!(out.lost, 0);
        out
    }

    /// Sends a message; returns messages to that connection.
    pub fn say(&mut self, id: ConnectionId, message: &Message) -> Vec<Message> {
        let bytes = encode(self.version, 7, message).unwrap();
        let out = self.bytes(id, &bytes);
        messages(&out, id)
    }

    /// Sends a message that must not be refused, and returns what came out.
    pub fn done(&mut self, message: &Message) -> Outputs {
        let bytes = encode(self.version, 7, message).unwrap();
        let out = self.bytes(CONTROLLER, &bytes);
        let refused = messages(&out, CONTROLLER)
            .into_iter()
            .find(|answer| matches!(answer, Message::Error(_)));
        assert_eq!(refused, None, "{message:?}");
        out
    }

    /// The reason why a message is refused, if it is.
    pub fn refused(&mut self, message: &Message) -> Option<netloom_openflow::Reason> {
        let version = self.version;
        self.say(CONTROLLER, message).into_iter().find_map(|answer| match answer {
            Message::Error(error) => error.reason(version),
            _ => None,
        })
    }

    /// A frame comes in.
    pub fn frame(&mut self, port: u32, bytes: &[u8]) -> (Trace, Outputs) {
        let mut out = Outputs::default();
        let trace = self.switch.frame(PortNumber(port), bytes, self.now, &mut out);
        (trace, out)
    }

    /// Where a frame is sent.
    pub fn ports(&mut self, port: u32, bytes: &[u8]) -> Vec<u32> {
        self.frame(port, bytes).1.frames.iter().map(|frame| frame.port.0).collect()
    }

    /// The one frame that a frame becomes.
    pub fn one(&mut self, port: u32, bytes: &[u8]) -> Frame {
        let (trace, out) = self.frame(port, bytes);
        assert_eq!(out.frames.len(), 1, "{trace:?}");
        out.frames[0].clone()
    }

    /// Lets time pass.
    pub fn pass(&mut self, seconds: Time) -> Outputs {
        self.now += seconds * SECOND;
        let mut out = Outputs::default();
        self.switch.tick(self.now, &mut out);
        out
    }
}

/// Messages to a connection.
pub fn messages(out: &Outputs, id: ConnectionId) -> Vec<Message> {
    let to = out.messages.iter().filter(|(to, _)| *to == id);
    to.map(|(_, bytes)| decode(bytes).expect("our own message").1).collect()
}
