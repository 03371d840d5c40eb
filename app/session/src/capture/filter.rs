//! The filter of a capture: an expression with names of nodes, and its program.

use netloom_filter::Program;
use netloom_model::Plan;

use crate::{Error, Result};

/// A snapshot length that fits any frame, for libpcap.
pub(super) const WHOLE: u32 = 262_144;

/// Checks an expression in which hosts may be nodes of a lab.
///
/// # Errors
/// As captures refuse it.
pub fn check(text: &str, plan: Option<&Plan>) -> Result<()> {
    Filter::compile(text, plan).map(drop)
}

/// A filter.
pub(super) struct Filter {
    /// In libpcap syntax; empty for all frames.
    text: String,
    pub(super) program: Option<Program>,
}

impl Filter {
    /// Compiles an expression in which hosts may be nodes of a lab.
    ///
    /// # Errors
    /// [`Error::Request`] with libpcap's own message if the expression is wrong; libpcap is missing.
    pub(super) fn compile(text: &str, plan: Option<&Plan>) -> Result<Filter> {
        let addresses = |name: &str| plan?.addresses_of(name);
        let text = netloom_filter::expand::expand(text.trim(), &addresses)
            .map_err(|e| Error::Request(e.to_string()))?;
        if text.is_empty() {
            return Ok(Filter { text, program: None });
        }
        // A program returns how much of a frame is kept: all, since engines cut frames themselves.
        match netloom_libpcap::compile(&text, WHOLE) {
            Ok(program) => Ok(Filter { text, program: Some(program) }),
            Err(e @ netloom_libpcap::Error::Expression { .. }) => {
                Err(Error::Request(e.to_string()))
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The expression, unless it is empty.
    pub(super) fn text(&self) -> Option<String> {
        Some(self.text.clone()).filter(|text| !text.is_empty())
    }
}
