//! Images of folders and archives.

use netloom_container::provide;
use netloom_oci::{Digest, Source};

use super::support::server::documents;
use super::support::{Scratch, Tar, scratch};

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
    std::fs::write(&layer, b"another").unwrap();
    let refused = taken(&scratch, &format!("oci:{}:1", folder.path().display())).unwrap_err();
    assert!(refused.contains("its content is sha256:"), "{refused}");
    std::fs::remove_file(&layer).unwrap();
    let refused = taken(&scratch, &format!("oci:{}:1", folder.path().display())).unwrap_err();
    assert!(refused.contains("blobs/sha256/"), "{refused}");
    let refused = taken(&scratch, "oci:/nonexistent").unwrap_err();
    assert!(refused.contains("/nonexistent"), "{refused}");
}
