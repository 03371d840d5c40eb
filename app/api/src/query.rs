//! The parameters of routes: their defaults and limits.

use std::time::Duration;

use netloom_node::ping::Pace;
use utoipa::IntoParams;

use crate::parameters::{FromQuery, Query};
use crate::reply::Rejection;

/// Longest time in milliseconds that a request may ask the server to wait.
pub(crate) const MAX_WAIT_MS: u64 = 60_000;

/// Maximum number of fates kept in each direction of a link: about 50 MB.
const MAX_KEEP: usize = 1_000_000;

const DEFAULT_PING_MS: u64 = 1000;

/// Maximum number of requests per call, and longest interval between two.
const MAX_REQUESTS: u32 = 1000;
const MAX_INTERVAL_MS: u64 = 1000;

/// Parameters of a repair.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct RepairQuery {
    /// Whether manual changes stay, and are only reported; default false.
    pub(crate) keep_drift: Option<bool>,
}

impl FromQuery for RepairQuery {
    fn from_query(query: &Query) -> Result<RepairQuery, Rejection> {
        let keep_drift = match query.text("keep_drift") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(Rejection::parameter("keep_drift", "must be true or false")),
        };
        Ok(RepairQuery { keep_drift })
    }
}

/// Parameters of a ping.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PingQuery {
    /// Address families to try, separated by commas: `4`, `6` or `4,6`, which is the default.
    #[param(example = "4,6", pattern = "^[46](,[46])?$")]
    family: Option<String>,
    /// How long to wait for each answer in milliseconds; default 1000.
    #[param(minimum = 1, maximum = 60000)]
    timeout_ms: Option<u64>,
}

impl FromQuery for PingQuery {
    fn from_query(query: &Query) -> Result<PingQuery, Rejection> {
        Ok(PingQuery {
            family: query.text("family").map(str::to_owned),
            timeout_ms: query.number("timeout_ms")?,
        })
    }
}

impl PingQuery {
    pub(crate) fn families(&self) -> Result<Vec<u8>, Rejection> {
        families(self.family.as_deref())
    }

    pub(crate) fn timeout(&self) -> Result<Duration, Rejection> {
        timeout(self.timeout_ms)
    }
}

/// Parses the requested address families.
fn families(text: Option<&str>) -> Result<Vec<u8>, Rejection> {
    let Some(text) = text else { return Ok(vec![4, 6]) };
    let mut families = Vec::new();
    for part in text.split(',') {
        match part {
            "4" if !families.contains(&4) => families.push(4),
            "6" if !families.contains(&6) => families.push(6),
            _ => return Err(Rejection::parameter("family", "takes 4, 6 or 4,6")),
        }
    }
    Ok(families)
}

/// Parses the time to wait for an answer.
fn timeout(ms: Option<u64>) -> Result<Duration, Rejection> {
    match ms.unwrap_or(DEFAULT_PING_MS) {
        ms @ 1..=MAX_WAIT_MS => Ok(Duration::from_millis(ms)),
        _ => Err(Rejection::parameter("timeout_ms", "takes 1 to 60000")),
    }
}

/// Parameters of pinging one node from another.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PairQuery {
    /// The destination node.
    pub(crate) to: String,
    /// Address families to try, separated by commas: `4`, `6` or `4,6`, which is the default.
    #[param(example = "4,6", pattern = "^[46](,[46])?$")]
    family: Option<String>,
    /// Number of requests; default 3.
    #[param(minimum = 1, maximum = 1000)]
    count: Option<u32>,
    /// Time between two requests in milliseconds; default 200.
    #[param(maximum = 1000)]
    interval_ms: Option<u64>,
    /// How long to wait for an answer in milliseconds; default 1000.
    #[param(minimum = 1, maximum = 60000)]
    timeout_ms: Option<u64>,
}

impl FromQuery for PairQuery {
    fn from_query(query: &Query) -> Result<PairQuery, Rejection> {
        let to = query.text("to").ok_or_else(|| missing("to"))?.to_owned();
        Ok(PairQuery {
            to,
            family: query.text("family").map(str::to_owned),
            count: query.number("count")?,
            interval_ms: query.number("interval_ms")?,
            timeout_ms: query.number("timeout_ms")?,
        })
    }
}

impl PairQuery {
    pub(crate) fn families(&self) -> Result<Vec<u8>, Rejection> {
        families(self.family.as_deref())
    }

    pub(crate) fn pace(&self) -> Result<Pace, Rejection> {
        let count = match self.count.unwrap_or(3) {
            count @ 1..=MAX_REQUESTS => count,
            _ => return Err(Rejection::parameter("count", "takes 1 to 1000")),
        };
        let interval = match self.interval_ms.unwrap_or(200) {
            ms @ 0..=MAX_INTERVAL_MS => Duration::from_millis(ms),
            _ => return Err(Rejection::parameter("interval_ms", "takes 0 to 1000")),
        };
        Ok(Pace { count, interval, timeout: timeout(self.timeout_ms)? })
    }
}

/// Parameters for reading a log.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// Only output after the line with this `cursor`; all if absent.
    after: Option<String>,
    /// The same by Unix time in nanoseconds, for programs that read numbers of this size exactly.
    after_ns: Option<u64>,
    /// How long to wait in milliseconds for output if there is none yet; default 0.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

