//! The disk from which a guest's cloud-init learns the plan, read by the real cloud-init in a guest of QEMU.

use std::time::Duration;

use netloom_tests_e2e::{lacks, machine, needs, ordinary_only};

/// An image with more packages, or cloud-init by translation, on a busy machine.
const BOUND: Duration = Duration::from_secs(300);

/// One source, one renderer, and nothing that wants users or keys.
const SETTINGS: &str = "datasource_list: [NoCloud]\ncloud_init_modules: [write-files]\ncloud_config_modules: []\n\
                        cloud_final_modules: []\nsystem_info: {distro: debian}\n";

#[test]
fn cloud_init_learns_the_plan() {
    // `vm_disks` has what the disk says as both users; cloud-init reads it by translation, for a minute.
    ordinary_only!("a guest reads the same, whose process it is");
    needs!("apt-get", "dpkg-deb", "qemu-system-x86_64");
    let machine = machine!();
    let at = |name: &str| machine.scratch().path().join(name).display().to_string();
    let packages = ["cloud-init", "util-linux", "ifupdown"].map(|name| ["--with", name]);
    let words = ["image", "build", "debian", "--out", &at("image")];
    let built =
        machine.netloom(words.iter().chain(packages.iter().flatten())).bound(BOUND).finish();
    if built.errors().contains("packages: ") {
        lacks!("apt-mirror", "{}", built.errors().lines().next().unwrap_or_default());
    }
    built.code(0);
    std::fs::write(at("disk"), vec![0; 1 << 20]).expect("write the disk");
    let text = format!(
        "nodes:\n  h:\n  r: {{forwarding: true}}\n  g:\n    kind: vm\n    accel: tcg\n    memory: 768MiB\n    \
         kernel: {0}/kernel\n    initrd: {0}/initrd\n    append: quiet\n    disk: {1}\n    \
         ready: {{agent: true, timeout: 240s}}\nlinks: [[h, r], [r, g]]\n",
        at("image"),
        at("disk")
    );
    let file = machine.file(&text);
    machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(0);
    let prepare = "rm -f /etc/cloud/cloud.cfg.d/*; mkdir -p /var/log; cat >/etc/cloud/cloud.cfg; \
                   echo 'source /etc/network/interfaces.d/*' >/etc/network/interfaces; modprobe vfat";
    machine.exec("g", &["sh", "-c", prepare]).input(SETTINGS).ok();
    // The second stage, which takes the names and the user's data, takes as long again.
    machine.exec("g", &["cloud-init", "init", "--local"]).bound(BOUND).finish();
    let shown = |path: &str| machine.exec("g", &["cat", path]).ok();
    let network = shown("/etc/network/interfaces.d/50-cloud-init");
    let interface = &machine.node("g")["interfaces"][0];
    let addresses = interface["addresses"].as_array().expect("addresses");
    assert!(network.contains("iface eth0 inet static") && addresses.len() == 2, "{network}");
    for address in addresses.iter().filter_map(|address| address.as_str()) {
        assert!(network.contains(address), "{address} in {network}");
    }
    // The way to the other segment, over the router.
    assert_eq!(network.matches("\n    gateway ").count(), 2, "{network}");
    assert!(shown("/var/lib/cloud/data/instance-id").contains(".g"));
    machine.down();
}
