//! Layers that are removed, and layers that stay.

use netloom_container::keeping::{find, list, prune, remove};
use netloom_container::pins::{Pin, all, hold, pin, release};
use netloom_container::{Record, Store, unpack};

use super::support::{Scratch, Tar, image, nothing_is_half_made, owners, scratch};

fn kept(scratch: &Scratch, name: &str, layers: &[Vec<u8>]) -> Record {
    let record = Record { name: name.to_owned(), ..image(&scratch.store, layers) };
    unpack::unpack(&scratch.store, &record, owners(), Default::default()).unwrap();
    netloom_container::provide::keep(&scratch.store, &record).unwrap();
    record
}

fn names(store: &Store) -> Vec<String> {
    list(store).into_iter().map(|kept| kept.record.name).collect()
}

#[test]
fn layers_go_with_the_last_image_that_needs_them() {
    let scratch = scratch();
    let base = Tar::new().file("a", 0o644, "a").end();
    let above = Tar::new().file("b", 0o644, "b").end();
    let one = kept(&scratch, "one:1", std::slice::from_ref(&base));
    let two = kept(&scratch, "two:1", &[base, above]);
    assert_eq!(names(&scratch.store), ["one:1", "two:1"]);
    let removed = remove(&scratch.store, &["two:1".to_owned()]).unwrap();
    assert_eq!((removed.layers, removed.images.len()), (1, 1));
    assert!(unpack::is_there(&scratch.store, &one.layers[0], owners()));
    assert!(!unpack::is_there(&scratch.store, &two.layers[1], owners()));
    remove(&scratch.store, &["one:1".to_owned()]).unwrap();
    assert!(!scratch.store.blob(&one.layers[0].blob).exists());
    nothing_is_half_made(&scratch.store);
    let missing = remove(&scratch.store, &["one:1".to_owned()]).unwrap_err();
    assert!(missing.to_string().contains("is not here"), "{missing}");
}

#[test]
fn an_image_that_a_lab_uses_stays() {
    let scratch = scratch();
    let record = kept(&scratch, "used:1", &[Tar::new().file("a", 0o644, "a").end()]);
    kept(&scratch, "free:1", &[Tar::new().file("b", 0o644, "b").end()]);
    let lab = tempfile::tempdir().unwrap();
    std::fs::write(lab.path().join("state.json"), "{}").unwrap();
    let of_lab =
        Pin { lab: "lab".to_owned(), folder: lab.path().to_owned(), images: vec![record.clone()] };
    pin(&scratch.store, &of_lab).unwrap();
    assert!(find(&scratch.store, "used").unwrap_err().to_string().contains("not here"));
    assert_eq!(find(&scratch.store, "used:1").unwrap().labs, ["lab"]);
    let both = ["free:1".to_owned(), "used:1".to_owned()];
    let refused = remove(&scratch.store, &both).unwrap_err().to_string();
    assert!(refused.contains("lab \"lab\" uses it"), "{refused}");
    // All or nothing.
    assert_eq!(names(&scratch.store), ["free:1", "used:1"]);
    assert_eq!(prune(&scratch.store, true).unwrap().images, ["free:1"]);
    assert!(unpack::is_there(&scratch.store, &record.layers[0], owners()));
    // A lab without a state is none.
    std::fs::remove_file(lab.path().join("state.json")).unwrap();
    assert_eq!(prune(&scratch.store, true).unwrap().images, ["used:1"]);
    assert!(all(&scratch.store).is_empty());
    release(&scratch.store, lab.path());
}

/// A lab holds the store from its pin until its state is written, and listing images does not wait for it.
#[test]
fn the_pin_of_a_lab_that_is_coming_up_stays_when_images_are_listed() {
    let scratch = scratch();
    let record = kept(&scratch, "used:1", &[Tar::new().file("a", 0o644, "a").end()]);
    let lab = tempfile::tempdir().unwrap();
    let hold = hold(&scratch.store).unwrap();
    let of_lab = Pin { lab: "lab".to_owned(), folder: lab.path().to_owned(), images: vec![record] };
    pin(&scratch.store, &of_lab).unwrap();
    assert!(all(&scratch.store).is_empty());
    assert_eq!(names(&scratch.store), ["used:1"]);
    assert!(find(&scratch.store, "used:1").unwrap().labs.is_empty());
    std::fs::write(lab.path().join("state.json"), "{}").unwrap();
    drop(hold);
    let refused = remove(&scratch.store, &["used:1".to_owned()]).unwrap_err().to_string();
    assert!(refused.contains("lab \"lab\" uses it"), "{refused}");
    assert!(prune(&scratch.store, true).unwrap().images.is_empty());
}

#[test]
fn what_killed_processes_left_goes() {
    let scratch = scratch();
    let root = scratch.store.root();
    for folder in ["staging/layer-x.1.0/fs/d", "layers.many/0123", "layers.one/4567"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    // Of a document that was being written.
    std::fs::write(root.join("staging/about.json.1"), "{").unwrap();
    std::fs::write(root.join("partial/89"), "x").unwrap();
    std::fs::write(root.join("blobs/ab"), "x").unwrap();
    let removed = prune(&scratch.store, false).unwrap();
    assert_eq!((removed.layers, removed.bytes), (2, 1));
    nothing_is_half_made(&scratch.store);
    assert_eq!(std::fs::read_dir(root.join("partial")).unwrap().count(), 0);
}

#[test]
fn what_is_being_written_stays() {
    let scratch = scratch();
    let document = scratch.store.root().join("staging/about.json.1");
    let file = std::fs::File::create(&document).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    prune(&scratch.store, false).unwrap();
    assert!(document.exists());
    drop(file);
    prune(&scratch.store, false).unwrap();
    assert!(!document.exists());
}
