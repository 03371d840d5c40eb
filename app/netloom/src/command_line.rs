//! Parses a command line into a [`Cli`], or into an error that helps.
//!
//! [`crate::flags`] has the definitions. This module improves clap's error for an unknown verb: it never
//! suggests netloom's internal verbs, and it translates verbs of similar programs into netloom's.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};

use crate::flags::{Cli, examples};

/// Words known from elsewhere: the netloom verb before them, the words, and what to write instead.
type Elsewhere = (&'static str, &'static [&'static str], &'static str);

const ELSEWHERE: &[Elsewhere] = &[
    ("netloom", &["help"], "netloom --help, or netloom VERB --help"),
    ("netloom", &["version"], "netloom --version"),
    ("netloom", &["init", "template"], "netloom new"),
    ("netloom", &["mn"], "netloom run SCRIPT, or netloom up FILE"),
    ("netloom", &["deploy", "start", "create", "launch", "lstart"], "netloom up FILE"),
    ("netloom", &["destroy", "stop", "delete", "remove", "rm", "lclean", "wipe"], "netloom down"),
    ("netloom", &["clean", "cleanup", "prune"], "netloom down --all"),
    ("netloom", &["vstart"], "netloom node create NODE"),
    ("netloom", &["vclean"], "netloom node delete NODE"),
    ("netloom", &["save"], "netloom export lab"),
    ("netloom", &["edit", "reload", "update"], "netloom apply FILE"),
    ("netloom", &["redeploy", "restart", "lrestart"], "netloom up --replace FILE"),
    ("netloom", &["list", "ps", "labs"], "netloom ls"),
    ("netloom", &["inspect", "info", "linfo", "show", "net", "dump"], "netloom status"),
    ("netloom", &["nodes"], "netloom node list"),
    ("netloom", &["links"], "netloom link list"),
    ("netloom", &["validate", "lint", "verify"], "netloom check FILE"),
    ("netloom", &["connect", "attach", "ssh", "login", "enter", "xterm"], "netloom shell NODE"),
    ("netloom", &["pingall", "pingpair"], "netloom ping --all"),
    (
        "netloom",
        &["netem", "impair", "tc", "tools"],
        "netloom link set LINK --delay 10ms --loss 1%",
    ),
    ("netloom", &["tcpdump", "sniff", "pcap", "tshark"], "netloom capture TARGET --write FILE"),
    (
        "netloom",
        &["iperf", "iperf3"],
        "netloom exec NODE -- iperf3 -c NODE, or netloom generate TARGET",
    ),
    ("netloom", &["traceroute", "tracepath"], "netloom why NODE NODE"),
    ("netloom", &["draw", "plot"], "netloom graph"),
    ("netloom", &["copy"], "netloom cp SRC NODE:DST"),
    ("netloom", &["completion"], "netloom completions SHELL"),
    ("netloom node", &["add", "new"], "netloom node create NODE"),
    ("netloom node", &["remove", "rm", "destroy", "del"], "netloom node delete NODE"),
    ("netloom node", &["ls"], "netloom node list"),
    ("netloom link", &["add", "new"], "netloom link create A B"),
    ("netloom link", &["remove", "rm", "destroy", "del"], "netloom link delete LINK"),
    ("netloom link", &["ls"], "netloom link list"),
    ("netloom link", &["down", "unplug"], "netloom link set LINK --down"),
    ("netloom link", &["up", "plug"], "netloom link set LINK --up"),
    ("netloom switch", &["add", "new"], "netloom switch create SWITCH"),
    ("netloom switch", &["remove", "rm", "destroy", "del"], "netloom switch delete SWITCH"),
    ("netloom switch", &["ls"], "netloom switch list"),
];

/// Flags known from elsewhere: the verb, the flags, and what to write instead.
const FLAGS_ELSEWHERE: &[Elsewhere] = &[
    ("netloom up", &["-f", "--file", "-t", "--topo"], "netloom up FILE"),
    ("netloom down", &["-f", "--file", "-t", "--topo"], "netloom down LAB"),
    ("netloom exec", &["-i", "-t", "--tty", "--interactive"], "netloom exec NODE -- COMMAND"),
    ("netloom shell", &["-i", "-t", "--tty", "--interactive"], "netloom shell NODE"),
    ("netloom logs", &["--tail", "-n"], "netloom logs NODE | tail"),
    ("netloom capture", &["-i", "--interface"], "netloom capture TARGET"),
    ("netloom node set", &["--memory", "-m", "--mem"], "netloom node set NODE memory=512MiB"),
    ("netloom node set", &["--cpu", "--cpus"], "netloom node set NODE cpu=50%"),
    ("netloom switch create", &["--kind", "-k"], "netloom switch create NAME kind=openflow"),
    ("netloom serve", &["--port", "-p"], "netloom serve --listen 127.0.0.1:PORT"),
];

/// The definitions of all verbs, for help, completions and man pages.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    // Makes the flags of every verb: a verb's are otherwise made when it is called.
    command.build();
    command
}

/// A verb and its subcommands, with examples at the end of their help.
fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let command = match examples::of(path) {
        Some(uses) => {
            let before = command.get_after_help().map(|text| format!("{text}\n\n"));
            let text = before.unwrap_or_default() + &examples::text(uses);
            command.after_help(text)
        }
        None => command,
    };
    command.mut_subcommands(|verb| {
        let path = format!("{path} {}", verb.get_name());
        with_examples(verb, path.trim_start())
    })
}

