//! What a later process of a switch must know, as bytes: a sequence of records.
//!
//! Records are those of `netloom_openflow::records`. Entries, groups and meters are OpenFlow messages that add them, before
//! which stand times and counters. A later record replaces an earlier one about the same thing, so a file grows by what
//! changes.

use std::collections::BTreeMap;

use netloom_openflow::multipart::{MultipartReply, PortStats, segments};
use netloom_openflow::port::PortConfig;
use netloom_openflow::records::{self, Reader, Unsayable, Writer};
use netloom_openflow::switch::Fragments;
use netloom_openflow::{Message, PortNumber, Reply, Version};
use netloom_pipeline::{SavedGroup, SavedMeter, SavedRule, SavedSettings, Time};

/// What the first record says.
const MAGIC: u64 = u64::from_le_bytes(*b"netloomF");
const VERSION: u32 = 1;

/// Counters of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) number: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) used: Time,
}

/// A port as it was told, what a controller configured of it, and its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedPort {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) interface: String,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) config: PortConfig,
    pub(crate) created: Time,
    /// Packets received and sent, bytes received and sent.
    pub(crate) counters: [u64; 4],
}

impl SavedPort {
    pub(crate) fn stats(&self) -> PortStats {
        let [rx_packets, tx_packets, rx_bytes, tx_bytes] = self.counters;
        let empty = PortStats::new(PortNumber(self.number));
        PortStats { rx_packets, tx_packets, rx_bytes, tx_bytes, ..empty }
    }
}

/// One thing to save.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// The first one: which switch it is, and how many processes it has had.
    Begin {
        datapath: u64,
        processes: u64,
    },
    Rule(Box<SavedRule>),
    RuleGone(u64),
    Counts(Vec<Count>),
    Group(Box<SavedGroup>),
    GroupGone(u32),
    Meter(Box<SavedMeter>),
    MeterGone(u32),
    Port(SavedPort),
    PortGone(u32),
    Settings(Box<SavedSettings>),
}

/// What all records together say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) datapath: u64,
    pub(crate) processes: u64,
    pub(crate) rules: BTreeMap<u64, SavedRule>,
    pub(crate) groups: BTreeMap<u32, SavedGroup>,
    pub(crate) meters: BTreeMap<u32, SavedMeter>,
    pub(crate) ports: BTreeMap<u32, SavedPort>,
    pub(crate) settings: Option<SavedSettings>,
}

