//! A packet's way through the chains of a hook.
//!
//! Registers hold bytes that may be unknown. A comparison with an unknown byte is a doubt: the rule then may or may not
//! match. A drop counts as certain only if no rule before it may have accepted the packet.

use super::order;
use super::registers::Registers;
use super::text::{self, Named};
use super::translate::{self, New};
use super::{Chain, Expression, Family, Hook, Rule, Ruleset, Set, Verdict};

/// How deep chains may call each other (`NFT_JUMP_STACK_SIZE`).
const DEEPEST: usize = 16;

/// Most rules that a packet is compared with in a chain of a hook and those that it calls: where each of several chains calls the
/// next one often, the kernel would take ages, too.
const MOST_RULES: usize = 100_000;

/// What is known of a packet.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// Whether it is of IPv4; else of IPv6.
    pub ipv4: bool,
    /// Its protocol: 1, 6, 17, 58.
    pub protocol: u8,
    /// Name and index of the interface by which it came.
    pub input: Option<(String, u32)>,
    /// The same for the one by which it leaves.
    pub output: Option<(String, u32)>,
    /// Its network header; unknown bytes are `None`.
    pub network: Vec<Option<u8>>,
    /// Its transport header.
    pub transport: Vec<Option<u8>>,
    /// Whether it answers one that connection tracking has seen there; `None` if that is not known.
    pub answers: Option<bool>,
    /// Whether it is a message of ARP, which is then its network header.
    pub arp: bool,
}

/// A rule, or a chain's policy, that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The table's family.
    pub family: Family,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// The rule's handle; `None` for the chain's policy.
    pub handle: Option<u64>,
    /// The rule as text.
    pub text: String,
    /// Whether the sender is told.
    pub rejects: bool,
    /// Whether it may drop the packet; else it may accept or change it.
    pub drops: bool,
}

impl Decided {
    fn dropping(self) -> Decided {
        Decided { drops: true, ..self }
    }
}

/// What happens to a packet at a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It passes.
    Passes,
    /// It passes, and may have got other addresses or ports by this rule; which, where that is certain.
    Translated(Decided, Option<New>),
    /// It is dropped.
    Stopped(Decided),
    /// It may be dropped; by what, and what is not known of these rules.
    Doubtful(Vec<Decided>),
}

/// Runs a packet through all chains of a hook.
pub fn run(rules: &Ruleset, hook: Hook, packet: &Packet) -> Fate {
    let of_hook = |chain: &&Chain| {
        let fits = match chain.family {
            Family::Inet => true,
            Family::Ip => packet.ipv4,
            Family::Ip6 => !packet.ipv4,
            Family::Netdev | Family::Other(_) => false,
        };
        fits && chain.attached.as_ref().is_some_and(|at| at.hook == hook.number())
    };
    run_all(rules, rules.chains.iter().filter(of_hook).collect(), packet)
}

/// Runs a message of ARP through the chains of table family `arp`: what comes in (NF_ARP_IN), or what leaves (NF_ARP_OUT).
pub fn run_arp(rules: &Ruleset, sends: bool, packet: &Packet) -> Fate {
    let of_hook = |chain: &&Chain| {
        chain.family == Family::Other(3)
            && chain.attached.as_ref().is_some_and(|at| at.hook == u32::from(sends))
    };
    run_all(rules, rules.chains.iter().filter(of_hook).collect(), packet)
}

/// Runs a packet through the chains of a device: what it receives, or what it sends.
pub fn run_device(rules: &Ruleset, device: &str, sends: bool, packet: &Packet) -> Fate {
    // NF_NETDEV_INGRESS and NF_NETDEV_EGRESS; NF_INET_INGRESS of tables for both families.
    let of_device = |chain: &&Chain| {
        let number = match (chain.family, sends) {
            (Family::Netdev, _) => u32::from(sends),
            (Family::Inet, false) => 5,
            _ => return false,
        };
        let here = |at: &super::Attached| at.devices.iter().any(|d| d == device);
        chain.attached.as_ref().is_some_and(|at| at.hook == number && here(at))
    };
    run_all(rules, rules.chains.iter().filter(of_device).collect(), packet)
}

