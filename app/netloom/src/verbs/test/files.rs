//! Which labs are tested: files with `expect`, by themselves or in folders.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use netloom_model::expect::{Action, What};
use netloom_model::lookup::find_link;
use netloom_model::{Lab, Plan};

use crate::{Usage, source};

/// Memory that a node takes that says nothing: its processes and what it writes.
const OF_A_NODE: u64 = 8 << 20;

/// A lab to test.
#[derive(Debug)]
pub(crate) struct TestedLab {
    /// Its file.
    pub(crate) file: PathBuf,
    /// Its name in the file.
    pub(crate) lab: String,
    /// Its name while it is tested.
    pub(crate) name: String,
    /// Names of its steps.
    pub(crate) steps: Vec<String>,
    /// How much memory it may take, in bytes.
    pub(crate) memory: u64,
}

/// The labs of these files and folders, all without errors.
pub(crate) fn find(paths: &[PathBuf]) -> Result<Vec<TestedLab>> {
    let mut asked = Vec::new();
    for path in paths {
        if !path.is_dir() {
            asked.push(read(path, asked.len())?.ok_or_else(|| {
                let file = source::shown(path);
                Usage(format!("{file}: has no `expect`: there is nothing to test"))
            })?);
            continue;
        }
        let before = asked.len();
        for file in lab_files(path)? {
            asked.extend(read(&file, asked.len())?);
        }
        if asked.len() == before {
            let folder = source::shown(path);
            return Err(Usage(format!("{folder}: no lab file with `expect` is in it")).into());
        }
    }
    Ok(asked)
}

/// The YAML files of a folder, by name.
fn lab_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("{folder:?}: list"))?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .with_context(|| format!("{folder:?}: list"))?;
    let is_yaml = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        matches!(ending, Some("yaml" | "yml")) && path.is_file()
    };
    files.retain(is_yaml);
    files.sort();
    Ok(files)
}

/// A lab file; `None` without steps.
fn read(file: &Path, number: usize) -> Result<Option<TestedLab>> {
    let lab = source::lab(file, None)?;
    if lab.expect.is_empty() {
        return Ok(None);
    }
    let plan = netloom_model::plan::plan(&lab)
        .map_err(|e| Usage(format!("{}: error: {e}", source::shown(file))))?;
    check_links(file, &lab, &plan)?;
    Ok(Some(TestedLab {
        file: file.to_owned(),
        name: unique(&lab.name, number),
        steps: lab.expect.iter().map(netloom_model::expect::Step::title).collect(),
        memory: memory(&plan),
        lab: lab.name,
    }))
}

/// Links that steps name must be there before anything is made.
fn check_links(file: &Path, lab: &Lab, plan: &Plan) -> Result<()> {
    for (index, step) in lab.expect.iter().enumerate() {
        let link = match &step.what {
            What::Do(Action::Down(link) | Action::Up(link) | Action::Set(link, _)) => link,
            _ => continue,
        };
        if let Err(e) = find_link(plan, link) {
            let file = source::shown(file);
            return Err(Usage(format!("{file}: error: expect[{index}].do: {e}")).into());
        }
    }
    Ok(())
}

/// A name that no other lab has: that of the file, this process and a number.
fn unique(name: &str, number: usize) -> String {
    let ending = format!("-test-{}-{number}", std::process::id());
    let room = 63 - ending.len();
    // Names of labs are ASCII.
    format!("{}{ending}", name.get(..name.len().min(room)).unwrap_or("lab"))
}

/// How much memory a lab may take: what its nodes say, or else little.
fn memory(plan: &Plan) -> u64 {
    let of = |node: &netloom_model::plan::PlannedNode| {
        let guest = node.kind.as_vm().map(|machine| machine.memory);
        guest.or(node.limits.memory).unwrap_or(OF_A_NODE)
    };
    plan.nodes.iter().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_labs_and_differ() {
        let long = "x".repeat(63);
        for name in ["talk", long.as_str()] {
            let (a, b) = (unique(name, 0), unique(name, 1));
            assert_ne!(a, b);
            assert_eq!(netloom_model::lab_name_problem(&a), None, "{a}");
        }
    }
}
