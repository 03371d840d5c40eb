//! Errors and notes of `netloom_session` in the words of the command line.

use std::collections::BTreeSet;

use netloom_marking::session::Problem;
use netloom_session::Error;
use netloom_session::measure::Note;

use crate::Usage;

/// An error as the command line words it: what a flag would mend names the flag.
pub(super) fn worded(error: Error) -> anyhow::Error {
    let words = match &error {
        Error::TwoPlaces { switch, lab } => {
            format!("switch {switch:?}: says where it is, and so does -l {lab}")
        }
        Error::Destination { text } => {
            format!("--to {text:?}: it is neither a node of the lab nor an address")
        }
        Error::NoDestination => "--to is needed: a node or an address".to_owned(),
        Error::NoStation { to } => {
            format!(
                "--to-mac is needed: nothing here tells which station {to} is; at a switch --from with \
                 an address of its segment does"
            )
        }
        Error::NoSource => "--from is needed: the sender has no address of that family".to_owned(),
        Error::NoAddress { lacking, only } => {
            let other =
                only.map_or("", |version| if version == 4 { "; try -6" } else { "; try -4" });
            format!("{lacking}{other}")
        }
        Error::Configuration(problems) => configuration(problems),
        _ => return error.into(),
    };
    Usage(words).into()
}

/// All errors of a configuration that flags made, with their names.
fn configuration(problems: &[Problem]) -> String {
    let flag = |path: &str| match path.rsplit('.').next().unwrap_or(path) {
        "mp" => "--period".to_owned(),
        "mpc" => "--for".to_owned(),
        "guard" => "--guard".to_owned(),
        "npkts" => "--samples".to_owned(),
        "hash_length" => "--hash-length".to_owned(),
        "starter_mark" | "next_mark" => "--marks".to_owned(),
        "proto" => "--proto".to_owned(),
        _ if path.starts_with("filters") => "--flow".to_owned(),
        other => other.to_owned(),
    };
    // Report an error that both directions share only once.
    let mut seen = BTreeSet::new();
    let words =
        problems.iter().map(|problem| format!("{}: {}", flag(&problem.path), problem.message));
    let words: Vec<String> = words.filter(|words| seen.insert(words.clone())).collect();
    words.join("; ")
}

/// Prints a note about a measurement.
pub(super) fn note(note: Note) {
    let words = match note {
        Note::ManyFlows { found, most } => {
            format!("{found} flows; {most} are told apart, the others are in the rest")
        }
        Note::NoRoom { most } => {
            format!("more flows appeared; {most} are told apart, the others are in the rest")
        }
        Note::Unmeasured { version, error } => {
            format!("IPv{version} is not measured: {}", netloom_sys::describe(&error))
        }
        Note::SeveralWays { node, count, to } => format!(
            "node {node:?} has {count} next hops of equal cost to {to}: the way shown is one of several, \
             and packets of other flows are missing behind it; `routing: {{ecmp: false}}` makes it one"
        ),
    };
    tell_line!("note: {words}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(error: Error) -> String {
        let worded = worded(error);
        assert!(worded.is::<Usage>(), "{worded}");
        worded.to_string()
    }

    #[test]
    fn what_a_flag_would_mend_names_the_flag() {
        let (switch, lab) = ("other.s".to_owned(), "lab".to_owned());
        let twice = usage(Error::TwoPlaces { switch, lab });
        assert_eq!(twice, "switch \"other.s\": says where it is, and so does -l lab");
        let text = "x".to_owned();
        assert!(usage(Error::Destination { text }).starts_with("--to \"x\": it is neither"));
        assert!(usage(Error::NoDestination).starts_with("--to is needed"));
        let to = [10, 0, 0, 1].into();
        assert!(usage(Error::NoStation { to }).starts_with("--to-mac is needed"));
        assert!(usage(Error::NoSource).starts_with("--from is needed"));
    }
}
