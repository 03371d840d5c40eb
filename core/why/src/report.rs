//! The answer: the way, what stops it, and what is not known.

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::flow::{Flow, Protocol};

/// Whether the flow arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyVerdict))]
pub enum Verdict {
    /// The probe was answered.
    Answered,
    /// The probe reached the program, which need not answer.
    Delivered,
    /// It does not arrive, or its answer does not come back; the causes say why.
    Stopped,
    /// The same, and nothing that is known explains it.
    #[default]
    NotKnown,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Answered => "arrives, and is answered",
            Verdict::Delivered => "arrives",
            Verdict::Stopped => "does not arrive",
            Verdict::NotKnown => "does not arrive, and why is not known",
        }
    }

    /// In words, of packets of the past.
    pub fn past_words(self) -> &'static str {
        match self {
            Verdict::Answered => "arrived, and was answered",
            Verdict::Delivered => "arrived",
            Verdict::Stopped => "did not always arrive",
            Verdict::NotKnown => "did not always arrive, and why is not known",
        }
    }

    /// Whether it arrives.
    pub fn arrives(self) -> bool {
        matches!(self, Verdict::Answered | Verdict::Delivered)
    }
}

/// What was seen of the probe at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhySighting))]
pub enum Sighting {
    /// The probe.
    Packet,
    /// Only the question for the next hop's hardware address, which precedes it.
    Resolution,
    /// Nothing.
    #[default]
    Nothing,
    /// Nobody looked there.
    NotWatched,
}

/// An interface on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyHop))]
pub struct Hop {
    /// `h1:eth0`, or `s1/h1:eth0` for the port of switch `s1` to it.
    pub name: String,
    /// Whether packets leave there; else they come in.
    pub out: bool,
    /// What was seen there.
    pub seen: Sighting,
}

/// A way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyWay))]
pub struct Way {
    /// In order.
    pub hops: Vec<Hop>,
    /// The last that saw the probe.
    pub last: Option<String>,
    /// The first that did not.
    pub lost: Option<String>,
    /// Where packets get other addresses or ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub translated: Vec<Translated>,
}

/// Where packets get other addresses or ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyTranslated))]
pub struct Translated {
    /// The node that does it.
    pub node: String,
    /// What packets were, as `10.0.0.2:49152 -> 192.0.2.1:80`.
    pub before: String,
    /// What they are from there on.
    pub after: String,
    /// The rule; absent for answers, which connection tracking translates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// How many packets a recording has of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyRecorded))]
pub struct Recorded {
    /// Its packets.
    pub packets: usize,
    /// Those of them that did not come to a link of the receiver.
    pub lost: usize,
    /// Packets of the receiver for the sender.
    pub answers: usize,
    /// Those of them that did not come to a link of the sender.
    pub lost_answers: usize,
}

/// Why a flow does not arrive, or that it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = WhyReport))]
pub struct Report {
    /// The node that sends.
    pub from: String,
    /// The node that is to receive.
    pub to: String,
    /// The sender's address.
    pub source: String,
    /// The receiver's address.
    pub destination: String,
    /// What is sent.
    pub protocol: Protocol,
    /// The receiver's port; `null` for echo requests.
    pub port: Option<u16>,
    /// What was sent, in words.
    pub probe: String,
    /// What was found in the recording, where the question was about the past; nothing is sent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// Whether it arrives.
    pub verdict: Verdict,
    /// The way of the flow.
    pub there: Way,
    /// The way of the answers; `null` where packets do not come as far as that it matters.
    pub back: Option<Way>,
    /// What stops it, most certain first. Several are independent of each other: all must go.
    pub causes: Vec<Cause>,
    /// What stops some packets, or large ones, on a way that others pass.
    pub hindrances: Vec<Cause>,
    /// What would have to be known to say more.
    pub missing: Vec<String>,
}

impl Report {
    /// One that says whose packets it is about, and nothing else yet.
    pub(crate) fn about(flow: &Flow) -> Report {
        Report {
            from: flow.from.clone(),
            to: flow.to.clone(),
            source: flow.source.to_string(),
            destination: flow.destination.to_string(),
            protocol: flow.protocol,
            port: (flow.protocol != Protocol::Icmp).then_some(flow.ports[1]),
            ..Report::default()
        }
    }
}
