//! What a receiver of stamped frames says, as figures.

use anyhow::{Context, Result};
use serde_json::Value;

/// Frames of a stream that the path lost: those that its sender's interface refused are not, nor those that came and
/// that the receiver had no room for.
pub(super) fn lost(received: &Value) -> Result<f64> {
    let stream = &received["streams"][0];
    let number =
        |name: &str| stream[name].as_f64().with_context(|| format!("no `{name}` in {received}"));
    let elsewhere = [&stream["frames_refused"], &received["frames_dropped_here"]];
    let elsewhere: f64 = elsewhere.iter().filter_map(|frames| frames.as_f64()).sum();
    Ok((number("frames_lost")? - elsewhere).max(0.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_sender_refused_or_the_receiver_missed_is_not_lost() {
        let told = |lost: u64, refused: Value| json!({"streams": [{"frames_lost": lost, "frames_refused": refused}]});
        assert!((lost(&told(7, json!(5))).unwrap() - 2.0).abs() < 1e-9);
        assert!((lost(&told(7, Value::Null)).unwrap() - 7.0).abs() < 1e-9);
        let missed = json!({"streams": [{"frames_lost": 9}], "frames_dropped_here": 8});
        assert!((lost(&missed).unwrap() - 1.0).abs() < 1e-9);
        assert!(lost(&json!({"streams": []})).is_err());
    }
}
