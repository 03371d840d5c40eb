//! What entries of layers become.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::support::{Tar, is_opaque, is_whiteout, mode, nothing_is_half_made, scratch, trees};

fn base() -> Vec<u8> {
    Tar::new()
        .dir("./", 0o755)
        .dir("./tmp/", 0o1777)
        .dir("etc", 0o750)
        .file("etc/a", 0o4755, "of the base")
        .dir("usr/", 0o755)
        .dir("usr/lib", 0o755)
        .symlink("lib", "usr/lib")
        .symlink("out", "/../../../../tmp")
        .end()
}

#[test]
fn missing_parents_are_as_in_the_layers_below() {
    let scratch = scratch();
    let above = Tar::new().white("tmp/.wh.x").file("etc/new/b", 0o644, "b").end();
    let trees = trees(&scratch, &[base(), above]);
    assert_eq!(mode(&trees[0].join("tmp")), 0o1777);
    // The whiteout hides nothing, so the layer has no /tmp at all.
    assert!(!trees[1].join("tmp").exists());
    assert_eq!((mode(&trees[1].join("etc")), mode(&trees[1].join("etc/new"))), (0o750, 0o755));
    let of = |path: &str| {
        let found = fs::metadata(trees[1].join(path)).unwrap();
        (found.uid(), found.gid())
    };
    if netloom_kit::is_root() {
        assert_eq!((of("etc"), of("etc/new")), ((33, 34), (0, 0)));
    }
    nothing_is_half_made(&scratch.store);
}

#[test]
fn tmp_keeps_its_mode_when_a_layer_hides_a_file_in_it() {
    let scratch = scratch();
    let with = Tar::new().dir("tmp", 0o1777).file("tmp/x", 0o644, "x").end();
    let above = Tar::new().white("tmp/.wh.x").end();
    let trees = trees(&scratch, &[with, above]);
    assert_eq!(mode(&trees[1].join("tmp")), 0o1777);
    assert!(is_whiteout(&trees[1].join("tmp/x")));
}

#[test]
fn set_id_bits_times_and_owners_stay() {
    let scratch = scratch();
    let trees = trees(&scratch, &[base()]);
    let found = fs::metadata(trees[0].join("etc/a")).unwrap();
    assert_eq!((found.mode() & 0o7777, found.mtime()), (0o4755, 7));
    assert_eq!(fs::metadata(trees[0].join("etc")).unwrap().mtime(), 7);
    if netloom_kit::is_root() {
        assert_eq!((found.uid(), found.gid()), (33, 34));
    }
}

#[test]
fn an_opaque_mark_counts_wherever_it_stands() {
    let scratch = scratch();
    let below = Tar::new().dir("d", 0o700).file("d/old", 0o644, "old").end();
    let first = Tar::new().white("d/.wh..wh..opq").dir("d", 0o755).file("d/new", 0o644, "n").end();
    let last = Tar::new().dir("d", 0o755).file("d/new", 0o644, "n").white("d/.wh..wh..opq").end();
    for above in [first, last] {
        let trees = trees(&scratch, &[below.clone(), above]);
        assert!(is_opaque(&trees[1].join("d")));
        assert_eq!(mode(&trees[1].join("d")), 0o755);
        assert_eq!(fs::read_to_string(trees[1].join("d/new")).unwrap(), "n");
    }
}

#[test]
fn whiteouts_never_hide_files_of_their_own_layer() {
    let scratch = scratch();
    let below = Tar::new().dir("d", 0o755).file("d/x", 0o644, "below").file("f", 0o644, "f").end();
    let above = Tar::new()
        .file("f", 0o644, "own")
        .white(".wh.f")
        .white(".wh.d")
        .dir("d", 0o755)
        .file("d/y", 0o644, "own")
        .end();
    let trees = trees(&scratch, &[below, above]);
    assert_eq!(fs::read_to_string(trees[1].join("f")).unwrap(), "own");
    // The directory was removed and recreated: nothing of the old one shows.
    assert!(is_opaque(&trees[1].join("d")));
    assert!(trees[1].join("d/y").exists() && !trees[1].join("d/x").exists());
}

#[test]
fn a_root_that_hides_all_stands_alone() {
    let scratch = scratch();
    let above = Tar::new().white(".wh..wh..opq").file("x", 0o644, "x").end();
    let trees = trees(&scratch, &[base(), above]);
    assert_eq!(trees.len(), 1);
    assert!(trees[0].join("x").exists());
}

#[test]
fn links_on_the_way_lead_beneath_the_root() {
    let scratch = scratch();
    let above = Tar::new().file("lib/new", 0o644, "lib").file("out/y", 0o644, "y").end();
    let trees = trees(&scratch, &[base(), above]);
    assert_eq!(fs::read_to_string(trees[1].join("usr/lib/new")).unwrap(), "lib");
    assert_eq!(fs::read_to_string(trees[1].join("tmp/y")).unwrap(), "y");
    assert!(fs::symlink_metadata(trees[1].join("lib")).is_err());
    assert_eq!(mode(&trees[1].join("tmp")), 0o1777);
}

