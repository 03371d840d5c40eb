//! Reads lab files, or standard input for `-`: size limits first, then text, then the model.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use netloom_config::{closest, printable};
use netloom_foreign::Import;
use netloom_lab::launch::free_addresses::{self, Claim};
use netloom_model::plan::Numbering;
use netloom_model::{Lab, MAX_BYTES, Plan};

use crate::flags::Importing;
use crate::foreign;
use crate::input::{self, STDIN, STDIN_SHOWN, Unreadable};

/// Most lab files of a folder among which one is looked for that may be meant.
const MOST_SIMILAR: usize = 1000;

/// Reads and checks a lab file.
///
/// # Errors
/// [`Unreadable`], or [`netloom_config::Diagnostics`] with all errors in it.
pub(crate) fn lab(path: &Path, name: Option<&str>) -> Result<Lab> {
    Ok(read_lab(path, name, &Importing::default())?.0)
}

/// As [`lab`], with choices for files of other programs, whose plan an import has made.
fn read_lab(path: &Path, name: Option<&str>, how: &Importing) -> Result<(Lab, Option<Plan>)> {
    let stem = stem(path);
    let (mut lab, mut plan) = match import(path, how, true)? {
        Some(import) => (import.read, Some(import.plan)),
        None => (netloom_model::parse(&shown(path), &read(path)?, name.unwrap_or(&stem))?, None),
    };
    if let Some(name) = name {
        if let Some(problem) = netloom_model::lab_name_problem(name) {
            return Err(crate::Usage(problem).into());
        }
        // Addresses are chosen by names.
        plan = plan.filter(|_| lab.name == name);
        lab.name = name.to_owned();
    }
    Ok((lab, plan))
}

/// A file, and its plan.
fn planned(path: &Path, name: Option<&str>, how: &Importing) -> Result<(Lab, Plan)> {
    let (lab, plan) = read_lab(path, name, how)?;
    let plan = plan.map_or_else(|| netloom_model::plan::plan(&lab), Ok);
    let plan = plan.map_err(|e| crate::Usage(format!("{}: error: {e}", shown(path))))?;
    Ok((lab, plan))
}

/// The text of a lab file, and the same in netloom's style.
///
/// # Errors
/// [`Unreadable`], or [`netloom_config::Diagnostics`] with all errors in it or with what cannot be kept.
pub(crate) fn formatted(path: &Path) -> Result<(Vec<u8>, String)> {
    let bytes = read(path)?;
    // Standard input has no name that the lab could take, and its style does not depend on that.
    let name = if path == Path::new(STDIN) { "lab".to_owned() } else { stem(path) };
    let formatted = netloom_model::format(&shown(path), &bytes, &name)?;
    Ok((bytes, formatted))
}

/// The name of the lab in a file, which may have other errors.
///
/// # Errors
/// As [`lab`].
pub(crate) fn lab_name(path: &Path) -> Result<String> {
    match import(path, &Importing::default(), false)? {
        Some(import) => Ok(import.read.name),
        None => Ok(netloom_model::lab_name(&shown(path), &read(path)?, &stem(path))?),
    }
}

/// A file's name without its extension: the default name of its lab.
fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads and plans a lab file.
pub(crate) fn plan(path: &Path, name: Option<&str>) -> Result<Plan> {
    Ok(planned(path, name, &Importing::default())?.1)
}

/// A file, its plan, and what is probably not meant in it.
pub(crate) fn checked(path: &Path) -> Result<(Lab, Plan, Vec<String>)> {
    let (lab, plan) = planned(path, None, &Importing::default())?;
    let mut hints = netloom_model::plan::hints(&lab);
    match netloom_lab::check_expressions(&plan) {
        // The machine that brings the lab up may have it.
        Err(netloom_lab::Error::Unsupported(missing)) => {
            hints.push(format!("expressions of `drop` are not checked: {missing}"));
        }
        checked => checked?,
    }
    Ok((lab, plan, hints))
}

/// The plan of a file, which may be another program's, for a lab that is up here or shall be; what is probably not meant in
/// it; and the addresses of a lab that shall be, which no other gets meanwhile.
pub(crate) fn plan_here(
    path: &Path,
    name: Option<&str>,
    how: &Importing,
) -> Result<(Plan, Vec<String>, Option<Claim>)> {
    let (lab, plan) = planned(path, name, how)?;
    let (plan, claim) = with_free_addresses(&lab, plan)?;
    Ok((plan, netloom_model::plan::hints(&lab), claim))
}

/// The plan of a lab with the addresses that it has if it is up, else with some that nobody has on this machine, if its doors
/// need them.
pub(crate) fn with_free_addresses(lab: &Lab, plan: Plan) -> Result<(Plan, Option<Claim>)> {
    let again = |numbering: &Numbering| {
        let other = numbering.put(lab)?;
        netloom_model::plan::plan(&other).ok()
    };
    Ok(free_addresses::find(&netloom_lab::runtime_dir()?, plan, again)?)
}

/// The plan of an empty lab.
pub(crate) fn empty_plan(name: &str) -> Result<Plan> {
    let lab = netloom_model::parse(name, b"nodes:\n", name)?;
    Ok(netloom_model::plan::plan(&lab)?)
}

