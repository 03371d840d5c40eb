//! `switch`: makes, removes, shows and changes switches of a running lab.
//!
//! Requests to a shared-memory switch go through the lab to its process. [`text`] formats output,
//! [`settings`] parses settings of ports.

mod openflow;
mod settings;
mod text;

use anyhow::{Context, Result, bail};
use netloom_api::Client;
use netloom_flow::control::requests::{PortShown as FlowPort, Shown as FlowShown};
use netloom_lab::calls::{AskSwitch, CreateSwitch, DeleteSwitch, ListSwitches, ShowOpenflow};
use netloom_lab::view::{Changed, NewSwitch, SwitchStatus};
use netloom_switch::control::requests::{Answer, MacTable, PortKey, PortShown, Request, Shown};
use netloom_switch::rules::{Direction, Mirror, Source, Vlan};
use serde::Serialize;

use super::adhoc::{self, each_once};
use super::paging;
use crate::flags::{
    MirrorAdd, MirrorChange, MirrorDirection, PortVlan, Switch, SwitchCreate, SwitchMac,
    SwitchMirror, SwitchPort,
};
use crate::labs;
use crate::output::{notes, print, print_json};

/// The kinds of switches that have a process; others are bridges of the kernel.
pub(super) const SHM: &str = "shm";
const OPENFLOW: &str = "openflow";

/// A switch with its process's answer, as shown in JSON.
#[derive(Debug, Serialize)]
struct Whole {
    #[serde(flatten)]
    status: SwitchStatus,
    /// Why its process gives no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(flatten)]
    shown: Option<Shown>,
    /// The answer of an OpenFlow switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<FlowShown>,
}

/// `netloom switch`
pub(crate) fn switch(lab: Option<&str>, verb: Switch) -> Result<i32> {
    match verb {
        Switch::Create(args) => create(lab, args)?,
        Switch::Delete(args) => {
            told(
                &labs::connect(lab)?
                    .call(&DeleteSwitch { switch: args.switch.into(), force: args.force })?,
            );
        }
        Switch::List(args) => {
            let client = labs::connect(lab)?;
            let page = |after: Option<&str>, limit| client.call(&ListSwitches::page(after, limit));
            let (switches, more) = paging::listed(&args, page)?;
            let all: Vec<Whole> =
                switches.into_iter().map(|status| whole(&client, status)).collect();
            if args.json {
                print_json(&all)?
            } else {
                print(&text::list(&all))?
            }
            paging::tell_more(more, all.last().map(|one| one.status.name.as_str()));
        }
        Switch::Show(args) => {
            let whole = one(&labs::connect(lab)?, &args.switch)?;
            if args.json { print_json(&whole)? } else { print(&text::whole(&whole))? }
        }
        Switch::Port(args) => port(&labs::connect(lab)?, &args)?,
        Switch::Mac(args) => macs(&labs::connect(lab)?, &args)?,
        Switch::Vlan(args) => {
            let request = Request::SetVlan { port: args.port, vlan: vlan(args.vlan) };
            order(&labs::connect(lab)?, &args.switch, &request)?;
        }
        Switch::Mirror(args) => mirror(&labs::connect(lab)?, &args)?,
    }
    Ok(0)
}

fn told(changed: &Changed) {
    notes(&changed.notes);
}

fn create(lab: Option<&str>, args: SwitchCreate) -> Result<()> {
    each_once("switch", &args.name, &args.settings)?;
    let request = CreateSwitch { new: NewSwitch { name: args.name, settings: args.settings } };
    told(&adhoc::make(lab, |client| client.call(&request))?);
    Ok(())
}

fn one(client: &Client, name: &str) -> Result<Whole> {
    let switches = client.call(&ListSwitches::whole())?;
    let known: Vec<String> = switches.iter().map(|s| s.name.clone()).collect();
    if let Some(status) = switches.into_iter().find(|s| s.name == name) {
        return Ok(whole(client, status));
    }
    let lab = labs::counts(client)?.name;
    match known.is_empty() {
        true => bail!("switch {name:?}: lab {lab:?} has no switch"),
        false => bail!("switch {name:?}: not in lab {lab:?}; it has {}", known.join(", ")),
    }
}

