//! A plan as a topology of c9s (Clabernetes), which runs labs of containerlab on Kubernetes with a pod for each node.
//!
//! What c9s refuses in a topology becomes what it takes: a switch is a node with a bridge in it, files of the lab are in `ConfigMap`s,
//! interfaces that lead nowhere and hardware addresses are commands. Sources: the resource `Topology` of `c9s.run/v1alpha1`, and what its
//! compiler takes (`controllers/topology/compilecontainerlab.go` of August 2026).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use netloom_model::Plan;
use netloom_model::lab::{FileContent, FileSpec};
use netloom_model::plan::{PlannedEnd, PlannedNode, PlannedSwitch};

use super::names::label;
use super::{Exported, Runtime, Writer, changed, left_out, mac_text};
use crate::kubernetes::block;
use crate::write::scalar;

/// Most bytes in a `ConfigMap` (the API's limit), less room for its names.
const LARGEST: usize = (1 << 20) - (16 << 10);

/// Bytes of a file after which nothing has to be read: it is too large.
pub const LARGEST_FILE: u64 = 1 << 20;

/// Longest name of an object that others are named after.
const LONGEST: usize = 40;

/// The bridge in a node that stands for a switch.
const BRIDGE: &str = "br0";

/// The files of nodes, as they are met.
#[derive(Default)]
pub(super) struct Files {
    found: Vec<File>,
}

struct File {
    /// The node's name in the cluster.
    node: String,
    /// The node's name in the lab.
    of: String,
    path: String,
    content: Content,
    runs: bool,
}

enum Content {
    Text(String),
    From(PathBuf),
}

/// Reads a file of the lab; a relative path is relative to the lab file.
pub type Read<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The manifests of a plan: `ConfigMap`s for its files, and a `Topology`. `file` is the lab file's name in the account; nodes without an
/// image of their own get `image`, which must have `ip` and `sysctl`.
pub fn export(plan: &Plan, file: &str, image: &str, read: Read<'_>) -> Exported {
    let mut writer = Writer::new(plan, file, Runtime::Kubernetes);
    let name = label(&plan.lab, LONGEST, "lab");
    writer.topology(&name, image);
    let mut out = String::from("# Made by `netloom export c9s`.\n");
    let mounts = writer.config_maps(&name, read, &mut out);
    let ports = plan.nodes.iter().any(|node| !node.ports.is_empty());
    // By default each node would get an address of a load balancer, with 14 ports that no lab asked for.
    let expose = match ports {
        true => "{exposeType: ClusterIP, disableAutoExpose: true}",
        false => "{exposeType: None, disableAutoExpose: true}",
    };
    let _ = write!(
        out,
        "apiVersion: c9s.run/v1alpha1\nkind: Topology\nmetadata:\n  name: {name}\nspec:\n  expose: {expose}\n{mounts}  definition:\n    \
         containerlab: {}\n",
        block(&writer.out, 4)
    );
    Exported { text: out, items: writer.items }
}

/// A key of a `ConfigMap`: letters, digits, `.`, `-` and `_`.
fn key(number: usize, path: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let base = path.rsplit('/').next().unwrap_or_default();
    format!("{number}-{}", base.chars().map(plain).take(200).collect::<String>())
}