impl Record {
    /// Appends its bytes; without effect if it cannot be said in a message.
    ///
    /// # Errors
    /// It cannot.
    pub(crate) fn write(&self, to: &mut Vec<u8>) -> Result<(), &'static str> {
        records::put(to, |w| self.body(w))
    }

    /// Appends its body; returns its kind.
    fn body(&self, w: &mut Writer<'_>) -> Result<u8, Unsayable> {
        Ok(match self {
            Record::Begin { datapath, processes } => {
                w.u64(MAGIC);
                w.u32(VERSION);
                w.u64(*datapath);
                w.u64(*processes);
                0
            }
            Record::Rule(rule) => {
                w.all(&[rule.number, rule.created, rule.used, rule.packets, rule.bytes]);
                w.message(rule.version, &Message::FlowMod(rule.change.clone()))?;
                1
            }
            Record::RuleGone(number) => {
                w.u64(*number);
                2
            }
            Record::Counts(counts) => {
                for count in counts {
                    w.all(&[count.number, count.packets, count.bytes, count.used]);
                }
                3
            }
            Record::Group(group) => {
                w.all(&[group.created, group.counters.0, group.counters.1]);
                w.pairs(&group.buckets);
                w.message(Version::V13, &Message::GroupMod(group.change.clone()))?;
                4
            }
            Record::GroupGone(number) => {
                w.u32(*number);
                5
            }
            Record::Meter(meter) => {
                w.all(&[meter.created, meter.counters.0, meter.counters.1]);
                w.pairs(&meter.bands);
                w.message(Version::V13, &Message::MeterMod(meter.change.clone()))?;
                6
            }
            Record::MeterGone(number) => {
                w.u32(*number);
                7
            }
            Record::Port(port) => {
                w.u32(port.number);
                w.u32(port.config.0);
                w.u64(port.created);
                w.all(&port.counters);
                w.text(&port.name);
                w.text(&port.interface);
                w.bytes(port.mac.as_ref().map_or(&[], |mac| mac.as_slice()));
                8
            }
            Record::PortGone(number) => {
                w.u32(*number);
                9
            }
            Record::Settings(settings) => {
                settings_body(settings, w)?;
                10
            }
        })
    }

    fn read(kind: u8, body: &[u8]) -> Result<Record, &'static str> {
        let mut r = Reader(body);
        let record = match kind {
            0 => {
                if r.u64()? != MAGIC {
                    return Err("it is not the state of an OpenFlow switch");
                }
                if r.u32()? != VERSION {
                    return Err("it is of another version");
                }
                Record::Begin { datapath: r.u64()?, processes: r.u64()? }
            }
            1 => {
                let [number, created, used, packets, bytes] = r.all()?;
                let (version, Message::FlowMod(change)) = r.message()? else { return Err(OTHER) };
                let rule = SavedRule { number, version, change, created, used, packets, bytes };
                Record::Rule(Box::new(rule))
            }
            2 => Record::RuleGone(r.u64()?),
            3 => {
                let mut counts = vec![];
                while !r.0.is_empty() {
                    let [number, packets, bytes, used] = r.all()?;
                    counts.push(Count { number, packets, bytes, used });
                }
                Record::Counts(counts)
            }
            4 => {
                let [created, packets, bytes] = r.all()?;
                let buckets = r.pairs()?;
                let (_, Message::GroupMod(change)) = r.message()? else { return Err(OTHER) };
                let counters = (packets, bytes);
                Record::Group(Box::new(SavedGroup { change, created, counters, buckets }))
            }
            5 => Record::GroupGone(r.u32()?),
            6 => {
                let [created, packets, bytes] = r.all()?;
                let bands = r.pairs()?;
                let (_, Message::MeterMod(change)) = r.message()? else { return Err(OTHER) };
                let counters = (packets, bytes);
                Record::Meter(Box::new(SavedMeter { change, created, counters, bands }))
            }
            7 => Record::MeterGone(r.u32()?),
            8 => {
                let (number, config) = (r.u32()?, PortConfig(r.u32()?));
                let (created, counters) = (r.u64()?, r.all()?);
                let (name, interface) = (r.text()?, r.text()?);
                let mac = if r.0.is_empty() { None } else { Some(r.array()?) };
                let port = SavedPort { number, name, interface, mac, config, created, counters };
                Record::Port(port)
            }
            9 => Record::PortGone(r.u32()?),
            10 => Record::Settings(Box::new(read_settings(&mut r)?)),
            _ => return Err("it has a record of an unknown kind"),
        };
        // Another version may have more fields in it: half understood is not understood.
        if r.0.is_empty() { Ok(record) } else { Err("a record is longer than its length field") }
    }
}

const OTHER: &str = "a record has another message than its kind";

fn settings_body(settings: &SavedSettings, w: &mut Writer<'_>) -> Result<(), Unsayable> {
    w.u64(settings.numbers);
    w.u32(u32::from(u16::from(settings.fragments)));
    w.u32(u32::from(settings.election.is_some()));
    // Zero for none keeps the record's shape.
    w.u64(settings.election.unwrap_or(0));
    w.u32(u32::from(settings.features.is_some()));
    if let Some(features) = &settings.features {
        // Features of all tables may be longer than one message.
        let parts = segments(Version::V13, Reply::TableFeatures(features.clone()));
        for part in parts.map_err(|_| Unsayable)? {
            w.message(Version::V13, &Message::MultipartReply(part))?;
        }
    }
    Ok(())
}

