//! The tools that no running lab answers: netloom's verbs, run as programs of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rmcp::model::Tool;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::confirming::{CONFIRM, Words};
use crate::offered::{Rights, annotations, lab_property, object};
use crate::program::{self, Ended, Limits};
use crate::{Error, Result, Scope};

/// Limits on verbs: quick ones, those whose output is read, and those that bring a lab up or change it.
const QUICK: Limits = Limits::shown(Duration::from_secs(60));
const READ: Limits = Limits::read(Duration::from_secs(60));
const LONG: Limits = Limits::shown(Duration::from_secs(600));

/// Seconds that a program in a node, or a capture, may take: usually, and at most.
const USUAL_SECONDS: u64 = 30;
const MOST_SECONDS: u64 = 600;

/// Frames of a capture: usually, and at most.
const USUAL_FRAMES: u64 = 20;
const MOST_FRAMES: u64 = 200;

/// A verb that is a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Labs,
    Check,
    Up,
    Apply,
    Exec,
    Capture,
}

const ALL: [Verb; 6] = [Verb::Labs, Verb::Check, Verb::Up, Verb::Apply, Verb::Exec, Verb::Capture];

impl Verb {
    /// The verb of this name, if it is offered in this scope.
    pub(crate) fn find(name: &str, scope: &Scope) -> Option<Verb> {
        ALL.into_iter().find(|verb| verb.name() == name && verb.is_offered(scope))
    }

    fn name(self) -> &'static str {
        match self {
            Verb::Labs => "labs",
            Verb::Check => "check",
            Verb::Up => "up",
            Verb::Apply => "apply",
            Verb::Exec => "exec",
            Verb::Capture => "capture",
        }
    }

    fn rights(self) -> Rights {
        match self {
            Verb::Labs | Verb::Check | Verb::Capture => Rights::Reads,
            Verb::Up | Verb::Exec => Rights::Changes,
            Verb::Apply => Rights::Destroys,
        }
    }

    fn is_offered(self, scope: &Scope) -> bool {
        // `up` makes other labs than the one that may be reached.
        let fits = scope.lab.is_none() || !matches!(self, Verb::Labs | Verb::Up);
        fits && (!scope.read_only || self.rights() == Rights::Reads)
    }

    fn about(self) -> (&'static str, &'static str) {
        match self {
            Verb::Labs => {
                ("List the running labs", "Names, states, and how many nodes and links each has.")
            }
            Verb::Check => (
                "Check a lab file",
                "All errors of a lab file with line, column and what to write instead; nothing is brought up.",
            ),
            Verb::Up => (
                "Bring a lab up",
                "Returns when every node is ready. Programs that the lab file names are started in its nodes.",
            ),
            Verb::Apply => (
                "Turn a running lab into the one of an edited file",
                "The first call answers the steps; parts that do not change keep running.",
            ),
            Verb::Exec => (
                "Run a program in a node",
                "Its output, errors and exit code, bounded. The command is a list of words and no shell is involved; what needs \
                 one is [\"sh\", \"-c\", \"...\"]. Servers belong to the lab file or to `up`, since a program here is ended when its \
                 time is over.",
            ),
            Verb::Capture => (
                "Capture frames and show them",
                "Frames of a link, node, switch or interface as text, in the words of tshark where it is installed; only counted \
                 otherwise. Ends after `frames` frames or `seconds` seconds.",
            ),
        }
    }

    fn properties(self, scope: &Scope) -> (Map<String, Value>, Vec<&'static str>) {
        let mut all = Map::new();
        let text = |about: &str| json!({"type": "string", "description": about});
        let number = |about: &str, usual: u64, most: u64| json!({"type": "integer", "minimum": 1, "maximum": most, "default": usual, "description": about});
        let mut add = |name: &str, schema: Value| _ = all.insert(name.to_owned(), schema);
        let needed = match self {
            Verb::Labs => vec![],
            Verb::Check | Verb::Up | Verb::Apply => {
                add("file", text("Path of the lab file"));
                add("text", text("The lab file itself, instead of a path"));
                vec![]
            }
            Verb::Exec => {
                add("node", text("The node"));
                let words = json!({"type": "array", "items": {"type": "string"}, "minItems": 1,
                    "description": "The program and its arguments"});
                add("command", words);
                add("seconds", number("How long it may run", USUAL_SECONDS, MOST_SECONDS));
                vec!["node", "command"]
            }
            Verb::Capture => {
                let about =
                    "A link, a node, NODE:IFACE or a switch, as `links` and `nodes` name them";
                add("target", text(about));
                add(
                    "filter",
                    text(
                        "Only frames that match, in pcap's language, like \"icmp or tcp port 80\"",
                    ),
                );
                add("frames", number("The most frames to show", USUAL_FRAMES, MOST_FRAMES));
                add("seconds", number("End after this time", 5, MOST_SECONDS));
                vec!["target"]
            }
        };
        if self == Verb::Apply {
            add(CONFIRM, text("The word that the first call's answer has"));
        }
        if self.names_lab() {
            all.extend(lab_property(scope));
        }
        (all, needed)
    }

    /// Whether it is about a running lab.
    fn names_lab(self) -> bool {
        !matches!(self, Verb::Labs | Verb::Check)
    }

    /// Runs it.
    ///
    /// # Errors
    /// An argument cannot be used, or the verb failed, in its own words.
    pub(crate) fn run(self, scope: &Scope, arguments: &Arguments, words: &Words) -> Result<Value> {
        arguments.check(&self.properties(scope).0)?;
        let lab = if self.names_lab() { scope.lab(arguments)? } else { None };
        let at = Place { program: &scope.program, lab };
        match self {
            Verb::Labs => Ok(json!({"labs": labs(&scope.program)?})),
            Verb::Check => {
                let (path, input) = file(arguments)?;
                if scope.read_only && input.is_none() {
                    here(path)?;
                }
                let ended = at.run(&["check", path], input, QUICK)?;
                Ok(json!({"good": ended.code == Some(0), "said": said(&ended)}))
            }
            Verb::Up => {
                let (path, input) = file(arguments)?;
                let text = at.run(&["up", path], input, LONG)?.good()?;
                Ok(json!({"said": text.trim()}))
            }
            Verb::Apply => at.apply(arguments, words),
            Verb::Exec => at.exec(arguments),
            Verb::Capture => at.capture(arguments),
        }
    }
}