impl Writer<'_> {
    /// Notes the files of a node, and tells what is lost.
    pub(super) fn files_of_cluster(&mut self, node: &PlannedNode) {
        for bind in &node.binds {
            let why = "pods see no files of a host: write them as `files`";
            self.say(format!("nodes.{}.binds.{}", node.name, bind.to), left_out(why));
        }
        for file in &node.files {
            let runs = file.mode & 0o111 != 0;
            let plain =
                FileSpec { mode: file.mode, ..FileSpec::new(&file.path, file.content.clone()) };
            let kept = [FileSpec::DEFAULT_MODE, 0o755, 0o444, 0o555].contains(&file.mode);
            if *file != plain || !kept {
                let how = changed("root's, for all to read");
                self.say(format!("nodes.{}.files.{}", node.name, file.path), how);
            }
            let content = match &file.content {
                FileContent::Text(text) => Content::Text(text.clone()),
                FileContent::From(from) => Content::From(from.clone()),
            };
            let (of, path) = (node.name.clone(), file.path.clone());
            let node = self.names.of(&node.name).to_owned();
            self.files.found.push(File { node, of, path, content, runs });
        }
    }

    /// Ports of a node, which a service of the cluster leads to.
    pub(super) fn ports_of_cluster(&mut self, node: &PlannedNode) {
        for port in &node.ports {
            let protocol = match port.protocol {
                netloom_model::published::Transport::Tcp => "tcp",
                netloom_model::published::Transport::Udp => "udp",
            };
            let _ = writeln!(self.out, "        - \"{}/{protocol}\"", port.to);
        }
        let how = changed("ports of the node's service in the cluster");
        self.say(format!("nodes.{}.ports", node.name), how);
    }

    /// Commands for what links of c9s do not say: interfaces without a far end, and hardware addresses.
    pub(super) fn commands_of_cluster(&self, node: &PlannedNode, push: &mut dyn FnMut(&[&str])) {
        for (at, interface) in node.interfaces.iter().enumerate() {
            let name = self.names.interface(node, at);
            let link = self.plan.links.iter().find(|link| {
                let own = |end: &PlannedEnd| match end {
                    PlannedEnd::Node { node: of, interface } => {
                        *interface == at
                            && self.plan.node_at(*of).is_some_and(|of| of.name == node.name)
                    }
                    _ => false,
                };
                link.ends.iter().any(own)
            });
            let alone = link.filter(|link| {
                link.ends.iter().any(|end| matches!(end, PlannedEnd::Nowhere { .. }))
            });
            if let Some(link) = alone {
                push(&["ip", "link", "add", name, "type", "dummy"]);
                push(&["ip", "link", "set", name, "mtu", &link.mtu.to_string()]);
            }
            if interface.mac_given {
                push(&["ip", "link", "set", name, "address", &mac_text(interface.mac)]);
            }
            if alone.is_some() {
                push(&["ip", "link", "set", name, "up"]);
            }
        }
    }

    /// A switch: a node whose ports are in a bridge.
    pub(super) fn switch_of_cluster(&mut self, switch: &PlannedSwitch, name: &str) {
        let mut commands = vec![format!("ip link add {BRIDGE} type bridge")];
        commands
            .extend(switch.stp.then(|| format!("ip link set {BRIDGE} type bridge stp_state 1")));
        let is_own = |end: &PlannedEnd| match end {
            PlannedEnd::Port { switch: of, .. } => {
                self.plan.switch_at(*of).is_some_and(|of| of.name == switch.name)
            }
            _ => false,
        };
        for (number, link) in self.plan.links.iter().enumerate() {
            if link.ends.iter().any(is_own) {
                commands.push(format!("ip link set {} master {BRIDGE}", self.port(name, number)));
            }
        }
        commands.push(format!("ip link set {BRIDGE} up"));
        let _ = writeln!(self.out, "    {}:\n      kind: linux\n      exec:", scalar(name));
        for command in commands {
            let _ = writeln!(self.out, "        - \"{command}\"");
        }
        let how = changed("a node with a bridge of the kernel in it");
        self.say(format!("switches.{}", switch.name), how);
        self.kind_of_switch(switch);
    }

    /// Writes a `ConfigMap` for the files of each node that has some, and returns where they are mounted.
    fn config_maps(&mut self, lab: &str, read: Read<'_>, out: &mut String) -> String {
        let files = std::mem::take(&mut self.files).found;
        let mut mounts = String::new();
        for own in files.chunk_by(|a, b| a.node == b.node) {
            let node = &own[0].node;
            let name = format!("{lab}-{node}-files");
            let mut map = ConfigMap { left: LARGEST, ..ConfigMap::default() };
            let mut listed = String::new();
            for (number, file) in own.iter().enumerate() {
                let key = key(number, &file.path);
                if let Err(why) = map.put(&key, &file.content, read) {
                    self.say(format!("nodes.{}.files.{}", file.of, file.path), left_out(&why));
                    continue;
                }
                let mode = if file.runs { "execute" } else { "read" };
                let _ = writeln!(
                    listed,
                    "        - {{filePath: {}, configMapName: {name}, configMapPath: {}, mode: {mode}}}",
                    scalar(&file.path),
                    scalar(&key)
                );
            }
            if !listed.is_empty() {
                map.write(&name, out);
                let _ = write!(mounts, "      {}:\n{listed}", scalar(node));
            }
        }
        match mounts.is_empty() {
            true => mounts,
            false => format!("  deployment:\n    filesFromConfigMap:\n{mounts}"),
        }
    }
}

/// A `ConfigMap` that is being filled.
#[derive(Default)]
struct ConfigMap {
    /// Entries that are text.
    data: String,
    /// Entries that are not.
    binary: String,
    /// Bytes that it still has room for.
    left: usize,
}

impl ConfigMap {
    /// Adds an entry; otherwise the reason why it cannot.
    fn put(&mut self, key: &str, content: &Content, read: Read<'_>) -> Result<(), String> {
        let bytes = match content {
            Content::Text(text) => text.clone().into_bytes(),
            Content::From(from) => read(from).map_err(|e| format!("it cannot be read: {e}"))?,
        };
        let text = String::from_utf8(bytes);
        let encoded = text.map_err(|other| STANDARD.encode(other.as_bytes()));
        let (Ok(entry) | Err(entry)) = &encoded;
        let room = self.left.checked_sub(entry.len());
        let full = "a ConfigMap of Kubernetes holds 1 MiB, for all files of a node";
        self.left = room.ok_or(full)?;
        let _ = match &encoded {
            Ok(text) => writeln!(self.data, "  {}: {}", scalar(key), block(text, 2)),
            Err(encoded) => writeln!(self.binary, "  {}: {encoded}", scalar(key)),
        };
        Ok(())
    }

    fn write(self, name: &str, out: &mut String) {
        let _ = write!(out, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
        for (key, entries) in [("data", self.data), ("binaryData", self.binary)] {
            if !entries.is_empty() {
                let _ = write!(out, "{key}:\n{entries}");
            }
        }
        out.push_str("---\n");
    }
}
