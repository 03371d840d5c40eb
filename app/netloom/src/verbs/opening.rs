//! Opens a link in the user's browser, without a shell and without telling other users.
//!
//! The arguments of a program are everybody's to read in /proc, and the link has a token in it. So xdg-open is given a file of
//! mode 0600 that leads the browser on. It stands in the lab's folder: it goes with the [`Opened`], and where this process is
//! killed, with the lab.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use netloom_sys::random;

use crate::labs;

/// The file that leads to the link; it is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Opened(Option<PathBuf>);

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Somebody may have cleared the folder.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens a link by xdg-open, by a file in this folder; where that fails, says why, since the link is also printed.
pub(super) fn open(link: &str, folder: &Path) -> Opened {
    let file = leading(link, folder).map_err(|e| labs::tell(&format!("--open: {e:#}")));
    let opened = Opened(file.ok());
    if let Some(path) = opened.0.clone() {
        // It may take as long as the browser runs.
        std::thread::spawn(move || {
            if let Err(e) = start(&path) {
                labs::tell(&format!("--open: {e:#}; open the link yourself"));
            }
        });
    }
    opened
}

/// Makes a file that leads to a link.
fn leading(link: &str, folder: &Path) -> Result<PathBuf> {
    let bytes = random::array::<16>().context("name of a file: draw at random")?;
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!("page-{name}.html"));
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.with_context(|| format!("{path:?}: make"))?;
    if let Err(e) = file.write_all(page(link).as_bytes()) {
        // Part of the link may be in it.
        let _ = std::fs::remove_file(&path);
        return Err(e).with_context(|| format!("{path:?}: write"));
    }
    Ok(path)
}

/// The link has no character that HTML takes as its own: an address, and a token of letters, digits and `-._~+/=`.
fn page(link: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><title>netloom</title><meta http-equiv=\"refresh\" content=\"0; url={link}\">\
         <a href=\"{link}\">The lab's page</a>\n"
    )
}

fn start(path: &Path) -> Result<()> {
    let mut command = Command::new("xdg-open");
    command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().context("xdg-open: start")?;
    anyhow::ensure!(status.success(), "xdg-open: {status}");
    Ok(())
}