fn run_all(rules: &Ruleset, mut chains: Vec<&Chain>, packet: &Packet) -> Fate {
    order::sort(&mut chains);
    let fate = run_in_order(rules, &chains, packet);
    if !matches!(fate, Fate::Stopped(_)) {
        return fate;
    }
    // It is stopped for certain only if it is so in whichever order the kernel may have them.
    let others = order::others(&chains).into_iter();
    let doubtful = |fate: &Fate| matches!(fate, Fate::Doubtful(_));
    others.map(|order| run_in_order(rules, &order, packet)).find(doubtful).unwrap_or(fate)
}

fn run_in_order(rules: &Ruleset, chains: &[&Chain], packet: &Packet) -> Fate {
    let mut doubts = Vec::new();
    let mut translated = None;
    let tracks = tracks(rules);
    for chain in chains {
        let mut run = Run {
            rules,
            packet,
            tracks,
            left: MOST_RULES,
            may_drop: vec![],
            may_accept: vec![],
            translated: None,
        };
        let end = run.chain(chain, 0);
        let drops = chain.attached.as_ref().is_some_and(|at| at.drops);
        let stopped = match end {
            End::Stopped(by) => Some(by),
            End::Falls if drops => Some(policy(chain)),
            _ => None,
        };
        // An earlier chain may have translated the packet; the rules here are compared with it as it was before.
        let earlier = translated.as_ref().map(|(by, _): &(Decided, _)| by.clone());
        translated = translated.or(run.translated);
        let sure = run.may_accept.is_empty() && doubts.is_empty() && earlier.is_none();
        match stopped {
            Some(by) if sure => return Fate::Stopped(by),
            Some(by) => {
                if let Some(earlier) = earlier.filter(|earlier| !doubts.contains(earlier)) {
                    doubts.push(earlier);
                }
                doubts.append(&mut run.may_accept);
                doubts.append(&mut run.may_drop);
                doubts.push(by.dropping());
            }
            None => doubts.append(&mut run.may_drop),
        }
    }
    match translated {
        _ if !doubts.is_empty() => Fate::Doubtful(doubts),
        Some((by, new)) => Fate::Translated(by, new),
        None => Fate::Passes,
    }
}

/// Whether no rule exempts packets from connection tracking: their state is another then.
fn tracks(rules: &Ruleset) -> bool {
    let exempts = |step: &Expression| match step {
        Expression::Harmless(name) => name == "notrack" || name == "CT",
        _ => false,
    };
    !rules.chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.steps).any(exempts)
}

fn policy(chain: &Chain) -> Decided {
    Decided {
        family: chain.family,
        table: chain.table.clone(),
        chain: chain.name.clone(),
        handle: None,
        text: "policy drop".into(),
        rejects: false,
        drops: true,
    }
}

/// How a chain ends.
enum End {
    Accepted,
    Stopped(Decided),
    /// No rule decided.
    Falls,
}

/// How a rule ends.
enum Outcome {
    NoMatch,
    Decides(Verdict),
    Stops {
        rejects: bool,
    },
    /// As known here.
    Translates(Option<New>),
    /// It translates, or does not match.
    MayTranslate,
    /// It may decide this, or not match.
    Doubt(Verdict),
}

struct Run<'a> {
    rules: &'a Ruleset,
    packet: &'a Packet,
    /// Whether connection tracking sees all packets.
    tracks: bool,
    /// Rules that may still be looked at.
    left: usize,
    may_drop: Vec<Decided>,
    may_accept: Vec<Decided>,
    translated: Option<(Decided, Option<New>)>,
}

