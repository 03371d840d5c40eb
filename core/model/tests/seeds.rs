//! Replays every fuzz seed through the reader and, where it gives a lab of modest size, the plan:
//! none may panic, and what has no lab has errors with places.

use std::fs;
use std::path::Path;

fn replay(bytes: &[u8], name: &str) {
    match netloom_model::parse(name, bytes, "seed") {
        Ok(lab) => {
            if lab.nodes.len() <= 300 && lab.links.len() <= 600 {
                let _ = netloom_model::plan::plan(&lab);
            }
        }
        Err(errors) => {
            assert!(errors.count() > 0, "{name}");
            assert!(errors.list.iter().all(|d| d.line > 0 && d.column > 0), "{errors}");
        }
    }
    if let Err(errors) = netloom_model::slices::policy(name, bytes) {
        assert!(errors.list.iter().all(|d| d.line > 0 && d.column > 0), "{errors}");
    }
}

#[test]
fn no_seed_panics() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut count = 0;
    for target in fs::read_dir(seeds).unwrap() {
        for seed in fs::read_dir(target.unwrap().path()).unwrap() {
            let path = seed.unwrap().path();
            replay(&fs::read(&path).unwrap(), &path.display().to_string());
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} seeds");
}
