//! Writes values in the form of the crate: a serializer before that of `serde_json`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::{Result, Value};

use crate::marks;

/// The largest whole number: above it, floating point lacks some.
pub const MOST: u64 = (1 << 53) - 1;

/// A value as bytes of JSON.
///
/// # Errors
/// Its own, and those of maps whose keys are not text.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(&Told::of(value))
}

/// A value as JSON in one line.
///
/// # Errors
/// As [`to_vec`].
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(&Told::of(value))
}

/// A value as JSON over several lines.
///
/// # Errors
/// As [`to_vec`].
pub fn to_string_pretty<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string_pretty(&Told::of(value))
}

/// A value as a part of others.
///
/// # Errors
/// As [`to_vec`].
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value> {
    serde_json::to_value(Told::of(value))
}

/// A value that is written in the form.
struct Told<'a, T: ?Sized> {
    value: &'a T,
    /// Whether its texts are words of ours.
    words: bool,
}

impl<'a, T: ?Sized> Told<'a, T> {
    fn of(value: &'a T) -> Told<'a, T> {
        Told { value, words: false }
    }
}

impl<T: Serialize + ?Sized> Serialize for Told<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        self.value.serialize(Form { to, words: self.words, named: false })
    }
}

/// A name as it is written. Serializers take names that live for ever; there are as many as types have.
fn own(name: &'static str) -> &'static str {
    static KNOWN: Mutex<BTreeMap<&str, &str>> = Mutex::new(BTreeMap::new());
    if !name.contains('-') {
        return name;
    }
    // A name is put in whole or not at all, so a panic leaves nothing half done.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(name).or_insert_with(|| Box::leak(marks::joined(name).into_boxed_str()))
}

/// A serializer, or what one has begun.
struct Form<S> {
    to: S,
    words: bool,
    /// Whether the keys of this map are names of ours.
    named: bool,
}

impl<S> Form<S> {
    fn told<'a, T: ?Sized>(&self, value: &'a T) -> Told<'a, T> {
        Told { value, words: self.words }
    }
}

macro_rules! passed_on {
    ($($method:ident($type:ty);)*) => {
        $(fn $method(self, value: $type) -> Written<S> {
            self.to.$method(value)
        })*
    };
}

macro_rules! begun {
    ($($method:ident($($name:ident: $type:ty),*) -> $kind:ident;)*) => {
        $(fn $method(self, $($name: $type),*) -> Begun<S, S::$kind> {
            Ok(Form { to: self.to.$method($($name),*)?, words: self.words, named: false })
        })*
    };
}

macro_rules! begun_by_name {
    ($($method:ident -> $kind:ident;)*) => {
        $(fn $method(self, kind: &'static str, at: u32, name: &'static str, len: usize) -> Begun<S, S::$kind> {
            Ok(Form { to: self.to.$method(kind, at, own(name), len)?, words: self.words, named: false })
        })*
    };
}

type Written<S> = std::result::Result<<S as Serializer>::Ok, <S as Serializer>::Error>;
type Begun<S, B> = std::result::Result<Form<B>, <S as Serializer>::Error>;

impl<S: Serializer> Serializer for Form<S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Form<S::SerializeSeq>;
    type SerializeTuple = Form<S::SerializeTuple>;
    type SerializeTupleStruct = Form<S::SerializeTupleStruct>;
    type SerializeTupleVariant = Form<S::SerializeTupleVariant>;
    type SerializeMap = Form<S::SerializeMap>;
    type SerializeStruct = Form<S::SerializeStruct>;
    type SerializeStructVariant = Form<S::SerializeStructVariant>;

    passed_on! {
        serialize_bool(bool); serialize_i8(i8); serialize_i16(i16); serialize_i32(i32); serialize_u8(u8);
        serialize_u16(u16); serialize_u32(u32); serialize_f32(f32); serialize_f64(f64); serialize_char(char);
        serialize_bytes(&[u8]); serialize_unit_struct(&'static str);
    }

    fn serialize_u64(self, value: u64) -> Written<S> {
        self.to.serialize_u64(value.min(MOST))
    }

    fn serialize_i64(self, value: i64) -> Written<S> {
        let most = MOST.cast_signed();
        self.to.serialize_i64(value.clamp(-most, most))
    }

    fn serialize_str(self, value: &str) -> Written<S> {
        match self.words {
            true => self.to.serialize_str(&marks::joined(value)),
            false => self.to.serialize_str(value),
        }
    }

    fn serialize_none(self) -> Written<S> {
        self.to.serialize_none()
    }

    fn serialize_unit(self) -> Written<S> {
        self.to.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written<S> {
        let told = self.told(value);
        self.to.serialize_some(&told)
    }

    fn serialize_unit_variant(self, kind: &'static str, at: u32, name: &'static str) -> Written<S> {
        self.to.serialize_unit_variant(kind, at, own(name))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        kind: &'static str,
        value: &T,
    ) -> Written<S> {
        if kind == marks::WORDS {
            return Told { value, words: true }.serialize(self.to);
        }
        match marks::text(kind, value) {
            Some(text) => text.serialize(self.to),
            None => {
                let told = self.told(value);
                self.to.serialize_newtype_struct(kind, &told)
            }
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        kind: &'static str,
        at: u32,
        name: &'static str,
        value: &T,
    ) -> Written<S> {
        let told = self.told(value);
        self.to.serialize_newtype_variant(kind, at, own(name), &told)
    }

    begun! {
        serialize_seq(len: Option<usize>) -> SerializeSeq;
        serialize_tuple(len: usize) -> SerializeTuple;
        serialize_tuple_struct(kind: &'static str, len: usize) -> SerializeTupleStruct;
        serialize_struct(kind: &'static str, len: usize) -> SerializeStruct;
    }

    begun_by_name! {
        serialize_tuple_variant -> SerializeTupleVariant;
        serialize_struct_variant -> SerializeStructVariant;
    }

    /// A struct that others are flattened into is a map, too: of a length that serde does not say.
    fn serialize_map(self, len: Option<usize>) -> Begun<S, S::SerializeMap> {
        let named = self.words || len.is_none();
        Ok(Form { to: self.to.serialize_map(len)?, words: self.words, named })
    }

    fn is_human_readable(&self) -> bool {
        self.to.is_human_readable()
    }
}

macro_rules! parts {
    ($($of:ident::$method:ident($($name:ident: $type:ty => $own:expr)?);)*) => {
        $(impl<S: $of> $of for Form<S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(
                &mut self, $($name: $type,)? value: &T,
            ) -> std::result::Result<(), S::Error> {
                let told = self.told(value);
                self.to.$method($($own,)? &told)
            }

            fn end(self) -> std::result::Result<S::Ok, S::Error> {
                self.to.end()
            }
        })*
    };
}

parts! {
    SerializeSeq::serialize_element();
    SerializeTuple::serialize_element();
    SerializeTupleStruct::serialize_field();
    SerializeTupleVariant::serialize_field();
    SerializeStruct::serialize_field(name: &'static str => own(name));
    SerializeStructVariant::serialize_field(name: &'static str => own(name));
}

impl<S: SerializeMap> SerializeMap for Form<S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(
        &mut self,
        key: &T,
    ) -> std::result::Result<(), S::Error> {
        self.to.serialize_key(&Told { value: key, words: self.named })
    }

    fn serialize_value<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
    ) -> std::result::Result<(), S::Error> {
        let told = self.told(value);
        self.to.serialize_value(&told)
    }

    fn end(self) -> std::result::Result<S::Ok, S::Error> {
        self.to.end()
    }
}
