//! Rules of policy routing: which packets ask which table, or are dropped.
//!
//! A rule is removed by the message that reported it, whatever it selects by, as `ip rule flush` does it.
//! Specification: ip-rule(8), `linux/fib_rules.h`.

use std::fmt::Write;

use crate::batch::sealed::Encode;
use crate::batch::{Purpose, Request};
use crate::decode::{Message, attributes, string, u8_at, u32_at};
use crate::encode::Encoder;
use crate::query::{Family, dump_question, read_ip};
use crate::uapi::{CREATE, EXCLUSIVE, REQUEST};
use crate::{Error, Result, Socket};

const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
/// Of `struct fib_rule_hdr`.
const HEADER: usize = 12;
const FR_ACT_TO_TBL: u8 = 1;
/// Its flag: the rule holds for all packets but those that it selects.
const FIB_RULE_INVERT: u32 = 2;
const RTPROT_KERNEL: u8 = 2;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FRA_PROTOCOL: u16 = 21;

/// A rule as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleInfo {
    family: u8,
    /// Lower ones are asked first.
    pub priority: u32,
    /// The table that it asks; 0 if it asks none.
    pub table: u32,
    /// What it selects and does, as `ip rule` says it; `…` stands for further selectors.
    pub words: String,
    /// Who made it, as in [`RouteInfo`](crate::RouteInfo); `ip rule add` gives 0, which is nobody.
    pub origin: u8,
    /// Whether it holds for all packets.
    pub of_all: bool,
    told: Vec<u8>,
}

/// A rule that the kernel makes in every new namespace: all packets ask a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// Whose packets.
    pub family: Family,
    /// As in [`RuleInfo`].
    pub priority: u32,
    /// As in [`RuleInfo`].
    pub table: u8,
}

impl KernelRule {
    /// All of them: `local`, `main`, and for IPv4 `default`.
    pub const ALL: [KernelRule; 5] = [
        KernelRule { family: Family::V4, priority: 0, table: 255 },
        KernelRule { family: Family::V4, priority: 32766, table: 254 },
        KernelRule { family: Family::V4, priority: 32767, table: 253 },
        KernelRule { family: Family::V6, priority: 0, table: 255 },
        KernelRule { family: Family::V6, priority: 32766, table: 254 },
    ];

    /// Of IPv6, or of IPv4.
    pub fn is_ipv6(&self) -> bool {
        self.family == Family::V6
    }

    /// As [`RuleInfo::words`], with the family.
    pub fn words(&self) -> String {
        let family = if self.is_ipv6() { "IPv6 " } else { "" };
        format!("{family}rule {}: from all {}", self.priority, lookup(self.table.into()))
    }

    /// Whether a found rule is it, of any origin.
    pub fn is(&self, found: &RuleInfo) -> bool {
        found.family == self.family.number()
            && (found.priority, found.table) == (self.priority, u32::from(self.table))
            && found.of_all
    }
}

impl RuleInfo {
    /// Of IPv6, or of IPv4.
    pub fn is_ipv6(&self) -> bool {
        self.family == Family::V6.number()
    }
}

impl Socket {
    /// The rules of one family; none from a kernel without policy routing.
    ///
    /// # Errors
    /// As [`Socket::addresses`].
    pub fn rules(&mut self, family: Family) -> Result<Vec<RuleInfo>> {
        let mut header = [0; HEADER];
        header[0] = family.number();
        match self.dump(&mut dump_question(RTM_GETRULE, &header), "rules", read) {
            Err(Error::Refused(refusals))
                if [libc::EOPNOTSUPP, libc::EAFNOSUPPORT].contains(&refusals[0].errno) =>
            {
                Ok(Vec::new())
            }
            outcome => outcome,
        }
    }
}

