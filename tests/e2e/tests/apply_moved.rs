//! Addresses that `netloom apply` moves to other interfaces are reached at once by those who knew the old ones.

use netloom_tests_e2e::{Machine, machine, needs};

/// Three hosts on a switch, with what each link adds.
fn lab(h1: &str, h2: &str) -> String {
    format!(
        "name: moved\nnodes: {{h1: {{}}, h2: {{}}, h3: {{}}}}\nswitches: {{s1: {{}}}}\nlinks:\n  - {{ends: [h1, s1], {h1}}}\n  \
         - {{ends: [h2, s1], {h2}}}\n  - {{ends: [h3, s1], addresses: {{h3: [10.0.0.3/24, 'fd00::3/64']}}}}\n"
    )
}

fn addresses(node: &str, number: u32) -> String {
    format!("addresses: {{{node}: [10.0.0.{number}/24, 'fd00::{number}/64']}}")
}

fn apply(machine: &Machine, text: &str) {
    let file = machine.scratch().file("moved.yaml", text);
    machine.netloom(["apply".as_ref(), "--yes".as_ref(), file.as_os_str()]).finish().code(0);
}

/// A first packet that is lost is what a person would see.
fn answers_at_once(machine: &Machine, addresses: [&str; 2]) {
    for address in addresses {
        let ping = machine.exec("h3", &["ping", "-c", "1", "-W", "10", address]).finish();
        assert!(ping.status.success(), "{address}: {}", ping.text());
    }
}

#[test]
fn an_address_that_moves_is_reached_by_those_who_knew_it() {
    needs!("ping");
    let machine = machine!();
    machine.up(&lab(&addresses("h1", 9), &addresses("h2", 2)));
    let asked = ["10.0.0.9", "fd00::9"];
    answers_at_once(&machine, asked);
    apply(&machine, &lab(&addresses("h1", 1), &addresses("h2", 9)));
    answers_at_once(&machine, asked);
    // Its interface gets another hardware address.
    let other = format!("{}, mac: {{h2: '02:00:00:00:00:77'}}", addresses("h2", 9));
    apply(&machine, &lab(&addresses("h1", 1), &other));
    answers_at_once(&machine, asked);
    machine.down();
}
