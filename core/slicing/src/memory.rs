//! What a later slicer has to know of a switch, as records: what each slice's rules, groups and meters said, and which
//! numbers were given.
//!
//! The switch's own entries do not say it: a rule is narrowed, and may be many of them. A later record replaces an
//! earlier one about the same thing (see `netloom_openflow::records`). The first one says which switch it is.

use std::collections::BTreeMap;

use netloom_openflow::flow::FlowMod;
use netloom_openflow::port::PortConfig;
use netloom_openflow::records::{self, Reader, Unsayable, Writer};
use netloom_openflow::{GroupMod, Message, MeterMod, PortNumber, Version};

use crate::SliceId;

/// What the first record says.
const MAGIC: u64 = u64::from_le_bytes(*b"netloomS");
const FORMAT: u32 = 2;

/// Known state of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// The switch's number.
    pub datapath: u64,
    /// The version that it spoke.
    pub version: Version,
    /// The last numbers given to rules, groups and meters.
    pub(crate) last: [u64; 3],
    pub(crate) slices: BTreeMap<SliceId, Remembered>,
    pub(crate) rules: BTreeMap<u64, RuleSaid>,
}

/// A slice, as it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Remembered {
    pub(crate) name: String,
    /// Real ports, and the numbers that the controller sees.
    pub(crate) ports: BTreeMap<PortNumber, PortNumber>,
    pub(crate) port_config: BTreeMap<PortNumber, PortConfig>,
    /// Groups and meters: the slice's number, the real one, and what the slice said.
    pub(crate) groups: BTreeMap<u32, (u32, GroupMod)>,
    pub(crate) meters: BTreeMap<u32, (u32, MeterMod)>,
    /// The meter of its rate.
    pub(crate) rate: Option<u32>,
}

