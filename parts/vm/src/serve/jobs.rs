//! Saving and restoring a machine of QEMU: jobs, one after the other, for one client at a time.
//!
//! A machine's whole state, with its disk, is a snapshot in the layer that takes what the guest writes (in a disk that no
//! guest sees, where there is none). So it lives as long as that layer. There is one; saving again replaces it.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Machine, Peer};
use crate::qmp;
use crate::storage::{DISK, STATE};

/// Name of the snapshot.
const TAG: &str = "netloom";

/// The work under way.
#[derive(Debug)]
pub(super) struct Work {
    /// Commands that begin jobs, still to be given.
    steps: VecDeque<&'static str>,
    /// The job that runs, by its name.
    job: String,
    /// The command that began it, and the one that asks how it ended.
    begun: u64,
    asked: Option<u64>,
    /// The client that waits, by its role's id.
    client: u64,
}

impl Machine {
    /// Begins to save or restore; returns the id of the client's role, or why it cannot be done.
    pub(super) fn begin_work(&mut self, save: bool) -> Result<u64, &'static str> {
        if self.work.is_some() {
            return Err("it is being saved or restored already");
        }
        if !matches!(self.peer, Peer::Qmp(_)) {
            return Err("a User-mode Linux machine cannot be saved");
        }
        // Its port keeps no log of the memory that it writes.
        if self.has_switch_card {
            return Err(
                "its card is a port of a switch, which QEMU cannot save: leave `vhost-user` out",
            );
        }
        let steps: &[&str] =
            // QEMU refuses to save by a name that is taken.
            if save { &["snapshot-delete", "snapshot-save"] } else { &["snapshot-load"] };
        let steps = steps.iter().copied().collect();
        let mut work = Work { steps, job: String::new(), begun: 0, asked: None, client: 0 };
        match &mut self.peer {
            // QEMU stops the machine even for a state that is not there: it is looked for first.
            Peer::Qmp(talk) if !save => {
                let (id, bytes) = talk.command("query-named-block-nodes");
                work.begun = id;
                self.to_channel.push(bytes);
            }
            _ => drop(self.next_step(&mut work)),
        }
        work.client = work.begun;
        let client = work.client;
        self.work = Some(work);
        Ok(client)
    }

    /// Gives the command of the next step; `false` if there is none.
    fn next_step(&mut self, work: &mut Work) -> bool {
        let disk = self.disk();
        let (Some(step), Peer::Qmp(talk)) = (work.steps.pop_front(), &mut self.peer) else {
            return false;
        };
        self.next_session += 1;
        work.job = format!("{step}-{}", self.next_session);
        let mut arguments = json!({"job-id": work.job, "tag": TAG, "devices": [disk]});
        if step != "snapshot-delete" {
            arguments["vmstate"] = disk.into();
        }
        let (id, bytes) = talk.command_with(step, &arguments);
        (work.begun, work.asked) = (id, None);
        self.to_channel.push(bytes);
        true
    }

    /// QEMU has answered a command: whether it is one of these.
    pub(super) fn answer_work(&mut self, id: u64, answer: &Result<Value, String>) -> bool {
        let Some(mut work) = self.work.take() else { return false };
        let outcome = match answer {
            Err(words) if id == work.begun || work.asked == Some(id) => Err(words.clone()),
            Ok(disks) if id == work.begun && work.job.is_empty() => {
                if qmp::has_snapshot(disks, self.disk(), TAG) && self.next_step(&mut work) {
                    self.work = Some(work);
                    return true;
                }
                Err("it has not been saved".to_owned())
            }
            Ok(jobs) if work.asked == Some(id) => match qmp::job_error(jobs, &work.job) {
                Some(words) => Err(words),
                None => {
                    self.dismiss(&work.job);
                    if self.next_step(&mut work) {
                        self.work = Some(work);
                        return true;
                    }
                    Ok(())
                }
            },
            _ => {
                let ours = id == work.begun;
                self.work = Some(work);
                return ours;
            }
        };
        if outcome.is_err() {
            self.dismiss(&work.job);
        }
        self.tell_control(work.client, outcome);
        true
    }

    /// A job has ended: asks how.
    pub(super) fn job_ended(&mut self, name: &str) {
        let Some(work) = self.work.as_mut().filter(|work| work.job == name) else { return };
        let Peer::Qmp(talk) = &mut self.peer else { return };
        let (id, bytes) = talk.command("query-jobs");
        work.asked = Some(id);
        self.to_channel.push(bytes);
    }

    /// The disk that takes the state.
    fn disk(&self) -> &'static str {
        if self.has_disk { DISK } else { STATE }
    }

    fn dismiss(&mut self, job: &str) {
        if let Peer::Qmp(talk) = &mut self.peer {
            self.to_channel.push(talk.command_with("job-dismiss", &json!({"id": job})).1);
        }
    }
}
