//! What a later process has to know of a switch: a file of it, and how one goes on with what it says.
//!
//! What changes is in the file before the switch hears of it, so a slicer that is killed has told the switch nothing that
//! the next one does not know. If the file is not true of the switch, or cannot be read, the switch is emptied, and the log
//! says why.

use std::path::Path;
use std::sync::Arc;

use netloom_ofconn::Time;
use netloom_ofconn::record_file::RecordFile;
use netloom_slicing::{Error, Found, Key, Memory, Out, Resumed, VirtualSwitches};
use netloom_sys::{Failure, journal};

use crate::application::{Policy, SwitchPolicy};
use crate::greeting::Told;

/// The file in failures.
const OBJECT: &str = "slicer: memory of a switch";

/// The file of a switch, in a folder.
pub(crate) fn file(folder: &Path, datapath: u64) -> RecordFile {
    RecordFile::new(&folder.join(format!("memory-{datapath:016x}")), OBJECT)
}

/// A switch, begun.
pub(crate) struct Begun {
    pub(crate) core: VirtualSwitches,
    pub(crate) out: Vec<Out>,
    /// Which of the policy's slices its slices are.
    pub(crate) places: Vec<usize>,
    /// What became of what was remembered; none if nothing was, or it was of no use.
    pub(crate) resumed: Option<Resumed>,
}

/// Goes on with what was remembered, or begins anew.
///
/// # Errors
/// In words: the slices cannot be had on the switch.
pub(crate) fn begin(
    policy: &Policy,
    switch: &SwitchPolicy,
    told: &Told,
    key: &Key,
    now: Time,
    file: Option<&RecordFile>,
) -> Result<Begun, String> {
    let wrong = |e: Error| format!("switch {:?}: {e}", switch.name);
    match (told.found.as_ref(), file.map(remembered)) {
        (Some(Ok(found)), Some(Ok(Some(memory)))) => {
            match resume(policy, switch, told, key, now, &memory, found) {
                Ok(begun) => return Ok(begun),
                Err(why) => distrusted(switch, &why),
            }
        }
        (Some(Err(why)), Some(_)) => distrusted(switch, why),
        (_, Some(Err(why))) => distrusted(switch, &why),
        _ => {}
    }
    let (slicing, places) = policy.slicing(switch, key, None)?;
    let Told { version, features, ports, .. } = told;
    let begun = VirtualSwitches::new(Arc::new(slicing), *version, features, ports, now);
    let (core, out) = begun.map_err(wrong)?;
    Ok(Begun { core, out, places, resumed: None })
}

fn resume(
    policy: &Policy,
    switch: &SwitchPolicy,
    told: &Told,
    key: &Key,
    now: Time,
    memory: &Memory,
    found: &Found,
) -> Result<Begun, String> {
    let (slicing, places) = policy.slicing(switch, key, Some(memory))?;
    let Told { version, features, ports, .. } = told;
    let slicing = Arc::new(slicing);
    let begun = VirtualSwitches::resume(slicing, *version, features, ports, now, memory, found);
    let (core, out, resumed) = begun.map_err(|e| e.to_string())?;
    Ok(Begun { core, out, places, resumed: Some(resumed) })
}

/// What the file says; `None` if there is none.
fn remembered(file: &RecordFile) -> Result<Option<Memory>, String> {
    let bytes = file.read().map_err(|e| e.to_string())?;
    bytes.map_or(Ok(None), |bytes| Memory::read(&bytes))
}

fn distrusted(switch: &SwitchPolicy, why: &str) {
    let name = &switch.name;
    journal::line(format_args!("netloom-slice: switch {name:?} is emptied: {why}"));
}

/// Writes the file anew.
pub(crate) fn rewrite(file: &mut RecordFile, core: &VirtualSwitches) -> Result<(), Failure> {
    write(file, core.remembered())
}

/// Puts this into the file, alone.
pub(crate) fn write(file: &mut RecordFile, bytes: Vec<u8>) -> Result<(), Failure> {
    let mut whole = Some(bytes);
    file.rewrite(|to| whole.take().map(|bytes| to.extend(bytes)).is_some())
}
