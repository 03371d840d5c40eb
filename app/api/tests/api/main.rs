//! The served lab as other processes see it: every route, measurements, hostile callers, entries, start and end.

#![forbid(unsafe_code)]

mod calls;
mod changes;
mod crowds;
mod document;
mod entries;
mod fake;
mod fuzzed;
mod hostile;
mod http;
mod lifetime;
mod page;
mod pnpm;
mod rights;
mod shape;
mod streams;
mod strict;