fn whole(client: &Client, status: SwitchStatus) -> Whole {
    let mut whole = Whole { status, failure: None, shown: None, flow: None };
    let name = &whole.status.name;
    let told = match whole.status.kind.as_str() {
        SHM => shown(client, name).map(|shown| whole.shown = Some(shown)),
        OPENFLOW => match client.call(&ShowOpenflow { switch: name.into() }) {
            Ok(shown) => {
                whole.flow = Some(shown);
                Ok(())
            }
            Err(e) => Err(e.into()),
        },
        _ => Ok(()),
    };
    whole.failure = told.err().map(|e| netloom_sys::describe(&*e));
    whole
}

fn shown(client: &Client, switch: &str) -> Result<Shown> {
    match ask(client, switch, Request::Show)? {
        Answer::Shown(shown) => Ok(*shown),
        other => Err(unexpected(switch, &other)),
    }
}

fn ask(client: &Client, switch: &str, request: Request) -> netloom_api::Result<Answer> {
    client.call(&AskSwitch { switch: switch.into(), request })
}

/// Sends a request to the switch.
fn order(client: &Client, switch: &str, request: &Request) -> Result<()> {
    match ask(client, switch, request.clone())? {
        Answer::Done => Ok(()),
        other => Err(unexpected(switch, &other)),
    }
}

fn unexpected(switch: &str, answer: &Answer) -> anyhow::Error {
    let text: String = format!("{answer:?}").chars().take(60).collect();
    anyhow::anyhow!("switch {switch:?}: an answer to something else: {text}")
}

/// The requested port: one with this name, or else the one for which it is reserved.
fn find<'a>(switch: &str, shown: &'a Shown, key: &PortKey) -> Result<&'a PortShown> {
    let found = match key {
        PortKey::Number(number) => shown.ports.iter().find(|p| p.number == *number),
        PortKey::Name(name) => {
            let has = shown.ports.iter().find(|p| p.name == *name);
            has.or_else(|| shown.ports.iter().find(|p| p.rules.name.as_ref() == Some(name)))
        }
    };
    let key = match key {
        PortKey::Number(number) => number.to_string(),
        PortKey::Name(name) => format!("{name:?}"),
    };
    found.with_context(|| {
        format!("switch {switch:?}: port {key}: it is not in use, and has no rules")
    })
}

fn port(client: &Client, args: &SwitchPort) -> Result<()> {
    let SwitchPort { switch, port, settings, disconnect, json } = args;
    if !disconnect && settings.is_empty() && kind_of(client, switch)? == OPENFLOW {
        return openflow_port(client, switch, port, *json);
    }
    if *disconnect {
        return order(client, switch, &Request::Disconnect { port: port.clone() });
    }
    if !settings.is_empty() {
        each_once("switch", switch, settings)?;
        let change = settings::change(settings)?;
        return order(client, switch, &Request::SetPort { port: port.clone(), change });
    }
    let shown = shown(client, switch)?;
    let port = find(switch, &shown, port)?;
    if *json { print_json(port) } else { print(&text::port(port)) }
}

/// The kind of a switch; a name without a switch is told by whatever is asked next.
fn kind_of(client: &Client, switch: &str) -> Result<String> {
    let found = client.call(&ListSwitches::whole())?.into_iter().find(|s| s.name == switch);
    Ok(found.map_or_else(String::new, |s| s.kind))
}

fn openflow_port(client: &Client, switch: &str, key: &PortKey, json: bool) -> Result<()> {
    let shown = client.call(&ShowOpenflow { switch: switch.into() })?;
    let is = |p: &&FlowPort| match key {
        PortKey::Number(number) => p.number == u32::from(*number),
        PortKey::Name(name) => p.name == *name || p.interface == *name,
    };
    let has = || shown.ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
    let key = match key {
        PortKey::Number(number) => number.to_string(),
        PortKey::Name(name) => format!("{name:?}"),
    };
    let none = || format!("switch {switch:?}: port {key}: there is none; it has {}", has());
    let port = shown.ports.iter().find(is).with_context(none)?;
    if json { print_json(port) } else { print(&openflow::port(port)) }
}

fn macs(client: &Client, args: &SwitchMac) -> Result<()> {
    let tables = ask_macs(client, &args.switch, args.port.clone())?;
    if args.json {
        return print_json(&tables);
    }
    print(&text::macs(&tables, &shown(client, &args.switch)?))
}

