//! The suite as it is installed: its folders and cases.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Where `make peers` installs os-ken.
const ENVIRONMENT: &str = "/usr/local/lib/netloom-peers/os-ken";
/// The suite in the package.
const TESTS: &str = "site-packages/os_ken/tests/switch";

/// The directories that are run when none is named.
pub const DIRECTORIES: [&str; 5] =
    ["of10", "of13/action", "of13/match", "of13/group", "of13/meter"];

/// The installed suite.
#[derive(Clone, Debug)]
pub struct Suite {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The Python that has os-ken.
    pub(crate) python: PathBuf,
}

/// A case: a file of the suite, and the case's number in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    file: String,
    number: usize,
}

impl Suite {
    /// The suite, if it is installed whole.
    pub fn find() -> Option<Suite> {
        let environment = Path::new(ENVIRONMENT);
        if !environment.join("packages").exists() {
            return None;
        }
        let mut versions = fs::read_dir(environment.join("lib")).ok()?.filter_map(Result::ok);
        let folder = versions.find_map(|version| {
            let folder = version.path().join(TESTS);
            folder.is_dir().then_some(folder)
        })?;
        Some(Suite { folder, python: environment.join("bin/python") })
    }

    /// All cases of a directory, sorted.
    ///
    /// # Errors
    /// There is no such directory, or a file of it cannot be read.
    pub fn cases(&self, directory: &str) -> Result<Vec<Case>> {
        let known = ["of10", "of13"].contains(&directory.split('/').next().unwrap_or_default());
        let plain = directory.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        if !known || !plain || !self.folder.join(directory).is_dir() {
            let listed = DIRECTORIES.join(", ");
            bail!("no directory `{directory}` for OpenFlow 1.0 or 1.3 in the suite; try {listed}");
        }
        let mut cases = vec![];
        self.collect(directory, &mut cases)?;
        cases.sort();
        Ok(cases)
    }

    fn collect(&self, below: &str, cases: &mut Vec<Case>) -> Result<()> {
        let folder = self.folder.join(below);
        let entries =
            fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = format!("{below}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.collect(&path, cases)?;
            } else if path.ends_with(".json") {
                let count = count(&entry.path())?;
                cases.extend((0..count).map(|number| Case { file: path.clone(), number }));
            }
        }
        Ok(())
    }
}

/// Number of cases in a file: a list of headings (texts) and cases (objects).
fn count(file: &Path) -> Result<usize> {
    let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let list: Vec<Value> =
        serde_json::from_slice(&text).with_context(|| format!("parse {}", file.display()))?;
    Ok(list.iter().filter(|entry| entry.is_object()).count())
}

impl Case {
    /// Whether it is one of OpenFlow 1.0.
    pub fn is_of10(&self) -> bool {
        self.file.starts_with("of10/")
    }

    /// Whether it is in a directory.
    pub fn is_in(&self, directory: &str) -> bool {
        self.file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.file, self.number)
    }
}

impl std::str::FromStr for Case {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Case> {
        let parts = text.rsplit_once('#').and_then(|(file, number)| {
            Some(Case { file: file.to_owned(), number: number.parse().ok()? })
        });
        parts.with_context(|| format!("`{text}` is not a case: write FILE#NUMBER"))
    }
}

/// This many of the cases, evenly from all of them: always the same.
pub fn sample(cases: &[Case], count: usize) -> Vec<Case> {
    let count = count.min(cases.len());
    (0..count).filter_map(|at| cases.get(at * cases.len() / count)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(count: usize) -> Vec<Case> {
        (0..count).map(|number| Case { file: "of10/a.json".into(), number }).collect()
    }

    #[test]
    fn a_sample_is_spread_evenly_and_has_no_case_twice() {
        let numbers = |all, count| -> Vec<usize> {
            sample(&cases(all), count).iter().map(|case| case.number).collect()
        };
        assert_eq!(numbers(10, 4), [0, 2, 5, 7]);
        assert_eq!(numbers(3, 100), [0, 1, 2]);
        assert!(numbers(0, 5).is_empty() && numbers(5, 0).is_empty());
    }

    #[test]
    fn a_case_reads_back_as_it_is_written() {
        let case: Case = "of13/action/a b#c.json#12".parse().unwrap();
        assert_eq!((case.file.as_str(), case.number), ("of13/action/a b#c.json", 12));
        assert_eq!(case.to_string(), "of13/action/a b#c.json#12");
        assert!(case.is_in("of13") && case.is_in("of13/action") && !case.is_in("of13/act"));
        assert!("of13/a.json".parse::<Case>().is_err() && "a#b".parse::<Case>().is_err());
    }
}
