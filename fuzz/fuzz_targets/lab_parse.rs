//! Any bytes to a lab, and a lab to its plan: no panic, and a reason where there is no lab.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// Larger labs take their time and show nothing new.
const MAX_NODES: usize = 300;
const MAX_LINKS: usize = 600;

fuzz_target!(|bytes: &[u8]| {
    // The same bytes as slices of switches that are in no lab.
    if let Err(errors) = netloom_model::slices::policy("fuzz", bytes) {
        assert!(errors.list.iter().all(|d| d.line > 0 && !d.message.contains('\n')));
    }
    match netloom_model::parse("fuzz", bytes, "fuzz") {
        Ok(lab) => {
            if lab.nodes.len() <= MAX_NODES && lab.links.len() <= MAX_LINKS {
                let _ = netloom_model::plan::plan(&lab);
            }
        }
        Err(errors) => {
            assert!(errors.count() > 0);
            assert!(
                errors.list.iter().all(|d| d.line > 0 && d.column > 0 && !d.message.contains('\n'))
            );
        }
    }
});
