//! The same namespaces, links and addresses by iproute2, as fast as possible: two batches for namespaces and
//! links, then one per namespace for its content (a batch cannot change namespace).

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::shape::Shape;
use crate::driver::output;

/// How it runs, for the rows.
pub(super) const SETTINGS: &str = "netns add, link add with both ends in place: one batch each; \
                                   addresses and up: one `ip -n NS -batch` a namespace";

/// iproute2's version; `None` when it is not installed.
pub(super) fn version() -> Option<String> {
    output(Command::new("ip").arg("-V")).ok().map(|text| text.trim().to_owned())
}

/// Makes and removes everything once; returns seconds for each.
pub(super) fn round(shape: Shape) -> Result<(f64, f64)> {
    let work = Work::new(shape)?;
    let start = Instant::now();
    batch(&work.folder.path().join("namespaces"), None)?;
    batch(&work.folder.path().join("links"), None)?;
    for node in 0..shape.nodes {
        batch(&work.folder.path().join(node.to_string()), Some(&work.namespace(node)))?;
    }
    let up = start.elapsed().as_secs_f64();
    let start = Instant::now();
    batch(&work.folder.path().join("remove"), None)?;
    Ok((up, start.elapsed().as_secs_f64()))
}

/// The batch files; dropping it removes what still exists.
struct Work {
    shape: Shape,
    folder: tempfile::TempDir,
}

impl Work {
    fn new(shape: Shape) -> Result<Work> {
        let folder = tempfile::tempdir().context("make a folder for batches")?;
        let work = Work { shape, folder };
        let lines = |verb: &str| {
            let names = (0..shape.nodes).map(|node| work.namespace(node));
            names.fold(String::new(), |text, name| text + "netns " + verb + " " + &name + "\n")
        };
        work.write("namespaces", &lines("add"))?;
        work.write("remove", &lines("del"))?;
        let mut links = String::new();
        let mut nodes = vec![String::from("link set lo up\n"); shape.nodes as usize];
        let mut used = vec![0_u32; shape.nodes as usize];
        for (number, ends) in shape.ends().into_iter().enumerate() {
            let ends = [ends.0, ends.1].map(|node| (node, node as usize));
            let names = ends.map(|(_, index)| format!("eth{}", used[index]));
            let [from, to] = ends.map(|(node, _)| work.namespace(node));
            let [one, other] = &names;
            let _ = writeln!(
                links,
                "link add {one} netns {from} type veth peer name {other} netns {to}"
            );
            for (side, ((_, index), name)) in ends.iter().zip(&names).enumerate() {
                used[*index] += 1;
                nodes[*index] += &addresses(number, side, name);
            }
        }
        work.write("links", &links)?;
        for (node, text) in nodes.iter().enumerate() {
            work.write(&node.to_string(), text)?;
        }
        Ok(work)
    }

    fn namespace(&self, node: u32) -> String {
        format!("nlbench-{}-{node}", std::process::id())
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        std::fs::write(self.folder.path().join(name), text).context("write a batch")
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        for node in 0..self.shape.nodes {
            let name = self.namespace(node);
            if Path::new("/run/netns").join(&name).exists() {
                let _ = Command::new("ip").args(["netns", "del", &name]).status();
            }
        }
    }
}

/// Sets IPv4 and IPv6 addresses of a link's end, and brings it up.
fn addresses(link: usize, side: usize, name: &str) -> String {
    let (high, low) = (link / 64, link % 64 * 4 + side + 1);
    format!(
        "addr add 10.{}.{}.{low}/30 dev {name}\n\
         addr add fd00:0:0:{link:x}::{}/64 dev {name} nodad\n\
         link set {name} up\n",
        high / 256,
        high % 256,
        side + 1
    )
}

fn batch(file: &Path, namespace: Option<&str>) -> Result<()> {
    let mut ip = Command::new("ip");
    if let Some(name) = namespace {
        ip.args(["-n", name]);
    }
    output(ip.arg("-batch").arg(file))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_link_share_a_prefix_and_differ() {
        assert!(addresses(65, 0, "eth0").starts_with("addr add 10.0.1.5/30 dev eth0\n"));
        assert!(addresses(65, 1, "eth0").contains("fd00:0:0:41::2/64"));
        assert!(addresses(1999, 1, "eth3").starts_with("addr add 10.0.31.62/30 dev eth3\n"));
    }
}
