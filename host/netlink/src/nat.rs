//! NAT and forwarding limits for a lab with an uplink through the host.
//!
//! One nftables table of family `inet` per lab, written in one transaction over netlink: packets
//! from the lab's prefixes are masqueraded on leaving; only answers reach the inside; and on a host
//! that did not forward before, nothing else is forwarded. Other programs' tables can still drop
//! what this one accepts. The caller turns forwarding on. All functions act on the calling thread's
//! network namespace. Specification: `linux/netfilter/nf_tables.h`, nft(8).

mod rule;

use ipnet::IpNet;

use crate::batch::sealed::Encode;
use crate::batch::{Batch, Purpose, Request};
use crate::decode::{Message, attributes, string};
use crate::encode::Encoder;
use crate::error::{Error, Result};
use crate::socket::Socket;
use crate::uapi::{APPEND, CREATE, DUMP, REQUEST};
use rule::{Chain, Rule, Side};

/// Prefix of the names of all tables made for labs.
pub const TABLE_PREFIX: &str = "netloom-";

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const GET_TABLE: u16 = (SUBSYSTEM << 8) | 1;
const DELETE_TABLE: u16 = (SUBSYSTEM << 8) | 2;
const NEW_CHAIN: u16 = (SUBSYSTEM << 8) | 3;
const NEW_RULE: u16 = (SUBSYSTEM << 8) | 6;
const GET_RULE: u16 = (SUBSYSTEM << 8) | 7;
const TABLE_NAME: u16 = 1;
const FAMILY_INET: u8 = 1;

/// The forwarding that a lab's table allows.
#[derive(Clone, Copy, Debug)]
pub struct NatSpec<'a> {
    /// Name of the table: [`TABLE_PREFIX`] and the lab's own.
    pub table: &'a str,
    /// Names of the interfaces toward the lab.
    pub inside: &'a [&'a str],
    /// The uplink; any interface except the inside ones if `None`.
    pub uplink: Option<&'a str>,
    /// The lab's addresses. Packets from inside with other sources are dropped.
    pub prefixes: &'a [IpNet],
    /// Whether to drop all forwarding outside the lab: right if the host did not forward before.
    /// Frames between ports of one of the host's bridges still pass, for bridges that exist when
    /// the table is made (`br_netfilter` shows their frames here, too).
    pub block_other_forwarding: bool,
    /// Prefix of the names of bridges without addresses: what passes them is neither forwarded nor masqueraded,
    /// whenever they are made. Empty for none.
    pub bridges: &'a str,
    /// Prefix of other tables' inside interface names: traffic from or to those is left to their
    /// tables. Empty for none.
    pub siblings: &'a str,
    /// Whether requests for TCP connections are held back when they come again for the first and the second time
    /// (a second and three seconds after the first by RFC 6298): right where the uplink asks the destination by itself
    /// and takes what comes again for an error. The table marks connections then, in a namespace where nobody else does;
    /// a kernel without these is [`Error::Unsupported`] ([`MARKS`]).
    pub hold_repeated: bool,
}

/// The feature that a kernel may lack: marks of connections.
pub const MARKS: &str = "marks of connections";

/// The operation of rules that use them.
const MARK: &str = "count requests by marks of connections";

/// The operation of rules for the host's own bridges, and the comment by which they are known.
const BRIDGE: &str = "let a bridge of the host go on";

/// The mark of a connection that has been asked for three times. No more are held back.
const ASKED_THRICE: u32 = 3;

/// Installs a lab's table, replacing one of the same name, atomically.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Failed`]; [`Error::Unsupported`] if the kernel has no nftables.
pub fn install(spec: &NatSpec<'_>) -> Result<()> {
    let bridges = if spec.block_other_forwarding { bridges()? } else { Vec::new() };
    let mut batch = begin(spec.table);
    let object = object(spec.table);
    // Created first, so that the removal finds a table in any case.
    for (kind, flags) in [(NEW_TABLE, CREATE), (DELETE_TABLE, 0), (NEW_TABLE, CREATE)] {
        batch.push(object.as_str(), &command(kind, flags, "install", |e| name(e, spec.table)));
    }
    for chain in [Chain::Postrouting, Chain::Forward { accept: !spec.block_other_forwarding }] {
        let body = |encoder: &mut Encoder<'_>| chain.define(encoder, spec.table);
        batch.push(object.as_str(), &command(NEW_CHAIN, CREATE, "install", body));
    }
    let mut add = |operation, chain: Chain, conditions: &dyn Fn(&mut Rule<'_, '_>)| {
        let body = |encoder: &mut Encoder<'_>| {
            Rule::write(encoder, spec.table, chain, conditions);
            if operation == BRIDGE {
                Rule::comment(encoder, BRIDGE);
            }
        };
        batch.push(object.as_str(), &command(NEW_RULE, CREATE | APPEND, operation, body));
    };
    rules(spec, &bridges, &mut add);
    commit(batch)
}

