//! A rule as text, in the words of nft(8) where it has some; the handle names the rule, the text is for people.
//!
//! Text of the lab's nodes passes through here: names are shown with control characters escaped.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::translate;
use super::{Chain, Change, Expression, Family, Nat, Operand, Rule, Ruleset, Set, Verdict};

/// Most elements of an anonymous set that are shown.
const MOST: usize = 8;

/// Where names in a rule are looked up.
pub struct Named<'a> {
    /// All rules.
    pub rules: &'a Ruleset,
    /// The chain of the rule.
    pub chain: &'a Chain,
}

/// What a register holds.
#[derive(Clone, Default)]
struct Field {
    /// The words before a value: `tcp dport`.
    words: String,
    form: Form,
    /// Bits of a prefix, after a mask.
    mask: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Form {
    #[default]
    Hex,
    /// Big-endian.
    Number,
    /// In the machine's byte order.
    Native,
    V4,
    V6,
    Name,
    Protocol,
    NfProtocol,
    State,
}

/// The rule's text.
pub fn rule(rule: &Rule, named: &Named<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut fields: Vec<(u32, Field)> = Vec::new();
    let mut protocol = String::from("th");
    for (at, step) in rule.steps.iter().enumerate() {
        match step {
            Expression::Meta { key, to } => set(&mut fields, *to, meta(*key)),
            Expression::Payload { base, offset, length, to } => {
                let field = payload(*base, *offset, *length, &protocol, named.chain.family);
                set(&mut fields, *to, field);
            }
            Expression::Ct { key, to } => set(&mut fields, *to, ct(*key)),
            Expression::Bitwise { from, to, mask, .. } => {
                let mut field = get(&fields, *from);
                field.mask = Some(mask.clone());
                set(&mut fields, *to, field);
            }
            Expression::Byteorder { from, to, .. } => {
                let mut field = get(&fields, *from);
                field.form = Form::Number;
                set(&mut fields, *to, field);
            }
            Expression::Cmp { from, operation, value } => {
                let field = get(&fields, *from);
                if field.form == Form::Protocol && *operation == 0 {
                    protocol = protocol_name(value);
                    // `tcp dport 80` says it by itself.
                    if says_protocol(&rule.steps[at + 1..]) {
                        continue;
                    }
                }
                if field.form == Form::NfProtocol && says_family(&rule.steps[at + 1..]) {
                    continue;
                }
                parts.push(compared(&field, *operation, value));
            }
            Expression::Range { from, inverted, low, high } => {
                let field = get(&fields, *from);
                let not = if *inverted { "!= " } else { "" };
                let (low, high) = (shown(&field, low), shown(&field, high));
                parts.push(format!("{} {not}{low}-{high}", field.words));
            }
            Expression::Lookup { set, from, inverted, to } => {
                let field = get(&fields, *from);
                let not = if *inverted { "!= " } else { "" };
                let vmap = if to.is_some() { "vmap " } else { "" };
                parts.push(format!("{} {not}{vmap}{}", field.words, looked_up(named, set, &field)));
            }
            Expression::Verdict(verdict) => parts.push(decided(verdict)),
            Expression::Reject { reset: true } => parts.push("reject with tcp reset".into()),
            Expression::Reject { reset: false } => parts.push("reject".into()),
            Expression::Counter { .. } => parts.push("counter".into()),
            Expression::Nat(nat) => parts.push(translation(nat, &rule.steps[..at])),
            Expression::Harmless(name) | Expression::Unknown(name) => parts.push(printable(name)),
            Expression::Constant { .. } => {}
        }
    }
    parts.join(" ")
}

/// A translation, with the address and port that the steps before have loaded for it.
fn translation(nat: &Nat, before: &[Expression]) -> String {
    let bytes = |operand: &Operand| match operand {
        Operand::Bytes(bytes) => Some(bytes.clone()),
        Operand::Register(register) => before.iter().rev().find_map(|step| match step {
            Expression::Constant { to, value } if to == register => Some(value.clone()),
            _ => None,
        }),
    };
    let port = |operand: &Option<Operand>| {
        let port = translate::port(&bytes(operand.as_ref()?)?)?;
        Some(format!(":{port}"))
    };
    let address = |operand: &Option<Operand>| match translate::address(&bytes(operand.as_ref()?)?)?
    {
        IpAddr::V4(four) => Some(four.to_string()),
        IpAddr::V6(six) => Some(format!("[{six}]")),
    };
    let to = |word: &str, at: &Option<Operand>, port_at: &Option<Operand>| {
        let parts = [address(at), port(port_at)].into_iter().flatten().collect::<String>();
        if parts.is_empty() { word.to_owned() } else { format!("{word} to {parts}") }
    };
    match &nat.change {
        Change::Masquerade => "masquerade".to_owned(),
        Change::Redirect(port) => to("redirect", &None, port),
        Change::Source(address, port) => to("snat", address, port),
        Change::Destination(address, port) => to("dnat", address, port),
        Change::Unknown => printable(&nat.name),
    }
}

fn set(fields: &mut Vec<(u32, Field)>, register: u32, field: Field) {
    fields.retain(|(other, _)| *other != register);
    fields.push((register, field));
}

fn get(fields: &[(u32, Field)], register: u32) -> Field {
    let found = fields.iter().find(|(other, _)| *other == register);
    found.map_or_else(Field::default, |(_, field)| field.clone())
}

fn field(words: &str, form: Form) -> Field {
    Field { words: words.into(), form, mask: None }
}

fn meta(key: u32) -> Field {
    match key {
        // NFT_META_* of nf_tables.h.
        1 => field("meta protocol", Form::Hex),
        3 => field("meta mark", Form::Native),
        4 => field("iif", Form::Native),
        5 => field("oif", Form::Native),
        6 => field("iifname", Form::Name),
        7 => field("oifname", Form::Name),
        10 => field("meta skuid", Form::Native),
        15 => field("meta nfproto", Form::NfProtocol),
        16 => field("meta l4proto", Form::Protocol),
        other => field(&format!("meta {other}"), Form::Hex),
    }
}

fn ct(key: u32) -> Field {
    match key {
        // NFT_CT_* of nf_tables.h.
        0 => field("ct state", Form::State),
        3 => field("ct mark", Form::Native),
        other => field(&format!("ct {other}"), Form::Hex),
    }
}

fn payload(base: u32, offset: u32, length: u32, protocol: &str, family: Family) -> Field {
    let icmp = matches!(protocol, "icmp" | "icmpv6");
    match (base, offset, length) {
        // Of a prefix of whole bytes nft(8) compares these alone.
        (1, 12, 1..=4) if family != Family::Ip6 => field("ip saddr", Form::V4),
        (1, 16, 1..=4) if family != Family::Ip6 => field("ip daddr", Form::V4),
        (1, 9, 1) if family != Family::Ip6 => field("ip protocol", Form::Protocol),
        (1, 8, 1) if family != Family::Ip6 => field("ip ttl", Form::Number),
        (1, 8, 4..=16) => field("ip6 saddr", Form::V6),
        (1, 24, 4..=16) => field("ip6 daddr", Form::V6),
        (1, 6, 1) => field("ip6 nexthdr", Form::Protocol),
        (2, 0, 1) if icmp => field(&format!("{protocol} type"), Form::Number),
        (2, 0, 2) => field(&format!("{protocol} sport"), Form::Number),
        (2, 2, 2) => field(&format!("{protocol} dport"), Form::Number),
        (2, 13, 1) => field("tcp flags", Form::Number),
        _ => {
            let base = ["ll", "nh", "th"].get(base as usize).copied().unwrap_or("ih");
            field(
                &format!("@{base},{},{}", offset.saturating_mul(8), length.saturating_mul(8)),
                Form::Hex,
            )
        }
    }
}

fn says_protocol(rest: &[Expression]) -> bool {
    matches!(rest.first(), Some(Expression::Payload { base: 2, offset: 0 | 2, length: 1 | 2, .. }))
}

fn says_family(rest: &[Expression]) -> bool {
    let Some(Expression::Payload { base: 1, offset, length, .. }) = rest.first() else {
        return false;
    };
    matches!((offset, length), (12 | 16, 1..=4) | (8 | 24, 4..=16))
}

fn compared(field: &Field, operation: u32, value: &[u8]) -> String {
    if field.form == Form::State {
        let bits = field.mask.as_deref().unwrap_or(value);
        let not = if operation == 0 && field.mask.is_some() { "! " } else { "" };
        return format!("ct state {not}{}", states(bits));
    }
    let operation = ["", "!= ", "< ", "<= ", "> ", ">= "].get(operation as usize).unwrap_or(&"");
    let mut text = format!("{} {operation}{}", field.words, shown(field, value));
    if let Some(mask) = &field.mask {
        match (field.form, prefix(mask)) {
            (Form::V4 | Form::V6, Some(bits)) => _ = write!(text, "/{bits}"),
            _ => {
                let operation = if operation.is_empty() { "== " } else { operation };
                text = format!("{} & {} {operation}{}", field.words, hex(mask), hex(value));
            }
        }
    }
    text
}

fn states(value: &[u8]) -> String {
    let bits = value.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let names = [(1, "invalid"), (2, "established"), (4, "related"), (8, "new"), (64, "untracked")];
    let all: Vec<&str> = names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, n)| *n).collect();
    all.join(",")
}

