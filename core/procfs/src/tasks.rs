//! What the processes of a node do, by their `/proc/PID/stat`.

use crate::Ticks;

/// Counts over the processes of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Threads that run or could.
    pub running: u32,
    /// Threads that wait for a device.
    pub blocked: u32,
    /// All threads.
    pub threads: u32,
    /// What they used, and those that they have waited for.
    pub used: Ticks,
}

impl Tasks {
    /// Adds a process by the text of its `stat`. With several threads its state is that of the first alone: returns whether
    /// [`Tasks::add_thread`] is to have each.
    pub fn add(&mut self, stat: &str) -> bool {
        let Some(fields) = Fields::of(stat) else { return false };
        self.threads += fields.threads;
        self.used.user += fields.user;
        self.used.system += fields.system;
        if fields.threads == 1 {
            self.count(fields.state);
        }
        fields.threads > 1
    }

    /// Adds the state of one of several threads, by the text of its `stat`.
    pub fn add_thread(&mut self, stat: &str) {
        if let Some(fields) = Fields::of(stat) {
            self.count(fields.state);
        }
    }

    fn count(&mut self, state: char) {
        match state {
            'R' => self.running += 1,
            'D' => self.blocked += 1,
            _ => {}
        }
    }
}

/// Fields 3, 14 to 17 and 20 (proc(5)).
struct Fields {
    state: char,
    user: u64,
    system: u64,
    threads: u32,
}

impl Fields {
    fn of(stat: &str) -> Option<Fields> {
        // The name may contain anything, even parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut after = |skipped: usize| fields.nth(skipped)?.parse::<u64>().ok();
        let (user, system) = (after(10)?, after(0)?);
        let (user_of_children, system_of_children) = (after(0)?, after(0)?);
        Some(Fields {
            state,
            user: user.saturating_add(user_of_children),
            system: system.saturating_add(system_of_children),
            threads: u32::try_from(after(2)?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, state: char, threads: u32) -> String {
        let before = "1 7 7 0 -1 4194560 155 2000 3 4";
        format!("7 ({name}) {state} {before} 10 20 300 4000 20 0 {threads} 0 99 8192 5 1\n")
    }

    #[test]
    fn times_are_those_of_a_process_and_of_its_children() {
        let mut tasks = Tasks::default();
        assert!(!tasks.add(&line("a) S (b", 'R', 1)));
        assert_eq!(tasks.used, Ticks { user: 310, system: 4020 });
        assert!(!tasks.add(&line("sh", 'D', 1)));
        assert!(!tasks.add(&line("sh", 'S', 1)));
        assert_eq!((tasks.running, tasks.blocked, tasks.threads), (1, 1, 3));
    }

    #[test]
    fn each_thread_has_a_state_of_its_own() {
        let mut tasks = Tasks::default();
        assert!(tasks.add(&line("many", 'R', 3)));
        for state in ['R', 'S', 'R'] {
            tasks.add_thread(&line("many", state, 3));
        }
        assert_eq!((tasks.running, tasks.threads, tasks.used.user), (2, 3, 310));
    }

    #[test]
    fn what_is_cut_off_counts_nothing() {
        let mut tasks = Tasks::default();
        for text in ["", "7 (x", "7 (x) R 1 2 3", "7 (x) R 1 7 7 0 -1 1 1 1 1 1 a b c d 1 1 1"] {
            assert!(!tasks.add(text));
        }
        assert_eq!(tasks, Tasks::default());
    }
}