/// Parses this process's command line. Wrong usage, `--help` and `--version` end the process.
pub(crate) fn read() -> Cli {
    let mut command = Cli::command();
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let read = read.and_then(|matches| Cli::from_arg_matches(&matches));
    let error = match read {
        Ok(cli) => return cli,
        Err(error) => error,
    };
    // Examples are added only where they are shown.
    if error.kind() == ErrorKind::DisplayHelp {
        let shown = with_examples(self::command(), "").try_get_matches();
        shown.err().unwrap_or(error).exit()
    }
    helped(error, &command).exit()
}

/// The error with suggestions that a user can follow.
fn helped(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        return helped_flag(error);
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    // Removed first, because clap suggests hidden verbs as well.
    let similar = error.remove(ContextKind::SuggestedSubcommand);
    if let Some(write) = elsewhere(&error, ContextKind::InvalidSubcommand, ELSEWHERE) {
        let tip = vec![format!("write {write}").into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    } else if let Some(ContextValue::Strings(mut names)) = similar {
        let hidden = |name: &str| command.find_subcommand(name).is_some_and(|c| c.is_hide_set());
        names.retain(|name| !hidden(name));
        if !names.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
        }
    }
    error
}

/// An unknown flag. That it can be passed as a value helps nobody: no flag takes the word as a value.
fn helped_flag(mut error: clap::Error) -> clap::Error {
    error.remove(ContextKind::Suggested);
    if let Some(write) = elsewhere(&error, ContextKind::InvalidArg, FLAGS_ELSEWHERE) {
        let tip = vec![format!("write {write}").into()];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tip));
    }
    error
}

/// The replacement for what is known from elsewhere.
fn elsewhere(
    error: &clap::Error,
    invalid: ContextKind,
    known: &'static [Elsewhere],
) -> Option<&'static str> {
    let Some(ContextValue::String(word)) = error.get(invalid) else {
        return None;
    };
    // Of the command being parsed, the error has only the usage line: `Usage: netloom node <COMMAND>`.
    let usage = error.get(ContextKind::Usage)?.to_string();
    let names = usage.split_whitespace().skip(1).take_while(|w| !w.starts_with(['[', '<']));
    let after = names.collect::<Vec<_>>().join(" ");
    let is_meant =
        |(parent, words, _): &&Elsewhere| *parent == after && words.contains(&word.as_str());
    known.iter().find(is_meant).map(|(_, _, write)| *write)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error message for a wrong command line.
    fn said(line: &str) -> String {
        let mut command = Cli::command();
        let error = command.try_get_matches_from_mut(line.split(' ')).expect_err(line);
        helped(error, &command).to_string()
    }

    #[test]
    fn verbs_of_netloom_s_own_are_not_suggested() {
        let command = command();
        let hidden = command.get_subcommands().filter(|verb| verb.is_hide_set());
        let names: Vec<&str> = hidden.map(clap::Command::get_name).collect();
        assert!(names.len() >= 4, "{names:?}");
        for name in &names {
            // One letter less: not a verb, but close to one.
            let said = said(&format!("netloom {}", &name[..name.len() - 1]));
            assert!(names.iter().all(|n| !said.contains(&format!("'{n}'"))), "{said}");
        }
        let said = said("netloom switch-proc");
        assert!(said.contains("a similar subcommand exists: 'switch'\n"), "{said}");
    }

    #[test]
    fn flags_of_other_programs_lead_to_netloom_s() {
        for (line, write) in [
            ("netloom exec -it h1 bash", Some("tip: write netloom exec NODE -- COMMAND")),
            ("netloom up -f lab.yaml", Some("tip: write netloom up FILE")),
            ("netloom logs h1 --tail 5", Some("tip: write netloom logs NODE | tail")),
            ("netloom capture -i eth0", Some("tip: write netloom capture TARGET")),
            ("netloom node set a --memory 1G", Some("write netloom node set NODE memory=512MiB")),
            ("netloom switch create s --kind openflow", Some("NAME kind=openflow")),
            ("netloom serve --port 80", Some("--listen 127.0.0.1:PORT")),
            ("netloom ls --unheard", None),
        ] {
            let said = said(line);
            assert_eq!(said.contains("tip:"), write.is_some(), "{said}");
            assert!(write.is_none_or(|write| said.contains(write)), "{said}");
        }
    }

    #[test]
    fn verbs_of_other_programs_lead_to_netloom_s() {
        let tip = |line: &str| {
            let said = said(line);
            said.lines().find_map(|l| l.trim().strip_prefix("tip: ").map(str::to_owned))
        };
        assert_eq!(tip("netloom deploy").as_deref(), Some("write netloom up FILE"));
        assert_eq!(tip("netloom -l x node rm").as_deref(), Some("write netloom node delete NODE"));
        assert_eq!(tip("netloom version").as_deref(), Some("write netloom --version"));
        assert_eq!(tip("netloom vclean").as_deref(), Some("write netloom node delete NODE"));
        assert_eq!(tip("netloom xterm").as_deref(), Some("write netloom shell NODE"));
        assert_eq!(tip("netloom link deploy"), None);
        let command = command();
        for (_, _, write) in ELSEWHERE {
            let mut at = &command;
            let names = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            for word in write.split([' ', ',']).skip(1).take_while(names) {
                if word.starts_with("--") || at.get_subcommands().next().is_none() {
                    break;
                }
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("{write}: no {word:?}"));
            }
        }
    }
}