fn prefix(mask: &[u8]) -> Option<u32> {
    let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
    let all: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let first_open = mask.iter().position(|byte| *byte != 0xff).unwrap_or(mask.len());
    let rest_empty = mask.iter().skip(first_open + 1).all(|byte| *byte == 0);
    (ones == all && rest_empty).then_some(ones)
}

fn shown(field: &Field, value: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    match field.form {
        Form::Number if value.len() <= 8 => number(value).to_string(),
        Form::Native if value.len() <= 8 => {
            let mut bytes = value.to_vec();
            if cfg!(target_endian = "little") {
                bytes.reverse();
            }
            number(&bytes).to_string()
        }
        Form::V4 if value.len() == 4 => {
            value.first_chunk::<4>().map_or_else(String::new, |v| Ipv4Addr::from(*v).to_string())
        }
        Form::V6 if value.len() == 16 => {
            value.first_chunk::<16>().map_or_else(String::new, |v| Ipv6Addr::from(*v).to_string())
        }
        Form::V4 | Form::V6 => cut(field, value),
        Form::Name => {
            let end = value.iter().position(|b| *b == 0);
            let name = String::from_utf8_lossy(&value[..end.unwrap_or(value.len())]);
            // Without its end, the comparison is of a beginning.
            format!("\"{}{}\"", printable(&name), if end.is_none() { "*" } else { "" })
        }
        Form::Protocol => protocol_name(value),
        Form::NfProtocol => match value {
            [2] => "ipv4".into(),
            [10] => "ipv6".into(),
            _ => hex(value),
        },
        Form::State => states(value),
        _ => hex(value),
    }
}

