//! What a network namespace was given, as the kernel's own messages, to be put into another one that has the same interfaces.
//!
//! [`Snapshot::read`] keeps interfaces (whether they are up, MTU, hardware address), addresses, routes, rules of routing, fixed
//! neighbours, root queueing disciplines and the rules of nftables. What the kernel made of itself, what routing daemons learnt,
//! counters and ages are left out. Putting it compares with what is there: nothing that is the same is touched. All functions act on the
//! calling thread's network namespace. Specification: rtnetlink(7), `linux/netfilter/nf_tables.h`.

mod rules;

use crate::batch::sealed::Encode;
use crate::batch::{Batch, Purpose, Request};
use crate::decode::{Message, attributes, string, u16_at, u32_at};
use crate::encode::Encoder;
use crate::error::{Error, Refusal, Result};
use crate::socket::Socket;
use crate::uapi::{
    AF_INET, AF_INET6, CREATE, DUMP, IFA_FLAGS, IFF_NOARP, IFF_UP, IFLA_ADDRESS, IFLA_IFNAME,
    IFLA_MTU, REPLACE, REQUEST, RTA_GATEWAY, RTA_MULTIPATH, RTA_VIA, RTM_DELADDR, RTM_DELNEIGH,
    RTM_DELQDISC, RTM_DELROUTE, RTM_GETADDR, RTM_GETLINK, RTM_GETQDISC, RTM_GETROUTE, RTM_NEWADDR,
    RTM_NEWLINK, RTM_NEWNEIGH, RTM_NEWQDISC, RTM_NEWROUTE, TC_H_ROOT, TCA_KIND,
};

const RTM_GETNEIGH: u16 = 30;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
const ARPHRD_LOOPBACK: u16 = 772;
const IFA_F_NODAD: u32 = 0x02;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const RT_SCOPE_LINK: u8 = 253;
const RTM_F_CLONED: u32 = 0x200;
const RTNH_F_ONLINK: u8 = 4;
const FIB_RULE_INVERT: u32 = 2;
const NUD_PERMANENT: u16 = 0x80;
const TCA_OPTIONS: u16 = 2;

/// A table of rtnetlink: how it is read, compared and changed.
struct Table {
    /// In words.
    name: &'static str,
    list: u16,
    create: u16,
    delete: u16,
    /// Length of the fixed part.
    fixed: usize,
    /// What is kept of a message; `None` of what is left out.
    keep: fn(&[u8]) -> Option<Vec<u8>>,
}

/// In the order in which they are put: each may need what is before it.
const TABLES: [Table; 4] = [
    Table {
        name: "address",
        list: RTM_GETADDR,
        create: RTM_NEWADDR,
        delete: RTM_DELADDR,
        fixed: 8,
        keep: address,
    },
    Table {
        name: "route",
        list: RTM_GETROUTE,
        create: RTM_NEWROUTE,
        delete: RTM_DELROUTE,
        fixed: 12,
        keep: route,
    },
    Table {
        name: "rule of routing",
        list: RTM_GETRULE,
        create: RTM_NEWRULE,
        delete: RTM_DELRULE,
        fixed: 12,
        keep: rule,
    },
    Table {
        name: "neighbour",
        list: RTM_GETNEIGH,
        create: RTM_NEWNEIGH,
        delete: RTM_DELNEIGH,
        fixed: 12,
        keep: neighbour,
    },
];

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    index: u32,
    name: String,
    flags: u32,
    /// The attributes that are put: its MTU and hardware address.
    settings: Vec<u8>,
}

/// What a network namespace was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Messages without their headers, each with the number of its kind, of rtnetlink or of nftables.
    pub messages: Vec<(u16, Vec<u8>)>,
}

impl Snapshot {
    /// Reads the namespace.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Failed`], [`Error::Changing`].
    pub fn read() -> Result<Snapshot> {
        let mut socket = Socket::open_to_ask()?;
        let mut messages = interfaces(&mut socket)?;
        for table in &TABLES {
            messages.extend(table.read(&mut socket)?);
        }
        messages.extend(disciplines(&mut socket)?);
        messages.extend(rules::read()?);
        Ok(Snapshot { messages })
    }

    fn of_kind(&self, kind: u16) -> impl Iterator<Item = &Vec<u8>> {
        self.messages.iter().filter(move |(found, _)| *found == kind).map(|(_, payload)| payload)
    }

