//! A machine's disks: what they are, the layer that takes what the guest writes, and how QEMU is given them.
//!
//! The disk is only read, so any number of machines share one. A layer of qcow2 above it takes what the guest writes:
//! in the node's own memory, so that it goes with the lab, or in the file of `keep`. QEMU gets descriptors and no paths,
//! so its user needs no right to the files, and names inside an image lead nowhere.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use netloom_model::kinds::vm::{Board, Bus, Machine};
use netloom_qcow2::{Disk, Format, HEAD};
use netloom_sys::describe;
use netloom_sys::lookup::open_by_own_links;
use netloom_sys::setup::open_of_lab;
use rustix::fs::OFlags;
use serde_json::json;

use crate::error::failed;
use crate::spec::{FOLDER, Spec};
use crate::{Error, Result, seed};

/// Where the node has the file of `keep`.
pub const KEPT: &str = "/run/netloom-machine/kept.qcow2";

/// Size in bytes of the disk that holds the state of a machine without one; no guest sees it.
const STATE_SIZE: u64 = 1 << 20;

/// Why a key's file cannot be taken: the key, the file and the reason.
type Refused = (&'static str, PathBuf, String);

/// Whether a machine's disk is one, and what is kept belongs to it.
///
/// # Errors
/// The key, its file and the reason.
pub fn check(machine: &Machine) -> std::result::Result<(), Refused> {
    let Some(path) = &machine.storage.disk else { return Ok(()) };
    let disk = look(path).map_err(|reason| ("disk", path.clone(), reason))?;
    let Some(keep) = machine.storage.keep.as_ref().filter(|keep| keep.exists()) else {
        return Ok(());
    };
    check_kept(keep, path, disk).map_err(|reason| ("keep", keep.clone(), reason))
}

/// Makes the file that keeps what a machine writes, unless it is there.
///
/// # Errors
/// Why it cannot be made.
pub fn make_kept(machine: &Machine) -> std::result::Result<(), String> {
    let (Some(keep), Some(disk)) = (&machine.storage.keep, &machine.storage.disk) else {
        return Ok(());
    };
    if keep.exists() {
        return Ok(());
    }
    make_layer(keep, look(disk)?, disk)
}

/// What the disk in a file is.
fn look(path: &Path) -> std::result::Result<Disk, String> {
    let file = open_of_lab(path).map_err(|e| describe(&e))?;
    let length = file.metadata().map_err(|e| describe(&e))?.len();
    let disk = netloom_qcow2::look(&beginning(file)?, length).map_err(|e| e.to_string())?;
    // Any bytes are a raw disk; a guest that never starts would be all that tells.
    if disk.format == Format::Raw && path.extension().is_some_and(|end| end == "qcow2") {
        return Err("it is not a qcow2 image, whose name it has; a raw disk has another".to_owned());
    }
    Ok(disk)
}

fn check_kept(keep: &Path, disk: &Path, of: Disk) -> std::result::Result<(), String> {
    let file = open_both_ways(keep).map_err(|e| describe(&e))?;
    let layer = netloom_qcow2::look_at_layer(&beginning(file)?).map_err(|e| e.to_string())?;
    if Path::new(&layer.below) != disk {
        return Err(format!("it keeps what was written to another disk, {}", layer.below));
    }
    if layer.size != of.size {
        return Err(format!(
            "it belongs to a disk of {} bytes, and {} has {}",
            layer.size,
            disk.display(),
            of.size
        ));
    }
    Ok(())
}

/// Opens a file of a lab to read and write it.
fn open_both_ways(path: &Path) -> std::io::Result<File> {
    // It is a regular file.
    open_of_lab(path)?;
    // Another file may be there by now: a FIFO must not hold this up, nor a terminal become ours.
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(open_by_own_links(path, flags)?.into())
}

fn beginning(file: File) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(HEAD as u64).read_to_end(&mut bytes).map_err(|e| describe(&e))?;
    Ok(bytes)
}

/// Makes an empty layer over a disk: whole, or not at all.
fn make_layer(at: &Path, disk: Disk, below: &Path) -> std::result::Result<(), String> {
    let name = below.to_str().ok_or("the disk's path is not UTF-8")?;
    let bytes = netloom_qcow2::layer(disk, name)
        .ok_or("the disk is too large for a layer, or its path too long")?;
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(at);
    let mut file = new.map_err(|e| describe(&e))?;
    file.write_all(&bytes).map_err(|e| {
        let _ = std::fs::remove_file(at);
        describe(&e)
    })
}

