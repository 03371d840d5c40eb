//! The properties of a node of containerlab, one by one.
//!
//! Commands of `exec` run without a shell, after the node started; a failure of one is printed and ends nothing. They
//! become commands of `exec` that are not fatal.

use crate::at::At;
use crate::clab::binds;
use crate::clab::env_file;
use crate::clab::frr_kind;
use crate::clab::layers::Inherited;
use crate::clab::magic::magic;
use crate::draft::{self, Content, File, Node, Program};
use crate::write::{list, quoted, scalar};
use crate::{Job, frr, ports, shell, source};

/// Why these are left out, or in which way they are there.
const REASONS: &[(&str, bool, &str)] = &[
    ("group", true, "a layer of properties"),
    ("labels", false, "lab files have no labels"),
    ("type", false, "only of vendors' kinds"),
    ("license", false, "only of vendors' kinds"),
    ("startup-config", false, "only of vendors' kinds"),
    ("enforce-startup-config", false, "only of vendors' kinds"),
    ("suppress-startup-config", false, "only of vendors' kinds"),
    ("credentials", false, "only of vendors' kinds"),
    ("config", false, "only of vendors' kinds"),
    ("extras", false, "only of vendors' kinds"),
    ("daemons", false, "only of kind frr"),
    ("components", false, "only of vendors' kinds"),
    ("auto-remove", true, "a node is removed with its lab"),
    ("runtime", true, "netloom itself runs the node"),
    ("link-apply-mode", true, "`netloom link` changes links of a running lab"),
    ("startup-delay", true, "programs start when the whole network is up"),
    ("certificate", false, "certificates are not made"),
    ("volumes", false, "a node keeps nothing beyond its lab"),
    ("aliases", false, "a node has one name"),
    ("cpu-set", false, "netloom binds no node to processors"),
    ("shm-size", true, "what a node writes is bounded by `storage`"),
    ("cgroupns-mode", true, "each node has cgroups of its own"),
    ("cgroup-parent", false, "netloom places a lab's cgroups"),
    ("pid-mode", false, "each node has processes of its own"),
    ("tmpfs", true, "what a node writes is kept in memory"),
    ("security-opts", false, "netloom bounds nodes in its own way"),
    ("devices", false, "nodes have no devices of the host"),
];

/// What the rights of a node are worth.
const PRIVILEGED: &str =
    "privileged, as containerlab's nodes are; in an ordinary user's lab over the lab alone";

/// Properties that are read, beside those of [`REASONS`].
const READ: &[&str] = &[
    "kind",
    "image",
    "cpu",
    "memory",
    "privileged",
    "cap-add",
    "env",
    "env-files",
    "binds",
    "dns",
    "sysctls",
    "exec",
    "stages",
    "entrypoint",
    "cmd",
    "user",
    "restart-policy",
    "network-mode",
    "mgmt-ipv4",
    "image-pull-policy",
    "hostname",
    "ports",
    "healthcheck",
    "mgmt-ipv6",
    "mgmt_ipv4",
    "mgmt_ipv6",
];

/// Whether there is such a property.
pub(super) fn is_known(key: &str) -> bool {
    READ.contains(&key) || REASONS.iter().any(|(known, _, _)| *known == key)
}

/// Reads everything but kind, network and management addresses; `old` is containerlab's name of the node.
pub(super) fn read(job: &Job<'_>, from: &Inherited<'_>, old: &str, node: &mut Node) {
    kind(from);
    if frr_kind::is(&from.kind) {
        frr_kind::read(job, from, old, node);
    }
    image(job, from, node);
    limits(from, node);
    privileges(from, node);
    environment(job, from, node);
    binds::read(job, from, old, node);
    names(from, node);
    sysctls(from, node);
    commands(job, from, old, node);
    health(from, node);
    published(job, from, node);
    if let Some(at) = from.nearest("hostname") {
        match at.text() {
            Some(name) => {
                node.key("hostname", quoted(name));
                at.carried();
            }
            None => at.odd("a host name"),
        }
    }
    let is_read = |key: &str| frr_kind::is(&from.kind) && frr_kind::has(key);
    for (key, changed, why) in REASONS.iter().filter(|(key, ..)| !is_read(key)) {
        for at in from.all(key) {
            if *changed { at.changed(*why) } else { at.left_out(*why) }
        }
    }
}

