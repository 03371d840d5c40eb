//! Why a flow does not arrive: facts, a probe, and what the pure part (`core/why`) makes of them.
//!
//! Everything is read from outside of nodes: short-lived threads enter their network namespaces and ask their kernels. The
//! probe is one connection, datagram or echo request by an ordinary socket of the sender's network. Packet sockets along the
//! way see it pass. All of it are descriptors of this process, so that nothing stays when it ends, however that happens.

mod daemons;
mod facts;
mod frames;
mod names;
mod past;
mod probe;
mod programs;
mod reading;
mod watching;

use std::net::IpAddr;

use netloom_model::lookup::slot;
use netloom_model::plan::Slot;
use netloom_why::facts::{Facts, Life, Lookup, Node, Routed};
use netloom_why::{Flow, Outcome, Protocol, Report, judge, walk, without_address};

use crate::run::running::Running;
use crate::view::AskWhy;
use crate::{Error, Result, Subject};
use facts::LabFacts;
use probe::Probe;

/// The port that a probe is taken to have where none can be sent.
const NO_PORT: u16 = 49_152;

impl Running {
    /// Finds out why a flow does not arrive.
    ///
    /// # Errors
    /// A node does not exist, an end has no address, or a node's network cannot be read.
    pub(crate) fn why(&self, asked: &AskWhy) -> Result<Report> {
        let state = self.state();
        check(asked)?;
        let from = slot(&state.plan, &asked.from)?;
        let mut facts = LabFacts::new(self, &state);
        if asked.is_of_the_past() {
            return self.why_past(&mut facts, asked);
        }
        let to = receiver(&mut facts, &asked.to)?;
        let mut report = by_probe(&mut facts, asked, (from, to))?;
        let by_name = asked.family.is_none() && asked.to.parse::<IpAddr>().is_err();
        let is_four = report.destination.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4());
        if report.verdict.arrives() && by_name && is_four {
            // Names give IPv6 first, and programs wait for it before they try IPv4.
            let asked = AskWhy { family: Some(6), ..asked.clone() };
            let six = by_probe(&mut facts, &asked, (from, to))?;
            by_six(&mut report, six);
        }
        Ok(report)
    }
}

/// The same by one family, for a flow that is sent now.
fn by_probe(facts: &mut LabFacts<'_>, asked: &AskWhy, (from, to): (Slot, Slot)) -> Result<Report> {
    let to_name = facts.plan().nodes[to].name.clone();
    let ends = match addresses(facts, asked, from, to)? {
        Ok(ends) => ends,
        Err(report) => return Ok(*report),
    };
    let sender = facts.node(&asked.from)?;
    let probe = match sender.life {
        Life::Up => Ok(Probe::open(facts, &asked.from, asked.protocol, ends)?),
        Life::Dead => Err(format!("node {} does not run", asked.from)),
        Life::Guest => Err(format!(
            "node {} is a virtual machine, which only its own programs can send from",
            asked.from
        )),
    };
    let port = probe.as_ref().map_or(NO_PORT, |probe| probe.port);
    let ports = match asked.protocol {
        Protocol::Icmp => [0, 0],
        _ => [port, asked.port.unwrap_or(0)],
    };
    let flow = flow(asked, &to_name, ends, ports)?;
    let there = walk(facts, &flow, None)?;
    let back = walk(facts, &there.answer(&flow), Some(&there))?;
    let observed = match probe {
        Ok(probe) => watching::watch(facts, &flow, (&there, &back), probe)?,
        Err(why) => netloom_why::Observed {
            probe: "nothing".into(),
            outcome: Outcome::NotSent(why),
            ..netloom_why::Observed::default()
        },
    };
    if observed.outcome == Outcome::Answered {
        return Ok(judge(&flow, &there, &back, &observed));
    }
    // What the kernels know now, they know of the probe: who answered for an address, whether it waits in a queue.
    facts.forget_nodes();
    let again = walk(facts, &flow, None)?;
    let back_again = walk(facts, &again.answer(&flow), Some(&again))?;
    let same = |one: &netloom_why::Walk, other: &netloom_why::Walk| one.places == other.places;
    match same(&there, &again) && same(&back, &back_again) {
        true => Ok(judge(&flow, &again, &back_again, &observed)),
        false => Ok(judge(&flow, &there, &back, &observed)),
    }
}

