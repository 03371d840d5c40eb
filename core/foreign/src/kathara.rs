//! Kathara's labs, and Netkit's before it: a folder with `lab.conf`.
//!
//! `lab.conf` says which devices there are and in which collision domains; a folder of a device is copied onto its
//! root, and `DEVICE.startup` is run by a shell when it starts, never fatal. Devices forward IPv4 and have no IPv6
//! unless they ask for it.

mod conf;
mod device;
mod folder;
mod options;
mod order;
mod startup;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use ipnet::{IpNet, Ipv4Net};

use crate::draft::{Draft, End, Link, Route, Switch};
use crate::ledger::Id;
use crate::source::{Found, join};
use crate::{Error, Job, NOT_CHOSEN, Result, Verdict, lab_name, valid_name};

use conf::Line;

/// A device as `lab.conf` has it.
#[derive(Default)]
struct Device {
    /// Interfaces by number.
    interfaces: BTreeMap<u32, Interface>,
    /// All other options in their order.
    options: Vec<(String, String, Id)>,
    ipv6: bool,
    /// All its lines.
    lines: Vec<Id>,
}

/// An interface of a device.
struct Interface {
    domain: String,
    mac: Option<String>,
    id: Id,
}

/// Reads a lab.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let not_text = || Error::Unreadable { file: job.file.to_owned(), problem: "not UTF-8 text" };
    let text = std::str::from_utf8(content).map_err(|_| not_text())?;
    let mut draft = Draft::default();
    let (mut devices, others) = chosen(job, devices(job, text, &mut draft)?)?;
    let order = order::read(job)?;
    devices.sort_by_key(|(name, _)| {
        // Those that lab.dep does not name wait for nobody.
        order.iter().position(|other| other == name).map_or(0, |at| at + 1)
    });
    let mut names = BTreeMap::new();
    for (name, _) in &devices {
        let valid = valid_name(name.trim_start_matches('_'));
        let new = draft.free_name(if valid.is_empty() { "device" } else { &valid });
        names.insert(name.clone(), new.clone());
        draft.nodes.push(crate::draft::Node::named(new));
    }
    let domains = domains(&devices, &mut draft);
    let mut shaped = BTreeMap::new();
    for (name, device) in &devices {
        let new = names.get(name).cloned().unwrap_or_default();
        let made = device::read(job, name, &new, device);
        shaped.extend(made.shaping.into_iter().map(|(iface, keys)| ((new.clone(), iface), keys)));
        if let Some(node) = draft.node(&new) {
            *node = made.node;
        }
        links(&new, device, &domains, &mut draft);
        if made.bridged && !bridge(&new, device, &mut draft) {
            let why = "more devices are bridged than Docker's bridge has addresses for";
            let asked = device.options.iter().filter(|(key, ..)| key == "bridged");
            asked.for_each(|(.., id)| job.ledger.say(*id, Verdict::LeftOut(why.into())));
        }
    }
    for link in &mut draft.links {
        let [first, _] = &link.ends;
        let key = (first.at.clone(), first.iface.clone().unwrap_or_default());
        // `tc` at a device's interface shapes what the device sends.
        link.impairments[1] = shaped.remove(&key).unwrap_or_default();
    }
    outside(job, &domains, &mut draft);
    rest(job, &devices, &others);
    Ok(draft)
}

/// Devices by their names, in the order of `lab.conf`.
type Devices = Vec<(String, Device)>;

