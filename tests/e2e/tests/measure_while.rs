//! `netloom measure` while things change: both families by a web client, flows that begin, routes that lead
//! elsewhere for a while.

use std::time::Duration;

use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, Run, machine, root_only, signal};
use rustix::process::Signal;
use serde_json::Value;

const LAB: &str = "{name: both, nodes: {h1: {}, r1: {forwarding: true}, web: {}}, \
                   links: [[h1, r1], [r1, web]]}";

/// A web server for both families that tells the address of each client.
const SERVE: &str = r#"
import http.server, socket
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.client_address[0], flush=True)
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'hello\n')
    def log_message(self, *_):
        pass
server = Server(('::', 80), Handler)
print('listens', flush=True)
server.serve_forever()
"#;

/// Receives datagrams and says nothing.
const TAKE: &str = r#"
import socket
at = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
at.bind(('::', 5002))
print('listens', flush=True)
while True:
    at.recv(2000)
"#;

/// A connected socket: for each line `N` it sends N datagrams, one a millisecond; for `on` it goes on until it
/// is told `off`, and prints how many it sent.
const SEND: &str = r#"
import select, socket, sys, time
family = {'4': socket.AF_INET, '6': socket.AF_INET6}[sys.argv[2]]
to = socket.socket(family, socket.SOCK_DGRAM)
to.bind(('::' if family == socket.AF_INET6 else '0.0.0.0', 4000))
to.connect(socket.getaddrinfo(sys.argv[1], 5002, family)[0][4])
print('ready', flush=True)
sent = 0
def send():
    global sent
    to.send(bytes(100))
    sent += 1
    time.sleep(0.001)
for line in iter(sys.stdin.readline, ''):
    sent = 0
    if line == 'on\n':
        while not select.select([sys.stdin], [], [], 0)[0]:
            send()
        sys.stdin.readline()
    else:
        for _ in range(int(line)):
            send()
    print(sent, flush=True)
"#;

fn measure(machine: &Machine, words: &str) -> Run {
    let all = ["measure"].into_iter().chain(words.split(' '));
    machine.netloom(all).bound(Duration::from_secs(180))
}

fn up(machine: &Machine) {
    machine.up(LAB);
    ["-4", "-6"].iter().for_each(|family| machine.answers_by(family, "h1", "web"));
    machine.keep_neighbours(&["h1", "r1", "web"]);
}

/// Interrupts a measurement when all was sent; the lines to its end.
fn ended(measure: Held) -> Vec<Value> {
    signal(measure.pid(), Signal::INT);
    measure.rest().lines().map(json).collect()
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn say(held: &mut Held, line: &str) {
    let input = held.child().stdin.as_mut().expect("stdin is piped");
    std::io::Write::write_all(input, format!("{line}\n").as_bytes()).expect("a line");
}

/// The line of this kind from this node; those before it are kept.
fn until(measure: &mut Held, seen: &mut Vec<Value>, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let line = json(&measure.line());
        let found = wanted(&line);
        seen.push(line.clone());
        if found {
            return line;
        }
    }
}

fn totals<'l>(lines: &'l [Value], from: &str) -> impl Iterator<Item = &'l Value> {
    let from = from.to_owned();
    lines.iter().filter(move |line| line["type"] == "total" && line["from"] == from.as_str())
}

/// Nothing was lost or gained at any hop of complete blocks.
fn exact(lines: &[Value]) {
    for block in lines.iter().filter(|l| l["type"] == "block" && l["complete"] == true) {
        for hop in block["hops"].as_array().expect("hops") {
            assert_eq!((&hop["lost"], &hop["gained"]), (&0.into(), &0.into()), "{block}");
        }
    }
}

