//! `image build`: missing packages are reported, and the result is a lab's guest.

use std::time::Duration;

use netloom_kit::Binary;
use netloom_tests_e2e::live::Held;
use netloom_tests_e2e::{Machine, Run, lacks, machine, needs, wait_until, workspace_root};

/// What programs in a guest that is translated take on a busy machine.
const BOUND: Duration = Duration::from_secs(240);

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
    let built = machine.netloom(words).bound(BOUND).finish();
    let said = built.errors();
    if said.contains("packages: ") {
        lacks!("apt-mirror", "{}", said.lines().next().unwrap_or_default());
    }
    let built = built.code(0).json();
    assert!(built["release"].as_str().unwrap().contains("cloud"), "{built}");
    assert_eq!(built["cached"], false);
    let text = format!(
        "name: guests\nnodes:\n  h1: {{}}\n  guest:\n    kind: vm\n    accel: tcg\n    memory: 512MiB\n    \
         kernel: {0}/kernel\n    initrd: {0}/initrd\n    append: quiet\n    \
         ready: {{console: \"netloom: up after\", agent: true, file: /init, exec: [\"true\"], timeout: 240s}}\nlinks: [[h1, guest]]\n",
        image.display()
    );
    machine.up(&text);
    machine.answers("h1", "guest");
    the_agent_starts_programs(&machine);
    machine.netloom(["down", "--all"]).finish().code(0);
    a_guest_ends_in_order(&machine, &text);
    machine.down();
}

/// The files that the example names are a kernel and a RAM disk that netloom makes, and an empty disk. Only what such a guest
/// says when it is up, and what it needs to unpack itself, differ.
#[test]
fn the_example_of_qemu_comes_up_with_all_its_keys() {
    needs!("apt-get", "dpkg-deb", "qemu-system-x86_64", "qemu-img");
    let machine = machine!();
    let folder = machine.scratch().path().join("example");
    let at = |name: &str| folder.join(name).display().to_string();
    let words = ["image", "build", "debian", "--out", &at("image")];
    let built = machine.netloom(words).bound(BOUND).finish();
    if built.errors().contains("packages: ") {
        lacks!("apt-mirror", "{}", built.errors().lines().next().unwrap_or_default());
    }
    built.code(0);
    for (made, named) in [("image/kernel", "vmlinuz"), ("image/initrd", "initrd.img")] {
        std::fs::copy(at(made), at(named)).unwrap();
    }
    Run::new("qemu-img").args(["create", "-q", "-f", "qcow2", &at("disk.qcow2"), "1M"]).ok();
    std::fs::write(at("user-data.yaml"), "#cloud-config\nhostname: given\n").unwrap();
    let example = workspace_root().join("examples/vm-qemu.yaml");
    let mut text = std::fs::read_to_string(example).unwrap();
    for (from, to) in [
        ("guest is up", "netloom: up after"),
        ("memory: 128MiB", "memory: 512MiB"),
        ("timeout: 60s", "timeout: 240s"),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    std::fs::write(at("lab.yaml"), text).unwrap();
    machine.netloom(["up", &at("lab.yaml")]).bound(BOUND + BOUND).finish().code(0);
    machine.answers("h1", "guest");
    // Its disk is empty and can be written, and the second one has the user's data.
    machine.exec("guest", &["sh", "-c", "echo kept >/dev/vda && sync"]).ok();
    let seed =
        machine.exec("guest", &["sh", "-c", "tr -d '\\000' </dev/vdb | grep -c 'hostname: given'"]);
    assert_eq!(seed.ok(), "1\n");
    machine.netloom(["down", "--all"]).bound(BOUND).finish().code(0);
    let written = std::fs::metadata(at("written.qcow2")).unwrap();
    assert!(written.len() > 0, "what the guest wrote is kept");
    machine.down();
}

/// What a guest with a kept disk still holds when it is asked to end is there when it comes again.
fn a_guest_ends_in_order(machine: &Machine, text: &str) {
    let at = |name: &str| machine.scratch().path().join(name).display().to_string();
    std::fs::write(at("disk"), vec![0; 1 << 20]).unwrap();
    let keys = format!("    disk: {}\n    keep: {}\n    append:", at("disk"), at("kept"));
    let text = text.replace("    append:", &keys);
    machine.up(&text);
    machine.exec("guest", &["sh", "-c", "echo held >/dev/vda"]).ok();
    machine.netloom(["down", "--all"]).bound(BOUND).finish().code(0);
    machine.up(&text);
    assert_eq!(machine.exec("guest", &["head", "-n", "1", "/dev/vda"]).ok(), "held\n");
}

/// Programs, their input and output, files, and what goes wrong, by the guest's agent.
fn the_agent_starts_programs(machine: &Machine) {
    let words = ["sh", "-c", "cat; echo wrong >&2; exit 7"];
    let ended = machine.exec("guest", &words).input("given\n").finish().code(7);
    assert_eq!((ended.text(), ended.errors().trim_end()), ("given\n".to_owned(), "wrong"));
    machine.exec("guest", &["no-such-program"]).finish().code(1).says("no-such-program");
    let long = ["head", "-c", "17000000", "/dev/zero"];
    machine.exec("guest", &long).finish().code(1).says("16 MiB of a program's output at most");
    // Files go in and out as they are.
    let (there, back) =
        (machine.scratch().path().join("there"), machine.scratch().path().join("back"));
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&there, &bytes).unwrap();
    machine.ok(&format!("cp {} guest:/tmp/", there.display()));
    machine.ok(&format!("cp guest:/tmp/there {}", back.display()));
    assert!(std::fs::read(&back).unwrap() == bytes, "the file has changed on its way");
    // Who leaves takes the program along.
    let mut held = Held::start(machine.exec("guest", &["sleep", "4321"]));
    drop(held.child().stdin.take());
    let runs = || machine.exec("guest", &["pidof", "sleep"]).finish().status.code() == Some(0);
    wait_until("the program", BOUND, || runs().then_some(()));
    netloom_tests_e2e::kill(held.pid());
    wait_until("its end", BOUND, || (!runs()).then_some(()));
    // Without its agent the guest goes on.
    machine.exec("guest", &["sh", "-c", "sleep 1; kill $(cat /run/qemu-ga.pid)"]).finish();
    wait_until("the agent's end", BOUND, || {
        let refused = machine.exec("guest", &["true"]).finish();
        refused.errors().contains("no agent that listens").then_some(())
    });
    machine.answers("h1", "guest");
}