    /// Sets interfaces as they were there, and tells in words what cannot be put.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn put_interfaces(&self) -> Result<Vec<String>> {
        let mut socket = Socket::open_to_ask()?;
        let all = interfaces(&mut socket)?;
        let here: Vec<Interface> = all.iter().filter_map(|(_, p)| interface(p)).collect();
        let there: Vec<Interface> =
            self.of_kind(RTM_NEWLINK).filter_map(|p| interface(p)).collect();
        let mut notes = Vec::new();
        for own in &here {
            if there.iter().all(|other| other.name != own.name) {
                notes.push(format!("interface {} is not there, and here it is", own.name));
            }
        }
        for other in &there {
            match here.iter().find(|own| own.name == other.name) {
                None => notes
                    .push(format!("interface {}, which the lab's file does not have", other.name)),
                Some(own) if own == other => {}
                Some(own) => {
                    let change = put(
                        RTM_NEWLINK,
                        0,
                        [&link_header(own.index, other.flags)[..], &other.settings].concat(),
                    );
                    notes.extend(refused(
                        &mut socket,
                        &format!("interface {}", own.name),
                        &change,
                    )?);
                }
            }
        }
        Ok(notes)
    }

    /// Puts everything else, and tells in words what cannot be put.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn put_rest(&self) -> Result<Vec<String>> {
        let mut socket = Socket::open_to_ask()?;
        let mut notes = Vec::new();
        for table in &TABLES {
            let here = table.read(&mut socket)?;
            let mut wanted: Vec<&Vec<u8>> = self.of_kind(table.create).collect();
            for (_, found) in here.iter().filter(|(_, found)| !wanted.contains(&found)) {
                let change = put(table.delete, 0, found.clone());
                notes.extend(refused(&mut socket, table.name, &change)?);
            }
            // What others lead over comes first.
            wanted.sort_by_key(|payload| leads_over(table, payload));
            for missing in wanted.iter().filter(|w| here.iter().all(|(_, found)| found != **w)) {
                let change = put(table.create, CREATE, (**missing).clone());
                notes.extend(refused(&mut socket, table.name, &change)?);
            }
        }
        notes.extend(self.put_disciplines(&mut socket)?);
        notes.extend(rules::put_all(&self.messages)?);
        Ok(notes)
    }

    fn put_disciplines(&self, socket: &mut Socket) -> Result<Vec<String>> {
        let here = disciplines(socket)?;
        let mut notes = Vec::new();
        for (_, found) in
            here.iter().filter(|(_, found)| self.of_kind(RTM_NEWQDISC).all(|w| w != found))
        {
            let change = put(RTM_DELQDISC, 0, found.get(..20).unwrap_or_default().to_vec());
            notes.extend(refused(socket, "queueing discipline", &change)?);
        }
        for missing in self.of_kind(RTM_NEWQDISC).filter(|w| here.iter().all(|(_, f)| f != *w)) {
            let change = put(RTM_NEWQDISC, CREATE | REPLACE, missing.clone());
            notes.extend(refused(socket, "queueing discipline", &change)?);
        }
        Ok(notes)
    }
}

impl Table {
    fn read(&self, socket: &mut Socket) -> Result<Vec<(u16, Vec<u8>)>> {
        list(socket, self.list, self.fixed, self.create, &self.keep)
    }
}

/// One change with everything in it.
struct Put {
    kind: u16,
    flags: u16,
    payload: Vec<u8>,
}

fn put(kind: u16, flags: u16, payload: Vec<u8>) -> Put {
    Put { kind, flags, payload }
}

impl Encode for Put {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, self.kind, REQUEST | self.flags, |encoder| {
            encoder.fixed(&self.payload);
        });
    }
}

impl Request for Put {
    fn operation(&self) -> &'static str {
        if self.flags & CREATE == 0 { "change" } else { "create" }
    }
    fn purpose(&self) -> Purpose {
        if self.flags & CREATE == 0 { Purpose::Touch } else { Purpose::Create }
    }
}

/// Makes a change; what is refused, in words. Others go on.
fn refused(socket: &mut Socket, object: &str, change: &Put) -> Result<Vec<String>> {
    let mut batch = Batch::new();
    batch.push_tolerant(object, change);
    match socket.run(&mut batch) {
        Ok(()) => Ok(vec![]),
        Err(Error::Refused(all)) => Ok(all.iter().map(Refusal::to_string).collect()),
        Err(error) => Err(error),
    }
}

