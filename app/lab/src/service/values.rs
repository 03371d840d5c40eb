//! The kinds of values in paths and queries of calls: names, numbers within bounds, and a few of their own.

use std::ops::Deref;
use std::time::Duration;

use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};

use crate::Result;
use crate::service::call::{Inside, Named, Parameter};

fn required(text: Option<&str>) -> std::result::Result<&str, String> {
    text.ok_or_else(|| "is missing".to_owned())
}

fn number(text: &str) -> std::result::Result<u64, String> {
    // A sign is part of no number here.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let read = digits.then(|| text.parse().ok()).flatten();
    read.ok_or_else(|| format!("takes a whole number, is {text:?}"))
}

macro_rules! names {
    ($($(#[$about:meta])* $name:ident: $none:expr, |$value:ident, $inside:ident| $enter:expr;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub String);

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(name: T) -> $name {
                $name(name.into())
            }
        }

        impl Named for $name {
            fn enter(&mut self, $inside: &dyn Inside) -> Result<()> {
                let $value = &mut self.0;
                $enter
            }
        }

        impl Parameter for $name {
            const UNKNOWN: Option<&'static str> = $none;
            const REQUIRED: bool = true;

            fn read(text: Option<&str>) -> std::result::Result<$name, String> {
                required(text).map($name::from)
            }

            fn write(&self) -> Option<String> {
                Some(self.0.clone())
            }

            fn schema() -> Schema {
                ObjectBuilder::new().schema_type(Type::String).into()
            }
        }
    )*};
}

names! {
    /// The name of a node; inside of the lab not of the place itself.
    NodeName: Some("No such node"), |name, inside| inside.node(name, false);
    /// The name of a node, or `.` for that of the place.
    AnyNode: Some("No such node"), |name, inside| inside.node(name, true);
    /// The name of a link, or an end of it.
    LinkName: Some("No such link"), |name, inside| inside.link(name);
    /// The name of an interface in its node.
    InterfaceName: Some("No such node or interface"), |_name, _inside| Ok(());
    /// The name of a slice. None is seen inside of the lab.
    SliceName: Some("No such slice"), |_name, _inside| Ok(());
    /// The name of a switch. None is seen inside of the lab.
    SwitchName: Some("No such switch"), |_name, _inside| Ok(());
}

impl Named for bool {}

impl Parameter for bool {
    fn read(text: Option<&str>) -> std::result::Result<bool, String> {
        let Some(text) = text else { return Ok(false) };
        text.parse().map_err(|_| format!("takes true or false, is {text:?}"))
    }

    fn write(&self) -> Option<String> {
        self.then(|| true.to_string())
    }

    fn schema() -> Schema {
        ObjectBuilder::new().schema_type(Type::Boolean).default(Some(false.into())).into()
    }
}

/// A whole number within bounds, with a default; without one where that is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64, const DEFAULT: u64>(pub u64);

impl<const MIN: u64, const MAX: u64, const DEFAULT: u64> Whole<MIN, MAX, DEFAULT> {
    /// What is meant where nothing is said.
    pub const DEFAULT: u64 = DEFAULT;
    const HAS_DEFAULT: bool = MIN <= DEFAULT && DEFAULT <= MAX;