/// The verbs of this scope as tools.
pub(crate) fn tools(scope: &Scope) -> Vec<Tool> {
    let offered = ALL.into_iter().filter(|verb| verb.is_offered(scope));
    let tool = |verb: Verb| {
        let (title, about) = verb.about();
        let (properties, required) = verb.properties(scope);
        // A program in a node may do there what it likes, and reach what the lab reaches.
        let annotations = match verb {
            Verb::Exec => annotations(title, Rights::Destroys).open_world(true),
            _ => annotations(title, verb.rights()),
        };
        Tool::new(verb.name(), format!("{title}. {about}"), object(properties, &required))
            .with_title(title)
            .with_annotations(annotations)
    };
    offered.map(tool).collect()
}

/// The running labs, as `netloom ls` lists them.
///
/// # Errors
/// They cannot be listed.
pub(crate) fn labs(program: &Path) -> Result<Value> {
    let text = program::run(program, &["ls", "--json"], None, READ)?.good()?;
    serde_json::from_str(&text).map_err(|e| Error::Refused(format!("ls: {e}")))
}

/// Refuses files outside of the folder in which the server was started: what `check` says of a file has its words.
fn here(path: &str) -> Result<()> {
    let folder = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let found = Path::new(path).canonicalize();
    match (folder, found) {
        (Ok(folder), Ok(found)) if found.starts_with(&folder) => Ok(()),
        _ => Err(Error::argument(
            "file",
            "is in the folder in which `netloom mcp --read-only` was started, or below; give other labs as `text`",
        )),
    }
}

