//! The guest: its image, the archive of tests over it, and the machine itself.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use netloom_boot::cpio::{Archive, Entry};

use super::said::Said;
use super::{ALONE, CRATES, LEFT_OUT};
use crate::test::execute::Outcome;
use crate::test::outcome;
use crate::test::plan::GUEST;
use crate::test::skips::Judge;
use crate::test::user::User;
use crate::workspace::{self, Artifacts, Built};

/// What runs in the guest.
const RUNNER: &str = include_str!("../kernel.sh");
/// Packages beside those of every image, which tests use.
const PACKAGES: [&str; 7] =
    ["python3", "nftables", "libpcap0.8", "libelf1", "zlib1g", "libgcc-s1", "util-linux"];
/// Tests at a time.
const JOBS: usize = 3;
/// Seconds that a guest may run: three times what all takes on two busy processors.
const BOUND: &str = "5400";
// With `panic=-1` the kernel reboots at once when it panics, and `-no-reboot` ends QEMU then.
const MACHINE: [&str; 14] = [
    "-M",
    "q35",
    "-accel",
    "tcg,thread=multi",
    "-m",
    "3072",
    "-smp",
    "2",
    "-nodefaults",
    "-display",
    "none",
    "-no-reboot",
    "-serial",
    "stdio",
];
/// A translated processor has none of the faults that the kernel's mitigations are for, and pays much for them.
const APPEND: &str =
    "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off netloom.run=/t/run";

/// Runs the wanted tests, by folder and name, in a guest; where there can be none, a skip says why.
pub(super) fn run(
    built: &Artifacts,
    kernel: Option<&str>,
    judge: &Judge<'_>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Outcome> {
    let skip = |reason: String| {
        let skipped = vec![(GUEST.to_owned(), reason)];
        let mut outcome = Outcome { skipped, ..Outcome::default() };
        judge.judge(User::Caller, &mut outcome)?;
        Ok(outcome)
    };
    for program in ["qemu-system-x86_64", "apt-get", "dpkg-deb"] {
        if !judge.is_there(User::Caller, program)? {
            return skip(format!("missing:{program}: it runs the guest, or makes it"));
        }
    }
    let binary = built.netloom()?;
    let folder =
        workspace::root().join("target/guest").join(kernel.unwrap_or("default").replace('/', "_"));
    if let Some(reason) = image(&binary, kernel, &folder)? {
        return skip(format!("missing:apt-mirror: {reason}"));
    }
    // Of this run alone: another one may be going on.
    let disk = tempfile::NamedTempFile::new_in(&folder)?;
    let left = Disk { built, binary: &binary, wanted }.write(&folder, disk.as_file())?;
    let said = boot(&folder.join("kernel"), disk.path())?;
    let mut total = said.end();
    total.skipped.extend(left);
    Ok(total)
}

/// Makes the guest; why not, where there are no packages.
fn image(binary: &Path, kernel: Option<&str>, folder: &Path) -> Result<Option<String>> {
    let mut make = Command::new(binary);
    make.args(["image", "build", "debian", "--out"]).arg(folder);
    make.args(PACKAGES.iter().flat_map(|package| ["--with", package]));
    make.args(kernel.iter().flat_map(|package| ["--kernel", package]));
    let done = make.output().context("start netloom image build")?;
    print!("{}", String::from_utf8_lossy(&done.stdout));
    if done.status.success() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    // No list of packages has it, or no network brings it.
    let first = said.lines().next().unwrap_or_default();
    let first = first.strip_prefix("netloom: ").unwrap_or(first);
    if ["packages: resolve", "packages: download"].iter().any(|begin| first.starts_with(begin)) {
        return Ok(Some(first.to_owned()));
    }
    bail!("make the guest: {said}")
}

/// Runs the machine to its end, or to the bound.
fn boot(kernel: &Path, disk: &Path) -> Result<Said> {
    // A guest that hangs says nothing more, and reading from it would never end.
    let mut qemu = Command::new("timeout");
    qemu.args([BOUND, "qemu-system-x86_64"]).args(MACHINE).args(["-append", APPEND]);
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(disk);
    let mut child =
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start QEMU")?;
    let output = child.stdout.take().context("QEMU has no output")?;
    let mut said = Said::default();
    let (mut output, mut line) = (BufReader::new(output), vec![]);
    while output.read_until(b'\n', &mut line).context("read what the guest prints")? > 0 {
        said.line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        println!("{qemu:?}: {status}");
    }
    Ok(said)
}

/// What becomes the second archive.
struct Disk<'a> {
    built: &'a Artifacts,
    binary: &'a Path,
    wanted: &'a dyn Fn(&str) -> bool,
}

