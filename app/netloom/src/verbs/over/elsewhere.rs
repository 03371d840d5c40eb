//! Verbs with `--on HOSTS` that the host of an object does: `link set`, `logs` and `capture`.
//!
//! An object is found in what hosts say of their parts. A link between two hosts is on both: each knows its own end, and its name
//! is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use netloom_lab::view::{LinkSettings, LinkStatus};
use netloom_model::{Host, Hosts};

use super::driver::each;
use super::message::{Ask, Told};
use super::remote::{self, Input, Remote, Trouble};
use super::verbs::{OnHost, lab_of, refusal, states};
use crate::flags::{Capture, Logs};
use crate::verbs::hosts;

/// A lab on its hosts.
pub(super) struct Lab {
    pub(super) name: String,
    pub(super) hosts: Hosts,
    pub(super) found: Vec<OnHost>,
}

/// A link of a lab, with the hosts that make it, as indexes.
struct Link<'l> {
    name: &'l str,
    ends: [&'l str; 2],
    /// By end: the host that makes it.
    of: [Option<usize>; 2],
}

impl Lab {
    pub(super) fn find(lab: Option<&str>, on: &Path) -> Result<Lab> {
        let (hosts, name) = (hosts::read(on)?, lab_of(lab)?);
        let found = states(&hosts, &name);
        if found.iter().all(|on| on.lab.is_none() && on.reason.is_none()) {
            return Err(netloom_lab::Error::NoLab(name).into());
        }
        Ok(Lab { name, hosts, found })
    }

    /// Why an object was not found: it may be on a host that does not answer.
    fn not_found(&self, what: &str) -> anyhow::Error {
        let lost =
            self.found.iter().filter_map(|on| Some(Trouble::of(&on.host, on.reason.clone()?)));
        let lost: Vec<Trouble> = lost.collect();
        match lost.is_empty() {
            true => anyhow::anyhow!("lab {:?}: no {what} on any host", self.name),
            false => refusal(&lost, &format!("\nthe others have no {what}")),
        }
    }

    fn of_node(&self, name: &str) -> Option<usize> {
        let has = |on: &OnHost| on.lab.iter().flat_map(|lab| &lab.nodes).any(|n| n.name == name);
        self.found.iter().position(has)
    }

    fn of_switch(&self, name: &str) -> Option<usize> {
        let has = |on: &OnHost| on.lab.iter().flat_map(|lab| &lab.switches).any(|s| s.name == name);
        self.found.iter().position(has)
    }

    fn links(&self) -> Vec<Link<'_>> {
        let mut all: BTreeMap<&str, Link<'_>> = BTreeMap::new();
        for (host, on) in self.found.iter().enumerate() {
            for status in on.lab.iter().flat_map(|lab| &lab.links) {
                add(&mut all, host, status);
            }
        }
        all.into_values().collect()
    }

    /// The link of this name, with this end, or between these two; with an end, if that is what was named.
    fn link(&self, asked: &str) -> Result<(Link<'_>, Option<usize>)> {
        let mut links = self.links();
        let word = asked.strip_prefix("link:").unwrap_or(asked);
        if let Some(at) = links.iter().position(|link| link.name == word) {
            return Ok((links.swap_remove(at), None));
        }
        let end =
            |link: &Link<'_>| link.ends.iter().position(|end| *end == word && end.contains(':'));
        if let Some((at, end)) = links.iter().enumerate().find_map(|(at, l)| Some((at, end(l)?))) {
            return Ok((links.swap_remove(at), Some(end)));
        }
        let mut between: Vec<Link<'_>> =
            links.into_iter().filter(|link| joins(link, word)).collect();
        match between.len() {
            1 => Ok((between.remove(0), None)),
            0 => Err(self.not_found(&format!("link {asked:?}"))),
            _ => {
                let names: Vec<&str> = between.iter().map(|link| link.name).collect();
                bail!("link {asked:?}: which of {}?", names.join(", "))
            }
        }
    }

    /// Has a host run a verb, with this process's output.
    fn run(&self, host: usize, words: Vec<String>) -> Result<i32> {
        let Some(host) = self.hosts.list.get(host) else {
            bail!("host {host} is not in the hosts file")
        };
        let asked = Ask::Run { lab: self.name.clone(), words };
        remote::enter(host, &asked, Input::None).map_err(|trouble| refusal(&[trouble], ""))
    }
}

