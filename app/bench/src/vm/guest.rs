//! A virtual machine for measurements: Debian's kernel, busybox and this binary, driven over its serial console.
//!
//! The kernel is of a package linux-image-…-cloud-amd64, installed, or unpacked in the folder that `NETLOOM_GUEST` names.
//! KVM is not taken: without vmx or svm it may open and then emulate.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::driver::{Driver, output};

pub(super) const QEMU: &str = "qemu-system-x86_64";
/// Where a kernel package was unpacked.
const VARIABLE: &str = "NETLOOM_GUEST";
/// What the cards need, in this order; a kernel may have some of them built in.
const MODULES: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];
/// Lines for the host begin with this; the rest is the kernel's.
const MARK: &str = "@@";
/// Longest wait for a guest that boots, and for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads commands from the console, and runs them.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /m/order); do insmod "/m/$module"; done
for word in $(cat /proc/cmdline); do case $word in own=*) own=${word#own=};; esac; done
ip link set lo up
ip addr add "$own/24" dev eth0
ip link set eth0 up
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty -echo
echo "@@ up"
while read -r line; do eval "$line"; done
"#;

/// Kernel and initial file system, for any number of guests.
#[derive(Debug)]
pub(super) struct Image {
    kernel: PathBuf,
    initrd: PathBuf,
    /// The kernel's version.
    pub(super) version: String,
}

impl Image {
    /// Makes it, or says what is missing.
    pub(super) fn make(driver: &Driver) -> Result<Image> {
        let root = std::env::var_os(VARIABLE).map_or_else(|| "/".into(), PathBuf::from);
        let lacks = "no kernel: install linux-image-cloud-amd64, or unpack it in a folder and set NETLOOM_GUEST";
        let (kernel, version) = newest_kernel(&root).context(lacks)?;
        let tree = driver.folder().join("guest");
        for folder in ["bin", "m", "proc", "sys", "dev", "tmp"] {
            fs::create_dir_all(tree.join(folder)).context("make a guest's folders")?;
        }
        copy(&program("busybox")?, &tree.join("bin/busybox"))?;
        fs::write(tree.join("init"), INIT).context("write a guest's init")?;
        output(Command::new("chmod").arg("755").arg(tree.join("init")))?;
        copy(driver.exe(), &tree.join("bin/netloom"))?;
        for library in libraries(driver.exe())? {
            copy(&library, &tree.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
        let mut order = String::new();
        for (name, path) in modules(&root, &version)? {
            copy(&path, &tree.join("m").join(&name))?;
            order += &name;
            order.push('\n');
        }
        fs::write(tree.join("m/order"), order).context("write a guest's modules")?;
        let initrd = driver.folder().join("guest.cpio");
        let pack = r#"cd "$1" && find . | busybox cpio -o -H newc >"$2" 2>/dev/null"#;
        output(Command::new("sh").args(["-c", pack, "sh"]).arg(&tree).arg(&initrd))?;
        Ok(Image { kernel, initrd, version })
    }
}

/// The newest kernel under a folder, by name.
fn newest_kernel(root: &Path) -> Option<(PathBuf, String)> {
    let found = fs::read_dir(root.join("boot")).ok()?.filter_map(Result::ok);
    let versions = found.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((entry.path(), name.strip_prefix("vmlinuz-")?.to_owned()))
    });
    versions.max_by(|a, b| a.1.cmp(&b.1))
}

/// Names and paths of the modules that the kernel has not built in.
fn modules(root: &Path, version: &str) -> Result<Vec<(String, PathBuf)>> {
    let folder = ["lib/modules", "usr/lib/modules"].map(|path| root.join(path).join(version));
    let folder = folder.into_iter().find(|path| path.exists()).context("the kernel's modules")?;
    let mut found = vec![];
    for module in MODULES {
        let name = format!("{module}.ko");
        let path = output(Command::new("find").arg(&folder).args(["-name", &name]))?;
        found.extend(path.lines().next().map(|path| (name, PathBuf::from(path))));
    }
    Ok(found)
}

/// Where a program is.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places.find(|place| place.is_file()).with_context(|| format!("no {name}"))
}

/// The libraries that a program is linked to, its loader included.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let text = output(Command::new("ldd").arg(program))?;
    let words = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    Ok(())
}

/// A running machine, killed when it is dropped.
#[derive(Debug)]
pub(super) struct Guest {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Guest {
    /// Starts one; `enter` runs a program where the card's other side is, `card` are the words of `-netdev` and `-chardev`.
    pub(super) fn start(
        image: &Image,
        mut enter: Command,
        own: &str,
        number: u8,
        card: &[String],
    ) -> Result<Guest> {
        let append = format!("console=ttyS0 quiet panic=-1 own={own}");
        // QEMU 7.2 under TCG loses interrupts of a vhost-user card by MSI-X, so no card has it.
        let device =
            format!("virtio-net-pci,netdev=n,romfile=,vectors=0,mac=52:54:00:00:00:{number:02x}");
        enter.args(["--pdeathsig", "KILL", "--", QEMU]);
        enter.args(["-accel", "tcg", "-nodefaults", "-display", "none", "-no-reboot", "-m", "192"]);
        enter.args(["-object", "memory-backend-memfd,id=m,size=192M,share=on"]);
        enter.args(["-machine", "pc,memory-backend=m", "-serial", "stdio"]);
        enter.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        enter.args(["-append", &append, "-device", &device]).args(card);
        enter.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = enter.spawn().with_context(|| format!("start {QEMU}"))?;
        let (input, printed) = (child.stdin.take(), child.stdout.take());
        let (input, printed) = input.zip(printed).context("a guest without a console")?;
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(printed).split(b'\n').map_while(Result::ok) {
                let _ = said.send(String::from_utf8_lossy(&line).trim().to_owned());
            }
        });
        Ok(Guest { child, input, lines })
    }

    /// Waits for its next line for us.
    pub(super) fn hear(&mut self) -> Result<String> {
        let (until, mut last) = (Instant::now() + PATIENCE, String::new());
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) => match line.find(MARK) {
                    Some(at) => return Ok(line[at + MARK.len()..].trim().to_owned()),
                    None => last = line,
                },
                Err(error) => bail!("a guest said nothing: {error}; its last line: {last:?}"),
            }
        }
    }

    /// Runs commands in it, which say something with [`MARK`] if that is to be heard.
    pub(super) fn tell(&mut self, commands: &str) -> Result<()> {
        writeln!(self.input, "{commands}").context("write to a guest's console")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
