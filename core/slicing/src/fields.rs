//! A set of fields.

use netloom_openflow::Field;

/// Some of the forty fields, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(u64);

impl Fields {
    const fn bit(field: Field) -> u64 {
        1 << field.number()
    }

    pub(crate) fn add(&mut self, field: Field) {
        self.0 |= Fields::bit(field);
    }

    pub(crate) fn has(self, field: Field) -> bool {
        self.0 & Fields::bit(field) != 0
    }

    /// Whether a field is in both.
    pub(crate) fn meets(self, other: Fields) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Field> {
        Field::ALL.iter().copied().filter(move |field| self.has(*field))
    }
}

impl FromIterator<Field> for Fields {
    fn from_iter<I: IntoIterator<Item = Field>>(all: I) -> Fields {
        let mut fields = Fields::default();
        all.into_iter().for_each(|field| fields.add(field));
        fields
    }
}
