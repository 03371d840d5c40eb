//! Messages of a dump of nf_tables as [`Ruleset`].
//!
//! A message is the payload after netlink's header: `struct nfgenmsg`, then attributes. No length is trusted, and no input
//! panics. What is not understood becomes [`Expression::Unknown`]. Numbers are those of `linux/netfilter/nf_tables.h`.

mod translation;

use super::{
    Attached, Chain, Change, Element, Expression, Family, Nat, Rule, Ruleset, Set, Verdict,
};

/// What a message of the dump describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table; one that is dormant has no effect.
    Table,
    /// A chain.
    Chain,
    /// A rule.
    Rule,
    /// A set, without its elements.
    Set,
    /// Elements of a set.
    Elements,
}

/// The bit of a table's flags that takes its chains from their hooks.
const DORMANT: u32 = 1;
const INTERVALS: u32 = 4;
const CONCATENATED: u32 = 0x80;
const INTERVAL_END: u32 = 1;
const CATCHALL: u32 = 2;

/// Gathers the messages of a dump. Tables come first, then chains, then the rest.
#[derive(Debug, Default)]
pub struct Reader {
    found: Ruleset,
    dormant: Vec<(Family, String)>,
}

impl Reader {
    /// Takes a message.
    pub fn take(&mut self, kind: Kind, payload: &[u8]) {
        let Some((family, parts)) = message(payload) else { return };
        let read = match kind {
            Kind::Table => self.table(family, parts),
            Kind::Chain => self.chain(family, parts),
            Kind::Rule => self.rule(family, parts),
            Kind::Set => self.set(family, parts),
            Kind::Elements => self.elements(family, parts),
        };
        // A message without the parts that name its object is none.
        read.unwrap_or_default();
    }

    /// The names of sets whose elements are to be asked for: family as its number, table, set.
    pub fn sets(&self) -> Vec<(u8, String, String)> {
        let named = |set: &Set| (number(set.family), set.table.clone(), set.name.clone());
        self.found.sets.iter().map(named).collect()
    }

    /// All that was read.
    pub fn finish(mut self) -> Ruleset {
        let dormant = self.dormant;
        self.found.chains.iter_mut().for_each(|chain| {
            if dormant
                .iter()
                .any(|(family, table)| *family == chain.family && *table == chain.table)
            {
                chain.attached = None;
            }
        });
        self.found
    }

    fn table(&mut self, family: Family, parts: &[u8]) -> Option<()> {
        let flags = value(parts, 2).and_then(be32).unwrap_or(0);
        if flags & DORMANT != 0 {
            self.dormant.push((family, text(parts, 1)?));
        }
        Some(())
    }

    fn chain(&mut self, family: Family, parts: &[u8]) -> Option<()> {
        let (table, name) = (text(parts, 1)?, text(parts, 3)?);
        // The policy: NF_DROP is 0.
        let drops = value(parts, 5).and_then(be32) == Some(0);
        let attached = value(parts, 4).and_then(|hook| attached(hook, drops));
        self.found.chains.push(Chain { family, table, name, attached, rules: vec![] });
        Some(())
    }

    fn rule(&mut self, family: Family, parts: &[u8]) -> Option<()> {
        let (table, chain) = (text(parts, 1)?, text(parts, 2)?);
        let handle = value(parts, 3).and_then(|v| Some(u64::from_be_bytes(v.try_into().ok()?)))?;
        let is_it = |c: &&mut Chain| c.family == family && c.table == table && c.name == chain;
        let into = self.found.chains.iter_mut().find(is_it)?;
        let steps = value(parts, 4).map(steps).unwrap_or_default();
        into.rules.push(Rule { handle, steps });
        Some(())
    }

    fn set(&mut self, family: Family, parts: &[u8]) -> Option<()> {
        let flags = value(parts, 3).and_then(be32).unwrap_or(0);
        self.found.sets.push(Set {
            family,
            table: text(parts, 1)?,
            name: text(parts, 2)?,
            intervals: flags & INTERVALS != 0,
            concatenated: flags & CONCATENATED != 0,
            elements: vec![],
        });
        Some(())
    }

    fn elements(&mut self, family: Family, parts: &[u8]) -> Option<()> {
        let (table, name) = (text(parts, 1)?, text(parts, 2)?);
        let is_it = |s: &&mut Set| s.family == family && s.table == table && s.name == name;
        let into = self.found.sets.iter_mut().find(is_it)?;
        into.elements.extend(attributes(value(parts, 3)?).filter_map(|(_, e)| element(e)));
        Some(())
    }
}

fn message(payload: &[u8]) -> Option<(Family, &[u8])> {
    // NFPROTO_* of linux/netfilter.h.
    let family = match payload.first()? {
        1 => Family::Inet,
        2 => Family::Ip,
        10 => Family::Ip6,
        5 => Family::Netdev,
        other => Family::Other(*other),
    };
    Some((family, payload.get(4..)?))
}

