//! What the binaries are made of, as CycloneDX 1.5: libraries of Cargo.lock with versions, licences, sums and who uses whom.
//!
//! Only what is linked for this platform counts: not what builds or tests them. See the specification at cyclonedx.org.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::workspace;

/// The packages of the workspace whose binaries are shipped.
const SHIPPED: [&str; 3] = ["netloom", "netloom-bench", "netloom-vdeplug"];

/// The whole document.
pub(super) fn text(metadata: &Value, version: &str, moment: u64) -> Result<String> {
    let lock = workspace::root().join("Cargo.lock");
    let sums = sums(&fs::read_to_string(&lock).with_context(|| format!("read {lock:?}"))?);
    let graph = graph(metadata)?;
    let libraries = libraries(metadata)?;
    let names: BTreeMap<&str, String> =
        libraries.iter().filter_map(|one| Some((one["id"].as_str()?, url(one)))).collect();
    let own = format!("pkg:generic/netloom@{version}");
    let mut uses = vec![json!({"ref": own, "dependsOn": names.values().collect::<Vec<_>>()})];
    for (id, name) in &names {
        let below = graph.get(id).into_iter().flatten();
        let below: BTreeSet<_> = below.filter_map(|id| names.get(id)).collect();
        uses.push(json!({"ref": name, "dependsOn": below}));
    }
    let value = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp(moment)?,
            "component": {
                "type": "application", "bom-ref": own, "name": "netloom", "version": version, "purl": own,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
            },
        },
        "components": libraries.iter().map(|one| component(one, &sums)).collect::<Vec<_>>(),
        "dependencies": uses,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn component(package: &Value, sums: &BTreeMap<(String, String), String>) -> Value {
    let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
    let mut component = json!({
        "type": "library", "bom-ref": url(package), "name": field("name"), "version": field("version"),
        "purl": url(package), "licenses": [{"expression": expression(package)}],
    });
    if let Some(sum) = sums.get(&(field("name"), field("version"))) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    component
}

/// A library's package URL. A `+` of its version is a blank in some readers.
fn url(package: &Value) -> String {
    let field = |name: &str| package[name].as_str().unwrap_or_default();
    format!("pkg:cargo/{}@{}", field("name"), field("version").replace('+', "%2B"))
}

/// A package's licence as SPDX writes it; the old style `A/B` means `A OR B`.
pub(super) fn expression(package: &Value) -> String {
    let text = package["license"].as_str().unwrap_or("NOASSERTION");
    text.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Libraries of others that are linked into what is shipped, by name and version.
pub(super) fn libraries(metadata: &Value) -> Result<Vec<&Value>> {
    let graph = graph(metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata: no packages")?;
    let shipped = |package: &&Value| {
        package["source"].is_null() && SHIPPED.iter().any(|name| package["name"] == *name)
    };
    let mut open: Vec<&str> =
        packages.iter().filter(shipped).filter_map(|package| package["id"].as_str()).collect();
    if open.len() != SHIPPED.len() {
        bail!("cargo metadata: has not all of {SHIPPED:?}");
    }
    let mut linked = BTreeSet::new();
    while let Some(id) = open.pop() {
        if linked.insert(id) {
            open.extend(graph.get(id).into_iter().flatten());
        }
    }
    let mut found: Vec<&Value> = packages
        .iter()
        .filter(|one| one["source"].is_string())
        .filter(|one| one["id"].as_str().is_some_and(|id| linked.contains(id)))
        .collect();
    let key = |one: &&Value| (one["name"].to_string(), one["version"].to_string());
    found.sort_by_key(key);
    Ok(found)
}

/// Which packages each is linked with on this platform.
fn graph(metadata: &Value) -> Result<BTreeMap<&str, Vec<&str>>> {
    let there = here()?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata: no graph")?;
    let mut graph = BTreeMap::new();
    for node in nodes {
        let of = node["deps"].as_array().into_iter().flatten();
        let linked = of.filter_map(|dependency| {
            let id = dependency["pkg"].as_str()?;
            let kinds = dependency["dep_kinds"].as_array()?;
            // A normal dependency has no kind. Macros are programs of the compiler, but what they write is linked.
            kinds.iter().any(|kind| kind["kind"].is_null()).then_some(id)
        });
        let linked = linked.filter(|id| there.contains(*id)).collect();
        graph.insert(node["id"].as_str().context("cargo metadata: a node without id")?, linked);
    }
    Ok(graph)
}

/// The packages that this platform has at all.
fn here() -> Result<BTreeSet<String>> {
    let said = workspace::output(Command::new("rustc").arg("-vV"))?;
    let said = String::from_utf8(said).context("read rustc -vV")?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV: names no host")?;
    let arguments = ["metadata", "--format-version", "1", "--filter-platform", host];
    let text = workspace::output(&mut workspace::cargo(&arguments))?;
    let metadata: Value = serde_json::from_slice(&text).context("read cargo metadata")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata: no graph")?;
    Ok(nodes.iter().filter_map(|node| Some(node["id"].as_str()?.to_owned())).collect())
}

/// SHA-256 of each library's archive, from the lock file.
fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut sums = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")));
            line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) =
            (field("name"), field("version"), field("checksum"))
        {
            sums.insert((name, version), sum);
        }
    }
    sums
}

fn timestamp(moment: u64) -> Result<String> {
    let mut date = Command::new("date");
    date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", &format!("--date=@{moment}")]);
    Ok(String::from_utf8(workspace::output(&mut date)?).context("read the date")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_has_a_sum_a_licence_and_a_place_in_the_graph() {
        let text = text(&workspace::metadata().unwrap(), "1.2.3", 0).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["metadata"]["timestamp"], "1970-01-01T00:00:00Z");
        let components = value["components"].as_array().unwrap();
        let has = |name: &str| components.iter().any(|one| one["name"] == name);
        assert!(has("serde") && has("libbpf-sys") && has("libc"));
        assert!(!has("proptest") && !has("windows-sys") && !has("netloom-lab"));
        for one in components {
            assert_eq!(one["hashes"][0]["content"].as_str().map(str::len), Some(64), "{one}");
            assert_ne!(one["licenses"][0]["expression"], "NOASSERTION", "{one}");
        }
        let refs: BTreeSet<&str> =
            components.iter().filter_map(|one| one["bom-ref"].as_str()).collect();
        assert_eq!(refs.len(), components.len());
        let uses = value["dependencies"].as_array().unwrap();
        assert_eq!(uses.len(), components.len() + 1);
        let named = uses.iter().filter_map(|one| one["dependsOn"].as_array()).flatten();
        assert!(named.filter_map(Value::as_str).all(|name| refs.contains(name)));
    }
}
