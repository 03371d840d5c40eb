//! `test kernel [--kernel PACKAGE | --newer] [FILTER]`: tests under another kernel, in a virtual machine without KVM; a [`SAMPLE`]
//! of them is part of every whole run.
//!
//! `netloom image build` makes the guest, which is kept in `target/guest`; tests that are built already, the binary
//! and their data come as a second archive over its RAM disk. Each test is a process, as root, one after another. Times
//! there are some ten times those of this machine; what a guest cannot have is told as a skip: [`LEFT_OUT`].

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use netloom_boot::cpio::{Archive, Entry};

use super::execute::Outcome;
use super::outcome;
use super::skips::Expected;
use crate::workspace::{self, Artifacts, Built};

/// What runs in the guest.
const RUNNER: &str = include_str!("kernel.sh");
/// Crates whose tests run there: the namespace rung, and what touches the kernel most.
const CRATES: [&str; 10] = [
    "tests/netns",
    "host/sys",
    "host/netlink",
    "host/ebpf",
    "parts/node",
    "parts/wire",
    "parts/switch",
    "parts/measure",
    "parts/capture",
    "parts/guard",
];
/// Their packages for cargo.
const PARTS: [&str; 10] = [
    "--package=netloom-tests-netns",
    "--package=netloom-sys",
    "--package=netloom-netlink",
    "--package=netloom-ebpf",
    "--package=netloom-node",
    "--package=netloom-wire",
    "--package=netloom-switch",
    "--package=netloom-measure",
    "--package=netloom-capture",
    "--package=netloom-guard",
];
/// Packages beside those of every image, which tests use.
const PACKAGES: [&str; 7] =
    ["python3", "nftables", "libpcap0.8", "libelf1", "zlib1g", "libgcc-s1", "util-linux"];
/// Tests that a guest cannot have: a part of the name, and why. They are told as skips.
const LEFT_OUT: [(&str, &str); 0] = [];
/// What every whole run has, beside the demo: what kernels differ in most. By the beginning of folder and name.
const SAMPLE: [&str; 1] = ["host/netlink "];
/// Debian's kernel, by its package.
const KERNEL: &str = "linux-image-cloud-amd64";
/// Seconds that a guest may run.
const BOUND: &str = "3000";
const GUEST: [&str; 14] = [
    "-M",
    "q35",
    "-accel",
    "tcg",
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

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (kernels, filter) = match args {
        [flag, package, rest @ ..] if flag == "--kernel" => (vec![Some(package.clone())], rest),
        [flag, rest @ ..] if flag == "--newer" => (newer()?.into_iter().map(Some).collect(), rest),
        rest => (vec![None], rest),
    };
    let filter = match filter {
        [] => "",
        [filter] if !filter.starts_with('-') => filter.as_str(),
        other => bail!("test kernel: [--kernel PACKAGE | --newer] [FILTER], not {other:?}"),
    };
    if kernels.is_empty() {
        println!("newer kernels: apt's lists have none");
        return Ok(());
    }
    let mut build = vec!["test", "--no-run", "--tests"];
    // A filter that begins with a crate's folder needs no other crate.
    let needed = |folder: &str| {
        !CRATES.iter().any(|of| filter.starts_with(of)) || filter.starts_with(folder)
    };
    build.extend(CRATES.iter().zip(PARTS).filter(|(of, _)| needed(of)).map(|(_, part)| part));
    let built = Artifacts::build(&build)?;
    let mut failed = false;
    for kernel in kernels {
        let begin = Instant::now();
        let total = guest(&built, kernel.as_deref(), &|test| test.contains(filter))?;
        for (test, reason) in &total.skipped {
            println!("skipped: {test}: {reason}");
        }
        for test in &total.failed {
            println!("failed: {test}");
        }
        println!("total: {:.0} s", begin.elapsed().as_secs_f64());
        println!("{}", total.tally());
        failed |= !total.failed.is_empty();
    }
    if failed {
        bail!("tests failed");
    }
    Ok(())
}

