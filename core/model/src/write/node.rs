//! Nodes, and the nodes in them.

use std::collections::BTreeMap;
use std::path::Path;

use ipnet::IpNet;

use super::children;
use super::tree::{Body, Yaml};
use crate::image::{ImageUse, PullWhen};
use crate::impairment::text::duration;
use crate::keys::{EXEC, HEALTH, LIMITS, NODE, PROGRAM, PROTECT, READY};
use crate::kinds::router::{Ospf, Router};
use crate::kinds::vm::{Accel, Board, Bus, Card, Machine};
use crate::kinds::{NodeKind, router, vm};
use crate::lab::{
    Bind, Exec, FileContent, FileSpec, Health, Lab, Limits, Node, NodeSpec, Program, Protect,
    Ready, Restart, RouteSpec, Via, charges_by_default,
};
use crate::setting::{cpu_text, in_whole_units};
use crate::users::Ids;

type Children = BTreeMap<Option<usize>, Vec<usize>>;

/// All nodes.
pub(super) fn nodes(lab: &Lab) -> Yaml {
    let children = children(lab);
    let top = nodes_of(lab, &children, None);
    if top.is_empty() { Yaml::none() } else { Yaml::Block(top) }
}

fn nodes_of(lab: &Lab, children: &Children, of: Option<usize>) -> Vec<(String, Yaml)> {
    let around = of.and_then(|at| lab.nodes.get(at)).and_then(|node| node.ids);
    let one = |at: &usize| {
        let node = &lab.nodes[*at];
        let name = node.name.rsplit_once('/').map_or(node.name.as_str(), |(_, last)| last);
        let inner = nodes_of(lab, children, Some(*at));
        (name.to_owned(), whole(node, inner, count(children, *at), around))
    };
    children.get(&of).into_iter().flatten().map(one).collect()
}

/// How many nodes live in a node, at any depth.
fn count(children: &Children, at: usize) -> usize {
    let own = children.get(&Some(at)).into_iter().flatten();
    own.map(|child| 1 + count(children, *child)).sum()
}

fn whole(node: &Node, inner: Vec<(String, Yaml)>, count: usize, around: Option<Ids>) -> Yaml {
    // A key that is added to nodes does not compile until it is written.
    let NodeSpec {
        name: _,
        kind,
        parent: _,
        children,
        forwarding,
        hostname,
        loopback,
        limits,
        protect,
        charge_receive,
        privileged,
        ids,
        root,
        image,
        storage,
        setup,
        run,
        env,
        files,
        binds,
        ports,
        ready,
        exec,
        health,
    } = &*node.spec;
    let mut body = Body::default();
    put_kind(&mut body, kind);
    if node.forwarding_given || forwarding.any() != kind.as_router().is_some() {
        body.put("forwarding", Yaml::word(forwarding.word().unwrap_or("false")));
    }
    body.text("hostname", hostname.as_deref());
    body.some("loopback", Yaml::one_or_list(loopback.iter().map(bare_address).collect()));
    body.some("limits", self::limits(limits));
    body.some("protect", self::protect(protect));
    body.unless("charge-receive", charge_receive, &charges_by_default(limits, protect));
    put_children(&mut body, *children, inner, count);
    // FRR needs it and the reader sets it, so it goes without saying there.
    body.unless("privileged", privileged, &kind.as_router().is_some_and(|router| router.frr));
    // A child has those of its parent unless it says otherwise.
    if *ids != around {
        body.text("ids", ids.map(Ids::word));
    }
    body.text("root", root.as_deref().map(shown));
    put_image(&mut body, image.as_ref(), run.is_empty());
    body.plain("storage", storage.map(size));
    body.some("setup", Yaml::List(setup.iter().map(|words| Yaml::texts(words)).collect()));
    body.some("run", Yaml::List(run.iter().map(program).collect()));
    let texts = env.iter().map(|(name, text)| (name.clone(), Yaml::text(text)));
    body.some("env", Yaml::Map(texts.collect()));
    body.some("files", Yaml::Map(files.iter().map(|of| (of.path.clone(), file(of))).collect()));
    body.some("binds", Yaml::Map(binds.iter().map(|of| (of.to.clone(), bind(of))).collect()));
    let ports = ports.iter().map(|port| Yaml::text(port.to_string()));
    body.some("ports", Yaml::one_or_list(ports.collect()));
    body.some("ready", conditions(ready, &Ready::default()).in_order(&READY));
    body.some("exec", Yaml::List(exec.iter().map(self::exec).collect()));
    if let Some(health) = health {
        body.put("health", self::health(health));
    }
    let texts = node.sysctls.iter().map(|(key, text)| (key.clone(), Yaml::text(text)));
    body.some("sysctls", Yaml::Map(texts.collect()));
    // The reader gives such a router an empty list by itself.
    let learns = kind.as_router().is_some_and(Router::learns_routes);
    if let Some(routes) = node.routes.as_ref().filter(|all| !(learns && all.is_empty())) {
        body.put("routes", Yaml::List(routes.iter().map(route).collect()));
    }
    body.in_order(&NODE)
}

