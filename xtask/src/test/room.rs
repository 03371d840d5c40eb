//! Room for one more test: how many run at once follows what they leave of the machine.
//!
//! Most tests wait most of the time, and some use all that they get. A few run in any case; more begin, one after the other,
//! while the CPUs idle and memory is left. Where the kernel does not tell, it stays with the few.

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One more begins only if the CPUs were idle for this share of their time lately.
const IDLE: f64 = 0.5;

/// Over at least this time, which starts over with each that begins, so that its load is in the next look.
const LATELY: Duration = Duration::from_millis(200);

/// One more begins only if as many bytes of memory are available.
const MEMORY: u64 = 2 << 30;

/// How long a worker waits before it looks again.
const LOOK: Duration = Duration::from_millis(20);

/// How many may run at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// In any case.
    pub(super) few: usize,
    /// While there is room.
    pub(super) many: usize,
}

/// What runs, and how busy the machine was.
#[derive(Debug)]
pub(super) struct Room {
    limits: Limits,
    now: Mutex<Now>,
    /// Held by the one worker that looks for room while others wait.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct Now {
    running: usize,
    /// The CPUs' times, and when they were so.
    seen: Option<(Times, Instant)>,
}

/// A place for a test, until dropped.
#[derive(Debug)]
pub(super) struct Place<'a>(&'a Room);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

impl Room {
    pub(super) fn new(limits: Limits) -> Room {
        Room { limits, now: Mutex::default(), turn: Mutex::default() }
    }

    /// Waits until there is room for one more. Who has just left looks at once; of those that wait, one looks, since what the
    /// kernel has to write for a look takes the time of tests.
    pub(super) fn enter(&self) -> Place<'_> {
        let look = || self.try_enter(Times::read(), memory(), Instant::now());
        if let Some(place) = look() {
            return place;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(place) = look() {
                return place;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Takes a place if there is one, with the CPUs' times and the available memory of this moment.
    fn try_enter(
        &self,
        times: Option<Times>,
        memory: Option<u64>,
        at: Instant,
    ) -> Option<Place<'_>> {
        let mut now = self.lock();
        let few = now.running < self.limits.few;
        if !few {
            let (before, since) = now.seen?;
            let long = at.duration_since(since) >= LATELY;
            let idle = times?.idle_since(before) >= IDLE && memory? >= MEMORY;
            if !long || !idle || now.running >= self.limits.many {
                // Only what is new counts.
                if long {
                    now.seen = times.map(|times| (times, at));
                }
                return None;
            }
        }
        now.seen = times.map(|times| (times, at));
        now.running += 1;
        Some(Place(self))
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time that all CPUs together have spent, in ticks (proc_stat(5)).
#[derive(Clone, Copy, Debug)]
struct Times {
    idle: u64,
    all: u64,
}

impl Times {
    fn read() -> Option<Times> {
        Times::of(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn of(stat: &str) -> Option<Times> {
        let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // User, nice, system, idle, waiting for a disk, interrupts, stolen; time of guests is in user time already.
        let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some(Times { idle, all: ticks.iter().sum() })
    }

    fn idle_since(self, before: Times) -> f64 {
        let [idle, all] = [(self.idle, before.idle), (self.all, before.all)]
            .map(|(now, before)| now.saturating_sub(before));
        if all == 0 { 0.0 } else { idle as f64 / all as f64 }
    }
}

/// Bytes that programs can have without swapping (proc_meminfo(5)).
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { few: 1, many: 3 };

    fn times(idle: u64, all: u64) -> Option<Times> {
        Some(Times { idle, all })
    }

    #[test]
    fn more_begin_one_by_one_while_the_machine_idles() {
        let (room, start) = (Room::new(LIMITS), Instant::now());
        let after = |looks: u32| start + LATELY * looks;
        let _first = room.try_enter(times(0, 0), None, start).unwrap();
        let free = Some(MEMORY);
        assert!(room.try_enter(times(9, 10), free, start).is_none(), "nothing is known yet");
        let _second = room.try_enter(times(90, 100), free, after(1)).unwrap();
        assert!(room.try_enter(times(180, 200), free, after(1)).is_none(), "it has just begun");
        assert!(room.try_enter(times(100, 200), free, after(2)).is_none(), "busy");
        assert!(room.try_enter(times(190, 300), Some(0), after(3)).is_none(), "no memory");
        let third = room.try_enter(times(280, 400), free, after(4)).unwrap();
        assert!(room.try_enter(times(370, 500), free, after(5)).is_none(), "as many as may");
        drop(third);
        assert!(room.try_enter(times(460, 600), free, after(6)).is_some());
    }

    #[test]
    fn all_that_wait_enter_one_after_the_other() {
        let room = Room::new(Limits { few: 1, many: 1 });
        let entered = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let _place = room.enter();
                    assert_eq!(room.lock().running, 1);
                    *entered.lock().unwrap() += 1;
                });
            }
        });
        assert_eq!((*entered.lock().unwrap(), room.lock().running), (4, 0));
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_room_for_the_few() {
        let room = Room::new(LIMITS);
        let now = Instant::now();
        let _first = room.try_enter(None, None, now).unwrap();
        assert!(room.try_enter(None, None, now + LATELY).is_none());
    }

    #[test]
    fn the_kernels_words_are_read() {
        let of = Times::of("cpu  10 1 20 60 5 2 2 0 7 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((of.idle, of.all), (65, 100));
        assert!(Times::of("cpu 1 2 3\n").is_none() && Times::of("intr 1\n").is_none());
        assert!(Times::read().is_some() && memory().is_some_and(|bytes| bytes > 0));
    }
}
