//! A plan as a topology of containerlab, with an account of what that does not say.
//!
//! Nodes are of kind `linux`, with their own image or one for all; addresses, routes and settings become commands. For Docker a
//! switch is a bridge of the host, which has to be there before; for Kubernetes it is a node with a bridge in it ([`c9s`]).

pub mod c9s;
mod names;

use std::fmt::Write as _;

use netloom_model::Plan;
use netloom_model::image::{ImageUse, PullWhen};
use netloom_model::lab::{FileContent, FileSpec, NodeSpec, Program, Restart};
use netloom_model::plan::{PlannedEnd, PlannedLink, PlannedNode, PlannedSwitch};
use netloom_model::published::Published;

use self::names::{MANAGED, Names};
use crate::ledger::{Item, Verdict};
use crate::write::{quoted, scalar};

/// What runs the containers of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    /// The machine that containerlab is on.
    Docker,
    /// A cluster with c9s (Clabernetes), where a pod has no part in any host: neither its files nor its bridges.
    Kubernetes,
}

/// A topology, and what is not in it.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The text of a `.clab.yml`.
    pub text: String,
    /// What became of each part of the lab.
    pub items: Vec<Item>,
}

/// The topology of a plan. `file` is the lab file's name in the account; nodes without an image of their own get this one.
pub fn export(plan: &Plan, file: &str, image: &str) -> Exported {
    let mut writer = Writer::new(plan, file, Runtime::Docker);
    let _ = writeln!(writer.out, "# Made by `netloom export containerlab`.");
    writer.topology(&plan.lab, image);
    Exported { text: writer.out, items: writer.items }
}

fn left_out(why: &str) -> Verdict {
    Verdict::LeftOut(why.to_owned())
}

fn changed(why: &str) -> Verdict {
    Verdict::Changed(why.to_owned())
}

/// A text that neither variables nor YAML change.
fn kept(text: &str) -> String {
    // containerlab fills in variables of the whole file; `$$` is a `$`.
    quoted(&text.replace('$', "$$"))
}

/// A command as `exec` takes it.
fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\"'\"'")),
    };
    kept(&words.iter().map(word).collect::<Vec<_>>().join(" "))
}

/// Whether a program has more of its own than a command and when it starts again.
fn has_own(program: &Program) -> bool {
    let plain = Program { restart: program.restart, ..Program::once(program.command.clone()) };
    *program != plain
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// An end of a link.
struct End {
    node: String,
    interface: String,
    /// Its hardware address, if the file gives one.
    mac: Option<String>,
}

impl End {
    fn brief(&self) -> String {
        quoted(&format!("{}:{}", self.node, self.interface))
    }

    fn long(&self) -> String {
        let mac = self.mac.as_ref().map(|mac| format!(", mac: {}", quoted(mac)));
        let (node, interface) = (quoted(&self.node), quoted(&self.interface));
        format!("{{node: {node}, interface: {interface}{}}}", mac.unwrap_or_default())
    }
}

struct Writer<'a> {
    plan: &'a Plan,
    file: &'a str,
    runtime: Runtime,
    names: Names,
    out: String,
    items: Vec<Item>,
    /// Files of nodes that a cluster holds.
    files: c9s::Files,
}

impl<'a> Writer<'a> {
    fn new(plan: &'a Plan, file: &'a str, runtime: Runtime) -> Self {
        let names = Names::new(plan, runtime);
        let (out, items, files) = (String::new(), vec![], c9s::Files::default());
        Self { plan, file, runtime, names, out, items, files }
    }

    fn topology(&mut self, name: &str, image: &str) {
        let plan = self.plan;
        let _ = writeln!(self.out, "name: {}\ntopology:", scalar(name));
        let _ = writeln!(self.out, "  kinds:\n    linux: {{image: {}}}\n  nodes:", scalar(image));
        plan.nodes.iter().for_each(|node| self.node(node));
        plan.switches.iter().for_each(|switch| self.switch(switch));
        if !plan.links.is_empty() {
            self.out.push_str("  links:\n");
            self.links();
        }
        if !plan.slices.is_empty() {
            self.say("slices", left_out("containerlab has no OpenFlow switches"));
        }
    }