/// An address of which only the first bytes are compared, as nft(8) does for whole bytes of a prefix.
fn cut(field: &Field, value: &[u8]) -> String {
    let bits = value.len() * 8;
    let mut whole = value.to_vec();
    whole.resize(if field.form == Form::V4 { 4 } else { 16 }, 0);
    format!("{}/{bits}", shown(field, &whole))
}

fn protocol_name(value: &[u8]) -> String {
    match value {
        [1] => "icmp".into(),
        [6] => "tcp".into(),
        [17] => "udp".into(),
        [58] => "icmpv6".into(),
        [132] => "sctp".into(),
        other => other.iter().map(u8::to_string).collect(),
    }
}

fn looked_up(named: &Named<'_>, name: &str, field: &Field) -> String {
    let chain = named.chain;
    let is_it = |s: &&Set| s.family == chain.family && s.table == chain.table && s.name == name;
    let set = named.rules.sets.iter().find(is_it);
    match set {
        Some(set) if name.starts_with("__") => {
            let element = |element: &super::Element| {
                let key = shown(field, &element.key);
                match (&element.verdict, element.catchall) {
                    (Some(verdict), true) => format!("* : {}", decided(verdict)),
                    (Some(verdict), false) => format!("{key} : {}", decided(verdict)),
                    (None, _) => key,
                }
            };
            let plain = set.elements.iter().filter(|e| !e.ends);
            let mut all: Vec<String> = plain.take(MOST).map(element).collect();
            if set.elements.len() > MOST {
                all.push("...".into());
            }
            format!("{{ {} }}", all.join(", "))
        }
        _ => format!("@{}", printable(name)),
    }
}

fn decided(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".into(),
        Verdict::Drop => "drop".into(),
        Verdict::Queue => "queue".into(),
        Verdict::Continue => "continue".into(),
        Verdict::Return => "return".into(),
        Verdict::Jump(to) => format!("jump {}", printable(to)),
        Verdict::Goto(to) => format!("goto {}", printable(to)),
    }
}

fn hex(value: &[u8]) -> String {
    value.iter().fold(String::from("0x"), |text, byte| text + &format!("{byte:02x}"))
}

fn printable(name: &str) -> String {
    name.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(steps: Vec<Expression>) -> String {
        let chain = Chain {
            family: Family::Inet,
            table: "t".into(),
            name: "c".into(),
            attached: None,
            rules: vec![],
        };
        let named = Named { rules: &Ruleset::default(), chain: &chain };
        rule(&Rule { handle: 1, steps }, &named)
    }

    fn payload(base: u32, offset: u32, length: u32) -> Expression {
        Expression::Payload { base, offset, length, to: 1 }
    }

    fn is(operation: u32, value: &[u8]) -> Expression {
        Expression::Cmp { from: 1, operation, value: value.to_vec() }
    }

    #[test]
    fn a_prefix_of_whole_bytes_is_one() {
        let drop = || Expression::Verdict(Verdict::Drop);
        let nfproto = |family| [Expression::Meta { key: 15, to: 1 }, is(0, &[family])];
        let of = |family, offset, value: &[u8]| {
            let length = u32::try_from(value.len()).unwrap();
            let mut steps = nfproto(family).to_vec();
            steps.extend([payload(1, offset, length), is(0, value), drop()]);
            said(steps)
        };
        assert_eq!(of(2, 12, &[10]), "ip saddr 10.0.0.0/8 drop");
        assert_eq!(of(2, 16, &[192, 0, 2]), "ip daddr 192.0.2.0/24 drop");
        assert_eq!(of(2, 16, &[192, 0, 2, 1]), "ip daddr 192.0.2.1 drop");
        assert_eq!(of(10, 24, &[0x20, 1, 0xd, 0xb8]), "ip6 daddr 2001:db8::/32 drop");
    }

    #[test]
    fn bits_are_compared_with_an_operator() {
        let bits = |operation, value: u8| {
            let mask = Expression::Bitwise { from: 1, to: 1, mask: vec![0x12], xor: vec![0] };
            said(vec![payload(2, 13, 1), mask, is(operation, &[value])])
        };
        assert_eq!(bits(0, 0x12), "tcp flags & 0x12 == 0x12");
        assert_eq!(bits(1, 0), "tcp flags & 0x12 != 0x00");
    }
}
