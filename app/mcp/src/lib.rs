//! The Model Context Protocol on standard input and output: tools, resources and prompts for agents.
//!
//! A tool is either a call to a running lab, made from its row in [`netloom_lab::calls`] with the schema of the API's
//! document, or a verb of the command line that no running lab answers (`up`, `exec`, `capture`). Calls that remove something
//! answer their plan first and want its word of confirmation back ([`confirming`]). Answers are short ([`answer`]): a
//! summary, a page of a list, an object without what is empty. Whatever comes from a lab is data, is bounded, and has no
//! character that hides or turns others.
//!
//! The protocol itself is [`rmcp`]'s. Calls block, so each runs on a thread of its own.
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod asking;
mod confirming;
mod error;
mod offered;
mod program;
mod prompts;
mod resources;
mod server;
mod verbs;

use std::path::PathBuf;

use arguments::Arguments;
pub use error::{Error, Result};
pub use server::serve;

/// How labs are reached, and what an agent may do.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The netloom program, for verbs.
    pub program: PathBuf,
    /// Connects to the named lab, or to the only running one; an error in words.
    pub connect: fn(Option<&str>) -> std::result::Result<netloom_api::Client, String>,
    /// The only lab that may be reached; any if absent.
    pub lab: Option<String>,
    /// Whether only tools that change nothing are offered.
    pub read_only: bool,
}

impl Scope {
    /// The lab that a tool's arguments mean: the only one that may be reached, or the one they name.
    fn lab<'a>(&'a self, arguments: &'a Arguments) -> Result<Option<&'a str>> {
        self.lab.as_deref().map_or_else(|| arguments.text("lab"), |lab| Ok(Some(lab)))
    }
}
