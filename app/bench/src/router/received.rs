//! What a receiver of stamped frames says, as figures.

use anyhow::{Context, Result};
use serde_json::Value;

/// Frames of a stream that the path lost: those that its sender's interface refused are not.
pub(super) fn lost(received: &Value) -> Result<f64> {
    let stream = &received["streams"][0];
    let number =
        |name: &str| stream[name].as_f64().with_context(|| format!("no `{name}` in {received}"));
    Ok((number("frames_lost")? - stream["frames_refused"].as_f64().unwrap_or(0.0)).max(0.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_sender_refused_is_not_lost() {
        let told = |lost: u64, refused: Value| json!({"streams": [{"frames_lost": lost, "frames_refused": refused}]});
        assert!((lost(&told(7, json!(5))).unwrap() - 2.0).abs() < 1e-9);
        assert!((lost(&told(7, Value::Null)).unwrap() - 7.0).abs() < 1e-9);
        assert!(lost(&json!({"streams": []})).is_err());
    }
}
