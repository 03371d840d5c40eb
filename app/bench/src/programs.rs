//! The two programs of an experiment: the netloom that is measured, and this one, which runs again as sender, receiver
//! or load.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Which netloom is measured, where no flag says so: `netloom bench` sets it to itself.
const VARIABLE: &str = "NETLOOM_BIN";

/// Paths of both.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The netloom that is measured.
    pub(crate) netloom: PathBuf,
    /// This program.
    pub(crate) own: PathBuf,
}

impl Programs {
    /// Finds them: netloom is the given one, or that of the environment, or the one beside this program, or that of PATH.
    ///
    /// # Errors
    /// No netloom was found.
    pub(crate) fn find(given: Option<PathBuf>) -> Result<Programs> {
        let own = std::env::current_exe().context("find own path")?;
        let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let given = given.or(variable.map(PathBuf::from));
        let netloom = netloom(given, &own, std::env::var_os("PATH").unwrap_or_default())?;
        Ok(Programs { netloom, own })
    }

    /// Netloom's version.
    pub(crate) fn version(&self) -> Result<String> {
        let told = Command::new(&self.netloom).arg("--version").output();
        let told = told.with_context(|| format!("start {}", self.netloom.display()))?;
        let said = String::from_utf8_lossy(&told.stdout);
        let version = said.trim().strip_prefix("netloom ").map(str::to_owned);
        version.with_context(|| {
            format!("{}: this is not netloom: it says {said:?}", self.netloom.display())
        })
    }

    /// Programs that do nothing, whatever they are told.
    #[cfg(test)]
    pub(crate) fn nothing() -> Programs {
        Programs { netloom: "true".into(), own: "true".into() }
    }
}

fn netloom(given: Option<PathBuf>, own: &Path, path: OsString) -> Result<PathBuf> {
    if let Some(given) = given {
        // Experiments run in other folders.
        let found = given.canonicalize();
        return found.with_context(|| format!("find the netloom to measure, {}", given.display()));
    }
    let beside = own.parent().map(Path::to_owned);
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    match folders.map(|folder| folder.join("netloom")).find(|place| place.is_file()) {
        Some(found) => Ok(found),
        None => {
            bail!("no netloom beside {} and none in PATH: --netloom FILE names one", own.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_netloom_comes_before_the_one_beside_and_that_before_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let place = folder.path().join(name);
            std::fs::create_dir(&place).unwrap();
            std::fs::write(place.join("netloom"), "").unwrap();
            place
        };
        let [given, beside, other] = ["given", "beside", "other"].map(at);
        let own = beside.join("netloom-bench");
        let find = |given| netloom(given, &own, other.clone().into());
        let first = given.join("netloom");
        assert_eq!(find(Some(first.clone())).unwrap(), first.canonicalize().unwrap());
        assert_eq!(find(None).unwrap(), beside.join("netloom"));
        std::fs::remove_file(beside.join("netloom")).unwrap();
        assert_eq!(find(None).unwrap(), other.join("netloom"));
        std::fs::remove_file(other.join("netloom")).unwrap();
        let error = find(None).unwrap_err().to_string();
        assert!(error.contains("netloom-bench and none in PATH"), "{error}");
        let error = format!("{:#}", find(Some("/nowhere/netloom".into())).unwrap_err());
        assert!(error.contains("/nowhere/netloom: No such file"), "{error}");
    }
}
