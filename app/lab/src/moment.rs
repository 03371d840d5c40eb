//! Moments in words.

/// A time in nanoseconds since 1970 UTC as `2026-01-31T12:00:00.123456Z` (RFC 3339).
pub fn utc(ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
