//! The JSON that other programs read: answers of the API, and what commands print with `--json`.
//!
//! Lab files and the state, and what a lab's processes say to each other, have names with `-`, addresses as bytes and times as
//! seconds and nanoseconds. Labs that run are read by later versions, so that stays. [`to_vec`] and the like write the same
//! values in one form:
//!
//! * names of fields and of choices have `_`; so have words in fields marked by [`words`];
//! * MAC addresses, lengths of time, and numbers that may pass 2^53 are text, where fields are marked by [`mac`],
//!   [`duration`] and [`exact`]; other whole numbers stop at [`MOST`].
//!
//! Fields so marked are read in both forms. A field whose name has `-` has the other name as its `alias`. [`read`] takes nothing
//! for known that is not: what others send, and the state, which another version may have written.

mod marks;
mod reader;
#[cfg(feature = "schema")]
pub mod schema;
mod writer;

pub use marks::{duration, exact, mac, macs, words};
pub use reader::read;
pub use writer::{MOST, to_string, to_string_pretty, to_value, to_vec};

#[cfg(test)]
mod tests;