fn add<'l>(all: &mut BTreeMap<&'l str, Link<'l>>, host: usize, status: &'l LinkStatus) {
    let ends = [0, 1].map(|end| status.ends[end].as_str());
    let link = Link { name: &status.name, ends, of: [None; 2] };
    let known = all.entry(&status.name).or_insert(link);
    for (end, text) in ends.into_iter().enumerate() {
        if text != "nowhere" {
            (known.ends[end], known.of[end]) = (text, Some(host));
        }
    }
}

/// Whether a link is between two nodes or switches, which are written as one word.
fn joins(link: &Link<'_>, words: &str) -> bool {
    let is = |end: &str, word: &str| {
        let word = word.trim();
        end == word || end.split_once(':').is_some_and(|(node, _)| node == word)
    };
    let both = |a: &str, b: &str| {
        let [first, second] = link.ends;
        (is(first, a) && is(second, b)) || (is(first, b) && is(second, a))
    };
    let split = ["--", ",", " ", "-"].into_iter().flat_map(|mark| {
        let places = words.match_indices(mark);
        places.map(move |(at, mark)| (&words[..at], &words[at + mark.len()..]))
    });
    split.into_iter().any(|(a, b)| both(a, b))
}

/// `netloom link set LINK --on HOSTS`: each host changes what its end sends.
pub(crate) fn set_link(
    lab: Option<&str>,
    link: &str,
    change: &LinkSettings,
    on: &Path,
) -> Result<i32> {
    let lab = Lab::find(lab, on)?;
    let (found, named) = lab.link(link)?;
    let end = change.end.or(named);
    if end.is_some_and(|end| end > 1) {
        bail!("a link has two ends, 0 and 1");
    }
    // Impairments are at the sender's side, a cable has two.
    let sides: Vec<usize> = match end {
        Some(end) if change.up.is_none() => vec![end],
        _ => vec![0, 1],
    };
    let hosts: BTreeSet<usize> = sides.iter().filter_map(|side| found.of[*side]).collect();
    // An end that no host shows leads nowhere, or is on a host that does not answer.
    if sides.iter().any(|side| found.of[*side].is_none())
        && lab.found.iter().any(|on| on.reason.is_some())
    {
        return Err(lab.not_found(&format!("other end of link {:?}", found.name)));
    }
    let hosts: Vec<usize> = hosts.into_iter().collect();
    let of_hosts: Vec<&Host> = hosts.iter().filter_map(|at| lab.hosts.list.get(*at)).collect();
    let (mut remotes, mut troubles): (Vec<Remote>, Vec<Trouble>) = (vec![], vec![]);
    for connected in super::verbs::connect(&of_hosts) {
        match connected {
            Ok(remote) => remotes.push(remote),
            Err(trouble) => troubles.push(trouble),
        }
    }
    if !troubles.is_empty() {
        return Err(refusal(&troubles, "\nnothing was changed"));
    }
    let asked = |at: usize| {
        let own = end.is_none_or(|end| found.of[end] == Some(hosts[at]));
        let change = match own {
            true => LinkSettings { end, ..change.clone() },
            false => LinkSettings { up: change.up, ..LinkSettings::default() },
        };
        Ask::SetLink { lab: lab.name.clone(), link: found.name.to_owned(), change }
    };
    let done = each(&mut remotes, |at, remote| match remote.ask(&asked(at))? {
        Told::Changed {} => Ok(()),
        Told::NoLab {} => Err(Trouble::of(&remote.host, "its lab has ended")),
        _ => Err(remote.odd()),
    });
    let failed: Vec<Trouble> = done.into_iter().filter_map(Result::err).collect();
    if failed.is_empty() { Ok(0) } else { Err(refusal(&failed, "")) }
}

/// `netloom logs --on HOSTS`
pub(crate) fn logs(lab: Option<&str>, args: &Logs, on: &Path) -> Result<i32> {
    let lab = Lab::find(lab, on)?;
    let mut by_host: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for node in &args.nodes {
        let host = lab.of_node(node).ok_or_else(|| lab.not_found(&format!("node {node:?}")))?;
        by_host.entry(host).or_default().push(node.clone());
    }
    if args.nodes.is_empty() {
        let with = (0..lab.found.len()).filter(|at| lab.found[*at].lab.is_some());
        by_host.extend(with.map(|host| (host, vec![])));
    }
    if args.follow && by_host.len() > 1 {
        let words = "--follow shows nodes of one host at a time; name them";
        return Err(crate::Usage(words.into()).into());
    }
    let mut code = 0;
    for (host, nodes) in by_host {
        let mut words = vec!["logs".to_owned()];
        words.extend(args.follow.then(|| "--follow".to_owned()));
        words.extend(args.timestamps.then(|| "--timestamps".to_owned()));
        words.extend(args.lines.map(|lines| format!("--lines={lines}")));
        words.push("--".to_owned());
        words.extend(nodes);
        code = code.max(lab.run(host, words)?);
    }
    Ok(code)
}

