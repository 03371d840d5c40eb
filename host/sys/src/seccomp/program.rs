//! Filters: a table of calls for each machine, compiled to the kernel's classic BPF.
//!
//! A filter sees the call's number, its machine and its arguments in registers, and no memory. Calls that are not in
//! the table are allowed, in a way that lets the kernel know so in advance (it keeps a bitmap of them), so that they
//! cost next to nothing. Numbers of the x32 ABI, and machines that are not in the filter, get ENOSYS.

use std::mem::offset_of;

/// A machine as seccomp(2) names it (linux/audit.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86, as a compatible program of a 64-bit kernel and by `int 0x80`.
    I386,
    /// 64-bit ARM.
    Aarch64,
}

impl Machine {
    /// This program's own.
    pub const OWN: Machine =
        if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };

    /// All machines.
    pub const ALL: [Machine; 3] = [Machine::X86_64, Machine::I386, Machine::Aarch64];

    /// The kernel's number.
    pub fn number(self) -> u32 {
        match self {
            Machine::X86_64 => 0xC000_003E,
            Machine::I386 => 0x4000_0003,
            Machine::Aarch64 => 0xC000_00B7,
        }
    }

    /// The machine of a number.
    pub fn of(number: u32) -> Option<Machine> {
        Machine::ALL.into_iter().find(|machine| machine.number() == number)
    }
}

/// What the kernel does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Runs it.
    Allow,
    /// Returns this error.
    Errno(u16),
    /// Asks the listener.
    Notify,
}

impl Answer {
    fn value(self) -> u32 {
        match self {
            Answer::Allow => libc::SECCOMP_RET_ALLOW,
            Answer::Errno(errno) => libc::SECCOMP_RET_ERRNO | u32::from(errno),
            Answer::Notify => libc::SECCOMP_RET_USER_NOTIF,
        }
    }
}

/// A condition on an argument (0 to 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Its lower 32 bits, after the mask, are one of these; for arguments that the kernel takes as `int`.
    OneOf {
        /// The argument.
        argument: u8,
        /// The bits that count.
        mask: u32,
        /// The values.
        values: &'static [u32],
    },
    /// It is not zero, in all its bits; for pointers.
    Set(u8),
}

/// A call of the table: the answer of the first clause whose conditions all hold, or else `otherwise`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The call's number on its machine.
    pub number: u32,
    /// Conditions and answers, in order.
    pub clauses: &'static [(&'static [Condition], Answer)],
    /// The answer without a clause that holds.
    pub otherwise: Answer,
}

/// The bit that marks numbers of the x32 ABI.
const X32: u32 = 0x4000_0000;

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Filter(Vec<libc::sock_filter>);

impl Filter {
    /// Compiles the tables of some machines.
    ///
    /// # Panics
    /// A rule is too long for a jump of 255 instructions: a constant table's fault, which tests find.
    pub fn compile(tables: &[(Machine, &[Rule])]) -> Filter {
        let mut code = vec![load(MACHINE)];
        for (machine, rules) in tables {
            let body = machine_body(*machine, rules);
            // Sections are longer than a conditional jump reaches.
            let length = u32::try_from(body.len()).expect("a filter has at most 4096 instructions");
            code.push(jump_if(libc::BPF_JEQ, machine.number(), 1, 0));
            code.push(instruction(libc::BPF_JMP | libc::BPF_JA, length));
            code.extend(body);
        }
        code.push(answer(Answer::Errno(ENOSYS)));
        Filter(code)
    }

    /// The instructions, for the kernel.
    pub(super) fn instructions(&self) -> &[libc::sock_filter] {
        &self.0
    }
}

const ENOSYS: u16 = 38;
#[expect(clippy::cast_possible_truncation, reason = "a small structure")]
const MACHINE: u32 = offset_of!(libc::seccomp_data, arch) as u32;
#[expect(clippy::cast_possible_truncation, reason = "a small structure")]
const NUMBER: u32 = offset_of!(libc::seccomp_data, nr) as u32;
#[expect(clippy::cast_possible_truncation, reason = "a small structure")]
const ARGUMENTS: u32 = offset_of!(libc::seccomp_data, args) as u32;

