//! A guest for QEMU: the kernel that `make peers` unpacks, with an initial RAM disk made here of busybox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use netloom_kit::{Run, missing, program};

use crate::Machine;

/// Where `make peers` puts the kernel, and where a machine has its own.
const ROOTS: [&str; 2] = ["/usr/local/lib/netloom-peers/kernel", "/"];

/// Drivers that the guest loads, in this order; those that are built into a kernel have no file.
const DRIVERS: [&str; 13] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
    "virtio_blk",
    "fat",
    "vfat",
    "nls_cp437",
    "nls_ascii",
];

/// Process 1: the plan's network, what `more` says, and a shell on the console.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin; export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /tmp /srv
for m in $(cat /drivers); do insmod /m/$m.ko 2>/dev/null; done
. /netloom/network
echo "made by a guest" >/srv/index.html; httpd -p 80 -h /srv
MORE
echo guest is up
exec setsid -c sh -i </dev/console >/dev/console 2>&1
"#;

/// A kernel and an initial RAM disk.
#[derive(Debug)]
pub struct Guest {
    /// The kernel's file.
    pub kernel: PathBuf,
    /// The initial RAM disk's file.
    pub initrd: PathBuf,
}

impl Guest {
    /// Makes the initial RAM disk in the machine's folder, with this shell text before the guest says that it is up.
    ///
    /// # Errors
    /// The missing part, as the reason of a skip.
    ///
    /// # Panics
    /// When it cannot be made of what is there.
    pub fn make(machine: &Machine, more: &str) -> Result<Guest, String> {
        let needs = ["busybox", "qemu-system-x86_64", "guest-kernel"];
        if let Some(reason) = needs.into_iter().find_map(missing) {
            return Err(reason);
        }
        let busybox = program("busybox").expect("its probe has found it");
        let (kernel, modules) = find().expect("the probe has found one");
        let root = machine.scratch().path().join("guest");
        for folder in ["bin", "m", "proc", "sys", "dev", "etc"] {
            fs::create_dir_all(root.join(folder)).expect("make the guest's folders");
        }
        fs::copy(&busybox, root.join("bin/busybox")).expect("copy busybox");
        copy_libraries(&busybox, &root);
        let drivers: Vec<&str> =
            DRIVERS.into_iter().filter(|name| copy_driver(&modules, name, &root)).collect();
        fs::write(root.join("drivers"), drivers.join("\n")).expect("write");
        fs::write(root.join("init"), INIT.replace("MORE", more)).expect("write");
        fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).expect("chmod");
        let initrd = machine.scratch().path().join("initrd");
        let pack = "cd \"$1\" && find . | busybox cpio -o -H newc > \"$2\"";
        let words = ["-c", pack, "sh"].map(PathBuf::from);
        Run::new("/bin/sh").args(words.iter().chain([&root, &initrd])).ok();
        Ok(Guest { kernel, initrd })
    }

    /// The keys of a node that has this guest.
    pub fn keys(&self) -> String {
        let (kernel, initrd) = (self.kernel.display(), self.initrd.display());
        format!("kind: vm, accel: tcg, append: quiet, kernel: {kernel}, initrd: {initrd}")
    }
}

/// A kernel that this user can read, and the folder of its modules.
fn find() -> Option<(PathBuf, PathBuf)> {
    for root in ROOTS.map(Path::new) {
        let Ok(entries) = fs::read_dir(root.join("boot")) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let Some(version) = name.strip_prefix("vmlinuz-") else { continue };
            let modules = root.join("lib/modules").join(version);
            if modules.is_dir() && fs::File::open(entry.path()).is_ok() {
                return Some((entry.path(), modules));
            }
        }
    }
    None
}

/// Whether this kernel has the driver as a module, which is copied.
fn copy_driver(modules: &Path, name: &str, root: &Path) -> bool {
    let wanted = format!("{name}.ko");
    let mut folders =
        ["drivers", "net", "fs"].map(|name| modules.join("kernel").join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == wanted.as_str() {
                fs::copy(entry.path(), root.join("m").join(&wanted)).expect("copy a driver");
                return true;
            }
        }
    }
    false
}

/// The libraries of a program that is not linked statically.
fn copy_libraries(program: &Path, root: &Path) {
    let told = Run::new("/usr/bin/ldd").args([program]).finish().text();
    for path in told.split_ascii_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a file lies in a folder")).expect("make a folder");
        fs::copy(path, to).expect("copy a library");
    }
}
