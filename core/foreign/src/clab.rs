//! containerlab's topology files (`schemas/clab.schema.json` in its repository).
//!
//! A file may be a template (`.gotmpl`, module `template`), and has variables (module `variables`). Properties of a node
//! come from itself, its group, its kind and the defaults, in this order (module `layers`).

mod binds;
mod env_file;
mod frr_kind;
mod layers;
mod links;
mod magic;
mod management;
mod node;
mod properties;
mod template;
mod template_functions;
mod template_parse;
mod template_run;
mod variables;

use std::collections::HashMap;

use crate::at::At;
use crate::clab::layers::Layers;
use crate::clab::management::Network;
use crate::draft::{Draft, Switch};
use crate::{Error, Job, NOT_CHOSEN, Result, lab_name, source, wrong};

/// The MTU of links that do not give one.
const MTU: u32 = 9500;

/// Reads a topology.
pub(crate) fn read(job: &Job<'_>, content: &[u8]) -> Result<Draft> {
    let not_text = || Error::Unreadable { file: job.file.to_owned(), problem: "not UTF-8 text" };
    let text = std::str::from_utf8(content).map_err(|_| not_text())?;
    // Any topology may be a template, whatever it is called.
    let rendered = match job.file.ends_with(".gotmpl") || text.contains("{{") {
        true => rendered(job, text)?,
        false => text.to_owned(),
    };
    // Templates first, then variables: a template may write `${NAME}`.
    let expanded = variables::expand(job, &rendered)?;
    let tree = job.tree(job.file, expanded.as_bytes())?;
    let root = At::root(job.file, &tree, job.ledger);
    let Some(topology) = root.get("topology") else {
        return Err(wrong(job.file, 1, "no `topology`: not a lab of containerlab"));
    };
    // Before anything is read: a lab with half of its parts would look like a good import.
    check(job, &root)?;
    let mut draft = Draft::default();
    head(&root, &mut draft);
    let mut lab = Lab::default();
    let layers = Layers::new(&topology);
    job.check_choice(&layers.nodes().iter().map(|(name, _)| *name).collect::<Vec<_>>())?;
    let network = Network::new(job.options.management, root.get("mgmt"));
    nodes(job, &layers, &network, &mut lab, &mut draft);
    links::read(job, &topology, &lab, &network, &mut draft)?;
    // Last: only now is known whether a node or a link needs the network.
    network.finish(&mut draft);
    layers.finish();
    Ok(draft)
}

/// What the format does not allow where much would be missing without a word.
fn check(job: &Job<'_>, root: &At<'_>) -> Result<()> {
    for (key, at) in root.entries() {
        if ["nodes", "links", "kinds", "groups", "defaults"].contains(&key) {
            let why = format!("`{key}` stands in `topology`, two columns further right");
            return Err(wrong(job.file, at.place.line, why));
        }
        if ["mgmt", "topology"].contains(&key) && at.node.entries().is_none() && !at.is_empty() {
            let why = format!("`{key}` is a map, such as {{network: NAME}}");
            let why = if key == "mgmt" { why } else { "`topology` is a map".to_owned() };
            return Err(wrong(job.file, at.place.line, why));
        }
    }
    for (key, at) in root.get("topology").iter().flat_map(At::entries) {
        let (is_one, what) = match key {
            "nodes" | "kinds" | "groups" | "defaults" => (at.node.entries().is_some(), "map"),
            "links" => (at.node.items().is_some(), "list"),
            _ => continue,
        };
        if !is_one && !at.is_empty() {
            return Err(wrong(job.file, at.place.line, format!("`{key}` is a {what}")));
        }
    }
    Ok(())
}

/// The text that a template makes.
fn rendered(job: &Job<'_>, text: &str) -> Result<String> {
    let stem = job.file.strip_suffix(".gotmpl").unwrap_or(job.file);
    let stem = stem.trim_end_matches(".yml").trim_end_matches(".yaml");
    // containerlab looks for NAME_vars beside the template, in these three forms.
    let names = [".yml", ".yaml", ".json"].map(|end| format!("{stem}_vars{end}"));
    let found = names.iter().find(|name| job.files.look(name).is_some());
    let vars = match &found {
        Some(name) => {
            let content = source::needed(job.files, name)?;
            job.ledger.say(
                job.ledger.enter(name, 0, "variables of the template"),
                crate::Verdict::Changed("their values at the import".into()),
            );
            template::Value::from(&job.tree(name, &content)?)
        }
        None => template::Value::Map(std::collections::BTreeMap::new()),
    };
    template_run::render(job.file, text, vars)
}

/// Facts about the nodes while links are read.
#[derive(Default)]
struct Lab {
    /// The draft's names by containerlab's.
    names: HashMap<String, Place>,
}

/// What a node of containerlab is in the lab file.
#[derive(Clone)]
enum Place {
    Node(String),
    Switch(String),
    /// Left out, with the reason.
    Nothing(&'static str),
}

fn head(root: &At<'_>, draft: &mut Draft) {
    if let Some(name) = root.get("name") {
        let text = name.text().unwrap_or_default();
        draft.name = lab_name(text);
        match draft.name == text {
            true => name.carried(),
            false => name.changed(format!("the lab is called {}", draft.name)),
        }
    }
    for (key, why) in [
        ("prefix", "nodes are known by their names alone"),
        ("debug", "netloom has no such setting"),
        ("settings", "certificates are not made"),
    ] {
        if let Some(at) = root.get(key) {
            match key {
                "prefix" => at.changed(why),
                _ => at.left_out(why),
            }
        }
    }
}

fn nodes(
    job: &Job<'_>,
    layers: &Layers<'_>,
    network: &Network<'_>,
    lab: &mut Lab,
    draft: &mut Draft,
) {
    for (name, at) in layers.nodes() {
        let place = match node::name(name, draft) {
            _ if !job.wants(name) => {
                at.left_out(NOT_CHOSEN);
                Place::Nothing(NOT_CHOSEN)
            }
            Some(new) => node::read(job, layers, network, (name, &new), &at, draft),
            None => {
                at.left_out("no name that a node can have");
                Place::Nothing("its node is left out")
            }
        };
        lab.names.insert(name.to_owned(), place);
    }
}

/// A switch for a bridge of the host.
fn bridge(name: &str, keys: Vec<(&'static str, String)>, draft: &mut Draft) -> Place {
    draft.switches.push(Switch { keys, ..Switch::named(name) });
    Place::Switch(name.to_owned())
}
