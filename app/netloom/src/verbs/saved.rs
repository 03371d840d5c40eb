//! `export lab`: the lab file of a running lab.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use netloom_api::Client;
use netloom_lab::call::Within;
use netloom_lab::calls::{AskSwitch, ListLinks, ShowPlan};
use netloom_model::kinds::SwitchKind;
use netloom_model::kinds::shm::{PortVlan, ShmSwitch};
use netloom_model::plan::port_names::shortened_port_name;
use netloom_model::{Lab, Plan};
use netloom_switch::control::requests::{Answer, PortShown, Request};
use netloom_switch::rules::Vlan;

use super::foreign::write;
use crate::flags::ExportLab;
use crate::{labs, output};

/// `netloom export lab`
pub(crate) fn export(lab: Option<&str>, args: &ExportLab) -> Result<i32> {
    let client = labs::connect(args.name.as_deref().or(lab))?;
    let plan = now(&client)?;
    let links = client.call(&ListLinks::whole())?;
    let down = links.iter().filter(|link| link.down).map(|link| link.name.as_str());
    let text = text(&plan, down, args.output.as_deref())?;
    match &args.output {
        Some(file) => write(file, &text, args.force)?,
        None => output::print(&text)?,
    }
    Ok(0)
}

/// The plan of a running lab, with the rules that ports of its shared-memory switches have now.
pub(super) fn now(client: &Client) -> Result<Plan> {
    let mut plan = client.call(&ShowPlan { of: Within::ALL })?;
    for at in plan.switch_slots() {
        let switch = &mut plan.switches[at];
        let SwitchKind::Shm(options) = &mut switch.kind else { continue };
        // One that does not answer has the rules of its file when it comes back.
        let show = AskSwitch { switch: switch.name.as_str().into(), request: Request::Show };
        if let Ok(Answer::Shown(shown)) = client.call(&show) {
            shown.ports.iter().for_each(|port| take_rules(options, port));
        }
    }
    Ok(plan)
}

/// The text for a file at a path, from which its paths are relative.
fn text<'l>(
    plan: &Plan,
    down: impl Iterator<Item = &'l str>,
    file: Option<&Path>,
) -> Result<String> {
    let saved = netloom_model::lab_of(plan);
    let mut lab: Lab =
        saved.map_err(|reason| anyhow!("lab {:?}: it cannot be a file: {reason}", plan.lab))?;
    if let Some(folder) = file.map(folder_of).transpose()? {
        lab.make_relative(&folder);
    }
    let mut head = "Made by `netloom export lab` from the running lab.".to_owned();
    for link in down {
        head.push_str(&format!("\nLink {link} is down now: `netloom link set {link} --down`."));
    }
    Ok(netloom_model::write(&lab, &head))
}

fn folder_of(file: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(file).with_context(|| format!("{file:?}"))?;
    Ok(absolute.parent().map(Path::to_owned).unwrap_or_default())
}

/// Takes the VLANs and locked addresses that a port has now.
fn take_rules(options: &mut ShmSwitch, shown: &PortShown) {
    if shown.name.is_empty() {
        return;
    }
    let vlan = shown.rules.vlan.as_ref().map(|vlan| match vlan {
        Vlan::Access(vid) => PortVlan::Access(vid.number()),
        Vlan::Trunk { native, allowed } => {
            PortVlan::Trunk { native: native.map(|vid| vid.number()), allowed: allowed.to_string() }
        }
        Vlan::Qinq { vlan, cvlans, tpid } => PortVlan::Qinq {
            vlan: vlan.number(),
            cvlans: cvlans.as_ref().map(ToString::to_string),
            tpid: tpid.to_string(),
        },
    });
    let lock: Vec<String> = shown.rules.macs.iter().map(ToString::to_string).collect();
    let known = options.ports.keys().find(|name| shortened_port_name(name) == shown.name);
    let name = known.unwrap_or(&shown.name).clone();
    let none = vlan.is_none() && lock.is_empty();
    if known.is_none() && none {
        return;
    }
    let port = options.ports.entry(name).or_default();
    if (&port.vlan, &port.lock) != (&vlan, &lock) {
        (port.vlan, port.lock) = (vlan, lock);
    }
}
