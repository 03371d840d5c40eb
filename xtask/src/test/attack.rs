//! `test attack [--rounds N] [FILTER]`: hostile acts and accidents against a lab, N times as often as in an ordinary
//! run.
//!
//! The attacks are ordinary tests that ask `netloom_kit::rounds` how often to run; each reports by
//! `netloom_kit::done` what it did and how often, and this module shows it.

use anyhow::{Result, bail};

use super::flags::number;
use crate::workspace;

/// Kinds of attacks, each with its tests: a crate's folder, and a prefix of test names.
const KINDS: [(&str, &[(&str, &str)]); 16] = [
    (
        "hostile member of a switch",
        &[
            ("parts/switch", "integration::hostile::"),
            ("parts/switch", "integration::stations::who_does_not_listen"),
            ("host/shm", "integration::ring_hostile::any"),
        ],
    ),
    (
        "hostile peer of an OpenFlow switch",
        &[
            ("parts/flow", "integration::hostile::nonsense_costs"),
            ("parts/flow", "integration::work::connections_that_come"),
        ],
    ),
    (
        "hostile controller of a slice",
        &[
            ("parts/slice", "integration::hostile::whatever_a_controller"),
            ("parts/slice", "integration::work::groups_that_take_long"),
        ],
    ),
    ("races of a program under guard", &[("parts/guard", "integration::race::")]),
    ("storm", &[("parts/switch", "integration::relaying::who_floods")]),
    (
        "overtaking",
        &[
            ("host/shm", "integration::order::"),
            ("parts/switch", "integration::relaying::an_edge_is_told_of_after"),
        ],
    ),
    ("what a node gets of the host by its socket", &[("tests/e2e", "walls::")]),
    ("what a node's programs may do", &[("tests/e2e", "attacks::")]),
    ("processes born into a node", &[("tests/e2e", "walls::a_")]),
    (
        "folders, links and processes of others where a lab's should be",
        &[
            ("tests/e2e", "folders::"),
            ("host/sys", "trusted::tests::a_folder_exchanged"),
            ("parts/switch", "classic::folder::tests::what_others_put"),
        ],
    ),
    ("plans that cannot be true", &[("tests/e2e", "plans::")]),
    ("crowds of connections", &[("tests/e2e", "crowds::")]),
    ("labs of many nodes", &[("tests/e2e", "thousand::a_ring_with_chords")]),
    ("doors opened and closed at once", &[("tests/e2e", "doors::labs_of_several")]),
    (
        "kills of a recorder",
        &[("parts/record", "integration::kill::a_killed"), ("tests/e2e", "record::a_killed")],
    ),
    (
        "kills",
        &[
            ("tests/e2e", "kill::"),
            ("parts/switch", "integration::killing::"),
            ("parts/flow", "integration::killing::kills_at"),
            ("parts/slice", "integration::killing::a_slicer_that"),
        ],
    ),
];

/// Default multiple of an ordinary run.
const ROUNDS: u32 = 25;

/// Parameters of an attack run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attack {
    rounds: u32,
    /// Of property tests.
    seed: u64,
}

impl Attack {
    /// Packages with the tests.
    pub(super) const PACKAGES: [&'static str; 8] = [
        "--package=netloom-sys",
        "--package=netloom-shm",
        "--package=netloom-switch",
        "--package=netloom-flow",
        "--package=netloom-slice",
        "--package=netloom-guard",
        "--package=netloom-record",
        "--package=netloom-tests-e2e",
    ];

    /// The parameters, and the filter of tests.
    pub(super) fn parse(args: &[String]) -> Result<(Attack, Option<String>)> {
        let (rounds, rest) = match args {
            [flag, rest @ ..] if flag == "--rounds" => {
                let rounds = u32::try_from(number(flag, rest.first())?)?.max(1);
                (rounds, rest.get(1..).unwrap_or_default())
            }
            rest => (ROUNDS, rest),
        };
        let filter = match rest {
            [] => None,
            [filter] if !filter.starts_with('-') => Some(filter.clone()),
            other => bail!("test attack: [--rounds N] [FILTER], not {other:?}"),
        };
        println!("attacks, {rounds} times as often as in every run of the tests:");
        for (kind, _) in KINDS {
            println!("  {kind}");
        }
        Ok((Attack { rounds, seed: workspace::new_seed() }, filter))
    }

    /// Whether a test, given by its crate's folder and name, is an attack.
    pub(super) fn includes(folder: &std::path::Path, test: &str) -> bool {
        let all = KINDS.iter().flat_map(|(_, tests)| *tests);
        all.clone().any(|(of, begin)| folder == std::path::Path::new(of) && test.starts_with(begin))
    }

    /// Multiple of an ordinary run.
    pub(super) fn rounds(self) -> u32 {
        self.rounds
    }

    pub(super) fn variables(self) -> [(&'static str, String); 2] {
        [
            ("NETLOOM_ROUNDS", self.rounds.to_string()),
            (workspace::PROPERTIES_SEED, self.seed.to_string()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_known_by_folder_and_name() {
        let is = |folder: &str, test| Attack::includes(std::path::Path::new(folder), test);
        assert!(is("tests/e2e", "kill::killed_while_a_lab_is_used_nothing_stays"));
        assert!(is("host/shm", "integration::ring_hostile::any_peer"));
        assert!(!is("host/shm", "integration::ring_hostile::frames_pass"));
        assert!(!is("host/shm", "kill::x"));
        assert!(!is("tests/e2e", "measure::x"));
    }
}
