//! How a conversation begins. With a switch: hello, its features and, in OpenFlow 1.3, its ports; what it has, if an earlier
//! process remembered something of it. With a controller: hello in the one version that the switch speaks. Pure: messages
//! in, messages out.

use std::collections::VecDeque;

use netloom_openflow::hello::{self, Hello};
use netloom_openflow::meter::METER_ALL;
use netloom_openflow::multipart::FlowRequest;
use netloom_openflow::multipart::{Gather, MultipartRequest, Reply, Request};
use netloom_openflow::switch::Features;
use netloom_openflow::{ErrorMessage, Match, Message, Port, Reason, Version, decode, encode};
use netloom_slicing::Found;

/// The versions that a slicer speaks.
const VERSIONS: [Version; 2] = [Version::V10, Version::V13];

/// Most bytes of a description of ports.
const MOST: usize = 16 << 20;

/// The transaction ids of what is asked.
const FEATURES: u32 = 1;
const PORTS: u32 = 2;
const FLOWS: u32 = 3;
const GROUPS: u32 = 4;
const METERS: u32 = 5;

/// Most bytes of a description of what a switch has.
const MOST_FOUND: usize = 64 << 20;

/// Most messages that a switch says while it tells what it has, or is gone on with.
pub(crate) const MOST_EARLY: usize = 1 << 16;

/// A message, written; only hellos and small requests are.
fn written(version: Version, xid: u32, message: &Message) -> Vec<u8> {
    encode(version, xid, message).unwrap_or_default()
}

/// Our hello.
pub(crate) fn hello(versions: &[Version]) -> Vec<u8> {
    let highest = versions.iter().copied().max().unwrap_or(Version::V13);
    written(highest, 0, &Message::Hello(Hello::offering(versions)))
}

/// What follows from a message.
#[derive(Debug)]
pub(crate) enum Heard<T> {
    /// This is to be sent; more is to come.
    Say(Vec<Vec<u8>>),
    /// The conversation begins.
    Ready(T),
    /// It is over, after this is sent.
    Over(Vec<Vec<u8>>, String),
}

/// What a switch says of itself.
#[derive(Debug)]
pub(crate) struct SwitchDescription {
    pub(crate) version: Version,
    pub(crate) features: Features,
    pub(crate) ports: Vec<Port>,
    /// What it has, if it was asked, or why it does not tell.
    pub(crate) found: Option<Result<Found, String>>,
    /// What it said meanwhile.
    pub(crate) early: VecDeque<(u32, Message)>,
}

/// The beginning with a switch.
#[derive(Debug, Default)]
pub(crate) struct WithSwitch {
    version: Option<Version>,
    features: Option<Features>,
    ports: Gather<Reply>,
    looking: Option<Looking>,
}

/// A switch tells what it has.
#[derive(Debug)]
struct Looking {
    told: SwitchDescription,
    found: Found,
    /// Its answers, as far as they came, by what was asked; none when it is answered.
    parts: [Option<Gather<Reply>>; 3],
}

fn request(version: Version, xid: u32, body: Request) -> Vec<u8> {
    written(version, xid, &Message::MultipartRequest(MultipartRequest { flags: 0, body }))
}

fn refusal(versions: &[Version]) -> Vec<u8> {
    let version = versions.iter().copied().min().unwrap_or(Version::V10);
    let names: Vec<String> = versions.iter().map(ToString::to_string).collect();
    let text = format!("only {} is spoken here", names.join(" and "));
    let error = ErrorMessage::new(version, Reason::HelloFailedIncompatible, text.as_bytes());
    written(version, 0, &Message::Error(error))
}

/// Reads the other end's hello.
fn greeted(versions: &[Version], bytes: &[u8]) -> Result<Version, (Vec<Vec<u8>>, String)> {
    let number = bytes.first().copied().unwrap_or(0);
    match decode(bytes) {
        Ok((_, Message::Hello(hello))) => {
            hello::negotiate(versions, number, &hello).ok_or_else(|| {
                let spoken: Vec<String> = versions.iter().map(ToString::to_string).collect();
                (vec![refusal(versions)], format!("it does not speak {}", spoken.join(" or ")))
            })
        }
        Ok((_, Message::Error(e))) => {
            let text = String::from_utf8_lossy(&e.data).into_owned();
            Err((vec![], format!("it refused the greeting: {text:?}")))
        }
        _ => Err((vec![], "it did not begin with a hello of OpenFlow".into())),
    }
}

