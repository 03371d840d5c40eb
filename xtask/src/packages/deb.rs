//! deb packages, by debhelper and `packaging/debian`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{copy_folder, deliver, remake};
use crate::workspace;

/// Who answers for packages that nobody else has put a name to (NETLOOM_MAINTAINER).
const MAINTAINER: &str = "The netloom authors <netloom@packages.invalid>";

/// Packs the files that are laid out in `files`.
pub(super) fn make(
    files: &Path,
    work: &Path,
    out: &Path,
    (version, moment): (&str, u64),
) -> Result<Vec<PathBuf>> {
    // dpkg-buildpackage writes beside the folder of the sources.
    let beside = work.join("deb");
    let sources = beside.join(format!("netloom-{version}"));
    remake(&sources)?;
    copy_folder(files, &sources.join("files"))?;
    let debian = sources.join("debian");
    copy_folder(&workspace::root().join("packaging/debian"), &debian)?;
    let unit = workspace::root().join("packaging/systemd/netloom@.service");
    fs::copy(unit, debian.join("netloom@.service")).context("copy the unit")?;
    let maintainer = std::env::var("NETLOOM_MAINTAINER").unwrap_or_else(|_| MAINTAINER.to_owned());
    let control = debian.join("control");
    let text = fs::read_to_string(&control).context("read packaging/debian/control")?;
    fs::write(&control, text.replace("@MAINTAINER@", &maintainer)).context("write control")?;
    fs::write(debian.join("changelog"), changelog(version, &maintainer, &date(moment)?))
        .context("write the changelog")?;
    let mut dpkg = Command::new("dpkg-buildpackage");
    dpkg.args(["--build=binary", "--no-sign"]).current_dir(&sources);
    dpkg.env("SOURCE_DATE_EPOCH", moment.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
    // One thread, since the blocks of several differ from one; no packages with symbols, since there are none.
    dpkg.env("DPKG_DEB_THREADS_MAX", "1").env("DEB_BUILD_OPTIONS", "noautodbgsym nocheck");
    workspace::must(&mut dpkg).context("`make packages` installs what this needs")?;
    deliver(&beside, ".deb", out)
}

/// A time as Debian's changelogs have it.
fn date(moment: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.env("LC_ALL", "C").args(["--utc", "--rfc-email", &format!("--date=@{moment}")]);
    let said = String::from_utf8(workspace::output(&mut date)?).context("read the date")?;
    Ok(said.trim().to_owned())
}

fn changelog(version: &str, maintainer: &str, date: &str) -> String {
    format!(
        "netloom ({version}-1) unstable; urgency=medium\n\n  \
         * Version {version}. /usr/share/doc/netloom/changelog.gz has what is different.\n\n \
         -- {maintainer}  {date}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_is_as_dpkg_reads_it() {
        let date = date(1_764_000_000).unwrap();
        assert_eq!(date, "Mon, 24 Nov 2025 16:00:00 +0000");
        let text = changelog("1.2.3", "A B <a@b.invalid>", &date);
        assert!(text.starts_with("netloom (1.2.3-1) unstable; urgency=medium\n\n  * "), "{text}");
        assert!(text.ends_with(" -- A B <a@b.invalid>  Mon, 24 Nov 2025 16:00:00 +0000\n"));
    }
}
