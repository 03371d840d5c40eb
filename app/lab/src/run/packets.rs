//! Packets of the past, from the recording of the lab, which another process may write meanwhile.

use netloom_record::{Asked, Folder, Nodes, Question, Told, find_links, search, with_earlier};
use netloom_sys::Failure;

use crate::run::running::Running;
use crate::view::{AskPackets, FoundPackets, PacketSeen, link_of_question};
use crate::{Error, Result, Subject};

/// Most packets of an answer, where nothing is said and at all.
const USUAL: usize = 1_000;
const MOST: usize = 100_000;

impl Running {
    /// Finds packets in the recording of the lab.
    ///
    /// # Errors
    /// The question cannot be answered; nothing was recorded; the recording cannot be read.
    pub(crate) fn packets(&self, asked: &AskPackets) -> Result<FoundPackets> {
        let state = self.state();
        let lab = &state.plan.lab;
        let wrong = |error| refused(lab, error);
        let (folder, told, nodes) = self.recording_found()?;
        let mut asked_of = words(asked)?;
        let links = find_links(&folder, &asked.links, |word| link_of_question(&state.plan, word));
        asked_of.links = links.map_err(wrong)?;
        let question = Question::read(&asked_of, &nodes).map_err(wrong)?;
        let most = asked.most.unwrap_or(USUAL).clamp(1, MOST);
        let mut found = FoundPackets::default();
        let looked = search(&folder, &question, |frame| {
            found.more = found.packets.len() == most;
            if !found.more {
                found.packets.push(PacketSeen::from(frame));
            }
            Ok::<_, netloom_record::Error>(!found.more)
        });
        let looked = looked.map_err(wrong)?;
        (found.gone, found.strange) = (looked.gone, looked.strange);
        found.problem = told.problem;
        Ok(found)
    }

    /// The lab's recording, what its recorder said last, and the addresses of nodes of now and of then.
    ///
    /// # Errors
    /// Nothing was recorded; what was is of another lab of this name.
    pub(crate) fn recording_found(&self) -> Result<(Folder, Told, Nodes)> {
        let state = self.state();
        let lab = &state.plan.lab;
        let wrong = |error| refused(lab, error);
        let none = || netloom_record::Error::None { lab: lab.clone() };
        let root = self.records.as_ref().ok_or_else(none).map_err(wrong)?;
        let folder = Folder::open(root, lab).map_err(wrong)?;
        let told = folder.told();
        folder.refuse_another(&told.status, &self.folder.path()).map_err(wrong)?;
        let now = state.plan.nodes.iter().map(|node| {
            (node.name.clone(), node.all_addresses().map(|a| a.addr()).collect::<Vec<_>>())
        });
        let nodes = with_earlier(now.collect(), &told.status.nodes);
        Ok((folder, told, nodes))
    }
}

fn words(asked: &AskPackets) -> Result<Asked> {
    if asked.last_ms.is_some() && (asked.since_ns.is_some() || asked.until_ns.is_some()) {
        return Err(Error::Invalid {
            object: Subject::from("the question"),
            reason: "last_ms stands for since_ns: leave one of them out".to_owned(),
        });
    }
    Ok(Asked {
        words: asked.what.clone(),
        links: vec![],
        last_ns: asked.last_ms.map(|last| last.saturating_mul(1_000_000)),
        since_ns: asked.since_ns,
        until_ns: asked.until_ns,
    })
}

pub(crate) fn refused(lab: &str, error: netloom_record::Error) -> Error {
    let words = netloom_sys::describe(&error);
    match error {
        netloom_record::Error::Question(reason) => {
            Error::Invalid { object: Subject::from("the question"), reason }
        }
        netloom_record::Error::None { .. } => Error::Conflict {
            lab: lab.to_owned(),
            reason: "nothing of it was recorded; `netloom record start` begins".to_owned(),
        },
        netloom_record::Error::Another { .. } => {
            Error::Conflict { lab: lab.to_owned(), reason: words }
        }
        _ => Failure::new(format!("recording of lab {lab:?}"), "search", words).into(),
    }
}