fn list(
    socket: &mut Socket,
    question: u16,
    fixed: usize,
    kind: u16,
    keep: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Vec<(u16, Vec<u8>)>> {
    let mut asked = Vec::with_capacity(64);
    Encoder::message(&mut asked, question, REQUEST | DUMP, |encoder| {
        encoder.fixed(&[0; 20][..fixed]);
    });
    let read = |message: &Message<'_>| {
        (message.kind == kind).then(|| keep(message.payload)).flatten().map(|kept| (kind, kept))
    };
    socket.dump(&mut asked, "what a network has", read)
}

/// The attributes after a fixed part, as they are, without those that `drop` names.
fn without(payload: &[u8], fixed: usize, drop: &[u16]) -> Vec<u8> {
    let mut rest = payload.get(fixed..).unwrap_or_default();
    let mut kept = Vec::with_capacity(rest.len());
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let Some(whole) = rest.get(..length).filter(|whole| whole.len() >= 4) else { break };
        if !drop.contains(&(kind & 0x3fff)) {
            kept.extend_from_slice(whole);
            kept.resize(kept.len().next_multiple_of(4), 0);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    kept
}

/// All interfaces, with the attributes that are compared.
fn interfaces(socket: &mut Socket) -> Result<Vec<(u16, Vec<u8>)>> {
    list(socket, RTM_GETLINK, 16, RTM_NEWLINK, &|payload| {
        let all = attributes(payload.get(16..)?).map(|(kind, _)| kind);
        let others: Vec<u16> =
            all.filter(|kind| ![IFLA_IFNAME, IFLA_MTU, IFLA_ADDRESS].contains(kind)).collect();
        Some([payload.get(..16)?, &without(payload, 16, &others)].concat())
    })
}

/// `struct ifinfomsg`, with a mask of the flags that are set.
fn link_header(index: u32, flags: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&(IFF_UP | IFF_NOARP).to_ne_bytes());
    header
}

fn interface(payload: &[u8]) -> Option<Interface> {
    let name = attributes(payload.get(16..)?).find(|(kind, _)| *kind == IFLA_IFNAME)?.1;
    let is_loopback = u16_at(payload, 2) == Some(ARPHRD_LOOPBACK);
    let left = if is_loopback { &[IFLA_IFNAME, IFLA_ADDRESS][..] } else { &[IFLA_IFNAME] };
    let settings = without(payload, 16, left);
    let flags = u32_at(payload, 8)? & (IFF_UP | IFF_NOARP);
    Some(Interface { index: u32_at(payload, 4)?, name: string(name), flags, settings })
}

/// `struct ifaddrmsg`. An address that was there is not asked for again.
fn address(payload: &[u8]) -> Option<Vec<u8>> {
    const IFA_CACHEINFO: u16 = 6;
    let mut kept = payload.get(..8)?.to_vec();
    let six = kept[0] == AF_INET6;
    // The kernel makes those of IPv6 that are of the link alone.
    if six && kept[3] == RT_SCOPE_LINK {
        return None;
    }
    let flags = attributes(payload.get(8..)?).find(|(kind, _)| *kind == IFA_FLAGS);
    let flags = flags.and_then(|(_, value)| u32_at(value, 0)).unwrap_or(u32::from(kept[2]));
    let flags = flags & IFA_F_NOPREFIXROUTE | if six { IFA_F_NODAD } else { 0 };
    kept[2] = 0;
    kept.extend(without(payload, 8, &[IFA_CACHEINFO, IFA_FLAGS]));
    kept.extend([8, 0]);
    kept.extend(IFA_FLAGS.to_ne_bytes());
    kept.extend(flags.to_ne_bytes());
    Some(kept)
}