/// Adds what stops the flow by IPv6 to the answer for IPv4. A refusal is none of it: programs go on to IPv4 at once.
fn by_six(report: &mut Report, six: Report) {
    let refused = |cause: &netloom_why::Cause| cause.name == netloom_why::CauseName::NothingListens;
    if six.verdict.arrives() || six.probe == "nothing" || six.causes.iter().any(refused) {
        return;
    }
    if six.causes.is_empty() {
        let text = "why the flow does not arrive by IPv6, which programs try first; ask with -6";
        report.missing.push(text.to_owned());
    }
    report.hindrances.extend(six.causes.into_iter().map(|mut cause| {
        cause.text = format!("by IPv6, which programs try first: {}", cause.text);
        cause
    }));
}

fn flow(asked: &AskWhy, to: &str, ends: (IpAddr, IpAddr), ports: [u16; 2]) -> Result<Flow> {
    let named = [(&*asked.from, ends.0), (to, ends.1)];
    Flow::new(named, asked.protocol, ports).map_err(|mixed| Error::Invalid {
        object: Subject::from("the flow"),
        reason: mixed.to_string(),
    })
}

fn check(asked: &AskWhy) -> Result<()> {
    let invalid = |reason: &str| {
        Err(Error::Invalid { object: Subject::from("the flow"), reason: reason.to_owned() })
    };
    match (asked.protocol, asked.port, asked.family) {
        (Protocol::Icmp, Some(_), _) => {
            invalid("echo requests have no port; write 80/tcp or 53/udp")
        }
        (Protocol::Tcp | Protocol::Udp, None | Some(0), _) => {
            invalid("a port from 1 to 65535 is missing; write 80/tcp or 53/udp")
        }
        (_, _, Some(family)) if !matches!(family, 4 | 6) => invalid("the family is 4 or 6"),
        _ => Ok(()),
    }
}

/// The node that is to receive: by its name, or by an address that the plan gives it or that it has.
fn receiver(facts: &mut LabFacts<'_>, to: &str) -> Result<Slot> {
    let Ok(address) = to.parse::<IpAddr>() else { return Ok(slot(facts.plan(), to)?) };
    let slots: Vec<Slot> = facts.plan().slots().collect();
    let planned = slots
        .iter()
        .find(|at| facts.plan().nodes[**at].all_addresses().any(|net| net.addr() == address));
    if let Some(found) = planned {
        return Ok(*found);
    }
    for at in slots {
        let name = facts.plan().nodes[at].name.clone();
        if facts.node(&name)?.has(address) {
            return Ok(at);
        }
    }
    let reason =
        format!("no node of lab {:?} has it; write a node's name or its address", facts.lab());
    Err(Error::Invalid { object: format!("address {address}").into(), reason })
}

/// Source and destination, or the answer where an end has none.
fn addresses(
    facts: &mut LabFacts<'_>,
    asked: &AskWhy,
    from: Slot,
    to: Slot,
) -> Result<std::result::Result<(IpAddr, IpAddr), Box<Report>>> {
    let families: Vec<u8> = match (asked.to.parse::<IpAddr>(), asked.family) {
        (Ok(address), _) => vec![if address.is_ipv4() { 4 } else { 6 }],
        (_, Some(family)) => vec![family],
        _ => vec![4, 6],
    };
    let [from_name, to_name] = [from, to].map(|at| facts.plan().nodes[at].name.clone());
    for family in &families {
        let destination = match asked.to.parse::<IpAddr>() {
            Ok(address) => Some(address),
            Err(_) => facts.address(to, *family)?,
        };
        let Some(destination) = destination else { continue };
        // The kernel's choice, which depends on the route.
        let routed = match facts.node(&from_name)?.life {
            Life::Dead => None,
            _ => match facts
                .route(&from_name, &Lookup { to: destination, came: None, carries: None })?
            {
                Routed::Leaves { source, .. } => source,
                _ => None,
            },
        };
        let source = match routed {
            Some(source) => Some(source),
            None => facts.held(from, *family)?,
        };
        if let Some(source) = source {
            return Ok(Ok((source, destination)));
        }
    }
    let mut lacking = vec![];
    for (at, name) in [(from, &from_name), (to, &to_name)] {
        let mut has = false;
        for family in &families {
            has |= facts.address(at, *family)?.is_some();
        }
        if !has {
            lacking.push(facts.node(name)?);
        }
    }
    let families: Vec<String> = families.iter().map(|family| format!("IPv{family}")).collect();
    let families = families.join(" or ");
    if !lacking.is_empty() {
        let lacking: Vec<&Node> = lacking.iter().map(|node| &**node).collect();
        let what = (asked.protocol, asked.port);
        let report = without_address([&from_name, &to_name], what, &families, &lacking);
        return Ok(Err(Box::new(report)));
    }
    // Each has an address, of another family than the other.
    let reason = format!("both nodes need an address of {families}, now or by the plan");
    Err(Error::Invalid { object: format!("way from {from_name:?} to {to_name:?}").into(), reason })
}
