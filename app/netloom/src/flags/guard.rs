//! The flags of `guard`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::capture::time;

// `guard`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    after_help = "Each new connection, each datagram to a new address, each listening port and each raw socket of the \
                  program, and of all that it starts, is decided before it happens: by the policy, or else by you, on \
                  the terminal. Answers may be for once, for a time, or for ever; these are written to the policy when \
                  the program has ended. Established connections are not touched. No root is needed, and nothing \
                  else on the machine changes.\n\nQuestions need a terminal. The program then has a terminal of its \
                  own, and questions cover it. Where nobody can be asked or nobody answers, --default decides. What \
                  was refused without a rule that says so is listed at the end, as rules that would allow it.\n\nUnder \
                  guard no program gains privileges (no_new_privs): sudo, su and other setuid programs fail or run \
                  without their rights. As root the program has root's rights and could undo the guard: guard an \
                  ordinary user's programs for protection. What the program has started ends with it."
)]
pub(crate) struct Guard {
    /// Check or compare policies, or report on a log.
    #[command(subcommand)]
    pub(crate) verb: Option<GuardVerb>,
    /// Follow this policy (YAML). Answers that are to hold always are added to it. Default:
    /// $XDG_CONFIG_HOME/netloom/guard.yaml, which answers make.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Allow everything that no rule denies, ask nothing, and write the least policy that allows what happened
    /// into this file. Rules that are in it stay.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["frozen", "default", "timeout"])]
    pub(crate) learn: Option<PathBuf>,
    /// With --learn: rules name the content of programs (SHA-256), too.
    #[arg(long, requires = "learn")]
    pub(crate) hash: bool,
    /// Ask nothing, and refuse calls that the policy does not allow: then the exit code is 4, and rules that would allow them
    /// are printed.
    #[arg(long, requires = "policy")]
    pub(crate) frozen: bool,
    /// Append every decision to this file, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// What happens where nobody answers: the call fails (deny) or takes place (allow). Default: what the policy
    /// says under `unanswered`, else deny.
    #[arg(long, value_name = "ANSWER")]
    pub(crate) default: Option<GuardDefault>,
    /// How long a question is shown before nobody has answered, or `never`. The time runs only while the
    /// question is on a terminal's foreground.
    #[arg(long, value_name = "TIME", value_parser = patience, default_value = "5m")]
    pub(crate) timeout: Patience,
    /// Run the program in this node of a lab, in its network and its file tree.
    #[arg(long = "in", value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// The program and its arguments, after `--`.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// How long a question is shown; `None` is until it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(pub(crate) Option<Duration>);

fn patience(text: &str) -> Result<Patience, String> {
    if text == "never" {
        return Ok(Patience(None));
    }
    time(text).map(|time| Patience(Some(time)))
}

/// What happens where nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardDefault {
    // The call fails.
    Deny,
    // The call takes place.
    Allow,
}

// What `guard` does besides running programs.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum GuardVerb {
    /// Check a policy, or say what would happen to a request.
    Check(GuardCheck),
    /// Show how two policies differ.
    Diff(GuardDiff),
    /// Show from a log which program talked to which peer.
    Report(GuardReport),
}

// `guard check`.
#[derive(Debug, Args)]
#[command(
    after_help = "A request is: PROGRAM [in|out|open] [PROTOCOL] [TARGET]. PROGRAM is a path, or a name in PATH. TARGET is \
                        NAME:PORT, whose address is not looked up, NAME=ADDRESS:PORT, ADDRESS:PORT, [IPV6]:PORT, :PORT (a \
                        listener on all addresses), :free (one on a port that the kernel chooses), unix:/path, unix:@name \
                        or vsock:CID:PORT; `open` has none, and for icmp and raw:PROTOCOL it has no :PORT. After a \
                        listener of tcp or udp `from ADDRESS` asks whether that one may reach it."
)]
pub(crate) struct GuardCheck {
    /// The policy.
    #[arg(value_name = "FILE")]
    pub(crate) policy: PathBuf,
    /// The request, after `--`, such as `curl tcp example.org:443`.
    #[arg(last = true, value_name = "REQUEST")]
    pub(crate) request: Vec<String>,
}

// `guard diff`.
#[derive(Debug, Args)]
pub(crate) struct GuardDiff {
    /// A policy.
    #[arg(value_name = "FILE")]
    pub(crate) old: PathBuf,
    /// Another one.
    #[arg(value_name = "OTHER-FILE")]
    pub(crate) new: PathBuf,
}

// `guard report`.
#[derive(Debug, Args)]
pub(crate) struct GuardReport {
    /// A log of `netloom guard --log`.
    #[arg(value_name = "FILE")]
    pub(crate) log: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}
