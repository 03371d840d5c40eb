//! The recorder that the lab file asks for: it runs while the lab is up.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use netloom_model::lab::Record;
use netloom_record::{Folder as Recording, Missing, Status};
use netloom_sys::{clock, describe, process};

use crate::run::running::Running;
use crate::stage::recorder;
use crate::store::state::State;
use crate::utc;

/// The file's bounds are those of recordings.
const _: () = assert!(Record::LEAST == netloom_record::LEAST_KEEP);

/// Begins each reason why a lab is not recorded.
pub const UNRECORDED: &str = "recording: ";

/// The time that a question is about: the last nanoseconds, or from and until a time; in nanoseconds since 1970 UTC.
pub fn time_of(
    (last_ns, since_ns, until_ns): (Option<u64>, Option<u64>, Option<u64>),
) -> (u64, u64) {
    let now = clock::realtime();
    let begin = since_ns.or(last_ns.map(|last| now.saturating_sub(last))).unwrap_or(0);
    (begin, until_ns.map_or(now, |until| until.min(now)))
}

/// Of which parts of a time a recording has no packets, in words.
pub fn not_recorded(status: &Status, time: (u64, u64), is_running: bool) -> Vec<String> {
    let words = |(from, to, why): (u64, u64, Missing)| {
        let when = match (from == time.0, to == time.1) {
            (true, true) => "in this time".to_owned(),
            (true, false) => format!("before {}", utc(to)),
            (false, true) => format!("from {} on", utc(from)),
            (false, false) => format!("from {} to {}", utc(from), utc(to)),
        };
        match why {
            Missing::NotRecorded => {
                format!("{when} the lab was not recorded: what was sent then is not known")
            }
            Missing::GaveWay => format!("packets of the recording gave way to newer ones {when}"),
        }
    };
    let now = is_running.then(clock::realtime);
    status.missing(time, now).into_iter().map(words).collect()
}

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

    /// What is said of a recorder that the file asks for and that is not there.
    pub(crate) fn lacking_recorder(&self, state: &State) -> Option<String> {
        state.plan.record?;
        // Without a HOME there was none from the beginning, which is told where it would have been started.
        self.records.as_ref()?;
        let running = self.recorder().ok()?;
        running.is_none().then(|| "running, was none".to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_packets_are_told() {
        let status = Status {
            earlier: vec![(2_000_000_000, 3_000_000_000)],
            began_ns: 4_000_000_000,
            told_ns: 5_000_000_000,
            ..Status::default()
        };
        let told = |status: &Status, time| not_recorded(status, time, false);
        let not = "the lab was not recorded: what was sent then is not known";
        assert_eq!(told(&status, (2_500_000_000, 2_600_000_000)), [""; 0]);
        assert_eq!(
            told(&status, (1_000_000_000, 6_000_000_000)),
            [
                format!("before 1970-01-01T00:00:02.000000Z {not}"),
                format!("from 1970-01-01T00:00:03.000000Z to 1970-01-01T00:00:04.000000Z {not}"),
                format!("from 1970-01-01T00:00:05.000000Z on {not}"),
            ]
        );
        assert_eq!(told(&status, (6_000_000_000, 7_000_000_000)), [format!("in this time {not}")]);
        let gone = Status { gone_ns: 4_500_000_000, ..status };
        assert_eq!(
            told(&gone, (1_000_000_000, 5_000_000_000)),
            ["packets of the recording gave way to newer ones before 1970-01-01T00:00:04.500000Z"]
        );
    }
}
