//! `test kill --seed S --first I --n N`: passes the crash test's arguments through the environment.

use anyhow::{Result, bail};

use super::flags::number;

/// Parameters of the crash test.
#[derive(Clone, Copy, Debug)]
pub(super) struct KillRun {
    seed: u64,
    first: u64,
    count: u64,
}

impl KillRun {
    /// Prefix of its test names.
    pub(super) const TESTS: &'static str = "kill::";

    pub(super) fn parse(args: &[String]) -> Result<KillRun> {
        let mut run = KillRun { seed: 1, first: 0, count: 200 };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            match flag.as_str() {
                "--seed" => run.seed = number(flag, args.next())?,
                "--first" => run.first = number(flag, args.next())?,
                "--n" => run.count = number(flag, args.next())?,
                other => bail!("test kill: no option `{other}`: --seed S, --first I, --n N"),
            }
        }
        println!("crash test: seed {}, {} kills for each user", run.seed, run.count);
        Ok(run)
    }

    /// Multiple of what an ordinary run may take; on a busy machine a kill with what follows takes ten seconds.
    pub(super) fn parts(self) -> u32 {
        u32::try_from(self.count.div_ceil(100)).unwrap_or(u32::MAX).clamp(1, 1000)
    }

    pub(super) fn variables(self) -> [(&'static str, String); 3] {
        [
            ("NETLOOM_KILL_SEED", self.seed.to_string()),
            ("NETLOOM_KILL_FIRST", self.first.to_string()),
            ("NETLOOM_KILL_COUNT", self.count.to_string()),
        ]
    }
}
