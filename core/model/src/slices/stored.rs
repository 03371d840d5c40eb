//! Reads slices of a stored plan, no more of them than there can be: a space of three bytes takes a hundred times as much
//! memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{MOST_IN_ALL, MOST_SLICES, Slice, SliceSpace};

/// Reads the slices of a plan.
pub(crate) fn slices<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Slice>, D::Error> {
    Few { left: &mut { MOST_SLICES }, what: "slices", of: PhantomData }.deserialize(from)
}

/// Reads the spaces of a slice by switch.
pub(super) fn switches<'d, D: Deserializer<'d>>(
    from: D,
) -> Result<BTreeMap<String, Vec<SliceSpace>>, D::Error> {
    from.deserialize_map(Switches)
}

struct Switches;

impl<'d> Visitor<'d> for Switches {
    type Value = BTreeMap<String, Vec<SliceSpace>>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a map of spaces by switch")
    }

    fn visit_map<A: MapAccess<'d>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut all = BTreeMap::new();
        let mut left = MOST_IN_ALL;
        while let Some(switch) = from.next_key::<String>()? {
            let spaces = Few { left: &mut left, what: "spaces of a slice", of: PhantomData };
            all.insert(switch, from.next_value_seed(spaces)?);
        }
        Ok(all)
    }
}

/// Reads a list of no more than what is left.
struct Few<'a, T> {
    left: &'a mut usize,
    what: &'static str,
    of: PhantomData<T>,
}

impl<'d, T: Deserialize<'d>> DeserializeSeed<'d> for Few<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'d>>(self, from: D) -> Result<Vec<T>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'d, T: Deserialize<'d>> Visitor<'d> for Few<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a list of {}", self.what)
    }

    fn visit_seq<A: SeqAccess<'d>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = from.next_element()? {
            if *self.left == 0 {
                return Err(A::Error::custom(format_args!("too many {}", self.what)));
            }
            *self.left -= 1;
            all.push(one);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(spaces: usize) -> String {
        let one = format!("[{}]", vec!["{}"; spaces / 2].join(","));
        format!(r#"{{"name": "s", "controllers": [], "switches": {{"a": {one}, "b": {one}}}}}"#)
    }

    #[test]
    fn more_than_there_can_be_are_refused_while_they_are_read() {
        let read = serde_json::from_str::<Slice>(&slice(MOST_IN_ALL)).unwrap();
        assert_eq!(read.switches["b"].len(), MOST_IN_ALL / 2);
        let error = serde_json::from_str::<Slice>(&slice(MOST_IN_ALL + 2)).unwrap_err();
        assert!(error.to_string().starts_with("too many spaces of a slice"), "{error}");
        let many = format!("[{}]", vec![slice(0); MOST_SLICES + 1].join(","));
        let error = slices(&mut serde_json::Deserializer::from_str(&many)).unwrap_err();
        assert!(error.to_string().starts_with("too many slices"), "{error}");
    }
}
