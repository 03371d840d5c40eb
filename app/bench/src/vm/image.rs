//! What guests boot: Debian's kernel for QEMU, and an initial file system of busybox and this binary for all.
//!
//! The kernel is of a package linux-image-…-cloud-amd64, installed, or unpacked in the folder that `NETLOOM_GUEST` names
//! or where `make peers` unpacks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::driver::{Driver, output};

/// Where a kernel package was unpacked.
const VARIABLE: &str = "NETLOOM_GUEST";
/// Where `make peers` unpacks it.
const OF_PEERS: &str = "/usr/local/lib/netloom-peers/kernel";
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
        let given = std::env::var_os(VARIABLE).map(PathBuf::from);
        let roots = given.map_or_else(|| vec!["/".into(), OF_PEERS.into()], |given| vec![given]);
        let lacks = "no kernel: make peers unpacks one; or install linux-image-cloud-amd64, or unpack it in a folder \
                     and set NETLOOM_GUEST";
        let found = roots.into_iter().find_map(|root| Some((newest_kernel(&root)?, root)));
        let (kernel, root) = match found {
            Some((kernel, root)) => (Ok(kernel), root),
            None => (Err(lacks.to_owned()), PathBuf::new()),
        };
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
        let found = kernel.as_ref().map(|(_, version)| modules(&root, version));
        for (name, path) in found.unwrap_or_else(|_| Ok(vec![]))? {
            copy(&path, &tree.join("m").join(&name))?;
            order += &name;
            order.push('\n');
        }
        fs::write(tree.join("m/order"), order).context("write a guest's modules")?;
        let initrd = driver.folder().join("guest.cpio");
        let pack = r#"cd "$1" && find . | busybox cpio -o -H newc >"$2" 2>/dev/null"#;
        output(Command::new("sh").args(["-c", pack, "sh"]).arg(&tree).arg(&initrd))?;
        Ok(Image { initrd, kernel })
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
