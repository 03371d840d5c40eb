//! Completion of a command line: for `netloom complete-words`, which the shells' scripts call.
//!
//! Verbs, flags and their values come from the definitions, names from the running labs: an argument's name
//! in the help (`NODE`, `LINK`, `TARGET`) determines its candidates. Nothing here fails or waits for a lab:
//! unknown candidates are left out. The shells complete paths themselves.

mod names;

use clap::{Arg, ArgAction, Command};

/// Bash's completion script.
pub(crate) const BASH: &str = include_str!("completing/netloom.bash");
/// Zsh's completion script.
pub(crate) const ZSH: &str = include_str!("completing/netloom.zsh");
/// Fish's completion script.
pub(crate) const FISH: &str = include_str!("completing/netloom.fish");

/// A completion candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// A word and its meaning.
    Word(String, String),
    /// The shell's files.
    Files,
    /// The shell's folders.
    Folders,
    /// The shell's programs.
    Commands,
}

impl Candidate {
    fn word(word: impl Into<String>) -> Candidate {
        Candidate::Word(word.into(), String::new())
    }

    /// The format that the scripts read.
    pub(crate) fn line(&self) -> String {
        match self {
            Candidate::Word(word, help) if help.is_empty() => word.clone(),
            Candidate::Word(word, help) => format!("{word}\t{help}"),
            Candidate::Files => ":files".to_owned(),
            Candidate::Folders => ":folders".to_owned(),
            Candidate::Commands => ":commands".to_owned(),
        }
    }

    fn starts_with(&self, start: &str) -> bool {
        match self {
            Candidate::Word(word, _) => word.starts_with(start),
            _ => true,
        }
    }
}

/// The command line parsed up to the word to complete.
struct Read<'c> {
    command: &'c Command,
    /// The verbs so far: `switch mirror`.
    verb: String,
    /// Number of positional arguments so far.
    positionals: usize,
    /// The option that expects a value next.
    option: Option<&'c Arg>,
    /// After `--`.
    no_flags: bool,
    /// Values by argument name.
    values: Vec<(String, String)>,
}

/// Candidates for the last word; the first word is the one after `netloom`.
pub(crate) fn candidates(command: &mut Command, words: &[String]) -> Vec<Candidate> {
    command.build();
    let Some((current, before)) = words.split_last() else { return vec![] };
    let mut read = Read::new(command);
    before.iter().for_each(|word| read.take(word));
    let mut found = read.next(current);
    found.retain(|candidate| candidate.starts_with(current));
    found
}

