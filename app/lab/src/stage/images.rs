//! The images of a lab's nodes: brought before anything is made, pinned while the lab lives, and what they give to nodes.
//!
//! What an image says is put into the plan: its program and environment, where the lab names none. The state keeps the
//! folders of its layers, so that a node can be recreated whatever happens to names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netloom_container::pins::{self, Pin};
use netloom_container::{Options, Owners, Pull, Record, Store, provide, unpack};
use netloom_model::Plan;
use netloom_model::image::{ImageUse, PullWhen};
use netloom_model::lab::{Program, Restart};
use netloom_model::plan::{PlannedNode, Slot};
use netloom_model::signal::StopSignal;
use netloom_model::users::Ids;
use netloom_oci::Source;
use netloom_oci::manifest::Settings;
use netloom_sys::subordinate::Given;

use crate::events::Event;
use crate::stage::users;
use crate::store::image::Used;
use crate::store::state::{Folder, State};
use crate::{Error, Result, Subject};

/// The images that are here for a lab.
pub(crate) struct Brought {
    store: Store,
    records: BTreeMap<String, (Source, Record)>,
}

/// Fetches and unpacks what a plan's nodes need; `None` if they need nothing. The process must have one thread.
pub(crate) fn bring(
    plan: &Plan,
    user: bool,
    tell: &mut dyn FnMut(&Event),
) -> Result<Option<Brought>> {
    let mut wanted: BTreeMap<String, PullWhen> = BTreeMap::new();
    for image in plan.nodes.iter().filter_map(|node| node.image.as_ref()) {
        let when = wanted.entry(image.name.clone()).or_insert(image.pull);
        // One that is to be fetched is, whatever others say.
        if image.pull == PullWhen::Always || *when == PullWhen::Never {
            *when = image.pull;
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    let store = Store::open(&Store::folder()?)?;
    let many = users::wants_many(plan) && Given::find().is_ok();
    let owners = owners(user, many);
    let mut records = BTreeMap::new();
    for (name, when) in &wanted {
        let source: Source = name.parse().map_err(netloom_container::Error::from)?;
        match get(&store, &source, (*when, owners), tell) {
            Ok(record) => drop(records.insert(name.clone(), (source, record))),
            Err(Error::Image(source)) => return Err(not_here(&store, &wanted, name, source)),
            Err(other) => return Err(other),
        }
    }
    Ok(Some(Brought { store, records }))
}

/// The failure to bring an image, with the others of the lab that are not here either.
fn not_here(
    store: &Store,
    wanted: &BTreeMap<String, PullWhen>,
    failed: &str,
    error: netloom_container::Error,
) -> Error {
    use netloom_container::Error as E;
    if !matches!(
        error,
        E::Missing { .. } | E::Registry { .. } | E::NotFound { .. } | E::Denied { .. }
    ) {
        return Error::Image(error);
    }
    let is_here = |name: &str| {
        name.parse::<Source>().is_ok_and(|source| store.record(&source.to_string()).is_some())
    };
    let others = wanted.keys().filter(|name| *name != failed && !is_here(name));
    let others: Vec<String> = others.map(|name| format!("{name:?}")).collect();
    let also = match others.as_slice() {
        [] => String::new(),
        others => format!("; not here either: {}", others.join(", ")),
    };
    Error::NoImage { first: netloom_sys::describe(&error), also }
}

/// Whose the files are in a lab of root, or of an ordinary user with one id or many.
fn owners(user: bool, many: bool) -> Owners {
    match (user, many) {
        (false, _) => Owners::Root,
        (true, true) => Owners::Many,
        (true, false) => Owners::One,
    }
}

fn get(
    store: &Store,
    source: &Source,
    (when, owners): (PullWhen, Owners),
    tell: &mut dyn FnMut(&Event),
) -> Result<Record> {
    let pull = match when {
        PullWhen::Missing => Pull::Missing,
        PullWhen::Always => Pull::Always,
        PullWhen::Never => Pull::Never,
    };
    let options = Options::with(owners, pull);
    Ok(provide(store, source, &options, &mut |progress| {
        let (done, total) = progress.fetched;
        let mib = |bytes: u64| usize::try_from(bytes >> 20).unwrap_or(usize::MAX);
        let (layers, of) = progress.layers;
        let what = format!("image {}, {layers} of {of} layers, MiB", progress.image);
        tell(&Event::Progress { what, done: mib(done), total: mib(total) });
    })?)
}

impl Brought {
    /// Pins the images for a lab whose folder is there, and returns what it uses. They are unpacked once more if the lab
    /// has other users than was foreseen. The store is to be held until the lab's state is written.
    pub(crate) fn settle(
        &self,
        folder: &Folder,
        (user, many): (bool, bool),
        tell: &mut dyn FnMut(&Event),
    ) -> Result<(BTreeMap<String, Used>, pins::Hold)> {
        let hold = pins::hold(&self.store)?;
        let owners = owners(user, many);
        let mut used = BTreeMap::new();
        for (name, (source, record)) in &self.records {
            let record =
                match record.layers.iter().all(|l| unpack::is_there(&self.store, l, owners)) {
                    true => record.clone(),
                    false => get(&self.store, source, (PullWhen::Missing, owners), tell)?,
                };
            let layers = unpack::trees(&self.store, &record.layers, owners)?;
            let (digest, settings) = (record.digest.to_string(), record.settings.clone());
            used.insert(name.clone(), Used { digest, layers, settings });
        }
        let images = self.records.values().map(|(_, record)| record.clone()).collect();
        let (lab, folder) = (folder.name().to_owned(), folder.path());
        pins::pin(&self.store, &Pin { lab, folder, images })?;
        Ok((used, hold))
    }
}

/// Forgets that a lab uses images.
pub(crate) fn release(state: Option<&State>, folder: &Folder) {
    let Ok(path) = Store::folder() else { return };
    if state.map_or(!path.exists(), |state| state.images.is_empty()) {
        return;
    }
    // The process that removes images looks whether the lab is there.
    if let Ok(store) = Store::open(&path) {
        pins::release(&store, &folder.path());
    }
}

/// The node whose image a node has: itself or the nearest around it, unless one between has a root of its own.
fn holder(plan: &Plan, slot: Slot) -> Option<&PlannedNode> {
    // Parents come before their children.
    let around = |at: &Slot| plan.node_at(*at)?.parent.filter(|parent| parent < at);
    let up = std::iter::successors(Some(slot), around);
    let own = up.filter_map(|at| plan.node_at(at)).find(|n| n.root.is_some() || n.image.is_some());
    own.filter(|node| node.image.is_some())
}

/// The layers of a node's image, the lowest first; none if it has no image.
///
/// # Errors
/// The state does not know the image.
pub(crate) fn layers(state: &State, slot: Slot) -> Result<Vec<PathBuf>> {
    let Some(node) = holder(&state.plan, slot) else { return Ok(vec![]) };
    let name = node.image.as_ref().map_or("", |image| &image.name);
    let used = state.images.get(name).ok_or_else(|| Error::Invalid {
        object: Subject::of("node", &node.name).part(format_args!("image {name:?}")),
        reason: "is not among the lab's".to_owned(),
    })?;
    Ok(used.layers.clone())
}

/// Puts what the images say into the plan of a state.
pub(crate) fn dress(state: &State, plan: &mut Plan) {
    for slot in plan.slots() {
        let Some(name) =
            holder(plan, slot).and_then(|node| Some(node.image.as_ref()?.name.clone()))
        else {
            continue;
        };
        let Some(used) = state.images.get(&name) else { continue };
        let node = &mut plan.nodes[slot];
        let mut env: BTreeMap<String, String> = used.settings.environment().into_iter().collect();
        env.extend(node.env.drain(..));
        node.env = env.into_iter().collect();
        if let Some(image) = node.image.clone() {
            let changes = users::of(state, node) != Ids::One;
            give_programs(node, &image, &used.settings, changes);
        }
    }
}

/// The image's program if the lab names none, and the image's user and directory for those that it names.
fn give_programs(node: &mut PlannedNode, image: &ImageUse, settings: &Settings, changes: bool) {
    if image.starts {
        let command = command(image, settings);
        let stop_signal = StopSignal::of_text(&settings.stop_signal).unwrap_or_default();
        let program = Program { restart: Restart::Never, stop_signal, ..Program::once(command) };
        node.run = if program.command.is_empty() { vec![] } else { vec![program] };
    }
    let (user, group) = if changes { settings.who() } else { (None, None) };
    for program in &mut node.run {
        if program.user.is_none() && program.group.is_none() {
            program.user = user.map(str::to_owned);
            program.group = group.map(str::to_owned);
        }
        if program.workdir.is_none() && settings.working_dir.starts_with('/') {
            program.workdir = Some(settings.working_dir.clone());
            program.makes_workdir = true;
        }
    }
}

/// Entrypoint and arguments; an entrypoint of the lab takes the image's arguments away.
fn command(image: &ImageUse, settings: &Settings) -> Vec<String> {
    let arguments = match (&image.cmd, &image.entrypoint) {
        (Some(cmd), _) => cmd.clone(),
        (None, Some(_)) => vec![],
        (None, None) => settings.cmd.clone(),
    };
    let entrypoint = image.entrypoint.as_ref().unwrap_or(&settings.entrypoint);
    entrypoint.iter().cloned().chain(arguments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_image_s_program_is_as_containers_start_it() {
        let settings = Settings {
            entrypoint: words(&["/entry"]),
            cmd: words(&["serve"]),
            ..Settings::default()
        };
        let with = |entrypoint: Option<&[&str]>, cmd: Option<&[&str]>| {
            let image = ImageUse {
                entrypoint: entrypoint.map(words),
                cmd: cmd.map(words),
                ..ImageUse::default()
            };
            command(&image, &settings).join(" ")
        };
        assert_eq!(with(None, None), "/entry serve");
        assert_eq!(with(None, Some(&["x"])), "/entry x");
        assert_eq!(with(Some(&["sh"]), None), "sh");
        assert_eq!(with(Some(&["sh"]), Some(&["-c", "x"])), "sh -c x");
        assert_eq!(with(Some(&[]), Some(&["x"])), "x");
    }

    #[test]
    fn user_and_directory_are_the_image_s_where_the_lab_names_none() {
        let settings = Settings {
            user: "web:www".to_owned(),
            working_dir: "/srv".to_owned(),
            stop_signal: "SIGQUIT".to_owned(),
            cmd: words(&["serve"]),
            ..Settings::default()
        };
        let plan = netloom_model::plan::plan(
            &netloom_model::parse(
                "f",
                b"nodes: {a: {image: x, run: [[b], {command: [c], user: d}]}}",
                "f",
            )
            .unwrap(),
        );
        let mut node = plan.unwrap().nodes[0].clone();
        let mut image = node.image.clone().unwrap();
        give_programs(&mut node, &image, &settings, true);
        let who = |node: &PlannedNode, at: usize| {
            (node.run[at].user.clone(), node.run[at].group.clone(), node.run[at].workdir.clone())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(who(&node, 0), (text("web"), text("www"), text("/srv")));
        assert_eq!(who(&node, 1), (text("d"), None, text("/srv")));
        image.starts = true;
        give_programs(&mut node, &image, &settings, false);
        assert_eq!(who(&node, 0), (None, None, text("/srv")));
        assert_eq!((node.run.len(), node.run[0].stop_signal), (1, StopSignal::Quit));
    }
}