/// The devices that are wanted, and the others.
fn chosen(job: &Job<'_>, devices: Devices) -> Result<(Devices, Devices)> {
    job.check_choice(&devices.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
    let (devices, others): (Devices, Devices) =
        devices.into_iter().partition(|(name, _)| job.wants(name));
    for id in others.iter().flat_map(|(_, device)| &device.lines) {
        job.ledger.say(*id, Verdict::LeftOut(NOT_CHOSEN.to_owned()));
    }
    Ok((devices, others))
}

/// The devices in the order in which `lab.conf` names them.
fn devices(job: &Job<'_>, text: &str, draft: &mut Draft) -> Result<Vec<(String, Device)>> {
    let mut devices: Vec<(String, Device)> = vec![];
    for (number, line) in (1..).zip(text.lines()) {
        match conf::line(job.file, number, line)? {
            Line::Nothing => {}
            Line::Indented => {
                let id = job.ledger.enter(job.file, number, line.trim());
                let why = "Kathara itself refuses a comment that does not begin its line";
                job.ledger.say(id, Verdict::Changed(why.into()));
            }
            Line::About { key, value, odd } => {
                let id = job.ledger.enter(job.file, number, &key);
                let name = lab_name(&value);
                if let Some(why) = odd {
                    job.ledger.say(id, Verdict::Changed(why.into()));
                }
                let verdict = match key.as_str() {
                    "LAB_NAME" if !value.is_empty() => {
                        draft.name.clone_from(&name);
                        if name == value {
                            Verdict::Carried
                        } else {
                            Verdict::Changed(format!("the lab is called {name}"))
                        }
                    }
                    _ => Verdict::Changed("only for people".into()),
                };
                job.ledger.say(id, verdict);
            }
            Line::Option { device, arg, value, odd } => {
                let id = job.ledger.enter(job.file, number, format!("{device}[{arg}]={value:?}"));
                if let Some(why) = odd {
                    job.ledger.say(id, Verdict::Changed(why.into()));
                }
                let at = match devices.iter().position(|(name, _)| *name == device) {
                    Some(at) => at,
                    None => {
                        devices.push((device, Device::default()));
                        devices.len() - 1
                    }
                };
                devices[at].1.lines.push(id);
                option(job, &mut devices[at].1, (number, &arg, value), id)?;
            }
        }
    }
    for (_, device) in &devices {
        gaps(job, device);
    }
    Ok(devices)
}

/// Tells of interfaces whose numbers leave others out.
fn gaps(job: &Job<'_>, device: &Device) {
    for ((number, interface), want) in device.interfaces.iter().zip(0..) {
        if *number != want {
            let why = format!("Kathara itself refuses a device without interface {want}");
            return job.ledger.say(interface.id, Verdict::Changed(why));
        }
    }
}

fn option(
    job: &Job<'_>,
    device: &mut Device,
    (line, arg, value): (u32, &str, String),
    id: Id,
) -> Result<()> {
    let is_number = arg.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && arg.parse::<u32>().is_err() {
        return Err(crate::wrong(job.file, line, "no interface has such a number"));
    }
    let Ok(number) = arg.parse::<u32>() else {
        if arg == "ipv6" {
            device.ipv6 = truth(&value) == Some(true);
        }
        device.options.push((arg.to_owned(), value, id));
        return Ok(());
    };
    let mut parts = value.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
    let (domain, mut mac) = (parts.next().unwrap_or_default(), parts.next());
    if value.contains('/') && mac.is_none() || parts.next().is_some() {
        return Err(crate::wrong(job.file, line, "expected DOMAIN or DOMAIN/MAC"));
    }
    if valid_name(&domain).is_empty() || number > 10_000 {
        return Err(crate::wrong(job.file, line, "expected DEVICE[NUMBER]=\"DOMAIN\""));
    }
    if device.interfaces.values().any(|interface| interface.domain == domain) {
        job.ledger.say(id, Verdict::LeftOut("the device has an interface there already".into()));
        return Ok(());
    }
    if device.interfaces.contains_key(&number) {
        let message = format!("interface {number} of this device is given twice");
        return Err(crate::wrong(job.file, line, message));
    }
    if mac.as_deref().is_some_and(|mac| !is_mac(mac)) {
        mac = None;
        let why = "the hardware address is none that an interface can have";
        job.ledger.say(id, Verdict::LeftOut(why.into()));
    }
    device.interfaces.insert(number, Interface { domain, mac, id });
    job.ledger.say(id, Verdict::Carried);
    Ok(())
}

/// Whether an interface can have a hardware address: six bytes, neither of a group nor all zero.
fn is_mac(text: &str) -> bool {
    let byte = |text: &str| u8::from_str_radix(text, 16).ok().filter(|_| text.len() == 2);
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    bytes.is_some_and(|b| b.len() == 6 && b[0] & 1 == 0 && b.iter().any(|byte| *byte != 0))
}

/// What a value says, as Kathara reads it.
fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "y" | "yes" | "t" | "true" | "on" | "1" => Some(true),
        "n" | "no" | "f" | "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A switch for each collision domain, by the domain's name.
fn domains(devices: &[(String, Device)], draft: &mut Draft) -> BTreeMap<String, String> {
    let mut switches = BTreeMap::new();
    let interfaces = devices.iter().flat_map(|(_, device)| device.interfaces.values());
    for Interface { domain, .. } in interfaces {
        if !switches.contains_key(domain) {
            let name = draft.free_name(&valid_name(domain));
            draft.switches.push(Switch::named(&name));
            switches.insert(domain.clone(), name);
        }
    }
    switches
}

fn links(name: &str, device: &Device, domains: &BTreeMap<String, String>, draft: &mut Draft) {
    for (number, Interface { domain, mac, .. }) in &device.interfaces {
        let end = End { mac: mac.clone(), ..End::of(name, format!("eth{number}")) };
        let switch = domains.get(domain).cloned().unwrap_or_default();
        draft.links.push(Link { ends: [end, End::port(switch)], ..Link::default() });
    }
}

/// Links a device to Docker's bridge, which comes after the interfaces of the lab, as in Kathara; `false` if there is no
/// room for it.
fn bridge(name: &str, device: &Device, draft: &mut Draft) -> bool {
    let number = device.interfaces.keys().last().map_or(0, |last| last + 1);
    let doors = draft.links.iter().filter(|link| link.ends[1].at == "internet").count();
    let Some(addresses) = addresses_of_door(doors) else { return false };
    door(name, &format!("eth{number}"), addresses, draft);
    true
}

/// Addresses like those of Docker's bridge, of the host and of the device; one prefix for each device, as many as
/// 172.17.0.0/16 has.
fn addresses_of_door(number: usize) -> Option<[Ipv4Addr; 2]> {
    // The first 256 differ in the third byte.
    let (third, fourth) = (number % 256, number / 256 * 4);
    let (third, fourth) = (u8::try_from(third).ok()?, u8::try_from(fourth).ok()?);
    Some([1, 2].map(|last| Ipv4Addr::new(172, 17, third, fourth + last)))
}

/// A way to the host's network.
fn door(name: &str, iface: &str, [host, own]: [Ipv4Addr; 2], draft: &mut Draft) {
    let net = |address| Ipv4Net::new(address, 30).ok().map(IpNet::V4);
    let mut ends = [End::of(name, iface), End::port("internet")];
    ends[0].addresses.extend(net(own));
    ends[1].addresses.extend(net(host));
    draft.links.push(Link { ends, ..Link::default() });
    if let Some(node) = draft.node(name) {
        let (via, dev) = (Some(host.to_string()), Some(iface.to_owned()));
        node.routes.push(Route { to: "default".into(), via, dev });
    }
}

/// `lab.ext`: interfaces of the host in collision domains.
fn outside(job: &Job<'_>, domains: &BTreeMap<String, String>, draft: &mut Draft) {
    let file = beside(job, "lab.ext");
    let what = "interfaces of the host";
    let Some(text) = crate::source::text_or_tell(job, &file, what) else { return };
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let id = job.ledger.enter(&file, number, words.join(" "));
        let verdict = match words.as_slice() {
            [domain, iface] if iface.contains('.') => Verdict::LeftOut(format!(
                "netloom makes no VLAN interface for {domain}; make {iface} and link it"
            )),
            [domain, iface] => match domains.get(*domain) {
                Some(switch) => {
                    let ends = [End::port(switch), End::port(format!("host:{iface}"))];
                    draft.links.push(Link { ends, ..Link::default() });
                    Verdict::Carried
                }
                None => Verdict::LeftOut("no device is in this domain".into()),
            },
            _ => Verdict::LeftOut("expected DOMAIN INTERFACE".into()),
        };
        job.ledger.say(id, verdict);
    }
}

