//! Links, in the short form where they have nothing but ends.

use netloom_bridge::Mac;

use super::switch::prefixes;
use super::tree::{Body, Yaml};
use crate::impairment::text;
use crate::keys::{DIRECTION, LINK};
use crate::lab::{End, Lab, Link};

pub(super) fn link(lab: &Lab, link: &Link) -> Yaml {
    let ends = [0, 1].map(|side| end(lab, &link.ends[side]));
    let shown = Yaml::List(ends.iter().map(Yaml::text).collect());
    let keys = keys(lab, link, &ends);
    let by_end = |value: &dyn Fn(usize) -> Option<Yaml>| {
        let one = |side: usize| Some((keys[side].clone(), value(side)?));
        Yaml::Map((0..2).filter_map(one).collect())
    };
    let mut body = Body::default();
    body.put("ends", shown.clone());
    body.text("name", link.name.as_deref());
    body.some("addresses", addresses(link, &by_end));
    let mac = |side: usize| Some(Yaml::text(Mac(link.macs[side]?).to_string()));
    body.some("mac", by_end(&mac));
    body.some("port", by_end(&|side| link.numbers[side].map(Yaml::word)));
    body.some("subnet", prefixes(&link.subnets));
    body.some("mtu", link.mtu.map_or_else(Yaml::none, Yaml::word));
    put_impairments(&mut body, link);
    if body.0.len() == 1 { shown } else { body.in_order(&LINK) }
}

fn end(lab: &Lab, end: &End) -> String {
    match end {
        End::Node { node, iface } => {
            let name = lab.nodes.get(*node).map_or("", |node| &node.name);
            iface.as_ref().map_or_else(|| name.to_owned(), |iface| format!("{name}:{iface}"))
        }
        End::Switch { switch } => {
            lab.switches.get(*switch).map_or_else(String::new, |switch| switch.name.clone())
        }
        End::Host { iface } => format!("host:{iface}"),
        End::Internet => "internet".to_owned(),
        End::Nowhere => "nowhere".to_owned(),
    }
}

/// How each end is named in the link's maps: in full where both are at one node.
fn keys(lab: &Lab, link: &Link, ends: &[String; 2]) -> [String; 2] {
    let node = |side: usize| match &link.ends[side] {
        End::Node { node, .. } => lab.nodes.get(*node).map(|node| node.name.clone()),
        _ => None,
    };
    let same = node(0) == node(1);
    [0, 1].map(|side| node(side).filter(|_| !same).unwrap_or_else(|| ends[side].clone()))
}

/// Makes a map by end from the value of each side.
type ByEnd<'a> = dyn Fn(&dyn Fn(usize) -> Option<Yaml>) -> Yaml + 'a;

fn addresses(link: &Link, by_end: &ByEnd<'_>) -> Yaml {
    let is_bare = |side: usize| link.bare[side] && matches!(link.ends[side], End::Node { .. });
    let nodes = link.ends.iter().filter(|end| matches!(end, End::Node { .. })).count();
    let bare = (0..2).filter(|side| is_bare(*side)).count();
    // The word stands for the whole link, so it says nothing of an end that has an address.
    if bare > 0 && bare == nodes && link.addresses.iter().all(Vec::is_empty) {
        return Yaml::word("none");
    }
    by_end(&|side| match &link.addresses[side][..] {
        [] => is_bare(side).then(|| Yaml::word("none")),
        all => Some(prefixes(all)),
    })
}

/// What both directions have once; the rest by the end that sends.
fn put_impairments(body: &mut Body, link: &Link) {
    let ways = [0, 1].map(|side| text::impairments(&link.impairments[side]));
    // A map of one direction replaces single keys, and has `mtu` as another one than the link's.
    let shared = |key: &str| key != "mtu" && ways[0].get(key) == ways[1].get(key);
    let word = |text: &String| Yaml::plain(text);
    for (key, value) in ways[0].iter().filter(|(key, _)| shared(key)) {
        body.put(key, word(value));
    }
    for (side, way) in ["a", "b"].into_iter().zip(&ways) {
        let mut of = Body::default();
        for (key, value) in way.iter().filter(|(key, _)| !shared(key)) {
            of.put(key, word(value));
        }
        body.some(side, of.in_order(&DIRECTION));
    }
}
