//! QEMU on our switches by `-netdev vde` and by vhost-user: the boot ROM of its card asks for an address.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use netloom_kit::{Binary, Scratch};
use netloom_tests_peers::{Running, Station, Switch, folder, needs, with_plugin};

const QEMU: &str = "qemu-system-x86_64";
const CARD: &str = "52:54:00:12:34:01";

/// A machine without a disk, so that it boots from its cards.
fn qemu(cards: &[(&str, &str)]) -> Command {
    let mut command = with_plugin(QEMU);
    command.args(["-accel", "tcg", "-nodefaults", "-display", "none", "-monitor", "none"]);
    command.args(["-m", "64", "-boot", "n"]);
    for (at, (netdev, card)) in cards.iter().enumerate() {
        command.args(["-netdev", &format!("vde,id=n{at},sock={netdev}")]);
        command.args(["-device", &format!("{card},netdev=n{at}")]);
    }
    command.stdin(Stdio::null());
    command
}

/// Whether a frame is a DHCP client's question: UDP from port 68 to port 67 (RFC 2131), to all.
fn is_dhcp_question(frame: &[u8]) -> bool {
    frame.get(12..15) == Some(&[0x08, 0x00, 0x45])
        && frame.get(23) == Some(&17)
        && frame.get(34..38) == Some(&[0, 68, 0, 67])
        && frame.get(..6) == Some(&[0xff; 6])
}

/// The Ethernet address of the asking station, in the question itself.
fn asker(frame: &[u8]) -> String {
    let bytes: Vec<String> = frame[70..76].iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[test]
fn the_boot_rom_asks_for_an_address() {
    for card in ["e1000", "virtio-net-pci"] {
        needs!(QEMU);
        let folder = folder();
        let switch = Switch::start(folder.path(), "switch");
        let mut station = Station::join(&switch, "station");
        let device = format!("{card},mac={CARD}");
        let mut machine = qemu(&[(&switch.name(), &device)]);
        let mut machine = Running(machine.spawn().expect("start QEMU"));
        let question = station.receive_where("a DHCP question", is_dhcp_question);
        assert_eq!(asker(&question), CARD, "{card}");
        assert!(machine.is_alive());
    }
}

#[test]
fn a_machine_may_have_two_cards_on_one_switch() {
    needs!(QEMU);
    let folder = folder();
    let switch = Switch::start(folder.path(), "switch");
    let mut station = Station::join(&switch, "station");
    // Both by the same process, and so by the same name. Only the second has a boot ROM.
    let cards = ["e1000,romfile=".to_owned(), format!("e1000,mac={CARD}")];
    let name = switch.name();
    let mut machine = qemu(&cards.each_ref().map(|card| (name.as_str(), card.as_str())));
    let mut machine = Running(machine.spawn().expect("start QEMU"));
    let question = station.receive_where("a DHCP question", is_dhcp_question);
    assert_eq!(asker(&question), CARD);
    assert!(machine.is_alive());
}

#[test]
fn a_switch_that_is_not_there_is_told() {
    needs!(QEMU);
    let folder = folder();
    let name = format!("netloom://{}", folder.path().join("none").display());
    let done = qemu(&[(&name, "e1000")]).output().expect("start QEMU");
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("could not be initialized") || said.contains("No such file"), "{said}");
}

/// A machine whose card is a port by vhost-user.
fn qemu_by_vhost_user(socket: &Path) -> Command {
    let mut command = Command::new(QEMU);
    command.args(["-accel", "tcg", "-nodefaults", "-display", "none", "-monitor", "none"]);
    command.args(["-m", "64", "-boot", "n", "-machine", "pc,memory-backend=m"]);
    command.args(["-object", "memory-backend-memfd,id=m,size=64M,share=on"]);
    command.args(["-chardev", &format!("socket,id=c,path={},reconnect=1", socket.display())]);
    command.args(["-netdev", "vhost-user,id=n,chardev=c"]);
    // QEMU 7.2 without KVM ends by a fault of its own when such a card has MSI-X.
    command.args(["-device", &format!("virtio-net-pci,netdev=n,vectors=0,mac={CARD}")]);
    command.stdin(Stdio::null());
    command
}

/// Starts a port for a card, and waits until it listens.
fn plug(scratch: &Scratch, card: &Path, switch: &Switch) -> Running {
    let name = format!("vhost-user:{}", card.display());
    let mut command = Command::new(Binary::find().path());
    command.env("NETLOOM_RUNTIME_DIR", scratch.runtime_dir());
    command.args(["plug".as_ref(), name.as_ref(), switch.socket().as_os_str()]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut running = Running(child.expect("start a plug"));
    let mut line = String::new();
    let out = running.0.stdout.take().expect("stdout is piped");
    BufReader::new(out).read_line(&mut line).expect("read what the plug says");
    assert!(line.contains("is port"), "{line:?}");
    running
}

/// Its boot ROM's questions come by vhost-user, and go on with a port that takes the place of a killed one.
#[test]
fn a_card_by_vhost_user_outlives_its_port() {
    needs!(QEMU);
    let scratch = Scratch::new();
    let folder = folder();
    let card = folder.path().join("card");
    let switch = Switch::start(folder.path(), "switch");
    let mut station = Station::join(&switch, "station");
    let first = plug(&scratch, &card, &switch);
    let mut machine = Running(qemu_by_vhost_user(&card).spawn().expect("start QEMU"));
    let question = station.receive_where("a DHCP question", is_dhcp_question);
    assert_eq!(asker(&question), CARD);
    drop(first);
    while station.receive_at_once().is_some() {}
    let _next = plug(&scratch, &card, &switch);
    let question = station.receive_where("a DHCP question once more", is_dhcp_question);
    assert_eq!(asker(&question), CARD);
    assert!(machine.is_alive());
}
