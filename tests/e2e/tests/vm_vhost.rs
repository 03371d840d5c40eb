//! Guests of QEMU whose cards are ports of a shared-memory switch: no interface, reached, captured, refused, killed.

use netloom_tests_e2e::capturing::Capturing;
use netloom_tests_e2e::guest::Guest;
use netloom_tests_e2e::live::kill_and_wait;
use netloom_tests_e2e::{Machine, machine, with_command_line};

use crate::vm_qemu::{BOUND, answers, guest, is_started_again, qemu};

/// A node and the guest on a switch, with these keys more.
fn lab(guest: &Guest, more: &str) -> String {
    let keys = guest.keys();
    format!(
        "nodes:\n  h:\n  g: {{{keys}, vhost-user: true, ready: {{console: guest is up, timeout: 240s}}, {more}}}\n\
         switches: {{s: {{kind: shm}}}}\nlinks: [[h, s], [g, s]]\n"
    )
}

/// The process of the guest's port.
fn port(machine: &Machine) -> i32 {
    let folder = machine.scratch().runtime_dir().display().to_string();
    let all = with_command_line("plug-process");
    let of_guest = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(&folder) && line.contains("g:eth0")
    };
    all.into_iter().find(of_guest).expect("the guest's port has a process")
}

#[test]
fn a_guests_card_is_a_port_of_the_switch() {
    let machine = machine!();
    let guest = guest!(machine, "");
    machine.up(&lab(&guest, ""));
    answers(&machine);
    // The node around it has no interface for it; the port's frames are the card's.
    let around = machine.netloom(["exec", "--no-root", "g", "--", "ip", "-br", "link"]).ok();
    assert!(!around.contains("eth0") && !around.contains("vmtap"), "{around}");
    let shown = &machine.node("g")["interfaces"][0];
    let frames = |way: &str| shown["traffic"][way].as_u64().unwrap_or(0);
    assert_eq!(shown["up"], true, "{shown}");
    assert!(frames("rx_packets") > 0 && frames("tx_packets") > 0, "{shown}");
    // It is captured at its port, in both directions.
    let capture = Capturing::start(&machine, "g:eth0 -f icmp", "g.pcapng");
    machine.exec("h", &["ping", "-4", "-c", "3", "-W", "30", "g"]).bound(BOUND).ok();
    assert_eq!(capture.stop().total("written"), 6);
    // What needs an interface says what would give it one.
    for (words, code, part) in [
        ("node save g", 1, "leave `vhost-user` out"),
        ("node set g packets=1000", 2, "protect works behind a switch"),
        ("link set g:eth0 --delay 1ms", 2, "declare an impairment of it in the lab file"),
    ] {
        machine.refused(words, code, &[part]);
    }
    // Only root gets so far.
    let measured = machine.netloom(["measure", "h", "g"]).finish();
    let part = if netloom_tests_e2e::is_root() {
        "without `vhost-user` it has an interface"
    } else {
        "BPF"
    };
    assert!(measured.errors().contains(part), "{}", measured.errors());
    machine.down();
}

#[test]
fn a_guests_port_and_its_machine_outlive_each_other() {
    let machine = machine!();
    let guest = guest!(machine, "");
    let text = lab(&guest, "restart: on-failure");
    machine.up(&text);
    answers(&machine);
    let (first, first_port) = (qemu(&machine), port(&machine));
    kill_and_wait(first_port);
    answers(&machine);
    assert_eq!(qemu(&machine), first);
    netloom_tests_e2e::kill(first);
    is_started_again(&machine, first);
    answers(&machine);
    // The lab's process ends; guest and port go on, and the next one finds them.
    let (second, second_port) = (qemu(&machine), port(&machine));
    kill_and_wait(machine.lab_process());
    machine.up(&text);
    answers(&machine);
    assert_eq!((qemu(&machine), port(&machine)), (second, second_port));
    machine.down();
}
