//! Candidates for the last word of a command line, in the form that netloom's completion scripts read: a line for each,
//! `WORD`, a tabulator and its meaning; `:folders` and `:files` are the shell's own.

use clap::builder::StyledStr;
use clap::{Arg, CommandFactory, ValueHint};

use crate::flags::Cli;

/// Lines for the last of the words after `netloom bench`.
pub(crate) fn candidates(words: &[String]) -> String {
    let Some((current, before)) = words.split_last() else { return String::new() };
    let mut command = Cli::command();
    command.build();
    let flag = |word: &String| {
        let long = word.strip_prefix("--")?;
        command.get_arguments().find(|arg| arg.get_long() == Some(long))
    };
    let takes_a_word = |arg: &&Arg| arg.get_action().takes_values();
    let mut positionals = command.get_positionals();
    let mut option = None;
    for word in before {
        match (option.take(), word.starts_with('-')) {
            (Some(_), _) => {}
            (None, true) => option = flag(word).filter(takes_a_word),
            (None, false) => drop(positionals.next()),
        }
    }
    let lines: Vec<String> = if option.is_none() && current.starts_with('-') {
        let all = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_help())));
        all.map(|(long, help)| line(&format!("--{long}"), help)).collect()
    } else {
        option.or_else(|| positionals.next()).map(values).unwrap_or_default()
    };
    let fits = |line: &&String| line.starts_with(':') || line.starts_with(current.as_str());
    lines.iter().filter(fits).map(|line| format!("{line}\n")).collect()
}

fn values(arg: &Arg) -> Vec<String> {
    match arg.get_value_hint() {
        ValueHint::DirPath => vec![":folders".to_owned()],
        ValueHint::FilePath => vec![":files".to_owned()],
        _ => {
            let all = arg.get_possible_values();
            all.iter().map(|value| line(value.get_name(), value.get_help())).collect()
        }
    }
}

fn line(word: &str, help: Option<&StyledStr>) -> String {
    let help = help.map(ToString::to_string).unwrap_or_default();
    let first = help.lines().next().unwrap_or_default().trim_end_matches('.');
    format!("{word}\t{first}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_flags_and_folders_are_completed() {
        let words = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let lines = candidates(&words);
            let word = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
            lines.lines().map(word).collect::<Vec<String>>()
        };
        assert_eq!(words("pe"), ["people"]);
        assert_eq!(words("--quick wi"), ["wire"]);
        assert_eq!(words("lab --q"), ["--quick"]);
        assert_eq!(words("disk "), [":folders"]);
        assert_eq!(words("lab --report "), [":folders"]);
        assert_eq!(words("--netloom x --report y l"), ["lab"]);
        assert_eq!(words("--netloom "), [":files"]);
        assert_eq!(words("disk /tmp "), Vec::<String>::new());
        assert_eq!(candidates(&[]), "");
    }
}
