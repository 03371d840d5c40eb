//! The Language Server Protocol on standard input and output: lab files in editors.
//!
//! What is said about a file are the words of `netloom check` ([`diagnostics`]); what may be written comes from the tables of
//! keys that parser, schema and manual use ([`completion`], [`hover`]). Only what the client has opened is looked at: the server
//! reads no lab file from disk, and changes none.
//!
//! A thread reads messages; the main one answers in their order, and checks what has changed when no message waits. Input is bounded:
//! messages ([`framing`]), texts ([`document`]), what the parser does with them. Types are those of [`lsp_types`].
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as netloom_lsp;

mod actions;
mod completion;
mod diagnostics;
mod document;
mod error;
mod framing;
mod hover;
mod names;
mod position;
mod rename;
mod server;

#[cfg(test)]
#[path = "../tests/all.rs"]
mod integration;

use std::io::{self, BufRead, BufReader, Write};

pub use error::{Error, Result};
use netloom_model::Plan;

/// What a compiler of filter expressions says of those of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiled {
    /// They are good.
    Good,
    /// One is not, in words.
    Wrong(String),
    /// They cannot be compiled here, in words.
    Not(String),
}

/// Compiles the expressions of `drop` of a plan: libpcap, which `netloom check` asks, too.
pub type Compiler = fn(&Plan) -> Compiled;

/// Serves a client until it ends the server or closes its input; the exit code.
///
/// # Errors
/// What the client sends has no form of messages, or it takes no more answers.
pub fn serve(compiler: Compiler) -> Result<i32> {
    serve_on(BufReader::new(io::stdin()), &mut io::stdout().lock(), compiler)
}

/// The same for a client that is heard and answered elsewhere.
///
/// # Errors
/// As of [`serve`].
pub fn serve_on(
    input: impl BufRead + Send + 'static,
    out: &mut impl Write,
    compiler: Compiler,
) -> Result<i32> {
    server::serve(input, out, compiler)
}