fn read(message: &Message<'_>) -> Option<RuleInfo> {
    let family = u8_at(message.payload, 0)?;
    if message.kind != RTM_NEWRULE {
        return None;
    }
    let at = |offset| u8_at(message.payload, offset);
    let [to_length, from_length, tos, action] = [at(1)?, at(2)?, at(3)?, at(7)?];
    let mut table = u32::from(at(4)?);
    let (mut priority, mut origin, mut known) = (0, 0, true);
    let inverted = u32_at(message.payload, 8)? & FIB_RULE_INVERT != 0;
    let (mut from, mut selectors) = ("all".to_owned(), String::new());
    let (mut mark, mut mask) = (0, None);
    let mut select = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = write!(selectors, " {text}");
    };
    for (kind, value) in attributes(message.payload.get(HEADER..)?) {
        let number = u32_at(value, 0).unwrap_or(0);
        let ip = || read_ip(family, value).map(|ip| ip.to_string()).unwrap_or_default();
        match kind {
            FRA_SRC => from = format!("{}/{from_length}", ip()),
            FRA_DST => select(format_args!("to {}/{to_length}", ip())),
            FRA_IIFNAME => select(format_args!("iif {}", string(value))),
            FRA_OIFNAME => select(format_args!("oif {}", string(value))),
            FRA_FWMARK => mark = number,
            // The kernel always tells it with a mark.
            FRA_FWMASK => mask = Some(number),
            FRA_PRIORITY => priority = number,
            // The header has one byte for it: greater ones are only here.
            FRA_TABLE => table = number,
            FRA_PROTOCOL => origin = u8_at(value, 0).unwrap_or(0),
            // The kernel always tells it.
            FRA_SUPPRESS_PREFIXLEN if number == u32::MAX => {}
            FRA_SUPPRESS_PREFIXLEN => select(format_args!("suppress_prefixlength {number}")),
            _ => known = false,
        }
    }
    match mask {
        None => {}
        Some(u32::MAX) => select(format_args!("fwmark {mark:#x}")),
        Some(mask) => select(format_args!("fwmark {mark:#x}/{mask:#x}")),
    }
    if tos > 0 {
        select(format_args!("tos {tos:#x}"));
    }
    if !known {
        select(format_args!("…"));
    }
    let not = if inverted { "not " } else { "" };
    let does = match action {
        FR_ACT_TO_TBL => lookup(table),
        2 => "goto".to_owned(),
        3 => "nop".to_owned(),
        6 => "blackhole".to_owned(),
        7 => "unreachable".to_owned(),
        8 => "prohibit".to_owned(),
        other => format!("action {other}"),
    };
    Some(RuleInfo {
        family,
        priority,
        table: if action == FR_ACT_TO_TBL { table } else { 0 },
        of_all: !inverted && from == "all" && selectors.is_empty(),
        words: format!("{priority}: {not}from {from}{selectors} {does}"),
        origin,
        told: message.payload.to_vec(),
    })
}

fn lookup(table: u32) -> String {
    match table {
        253 => "lookup default".to_owned(),
        254 => "lookup main".to_owned(),
        255 => "lookup local".to_owned(),
        other => format!("lookup {other}"),
    }
}

/// Removes a rule that was read.
#[derive(Clone, Copy, Debug)]
pub struct DeleteRule<'a>(pub &'a RuleInfo);

impl Encode for DeleteRule<'_> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_DELRULE, REQUEST, |encoder| encoder.fixed(&self.0.told));
    }
}

impl Request for DeleteRule<'_> {
    fn operation(&self) -> &'static str {
        "delete"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Touch
    }
}

impl Encode for KernelRule {
    fn encode(&self, bytes: &mut Vec<u8>) {
        Encoder::message(bytes, RTM_NEWRULE, REQUEST | CREATE | EXCLUSIVE, |encoder| {
            let family = self.family.number();
            encoder.fixed(&[family, 0, 0, 0, self.table, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0]);
            encoder.u32(FRA_PRIORITY, self.priority);
            encoder.u8(FRA_PROTOCOL, RTPROT_KERNEL);
        });
    }
}

impl Request for KernelRule {
    fn operation(&self) -> &'static str {
        "add"
    }
    fn purpose(&self) -> Purpose {
        Purpose::Create
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::messages;

    /// A rule for IPv4 as the kernel tells it, with these flags and attributes of numbers.
    fn told(flags: u32, numbers: &[(u16, u32)]) -> RuleInfo {
        let mut bytes = Vec::new();
        Encoder::message(&mut bytes, RTM_NEWRULE, 0, |encoder| {
            let [a, b, c, d] = flags.to_ne_bytes();
            encoder.fixed(&[Family::V4.number(), 0, 0, 0, 254, 0, 0, FR_ACT_TO_TBL, a, b, c, d]);
            numbers.iter().for_each(|(kind, number)| encoder.u32(*kind, *number));
        });
        read(&messages(&bytes).next().unwrap()).unwrap()
    }

    #[test]
    fn a_rule_for_all_but_some_is_told_as_that() {
        let mark = [(FRA_PRIORITY, 9), (FRA_FWMARK, 5), (FRA_FWMASK, u32::MAX)];
        assert_eq!(told(0, &mark).words, "9: from all fwmark 0x5 lookup main");
        assert_eq!(told(FIB_RULE_INVERT, &mark).words, "9: not from all fwmark 0x5 lookup main");
        let main = KernelRule { family: Family::V4, priority: 9, table: 254 };
        assert!(main.is(&told(0, &[(FRA_PRIORITY, 9)])));
        // It holds for none.
        assert!(!main.is(&told(FIB_RULE_INVERT, &[(FRA_PRIORITY, 9)])));
    }

    #[test]
    fn a_mark_is_told_with_its_mask() {
        let masked = told(0, &[(FRA_PRIORITY, 9), (FRA_FWMARK, 5), (FRA_FWMASK, 0xf)]);
        assert_eq!(masked.words, "9: from all fwmark 0x5/0xf lookup main");
        // The kernel tells no mark of 0.
        let of_none = told(0, &[(FRA_PRIORITY, 9), (FRA_FWMASK, 0xf)]);
        assert_eq!(of_none.words, "9: from all fwmark 0x0/0xf lookup main");
        assert!(!of_none.of_all);
    }
}
