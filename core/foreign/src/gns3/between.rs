//! Filters of links from switches with VLANs to the host's network. Such a switch is in shared memory, where such a link has no
//! wire, so a bridge is put between the two, which passes tags of VLANs.

use crate::draft::{Draft, End, Link, Switch};

/// Puts bridges where links need them.
pub(super) fn bridges(draft: &mut Draft) {
    let mut place = 0;
    while let Some(link) = draft.links.get(place) {
        let is_shaped = link.impairments.iter().any(|keys| !keys.is_empty());
        let side = (0..2).find(|side| {
            is_door(&link.ends[*side]) && is_in_shared_memory(draft, &link.ends[1 - side])
        });
        place += 1;
        if let Some(side) = side.filter(|_| is_shaped) {
            let name = draft.free_name("between");
            draft.switches.push(Switch::named(&name));
            let shaped = &mut draft.links[place - 1];
            let mut ends = [End::port(&name), End::port(&name)];
            ends[side] = std::mem::replace(&mut shaped.ends[side], End::port(&name));
            let behind = Link { ends, item: shaped.item, ..Link::default() };
            draft.links.insert(place, behind);
        }
    }
}

fn is_door(end: &End) -> bool {
    end.at == "internet" || end.at.starts_with("host:")
}

fn is_in_shared_memory(draft: &Draft, end: &End) -> bool {
    let is_shm =
        |switch: &Switch| switch.keys.iter().any(|(key, kind)| *key == "kind" && kind == "shm");
    draft.switches.iter().any(|switch| switch.name == end.at && is_shm(switch))
}
