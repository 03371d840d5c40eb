//! Virtual machines: a node whose programs have a kernel of their own.
//!
//! The node around the machine has the interfaces, limits and names of any node; the machine is a process in it.
//! A User-mode Linux machine without an `initrd` has the node's files as its root, so that `run`, `setup`, `env`,
//! `files` and `ready` mean the same in it. Any other guest starts its own programs.

use std::path::PathBuf;

use netloom_config::{Node as Yaml, Path, Report, read};
use serde::{Deserialize, Serialize};

use crate::file::Fields;
use crate::file::table::{BYTES, Key, KindKeys, Value, key};
use crate::file::values::non_empty;
use crate::restart::Restart;

/// The value of the key `kind`.
pub(crate) const WORD: &str = "vm";

/// Its keys.
pub(crate) const KEYS: KindKeys = KindKeys { kind: WORD, keys: &TABLE };

/// Memory without the key, its least and its most.
const MEMORY: u64 = 128 << 20;
const LEAST_MEMORY: u64 = 32 << 20;
const MOST_MEMORY: u64 = 1 << 40;
pub(crate) const MEMORIES: std::ops::RangeInclusive<u64> = LEAST_MEMORY..=MOST_MEMORY;

/// What a machine's process takes beside its guest's memory, at least.
pub(crate) const BESIDE: u64 = 32 << 20;

/// Maximum of `cpus`.
const MOST_CPUS: i64 = 64;
pub(crate) const CPUS: std::ops::RangeInclusive<i64> = 1..=MOST_CPUS;

const ACCELERATORS: [&str; 4] = ["auto", "kvm", "tcg", "uml"];
const MACHINES: [&str; 3] = ["pc", "q35", "microvm"];
const CARDS: [&str; 2] = ["virtio", "e1000"];
const BUSES: [&str; 2] = ["virtio", "ide"];

const TABLE: [Key; 17] = [
    key(
        "accel",
        Value::Choice(&ACCELERATORS),
        "What runs it: QEMU with KVM (kvm) or by translation (tcg), the better of both that works here (auto, the \
         default), or User-mode Linux (uml).",
    ),
    key(
        "kernel",
        Value::Text,
        "The kernel's file, relative to the lab file; required without a `disk`. For accel: uml a program, by default \
         linux.uml of the path.",
    ),
    key(
        "initrd",
        Value::Text,
        "The initial RAM disk's file, relative to the lab file. Without one, a machine with accel: uml has the \
         node's own files as its root.",
    ),
    key(
        "disk",
        Value::Text,
        "The disk's file, raw or qcow2, relative to the lab file. It is only read: the guest's writes are removed \
         with the lab, or kept in `keep`. For QEMU, which boots from it when there is no `kernel`.",
    ),
    key(
        "keep",
        Value::Text,
        "Where what the guest writes to its disk is kept: a qcow2 file above the disk, relative to the lab file, \
         made when it is not there.",
    ),
    key("disk-bus", Value::Choice(&BUSES), "How the guest sees its disk. Default virtio."),
    key(
        "seed",
        Value::Boolean,
        "A machine with a disk gets a second one, from which cloud-init learns the plan's names, addresses and \
         routes. Default true.",
    ),
    key(
        "user-data",
        Value::Text,
        "A file for cloud-init, relative to the lab file: its user data.",
    ),
    key(
        "firmware",
        Value::Text,
        "QEMU's firmware, like OVMF.fd for UEFI, relative to the lab file. QEMU's own when absent.",
    ),
    key(
        "append",
        Value::Text,
        "More words for the kernel's command line, after console=ttyS0 panic=-1, and no_timer_check without KVM.",
    ),
    key("memory", BYTES, "The guest's memory, like 256MiB; at least 32MiB. Default 128MiB."),
    key(
        "cpus",
        Value::Integer(1, MOST_CPUS),
        "The guest's processors; 1 for accel: uml. Default 1.",
    ),
    key("machine", Value::Choice(&MACHINES), "QEMU's type of machine. Default pc."),
    key("nic", Value::Choice(&CARDS), "QEMU's type of network cards. Default virtio."),
    key(
        "vhost-user",
        Value::Boolean,
        "The machine's cards on shared-memory switches are ports of these switches, by vhost-user: frames pass no \
         kernel, and the node has no interface there. Where such a link has impairments, or the node has `protect`, it \
         has one all the same. For QEMU with nic: virtio. Default false.",
    ),
    key("x-qemu", Value::AnyList(&Value::Text), "More arguments for QEMU, which are not checked."),
    key(
        "restart",
        Value::Choice(&["never", "on-failure", "always"]),
        "What to do when the machine ends. Default never.",
    ),
];

