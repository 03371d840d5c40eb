//! Selects the lab of a verb, and connects to it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use netloom_api::Client;
use netloom_lab::call::Within;
use netloom_lab::calls::{Status, Summary};
use netloom_lab::view::{LabCounts, LabState, LabSummary};
use netloom_lab::{Folder, listing, runtime_dir};
use netloom_session::{Lab, needs_lab};

use crate::{Usage, source};

/// How long a starting lab may take until it serves, and the pause between two checks.
const SERVING: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// How long a lab process may take to say how many nodes its lab has before its files are read instead.
const TELLING: Duration = Duration::from_secs(2);

/// The lab as named by the command line and the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    /// `-l`.
    flag: Option<String>,
    /// `NETLOOM_LAB`.
    environment: Option<String>,
}

impl Wish {
    /// From `-l` and the environment. Inside a node, the variable names the surrounding lab, which is not
    /// visible there, so it is ignored.
    pub(crate) fn new(flag: Option<String>) -> Wish {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let environment = set("NETLOOM_LAB").filter(|_| set("NETLOOM_NODE").is_none());
        Wish { flag, environment }
    }

    /// The requested lab, if any.
    pub(crate) fn lab(&self) -> Option<&str> {
        self.flag().or(self.environment.as_deref())
    }

    /// The lab requested by `-l` only.
    pub(crate) fn flag(&self) -> Option<&str> {
        self.flag.as_deref()
    }

    /// The lab of a verb that also takes it as an argument.
    pub(crate) fn or<'a>(&'a self, argument: Option<&'a str>) -> Result<Option<&'a str>> {
        agree(argument, self.flag(), "the argument")?;
        Ok(argument.or(self.lab()))
    }

    /// The name for a new lab; `None` for the one in its file.
    pub(crate) fn new_name(&self, name: Option<&str>) -> Result<Option<String>> {
        let flag = self.flag().map(name_of).transpose()?;
        agree(name, flag.as_deref(), "--name")?;
        match name.map(str::to_owned).or(flag) {
            Some(name) => Ok(Some(name)),
            None => self.environment.as_deref().map(name_of).transpose(),
        }
    }
}

fn agree(one: Option<&str>, flag: Option<&str>, what: &str) -> Result<()> {
    match (one, flag) {
        (Some(one), Some(flag)) if one != flag => {
            Err(Usage(format!("-l {flag} and {what} {one} name different labs; give one of them"))
                .into())
        }
        _ => Ok(()),
    }
}

/// The name of the requested lab: itself, or the name in a lab file.
fn name_of(asked: &str) -> Result<String> {
    let path = Path::new(asked);
    if path.is_file() || asked.contains('/') || path.join("lab.conf").is_file() {
        return source::lab_name(path);
    }
    Ok(asked.to_owned())
}

/// The name of the named lab, given by name or by file; `None` if none is named.
pub(crate) fn name(asked: Option<&str>) -> Result<Option<String>> {
    let Some(asked) = asked else { return Ok(None) };
    // A lab may have the name of a file.
    let may_run = netloom_model::lab_name_problem(asked).is_none();
    if may_run && Folder::new(&runtime_dir()?, asked).exists()? {
        return Ok(Some(asked.to_owned()));
    }
    name_of(asked).map(Some)
}

/// Whether the lab of this name or file runs.
pub(crate) fn runs(asked: &str) -> Result<bool> {
    let Some(name) = name(Some(asked))? else { return Ok(false) };
    if netloom_model::lab_name_problem(&name).is_some() {
        return Ok(false);
    }
    Ok(Folder::new(&runtime_dir()?, &name).exists()?)
}

