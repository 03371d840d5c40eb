//! What a measurement says, for programs: objects of JSON, an object a line, and lines of CSV.
//!
//! Times and delays are nanoseconds. Every object that tells of a block has the probe, the clock and what is
//! to be added to it for Unix time, so that lines of several hosts can be put together.

use netloom_ebpf::measure::{ClockState, FlowBlock};
use netloom_marking::total::{Delays, HopBlock, HopTotal};
use netloom_marking::{Completeness, Estimate, Population, Quantile};
use netloom_measure::view::{Block, ClockView};
use serde_json::{Value, json};

/// What is told of a hop, of one block or of all.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) gained: u64,
    /// Delays of selected packets.
    pub(super) delays: Option<&'a Delays>,
    /// The mean of all packets' delays, where times of all were kept.
    pub(super) all: Option<Estimate>,
    spacing: Option<f64>,
}

impl<'a> From<&'a HopBlock> for Figures<'a> {
    fn from(hop: &'a HopBlock) -> Figures<'a> {
        let told = &hop.comparison;
        Figures {
            sent: told.sent,
            received: told.received,
            lost: told.lost,
            gained: told.gained,
            delays: hop.delays.as_ref(),
            all: told.owad,
            spacing: told.owaj,
        }
    }
}

impl<'a> From<&'a HopTotal> for Figures<'a> {
    fn from(hop: &'a HopTotal) -> Figures<'a> {
        Figures {
            sent: hop.sent,
            received: hop.received,
            lost: hop.lost,
            gained: hop.gained,
            delays: Some(&hop.delays),
            all: hop.mean_of_all(),
            spacing: hop.spacing(),
        }
    }
}

impl Figures<'_> {
    /// The mean delay: of all packets, else of those that were selected.
    pub(super) fn mean(&self) -> Option<f64> {
        let of_all = self.all.filter(Estimate::is_exact).map(|mean| mean.value);
        of_all.or_else(|| self.delays?.mean()).or_else(|| self.all.map(|mean| mean.value))
    }

    /// Delays that half and 99 % of what arrived do not exceed.
    pub(super) fn quantiles(&self) -> [Option<Quantile>; 2] {
        self.delays.map_or([None; 2], |d| d.quantiles([0.5, 0.99], Population::Delivered))
    }

    /// Jitter between selected packets, else as times of all packets have it.
    pub(super) fn jitter(&self) -> Option<f64> {
        self.delays.and_then(Delays::jitter)
    }

    /// As JSON, with the hop's name and those of its points.
    pub(super) fn json(&self, hop: &str, (from, to): (&str, &str)) -> Value {
        let [p50, p99] = self.quantiles();
        let sampled = self.delays.filter(|delays| delays.known() > 0).map(|delays| {
            let (min, max) = delays.extremes().unzip();
            json!({
                "packets": delays.known(),
                "rate": delays.rate(),
                "ambiguous": delays.ambiguous(),
                "lost": delays.lost(),
                "mean_ns": delays.mean(),
                "min_ns": min,
                "max_ns": max,
                "p50_ns": p50,
                "p99_ns": p99,
                "jitter_ns": delays.jitter(),
            })
        });
        json!({
            "hop": hop,
            "from": from,
            "to": to,
            "sent": self.sent,
            "received": self.received,
            "lost": self.lost,
            "gained": self.gained,
            "mean_all_ns": self.all,
            "owaj_ns": self.spacing,
            "sampled": sampled,
        })
    }
}

/// What stands against blocks, in words.
pub(super) fn reasons(completeness: Completeness) -> Value {
    json!({ "complete": completeness.is_complete(), "reasons": completeness.reasons() })
}

/// By whom and by which clock.
pub(super) fn clock(probe: &str, state: ClockState) -> Value {
    json!({ "probe": probe, "clock": ClockView::from(state) })
}

/// A record of one point, without its samples.
pub(super) fn record(flow: &FlowBlock) -> Value {
    let mut block = Block::from(flow);
    block.sampled = None;
    serde_json::to_value(&block).unwrap_or(Value::Null)
}

/// One object of the members of several.
pub(super) fn merged(parts: impl IntoIterator<Item = Value>) -> Value {
    let mut all = serde_json::Map::new();
    for part in parts {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    Value::Object(all)
}

/// A line of CSV (RFC 4180, but for the ends of lines).
pub(super) fn csv(fields: &[String]) -> String {
    let field = |field: &String| {
        if field.contains([',', '"', '\n']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_csv_may_have_commas() {
        let fields = ["a".to_owned(), "b,c".to_owned(), "d\"e".to_owned(), String::new()];
        assert_eq!(csv(&fields), "a,\"b,c\",\"d\"\"e\",");
    }

    #[test]
    fn objects_are_put_together() {
        let all = merged([json!({"a": 1}), reasons(Completeness::default()), json!({"b": 2})]);
        assert_eq!(all, json!({"a": 1, "b": 2, "complete": true, "reasons": []}));
    }
}
