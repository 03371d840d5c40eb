//! Newer kernels that apt's lists have, for the default one of the guests.

use std::process::Command;

use anyhow::{Context, Result};

use super::KERNEL;

/// A kernel in apt's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newer {
    /// As `apt-get install` takes it: a package, or one with its suite.
    pub(super) package: String,
    /// Its version.
    pub(super) version: String,
    /// The suite that has it.
    suite: String,
}

/// What there is, told.
pub(super) fn told() -> Result<Vec<Newer>> {
    let names = ask(&["pkgnames", "linux-image-"])?;
    let names: Vec<&str> = names.lines().filter(by_series).collect();
    let others =
        if names.is_empty() { String::new() } else { ask(&[&["madison"][..], &names].concat())? };
    let (default, found) = among(&ask(&["madison", KERNEL])?, &others);
    let default =
        default.map_or_else(|| "no kernel".to_owned(), |version| format!("Linux {version}"));
    println!("apt's lists have {default} as {KERNEL}, and {} newer", found.len());
    for Newer { package, version, suite } in &found {
        println!("newer kernel: {package} {version} ({suite})");
    }
    if found.is_empty() {
        println!("Debian's backports would have some: see sources.list(5), `SUITE-backports main`");
    }
    Ok(found)
}

fn ask(args: &[&str]) -> Result<String> {
    match Command::new("apt-cache").args(args).output() {
        Ok(said) => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).context("start apt-cache"),
    }
}

/// The first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut all = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (all.next().unwrap_or(0), all.next().unwrap_or(0))
}

/// Whether a package is the newest kernel of a series: `linux-image-6.12-cloud-amd64`.
fn by_series(name: &&str) -> bool {
    let version = name.strip_prefix("linux-image-").and_then(|n| n.strip_suffix("-cloud-amd64"));
    version.is_some_and(|version| {
        version.split('.').count() == 2 && version.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

/// The default kernel's version and newer ones, the newest of each package and suite, from what apt-cache says of the
/// default's package and of others.
fn among(default: &str, others: &str) -> (Option<String>, Vec<Newer>) {
    let backported = |newer: &Newer| newer.suite.ends_with("-backports");
    let defaults: Vec<Newer> = default.lines().filter_map(line).collect();
    let version = defaults.iter().find(|one| !backported(one)).map(|one| one.version.clone());
    let least = version.as_deref().map_or((0, 0), numbers);
    let with_suite = |one: Newer| Newer { package: format!("{KERNEL}/{}", one.suite), ..one };
    let backports = defaults.into_iter().filter(backported).map(with_suite);
    let mut found: Vec<Newer> = others.lines().filter_map(line).chain(backports).collect();
    found.retain(|one| numbers(&one.version) > least);
    found.sort_by(|a, b| a.package.cmp(&b.package));
    // apt-cache tells the newest first, and apt takes it.
    found.dedup_by(|a, b| a.package == b.package);
    (version, found)
}

/// `PACKAGE | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages`
fn line(line: &str) -> Option<Newer> {
    let mut columns = line.split('|').map(str::trim);
    let (package, version) = (columns.next()?.to_owned(), columns.next()?.to_owned());
    let suite = columns.next()?.split_whitespace().nth(1)?.split('/').next()?.to_owned();
    Some(Newer { package, version, suite })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: &str = "linux-image-cloud-amd64 | 6.12.9-1~bpo12+1 | http://h/debian bookworm-backports/main amd64 Packages
linux-image-cloud-amd64 | 6.1.2-1 | http://h/debian-security bookworm-security/main amd64 Packages
linux-image-cloud-amd64 | 6.1.1-1 | http://h/debian bookworm/main amd64 Packages\n";
    const OTHERS: &str = "linux-image-6.12-cloud-amd64 | 6.12.8-1 | http://h/debian bookworm-security/main amd64 Packages
linux-image-6.12-cloud-amd64 | 6.12.7-1 | http://h/debian bookworm/main amd64 Packages
linux-image-6.1-cloud-amd64 | 6.1.2-1 | http://h/debian bookworm/main amd64 Packages\n";

    #[test]
    fn newer_kernels_are_those_of_later_series() {
        let (default, found) = among(DEFAULT, OTHERS);
        assert_eq!(default.unwrap(), "6.1.2-1");
        let found: Vec<_> = found.iter().map(|n| (&n.package[..], &n.version[..])).collect();
        let expected = [
            ("linux-image-6.12-cloud-amd64", "6.12.8-1"),
            ("linux-image-cloud-amd64/bookworm-backports", "6.12.9-1~bpo12+1"),
        ];
        assert_eq!(found, expected);
        assert_eq!(among("", ""), (None, vec![]));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("6.18.44-x") == (6, 18) && numbers("6.3") < numbers("6.12"));
    }

    #[test]
    fn series_are_told_from_single_versions_and_other_flavours() {
        assert!(by_series(&"linux-image-6.12-cloud-amd64"));
        for other in [
            "linux-image-cloud-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12-cloud-amd64-dbg",
            "linux-image-6.12-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
        ] {
            assert!(!by_series(&other), "{other}");
        }
    }
}
