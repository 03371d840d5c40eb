//! The text of a lab file from a [`Lab`]: the inverse of [`parse`](crate::parse).
//!
//! What is the default is left out, keys are in the order of their tables, and what is short stands on one line. Reading the
//! text gives the same lab, except for how it is numbered ([`Lab::numbered_as`], the pool's variant).

mod link;
mod node;
mod pin;
mod slice;
mod step;
mod switch;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use self::node::size;
use self::tree::{Body, Yaml};
use crate::keys::{LAB, POOL, RECORD};
use crate::lab::{End, Lab, Pool, Record};

/// The lab file of a lab. Each line of `head` becomes a comment above it.
pub fn write(lab: &Lab, head: &str) -> String {
    let mut body = Body::default();
    body.put("name", Yaml::text(&lab.name));
    body.put("nodes", node::nodes(lab));
    let switches = lab.switches.iter().map(|of| (of.name.clone(), switch::switch(of)));
    body.some("switches", Yaml::Block(switches.collect()));
    let links = lab.links.iter().map(|of| link::link(lab, of));
    body.some("links", Yaml::Items(links.collect()));
    body.some("routing", routing(lab));
    let slices = lab.slices.iter().map(|of| (of.name.clone(), slice::slice(of)));
    body.some("slices", Yaml::Block(slices.collect()));
    body.some("expect", Yaml::Items(lab.expect.iter().map(step::step).collect()));
    body.some("pool", pool(&lab.pool));
    body.some("record", lab.record.map_or_else(Yaml::none, record));
    if has_loops(lab) {
        body.put("loops", Yaml::word("allowed"));
    }
    body.some("place", Yaml::Block(lab.place.iter().map(pin::pin).collect()));
    let place = |(name, at): (&String, &[i32; 2])| {
        (name.clone(), Yaml::List(at.iter().map(Yaml::word).collect()))
    };
    body.some("x-layout", Yaml::Block(lab.layout.iter().map(place).collect()));
    let comments = head.lines().map(|line| format!("# {line}\n"));
    comments.chain([body.in_order(&LAB).file()]).collect()
}

fn routing(lab: &Lab) -> Yaml {
    match (lab.routing, lab.ecmp) {
        (true, true) => Yaml::none(),
        (false, true) => Yaml::word("none"),
        (routing, false) => {
            let mut body = Body::default();
            if !routing {
                body.put("mode", Yaml::word("none"));
            }
            body.put("ecmp", Yaml::word("false"));
            Yaml::Map(body.0)
        }
    }
}

fn pool(pool: &Pool) -> Yaml {
    let (mut body, plain) = (Body::default(), Pool::usual());
    let word = |net: Option<String>| net.map_or_else(|| Yaml::word("none"), Yaml::plain);
    if pool.ipv4 != plain.ipv4 {
        body.put("ipv4", word(pool.ipv4.map(|net| net.to_string())));
    }
    if pool.ipv6 != plain.ipv6 {
        body.put("ipv6", word(pool.ipv6.map(|net| net.to_string())));
    }
    body.in_order(&POOL)
}

fn record(record: Record) -> Yaml {
    if record.keep == Record::USUAL {
        return Yaml::word("true");
    }
    let mut body = Body::default();
    body.put("keep", Yaml::plain(size(record.keep)));
    body.in_order(&RECORD)
}

/// Whether links between switches form a loop.
fn has_loops(lab: &Lab) -> bool {
    let mut root: Vec<usize> = (0..lab.switches.len()).collect();
    let find = |root: &[usize], mut at: usize| {
        while root[at] != at {
            at = root[at];
        }
        at
    };
    for link in &lab.links {
        let [End::Switch { switch: a }, End::Switch { switch: b }] = link.ends else { continue };
        let (a, b) = (find(&root, a), find(&root, b));
        if a == b {
            return true;
        }
        root[a] = b;
    }
    false
}

/// The nodes that live in each node, and under `None` those that live in no other.
fn children(lab: &Lab) -> BTreeMap<Option<usize>, Vec<usize>> {
    let mut all: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for (at, node) in lab.nodes.iter().enumerate() {
        all.entry(node.parent.map(|parent| parent.get())).or_default().push(at);
    }
    all
}
