//! Marks of fields whose values have another form here: for `#[serde(with = "netloom_form::mac")]`.
//!
//! serde has no place for marks. A marked value is written as a newtype with the name of its mark, which other serializers
//! pass over. Fields of `Option` say `default`, too, since serde then no longer lets them be absent by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

const EXACT: &str = "netloom: exact";
const MAC: &str = "netloom: MAC";
const DURATION: &str = "netloom: duration";
pub(crate) const WORDS: &str = "netloom: words";

/// A name with `_` for `-`.
pub(crate) fn joined(name: &str) -> String {
    name.replace('-', "_")
}

/// What a marked value is written as; `None` for others.
pub(crate) fn text<T: Serialize + ?Sized>(mark: &str, value: &T) -> Option<Value> {
    let written: fn(&Value) -> Option<String> = match mark {
        EXACT => |value| value.as_number().map(ToString::to_string),
        MAC => mac_text,
        DURATION => duration_text,
        _ => return None,
    };
    serde_json::to_value(value).ok().map(|value| told(value, written))
}

/// Single values, and those of lists.
fn told(value: Value, written: fn(&Value) -> Option<String>) -> Value {
    match (written(&value), value) {
        (Some(text), _) => Value::String(text),
        (None, Value::Array(all)) => all.into_iter().map(|one| told(one, written)).collect(),
        (None, other) => other,
    }
}

fn mac_text(value: &Value) -> Option<String> {
    let bytes: [u8; 6] = serde_json::from_value(value.clone()).ok()?;
    Some(bytes.map(|byte| format!("{byte:02x}")).join(":"))
}

fn duration_text(value: &Value) -> Option<String> {
    let time: Duration = serde_json::from_value(value.clone()).ok()?;
    let text = format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned() + "s")
}

fn mac_of(text: &str) -> Option<[u8; 6]> {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| match part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true if part.len() == 2 => u8::from_str_radix(part, 16).ok(),
        _ => None,
    };
    let bytes: Vec<u8> = parts.iter().map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

fn duration_of(text: &str) -> Option<Duration> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_suffix('s')?;
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let fits = digits(whole) && digits(rest) && rest.len() <= 9;
    let nanos = fits.then(|| format!("{rest:0<9}").parse().ok()).flatten()?;
    Some(Duration::new(whole.parse().ok()?, nanos))
}

/// A value in one of its two forms.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Either<T> {
    Text(String),
    Plain(T),
}

fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
    expected: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let found = Either::deserialize(from);
    // serde says of an untagged enum only that nothing matched.
    let found = found.map_err(|_| D::Error::custom(format_args!("takes {expected}")))?;
    match found {
        Either::Plain(value) => Ok(value),
        Either::Text(text) => read(&text)
            .ok_or_else(|| D::Error::custom(format_args!("takes {expected}, is {text:?}"))),
    }
}

macro_rules! marks {
    ($($(#[$about:meta])* $name:ident: $type:ty, $mark:ident, |$from:ident| $read:expr;)*) => {$(
        $(#[$about])*
        pub mod $name {
            use super::*;

            /// Marks it for the writer.
            ///
            /// # Errors
            /// Those of the serializer.
            pub fn serialize<T: Serialize + ?Sized, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_newtype_struct($mark, value)
            }

            /// Reads it in both forms.
            ///
            /// # Errors
            /// Those of the deserializer, and what a text would have to be.
            pub fn deserialize<'de, D: Deserializer<'de>>($from: D) -> Result<$type, D::Error> {
                $read
            }
        }
    )*};
}

const ADDRESS: &str = "a MAC address like 02:00:00:00:00:01";

marks! {
    /// A MAC address: bytes, here `02:00:00:00:00:01`.
    mac: [u8; 6], MAC, |from| read(from, ADDRESS, mac_of);
    /// MAC addresses.
    macs: Vec<[u8; 6]>, MAC, |from| Ok(Vec::<Address>::deserialize(from)?.into_iter().map(|one| one.0).collect());
    /// A length of time: seconds and nanoseconds, here seconds like `0.01s`, with at most nine digits behind the point.
    duration: Duration, DURATION, |from| read(from, "seconds like 0.01s", duration_of);
}

#[derive(serde::Deserialize)]
struct Address(#[serde(with = "mac")] [u8; 6]);

/// A number that may pass 2^53: here its digits as text.
pub mod exact {
    use super::*;

    /// A type of number, or one that may be absent.
    pub trait Number: Sized {
        /// Reads it in both forms.
        ///
        /// # Errors
        /// It is neither a number nor its digits.
        fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
    }

    macro_rules! numbers {
        ($($type:ty)*) => {$(
            impl Number for $type {
                fn read<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                    read(from, "a whole number, or its digits as text", |text| text.parse().ok())
                }
            }

            impl Number for Option<$type> {
                fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                    #[derive(serde::Deserialize)]
                    // Only what is there has two forms; `null` is none of them.
                    struct One(#[serde(deserialize_with = "deserialize")] $type);
                    Ok(Option::<One>::deserialize(from)?.map(|one| one.0))
                }
            }
        )*};
    }
    numbers!(u64 i64);

    /// Marks it for the writer.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_newtype_struct(EXACT, value)
    }

    /// Reads it in both forms.
    ///
    /// # Errors
    /// Those of the deserializer, and what a text would have to be.
    pub fn deserialize<'de, T: Number, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::read(from)
    }
}

/// Texts that are words of ours, as values or as names in a map: with `-`, here with `_`.
pub mod words {
    use super::*;

    /// A type of such texts.
    pub trait Words: for<'de> Deserialize<'de> {
        /// With `-` again.
        #[must_use]
        fn parted(self) -> Self;
    }

    impl Words for String {
        fn parted(self) -> String {
            self.replace('_', "-")
        }
    }

    impl Words for u64 {
        fn parted(self) -> u64 {
            self
        }
    }

    impl<T: Words> Words for Option<T> {
        fn parted(self) -> Option<T> {
            self.map(T::parted)
        }
    }

    impl<T: Words> Words for Vec<T> {
        fn parted(self) -> Vec<T> {
            self.into_iter().map(T::parted).collect()
        }
    }

    impl<T: Words> Words for BTreeMap<String, T> {
        fn parted(self) -> BTreeMap<String, T> {
            self.into_iter().map(|(name, of)| (name.parted(), of.parted())).collect()
        }
    }

    /// Marks them for the writer.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Serialize, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_newtype_struct(WORDS, value)
    }

    /// Reads them in both forms.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, T: Words, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::deserialize(from).map(T::parted)
    }
}