/// The folder of the named lab, given by name or by file, or of the only one.
pub(crate) fn chosen(name: Option<&str>) -> Result<Folder> {
    let runtime = runtime_dir()?;
    let asked = name;
    if let Some(name) = self::name(asked)? {
        if let Some(problem) = netloom_model::lab_name_problem(&name) {
            return Err(Usage(problem).into());
        }
        let folder = Folder::new(&runtime, &name);
        if folder.exists()? {
            return Ok(folder);
        }
        let by_name = asked == Some(name.as_str());
        let file = asked.filter(|_| !by_name);
        return Err(anyhow::anyhow!("lab {name:?}: not running; {}", instead(file)?));
    }
    let all = Folder::all(&runtime)?;
    match all.as_slice() {
        [] => Err(anyhow::anyhow!("no lab is running; bring one up with `netloom up FILE`")),
        [one] => Ok(one.clone()),
        many => {
            let names: Vec<&str> = many.iter().map(Folder::name).collect();
            let list = names.join(", ");
            Err(Usage(format!("several labs run ({list}); name one with -l LAB")).into())
        }
    }
}

/// What to do where the named lab does not run: bring up the file that names it, or name one that runs.
fn instead(file: Option<&str>) -> Result<String> {
    let all = Folder::all(&runtime_dir()?)?;
    let names: Vec<&str> = all.iter().map(Folder::name).collect();
    Ok(match (file, names.as_slice()) {
        (Some(file), _) => format!("`netloom up {file}` brings it up"),
        (None, []) => "no lab is; `netloom up FILE` brings one up".to_owned(),
        (None, names) => format!("running: {}", names.join(", ")),
    })
}

/// Whether this user has any lab, or a node's view of one.
pub(crate) fn any() -> Result<bool> {
    Ok(!Folder::all(&runtime_dir()?)?.is_empty())
}

/// Connects to the named lab, or to the only one.
pub(crate) fn connect(name: Option<&str>) -> Result<Client> {
    let folder = chosen(name)?;
    connect_to(&folder)
}

/// The lab of a verb's targets; `None` if all of them are interfaces of the host and no lab is named.
pub(crate) fn of_targets(
    name: Option<&str>,
    targets: &[String],
    all: bool,
) -> Result<Option<Box<dyn Lab>>> {
    let needed = all || name.is_some() || needs_lab(targets);
    needed.then(|| of_session(name)).transpose()
}

/// The named lab, or the only one, for a session.
pub(crate) fn of_session(name: Option<&str>) -> Result<Box<dyn Lab>> {
    Ok(Box::new(connect(name)?))
}

/// Connects to the lab of a folder.
pub(crate) fn connect_to(folder: &Folder) -> Result<Client> {
    let name = folder.name();
    match connect_or_wait(folder) {
        Err(netloom_api::Error::NotRunning(_)) if folder.is_scope() => Err(anyhow::anyhow!(
            "node {name:?}: the process of its lab has ended, so the nodes in it cannot be managed"
        )),
        Err(netloom_api::Error::NotRunning(_)) => {
            let summary = summary(name)?;
            if let Some(reason) = summary.as_ref().and_then(|s| s.unreadable.as_ref()) {
                return Err(anyhow::anyhow!("lab {name:?}: {reason}"));
            }
            let state = summary.map(|s| s.state);
            let word = match state {
                Some(LabState::Starting) => "is being made or taken down just now",
                Some(LabState::Orphaned) => {
                    "its process was killed; its nodes go on: `netloom up` of its file adopts \
                     them, `netloom down` removes them"
                }
                _ => "was cut off while it was made; `netloom down` removes what is left",
            };
            Err(anyhow::anyhow!("lab {name:?}: {word}"))
        }
        other => {
            other.map(|client| client.telling(tell_silent)).with_context(|| format!("lab {name:?}"))
        }
    }
}

/// Reports on standard error that this waits for an unresponsive lab process.
pub(crate) fn tell_silent(pid: Option<i32>) {
    let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    tell(&format!("waiting for the lab process{pid}, which does not answer"));
}

/// Reports on standard error what is awaited or done.
pub(crate) fn tell(what: &str) {
    tell_line!("netloom: {what}");
}