/// `struct rtmsg`. Protocols from 8 on are of daemons, which learn in a copy what they learnt, but for DHCP's.
fn route(payload: &[u8]) -> Option<Vec<u8>> {
    const RTPROT_DHCP: u8 = 16;
    const RTN_LOCAL: u8 = 2;
    const RTN_BROADCAST_TO_MULTICAST: std::ops::RangeInclusive<u8> = 3..=5;
    // RTA_CACHEINFO, RTA_EXPIRES, RTA_NH_ID: the kernel resolves that to what it stands for.
    const LEFT: [u16; 3] = [12, 23, 30];
    let mut kept = payload.get(..12)?.to_vec();
    let (protocol, kind, by_kernel) = (kept[5], kept[7], kept[5] == 2);
    let cloned = u32_at(payload, 8)? & RTM_F_CLONED != 0;
    let learnt = protocol > 7 && protocol != RTPROT_DHCP;
    let own = by_kernel && (kind == RTN_LOCAL || RTN_BROADCAST_TO_MULTICAST.contains(&kind));
    if ![AF_INET, AF_INET6].contains(&kept[0]) || cloned || learnt || own || of_link(payload) {
        return None;
    }
    let flags = u32_at(payload, 8)? & u32::from(RTNH_F_ONLINK);
    kept[8..12].copy_from_slice(&flags.to_ne_bytes());
    let mut rest = without(payload, 12, &LEFT);
    mask_hops(&mut rest);
    kept.extend(rest);
    Some(kept)
}

/// Routes of IPv6 that each interface has from the kernel: `fe80::/64`, `ff00::/8`.
fn of_link(payload: &[u8]) -> bool {
    const RTA_DST: u16 = 1;
    let to = attributes(payload.get(12..).unwrap_or_default()).find(|(kind, _)| *kind == RTA_DST);
    let first = to.and_then(|(_, value)| u16_at(value, 0)).map(u16::from_be);
    payload.first() == Some(&AF_INET6) && matches!(first, Some(0xfe80 | 0xff00))
}

/// Clears what the kernel notes of each next hop, such as that its link is down.
fn mask_hops(attributes: &mut [u8]) {
    let mut at = 0;
    while let Some(length) = u16_at(attributes, at).map(usize::from).filter(|length| *length >= 4) {
        if u16_at(attributes, at + 2).map(|kind| kind & 0x3fff) == Some(RTA_MULTIPATH) {
            let (mut hop, end) = (at + 4, at + length);
            while let Some(length) = u16_at(attributes, hop).map(usize::from) {
                if hop + 8 > end || length < 8 {
                    break;
                }
                attributes[hop + 2] &= RTNH_F_ONLINK;
                hop += length.next_multiple_of(4);
            }
        }
        at += length.next_multiple_of(4);
    }
}

/// `struct fib_rule_hdr`.
fn rule(payload: &[u8]) -> Option<Vec<u8>> {
    let mut kept = payload.get(..12)?.to_vec();
    if ![AF_INET, AF_INET6].contains(&kept[0]) {
        return None;
    }
    let flags = u32_at(payload, 8)? & FIB_RULE_INVERT;
    kept[8..12].copy_from_slice(&flags.to_ne_bytes());
    kept.extend(without(payload, 12, &[]));
    Some(kept)
}

/// `struct ndmsg`, of those that somebody fixed.
fn neighbour(payload: &[u8]) -> Option<Vec<u8>> {
    // NDA_CACHEINFO, NDA_PROBES.
    const LEFT: [u16; 2] = [3, 4];
    let mut kept = payload.get(..12)?.to_vec();
    let fixed = u16_at(payload, 8)? & NUD_PERMANENT != 0;
    if !fixed || ![AF_INET, AF_INET6].contains(&kept[0]) {
        return None;
    }
    kept.extend(without(payload, 12, &LEFT));
    Some(kept)
}

/// Root disciplines that somebody gave: the kernel's own have no handle.
fn disciplines(socket: &mut Socket) -> Result<Vec<(u16, Vec<u8>)>> {
    list(socket, RTM_GETQDISC, 20, RTM_NEWQDISC, &|payload| {
        let mut kept = payload.get(..20)?.to_vec();
        // The last word counts references.
        kept[16..20].fill(0);
        let given = u32_at(payload, 8)? != 0 && u32_at(payload, 12)? == TC_H_ROOT;
        let all: Vec<u16> = attributes(payload.get(20..)?).map(|(kind, _)| kind).collect();
        let others: Vec<u16> =
            all.into_iter().filter(|kind| ![TCA_KIND, TCA_OPTIONS].contains(kind)).collect();
        kept.extend(without(payload, 20, &others));
        given.then_some(kept)
    })
}

/// Whether a route leads over others: its next hop must be reachable before.
fn leads_over(table: &Table, payload: &[u8]) -> bool {
    let over = [RTA_GATEWAY, RTA_MULTIPATH, RTA_VIA];
    let found = attributes(payload.get(table.fixed..).unwrap_or_default())
        .any(|(kind, _)| over.contains(&kind));
    table.create == RTM_NEWROUTE && found
}