fn ask_macs(client: &Client, switch: &str, port: Option<PortKey>) -> Result<Vec<MacTable>> {
    match ask(client, switch, Request::Macs { port })? {
        Answer::Macs(tables) => Ok(tables),
        other => Err(unexpected(switch, &other)),
    }
}

fn vlan(asked: PortVlan) -> Option<Vlan> {
    match asked {
        PortVlan::Access { vid } => Some(Vlan::Access(vid)),
        PortVlan::Trunk { set, native } => Some(Vlan::Trunk { native, allowed: set }),
        PortVlan::Qinq { vid, cvlans, tpid } => Some(Vlan::Qinq { vlan: vid, cvlans, tpid }),
        PortVlan::None => None,
    }
}

fn mirror(client: &Client, args: &SwitchMirror) -> Result<()> {
    let switch = &args.switch;
    match &args.change {
        None => {
            let shown = shown(client, switch)?;
            if args.json { print_json(&shown.mirrors) } else { print(&text::mirrors(&shown)) }
        }
        Some(MirrorChange::Delete { mirror }) => {
            order(client, switch, &Request::DeleteMirror { mirror: *mirror })
        }
        Some(MirrorChange::Add(add)) => {
            let session = session(switch, add, || shown(client, switch))?;
            match ask(client, switch, Request::AddMirror(session))? {
                Answer::Mirror(number) if args.json => print_json(&number),
                Answer::Mirror(number) => print(&format!("{number}\n")),
                other => Err(unexpected(switch, &other)),
            }
        }
    }
}

/// The requested mirror session. The switch is queried if a port is given by name.
fn session(switch: &str, add: &MirrorAdd, look: impl Fn() -> Result<Shown>) -> Result<Mirror> {
    let number = |key: &PortKey| -> Result<u16> {
        match key {
            PortKey::Number(number) => Ok(*number),
            PortKey::Name(_) => Ok(find(switch, &look()?, key)?.number),
        }
    };
    let direction = match add.direction {
        MirrorDirection::In => Direction::In,
        MirrorDirection::Out => Direction::Out,
        MirrorDirection::Both => Direction::Both,
    };
    let source = |key| Ok(Source { port: number(key)?, direction });
    let sources = add.from.iter().map(source).collect::<Result<_>>()?;
    Ok(Mirror { to: number(&add.to)?, sources, filter: add.filter, temporary: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::samples;

    #[test]
    fn a_switch_is_one_object_with_what_its_process_tells() {
        let status = SwitchStatus {
            name: "s".into(),
            kind: SHM.into(),
            bridge: String::new(),
            links: vec!["l".into()],
            openflow: None,
            vde: None,
        };
        let shown = Some(samples::shown());
        let whole = Whole { status: status.clone(), failure: None, shown, flow: None };
        let value = serde_json::to_value(&whole).unwrap();
        assert_eq!((&value["name"], &value["pid"]), (&"s".into(), &42.into()));
        assert_eq!(value["ports"][0]["name"], "h1:eth0");
        assert_eq!(value["mirrors"]["2"]["to"], 3);
        let whole = Whole { status, failure: Some("gone".into()), shown: None, flow: None };
        let value = serde_json::to_value(&whole).unwrap();
        assert_eq!((value.get("pid"), &value["failure"]), (None, &"gone".into()));
    }

    #[test]
    fn sessions_are_of_numbers_whatever_was_given() {
        let add = |to: &str, from: PortKey| MirrorAdd {
            to: to.into(),
            from: vec![from, 7.into()],
            direction: MirrorDirection::Out,
            filter: "tcp".parse().unwrap(),
        };
        let look = || Ok(samples::shown());
        let mirror = session("s", &add("watch", "h1:eth0".into()), look).unwrap();
        let source = |port| Source { port, direction: Direction::Out };
        assert_eq!((mirror.to, mirror.sources), (3, vec![source(1), source(7)]));
        let error = session("s", &add("none", 1.into()), look).unwrap_err();
        let words = "switch \"s\": port \"none\": it is not in use, and has no rules";
        assert_eq!(error.to_string(), words);
    }
}