#[test]
fn hard_links_lead_into_their_own_layer_and_below() {
    let scratch = scratch();
    let above = Tar::new()
        .file("b", 0o600, "b")
        .hard("c", "./b")
        .hard("d", "/etc/a")
        .hard("e", "lib/../lib")
        .end();
    // `..` in a target is not a path of an archive.
    let refused = super::support::refusal(&scratch, &[base(), above], Default::default());
    assert!(refused.contains("entry \"e\": read: its path has `..`"), "{refused}");
    let above = Tar::new().file("b", 0o600, "b").hard("c", "./b").hard("d", "/etc/a").end();
    let trees = trees(&scratch, &[base(), above]);
    let inode = |path: &str| fs::metadata(trees[1].join(path)).unwrap().ino();
    assert_eq!(inode("b"), inode("c"));
    assert_eq!(inode("d"), inode("etc/a"));
    assert_eq!(fs::read_to_string(trees[1].join("d")).unwrap(), "of the base");
    assert_eq!((mode(&trees[1].join("d")), mode(&trees[1].join("etc"))), (0o4755, 0o750));
    let gone = Tar::new().hard("x", "no/such").end();
    let refused = super::support::refusal(&scratch, &[gone], Default::default());
    assert!(refused.contains("entry \"x\": link: its target is missing"), "{refused}");
}

#[test]
fn what_comes_later_replaces_what_was_there() {
    let scratch = scratch();
    let below = Tar::new().dir("d", 0o755).file("d/x", 0o644, "x").end();
    let above = Tar::new()
        .dir("d", 0o755)
        .file("d/y", 0o644, "y")
        .symlink("d", "/etc")
        .file("f", 0o644, "one")
        .file("f", 0o600, "two")
        .file("g", 0o644, "g")
        .dir("g", 0o700)
        .file("g/h", 0o644, "h")
        .end();
    let trees = trees(&scratch, &[below, above]);
    assert_eq!(fs::read_link(trees[1].join("d")).unwrap().to_str(), Some("/etc"));
    assert_eq!(fs::read_to_string(trees[1].join("f")).unwrap(), "two");
    assert_eq!((mode(&trees[1].join("f")), mode(&trees[1].join("g"))), (0o600, 0o700));
    assert!(trees[1].join("g/h").exists());
}

#[test]
fn archives_without_padding_and_closing_blocks_are_whole() {
    let scratch = scratch();
    let bare = Tar::new().dir("srv", 0o755).file("srv/x", 0o644, "text").bare(508);
    let trees = trees(&scratch, &[bare]);
    assert_eq!(fs::read_to_string(trees[0].join("srv/x")).unwrap(), "text");
}

#[test]
fn attributes_are_set_but_those_of_overlays() {
    let scratch = scratch();
    let layer = Tar::new()
        .pax(&[
            ("SCHILY.xattr.user.note", "yes"),
            ("SCHILY.xattr.user.overlay.opaque", "y"),
            ("SCHILY.xattr.trusted.overlay.redirect", "/etc"),
        ])
        .dir("d", 0o755)
        .end();
    let trees = trees(&scratch, &[layer]);
    let folder = trees[0].join("d");
    let mut value = [0; 8];
    assert_eq!(rustix::fs::getxattr(&folder, "user.note", &mut value[..]), Ok(3));
    assert!(!is_opaque(&folder));
    assert!(rustix::fs::getxattr(&folder, "trusted.overlay.redirect", &mut value[..]).is_err());
}

#[test]
fn holes_take_no_room() {
    let scratch = scratch();
    let layer = Tar::new().sparse("s", 1 << 30, 1 << 20, "piece").end();
    let trees = trees(&scratch, &[layer]);
    let found = fs::metadata(trees[0].join("s")).unwrap();
    assert_eq!(found.len(), 1 << 30);
    assert!(found.blocks() < 100, "{}", found.blocks());
}

#[test]
fn equal_layers_above_others_are_others() {
    let scratch = scratch();
    let tmp = |mode| Tar::new().dir("tmp", mode).file("tmp/x", 0o644, "x").end();
    let above = Tar::new().white("tmp/.wh.x").end();
    let one = trees(&scratch, &[tmp(0o1777), above.clone()]);
    let two = trees(&scratch, &[tmp(0o700), above]);
    assert_eq!((mode(&one[1].join("tmp")), mode(&two[1].join("tmp"))), (0o1777, 0o700));
    // Equal chains up to there are stored once.
    let again = trees(&scratch, &[tmp(0o1777)]);
    assert_eq!(one[0], again[0]);
}