    fn say(&mut self, item: impl Into<String>, verdict: Verdict) {
        self.items.push(Item { file: self.file.to_owned(), line: 0, item: item.into(), verdict });
    }

    fn node(&mut self, node: &PlannedNode) {
        let name = scalar(self.names.of(&node.name));
        let _ = writeln!(self.out, "    {name}:\n      kind: linux");
        self.named(&format!("nodes.{}", node.name), &node.name);
        self.account(node);
        self.management(node);
        if let Some(image) = &node.image {
            self.image(node, image);
        }
        let limits = &node.limits;
        if let Some(milli) = limits.cpu_milli {
            let _ = writeln!(self.out, "      cpu: {}", f64::from(milli) / 1000.0);
        }
        if let Some(bytes) = limits.memory {
            let _ = writeln!(self.out, "      memory: {bytes}b");
        }
        if !node.env.is_empty() {
            self.out.push_str("      env:\n");
            for (name, value) in &node.env {
                let _ = writeln!(self.out, "        {}: {}", scalar(name), kept(value));
            }
        }
        self.binds(node);
        self.ports(node);
        if let Some(program) = node.run.first() {
            let _ = writeln!(self.out, "      cmd: {}", command(&program.command));
            let restart = match program.restart {
                Restart::Never => "\"no\"",
                Restart::OnFailure => "on-failure",
                Restart::Always => "always",
            };
            match (self.runtime, program.restart) {
                (Runtime::Docker, _) | (_, Restart::Always) => {
                    let _ = writeln!(self.out, "      restart-policy: {restart}");
                }
                (Runtime::Kubernetes, _) => {
                    let how = changed("a container of a pod always starts again");
                    self.say(format!("nodes.{}.run", node.name), how);
                }
            }
        }
        let commands = self.commands(node);
        if !commands.is_empty() {
            self.out.push_str("      exec:\n");
            for words in commands {
                let _ = writeln!(self.out, "        - {}", command(&words));
            }
        }
    }

    /// Tells of a node or switch that has another name.
    fn named(&mut self, item: &str, name: &str) {
        // That a child stands beside its parent is told as such.
        let now = self.names.of(name);
        if now != name.replace('/', "-") {
            let how = changed(&format!("its name is {now:?}"));
            self.say(item, how);
        }
    }

    /// Whether a node is in the management network, which takes `eth0`.
    fn management(&mut self, node: &PlannedNode) {
        if !names::is_managed(node, self.runtime) {
            // containerlab refuses links at eth0 of other nodes.
            self.out.push_str("      network-mode: none\n");
            return;
        }
        let at = node.interfaces.iter().position(|interface| interface.name == MANAGED);
        if let Some(at) = at {
            let now = self.names.interface(node, at);
            let how = format!("{now:?}: eth0 is the interface of the management network");
            self.say(format!("nodes.{}.interfaces.{MANAGED}", node.name), Verdict::Changed(how));
        }
    }