impl WithSwitch {
    /// The first messages.
    pub(crate) fn begin() -> Vec<u8> {
        hello(&VERSIONS)
    }

    /// Asks for what it has; it has told everything else.
    pub(crate) fn look(&mut self, told: SwitchDescription) -> Vec<Vec<u8>> {
        let version = told.version;
        let v13 = version == Version::V13;
        let any = if v13 { Match::default() } else { Match::V10(Match::default().to_10().0) };
        let mut asked = vec![request(version, FLOWS, Request::Flow(FlowRequest::new(any)))];
        if v13 {
            // 1.0 has neither groups nor meters.
            asked.push(request(version, GROUPS, Request::GroupDesc));
            asked.push(request(version, METERS, Request::MeterConfig(METER_ALL)));
        }
        let waits = |asked: bool| asked.then(Gather::default);
        let parts = [waits(true), waits(v13), waits(v13)];
        self.looking = Some(Looking { told, found: Found::default(), parts });
        asked
    }

    /// The switch sent a message.
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Heard<SwitchDescription> {
        if let Some(looking) = self.looking.take() {
            return match looking.hear(bytes) {
                Ok(heard) => heard,
                Err((looking, say)) => {
                    self.looking = Some(*looking);
                    Heard::Say(say)
                }
            };
        }
        let Some(version) = self.version else {
            return match greeted(&VERSIONS, bytes) {
                Ok(version) => {
                    self.version = Some(version);
                    Heard::Say(vec![written(version, FEATURES, &Message::FeaturesRequest)])
                }
                Err((say, why)) => Heard::Over(say, why),
            };
        };
        match decode(bytes) {
            Ok((header, Message::EchoRequest(data))) => {
                Heard::Say(vec![written(version, header.xid, &Message::EchoReply(data))])
            }
            Ok((_, Message::FeaturesReply(features))) => self.told_features(version, features),
            Ok((header, Message::MultipartReply(part))) if header.xid == PORTS => {
                match self.ports.reply(part, bytes.len(), MOST) {
                    Ok(Some(Reply::PortDesc(ports))) => match self.features.take() {
                        Some(features) => {
                            Heard::Ready(SwitchDescription::new(version, features, ports))
                        }
                        None => Heard::Say(vec![]),
                    },
                    Ok(_) => Heard::Say(vec![]),
                    Err(e) => Heard::Over(vec![], e.to_string()),
                }
            }
            Ok((_, Message::Error(e))) => {
                let name = e.reason(version).map_or("an error", |reason| reason.name());
                Heard::Over(vec![], format!("it refused to identify itself: {name}"))
            }
            // What it says to any controller is of no use yet.
            Ok(_) => Heard::Say(vec![]),
            Err(e) => Heard::Over(vec![], e.to_string()),
        }
    }

    fn told_features(&mut self, version: Version, features: Features) -> Heard<SwitchDescription> {
        if version == Version::V10 {
            let ports = features.ports.clone();
            return Heard::Ready(SwitchDescription::new(version, features, ports));
        }
        // This answer has no ports in 1.3 (section 7.3.1): they are asked for apart (7.3.5.7).
        self.features = Some(features);
        Heard::Say(vec![request(version, PORTS, Request::PortDesc)])
    }
}

impl SwitchDescription {
    fn new(version: Version, features: Features, ports: Vec<Port>) -> SwitchDescription {
        SwitchDescription { version, features, ports, found: None, early: VecDeque::new() }
    }
}

/// What follows, or that more is to come after something is said.
type Looked = Result<Heard<SwitchDescription>, (Box<Looking>, Vec<Vec<u8>>)>;

