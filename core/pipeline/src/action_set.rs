//! The action set: at most one action of a kind, done in a fixed order (section 5.10).

use netloom_openflow::{Action, Field};

/// The place of an action in the order of execution; actions with equal places replace each other.
fn place(action: &Action) -> Option<(u8, u8)> {
    let first = |place| Some((place, 0));
    match action {
        Action::CopyTtlIn => first(1),
        // The specification has one place for pops; each header has its own kind, so a set may pop several.
        Action::PopVlan | Action::StripVlan => Some((2, 0)),
        Action::PopMpls(_) => Some((2, 1)),
        Action::PopPbb => Some((2, 2)),
        Action::PushMpls(_) => first(3),
        Action::PushPbb(_) => first(4),
        Action::PushVlan(_) => first(5),
        Action::CopyTtlOut => first(6),
        Action::DecNwTtl => Some((7, 0)),
        Action::DecMplsTtl => Some((7, 1)),
        Action::SetField(oxm) => Some((8, set_order(oxm.field))),
        // Behind all fields, whose numbers are below 40.
        Action::SetNwTtl(_) => Some((8, 200)),
        Action::SetMplsTtl(_) => Some((8, 201)),
        Action::SetQueue(_) => first(9),
        Action::Group(_) => first(10),
        Action::Output { .. } => first(11),
        // Of 1.0, which has no action sets; an experimenter's is refused before.
        _ => None,
    }
}

/// Fields that others need come first.
fn set_order(field: Field) -> u8 {
    field.number()
}

/// An action set.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActionSet(std::collections::BTreeMap<(u8, u8), Action>);

impl ActionSet {
    /// Adds actions; each replaces one of its kind.
    pub(crate) fn write(&mut self, actions: &[Action]) {
        for action in actions {
            if let Some(place) = place(action) {
                self.0.insert(place, action.clone());
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The actions in order; with a group there is no output.
    pub(crate) fn ordered(self) -> Vec<Action> {
        let group = self.0.values().any(|action| matches!(action, Action::Group(_)));
        // Section 5.10: if both a group and an output are in the set, the output is ignored.
        let skipped = |action: &Action| group && matches!(action, Action::Output { .. });
        self.0.into_values().filter(|action| !skipped(action)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netloom_openflow::{Oxm, PortNumber};

    #[test]
    fn one_of_a_kind_in_the_order_of_the_specification() {
        let output = |port| Action::output(PortNumber(port));
        let set = |field, value| Action::SetField(Oxm::exact(field, value));
        let mut actions = ActionSet::default();
        actions.write(&[output(1), set(Field::EthSrc, 1), Action::SetQueue(3)]);
        actions.write(&[Action::DecNwTtl, Action::PushVlan(0x8100), Action::PushMpls(0x8847)]);
        actions.write(&[output(2), set(Field::EthSrc, 2), set(Field::EthDst, 3), Action::PopVlan]);
        let expected = [
            Action::PopVlan,
            Action::PushMpls(0x8847),
            Action::PushVlan(0x8100),
            Action::DecNwTtl,
            set(Field::EthDst, 3),
            set(Field::EthSrc, 2),
            Action::SetQueue(3),
            output(2),
        ];
        assert_eq!(actions.clone().ordered(), expected);
        actions.write(&[Action::Group(7)]);
        assert_eq!(actions.clone().ordered().last(), Some(&Action::Group(7)));
        actions.clear();
        assert_eq!(actions.ordered(), []);
    }
}
