//! Files of a node's `/proc` that are its own: loads, memory, CPU time, age.
//!
//! They are files of the node's, mounted over the kernel's. The init holds a lease on each ([`netloom_sys::lease`]): the
//! opener of one waits until the init has written what is true now. While somebody keeps one open, which ends the lease, the
//! init writes it again and again. Nothing is done while nobody reads. The init itself must never open them: it would wait
//! for itself. When it dies, the leases end with it. Texts are made by `core/procfs`; that processes' start times agree
//! with the node's age is the work of its time namespace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use netloom_procfs::{Groups, Moment, Tasks, Ticks};
use netloom_stats::Load;
use netloom_sys::{clock, lease, population};

use crate::loads;
use crate::spec::NodeSpec;

/// Their names in `/proc`.
pub(crate) const NAMES: [&str; 4] = ["loadavg", "meminfo", "stat", "uptime"];

/// The first and the longest pause before a lease is taken again.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// From this pause on a file counts as kept open.
const KEPT_OPEN: Duration = Duration::from_millis(100);

/// Loads that are older have nobody who goes on with them: the lab has no process.
const FORSAKEN: Duration = Duration::from_secs(15);

/// The files, with a lease on each.
#[derive(Debug)]
pub(crate) struct Leased([File; 4]);

impl Leased {
    /// Opens them in this directory.
    pub(crate) fn open(dir: &Path) -> io::Result<Leased> {
        let open = |name: &str| {
            let file = File::options().read(true).write(true).open(dir.join(name))?;
            lease::take(&file).map(|()| file)
        };
        let [a, b, c, d] = NAMES;
        Ok(Leased([open(a)?, open(b)?, open(c)?, open(d)?]))
    }

    /// Those to show: each name in `/proc`, and where the file is. Without a time of the node's own `uptime` is the
    /// machine's, as the start times of processes are.
    pub(crate) fn shown(&self, own_time: bool) -> Vec<(&'static str, PathBuf)> {
        let path = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        let all = NAMES.into_iter().zip(self.0.iter().map(path));
        all.filter(|(name, _)| own_time || *name != "uptime").collect()
    }
}

/// Files of the machine's `/proc` that are covered in the node.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) meminfo: Option<File>,
    /// It has the last process id in the reader's PID namespace.
    pub(crate) loadavg: Option<File>,
}

/// Opens the files of a node's groups, with their names; a limit that is not there limits nothing.
pub fn open_gauges(files: &[PathBuf]) -> Vec<(String, File)> {
    let open =
        |path: &PathBuf| Some((path.file_name()?.to_str()?.to_owned(), File::open(path).ok()?));
    files.iter().filter_map(open).collect()
}

/// Where figures come from.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    index: usize,
    /// Files of the node's groups, by name.
    gauges: Vec<(String, File)>,
    loads: Option<File>,
    machine: Machine,
}

impl Sources {
    /// Opens what a node can be measured by, while the host's files are there.
    pub(crate) fn open(spec: &NodeSpec, loads: Option<File>) -> Sources {
        let gauges = open_gauges(&spec.gauges);
        Sources { index: spec.index, gauges, loads, machine: Machine::default() }
    }

    /// Adds what the kernel says, before it is covered.
    pub(crate) fn with(self, machine: Machine) -> Sources {
        Sources { machine, ..self }
    }

    /// Descriptors that stay open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let Machine { meminfo, loadavg } = &self.machine;
        let gauges = self.gauges.iter().map(|(_, file)| file);
        gauges.chain(&self.loads).chain(meminfo).chain(loadavg).map(AsFd::as_fd)
    }

    fn groups(&self) -> Groups {
        let mut groups = Groups::default();
        for (name, file) in &self.gauges {
            groups.take(name, &text(file));
        }
        groups
    }

    /// The node's loads. Where nobody measures them any more, what runs now has run since.
    fn averages(&self, tasks: &Tasks) -> loads::Averages {
        let found = self.loads.as_ref().and_then(|file| loads::read(file, self.index));
        let Some((time, [one, five, fifteen])) = found else { return [0.0; 3] };
        let elapsed = Duration::from_nanos(clock::monotonic().saturating_sub(time));
        let mut load = Load { one, five, fifteen };
        if elapsed > FORSAKEN {
            // The init runs, too, now.
            load.observe(tasks.running.saturating_sub(1) + tasks.blocked, elapsed);
        }
        load.averages()
    }
}

/// The figures of a living node.
pub(crate) struct Figures {
    leased: Option<Leased>,
    /// Which of them are leased now.
    held: [bool; 4],
    sources: Sources,
    refused: Option<String>,
    /// When the node began, by the clock of its own time if it has one.
    begun: u64,
    /// The same in seconds since 1970.
    born: u64,
    used: Ticks,
    pause: Duration,
    due: Option<Instant>,
}