impl Run<'_> {
    fn chain(&mut self, chain: &Chain, depth: usize) -> End {
        for rule in &chain.rules {
            let decided = |rejects| Decided {
                family: chain.family,
                table: chain.table.clone(),
                chain: chain.name.clone(),
                handle: Some(rule.handle),
                text: text::rule(rule, &Named { rules: self.rules, chain }),
                rejects,
                drops: false,
            };
            let Some(left) = self.left.checked_sub(1) else {
                self.may_drop.push(decided(false).dropping());
                self.may_accept.push(decided(false));
                return End::Falls;
            };
            self.left = left;
            match self.rule(chain, rule) {
                Outcome::NoMatch | Outcome::Decides(Verdict::Continue) => {}
                Outcome::Decides(Verdict::Accept) => return End::Accepted,
                Outcome::Decides(Verdict::Drop) => return End::Stopped(decided(false)),
                Outcome::Decides(Verdict::Return) => return End::Falls,
                Outcome::Stops { rejects } => return End::Stopped(decided(rejects)),
                Outcome::Translates(new) => {
                    // A rule before may have accepted the packet as it was.
                    let new = new.filter(|_| self.may_accept.is_empty());
                    self.translated = Some((decided(false), new));
                    return End::Accepted;
                }
                Outcome::MayTranslate => {
                    let by = decided(false);
                    self.translated.get_or_insert_with(|| (by.clone(), None));
                    self.may_accept.push(by);
                }
                // A program decides: it may drop the packet, and may accept it.
                Outcome::Decides(Verdict::Queue) => {
                    let by = decided(false);
                    self.may_drop.push(by.clone().dropping());
                    self.may_accept.push(by);
                }
                Outcome::Decides(Verdict::Jump(to)) => match self.jump(chain, &to, depth) {
                    Some(End::Falls) => {}
                    Some(end) => return end,
                    None => self.may_drop.push(decided(false).dropping()),
                },
                Outcome::Decides(Verdict::Goto(to)) => {
                    if let Some(end) = self.jump(chain, &to, depth) {
                        return end;
                    }
                    self.may_drop.push(decided(false).dropping());
                }
                Outcome::Doubt(verdict) => self.doubt(chain, verdict, decided(false), depth),
            }
        }
        End::Falls
    }

    fn jump(&mut self, from: &Chain, to: &str, depth: usize) -> Option<End> {
        let is_it = |c: &&Chain| c.family == from.family && c.table == from.table && c.name == to;
        let next = self.rules.chains.iter().find(is_it)?;
        (depth < DEEPEST).then(|| self.chain(next, depth + 1))
    }

    /// A rule that may match.
    fn doubt(&mut self, chain: &Chain, verdict: Verdict, by: Decided, depth: usize) {
        let leaves = matches!(verdict, Verdict::Goto(_));
        match verdict {
            Verdict::Continue => {}
            Verdict::Drop => self.may_drop.push(by.dropping()),
            Verdict::Accept | Verdict::Return => self.may_accept.push(by),
            Verdict::Queue => {
                self.may_drop.push(by.clone().dropping());
                self.may_accept.push(by);
            }
            Verdict::Jump(to) | Verdict::Goto(to) => match self.jump(chain, &to, depth) {
                // If it matches, what follows a `goto` is not looked at.
                Some(End::Falls) if leaves => self.may_accept.push(by),
                Some(End::Falls) => {}
                Some(End::Accepted) => self.may_accept.push(by),
                Some(End::Stopped(at)) => self.may_drop.push(at.dropping()),
                None => self.may_drop.push(by.dropping()),
            },
        }
    }

    fn rule(&self, chain: &Chain, rule: &Rule) -> Outcome {
        let mut registers = Registers::default();
        let mut sure = true;
        for step in &rule.steps {
            let holds = match step {
                Expression::Verdict(verdict) if sure => return Outcome::Decides(verdict.clone()),
                Expression::Verdict(verdict) => return Outcome::Doubt(verdict.clone()),
                Expression::Reject { .. } if sure => return Outcome::Stops { rejects: true },
                Expression::Reject { .. } => return Outcome::Doubt(Verdict::Drop),
                // Chains of NAT see the first packet of a connection alone (nft(8), chain type nat).
                Expression::Nat(_) if self.packet.answers == Some(true) => {
                    return Outcome::Decides(Verdict::Accept);
                }
                Expression::Nat(nat) if sure => {
                    return Outcome::Translates(translate::new(nat, &registers, self.packet.ipv4));
                }
                Expression::Nat(_) => return Outcome::MayTranslate,
                Expression::Counter { .. } | Expression::Harmless(_) => continue,
                // Register 0 is the verdict: the map decides.
                Expression::Lookup { set, from, to: Some(0), .. } => {
                    let Some(set) = self.set(chain, set) else {
                        return Outcome::Doubt(Verdict::Queue);
                    };
                    return match mapped(set, &registers, *from) {
                        Some(Some(verdict)) if sure => Outcome::Decides(verdict),
                        Some(Some(verdict)) => Outcome::Doubt(verdict),
                        Some(None) => Outcome::NoMatch,
                        None => Outcome::Doubt(Verdict::Queue),
                    };
                }
                Expression::Lookup { set, from, inverted, to: None } => {
                    let set = self.set(chain, set);
                    let has = set.and_then(|set| contains(set, &registers, *from));
                    has.map(|has| has != *inverted)
                }
                Expression::Lookup { set, from, to: Some(to), .. } => {
                    // A value that the map lacks ends the rule (`nft_lookup_eval`); what the map has for it is not read.
                    let set = self.set(chain, set);
                    let has = set.and_then(|set| contains(set, &registers, *from));
                    registers.forget(*to, 16);
                    has
                }
                Expression::Cmp { from, operation, value } => {
                    compare(&registers, *from, *operation, value)
                }
                Expression::Range { from, inverted, low, high } => {
                    let within = |bytes: Vec<u8>| {
                        (bytes.as_slice() >= low.as_slice() && bytes.as_slice() <= high.as_slice())
                            != *inverted
                    };
                    registers.get(*from, low.len()).map(within)
                }
                Expression::Unknown(_) => {
                    // It may have written to any of them.
                    registers = Registers::default();
                    None
                }
                load => {
                    self.load(load, &mut registers);
                    continue;
                }
            };
            match holds {
                Some(true) => {}
                Some(false) => return Outcome::NoMatch,
                None => sure = false,
            }
        }
        Outcome::Decides(Verdict::Continue)
    }

    fn set(&self, chain: &Chain, name: &str) -> Option<&Set> {
        let is_it = |s: &&Set| s.family == chain.family && s.table == chain.table && s.name == name;
        self.rules.sets.iter().find(is_it)
    }

    fn load(&self, step: &Expression, registers: &mut Registers) {
        match step {
            Expression::Meta { key, to } => match self.meta(*key) {
                Some(value) => registers.put(*to, value.into_iter().map(Some)),
                None => registers.forget(*to, 16),
            },
            Expression::Payload { base, offset, length, to } => {
                let header = match base {
                    1 => &self.packet.network,
                    2 => &self.packet.transport,
                    _ => return registers.forget(*to, 16),
                };
                let at = |i: u32| header.get(offset.saturating_add(i) as usize).copied().flatten();
                registers.put(*to, (0..*length).map(at));
            }
            Expression::Ct { key: 0, to } => {
                // NF_CT_STATE_BIT: established 2, new 8.
                let known = self.packet.answers.filter(|_| self.tracks);
                let state = known.map(|answers| if answers { 2_u32 } else { 8 });
                match state {
                    Some(state) => registers.put(*to, state.to_ne_bytes().map(Some)),
                    None => registers.forget(*to, 4),
                }
            }
            Expression::Bitwise { from, to, mask, xor } => {
                let masked = mask.iter().zip(xor).enumerate().map(|(at, (mask, xor))| {
                    match registers.byte(*from, at) {
                        Some(byte) => Some((byte & mask) ^ xor),
                        // What the mask takes away need not be known.
                        None => (*mask == 0).then_some(*xor),
                    }
                });
                let masked: Vec<Option<u8>> = masked.collect();
                registers.put(*to, masked);
            }
            Expression::Byteorder { from, to, length, size } => {
                let size = (*size).max(1) as usize;
                let bytes: Vec<Option<u8>> =
                    (0..*length as usize).map(|at| registers.byte(*from, at)).collect();
                let turned = bytes.chunks(size).flat_map(|word| word.iter().rev().copied());
                let turned: Vec<Option<u8>> =
                    if cfg!(target_endian = "little") { turned.collect() } else { bytes };
                registers.put(*to, turned);
            }
            Expression::Constant { to, value } => {
                registers.put(*to, value.iter().copied().map(Some))
            }
            Expression::Ct { to, .. } => registers.forget(*to, 16),
            _ => {}
        }
    }

    fn meta(&self, key: u32) -> Option<Vec<u8>> {
        let packet = self.packet;
        let padded = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        };
        // A hook that a packet meets before it has such an interface compares with no name at all.
        let name = |of: &Option<(String, u32)>| padded(of.as_ref().map_or("", |(name, _)| name));
        let index = |of: &Option<(String, u32)>| of.as_ref().map_or(0, |(_, i)| *i).to_ne_bytes();
        Some(match key {
            1 if packet.arp => vec![0x08, 0x06],
            1 => if packet.ipv4 { [0x08, 0x00] } else { [0x86, 0xdd] }.to_vec(),
            4 => index(&packet.input).to_vec(),
            5 => index(&packet.output).to_vec(),
            6 => name(&packet.input),
            7 => name(&packet.output),
            15 | 16 if packet.arp => return None,
            15 => vec![if packet.ipv4 { 2 } else { 10 }],
            16 => vec![packet.protocol],
            _ => return None,
        })
    }
}

