//! Lists of a plan, indexed by their slots.

use std::ops::{Index, IndexMut};

use super::{LinkSlot, PlannedLink, PlannedNode, PlannedSwitch, Slot, SwitchSlot};

macro_rules! place {
    ($slot:ident of $item:ident) => {
        impl Index<$slot> for Vec<$item> {
            type Output = $item;

            fn index(&self, slot: $slot) -> &$item {
                &self[slot.get()]
            }
        }

        impl IndexMut<$slot> for Vec<$item> {
            fn index_mut(&mut self, slot: $slot) -> &mut $item {
                &mut self[slot.get()]
            }
        }
    };
}

place!(Slot of PlannedNode);
place!(LinkSlot of PlannedLink);
place!(SwitchSlot of PlannedSwitch);