/// `netloom capture TARGET --on HOSTS`: on the host of the target. Its words go there as they were given.
pub(crate) fn capture(lab: Option<&str>, args: &Capture, on: &Path) -> Result<i32> {
    if args.all {
        let words = "--all captures on one host; name what to capture";
        return Err(crate::Usage(words.into()).into());
    }
    let lab = Lab::find(lab, on)?;
    let mut host = None;
    for target in &args.targets {
        let found = of_target(&lab, target)?;
        match host {
            Some((first, at)) if at != found => {
                let [a, b] = [at, found].map(|at| lab.hosts.list[at].name.as_str());
                bail!(
                    "{first:?} is on host {a:?} and {target:?} on host {b:?}; capture them one by one"
                );
            }
            _ => host = Some((target, found)),
        }
    }
    let Some((_, host)) = host else { bail!("nothing to capture") };
    lab.run(host, own_words(std::env::args().skip(1)))
}

/// The host of what is to be captured.
fn of_target(lab: &Lab, target: &str) -> Result<usize> {
    let (kind, name) = target.split_once(':').unwrap_or(("", target));
    let switch = |name: &str| lab.of_switch(name.split('/').next().unwrap_or(name));
    let found = match kind {
        "host" => bail!("{target:?}: capture interfaces of a host on that host"),
        "switch" => switch(name),
        // A link across is seen by both of its hosts.
        "link" => lab.link(target)?.0.of.into_iter().flatten().next(),
        "" => lab.of_node(name).or_else(|| switch(name)),
        node => lab.of_node(node),
    };
    match found {
        Some(host) => Ok(host),
        None => match lab.link(target) {
            Ok((link, _)) => {
                link.of.into_iter().flatten().next().ok_or_else(|| lab.not_found(target))
            }
            Err(_) => Err(lab.not_found(&format!("{target:?} to capture"))),
        },
    }
}

/// The words of a command line for the host: without the hosts file and the lab, which the host is told otherwise.
pub(super) fn own_words(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut left = vec![];
    let mut words = words;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => {
                left.push(word);
                left.extend(words);
                break;
            }
            "--on" | "-l" | "--lab" => drop(words.next()),
            glued if ["--on=", "--lab="].iter().any(|flag| glued.starts_with(flag)) => {}
            glued if glued.starts_with("-l") && !glued.starts_with("--") => {}
            _ => left.push(word),
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &str, ends: [&str; 2]) -> LinkStatus {
        let text = serde_json::json!({"name": name, "ends": ends, "up": true, "wire": null});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_link_across_is_put_together_from_both_hosts() {
        let east = status("r-east:eth1--r-west:eth0", ["r-east:eth1", "nowhere"]);
        let west = status("r-east:eth1--r-west:eth0", ["nowhere", "r-west:eth0"]);
        let mut all = BTreeMap::new();
        add(&mut all, 0, &east);
        add(&mut all, 2, &west);
        let link = all.into_values().next().unwrap();
        assert_eq!((link.ends, link.of), (["r-east:eth1", "r-west:eth0"], [Some(0), Some(2)]));
        for words in ["r-east,r-west", "r-west r-east", "r-east-r-west", "r-west--r-east:eth1"] {
            assert!(joins(&link, words), "{words}");
        }
        for words in ["r-east,r-north", "r-east", "r,east-r-west"] {
            assert!(!joins(&link, words), "{words}");
        }
    }

    #[test]
    fn the_host_gets_the_words_without_hosts_and_lab() {
        let own = |line: &str| own_words(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(own("capture -l campus h1 --on hosts.yaml -w -"), "capture h1 -w -");
        assert_eq!(own("--lab=x capture --on=h -lx h1 -c 3"), "capture h1 -c 3");
        assert_eq!(own("capture -- --on h1"), "capture -- --on h1");
    }
}
