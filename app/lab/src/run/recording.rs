//! The recorder that the lab file asks for: it runs while the lab is up.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use netloom_model::lab::Record;
use netloom_record::Folder as Recording;
use netloom_sys::{describe, process};

use crate::run::running::Running;
use crate::stage::recorder;

/// The file's bounds are those of recordings.
const _: () = assert!(Record::LEAST == netloom_record::LEAST_KEEP);

/// Begins each reason why a lab is not recorded.
pub const UNRECORDED: &str = "recording: ";

impl Running {
    /// Makes the recorder run that the plan asks for; `before` is what an earlier plan asked for. A recorder that runs goes on,
    /// unless its bound has changed. Returns why the lab is not recorded as it should be. The caller does not hold the work lock, which
    /// the recorder's questions need.
    pub(crate) fn follow_recording(&self, before: Option<Record>) -> Option<String> {
        let _one = self.recording.lock();
        let wanted = self.state().plan.record;
        if wanted.is_none() && before.is_none() {
            return None;
        }
        self.record(wanted, before).err().map(|reason| format!("{UNRECORDED}{reason}"))
    }

    fn record(&self, wanted: Option<Record>, before: Option<Record>) -> Result<(), String> {
        let root = self.records.as_deref().ok_or("there is no HOME to keep it in")?;
        let running = self.recorder()?;
        if let Some((recording, keep, process)) = running {
            let is_changed = before.is_some() && before != wanted;
            if !is_changed || wanted.is_some_and(|wanted| wanted.keep == keep) {
                return Ok(());
            }
            recorder::end(&recording, &process)?;
        }
        let Some(wanted) = wanted else { return Ok(()) };
        let inside = self.state().user.then_some(root);
        recorder::start(&self.folder, wanted.keep, inside).map(drop)
    }

    /// Ends the recorder of a lab that is gone: the next lab of this name has its own.
    pub(crate) fn end_recording(&self) {
        if self.state().plan.record.is_none() {
            return;
        }
        let ended = self.recorder().and_then(|running| match running {
            Some((recording, _, process)) => recorder::end(&recording, &process),
            None => Ok(()),
        });
        if let Err(reason) = ended {
            netloom_sys::journal::line(format_args!("netloom: {reason}"));
        }
    }

    /// The inodes of the recorder's sockets: it closes those in a node when that ends.
    pub(crate) fn sockets_of_recorder(&self) -> BTreeSet<u32> {
        let Ok(Some((_, _, recorder))) = self.recorder() else { return BTreeSet::new() };
        let Ok(pid) = process::pid_of(recorder.as_fd()) else { return BTreeSet::new() };
        let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
        let inode = |entry: std::fs::DirEntry| {
            let to = std::fs::read_link(entry.path()).ok()?;
            to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        };
        open.into_iter().flatten().flatten().filter_map(inode).collect()
    }

    /// The recorder of this lab that runs, also one that was started by hand, with its bound.
    fn recorder(&self) -> Result<Option<(Recording, u64, std::os::fd::OwnedFd)>, String> {
        let Some(root) = &self.records else { return Ok(None) };
        let recording = match Recording::open(root, self.folder.name()) {
            Err(netloom_record::Error::None { .. }) => return Ok(None),
            opened => opened.map_err(|e| describe(&e))?,
        };
        let told = recording.told().status;
        if told.runtime != self.folder.path() {
            return Ok(None);
        }
        let found = recorder::find(&recording)?;
        Ok(found.map(|(_, process)| (recording, told.keep, process)))
    }
}
