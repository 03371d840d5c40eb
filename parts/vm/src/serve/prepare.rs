//! Prepares a machine and starts it: its folder, its network, its terminal, its channel, its program.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use netloom_model::kinds::vm::{Accel, Board, Machine as Options};
use netloom_model::plan::Interface;
use netloom_netlink::Socket;
use netloom_sys::process;
use netloom_sys::setup::{open_of_lab, read_of_lab};
use rustix::fs::{Gid, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Signal};

use super::talking::AgentLine;
use super::{Machine, Peer, refused, write_state};
use crate::accel::{choose, found_program, lacking};
use crate::command::{self, Parts, Wire};
use crate::console::Console;
use crate::error::failed;
use crate::frames::{MOST_ON_LINE, Stream};
use crate::queue::{Queue, Window};
use crate::relay::{End, Joined};
use crate::spec::{FOLDER, SOCKET, Spec, card_socket};
use crate::storage::Drives;
use crate::{Result, initrd, qmp, relay, start, uml};

/// Descriptors that the machine gets, open until it has been started.
struct Ends {
    wires: Vec<End>,
    channel: OwnedFd,
    agent: Option<OwnedFd>,
    drives: Drives,
}

/// Prepares and starts the machine.
pub(super) fn start(spec: &Spec) -> Result<Machine> {
    let options = spec.machine();
    if let Some(unsupported) = lacking(&options) {
        return Err(unsupported.into());
    }
    make_folder()?;
    end_remains();
    write_state("its machine starts")?;
    let signals = signals()?;
    let listener = listen()?;
    let (ours, theirs) = channel()?;
    let of_qemu = options.accel != Accel::Uml;
    let drives = if of_qemu { Drives::open(spec)? } else { Drives::default() };
    let (line, agent) = of_qemu.then(channel).transpose()?.unzip();
    let ends = Ends { wires: join(spec)?, channel: theirs, agent, drives };
    let words = words(spec, &options, &ends)?;
    let (outer, inner) = channel()?;
    let preload = if of_qemu { None } else { preload()? };
    let pid = launch(&words, &ends, inner, preload)?;
    // The process that restarts the machine after this one was killed ends what is left of it.
    let number = pid.as_raw_nonzero().to_string();
    fs::write(Spec::file("group"), number).map_err(failed("machine", "note"))?;
    let mut to_channel = Queue::default();
    let peer = peer(&options, &mut to_channel);
    Ok(Machine {
        pid,
        signals,
        listener,
        terminal: outer,
        typed: Queue::default(),
        console: Console::new(spec.ready().console.as_deref()),
        channel: ours,
        to_channel,
        asks_guest: options.shares_files(),
        peer,
        clients: Vec::new(),
        next_session: 0,
        guest: None,
        shown: None,
        ending: None,
        work: None,
        grace: super::GRACE + super::more_grace(&options),
        agent: line.map(|line| AgentLine::new(line, spec.ready())),
        has_disk: options.storage.disk.is_some(),
        has_switch_card: !spec.cards.is_empty(),
        has_reset: false,
        ends_by_reset: options.machine == Board::Microvm,
    })
}

/// The peer of the machine's channel.
fn peer(options: &Options, to_channel: &mut Queue) -> Peer {
    match options.accel {
        _ if options.shares_files() => Peer::Agent {
            stream: Stream::default(),
            listens: false,
            line: Window::new(MOST_ON_LINE),
        },
        Accel::Uml => Peer::Nobody,
        Accel::Auto | Accel::Kvm | Accel::Tcg => {
            let mut talk = qmp::Conversation::default();
            // Its events, which tell of the agent, come after the first command.
            to_channel.push(talk.command("query-status").1);
            Peer::Qmp(talk)
        }
    }
}

/// The folder of the machine's files; the machine's user may write in one folder of it.
fn make_folder() -> Result<()> {
    let user = Some(Uid::from_raw(start::USER));
    let group = Some(Gid::from_raw(start::USER));
    for name in ["", "uml", "rw", "root"] {
        let path = Path::new(FOLDER).join(name);
        fs::create_dir_all(&path).map_err(failed(path.display().to_string(), "make"))?;
    }
    // In a user namespace of one user there is nobody to give it to, and no need.
    let _ = rustix::fs::chown(Path::new(FOLDER).join("uml"), user, group);
    Ok(())
}

