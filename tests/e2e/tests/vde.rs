//! Unmodified clients of `vde_switch` on a switch of a lab, by its folder; kills and wrong places.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use netloom_kit::needs;
use netloom_tests_e2e::live::{SOON, gone};
use netloom_tests_e2e::{Machine, kill, machine, wait_until};

const LAB: &str = "
name: old
nodes: {a: {}}
switches: {s: {kind: shm, vde: true, subnet: 10.0.2.0/24}}
links:
  - {ends: [a, s], addresses: {a: 10.0.2.15/24}}
";

/// A program that is killed when this goes.
struct Peer(Child);

impl Peer {
    fn start(program: &str, args: &[&str]) -> Peer {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Peer(command.spawn().expect(program))
    }

    fn ends(&mut self) {
        wait_until("the end of a program", SOON, || self.0.try_wait().expect("wait"));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn folder(machine: &Machine) -> PathBuf {
    machine.scratch().runtime_dir().join(".switches/old.s.vde")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// Frames that the port of a name that begins so has sent; `None` if it is not there.
fn sent(machine: &Machine, name: &str) -> Option<u64> {
    let shown = machine.ok("switch show s --json").json();
    let ports = shown["ports"].as_array().expect("ports");
    let here = |port: &&serde_json::Value| port["presence"] == "here";
    let named = |port: &&serde_json::Value| {
        port["name"].as_str().is_some_and(|found| found.starts_with(name))
    };
    let port = ports.iter().filter(here).find(named)?;
    port["counters"]["sent_frames"].as_u64()
}

/// The process that offers the switch, as its console tells.
/// `None` if it is not there, or ends meanwhile.
fn process(machine: &Machine) -> Option<i32> {
    let mut console = UnixStream::connect(folder(machine).join("mgmt")).ok()?;
    console.write_all(b"showinfo\n").ok()?;
    let mut lines = BufReader::new(console).lines().map_while(Result::ok);
    let pid = lines.find_map(|line| line.strip_prefix("pid ").map(str::to_owned))?;
    pid.split(' ').next()?.parse().ok()
}

#[test]
fn slirpvde_answers_a_node() {
    needs!("slirpvde");
    let machine = machine!();
    machine.up(LAB);
    let _slirp = Peer::start("slirpvde", &["-s", text(&folder(&machine))]);
    wait_until("slirpvde on the switch", SOON, || sent(&machine, "slirpvde"));
    machine.answers("a", "10.0.2.2");
    machine.exec("a", &["ping", "-4", "-c", "3", "-W", "30", "10.0.2.2"]).finish().code(0);
    machine.down();
}

#[test]
fn vde_plugs_talk_and_leave() {
    needs!("vde_plug");
    let machine = machine!();
    machine.up(LAB);
    let at = folder(&machine);
    let [mut one, mut other] = [(); 2].map(|()| Peer::start("vde_plug", &[text(&at)]));
    wait_until("both on the switch", SOON, || {
        let shown = machine.ok("switch show s --json").json();
        let ports = shown["ports"].as_array().expect("ports");
        (ports.iter().filter(|p| p["presence"] == "here").count() == 3).then_some(())
    });
    // Two bytes of length, and a frame to all of a kind that nobody answers.
    let frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 9], &[0x88, 0xb5], &[7; 46]].concat();
    let said = [&[0, 60][..], &frame].concat();
    one.0.stdin.as_mut().expect("input").write_all(&said).expect("send");
    let out = other.0.stdout.as_mut().expect("output");
    loop {
        let mut length = [0; 2];
        out.read_exact(&mut length).expect("a length");
        let mut found = vec![0; u16::from_be_bytes(length).into()];
        out.read_exact(&mut found).expect("a frame");
        if found == frame {
            break;
        }
    }
    drop((one, other));
    wait_until("both ports are free", SOON, || sent(&machine, "vdeplug").is_none().then_some(()));
    machine.down();
}

#[test]
fn the_boot_rom_of_qemu_asks_through_it() {
    needs!("qemu-system-x86_64");
    let machine = machine!();
    machine.up(LAB);
    let netdev = format!("vde,id=n,sock={}", text(&folder(&machine)));
    let words = ["-accel", "tcg", "-nodefaults", "-display", "none", "-m", "64", "-boot", "n"];
    let card = ["-netdev", &netdev, "-device", "e1000,netdev=n"];
    let _qemu = Peer::start("qemu-system-x86_64", &[&words[..], &card].concat());
    wait_until("a question of QEMU's card", SOON, || {
        sent(&machine, "QEMU").filter(|frames| *frames > 0)
    });
    machine.down();
}

#[test]
fn unixterm_is_a_console() {
    needs!("unixterm");
    let machine = machine!();
    machine.up(LAB);
    let at = folder(&machine).join("mgmt");
    let mut term = Peer::start("unixterm", &[text(&at)]);
    let mut input = term.0.stdin.take().expect("input");
    input.write_all(b"port/print\n").expect("type");
    let out = BufReader::new(term.0.stdout.take().expect("output"));
    let lines: Vec<String> = out
        .lines()
        .map(|line| line.expect("a line"))
        .take_while(|line| !line.ends_with("1000 Success"))
        .collect();
    let node = "  -- endpoint ID 0000 module netloom     : a:eth0";
    assert!(lines.iter().any(|line| line == node), "{lines:?}");
    input.write_all(b"logout\n").expect("type");
    drop(input);
    term.ends();
    machine.down();
}

#[test]
fn a_killed_process_is_replaced_in_the_same_folder() {
    let machine = machine!();
    machine.up(LAB);
    let (at, first) = (folder(&machine), wait_until("a process", SOON, || process(&machine)));
    kill(first);
    wait_until("another process", SOON, || process(&machine).filter(|pid| *pid != first));
    assert!(gone(first));
    assert!(UnixStream::connect(at.join("ctl")).is_ok());
    machine.ok("switch show s");
    let switch = machine.scratch().runtime_dir().join(".switches/old.s");
    assert!(switch.exists());
    machine.down();
}

#[test]
fn a_switch_of_its_own_has_a_folder_where_it_is_told() {
    let machine = machine!();
    let at = machine.scratch().path().join("my.ctl");
    machine.ok(&format!("switch create s vde={}", text(&at)));
    let shown = machine.ok("switch show s").text();
    assert!(shown.lines().any(|line| line == format!("VDE       {}", text(&at))), "{shown}");
    assert!(UnixStream::connect(at.join("ctl")).is_ok());
    machine.ok("switch delete s");
    assert!(!at.exists());
    machine.down();
}

#[test]
fn a_folder_that_cannot_be_is_told_with_the_switch() {
    let machine = machine!();
    let at = machine.scratch().path().join("taken");
    std::fs::create_dir(&at).expect("a folder");
    let served = UnixListener::bind(at.join("ctl")).expect("a socket");
    let setting = format!("switch create s vde={}", text(&at));
    machine.refused(&setting, 1, &["\"s\"", text(&at), "Address already in use"]);
    drop(served);
    std::fs::write(at.join("letter"), "").expect("a file");
    machine.refused(&setting, 1, &["\"s\"", "holds \"letter\""]);
    assert!(at.join("letter").exists());
    // One that nobody serves is taken over.
    std::fs::remove_file(at.join("letter")).expect("remove");
    machine.ok(&setting);
    machine.ok("switch delete s");
    assert!(!at.exists());
    let long = format!("/tmp/{}", "x".repeat(90));
    machine.refused(&format!("switch create s vde={long}"), 2, &["vde", "95 bytes"]);
    machine.refused("switch create s kind=openflow vde=true", 2, &["vde"]);
    machine.down();
}