/// What runs a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Accel {
    /// QEMU with KVM where that works, else by translation.
    #[default]
    Auto,
    /// QEMU with KVM.
    Kvm,
    /// QEMU by translation.
    Tcg,
    /// User-mode Linux.
    Uml,
}

/// QEMU's type of machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Board {
    /// The PC of 1996.
    #[default]
    Pc,
    /// The PC of 2009.
    Q35,
    /// The least that boots Linux.
    Microvm,
}

/// QEMU's type of network cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Card {
    /// virtio-net.
    #[default]
    Virtio,
    /// Intel's 82540EM.
    E1000,
}

/// How a guest of QEMU sees its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum Bus {
    /// virtio-blk.
    #[default]
    Virtio,
    /// A disk of the board's IDE or AHCI controller.
    Ide,
}

/// What a machine has of disks and firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Storage {
    /// The disk's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub disk: Option<PathBuf>,
    /// The file that keeps the disk's writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub keep: Option<PathBuf>,
    /// How the guest sees the disk.
    #[serde(alias = "disk_bus")]
    pub disk_bus: Bus,
    /// Whether a machine with a disk gets one for cloud-init.
    pub seed: bool,
    /// User data for cloud-init.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    #[serde(alias = "user_data")]
    pub user_data: Option<PathBuf>,
    /// QEMU's firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub firmware: Option<PathBuf>,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            disk: None,
            keep: None,
            disk_bus: Bus::Virtio,
            seed: true,
            user_data: None,
            firmware: None,
        }
    }
}

/// The options of a node of kind `vm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Machine {
    /// What runs it.
    pub accel: Accel,
    /// The kernel's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub kernel: Option<PathBuf>,
    /// The initial RAM disk's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub initrd: Option<PathBuf>,
    /// More words for the kernel's command line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub append: String,
    /// The guest's memory in bytes.
    pub memory: u64,
    /// The guest's processors.
    pub cpus: u32,
    /// QEMU's type of machine.
    pub machine: Board,
    /// QEMU's type of network cards.
    pub nic: Card,
    /// Whether cards on shared-memory switches are ports of these switches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(alias = "vhost_user")]
    pub vhost_user: bool,
    /// More arguments for QEMU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qemu: Vec<String>,
    /// What to do when it ends.
    pub restart: Restart,
    /// Its disk and firmware.
    #[serde(default, flatten)]
    pub storage: Storage,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            accel: Accel::Auto,
            kernel: None,
            initrd: None,
            append: String::new(),
            memory: MEMORY,
            cpus: 1,
            machine: Board::Pc,
            nic: Card::Virtio,
            vhost_user: false,
            qemu: Vec::new(),
            restart: Restart::Never,
            storage: Storage::default(),
        }
    }
}

impl Machine {
    /// Whether the node's own files are the guest's root: what the file says of programs is for the guest.
    pub fn shares_files(&self) -> bool {
        self.accel == Accel::Uml && self.initrd.is_none()
    }

    /// Whether it gets a disk for cloud-init.
    pub fn has_seed(&self) -> bool {
        self.storage.disk.is_some() && self.storage.seed
    }

    /// The files of the host that it reads, by their keys.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let files = [
            ("kernel", &self.kernel),
            ("initrd", &self.initrd),
            ("disk", &self.storage.disk),
            ("user-data", &self.storage.user_data),
            ("firmware", &self.storage.firmware),
        ];
        files.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?)))
    }

    /// The files of the host that it names, to complete their paths.
    pub fn paths_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Storage { disk, keep, user_data, firmware, .. } = &mut self.storage;
        let files = [&mut self.kernel, &mut self.initrd, disk, keep, user_data, firmware];
        files.into_iter().flatten()
    }
}