/// The lab's folder.
fn folder<'a>(job: &Job<'a>) -> &'a str {
    job.file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A file beside `lab.conf`.
fn beside(job: &Job<'_>, name: &str) -> String {
    join(folder(job), name)
}

/// What else is in the folder. `others` are devices that are not wanted.
fn rest(job: &Job<'_>, devices: &[(String, Device)], others: &[(String, Device)]) {
    let device_of = |name: &str| {
        let stem = ["startup", "shutdown"]
            .iter()
            .find_map(|end| name.strip_suffix(end).and_then(|stem| stem.strip_suffix('.')));
        stem.unwrap_or(name).to_owned()
    };
    let known = |name: &str| {
        let of_device = |word: &str| word == "shared" || devices.iter().any(|(n, _)| n == word);
        of_device(&device_of(name)) || ["lab.conf", "lab.dep", "lab.ext"].contains(&name)
    };
    let used: BTreeSet<String> = devices.iter().flat_map(|(_, d)| volumes(d)).collect();
    for name in job.files.list(folder(job)) {
        if known(&name) || used.contains(&name) {
            continue;
        }
        let path = beside(job, &name);
        let what = match job.files.look(&path) {
            Some(Found::Folder) => "a folder",
            _ => "a file",
        };
        let id = job.ledger.enter(&path, 0, what);
        let verdict = match name.rsplit_once('.') {
            _ if others.iter().any(|(other, _)| *other == device_of(&name)) => {
                Verdict::LeftOut(NOT_CHOSEN.to_owned())
            }
            Some((_, "startup" | "shutdown")) => Verdict::LeftOut("of no device of the lab".into()),
            _ => Verdict::Changed("no part of a lab".into()),
        };
        job.ledger.say(id, verdict);
    }
}

/// First names of paths in the lab's folder that a device has as volumes.
fn volumes(device: &Device) -> Vec<String> {
    let volumes = device.options.iter().filter(|(key, _, _)| key == "volume");
    let first = |value: &String| {
        let path = crate::source::clean(value.split('|').next()?)?;
        Some(path.split('/').next()?.to_owned())
    };
    volumes.filter_map(|(_, value, _)| first(value)).collect()
}