fn number(family: Family) -> u8 {
    match family {
        Family::Inet => 1,
        Family::Ip => 2,
        Family::Ip6 => 10,
        Family::Netdev => 5,
        Family::Other(other) => other,
    }
}

fn attached(hook: &[u8], drops: bool) -> Option<Attached> {
    let one = text(hook, 3);
    let several =
        value(hook, 4).map(|all| attributes(all).map(|(_, name)| string(name)).collect::<Vec<_>>());
    Some(Attached {
        hook: value(hook, 1).and_then(be32)?,
        // A negative number in two's complement.
        priority: value(hook, 2).and_then(be32)?.cast_signed(),
        devices: several.unwrap_or_default().into_iter().chain(one).collect(),
        drops,
    })
}

fn element(parts: &[u8]) -> Option<Element> {
    let flags = value(parts, 3).and_then(be32).unwrap_or(0);
    let data = |at: u16| value(parts, at).and_then(|data| value(data, 1)).map(<[u8]>::to_vec);
    let catchall = flags & CATCHALL != 0;
    let key = data(1);
    if key.is_none() && !catchall {
        return None;
    }
    let verdict = value(parts, 2).and_then(|data| value(data, 2)).and_then(verdict);
    let ends = flags & INTERVAL_END != 0;
    Some(Element { key: key.unwrap_or_default(), last: data(10), ends, catchall, verdict })
}

fn steps(list: &[u8]) -> Vec<Expression> {
    attributes(list).filter_map(|(_, step)| expression(step)).collect()
}

fn expression(step: &[u8]) -> Option<Expression> {
    let name = text(step, 1)?;
    let parts = value(step, 2).unwrap_or_default();
    Some(known(&name, parts).unwrap_or(Expression::Unknown(name)))
}

fn known(name: &str, parts: &[u8]) -> Option<Expression> {
    let number = |at| value(parts, at).and_then(be32);
    let data = |at| value(parts, at).and_then(|data| value(data, 1)).map(<[u8]>::to_vec);
    Some(match name {
        // Writes, such as of the mark, are not conditions.
        "meta" if number(3).is_some() => Expression::Harmless("meta set".into()),
        "meta" => Expression::Meta { key: number(2)?, to: number(1)? },
        // It writes to the packet: what rules behind it see is not known.
        "payload" if number(5).is_some() => return None,
        "payload" => Expression::Payload {
            to: number(1)?,
            base: number(2)?,
            offset: number(3)?,
            length: number(4)?,
        },
        "ct" if number(4).is_some() => Expression::Harmless("ct set".into()),
        // One direction's own fields are not known here.
        "ct" if value(parts, 3).is_some() => return None,
        "ct" => Expression::Ct { to: number(1)?, key: number(2)? },
        // Shifts (NFT_BITWISE_LSHIFT, RSHIFT).
        "bitwise" if number(6).unwrap_or(0) != 0 => return None,
        "bitwise" => {
            Expression::Bitwise { from: number(1)?, to: number(2)?, mask: data(4)?, xor: data(5)? }
        }
        "byteorder" => Expression::Byteorder {
            from: number(1)?,
            to: number(2)?,
            length: number(4)?,
            size: number(5)?,
        },
        "cmp" => Expression::Cmp { from: number(1)?, operation: number(2)?, value: data(3)? },
        "range" => Expression::Range {
            from: number(1)?,
            inverted: number(2)? == 1,
            low: data(3)?,
            high: data(4)?,
        },
        "lookup" => Expression::Lookup {
            set: text(parts, 1)?,
            from: number(2)?,
            to: number(3),
            inverted: number(5).unwrap_or(0) & 1 != 0,
        },
        "immediate" => match value(parts, 2).and_then(|data| value(data, 2)) {
            Some(decided) => Expression::Verdict(verdict(decided)?),
            None => Expression::Constant { to: number(1)?, value: data(2)? },
        },
        "counter" => Expression::Counter {
            packets: value(parts, 2)
                .and_then(|v| Some(u64::from_be_bytes(v.try_into().ok()?)))
                .unwrap_or(0),
        },
        "queue" => Expression::Verdict(Verdict::Queue),
        "reject" => Expression::Reject { reset: number(1) == Some(1) },
        "masq" | "nat" | "redir" => {
            Expression::Nat(Nat { name: name.to_owned(), change: translation::native(name, parts) })
        }
        "log" | "notrack" | "tunnel" => Expression::Harmless(name.to_owned()),
        "target" => return target(text(parts, 1)?, value(parts, 3).unwrap_or_default()),
        _ => return None,
    })
}

