//! `lsp`: lab files in editors; see `netloom_lsp`.

use anyhow::Result;
use netloom_lsp::Compiled;
use netloom_model::Plan;

/// `netloom lsp`
pub(crate) fn lsp() -> Result<i32> {
    Ok(netloom_lsp::serve(compiled)?)
}

/// What libpcap says of a plan's expressions, as for `check`.
fn compiled(plan: &Plan) -> Compiled {
    match netloom_lab::check_expressions(plan) {
        Ok(()) => Compiled::Good,
        Err(netloom_lab::Error::Unsupported(missing)) => Compiled::Not(missing.to_string()),
        Err(error) => Compiled::Wrong(netloom_sys::describe(&error)),
    }
}
