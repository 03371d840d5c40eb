//! `fmt`: lab files in one style.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::flags::Fmt;
use crate::input::STDIN;
use crate::{output, source, whole_file};

/// The exit code of `--check` where a file is in another style.
const DIFFERS: i32 = 4;

/// `netloom fmt`
pub(crate) fn fmt(args: &Fmt) -> Result<i32> {
    let (mut differ, mut failed) = (false, false);
    for path in &args.files {
        match one(path, args.check) {
            Ok(differs) => differ |= differs,
            Err(error) if crate::is_broken_pipe(&error) => return Err(error),
            Err(error) => {
                // All files are looked at: one run shows every error.
                match error.downcast_ref::<netloom_config::Diagnostics>() {
                    Some(diagnostics) => tell_line!("{diagnostics}"),
                    None => tell_line!("netloom: {}", netloom_sys::describe(&*error)),
                }
                failed = true;
            }
        }
    }
    Ok(match (failed, differ && args.check) {
        (true, _) => 2,
        (false, true) => DIFFERS,
        (false, false) => 0,
    })
}

/// Formats a file; returns whether it was in another style.
fn one(path: &Path, check: bool) -> Result<bool> {
    let (bytes, formatted) = source::formatted(path)?;
    let is_input = path == Path::new(STDIN);
    let differs = bytes != formatted.as_bytes();
    if check {
        if differs {
            let line = first_other_line(&bytes, formatted.as_bytes());
            output::print(&format!("{}:{line}: not formatted\n", source::shown(path)))?;
        }
    } else if is_input {
        output::print(&formatted)?;
    } else if differs {
        // What a link leads to is replaced, not the link.
        let own = fs::canonicalize(path).with_context(|| format!("{path:?}: find the file"))?;
        whole_file::write(&own, &formatted)
            .with_context(|| format!("{path:?}: write the formatted file"))?;
        output::print(&format!("{}: formatted\n", source::shown(path)))?;
    }
    Ok(differs)
}

/// The first line, from 1, in which two texts differ.
fn first_other_line(text: &[u8], other: &[u8]) -> usize {
    let equal = text.iter().zip(other).take_while(|(a, b)| a == b).count();
    1 + text[..equal].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        for (text, other, line) in
            [("a\nb", "a\nc", 2), ("a", "a\n", 1), ("a\n\n", "a\n", 2), ("", "a", 1)]
        {
            assert_eq!(first_other_line(text.as_bytes(), other.as_bytes()), line, "{text:?}");
        }
    }
}
