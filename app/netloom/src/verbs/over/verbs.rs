//! `up`, `down`, `status`, `exec` and `ping` with `--on HOSTS`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use netloom_lab::view::{Family, LabStatus, Reachability};
use netloom_model::plan::{Placement, Plan, PlannedEnd};
use netloom_model::{Host, Hosts, Lab};
use netloom_placement::{Earlier, account, place};
use serde::Serialize;

use super::driver::{Came, Undone, bring_up, each};
use super::message::{Ask, PingFrom, Place, Prepare, Target, Told};
use super::remote::{self, Input, Remote, Trouble};
use crate::flags::{Down, Exec, Ping, Status, Up};
use crate::labs::{self, Wish};
use crate::output::{self, count, table};
use crate::verbs::{hosts, list, ping, up};
use crate::{foreign, source};

/// Hosts that did not do what they were asked; each is named.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct OnHosts {
    text: String,
    /// The first lacks something.
    pub(crate) unsupported: bool,
}

pub(super) fn refusal(troubles: &[Trouble], more: &str) -> anyhow::Error {
    let lines: Vec<String> = troubles.iter().map(ToString::to_string).collect();
    let unsupported = troubles.first().is_some_and(|trouble| trouble.unsupported);
    OnHosts { text: format!("{}{more}", lines.join("\n")), unsupported }.into()
}

/// Connects to these hosts, all at once.
pub(super) fn connect(hosts: &[&Host]) -> Vec<Result<Remote, Trouble>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            hosts.iter().map(|host| scope.spawn(move || Remote::connect(host))).collect();
        let joined = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Those that can be reached, and why the others cannot.
fn reached(hosts: &Hosts) -> (Vec<Remote>, Vec<Trouble>) {
    let (mut remotes, mut troubles) = (vec![], vec![]);
    for found in connect(&hosts.list.iter().collect::<Vec<_>>()) {
        match found {
            Ok(remote) => remotes.push(remote),
            Err(trouble) => troubles.push(trouble),
        }
    }
    (remotes, troubles)
}

/// The lab that a verb over hosts is about.
pub(super) fn lab_of(asked: Option<&str>) -> Result<String> {
    match labs::name(asked)? {
        Some(name) => Ok(name),
        None => Err(crate::Usage("with --on, name the lab or its file: -l LAB".into()).into()),
    }
}

/// A lab file for hosts.
pub(super) struct Wanted {
    pub(super) plan: Plan,
    pub(super) hosts: Hosts,
    lab: Lab,
    shown: String,
    text: String,
    file: Option<PathBuf>,
    base: PathBuf,
}

/// Reads a lab file and a hosts file.
pub(super) fn read(wish: &Wish, file: &Path, name: Option<&str>, on: &Path) -> Result<Wanted> {
    if foreign::find(file).is_some() {
        let problem = "a lab over hosts comes from a lab file; `netloom import` makes one of this";
        return Err(crate::Usage(format!("{}: {problem}", source::shown(file))).into());
    }
    let bytes = source::read(file)?;
    let (shown, hosts) = (source::shown(file), hosts::read(on)?);
    let name = wish.new_name(name)?;
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_default();
    let mut lab = netloom_model::parse(&shown, &bytes, name.as_deref().unwrap_or(&stem))?;
    if let Some(name) = name {
        if let Some(problem) = netloom_model::lab_name_problem(&name) {
            return Err(crate::Usage(problem).into());
        }
        lab.name = name;
    }
    let plan = netloom_model::plan::plan(&lab)
        .map_err(|e| crate::Usage(format!("{shown}: error: {e}")))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (file, base) = (source::full(file), source::base(file));
    Ok(Wanted { plan, hosts, lab, shown, text, file, base })
}

