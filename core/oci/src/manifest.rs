//! Manifests, indexes and configurations, in the forms of OCI and of Docker.
//!
//! Numbers and lists are bounded before anything is fetched by them. Unknown keys are passed over.

use serde::{Deserialize, Serialize};

use crate::media::{Kind, Packing};
use crate::{Digest, Error, Result};

/// The largest document that is read.
pub const MOST_BYTES: u64 = 4 << 20;

/// As many layers as an overlay takes (OVL_MAX_STACK of fs/overlayfs).
pub const MOST_LAYERS: usize = 500;

/// The largest packed layer.
pub const LARGEST_LAYER: u64 = 64 << 30;

/// How deep indexes may list indexes.
pub const DEEPEST: usize = 3;

/// A name of content.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its type.
    #[serde(default)]
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// For which machines, in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Notes, among them the name in an OCI layout.
    #[serde(default)]
    pub annotations: std::collections::BTreeMap<String, String>,
}

impl Descriptor {
    /// Its whole name in an OCI layout, if it has one: others than containerd often write a tag alone.
    pub fn whole_name(&self) -> Option<&str> {
        let given = self.annotations.get("io.containerd.image.name").map(String::as_str);
        given.or_else(|| self.name().filter(|name| name.contains(['/', ':'])))
    }

    /// Its name in an OCI layout.
    pub fn name(&self) -> Option<&str> {
        self.annotations.get("org.opencontainers.image.ref.name").map(String::as_str)
    }
}

/// A kind of machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// The system: `linux`.
    #[serde(default)]
    pub os: String,
    /// The architecture in Go's words: `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// Its variant: `v7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on an architecture in Rust's words, as `std::env::consts::ARCH` has it.
    pub fn linux(architecture: &str) -> Platform {
        let (architecture, variant) = match architecture {
            "x86_64" => ("amd64", None),
            "x86" => ("386", None),
            "aarch64" => ("arm64", Some("v8")),
            "arm" => ("arm", Some("v7")),
            // Rust has one word for both byte orders; the images are for little-endian machines.
            "powerpc64" => ("ppc64le", None),
            "loongarch64" => ("loong64", None),
            other => (other, None),
        };
        Platform {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        }
    }

    /// How well this machine runs images for `other`: more is better, `None` not at all. Of 32-bit ARM older variants run
    /// on newer machines.
    fn fit(&self, other: &Platform) -> Option<u32> {
        if self.os != other.os || self.architecture != other.architecture {
            return None;
        }
        let number = |variant: &Option<String>| {
            variant.as_deref().and_then(|v| v.strip_prefix('v')?.parse::<u32>().ok())
        };
        match (number(&self.variant), number(&other.variant)) {
            (_, None) => Some(1),
            // What every machine has; of a higher level (amd64/v3) it is not known whether this one has it.
            (None, Some(1)) => Some(2),
            (None, Some(_)) => None,
            (Some(own), Some(wanted)) => (wanted <= own).then_some(wanted + 1),
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

/// A document that says what an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// One image a platform, or a name.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Manifest),
}

/// One image: its configuration and its layers, the lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Manifest {
    /// The configuration.
    pub config: Descriptor,
    /// The layers.
    pub layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

impl Document {
    /// Reads one; `media` is its type, as the server or a descriptor says it.
    ///
    /// # Errors
    /// [`Error::Document`] with what is wrong.
    pub fn read(bytes: &[u8], media: Option<&str>) -> Result<Document> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(|e| Error::document("manifest", e))?;
        if raw.schema_version != 2 {
            let why = format!(
                "schema version {} is not supported: push the image again with a current program",
                raw.schema_version
            );
            return Err(Error::document("manifest", why));
        }
        let said =
            raw.media_type.as_deref().and_then(Kind::of).or_else(|| media.and_then(Kind::of));
        let kind =
            said.unwrap_or(if raw.manifests.is_some() { Kind::Index } else { Kind::Manifest });
        match (kind, raw.manifests, raw.config, raw.layers) {
            (Kind::Index, Some(manifests), ..) => Ok(Document::Index(manifests)),
            (Kind::Manifest, _, Some(config), Some(layers)) => {
                let manifest = Manifest { config, layers };
                manifest.check()?;
                Ok(Document::Manifest(manifest))
            }
            (Kind::Index, ..) => Err(Error::document("index", "it has no `manifests`")),
            (Kind::Manifest, ..) => {
                Err(Error::document("manifest", "it has no `config` and `layers`"))
            }
        }
    }
}