/// A path, or `-` with the text of a file.
fn file(arguments: &Arguments) -> Result<(&str, Option<&str>)> {
    match (arguments.text("file")?, arguments.text("text")?) {
        (Some(path), None) if path.starts_with('-') => {
            Err(Error::argument("file", format!("is a path; write ./{path}")))
        }
        (Some(path), None) => Ok((path, None)),
        (None, Some(text)) => Ok(("-", Some(text))),
        (Some(_), Some(_)) => {
            Err(Error::argument("text", "is given beside `file`; give one of them"))
        }
        (None, None) => {
            Err(Error::argument("file", "is missing, and so is `text`; give one of them"))
        }
    }
}

/// All that a verb said.
fn said(ended: &Ended) -> String {
    let all = [ended.output.trim(), ended.errors.trim()];
    all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The program, and the lab that its verbs mean.
struct Place<'a> {
    program: &'a Path,
    lab: Option<&'a str>,
}

impl Place<'_> {
    fn run(&self, args: &[&str], input: Option<&str>, limits: Limits) -> Result<Ended> {
        let mut all = vec![];
        if let Some(lab) = self.lab {
            if lab.starts_with('-') {
                return Err(Error::argument("lab", "is a name, and does not begin with -"));
            }
            all.extend(["-l", lab]);
        }
        all.extend(args);
        program::run(self.program, &all, input, limits)
    }

    fn apply(&self, arguments: &Arguments, words: &Words) -> Result<Value> {
        let (path, input) = file(arguments)?;
        let plan = self.run(&["apply", "--dry-run", path], input, READ)?.good()?;
        let plan = json!({"steps": plan.trim().lines().collect::<Vec<_>>()});
        if let Err(shown) = words.check("apply", &arguments.0, &plan) {
            return Ok(shown);
        }
        let text = self.run(&["apply", "--yes", path], input, LONG)?.good()?;
        Ok(json!({"said": text.trim()}))
    }

    fn exec(&self, arguments: &Arguments) -> Result<Value> {
        let (node, command) = (arguments.needed("node")?, arguments.words("command")?);
        let seconds = arguments.number("seconds", USUAL_SECONDS, (1, MOST_SECONDS))?;
        let mut args = vec!["exec", "--", node];
        args.extend(command.iter().map(String::as_str));
        let ended = self.run(&args, None, Limits::shown(Duration::from_secs(seconds)))?;
        let late = ended
            .late
            .then(|| format!("ended after {seconds} s; a server belongs to the lab file"));
        Ok(
            json!({"code": ended.code, "output": ended.output, "errors": ended.errors, "late": late}),
        )
    }

    fn capture(&self, arguments: &Arguments) -> Result<Value> {
        let target = arguments.needed("target")?;
        let frames = arguments.number("frames", USUAL_FRAMES, (1, MOST_FRAMES))?.to_string();
        let seconds = arguments.number("seconds", 5, (1, MOST_SECONDS))?;
        let filter = arguments.text("filter")?;
        let folder = Folder::new()?;
        let path = folder.0.join("frames.pcapng");
        let file = path.to_string_lossy();
        let time = format!("{seconds}s");
        let mut args = vec!["capture", "-w", &*file, "-c", &frames, "-d", &time];
        args.extend(filter.iter().flat_map(|filter| ["-f", *filter]));
        args.extend(["--", target]);
        let ended =
            self.run(&args, None, Limits::shown(Duration::from_secs(seconds) + QUICK.time))?;
        if ended.code != Some(0) {
            ended.good()?;
            return Err(Error::Refused("capture: ended without a result".to_owned()));
        }
        let counted = said(&ended);
        Ok(match tshark(&file) {
            Some(lines) => json!({"frames": lines, "counted": counted.lines().last()}),
            None => {
                let how = "install tshark to have the frames as text";
                json!({"counted": counted.lines().collect::<Vec<_>>(), "frames": how})
            }
        })
    }
}

