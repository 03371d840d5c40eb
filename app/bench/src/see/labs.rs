//! The labs that are looked at. In both a program in each node sends a little on each of its links, every second: what does not
//! change costs nobody anything.

use std::fmt::Write as _;

use anyhow::Result;

use crate::driver::Driver;
use crate::lab::shape::Shape;

/// The large one.
pub(super) const LARGE: Shape = Shape { nodes: 1000, links: 2000, forwarding: false };
/// Its name.
pub(super) const LARGE_LAB: &str = crate::lab::shape::LAB;
/// The name of the small one.
pub(super) const SMALL_LAB: &str = "bench-see";

/// Routers of the small one in a ring, switches of each, and hosts of each switch.
const ROUTERS: u32 = 8;
const SWITCHES: u32 = 3;
const HOSTS: u32 = 8;

/// 200 nodes, 24 switches and 224 links, which the page draws as elements of SVG.
pub(super) fn small(driver: &Driver) -> Result<String> {
    let run = program(driver)?;
    let mut text = format!("name: {SMALL_LAB}\nnodes:\n");
    // Writing to a String does not fail.
    for r in 0..ROUTERS {
        let _ = writeln!(text, "  r{r}: {{forwarding: true, {run}}}");
        for (s, h) in pairs() {
            let _ = writeln!(text, "  h{r}-{s}-{h}: {{{run}}}");
        }
    }
    text.push_str("switches:\n");
    for r in 0..ROUTERS {
        for s in 0..SWITCHES {
            let _ = writeln!(text, "  s{r}-{s}: {{}}");
        }
    }
    text.push_str("links:\n");
    for r in 0..ROUTERS {
        let _ = writeln!(text, "  - [r{r}, r{}]", (r + 1) % ROUTERS);
        for s in 0..SWITCHES {
            let _ = writeln!(text, "  - [r{r}, s{r}-{s}]");
        }
        for (s, h) in pairs() {
            let _ = writeln!(text, "  - [h{r}-{s}-{h}, s{r}-{s}]");
        }
    }
    Ok(text)
}

fn pairs() -> impl Iterator<Item = (u32, u32)> {
    (0..SWITCHES).flat_map(|s| (0..HOSTS).map(move |h| (s, h)))
}

/// 1,000 nodes and 2,000 links.
pub(super) fn large(driver: &Driver) -> Result<String> {
    let run = program(driver)?;
    Ok(LARGE.lab_file().replace(": {}\n", &format!(": {{{run}}}\n")))
}

/// The program of a node, as a lab file has it.
fn program(driver: &Driver) -> Result<String> {
    let own = serde_json::to_string(driver.own_text()?)?;
    Ok(format!("run: [[{own}, peer, breathe]]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_have_the_sizes_that_their_rows_name() {
        let driver = Driver::new(&crate::Programs::nothing()).unwrap();
        let (small, large) = (small(&driver).unwrap(), large(&driver).unwrap());
        let lines = |text: &str, with: &str| text.lines().filter(|l| l.contains(with)).count();
        assert_eq!((lines(&small, "breathe"), lines(&small, "  - [")), (200, 224));
        assert_eq!((lines(&large, "breathe"), lines(&large, "  - [")), (1000, 2000));
    }
}
