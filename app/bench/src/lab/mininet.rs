//! The same hosts and links by Mininet, if it is installed and the caller is root.

use std::process::Command;

use anyhow::Result;

use super::shape::Shape;
use super::{HUNDRED, PAIR};
use crate::driver::output;
use crate::machine::is_root;
use crate::settle::settle;
use crate::{Options, Report};

/// Prints seconds to start and to stop. Arguments: nodes, then `from-to` for each link.
const SCRIPT: &str = "\
import sys, time
from mininet.net import Mininet
started = time.monotonic()
net = Mininet(controller=None, autoSetMacs=False)
hosts = [net.addHost('h%d' % i) for i in range(int(sys.argv[1]))]
for ends in sys.argv[2:]:
    a, b = map(int, ends.split('-'))
    net.addLink(hosts[a], hosts[b])
net.start()
up = time.monotonic()
net.stop()
print(up - started, time.monotonic() - up)
";
const SETTINGS: &str = "Python API, host to host links, no controller, without starting Python";

pub(super) fn compare(options: Options, report: &mut Report) -> Result<()> {
    // Use the distribution's interpreter, because it packages Mininet.
    let python =
        ["/usr/bin/python3", "python3"].into_iter().find(|python| version(python).is_some());
    let found = python.and_then(version);
    report.peers.insert("mininet".to_owned(), found.filter(|_| is_root()));
    let Some(python) = python.filter(|_| is_root()) else {
        report.left_out(&HUNDRED.title(), "mininet", "needs root and an installed Mininet");
        return Ok(());
    };
    for (shape, rounds) in [(PAIR, 5), (HUNDRED, if options.quick { 5 } else { 8 })] {
        let (mut up, mut down) = (vec![], vec![]);
        for _ in 0..rounds {
            settle()?;
            let (one, other) = round(python, shape)?;
            up.push(one);
            down.push(other);
        }
        report.measured(&format!("up, {}", shape.title()), "mininet", "s", &up, SETTINGS);
        report.measured(&format!("down, {}", shape.title()), "mininet", "s", &down, SETTINGS);
    }
    report.left_out(&super::THOUSAND.title(), "mininet", "takes many minutes a round");
    Ok(())
}

fn version(python: &str) -> Option<String> {
    let ask = "import mininet.net; print(mininet.net.VERSION)";
    output(Command::new(python).args(["-c", ask])).ok().map(|text| text.trim().to_owned())
}

fn round(python: &str, shape: Shape) -> Result<(f64, f64)> {
    let ends = shape.ends().into_iter().map(|(from, to)| format!("{from}-{to}"));
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, &shape.nodes.to_string()]).args(ends);
    let text = output(&mut command)?;
    let mut numbers = text.split_whitespace().rev().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(down)), Some(Ok(up))) => Ok((up, down)),
        _ => anyhow::bail!("mininet: unexpected output: {text}"),
    }
}
