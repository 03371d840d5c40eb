//! A guest beside a node, on one switch: a stream each way.

use std::process::Command;

use anyhow::{Context, Result, anyhow};

use super::guest::Guest;
use super::image::{Image, program};
use super::pair::{Net, address, found, give, take, until_ended, vhost_card};
use super::way::Way;
use crate::Report;
use crate::driver::Driver;
use crate::running::number;
use crate::vde::VdeSwitch;

/// Rounds of each direction.
const ROUNDS: usize = 5;
/// The ways that have a node beside the guest.
const WAYS: [Way; 3] = [Way::VhostUser, Way::Vde, Way::UmlOwn];
const NODE: usize = 1;
const GUEST: usize = 2;

/// Rows of all ways.
pub(super) fn rows(
    driver: &Driver,
    image: &Image,
    note: impl Fn(Way) -> String,
    report: &mut Report,
) {
    for way in WAYS {
        progress!("bench vm: a guest and a node, {}, {}", way.guests(), way.title());
        let what = [
            format!("TCP from a guest to a node, {}", way.guests()),
            format!("TCP from a node to a guest, {}", way.guests()),
        ];
        match streams(driver, image, way) {
            Ok(rates) => {
                for (what, rates) in what.iter().zip(rates) {
                    report.measured(what, way.title(), "Gb/s", &rates, &note(way));
                }
            }
            Err(why) => report.left_out(&what[0], way.title(), &format!("{why:#}")),
        }
        // A lab that failed to come up is not there.
        let _ = driver.down(&lab(way));
    }
}

fn lab(way: Way) -> String {
    format!("vm-beside-{}", way.name())
}

/// Gb/s to the node, and to the guest.
fn streams(driver: &Driver, image: &Image, way: Way) -> Result<[Vec<f64>; 2]> {
    for name in way.programs() {
        program(name)?;
    }
    let lab = lab(way);
    let mut net = Net::default();
    let (node, own) = (address(NODE), address(GUEST));
    let segment = "switches: {s: {kind: shm}}\n";
    let link = |name: &str, address: &str| {
        format!("  - {{ends: [{name}, s], addresses: {{{name}: {address}/24}}}}\n")
    };
    let text = match way {
        Way::Vde => "nodes: {n: {}}\n".to_owned(),
        Way::UmlOwn => format!(
            "nodes:\n  n: {{}}\n  g: {{kind: vm, accel: uml, memory: 192MiB}}\n{segment}links:\n{}{}",
            link("n", &node),
            link("g", &own)
        ),
        _ => format!("nodes: {{n: {{}}}}\n{segment}links:\n{}", link("n", &node)),
    };
    driver.up(&driver.lab_file(&lab, &text)?)?;
    let mut rates = [vec![], vec![]];
    if way == Way::UmlOwn {
        for _ in 0..ROUNDS {
            rates[0].push(between(driver, &lab, ["g", "n"], &node)?);
            rates[1].push(between(driver, &lab, ["n", "g"], &own)?);
        }
        return Ok(rates);
    }
    if let Err(why) = &image.kernel {
        return Err(anyhow!(why.clone()));
    }
    let card = match way {
        Way::Vde => {
            let switch = VdeSwitch::start(driver, "beside")?;
            let tap = switch.tap(driver, (&lab, "n"), &format!("{node}/24"))?;
            let words = vec!["-netdev".to_owned(), format!("vde,id=n,sock={}", switch.address()?)];
            net.keep(tap);
            net.switch = Some(switch);
            words
        }
        _ => vhost_card(driver, &lab, GUEST, &mut net)?,
    };
    let mut guest = Guest::qemu(image, Command::new("setpriv"), &own, GUEST, &card)?;
    guest.hear()?;
    guest
        .tell(&format!("while ! ping -c 1 -W 1 {node} >/dev/null; do :; done; echo '@@ ended'"))?;
    until_ended(&mut guest)?;
    for _ in 0..ROUNDS {
        let sink = driver.peer(&lab, "n", &["tcp-sink", "5001", "0.4", "0.8"])?.ready()?;
        guest.tell(&give(&node))?;
        rates[0].push(number(&sink.result()?, "bytes_per_s")? * 8e-9);
        until_ended(&mut guest)?;
        guest.tell(&take())?;
        let words = ["tcp-source", &format!("{own}:5001"), "0", "20"];
        // The guest's listener comes when it comes.
        while driver.peer(&lab, "n", &words)?.result().is_err() {}
        let said = until_ended(&mut guest)?;
        rates[1].push(found(&said, "bytes_per_s").context("a stream gave no figure")? * 8e-9);
    }
    drop(guest);
    Ok(rates)
}

/// Gb/s from one node of a lab to another.
fn between(driver: &Driver, lab: &str, [from, to]: [&str; 2], address: &str) -> Result<f64> {
    let sink = driver.peer(lab, to, &["tcp-sink", "5001", "0.4", "0.8"])?.ready()?;
    let words = ["tcp-source", &format!("{address}:5001"), "0", "20"];
    let source = driver.peer(lab, from, &words)?;
    let rate = number(&sink.result()?, "bytes_per_s")? * 8e-9;
    source.result()?;
    Ok(rate)
}
