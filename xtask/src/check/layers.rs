//! Checks the dependencies between the workspace's crates against `xtask/layers.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace;

/// The lists of `layers.toml` by name.
type Lists = BTreeMap<String, Vec<String>>;

/// A dependency inside the workspace; crates are named by their folders (`core/model`).
struct Edge {
    from: String,
    to: String,
    dev: bool,
}

pub(super) fn check(metadata: &Value) -> Result<Vec<String>> {
    let path = workspace::root().join("xtask/layers.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {path:?}"))?;
    let lists = parse(&text);
    let edges = edges(metadata)?;
    let mut wrong: Vec<String> = folders(metadata)?
        .values()
        .filter(|folder| !free(folder) && rank(folder, &lists).is_none())
        .map(|folder| format!("{folder}: stands in no list of xtask/layers.toml"))
        .collect();
    wrong.extend(edges.iter().filter_map(|edge| judge(edge, &lists)));
    Ok(wrong)
}

/// Parses lines `name = ["a", "b"]`, skipping comments.
fn parse(text: &str) -> Lists {
    let mut lists = Lists::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let Some((name, list)) = line.split_once('=') else { continue };
        let words = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        lists.insert(name.trim().to_owned(), words);
    }
    lists
}

/// Tests and xtask may depend on everything; dependencies on them are judged per edge.
fn free(folder: &str) -> bool {
    folder.starts_with("tests/") || folder == "xtask"
}

/// Position of the layer and of the crate in it.
fn rank(folder: &str, lists: &Lists) -> Option<(usize, usize)> {
    let (layer, name) = folder.split_once('/')?;
    let level = lists.get("layers")?.iter().position(|known| known == layer)?;
    Some((level, lists.get(layer)?.iter().position(|known| known == name)?))
}

fn judge(edge: &Edge, lists: &Lists) -> Option<String> {
    let Edge { from, to, dev } = edge;
    if free(from) || (*dev && to == "tests/kit") {
        return None;
    }
    if free(to) {
        return Some(format!(
            "{from} uses {to}: tests are seen by nobody (kit by dev-dependencies)"
        ));
    }
    let (here, there) = (rank(from, lists)?, rank(to, lists)?);
    let apart = lists
        .get("layers")?
        .get(here.0)
        .is_some_and(|layer| lists.get("apart").is_some_and(|apart| apart.contains(layer)));
    if there.0 > here.0 {
        Some(format!("{from} uses {to}: a layer above it"))
    } else if there.0 == here.0 && apart {
        Some(format!("{from} uses {to}: crates of this layer never use each other"))
    } else if there >= here {
        Some(format!("{from} uses {to}: stands after it in xtask/layers.toml"))
    } else {
        None
    }
}

/// Folder of every package of the workspace, by package name.
fn folders(metadata: &Value) -> Result<BTreeMap<String, String>> {
    let root = metadata["workspace_root"].as_str().context("workspace_root")?;
    let mut folders = BTreeMap::new();
    for package in local_packages(metadata) {
        let manifest = Path::new(package["manifest_path"].as_str().context("manifest_path")?);
        let folder = manifest.parent().and_then(|dir| dir.strip_prefix(root).ok());
        let folder = folder.context("a package outside the workspace")?;
        let name = package["name"].as_str().context("name")?;
        folders.insert(name.to_owned(), folder.to_string_lossy().into_owned());
    }
    Ok(folders)
}

fn local_packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    packages.iter().filter(|package| package["source"].is_null())
}

fn edges(metadata: &Value) -> Result<Vec<Edge>> {
    let folders = folders(metadata)?;
    let mut edges = vec![];
    for package in local_packages(metadata) {
        let from = &folders[package["name"].as_str().context("name")?];
        for dependency in package["dependencies"].as_array().context("dependencies")? {
            let Some(to) = folders.get(dependency["name"].as_str().unwrap_or_default()) else {
                continue;
            };
            let dev = dependency["kind"] == "dev";
            edges.push(Edge { from: from.clone(), to: to.clone(), dev });
        }
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = r#"
        layers = ["core", "host", "parts", "app"]
        apart = ["parts"]
        # a comment = ["x"]
        core = ["config", "model"]
        host = ["sys"]
        parts = ["node", "wire"]
        app = ["lab", "netloom"]
    "#;

    fn verdict(from: &str, to: &str, dev: bool) -> Option<String> {
        judge(&Edge { from: from.into(), to: to.into(), dev }, &parse(LISTS))
    }

    #[test]
    fn downward_and_earlier_edges_are_allowed() {
        for (from, to) in [
            ("core/model", "core/config"),
            ("host/sys", "core/model"),
            ("parts/node", "host/sys"),
            ("app/netloom", "app/lab"),
            ("tests/e2e", "app/lab"),
        ] {
            assert_eq!(verdict(from, to, false), None, "{from} -> {to}");
        }
        assert_eq!(verdict("parts/node", "tests/kit", true), None);
    }

    #[test]
    fn upward_sideways_and_later_edges_are_not() {
        for (from, to) in [
            ("core/model", "host/sys"),
            ("parts/wire", "parts/node"),
            ("core/config", "core/model"),
            ("app/lab", "app/netloom"),
            ("app/lab", "tests/kit"),
            ("app/lab", "xtask"),
        ] {
            assert!(verdict(from, to, false).is_some(), "{from} -> {to}");
        }
    }

    #[test]
    fn a_dev_dependency_is_no_way_round() {
        assert!(verdict("core/model", "host/sys", true).is_some());
    }
}