/// The disks of a machine, open.
#[derive(Debug, Default)]
pub(crate) struct Drives {
    fds: Vec<OwnedFd>,
    words: Vec<String>,
    devices: Vec<String>,
}

/// Name of the disk that takes what the guest writes, and its state when that is saved.
pub(crate) const DISK: &str = "disk";

/// Name of the disk that only takes the state.
pub(crate) const STATE: &str = "state";

impl Drives {
    /// Opens the disks of a QEMU machine, and makes what is not there yet.
    pub(crate) fn open(spec: &Spec) -> Result<Drives> {
        let machine = spec.machine();
        let mut drives = Drives::default();
        let Some(path) = &machine.storage.disk else {
            drives.add_state()?;
            return Ok(drives);
        };
        drives.add_disk(path, machine.storage.keep.is_some())?;
        // A kernel that is given takes the first place itself.
        let order = if machine.kernel.is_some() { "" } else { ",bootindex=0" };
        drives.attach(&machine, DISK, order);
        if machine.has_seed() {
            let image = Path::new(FOLDER).join("seed.img");
            seed::write(spec, &image)?;
            let file = drives.add_file(&image, true)?;
            drives.add_node(&json!({"driver": "raw", "node-name": "seed", "file": file}));
            drives.attach(&machine, "seed", "");
        }
        Ok(drives)
    }

    fn add_disk(&mut self, path: &Path, kept: bool) -> Result<()> {
        let object = || path.display().to_string();
        let disk = look(path).map_err(|e| Error::Refused(format!("{}: {e}", object())))?;
        let layer = if kept { PathBuf::from(KEPT) } else { Path::new(FOLDER).join("disk.qcow2") };
        if !layer.exists() {
            make_layer(&layer, disk, path)
                .map_err(|e| Error::Refused(format!("{}: {e}", layer.display())))?;
        }
        let file = self.add_file(path, false)?;
        let format = disk.format.word();
        let below =
            json!({"driver": format, "node-name": "below", "read-only": true, "file": file});
        self.add_node(&below);
        let file = self.add_file(&layer, true)?;
        let top = json!({
            "driver": "qcow2", "node-name": DISK, "discard": "unmap", "backing": "below",
            "file": file,
        });
        self.add_node(&top);
        Ok(())
    }

    fn add_state(&mut self) -> Result<()> {
        let path = Path::new(FOLDER).join("state.qcow2");
        if !path.exists() {
            let bytes = netloom_qcow2::empty(STATE_SIZE).unwrap_or_default();
            std::fs::write(&path, bytes).map_err(failed(path.display().to_string(), "write"))?;
        }
        let file = self.add_file(&path, true)?;
        self.add_node(&json!({"driver": "qcow2", "node-name": STATE, "file": file}));
        Ok(())
    }

    /// Opens a file for QEMU; returns its description.
    fn add_file(&mut self, path: &Path, writable: bool) -> Result<serde_json::Value> {
        let file = if writable { open_both_ways(path) } else { open_of_lab(path) };
        let file = file.map_err(failed(path.display().to_string(), "open"))?;
        let set = self.fds.len() + 1;
        self.words.extend(["-add-fd".to_owned(), format!("fd={},set={set}", file.as_raw_fd())]);
        self.fds.push(file.into());
        // QEMU opens this name as a copy of the descriptor in the set, with the rights that it has.
        Ok(
            json!({"driver": "file", "filename": format!("/dev/fdset/{set}"), "read-only": !writable}),
        )
    }

    fn add_node(&mut self, node: &serde_json::Value) {
        self.words.extend(["-blockdev".to_owned(), node.to_string()]);
    }

    fn attach(&mut self, machine: &Machine, drive: &str, more: &str) {
        let device = match (machine.storage.disk_bus, machine.machine) {
            (Bus::Ide, _) => "ide-hd",
            (Bus::Virtio, Board::Microvm) => "virtio-blk-device",
            (Bus::Virtio, _) => "virtio-blk-pci",
        };
        self.devices.extend(["-device".to_owned(), format!("{device},drive={drive}{more}")]);
    }

    /// The words of QEMU's argument list.
    pub(crate) fn words(&self) -> impl Iterator<Item = &String> {
        self.words.iter().chain(&self.devices)
    }

    /// The descriptors that QEMU is given.
    pub(crate) fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        self.fds.iter()
    }
}
