//! What a lab's port offers besides the answers of the lab: runs of this program, told in words that are the caller's.

use std::ffi::OsString;

/// What a lab's port offers.
#[derive(Debug, Default)]
pub struct Offer {
    /// Arguments with which this program, followed by the name of a node, becomes a shell there on its standard input. With
    /// them the page has terminals.
    pub shell: Option<Vec<OsString>>,
    /// Arguments with which this program, followed by a filter, perhaps `--own`, and `link:NAME`, writes a capture to its standard output. With
    /// them links have captures.
    pub capture: Option<Vec<OsString>>,
    /// Arguments with which this program, followed by `--` and two nodes, measures between them and writes lines of JSON to its
    /// standard output. With them nodes have measurements.
    pub measure: Option<Vec<OsString>>,
    /// Arguments of this program before `export lab`, `apply -` and `flow dump SWITCH`. With them the lab has a file, and its OpenFlow
    /// switches show their entries.
    pub file: Option<Vec<OsString>>,
    /// Only what changes nothing; no terminals then.
    pub read_only: bool,
}
