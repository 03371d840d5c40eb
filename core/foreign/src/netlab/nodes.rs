//! Nodes of netlab with their groups: which device they are, and what they run.

use std::collections::BTreeSet;

use ipnet::Ipv4Net;

use super::groups::{self, Group};
use super::keys::{Layers, find, reasons};
use super::pools::Pools;
use super::{Node, Nodes, as_net};
use crate::at::At;
use crate::draft::{self, Draft};
use crate::write::scalar;
use crate::{Job, NOT_CHOSEN, Result, Verdict, source, valid_name, wrong};

/// Modules that are read.
const MODULES: [&str; 2] = ["ospf", "bgp"];

/// Why these attributes are left out, or in which way they are there.
const REASONS: &[(&str, bool, &str)] = &[
    ("clab", false, "only of one of netlab's providers"),
    ("libvirt", false, "only of one of netlab's providers"),
    ("virtualbox", false, "only of one of netlab's providers"),
    ("provider", true, "netloom itself runs the nodes"),
    ("box", false, "netloom runs no boxes"),
    ("mgmt", true, "there is no management network"),
    ("graph", true, "only matters to its drawing"),
];

/// The highest number of a node where `defaults.const.MAX_NODE_ID` says no other.
const MOST_NODES: u32 = 150;

/// Nodes that are not in the lab, with the reason.
pub(super) type LeftOut = Vec<(String, String)>;

/// Entries that are not nodes of the lab.
#[derive(Default)]
pub(super) struct Others {
    pub(super) left_out: LeftOut,
    /// Nodes whose role it is to be a bridge, with the switches that they become.
    pub(super) bridges: Vec<(String, String)>,
}

/// Reads all nodes; returns those that are in the lab, and those that are not.
pub(super) fn read<'a>(
    job: &Job<'_>,
    root: &At<'a>,
    draft: &mut Draft,
) -> Result<(Nodes<'a>, Others)> {
    let groups = groups::read(root);
    let order = groups::sorted(&groups);
    let named = names(root, &groups);
    job.check_choice(&named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
    let mut nodes = vec![];
    let mut others = Others::default();
    let numbers = numbers(job, root, &named);
    for ((name, at), id) in named.into_iter().zip(numbers) {
        // It has its number all the same, so that the addresses of the others stay those of the
        // whole lab.
        if !job.wants(&name) {
            at.iter().for_each(|at| at.left_out(NOT_CHOSEN));
            others.left_out.push((name, NOT_CHOSEN.to_owned()));
            continue;
        }
        if valid_name(&name).is_empty() {
            let why = "no name that a node can have";
            at.iter().for_each(|at| at.left_out(why));
            others.left_out.push((name, why.to_owned()));
            continue;
        }
        let named = at.iter().filter_map(|at| at.get("group"));
        let own_groups: Vec<At<'a>> = named.flat_map(|at| at.one_or_items()).collect();
        own_groups.iter().for_each(At::carried);
        let own_groups: Vec<&str> = own_groups.iter().filter_map(At::text).collect();
        let layers_of = |device: Option<&str>| {
            let mut layers: Vec<At<'a>> =
                at.iter().filter(|at| at.text().is_none()).cloned().collect();
            let of = order.iter();
            let of = of.filter(|group| groups::has(&groups, group, (&name, device, &own_groups)));
            layers.extend(
                of.flat_map(|group| [Some(group.at.clone()), group.at.get("node_data")]).flatten(),
            );
            layers.push(root.clone());
            Layers(layers, Some(root.clone()))
        };
        // In two steps: a group may name the device, and the device's name may be that of a group.
        let mut layers = layers_of(None);
        let own = Layers(layers.0[..layers.0.len() - 1].to_vec(), None);
        let own = own.nearest("device").and_then(|at| at.text());
        let Some(device) = layers.text("device") else {
            let line = at.as_ref().map_or(1, |at| at.place.line);
            return Err(wrong(job.file, line, format!("node {name:?} has no `device`")));
        };
        // A group of a device's name is that of nodes which say it, not of those that have it by default.
        if groups.iter().any(|group| Some(group.name) == own) {
            layers = layers_of(own);
        }
        if !["linux", "frr"].contains(&device) {
            let why = format!("netloom runs no {device}");
            at.iter().for_each(|at| at.left_out(&why));
            others.left_out.push((name, why));
            continue;
        }
        if let Some(role) = role(&layers).filter(|role| role.text() == Some("bridge")) {
            role.carried();
            let switch = draft.free_name(&valid_name(&name));
            draft.switches.push(draft::Switch::named(&switch));
            at.iter().for_each(bridge);
            others.bridges.push((name, switch));
            continue;
        }
        nodes.push(one(job, (name, id, device), at.as_ref(), layers, draft));
    }
    groups.iter().for_each(|group| rest(&group.at));
    modules(root, &nodes);
    Ok((nodes, others))
}

/// What a node is for, as it or a group of it says.
fn role<'a>(layers: &Layers<'a>) -> Option<At<'a>> {
    layers.0[..layers.0.len() - 1].iter().find_map(|at| at.get("role"))
}

