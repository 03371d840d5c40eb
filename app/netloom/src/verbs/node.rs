//! `node`: makes, removes, shows and changes nodes of a running lab.

use std::path::Path;

use anyhow::{Context, Result};
use netloom_lab::calls::{CreateNode, DeleteNode, ListNodes, Move, MoveControl, SetNode, ShowNode};
use netloom_lab::view::{
    Changed, MoveInterface, NewNode, NodeSettings, NodeStatus, ProgramView, ProtectView,
};

use super::adhoc::each_once;
use super::{adhoc, enter, figures, paging};
use crate::flags::{self, Node, NodeCreate, Setting};
use crate::labs;
use crate::output::{facts, notes, or_dash, print, print_json, table};

/// `netloom node`
pub(crate) fn node(lab: Option<&str>, verb: Node) -> Result<i32> {
    match verb {
        Node::Create(args) => create(lab, args)?,
        Node::Delete(args) => told(
            &labs::connect(lab)?.call(&DeleteNode { node: args.node.into(), force: args.force })?,
        ),
        Node::List(args) => {
            let client = labs::connect(lab)?;
            let page = |after: Option<&str>, limit| client.call(&ListNodes::page(after, limit));
            let (nodes, more) = paging::listed(&args, page)?;
            list(&nodes, args.json)?;
            paging::tell_more(more, nodes.last().map(|node| node.name.as_str()));
        }
        Node::Show(args) => {
            show(&labs::connect(lab)?.call(&ShowNode { node: args.node.into() })?, args.json)?
        }
        Node::Set(args) => {
            each_once("node", &args.node, &args.settings)?;
            let settings = args.settings.into_iter().map(from_here).collect::<Result<_>>()?;
            let (node, change) = (args.node.into(), NodeSettings { settings });
            told(&labs::connect(lab)?.call(&SetNode { node, change })?);
        }
        Node::MoveControl(args) => {
            told(&labs::connect(lab)?.call(&MoveControl { node: args.node.into() })?)
        }
        Node::MoveInterface(args) => move_interface(lab, args)?,
        Node::Pause(args) => return enter::control(lab, &args.node, "pause"),
        Node::Resume(args) => return enter::control(lab, &args.node, "resume"),
        Node::Save(args) => return enter::control(lab, &args.node, "save"),
        Node::Restore(args) => return enter::control(lab, &args.node, "restore"),
    }
    Ok(0)
}

fn told(changed: &Changed) {
    notes(&changed.notes);
}

fn create(lab: Option<&str>, args: NodeCreate) -> Result<()> {
    let request = CreateNode { new: new_node(args)? };
    told(&adhoc::make(lab, |client| client.call(&request))?);
    Ok(())
}

/// The requested node; its root may also be given as a setting.
fn new_node(args: NodeCreate) -> Result<NewNode> {
    each_once("node", &args.name, &args.settings)?;
    let root = args.root.as_deref().map(absolute).transpose()?;
    let mut request = NewNode { name: args.name, settings: vec![], root };
    for setting in args.settings {
        match from_here(setting)? {
            (key, value) if key == "root" => request.root = (value != "none").then_some(value),
            setting => request.settings.push(setting),
        }
    }
    Ok(request)
}

/// Resolves a root relative to the caller: the lab process has another working directory.
fn from_here((key, value): Setting) -> Result<Setting> {
    let value = if key == "root" && value != "none" { absolute(Path::new(&value))? } else { value };
    Ok((key, value))
}

fn absolute(path: &Path) -> Result<String> {
    let full = std::path::absolute(path).with_context(|| format!("{path:?}: make absolute"))?;
    full.into_os_string()
        .into_string()
        .map_err(|path| crate::Usage(format!("{path:?}: the path of a root must be UTF-8")).into())
}

/// Prints the interface's name in its new node, which may differ from the old one.
fn move_interface(lab: Option<&str>, args: flags::MoveInterface) -> Result<()> {
    let flags::MoveInterface { interface, to, name, carry } = args;
    let request = MoveInterface { interface, to, name, carry };
    let changed = labs::connect(lab)?.call(&Move { request })?;
    told(&changed);
    print(&format!("{}\n", changed.name))
}

