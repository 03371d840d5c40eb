//! Types of the standard library as they stand in JSON, for the schemas of those that hold them.
//!
//! They are never made: a field names one of them as the type that its schema is derived from.

/// A length of time.
#[derive(utoipa::ToSchema)]
pub struct Duration {
    /// Whole seconds.
    pub secs: u64,
    /// The rest in nanoseconds.
    pub nanos: u32,
}
