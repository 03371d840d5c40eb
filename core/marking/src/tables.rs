//! Filters as tables: one for each set of prefix lengths and wildcards (tuple space search).
//!
//! A key is 40 bytes, and so is a mask; key AND mask is looked up in one exact table for all
//! masks. Masks are ordered by the best filter they lead to, and the search ends when
//! no later mask can lead to a better one. It costs at most one access per mask, whatever the number
//! of filters. The kernel's tables are identical, byte for byte, with a cache of whole keys
//! before them, so that one access is the rule. Tests show equality with
//! [`filter::find`](crate::filter::find).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Error, Filter, Key, Precedence, Result};

/// Maximum number of distinct masks, which bounds the cost of a packet.
pub const MOST_MASKS: usize = 32;

/// A packet's key or a mask as bytes: family (4 or 6), protocol, whether there are ports (1 or 0),
/// 0; source and destination port; source and destination address. Ports and addresses are in
/// network order, an IPv4 address is followed by 12 bytes of 0.
pub type Bytes = [u8; 40];

/// A mask: the significant bits of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask {
    /// The bits.
    pub bytes: Bytes,
    /// The lowest rank of the filters that have it: the best a search can find with it.
    pub best: u32,
}

/// Filters in tables.
#[derive(Clone, Debug)]
pub struct Tables {
    masks: Vec<Mask>,
    /// The filter's rank, by index of the mask and masked key.
    entries: HashMap<(u32, Bytes), u32>,
    /// The filter of a rank.
    ranked: Vec<usize>,
}

impl Tables {
    /// Builds tables of filters.
    ///
    /// # Errors
    ///
    /// More than [`MOST_MASKS`] distinct masks.
    pub fn new(filters: &[Filter], precedence: Precedence) -> Result<Tables> {
        let mut ranked: Vec<usize> = (0..filters.len()).collect();
        if precedence == Precedence::Longest {
            ranked.sort_by_key(|&index| filters.get(index).map(|f| Reverse(f.bits_given())));
        }
        let mut tables = Tables { masks: Vec::new(), entries: HashMap::new(), ranked };
        let mut index_of: HashMap<Bytes, u32> = HashMap::new();
        for (rank, filter) in (0..).zip(tables.ranked.iter().filter_map(|&at| filters.get(at))) {
            // It matches no packet, and a key has room for one family.
            if filter.is_of_both_families() {
                continue;
            }
            let (value, mask) = (value(filter), mask(filter));
            // Ranks only rise, so masks are in the order of their best rank.
            let index = *index_of.entry(mask).or_insert_with(|| {
                tables.masks.push(Mask { bytes: mask, best: rank });
                u32::try_from(tables.masks.len() - 1).unwrap_or(u32::MAX)
            });
            // Of equal filters the first has the lower rank, and wins.
            tables.entries.entry((index, value)).or_insert(rank);
        }
        if tables.masks.len() > MOST_MASKS {
            return Err(Error::Masks { masks: tables.masks.len(), most: MOST_MASKS });
        }
        Ok(tables)
    }

    /// The index of the filter that gets this packet.
    pub fn find(&self, key: &Key) -> Option<usize> {
        let key = key_bytes(key);
        let mut best: Option<u32> = None;
        for (index, mask) in (0..).zip(&self.masks) {
            if best.is_some_and(|best| best <= mask.best) {
                break;
            }
            if let Some(&rank) = self.entries.get(&(index, masked(&key, &mask.bytes))) {
                best = Some(best.map_or(rank, |best| best.min(rank)));
            }
        }
        self.filter(best?)
    }

    /// The masks in the order of search.
    pub fn masks(&self) -> &[Mask] {
        &self.masks
    }

    /// All entries: index of the mask, masked key, rank.
    pub fn entries(&self) -> impl Iterator<Item = (u32, &Bytes, u32)> {
        self.entries.iter().map(|((mask, key), rank)| (*mask, key, *rank))
    }

    /// The index of the filter of a rank.
    pub fn filter(&self, rank: u32) -> Option<usize> {
        self.ranked.get(usize::try_from(rank).ok()?).copied()
    }
}

/// A packet's key as bytes.
pub fn key_bytes(key: &Key) -> Bytes {
    let mut bytes = [0; 40];
    bytes[0] = if key.src_ip.is_ipv4() { 4 } else { 6 };
    bytes[1] = key.proto;
    if let Some((src, dst)) = key.ports {
        bytes[2] = 1;
        bytes[4..6].copy_from_slice(&src.to_be_bytes());
        bytes[6..8].copy_from_slice(&dst.to_be_bytes());
    }
    bytes[8..24].copy_from_slice(&sixteen(key.src_ip));
    bytes[24..40].copy_from_slice(&sixteen(key.dst_ip));
    bytes
}

/// The masked key that a packet must have.
fn value(filter: &Filter) -> Bytes {
    let mut bytes = [0; 40];
    let net = |net: Option<IpNet>| net.map_or([0; 16], |net| sixteen(net.network()));
    if let Some(net) = filter.src_ip.or(filter.dst_ip) {
        bytes[0] = if net.addr().is_ipv4() { 4 } else { 6 };
    }
    bytes[1] = filter.proto.unwrap_or(0);
    bytes[2] = u8::from(filter.src_port.is_some() || filter.dst_port.is_some());
    bytes[4..6].copy_from_slice(&filter.src_port.unwrap_or(0).to_be_bytes());
    bytes[6..8].copy_from_slice(&filter.dst_port.unwrap_or(0).to_be_bytes());
    bytes[8..24].copy_from_slice(&net(filter.src_ip));
    bytes[24..40].copy_from_slice(&net(filter.dst_ip));
    bytes
}

/// Which bits of the key are significant for a filter.
fn mask(filter: &Filter) -> Bytes {
    let mut bytes = [0; 40];
    let all = |given: bool| if given { 0xff } else { 0 };
    let net = |net: Option<IpNet>| net.map_or([0; 16], |net| sixteen(net.netmask()));
    // Else an IPv4 prefix would match IPv6 addresses that begin with its bytes.
    bytes[0] = all(filter.src_ip.is_some() || filter.dst_ip.is_some());
    bytes[1] = all(filter.proto.is_some());
    // Else port 0 would match packets without ports.
    bytes[2] = all(filter.src_port.is_some() || filter.dst_port.is_some());
    bytes[4..6].fill(all(filter.src_port.is_some()));
    bytes[6..8].fill(all(filter.dst_port.is_some()));
    bytes[8..24].copy_from_slice(&net(filter.src_ip));
    bytes[24..40].copy_from_slice(&net(filter.dst_ip));
    bytes
}

fn masked(key: &Bytes, mask: &Bytes) -> Bytes {
    let mut bytes = *key;
    bytes.iter_mut().zip(mask).for_each(|(byte, mask)| *byte &= mask);
    bytes
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(address) => address.octets(),
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
    }
}

#[cfg(test)]
mod tests;
