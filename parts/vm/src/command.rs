//! The argument lists of User-mode Linux and QEMU. Pure: the same machine gives the same words.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use netloom_model::kinds::vm::{Board, Card, Machine};

use crate::accel::Accelerator;
use crate::relay::Frames;
use crate::spec::FOLDER;

/// A network card: where its frames are, and its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    pub(crate) frames: Frames<'a>,
    pub(crate) mac: [u8; 6],
}

/// What a machine gets, as paths and descriptors.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) program: &'a Path,
    /// The kernel of a QEMU machine.
    pub(crate) kernel: Option<PathBuf>,
    /// The initial RAM disk with what is added to it.
    pub(crate) initrd: Option<PathBuf>,
    pub(crate) wires: &'a [Wire<'a>],
    /// The channel to the guest's agent (User-mode Linux), or QMP.
    pub(crate) channel: RawFd,
    /// The channel to the agent of a QEMU machine's guest.
    pub(crate) agent: Option<RawFd>,
    /// The disks of a QEMU machine: words for its argument list.
    pub(crate) drives: Vec<String>,
    /// QEMU's firmware, instead of its own.
    pub(crate) firmware: Option<PathBuf>,
    /// Process 1 of a guest with the node's files, and its data.
    pub(crate) init: Option<(&'a Path, &'a Path)>,
}

/// Name of a User-mode Linux machine in its folder of sockets.
pub(crate) const UMID: &str = "machine";

/// Name of the port of the guest's agent, in QEMU's events.
pub(crate) const AGENT: &str = "agent";

/// Debian's kernel measures its ways to compute RAID 6 parity at each start, for 80 jiffies (lib/raid6/algos.c); machines have
/// no disks that would need it.
pub(crate) const NO_RAID6: &str = "initcall_blacklist=raid6_select_algo";

/// The argument list of User-mode Linux.
pub(crate) fn uml(parts: &Parts<'_>) -> Vec<String> {
    let mut words = vec![
        parts.program.display().to_string(),
        format!("mem={}M", parts.machine.memory >> 20),
        format!("uml_dir={FOLDER}/uml"),
        format!("umid={UMID}"),
        "con=null".to_owned(),
        "con0=fd:0,fd:1".to_owned(),
        format!("ssl0=fd:{}", parts.channel),
        // A kernel that panics reboots at once, which ends User-mode Linux; else it would hang.
        "panic=-1".to_owned(),
        NO_RAID6.to_owned(),
    ];
    for (number, wire) in parts.wires.iter().enumerate() {
        let transport = match wire.frames {
            // Without `gro` it takes no super-frames of a tap, and loses them (arch/um/drivers/vector_kern.c).
            Frames::Named(name) => format!("tap,ifname={name},depth=128,gro=1,vec=1"),
            Frames::Pair(fd) | Frames::Tap(fd) => format!("fd,fd={fd}"),
            // The lab file has no such card for it.
            Frames::Switch(_) => continue,
        };
        words.push(format!("vec{number}:transport={transport},mac={}", mac(wire.mac)));
    }
    if let Some(initrd) = &parts.initrd {
        words.push(format!("initrd={}", initrd.display()));
    }
    if let Some((init, _)) = parts.init {
        words.extend(["rootfstype=hostfs", "rootflags=/", "ro"].map(str::to_owned));
        words.push(format!("init={}", init.display()));
    }
    words.extend(parts.machine.append.split_ascii_whitespace().map(str::to_owned));
    if let Some((_, data)) = parts.init {
        words.extend(["--".to_owned(), "vm-guest".to_owned(), data.display().to_string()]);
    }
    words
}

