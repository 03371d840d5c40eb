//! Disks of virtual machines with a real QEMU: only read, kept, shared, booted from, saved, refused.

use std::fs;
use std::path::{Path, PathBuf};

use netloom_tests_e2e::guest::Guest;
use netloom_tests_e2e::{Machine, Run, kill, machine, needs, program, wait_until};

use crate::vm_qemu::{BOUND, answers, guest, lab, qemu};

/// What the guest does with its disks: shows the first sector and the one at 8, which it then writes, and the seed's
/// files; and answers with a word that it holds in memory, and one on the disk.
const LOOK: &str = r#"
dd if=/dev/vda of=/srv/first bs=512 count=1 2>/dev/null
dd if=/dev/vda of=/srv/before bs=512 skip=8 count=1 2>/dev/null
printf 'written by the guest' | dd of=/dev/vda bs=512 seek=8 conv=sync,fsync 2>/dev/null
mkdir -p /mnt; mount -t vfat -o ro /dev/vdb /mnt && cp /mnt/* /srv/
mkdir /srv/cgi-bin
cat >/srv/cgi-bin/word <<'W'
#!/bin/sh
echo; [ -z "$QUERY_STRING" ] || echo "$QUERY_STRING" >/tmp/word
[ ! -b /dev/vda ] || [ -z "$QUERY_STRING" ] || { echo "$QUERY_STRING" | dd of=/dev/vda bs=512 seek=16 conv=sync,fsync; } 2>/dev/null
cat /tmp/word; [ ! -b /dev/vda ] || { echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vda bs=512 skip=16 count=1 2>/dev/null; }
W
chmod 755 /srv/cgi-bin/word"#;

fn img(words: &[&str]) {
    Run::new(program("qemu-img").expect("it is there")).args(words).ok();
}

/// A raw disk of 1 MiB with a text in its first sector.
fn disk(machine: &Machine) -> PathBuf {
    let path = machine.scratch().path().join("disk.raw");
    let mut bytes = b"from the disk\n".to_vec();
    bytes.resize(1 << 20, 0);
    fs::write(&path, bytes).expect("write the disk");
    path
}

fn page(machine: &Machine, name: &str) -> String {
    let url = format!("http://g/{name}");
    machine.exec("h", &["curl", "-fsS", "-o", "/tmp/page", &url]).ok();
    machine.exec("h", &["sh", "-c", r"tr -d '\000' </tmp/page"]).ok()
}

fn up(machine: &Machine, text: &str) {
    let file = machine.file(text);
    machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(0);
    answers(machine);
}

/// Its guest has no power button: it ends itself, since what is kept gives it time to.
fn down_from_inside(machine: &Machine) {
    let shell = machine.netloom(["shell", "g"]).input("poweroff -f\n");
    shell.bound(BOUND).finish();
    down(machine);
}

fn down(machine: &Machine) {
    machine.netloom(["down", "--all"]).bound(BOUND).finish().code(0);
}

/// `up` of this text is refused with these words.
fn refused(machine: &Machine, text: &str, parts: &[&str]) {
    let file = machine.file(text);
    let run = machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish();
    assert!(run.status.code().is_some_and(|code| code != 0), "{text}");
    for part in parts {
        assert!(run.errors().contains(part), "{part:?} in {}", run.errors());
    }
}

#[test]
fn a_disk_is_only_read_and_the_seed_has_the_plan() {
    let machine = machine!();
    let guest = guest!(machine, LOOK);
    let disk = disk(&machine);
    let before = fs::read(&disk).expect("read the disk");
    let data = machine.scratch().path().join("user-data");
    fs::write(&data, "#cloud-config\nusers: [me]\n").expect("write");
    let text = lab(&guest, &format!("disk: {}, user-data: {}", disk.display(), data.display()));
    up(&machine, &text);
    assert_eq!(page(&machine, "first"), "from the disk\n");
    assert_eq!(page(&machine, "before"), "");
    assert_eq!(page(&machine, "user-data"), "#cloud-config\nusers: [me]\n");
    assert!(page(&machine, "meta-data").contains("local-hostname: \"g\"\n"));
    assert!(
        page(&machine, "vendor-data").starts_with("#cloud-boothook\n#!/bin/sh\ncat >/etc/hosts")
    );
    let network = page(&machine, "network-config");
    let node = machine.node("g");
    for part in [node["interfaces"][0]["mac"].as_str().expect("a MAC"), "\"eth0\":", "set-name:"] {
        assert!(network.contains(part), "{part} in {network}");
    }
    down(&machine);
    assert!(fs::read(&disk).expect("read the disk") == before, "the disk has changed");
    up(&machine, &text);
    assert_eq!(page(&machine, "before"), "");
    machine.down();
}

#[test]
fn what_is_kept_is_there_again_also_after_a_kill() {
    needs!("qemu-img", "qemu-system-x86_64");
    let machine = machine!();
    let guest = guest!(machine, LOOK);
    let disk = disk(&machine);
    let keep = machine.scratch().path().join("kept.qcow2");
    let keys = format!("disk: {}, keep: {}, restart: on-failure", disk.display(), keep.display());
    let text = lab(&guest, &keys);
    up(&machine, &text);
    assert_eq!(page(&machine, "before"), "");
    let first = qemu(&machine);
    kill(first);
    wait_until("the machine's next boot", BOUND, || {
        let url = "http://g/before";
        let shown = machine.exec("h", &["curl", "-fsS", "-m", "2", url]).finish();
        shown.text().starts_with("written by the guest").then_some(())
    });
    down_from_inside(&machine);
    img(&["check", keep.to_str().expect("UTF-8")]);
    up(&machine, &text);
    assert_eq!(page(&machine, "before"), "written by the guest");
    down_from_inside(&machine);
    machine.down();
}

#[test]
fn labs_share_a_disk_and_not_what_is_kept() {
    let (machine, other) = (machine!(), machine!());
    let guest = guest!(machine, "");
    let disk = disk(&machine);
    let keep = machine.scratch().path().join("kept.qcow2");
    let shared = format!("disk: {}", disk.display());
    let kept = format!("{shared}, keep: {}", keep.display());
    up(&machine, &lab(&guest, &kept));
    refused(&other, &lab(&guest, &kept), &["node \"g\"", "lock"]);
    up(&other, &lab(&guest, &shared));
    answers(&machine);
    other.down();
    down_from_inside(&machine);
    machine.down();
}

#[test]
fn a_machine_is_saved_and_restored_with_its_disk() {
    for with_disk in [true, false] {
        let machine = machine!();
        let guest = guest!(machine, LOOK);
        let disk = disk(&machine);
        let key = if with_disk { format!("disk: {}", disk.display()) } else { String::new() };
        up(&machine, &lab(&guest, &key));
        machine.refused("node restore g", 1, &["it has not been saved"]);
        let both =
            |word: &str| if with_disk { format!("{word}\n{word}\n") } else { format!("{word}\n") };
        assert_eq!(page(&machine, "cgi-bin/word?one"), both("one"));
        machine.ok("node save g");
        assert_eq!(page(&machine, "cgi-bin/word?two"), both("two"));
        machine.ok("node restore g");
        assert_eq!(page(&machine, "cgi-bin/word"), both("one"));
        // Saving again replaces it.
        assert_eq!(page(&machine, "cgi-bin/word?three"), both("three"));
        machine.ok("node save g");
        machine.ok("node restore g");
        assert_eq!(page(&machine, "cgi-bin/word"), both("three"));
        machine.down();
    }
}

/// A disk that boots: its first sector writes a line to the first serial line, and halts.
fn boots(machine: &Machine) -> PathBuf {
    let code: [u8; 21] = [
        0x31, 0xc0, 0x8e, 0xd8, 0xba, 0xf8, 0x03, 0xbe, 0x15, 0x7c, 0xac, 0x84, 0xc0, 0x74, 0x03,
        0xee, 0xeb, 0xf8, 0xf4, 0xeb, 0xfd,
    ];
    let mut bytes = [&code[..], b"the disk boots\n\0"].concat();
    bytes.resize(510, 0);
    bytes.extend([0x55, 0xaa]);
    bytes.resize(1 << 20, 0);
    let path = machine.scratch().path().join("boots.raw");
    fs::write(&path, bytes).expect("write the disk");
    path
}

#[test]
fn a_disk_boots_by_itself_in_both_formats_on_both_buses() {
    needs!("qemu-img", "qemu-system-x86_64");
    let machine = machine!();
    let raw = boots(&machine);
    let qcow2 = machine.scratch().path().join("boots.qcow2");
    let words = [&raw, &qcow2].map(|path| path.to_str().expect("UTF-8"));
    img(&["convert", "-f", "raw", "-O", "qcow2", words[0], words[1]]);
    let bios = Path::new("/usr/share/seabios/bios-256k.bin");
    for (disk, keys) in [
        (&raw, "machine: pc".to_owned()),
        (&qcow2, "machine: q35, disk-bus: ide, seed: false".to_owned()),
        (&qcow2, format!("firmware: {}", bios.display())),
    ] {
        if keys.starts_with("firmware") && !bios.exists() {
            continue;
        }
        let ready = "ready: {console: the disk boots, timeout: 240s}";
        let text = format!(
            "nodes: {{g: {{kind: vm, accel: tcg, disk: {}, {keys}, {ready}}}}}\n",
            disk.display()
        );
        let file = machine.file(&text);
        machine.netloom(["up".as_ref(), file.as_os_str()]).bound(BOUND).finish().code(0);
        down(&machine);
    }
    machine.down();
}

#[test]
fn what_is_no_disk_is_refused_with_its_name() {
    needs!("qemu-img", "qemu-system-x86_64");
    let machine = machine!();
    let at = |name: &str| machine.scratch().path().join(name);
    let raw = disk(&machine);
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    fs::write(at("text"), "no disk").expect("write");
    fs::write(at("empty"), "").expect("write");
    fs::write(at("named.qcow2"), vec![7; 4096]).expect("write");
    fs::write(at("packed"), [&b"\x1f\x8b\x08"[..], &[0; 509]].concat()).expect("write");
    let made = |name: &str, words: &[&str]| {
        let target = path(&at(name));
        img(&[&["create", "-q", "-f"], words, &[&target, "1M"]].concat());
    };
    made("vmdk", &["vmdk"]);
    made("above", &["qcow2", "-b", &path(&raw), "-F", "raw"]);
    fs::write(at("cut"), &fs::read(at("above")).expect("read")[..64]).expect("write");
    let wrong = [
        ("missing", "No such file"),
        (".", "it is a directory"),
        ("text", "7 bytes are not a whole number of sectors"),
        ("empty", "it is empty"),
        ("packed", "packed with gzip"),
        ("vmdk", "VMDK"),
        ("above", "it lies above"),
        ("cut", "it ends within the header"),
        ("named.qcow2", "it is not a qcow2 image"),
    ];
    for (name, reason) in wrong {
        let text =
            format!("nodes: {{g: {{kind: vm, accel: tcg, disk: {}}}}}\n", at(name).display());
        refused(&machine, &text, &["node \"g\": disk", &path(&at(name)), reason]);
    }
    fs::write(at("other"), vec![0; 2 << 20]).expect("write");
    for (name, reason) in
        [("text", "not a layer"), (".", "directory"), ("above", "written to another disk")]
    {
        let text = format!(
            "nodes: {{g: {{kind: vm, accel: tcg, disk: {}, keep: {}}}}}\n",
            at("other").display(),
            at(name).display()
        );
        refused(&machine, &text, &["node \"g\": keep", reason]);
    }
    let keys = "nodes: {g: {kind: vm, kernel: /bin/sh, keep: a, seed: true}}";
    refused(&machine, keys, &["keep: there is no `disk`", "seed: there is no `disk`"]);
    machine.untouched();
}