impl Wanted {
    /// The hosts that make something of it, as indexes, each with its part. What `earlier` has stays where it is. Tells warnings.
    pub(super) fn parts(
        &self,
        earlier: Option<&Earlier>,
        ignore_limits: bool,
    ) -> Result<(Vec<usize>, Vec<Prepare>)> {
        let Wanted { plan, hosts, lab, shown, .. } = self;
        let placement = place(plan, &lab.place, hosts, earlier).map_err(|errors| {
            let lines: Vec<String> =
                errors.iter().map(|e| format!("{shown}: error: {e}")).collect();
            crate::Usage(lines.join("\n"))
        })?;
        check_across(plan, &placement).map_err(crate::Usage)?;
        let found = account(plan, &lab.place, hosts, &placement);
        output::warnings(&netloom_model::plan::hints(lab));
        for warning in &found.warnings {
            tell_line!("warning: {warning}");
        }
        let makes = |at: &usize| found.hosts[*at].nodes + found.hosts[*at].switches > 0;
        let used: Vec<usize> = (0..hosts.list.len()).filter(makes).collect();
        let listed =
            |host: &Host| Place { name: host.name.clone(), underlay: host.underlay, mtu: host.mtu };
        let whole = Prepare {
            lab: plan.lab.clone(),
            shown: shown.clone(),
            text: self.text.clone(),
            file: self.file.clone(),
            base: self.base.clone(),
            digest: plan.digest.clone(),
            hosts: hosts.list.iter().map(listed).collect(),
            host: 0,
            nodes: plan.slots().filter_map(|slot| placement.of_node(slot)).collect(),
            switches: plan.switch_slots().map(|s| placement.of_switch(s).to_vec()).collect(),
            ignore_limits,
        };
        // Each host gets the same, with its own place in the list.
        let parts = used.iter().map(|host| Prepare { host: *host, ..whole.clone() }).collect();
        Ok((used, parts))
    }
}

/// `netloom up FILE --on HOSTS`
pub(crate) fn up(wish: &Wish, args: &Up, on: &Path) -> Result<i32> {
    let begun = Instant::now();
    let wanted = read(wish, &args.file, args.name.as_deref(), on)?;
    let (used, parts) = wanted.parts(None, args.ignore_limits)?;
    let Wanted { plan, hosts, .. } = &wanted;
    let of_hosts: Vec<&Host> = used.iter().map(|at| &hosts.list[*at]).collect();
    let (mut remotes, mut troubles) = (vec![], vec![]);
    for found in connect(&of_hosts) {
        match found {
            Ok(remote) => remotes.push(remote),
            Err(trouble) => troubles.push(trouble),
        }
    }
    troubles.extend(twice(&remotes));
    if !troubles.is_empty() {
        return Err(refusal(&troubles, "\nnothing was made"));
    }
    let again = |at: usize| Remote::connect(of_hosts[at]);
    match bring_up(&mut remotes, &parts, &again) {
        Ok(came) => told(plan, &came, remotes.len(), begun),
        Err(Undone { why, left }) if left.is_empty() => {
            Err(refusal(&why, "\nnothing is left of it on any host"))
        }
        Err(Undone { why, left }) => {
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            let lab = &plan.lab;
            let more = format!(
                "\nand what it made there could not be taken down; `netloom down {lab} --on HOSTS` does, once it can:\n{}",
                left.join("\n")
            );
            Err(refusal(&why, &more))
        }
    }
}

fn told(plan: &Plan, came: &Came, hosts: usize, begun: Instant) -> Result<i32> {
    let name = &plan.lab;
    let (nodes, links) = (count(plan.nodes.len(), "node"), count(plan.links.len(), "link"));
    let ms = begun.elapsed().as_secs_f64() * 1000.0;
    let hosts_word = count(hosts, "host");
    let line = match came.already {
        0 => format!("lab {name}: {nodes}, {links} up on {hosts_word} in {ms:.1} ms\n"),
        all if all == hosts => format!("lab {name}: already running on {hosts_word}\n"),
        some => format!(
            "lab {name}: {nodes}, {links} up on {hosts_word} in {ms:.1} ms; on {some} of them it ran already\n"
        ),
    };
    up::tell_notes(name, &came.notes);
    output::print(&line)?;
    Ok(up::tell_troubles(name, &came.troubles))
}