fn compare(registers: &Registers, from: u32, operation: u32, value: &[u8]) -> Option<bool> {
    // One known byte that differs decides equality, whatever the others are.
    let differs = value
        .iter()
        .enumerate()
        .any(|(at, wanted)| registers.byte(from, at).is_some_and(|byte| byte != *wanted));
    match (operation, differs) {
        (0, true) => return Some(false),
        (1, true) => return Some(true),
        _ => {}
    }
    let bytes = registers.get(from, value.len())?;
    let bytes = bytes.as_slice();
    Some(match operation {
        0 => bytes == value,
        1 => bytes != value,
        2 => bytes < value,
        3 => bytes <= value,
        4 => bytes > value,
        5 => bytes >= value,
        _ => return None,
    })
}

/// The element for a value; `None` if that is not known.
fn element<'s>(
    set: &'s Set,
    registers: &Registers,
    from: u32,
) -> Option<Option<&'s super::Element>> {
    let catchall = || set.elements.iter().find(|e| e.catchall);
    let plain = || set.elements.iter().filter(|e| !e.catchall);
    let Some(length) = plain().map(|e| e.key.len()).max() else { return Some(catchall()) };
    let key = registers.get(from, length)?;
    // Each field has an interval of its own, and the lengths of fields are not told here.
    if set.concatenated && set.intervals {
        let exact =
            plain().find(|e| e.key == key && e.last.as_ref().is_none_or(|last| *last == key));
        return exact.map(Some);
    }
    let found = if set.intervals {
        // An interval that has its end by itself, or else the last boundary that is not after the value.
        let own =
            plain().find(|e| e.last.as_ref().is_some_and(|last| e.key <= key && key <= *last));
        let boundary = plain().filter(|e| e.last.is_none() && e.key <= key);
        // Where an interval begins at the end of another, the begin counts.
        own.or_else(|| boundary.max_by_key(|e| (&e.key, !e.ends)).filter(|e| !e.ends))
    } else {
        plain().find(|e| e.key == key)
    };
    Some(found.or_else(catchall))
}

fn contains(set: &Set, registers: &Registers, from: u32) -> Option<bool> {
    element(set, registers, from).map(|found| found.is_some())
}

fn mapped(set: &Set, registers: &Registers, from: u32) -> Option<Option<Verdict>> {
    match element(set, registers, from)? {
        // A verdict that was not understood.
        Some(found) => found.verdict.clone().map(Some),
        None => Some(None),
    }
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
