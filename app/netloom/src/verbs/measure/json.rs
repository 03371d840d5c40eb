//! Machine-readable output of a measurement: one JSON object per line, and lines of CSV.
//!
//! Times and delays are nanoseconds. Every object about a block has the probe, the clock and its offset to
//! Unix time, so that lines of several hosts can be combined.

use netloom_ebpf::measure::{ClockState, FlowBlock};
use netloom_marking::total::{Delays, HopBlock, HopTotal};
use netloom_marking::{Completeness, Estimate, Population, Quantile};
use netloom_measure::view::{Block, ClockView};
use serde_json::{Value, json};

/// Figures of a hop, for one block or for all.
#[derive(Clone, Copy)]
pub(super) struct Figures<'a> {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) lost: u64,
    pub(super) gained: u64,
    /// Delays of selected packets.
    pub(super) delays: Option<&'a Delays>,
    /// Mean delay of all packets, if times of all were kept.
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
    /// The mean delay: of all packets, or else of the selected ones.
    pub(super) fn mean(&self) -> Option<f64> {
        let of_all = self.all.filter(Estimate::is_exact).map(|mean| mean.value);
        of_all.or_else(|| self.delays?.mean()).or_else(|| self.all.map(|mean| mean.value))
    }

    /// Median and 99th percentile of the delays of packets that arrived.
    pub(super) fn quantiles(&self) -> [Option<Quantile>; 2] {
        self.delays.map_or([None; 2], |d| d.quantiles([0.5, 0.99], Population::Delivered))
    }

    /// Jitter between selected packets, or else from the times of all packets.
    pub(super) fn jitter(&self) -> Option<f64> {
        self.delays.and_then(Delays::jitter)
    }

    /// As JSON, with the names of the hop and its points.
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

/// Reasons why blocks are incomplete.
pub(super) fn reasons(completeness: Completeness) -> Value {
    json!({ "complete": completeness.is_complete(), "reasons": completeness.reasons() })
}

/// The probe and the clock.
pub(super) fn clock(probe: &str, state: ClockState) -> Value {
    json!({ "probe": probe, "clock": told(&ClockView::from(state)) })
}

/// A record of one point, without its samples.
pub(super) fn record(flow: &FlowBlock) -> Value {
    let mut block = Block::from(flow);
    block.sampled = None;
    told(&block)
}

/// A view in the form of the API.
pub(super) fn told(view: &impl serde::Serialize) -> Value {
    netloom_form::to_value(view).unwrap_or(Value::Null)
}

/// Merges the members of several objects.
pub(super) fn merged(parts: impl IntoIterator<Item = Value>) -> Value {
    let mut all = serde_json::Map::new();
    for part in parts {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    Value::Object(all)
}

/// A line of CSV (RFC 4180, except for line endings).
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