/// What links across cannot have yet.
pub(super) fn check_across(plan: &Plan, placement: &Placement) -> Result<(), String> {
    for crossing in plan.crossings(placement) {
        let Some(link) = crossing.link.and_then(|slot| plan.link_at(slot)) else { continue };
        let name = &link.name;
        let remedy = "put both ends on one host with `place`";
        for end in &link.ends {
            match end {
                PlannedEnd::Port { switch, .. }
                    if !plan.switch_at(*switch).is_some_and(|s| s.kind.is_bridge()) =>
                {
                    return Err(format!(
                        "link {name:?} is across and ends in a switch that is not of kind kernel; {remedy}"
                    ));
                }
                PlannedEnd::Port { switch, .. }
                    if plan.switch_at(*switch).is_some_and(|switch| switch.stp) =>
                {
                    return Err(format!(
                        "link {name:?} is across and ends in a switch with `stp`, which would not see loops through other \
                         hosts; {remedy}"
                    ));
                }
                PlannedEnd::Node { node, .. }
                    if plan.node_at(*node).is_some_and(|node| node.kind.has_separate_plane()) =>
                {
                    return Err(format!(
                        "link {name:?} is across and ends in a router with a separate plane; {remedy}"
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Hosts that are the same one by two names.
pub(super) fn twice(remotes: &[Remote]) -> Vec<Trouble> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found = vec![];
    for remote in remotes.iter().filter(|remote| !remote.place.is_empty()) {
        if let Some(first) = known.insert(&remote.place, &remote.host) {
            let reason = format!(
                "is the same network of the same machine as {first:?}; name each host once"
            );
            found.push(Trouble::of(&remote.host, reason));
        }
    }
    found
}

/// `netloom down LAB --on HOSTS`
pub(crate) fn down(wish: &Wish, args: &Down, on: &Path) -> Result<i32> {
    let hosts = hosts::read(on)?;
    let lab = lab_of(wish.or(args.name.as_deref())?)?;
    let (mut remotes, mut troubles) = reached(&hosts);
    let asked = Ask::Down { lab: lab.clone() };
    let answers = each(&mut remotes, |_, remote| match remote.ask(&asked)? {
        Told::Down {} => Ok(true),
        Told::NoLab {} => Ok(false),
        _ => Err(remote.odd()),
    });
    let mut taken = 0;
    for answer in answers {
        match answer {
            Ok(had) => taken += usize::from(had),
            Err(trouble) => troubles.push(trouble),
        }
    }
    if taken > 0 {
        output::print(&format!("lab {lab}: down on {}\n", count(taken, "host")))?;
    }
    match troubles.is_empty() {
        true if taken == 0 => Err(netloom_lab::Error::NoLab(lab).into()),
        true => Ok(0),
        false => Err(refusal(&troubles, "\nthe same command again takes down what is left there")),
    }
}

/// A lab on a host.
#[derive(Serialize)]
pub(super) struct OnHost {
    pub(super) host: String,
    /// `up` and the like, `none` without the lab, `unreachable`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lab: Option<Box<LabStatus>>,
}

/// Asks all hosts for a lab, in their order.
pub(super) fn states(hosts: &Hosts, lab: &str) -> Vec<OnHost> {
    let asked = Ask::Status { lab: lab.to_owned() };
    let trouble = |host: &str, state, trouble: Trouble| OnHost {
        host: host.to_owned(),
        state,
        reason: Some(trouble.reason),
        lab: None,
    };
    let mut found = vec![];
    for (host, connected) in hosts.list.iter().zip(connect(&hosts.list.iter().collect::<Vec<_>>()))
    {
        let remote = match connected {
            Ok(remote) => remote,
            Err(why) => {
                found.push((trouble(&host.name, "unreachable", why), None));
                continue;
            }
        };
        let none = OnHost { host: host.name.clone(), state: "none", reason: None, lab: None };
        found.push((none, Some(remote)));
    }
    std::thread::scope(|scope| {
        for (state, remote) in &mut found {
            let (asked, trouble) = (&asked, &trouble);
            let Some(remote) = remote else { continue };
            scope.spawn(move || match remote.ask(asked) {
                Ok(Told::Status(status)) => {
                    (state.state, state.lab) = (list::state(status.state), Some(status));
                }
                Ok(Told::NoLab {}) => {}
                Ok(_) => *state = trouble(&remote.host, "failed", remote.odd()),
                Err(why) => *state = trouble(&remote.host, "failed", why),
            });
        }
    });
    found.into_iter().map(|(state, _)| state).collect()
}

/// `netloom status LAB --on HOSTS`
pub(crate) fn status(wish: &Wish, args: &Status, on: &Path) -> Result<i32> {
    let hosts = hosts::read(on)?;
    let lab = lab_of(wish.or(args.name.as_deref())?)?;
    let found = states(&hosts, &lab);
    let whole = found.iter().all(|on| on.reason.is_none());
    if found.iter().all(|on| on.lab.is_none()) && whole {
        return Err(netloom_lab::Error::NoLab(lab).into());
    }
    if args.listing.json {
        output::print_json(&found)?;
    } else {
        output::show(&status_text(&lab, &found))?;
    }
    let good = found.iter().all(|on| matches!(on.state, "up" | "none"));
    Ok(i32::from(!good))
}

fn status_text(lab: &str, found: &[OnHost]) -> String {
    let mut text = format!("lab {lab}\n\n");
    let row = |on: &OnHost| {
        let number = |of: fn(&LabStatus) -> usize| {
            output::or_dash(on.lab.as_deref().map(of), |n| n.to_string())
        };
        vec![
            on.host.clone(),
            on.state.to_owned(),
            number(|lab| lab.nodes.len()),
            number(|lab| lab.links.len()),
        ]
    };
    text += &table(&["HOST", "STATE", "NODES", "LINKS"], found.iter().map(row).collect());
    let nodes = found.iter().flat_map(|on| {
        let nodes = on.lab.iter().flat_map(|lab| &lab.nodes);
        nodes.map(|node| {
            vec![
                node.name.clone(),
                on.host.clone(),
                crate::verbs::figures::life(node).to_owned(),
                node.addresses.join(" "),
            ]
        })
    });
    let nodes: Vec<Vec<String>> = nodes.collect();
    if !nodes.is_empty() {
        text += "\n";
        text += &table(&["NODE", "HOST", "STATE", "ADDRESSES"], nodes);
    }
    for on in found {
        text += &across_text(on);
        if let Some(reason) = &on.reason {
            text += &format!("\nhost {:?}: {reason}\n", on.host);
        }
    }
    text
}

/// What a host says of the others, where it is worth a line.
fn across_text(on: &OnHost) -> String {
    let mut text = String::new();
    let Some(across) = on.lab.as_ref().and_then(|lab| lab.across.as_ref()) else { return text };
    for peer in across.peers.iter().filter(|peer| !peer.answers) {
        let (host, peer) = (&on.host, &peer.host);
        text +=
            &format!("\nhost {host:?}: {peer:?} does not answer, so links to it have no carrier\n");
    }
    if across.foreign_frames > 0 {
        let frames = count(usize::try_from(across.foreign_frames).unwrap_or(usize::MAX), "frame");
        let host = &on.host;
        text += &format!("\nhost {host:?}: dropped {frames} that came from no host of the lab\n");
    }
    text
}

/// `netloom exec --on HOSTS -l LAB NODE -- PROGRAM`
pub(crate) fn exec(lab: Option<&str>, args: &Exec, on: &Path) -> Result<i32> {
    let hosts = hosts::read(on)?;
    let lab = lab_of(lab)?;
    let found = states(&hosts, &lab);
    let has =
        |on: &&OnHost| on.lab.iter().flat_map(|lab| &lab.nodes).any(|node| node.name == args.node);
    let Some(at) = found.iter().find(has) else {
        let unknown: Vec<Trouble> =
            found.iter().filter_map(|on| Some(Trouble::of(&on.host, on.reason.clone()?))).collect();
        if !unknown.is_empty() {
            return Err(refusal(&unknown, ""));
        }
        if found.iter().all(|on| on.lab.is_none()) {
            return Err(netloom_lab::Error::NoLab(lab).into());
        }
        bail!("lab {lab:?}: there is no node {:?} on any host", args.node);
    };
    let Some(host) = hosts.list.iter().find(|host| host.name == at.host) else {
        bail!("there is no host {:?}", at.host);
    };
    let asked = Ask::Exec {
        lab,
        node: args.node.clone(),
        command: args.command.clone(),
        no_root: args.no_root,
    };
    remote::enter(host, &asked, Input::Own).map_err(|trouble| refusal(&[trouble], ""))
}

/// `netloom ping --all --on HOSTS -l LAB`
pub(crate) fn ping(lab: Option<&str>, args: &Ping, on: &Path) -> Result<i32> {
    if !args.all {
        let words = "--on pings from all to all: `netloom ping --all --on HOSTS`; for two nodes use \
                     `netloom exec --on HOSTS NODE -- ping ADDRESS`";
        return Err(crate::Usage(words.into()).into());
    }
    let hosts = hosts::read(on)?;
    let lab = lab_of(lab)?;
    let found = states(&hosts, &lab);
    let lost: Vec<Trouble> =
        found.iter().filter_map(|on| Some(Trouble::of(&on.host, on.reason.clone()?))).collect();
    if !lost.is_empty() {
        return Err(refusal(&lost, ""));
    }
    let mut targets: Vec<Target> = vec![];
    for node in found.iter().flat_map(|on| on.lab.iter().flat_map(|lab| &lab.nodes)) {
        let all = node.addresses.iter().filter_map(|text| text.parse::<ipnet::IpNet>().ok());
        let target =
            Target { name: node.name.clone(), addresses: all.map(|net| net.addr()).collect() };
        targets.push(target);
    }
    if targets.is_empty() {
        return Err(netloom_lab::Error::NoLab(lab).into());
    }
    let question = PingFrom {
        lab,
        nodes: targets.clone(),
        families: ping::families(args),
        timeout_ms: args.timeout,
    };
    let (mut remotes, troubles) = reached(&hosts);
    if !troubles.is_empty() {
        return Err(refusal(&troubles, ""));
    }
    let asked = Ask::Ping(question.clone());
    let answers = each(&mut remotes, |_, remote| match remote.ask(&asked)? {
        Told::Pinged(families) => Ok(families),
        Told::NoLab {} => Ok(vec![]),
        _ => Err(remote.odd()),
    });
    let mut merged: Vec<Vec<Vec<Option<u32>>>> =
        vec![vec![vec![None; targets.len()]; targets.len()]; question.families.len()];
    for answer in answers {
        let families = answer.map_err(|trouble| refusal(&[trouble], ""))?;
        for (all, of_host) in merged.iter_mut().zip(families) {
            for (row, cells) in all.iter_mut().zip(of_host) {
                for (cell, rtt) in row.iter_mut().zip(cells) {
                    *cell = cell.or(rtt);
                }
            }
        }
    }
    let families = question.families.iter().zip(merged).map(|(version, rtt_us)| {
        let with = targets.iter().filter(|node| node.address(*version).is_some()).count() as u64;
        let answered = rtt_us.iter().flatten().filter(|cell| cell.is_some()).count() as u64;
        Family { version: *version, rtt_us, asked: with * with.saturating_sub(1), answered }
    });
    let nodes = targets.iter().map(|node| node.name.clone()).collect();
    ping::show(&Reachability { nodes, families: families.collect() }, args.json)
}