#[test]
fn a_web_client_is_counted_by_whichever_family_it_comes() {
    root_only!("loads BPF programs");
    let machine = machine!();
    up(&machine);
    let mut server = Held::start(machine.python("web", SERVE, &[]));
    assert_eq!(server.line(), "listens");
    for family in [None, Some("-4")] {
        let mut measure = Held::start(measure(&machine, "h1 web --json"));
        let head = json(&measure.line());
        assert_eq!(head["ways"][0]["addresses"].as_array().expect("addresses").len(), 2, "{head}");
        let words = ["curl", "-fsS"].into_iter().chain(family).chain(["http://web/"]);
        let page = machine.exec("h1", &words.collect::<Vec<_>>()).ok();
        assert_eq!(page, "hello\n");
        // By IPv4 the client's address comes mapped into IPv6.
        let client = server.line();
        assert_eq!(client.starts_with("::ffff:"), family.is_some(), "{client}");
        let lines = ended(measure);
        for from in ["h1", "web"] {
            let total = totals(&lines, from).next().expect("a total");
            let sent = number(&total["way"]["sent"]);
            assert!(sent >= 4, "a connection has more packets: {total}");
            assert_eq!((&total["complete"], &total["way"]["lost"]), (&true.into(), &0.into()));
            assert_eq!(total["families"], serde_json::json!([4, 6]));
        }
    }
    machine.down();
}

