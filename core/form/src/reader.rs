//! Reads JSON more strictly than serde alone: an object is an object, a key is there once, and is known.
//!
//! Structs that serde derives also take an array of their fields in order and skip keys that they do not know, and a map
//! takes the last of two equal keys. All of these hide mistakes, so [`read`] wraps the reader: [`Strict`] passes every call
//! on and watches objects on their way. What serde buffers before it knows its type, such as the options of a switch in a
//! plan, is not seen here: such types say `deny_unknown_fields`.

use std::collections::HashSet;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// Reads a value from a whole text: an array is not taken for a struct, and a key is known and there once.
///
/// # Errors
/// In words, with the path of the value that is wrong.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(Strict::new(&mut reader, Watch::Values));
    match value.and_then(|value| reader.end().map(|()| value)) {
        Ok(value) => Ok(value),
        Err(error) => Err(with_path::<T>(bytes).unwrap_or_else(|| error.to_string())),
    }
}

/// Why a value cannot be read, with its path, which takes a second reading.
fn with_path<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let strict = Strict::new(&mut reader, Watch::Values);
    serde_path_to_error::deserialize::<_, T>(strict).err().map(|error| error.to_string())
}

/// Up to here, floating point has every whole number.
const EXACT: u64 = 1 << 53;

/// What a part of a text is watched for.
enum Watch<'a> {
    /// Equal keys of a map in it.
    Values,
    /// That it is an object. Its keys are those of a struct, which serde compares.
    Fields,
    /// It is a key: that it is not among these.
    Key(&'a mut HashSet<String>),
}

/// A reader whose values are watched.
struct Strict<'a, D> {
    inner: D,
    watch: Watch<'a>,
}