impl FromQuery for LogQuery {
    fn from_query(query: &Query) -> Result<LogQuery, Rejection> {
        Ok(LogQuery {
            after: query.text("after").map(str::to_owned),
            after_ns: query.number("after_ns")?,
            wait_ms: query.number("wait_ms")?,
        })
    }
}

impl LogQuery {
    /// After which time.
    pub(crate) fn after(&self) -> Result<u64, Rejection> {
        let refused = |why: &str| Err(Rejection::parameter("after", why));
        match (&self.after, self.after_ns) {
            (Some(_), Some(_)) => refused("is there beside \"after_ns\""),
            (Some(cursor), None) => {
                let known = cursor.bytes().all(|b| b.is_ascii_digit());
                let read = known.then(|| cursor.parse().ok()).flatten();
                read.map_or_else(|| refused("takes the `cursor` of a line"), Ok)
            }
            (None, after) => Ok(after.unwrap_or(0)),
        }
    }

    pub(crate) fn wait(&self) -> Result<Duration, Rejection> {
        wait(self.wait_ms)
    }
}

/// Parameters for removing a node.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteQuery {
    /// Remove it with everything that lives there; default false.
    pub(crate) force: Option<bool>,
}

impl FromQuery for DeleteQuery {
    fn from_query(query: &Query) -> Result<DeleteQuery, Rejection> {
        Ok(DeleteQuery { force: query.flag("force")? })
    }
}

/// Parameters for removing a switch.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteSwitchQuery {
    /// Remove it even with ports on it; default false.
    pub(crate) force: Option<bool>,
}

impl FromQuery for DeleteSwitchQuery {
    fn from_query(query: &Query) -> Result<DeleteSwitchQuery, Rejection> {
        Ok(DeleteSwitchQuery { force: query.flag("force")? })
    }
}

/// Parameters for recording fates of packets.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NoteQuery {
    /// Number of latest fates kept in each direction; 0 stops recording.
    #[param(maximum = 1_000_000)]
    keep: usize,
}

impl FromQuery for NoteQuery {
    fn from_query(query: &Query) -> Result<NoteQuery, Rejection> {
        Ok(NoteQuery { keep: query.number("keep")?.ok_or_else(|| missing("keep"))? })
    }
}

impl NoteQuery {
    pub(crate) fn keep(&self) -> Result<usize, Rejection> {
        match self.keep {
            keep @ 0..=MAX_KEEP => Ok(keep),
            _ => Err(Rejection::parameter("keep", "takes 0 to 1000000")),
        }
    }
}

/// Parameters for reading fates of packets.
#[derive(Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FatesQuery {
    /// The sending end: 0 for the first, which is the default, or 1.
    #[param(maximum = 1)]
    end: Option<usize>,
    /// Only fates with a larger sequence number; all that are kept if absent.
    pub(crate) after: Option<u64>,
    /// How long to wait in milliseconds for fates if there are none yet; default 0.
    #[param(maximum = 60000)]
    wait_ms: Option<u64>,
}

impl FromQuery for FatesQuery {
    fn from_query(query: &Query) -> Result<FatesQuery, Rejection> {
        Ok(FatesQuery {
            end: query.number("end")?,
            after: query.number("after")?,
            wait_ms: query.number("wait_ms")?,
        })
    }
}

impl FatesQuery {
    pub(crate) fn end(&self) -> Result<usize, Rejection> {
        match self.end.unwrap_or(0) {
            end @ 0..=1 => Ok(end),
            _ => Err(Rejection::parameter("end", "takes 0 or 1")),
        }
    }

    pub(crate) fn wait(&self) -> Result<Duration, Rejection> {
        wait(self.wait_ms)
    }
}

pub(crate) fn missing(name: &str) -> Rejection {
    Rejection::parameter(name, "is missing")
}

/// Parses a time to wait.
pub(crate) fn wait(ms: Option<u64>) -> Result<Duration, Rejection> {
    match ms.unwrap_or(0) {
        ms @ 0..=MAX_WAIT_MS => Ok(Duration::from_millis(ms)),
        _ => Err(Rejection::parameter("wait_ms", "takes 0 to 60000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_four_six_or_both_once() {
        let families = |text: &str| {
            PingQuery { family: Some(text.to_owned()), timeout_ms: None }.families().ok()
        };
        assert_eq!(families("4"), Some(vec![4]));
        assert_eq!(families("6,4"), Some(vec![6, 4]));
        for bad in ["", "5", "4,", "4,4", "4,6,4", " 4", "4;6"] {
            assert_eq!(families(bad), None, "{bad:?}");
        }
        assert_eq!(PingQuery::default().families().ok(), Some(vec![4, 6]));
    }

    #[test]
    fn times_have_bounds() {
        let timeout = |ms| PingQuery { family: None, timeout_ms: Some(ms) }.timeout().is_ok();
        assert_eq!(
            [0, 1, 60_000, 60_001, u64::MAX].map(timeout),
            [false, true, true, false, false]
        );
        let wait = |ms| LogQuery { wait_ms: Some(ms), ..LogQuery::default() }.wait().is_ok();
        assert_eq!([0, 60_000, 60_001].map(wait), [true, true, false]);
        let keep = |keep| NoteQuery { keep }.keep().is_ok();
        assert_eq!([0, 1_000_000, 1_000_001, usize::MAX].map(keep), [true, true, false, false]);
        let end = |end| FatesQuery { end, ..FatesQuery::default() }.end().ok();
        assert_eq!([None, Some(0), Some(1), Some(2)].map(end), [Some(0), Some(0), Some(1), None]);
    }
}
