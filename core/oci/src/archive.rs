//! What stands in archives and folders of images beside layers: `docker save`'s manifest.json, and an OCI layout.

use serde::Deserialize;

use crate::manifest::{Descriptor, Document, MOST_LAYERS};
use crate::{Error, Result};

/// The file that lists the images of a `docker save` archive.
pub const SAVED: &str = "manifest.json";

/// The file that lists the images of an OCI layout.
pub const INDEX: &str = "index.json";

/// The file that marks an OCI layout.
pub const LAYOUT: &str = "oci-layout";

/// An image of a `docker save` archive: names of files in it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Saved {
    /// The configuration.
    pub config: String,
    /// Its names.
    #[serde(default)]
    pub repo_tags: Option<Vec<String>>,
    /// The layers, the lowest first.
    pub layers: Vec<String>,
}

/// Reads manifest.json.
///
/// # Errors
/// [`Error::Document`] with what is wrong.
pub fn saved(bytes: &[u8]) -> Result<Vec<Saved>> {
    let all: Vec<Saved> = serde_json::from_slice(bytes).map_err(|e| Error::document(SAVED, e))?;
    match all.iter().find(|image| image.layers.len() > MOST_LAYERS) {
        Some(_) => Err(Error::document(SAVED, format!("more than {MOST_LAYERS} layers"))),
        None => Ok(all),
    }
}

/// The image of a `docker save` archive that has this name, or the only one.
///
/// # Errors
/// [`Error::Document`] with the names that are there.
pub fn pick<'a>(all: &'a [Saved], name: Option<&str>) -> Result<&'a Saved> {
    let whole = |text: &str| text.parse::<crate::Reference>().map(|r| r.to_string()).ok();
    let is_it = |image: &&Saved| {
        let tags = image.repo_tags.as_deref().unwrap_or_default();
        name.is_some_and(|name| {
            tags.iter()
                .any(|tag| tag == name || (whole(tag).is_some() && whole(tag) == whole(name)))
        })
    };
    match (all, name) {
        ([], _) => Err(Error::document(SAVED, "it has no image")),
        ([only], None) => Ok(only),
        _ => all.iter().find(is_it).ok_or_else(|| {
            let tags = all.iter().flat_map(|i| i.repo_tags.as_deref().unwrap_or_default());
            none_of(SAVED, &tags.map(String::as_str).collect::<Vec<_>>(), name)
        }),
    }
}

/// The entry of an OCI layout's index that has this name, or the only one; indexes of platforms are not looked into.
///
/// # Errors
/// [`Error::Document`] with the names that are there.
pub fn pick_of_layout(bytes: &[u8], name: Option<&str>) -> Result<Descriptor> {
    let Document::Index(all) =
        Document::read(bytes, Some("application/vnd.oci.image.index.v1+json"))?
    else {
        return Err(Error::document(INDEX, "it is not an index"));
    };
    match (all.as_slice(), name) {
        ([], _) => Err(Error::document(INDEX, "it has no image")),
        ([only], None) => Ok(only.clone()),
        _ => {
            let found = all.iter().find(|entry| name.is_some() && entry.name() == name);
            found.cloned().ok_or_else(|| {
                let names: Vec<&str> = all.iter().filter_map(Descriptor::name).collect();
                none_of(INDEX, &names, name)
            })
        }
    }
}

fn none_of(what: &'static str, names: &[&str], name: Option<&str>) -> Error {
    let mut there = names.iter().take(16).copied().collect::<Vec<_>>().join(", ");
    if there.is_empty() {
        there = "none with a name".to_owned();
    }
    let why = match name {
        Some(name) => format!("no image {name:?} in it; there are: {there}"),
        None => format!("it has several images: name one of {there}"),
    };
    Error::document(what, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_picked_by_name_or_as_the_only_one() {
        let text = br#"[{"Config":"c.json","RepoTags":["a/b:1"],"Layers":["x/layer.tar"]},
                        {"Config":"d.json","RepoTags":null,"Layers":[]}]"#;
        let all = saved(text).unwrap();
        assert_eq!(pick(&all, Some("docker.io/a/b:1")).unwrap().config, "c.json");
        assert_eq!(pick(&all[1..], None).unwrap().config, "d.json");
        let error = pick(&all, None).unwrap_err().to_string();
        assert!(error.contains("name one of a/b:1"), "{error}");
        let error = pick(&all, Some("z")).unwrap_err().to_string();
        assert!(error.contains("no image \"z\" in it; there are: a/b:1"), "{error}");
        assert!(saved(b"{}").is_err());
        assert_eq!(pick(&[], None).unwrap_err().to_string(), "manifest.json: it has no image");
        let empty = pick_of_layout(br#"{"schemaVersion":2,"manifests":[]}"#, None);
        assert_eq!(empty.unwrap_err().to_string(), "index.json: it has no image");
    }
}
