//! An image for containers: Debian with the deb packages installed, and the programs that labs run first.
//!
//! mmdebstrap makes the tree; the archive around it is an OCI image layout (OCI image specification 1.1, image-layout.md),
//! which `netloom image load`, skopeo, podman and docker (from version 25 on) read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::remake;
use crate::{dist, workspace};

/// What the tree is made of, beside netloom: what examples and people's first labs run.
const PROGRAMS: &str =
    "ca-certificates,curl,iproute2,iputils-ping,libpcap0.8,nftables,procps,python3,tcpdump";
const SUITE: &str = "bookworm";

/// What nobody reads inside a container. Licences stay.
const LEFT_OUT: &[&str] = &[
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-include=/usr/share/doc/netloom/*",
];

/// Writes `netloom-VERSION-ARCH-oci.tar`.
pub(super) fn make(
    deb: &Path,
    work: &Path,
    out: &Path,
    (version, moment): (&str, u64),
) -> Result<PathBuf> {
    let work = work.join("image");
    let layout = work.join(format!("netloom-{version}-{}-oci", std::env::consts::ARCH));
    let blobs = layout.join("blobs/sha256");
    remake(&blobs)?;
    let tree = work.join("tree.tar");
    make_tree(deb, &tree, moment)?;
    let diff = digest(&tree)?;
    // mmdebstrap packs a given tree always alike; so does gzip without a name and a time.
    workspace::must(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(&tree))?;
    let layer = keep(&blobs, &work.join("tree.tar.gz"), "layer.v1.tar+gzip")?;
    let made = created(moment)?;
    let config = write(&blobs, &config(version, &made, &diff), "config.v1+json")?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media("manifest.v1+json"),
        "config": config,
        "layers": [layer],
    });
    let mut manifest = write(&blobs, &manifest, "manifest.v1+json")?;
    manifest["platform"] = json!({"os": "linux", "architecture": architecture()});
    // podman goes by the first name, docker by the second.
    let name = format!("netloom:{version}");
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": name,
        "io.containerd.image.name": format!("docker.io/library/{name}"),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": media("index.v1+json"),
        "manifests": [manifest],
    });
    fs::write(layout.join("index.json"), index.to_string()).context("write index.json")?;
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
        .context("write oci-layout")?;
    let archive = out.join(format!("{}.tar", layout.file_name().unwrap_or_default().display()));
    dist::tar(&layout, ".".as_ref(), &archive, moment)?;
    Ok(archive)
}

/// Debian and the package, in a tar archive.
fn make_tree(deb: &Path, tree: &Path, moment: u64) -> Result<()> {
    let mut mmdebstrap = Command::new("mmdebstrap");
    mmdebstrap.args(["--variant=minbase", "--format=tar"]).arg(format!("--include={PROGRAMS}"));
    for option in LEFT_OUT {
        mmdebstrap.arg(format!("--dpkgopt={option}"));
    }
    for line in apt_options()?.lines() {
        mmdebstrap.arg(format!("--aptopt={line}"));
    }
    mmdebstrap.arg(r#"--customize-hook=cp "$NETLOOM_DEB" "$1/netloom.deb""#);
    mmdebstrap.arg(
        r#"--customize-hook=chroot "$1" apt-get install --yes --no-install-recommends /netloom.deb"#,
    );
    // How this machine reaches the world is not the image's.
    mmdebstrap.arg(r#"--customize-hook=rm --force "$1/etc/apt/apt.conf.d/99mmdebstrap""#);
    mmdebstrap.arg(r#"--customize-hook=rm "$1/netloom.deb" && mkdir "$1/labs""#);
    mmdebstrap.arg(SUITE).arg(tree).env("NETLOOM_DEB", deb);
    mmdebstrap.env("SOURCE_DATE_EPOCH", moment.to_string()).env("LC_ALL", "C");
    workspace::must(&mut mmdebstrap).context("`make packages` installs mmdebstrap")
}

/// How this machine's apt reaches the world. Without apt, mmdebstrap's own way.
fn apt_options() -> Result<String> {
    let Ok(said) = Command::new("apt-config").args(["dump", "Acquire"]).output() else {
        return Ok(String::new());
    };
    let said = String::from_utf8(said.stdout).context("read what apt-config says")?;
    let reaches = |line: &&str| {
        ["http", "https", "Check-", "Retries", "ForceIP"]
            .iter()
            .any(|name| line.strip_prefix("Acquire::").is_some_and(|rest| rest.starts_with(name)))
    };
    Ok(said.lines().filter(reaches).collect::<Vec<_>>().join("\n"))
}

/// What a container of the image runs, and how.
fn config(version: &str, made: &str, diff: &str) -> Value {
    json!({
        "created": made,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": ["netloom"],
            "Cmd": ["--help"],
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "WorkingDir": "/labs",
            "Labels": {
                "org.opencontainers.image.title": "netloom",
                "org.opencontainers.image.description": "Whole networks inside one machine",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
        "history": [{"created": made, "created_by": "cargo xtask packages"}],
    })
}

/// The architecture in Go's word, which images have.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn media(what: &str) -> String {
    format!("application/vnd.oci.image.{what}")
}

/// Writes a document under its digest; gives its descriptor.
fn write(blobs: &Path, document: &Value, what: &str) -> Result<Value> {
    let file = blobs.join("new");
    fs::write(&file, document.to_string()).with_context(|| format!("write {file:?}"))?;
    keep(blobs, &file, what)
}

/// Moves a file to where its digest says; gives its descriptor.
fn keep(blobs: &Path, file: &Path, what: &str) -> Result<Value> {
    let digest = digest(file)?;
    let size = fs::metadata(file).with_context(|| format!("{file:?}"))?.len();
    fs::rename(file, blobs.join(&digest)).with_context(|| format!("move {file:?}"))?;
    Ok(json!({"mediaType": media(what), "digest": format!("sha256:{digest}"), "size": size}))
}

/// The SHA-256 of a file.
fn digest(file: &Path) -> Result<String> {
    let said = workspace::output(Command::new("sha256sum").arg("--").arg(file))?;
    let said = String::from_utf8(said).context("read what sha256sum says")?;
    // A name with a backslash or a line break has a backslash before its sum.
    let sum = said.split_whitespace().next().unwrap_or_default().trim_start_matches('\\');
    Ok(sum.to_owned())
}

/// A time as RFC 3339 has it.
fn created(moment: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", &format!("--date=@{moment}")]).env("LC_ALL", "C");
    let said = String::from_utf8(workspace::output(&mut date)?).context("read the date")?;
    Ok(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_kept_under_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let kept = write(folder.path(), &json!({"a": 1}), "config.v1+json").unwrap();
        // `printf '{"a":1}' | sha256sum`
        let sum = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
        assert_eq!(kept["digest"], format!("sha256:{sum}"));
        assert_eq!(kept["size"], 7);
        assert_eq!(kept["mediaType"], "application/vnd.oci.image.config.v1+json");
        assert_eq!(fs::read_to_string(folder.path().join(sum)).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn a_time_is_as_images_have_it() {
        assert_eq!(created(1_764_000_000).unwrap(), "2025-11-24T16:00:00Z");
    }
}