fn machine_body(machine: Machine, rules: &[Rule]) -> Vec<libc::sock_filter> {
    let mut code = vec![load(NUMBER)];
    if machine == Machine::X86_64 {
        code.push(jump_if(libc::BPF_JSET, X32, 0, 1));
        code.push(answer(Answer::Errno(ENOSYS)));
    }
    for rule in rules {
        let body = rule_body(rule);
        code.push(jump_if(libc::BPF_JEQ, rule.number, 0, distance(body.len())));
        code.extend(body);
    }
    code.push(answer(Answer::Allow));
    code
}

fn rule_body(rule: &Rule) -> Vec<libc::sock_filter> {
    let mut code = vec![];
    for (conditions, then) in rule.clauses {
        code.extend(clause(conditions, *then));
    }
    code.push(answer(rule.otherwise));
    code
}

/// Code that returns `then` if all conditions hold, and else runs past its end.
fn clause(conditions: &[Condition], then: Answer) -> Vec<libc::sock_filter> {
    let parts: Vec<_> = conditions.iter().map(|condition| test(*condition)).collect();
    let mut left = parts.iter().map(Vec::len).sum::<usize>() + 1;
    let mut code = vec![];
    for part in parts {
        left -= part.len();
        let end = part.len() - 1;
        for (at, mut step) in part.into_iter().enumerate() {
            let after = end - at;
            // In a test, a jump to `HOLDS` goes to the next one, a jump to `FAILS` behind the clause.
            for target in [&mut step.jt, &mut step.jf] {
                *target = match *target {
                    HOLDS => distance(after),
                    FAILS => distance(after + left),
                    near => near,
                };
            }
            code.push(step);
        }
    }
    code.push(answer(then));
    code
}

/// Symbolic jumps inside a test.
const HOLDS: u8 = 254;
const FAILS: u8 = 255;

fn test(condition: Condition) -> Vec<libc::sock_filter> {
    match condition {
        Condition::OneOf { argument, mask, values } => {
            let mut code = vec![load(low(argument))];
            if mask != u32::MAX {
                code.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask));
            }
            let last = values.len().saturating_sub(1);
            let tests = values.iter().enumerate().map(|(at, value)| {
                jump_if(libc::BPF_JEQ, *value, HOLDS, if at == last { FAILS } else { 0 })
            });
            code.extend(tests);
            code
        }
        Condition::Set(argument) => vec![
            load(low(argument)),
            jump_if(libc::BPF_JEQ, 0, 0, HOLDS),
            load(low(argument) + 4),
            jump_if(libc::BPF_JEQ, 0, FAILS, HOLDS),
        ],
    }
}

/// The offset of an argument's lower half: all machines here are little-endian.
fn low(argument: u8) -> u32 {
    ARGUMENTS + 8 * u32::from(argument)
}

fn distance(length: usize) -> u8 {
    let fits = u8::try_from(length).ok().filter(|far| *far < HOLDS);
    fits.expect("a rule has fewer than 254 instructions")
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

fn answer(answer: Answer) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer.value())
}

fn jump_if(test: u32, value: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { jt, jf, ..instruction(libc::BPF_JMP | test | libc::BPF_K, value) }
}

