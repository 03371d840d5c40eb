//! The nftables rules of a network namespace, as the kernel's own messages: nothing is changed.
//!
//! [`dump`] asks for tables, chains, rules, sets and their elements in this order and passes each message's payload on
//! undecoded. All functions act on the calling thread's network namespace. Specification:
//! `linux/netfilter/nf_tables.h`, nfnetlink.

use crate::decode::Message;
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::socket::Socket;
use crate::uapi::{DUMP, REQUEST};

const SUBSYSTEM: u16 = 10;
/// Numbers of `NFT_MSG_NEW…`; that of `NFT_MSG_GET…` is one more.
const TABLE: u16 = 0;
const CHAIN: u16 = 3;
const RULE: u16 = 6;
const SET: u16 = 9;
const ELEMENTS: u16 = 12;

/// What a message describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A table.
    Table,
    /// A chain.
    Chain,
    /// A rule.
    Rule,
    /// A set without its elements.
    Set,
    /// Elements of a set.
    Elements,
}

/// Takes messages, and names the sets that it has been told of.
pub trait Reader {
    /// A message's payload: `struct nfgenmsg` and attributes.
    fn take(&mut self, part: Part, payload: &[u8]);

    /// Sets whose elements are wanted: family, table, name.
    fn sets(&self) -> Vec<(u8, String, String)>;
}

/// Reads all rules. A kernel without nftables has none.
///
/// # Errors
/// [`Error::Refused`], [`Error::Failed`]; [`Error::Changing`] if a table changed in every attempt.
pub fn dump(reader: &mut dyn Reader) -> Result<()> {
    let mut socket = match Socket::open_netfilter() {
        Err(Error::Failed(failure)) if failure.raw_os_error() == Some(libc::EPROTONOSUPPORT) => {
            return Ok(());
        }
        opened => opened?,
    };
    for (part, kind) in
        [(Part::Table, TABLE), (Part::Chain, CHAIN), (Part::Rule, RULE), (Part::Set, SET)]
    {
        match list(&mut socket, kind, 0, &[]) {
            // Netfilter knows no such subsystem, since nf_tables is not built.
            Err(Error::Refused(refusals))
                if [libc::EINVAL, libc::EOPNOTSUPP].contains(&refusals[0].errno) =>
            {
                return Ok(());
            }
            found => found?.iter().for_each(|payload| reader.take(part, payload)),
        }
    }
    for (family, table, set) in reader.sets() {
        match list(&mut socket, ELEMENTS, family, &[(1, &table), (2, &set)]) {
            // A set that went meanwhile.
            Err(Error::Refused(refusals)) if refusals[0].errno == libc::ENOENT => {}
            found => found?.iter().for_each(|payload| reader.take(Part::Elements, payload)),
        }
    }
    Ok(())
}

fn list(socket: &mut Socket, kind: u16, family: u8, names: &[(u16, &str)]) -> Result<Vec<Vec<u8>>> {
    let mut question = Vec::with_capacity(64);
    Encoder::message(&mut question, SUBSYSTEM << 8 | (kind + 1), REQUEST | DUMP, |encoder| {
        encoder.fixed(&[family, 0, 0, 0]);
        names.iter().for_each(|(attribute, name)| encoder.string(*attribute, name));
    });
    let payload = |message: &Message<'_>| {
        (message.kind == SUBSYSTEM << 8 | kind).then(|| message.payload.to_vec())
    };
    socket.dump(&mut question, "nftables rules", payload)
}
