//! Types of documents and layers, in the names of OCI and of Docker.

/// What registries are asked for.
pub const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list of manifests, one a platform.
    Index,
    /// One image.
    Manifest,
}

impl Kind {
    /// The kind of a media type, without its parameters.
    pub fn of(media: &str) -> Option<Kind> {
        match bare(media) {
            "application/vnd.oci.image.index.v1+json"
            | "application/vnd.docker.distribution.manifest.list.v2+json" => Some(Kind::Index),
            "application/vnd.oci.image.manifest.v1+json"
            | "application/vnd.docker.distribution.manifest.v2+json" => Some(Kind::Manifest),
            _ => None,
        }
    }
}

/// How a layer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Packing {
    /// A tar archive as it is.
    Plain,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

impl Packing {
    /// The packing of a layer's media type; `None` if that is not a tar archive.
    pub fn of(media: &str) -> Option<Packing> {
        let media = bare(media);
        let is_layer = media.starts_with("application/vnd.oci.image.layer.")
            || media.starts_with("application/vnd.docker.image.rootfs.");
        if !is_layer {
            return None;
        }
        // Types end in `.tar.gzip` with Docker, in `.tar+gzip` with OCI, and in `.tar`.
        match media.rsplit_once('.').map(|(_, end)| end) {
            Some("tar") => Some(Packing::Plain),
            Some("gzip") => Some(Packing::Gzip),
            Some("zstd") => Some(Packing::Zstd),
            _ => match media.rsplit_once('+').map(|(_, end)| end) {
                Some("gzip") => Some(Packing::Gzip),
                Some("zstd") => Some(Packing::Zstd),
                _ => None,
            },
        }
    }

    /// The packing of a file by its first bytes.
    pub fn seen(first: &[u8]) -> Packing {
        // RFC 1952, 2.3.1, and RFC 8878, 3.1.1.
        match first {
            [0x1f, 0x8b, ..] => Packing::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
            _ => Packing::Plain,
        }
    }
}

fn bare(media: &str) -> &str {
    media.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_known_in_both_dialects() {
        for (media, packing) in [
            ("application/vnd.oci.image.layer.v1.tar", Some(Packing::Plain)),
            ("application/vnd.oci.image.layer.v1.tar+gzip", Some(Packing::Gzip)),
            ("application/vnd.oci.image.layer.v1.tar+zstd", Some(Packing::Zstd)),
            ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", Some(Packing::Gzip)),
            ("application/vnd.docker.image.rootfs.diff.tar.gzip", Some(Packing::Gzip)),
            ("application/vnd.docker.image.rootfs.diff.tar", Some(Packing::Plain)),
            ("application/vnd.oci.image.layer.v1.tar+encrypted", None),
            ("application/json", None),
        ] {
            assert_eq!(Packing::of(media), packing, "{media}");
        }
        assert_eq!(
            Kind::of("application/vnd.oci.image.index.v1+json; charset=utf-8"),
            Some(Kind::Index)
        );
        assert_eq!(Kind::of("application/vnd.docker.distribution.manifest.v1+json"), None);
    }
}
