//! Operations in the programs' memory: lists are chains of cells. Equal lists are kept once.
//!
//! A cell is used again only after the programs that may read it have ended.

use std::collections::HashMap;

use super::list::{OP_WORDS, Op};
use super::shared::Shared;

/// No cell: `NL_FL_NONE`.
pub(super) const NONE: u32 = u32::MAX;

/// A list in memory.
#[derive(Clone, Debug)]
struct Chain {
    /// Its operations; `None` of one that another process made.
    ops: Option<Vec<Op>>,
    cells: Vec<u32>,
    results: usize,
}

/// The lists.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    chains: HashMap<u32, Chain>,
    by_ops: HashMap<Vec<Op>, u32>,
    by_first: HashMap<u32, u32>,
    numbers: u32,
    /// Cells never used so far begin here.
    fresh: u32,
    room: u32,
    free: Vec<u32>,
    /// Given up, but perhaps still read by a program.
    waiting: Vec<u32>,
}

impl Operations {
    pub(super) fn new(room: u32) -> Operations {
        Operations {
            chains: HashMap::new(),
            by_ops: HashMap::new(),
            by_first: HashMap::new(),
            numbers: 0,
            fresh: 0,
            room,
            free: vec![],
            waiting: vec![],
        }
    }

    /// The number of a list with one more result; `None` if there is no room.
    pub(super) fn add(&mut self, shared: &Shared, ops: &[Op]) -> Option<u32> {
        if let Some(number) = self.by_ops.get(ops).copied() {
            self.chains.get_mut(&number)?.results += 1;
            return Some(number);
        }
        // No result leads to these cells yet, so the order of the writes does not matter.
        let cells = self.cells(ops.len())?;
        let next = cells.iter().skip(1).copied().chain([NONE]);
        for ((cell, op), next) in cells.iter().zip(ops).zip(next) {
            shared.put_operation(*cell, &op.words(next));
        }
        let number = self.insert(Chain { ops: Some(ops.to_vec()), cells, results: 1 });
        self.by_ops.insert(ops.to_vec(), number);
        Some(number)
    }

    fn insert(&mut self, chain: Chain) -> u32 {
        // Numbers come again, and a list of long ago may still have one.
        while self.chains.contains_key(&self.numbers) {
            self.numbers = self.numbers.wrapping_add(1);
        }
        self.chains.insert(self.numbers, chain);
        self.numbers
    }

    fn cells(&mut self, count: usize) -> Option<Vec<u32>> {
        let more = count.saturating_sub(self.free.len());
        let left = usize::try_from(self.room - self.fresh).unwrap_or(0);
        // Before anything is taken, so that a list without room changes nothing.
        if more > left {
            return None;
        }
        let mut cells = self.free.split_off(self.free.len() - (count - more));
        let first = self.fresh;
        self.fresh += u32::try_from(more).unwrap_or(0);
        cells.extend(first..self.fresh);
        Some(cells)
    }

    /// Takes over a list that another process made, for one more result.
    pub(super) fn adopt(&mut self, shared: &Shared, first: u32) -> u32 {
        // What such a list does is not known here: its first cell tells it from others.
        if let Some(number) = self.by_first.get(&first).copied()
            && let Some(chain) = self.chains.get_mut(&number)
        {
            chain.results += 1;
            return number;
        }
        let mut cells = vec![];
        let mut next = first;
        // A chain torn by a killed process may have no end.
        while next < self.room && cells.len() <= super::list::LONGEST {
            cells.push(next);
            next = next_of(&shared.operation(next));
        }
        self.claim(&cells);
        let number = self.insert(Chain { ops: None, cells, results: 1 });
        self.by_first.insert(first, number);
        number
    }

    /// Marks cells as used, whose order is not known.
    fn claim(&mut self, cells: &[u32]) {
        let end = cells.iter().map(|cell| cell + 1).max().unwrap_or(0);
        if end > self.fresh {
            // Those in between are free until a list is adopted that has them.
            self.free.extend(self.fresh..end);
            self.fresh = end;
        }
        self.free.retain(|cell| !cells.contains(cell));
    }

    /// The first cell of a list.
    pub(super) fn first(&self, number: u32) -> u32 {
        self.chains.get(&number).and_then(|chain| chain.cells.first()).copied().unwrap_or(NONE)
    }

    /// One result less.
    pub(super) fn release(&mut self, number: u32) {
        let Some(chain) = self.chains.get_mut(&number) else { return };
        chain.results -= 1;
        if chain.results > 0 {
            return;
        }
        let Some(chain) = self.chains.remove(&number) else { return };
        if let Some(ops) = &chain.ops {
            self.by_ops.remove(ops);
        } else {
            self.by_first.retain(|_, of| *of != number);
        }
        self.waiting.extend(chain.cells);
    }

    /// No program reads cells that were given up.
    pub(super) fn settled(&mut self) {
        self.free.append(&mut self.waiting);
    }
}

fn next_of(words: &[u64; OP_WORDS]) -> u32 {
    crate::map::unpair(words[1].to_ne_bytes()).0
}