/// Says of a bridge's attributes what becomes of them.
fn bridge(at: &At<'_>) {
    if at.text().is_some() {
        at.carried();
    }
    rest(at);
    for key in ["device", "image"] {
        at.get(key).iter().for_each(|at| at.changed("a switch of the lab"));
    }
}

/// Nodes by name: of a list of names or maps, of a map, and of groups that make their members.
fn names<'a>(root: &At<'a>, groups: &[Group<'a>]) -> Vec<(String, Option<At<'a>>)> {
    let mut named: Vec<(String, Option<At<'a>>)> = vec![];
    for at in root.get("nodes").iter() {
        for item in at.items() {
            let name = item.text().or_else(|| item.text_of("name")).unwrap_or_default().to_owned();
            match name.is_empty() {
                true => item.odd("the name of a node"),
                false => named.push((name, Some(item))),
            }
        }
        for (name, at) in at.entries() {
            match at.is_empty() || !at.entries().is_empty() {
                true => named.push((name.to_owned(), Some(at))),
                false => at.odd("a map with attributes of a node"),
            }
        }
        if at.is_empty() {
            at.carried();
        }
    }
    let all = root.get("groups").and_then(|at| at.get("_auto_create"));
    all.iter().for_each(At::carried);
    let all = all.is_some_and(|at| at.is_true());
    for group in groups {
        let own = group.at.get("_auto_create");
        own.iter().for_each(At::carried);
        if all || own.is_some_and(|at| at.is_true()) {
            let is_group = |name: &str| groups.iter().any(|group| group.name == name);
            for member in group.members.iter().filter(|member| !is_group(member)) {
                if named.iter().all(|(name, _)| name != member) {
                    named.push(((*member).to_owned(), None));
                }
            }
        }
    }
    named
}

/// The numbers of nodes: those that they say, and of others the lowest that are free.
fn numbers(job: &Job<'_>, root: &At<'_>, named: &[(String, Option<At<'_>>)]) -> Vec<u32> {
    let bound = find(root, "defaults.const.MAX_NODE_ID");
    bound.iter().for_each(At::carried);
    let bound = bound.and_then(|at| at.text()?.parse().ok()).unwrap_or(MOST_NODES);
    // All given numbers first: a node without one must not take a later node's.
    let mut taken = BTreeSet::new();
    let mut given = |(_, at): &(String, Option<At<'_>>)| -> Option<u32> {
        let at = at.as_ref()?.get("id")?;
        let number = at.text().and_then(|text| text.parse::<u32>().ok()).filter(|id| *id > 0);
        match number {
            Some(number) if !taken.insert(number) => {
                at.changed("netlab itself refuses a number that another node has");
            }
            Some(number) if number > bound => at.changed(format!(
                "netlab itself refuses numbers above {bound}, unless `defaults.const.MAX_NODE_ID` allows them"
            )),
            Some(_) => {}
            None => at.odd(&format!("a number from 1 to {bound}")),
        }
        number
    };
    let given: Vec<Option<u32>> = named.iter().map(&mut given).collect();
    let mut free = (1..).filter(|id| !taken.contains(id));
    let numbers = given.iter().map(|given| given.or_else(|| free.next()).unwrap_or(0));
    let numbers: Vec<u32> = numbers.collect();
    // Of those after it the same is true.
    let over = |(number, given): (&u32, &Option<u32>)| given.is_none() && *number > bound;
    if let Some(place) = numbers.iter().zip(&given).position(over) {
        let (name, at) = &named[place];
        let line = at.as_ref().map_or(1, |at| at.place.line);
        let id = job.ledger.enter(job.file, line, format!("the number of {name}"));
        let why = format!(
            "netlab itself has no numbers above {bound}, unless `defaults.const.MAX_NODE_ID` allows them"
        );
        job.ledger.say(id, Verdict::Changed(why));
    }
    numbers
}

fn one<'a>(
    job: &Job<'_>,
    (name, id, device): (String, u32, &str),
    at: Option<&At<'a>>,
    layers: Layers<'a>,
    draft: &mut Draft,
) -> Node<'a> {
    let new = draft.free_name(&valid_name(&name));
    let mut made = draft::Node::named(&new);
    let role = role(&layers);
    role.iter().for_each(At::carried);
    let is_host = match role.and_then(|at| at.text()) {
        Some(role) => role == "host",
        None => device == "linux",
    };
    let own = Layers(layers.0[..layers.0.len() - 1].to_vec(), None);
    image(job, &layers, device, &mut made);
    draft.nodes.push(made);
    // A host with FRR runs what it or a group of it names, and not the topology's.
    let all = if is_host { &own } else { &layers };
    let modules = if device == "linux" { vec![] } else { own_modules(&own, all) };
    let usual = [format!("defaults.devices.{device}.mtu"), "defaults.interfaces.mtu".to_owned()];
    let usual = usual
        .iter()
        .rev()
        .find_map(|path| Layers(layers.1.iter().cloned().collect(), None).number(path));
    let mtu = own.number("mtu").or(usual).unwrap_or(1500);
    if let Some(at) = at {
        match at.text() {
            Some(_) => at.carried(),
            None => rest(at),
        }
    }
    let more = templates(job, &layers, (&name, device));
    Node {
        name,
        new,
        id,
        is_host,
        mtu,
        modules,
        loopback: None,
        router_id: None,
        asn: None,
        is_reflector: false,
        interfaces: vec![],
        more,
        layers,
    }
}

/// Gives nodes their loopbacks, and the addresses that routers are known by.
pub(super) fn loopbacks(nodes: &mut Nodes<'_>, pools: &mut Pools, draft: &mut Draft) {
    for node in nodes {
        let own = Layers(node.layers.0[..node.layers.0.len() - 1].to_vec(), None);
        node.loopback = loopback(&own, node.is_host, node.id, pools);
        if let Some((net, made)) = node.loopback.zip(draft.node(&node.new)) {
            made.keys.insert(0, ("loopback", format!("[\"{}\"]", as_net(net))));
        }
        let mut usual = || node.loopback.or(pools.of_node("router_id", node.id));
        let given = node.layers.router_id("router_id");
        node.router_id = given.or_else(|| usual().map(|net| net.addr()));
    }
}

fn image(job: &Job<'_>, layers: &Layers<'_>, device: &str, made: &mut draft::Node) {
    let of_device = |key| layers.nearest(&format!("devices.{device}.{key}"));
    let own = layers.nearest("image");
    let of_device = of_device("clab.image").or_else(|| of_device("image"));
    let Some(at) = own.or(of_device) else { return };
    match at.text() {
        _ if job.options.host_programs => at.left_out("the node runs the host's programs"),
        Some(image) => {
            made.key("image", scalar(image));
            at.carried();
        }
        None => at.odd("the name of an image"),
    }
}

/// The modules of a node: its own and those of all its groups, or else the topology's.
fn own_modules(own: &Layers<'_>, all: &Layers<'_>) -> Vec<String> {
    let mut lists: Vec<At<'_>> = own.0.iter().filter_map(|at| find(at, "module")).collect();
    if lists.is_empty() {
        lists.extend(all.nearest("module"));
    }
    let named = lists.iter().flat_map(At::one_or_items).filter_map(|at| at.text());
    named.filter(|name| MODULES.contains(name)).map(str::to_owned).collect()
}

/// A node's loopback: of its pool by its number, or given. Hosts have one if they ask for it.
fn loopback(own: &Layers<'_>, is_host: bool, id: u32, pools: &mut Pools) -> Option<Ipv4Net> {
    let asked = own.nearest("loopback");
    let says = asked.as_ref().and_then(At::text);
    if says.is_some() {
        asked.iter().for_each(At::carried);
    }
    let wanted = match says.map(str::to_ascii_lowercase).as_deref() {
        Some("false") => false,
        Some(_) => true,
        None => {
            // A key with dots is one of its own, beside `loopback`.
            let has = |key: &&str| own.nearest(key).is_some();
            !is_host || asked.is_some() || ["loopback.ipv4", "loopback.pool"].iter().any(has)
        }
    };
    if !wanted {
        return None;
    }
    let pool = own.text("loopback.pool").unwrap_or("loopback");
    let usual = pools.of_node(pool, id);
    let Some(at) = own.nearest("loopback.ipv4") else { return usual };
    let text = at.text().unwrap_or_default();
    let bare = || Ipv4Net::new(text.parse().ok()?, 32).ok();
    let given = match text.to_ascii_lowercase().as_str() {
        "false" => None,
        "true" => usual,
        _ => match text.parse().ok().or_else(bare) {
            Some(net) => Some(net),
            None => {
                at.odd("an address like 10.0.0.1/32");
                return usual;
            }
        },
    };
    at.carried();
    given
}

/// Says of modules whether they are read, wherever they are named, and of the topology's own attributes of those that no
/// node runs.
fn modules(root: &At<'_>, nodes: &Nodes<'_>) {
    let mut lists: Vec<At<'_>> = root.get("module").into_iter().collect();
    lists.extend(find(root, "defaults.module"));
    for layer in ["nodes", "groups"] {
        let all = root.get(layer);
        let items = all.iter().flat_map(At::items);
        let entries = all.iter().flat_map(At::entries).map(|(_, at)| at);
        lists.extend(items.chain(entries).filter_map(|at| at.get("module")));
    }
    for at in lists.iter().flat_map(At::one_or_items) {
        match at.text() {
            Some(name) if MODULES.contains(&name) => at.carried(),
            _ if at.is_empty() => at.carried(),
            _ => at.left_out("no configuration is made for this module"),
        }
    }
    for module in MODULES {
        if !nodes.iter().any(|node| node.runs(module)) {
            root.get(module).iter().for_each(|at| at.changed("no node runs the module"));
        }
    }
}

/// Attributes with a reason, and those that have no other reader.
fn rest(at: &At<'_>) {
    if at.is_empty() {
        at.carried();
    }
    for key in ["id", "name"] {
        at.get(key).filter(|at| at.text().is_some()).iter().for_each(At::carried);
    }
    reasons(at, REASONS);
}

/// The text of templates that have nothing to be filled in: `NAME/NODE.j2` or `NAME/DEVICE.j2`.
fn templates(job: &Job<'_>, layers: &Layers<'_>, (name, device): (&str, &str)) -> String {
    let mut more = String::new();
    let Some(list) = layers.nearest("config") else { return more };
    for at in list.one_or_items() {
        let folder = at.text().unwrap_or_default();
        let paths = [name, device].map(|word| format!("{folder}/{word}.j2"));
        match paths.iter().find_map(|path| source::text(job.files, path)) {
            Some(text) if text.contains("{{") || text.contains("{%") => {
                at.left_out("a template with words to be filled in");
            }
            Some(text) if device == "frr" => {
                more.push_str(&format!("{}\n!\n", text.trim_end()));
                match source::is_hosts(folder) {
                    true => at.changed(format!("a copy of a file in the host's {folder:?}")),
                    false => at.carried(),
                }
            }
            Some(_) => at.left_out("only of routers with FRR"),
            None => at.left_out(match paths.iter().find(|path| job.files.look(path).is_some()) {
                Some(path) => source::refusal(job.files, path),
                None => "no such template beside the topology".to_owned(),
            }),
        }
    }
    more
}