impl<'a, D> Strict<'a, D> {
    fn new(inner: D, watch: Watch<'a>) -> Strict<'a, D> {
        Strict { inner, watch }
    }

    fn visitor<V>(watch: Watch<'a>, visitor: V) -> Strict<'a, V> {
        Strict { inner: visitor, watch }
    }
}

macro_rules! passed_on {
    ($($method:ident($($name:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method($($name,)* Self::visitor(self.watch, visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Strict<'_, D> {
    type Error = D::Error;

    passed_on! {
        deserialize_any(); deserialize_bool(); deserialize_i8(); deserialize_i16(); deserialize_i32();
        deserialize_i64(); deserialize_i128(); deserialize_u8(); deserialize_u16(); deserialize_u32();
        deserialize_u64(); deserialize_u128(); deserialize_f32(); deserialize_f64(); deserialize_char();
        deserialize_str(); deserialize_string(); deserialize_bytes(); deserialize_byte_buf();
        deserialize_option(); deserialize_unit(); deserialize_seq(); deserialize_map();
        deserialize_identifier();
        deserialize_unit_struct(name: &'static str); deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(len: usize); deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, Self::visitor(Watch::Fields, visitor))
    }

    /// serde asks for this where a struct does not know a key.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, D::Error> {
        Err(D::Error::custom("unknown field"))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! seen {
    ($($method:ident($type:ty);)*) => {
        $(fn $method<E: Error>(mut self, value: $type) -> Result<V::Value, E> {
            self.note(&value)?;
            self.inner.$method(value)
        })*
    };
}

impl<V> Strict<'_, V> {
    /// Refuses a key that is there twice.
    fn note<E: Error>(&mut self, key: &impl fmt::Display) -> Result<(), E> {
        let Watch::Key(known) = &mut self.watch else { return Ok(()) };
        let key = key.to_string();
        if known.contains(&key) {
            return Err(E::custom(format_args!("the key {key:?} is there twice")));
        }
        known.insert(key);
        Ok(())
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Strict<'_, V> {
    type Value = V::Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.watch {
            Watch::Fields => to.write_str("an object"),
            Watch::Values | Watch::Key(_) => self.inner.expecting(to),
        }
    }

    seen! {
        visit_bool(bool); visit_i64(i64); visit_i128(i128); visit_u64(u64); visit_u128(u128);
        visit_str(&str); visit_borrowed_str(&'de str); visit_string(String);
    }

    /// A whole number may be written with a fraction of zero.
    fn visit_f64<E: Error>(mut self, value: f64) -> Result<V::Value, E> {
        self.note(&value)?;
        #[expect(clippy::cast_possible_truncation, reason = "what is cut off is seen below")]
        let whole = value as i64;
        match whole as f64 == value && whole.unsigned_abs() <= EXACT {
            true if whole < 0 => self.inner.visit_i64(whole),
            true => self.inner.visit_u64(whole.unsigned_abs()),
            false => self.inner.visit_f64(value),
        }
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<V::Value, E> {
        self.inner.visit_bytes(value)
    }

    fn visit_borrowed_bytes<E: Error>(self, value: &'de [u8]) -> Result<V::Value, E> {
        self.inner.visit_borrowed_bytes(value)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Strict::new(inner, self.watch))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Strict::new(inner, self.watch))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        match self.watch {
            Watch::Fields => Err(A::Error::invalid_type(Unexpected::Seq, &"an object")),
            Watch::Values | Watch::Key(_) => self.inner.visit_seq(Parts { inner, keys: None }),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let keys = match self.watch {
            Watch::Fields => None,
            Watch::Values | Watch::Key(_) => Some(HashSet::new()),
        };
        self.inner.visit_map(Parts { inner, keys })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Parts { inner, keys: None })
    }
}

/// The parts of a value.
struct Parts<A> {
    inner: A,
    /// The keys of a map up to here.
    keys: Option<HashSet<String>>,
}

/// How a part is read.
struct Part<'a, S> {
    seed: S,
    watch: Watch<'a>,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Part<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.seed.deserialize(Strict::new(inner, self.watch))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Parts<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Part { seed, watch: Watch::Values })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Parts<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        match &mut self.keys {
            Some(known) => self.inner.next_key_seed(Part { seed, watch: Watch::Key(known) }),
            None => self.inner.next_key_seed(seed),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Part { seed, watch: Watch::Values })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Parts<A> {
    type Error = A::Error;
    type Variant = Parts<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Parts<A::Variant>), A::Error> {
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((value, Parts { inner, keys: None }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Parts<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Part { seed, watch: Watch::Values })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, Strict { inner: visitor, watch: Watch::Values })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, Strict { inner: visitor, watch: Watch::Fields })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Thing {
        name: String,
        inner: Option<Box<Thing>>,
        many: Vec<Thing>,
        map: BTreeMap<u32, Choice>,
        names: BTreeMap<String, u8>,
        pairs: Vec<(String, String)>,
        bytes: [u8; 2],
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Choice {
        Plain,
        One(Box<Thing>),
        Two(u8, u8),
        Named { x: u8 },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Flat {
        name: String,
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }

    #[test]
    fn what_serde_reads_is_read_as_it_reads_it() {
        let text = r#"{"name": "a\n", "inner": {"name": "b"}, "many": [{}, {"inner": null}],
            "map": {"1": "plain", "2": {"one": {"name": "c"}}, "3": {"two": [1, 2]}, "4": {"named": {"x": 1}}},
            "pairs": [["k", "v"], ["k", "w"]], "bytes": [1, 2]}"#;
        assert_eq!(read::<Thing>(text.as_bytes()).unwrap(), serde_json::from_str(text).unwrap());
        let flat = r#"{"name": "a", "x": 1, "y": 2}"#;
        assert_eq!(read::<Flat>(flat.as_bytes()).unwrap(), serde_json::from_str(flat).unwrap());
        assert!(read::<Vec<u8>>(b"[1, 2] ").is_ok_and(|all| all == [1, 2]));
    }

    #[test]
    fn whole_numbers_may_have_a_fraction_of_zero() {
        assert_eq!(read::<Vec<u64>>(b"[1.0, 7e3, 0.0]").unwrap(), [1, 7000, 0]);
        assert_eq!(read::<Vec<i64>>(b"[-1.0]").unwrap(), [-1]);
        assert_eq!(read::<Vec<f64>>(b"[1.0, 1.5, 1e300]").unwrap(), [1.0, 1.5, 1e300]);
        for wrong in ["[1.5]", "[1e300]", "[-1.0]", "[18446744073709551616.0]"] {
            assert!(read::<Vec<u64>>(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_in_the_place_of_objects_are_refused() {
        for text in [
            r#"["a"]"#,
            r#"{"inner": ["a"]}"#,
            r#"{"many": [{}, ["a"]]}"#,
            r#"{"map": {"1": {"one": ["a"]}}}"#,
            r#"{"map": {"1": {"named": [1]}}}"#,
        ] {
            let error = read::<Thing>(text.as_bytes()).unwrap_err();
            assert!(error.contains("invalid type: sequence, expected an object at"), "{error}");
        }
        let error = read::<Thing>(b"\"a\"").unwrap_err();
        assert!(error.starts_with("invalid type: string \"a\", expected an object"), "{error}");
    }

    #[test]
    fn keys_that_are_there_twice_are_refused_by_name() {
        for (text, words) in [
            (r#"{"map": {"1": "plain", "1": "plain"}}"#, "map.?: the key \"1\" is there twice"),
            (r#"{"names": {"a": 1, "\u0061": 1}}"#, "names.?: the key \"a\" is there twice"),
            (r#"{"many": [{"name": "", "name": ""}]}"#, "many[0]: duplicate field `name`"),
        ] {
            let error = read::<Thing>(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        let error = read::<Flat>(br#"{"name": "", "x": 1, "x": 1}"#).unwrap_err();
        assert!(error.contains("the key \"x\" is there twice"), "{error}");
    }

    #[test]
    fn keys_that_nobody_knows_are_refused_by_name() {
        #[derive(Debug, Deserialize)]
        #[expect(dead_code, reason = "only read")]
        struct Open {
            inner: Option<Box<Open>>,
            map: BTreeMap<u32, Open>,
        }
        for (text, words) in [
            (r#"{"map": {}, "colour": {"a": [1]}}"#, "colour: unknown field"),
            (r#"{"map": {"1": {"map": {}, "x": 1}}}"#, "map.1.x: unknown field"),
            (r#"{"map": {}, "inner": {"map": {}, "x": null}}"#, "inner.x: unknown field"),
        ] {
            let error = read::<Open>(text.as_bytes()).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn nothing_may_follow_and_depth_is_bounded() {
        assert!(read::<Thing>(b"{} {}").is_err());
        let deep = "[".repeat(100_000);
        assert!(read::<serde_json::Value>(deep.as_bytes()).is_err());
    }
}