#[test]
fn a_flow_that_begins_meanwhile_is_found_and_no_packet_is_of_two_flows() {
    root_only!("loads BPF programs");
    let machine = machine!();
    up(&machine);
    let mut taker = Held::start(machine.python("web", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    let words = "h1 web --flows --json --period 2s";
    let mut measure = Held::start(measure(&machine, words));
    let head = json(&measure.line());
    assert_eq!(head["flows"], serde_json::json!(["rest"]));
    let mut lines = vec![];
    let mut sender = Held::start(machine.python("h1", SEND, &["web", "6"]));
    assert_eq!(sender.line(), "ready");
    // Packets pass at all times while points get the flow.
    say(&mut sender, "on");
    let name = "4000->5002/udp";
    let flow = until(&mut measure, &mut lines, |line| line["type"] == "flow");
    assert_eq!(flow["flow"], name);
    let from = number(&flow["from_block"]);
    let told = |line: &Value| line["type"] == "block" && line["flow"] == name;
    let block = until(&mut measure, &mut lines, told);
    assert_eq!(number(&block["block"]), from, "its first block is the one said: {block}");
    say(&mut sender, "off");
    let before: u64 = sender.line().parse().expect("how many");
    say(&mut sender, "300");
    let more: u64 = sender.line().parse().expect("how many");
    lines.extend(ended(measure));
    exact(&lines);
    let of = |flow: &str| totals(&lines, "h1").find(|total| total["flow"] == flow).expect("it");
    let (flow, rest) = (of(name), of("rest"));
    assert!(number(&flow["way"]["sent"]) >= more, "{flow}");
    // Only on a machine that stood still meanwhile are blocks incomplete.
    if [flow, rest].iter().all(|total| total["incomplete"] == 0) {
        let sent = number(&flow["way"]["sent"]) + number(&rest["way"]["sent"]);
        // Neighbours are asked by ICMPv6 now and then, which is in the rest.
        assert!((before + more..before + more + 20).contains(&sent), "{sent} {before} {more}");
    }
    machine.down();
}

/// Two routers side by side, and one path through either.
const ROUTERS: &str = "
name: routers
routing: {ecmp: false}
nodes: {h1: {}, ra: {forwarding: true}, rb: {forwarding: true}, web: {}}
switches: {near: {}, far: {}}
links: [[h1, near], [near, ra], [near, rb], [ra, far], [rb, far], [far, web]]
";

/// The IPv4 address of a router's first interface, which is on the switch of `h1`.
fn near(machine: &Machine, router: &str) -> String {
    let text = machine.exec(router, &["ip", "-4", "-br", "addr", "show", "eth0"]).ok();
    let net = text.split_whitespace().find(|word| word.contains('/')).expect("an address");
    net.split('/').next().unwrap_or_default().to_owned()
}

#[test]
fn a_route_that_changes_meanwhile_is_told_in_its_blocks() {
    root_only!("loads BPF programs");
    let machine = machine!();
    machine.up(ROUTERS);
    let mut taker = Held::start(machine.python("web", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    let mut measure = Held::start(measure(&machine, "h1 web -4 --one-way --json"));
    let head = json(&measure.line());
    let hops = head["ways"][0]["hops"].to_string();
    let (now, other) = if hops.contains("node ra") { ("ra", "rb") } else { ("rb", "ra") };
    let web = head["ways"][0]["destination"].as_str().expect("an address").to_owned();
    let route = |verb: &str, router: &str| {
        let via = near(&machine, router);
        machine.exec("h1", &["ip", "route", verb, &web, "via", &via]).ok();
    };
    let mut sender = Held::start(machine.python("h1", SEND, &["web", "4"]));
    assert_eq!(sender.line(), "ready");
    let mut send = || {
        say(&mut sender, "50");
        sender.line();
    };
    send();
    let mut lines = vec![];
    route("replace", other);
    let change = until(&mut measure, &mut lines, |line| line["type"] == "route");
    assert_eq!((&change["measured"], &change["family"]), (&false.into(), &4.into()), "{change}");
    assert!(change["hops"].to_string().contains(&format!("node {other}")), "{change}");
    send();
    let block = until(&mut measure, &mut lines, |line| line["type"] == "block");
    route("replace", now);
    let back =
        until(&mut measure, &mut lines, |line| line["type"] == "route" && line["measured"] == true);
    send();
    let first = number(&back["block"]).max(number(&block["block"])) + 1;
    let whole = |line: &Value| line["type"] == "block" && line["complete"] == true;
    until(&mut measure, &mut lines, |line| whole(line) && number(&line["block"]) >= first);
    lines.extend(ended(measure));
    // From the block of the change to the one in which the path was back, and no other.
    let flawed = number(&change["block"]);
    for block in lines.iter().filter(|line| line["type"] == "block") {
        let number = number(&block["block"]);
        let reasons = block["reasons"].to_string();
        if (flawed..=self::number(&back["block"])).contains(&number) {
            assert!(reasons.contains("the route changed"), "{block}");
        }
        if number < flawed {
            assert!(!reasons.contains("the route changed"), "{block}");
        }
    }
    exact(&lines);
    let total = totals(&lines, "h1").next().expect("a total");
    assert_eq!((&total["complete"], &total["way"]["lost"]), (&false.into(), &0.into()), "{total}");
    assert!(total["reasons"].to_string().contains("the route changed"), "{total}");
    machine.down();
}

#[test]
fn a_route_that_ends_is_told_and_its_packets_are_lost_at_the_node() {
    root_only!("loads BPF programs");
    let machine = machine!();
    up(&machine);
    let mut taker = Held::start(machine.python("web", TAKE, &[]));
    assert_eq!(taker.line(), "listens");
    let mut measure = Held::start(measure(&machine, "h1 web -4 --one-way --json"));
    let head = json(&measure.line());
    let web = head["ways"][0]["destination"].as_str().expect("an address").to_owned();
    let mut sender = Held::start(machine.python("h1", SEND, &["web", "4"]));
    assert_eq!(sender.line(), "ready");
    machine.exec("r1", &["ip", "route", "add", "blackhole", &web]).ok();
    let mut lines = vec![];
    let change = until(&mut measure, &mut lines, |line| line["type"] == "route");
    assert!(change["why"].as_str().expect("why").contains("node \"r1\" has no route"), "{change}");
    say(&mut sender, "50");
    assert_eq!(sender.line(), "50");
    lines.extend(ended(measure));
    let total = totals(&lines, "h1").next().expect("a total");
    assert_eq!(total["complete"], true, "{total}");
    let hops = total["hops"].as_array().expect("hops");
    let lost: Vec<_> = hops.iter().map(|hop| number(&hop["lost"])).collect();
    assert_eq!(lost, [0, 50, 0], "{total}");
    machine.down();
}
