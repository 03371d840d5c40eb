//! Statistics of measurements: means and medians with confidence intervals, percentiles, ratios of two series.
//!
//! Pure and deterministic: the bootstrap draws from its own generator with a given seed. Samples
//! that are not finite numbers are an error, never silently dropped. All results have the samples'
//! unit; intervals are at 95 %.

#![forbid(unsafe_code)]

mod load;
mod median;
mod ratio;
mod student;
mod summary;

pub use load::Load;
pub use median::median_ci;
pub use ratio::{Ratio, ratio_ci};
pub use student::t_quantile_975;
pub use summary::{StatsError, Summary, percentile};