fn list(nodes: &[NodeStatus], json: bool) -> Result<()> {
    if json { print_json(&nodes) } else { print(&list_text(nodes)) }
}

fn list_text(nodes: &[NodeStatus]) -> String {
    let head = ["NAME", "STATE", "CPU", "LOAD", "MEM", "PROCS", "SOCKETS", "LIMITS"];
    let row = |node: &NodeStatus| {
        vec![
            node.name.clone(),
            figures::life(node).into(),
            or_dash(node.cpu_ns, figures::seconds),
            or_dash(node.load, |[minute, ..]| format!("{minute:.2}")),
            or_dash(node.memory, crate::output::bytes),
            or_dash(node.processes, |n| n.to_string()),
            or_dash(node.sockets, |n| n.to_string()),
            figures::limits(node),
        ]
    };
    table(&head, nodes.iter().map(row).collect())
}

fn show(node: &NodeStatus, json: bool) -> Result<()> {
    if json { print_json(node) } else { print(&show_text(node)) }
}

fn show_text(node: &NodeStatus) -> String {
    let mut lines = vec![("node", format!("{}: {}", node.name, figures::life(node)))];
    lines.extend(node.parent.iter().map(|parent| ("inside", parent.clone())));
    lines.extend(node.children.iter().map(|c| ("children", figures::children(c))));
    lines.extend(node.pid.map(|pid| ("init", format!("{pid} on the host"))));
    let forwarding = node.forwarding.word();
    lines.extend(forwarding.map(|word| {
        ("forwarding", if word == "true" { "yes".to_owned() } else { format!("{word} only") })
    }));
    lines.extend(node.privileged.then(|| ("privileged", "yes".to_owned())));
    lines.extend(node.ids.map(|ids| ("ids", ids.word().to_owned())));
    lines.push(("CPU", cpu(node)));
    lines.extend(node.limits.weight.map(|weight| ("weight", weight.to_string())));
    lines.push(("load", load(node)));
    lines.push(("memory", figures::memory(node)));
    lines.push(("processes", figures::processes(node)));
    lines.push(("sockets", sockets(node)));
    lines.extend(node.protect.iter().flat_map(protection));
    let drops = node.drops.iter().filter(|drop| drop.packets > 0);
    lines.extend(drops.map(|drop| ("dropped", format!("{} ({})", drop.packets, drop.cause))));
    lines.extend(node.programs.iter().map(|program| ("program", program_text(program))));
    lines.extend(node.health.iter().map(|health| ("health", figures::health(health))));
    let addresses = node.interfaces.iter().filter(|i| !i.addresses.is_empty());
    lines.extend(addresses.map(|i| ("address", format!("{}: {}", i.name, i.addresses.join(" ")))));
    let mut text = facts(&lines);
    let rows = figures::interface_rows(node);
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(&figures::INTERFACES, rows));
    }
    text
}

/// CPU time with its components.
fn cpu(node: &NodeStatus) -> String {
    let parts = [
        ("user", node.cpu_user_ns),
        ("system", node.cpu_system_ns),
        ("receiving datagrams", node.cpu_receive_ns),
    ];
    let known = parts.iter().filter_map(|(part, ns)| Some((part, (*ns)?)));
    let words: Vec<String> =
        known.map(|(part, ns)| format!("{part} {}", figures::seconds(ns))).collect();
    match words.as_slice() {
        [] => figures::cpu(node),
        words => format!("{}: {}", figures::cpu(node), words.join(", ")),
    }
}

fn load(node: &NodeStatus) -> String {
    or_dash(node.load, |means| means.map(|mean| format!("{mean:.2}")).join(" "))
}

fn sockets(node: &NodeStatus) -> String {
    let all = or_dash(node.sockets, |n| n.to_string());
    match node.limits.sockets {
        None => all,
        Some(_) => {
            let refused = or_dash(node.sockets_refused, |n| n.to_string());
            format!("{all}; {} counted, {refused} refused", figures::sockets(node))
        }
    }
}

