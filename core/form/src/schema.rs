//! The marked values in schemas.
//!
//! They are never made: a field names one of them as the type that its schema is derived from.

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

macro_rules! texts {
    ($($(#[$about:meta])* $name:ident: $pattern:literal, $like:literal;)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some($pattern));
                text.examples([$like]).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

texts! {
    /// A length of time, as [`duration`](crate::duration) writes it.
    Duration: r"^[0-9]+(\.[0-9]{1,9})?s$", "0.01s";
    /// An address, as [`mac`](crate::mac) writes it.
    Mac: "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$", "02:00:00:00:00:01";
    /// A number, as [`exact`](crate::exact) writes it.
    Exact: "^-?[0-9]+$", "1800000000000000000";
}
