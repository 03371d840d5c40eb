//! Random bytes and entries.

use netloom_oci::entry::{self, Action};
use netloom_oci::tape::{BLOCK, Step, Tape};
use netloom_oci::{Error, Reference, resolve};
use proptest::prelude::*;

/// A header with a right checksum over anything.
fn sealed(mut block: Vec<u8>) -> [u8; BLOCK] {
    block.resize(BLOCK, 0);
    block[148..156].copy_from_slice(b"        ");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.try_into().unwrap()
}

proptest! {
    #[test]
    fn any_header_is_read_or_refused(block in prop::collection::vec(any::<u8>(), BLOCK), text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut tape = Tape::default();
        match tape.block(&sealed(block)) {
            Ok(Step::Text(_)) => { let _ = tape.text(&text); }
            Ok(Step::Entry(found)) => {
                if let Ok(Action::Make(parts) | Action::Hide(parts) | Action::HideAll(parts)) = entry::action(&found) {
                    let is_name = |part: &Vec<u8>| !part.is_empty() && part != b"." && part != b".." && !part.contains(&b'/') && !part.contains(&0);
                    prop_assert!(parts.iter().all(is_name));
                }
            }
            _ => {}
        }
    }

    #[test]
    fn real_paths_have_only_names(parts in prop::collection::vec("[a-c.]{1,3}", 0..6), targets in prop::collection::vec("[/a-c.]{0,8}", 1..4)) {
        let parts: Vec<Vec<u8>> = parts.into_iter().map(String::into_bytes).collect();
        let mut turn = 0;
        let found = resolve::directory(&parts, |at| {
            turn += 1;
            Ok::<_, Error>(match turn % 3 {
                0 => resolve::Seen::Link(targets[at.len() % targets.len()].clone().into_bytes()),
                _ => resolve::Seen::Directory,
            })
        });
        if let Ok(real) = found {
            prop_assert!(real.iter().all(|part| !part.is_empty() && part != b"." && part != b".."));
        }
    }

    #[test]
    fn names_that_are_read_are_written_alike(text in "[a-zA-Z0-9:/@._-]{0,40}") {
        if let Ok(name) = text.parse::<Reference>() {
            prop_assert_eq!(name.to_string().parse::<Reference>().unwrap(), name);
        }
    }
}