impl<'c> Read<'c> {
    fn new(command: &'c Command) -> Read<'c> {
        let (verb, values) = (String::new(), vec![]);
        Read { command, verb, positionals: 0, option: None, no_flags: false, values }
    }

    /// Takes a complete word.
    fn take(&mut self, word: &str) {
        if let Some(option) = self.option.take() {
            return self.note(option, word);
        }
        if self.no_flags || !word.starts_with('-') || word == "-" || self.in_a_command() {
            return self.take_plain(word);
        }
        if word == "--" {
            self.no_flags = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            self.take_flag(self.long(name), value);
        } else {
            self.take_short(&word[1..]);
        }
    }

    fn take_plain(&mut self, word: &str) {
        if let Some(verb) = self.command.find_subcommand(word) {
            (self.command, self.positionals) = (verb, 0);
            self.verb = format!("{} {word}", self.verb).trim_start().to_owned();
            return;
        }
        if let Some(positional) = self.positional() {
            self.note(positional, word);
        }
        self.positionals += 1;
    }

    fn take_flag(&mut self, flag: Option<&'c Arg>, value: Option<&str>) {
        match (flag, value) {
            (Some(flag), Some(value)) => self.note(flag, value),
            (Some(flag), None) if takes_a_word(flag) => self.option = Some(flag),
            _ => {}
        }
    }

    /// `-l LAB`, `-lLAB`, `-46`.
    fn take_short(&mut self, letters: &str) {
        for (at, letter) in letters.char_indices() {
            let flag = self.command.get_arguments().find(|a| a.get_short() == Some(letter));
            let Some(flag) = flag.filter(|flag| takes_a_word(flag)) else { continue };
            let value = &letters[at + letter.len_utf8()..];
            return self.take_flag(Some(flag), (!value.is_empty()).then_some(value));
        }
    }

    fn note(&mut self, arg: &Arg, value: &str) {
        self.values.push((kind(arg), value.to_owned()));
    }

    fn long(&self, name: &str) -> Option<&'c Arg> {
        let named = |arg: &&Arg| {
            arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name))
        };
        self.command.get_arguments().find(named)
    }

    /// The next positional argument.
    fn positional(&self) -> Option<&'c Arg> {
        let all: Vec<&Arg> = self.command.get_positionals().collect();
        let many = |arg: &Arg| arg.get_num_args().is_some_and(|n| n.max_values() > 1);
        all.get(self.positionals).or(all.last().filter(|arg| many(arg))).copied()
    }

    /// Whether the rest belongs to another program, whose first word is present.
    fn in_a_command(&self) -> bool {
        let begun = self.positionals >= self.command.get_positionals().count();
        begun && self.positional().is_some_and(Arg::is_trailing_var_arg_set)
    }

    fn next(&self, current: &str) -> Vec<Candidate> {
        if let Some(option) = self.option {
            return self.values(option, current);
        }
        if self.in_a_command() {
            return vec![Candidate::Files];
        }
        if let Some((flag, value)) = self.flag_with_value(current) {
            let prefix = &current[..current.len() - value.len()];
            return self.values(flag, value).into_iter().map(|c| prefixed(prefix, c)).collect();
        }
        if current.starts_with('-') && !self.no_flags {
            return self.flags();
        }
        let required = self.command.get_positionals().filter(|arg| arg.is_required_set()).count();
        let mut found = if self.positionals >= required { self.verbs() } else { vec![] };
        if let Some(positional) = self.positional() {
            found.extend(self.values(positional, current));
        }
        found
    }

    /// `--lab=x`.
    fn flag_with_value<'t>(&self, current: &'t str) -> Option<(&'c Arg, &'t str)> {
        let (name, value) =
            current.strip_prefix("--").filter(|_| !self.no_flags)?.split_once('=')?;
        Some((self.long(name)?, value))
    }

    fn verbs(&self) -> Vec<Candidate> {
        let shown = self.command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let about = |verb: &Command| verb.get_about().map(first_line).unwrap_or_default();
        shown.map(|verb| Candidate::Word(verb.get_name().to_owned(), about(verb))).collect()
    }

    fn flags(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|a| !a.is_positional() && !a.is_hide_set());
        let mut found = vec![];
        for flag in shown {
            let help = flag.get_help().map(first_line).unwrap_or_default();
            let longs = flag.get_long_and_visible_aliases().unwrap_or_default();
            found.extend(longs.iter().map(|l| Candidate::Word(format!("--{l}"), help.clone())));
            // A letter with a long name needs no entry of its own.
            if let (Some(short), true) = (flag.get_short(), longs.is_empty()) {
                found.push(Candidate::Word(format!("-{short}"), help));
            }
        }
        found
    }

    /// Candidates for an argument's value.
    fn values(&self, arg: &Arg, current: &str) -> Vec<Candidate> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            let shown = possible.iter().filter(|value| !value.is_hide_set());
            let help = |value: &clap::builder::PossibleValue| {
                value.get_help().map(first_line).unwrap_or_default()
            };
            return shown.map(|v| Candidate::Word(v.get_name().to_owned(), help(v))).collect();
        }
        if arg.is_trailing_var_arg_set() {
            return vec![Candidate::Commands, Candidate::Files];
        }
        names::of_kind(&kind(arg), &self.verb, &self.values, current)
    }
}

fn takes_a_word(arg: &Arg) -> bool {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    takes && arg.get_num_args().is_none_or(|count| count.min_values() > 0)
}

/// The argument's name in the help.
fn kind(arg: &Arg) -> String {
    let name = arg.get_value_names().and_then(|names| names.first());
    name.map(ToString::to_string).unwrap_or_default()
}

fn prefixed(prefix: &str, candidate: Candidate) -> Candidate {
    match candidate {
        Candidate::Word(word, help) => Candidate::Word(format!("{prefix}{word}"), help),
        other => other,
    }
}

fn first_line(text: &clap::builder::StyledStr) -> String {
    text.to_string().lines().next().unwrap_or_default().trim_end_matches('.').replace('\t', " ")
}

#[cfg(test)]
mod tests;
