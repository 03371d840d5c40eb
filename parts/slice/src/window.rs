//! Transaction ids of several connections made unique, so that each is answered by what it asked for.
//!
//! A virtual switch has one conversation; each client has its own connection and transaction ids. Only the last
//! requests are remembered: an answer that comes later than this many others belongs to nobody.

use std::collections::VecDeque;

/// Requests that are remembered of all slices of a switch, and of one of them at least and at most.
const IN_ALL: usize = 1 << 18;
const LEAST: usize = 1 << 12;
const MOST: usize = 1 << 16;

/// The last requests: connection and number of each.
#[derive(Debug)]
pub(crate) struct Window {
    /// How many are remembered.
    most: usize,
    /// The number that the first was given.
    first: u32,
    all: VecDeque<(u64, u32)>,
}

impl Window {
    /// That of one of this many slices.
    pub(crate) fn one_of(slices: usize) -> Window {
        let most = (IN_ALL / slices.max(1)).clamp(LEAST, MOST);
        Window { most, first: 0, all: VecDeque::new() }
    }

    /// A number for a request of a connection.
    pub(crate) fn put(&mut self, connection: u64, xid: u32) -> u32 {
        if self.all.len() == self.most {
            self.all.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        let offset = u32::try_from(self.all.len()).unwrap_or(0);
        self.all.push_back((connection, xid));
        self.first.wrapping_add(offset)
    }

    /// Whose request has this number, and the number that it had there.
    pub(crate) fn get(&self, number: u32) -> Option<(u64, u32)> {
        let offset = usize::try_from(number.wrapping_sub(self.first)).ok()?;
        self.all.get(offset).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_their_connection_and_old_ones_nobody() {
        let mut window = Window { first: u32::MAX - 1, ..Window::one_of(1000) };
        let numbers: Vec<u32> = (0..5).map(|at| window.put(u64::from(at % 2), at * 10)).collect();
        assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 0, 1, 2]);
        assert_eq!(window.get(0), Some((0, 20)));
        assert_eq!(window.get(3), None);
        for at in 0..LEAST {
            window.put(9, u32::try_from(at).unwrap());
        }
        assert_eq!(window.get(2), None);
        assert_eq!(window.get(3), Some((9, 0)));
    }
}
