//! What would happen to a frame, in words: for a whole one, or one made of a match.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::matching::Oxm;
use netloom_openflow::text;
use netloom_openflow::{Field, Match, PortNumber, Version};
use netloom_pipeline::{Effect, FlowKey, Step, Trace, example, headers};

use crate::control::PortKey;
use crate::control::requests::{TraceSent, TraceStep, TraceWhat, Traced};
use crate::report::flow_text;
use crate::server::Server;
use crate::system::clock;
use crate::{Error, Result};

/// Longest frame in bytes.
const MOST: usize = 65_535 + 18;

impl Server {
    /// What would happen to a frame now.
    pub(crate) fn trace(&mut self, what: TraceWhat) -> Result<Traced> {
        let (port, frame) = match what {
            TraceWhat::Match(text) => self.made(&text)?,
            TraceWhat::Frame { port: PortKey::Name(name), hex } => {
                (self.ports.names().number(&name).map_err(Error::refused)?, bytes(&hex)?)
            }
            TraceWhat::Frame { port, hex } => (self.ports.number(&port)?, bytes(&hex)?),
        };
        let (trace, out) = self.engine.switch.explain(PortNumber(port), &frame, clock());
        let sent = out.frames.iter().map(|frame| TraceSent {
            port: frame.port.0,
            name: self.ports.name(frame.port.0),
            queue: frame.queue,
            frame: hex(&frame.bytes),
        });
        let (_, key) = headers::parse(&frame);
        Ok(Traced {
            port,
            frame: hex(&frame),
            fields: in_words(&key, None),
            standalone: self.engine.switch.is_standalone(),
            sent: sent.collect(),
            packet_ins: u64::try_from(out.messages.len()).unwrap_or(u64::MAX),
            steps: trace.steps.iter().map(|step| self.step(step)).collect(),
            decided_by: in_words(&decisive(&trace, port), Some(&trace.consulted)),
            effects: trace.effects.iter().map(effect).collect(),
            drops: trace.drops.iter().map(|drop| drop.to_string()).collect(),
            groups: trace.groups,
            meters: trace.meters,
            not_kept: trace.uncacheable.map(str::to_owned),
        })
    }

    /// The port and the frame that a match stands for.
    fn made(&self, text: &str) -> Result<(u32, Vec<u8>)> {
        let text = self.ports.names().numbered(text).map_err(Error::refused)?;
        // A deletion's text needs no actions, so that a bare match is one.
        let change = text::flow(FlowCommand::Delete, &text, Version::V13)
            .map_err(|e| Error::refused(e.to_string()))?;
        let fields: Vec<Oxm> = change.matching.to_oxm();
        let port = fields.iter().find(|oxm| oxm.field == Field::InPort).map(|oxm| oxm.value);
        let port = port.and_then(|port| u32::try_from(port).ok()).ok_or_else(|| {
            Error::refused("trace: by which port does the frame come in? Say it, as in_port=1")
        })?;
        self.ports.number(&PortKey::Number(port))?;
        Ok((port, example(&fields)))
    }

    fn step(&self, step: &Step) -> TraceStep {
        let rule = step.rule.and_then(|id| self.engine.switch.rule(id));
        TraceStep { table: step.table, entry: rule.map(flow_text) }
    }
}

/// The key that was looked up first; the port alone, if none was.
fn decisive(trace: &Trace, port: u32) -> FlowKey {
    let mut key = trace.steps.first().map(|step| step.key).unwrap_or_default();
    key.set(Field::InPort, u128::from(port));
    key
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Edit(action) => text::print_action(action),
        Effect::Send { port, queue: None } => format!("output:{port}"),
        Effect::Send { port, queue: Some(queue) } => format!("enqueue:{port}:{queue}"),
        Effect::Copy => "copy {".into(),
        Effect::CopyEnd => "}".into(),
    }
}

/// The header fields of a frame, in the syntax of ovs-ofctl.
pub fn fields_of(frame: &[u8]) -> String {
    in_words(&headers::parse(frame).1, None)
}

/// Fields of a key as a match: those that its headers have; with a mask, those bits of them.
fn in_words(key: &FlowKey, mask: Option<&FlowKey>) -> String {
    let shown = Field::ALL
        .iter()
        .copied()
        .filter(|field| *field != Field::InPhyPort && key.may_have(*field));
    let fields = shown.filter_map(|field| {
        let bits = mask.map_or(field.full(), |mask| mask.get(field));
        // Zero fields would fill the line and say nothing; with a mask zero is what decided.
        let wanted = bits != 0 && (mask.is_some() || key.get(field) != 0);
        wanted.then(|| match bits == field.full() {
            true => Oxm::exact(field, key.get(field)),
            false => Oxm::masked(field, key.get(field) & bits, bits),
        })
    });
    text::print_match(&Match::Oxm(fields.collect()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    })
}

fn bytes(text: &str) -> Result<Vec<u8>> {
    let wrong = || Error::refused("frame: an even number of hexadecimal digits");
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if digits.len() > 2 * MOST {
        return Err(Error::refused(format!("frame: at most {MOST} bytes")));
    }
    let pair = |pair: &[u8]| {
        let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let value = digit(0).zip(digit(1)).map(|(high, low)| high << 4 | low);
        value.and_then(|value| u8::try_from(value).ok()).ok_or_else(wrong)
    };
    digits.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_and_written_in_hexadecimal() {
        assert_eq!(bytes("00 fF\n10").unwrap(), [0, 255, 16]);
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        for text in ["0", "0g", "é0"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