    /// What a node of containerlab has not, or has in another way.
    fn account(&mut self, node: &PlannedNode) {
        // A key that is added to nodes does not compile until it is told of, or is told not to be.
        let NodeSpec {
            kind,
            parent,
            children,
            hostname,
            limits,
            protect,
            charge_receive,
            privileged,
            ids,
            root,
            storage,
            setup,
            run,
            ready,
            exec,
            health,
            // Written, and told of there where something is lost.
            name,
            image: _,
            forwarding: _,
            loopback: _,
            env: _,
            files: _,
            binds: _,
            ports: _,
        } = &*node.spec;
        let mut told = |holds: bool, key: &str, verdict: Verdict| {
            if holds {
                self.say(format!("nodes.{name}.{key}"), verdict);
            }
        };
        told(parent.is_some(), "parent", changed("the node stands beside its parent"));
        told(children.is_some(), "children", left_out("containers manage no nodes"));
        let why = "containerlab starts no routing suite that the image does not";
        told(kind.as_router().is_some(), "kind", left_out(why));
        let why = "a container of the image takes the machine's place";
        told(kind.as_vm().is_some(), "kind", left_out(why));
        let why = "a container has one program: the first";
        told(run.len() > 1, "run", left_out(why));
        let own = run.iter().chain(exec.iter().map(|exec| &exec.program)).any(has_own);
        let why = "users, groups, directories and signals of programs are the image's";
        told(own, "programs", left_out(why));
        told(root.is_some(), "root", left_out("a container's files are its image's"));
        let why = "what a container writes is on the host, without a bound";
        told(storage.is_some(), "storage", left_out(why));
        told(!protect.is_empty(), "protect", left_out("containers have no budget of frames"));
        let charges = !protect.is_empty() || limits.cpu_milli.is_some();
        let why = "containers do not pay for what they receive";
        told(*charge_receive != charges, "charge-receive", left_out(why));
        let other = limits.processes.or(limits.sockets).or(limits.weight);
        told(other.is_some(), "limits", left_out("containerlab limits CPU and memory"));
        let waits = !ready.tcp.is_empty()
            || ready.exec.is_some()
            || !ready.files.is_empty()
            || ready.console.is_some()
            || ready.agent;
        let why = "containers have health checks of their images";
        told(waits, "ready", left_out(why));
        told(true, "addresses and routes", changed("commands of `exec`"));
        told(health.is_some(), "health", left_out(why));
        let why = "a container's host name is its node's name";
        told(hostname.is_some(), "hostname", left_out(why));
        let why = "commands of `exec`, whose failure ends nothing";
        told(!setup.is_empty(), "setup", changed(why));
        let own = !node.sysctls_of_file().is_empty();
        told(own, "sysctls", changed("commands of `exec`"));
        told(*privileged, "privileged", changed("containerlab's containers all are"));
        told(ids.is_some(), "ids", left_out("users and groups are Docker's"));
    }

    /// A node's own image. Docker, which containerlab uses, knows names alone.
    fn image(&mut self, node: &PlannedNode, image: &ImageUse) {
        let at = |key: &str| format!("nodes.{}.{key}", node.name);
        let ImageUse { name, pull, starts, entrypoint, cmd } = image;
        let files = ["oci:", "docker-archive:", "oci-archive:"];
        if files.iter().any(|source| name.starts_with(source)) {
            let how = "`docker load` it, and write the name that it has there";
            return self.say(at("image"), left_out(how));
        }
        let name = name.strip_prefix("docker-daemon:").unwrap_or(name);
        let _ = writeln!(self.out, "      image: {}", kept(name));
        let pull = match pull {
            // Its default.
            PullWhen::Missing => None,
            PullWhen::Always => Some("Always"),
            PullWhen::Never => Some("Never"),
        };
        // With `run` neither is used.
        let own = |words: &Option<Vec<String>>| words.as_deref().filter(|_| *starts).map(command);
        let keys = [
            ("image-pull-policy", pull.map(str::to_owned)),
            ("entrypoint", own(entrypoint)),
            ("cmd", own(cmd)),
        ];
        for (key, value) in keys.into_iter().filter_map(|(key, value)| Some((key, value?))) {
            let _ = writeln!(self.out, "      {key}: {value}");
        }
    }

    fn binds(&mut self, node: &PlannedNode) {
        if self.runtime == Runtime::Kubernetes {
            return self.files_of_cluster(node);
        }
        let mut binds: Vec<String> = Vec::new();
        for bind in &node.binds {
            let access = if bind.write { "rw" } else { "ro" };
            binds.push(format!("{}:{}:{access}", bind.from.display(), bind.to));
        }
        for file in &node.files {
            let item = || format!("nodes.{}.files.{}", node.name, file.path);
            match &file.content {
                FileContent::From(from) => {
                    binds.push(format!("{}:{}", from.display(), file.path));
                    if *file != FileSpec::new(&file.path, file.content.clone()) {
                        self.say(item(), changed("with the host's mode, owner and group"));
                    }
                }
                FileContent::Text(_) => {
                    self.say(item(), left_out("its text has no file beside the topology"));
                }
            }
        }
        if !binds.is_empty() {
            self.out.push_str("      binds:\n");
        }
        for bind in &binds {
            let _ = writeln!(self.out, "        - {}", kept(bind));
        }
    }

