//! THIRD-PARTY.txt: which libraries the binaries contain, and the texts of their licences.
//!
//! Most licences ask that their text goes with the binary. Equal texts stand there once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::sbom::{expression, libraries};

/// Folders of a library in which licences are, besides its own.
const FOLDERS: [&str; 4] = ["", "LICENSES", "licenses", "libbpf"];
/// How names of files with licences begin.
const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

const RULE: &str =
    "--------------------------------------------------------------------------------\n";

/// What programs that are linked statically contain besides, by the packages of Debian that have their licences.
const LINKED: [&str; 4] = ["libc6-dev", "libelf-dev", "libgcc-s1", "zlib1g-dev"];

/// The licences of the system's libraries that are in programs which are linked statically.
pub(super) fn linked() -> Result<String> {
    let mut texts = String::from("\nThe programs also contain libraries of the system:\n");
    for package in LINKED {
        let file = Path::new("/usr/share/doc").join(package).join("copyright");
        let text = fs::read_to_string(&file)
            .with_context(|| format!("{file:?}: the licence of what is linked in is not there"))?;
        texts += &format!("\n{RULE}{package}\n{RULE}\n{}\n", text.trim());
    }
    Ok(texts)
}

/// The whole text.
pub(super) fn text(metadata: &Value) -> Result<String> {
    let mut list = String::from(
        "The programs contain these libraries, each under its own licence. Below the list are the texts.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in libraries(metadata)? {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} {}", field("name"), field("version"));
        list += &format!("  {name}: {}\n", expression(package));
        let folder = Path::new(field("manifest_path")).parent().unwrap_or(Path::new(""));
        for file in licences(folder) {
            let text = fs::read(&file).with_context(|| format!("read {file:?}"))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "");
            texts.entry(text.trim().to_owned()).or_default().push(name.clone());
        }
    }
    let mut sections: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, names)| (names, text)).collect();
    sections.sort();
    for (mut names, text) in sections {
        names.dedup();
        list += &format!("\n{RULE}{}\n{RULE}\n{text}\n", names.join(", "));
    }
    Ok(list)
}

/// The files of a library that have licences, in order.
fn licences(folder: &Path) -> Vec<PathBuf> {
    let mut files = vec![];
    for below in FOLDERS {
        // Few have all of these folders.
        let Ok(entries) = fs::read_dir(folder.join(below)) else { continue };
        files.extend(entries.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin))
        }));
    }
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn libraries_of_the_binaries_are_named_with_their_licences() {
        let text = text(&workspace::metadata().unwrap()).unwrap();
        assert!(text.contains("  libbpf-sys "), "{text}");
        assert!(text.contains("Permission is hereby granted, free of charge"), "{text}");
        assert!(!text.contains("  netloom-") && !text.contains("  proptest "), "{text}");
    }
}
