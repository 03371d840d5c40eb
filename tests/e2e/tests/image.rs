//! `image build`: what is missing is said, and what is made is a lab's guest.

use netloom_kit::Binary;
use netloom_tests_e2e::{Run, machine, needs, skip};

#[test]
fn without_apt_it_says_what_is_missing() {
    let machine = machine!();
    let empty = machine.scratch().path().join("none");
    std::fs::create_dir(&empty).unwrap();
    let image = machine.scratch().path().join("image");
    let words = ["image", "build", "debian", "--out", image.to_str().unwrap()];
    Run::new(Binary::find().path())
        .args(words)
        .env("PATH", &empty)
        .finish()
        .code(3)
        .says("apt-get is not installed")
        .says("build there, and copy the folder");
    machine.untouched();
}

#[test]
fn an_image_is_a_labs_guest() {
    needs!("apt-get", "dpkg-deb", "qemu-system-x86_64");
    let machine = machine!();
    let image = machine.scratch().path().join("image");
    let words = ["image", "build", "debian", "--out", image.to_str().unwrap(), "--json"];
    let built = machine.netloom(words).bound(std::time::Duration::from_secs(100)).finish();
    let said = built.errors();
    if said.contains("packages: ") {
        skip!("peer:apt: {}", said.lines().next().unwrap_or_default());
    }
    let built = built.code(0).json();
    assert!(built["release"].as_str().unwrap().contains("cloud"), "{built}");
    assert_eq!(built["cached"], false);
    let text = format!(
        "name: guests\nnodes:\n  h1: {{}}\n  guest:\n    kind: vm\n    accel: tcg\n    memory: 512MiB\n    \
         kernel: {0}/kernel\n    initrd: {0}/initrd\n    append: quiet\n    \
         ready: {{console: \"netloom: up after\", timeout: 60s}}\nlinks: [[h1, guest]]\n",
        image.display()
    );
    machine.up(&text);
    machine.exec("h1", &["ping", "-c", "1", "-W", "20", "guest"]).ok();
    machine.down();
}