impl Figures {
    /// Figures of a node that begins now.
    pub(crate) fn new(
        leased: io::Result<Leased>,
        sources: Sources,
        no_own_time: Option<String>,
    ) -> Figures {
        let begun = if no_own_time.is_some() { clock::boot_time() } else { 0 };
        let refused = match (&leased, no_own_time) {
            (Err(why), _) => Some(format!("loads, memory and CPU time: lease: {why}")),
            (Ok(_), Some(why)) => Some(format!("uptime: {why}")),
            (Ok(_), None) => None,
        };
        let leased = leased.ok();
        let held = [leased.is_some(); 4];
        Figures { leased, held, sources, refused, begun, ..Figures::none() }
    }

    /// For an init without programs: the core's.
    pub(crate) fn none() -> Figures {
        Figures {
            leased: None,
            held: [false; 4],
            sources: Sources::default(),
            refused: None,
            begun: 0,
            born: 0,
            used: Ticks::default(),
            pause: FIRST_PAUSE,
            due: None,
        }
    }

    /// Why some are the machine's.
    pub(crate) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Descriptors that stay open.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let leased = self.leased.iter().flat_map(|leased| &leased.0).map(AsFd::as_fd);
        leased.chain(self.sources.descriptors())
    }

    /// Reads what the node uses from other files of its groups, with these names.
    pub(crate) fn measure_by(&mut self, names: Vec<String>, files: Vec<OwnedFd>) {
        self.sources.gauges = names.into_iter().zip(files.into_iter().map(File::from)).collect();
    }

    /// When there is something to do without being asked.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Somebody opens a file: writes it and lets go.
    pub(crate) fn asked(&mut self) {
        let Some(leased) = self.leased.take() else { return };
        let mut view = None;
        for ((name, file), at) in NAMES.iter().zip(&leased.0).zip(0..) {
            if self.held[at] && !lease::is_held(file) {
                put(file, &self.text(name, &mut view));
                // The opener must not wait for an init that failed at that.
                let _ = lease::release(file);
                self.held[at] = false;
                self.pause = FIRST_PAUSE;
                self.due = Some(Instant::now() + FIRST_PAUSE);
            }
        }
        self.leased = Some(leased);
    }

    /// Takes leases again, and writes what somebody keeps open.
    pub(crate) fn keep_up(&mut self, now: Instant) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        let Some(leased) = self.leased.take() else { return };
        let mut view = None;
        for ((name, file), at) in NAMES.iter().zip(&leased.0).zip(0..) {
            // Refused for as long as anybody has it open (fcntl(2), F_WRLCK).
            self.held[at] = self.held[at] || lease::take(file).is_ok();
            if !self.held[at] && self.pause >= KEPT_OPEN {
                put(file, &self.text(name, &mut view));
            }
        }
        self.leased = Some(leased);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.due = self.held.contains(&false).then(|| now + self.pause);
    }

    fn text(&mut self, name: &str, view: &mut Option<View>) -> String {
        let view = view.get_or_insert_with(|| self.look());
        let View { groups, tasks, moment } = view;
        match name {
            "loadavg" => {
                netloom_procfs::loadavg(self.sources.averages(tasks), tasks, moment.started)
            }
            "meminfo" => {
                let machine = self.sources.machine.meminfo.as_ref();
                netloom_procfs::meminfo(groups, &machine.map(text).unwrap_or_default())
            }
            "stat" => netloom_procfs::stat(moment, tasks),
            _ => netloom_procfs::uptime(moment.age, moment.cpus, moment.used),
        }
    }

    /// Looks at the node once.
    fn look(&mut self) -> View {
        let (groups, tasks) = (self.sources.groups(), tasks());
        // Without a group, the time of processes that others than the node have waited for is lost when they end.
        self.used = groups.cpu.unwrap_or(tasks.used).at_least(self.used);
        let boot = clock::boot_time();
        let born = clock::realtime().saturating_sub(boot) / 1_000_000_000;
        // Two clocks are read one after the other.
        if born.abs_diff(self.born) > 1 {
            self.born = born;
        }
        let last = self.sources.machine.loadavg.as_ref().map(text);
        let moment = Moment {
            age: Duration::from_nanos(boot.saturating_sub(self.begun)),
            cpus: groups.cpus(cpus()),
            used: self.used,
            born: self.born,
            started: last.as_deref().and_then(netloom_procfs::last_pid).unwrap_or_default(),
        };
        View { groups, tasks, moment }
    }
}

/// A node at one moment.
struct View {
    groups: Groups,
    tasks: Tasks,
    moment: Moment,
}

/// The node's processes.
fn tasks() -> Tasks {
    let mut found = Tasks::default();
    population::pids().into_iter().flatten().for_each(|pid| loads::add_process(&mut found, pid));
    found
}

/// CPUs that this process may use.
fn cpus() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count())
}

/// The text of a file of the kernel's, from its beginning.
fn text(file: &File) -> String {
    let mut bytes = vec![0; 16 << 10];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Writes in place, because others have the file open. If there is no room for more, what was there stays.
fn put(file: &File, text: &str) {
    if file.write_all_at(text.as_bytes(), 0).is_ok() {
        let _ = file.set_len(text.len() as u64);
    }
}