    /// The time of as many milliseconds.
    pub fn time(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// As many milliseconds, within the bounds.
    pub fn of(time: Duration) -> Self {
        Whole(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// The same as a size.
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64, const DEFAULT: u64> Named for Whole<MIN, MAX, DEFAULT> {}

impl<const MIN: u64, const MAX: u64, const DEFAULT: u64> Parameter for Whole<MIN, MAX, DEFAULT> {
    const REQUIRED: bool = !Self::HAS_DEFAULT;

    fn read(text: Option<&str>) -> std::result::Result<Self, String> {
        if text.is_none() && Self::HAS_DEFAULT {
            return Ok(Whole(DEFAULT));
        }
        match number(required(text)?)? {
            value if (MIN..=MAX).contains(&value) => Ok(Whole(value)),
            _ => Err(format!("takes {MIN} to {MAX}")),
        }
    }

    fn write(&self) -> Option<String> {
        (!Self::HAS_DEFAULT || self.0 != DEFAULT).then(|| self.0.to_string())
    }

    fn schema() -> Schema {
        let default = Self::HAS_DEFAULT.then(|| DEFAULT.into());
        let bounded = ObjectBuilder::new().minimum(Some(MIN)).maximum(Some(MAX));
        bounded.schema_type(Type::Integer).default(default).into()
    }
}

impl Named for Option<u64> {}

impl Parameter for Option<u64> {
    fn read(text: Option<&str>) -> std::result::Result<Option<u64>, String> {
        text.map(number).transpose()
    }

    fn write(&self) -> Option<String> {
        self.map(|number| number.to_string())
    }

    fn schema() -> Schema {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).into()
    }
}

/// Most objects of a page: all, or fewer.
pub type Objects = Whole<1, 1_000_000, 1_000_000>;

/// The last object of the page before; nothing: the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After<T>(pub Option<T>);

impl<T: From<String>> After<T> {
    /// After the object of this name.
    pub fn of(name: Option<&str>) -> After<T> {
        After(name.map(|name| T::from(name.to_owned())))
    }
}

impl<T: Named> Named for After<T> {
    fn enter(&mut self, inside: &dyn Inside) -> Result<()> {
        self.0.iter_mut().try_for_each(|name| name.enter(inside))
    }
}

impl<T: Parameter> Parameter for After<T> {
    const UNKNOWN: Option<&'static str> = T::UNKNOWN;

    fn read(text: Option<&str>) -> std::result::Result<After<T>, String> {
        text.map(|text| T::read(Some(text))).transpose().map(After)
    }

    fn write(&self) -> Option<String> {
        self.0.as_ref().and_then(T::write)
    }

    fn schema() -> Schema {
        T::schema()
    }
}

/// A place in a log: the `cursor` of a line, which is when it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(pub u64);

impl Named for Cursor {}

impl Parameter for Cursor {
    fn read(text: Option<&str>) -> std::result::Result<Cursor, String> {
        let read = text.map_or(Ok(0), number).map(Cursor);
        read.map_err(|_| "takes the `cursor` of a line".to_owned())
    }

    fn write(&self) -> Option<String> {
        (self.0 > 0).then(|| self.0.to_string())
    }

    fn schema() -> Schema {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]+$")).into()
    }
}

/// A place in the stream of events: the `id` of an event. One that is of no stream is of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventId(pub Option<String>);

impl Named for EventId {}

impl Parameter for EventId {
    fn read(text: Option<&str>) -> std::result::Result<EventId, String> {
        Ok(EventId(text.map(str::to_owned)))
    }

    fn write(&self) -> Option<String> {
        self.0.clone()
    }

    fn schema() -> Schema {
        ObjectBuilder::new().schema_type(Type::String).into()
    }
}

/// Address families: 4, 6 or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Families(pub Vec<u8>);

impl Named for Families {}

impl Parameter for Families {
    fn read(text: Option<&str>) -> std::result::Result<Families, String> {
        let mut families = Vec::new();
        for part in text.unwrap_or("4,6").split(',') {
            match part {
                "4" if !families.contains(&4) => families.push(4),
                "6" if !families.contains(&6) => families.push(6),
                _ => return Err("takes 4, 6 or 4,6".to_owned()),
            }
        }
        Ok(Families(families))
    }

    fn write(&self) -> Option<String> {
        let text = self.0.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
        (text != "4,6").then_some(text)
    }

    fn schema() -> Schema {
        let text = ObjectBuilder::new().schema_type(Type::String).default(Some("4,6".into()));
        text.enum_values(Some(["4", "6", "4,6", "6,4"])).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_four_six_or_both_once() {
        let families = |text| Families::read(text).ok().map(|of| of.0);
        assert_eq!(families(Some("4")), Some(vec![4]));
        assert_eq!(families(Some("6,4")), Some(vec![6, 4]));
        assert_eq!(families(None), Some(vec![4, 6]));
        for bad in ["", "5", "4,", "4,4", "4,6,4", " 4", "4;6"] {
            assert_eq!(families(Some(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_digits_within_their_bounds() {
        type Time = Whole<1, 60_000, 1000>;
        type Needed = Whole<0, 9, 10>;
        let read = |text| Time::read(text).map(|found| found.0);
        assert_eq!(
            [read(None), read(Some("1")), read(Some("60000"))],
            [Ok(1000), Ok(1), Ok(60_000)]
        );
        assert_eq!(read(Some("0")), Err("takes 1 to 60000".to_owned()));
        assert!(read(Some("18446744073709551616")).is_err());
        assert_eq!(Needed::read(None).map(|found| found.0), Err("is missing".to_owned()));
        assert_eq!([Needed::REQUIRED, Time::REQUIRED], [true, false]);
        for bad in ["", "-1", "+1", "1.0", "1e3", " 1", "٧", "soon"] {
            assert_eq!(read(Some(bad)), Err(format!("takes a whole number, is {bad:?}")));
        }
    }
}