/// Whether a lab's table has all rules that [`install`] gave it.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Failed`].
pub fn is_whole(spec: &NatSpec<'_>) -> Result<bool> {
    // Without those of bridges, which are of the moment at which it was installed.
    let mut wanted = 0;
    rules(spec, &[], &mut |_, _, _| wanted += 1);
    let mut question = Vec::new();
    Encoder::message(&mut question, GET_RULE, REQUEST | DUMP, |encoder| {
        encoder.fixed(&header(0));
        name(encoder, spec.table);
    });
    let of_table = |message: &Message<'_>| {
        let parts = || attributes(message.payload.get(4..).unwrap_or_default());
        let found = string(parts().find(|(kind, _)| *kind == TABLE_NAME)?.1);
        let of_bridge = parts().any(|(kind, _)| kind == rule::USER_DATA);
        (message.kind == NEW_RULE && found == spec.table && !of_bridge).then_some(())
    };
    Ok(open()?.dump(&mut question, "nat rules", of_table)?.len() >= wanted)
}

/// Removes a table and its content; succeeds if there is none.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Failed`].
pub fn remove(table: &str) -> Result<()> {
    let mut batch = begin(table);
    batch.push_tolerant(object(table), &command(DELETE_TABLE, 0, "remove", |e| name(e, table)));
    match commit(batch) {
        // Where there is no nftables, no table can have been installed.
        Err(Error::Unsupported { .. }) => Ok(()),
        outcome => outcome,
    }
}

/// Names of all labs' tables in this namespace; none if the kernel has no nftables.
///
/// # Errors
/// [`Error::Refused`] or [`Error::Failed`].
pub fn list() -> Result<Vec<String>> {
    let mut socket = match open() {
        Err(Error::Unsupported { .. }) => return Ok(Vec::new()),
        outcome => outcome?,
    };
    let mut question = Vec::new();
    Encoder::message(&mut question, GET_TABLE, REQUEST | DUMP, |e| e.fixed(&header(0)));
    match socket.dump(&mut question, "nat tables", read_table) {
        // EINVAL: netfilter knows no such subsystem, since nf_tables is not built.
        Err(Error::Refused(refusals))
            if [libc::EINVAL, libc::EOPNOTSUPP].contains(&refusals[0].errno) =>
        {
            Ok(Vec::new())
        }
        outcome => outcome,
    }
}

/// Takes a rule with the operation that adds it.
type AddRuleBy<'a> = dyn FnMut(&'static str, Chain, &dyn Fn(&mut Rule<'_, '_>)) + 'a;

/// All rules of a lab's table, in their order.
fn rules(spec: &NatSpec<'_>, bridges: &[String], add: &mut AddRuleBy<'_>) {
    let install =
        &mut |chain, conditions: &dyn Fn(&mut Rule<'_, '_>)| add("install", chain, conditions);
    // In this order: the first rule that decides about a packet ends its way through the chain.
    bridged(spec, install);
    masquerade(spec, install);
    within(spec.inside.iter().copied(), install);
    let bridges = bridges.iter().map(String::as_str);
    within(bridges, &mut |chain, conditions| add(BRIDGE, chain, conditions));
    hold_repeated(spec, &mut |chain, conditions| add(MARK, chain, conditions));
    forward(spec, &mut |chain, conditions| add("install", chain, conditions));
}

type AddRule<'a> = dyn FnMut(Chain, &dyn Fn(&mut Rule<'_, '_>)) + 'a;