fn put_children(body: &mut Body, limit: Option<u32>, inner: Vec<(String, Yaml)>, count: usize) {
    let Some(limit) = limit else { return };
    let mut of = Body::default();
    if usize::try_from(limit) != Ok(count) {
        of.put("limit", Yaml::word(limit));
    }
    of.some("nodes", Yaml::Block(inner));
    body.put("children", Yaml::Map(of.0));
}

/// The image of a node, which runs its program if the lab gives no `run`.
fn put_image(body: &mut Body, image: Option<&ImageUse>, runs_nothing: bool) {
    let Some(image) = image else { return };
    body.put("image", Yaml::text(&image.name));
    body.unless("pull", &image.pull.word(), &PullWhen::Missing.word());
    for (key, list) in [("entrypoint", &image.entrypoint), ("cmd", &image.cmd)] {
        if let Some(list) = list {
            body.put(key, Yaml::texts(list));
        }
    }
    if runs_nothing && !image.starts {
        body.put("run", Yaml::List(vec![]));
    }
}

fn bind(bind: &Bind) -> Yaml {
    let from = Yaml::text(shown(&bind.from));
    if !bind.write {
        return from;
    }
    Yaml::Map(vec![("from".to_owned(), from), ("access".to_owned(), Yaml::word("rw"))])
}

fn put_kind(body: &mut Body, kind: &NodeKind) {
    match kind {
        NodeKind::Plain => {}
        NodeKind::Router(of) => {
            body.put("kind", Yaml::word(router::WORD));
            put_router(body, of);
        }
        NodeKind::Vm(machine) => {
            body.put("kind", Yaml::word(vm::WORD));
            put_machine(body, machine);
        }
    }
}

fn put_router(body: &mut Body, router: &Router) {
    let plain = Router::default();
    let daemon = |frr| if frr { "frr" } else { "none" };
    body.unless("daemon", &daemon(router.frr), &daemon(plain.frr));
    if let Some(ospf) = &router.ospf {
        let (mut of, plain) = (Body::default(), Ospf::default());
        if ospf.area != plain.area {
            of.put("area", Yaml::text(&ospf.area));
        }
        of.unless("hello", &ospf.hello, &plain.hello);
        of.unless("dead", &ospf.dead, &plain.dead);
        body.put("ospf", if of.0.is_empty() { Yaml::word("true") } else { Yaml::Map(of.0) });
    }
    if let Some(bgp) = &router.bgp {
        let mut of = Body::default();
        of.put("as", Yaml::word(bgp.system));
        of.unless("keepalive", &bgp.keepalive, &router::HELLO);
        body.put("bgp", Yaml::Map(of.0));
    }
    let files = router.config.iter().map(|(name, path)| (name.clone(), Yaml::text(shown(path))));
    body.some("config", Yaml::Map(files.collect()));
    body.unless("plane", &router.plane_word(), &plain.plane_word());
    if router.grace != plain.grace {
        body.put("grace", Yaml::word(format!("{}s", router.grace)));
    }
}

fn put_machine(body: &mut Body, machine: &Machine) {
    let (plain, storage) = (Machine::default(), &machine.storage);
    let accel = match machine.accel {
        Accel::Auto => "auto",
        Accel::Kvm => "kvm",
        Accel::Tcg => "tcg",
        Accel::Uml => "uml",
    };
    body.unless("accel", &accel, &"auto");
    let mut file = |key: &str, path: &Option<std::path::PathBuf>| {
        body.text(key, path.as_deref().map(shown));
    };
    file("kernel", &machine.kernel);
    file("initrd", &machine.initrd);
    file("disk", &storage.disk);
    file("keep", &storage.keep);
    file("user-data", &storage.user_data);
    file("firmware", &storage.firmware);
    body.text("append", Some(&machine.append).filter(|words| !words.is_empty()));
    let bus = |bus| if bus == Bus::Ide { "ide" } else { "virtio" };
    body.unless("disk-bus", &bus(storage.disk_bus), &bus(plain.storage.disk_bus));
    body.unless("seed", &storage.seed, &plain.storage.seed);
    if machine.memory != plain.memory {
        body.put("memory", Yaml::plain(size(machine.memory)));
    }
    body.unless("cpus", &machine.cpus, &plain.cpus);
    let board = match machine.machine {
        Board::Pc => "pc",
        Board::Q35 => "q35",
        Board::Microvm => "microvm",
    };
    body.unless("machine", &board, &"pc");
    let card = |card| if card == Card::E1000 { "e1000" } else { "virtio" };
    body.unless("nic", &card(machine.nic), &card(plain.nic));
    body.unless("vhost-user", &machine.vhost_user, &plain.vhost_user);
    body.some("x-qemu", Yaml::texts(&machine.qemu));
    body.unless("restart", &restart(machine.restart), &restart(plain.restart));
}