impl Looking {
    fn hear(mut self, bytes: &[u8]) -> Looked {
        let version = self.told.version;
        match decode(bytes) {
            Ok((header, Message::EchoRequest(data))) => {
                let answer = written(version, header.xid, &Message::EchoReply(data));
                Err((Box::new(self), vec![answer]))
            }
            Ok((header, Message::MultipartReply(part))) => {
                let Some(parts) = self.parts_of(header.xid) else { return self.goes_on() };
                match parts.reply(part, bytes.len(), MOST_FOUND) {
                    Ok(None) => self.goes_on(),
                    Ok(Some(reply)) => self.answered(header.xid, reply),
                    Err(e) => Ok(self.untold(e.to_string())),
                }
            }
            Ok((header, Message::Error(e))) if self.parts_of(header.xid).is_some() => {
                if header.xid == FLOWS {
                    let name = e.reason(version).map_or("an error", |reason| reason.name());
                    return Ok(self.untold(format!("it does not tell its entries: {name}")));
                }
                // It has no groups, or no meters.
                self.done(header.xid);
                self.goes_on()
            }
            Ok((header, message @ (Message::FlowRemoved(_) | Message::PortStatus(_)))) => {
                if self.told.early.len() == MOST_EARLY {
                    return Ok(self.untold("it says too much meanwhile".into()));
                }
                self.told.early.push_back((header.xid, message));
                self.goes_on()
            }
            Ok(_) => self.goes_on(),
            Err(e) => Ok(Heard::Over(vec![], e.to_string())),
        }
    }

    fn parts_of(&mut self, xid: u32) -> Option<&mut Gather<Reply>> {
        let at = usize::try_from(xid.checked_sub(FLOWS)?).ok()?;
        self.parts.get_mut(at)?.as_mut()
    }

    fn answered(mut self, xid: u32, reply: Reply) -> Looked {
        match reply {
            Reply::Flow(flows) => self.found.flows = flows,
            Reply::GroupDesc(groups) => self.found.groups = groups,
            Reply::MeterConfig(meters) => self.found.meters = meters,
            _ => return Ok(self.untold("it answers something else".into())),
        }
        self.done(xid);
        self.goes_on()
    }

    fn done(&mut self, xid: u32) {
        let at = xid.checked_sub(FLOWS).and_then(|at| usize::try_from(at).ok());
        if let Some(parts) = at.and_then(|at| self.parts.get_mut(at)) {
            *parts = None;
        }
    }

    fn goes_on(mut self) -> Looked {
        if self.parts.iter().any(Option::is_some) {
            return Err((Box::new(self), vec![]));
        }
        self.told.found = Some(Ok(self.found));
        Ok(Heard::Ready(self.told))
    }

    fn untold(mut self, why: String) -> Heard<SwitchDescription> {
        self.told.found = Some(Err(why));
        Heard::Ready(self.told)
    }
}

/// A controller's hello; it is to speak this version.
pub(crate) fn with_controller(version: Version, bytes: &[u8]) -> Heard<()> {
    match greeted(&[version], bytes) {
        Ok(_) => Heard::Ready(()),
        Err((say, why)) => Heard::Over(say, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_openflow::switch::Capabilities;

    fn features(ports: Vec<Port>) -> Features {
        Features {
            datapath_id: 7,
            buffers: 0,
            tables: 1,
            auxiliary: 0,
            capabilities: Capabilities(0),
            actions: 0,
            ports,
        }
    }

    #[test]
    fn a_switch_of_either_version_tells_what_it_is() {
        let mut with = WithSwitch::default();
        assert!(matches!(with.hear(&hello(&[Version::V10])), Heard::Say(say) if say.len() == 1));
        let reply = written(Version::V10, 1, &Message::FeaturesReply(features(vec![])));
        assert!(matches!(with.hear(&reply), Heard::Ready(told) if told.version == Version::V10));

        let mut with = WithSwitch::default();
        assert!(matches!(with.hear(&hello(&VERSIONS)), Heard::Say(_)));
        let reply = written(Version::V13, 1, &Message::FeaturesReply(features(vec![])));
        assert!(matches!(with.hear(&reply), Heard::Say(say) if say.len() == 1));
        let ports = netloom_openflow::MultipartReply { flags: 0, body: Reply::PortDesc(vec![]) };
        let reply = written(Version::V13, PORTS, &Message::MultipartReply(ports));
        let Heard::Ready(told) = with.hear(&reply) else { panic!("it said everything") };
        assert_eq!(told.features.datapath_id, 7);
    }

    #[test]
    fn one_that_speaks_another_version_is_told_so() {
        let Heard::Over(say, why) = with_controller(Version::V13, &hello(&[Version::V10])) else {
            panic!("it speaks 1.0 alone")
        };
        assert_eq!(say.len(), 1);
        assert!(why.contains("1.3"), "{why}");
        assert!(matches!(WithSwitch::default().hear(&[4, 0, 0, 4]), Heard::Over(..)));
        assert!(matches!(WithSwitch::default().hear(b"GET / HTTP/1.1\r\n"), Heard::Over(..)));
    }
}
