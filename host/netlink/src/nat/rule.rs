//! nftables chains and rules in the kernel's form: lists of small expressions.
//!
//! A rule is a list of expressions, each of which loads, masks, compares or decides; the first
//! comparison that fails ends it. All numbers are big-endian; compared values have the form they
//! have in the packet or in the machine (interface names are 16 bytes, NUL-padded). Specification:
//! `linux/netfilter/nf_tables.h`.

use ipnet::IpNet;

use crate::encode::Encoder;

const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const META_INPUT_NAME: u32 = 6;
const META_OUTPUT_NAME: u32 = 7;
const META_PROTOCOL: u32 = 15;
const META_TRANSPORT: u32 = 16;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const TCP: u8 = 6;
/// Flags of a TCP header (RFC 9293 section 3.1): where they are, and those that tell a first packet.
const TCP_FLAGS_AT: u32 = 13;
const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const CT_STATE: u32 = 0;
const CT_MARK: u32 = 3;
/// Bits of the connection state, in the machine's byte order.
const ESTABLISHED: u32 = 2;
const RELATED: u32 = 4;
/// What a rule carries for those who read it, and its comment in there (libnftnl, `udata.h`).
pub(super) const USER_DATA: u16 = 7;
const COMMENT: u8 = 0;
const NF_DROP: u32 = 0;
const NF_ACCEPT: u32 = 1;
const INTERFACE_NAME: usize = 16;

/// The chains of a lab's table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chain {
    /// NAT of leaving packets.
    Postrouting,
    /// Forwarding; `accept` is the policy if no rule matches.
    Forward { accept: bool },
}

impl Chain {
    /// The forward chain as rules refer to it.
    pub(super) const FORWARD: Self = Self::Forward { accept: true };

    /// Writes the attributes that create the chain.
    pub(super) fn define(self, encoder: &mut Encoder<'_>, table: &str) {
        // NF_INET_POST_ROUTING at the priority of source NAT, NF_INET_FORWARD at that of filters.
        let (kind, hook, priority, policy) = match self {
            Self::Postrouting => ("nat", 4, 100, NF_ACCEPT),
            Self::Forward { accept: true } => ("filter", 2, 0, NF_ACCEPT),
            Self::Forward { accept: false } => ("filter", 2, 0, NF_DROP),
        };
        encoder.string(1, table);
        encoder.string(3, self.name());
        encoder.marked_nest(4, |encoder| {
            encoder.u32_big_endian(1, hook);
            encoder.u32_big_endian(2, priority);
        });
        encoder.u32_big_endian(5, policy);
        encoder.string(7, kind);
    }

    fn name(self) -> &'static str {
        match self {
            Self::Postrouting => "postrouting",
            Self::Forward { .. } => "forward",
        }
    }
}

/// The interface of a forwarded packet that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// A rule being written.
pub(super) struct Rule<'a, 'b> {
    expressions: &'a mut Encoder<'b>,
}

impl Rule<'_, '_> {
    /// Writes the attributes of a rule; `conditions` adds its expressions.
    pub(super) fn write(
        encoder: &mut Encoder<'_>,
        table: &str,
        chain: Chain,
        conditions: &dyn Fn(&mut Rule<'_, '_>),
    ) {
        encoder.string(1, table);
        encoder.string(2, chain.name());
        encoder.marked_nest(4, |expressions| conditions(&mut Rule { expressions }));
    }

    /// Writes the comment of a rule, as nft(8) shows it.
    pub(super) fn comment(encoder: &mut Encoder<'_>, text: &str) {
        // Kind, length and a string with its end, as libnftnl keeps them in what the kernel does not read.
        let mut bytes = vec![COMMENT, u8::try_from(text.len() + 1).unwrap_or(u8::MAX)];
        bytes.extend(text.bytes().chain([0]));
        encoder.attribute(USER_DATA, &bytes);
    }