    /// Ports of the host: where an address is absent, its loopback.
    fn ports(&mut self, node: &PlannedNode) {
        if node.ports.is_empty() {
            return;
        }
        self.out.push_str("      ports:\n");
        if self.runtime == Runtime::Kubernetes {
            return self.ports_of_cluster(node);
        }
        for port in &node.ports {
            // Without an address Docker would open the port on every address of the host.
            for place in port.places() {
                let one = Published { address: Some(place.ip()), ..*port };
                let _ = writeln!(self.out, "        - {}", quoted(&one.to_string()));
            }
        }
        let how = "on 127.0.0.1 and ::1, where no address is given";
        if node.ports.iter().any(|port| port.address.is_none()) {
            self.say(format!("nodes.{}.ports", node.name), changed(how));
        }
    }

    /// Settings, addresses, routes, and the node's own commands.
    fn commands(&self, node: &PlannedNode) -> Vec<Vec<String>> {
        let mut found: Vec<Vec<String>> = vec![];
        let mut push = |words: &[&str]| found.push(words.iter().map(|w| (*w).to_owned()).collect());
        let [ipv4, ipv6] = [node.forwarding.ipv4(), node.forwarding.ipv6()].map(u8::from);
        push(&["sysctl", "-w", &format!("net.ipv4.ip_forward={ipv4}")]);
        push(&["sysctl", "-w", &format!("net.ipv6.conf.all.forwarding={ipv6}")]);
        for (path, value) in node.sysctls_of_file() {
            // Slashes are those of the path: a name may have dots.
            push(&["sysctl", "-w", &format!("{path}={value}")]);
        }
        if self.runtime == Runtime::Kubernetes {
            self.commands_of_cluster(node, &mut push);
        }
        for net in &node.loopback {
            push(&["ip", "address", "add", &net.to_string(), "dev", "lo"]);
        }
        for (at, interface) in node.interfaces.iter().enumerate() {
            let name = self.names.interface(node, at);
            for net in &interface.addresses {
                push(&["ip", "address", "add", &net.to_string(), "dev", name]);
            }
        }
        for route in &node.routes {
            let mut words = vec!["ip".to_owned()];
            words.extend(route.to.addr().is_ipv6().then(|| "-6".to_owned()));
            // Not `add`: the container may have a default route of its management network already.
            words.extend(["route", "replace"].map(str::to_owned));
            words.push(route.to.to_string());
            let device = |at: usize| self.names.interface(node, at);
            let mut hop = |via: Option<std::net::IpAddr>, at: usize, several: bool| {
                words.extend(several.then(|| "nexthop".to_owned()));
                words.extend(via.iter().flat_map(|via| ["via".to_owned(), via.to_string()]));
                words.extend(["dev".to_owned(), device(at).to_owned()]);
            };
            hop(route.via, route.interface, !route.also.is_empty());
            route.also.iter().for_each(|next| hop(Some(next.via), next.interface, true));
            found.push(words);
        }
        found.extend(node.setup.iter().cloned());
        found.extend(node.exec.iter().map(|exec| exec.program.command.clone()));
        found
    }

    fn switch(&mut self, switch: &PlannedSwitch) {
        let name = self.names.of(&switch.name).to_owned();
        self.named(&format!("switches.{}", switch.name), &switch.name);
        if self.runtime == Runtime::Kubernetes {
            return self.switch_of_cluster(switch, &name);
        }
        let _ = writeln!(self.out, "    {}:\n      kind: bridge", scalar(&name));
        let how = format!("a bridge of the host: `ip link add {name} up type bridge` makes it");
        self.say(format!("switches.{}", switch.name), Verdict::Changed(how));
        self.kind_of_switch(switch);
        if switch.stp {
            let how = format!("`ip link set {name} type bridge stp_state 1` gives it the bridge");
            self.say(format!("switches.{}.stp", switch.name), left_out(&how));
        }
    }