fn read_settings(r: &mut Reader<'_>) -> Result<SavedSettings, &'static str> {
    let numbers = r.u64()?;
    let fragments = Fragments::from(u16::try_from(r.u32()?).unwrap_or(u16::MAX));
    let has_election = r.u32()? != 0;
    let election = Some(r.u64()?).filter(|_| has_election);
    let mut features = (r.u32()? != 0).then(Vec::new);
    while !r.0.is_empty() {
        let (_, Message::MultipartReply(part)) = r.message()? else { return Err(OTHER) };
        let (MultipartReply { body: Reply::TableFeatures(tables), .. }, Some(features)) =
            (part, &mut features)
        else {
            return Err(OTHER);
        };
        features.extend(tables);
    }
    if !matches!(fragments, Fragments::Normal | Fragments::Drop) {
        return Err("fragments are handled in an unknown way");
    }
    Ok(SavedSettings { numbers, fragments, election, features })
}

impl Content {
    /// Reads a file; also returns how many of its bytes are whole records.
    pub(crate) fn read(bytes: &[u8]) -> Result<(Content, usize), String> {
        let mut content = Content::default();
        let whole = records::each(bytes, |at, kind, body| {
            let record = Record::read(kind, body)?;
            if matches!(record, Record::Begin { .. }) != (at == 0) {
                return Err("it begins in another way");
            }
            content.take(record);
            Ok(())
        })?;
        Ok((content, whole))
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Begin { datapath, processes } => {
                (self.datapath, self.processes) = (datapath, processes);
            }
            Record::Rule(rule) => drop(self.rules.insert(rule.number, *rule)),
            Record::RuleGone(number) => drop(self.rules.remove(&number)),
            Record::Counts(counts) => {
                for count in counts {
                    // Counts of an entry that went later are without one.
                    if let Some(rule) = self.rules.get_mut(&count.number) {
                        (rule.packets, rule.bytes) = (count.packets, count.bytes);
                        rule.used = count.used;
                    }
                }
            }
            Record::Group(group) => drop(self.groups.insert(group.change.group, *group)),
            Record::GroupGone(number) => drop(self.groups.remove(&number)),
            Record::Meter(meter) => drop(self.meters.insert(meter.change.meter, *meter)),
            Record::MeterGone(number) => drop(self.meters.remove(&number)),
            Record::Port(port) => drop(self.ports.insert(port.number, port)),
            Record::PortGone(number) => drop(self.ports.remove(&number)),
            Record::Settings(settings) => self.settings = Some(*settings),
        }
    }
}

