//! A private folder per test, with its own runtime directory; removed at the end, also on panic.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::wait::ends_within;
use crate::{Binary, Run};

/// A folder (0700) that contains a runtime directory for `netloom`.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    binary: Binary,
    serial: u32,
}

impl Scratch {
    /// Makes a scratch folder.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn new() -> Scratch {
        Scratch::of(private_folder().tempdir())
    }

    /// Makes one where every user gets to, owned by the given user.
    ///
    /// # Panics
    /// The folder cannot be made.
    pub fn within_reach() -> Scratch {
        Scratch::of(private_folder().tempdir_in("/tmp"))
    }

    fn of(folder: std::io::Result<tempfile::TempDir>) -> Scratch {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let folder = folder.expect("make scratch folder");
        std::fs::create_dir(folder.path().join("run")).expect("runtime directory");
        // Only has to be another number each time.
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Scratch { folder, binary: Binary::find(), serial }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The value for `NETLOOM_RUNTIME_DIR`.
    pub fn runtime_dir(&self) -> PathBuf {
        self.path().join("run")
    }

    /// A lab name that no other test uses, starting with `base`.
    pub fn lab(&self, base: &str) -> String {
        format!("{base}-{}-{}", std::process::id(), self.serial)
    }

    /// Writes a file into the folder and returns its path.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).expect("write file");
        path
    }

    /// A run of `netloom` with these arguments in this folder's runtime directory.
    pub fn netloom<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let data = self.path().join("data");
        let run = self.binary.run(args).env("NETLOOM_RUNTIME_DIR", self.runtime_dir());
        run.env("NETLOOM_DATA_DIR", data).dir(self.path())
    }

    /// Takes down all labs of this folder when dropped. Create it before the first `up`.
    pub fn guard(&self) -> LabGuard<'_> {
        LabGuard(self)
    }
}

fn private_folder() -> tempfile::Builder<'static, 'static> {
    let owner_only = std::fs::Permissions::from_mode(0o700);
    let mut builder = tempfile::Builder::new();
    builder.prefix("netloom-test-").permissions(owner_only);
    builder
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs `netloom down --all` on drop.
#[derive(Debug)]
pub struct LabGuard<'a>(&'a Scratch);

impl Drop for LabGuard<'_> {
    fn drop(&mut self) {
        let mut down = std::process::Command::new(self.0.binary.path());
        down.args(["down", "--all"]).env("NETLOOM_RUNTIME_DIR", self.0.runtime_dir());
        // Recorders are waited for by what they have there.
        down.env("NETLOOM_DATA_DIR", self.0.path().join("data"));
        down.stdin(Stdio::null()).stdout(Stdio::null());
        // While a failed test unwinds, a second panic would hide the first: only print.
        let Ok(mut child) = down.spawn() else { return eprintln!("cannot start netloom down") };
        if !ends_within(&child, Duration::from_secs(60)) {
            eprintln!("netloom down --all is not done after 60 s, killed");
            drop(child.kill());
        }
        drop(child.wait());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_even_on_panic() {
        let folder = super::private_folder().tempdir().expect("a folder");
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = folder;
            panic!("on purpose");
        }));
        assert!(result.is_err() && !path.exists());
    }
}
