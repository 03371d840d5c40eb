//! Loads one part's programs and keeps libbpf's output for the error.
//!
//! libbpf prints through one function per process; ours keeps the lines of the calling thread and
//! prints nothing. Only map sizes and constants may be changed before loading.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::{ErrorKind, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};
use netloom_sys::Failure;

use crate::error::not_permitted;
use crate::map::{Map, refused};
use crate::program::Program;
use crate::{Error, Result};

/// The oldest libbpf with all functions used (`bpf_prog_attach_opts` for tcx is of 1.3).
const OLDEST: (u32, u32) = (1, 5);
/// Lines of a log kept in an error.
const LINES: usize = 12;

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// One part's object file.
pub(crate) struct Part {
    /// Its name in errors and `doctor`.
    pub(crate) name: &'static str,
    /// The object file.
    pub(crate) object: &'static [u8],
}

/// The loaded programs and maps of a part.
pub(crate) struct Loaded {
    part: &'static str,
    object: Object,
}

/// Keeps libbpf's output off the terminal. Asserts the version of libbpf.
pub(crate) fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: takes nothing and returns a constant.
        let major = unsafe { libbpf_sys::libbpf_major_version() };
        // SAFETY: as above.
        let minor = unsafe { libbpf_sys::libbpf_minor_version() };
        assert!((major, minor) >= OLDEST, "libbpf {major}.{minor} is linked, needs {OLDEST:?}");
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep)));
    });
}

fn keep(_: PrintLevel, line: String) {
    SAID.with_borrow_mut(|said| said.push(line));
}

fn said() -> String {
    let all = SAID.take().concat();
    let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
    // The verifier gives its reason at the end.
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

impl Part {
    /// Loads the part after `prepare` has set sizes and constants.
    pub(crate) fn load(
        &self,
        prepare: impl FnOnce(&mut OpenObject) -> libbpf_rs::Result<()>,
    ) -> Result<Loaded> {
        quiet();
        // Lines that an earlier load of this thread left.
        SAID.take();
        let loaded = ObjectBuilder::default().open_memory(self.object).and_then(|mut open| {
            prepare(&mut open)?;
            open.load()
        });
        match loaded {
            Ok(object) => Ok(Loaded { part: self.name, object }),
            // Without the right there is no verifier log; a rejected program has one.
            Err(e) if e.kind() == ErrorKind::PermissionDenied && !said_has_log() => {
                Err(not_permitted(self.name).into())
            }
            Err(source) => Err(Error::Load { part: self.name, log: said(), source }),
        }
    }
}

fn said_has_log() -> bool {
    SAID.with_borrow(|said| said.iter().any(|line| line.contains("PROG LOAD LOG")))
}

impl Loaded {
    /// A handle on one of its maps.
    pub(crate) fn map(&self, name: &'static str) -> Result<Map> {
        let found = self.object.maps().find(|map| map.name() == name);
        let found = found.ok_or(Error::Foreign { program: self.part, map: name })?;
        let handle = MapHandle::try_from(&found).map_err(refused(name, "duplicate"))?;
        Ok(Map::new(name, handle))
    }

    /// A handle on one of its programs.
    pub(crate) fn program(&self, name: &'static str) -> Result<Program> {
        use std::os::fd::AsFd;
        let found = self.object.progs().find(|program| program.name() == name);
        let found = found.ok_or_else(|| Error::Unknown {
            object: format!("program {name}"),
            reason: "its part's object file has none of this name",
        })?;
        let fd = found.as_fd().try_clone_to_owned();
        Ok(Program::new(name, fd.map_err(|e| Failure::new(name, "duplicate", e))?))
    }
}

/// Sets the capacity of a map, before loading.
pub(crate) fn set_entries(
    open: &mut OpenObject,
    name: &str,
    entries: u32,
) -> libbpf_rs::Result<()> {
    match open.maps_mut().find(|map| map.name() == name) {
        Some(mut map) => map.set_max_entries(entries),
        None => Ok(()),
    }
}