/// Reads any bytes as a state file; returns how many records it kept. For tests of hostile files.
///
/// # Errors
/// With what is wrong.
pub fn try_state(bytes: &[u8]) -> Result<usize, String> {
    Content::read(bytes).map(|(content, _)| {
        content.rules.len() + content.groups.len() + content.meters.len() + content.ports.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_openflow::flow::FlowCommand;
    use netloom_openflow::group::GroupCommand;
    use netloom_openflow::meter::MeterCommand;
    use netloom_openflow::text;

    fn rule(number: u64, said: &str) -> Record {
        let change = text::flow(FlowCommand::Add, said, Version::V13).unwrap();
        let (packets, bytes) = (number + 1, number + 2);
        let version = Version::V13;
        let rule = SavedRule { number, version, change, created: 5, used: 9, packets, bytes };
        Record::Rule(Box::new(rule))
    }

    fn sample() -> Vec<Record> {
        let group = text::group(
            GroupCommand::Add,
            "group_id=3,type=select,bucket=weight:2,actions=output:1,bucket=actions=output:2",
        );
        let meter = text::meter(MeterCommand::Add, "meter=4,kbps,band=type=drop,rate=100");
        let empty = netloom_pipeline::Switch::new(netloom_pipeline::Options::default()).settings();
        vec![
            Record::Begin { datapath: 7, processes: 1 },
            Record::Settings(Box::new(SavedSettings { numbers: 12, election: Some(3), ..empty })),
            rule(1, "table=2,priority=9,tcp,tp_dst=80,idle_timeout=5,actions=output:1"),
            rule(2, "priority=1,actions=CONTROLLER"),
            Record::Counts(vec![Count { number: 1, packets: 70, bytes: 700, used: 99 }]),
            Record::RuleGone(2),
            Record::Group(Box::new(SavedGroup {
                change: group.unwrap(),
                created: 1,
                counters: (2, 3),
                buckets: vec![(4, 5), (6, 7)],
            })),
            Record::Meter(Box::new(SavedMeter {
                change: meter.unwrap(),
                created: 1,
                counters: (2, 3),
                bands: vec![(1, 1)],
            })),
            Record::Port(SavedPort {
                number: 2,
                name: "p2".into(),
                interface: "veth2".into(),
                mac: Some([2, 0, 0, 0, 0, 2]),
                config: PortConfig::NO_FLOOD,
                created: 3,
                counters: [1, 2, 3, 4],
            }),
            Record::GroupGone(9),
            Record::MeterGone(9),
            Record::PortGone(9),
        ]
    }

    fn written(records: &[Record]) -> Vec<u8> {
        let mut bytes = vec![];
        for record in records {
            record.write(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn records_come_back_and_later_ones_count() {
        let bytes = written(&sample());
        let (content, length) = Content::read(&bytes).unwrap();
        assert_eq!(length, bytes.len());
        assert_eq!((content.datapath, content.processes), (7, 1));
        assert_eq!(content.rules.keys().copied().collect::<Vec<_>>(), [1]);
        let rule = &content.rules[&1];
        assert_eq!((rule.packets, rule.bytes, rule.used, rule.created), (70, 700, 99, 5));
        assert_eq!(content.groups[&3].buckets, [(4, 5), (6, 7)]);
        assert_eq!(content.meters[&4].bands, [(1, 1)]);
        assert_eq!(content.ports[&2].counters, [1, 2, 3, 4]);
        assert_eq!(content.settings.unwrap().election, Some(3));
    }

    #[test]
    fn a_last_record_that_is_cut_is_left_out() {
        let records = sample();
        let bytes = written(&records);
        let mut ends = vec![0];
        for count in 1..=records.len() {
            ends.push(written(&records[..count]).len());
        }
        for length in 0..bytes.len() {
            let (_, whole) = Content::read(&bytes[..length]).unwrap();
            assert_eq!(Some(whole), ends.iter().copied().filter(|end| *end <= length).max());
        }
    }

    #[test]
    fn a_changed_byte_is_found_or_a_cut() {
        let bytes = written(&sample());
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            // A greater length may make the rest look cut.
            if let Ok((_, whole)) = Content::read(&bytes) {
                assert!(whole <= at, "{at}");
            }
        }
    }

    fn seeds() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/flow_state")
    }

    /// Replays the fuzzer's seeds: what it once found stays found.
    #[test]
    fn seeds_are_read_or_refused() {
        let mut read = 0;
        for entry in std::fs::read_dir(seeds()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            read += usize::from(try_state(&bytes).is_ok());
        }
        assert!(read > 0);
    }

    /// Writes seeds: `cargo test -p netloom-flow write_seeds -- --ignored`.
    #[test]
    #[ignore = "helper: writes files of the repository"]
    fn write_seeds() {
        let whole = written(&sample());
        std::fs::create_dir_all(seeds()).unwrap();
        std::fs::write(seeds().join("all-kinds"), &whole).unwrap();
        std::fs::write(seeds().join("cut"), &whole[..whole.len() - 5]).unwrap();
        let mut wrong = whole;
        wrong[20] ^= 1;
        std::fs::write(seeds().join("wrong-sum"), wrong).unwrap();
    }

    #[test]
    fn features_of_all_tables_come_back() {
        let switch = netloom_pipeline::Switch::new(netloom_pipeline::Options::default());
        let features = Some(switch.table_features());
        let settings = SavedSettings { features, ..switch.settings() };
        let record = Record::Settings(Box::new(settings.clone()));
        let bytes = written(&[Record::Begin { datapath: 1, processes: 1 }, record]);
        assert_eq!(Content::read(&bytes).unwrap().0.settings, Some(settings));
    }
}