fn limits(limits: &Limits) -> Yaml {
    let mut body = Body::default();
    body.plain("cpu", limits.cpu_milli.map(cpu_text));
    body.plain("memory", limits.memory.map(size));
    for (key, number) in
        [("processes", limits.processes), ("weight", limits.weight), ("sockets", limits.sockets)]
    {
        body.some(key, number.map_or_else(Yaml::none, Yaml::word));
    }
    body.in_order(&LIMITS)
}

fn protect(protect: &Protect) -> Yaml {
    let packets = protect.packets.map(|rate| format!("{rate}/s"));
    match protect {
        Protect { packets: None, bytes: None, auto: Some(true) } => return Yaml::word("auto"),
        Protect { packets: None, bytes: None, auto: Some(false) } => return Yaml::text("off"),
        Protect { packets: Some(_), bytes: None, auto: None } => {
            return packets.map_or_else(Yaml::none, Yaml::plain);
        }
        _ => {}
    }
    let mut body = Body::default();
    body.plain("packets", packets);
    body.plain("bytes", protect.bytes.map(|rate| format!("{}/s", size(rate))));
    body.some("auto", protect.auto.map_or_else(Yaml::none, Yaml::word));
    body.in_order(&PROTECT)
}

/// An address of loopback, which needs no length where it is alone.
fn bare_address(net: &IpNet) -> Yaml {
    let alone = net.prefix_len() == net.max_prefix_len();
    Yaml::plain(if alone { net.addr().to_string() } else { net.to_string() })
}

pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A number of bytes as a lab file has it.
pub(super) fn size(bytes: u64) -> String {
    in_whole_units(bytes).unwrap_or_else(|| format!("{bytes}B"))
}

fn restart(restart: Restart) -> &'static str {
    match restart {
        Restart::Never => "never",
        Restart::OnFailure => "on-failure",
        Restart::Always => "always",
    }
}

/// Who runs a program, and where.
fn put_runs(body: &mut Body, program: &Program) {
    body.put("command", Yaml::texts(&program.command));
    body.text("user", program.user.as_deref());
    body.text("group", program.group.as_deref());
    body.text("workdir", program.workdir.as_deref());
}

fn program(program: &Program) -> Yaml {
    let mut body = Body::default();
    put_runs(&mut body, program);
    body.unless("restart", &restart(program.restart), &"never");
    body.unless("stop-signal", &program.stop_signal.word(), &"TERM");
    if body.0.len() == 1 { Yaml::texts(&program.command) } else { body.in_order(&PROGRAM) }
}

fn exec(exec: &Exec) -> Yaml {
    let mut body = Body::default();
    put_runs(&mut body, &exec.program);
    body.unless("fatal", &exec.fatal, &true);
    if exec.timeout != Exec::DEFAULT_TIMEOUT {
        body.put("timeout", Yaml::word(duration(exec.timeout)));
    }
    if body.0.len() == 1 { Yaml::texts(&exec.program.command) } else { body.in_order(&EXEC) }
}

fn file(file: &FileSpec) -> Yaml {
    let mut body = Body::default();
    match &file.content {
        FileContent::Text(text) => body.put("text", Yaml::text(text)),
        FileContent::From(path) => body.put("from", Yaml::text(shown(path))),
    }
    let of_text = matches!(file.content, FileContent::Text(_));
    if file.mode != FileSpec::DEFAULT_MODE {
        body.put("mode", Yaml::text(format!("{:04o}", file.mode)));
    }
    body.text("owner", file.owner.as_deref());
    body.text("group", file.group.as_deref());
    match (body.0.len(), of_text) {
        (1, true) => body.0.remove(0).1,
        _ => Yaml::Map(body.0),
    }
}

fn conditions(ready: &Ready, plain: &Ready) -> Body {
    let mut body = Body::default();
    body.some("tcp", Yaml::one_or_list(ready.tcp.iter().map(Yaml::word).collect()));
    if let Some(command) = &ready.exec {
        body.put("exec", Yaml::texts(command));
    }
    body.text("console", ready.console.as_deref());
    body.unless("agent", &ready.agent, &plain.agent);
    body.some("file", Yaml::one_or_list(ready.files.iter().map(Yaml::text).collect()));
    if ready.timeout != plain.timeout {
        body.put("timeout", Yaml::word(duration(ready.timeout)));
    }
    body
}

fn health(health: &Health) -> Yaml {
    let plain = Health::default();
    let mut body = conditions(&health.check, &plain.check);
    if health.interval != plain.interval {
        body.put("interval", Yaml::word(duration(health.interval)));
    }
    body.unless("retries", &health.retries, &plain.retries);
    body.in_order(&HEALTH)
}

fn route(route: &RouteSpec) -> Yaml {
    let mut body = Body::default();
    let to = route.to.map_or_else(|| "default".to_owned(), |to| to.to_string());
    body.put("to", Yaml::plain(to));
    body.some("via", route.via.as_ref().map_or_else(Yaml::none, via));
    body.text("dev", route.dev.as_deref());
    Yaml::Map(body.0)
}

pub(super) fn via(via: &Via) -> Yaml {
    match via {
        Via::Address(address) => Yaml::plain(address.to_string()),
        Via::Node(name) => Yaml::text(name),
    }
}
