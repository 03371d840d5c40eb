//! IMUNES's files before version 2: `node`, `link`, `canvas` and `option` with lists of Tcl.
//!
//! Addresses and routes of a node stand in its `network-config`, in the words of Quagga.

use ipnet::IpNet;

use crate::imunes::tcl::{Word, words};
use crate::imunes::{Host, Interface, Net, Role, Wire, impairment, role, slow};
use crate::{Error, Job, Result, Verdict, wrong};

/// Reads a file.
pub(super) fn read(job: &Job<'_>, content: &[u8]) -> Result<Net> {
    let not_text = || Error::Unreadable { file: job.file.to_owned(), problem: "not UTF-8 text" };
    let text = std::str::from_utf8(content).map_err(|_| not_text())?;
    let all = words(job.file, 1, text)?;
    let mut net = Net::default();
    let mut links = vec![];
    for command in all.chunks(3) {
        let [what, id, body] = command else {
            return Err(wrong(job.file, command[0].line, "expected WORD NAME {...}"));
        };
        match what.text.as_str() {
            "node" => net.nodes.push(Reader { job, id: &id.text }.node(body)?),
            "link" => links.push((id, body)),
            "canvas" | "option" | "annotation" | "image" => {
                let item =
                    job.ledger.enter(job.file, what.line, format!("{} {}", what.text, id.text));
                job.ledger.say(item, Verdict::Changed("only matters to its drawing".into()));
            }
            word => {
                return Err(wrong(
                    job.file,
                    what.line,
                    format!("{word:?} is not a word of IMUNES"),
                ));
            }
        }
    }
    // After all nodes: links find their interfaces by what the nodes say of their peers.
    for (id, body) in links {
        net.links.extend(Reader { job, id: &id.text }.link(body, &mut net.nodes)?);
    }
    Ok(net)
}

struct Reader<'a> {
    job: &'a Job<'a>,
    id: &'a str,
}

