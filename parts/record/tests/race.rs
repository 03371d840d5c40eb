//! Recordings that begin while one is deleted: each is where others find it.

use std::path::PathBuf;
use std::process::Stdio;

use netloom_kit::done;
use netloom_record::{About, Error, Folder, LEAST_KEEP, Link, Store};

use super::made::{blocks, everything, folder, found, number};

/// Where the process that begins recordings writes.
const MARK: &str = "NETLOOM_RECORD_TO_BEGIN";

/// How many it begins.
const BEGINS: u32 = 200;

fn begin(folder: Folder, which: u32) -> netloom_record::Result<Store> {
    let mut store = Store::open(folder, About::default(), LEAST_KEEP)?;
    let link = store.link(Link { name: "a--r".to_owned(), ..Link::default() });
    store.append(&blocks(which..which + 1, 1, 10), &[link]);
    Ok(store)
}

#[test]
fn a_folder_that_is_deleted_before_its_store_is_open_is_made_again() {
    let root = tempfile::tempdir().unwrap();
    let early = folder(root.path());
    folder(root.path()).delete().unwrap();
    assert!(!root.path().join("lab").exists());
    let store = begin(early, 7).unwrap();
    let (all, _) = found(root.path(), &everything());
    assert_eq!(all.iter().map(|frame| number(&frame.data)).collect::<Vec<_>>(), [7]);
    assert!(root.path().join("lab/lock").exists());
    drop(store);
    folder(root.path()).delete().unwrap();
    assert!(!root.path().join("lab").exists());
}

#[test]
#[ignore = "helper: started by the test below"]
fn begins() {
    let root = PathBuf::from(std::env::var_os(MARK).unwrap());
    let mut which = 0;
    while which < BEGINS {
        let store = match begin(folder(&root), which) {
            Err(Error::Busy { .. }) => continue,
            begun => begun.unwrap(),
        };
        // As long as it is open, nobody else takes anything away.
        let (all, _) = found(&root, &everything());
        assert!(all.iter().any(|frame| number(&frame.data) == which), "{which} is gone");
        drop(store);
        which += 1;
    }
}

#[test]
fn what_begins_while_others_delete_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let mut command = netloom_kit::again(&begins);
    let mut child = command.env(MARK, root.path()).stdout(Stdio::null()).spawn().unwrap();
    let (mut deleted, mut odd) = (0, None);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        match Folder::open(root.path(), "lab").and_then(Folder::delete) {
            Ok(()) => deleted += 1,
            Err(Error::None { .. } | Error::Busy { .. }) => {}
            Err(other) => odd = Some(other),
        }
    };
    assert!(status.success() && odd.is_none(), "{status}: {odd:?}");
    done("recordings deleted while others begin", deleted);
}