/// Ends what a machine left whose process was killed.
fn end_remains() {
    let noted = fs::read_to_string(Spec::file("group")).ok();
    let group = noted.and_then(|text| text.parse().ok()).filter(|group| *group > 0);
    let group = group.and_then(Pid::from_raw);
    if let Some(group) = group {
        // Usually there is nobody left.
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    // User-mode Linux does not start where another one of its name seems to run.
    let _ = fs::remove_dir_all(Path::new(FOLDER).join("uml").join(command::UMID));
}

fn signals() -> Result<OwnedFd> {
    let all = [Signal::TERM.as_raw(), Signal::CHILD.as_raw()];
    // While SIGCHLD is ignored, a child's end leaves no status (wait(2)).
    process::set_ignored(Signal::CHILD.as_raw(), false);
    Ok(process::catch(&all)?)
}

fn listen() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(failed("clients", "make a socket for"))?;
    let address = SocketAddrUnix::new_abstract_name(SOCKET.as_bytes())
        .map_err(failed("clients", "name the socket of"))?;
    rustix::net::bind(&socket, &address).map_err(failed("clients", "bind the socket of"))?;
    rustix::net::listen(&socket, 16).map_err(failed("clients", "listen for"))?;
    Ok(socket)
}

/// A channel or console: our end, which does not block, and the machine's. The console is not a terminal: for one of those
/// User-mode Linux starts a process in a session of its own, which outlives it.
fn channel() -> Result<(OwnedFd, OwnedFd)> {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) = rustix::net::socketpair(unix, kind, SocketFlags::CLOEXEC, None)
        .map_err(failed("machine", "make its channel"))?;
    rustix::io::ioctl_fionbio(&ours, true).map_err(failed("machine", "prepare its channel"))?;
    Ok((ours, theirs))
}

/// Joins every interface of the node to a card of the machine.
fn join(spec: &Spec) -> Result<Vec<End>> {
    let mut socket = Socket::open_to_ask()?;
    let by_name = spec.machine().accel == Accel::Uml;
    let interfaces = (0..).zip(&spec.node.interfaces);
    let join = |(number, i): (u32, &Interface)| {
        if spec.cards.contains(&i.name) {
            return Ok(End::Switch(card_socket(&i.name)));
        }
        let index = socket.index_of(&i.name)?;
        relay::join(&Joined { name: &i.name, index, mtu: i.mtu, number, by_name })
    };
    interfaces.map(join).collect()
}

/// The machine's argument list.
fn words(spec: &Spec, options: &Options, ends: &Ends) -> Result<Vec<String>> {
    let program = found_program(options).ok_or_else(|| refused("its program is gone"))?;
    let macs = spec.node.interfaces.iter().map(|i| i.mac);
    let wires: Vec<Wire<'_>> =
        ends.wires.iter().zip(macs).map(|(end, mac)| Wire { frames: end.card(), mac }).collect();
    let (init, data) = match options.shares_files() {
        true => (Some(shown_program()?), Some(guest_data(spec)?)),
        false => (None, None),
    };
    let firmware = options.storage.firmware.clone();
    let parts = Parts {
        machine: options,
        program: &program,
        kernel: options.kernel.clone().map(|kernel| readable(kernel, "kernel")).transpose()?,
        initrd: options.initrd.as_ref().map(|initrd| own_initrd(spec, initrd)).transpose()?,
        wires: &wires,
        drives: ends.drives.words().cloned().collect(),
        firmware: firmware.map(|path| readable(path, "firmware")).transpose()?,
        channel: ends.channel.as_raw_fd(),
        agent: ends.agent.as_ref().map(AsRawFd::as_raw_fd),
        init: init.as_deref().zip(data.as_deref()),
    };
    if options.accel == Accel::Uml {
        return Ok(command::uml(&parts));
    }
    let (accelerator, why_not) = choose(options)?;
    if let Some(why) = why_not {
        tell(&format!("netloom: KVM is not used: {why}"));
    }
    Ok(command::qemu(&parts, accelerator, frequency()))
}

/// The library preloaded into User-mode Linux.
fn preload() -> Result<Option<PathBuf>> {
    uml::place(Path::new(FOLDER)).map_err(failed(FOLDER, "put a library into"))
}

