//! Images of folders and archives.

use netloom_container::provide;
use netloom_kit::root_only;
use netloom_oci::{Digest, Source};

use super::support::server::documents;
use super::support::{Scratch, Tar, nothing_is_half_made, scratch};

fn layers() -> Vec<Vec<u8>> {
    vec![
        Tar::new().file("a", 0o644, "a").end(),
        Tar::new().file("b", 0o644, "b").white(".wh.a").end(),
    ]
}

/// `docker save`'s archive, in its old form, with a link in place of the first layer.
fn saved() -> Vec<u8> {
    let (_, config) = documents(&layers());
    let manifest = serde_json::json!([
        {"Config": "c.json", "RepoTags": ["a/b:1"], "Layers": ["x/layer.tar", "y/layer.tar"]},
    ])
    .to_string();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Tar::new()
        .file("c.json", 0o644, &config)
        .dir("z", 0o755)
        .file("z/layer.tar", 0o644, &text(&layers()[0]))
        .symlink("x/layer.tar", "../z/layer.tar")
        .file("y/layer.tar", 0o644, &text(&layers()[1]))
        .file("manifest.json", 0o644, &manifest)
        .end()
}

fn layout(folder: &std::path::Path) {
    let (manifest, config) = documents(&layers());
    std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    let documents = [manifest.clone().into_bytes(), config.into_bytes()];
    let all: Vec<Vec<u8>> = layers().into_iter().chain(documents).collect();
    for bytes in all {
        std::fs::write(folder.join("blobs/sha256").join(Digest::of(&bytes).hex()), bytes).unwrap();
    }
    let entry = |name: &str| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": Digest::of(manifest.as_bytes()).to_string(), "size": manifest.len(),
            "annotations": {"org.opencontainers.image.ref.name": name},
        })
    };
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [entry("1"), entry("2")]});
    std::fs::write(folder.join("index.json"), index.to_string()).unwrap();
    std::fs::write(folder.join("oci-layout"), "{\"imageLayoutVersion\": \"1.0.0\"}").unwrap();
}

fn taken(scratch: &Scratch, source: &str) -> Result<netloom_container::Record, String> {
    let source: Source = source.parse().unwrap();
    let taken = provide::take(&scratch.store, &source, Default::default());
    taken.map_err(|e| netloom_sys::describe(&e))
}

#[test]
fn folders_and_archives_have_the_same_layers() {
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    layout(&folder.path().join("img"));
    let archive = folder.path().join("saved.tar");
    std::fs::write(&archive, saved()).unwrap();
    let of_layout = taken(&scratch, &format!("oci:{}/img:2", folder.path().display())).unwrap();
    let of_archive = taken(&scratch, &format!("docker-archive:{}", archive.display())).unwrap();
    assert_eq!(of_layout.layers, of_archive.layers);
    assert_eq!(of_layout.settings.cmd, ["sh"]);
    let none = taken(&scratch, &format!("oci:{}/img", folder.path().display())).unwrap_err();
    assert!(none.contains("it has several images: name one of 1, 2"), "{none}");
    let none = taken(&scratch, &format!("docker-archive:{}:x", archive.display())).unwrap_err();
    assert!(none.contains("no image \"x\" in it; there are: a/b:1"), "{none}");
}

#[test]
fn a_root_is_an_image_of_one_layer() {
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("root.tar");
    std::fs::write(&archive, &layers()[0]).unwrap();
    let record = taken(&scratch, &format!("docker-archive:{}", archive.display())).unwrap();
    assert_eq!(record.layers.len(), 1);
    assert_eq!(record.layers[0].diff_id, Digest::of(&layers()[0]));
}

#[test]
fn blobs_of_a_folder_are_checked() {
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    layout(folder.path());
    let layer = folder.path().join("blobs/sha256").join(Digest::of(&layers()[1]).hex());
    let length = layers()[1].len();
    std::fs::write(&layer, vec![b'x'; length]).unwrap();
    let refused = taken(&scratch, &format!("oci:{}:1", folder.path().display())).unwrap_err();
    assert!(refused.contains("its content is sha256:"), "{refused}");
    // One that is all holes would fill this disk.
    std::fs::File::create(&layer).unwrap().set_len(1 << 40).unwrap();
    let refused = taken(&scratch, &format!("oci:{}:1", folder.path().display())).unwrap_err();
    let words = format!("it has 1099511627776 bytes, and not {length}, as its manifest says");
    assert!(refused.contains(&words), "{refused}");
    std::fs::remove_file(&layer).unwrap();
    let refused = taken(&scratch, &format!("oci:{}:1", folder.path().display())).unwrap_err();
    assert!(refused.contains("blobs/sha256/"), "{refused}");
    let refused = taken(&scratch, "oci:/nonexistent").unwrap_err();
    assert!(refused.contains("/nonexistent"), "{refused}");
}

#[test]
fn an_archive_of_holes_is_not_taken() {
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("root.tar");
    std::fs::write(&archive, &layers()[0]).unwrap();
    std::fs::File::options().write(true).open(&archive).unwrap().set_len(1 << 40).unwrap();
    let refused = taken(&scratch, &format!("docker-archive:{}", archive.display())).unwrap_err();
    assert!(
        refused.contains("its 1099511627776 bytes are more than a layer may have"),
        "{refused}"
    );
    nothing_is_half_made(&scratch.store);
}

#[test]
fn an_entry_that_ends_where_numbers_do_ends_its_archive() {
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("root.tar");
    // Behind the text, its block and the header nothing is left of 64 bits.
    let size = (u64::MAX - 511 - 3 * 512).to_string();
    let tar = Tar::new().pax(&[("size", &size)]).raw("x", b'0', 0o644, "", 0).end();
    std::fs::write(&archive, tar).unwrap();
    let record = taken(&scratch, &format!("docker-archive:{}", archive.display())).unwrap();
    assert_eq!(record.layers.len(), 1);
}

/// Root could read what the links lead to.
#[test]
fn links_of_another_user_in_a_folder_are_not_followed() {
    root_only!("makes links of another user");
    let scratch = scratch();
    let folder = tempfile::tempdir().unwrap();
    layout(folder.path());
    let layer = folder.path().join("blobs/sha256").join(Digest::of(&layers()[1]).hex());
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&layer, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &layer).unwrap();
    let image = format!("oci:{}:1", folder.path().display());
    taken(&scratch, &image).unwrap();
    let other = super::support::scratch();
    std::os::unix::fs::lchown(&layer, Some(1), Some(1)).unwrap();
    let refused = taken(&other, &image).unwrap_err();
    assert!(refused.contains("is a link of user 1, who can change where it leads"), "{refused}");
    let archive = folder.path().join("link.tar");
    std::os::unix::fs::symlink(&elsewhere, &archive).unwrap();
    std::os::unix::fs::lchown(&archive, Some(1), Some(1)).unwrap();
    let refused = taken(&other, &format!("docker-archive:{}", archive.display())).unwrap_err();
    assert!(refused.contains("is a link of user 1"), "{refused}");
}
