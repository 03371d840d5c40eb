//! The filter of a capture: an expression with names of nodes, and its program.

use netloom_filter::Program;
use netloom_model::Plan;
use netloom_packet::own;

use crate::{Error, Result};

/// A snapshot length that fits any frame, for libpcap.
pub(super) const WHOLE: u32 = 262_144;

/// Checks an expression in which hosts may be nodes of a lab.
///
/// # Errors
/// As captures refuse it.
pub fn check(text: &str, plan: Option<&Plan>) -> Result<()> {
    Filter::compile(text, plan, false).map(drop)
}

/// A filter.
pub(super) struct Filter {
    /// What was asked for, in libpcap syntax; empty for all frames.
    text: String,
    /// All of it in libpcap syntax, for libpcap's own engine; empty for all frames.
    whole: String,
    pub(super) program: Option<Program>,
}

impl Filter {
    /// Compiles an expression in which hosts may be nodes of a lab; `without_own` leaves out what netloom itself sends.
    ///
    /// # Errors
    /// [`Error::Request`] with libpcap's own message if the expression is wrong; libpcap is missing.
    pub(super) fn compile(text: &str, plan: Option<&Plan>, without_own: bool) -> Result<Filter> {
        let addresses = |name: &str| plan?.addresses_of(name);
        let text = netloom_filter::expand::expand(text.trim(), &addresses)
            .map_err(|e| Error::Request(e.to_string()))?;
        let wanted = if text.is_empty() { None } else { Some(program(&text)?) };
        let own = if without_own { own_frames()? } else { None };
        let Some(own) = own else {
            return Ok(Filter { whole: text.clone(), text, program: wanted });
        };
        let wanted = wanted.unwrap_or_else(Program::all);
        let program = wanted.besides(&own).map_err(|e| Error::Request(e.to_string()))?;
        let left_out = own::filter();
        let whole = match text.as_str() {
            "" => format!("not ({left_out})"),
            // What stands behind `vlan` is looked for behind the tag: what is wanted comes first.
            text => format!("({text}) and not ({left_out})"),
        };
        Ok(Filter { text, whole, program: Some(program) })
    }

    /// The expression that was asked for, unless it is empty.
    pub(super) fn text(&self) -> Option<String> {
        Some(self.text.clone()).filter(|text| !text.is_empty())
    }

    /// The whole expression, unless it is empty.
    pub(super) fn whole(&self) -> Option<String> {
        Some(self.whole.clone()).filter(|text| !text.is_empty())
    }
}

/// A program returns how much of a frame is kept: all, since engines cut frames themselves.
fn program(text: &str) -> Result<Program> {
    netloom_libpcap::compile(text, WHOLE).map_err(|e| match e {
        e @ netloom_libpcap::Error::Expression { .. } => Error::Request(e.to_string()),
        e => e.into(),
    })
}

/// What netloom itself sends; `None` without libpcap, where captures have it.
fn own_frames() -> Result<Option<Program>> {
    match netloom_libpcap::compile(&own::filter(), WHOLE) {
        Ok(program) => Ok(Some(program)),
        Err(netloom_libpcap::Error::Unsupported(_)) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