/// A line for each frame of a file, by tshark; `None` where it is not installed, or does not know a frame.
fn tshark(file: &str) -> Option<Vec<String>> {
    // Names of addresses are not looked up: that would send packets.
    let args = ["-n", "-r", file];
    let ended = program::run(Path::new("tshark"), &args, None, READ).ok()?;
    (ended.code == Some(0))
        .then(|| ended.output.lines().map(|line| line.trim().to_owned()).collect())
}

/// A private folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        use std::os::unix::fs::DirBuilderExt;
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("netloom-mcp-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails if somebody else made it.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|e| Error::Refused(format!("{path:?}: make: {e}")))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the user's own and private.
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(read_only: bool, lab: Option<&str>) -> Scope {
        Scope {
            program: "/bin/echo".into(),
            connect: |_| Err("none".to_owned()),
            lab: lab.map(str::to_owned),
            read_only,
        }
    }

    fn names(scope: &Scope) -> Vec<String> {
        tools(scope).into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    fn run_with(verb: &str, scope: &Scope, arguments: Value) -> std::result::Result<Value, String> {
        let Value::Object(arguments) = arguments else { unreachable!() };
        let verb = Verb::find(verb, scope).unwrap();
        verb.run(scope, &Arguments(arguments), &Words::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn scopes_leave_out_what_reaches_further() {
        assert_eq!(names(&scope(false, None)), ["labs", "check", "up", "apply", "exec", "capture"]);
        assert_eq!(names(&scope(true, None)), ["labs", "check", "capture"]);
        assert_eq!(names(&scope(false, Some("x"))), ["check", "apply", "exec", "capture"]);
        assert_eq!(names(&scope(true, Some("x"))), ["check", "capture"]);
        assert!(Verb::find("exec", &scope(true, None)).is_none());
    }

    #[test]
    fn words_reach_the_program_as_they_are() {
        let call = json!({"node": "h1", "command": ["sh", "-c", "a; b $(c)"], "lab": "x y"});
        let answer = run_with("exec", &scope(false, None), call).unwrap();
        assert_eq!(answer["output"], "-l x y exec -- h1 sh -c a; b $(c)\n");
        let call = json!({"node": "h1", "command": ["true"]});
        let answer = run_with("exec", &scope(false, Some("mine")), call).unwrap();
        assert_eq!(answer["output"], "-l mine exec -- h1 true\n");
    }

    #[test]
    fn arguments_that_cannot_be_used_are_named() {
        let free = scope(false, None);
        let wrong = |verb: &str, arguments: Value| run_with(verb, &free, arguments).unwrap_err();
        assert_eq!(
            wrong("exec", json!({"node": "h1"})),
            "argument \"command\": is a list of words, like [\"ip\", \"address\"]"
        );
        assert_eq!(wrong("exec", json!({"command": ["x"]})), "argument \"node\": is missing");
        assert_eq!(
            wrong("exec", json!({"node": "h1", "command": ["x"], "seconds": 0})),
            "argument \"seconds\": is a whole number from 1 to 600"
        );
        assert_eq!(
            wrong("labs", json!({"lab": "x"})),
            "argument \"lab\": is not known; this tool takes no argument"
        );
        assert_eq!(
            wrong("up", json!({})),
            "argument \"file\": is missing, and so is `text`; give one of them"
        );
        assert_eq!(
            wrong("up", json!({"file": "--help"})),
            "argument \"file\": is a path; write ./--help"
        );
        assert_eq!(
            wrong("exec", json!({"node": "h1", "command": ["x"], "lab": "--help"})),
            "argument \"lab\": is a name, and does not begin with -"
        );
        let bound = scope(false, Some("mine"));
        let lies =
            run_with("exec", &bound, json!({"node": "h1", "command": ["x"], "lab": "other"}));
        assert!(lies.unwrap_err().starts_with("argument \"lab\": is not known"));
    }
}
