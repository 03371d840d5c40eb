//! An image is made as an ordinary user, survives its builder's death, is kept, and boots to a shell that answers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use netloom_image::{Error, Recipe, build};

/// Where the helper builds.
const FOLDER: &str = "NETLOOM_TEST_IMAGE";
const BOUND: Duration = Duration::from_secs(120);

/// Killed and waited for, whatever becomes of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn silent(_: &str) {}

#[test]
#[ignore = "helper: builds an image until it is killed"]
fn builds() {
    let folder = std::env::var_os(FOLDER).unwrap();
    build(Path::new(&folder), &Recipe::default(), &mut silent).unwrap();
}

#[test]
fn an_image_outlives_a_killed_build_is_kept_and_boots() {
    netloom_kit::needs!("apt-get", "dpkg-deb", "qemu-system-x86_64");
    netloom_kit::ordinary_only!("an image needs no root");
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("image");
    if let Some(refused) = killed_while_building(&folder) {
        netloom_kit::lacks!("apt-mirror", "{refused}");
    }
    assert!(!folder.join("image.json").exists(), "looks whole");
    let built = build(&folder, &Recipe::default(), &mut silent).unwrap();
    let (downloaded, made) = built.took.expect("made now");
    let left = std::fs::read_dir(&folder).unwrap().flatten();
    let hidden = left.filter(|e| e.file_name().to_string_lossy().starts_with(".building"));
    assert_eq!(hidden.count(), 0);
    let begin = Instant::now();
    let again = build(&folder, &Recipe::default(), &mut silent).unwrap();
    assert_eq!((again.took, again.image), (None, built.image.clone()));
    println!(
        "downloaded in {downloaded:.1?}, built in {made:.1?}, found again in {:.1?}",
        begin.elapsed()
    );
    boots(&built);
}

/// Kills a builder at work. If it ended before by itself, what it said.
fn killed_while_building(folder: &Path) -> Option<String> {
    let mut helper = netloom_kit::again(&builds);
    helper.env(FOLDER, folder).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Ended(helper.spawn().unwrap());
    let unpacks = || {
        let entries = std::fs::read_dir(folder).ok()?;
        let mut works = entries.flatten().filter(|entry| entry.path().join("root/usr").exists());
        works.next().map(|_| ())
    };
    let ended = netloom_kit::wait_until("packages that are unpacked", BOUND, || {
        unpacks().map(|()| false).or_else(|| child.0.try_wait().unwrap().map(|_| true))
    });
    if ended {
        let said = std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap();
        // Without a network or lists of packages nothing can be built.
        assert!(said.contains("packages: "), "{said}");
        return said.lines().find(|line| line.contains("packages: ")).map(str::to_owned);
    }
    let busy = build(folder, &Recipe::default(), &mut silent).unwrap_err();
    assert!(matches!(busy, Error::Busy(_)), "{busy}");
    None
}

/// Boots without KVM, and asks the shell.
fn boots(built: &netloom_image::Built) {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-M", "q35", "-accel", "tcg", "-m", "512", "-nodefaults", "-display", "none"]);
    qemu.args(["-no-reboot", "-serial", "stdio", "-netdev", "user,id=n,restrict=on"]);
    qemu.args(["-device", "virtio-net-pci,netdev=n", "-append"]);
    qemu.arg(
        "console=ttyS0 quiet panic=-1 no_timer_check netloom.hostname=guest netloom.mtu=1400 \
              netloom.address=10.9.8.7/24,fd00::7/64 netloom.gateway=10.9.8.1",
    );
    qemu.arg("-kernel").arg(&built.kernel).arg("-initrd").arg(&built.initrd);
    let begin = Instant::now();
    let mut child = Ended(qemu.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut input = child.0.stdin.take().unwrap();
    let output = child.0.stdout.take().unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let _ = send.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    let mut heard = String::new();
    let mut until = |text: &str| {
        let end = Instant::now() + BOUND;
        while !heard.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left);
            heard.push_str(&line.unwrap_or_else(|_| panic!("no {text:?} in:\n{heard}")));
            heard.push('\n');
        }
    };
    until("netloom: up after");
    println!("booted in {:.1?}", begin.elapsed());
    input
        .write_all(
            b"echo answer $((6 * 7)) $(hostname) $(ip -o address show dev eth0 scope global | wc -l)\n",
        )
        .unwrap();
    until("answer 42 guest 2");
    input
        .write_all(
            b"ip link show eth0; ip route; ip link add br0 type bridge && echo made $((1 + 1))\n",
        )
        .unwrap();
    until("mtu 1400");
    until("default via 10.9.8.1");
    until("made 2");
    input.write_all(b"poweroff -f\n").unwrap();
    netloom_kit::wait_until("QEMU's end", BOUND, || child.0.try_wait().unwrap());
    reader.join().unwrap();
}
