//! Machines as routers: what their guests boot, and the keys of their nodes.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::way::{Machine, Way};
use crate::driver::Driver;
use crate::processes::tree;
use crate::vm::image;

/// Forwards, and reads commands from the console. `hold` takes what is sent to the guest itself.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in $(cat /m/order); do insmod "/m/$module"; done
. /netloom/network
echo 1 >/proc/sys/net/ipv4/ip_forward
exec </dev/console >/dev/console 2>&1
stty -echo
echo "@@ up"
while read -r line; do eval "$line"; done
"#;

/// The keys of a router's node; empty for a node that is not a machine.
pub(super) fn keys(driver: &Driver, way: Way) -> Result<String> {
    match way.machine() {
        None if way == Way::Separate => {
            Ok("kind: router, plane: separate, daemon: none".to_owned())
        }
        None => Ok(String::new()),
        Some(Machine::Uml) => Ok("kind: vm, accel: uml, memory: 192MiB".to_owned()),
        Some(Machine::Qemu { e1000 }) => {
            let kernel = image::kernel(e1000).map_err(|why| anyhow!(why))?;
            let name = if e1000 { "router-e1000" } else { "router-virtio" };
            let initrd = image::initrd(driver, name, INIT, Some(&kernel))?;
            let nic = if e1000 { "e1000" } else { "virtio" };
            Ok(format!(
                "kind: vm, kernel: {}, initrd: {}, nic: {nic}, append: quiet, memory: 256MiB, \
                 ready: {{console: \"@@ up\", timeout: 60s}}",
                text(&kernel.kernel)?,
                text(&initrd)?
            ))
        }
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{}: not UTF-8", path.display()))
}

/// What runs the machine of a node, as QEMU was told: `TCG`, `KVM`.
pub(super) fn accelerator(node: u32) -> Option<String> {
    let lines =
        tree(node).into_iter().filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    lines.into_iter().find_map(|line| in_words(&String::from_utf8_lossy(&line)))
}

fn in_words(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(",accel=")?;
    let end = rest.find([',', '\0']).unwrap_or(rest.len());
    Some(rest[..end].to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accelerator_is_among_qemus_words() {
        assert_eq!(in_words("qemu\0-machine\0pc,accel=tcg\0-m\0").as_deref(), Some("TCG"));
        assert_eq!(in_words("-machine\0pc,accel=kvm,x=y").as_deref(), Some("KVM"));
        assert_eq!(in_words("linux.uml\0mem=64M"), None);
    }
}