impl Manifest {
    fn check(&self) -> Result<()> {
        if self.layers.len() > MOST_LAYERS {
            let why = format!("{} layers are more than {MOST_LAYERS}", self.layers.len());
            return Err(Error::document("manifest", why));
        }
        if self.config.size > MOST_BYTES {
            return Err(Error::document("manifest", "its config is larger than 4 MiB"));
        }
        match self.layers.iter().find(|layer| layer.size > LARGEST_LAYER) {
            Some(layer) => {
                let why = format!("layer {} is larger than 64 GiB", layer.digest);
                Err(Error::document("manifest", why))
            }
            None => Ok(()),
        }
    }

    /// How each layer is packed.
    ///
    /// # Errors
    /// A layer is not a tar archive: this is not an image of a container.
    pub fn packings(&self) -> Result<Vec<Packing>> {
        let packing = |layer: &Descriptor| {
            Packing::of(&layer.media_type).ok_or_else(|| {
                let why = format!("layer {} is of type {:?}", layer.digest, layer.media_type);
                Error::document("manifest", why)
            })
        };
        self.layers.iter().map(packing).collect()
    }
}

/// The entry of an index for a platform, the best of those that run there.
///
/// # Errors
/// [`Error::Document`] with the platforms that are there.
pub fn choose<'a>(index: &'a [Descriptor], platform: &Platform) -> Result<&'a Descriptor> {
    // Without a platform an entry is taken if it is the only one.
    if let [only] = index
        && only.platform.is_none()
    {
        return Ok(only);
    }
    let fit = |entry: &&Descriptor| entry.platform.as_ref().and_then(|of| platform.fit(of));
    let mut best: Option<(u32, &Descriptor)> = None;
    for entry in index {
        let Some(fit) = fit(&entry) else { continue };
        if best.is_none_or(|(so_far, _)| fit > so_far) {
            best = Some((fit, entry));
        }
    }
    best.map(|(_, entry)| entry).ok_or_else(|| {
        let mut there: Vec<String> =
            index.iter().filter_map(|e| e.platform.as_ref()).map(ToString::to_string).collect();
        there.dedup();
        there.truncate(16);
        let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
        Error::document("index", format!("it has no image for {platform}, only {there}"))
    })
}

/// What an image's configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// The system.
    #[serde(default)]
    pub os: String,
    /// The architecture.
    #[serde(default)]
    pub architecture: String,
    /// Its variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// When it was made, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// What its program runs with.
    #[serde(default)]
    pub config: Option<Settings>,
    /// Its layers unpacked, the lowest first.
    #[serde(default)]
    pub rootfs: RootFs,
}

/// The layers of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// Digests of the tar archives.
    #[serde(default)]
    pub diff_ids: Vec<Digest>,
}

/// What an image's program runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Settings {
    /// `USER[:GROUP]`, names or numbers.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// Texts of the form `NAME=VALUE`.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    /// The program and its first arguments.
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program if there is no entrypoint.
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// Where it starts.
    #[serde(deserialize_with = "or_default")]
    pub working_dir: String,
    /// Which signal asks it to end.
    #[serde(deserialize_with = "or_default")]
    pub stop_signal: String,
}

/// `null` as the default: several programs write it.
fn or_default<'d, D, T>(from: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'d>,
    T: Default + Deserialize<'d>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

impl Settings {
    /// The environment: names and values.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pair = |text: &String| {
            let (name, value) = text.split_once('=')?;
            let is_good = !name.is_empty() && !text.contains('\0');
            is_good.then(|| (name.to_owned(), value.to_owned()))
        };
        self.env.iter().filter_map(pair).collect()
    }

    /// User and group.
    pub fn who(&self) -> (Option<&str>, Option<&str>) {
        let (user, group) = match self.user.split_once(':') {
            Some((user, group)) => (user, group),
            None => (self.user.as_str(), ""),
        };
        (Some(user).filter(|u| !u.is_empty()), Some(group).filter(|g| !g.is_empty()))
    }
}

impl Config {
    /// Reads one.
    ///
    /// # Errors
    /// [`Error::Document`] with what is wrong.
    pub fn read(bytes: &[u8]) -> Result<Config> {
        let config: Config =
            serde_json::from_slice(bytes).map_err(|e| Error::document("config", e))?;
        match config.rootfs.diff_ids.len() {
            many if many > MOST_LAYERS => {
                Err(Error::document("config", format!("{many} layers are more than {MOST_LAYERS}")))
            }
            _ => Ok(config),
        }
    }

