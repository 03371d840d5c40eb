//! An experimenter's action of netloom: packets that a router's own stack must see go to it instead.
//!
//! A switch that forwards for a router does what OpenFlow can say. What it cannot say are conditions on a packet's TTL,
//! its options and its length, on which a router answers the sender. The action sends such a packet whole by a port, and
//! ends its way; others go on as if it were not there.

use crate::action::Action;
use crate::port::PortNumber;

/// Netloom's number among experimenters: a locally administered identifier.
/// Its last bytes are "nl".
pub const EXPERIMENTER: u32 = 0x0002_6e6c;

const KIND: [u8; 2] = [0, 1];

/// Packets whose TTL is 1 or less, that have options of IPv4, or that are longer than an MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The longest IP packet that goes on; 0: of any length.
    pub mtu: u16,
    /// Where the others go.
    pub to: PortNumber,
}

impl Detour {
    /// The action.
    pub fn action(self) -> Action {
        let mut data = KIND.to_vec();
        data.extend(self.mtu.to_be_bytes());
        data.extend(self.to.0.to_be_bytes());
        Action::Experimenter { experimenter: EXPERIMENTER, data }
    }

    /// The detour that an action is.
    pub fn of(action: &Action) -> Option<Detour> {
        let Action::Experimenter { experimenter: EXPERIMENTER, data } = action else { return None };
        // Anything else under this number is of another kind of ours, or a later one's.
        let [0, 1, a, b, to @ ..] = data.as_slice() else { return None };
        let to = PortNumber(u32::from_be_bytes(to.try_into().ok()?));
        Some(Detour { mtu: u16::from_be_bytes([*a, *b]), to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_as_it_was_written() {
        let detour = Detour { mtu: 1400, to: PortNumber(7) };
        assert_eq!(Detour::of(&detour.action()), Some(detour));
        assert_eq!(Detour::of(&Action::DecNwTtl), None);
        let short = Action::Experimenter { experimenter: EXPERIMENTER, data: vec![0, 1, 0] };
        assert_eq!(Detour::of(&short), None);
    }
}