/// Reads the keys of this kind.
pub(crate) fn read(fields: &Fields<'_>, path: &Path<'_>, report: &mut Report) -> Machine {
    let mut machine = Machine::default();
    // First: it reads `accel`, by which the keys below are refused.
    read_guest(fields, path, &mut machine, report);
    if let Some(value) = fields.get("machine") {
        machine.machine = match word(fields, path, "machine", &MACHINES, report) {
            Some("q35") => Board::Q35,
            Some("microvm") => Board::Microvm,
            _ => Board::Pc,
        };
        refuse_for_uml(&machine, value, &path.key("machine"), report);
    }
    if let Some(value) = fields.get("nic") {
        if word(fields, path, "nic", &CARDS, report) == Some("e1000") {
            machine.nic = Card::E1000;
        }
        refuse_for_uml(&machine, value, &path.key("nic"), report);
    }
    if let Some(value) = fields.get("vhost-user") {
        let path = path.key("vhost-user");
        machine.vhost_user = read::boolean(value, &path, report).unwrap_or(false);
        if machine.vhost_user && machine.nic == Card::E1000 {
            report
                .error(value.place, format!("{path}: only virtio cards have this, not nic: e1000"));
        }
        refuse_for_uml(&machine, value, &path, report);
    }
    read_storage(fields, path, &mut machine, report);
    if let Some(value) = fields.get("x-qemu") {
        machine.qemu = read::texts(value, &path.key("x-qemu"), report).unwrap_or_default();
        refuse_for_uml(&machine, value, &path.key("x-qemu"), report);
    }
    machine.restart =
        match word(fields, path, "restart", &["never", "on-failure", "always"], report) {
            Some("always") => Restart::Always,
            Some("on-failure") => Restart::OnFailure,
            _ => Restart::Never,
        };
    machine
}

/// Reads what every machine has.
fn read_guest(fields: &Fields<'_>, path: &Path<'_>, machine: &mut Machine, report: &mut Report) {
    machine.accel = match word(fields, path, "accel", &ACCELERATORS, report) {
        Some("kvm") => Accel::Kvm,
        Some("tcg") => Accel::Tcg,
        Some("uml") => Accel::Uml,
        _ => Accel::Auto,
    };
    let mut file = |key: &str| {
        let value = fields.get(key)?;
        non_empty(value, &path.key(key), report).map(PathBuf::from)
    };
    (machine.kernel, machine.initrd) = (file("kernel"), file("initrd"));
    if let Some(value) = fields.get("append") {
        machine.append = read::text(value, &path.key("append"), report).unwrap_or_default();
    }
    if let Some(value) = fields.get("memory") {
        let path = path.key("memory");
        match read::bytes(value, &path, report) {
            Some(bytes) if !(LEAST_MEMORY..=MOST_MEMORY).contains(&bytes) => {
                report.error(value.place, format!("{path}: a guest has 32MiB to 1TiB"));
            }
            Some(bytes) => machine.memory = bytes,
            None => {}
        }
    }
    if let Some(value) = fields.get("cpus") {
        let path = path.key("cpus");
        let cpus = read::integer(value, &path, 1..=MOST_CPUS, report);
        machine.cpus = cpus.and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        if machine.accel == Accel::Uml && machine.cpus > 1 {
            report.error(value.place, format!("{path}: User-mode Linux has one processor"));
        }
    }
}

/// Reads what it has of disks and firmware.
fn read_storage(fields: &Fields<'_>, path: &Path<'_>, machine: &mut Machine, report: &mut Report) {
    let mut file = |key: &str| {
        let value = fields.get(key)?;
        non_empty(value, &path.key(key), report).map(PathBuf::from)
    };
    let mut storage = Storage {
        disk: file("disk"),
        keep: file("keep"),
        user_data: file("user-data"),
        firmware: file("firmware"),
        ..Storage::default()
    };
    if word(fields, path, "disk-bus", &BUSES, report) == Some("ide") {
        storage.disk_bus = Bus::Ide;
    }
    if let Some(value) = fields.get("seed") {
        storage.seed = read::boolean(value, &path.key("seed"), report).unwrap_or(true);
    }
    for key in ["disk", "keep", "disk-bus", "seed", "user-data", "firmware"] {
        let Some(value) = fields.get(key) else { continue };
        refuse_for_uml(machine, value, &path.key(key), report);
        if key != "disk" && key != "firmware" && storage.disk.is_none() {
            report.error(value.place, format!("{}: there is no `disk`", path.key(key)));
        }
    }
    if let (false, Some(value)) = (storage.seed, fields.get("user-data")) {
        let path = path.key("user-data");
        report.error(value.place, format!("{path}: without a `seed` there is no disk for it"));
    }
    machine.storage = storage;
}

fn word<'c>(
    fields: &Fields<'_>,
    path: &Path<'_>,
    key: &str,
    words: &[&'c str],
    report: &mut Report,
) -> Option<&'c str> {
    read::choice(fields.get(key)?, &path.key(key), words, report)
}

fn refuse_for_uml(machine: &Machine, value: &Yaml, path: &Path<'_>, report: &mut Report) {
    if machine.accel == Accel::Uml {
        report.error(value.place, format!("{path}: only QEMU has this, not accel: uml"));
    }
}