fn kind(from: &Inherited<'_>) {
    if let Some(at) = from.nearest("kind") {
        match at.text().unwrap_or_default() {
            "linux" => at.carried(),
            word if frr_kind::is(&word.to_ascii_lowercase()) => at.carried(),
            word => at.left_out(format!("the node is a plain one, with nothing of {word}")),
        }
    }
}

/// The image, or what the host has in its place.
fn image(job: &Job<'_>, from: &Inherited<'_>, node: &mut Node) {
    let pull = from.nearest("image-pull-policy");
    let Some(at) = from.nearest("image") else {
        return pull.iter().for_each(|at| at.left_out("the node has no image"));
    };
    let Some(image) = at.text() else { return at.odd("the name of an image") };
    // The registry and its folders say nothing of what the image runs.
    let last = image.rsplit('/').next().unwrap_or_default();
    let routes = ["frr", "quagga", "bird"].iter().any(|name| last.contains(name));
    let runs_here = from.kind == "linux" || frr_kind::is(&from.kind);
    if !runs_here {
        at.left_out("only images of kinds linux and frr run without their vendor's machine");
    } else if !job.options.host_programs {
        node.key("image", scalar(image));
        at.carried();
    } else if last.contains("frr") {
        at.changed("the host's FRR, from /usr/lib/frr, in place of the image");
        node.setup.push(frr::start());
    } else {
        at.left_out("the node runs the host's programs");
    }
    // Routing daemons of the host start with more rights than an ordinary node has.
    if routes && runs_here && !node.has_image() {
        node.key("privileged", "true");
    }
    if let Some(at) = pull {
        match at.text().unwrap_or_default().to_ascii_lowercase().as_str() {
            _ if !node.has_image() => at.left_out("the node runs the host's programs"),
            "always" => pulled(&at, node, "always"),
            "never" => pulled(&at, node, "never"),
            "ifnotpresent" | "" => at.carried(),
            _ => at.odd("Always, Never or IfNotPresent"),
        }
    }
}

fn pulled(at: &At<'_>, node: &mut Node, when: &str) {
    node.key("pull", when);
    at.carried();
}

fn limits(from: &Inherited<'_>, node: &mut Node) {
    let mut limits = vec![];
    if let Some(at) = from.nearest("cpu") {
        match at.text().and_then(|text| text.parse::<f64>().ok()) {
            // To Docker, zero means unlimited.
            Some(0.0) => at.carried(),
            Some(cpus) if (0.01..100_000.0).contains(&cpus) => {
                let (shown, rounded) = draft::cpus(cpus);
                limits.push(format!("cpu: {shown}"));
                rounded.map_or_else(|| at.carried(), |why| at.changed(why));
            }
            _ => at.odd("a number of CPUs"),
        }
    }
    if let Some(at) = from.nearest("memory") {
        match at.text().and_then(memory) {
            Some(text) => {
                limits.push(format!("memory: {text}"));
                at.carried();
            }
            None => at.odd("a size like 1Gb"),
        }
    }
    if !limits.is_empty() {
        node.keys.push(("limits", format!("{{{}}}", limits.join(", "))));
    }
}

/// A size of memory as the lab file has it: `1Gb` is 1GB, `512mib` is 512MiB, `64m` is 64MB.
fn memory(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit: f64 = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "ki" | "kib" => 1024.0,
        "mi" | "mib" => 1024.0 * 1024.0,
        "gi" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = (number * unit).round();
    (1048576.0..1e15).contains(&bytes).then(|| format!("{bytes}B"))
}

/// Nodes of images have all rights unless the lab takes these away. One of the host's programs has them where it asks.
fn privileges(from: &Inherited<'_>, node: &mut Node) {
    let given = from.nearest_switch("privileged").filter(|at| !at.is_empty());
    given.iter().for_each(At::carried);
    if given.as_ref().map_or(node.has_image(), At::is_true) {
        node.key("privileged", "true");
        let said = given.or_else(|| from.nearest("image"));
        said.iter().for_each(|at| at.changed(PRIVILEGED));
    }
    for cap in from.list("cap-add") {
        match cap.text().unwrap_or_default().trim_start_matches("CAP_") {
            "NET_ADMIN" | "NET_RAW" | "NET_BIND_SERVICE" => cap.carried(),
            _ => cap.left_out("write `privileged: true` if the node needs it"),
        }
    }
}