    /// Continues if the interface has this name (or, if `equal` is false, another).
    pub(super) fn interface(&mut self, side: Side, name: &str, equal: bool) {
        let key = if side == Side::Input { META_INPUT_NAME } else { META_OUTPUT_NAME };
        let mut padded = [0; INTERFACE_NAME];
        // A name longer than any interface's never matches, truncated or not: the last byte of a
        // real name is always NUL.
        let length = name.len().min(INTERFACE_NAME);
        padded[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.load_meta(key);
        self.compare(&padded, equal);
    }

    /// Continues if the interface's name has this prefix.
    pub(super) fn interface_begins(&mut self, side: Side, beginning: &str) {
        let key = if side == Side::Input { META_INPUT_NAME } else { META_OUTPUT_NAME };
        self.load_meta(key);
        let length = beginning.len().min(INTERFACE_NAME);
        // Fewer bytes than a name's compare only its beginning.
        self.compare(&beginning.as_bytes()[..length], true);
    }

    /// Continues if the packet's source is in this prefix.
    pub(super) fn source_in(&mut self, prefix: IpNet) {
        self.load_meta(META_PROTOCOL);
        match prefix {
            IpNet::V4(net) => {
                self.compare(&[NFPROTO_IPV4], true);
                self.header_field(
                    NETWORK_HEADER,
                    12,
                    &net.netmask().octets(),
                    &net.network().octets(),
                );
            }
            IpNet::V6(net) => {
                self.compare(&[NFPROTO_IPV6], true);
                self.header_field(
                    NETWORK_HEADER,
                    8,
                    &net.netmask().octets(),
                    &net.network().octets(),
                );
            }
        }
    }

    /// Continues if the packet belongs to a connection opened from the other side.
    pub(super) fn answers(&mut self) {
        self.load_ct(CT_STATE);
        self.mask(&(ESTABLISHED | RELATED).to_ne_bytes());
        self.compare(&[0; 4], false);
    }

    /// Continues if the packet asks for a TCP connection.
    pub(super) fn asks_for_connection(&mut self) {
        self.load_meta(META_TRANSPORT);
        self.compare(&[TCP], true);
        self.header_field(TRANSPORT_HEADER, TCP_FLAGS_AT, &[SYN_ACK], &[SYN]);
    }

    /// Continues if the packet's connection has this mark.
    pub(super) fn is_marked(&mut self, mark: u32) {
        self.load_ct(CT_MARK);
        self.compare(&mark.to_ne_bytes(), true);
    }

    /// Marks the packet's connection.
    pub(super) fn mark(&mut self, mark: u32) {
        self.expression("immediate", |data| {
            data.u32_big_endian(1, REGISTER);
            data.marked_nest(2, |value| value.attribute(DATA_VALUE, &mark.to_ne_bytes()));
        });
        self.expression("ct", |data| {
            data.u32_big_endian(2, CT_MARK);
            data.u32_big_endian(4, REGISTER);
        });
    }

    /// Loads something of the packet's connection, whether the kernel knows it or not.
    #[cfg(test)]
    pub(super) fn knows(&mut self, key: u32) {
        self.load_ct(key);
    }

    pub(super) fn masquerade(&mut self) {
        self.expression("masq", |_| ());
    }

    pub(super) fn accept(&mut self) {
        self.verdict(NF_ACCEPT);
    }

    pub(super) fn drop(&mut self) {
        self.verdict(NF_DROP);
    }

    fn header_field(&mut self, header: u32, offset: u32, mask: &[u8], value: &[u8]) {
        self.expression("payload", |data| {
            data.u32_big_endian(1, REGISTER);
            data.u32_big_endian(2, header);
            data.u32_big_endian(3, offset);
            data.u32_big_endian(4, length(value));
        });
        self.mask(mask);
        self.compare(value, true);
    }

    fn load_meta(&mut self, key: u32) {
        self.expression("meta", |data| {
            data.u32_big_endian(1, REGISTER);
            data.u32_big_endian(2, key);
        });
    }

    fn load_ct(&mut self, key: u32) {
        self.expression("ct", |data| {
            data.u32_big_endian(1, REGISTER);
            data.u32_big_endian(2, key);
        });
    }

    /// Keeps only the bits of `mask`: at most 16 bytes.
    fn mask(&mut self, mask: &[u8]) {
        self.expression("bitwise", |data| {
            data.u32_big_endian(1, REGISTER);
            data.u32_big_endian(2, REGISTER);
            data.u32_big_endian(3, length(mask));
            data.marked_nest(4, |value| value.attribute(DATA_VALUE, mask));
            data.marked_nest(5, |value| value.attribute(DATA_VALUE, &[0; 16][..mask.len()]));
        });
    }

    fn compare(&mut self, value: &[u8], equal: bool) {
        self.expression("cmp", |data| {
            data.u32_big_endian(1, REGISTER);
            data.u32_big_endian(2, u32::from(!equal));
            data.marked_nest(3, |nest| nest.attribute(DATA_VALUE, value));
        });
    }

    fn verdict(&mut self, code: u32) {
        self.expression("immediate", |data| {
            data.u32_big_endian(1, VERDICT_REGISTER);
            data.marked_nest(2, |value| {
                value.marked_nest(DATA_VERDICT, |verdict| verdict.u32_big_endian(1, code));
            });
        });
    }

    fn expression(&mut self, name: &str, data: impl FnOnce(&mut Encoder<'_>)) {
        self.expressions.marked_nest(1, |element| {
            element.string(1, name);
            element.marked_nest(2, data);
        });
    }
}

/// The length of a value that is compared, at most that of an address.
fn length(value: &[u8]) -> u32 {
    u32::try_from(value.len()).unwrap_or(0)
}
