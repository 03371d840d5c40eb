//! What guests boot: Debian's kernel for QEMU, and an initial file system of busybox and this program for all.
//!
//! The kernel is of a package linux-image-…-cloud-amd64, installed, or unpacked in the folder that `NETLOOM_GUEST` names
//! or where `make peers` unpacks it. It has no driver for Intel's cards; guests with one boot the distribution's other kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::driver::{Driver, output};

/// Where a kernel package was unpacked.
const VARIABLE: &str = "NETLOOM_GUEST";
/// Where `make peers` unpacks it.
const OF_PEERS: &str = "/usr/local/lib/netloom-peers/kernel";
/// Where it unpacks the one with drivers for cards of computers.
const WITH_CARDS: &str = "/usr/local/lib/netloom-peers/kernel-cards";
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
/// The driver of QEMU's `e1000`.
const E1000: [&str; 1] = ["e1000"];
/// Reads commands from the console, and runs them.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# User-mode Linux has its cards built in.
[ -e /sys/class/net/eth0 ] || for module in $(cat /m/order); do insmod "/m/$module"; done
for word in $(cat /proc/cmdline); do case $word in own=*) own=${word#own=};; esac; done
ip link set lo up
ip addr add "$own/24" dev eth0
ip link set eth0 up
exec </dev/console >/dev/console 2>&1
stty -echo
echo "@@ up"
while read -r line; do eval "$line"; done
"#;

/// Initial file system, and QEMU's kernel, for any number of guests.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) initrd: PathBuf,
    /// The kernel and its version, or why there is none.
    pub(super) kernel: Result<(PathBuf, String), String>,
}

impl Image {
    /// Makes it, or says what is missing.
    pub(super) fn make(driver: &Driver) -> Result<Image> {
        let found = find(OF_PEERS, &MODULES);
        let kernel = found.as_ref().map(|found| (found.kernel.clone(), found.version.clone()));
        let initrd = initrd(driver, "guest", INIT, found.as_ref().ok())?;
        Ok(Image { initrd, kernel: kernel.map_err(Clone::clone) })
    }
}

/// A kernel for QEMU, and the modules that its guests load.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) kernel: PathBuf,
    pub(crate) version: String,
    /// Names and paths, in the order in which they are loaded.
    modules: Vec<(String, PathBuf)>,
}

/// The kernel for guests with virtio's cards or Intel's, or what is missing.
pub(crate) fn kernel(e1000: bool) -> Result<Kernel, String> {
    if e1000 { find(WITH_CARDS, &E1000) } else { find(OF_PEERS, &MODULES) }
}

/// A kernel with some of these modules.
fn find(of_peers: &str, modules: &[&str]) -> Result<Kernel, String> {
    let given = std::env::var_os(VARIABLE).map(PathBuf::from);
    let roots = given.map_or_else(|| vec!["/".into(), of_peers.into()], |given| vec![given]);
    let fit = roots.into_iter().filter_map(|root| {
        let (kernel, version) = newest_kernel(&root)?;
        let modules = modules_of(&root, &version, modules).ok()?;
        Some(Kernel { kernel, version, modules })
    });
    // Virtio may be built in, Intel's cards are not.
    let found = fit.into_iter().find(|found| modules != E1000 || !found.modules.is_empty());
    let package = if modules == E1000 { "linux-image-amd64" } else { "linux-image-cloud-amd64" };
    found.ok_or_else(|| {
        format!(
            "no kernel: make peers unpacks one; or install {package}, or unpack it in a folder and set NETLOOM_GUEST"
        )
    })
}

/// An initial file system with this first program, busybox, this program and a kernel's modules.
pub(crate) fn initrd(
    driver: &Driver,
    name: &str,
    init: &str,
    kernel: Option<&Kernel>,
) -> Result<PathBuf> {
    let tree = driver.folder().join(name);
    for folder in ["bin", "m", "proc", "sys", "dev", "tmp"] {
        fs::create_dir_all(tree.join(folder)).context("make a guest's folders")?;
    }
    let busybox = program("busybox")?;
    copy(&busybox, &tree.join("bin/busybox"))?;
    fs::write(tree.join("init"), init).context("write a guest's init")?;
    output(Command::new("chmod").arg("755").arg(tree.join("init")))?;
    copy(driver.own(), &tree.join("bin/netloom-bench"))?;
    // Busybox may be linked to none, which `ldd` takes for a failure.
    let of_busybox = libraries(&busybox).unwrap_or_default();
    for library in libraries(driver.own())?.into_iter().chain(of_busybox) {
        copy(&library, &tree.join(library.strip_prefix("/").unwrap_or(&library)))?;
    }
    let mut order = String::new();
    for (name, path) in kernel.into_iter().flat_map(|kernel| &kernel.modules) {
        copy(path, &tree.join("m").join(name))?;
        order += name;
        order.push('\n');
    }
    fs::write(tree.join("m/order"), order).context("write a guest's modules")?;
    let initrd = driver.folder().join(name).with_extension("cpio");
    let pack = r#"cd "$1" && find . | busybox cpio -o -H newc >"$2" 2>/dev/null"#;
    output(Command::new("sh").args(["-c", pack, "sh"]).arg(&tree).arg(&initrd))?;
    Ok(initrd)
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

/// Names and paths of those of these modules that the kernel has not built in.
fn modules_of(root: &Path, version: &str, modules: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let folder = ["lib/modules", "usr/lib/modules"].map(|path| root.join(path).join(version));
    let folder = folder.into_iter().find(|path| path.exists()).context("the kernel's modules")?;
    let mut found = vec![];
    for module in modules {
        let name = format!("{module}.ko");
        let path = output(Command::new("find").arg(&folder).args(["-name", &name]))?;
        found.extend(path.lines().next().map(|path| (name, PathBuf::from(path))));
    }
    Ok(found)
}

/// Where a program is.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    places
        .find(|place| place.is_file())
        .with_context(|| format!("no {name}: install {}", package(name)))
}

/// Debian's package of a program.
fn package(program: &str) -> &str {
    match program {
        "qemu-system-x86_64" => "qemu-system-x86",
        "linux.uml" => "user-mode-linux",
        "ovs-vswitchd" => "openvswitch-switch",
        "vde_switch" => "vde-switch",
        "busybox" => "busybox-static",
        "setpriv" => "util-linux",
        other => other,
    }
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