    /// The platform that it is for.
    pub fn platform(&self) -> Platform {
        Platform {
            os: self.os.clone(),
            architecture: self.architecture.clone(),
            variant: self.variant.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: &str) -> String {
        Digest::of(of.as_bytes()).to_string()
    }

    fn index(platforms: &[(&str, &str, Option<&str>)]) -> Vec<Descriptor> {
        let entry = |(os, arch, variant): &(&str, &str, Option<&str>)| {
            let mut platform = serde_json::json!({"os": os, "architecture": arch});
            if let Some(variant) = variant {
                platform["variant"] = serde_json::json!(variant);
            }
            serde_json::json!({
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": digest(&format!("{os}{arch}{variant:?}")), "size": 1, "platform": platform,
            })
        };
        let entries: Vec<_> = platforms.iter().map(entry).collect();
        let text = serde_json::json!({"schemaVersion": 2, "manifests": entries}).to_string();
        match Document::read(text.as_bytes(), None).unwrap() {
            Document::Index(index) => index,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_best_platform_of_an_index_is_chosen() {
        let all = index(&[
            ("linux", "amd64", None),
            ("linux", "arm", Some("v6")),
            ("linux", "arm", Some("v7")),
            ("linux", "arm64", Some("v8")),
            ("windows", "amd64", None),
            ("unknown", "unknown", None),
        ]);
        let chosen = |arch: &str| {
            let chosen = choose(&all, &Platform::linux(arch)).unwrap();
            chosen.platform.clone().unwrap().to_string()
        };
        assert_eq!(chosen("x86_64"), "linux/amd64");
        assert_eq!(chosen("arm"), "linux/arm/v7");
        assert_eq!(chosen("aarch64"), "linux/arm64/v8");
        let error = choose(&all, &Platform::linux("riscv64")).unwrap_err().to_string();
        assert!(error.contains("no image for linux/riscv64, only linux/amd64, "), "{error}");
        // amd64's microarchitecture levels: what runs everywhere is taken.
        let levels = index(&[("linux", "amd64", Some("v3")), ("linux", "amd64", None)]);
        assert!(
            choose(&levels, &Platform::linux("x86_64"))
                .unwrap()
                .platform
                .as_ref()
                .unwrap()
                .variant
                .is_none()
        );
    }

    #[test]
    fn manifests_of_docker_and_oci_are_read_and_old_ones_refused() {
        let text = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "digest": digest("c"), "size": 3},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "digest": digest("l"), "size": 7}],
        });
        let Document::Manifest(manifest) =
            Document::read(text.to_string().as_bytes(), None).unwrap()
        else {
            panic!("no manifest")
        };
        assert_eq!(manifest.packings().unwrap(), [Packing::Gzip]);
        let old = Document::read(b"{\"schemaVersion\": 1, \"fsLayers\": []}", None).unwrap_err();
        assert!(old.to_string().contains("schema version 1"), "{old}");
        for wrong in
            ["", "{}", "[]", "{\"schemaVersion\": 2}", "{\"schemaVersion\": 2, \"layers\": 3}"]
        {
            assert!(Document::read(wrong.as_bytes(), None).is_err(), "{wrong}");
        }
        let mut many = text.clone();
        many["layers"] = serde_json::Value::Array(vec![text["layers"][0].clone(); MOST_LAYERS + 1]);
        let many = Document::read(many.to_string().as_bytes(), None).unwrap_err();
        assert!(many.to_string().contains("501 layers"), "{many}");
    }

    #[test]
    fn settings_may_be_null() {
        let text = serde_json::json!({
            "os": "linux", "architecture": "amd64",
            "config": {"User": "web:www", "Env": ["PATH=/bin", "A=b=c", "bad"], "Cmd": ["sh"], "Entrypoint": null, "WorkingDir": "/srv"},
            "rootfs": {"type": "layers", "diff_ids": [digest("l")]},
        });
        let config = Config::read(text.to_string().as_bytes()).unwrap();
        let settings = config.config.unwrap();
        assert_eq!(
            settings.environment(),
            [("PATH".into(), "/bin".into()), ("A".into(), "b=c".into())]
        );
        assert_eq!(settings.who(), (Some("web"), Some("www")));
        assert!(settings.entrypoint.is_empty());
        assert!(Config::read(b"{\"config\": null}").unwrap().config.is_none());
    }
}