/// The argument list of QEMU. `khz` is the processor's frequency: without it a guest without a clock chip may hang
/// while it measures.
pub(crate) fn qemu(parts: &Parts<'_>, accelerator: Accelerator, khz: Option<u64>) -> Vec<String> {
    let machine = parts.machine;
    let board = match machine.machine {
        Board::Pc => "pc",
        Board::Q35 => "q35",
        Board::Microvm => "microvm",
    };
    let accelerator = match accelerator {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "tcg",
    };
    let mut words = vec![parts.program.display().to_string()];
    let mut add = |text: &str| words.extend(text.split(' ').map(str::to_owned));
    // Nothing that the plan does not name: no default devices, and no configuration of the host's.
    add("-nodefaults -no-user-config -display none -no-reboot");
    // QEMU interprets what a stranger's guest says: it may start nothing and gain nothing.
    add("-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    let memory = machine.memory >> 20;
    let by_switch = parts.wires.iter().any(|wire| matches!(wire.frames, Frames::Switch(_)));
    if by_switch {
        // The switch's port reads and writes the guest's memory.
        add(&format!("-object memory-backend-memfd,id=memory,size={memory}M,share=on"));
        add(&format!("-machine {board},accel={accelerator},memory-backend=memory"));
    } else {
        add(&format!("-machine {board},accel={accelerator}"));
    }
    add(&format!("-m {memory}M -smp {}", machine.cpus));
    add("-serial stdio");
    add(&format!("-chardev socket,id=qmp,fd={} -mon chardev=qmp,mode=control", parts.channel));
    cards(parts, accelerator).iter().for_each(|words| add(words));
    if let Some(agent) = parts.agent {
        // The board without PCI has devices on a bus of its own.
        let bus = if machine.machine == Board::Microvm { "device" } else { "pci" };
        add(&format!("-chardev socket,id={AGENT},fd={agent} -device virtio-serial-{bus}"));
        let port = "name=org.qemu.guest_agent.0";
        add(&format!("-device virtserialport,chardev={AGENT},id={AGENT},{port}"));
    }
    words.extend(parts.drives.iter().cloned());
    let files =
        [("-bios", &parts.firmware), ("-kernel", &parts.kernel), ("-initrd", &parts.initrd)];
    for (flag, file) in files {
        if let Some(file) = file {
            words.extend([flag.to_owned(), file.display().to_string()]);
        }
    }
    if parts.kernel.is_some() {
        words.extend(["-append".to_owned(), kernel_line(machine, accelerator == "tcg", khz)]);
    }
    // Last: what the user gives may replace what stands before.
    words.extend(machine.qemu.iter().cloned());
    words
}

/// QEMU's words for the network cards.
fn cards(parts: &Parts<'_>, accelerator: &str) -> Vec<String> {
    let machine = parts.machine;
    let mut words = Vec::new();
    let mut add = |text: String| words.push(text);
    let card = match (machine.nic, machine.machine) {
        (Card::E1000, _) => "e1000",
        (Card::Virtio, Board::Microvm) => "virtio-net-device",
        (Card::Virtio, _) => "virtio-net-pci",
    };
    // Without a boot ROM: QEMU's file for it may not be installed, and nothing boots from the
    // network.
    let boot = if card == "virtio-net-device" { "" } else { ",romfile=" };
    for (number, wire) in parts.wires.iter().enumerate() {
        let frames = match wire.frames {
            Frames::Tap(fd) => format!("tap,id=net{number},fd={fd}"),
            // Else QEMU runs /etc/qemu-ifup.
            Frames::Named(name) => {
                format!("tap,id=net{number},ifname={name},script=no,downscript=no")
            }
            Frames::Pair(fd) => format!("dgram,id=net{number},local.type=fd,local.str={fd}"),
            Frames::Switch(name) => {
                // QEMU reconnects to a switch's port that is restarted.
                // A comma would end the name (qemu-options.hx); a name of an interface may have one.
                let path = name.replace(',', ",,");
                add(format!("-chardev socket,id=card{number},path={path},abstract=on,reconnect=1"));
                format!("vhost-user,id=net{number},chardev=card{number}")
            }
        };
        // Translated, QEMU 7.2 loses interrupts of vhost-user cards by MSI-X.
        let is_pci = card == "virtio-net-pci";
        let translated = accelerator == "tcg" && is_pci && matches!(wire.frames, Frames::Switch(_));
        let vectors = if translated { ",vectors=0" } else { "" };
        add(format!("-netdev {frames}"));
        add(format!("-device {card},netdev=net{number},mac={}{boot}{vectors}", mac(wire.mac)));
    }
    words
}

/// The command line of a kernel that QEMU starts.
fn kernel_line(machine: &Machine, translated: bool, khz: Option<u64>) -> String {
    // The other boards have a clock chip to measure by.
    let khz = khz.filter(|_| machine.machine == Board::Microvm);
    let khz = khz.map_or_else(String::new, |khz| format!(" tsc_early_khz={khz}"));
    // A kernel that is translated on a busy host may count too few timer interrupts within the cycles that it waits for
    // them, and ends with "IO-APIC + timer doesn't work!". By KVM it does not look.
    let timer = if translated { " no_timer_check" } else { "" };
    // A kernel that panics reboots at once, and `-no-reboot` makes that QEMU's end.
    let line = format!("console=ttyS0 panic=-1{timer}{khz} {}", machine.append);
    line.trim_end().to_owned()
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts<'a>(machine: &'a Machine, wires: &'a [Wire<'a>]) -> Parts<'a> {
        Parts {
            machine,
            program: Path::new("/usr/bin/x"),
            kernel: Some("/k k".into()),
            initrd: Some("/i".into()),
            wires,
            channel: 7,
            agent: Some(8),
            drives: vec!["-drive-words".to_owned()],
            firmware: None,
            init: None,
        }
    }

    #[test]
    fn a_path_with_a_space_stays_one_word() {
        let machine = Machine { append: "a b".to_owned(), ..Machine::default() };
        let wires = [Wire { frames: Frames::Pair(5), mac: [2, 0, 0, 0, 0, 10] }];
        let words = qemu(&parts(&machine, &wires), Accelerator::Tcg, None);
        assert!(words.contains(&"/k k".to_owned()), "{words:?}");
        assert!(
            words.contains(&"console=ttyS0 panic=-1 no_timer_check a b".to_owned()),
            "{words:?}"
        );
        let card = "virtio-net-pci,netdev=net0,mac=02:00:00:00:00:0a,romfile=";
        assert!(words.contains(&card.to_owned()), "{words:?}");
        assert!(words.iter().any(|w| w.starts_with("on,obsolete=deny")), "{words:?}");
    }

    #[test]
    fn a_card_is_a_tap_where_there_are_taps() {
        let machine = Machine::default();
        for (frames, of_uml, of_qemu) in [
            (
                Frames::Pair(5),
                "vec0:transport=fd,fd=5,mac=",
                "dgram,id=net0,local.type=fd,local.str=5",
            ),
            (Frames::Tap(6), "vec0:transport=fd,fd=6,mac=", "tap,id=net0,fd=6"),
            (
                Frames::Named("t0"),
                "vec0:transport=tap,ifname=t0,depth=128,gro=1,vec=1,mac=",
                "ifname=t0",
            ),
        ] {
            let wires = [Wire { frames, mac: [2, 0, 0, 0, 0, 10] }];
            let parts = parts(&machine, &wires);
            let words = uml(&parts).join(" ");
            assert!(words.contains(of_uml), "{words}");
            let words = qemu(&parts, Accelerator::Tcg, None).join(" ");
            assert!(words.contains(of_qemu), "{words}");
        }
    }

    #[test]
    fn a_card_by_vhost_user_shares_the_guests_memory() {
        let machine = Machine::default();
        let wires = [Wire { frames: Frames::Switch("card-a"), mac: [2, 0, 0, 0, 0, 10] }];
        let parts = parts(&machine, &wires);
        let words = qemu(&parts, Accelerator::Tcg, None).join(" ");
        for part in [
            "-object memory-backend-memfd,id=memory,size=128M,share=on -machine pc,accel=tcg,memory-backend=memory",
            "-chardev socket,id=card0,path=card-a,abstract=on,reconnect=1",
            "-netdev vhost-user,id=net0,chardev=card0",
            "romfile=,vectors=0",
        ] {
            assert!(words.contains(part), "{words}");
        }
        assert!(!qemu(&parts, Accelerator::Kvm, None).join(" ").contains("vectors"));
        let wires = [Wire { frames: Frames::Switch("card-a,b"), mac: [2, 0, 0, 0, 0, 10] }];
        let words = qemu(&self::parts(&machine, &wires), Accelerator::Tcg, None).join(" ");
        assert!(words.contains("path=card-a,,b,abstract=on"), "{words}");
    }

    #[test]
    fn a_disk_starts_its_own_kernel() {
        let machine = Machine::default();
        let mut parts = parts(&machine, &[]);
        (parts.kernel, parts.initrd, parts.firmware) = (None, None, Some("/f f".into()));
        let words = qemu(&parts, Accelerator::Tcg, None);
        assert!(
            words.ends_with(&["-drive-words", "-bios", "/f f"].map(str::to_owned)),
            "{words:?}"
        );
    }

    #[test]
    fn a_machine_without_a_clock_chip_is_told_its_speed() {
        let machine = Machine { machine: Board::Microvm, ..Machine::default() };
        let words = qemu(&parts(&machine, &[]), Accelerator::Tcg, Some(2_400_000));
        let line = "console=ttyS0 panic=-1 no_timer_check tsc_early_khz=2400000";
        assert!(words.contains(&line.to_owned()), "{words:?}");
        let pc = Machine::default();
        let words = qemu(&parts(&pc, &[]), Accelerator::Kvm, Some(2_400_000)).join(" ");
        assert!(
            !words.contains("tsc_early_khz")
                && !words.contains("no_timer_check")
                && words.contains("pc,accel=kvm"),
            "{words}"
        );
    }

    #[test]
    fn a_guest_with_the_nodes_files_has_our_init() {
        let machine = Machine::default();
        let mut parts = parts(&machine, &[]);
        (parts.initrd, parts.init) = (None, Some((Path::new("/bin/netloom"), Path::new("/g"))));
        let words = uml(&parts).join(" ");
        assert!(
            words.ends_with("rootfstype=hostfs rootflags=/ ro init=/bin/netloom -- vm-guest /g")
        );
    }
}