/// `br_netfilter` shows frames of bridges in both chains, as if they were packets that the bridge forwards to itself.
fn bridged(spec: &NatSpec<'_>, add: &mut AddRule<'_>) {
    if spec.bridges.is_empty() {
        return;
    }
    add(Chain::Postrouting, &|rule| {
        rule.interface_begins(Side::Output, spec.bridges);
        rule.accept();
    });
    add(Chain::FORWARD, &|rule| {
        rule.interface_begins(Side::Input, spec.bridges);
        rule.interface_begins(Side::Output, spec.bridges);
        rule.accept();
    });
}

/// The lab's outgoing packets take the address of their egress interface.
fn masquerade(spec: &NatSpec<'_>, add: &mut AddRule<'_>) {
    for prefix in spec.prefixes {
        add(Chain::Postrouting, &|rule| {
            rule.source_in(*prefix);
            outwards(rule, spec);
            rule.masquerade();
        });
    }
}

/// Packets that stay on one interface are bridged, not forwarded.
fn within<'a>(interfaces: impl Iterator<Item = &'a str>, add: &mut AddRule<'_>) {
    for name in interfaces {
        add(Chain::FORWARD, &|rule| {
            rule.interface(Side::Input, name, true);
            rule.interface(Side::Output, name, true);
            rule.accept();
        });
    }
}

/// A sender that has no answer asks again, whether its packet was lost or the answer takes its time. A connection's mark
/// is how often it was asked for: the kernel's own count leaves what comes again out in some versions.
fn hold_repeated(spec: &NatSpec<'_>, add: &mut AddRule<'_>) {
    // The highest first: a packet counts once.
    for asked in (0..ASKED_THRICE).rev().filter(|_| spec.hold_repeated) {
        add(Chain::FORWARD, &|rule| {
            outwards(rule, spec);
            rule.asks_for_connection();
            rule.is_marked(asked);
            rule.mark(asked + 1);
            if asked > 0 {
                rule.drop();
            }
        });
    }
}

/// Out with the lab's own sources, in with answers; nothing else passes the inside.
fn forward(spec: &NatSpec<'_>, add: &mut AddRule<'_>) {
    for inside in spec.inside {
        for prefix in spec.prefixes {
            add(Chain::FORWARD, &|rule| {
                rule.interface(Side::Input, inside, true);
                rule.source_in(*prefix);
                outwards(rule, spec);
                rule.accept();
            });
        }
        add(Chain::FORWARD, &|rule| {
            rule.interface(Side::Output, inside, true);
            rule.answers();
            rule.accept();
        });
    }
    // After all accepting rules: the rest of the lab's traffic goes, whatever the policy.
    for inside in spec.inside {
        for side in [Side::Input, Side::Output] {
            add(Chain::FORWARD, &|rule| {
                rule.interface(side, inside, true);
                rule.drop();
            });
        }
    }
    for side in [Side::Input, Side::Output].into_iter().filter(|_| !spec.siblings.is_empty()) {
        add(Chain::FORWARD, &|rule| {
            rule.interface_begins(side, spec.siblings);
            rule.accept();
        });
    }
}

fn bridges() -> Result<Vec<String>> {
    let mut links = Socket::open()?.links()?;
    links.retain(|link| link.kind.as_deref() == Some("bridge"));
    Ok(links.into_iter().map(|link| link.name).collect())
}

fn outwards(rule: &mut Rule<'_, '_>, spec: &NatSpec<'_>) {
    match spec.uplink {
        Some(uplink) => rule.interface(Side::Output, uplink, true),
        None => spec.inside.iter().for_each(|name| rule.interface(Side::Output, name, false)),
    }
}

fn begin(table: &str) -> Batch {
    let mut batch = Batch::new();
    batch.push(
        object(table),
        &Command { subsystem: SUBSYSTEM, ..command(BATCH_BEGIN, 0, "begin", |_| ()) },
    );
    batch
}

/// Sends the transaction as one message: the kernel applies all of it or nothing.
fn commit(mut batch: Batch) -> Result<()> {
    let end = Command { subsystem: SUBSYSTEM, ..command(BATCH_END, 0, "commit", |_| ()) };
    batch.push("nat transaction", &end);
    match open()?.run_transaction(&mut batch) {
        // A batch of an unknown subsystem is refused as a whole, at its opening.
        Err(Error::Refused(refusals))
            if refusals[0].operation == "begin" && refusals[0].errno == libc::EOPNOTSUPP =>
        {
            Err(unsupported(libc::EOPNOTSUPP))
        }
        Err(Error::Refused(refusals)) if refusals[0].operation == MARK => {
            let source = std::io::Error::from_raw_os_error(refusals[0].errno);
            Err(Error::unsupported(MARKS, &source, "a kernel with CONFIG_NF_CONNTRACK_MARK"))
        }
        outcome => outcome,
    }
}