/// A lab with a process that does not serve yet is starting, and serves soon.
fn connect_or_wait(folder: &Folder) -> netloom_api::Result<Client> {
    let until = Instant::now() + SERVING;
    loop {
        let found = Client::connect(&folder.path());
        let soon = matches!(found, Err(netloom_api::Error::NotRunning(_)))
            // The process of a surrounding lab is not visible from inside a node.
            && !folder.is_scope()
            && netloom_lab::launch::has_lab_process(folder);
        if !soon || Instant::now() >= until {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}

/// All labs of this user. Inside a node these are views of its surrounding lab: each is listed under the
/// node's name, with the nodes in it.
pub(crate) fn summaries() -> Result<Vec<LabSummary>> {
    let runtime = runtime_dir()?;
    let (scopes, labs): (Vec<Folder>, Vec<Folder>) =
        Folder::all(&runtime)?.into_iter().partition(Folder::is_scope);
    let mut all = if labs.is_empty() { vec![] } else { listing::labs(&runtime, &told)? };
    all.retain(|lab| !scopes.iter().any(|scope| scope.name() == lab.name));
    all.extend(scopes.iter().map(scope_summary));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A lab in numbers, also of a lab process of an earlier version, which does not count.
pub(crate) fn counts(client: &Client) -> netloom_api::Result<LabCounts> {
    match client.call(&Summary { of: Within::ALL }) {
        Err(netloom_api::Error::Refused { status: 404, .. }) => {
            client.call(&Status::whole()).map(|status| LabCounts::of(&status))
        }
        counted => counted,
    }
}

/// What a lab process says of its lab; `None` if it does not soon.
fn told(folder: &Folder) -> Option<LabCounts> {
    let client = Client::connect(&folder.path()).ok()?.waiting(TELLING);
    client.call(&Summary { of: Within::ALL }).ok()
}

fn scope_summary(scope: &Folder) -> LabSummary {
    let counted = Client::connect(&scope.path()).and_then(|client| counts(&client)).ok();
    let counted = counted.as_ref();
    LabSummary {
        name: scope.name().to_owned(),
        // Without an answer its nodes still live, like those of an orphaned lab.
        state: counted.map_or(LabState::Orphaned, |s| s.state),
        nodes: counted.map_or(0, |s| s.nodes.all),
        links: counted.map_or(0, |s| s.links.all),
        // Its process is not visible from inside.
        pid: None,
        since: counted.map_or(0, |s| s.since),
        unreadable: None,
    }
}

/// The summary of one lab.
fn summary(name: &str) -> Result<Option<LabSummary>> {
    Ok(listing::labs(&runtime_dir()?, &told)?.into_iter().find(|s| s.name == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(flag: Option<&str>, environment: Option<&str>) -> Wish {
        let own = |text: Option<&str>| text.map(str::to_owned);
        Wish { flag: own(flag), environment: own(environment) }
    }

    #[test]
    fn the_nearer_word_names_the_lab() {
        assert_eq!(wish(Some("a"), Some("b")).lab(), Some("a"));
        assert_eq!(wish(None, Some("b")).lab(), Some("b"));
        assert_eq!(wish(None, Some("b")).or(Some("c")).unwrap(), Some("c"));
        assert_eq!(wish(Some("c"), None).or(Some("c")).unwrap(), Some("c"));
        assert!(wish(Some("a"), None).or(Some("c")).unwrap_err().is::<Usage>());
    }

    #[test]
    fn a_new_lab_is_named_by_either_flag_and_not_by_both() {
        let name = |flag, environment, name| wish(flag, environment).new_name(name).unwrap();
        assert_eq!(name(Some("a"), Some("b"), None).as_deref(), Some("a"));
        assert_eq!(name(None, Some("b"), None).as_deref(), Some("b"));
        assert_eq!(name(None, Some("b"), Some("c")).as_deref(), Some("c"));
        assert_eq!(name(None, None, None), None);
        let refused = wish(Some("a"), None).new_name(Some("c")).unwrap_err();
        assert_eq!(refused.to_string(), "-l a and --name c name different labs; give one of them");
    }

    #[test]
    fn a_file_stands_for_the_lab_in_it_whatever_else_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let named = file("x.yaml", "name: inner\nnodes: {a: {colour: red}}\n");
        assert_eq!(name_of(&named).unwrap(), "inner");
        assert_eq!(name_of(&file("stem.yaml", "nodes: {}\n")).unwrap(), "stem");
        assert_eq!(name_of("plain").unwrap(), "plain");
        assert!(name_of("no/such.yaml").unwrap_err().to_string().contains("no/such.yaml"));
    }
}