fn environment(job: &Job<'_>, from: &Inherited<'_>, node: &mut Node) {
    // The nearest layer's last, whose values hold.
    for at in from.list("env-files") {
        let path = at.text().and_then(source::clean);
        let read = |path: &str| source::text(job.files, path);
        let Some(text) = path.as_deref().and_then(read) else {
            at.left_out(match path.filter(|path| job.files.look(path).is_some()) {
                Some(path) => source::refusal(job.files, &path),
                None => "no such file beside the lab".to_owned(),
            });
            continue;
        };
        match env_file::parse(&text) {
            Ok(variables) => {
                node.env.extend(variables);
                at.changed("its lines at the import");
            }
            Err(why) => at.left_out(why),
        }
    }
    // After the files: what `env` says holds.
    for (name, at) in from.map("env") {
        // Variables that begin so speak to containerlab.
        match at.text() {
            _ if name == "__IMPORT_ENVS" => at.left_out("variables of the caller are not imported"),
            Some(value) => {
                node.env.insert(name.to_owned(), value.to_owned());
                at.carried();
            }
            None if at.is_empty() => {
                node.env.insert(name.to_owned(), String::new());
                at.carried();
            }
            None => at.odd("text"),
        }
    }
}

/// Ports of the host, of the nearest layer that has any.
fn published(job: &Job<'_>, from: &Inherited<'_>, node: &mut Node) {
    let layers = from.all("ports");
    let Some(nearest) = layers.iter().position(|at| !at.is_empty()) else { return };
    layers.iter().skip(nearest + 1).for_each(At::carried);
    for item in layers[nearest].items() {
        match item.text() {
            Some(text) => item.say(&ports::publish(job, text, None, node)),
            None => item.odd("PORT:PORT"),
        }
    }
}

/// Name servers become the node's own file.
fn names(from: &Inherited<'_>, node: &mut Node) {
    let mut lines = String::new();
    let Some(dns) = from.nearest("dns") else { return };
    for (key, word) in [("servers", "nameserver"), ("search", "search"), ("options", "options")] {
        for item in dns.get(key).iter().flat_map(At::items) {
            if let Some(text) = item.text() {
                lines.push_str(&format!("{word} {text}\n"));
                item.carried();
            }
        }
    }
    if !lines.is_empty() {
        let (path, mode) = ("/etc/resolv.conf".to_owned(), 0o644);
        node.files.push(File { path, content: Content::Text(lines), mode });
    }
}

const NO_IPV6: &str = "net.ipv6.conf.all.disable_ipv6";

fn sysctls(from: &Inherited<'_>, node: &mut Node) {
    for (name, at) in from.map("sysctls") {
        match at.text() {
            // `linux.Init` overwrites it.
            Some(value) if from.kind == "linux" && name == NO_IPV6 && value != "0" => {
                at.changed("containerlab sets it to 0 in nodes of kind linux");
            }
            Some(value) if name.starts_with("net.") || name.starts_with("net/") => {
                node.sysctls.insert(name.to_owned(), value.to_owned());
                at.carried();
            }
            Some(_) => at.left_out("only settings of the network are a node's own"),
            None => at.odd("a value"),
        }
    }
}

fn commands(job: &Job<'_>, from: &Inherited<'_>, old: &str, node: &mut Node) {
    program(from, node);
    // In containerlab's order (`scheduleNodeWorkerF`).
    let mut all = stages(from, &["create", "create-links", "configure"]);
    all.extend(from.list("exec"));
    all.extend(stages(from, &["healthy", "exit"]));
    for at in all {
        let Some(line) = at.text() else {
            at.odd("a command");
            continue;
        };
        match shell::split(&magic(job, line, old)) {
            Some(words) => {
                node.exec.extend(Some(words).filter(|words| !words.is_empty()));
                at.carried();
            }
            None => at.left_out("a quote in it is not closed"),
        }
    }
}