fn open() -> Result<Socket> {
    match Socket::open_netfilter() {
        // There is no netfilter over netlink at all.
        Err(Error::Failed(failure)) if failure.raw_os_error() == Some(libc::EPROTONOSUPPORT) => {
            Err(unsupported(libc::EPROTONOSUPPORT))
        }
        outcome => outcome,
    }
}

fn unsupported(errno: i32) -> Error {
    let source = std::io::Error::from_raw_os_error(errno);
    Error::unsupported("nat", &source, "a kernel with nftables (CONFIG_NF_TABLES)")
}

fn object(table: &str) -> String {
    format!("nat table {table:?}")
}

fn name(encoder: &mut Encoder<'_>, table: &str) {
    encoder.string(TABLE_NAME, table);
}

fn read_table(message: &Message<'_>) -> Option<String> {
    let mut parts = attributes(message.payload.get(4..)?);
    let name = string(parts.find(|(kind, _)| *kind == TABLE_NAME)?.1);
    (message.kind == NEW_TABLE && name.starts_with(TABLE_PREFIX)).then_some(name)
}

/// `struct nfgenmsg`: family, version, resource (big-endian).
fn header(subsystem: u16) -> [u8; 4] {
    let [high, low] = subsystem.to_be_bytes();
    // The brackets of a batch have no family; their two last bytes name the subsystem.
    [if subsystem == 0 { FAMILY_INET } else { 0 }, 0, high, low]
}

/// One message of a transaction.
struct Command<F> {
    kind: u16,
    flags: u16,
    subsystem: u16,
    operation: &'static str,
    body: F,
}

fn command<F>(kind: u16, flags: u16, operation: &'static str, body: F) -> Command<F>
where
    F: Fn(&mut Encoder<'_>),
{
    Command { kind, flags, subsystem: 0, operation, body }
}

impl<F: Fn(&mut Encoder<'_>)> Encode for Command<F> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, self.kind, REQUEST | self.flags, |encoder| {
            encoder.fixed(&header(self.subsystem));
            (self.body)(encoder);
        });
    }
}

impl<F: Fn(&mut Encoder<'_>)> Request for Command<F> {
    fn operation(&self) -> &'static str {
        self.operation
    }
    fn purpose(&self) -> Purpose {
        if self.kind == DELETE_TABLE { Purpose::Touch } else { Purpose::Create }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::integration::fresh::with_netns;

    /// The kernel refuses a key of connections that it was not built with as it refuses one that there is not
    /// (`nft_ct_get_init`).
    #[test]
    fn a_kernel_without_marks_says_so() {
        with_netns(&a_kernel_without_marks_says_so, |[space]| {
            space.run(|| {
                let Err(Error::Unsupported(lacks)) = load_unknown() else { panic!() };
                assert_eq!(lacks.feature, MARKS);
                assert!(lacks.needs.contains("CONFIG_NF_CONNTRACK_MARK"), "{}", lacks.needs);
                assert!(list().unwrap().is_empty(), "all of it or nothing");
            });
        });
    }

    /// A table with a rule of those that use marks, which asks for something that no kernel knows.
    fn load_unknown() -> Result<()> {
        let table = "netloom-marks";
        let mut batch = begin(table);
        let object = object(table);
        let made = |e: &mut Encoder<'_>| name(e, table);
        batch.push(object.as_str(), &command(NEW_TABLE, CREATE, "install", made));
        let chain = |e: &mut Encoder<'_>| Chain::FORWARD.define(e, table);
        batch.push(object.as_str(), &command(NEW_CHAIN, CREATE, "install", chain));
        let rule = |e: &mut Encoder<'_>| {
            let unknown = |rule: &mut Rule<'_, '_>| rule.knows(0xffff);
            Rule::write(e, table, Chain::FORWARD, &unknown);
        };
        batch.push(object.as_str(), &command(NEW_RULE, CREATE | APPEND, MARK, rule));
        commit(batch)
    }
}
