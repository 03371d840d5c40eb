//! The labs of these tests, and imports of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use netloom_foreign::{Import, Memory, Options, Verdict, import};

/// All labs: the folder, and the main file in it.
pub(crate) const LABS: &[(&str, &str)] = &[
    ("clab", "three.clab.yml"),
    ("smoke", "smoke.clab.yml"),
    ("linux-nodes", "linux-nodes.clab.yml"),
    ("stages", "stages.clab.yml"),
    ("filter", "filter.clab.yml"),
    ("frr01", "frr01.clab.yml"),
    ("isis", "isis.clab.yml"),
    ("rip", "rip.clab.yml"),
    ("vxlan", "vxlan.clab.yml"),
    ("srv6", "srv6.clab.yml"),
    ("kathara", "lab.conf"),
    ("bridge", "lab.conf"),
    ("interdomain", "lab.conf"),
    ("kathara-pair", "lab.conf"),
    ("kathara-arp", "lab.conf"),
    ("kathara-ipv6", "lab.conf"),
    ("kathara-tc-delay", "lab.conf"),
    ("kathara-tc-jitter", "lab.conf"),
    ("kathara-tc-loss", "lab.conf"),
    ("kathara-tc-rate", "lab.conf"),
    ("kathara-rip", "lab.conf"),
    ("kathara-areas", "lab.conf"),
    ("kathara-prefixes", "lab.conf"),
    ("gns3", "two.gns3"),
    ("gns3", "vlans.gns3"),
    ("gns3", "nat.gns3"),
    ("core", "office.xml"),
    ("core", "sample.xml"),
    ("imunes", "ring.imn"),
    ("imunes", "classic.imn"),
    ("imunes", "ping.imn"),
    ("mininet", "router.json"),
    ("netlab-areas", "topology.yml"),
    ("netlab-policy", "topology.yml"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/e2e/foreign/labs")
}

/// The files of a folder.
pub(crate) fn files(folder: &str) -> Memory {
    let mut found = BTreeMap::new();
    let root = root().join(folder);
    let mut open = vec![root.clone()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    Memory(found)
}

/// An import of files.
pub(crate) fn imported(files: &Memory, main: &str) -> Import {
    let options = Options { name: "lab".into(), host_programs: true, ..Options::default() };
    import(files, main, &options).unwrap_or_else(|error| panic!("{main}: {error}"))
}

/// An import of files whose nodes have their images.
pub(crate) fn with_images(files: &Memory, main: &str) -> Import {
    let options = Options { name: "lab".into(), ..Options::default() };
    import(files, main, &options).unwrap_or_else(|error| panic!("{main}: {error}"))
}

/// The error of an import of one file.
pub(crate) fn refused(main: &str, text: &str) -> String {
    let files = Memory::of(main, text);
    import(&files, main, &Options::default()).unwrap_err().to_string()
}

/// What became of an item, by its name.
pub(crate) fn verdict(import: &Import, item: &str) -> Verdict {
    let found = import.items.iter().find(|found| found.item == item);
    found.unwrap_or_else(|| panic!("no item {item:?}: {:#?}", import.items)).verdict.clone()
}

/// The lab as netloom reads it.
pub(crate) fn plan(import: &Import) -> netloom_model::Plan {
    let lab = netloom_model::parse("lab", import.lab.as_bytes(), "lab").unwrap();
    netloom_model::plan::plan(&lab).unwrap()
}
