//! The JSON words for values of other crates.

use netloom_ebpf::measure::Counts;
use netloom_marking::Completeness;
use serde::{Deserialize, Serialize};

/// A module that writes values of a type as words, and reads them.
macro_rules! words {
    ($name:ident: $kind:ty { $($value:pat => $made:expr, $word:literal;)+ }) => {
        pub(super) mod $name {
            use serde::{Deserialize, Deserializer, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                value: &$kind, serializer: S,
            ) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(match value { $($value => $word,)+ })
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$kind, D::Error> {
                let word = String::deserialize(deserializer)?;
                match word.as_str() {
                    $($word => Ok($made),)+
                    other => Err(serde::de::Error::unknown_variant(other, &[$($word),+])),
                }
            }
        }
    };
}

words!(direction: netloom_ebpf::Direction {
    netloom_ebpf::Direction::Ingress => netloom_ebpf::Direction::Ingress, "ingress";
    netloom_ebpf::Direction::Egress => netloom_ebpf::Direction::Egress, "egress";
});

words!(marking: netloom_ebpf::measure::Marking {
    netloom_ebpf::measure::Marking::Off => netloom_ebpf::measure::Marking::Off, "off";
    netloom_ebpf::measure::Marking::Single => netloom_ebpf::measure::Marking::Single, "single";
    netloom_ebpf::measure::Marking::Double => netloom_ebpf::measure::Marking::Double, "double";
});

words!(colour: netloom_marking::Colour {
    netloom_marking::Colour::Starter => netloom_marking::Colour::Starter, "starter";
    netloom_marking::Colour::Next => netloom_marking::Colour::Next, "next";
});

/// Numbers with more bits than JSON's.
pub(super) mod text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(sum: &u128, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(sum)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u128, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Counts of frames that are in no block.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Counts")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SpotCounts))]
pub(super) struct CountsWords {
    /// Frames that are not IP or lack headers.
    other: u64,
    /// Frames that no filter matches.
    unmatched: u64,
    /// Packets of a filter with neither mark.
    unmarked: u64,
    /// Packets with the mark of a block that cannot be counted any more or yet.
    outside: u64,
    /// Frames whose filter was missing from the cache and was searched.
    searched: u64,
    /// Of these, frames for which the cache had no room. They are counted correctly nevertheless.
    overflow: u64,
    /// Packets that could not be marked.
    unwritten: u64,
    /// No session created through the API has such filters.
    #[serde(skip)]
    aside: u64,
}

/// The one flag that this text stands for.
pub(super) fn flag(reason: &str) -> Option<Completeness> {
    let none = Completeness::default();
    let all = [
        Completeness { started_within: true, ..none },
        Completeness { ended_within: true, ..none },
        Completeness { late: true, ..none },
        Completeness { table_full: true, ..none },
        Completeness { clock_stepped: true, ..none },
        Completeness { interface_gone: true, ..none },
        Completeness { sum_passed: true, ..none },
        Completeness { overwritten: true, ..none },
        Completeness { rerouted: true, ..none },
    ];
    all.into_iter().find(|flag| flag.reasons() == [reason])
}