    /// Tells of a switch that is more than a bridge.
    fn kind_of_switch(&mut self, switch: &PlannedSwitch) {
        if !matches!(switch.kind, netloom_model::kinds::SwitchKind::Bridge) {
            let item = format!("switches.{}.kind", switch.name);
            self.say(item, left_out("a bridge of the kernel takes its place"));
        }
    }

    fn end(&self, end: &PlannedEnd, number: usize) -> Option<End> {
        match end {
            PlannedEnd::Node { node, interface } => {
                let node = self.plan.node_at(*node)?;
                let own = node.interfaces.get(*interface)?;
                // c9s takes none at the ends of links.
                let mac = own.mac_given && self.runtime == Runtime::Docker;
                Some(End {
                    node: self.names.of(&node.name).to_owned(),
                    interface: self.names.interface(node, *interface).to_owned(),
                    mac: mac.then(|| mac_text(own.mac)),
                })
            }
            PlannedEnd::Port { switch, .. } => {
                let node = self.names.of(&self.plan.switch_at(*switch)?.name).to_owned();
                let interface = self.port(&node, number);
                Some(End { node, interface, mac: None })
            }
            PlannedEnd::Host { .. } | PlannedEnd::Internet { .. } | PlannedEnd::Nowhere { .. } => {
                None
            }
        }
    }

    /// The name of a switch's port, by the link's number.
    fn port(&self, switch: &str, number: usize) -> String {
        match self.runtime {
            Runtime::Docker => {
                // With number and sign the name of the host's
                // interface stays within 15 letters (IFNAMSIZ).
                let short: String = switch.chars().take(8).collect();
                format!("{short}-p{number}")
            }
            Runtime::Kubernetes => format!("eth{}", number + 1),
        }
    }

    /// Writes the interface of a link to nowhere; `false` for other links.
    fn nowhere(&mut self, link: &PlannedLink) -> bool {
        let [a, b] = &link.ends;
        let ((PlannedEnd::Node { node, interface }, PlannedEnd::Nowhere { .. })
        | (PlannedEnd::Nowhere { .. }, PlannedEnd::Node { node, interface })) = (a, b)
        else {
            return false;
        };
        let end = PlannedEnd::Node { node: *node, interface: *interface };
        let Some(end) = self.end(&end, 0) else { return false };
        if self.runtime == Runtime::Kubernetes {
            // By a command of its node.
            return true;
        }
        let (end, mtu) = (end.long(), link.mtu);
        let _ = writeln!(self.out, "    - {{type: dummy, endpoint: {end}, mtu: {mtu}}}");
        true
    }

    fn links(&mut self) {
        for (number, link) in self.plan.links.iter().enumerate() {
            if self.nowhere(link) {
                continue;
            }
            let [a, b] = [&link.ends[0], &link.ends[1]].map(|end| self.end(end, number));
            let (Some(a), Some(b)) = (a, b) else {
                let why = "the management network leads to the host's network";
                self.say(format!("links.{}", link.name), left_out(why));
                continue;
            };
            if link.ends.iter().any(|end| end.given_number().is_some()) {
                let why = "ports of a bridge have no numbers of OpenFlow";
                self.say(format!("links.{}.port", link.name), left_out(why));
            }
            // Only the long form has room for hardware addresses.
            let (kind, ends) = match a.mac.is_some() || b.mac.is_some() {
                true => ("type: veth, ", [a, b].map(|end| end.long())),
                false => ("", [a, b].map(|end| end.brief())),
            };
            let (ends, mtu) = (ends.join(", "), link.mtu);
            let _ = writeln!(self.out, "    - {{{kind}endpoints: [{ends}], mtu: {mtu}}}");
            if link.impairments != <[netloom_impair::Impairments; 2]>::default() {
                let how = "`containerlab tools netem set` takes delay, jitter, loss and rate";
                self.say(format!("links.{}", link.name), left_out(how));
            }
        }
    }
}