/// A rule, as its controller said it, and what entries of it that are gone had counted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuleSaid {
    pub(crate) slice: SliceId,
    pub(crate) said: FlowMod,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// One thing to remember.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note<'a> {
    Begin { datapath: u64, last: [u64; 3] },
    Slice { slice: SliceId, name: &'a str },
    Port { slice: SliceId, real: PortNumber, seen: PortNumber },
    PortConfig { slice: SliceId, real: PortNumber, config: PortConfig },
    Rule { number: u64, slice: SliceId, said: &'a FlowMod, packets: u64, bytes: u64 },
    NoRule(u64),
    Group { slice: SliceId, real: u32, said: &'a GroupMod },
    NoGroup { slice: SliceId, group: u32 },
    Meter { slice: SliceId, real: u32, said: &'a MeterMod },
    NoMeter { slice: SliceId, meter: u32 },
    Rate { slice: SliceId, meter: u32 },
}

/// A number of a slice.
fn of(w: &mut Writer<'_>, slice: SliceId, number: u32) {
    w.u32(u32::from(slice.0));
    w.u32(number);
}

impl Note<'_> {
    /// Appends its record.
    pub(crate) fn write(&self, version: Version, to: &mut Vec<u8>) {
        // The request came as a message of this version, so it can be encoded again.
        let _ = records::put(to, |w| self.body(version, w));
    }

    fn body(&self, version: Version, w: &mut Writer<'_>) -> Result<u8, Unsayable> {
        // Kinds lie in files: what a number means stays.
        Ok(match self {
            Note::Begin { datapath, last } => {
                w.u64(MAGIC);
                w.u32(FORMAT);
                w.u32(u32::from(version.number()));
                w.u64(*datapath);
                w.all(last);
                0
            }
            Note::Slice { slice, name } => {
                w.u32(u32::from(slice.0));
                w.text(name);
                1
            }
            Note::Port { slice, real, seen } => {
                of(w, *slice, real.0);
                w.u32(seen.0);
                2
            }
            Note::PortConfig { slice, real, config } => {
                of(w, *slice, real.0);
                w.u32(config.0);
                3
            }
            Note::Rule { number, slice, said, packets, bytes } => {
                w.u32(u32::from(slice.0));
                w.all(&[*number, *packets, *bytes]);
                w.message(version, &Message::FlowMod((*said).clone()))?;
                4
            }
            Note::NoRule(number) => {
                w.u64(*number);
                5
            }
            Note::Group { slice, real, said } => {
                of(w, *slice, *real);
                w.message(version, &Message::GroupMod((*said).clone()))?;
                6
            }
            Note::NoGroup { slice, group } => {
                of(w, *slice, *group);
                7
            }
            Note::Meter { slice, real, said } => {
                of(w, *slice, *real);
                w.message(version, &Message::MeterMod((*said).clone()))?;
                8
            }
            Note::NoMeter { slice, meter } => {
                of(w, *slice, *meter);
                9
            }
            Note::Rate { slice, meter } => {
                of(w, *slice, *meter);
                10
            }
        })
    }
}

const OTHER: &str = "a record has another message than its kind";

fn slice_of(r: &mut Reader<'_>) -> Result<SliceId, &'static str> {
    u16::try_from(r.u32()?).map(SliceId).map_err(|_| "there is no slice with this number")
}

impl Memory {
    /// Reads what was remembered; `None` if nothing was.
    ///
    /// # Errors
    /// With what is wrong.
    pub fn read(bytes: &[u8]) -> Result<Option<Memory>, String> {
        let mut memory: Option<Memory> = None;
        records::each(bytes, |_, kind, body| {
            let mut r = Reader(body);
            match &mut memory {
                None if kind == 0 => memory = Some(Memory::begin(&mut r)?),
                None => return Err("it begins in another way"),
                Some(memory) => memory.take(kind, &mut r)?,
            }
            if r.0.is_empty() { Ok(()) } else { Err("a record is longer than its length field") }
        })?;
        Ok(memory)
    }

    fn begin(r: &mut Reader<'_>) -> Result<Memory, &'static str> {
        if r.u64()? != MAGIC {
            return Err("it is not a slicer's memory");
        }
        if r.u32()? != FORMAT {
            return Err("it is of another version");
        }
        let version = u8::try_from(r.u32()?)
            .ok()
            .and_then(Version::from_number)
            .ok_or("it is of a version of OpenFlow that is not spoken")?;
        let (datapath, last) = (r.u64()?, r.all()?);
        let (slices, rules) = (BTreeMap::new(), BTreeMap::new());
        Ok(Memory { datapath, version, last, slices, rules })
    }

    fn take(&mut self, kind: u8, r: &mut Reader<'_>) -> Result<(), &'static str> {
        if kind == 5 {
            let number = r.u64()?;
            // Numbers are not given again, so one that is gone counts as well.
            self.last[0] = self.last[0].max(number);
            self.rules.remove(&number);
            return Ok(());
        }
        let slice = slice_of(r)?;
        if kind == 1 {
            self.slices.entry(slice).or_default().name = r.text()?;
            return Ok(());
        }
        if kind == 4 {
            return self.take_rule(slice, r);
        }
        let known = self.slices.get_mut(&slice).ok_or("a slice is not named")?;
        let number = r.u32()?;
        match kind {
            2 => drop(known.ports.insert(PortNumber(number), PortNumber(r.u32()?))),
            3 => drop(known.port_config.insert(PortNumber(number), PortConfig(r.u32()?))),
            6 => {
                let (_, Message::GroupMod(said)) = r.message()? else { return Err(OTHER) };
                self.last[1] = self.last[1].max(u64::from(number));
                known.groups.insert(said.group, (number, said));
            }
            7 => drop(known.groups.remove(&number)),
            8 => {
                let (_, Message::MeterMod(said)) = r.message()? else { return Err(OTHER) };
                self.last[2] = self.last[2].max(u64::from(number));
                known.meters.insert(said.meter, (number, said));
            }
            9 => drop(known.meters.remove(&number)),
            10 => {
                self.last[2] = self.last[2].max(u64::from(number));
                known.rate = Some(number);
            }
            _ => return Err("it has a record of an unknown kind"),
        }
        Ok(())
    }

    fn take_rule(&mut self, slice: SliceId, r: &mut Reader<'_>) -> Result<(), &'static str> {
        let [number, packets, bytes] = r.all()?;
        let (_, Message::FlowMod(said)) = r.message()? else { return Err(OTHER) };
        self.last[0] = self.last[0].max(number);
        self.rules.insert(number, RuleSaid { slice, said, packets, bytes });
        Ok(())
    }

    /// These, each at the number that the slice of its name had, because the switch's entries have it. Those that are
    /// new get numbers that nobody has.
    pub fn placed<T>(&self, all: Vec<T>, name: impl Fn(&T) -> &str) -> Vec<Option<T>> {
        let mut placed: Vec<Option<T>> = vec![];
        let mut new = vec![];
        for one in all {
            let known = self.slices.iter().find(|(_, slice)| slice.name == name(&one));
            let Some((SliceId(number), _)) = known else {
                new.push(one);
                continue;
            };
            let at = usize::from(*number);
            if placed.len() <= at {
                placed.resize_with(at + 1, || None);
            }
            if let Some(place) = placed.get_mut(at) {
                *place = Some(one);
            }
        }
        for one in new {
            match placed.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(one),
                None => placed.push(Some(one)),
            }
        }
        placed
    }

    /// How many rules are remembered.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }
}

/// Records, collected until they are written to a file.
#[derive(Debug)]
pub(crate) struct Notes {
    version: Version,
    /// None while nobody asks.
    bytes: Option<Vec<u8>>,
}

impl Notes {
    pub(crate) fn new(version: Version) -> Notes {
        Notes { version, bytes: None }
    }

    /// Collects from now on.
    pub(crate) fn begin(&mut self) {
        self.bytes = Some(vec![]);
    }

    pub(crate) fn put(&mut self, note: &Note<'_>) {
        if let Some(bytes) = &mut self.bytes {
            note.write(self.version, bytes);
        }
    }

    /// The records collected since.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.bytes.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
