//! The lists and maps in block style that are open at a place, by their columns.

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Where its dashes or keys start, from 0.
    pub column: usize,
    is_list: bool,
}

/// The open ones, from the outermost.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels(Vec<Level>);

impl Levels {
    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn all(&self) -> &[Level] {
        &self.0
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The column of the innermost one; a value in it stands deeper.
    pub(super) fn innermost(&self) -> Option<usize> {
        self.0.last().map(|level| level.column)
    }

    /// A dash: how deep its list is, from 0. In a map, a list may start in the column of the keys.
    pub(super) fn dash(&mut self, column: usize) -> usize {
        self.close(|level| level.column > column);
        if !self.0.last().is_some_and(|level| level.is_list && level.column == column) {
            self.0.push(Level { column, is_list: true });
        }
        self.0.len() - 1
    }

    /// A key: how deep its map is, from 0.
    pub(super) fn key(&mut self, column: usize) -> usize {
        self.value(column);
        self.0.push(Level { column, is_list: false });
        self.0.len() - 1
    }

    /// A value on a line of its own, which may turn out to be a key: how deep it is, from 0.
    pub(super) fn value(&mut self, column: usize) -> usize {
        self.close(|level| level.column >= column);
        self.0.len()
    }

    fn close(&mut self, ends: impl Fn(&Level) -> bool) {
        while self.0.last().is_some_and(&ends) {
            self.0.pop();
        }
    }
}
