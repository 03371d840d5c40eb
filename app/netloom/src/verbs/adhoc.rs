//! Objects that are made and changed without a file: their settings, and the lab that they are in, a running one or else a
//! new one.

use anyhow::{Context, Result};
use netloom_api::Client;
use netloom_lab::view::Changed;
use netloom_lab::{Folder, runtime_dir};

use crate::flags::Setting;
use crate::{Usage, labs};

/// The lab brought up if none runs.
const DEFAULT_LAB: &str = "default";

/// Refuses settings of an object of which one would hide another.
pub(super) fn each_once(kind: &str, name: &str, settings: &[Setting]) -> Result<()> {
    let earlier = |at: usize| settings.iter().take(at).map(|(key, _)| key);
    let mut twice = settings.iter().enumerate().map(|(at, (key, _))| (at, key));
    match twice.find(|(at, key)| earlier(*at).any(|before| before == *key)) {
        None => Ok(()),
        Some((_, key)) => Err(Usage(format!("{kind} {name:?}: {key:?} is given twice")).into()),
    }
}

/// Makes something in the named lab, or in the only one. If none runs, brings up an empty lab, and takes it
/// down again if it stays empty.
pub(super) fn make(
    lab: Option<&str>,
    make: impl Fn(&Client) -> netloom_api::Result<Changed>,
) -> Result<Changed> {
    if lab.is_some() || labs::any()? {
        return make(&labs::connect(lab)?).map_err(Into::into);
    }
    super::up::up_empty(DEFAULT_LAB)?;
    let folder = Folder::new(&runtime_dir()?, DEFAULT_LAB);
    let client = labs::connect_to(&folder)?;
    let made = make(&client);
    if made.is_err() && is_empty(&client) {
        // It was brought up for this only, and nobody else made anything in the meantime.
        super::down::take_down(&folder).context("take the new lab down again")?;
    }
    Ok(made?)
}

fn is_empty(client: &Client) -> bool {
    labs::counts(client).is_ok_and(|all| all.nodes.all == 0 && all.switches == 0)
}
