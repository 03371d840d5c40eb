//! QEMU on our switches by `-netdev vde`: the boot ROM of its card asks for an address.

use std::process::{Command, Stdio};

use netloom_tests_peers::{Running, Station, Switch, folder, program, skip, with_plugin};

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

/// The Ethernet address of who asks, in the question itself.
fn asker(frame: &[u8]) -> String {
    let bytes: Vec<String> = frame[70..76].iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[test]
fn the_boot_rom_asks_for_an_address() {
    for card in ["e1000", "virtio-net-pci"] {
        if program(QEMU).is_none() {
            skip!("peer:qemu: not installed");
        }
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
    if program(QEMU).is_none() {
        skip!("peer:qemu: not installed");
    }
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
    if program(QEMU).is_none() {
        skip!("peer:qemu: not installed");
    }
    let folder = folder();
    let name = format!("netloom://{}", folder.path().join("none").display());
    let done = qemu(&[(&name, "e1000")]).output().expect("start QEMU");
    assert!(!done.status.success());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("could not be initialized") || said.contains("No such file"), "{said}");
}