/// Packages of newer kernels in apt's lists: those named after a version, and those of backports.
fn newer() -> Result<Vec<String>> {
    let ask = |args: &[&str]| -> Result<String> {
        let said = Command::new("apt-cache").args(args).output();
        match said {
            Ok(said) => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error).context("start apt-cache"),
        }
    };
    let names = ask(&["pkgnames", "linux-image-"])?;
    Ok(newer_of(&names, &ask(&["madison", KERNEL])?))
}

fn newer_of(names: &str, madison: &str) -> Vec<String> {
    let by_version = |name: &&str| {
        let version =
            name.strip_prefix("linux-image-").and_then(|n| n.strip_suffix("-cloud-amd64"));
        version.is_some_and(|v| v.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let mut found: Vec<String> = names.lines().filter(by_version).map(str::to_owned).collect();
    // PACKAGE | VERSION | URI SUITE/COMPONENT ARCHITECTURE Packages
    let suite = |line: &str| {
        let from = line.rsplit('|').next()?.split_whitespace().nth(1)?;
        let suite = from.split('/').next()?;
        suite.ends_with("-backports").then(|| format!("{KERNEL}/{suite}"))
    };
    found.extend(madison.lines().filter_map(suite));
    found.sort_unstable();
    found.dedup();
    found
}

/// Runs the sample of a whole run, whose tests are built.
pub(super) fn sample(built: &Artifacts, expected: &Expected) -> Result<Outcome> {
    let begin = Instant::now();
    let wanted = |test: &str| SAMPLE.iter().any(|begin| test.starts_with(begin));
    let mut outcome = guest(built, None, &wanted)?;
    if outcome.tests() == 1 {
        expected.judge_named("kernel", &mut outcome);
    }
    println!("{:<44} {}, {:.1} s", "kernel", outcome.tally(), begin.elapsed().as_secs_f64());
    Ok(outcome)
}

/// Runs the wanted tests, by folder and name, in a guest; where there can be none, a skip says why.
fn guest(
    built: &Artifacts,
    kernel: Option<&str>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Outcome> {
    let skip = |reason: String| {
        let skipped = vec![("kernel: guest".to_owned(), reason)];
        Ok(Outcome { skipped, ..Outcome::default() })
    };
    for program in ["qemu-system-x86_64", "apt-get", "dpkg-deb"] {
        if Command::new(program).arg("--version").output().is_err() {
            return skip(format!("peer:{program}: not installed"));
        }
    }
    let binary = built.netloom()?;
    let folder =
        workspace::root().join("target/guest").join(kernel.unwrap_or("default").replace('/', "_"));
    if let Some(reason) = image(&binary, kernel, &folder)? {
        return skip(format!("peer:apt: {reason}"));
    }
    let disk = folder.join("tests");
    let left = write_disk(built, &binary, wanted, &folder, &disk)?;
    let mut qemu = Command::new("timeout");
    qemu.args([BOUND, "qemu-system-x86_64"]).args(GUEST);
    qemu.args(["-append", "console=ttyS0 quiet panic=-1 netloom.run=/t/run", "-kernel"]);
    qemu.arg(folder.join("kernel")).arg("-initrd").arg(&disk).stdin(Stdio::null());
    let text = workspace::output(&mut qemu)?;
    let _ = fs::remove_file(&disk);
    let mut total = read(&String::from_utf8_lossy(&text));
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

/// The image's RAM disk, and over it tests, binary and data.
fn write_disk(
    built: &Artifacts,
    binary: &Path,
    wanted: &dyn Fn(&str) -> bool,
    folder: &Path,
    to: &Path,
) -> Result<Vec<(String, String)>> {
    let mut file = BufWriter::new(File::create(to).with_context(|| format!("make {to:?}"))?);
    std::io::copy(&mut File::open(folder.join("initrd"))?, &mut file)?;
    let mut archive = Archive::new(file);
    let (root, mut list, mut left) = (workspace::root(), String::new(), vec![]);
    archive.add("t", Entry::Folder(0o755))?;
    for test in
        built.tests().iter().filter(|test| CRATES.iter().any(|of| test.dir == Path::new(of)))
    {
        let mut names = names(test, wanted)?;
        let name = name_of(test);
        names.retain(|test| {
            let why = LEFT_OUT.iter().find(|(part, _)| test.contains(part)).map(|(_, why)| *why);
            left.extend(why.map(|why| (format!("{name}: {test}"), why.to_owned())));
            why.is_none()
        });
        if names.is_empty() {
            continue;
        }
        list.extend(names.iter().map(|test| format!("{name} {test}\n")));
        // Tests name files by way of their own folder.
        add_above(&mut archive, &root.join(&test.dir).join("tests"))?;
        if root.join(&test.dir).join("tests").is_dir() {
            add_tree(&mut archive, &root.join(&test.dir).join("tests"))?;
        }
        archive.add(&format!("t/{name}"), Entry::File(0o755, &stripped(&test.file)?))?;
    }
    archive.add("usr/local/bin/netloom", Entry::File(0o755, &stripped(binary)?))?;
    let environment = format!(
        "export NETLOOM_BIN=/usr/local/bin/netloom NETLOOM_TEST_ROOT='{}'\n",
        root.display()
    );
    archive.add("t/environment", Entry::File(0o644, environment.as_bytes()))?;
    archive.add("t/list", Entry::File(0o644, list.as_bytes()))?;
    archive.add("t/run", Entry::File(0o755, RUNNER.as_bytes()))?;
    for name in ["examples", "tests", "docs", "core", "fuzz/seeds"] {
        add_above(&mut archive, &root.join(name))?;
        add_tree(&mut archive, &root.join(name))?;
    }
    archive.finish()?.flush()?;
    Ok(left)
}

/// A test executable in the guest and in results: its crate's folder, and its target where that is not the library.
fn name_of(test: &Built) -> String {
    let folder = test.dir.to_string_lossy().replace('/', "-");
    if test.target.starts_with("netloom") { folder } else { format!("{folder}-{}", test.target) }
}

fn add_above(archive: &mut Archive<BufWriter<File>>, path: &Path) -> Result<()> {
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

fn add_tree(archive: &mut Archive<BufWriter<File>>, from: &Path) -> Result<()> {
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

/// Results in what the guest printed. Without its last line it did not end by itself.
fn read(text: &str) -> Outcome {
    let mut total = Outcome::default();
    let mut shown = false;
    for line in text.lines().map(str::trim_end) {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        shown = match words.as_slice() {
            ["@", "passed", ..] => {
                total.passed += 1;
                false
            }
            ["@", "skipped", of, test, reason] => {
                total.skipped.push((format!("{of}: {test}"), (*reason).to_owned()));
                false
            }
            ["@", "failed", of, test, reason] => {
                total.failed.push(format!("{of}: {test} ({reason})"));
                true
            }
            ["@@", release, ..] if *release != "end" => {
                println!("Linux {release}");
                false
            }
            _ => shown,
        };
        if shown {
            println!("{line}");
        }
    }
    if !text.lines().any(|line| line.trim_end() == "@@ end") {
        let last: Vec<&str> = text.lines().rev().take(20).collect();
        println!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        total.failed.push("kernel: the guest did not come to its end".to_owned());
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_kernels_are_named_by_version_or_backported() {
        let names = "linux-image-6.12-cloud-amd64\nlinux-image-cloud-amd64\nlinux-image-6.1.0-56-cloud-amd64\n\
                     linux-image-6.12-cloud-amd64-dbg\n";
        let madison = "linux-image-cloud-amd64 | 6.12.9-1~bpo12+1 | http://host/debian bookworm-backports/main amd64 \
                       Packages\nlinux-image-cloud-amd64 | 6.1.1-1 | http://host/debian bookworm/main amd64 Packages\n";
        let expected =
            ["linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64/bookworm-backports"];
        assert_eq!(newer_of(names, madison), expected);
        assert_eq!(newer_of("", ""), Vec::<String>::new());
    }

    #[test]
    fn what_the_guest_prints_is_counted() {
        let text = "noise\r\n@@ 6.1.0\r\n@ passed x a::b\r\n@ skipped x a::c kernel: has none\r\n\
                    @ failed x a::d exit code 101\r\npanicked\r\n@@ end\r\n";
        let total = read(text);
        assert_eq!(total.tally(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(total.skipped[0], ("x: a::c".to_owned(), "kernel: has none".to_owned()));
        assert_eq!(read("@ passed x a\n").failed.len(), 1, "no end");
    }
}