impl Reader<'_> {
    fn say(&self, line: u32, item: &str, verdict: Verdict) {
        let id = self.job.ledger.enter(self.job.file, line, format!("{} {item}", self.id));
        self.job.ledger.say(id, verdict);
    }

    /// The pairs of a body.
    fn pairs(&self, body: &Word) -> Result<Vec<(Word, Word)>> {
        let words = words(self.job.file, body.line, &body.text)?;
        let (mut pairs, mut rest) = (vec![], words.into_iter());
        while let Some(key) = rest.next() {
            // IMUNES passes an empty field over, without a value.
            if !key.text.is_empty() {
                let none = Word { line: key.line, text: String::new() };
                let value = rest.next().unwrap_or(none);
                pairs.push((key, value));
            }
        }
        Ok(pairs)
    }

    fn node(&self, body: &Word) -> Result<Host> {
        let pairs = self.pairs(body)?;
        let value = |name: &str| {
            pairs
                .iter()
                .find(|(key, _)| key.text == name)
                .map_or("", |(_, value)| value.text.trim())
        };
        let config = value("network-config");
        let name = config.lines().find_map(|line| line.trim().strip_prefix("hostname "));
        let name = name.unwrap_or(self.id).trim().to_owned();
        // Protocols are in the words of Quagga, which FRR reads.
        let role = role(value("type"), &name, vec![]);
        let mut host = Host { id: self.id.to_owned(), name, role, ..Host::default() };
        host.finds_gateway = !config.contains("route ");
        let kind = value("type").to_owned();
        for (key, value) in &pairs {
            let verdict = match (&host.role, key.text.as_str()) {
                (Role::Nothing(why), _) => Verdict::LeftOut(why.clone()),
                (_, "type") if kind == "hub" => {
                    Verdict::Changed("a switch, which learns where stations are".into())
                }
                (_, "interface-peer") => {
                    let mut words = value.text.split_whitespace().map(str::to_owned);
                    host.peers.extend(words.next().zip(words.next()));
                    Verdict::Carried
                }
                (_, "type") => Verdict::Carried,
                (_, "model") if value.text == "quagga" => {
                    Verdict::Changed("FRR, which reads what Quagga does".into())
                }
                (_, "model") => Verdict::Carried,
                (_, "canvas" | "iconcoords" | "labelcoords" | "mirror" | "customIcon") => {
                    Verdict::Changed("only matters to its drawing".into())
                }
                (_, "network-config") => {
                    self.config(value, &mut host);
                    continue;
                }
                (_, "services") => Verdict::LeftOut("write a service as a program of `run`".into()),
                _ => Verdict::LeftOut(crate::ledger::UNKNOWN.into()),
            };
            self.say(key.line, &key.text, verdict);
        }
        Ok(host)
    }

    /// Lines of Quagga's language; whatever is about a routing protocol goes to FRR as it is.
    fn config(&self, body: &Word, host: &mut Host) {
        let mut interface: Option<usize> = None;
        let mut block = false;
        for (number, line) in (body.line..).zip(body.text.lines()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let indented = line.trim_start_matches('\t').starts_with(' ');
            if words.is_empty() || words == ["!"] {
                // `!` ends a block; an empty line does not.
                block &= words.is_empty();
                continue;
            }
            let verdict = match words.as_slice() {
                ["interface", name] => {
                    block = false;
                    let name = (*name).to_owned();
                    host.interfaces.push(Interface { name, ..Interface::default() });
                    interface = Some(host.interfaces.len() - 1);
                    Verdict::Carried
                }
                ["router", ..] => {
                    block = true;
                    host.config.push_str(&format!("{}\n", line.trim()));
                    Verdict::Carried
                }
                _ if block && indented => {
                    host.config.push_str(&format!(" {}\n", line.trim()));
                    Verdict::Carried
                }
                words => command(words, interface, host),
            };
            self.say(number, line.trim(), verdict);
        }
        // Their addresses are in `loopback` by now.
        host.interfaces.retain(|interface| !interface.name.starts_with("lo"));
    }

    fn link(&self, body: &Word, nodes: &mut [Host]) -> Result<Option<Wire>> {
        let pairs = self.pairs(body)?;
        let mut wire = Wire::default();
        let mut why = Some("it has no two ends".to_owned());
        for (key, value) in &pairs {
            match key.text.as_str() {
                "nodes" => {
                    let ids = words(self.job.file, value.line, &value.text)?;
                    if let [a, b] = ids.as_slice() {
                        why = self.ends(&a.text, &b.text, nodes, &mut wire).err();
                    }
                }
                other => wire.impairments.extend(impairment(other, &value.text)),
            }
        }
        for (key, value) in &pairs {
            if key.text == "nodes" {
                let item =
                    self.job.ledger.enter(self.job.file, key.line, format!("{} nodes", self.id));
                wire.item = Some(item);
            }
            let verdict = match (&why, key.text.as_str()) {
                (Some(why), _) => Verdict::LeftOut(why.clone()),
                (_, "nodes") => Verdict::Carried,
                (_, "color" | "width") => Verdict::Changed("only matters to its drawing".into()),
                (_, key) if impairment(key, &value.text).is_some() || value.text == "0" => {
                    Verdict::Carried
                }
                (_, "bandwidth") => Verdict::LeftOut(slow(&value.text)),
                (_, "ber") => Verdict::LeftOut("write `corrupt` as a share of packets".into()),
                _ => Verdict::LeftOut(crate::ledger::UNKNOWN.into()),
            };
            self.say(key.line, &key.text, verdict);
        }
        Ok(why.is_none().then_some(wire))
    }

    /// The ends of a link, by the interfaces that are said to lead there and that no link has yet.
    fn ends(
        &self,
        a: &str,
        b: &str,
        nodes: &mut [Host],
        wire: &mut Wire,
    ) -> std::result::Result<(), String> {
        for (place, (id, other)) in wire.ends.iter_mut().zip([(a, b), (b, a)]) {
            let host =
                nodes.iter_mut().find(|host| host.id == id).ok_or("there is no such node")?;
            if let Role::Nothing(why) = &host.role {
                return Err(why.clone());
            }
            let name = match host.peers.iter().position(|(_, peer)| peer == other) {
                // Removed, so that a second link between the same two gets the next interface.
                Some(at) => host.peers.remove(at).0,
                None => free_interface(host),
            };
            if host.interfaces.iter().all(|interface| interface.name != name) {
                host.interfaces.push(Interface { name: name.clone(), ..Interface::default() });
            }
            *place = (id.to_owned(), name);
        }
        Ok(())
    }
}

/// A name that no interface of a node has, with a link or without one yet.
fn free_interface(host: &Host) -> String {
    let own = host.interfaces.iter().map(|interface| &interface.name);
    let taken: Vec<&String> = own.chain(host.peers.iter().map(|(name, _)| name)).collect();
    let mut names = (host.interfaces.len()..).map(|number| format!("eth{number}"));
    names.find(|name| !taken.contains(&name)).unwrap_or_default()
}

/// A command of a node, or of the interface that the lines before were about.
fn command(words: &[&str], interface: Option<usize>, host: &mut Host) -> Verdict {
    let nobody = || Verdict::LeftOut("of no interface".into());
    match words {
        ["hostname", _] | ["no", "shutdown"] | ["fair-queue" | "fifo" | "drop-tail"] => {
            return Verdict::Carried;
        }
        // A third word is a distance among routes of protocols.
        ["ip" | "ipv6", "route", to, via] | ["ip" | "ipv6", "route", to, via, _] => {
            host.routes.push(((*to).to_owned(), (*via).to_owned()));
            return Verdict::Carried;
        }
        _ => {}
    }
    let Some(of) = interface.and_then(|at| host.interfaces.get_mut(at)) else { return nobody() };
    match words {
        ["ip" | "ipv6", "address", net] => match net.parse::<IpNet>() {
            Ok(net) if of.name.starts_with("lo") => {
                host.loopback.extend(Some(net).filter(|net| !net.addr().is_loopback()));
            }
            Ok(net) => of.addresses.push(net),
            Err(_) => return Verdict::LeftOut("no address with its prefix length".into()),
        },
        ["mac", "address", mac] => of.mac = Some((*mac).to_owned()),
        ["mtu", mtu] => of.mtu = mtu.parse().ok(),
        _ => return Verdict::LeftOut(crate::ledger::UNKNOWN.into()),
    }
    Verdict::Carried
}
