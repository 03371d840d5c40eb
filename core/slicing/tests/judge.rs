//! What must hold of any case: packets stay in their slices, and slices do not change each other.

use netloom_openflow::{Field, Message};
use netloom_pipeline::FlowKey;
use netloom_slicing::{SliceId, Slicing, Space};

use crate::integration::cases::{Case, Event};
use crate::integration::lab::Lab;

/// The key of a frame at a port.
pub fn key(port: u32, frame: &[u8]) -> FlowKey {
    let (_, mut key) = netloom_pipeline::headers::parse(frame);
    key.set(Field::InPort, u128::from(port));
    key
}

/// The part that does not depend on the switch's numbers of buffers.
fn plain(message: Message) -> Message {
    match message {
        Message::PacketIn(mut packet) => {
            packet.buffer = 0;
            Message::PacketIn(packet)
        }
        message => message,
    }
}

/// A field that slices look at, and that a slice changed, so that the packet is no longer of it. On its way through
/// several tables or groups a packet can become another of the slice where it came in, and leave as that one would.
fn changed(
    slicing: &Slicing,
    owner: SliceId,
    before: &FlowKey,
    after: &FlowKey,
    by_one_rule: bool,
) -> Result<(), Field> {
    let own = slicing.region(owner).unwrap();
    let looked = own.cubes.iter().flat_map(|cube| cube.constrained());
    let mut looked = looked.filter(|field| *field != Field::InPort);
    // Fields of different protocols share a place in a key: an address of IPv4 is none of ARP.
    let value = |key: &FlowKey, field: Field| key.may_have(field).then(|| key.get(field));
    let mut came_in = *after;
    came_in.set(Field::InPort, before.get(Field::InPort));
    let has = own.has(after) || !by_one_rule && own.has(&came_in);
    match looked.find(|field| value(before, *field) != value(after, *field)) {
        Some(field) if !has => Err(field),
        _ => Ok(()),
    }
}

/// The fault of a frame that leaves, if there is one.
fn leaves(
    slicing: &Slicing,
    owner: Option<SliceId>,
    event: &Event,
    frame: &netloom_pipeline::Frame,
    by_one_rule: bool,
) -> Result<(), String> {
    let Some(owner) = owner else {
        return Err(format!("nobody's {event:?} leaves as {frame:?}"));
    };
    let spaces = &slicing.slice(owner).unwrap().spaces;
    let own = |space: &Space| space.ports.as_ref().is_none_or(|all| all.contains(&frame.port));
    if !spaces.iter().any(own) {
        return Err(format!("{owner:?}'s {event:?} leaves by {}", frame.port));
    }
    let after = key(frame.port.0, &frame.bytes);
    if let Event::Frame(port, bytes) = event {
        let before = key(*port, bytes);
        changed(slicing, owner, &before, &after, by_one_rule).map_err(|field| {
            format!("{owner:?}'s {event:?} with another {field} leaves its space as {frame:?}")
        })?;
    }
    let there = slicing.owner(&after);
    if there.is_some_and(|there| there != owner) {
        return Err(format!("{owner:?}'s {event:?} leaves as {there:?}'s {frame:?}"));
    }
    Ok(())
}

/// Packets stay in their slices: what is wrong, if something is.
pub fn strays(case: &Case) -> Result<u64, String> {
    let mut lab = Lab::with(case.version, case.slices.clone(), 0);
    let slicing = crate::integration::lab::slicing(case.slices.clone());
    let (mut moved, by_one_rule) = (0, case.by_one_rule());
    for event in &case.events {
        let owner = match event {
            Event::Said(slice, message) => {
                lab.frames.clear();
                lab.told.clear();
                let answers = lab.ask(*slice, message.clone());
                if let Some(other) = answers
                    .iter()
                    .find(|one| !matches!(one, Message::Error(_) | Message::PacketIn(_)))
                {
                    return Err(format!("{message:?} is answered by {other:?}"));
                }
                for id in slicing.ids().filter(|id| id != slice) {
                    if let Some(told) = lab.told.remove(&id) {
                        return Err(format!("{id:?} is told {told:?} after {message:?}"));
                    }
                }
                Some(*slice)
            }
            Event::Frame(port, bytes) => {
                lab.told.clear();
                lab.frame(*port, bytes);
                let owner = slicing.owner(&key(*port, bytes));
                for id in slicing.ids().filter(|id| Some(*id) != owner) {
                    if let Some(told) = lab.told.remove(&id) {
                        return Err(format!("{id:?} is told {told:?} of {owner:?}'s {event:?}"));
                    }
                }
                owner
            }
        };
        for frame in &lab.frames {
            moved += 1;
            leaves(&slicing, owner, event, frame, by_one_rule)?;
        }
    }
    Ok(moved)
}

/// Others change nothing of what happens to a slice's packets: what is wrong, if something is.
pub fn influence(case: &Case, whose: SliceId) -> Result<u64, String> {
    let slicing = crate::integration::lab::slicing(case.slices.clone());
    let mut shared = Lab::with(case.version, case.slices.clone(), 0);
    let mut alone = Lab::with(case.version, case.slices.clone(), 0);
    let mut seen = 0;
    for event in &case.events {
        match event {
            Event::Said(slice, message) if *slice == whose => {
                let both = [&mut shared, &mut alone].map(|lab| {
                    lab.frames.clear();
                    let told = lab.ask(whose, message.clone());
                    (told.into_iter().map(plain).collect::<Vec<_>>(), lab.frames.clone())
                });
                if both[0] != both[1] {
                    return Err(format!("{message:?}: {both:?}"));
                }
            }
            Event::Said(slice, message) => drop(shared.ask(*slice, message.clone())),
            Event::Frame(port, bytes) => {
                let own = slicing.owner(&key(*port, bytes)) == Some(whose);
                if !own {
                    shared.frame(*port, bytes);
                    continue;
                }
                let both = [&mut shared, &mut alone].map(|lab| {
                    lab.told.clear();
                    let frames = lab.frame(*port, bytes);
                    let told = lab.told(whose);
                    (told.into_iter().map(plain).collect::<Vec<_>>(), frames)
                });
                seen += u64::try_from(both[1].0.len() + both[1].1.len()).unwrap();
                if both[0] != both[1] {
                    return Err(format!("{event:?}: {both:?}"));
                }
            }
        }
    }
    Ok(seen)
}