/// A target of iptables, as far as its name and its parameters tell all.
fn target(name: String, info: &[u8]) -> Option<Expression> {
    Some(match name.as_str() {
        "REJECT" => Expression::Reject { reset: false },
        "NFQUEUE" => Expression::Verdict(Verdict::Queue),
        "LOG" | "NFLOG" | "TRACE" | "CT" | "MARK" | "CONNMARK" => Expression::Harmless(name),
        "MASQUERADE" | "SNAT" | "DNAT" | "REDIRECT" => {
            let change = translation::target(&name, info).unwrap_or(Change::Unknown);
            Expression::Nat(Nat { name, change })
        }
        _ => return None,
    })
}

fn verdict(parts: &[u8]) -> Option<Verdict> {
    let chain = || text(parts, 2);
    // NF_* of linux/netfilter.h, and NFT_* below zero (`enum nft_verdicts`).
    Some(match value(parts, 1).and_then(be32)?.cast_signed() {
        0 => Verdict::Drop,
        1 => Verdict::Accept,
        -1 => Verdict::Continue,
        -3 => Verdict::Jump(chain()?),
        -4 => Verdict::Goto(chain()?),
        -5 => Verdict::Return,
        // The upper half of its number says which queue.
        other if other & 0xffff == 3 => Verdict::Queue,
        _ => return None,
    })
}

fn attributes(payload: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        let number = |at: usize| Some(u16::from_ne_bytes(rest.get(at..at + 2)?.try_into().ok()?));
        let length = usize::from(number(0)?);
        // The two highest bits are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        let kind = number(2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn value(payload: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(payload).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

fn be32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

fn text(payload: &[u8], kind: u16) -> Option<String> {
    value(payload, kind).map(string)
}

fn string(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn named(family: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        [vec![family, 0, 0, 0], parts.concat()].concat()
    }

    fn step(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
        let body = [attribute(1, name.as_bytes()), attribute(2, &parts.concat())].concat();
        attribute(1, &body)
    }

    pub(super) fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_be_bytes())
    }

    #[test]
    fn a_chain_with_a_rule_is_read() {
        let mut reader = Reader::default();
        let hook = [number(1, 2), number(2, 0xffff_fff6)].concat();
        reader.take(
            Kind::Chain,
            &named(
                1,
                &[attribute(1, b"fw\0"), attribute(3, b"fwd\0"), attribute(4, &hook), number(5, 0)],
            ),
        );
        let drop = attribute(2, &attribute(2, &number(1, 0)));
        let compared = attribute(3, &attribute(1, &[0, 80]));
        let steps = [
            step("payload", &[number(1, 1), number(2, 2), number(3, 2), number(4, 2)]),
            step("cmp", &[number(1, 1), number(2, 0), compared]),
            step("osf", &[]),
            step("immediate", &[number(1, 0), drop]),
        ]
        .concat();
        reader.take(
            Kind::Rule,
            &named(
                1,
                &[
                    attribute(1, b"fw\0"),
                    attribute(2, b"fwd\0"),
                    attribute(3, &7_u64.to_be_bytes()),
                    attribute(4, &steps),
                ],
            ),
        );
        let found = reader.finish();
        let chain = &found.chains[0];
        let attached = chain.attached.as_ref().unwrap();
        assert_eq!((attached.hook, attached.priority, attached.drops), (2, -10, true));
        assert_eq!(chain.rules[0].handle, 7);
        assert_eq!(
            chain.rules[0].steps,
            [
                Expression::Payload { base: 2, offset: 2, length: 2, to: 1 },
                Expression::Cmp { from: 1, operation: 0, value: vec![0, 80] },
                Expression::Unknown("osf".into()),
                Expression::Verdict(Verdict::Drop),
            ]
        );
    }

    #[test]
    fn chains_of_a_dormant_table_are_attached_to_nothing() {
        let mut reader = Reader::default();
        reader.take(Kind::Table, &named(1, &[attribute(1, b"fw\0"), number(2, 1)]));
        let hook = [number(1, 2), number(2, 0)].concat();
        let chain = [attribute(1, b"fw\0"), attribute(3, b"c\0"), attribute(4, &hook)];
        reader.take(Kind::Chain, &named(1, &chain));
        reader.take(Kind::Chain, &named(2, &chain));
        let found = reader.finish();
        assert!(found.chains[0].attached.is_none());
        assert!(found.chains[1].attached.is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(payload in prop::collection::vec(any::<u8>(), 0..256)) {
            let mut reader = Reader::default();
            for kind in [Kind::Table, Kind::Chain, Kind::Rule, Kind::Set, Kind::Elements] {
                reader.take(kind, &payload);
            }
            let _ = expression(&payload);
            reader.finish();
        }
    }
}
