//! Replays the seeds of the fuzz target `hosts`.

use std::fs;
use std::path::Path;

use netloom_placement::{Earlier, account};

use crate::integration::labs::Case;

#[test]
fn seeds_are_hosts_or_refused_and_hosts_make_a_lab() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/hosts");
    let lab = "nodes: {\"n{i}\": {for: {i: 9}, limits: {memory: 64MiB}}}\nswitches: {s1: {}}\n\
               links: [{ends: [\"n{i}\", s1], for: {i: 9}}]\nplace: {s1: {split: true}}\n";
    let (mut read, mut refused, mut earlier) = (0, 0, 0);
    for seed in fs::read_dir(folder).unwrap() {
        let path = seed.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        earlier += usize::from(Earlier::read("seed", &bytes, "lab").is_ok());
        match netloom_model::parse_hosts("seed", &bytes) {
            Ok(hosts) => {
                read += 1;
                let case = Case::new(lab, &hosts);
                let Ok(placement) = case.place() else { continue };
                let found = account(&case.plan, &case.lab.place, &hosts, &placement);
                assert_eq!(found.hosts.iter().map(|host| host.nodes).sum::<usize>(), 9);
            }
            Err(errors) => {
                refused += 1;
                assert!(errors.list.iter().all(|d| d.line > 0 && d.column > 0), "{errors}");
            }
        }
    }
    assert!(read >= 2 && refused >= 2 && earlier >= 1, "{read} {refused} {earlier}");
}