/// The import of another program's lab, whose losses are told; `None` for a lab file.
fn import(path: &Path, how: &Importing, tell: bool) -> Result<Option<Import>> {
    let Some(lab) = foreign::find(path) else {
        if !how.node_filter.is_empty() {
            let what = "--node-filter chooses nodes of a lab of containerlab, Kathara or netlab";
            return Err(crate::Usage(format!("{}: {what}", shown(path))).into());
        }
        return Ok(None);
    };
    let import = lab.import("", None, how)?;
    if tell {
        tell!("{}", foreign::briefly(&lab, &import));
    }
    Ok(Some(import))
}

/// The content of a file, up to the maximum size of a lab file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new(STDIN) {
        return input::read();
    }
    let quoted = || format!("{path:?}");
    let fail = |operation| move |source| Unreadable { shown: quoted(), operation, source };
    let too_large = |size| netloom_model::too_large(&path.to_string_lossy(), size);
    if path.is_dir() {
        return Err(fail("read")(io::Error::from(io::ErrorKind::IsADirectory)).into());
    }
    let file = open(path).map_err(|error| fail("open")(with_similar(path, error)))?;
    // By its size first: the message can tell it, and nothing has to be read.
    if let Some(too_large) = too_large(file.metadata().map_err(fail("look at"))?.len()) {
        return Err(too_large.into());
    }
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(fail("read"))?;
    too_large(text.len() as u64).map_or(Ok(text), |too_large| Err(too_large.into()))
}

/// The error at a file that is not there, with the lab file beside it that may be meant.
fn with_similar(path: &Path, error: io::Error) -> io::Error {
    match similar(path) {
        Some(near) if error.kind() == io::ErrorKind::NotFound => {
            let near = path.with_file_name(near);
            io::Error::new(error.kind(), format!("{error}; did you mean {near:?}?"))
        }
        _ => error,
    }
}

/// The lab file in the same folder whose name is that of `path` with another ending or none, or similar.
fn similar(path: &Path) -> Option<String> {
    let plain = |name: &str| {
        let endings = [".yaml", ".yml"].into_iter();
        endings.filter_map(|ending| name.strip_suffix(ending)).next().map(str::to_owned)
    };
    let asked = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| plain(name).is_some()).take(MOST_SIMILAR).collect();
    names.sort();
    let asked_plain = plain(asked).unwrap_or_else(|| asked.to_owned());
    let same = names.iter().find(|name| plain(name).as_ref() == Some(&asked_plain));
    same.cloned().or_else(|| closest(asked, names.iter().map(String::as_str)).map(str::to_owned))
}

/// Opens a lab file. A FIFO would wait for ever for somebody who writes to it; one that the caller's shell has opened, as
/// for `<(command)`, has one, and is read like standard input.
fn open(path: &Path) -> io::Result<File> {
    let is_regular = std::fs::metadata(path)?.is_file();
    match is_regular || !is_descriptor(path) {
        true => netloom_sys::setup::open_regular(path).map_err(|e| match is_regular {
            true => e,
            false => io::Error::other(format!("{e}; give what it has on standard input, with `-`")),
        }),
        false => File::open(path),
    }
}

/// Whether a path stands for a descriptor that the caller has given this process.
fn is_descriptor(path: &Path) -> bool {
    let number = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let is_numbered = path.file_name().and_then(|name| name.to_str()).is_some_and(number);
    let folder = path.parent().and_then(Path::to_str).unwrap_or_default();
    path == Path::new("/dev/stdin")
        || (is_numbered && ["/dev/fd", "/proc/self/fd"].contains(&folder))
}

/// A file as messages name it.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new(STDIN) {
        STDIN_SHOWN.to_owned()
    } else {
        printable::line(&path.to_string_lossy()).into_owned()
    }
}

/// The absolute path of a lab file; `None` for standard input.
pub(crate) fn full(path: &Path) -> Option<PathBuf> {
    (path != Path::new(STDIN))
        .then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The folder that a file's relative paths start from; for standard input the current one.
pub(crate) fn base(path: &Path) -> PathBuf {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    // A folder is another program's lab.
    if full.is_dir() {
        return full;
    }
    full.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_that_is_not_there_the_one_that_may_be_meant_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["office.yaml", "two-sites.yml", "notes.txt"] {
            std::fs::write(folder.path().join(name), "nodes: {}\n").unwrap();
        }
        for (asked, near) in [
            ("office", Some("office.yaml")),
            ("office.yml", Some("office.yaml")),
            ("ofice.yaml", Some("office.yaml")),
            ("two-sites", Some("two-sites.yml")),
            ("notes", None),
            ("other.yaml", None),
            ("none/office.yaml", None),
        ] {
            let told = read(&folder.path().join(asked)).unwrap_err().to_string();
            assert!(told.contains(": open: No such file or directory"), "{told}");
            assert_eq!(told.contains("did you mean"), near.is_some(), "{told}");
            assert!(near.is_none_or(|near| told.ends_with(&format!("{near}\"?"))), "{told}");
        }
    }

    #[test]
    fn only_what_the_caller_has_opened_is_a_descriptor() {
        for path in ["/dev/stdin", "/dev/fd/63", "/proc/self/fd/0"] {
            assert!(is_descriptor(Path::new(path)), "{path}");
        }
        for path in
            ["/dev/fd/../fd/3", "/dev/fd/", "/dev/fd/x", "/dev/fd/3/lab.conf", "fd/3", "/tmp/63"]
        {
            assert!(!is_descriptor(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn an_empty_lab_has_a_plan_and_its_name() {
        let plan = empty_plan("default").unwrap();
        assert_eq!(plan.lab, "default");
        assert!(plan.nodes.is_empty() && plan.links.is_empty() && plan.switches.is_empty());
    }
}