/// `healthcheck`, as Docker has it.
fn health(from: &Inherited<'_>, node: &mut Node) {
    let Some(at) = from.nearest("healthcheck") else { return };
    let words: Vec<String> = at
        .get("test")
        .iter()
        .flat_map(At::items)
        .filter_map(|at| at.text().map(str::to_owned))
        .collect();
    let command = match words.split_first() {
        Some((first, rest)) if first == "CMD" && !rest.is_empty() => rest.to_vec(),
        Some((first, [line])) if first == "CMD-SHELL" => {
            ["sh", "-c", line].map(str::to_owned).to_vec()
        }
        _ => return at.left_out("no command that starts with CMD or CMD-SHELL"),
    };
    let mut keys = vec![format!("exec: {}", list(&command))];
    at.get("test").iter().for_each(At::carried);
    for (key, word, unit) in
        [("interval", "interval", "s"), ("timeout", "timeout", "s"), ("retries", "retries", "")]
    {
        let Some(at) = at.get(key) else { continue };
        match at.text().and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0) {
            Some(n) => {
                keys.push(format!("{word}: {n}{unit}"));
                at.carried();
            }
            None => at.odd("a number above 0"),
        }
    }
    at.get("start-period").iter().for_each(|at| at.changed("checks begin when the node is ready"));
    node.key("health", format!("{{{}}}", keys.join(", ")));
}

/// `entrypoint` and `cmd`: of the image, or a program of the host's.
fn program(from: &Inherited<'_>, node: &mut Node) {
    let restart = from.nearest("restart-policy");
    let mut command = vec![];
    let mut parts = vec![];
    for key in ["entrypoint", "cmd"] {
        let Some(at) = from.nearest(key) else { continue };
        match at.text().and_then(shell::split) {
            Some(words) if node.has_image() && !words.is_empty() => {
                node.key(key, list(&words));
                at.carried();
            }
            Some(words) => {
                command.extend(words);
                parts.push(at);
            }
            None => at.left_out("no command: a quote in it is not closed"),
        }
    }
    let user = from.nearest("user");
    if node.has_image() {
        parts.iter().for_each(At::carried);
        user.iter().for_each(|at| at.left_out("the image's program runs as the image's user"));
        restart.iter().for_each(|at| at.left_out("the image's program is started once"));
        return;
    }
    let is_shell = |word: &String| ["sh", "bash", "ash", "zsh"].contains(&last(word));
    // A shell alone is there to keep a container up, which a node does not need.
    if command.is_empty() || (command.len() == 1 && command.iter().all(is_shell)) {
        parts.iter().for_each(|at| at.changed("a node needs no program to stay"));
        user.iter().for_each(|at| at.left_out("there is no program that it could run"));
        restart.iter().for_each(|at| at.changed("there is no program that it could be of"));
        return;
    }
    parts.iter().for_each(At::carried);
    let mut keys = vec![("restart", restart_of(restart.as_ref()).to_owned())];
    if let Some(at) = user {
        let text = at.text().unwrap_or("root");
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        keys.push(("user", quoted(user)));
        if !group.is_empty() {
            keys.push(("group", quoted(group)));
        }
        at.carried();
    }
    node.run.push(Program { command, keys });
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn restart_of(policy: Option<&At<'_>>) -> &'static str {
    let Some(at) = policy else { return "always" };
    at.carried();
    match at.text().unwrap_or_default() {
        "no" => "never",
        "on-failure" => "on-failure",
        _ => "always",
    }
}

/// Commands of stages, those of all layers. What stages wait for is there anyway.
fn stages<'a>(from: &Inherited<'a>, names: &[&str]) -> Vec<At<'a>> {
    let layers = from.all("stages");
    let mut commands = vec![];
    for name in names {
        let stages: Vec<At<'a>> = layers.iter().rev().filter_map(|at| at.get(name)).collect();
        let waits = stages.iter().filter_map(|stage| stage.get("wait-for"));
        waits.for_each(|at| at.changed("no command runs before the whole network is up"));
        let execs: Vec<At<'a>> = stages.iter().filter_map(|stage| stage.get("exec")).collect();
        for phase in ["on-enter", "on-exit"] {
            for exec in &execs {
                commands.extend(exec.get(phase).iter().flat_map(At::items));
                let is_now = |item: &At<'a>| item.text_of("phase").unwrap_or("on-enter") == phase;
                commands.extend(exec.items().iter().filter(|at| is_now(at)).filter_map(command));
            }
        }
    }
    commands
}

/// The command of an entry with its target.
fn command<'a>(item: &At<'a>) -> Option<At<'a>> {
    if item.text_of("target") == Some("host") {
        item.left_out("netloom runs no commands on the host");
        return None;
    }
    ["target", "phase"].iter().filter_map(|key| item.get(key)).for_each(|at| at.carried());
    item.get("command")
}
