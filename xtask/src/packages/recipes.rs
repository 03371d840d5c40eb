//! A formula of Homebrew and a flake of Nix, which install the tarball that is linked statically.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// What they are in `packaging/`, and how they are called where they lie beside the tarball.
const RECIPES: &[(&str, &str)] =
    &[("packaging/homebrew/netloom.rb", "netloom.rb"), ("packaging/nix/flake.nix", "flake.nix")];

/// Where the tarball is published, unless NETLOOM_DOWNLOADS names a folder of the web: beside the formula.
const BESIDE: &str = "file://#{__dir__}";

/// Writes both for a tarball, into the same folder.
pub(super) fn make(tarball: &Path, out: &Path, version: &str) -> Result<Vec<PathBuf>> {
    let name = tarball.file_name().context("a tarball has a name")?.to_string_lossy();
    let sum = workspace::output(Command::new("sha256sum").arg(&*name).current_dir(out))?;
    let sum =
        String::from_utf8_lossy(&sum).split_whitespace().next().unwrap_or_default().to_owned();
    let downloads = std::env::var("NETLOOM_DOWNLOADS").ok();
    let values = values(&name, &sum, version, downloads.as_deref())?;
    let write = |(from, to): &(&str, &str)| {
        let text = fs::read_to_string(workspace::root().join(from))
            .with_context(|| format!("read {from}"))?;
        let path = out.join(to);
        fs::write(&path, filled(&text, &values)?).with_context(|| format!("write {path:?}"))?;
        Ok(path)
    };
    RECIPES.iter().map(write).collect()
}

/// What stands for each name between two `@`.
fn values(
    name: &str,
    sum: &str,
    version: &str,
    downloads: Option<&str>,
) -> Result<Vec<(&'static str, String)>> {
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        other => other,
    };
    let folder = downloads.unwrap_or(BESIDE).trim_end_matches('/');
    if folder.contains(['"', '\\', '\n']) {
        bail!("NETLOOM_DOWNLOADS={folder}: not the address of a folder");
    }
    // A homepage is asked for, and shown.
    let homepage = downloads.unwrap_or("https://netloom.invalid/");
    Ok(vec![
        ("HOMEPAGE", homepage.to_owned()),
        ("URL", format!("{folder}/{name}")),
        ("VERSION", version.to_owned()),
        ("SHA256", sum.to_owned()),
        ("ARCH", architecture.to_owned()),
        ("SYSTEM", format!("{}-linux", std::env::consts::ARCH)),
        ("TARBALL", name.to_owned()),
    ])
}

/// A text with its values.
fn filled(text: &str, values: &[(&str, String)]) -> Result<String> {
    let filled = values
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("@{name}@"), value));
    let left = filled.split('@').skip(1).step_by(2).find(|word| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
    });
    match left {
        Some(name) => bail!("@{name}@: has no value"),
        None => Ok(filled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipes(downloads: Option<&str>) -> Vec<String> {
        let values = values("n.tar.gz", "0123", "1.2.3", downloads).unwrap();
        let read = |(from, _): &(&str, &str)| fs::read_to_string(workspace::root().join(from));
        RECIPES.iter().map(|recipe| filled(&read(recipe).unwrap(), &values).unwrap()).collect()
    }

    #[test]
    fn recipes_name_the_tarball_and_its_sum() {
        let beside = recipes(None);
        assert!(beside[0].contains(
            "url \"file://#{__dir__}/n.tar.gz\"\n  version \"1.2.3\"\n  sha256 \"0123\""
        ));
        assert!(
            beside[1].contains("src = ./n.tar.gz;") && beside[1].contains("version = \"1.2.3\"")
        );
        let published = recipes(Some("https://example.invalid/netloom/"));
        assert!(published[0].contains("url \"https://example.invalid/netloom/n.tar.gz\""));
        assert!(values("n", "0", "1.2.3", Some("a\"b")).is_err());
    }

    #[test]
    fn a_name_without_a_value_is_refused() {
        let error = filled("a @NEW@ b", &[]).unwrap_err();
        assert_eq!(error.to_string(), "@NEW@: has no value");
    }
}
