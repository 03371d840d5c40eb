//! Which lab a verb is about, and the connection to it.

use anyhow::{Context, Result};
use netloom_api::Client;
use netloom_lab::view::{LabState, LabSummary};
use netloom_lab::{Folder, listing, runtime_dir};

use crate::Usage;

/// The folder of the lab named, or of the only one.
pub(crate) fn chosen(name: Option<&str>) -> Result<Folder> {
    let runtime = runtime_dir();
    if let Some(name) = name {
        if let Some(problem) = netloom_model::lab_name_problem(name) {
            return Err(Usage(problem).into());
        }
        let folder = Folder::new(&runtime, name);
        if folder.exists() {
            return Ok(folder);
        }
        return Err(netloom_lab::Error::NoLab(name.to_owned()).into());
    }
    let all = Folder::all(&runtime);
    match all.as_slice() {
        [] => Err(anyhow::anyhow!("no lab is running; bring one up with `netloom up FILE`")),
        [one] => Ok(one.clone()),
        many => {
            let names: Vec<&str> = many.iter().map(Folder::name).collect();
            let list = names.join(", ");
            Err(Usage(format!("several labs run ({list}); name one with -l LAB")).into())
        }
    }
}

/// Whether there is any lab of this user, or a node's view of one.
pub(crate) fn any() -> bool {
    !Folder::all(&runtime_dir()).is_empty()
}

/// A connection to the lab named, or to the only one.
pub(crate) fn connect(name: Option<&str>) -> Result<Client> {
    let folder = chosen(name)?;
    connect_to(&folder)
}

/// A connection to the lab of a folder.
pub(crate) fn connect_to(folder: &Folder) -> Result<Client> {
    let name = folder.name();
    match Client::connect(&folder.path()) {
        Err(netloom_api::Error::NotRunning(_)) if folder.is_scope() => Err(anyhow::anyhow!(
            "node {name:?}: the process of its lab has ended, so the nodes in it cannot be managed"
        )),
        Err(netloom_api::Error::NotRunning(_)) => {
            let state = summary(name)?.map(|s| s.state);
            let word = match state {
                Some(LabState::Starting) => "is being made or taken down just now",
                Some(LabState::Orphaned) => {
                    "its process was killed; its nodes go on: `netloom up` of its file adopts \
                     them, `netloom down` removes them"
                }
                _ => "was cut off while it was made; `netloom down` removes what is left",
            };
            Err(anyhow::anyhow!("lab {name:?}: {word}"))
        }
        other => other.with_context(|| format!("lab {name:?}")),
    }
}

/// All labs of this user. Inside a node there are views of the lab that it lives in: each is
/// listed by the node's name, with the nodes in it.
pub(crate) fn summaries() -> Result<Vec<LabSummary>> {
    let runtime = runtime_dir();
    let (scopes, labs): (Vec<Folder>, Vec<Folder>) =
        Folder::all(&runtime).into_iter().partition(Folder::is_scope);
    let mut all = if labs.is_empty() { vec![] } else { listing::labs(&runtime)? };
    all.retain(|lab| !scopes.iter().any(|scope| scope.name() == lab.name));
    all.extend(scopes.iter().map(scope_summary));
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn scope_summary(scope: &Folder) -> LabSummary {
    let status = Client::connect(&scope.path()).and_then(|client| client.status()).ok();
    let counted = status.as_ref();
    LabSummary {
        name: scope.name().to_owned(),
        // Without an answer its nodes live on, as those of an orphaned lab do.
        state: counted.map_or(LabState::Orphaned, |s| s.state),
        nodes: counted.map_or(0, |s| s.nodes.len()),
        links: counted.map_or(0, |s| s.links.len()),
        // Its process is not one that could be seen from inside.
        pid: None,
        since: counted.map_or(0, |s| s.since),
    }
}

/// The summary of one lab.
fn summary(name: &str) -> Result<Option<LabSummary>> {
    Ok(listing::labs(&runtime_dir())?.into_iter().find(|s| s.name == name))
}
