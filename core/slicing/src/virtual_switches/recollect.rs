//! What a later process has to know, as records: all of it, some at a time, and what changes.

use super::rules::Rules;
use super::{Member, VirtualSwitches};
use crate::SliceId;
use crate::memory::Note;

/// How far all that is to be remembered has been written. What changes meanwhile is noted beside, and may be read in any
/// order with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    part: Part,
    /// The next slice, and the next number of what is written of it.
    slice: u16,
    next: u64,
}

/// The next part to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// What switch it is, and the names of all slices.
    #[default]
    Names,
    Ports,
    Groups,
    Meters,
    Rules,
    Nothing,
}

impl Part {
    fn next(self) -> Part {
        match self {
            Part::Names => Part::Ports,
            Part::Ports => Part::Groups,
            Part::Groups => Part::Meters,
            Part::Meters => Part::Rules,
            Part::Rules | Part::Nothing => Part::Nothing,
        }
    }
}

/// Rules, groups or meters of a slice that are looked at at once.
const AT_ONCE: usize = 64;

impl VirtualSwitches {
    /// Begins to collect what a later process has to know; returns all of it so far.
    pub fn remember(&mut self) -> Vec<u8> {
        self.note_changes();
        let (mut bytes, mut written) = (vec![], Written::default());
        while self.write_some(&mut written, usize::MAX, &mut bytes) {}
        bytes
    }

    /// Begins to collect what changes.
    pub fn note_changes(&mut self) {
        self.rules.notes.begin();
    }

    /// What a later process has to know of what has changed since.
    pub fn take_notes(&mut self) -> Vec<u8> {
        self.rules.notes.take()
    }

    /// Writes more of all that a later process has to know, about this many bytes; returns whether more is to be written.
    pub fn write_some(&self, written: &mut Written, most: usize, to: &mut Vec<u8>) -> bool {
        let start = to.len();
        while written.part != Part::Nothing && to.len() - start < most {
            if written.part == Part::Names {
                // Names come first: a reader refuses records of a slice without one.
                self.write_names(to);
                written.part = Part::Ports;
                continue;
            }
            let slice = SliceId(written.slice);
            let Some(member) = self.members.get(usize::from(slice.0)) else {
                *written = Written { part: written.part.next(), slice: 0, next: 0 };
                continue;
            };
            let end = start.saturating_add(most);
            match self.write_part(slice, member, written, (&mut *to, end)) {
                Some(next) => written.next = next,
                None => (written.slice, written.next) = (written.slice + 1, 0),
            }
        }
        written.part != Part::Nothing
    }

    fn write_names(&self, to: &mut Vec<u8>) {
        let last = [self.rules.last, u64::from(self.groups), u64::from(self.meters)];
        let datapath = self.features.datapath_id;
        Note::Begin { datapath, last }.write(self.version, to);
        for id in self.slicing.ids() {
            if let Some(slice) = self.slicing.slice(id) {
                Note::Slice { slice: id, name: &slice.name }.write(self.version, to);
            }
        }
    }

    /// Writes some of a part of what is known of a slice, until there are this many bytes; returns where it goes on.
    fn write_part(
        &self,
        slice: SliceId,
        member: &Member,
        written: &Written,
        (to, end): (&mut Vec<u8>, usize),
    ) -> Option<u64> {
        self.slicing.slice(slice)?;
        let next = written.next;
        let from = u32::try_from(next).unwrap_or(u32::MAX);
        let mut last = None;
        match written.part {
            Part::Names | Part::Nothing => {}
            Part::Ports => self.write_ports(slice, member, to),
            Part::Groups => {
                for (number, kept) in member.groups.from(from).take(AT_ONCE) {
                    let note = Note::Group { slice, real: kept.real, said: &kept.said };
                    note.write(self.version, to);
                    last = Some(u64::from(number));
                    if to.len() >= end {
                        break;
                    }
                }
            }
            Part::Meters => {
                for (number, kept) in member.meters.from(from).take(AT_ONCE) {
                    let note = Note::Meter { slice, real: kept.real, said: &kept.said };
                    note.write(self.version, to);
                    last = Some(u64::from(number));
                    if to.len() >= end {
                        break;
                    }
                }
            }
            Part::Rules => {
                for (number, rule) in self.rules.range(slice, next..=u64::MAX).take(AT_ONCE) {
                    if rule.dying.is_none() {
                        Rules::write(number, rule, self.version, to);
                    }
                    last = Some(number);
                    if to.len() >= end {
                        break;
                    }
                }
            }
        }
        last.map(|last| last + 1)
    }

    fn write_ports(&self, slice: SliceId, member: &Member, to: &mut Vec<u8>) {
        for (real, seen) in member.numbers() {
            Note::Port { slice, real, seen }.write(self.version, to);
        }
        for (real, config) in &member.port_config {
            Note::PortConfig { slice, real: *real, config: *config }.write(self.version, to);
        }
        if let Some(meter) = member.rate {
            Note::Rate { slice, meter }.write(self.version, to);
        }
    }
}
