//! Layers that mean harm are refused, and nothing of them stays.

use std::io::Write;
use std::time::Instant;

use netloom_container::{Limits, unpack};
use netloom_oci::Digest;

use super::support::{Tar, image, nothing_is_half_made, owners, refusal, scratch, trees};

#[test]
fn each_refusal_names_image_layer_entry_and_step() {
    let base = Tar::new().symlink("l", "l").dir("d", 0o755).end();
    let cases: Vec<(Tar, &str)> = vec![
        (Tar::new().file("../x", 0o644, "x"), "entry \"../x\": read: its path has `..`"),
        (Tar::new().file("a/../../x", 0o644, "x"), "its path has `..`"),
        (Tar::new().file("l/x", 0o644, "x"), "entry \"l/x\": read: more than 40 symbolic links"),
        (Tar::new().white(".wh."), "entry \".wh.\": read: a whiteout names nothing"),
        (Tar::new().raw("x", b'Z', 0, "", 0), "entry \"x\": read: its kind is unknown"),
        // A sparse file without its map.
        (
            Tar::new().pax(&[("GNU.sparse.major", "1")]).file("s", 0, ""),
            "the size of an entry is not a number",
        ),
        (Tar::new().sparse("s", 10, 1 << 32, "x"), "its map of holes is wrong"),
        (Tar::new().symlink("x", ""), "entry \"x\": read: the link points to nothing"),
        (
            Tar::new().raw("big", b'0', 0o644, "", 1 << 32),
            "entry \"big\": read: the archive ends early",
        ),
        (Tar::new().raw("long", b'L', 0, "", 1 << 30), "bytes of text about one entry"),
    ];
    for (layer, part) in cases {
        let scratch = scratch();
        let refused = refusal(&scratch, &[base.clone(), layer.end()], Limits::default());
        let expected = "image \"test:1\": layer 2 of 2, sha256:";
        assert!(refused.starts_with(expected), "{refused}");
        assert!(refused.contains(part), "{part}: {refused}");
        nothing_is_half_made(&scratch.store);
    }
}

#[test]
fn absolute_paths_begin_at_the_root_and_devices_are_left_out() {
    let scratch = scratch();
    let layer = Tar::new().file("/etc/x", 0o644, "x").raw("null", b'3', 0o666, "", 0).end();
    let trees = trees(&scratch, &[layer]);
    assert!(trees[0].join("etc/x").exists() && !trees[0].join("null").exists());
}

#[test]
fn bombs_end_at_their_bounds() {
    let many: Tar = (0..50).fold(Tar::new(), |tar, n| tar.file(&format!("f{n}"), 0o644, "x"));
    let scratch = scratch();
    let few = Limits { entries: 20, ..Limits::default() };
    let refused = refusal(&scratch, &[many.end()], few);
    assert!(refused.contains("entry \"f20\": read: it has more than 20 entries"), "{refused}");
    let small = Limits { bytes: 4096, ..Limits::default() };
    let large = Tar::new().file("x", 0o644, &"x".repeat(600_000)).end();
    let refused = refusal(&scratch, &[large], small);
    assert!(refused.contains("it unpacks to more bytes than are allowed"), "{refused}");
    let sparse = Tar::new().sparse("s", 1 << 32, 0, "x").end();
    let refused = refusal(&scratch, &[sparse], Limits { bytes: 1 << 30, ..Limits::default() });
    assert!(refused.contains("entry \"s\": read: its 4294967296 bytes are more"), "{refused}");
    nothing_is_half_made(&scratch.store);
}

#[test]
fn paths_that_are_kept_are_bounded() {
    let scratch = scratch();
    let long = "n".repeat(90);
    let tar = (0..20).fold(Tar::new(), |tar, n| tar.dir(&format!("{long}{n:02}"), 0o755));
    // The same one again, and one that goes with what is in it, take no more.
    let tar = (0..30).fold(tar, |tar, _| tar.dir(&format!("{long}00"), 0o755));
    let tar =
        (0..30).fold(tar, |tar, _| tar.dir("d", 0o755).dir("d/e", 0o755).file("d", 0o644, ""));
    let layer = tar.dir("last", 0o755).end();
    let few = Limits { paths: 20 * 92, ..Limits::default() };
    let refused = refusal(&scratch, std::slice::from_ref(&layer), few);
    let why = "entry \"d\": read: the paths of its directories are longer than 1840 bytes";
    assert!(refused.contains(why), "{refused}");
    let enough = Limits { paths: 20 * 92 + 5, ..Limits::default() };
    let record = image(&scratch.store, &[layer]);
    unpack::unpack(&scratch.store, &record, owners(), enough).unwrap();
    nothing_is_half_made(&scratch.store);
}

#[test]
fn a_layer_that_is_another_is_refused() {
    let scratch = scratch();
    let layer = Tar::new().file("x", 0o644, "x").end();
    let mut record = image(&scratch.store, &[layer]);
    record.layers[0].diff_id = Digest::of(b"another");
    let refused = unpack::unpack(&scratch.store, &record, owners(), Limits::default()).unwrap_err();
    let words = refused.to_string();
    assert!(words.starts_with("image \"test:1\": layer 1 of 1, sha256:"), "{words}");
    assert!(words.contains(", unpacked: its content is sha256:"), "{words}");
    assert!(!unpack::is_there(&scratch.store, &record.layers[0], owners()));
    nothing_is_half_made(&scratch.store);
}

/// A million entries in 3 MB: they are read as they come, so that neither memory nor time is spent on those beyond the bound.
#[test]
fn a_million_entries_end_at_their_bound() {
    let scratch = scratch();
    let packed = Vec::new();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    for n in 0..1000 {
        let folder =
            (0..10).fold(Tar::new(), |tar, at| tar.dir(&format!("d{n}/{at}"), 0o755)).bare(0);
        packed.write_all(&folder.repeat(100)).unwrap();
    }
    let packed = packed.finish().unwrap();
    let few = Limits { entries: 50_000, ..Limits::default() };
    let begin = Instant::now();
    let refused = refusal(&scratch, &[packed], few);
    let part = "entry \"d50/0\": read: it has more than 50000 entries";
    assert!(refused.contains(part), "{refused}");
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    nothing_is_half_made(&scratch.store);
}

#[test]
fn many_files_take_a_bounded_time() {
    let scratch = scratch();
    let mut tar = Tar::new();
    for n in 0..20_000 {
        tar = tar.file(&format!("d{}/f{n}", n % 100), 0o644, "");
    }
    let begin = Instant::now();
    trees(&scratch, &[tar.end()]);
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}
