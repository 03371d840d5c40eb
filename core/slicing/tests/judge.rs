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

/// What is the same however the switch counts buffers.
fn plain(message: Message) -> Message {
    match message {
        Message::PacketIn(mut packet) => {
            packet.buffer = 0;
            Message::PacketIn(packet)
        }
        message => message,
    }
}

/// A field that slices look at, and that a slice changed, so that the packet is no longer of it.
fn changed(
    slicing: &Slicing,
    owner: SliceId,
    before: &FlowKey,
    after: &FlowKey,
) -> Result<(), Field> {
    let own = slicing.region(owner).unwrap();
    let looked = own.cubes.iter().flat_map(|cube| cube.constrained());
    let mut looked = looked.filter(|field| *field != Field::InPort);
    match looked.find(|field| before.get(*field) != after.get(*field)) {
        Some(field) if !own.has(after) => Err(field),
        _ => Ok(()),
    }
}

/// What is wrong with a frame that leaves, if something is.
fn leaves(
    slicing: &Slicing,
    owner: Option<SliceId>,
    event: &Event,
    frame: &netloom_pipeline::Frame,
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
        changed(slicing, owner, &before, &after).map_err(|field| {
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
    let mut moved = 0;
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
            leaves(&slicing, owner, event, frame)?;
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
