//! What a machine's kernel counts of time and frames that it could not give.

/// Counters since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Frames lost because a processor's backlog of received frames was full, if the kernel tells.
    pub backlog_drops: Option<u64>,
    /// Ticks of all processors, and those of them in which the host of this virtual machine ran something else.
    pub ticks: Option<Ticks>,
}

/// Ticks of 1/100 s: of `USER_HZ`, which is 100 on every architecture that netloom runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// All.
    pub all: u64,
    /// Stolen ones.
    pub stolen: u64,
}

/// The length of a tick in ns.
pub const TICK_NS: u64 = 10_000_000;

/// Fewer stolen ticks may be the rounding of one.
const FEW: u64 = 2;

/// Sums the drops of `/proc/net/softnet_stat`: a line of hexadecimal numbers for each processor, the second is what its
/// backlog had no room for (`softnet_seq_show` in net/core/net-procfs.c).
pub fn backlog_drops(text: &str) -> Option<u64> {
    let of_line = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok();
    let all: Option<Vec<u64>> = text.lines().map(of_line).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq and steal (proc_stat(5)); what guests
/// used is part of user and nice already.
pub fn ticks(text: &str) -> Option<Ticks> {
    let mut fields = text.lines().next()?.split_ascii_whitespace();
    (fields.next()? == "cpu").then_some(())?;
    let fields: Vec<u64> = fields.map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let [_, _, _, _, _, _, _, stolen, ..] = fields[..] else { return None };
    Some(Ticks { all: fields[..8].iter().sum(), stolen })
}

impl Ticks {
    /// Time in ns that was stolen since an earlier reading, where that is more than 1 % of all time and than rounding.
    pub fn stolen_since(self, earlier: Ticks) -> Option<u64> {
        let all = self.all.saturating_sub(earlier.all);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        (stolen >= FEW && stolen.saturating_mul(100) >= all)
            .then_some(stolen.saturating_mul(TICK_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_processors_are_summed() {
        let text = "0000a1b2 00000002 00000000 00000000\n00000003 0000000f 00000001 00000000\n";
        assert_eq!(backlog_drops(text), Some(17));
        for wrong in ["", "0001\n", "0001 zz\n", "0001 0002\n\n"] {
            assert_eq!(backlog_drops(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn ticks_are_those_of_all_processors() {
        let text = "cpu  10 1 5 80 2 0 1 7 3 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(ticks(text), Some(Ticks { all: 106, stolen: 7 }));
        for wrong in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 4\n", "cpu 1 2 3 4 5 6 7 x\n"] {
            assert_eq!(ticks(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn little_is_not_told() {
        let at = |all, stolen| Ticks { all, stolen };
        assert_eq!(at(1100, 60).stolen_since(at(100, 50)), Some(100_000_000));
        assert_eq!(at(1101, 59).stolen_since(at(100, 50)), None, "less than 1 %");
        assert_eq!(at(120, 51).stolen_since(at(100, 50)), None, "may be rounding");
        assert_eq!(at(20, 5).stolen_since(at(100, 50)), None, "counters that fell");
    }
}
