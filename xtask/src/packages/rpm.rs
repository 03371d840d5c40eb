//! rpm packages, by rpmbuild and `packaging/rpm/netloom.spec`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{deliver, remake};
use crate::workspace;

/// Packs the files that are laid out in `files`.
pub(super) fn make(
    files: &Path,
    work: &Path,
    out: &Path,
    (version, moment): (&str, u64),
) -> Result<Vec<PathBuf>> {
    let top = work.join("rpm");
    remake(&top)?;
    let arch = std::env::consts::ARCH;
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["-bb", "--target", &format!("{arch}-linux")]);
    for (name, value) in macros(&top, files, version) {
        rpmbuild.arg("--define").arg(format!("{name} {value}"));
    }
    rpmbuild.arg(workspace::root().join("packaging/rpm/netloom.spec"));
    rpmbuild.env("SOURCE_DATE_EPOCH", moment.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
    workspace::must(&mut rpmbuild).context("`make packages` installs what this needs")?;
    deliver(&top.join("RPMS").join(arch), ".rpm", out)
}

/// What is not in the spec file: folders, and what would tell when, where and by how many processors it was packed.
fn macros(top: &Path, files: &Path, version: &str) -> Vec<(&'static str, String)> {
    let fixed = [
        ("_buildhost", "netloom"),
        ("use_source_date_epoch_as_buildtime", "1"),
        ("source_date_epoch_from_changelog", "0"),
        ("clamp_mtime_to_source_date_epoch", "1"),
        ("build_mtime_policy", "clamp_to_source_date_epoch"),
        ("_binary_payload", "w6.xzdio"),
        // Debian's rpm has the folders of Debian.
        ("_libdir", "/usr/lib64"),
        ("_docdir", "/usr/share/doc"),
        ("_sysconfdir", "/etc"),
    ];
    let mut all: Vec<_> = fixed.map(|(name, value)| (name, value.to_owned())).to_vec();
    all.extend([
        ("_topdir", top.display().to_string()),
        ("laid_out", files.display().to_string()),
        ("netloom_version", version.to_owned()),
    ]);
    all
}
