//! Completion of a command line: for `netloom complete-words`, which the shells' scripts call.
//!
//! clap's engine finds verbs, flags and their values in the definitions. Names come from the running labs: an argument's
//! name in the help (`NODE`, `LINK`, `TARGET`) determines its candidates. Nothing here fails or waits for a lab: unknown
//! candidates are left out. The shells complete paths themselves: `:files`, `:folders` and `:commands` ask them to.

mod names;

use std::ffi::OsStr;
use std::sync::Arc;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};

use crate::bench;
use crate::command_line;
use crate::flags::{BENCH, Cli};

/// Bash's completion script.
pub(crate) const BASH: &str = include_str!("completing/netloom.bash");
/// Zsh's completion script.
pub(crate) const ZSH: &str = include_str!("completing/netloom.zsh");
/// Fish's completion script.
pub(crate) const FISH: &str = include_str!("completing/netloom.fish");

/// What stands before the word to complete.
#[derive(Debug, Default)]
struct Typed {
    /// The verbs: `switch mirror`.
    verb: String,
    /// Values of the verb's arguments, by the arguments' names in the help; flags of all verbs come last.
    values: Vec<(String, String)>,
    /// A required argument is missing, so no verb can follow.
    lacks_argument: bool,
    /// The rest belongs to another program, whose first word is present.
    in_a_command: bool,
}

impl Typed {
    fn read(command: &Command, words: &[String]) -> Typed {
        let line = std::iter::once("netloom").chain(words.iter().map(String::as_str));
        // A line that is being typed lacks arguments most of the time.
        let Ok(root) = Cli::command().ignore_errors(true).try_get_matches_from(line) else {
            return Typed::default();
        };
        let (mut command, mut matches, mut typed) = (command, &root, Typed::default());
        while let Some((name, deeper)) = matches.subcommand() {
            let Some(verb) = command.find_subcommand(name) else { break };
            typed.verb = format!("{} {name}", typed.verb).trim_start().to_owned();
            (command, matches) = (verb, deeper);
        }
        for arg in command.get_arguments() {
            let values = matches.try_get_raw(arg.get_id().as_str()).ok().flatten();
            typed.lacks_argument |=
                values.is_none() && arg.is_positional() && arg.is_required_set();
            typed.in_a_command |= values.is_some() && arg.is_trailing_var_arg_set();
            let value = |value: &OsStr| (kind(arg), value.to_string_lossy().into_owned());
            typed.values.extend(values.into_iter().flatten().map(value));
        }
        typed
    }

    fn value(&self, kind: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| name == kind).map(|(_, value)| value.as_str())
    }
}

/// Candidates for the last word, each as the scripts read it: a word, and perhaps a tabulator and its meaning. The first
/// word is the one after `netloom`.
pub(crate) fn candidates(words: &[String]) -> Vec<String> {
    let Some((current, before)) = words.split_last() else { return vec![] };
    let command = command_line::command();
    let typed = Arc::new(Typed::read(&command, before));
    if typed.verb == BENCH {
        let words = typed.values.iter().filter(|(name, _)| name == "WORDS");
        let words = words.map(|(_, word)| word.clone()).chain([current.clone()]);
        return bench::candidates(&words.collect::<Vec<_>>());
    }
    // The words after `--` are for a program that netloom knows nothing of.
    if typed.in_a_command {
        return vec![":files".to_owned()];
    }
    // For one dash the engine leaves out the long names of flags that have a letter.
    let asked = if current == "-" { "" } else { current.as_str() };
    let mut line = vec!["netloom".into()];
    line.extend(without_lab(before).into_iter().chain([asked]).map(Into::into));
    let last = line.len() - 1;
    let found = complete(&mut with_names(command, &typed), line, last, None).unwrap_or_default();
    let is_flag = current.starts_with('-') && !before.iter().any(|word| word == "--");
    // What stands before a flag's value: `--lab=`.
    let before_value = current.find('=').filter(|_| is_flag).map(|at| &current[..=at]);
    let is_meant = |candidate: &&CompletionCandidate| {
        let is = |kind: &str| candidate.get_id().is_some_and(|id| id.starts_with(kind));
        let word = candidate.get_value().to_string_lossy();
        let fits = match is_flag {
            false => !is("arg::"),
            true if current == "-" => is("arg::"),
            // Words of positional arguments, and what the shells cannot put behind a flag's letter.
            true => !word.starts_with(':') && (before_value.is_some() || !word.contains(':')),
        };
        fits && !candidate.is_hide_set() && !(is("command::") && typed.lacks_argument)
    };
    found.iter().filter(is_meant).map(|found| line_of(found, before_value)).collect()
}

/// Leaves out the flag with the lab's name: the engine would take a name for the verb that is called the same.
fn without_lab(words: &[String]) -> Vec<&str> {
    let (mut kept, mut rest) = (vec![], words);
    while let Some((word, after)) = rest.split_first() {
        rest = match after.split_first() {
            Some((_, after)) if matches!(word.as_str(), "-l" | "--lab") => after,
            _ => {
                kept.push(word.as_str());
                after
            }
        };
    }
    kept
}

/// Gives arguments the names that their values may have, except where the definitions list values.
fn with_names(command: Command, typed: &Arc<Typed>) -> Command {
    let named = |arg: Arg| {
        if !arg.get_possible_values().is_empty() {
            return arg;
        }
        let kind = if arg.is_trailing_var_arg_set() { "COMMAND".to_owned() } else { kind(&arg) };
        let typed = Arc::clone(typed);
        arg.add(ArgValueCompleter::new(move |current: &OsStr| {
            let current = current.to_string_lossy();
            let mut found = names::of_kind(&kind, &typed, &current);
            found.retain(|name| name.starts_with(':') || name.starts_with(&*current));
            found.into_iter().map(CompletionCandidate::new).collect()
        }))
    };
    command.mut_args(named).mut_subcommands(|verb| with_names(verb, typed))
}

/// The argument's name in the help.
fn kind(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first());
    name.map(ToString::to_string).unwrap_or_default()
}

fn line_of(candidate: &CompletionCandidate, before_value: Option<&str>) -> String {
    let word = candidate.get_value().to_string_lossy();
    let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
    // One line and no tabulator, which separates the word from its meaning.
    let help = help.lines().next().unwrap_or_default().trim_end_matches('.').replace('\t', " ");
    match before_value.and_then(|before| word.strip_prefix(before)) {
        Some(paths) if paths.starts_with(':') => paths.to_owned(),
        _ if help.is_empty() => word.into_owned(),
        _ => format!("{word}\t{help}"),
    }
}

#[cfg(test)]
mod tests;