/// Budget, totals, and a line for each sender.
fn protection(view: &ProtectView) -> Vec<(&'static str, String)> {
    let passed = figures::amount(view.passed_packets, view.passed_bytes);
    let dropped = figures::amount(view.dropped_packets, view.dropped_bytes);
    let budget = figures::budget(view).join(", ");
    let mut lines = vec![("protected", format!("{budget}; passed {passed}, dropped {dropped}"))];
    lines.extend(view.senders.iter().map(|sender| {
        let dropped = figures::amount(sender.dropped_packets, sender.dropped_bytes);
        let passed = sender.passed_packets;
        ("  from", format!("{}: passed {passed}, dropped {dropped}", sender.sender))
    }));
    lines
}

fn program_text(program: &ProgramView) -> String {
    let state = match (program.pid, program.exit_code) {
        (Some(pid), _) => format!("runs as {pid}"),
        (None, Some(0)) if program.ended => "done".to_owned(),
        (None, _) => program.ending().unwrap_or_else(|| "does not run".to_owned()),
    };
    let restarts = match program.restarts {
        0 => String::new(),
        restarts => format!(", restarted {restarts}"),
    };
    let next = program.restart_in_ms.map(|ms| format!(", {}", figures::again(ms)));
    format!("{}: {state}{restarts}{}", program.command.join(" "), next.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::samples;

    #[test]
    fn nodes_are_listed_with_what_is_known_of_them() {
        let text = list_text(&samples::status().nodes);
        let expected = "\
NAME  STATE  CPU     LOAD  MEM      PROCS  SOCKETS  LIMITS
t     up     1.50 s  0.50  1.0 MiB  3      4        cpu 50%, weight 200, memory 2.0 MiB, \
processes 10, sockets 9, children 4, packets 1000/s, bytes 1.0 KiB/s
t/a   dead   -       -     -        -      -        -
";
        assert_eq!(text, expected);
    }

    #[test]
    fn all_of_a_node_is_shown() {
        let nodes = samples::status().nodes;
        let expected = "\
node       t: up
children   1 of 4
init       3 on the host
CPU        1.50 s (at most 50%): user 1.00 s, system 0.25 s, receiving datagrams 0.25 s
weight     200
load       0.50 0.25 0.00
memory     1.0 MiB of 2.0 MiB
processes  3 of 10
sockets    4; 3 of 9 counted, 2 refused
protected  packets 1000/s, bytes 1.0 KiB/s; passed 10 (1.0 KiB), dropped 7 (2.0 KiB)
  from     h2:eth0: passed 9, dropped 7 (2.0 KiB)
dropped    7 (protect)
program    sleep 9: runs as 9, restarted 2
address    eth0: 10.0.0.1/24

INTERFACE  LINK       STATE  RECEIVED     SENT       LOST
t:eth0     t:eth0--s  up     2 (1.0 KiB)  5 (512 B)  9
";
        assert_eq!(show_text(&nodes[0]), expected);
        let expected = "\
node        t/a: dead
inside      t
forwarding  yes
privileged  yes
CPU         -
load        -
memory      -
processes   -
sockets     -
";
        assert_eq!(show_text(&nodes[1]), expected);
    }

    #[test]
    fn roots_start_from_the_caller_s_directory() {
        let here = std::env::current_dir().unwrap().join("r");
        let here = here.to_str().unwrap();
        let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(from_here(setting("root", "r")).unwrap(), setting("root", here));
        assert_eq!(from_here(setting("root", "/r")).unwrap(), setting("root", "/r"));
        assert_eq!(from_here(setting("root", "none")).unwrap(), setting("root", "none"));
        assert_eq!(from_here(setting("cpu", "r")).unwrap(), setting("cpu", "r"));
        let args = |settings: Vec<Setting>, root: Option<&str>| NodeCreate {
            name: "a".into(),
            settings,
            root: root.map(Into::into),
        };
        let request =
            new_node(args(vec![setting("root", "r"), setting("cpu", "1")], None)).unwrap();
        assert_eq!(request.root.as_deref(), Some(here));
        assert_eq!(request.settings, [setting("cpu", "1")]);
        assert_eq!(new_node(args(vec![], Some("r"))).unwrap().root.as_deref(), Some(here));
    }
}
