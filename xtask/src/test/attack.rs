//! `test attack --rounds N`: what somebody hostile, or bad luck, does to a lab, N times as often as in every run.
//!
//! The attacks are ordinary tests that ask `netloom_kit::rounds` how often; what each did, and how often, is told by
//! `netloom_kit::done` and shown here.

use anyhow::{Result, bail};

use super::flags::number;

/// Kinds of attacks, and for each the tests: a crate's folder, and what names begin with.
const KINDS: [(&str, &[(&str, &str)]); 8] = [
    (
        "hostile member of a switch",
        &[
            ("parts/switch", "integration::hostile::"),
            ("host/shm", "integration::ring_hostile::any"),
        ],
    ),
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
    ("doors opened and closed at once", &[("tests/e2e", "doors::labs_of_several")]),
    ("kills", &[("tests/e2e", "kill::"), ("parts/switch", "integration::killing::")]),
];

/// How many times as often as in every run, where nothing is said.
const ROUNDS: u32 = 20;

/// How attacks are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attack {
    rounds: u32,
}

impl Attack {
    /// The crates with the tests.
    pub(super) const PACKAGES: [&'static str; 3] =
        ["--package=netloom-shm", "--package=netloom-switch", "--package=netloom-tests-e2e"];

    pub(super) fn parse(args: &[String]) -> Result<Attack> {
        let rounds = match args {
            [] => ROUNDS,
            [flag, rest @ ..] if flag == "--rounds" && rest.len() <= 1 => {
                u32::try_from(number(flag, rest.first())?)?.max(1)
            }
            other => bail!("test attack: --rounds N, not {other:?}"),
        };
        println!("attacks, {rounds} times as often as in every run of the tests:");
        for (kind, _) in KINDS {
            println!("  {kind}");
        }
        Ok(Attack { rounds })
    }

    /// Whether a test, by its crate's folder, is one of them.
    pub(super) fn includes(folder: &std::path::Path, test: &str) -> bool {
        let all = KINDS.iter().flat_map(|(_, tests)| *tests);
        all.clone().any(|(of, begin)| folder == std::path::Path::new(of) && test.starts_with(begin))
    }

    /// How many times as often as in every run.
    pub(super) fn rounds(self) -> u32 {
        self.rounds
    }

    pub(super) fn variables(self) -> [(&'static str, String); 1] {
        [("NETLOOM_ROUNDS", self.rounds.to_string())]
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
