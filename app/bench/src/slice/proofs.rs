//! The time of a proof: rules for a slice beside as many as it has, without a switch or a connection.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netloom_openflow::flow::{FlowCommand, FlowMod};
use netloom_openflow::switch::{Capabilities, Features};
use netloom_openflow::{
    Action, Field, Instruction, Match, Message, Oxm, Port, PortNumber, Version,
};
use netloom_slicing::{Key, Out, Slice, Slicing, Space, VirtualSwitches};

/// Rules that are timed, each.
const TIMED: u32 = 500;

/// Microseconds of a rule.
pub(super) struct Proved {
    pub(super) median: f64,
    pub(super) worst: f64,
}

/// Two slices of a switch with four ports, one of them with this many rules; the next ones are timed.
pub(super) fn time(rules: u32) -> Result<Proved> {
    let space =
        |ports: [u32; 2]| Space { ports: Some(ports.map(PortNumber).to_vec()), ..Space::default() };
    let slice = |name: &str, ports| Slice {
        name: name.to_owned(),
        spaces: vec![space(ports)],
        ..Slice::default()
    };
    let slices = vec![slice("red", [1, 2]), slice("blue", [3, 4])];
    let slicing = Arc::new(Slicing::new(slices, Key([1; 16]))?);
    let red = slicing.find("red").context("a slice")?;
    let features = Features {
        datapath_id: 1,
        buffers: 0,
        tables: 8,
        auxiliary: 0,
        capabilities: Capabilities(0),
        actions: 0,
        ports: vec![],
    };
    let port = |number: u32| Port::new(PortNumber(number), [2, 0, 0, 0, 0, 1], "p");
    let ports: Vec<Port> = (1..=4).map(port).collect();
    let (mut switches, _) = VirtualSwitches::new(slicing, Version::V13, &features, &ports, 0)?;
    drop(switches.connected(0, red, Version::V13));
    let mut times = vec![];
    for number in 0..rules + TIMED {
        let begun = Instant::now();
        let out = switches.from_controller(0, red, number, Message::FlowMod(rule(number)));
        let took = begun.elapsed();
        if !matches!(out[..], [Out::ToSwitch { .. }]) {
            bail!("rule {number} became {out:?}");
        }
        if number >= rules {
            times.push(took.as_secs_f64() * 1e6);
        }
    }
    let worst = times.iter().copied().fold(0.0, f64::max);
    Ok(Proved { median: netloom_stats::percentile(&times, 50.0)?, worst })
}

/// A conversation of its own, rewritten on its way.
fn rule(number: u32) -> FlowMod {
    let exact = |field, value: u32| Oxm::exact(field, u128::from(value));
    let fields = vec![
        exact(Field::InPort, 1),
        exact(Field::EthType, 0x0800),
        exact(Field::IpProto, 6),
        exact(Field::Ipv4Dst, 0x0a00_0000 + number),
        exact(Field::TcpDst, 80),
    ];
    let actions = vec![
        Action::SetField(exact(Field::EthDst, number)),
        Action::DecNwTtl,
        Action::output(PortNumber(2)),
    ];
    FlowMod {
        instructions: vec![Instruction::ApplyActions(actions)],
        ..FlowMod::new(FlowCommand::Add, Match::Oxm(fields))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_are_taken() {
        assert!(super::time(10).unwrap().median > 0.0);
    }
}