impl Disk<'_> {
    /// The image's RAM disk, and over it tests, binary and data. Tests that the guest does not have, with reasons.
    fn write(&self, folder: &Path, to: &File) -> Result<Vec<(String, String)>> {
        let mut file = BufWriter::new(to);
        // The kernel unpacks one archive after the other; a
        // file of the later one takes the place of another.
        std::io::copy(&mut File::open(folder.join("initrd"))?, &mut file)?;
        let mut archive = Archive::new(file);
        archive.add("t", Entry::Folder(0o755))?;
        let left = self.add_tests(&mut archive)?;
        let root = workspace::root();
        archive.add("usr/local/bin/netloom", Entry::File(0o755, &stripped(self.binary)?))?;
        let environment = format!(
            "export JOBS={JOBS} NETLOOM_BIN=/usr/local/bin/netloom NETLOOM_TEST_ROOT='{}'\n",
            root.display()
        );
        archive.add("t/environment", Entry::File(0o644, environment.as_bytes()))?;
        archive.add("t/run", Entry::File(0o755, RUNNER.as_bytes()))?;
        for name in ["examples", "tests", "docs", "core", "fuzz/seeds"] {
            add_above(&mut archive, &root.join(name))?;
            add_tree(&mut archive, &root.join(name))?;
        }
        archive.finish()?.flush()?;
        Ok(left)
    }

    /// Executables, and the list of their tests.
    fn add_tests(&self, archive: &mut Archive<BufWriter<&File>>) -> Result<Vec<(String, String)>> {
        let (root, mut left) = (workspace::root(), vec![]);
        let [mut list, mut alone] = [String::new(), String::new()];
        let tests = self.built.tests();
        let ours = |test: &&Built| CRATES.iter().any(|of| test.dir == Path::new(of));
        for test in tests.iter().filter(ours) {
            let mut names = names(test, self.wanted)?;
            let name = name_of(test);
            names.retain(|test| {
                let full = format!("{name} {test}");
                let why =
                    LEFT_OUT.iter().find(|(part, _)| full.contains(part)).map(|(_, why)| *why);
                left.extend(why.map(|why| (format!("{name}: {test}"), why.to_owned())));
                why.is_none()
            });
            if names.is_empty() {
                continue;
            }
            for line in names.iter().map(|test| format!("{name} {test}\n")) {
                let to =
                    if ALONE.iter().any(|of| line.contains(of)) { &mut alone } else { &mut list };
                to.push_str(&line);
            }
            // Tests name files by way of their own folder.
            let own = root.join(&test.dir).join("tests");
            add_above(archive, &own)?;
            if own.is_dir() {
                add_tree(archive, &own)?;
            }
            archive.add(&format!("t/{name}"), Entry::File(0o755, &stripped(&test.file)?))?;
        }
        archive.add("t/list", Entry::File(0o644, list.as_bytes()))?;
        archive.add("t/alone", Entry::File(0o644, alone.as_bytes()))?;
        Ok(left)
    }
}

/// A test executable in the guest and in results: its crate's folder, and its target where that is not the library.
fn name_of(test: &Built) -> String {
    let folder = test.dir.to_string_lossy().replace('/', "-");
    if test.target.starts_with("netloom") { folder } else { format!("{folder}-{}", test.target) }
}

fn add_above(archive: &mut Archive<BufWriter<&File>>, path: &Path) -> Result<()> {
    // The kernel makes no folder that an archive does not name, and files in it are lost.
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.retain(|at| at.parent().is_some());
    for folder in above.into_iter().rev() {
        archive.add(&inside(folder)?, Entry::Folder(0o755))?;
    }
    Ok(())
}

/// The tests of an executable that are wanted.
fn names(test: &Built, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<String>> {
    let listed = |more: &[&str]| -> Result<Vec<String>> {
        let mut command = Command::new(&test.file);
        command.args(["--list", "--format", "terse"]).args(more);
        Ok(outcome::listed(&String::from_utf8_lossy(&workspace::output(&mut command)?)))
    };
    let ignored = listed(&["--ignored"])?;
    let mut names = listed(&[])?;
    let folder = test.dir.to_string_lossy();
    names.retain(|name| !ignored.contains(name) && wanted(&format!("{folder} {name}")));
    Ok(names)
}

/// An executable without what only debuggers read; whole where binutils are missing.
fn stripped(file: &Path) -> Result<Vec<u8>> {
    let to = tempfile::NamedTempFile::new()?;
    let done = Command::new("strip").args(["-g", "-o"]).arg(to.path()).arg(file).output();
    let from = if done.is_ok_and(|done| done.status.success()) { to.path() } else { file };
    fs::read(from).with_context(|| format!("read {from:?}"))
}

fn add_tree(archive: &mut Archive<BufWriter<&File>>, from: &Path) -> Result<()> {
    archive.add(&inside(from)?, Entry::Folder(0o755))?;
    let mut entries: Vec<PathBuf> =
        fs::read_dir(from)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort_unstable();
    for path in entries {
        if path.is_dir() {
            add_tree(archive, &path)?;
        } else if path.is_file() {
            archive.add(&inside(&path)?, Entry::File(0o755, &fs::read(&path)?))?;
        }
    }
    Ok(())
}

/// A path as an archive has it.
fn inside(path: &Path) -> Result<String> {
    let text = path.to_str().context("the workspace's path is not UTF-8")?;
    Ok(text.trim_start_matches('/').to_owned())
}
