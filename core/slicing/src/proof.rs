//! The proof that what a slice's rule does to packets stays within the slice.
//!
//! For all packets that a rule can act on, which are of the slice, it holds that
//! * they leave by ports of the slice, and not as packets that are of another slice at that port;
//! * if a field that the slice's spaces look at was changed, they leave as packets of the slice at that port;
//! * they go on to a later table, a group or a controller as packets of the slice.
//!
//! So whatever reaches a later table is of the slice again, and the same holds there. Groups are proved for all packets
//! of the slice, so that rules and groups can change apart. An action set is proved where it is known; where entries of
//! several tables write it, what each writes is proved for all packets of the slice. All is over real ports.

use netloom_openflow::{Action, PortNumber, Reason};

use crate::cube::Region;
use crate::{Example, SliceId, Slicing};

/// Why a rule is refused: with an example of a packet that would leave the slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// The error for the controller.
    pub(crate) reason: Reason,
    /// What would happen.
    pub(crate) words: String,
    /// A packet, as it comes in.
    pub(crate) example: Option<Example>,
}

/// What else holds of a rule that was proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// It adds to an action set that others may add to.
    pub(crate) shares_set: bool,
    /// Where it ends the way through the tables, packets may have left the space: right without a shared action set.
    pub(crate) ends_outside: bool,
}

/// What the proof is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proof<'a> {
    /// All slices.
    pub(crate) slicing: &'a Slicing,
    /// The one whose rules are proved.
    pub(crate) slice: SliceId,
    /// Its ports of the real switch.
    pub(crate) ports: &'a [PortNumber],
}

impl<'a> Proof<'a> {
    /// The slice's packets.
    pub(crate) fn own(&self) -> Option<&'a Region> {
        self.slicing.region(self.slice)
    }
}

pub(crate) fn unknown() -> Breach {
    Breach {
        reason: Reason::BadActionBadExperimenter,
        words: "nothing can be proved of an experimenter's action".to_owned(),
        example: None,
    }
}

/// The order of an action set (section 5.10); where there are several of a kind, all of them, the last at the end.
pub(crate) fn ordered(written: &[Action]) -> Vec<Action> {
    let order = |action: &Action| match action {
        Action::CopyTtlIn => (0, 0),
        Action::PopVlan | Action::StripVlan => (1, 0),
        Action::PopMpls(_) => (1, 1),
        Action::PopPbb => (1, 2),
        Action::PushMpls(_) => (2, 0),
        Action::PushPbb(_) => (3, 0),
        Action::PushVlan(_) => (4, 0),
        Action::CopyTtlOut => (5, 0),
        Action::DecNwTtl | Action::DecMplsTtl => (6, 0),
        Action::SetField(oxm) => (7, oxm.field.number()),
        Action::SetQueue(_) => (8, 0),
        Action::Group(_) => (9, 0),
        Action::Output { .. } | Action::Enqueue { .. } => (10, 0),
        _ => (7, u8::MAX),
    };
    let mut all = written.to_vec();
    all.sort_by_key(order);
    all
}