fn instruction(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter's answer to a call, by the rules of bpf(4).
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    fn run(filter: &Filter, machine: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let words: Vec<u32> = [number, machine, 0, 0]
            .into_iter()
            .chain(arguments.into_iter().flat_map(|a| [a as u32, (a >> 32) as u32]))
            .collect();
        let (mut at, mut value) = (0, 0);
        loop {
            let now = &filter.0[at];
            at += 1;
            let code = u32::from(now.code);
            match code & 7 {
                libc::BPF_LD => value = words[now.k as usize / 4],
                libc::BPF_ALU => value &= now.k,
                libc::BPF_JMP if code & 0xF0 == libc::BPF_JA => at += now.k as usize,
                libc::BPF_JMP => {
                    let holds = if code & 0xF0 == libc::BPF_JSET {
                        value & now.k != 0
                    } else {
                        value == now.k
                    };
                    at += usize::from(if holds { now.jt } else { now.jf });
                }
                _ => return now.k,
            }
        }
    }

    const RULES: [Rule; 3] = [
        Rule { number: 42, clauses: &[], otherwise: Answer::Notify },
        Rule {
            number: 44,
            clauses: &[(&[Condition::Set(4)], Answer::Notify)],
            otherwise: Answer::Allow,
        },
        Rule {
            number: 41,
            clauses: &[
                (
                    &[
                        Condition::OneOf { argument: 0, mask: u32::MAX, values: &[2, 10] },
                        Condition::OneOf { argument: 1, mask: 0xF, values: &[1, 2] },
                    ],
                    Answer::Allow,
                ),
                (
                    &[Condition::OneOf { argument: 0, mask: u32::MAX, values: &[1] }],
                    Answer::Errno(13),
                ),
            ],
            otherwise: Answer::Notify,
        },
    ];

    fn filter() -> Filter {
        Filter::compile(&[(Machine::X86_64, &RULES), (Machine::I386, &RULES[..1])])
    }

    fn x86(number: u32, arguments: [u64; 6]) -> u32 {
        run(&filter(), Machine::X86_64.number(), number, arguments)
    }

    #[test]
    fn calls_outside_the_table_are_allowed() {
        assert_eq!(x86(0, [1; 6]), Answer::Allow.value());
        assert_eq!(run(&filter(), Machine::I386.number(), 44, [1; 6]), Answer::Allow.value());
    }

    #[test]
    fn a_rule_without_clauses_is_its_answer() {
        assert_eq!(x86(42, [0; 6]), Answer::Notify.value());
        assert_eq!(run(&filter(), Machine::I386.number(), 42, [0; 6]), Answer::Notify.value());
    }

    #[test]
    fn a_pointer_counts_with_all_its_bits() {
        let with = |pointer| x86(44, [0, 0, 0, 0, pointer, 0]);
        assert_eq!(with(0), Answer::Allow.value());
        for pointer in [1, 0x7fff_0000_0000, u64::MAX, 0x1_0000_0000] {
            assert_eq!(with(pointer), Answer::Notify.value(), "{pointer:x}");
        }
    }

    #[test]
    fn integers_count_with_their_lower_half_after_the_mask() {
        let socket = |family: u64, kind: u64| x86(41, [family, kind, 0, 0, 0, 0]);
        assert_eq!(socket(2, 1), Answer::Allow.value());
        assert_eq!(socket(10, 0x8_0802), Answer::Allow.value());
        assert_eq!(socket(0xFFFF_FFFF_0000_0002, 1), Answer::Allow.value());
        assert_eq!(socket(2, 3), Answer::Notify.value());
        assert_eq!(socket(17, 2), Answer::Notify.value());
        assert_eq!(socket(1, 3), Answer::Errno(13).value());
    }

    #[test]
    fn foreign_machines_and_x32_are_unknown_calls() {
        let enosys = Answer::Errno(ENOSYS).value();
        assert_eq!(x86(42 | X32, [0; 6]), enosys);
        assert_eq!(x86(X32, [0; 6]), enosys);
        assert_eq!(run(&filter(), Machine::Aarch64.number(), 0, [0; 6]), enosys);
        assert_eq!(run(&filter(), 0, 0, [0; 6]), enosys);
    }

    #[test]
    fn machines_are_known_by_their_numbers() {
        for machine in Machine::ALL {
            assert_eq!(Machine::of(machine.number()), Some(machine));
        }
        assert_eq!(Machine::of(0), None);
    }
}
