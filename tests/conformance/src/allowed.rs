//! The cases that may fail, each with its reason: `allowed.txt`.

use anyhow::{Context, Result};

use crate::Case;

/// The beginning of reasons that do not hold when os-ken's checksum of SCTP is corrected.
pub const SCTP: &str = "sctp:";

/// The beginning of reasons that do not hold when os-ken sends packets at a rate by the clock. Such a case may pass as
/// well.
pub const SLEEP: &str = "sleep:";

/// The beginning of reasons that depend on what the tester can offer: such a case may pass as well.
const RATE: &str = "rate:";

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Allowed(Vec<(Case, String)>);

impl Allowed {
    /// The list for our switch, without the reasons that begin with one of `corrected`.
    ///
    /// # Errors
    /// A line is not `CASE REASON`.
    pub fn of_ours(corrected: &[&str]) -> Result<Allowed> {
        let mut all = Allowed::parse(include_str!("../allowed.txt"))?;
        all.0.retain(|(_, reason)| !corrected.iter().any(|begin| reason.starts_with(begin)));
        Ok(all)
    }

    pub(crate) fn parse(text: &str) -> Result<Allowed> {
        let lines = text.lines().map(str::trim);
        let entries = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let read = |line: &str| {
            let (case, reason) = line.split_once(char::is_whitespace).with_context(|| {
                format!("allowed.txt: `{line}`: a case and the reason why it may fail")
            })?;
            Ok((case.parse()?, reason.trim().to_owned()))
        };
        Ok(Allowed(entries.map(read).collect::<Result<_>>()?))
    }

    /// Why a case may fail.
    pub fn reason(&self, case: &Case) -> Option<&str> {
        self.0.iter().find(|(allowed, _)| allowed == case).map(|(_, reason)| reason.as_str())
    }

    /// Whether a case may fail, pass, and differ between runs.
    pub(crate) fn either_way(&self, case: &Case) -> bool {
        let reason = self.reason(case);
        reason.is_some_and(|reason| reason.starts_with(RATE) || reason.starts_with(SLEEP))
    }

    /// Entries of a directory that name none of these cases.
    pub fn unknown<'a>(&'a self, directory: &str, cases: &[Case]) -> Vec<&'a Case> {
        let of_directory = self.0.iter().map(|(case, _)| case);
        of_directory.filter(|case| case.is_in(directory) && !cases.contains(case)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        Allowed::of_ours(&[]).unwrap();
    }

    #[test]
    fn a_case_may_fail_for_its_reason() {
        let list = Allowed::parse("# why\n\nof10/a.json#1  sctp: text\n").unwrap();
        let case: Case = "of10/a.json#1".parse().unwrap();
        assert_eq!(list.reason(&case), Some("sctp: text"));
        assert_eq!(list.reason(&"of10/a.json#0".parse().unwrap()), None);
        assert_eq!(list.unknown("of10", &[]), [&case]);
        assert!(list.unknown("of13", &[]).is_empty());
        assert!(Allowed::parse("of10/a.json#1").is_err());
    }
}