/// A line for the node's log.
fn tell(line: &str) {
    use std::io::Write;
    // Without a log there is nobody to tell.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The first processor's frequency in kHz.
fn frequency() -> Option<u64> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("cpu MHz"))?;
    let digits: String = line.rsplit_once(':')?.1.chars().filter(char::is_ascii_digit).collect();
    // "2400.123": three digits follow the point.
    digits.parse().ok()
}

/// This program, where the machine's user can read it: where it lies, or a copy in the node.
fn shown_program() -> Result<PathBuf> {
    let own = Path::new("/proc/self/exe");
    let named = fs::read_link(own).map_err(failed("netloom", "find"))?;
    // In the node another file may lie at this path. Device
    // and inode tell nothing there: an overlay shows its own.
    let same = |a: &fs::Metadata, b: &fs::Metadata| a.len() == b.len() && a.mtime() == b.mtime();
    if let (Ok(there), Ok(here)) = (fs::metadata(&named), fs::metadata(own))
        && same(&there, &here)
        && is_public(&named)
    {
        return Ok(named);
    }
    let copy = Spec::file("netloom");
    fs::copy(own, &copy)
        .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)))
        .map_err(failed("netloom", "copy into the node"))?;
    Ok(copy)
}

/// Whether everybody may read a file and enter the folders above it.
fn is_public(path: &Path) -> bool {
    let mode = |at: &Path| fs::metadata(at).map_or(0, |m| m.mode());
    mode(path) & 0o004 != 0 && path.ancestors().skip(1).all(|dir| mode(dir) & 0o001 != 0)
}

/// A file that the machine reads, where its user can.
fn readable(path: PathBuf, name: &str) -> Result<PathBuf> {
    if is_public(&path) {
        return Ok(path);
    }
    let copy = Spec::file(name);
    let given = |to: &mut fs::File| std::io::copy(&mut open_of_lab(&path)?, to);
    fs::File::create(&copy)
        .and_then(|mut to| given(&mut to))
        .and_then(|_| fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)))
        .map_err(failed(path.display().to_string(), "copy into the node"))?;
    Ok(copy)
}

fn own_initrd(spec: &Spec, path: &Path) -> Result<PathBuf> {
    let given = read_of_lab(path).map_err(failed(path.display().to_string(), "read"))?;
    let hosts = fs::read("/etc/hosts").unwrap_or_default();
    let own = Spec::file("initrd");
    fs::write(&own, initrd::with_network(&given, &spec.node, hosts))
        .map_err(failed(own.display().to_string(), "write"))?;
    Ok(own)
}

/// The file from which the guest's init learns what to do.
fn guest_data(spec: &Spec) -> Result<PathBuf> {
    let path = Spec::file("guest.json");
    let bytes = serde_json::to_vec(spec).map_err(failed("guest", "describe"))?;
    fs::write(&path, bytes).map_err(failed(path.display().to_string(), "write"))?;
    Ok(path)
}

/// Starts the machine in a process group of its own, on the console `inner`.
fn launch(words: &[String], ends: &Ends, inner: OwnedFd, preload: Option<PathBuf>) -> Result<Pid> {
    let fail = |operation| failed("machine", operation);
    let wires = ends.wires.iter().filter_map(End::fd);
    for fd in wires.chain([&ends.channel]).chain(&ends.agent).chain(ends.drives.fds()) {
        // The argument list names them by number, so they stay open across both execs.
        rustix::io::fcntl_setfd(fd.as_fd(), rustix::io::FdFlags::empty())
            .map_err(failed("machine", "pass its descriptors on to"))?;
    }
    let output = inner.try_clone().map_err(fail("prepare the console of"))?;
    let errors = inner.try_clone().map_err(fail("prepare the console of"))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(start::VERB).arg("--").args(words).process_group(0).current_dir("/");
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    // User-mode Linux keeps the guest's memory in a file there, and wants it to be in memory.
    command.env("TMPDIR", "/dev/shm").env("HOME", FOLDER);
    command.envs(preload.map(|library| (uml::PRELOAD, library)));
    command.stdin(Stdio::from(inner)).stdout(Stdio::from(output)).stderr(Stdio::from(errors));
    let child = process::with_open_mask(|| command.spawn()).map_err(fail("start"))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| refused("the kernel gave it no number"))
}
