//! `plug`: connects a switch to an interface, or to the card of a virtual machine, in this process, until interrupted.
//!
//! The interface itself stays unchanged. A socket membership makes it receive frames for others, and ends
//! with the socket. Only an interface that is down is brought up; a second process reverts that, so that even
//! a kill of the first one leaves no trace.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use netloom_netlink::{Batch, Change, LinkInfo, Socket};
use netloom_plug::{Carried, Counters, End, GUESTS_PATIENCE, Lost, Pump};
use netloom_port::{RingOptions, RingPort};
use netloom_session::switch_address;
use netloom_shm::name::Address;
use netloom_shm::{JoinOptions, SwitchPort};
use netloom_sys::process::{self, Forked, Namespaces};
use netloom_vhost::{Options, Role, VhostPort};
use rustix::process::Pid;

use super::figures::amount;
use super::wording::worded;
use crate::flags::Plug;
use crate::output::{facts, print};

/// How long a frame of an interface waits for a full ring.
const WAIT: Duration = Duration::from_millis(100);

/// `netloom plug`
pub(crate) fn plug(lab: Option<&str>, args: &Plug) -> Result<i32> {
    let interface = args.interface.as_str();
    let address = switch_address(lab, &args.switch).map_err(worded)?;
    if let Some(options) = card(interface) {
        return plug_card(&address, args, options);
    }
    let link = netloom_session::interface(interface, interface)?;
    let signals = super::ending()?;
    let rings = RingOptions { promiscuous: true, ..RingOptions::default() };
    let port = RingPort::open(link.index, rings)
        .with_context(|| format!("interface {interface:?}: open"))?;
    if port.is_merged_irreversibly() {
        tell_line!(
            "note: interface {interface:?} merges packets in a way that cannot be undone, which \
             loses many: turn that off (ethtool -K {interface} lro off)"
        );
    }
    let member = join(&address, args, &format!("host:{interface}"), WAIT)?;
    let number = member.number();
    // From here on the interface is restored when this ends.
    let _raised = (!link.up).then(|| Raised::new(&link)).transpose()?;
    print(&format!(
        "interface {interface} is port {number} of switch {}; Ctrl-C ends it\n",
        args.switch
    ))?;
    let mut pump = Pump::new(Box::new(port), Box::new(member)).merging();
    let end = pump.run(signals.as_fd(), &mut || true)?;
    print(&text(&pump.reading().read()))?;
    match end {
        End::Stopped => Ok(0),
        End::InterfaceGone => bail!("interface {interface:?}: it is gone"),
        End::SwitchGone => bail!("switch {:?}: it is gone", args.switch),
    }
}

/// The card that an argument names, if it is none of an interface: no name of an interface has a colon.
fn card(argument: &str) -> Option<Options> {
    let (kind, path) = argument.split_once(':')?;
    let role = match kind {
        "vhost-user" => Role::Listen,
        "vhost-user-client" => Role::Connect,
        _ => return None,
    };
    Some(Options { role, ..Options::new(path) })
}

/// Carries the frames of a virtual machine's card.
fn plug_card(address: &Address, args: &Plug, options: Options) -> Result<i32> {
    let path = options.path.clone();
    let Some(name) = path.file_name() else { bail!("{:?}: it names no socket", args.interface) };
    let signals = super::ending()?;
    let port = VhostPort::open(options).with_context(|| args.interface.clone())?;
    let member = join(address, args, &name.to_string_lossy(), GUESTS_PATIENCE)?;
    let number = member.number();
    print(&format!("{path:?} is port {number} of switch {}; Ctrl-C ends it\n", args.switch))?;
    let mut pump = Pump::new(Box::new(port), Box::new(member)).patient(GUESTS_PATIENCE);
    let end = pump.run(signals.as_fd(), &mut || true)?;
    print(&text(&pump.reading().read()))?;
    match end {
        End::Stopped => Ok(0),
        End::InterfaceGone | End::SwitchGone => bail!("switch {:?}: it is gone", args.switch),
    }
}

fn join(address: &Address, args: &Plug, default: &str, wait: Duration) -> Result<SwitchPort> {
    let name = args.name.clone().or_else(|| address.name.clone());
    let name = name.unwrap_or_else(|| default.to_owned());
    let options = JoinOptions {
        number: address.number.map_or(0, u16::from),
        wait,
        ..JoinOptions::at(address, &name)
    };
    SwitchPort::join(&options)
        .with_context(|| format!("switch {:?}: join as {name:?}", args.switch))
}

/// Keeps an interface up while it lives.
struct Raised {
    /// When this closes, the second process knows that this one has ended.
    alive: Option<OwnedFd>,
    keeper: Pid,
}

impl Raised {
    fn new(link: &LinkInfo) -> Result<Raised> {
        let object = format!("interface {:?}", link.name);
        let (theirs, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .with_context(|| format!("{object}: make a pipe"))?;
        // The keeper is there before the interface is up: from then on no kill can leave it up.
        let raised = match process::fork_alone(Namespaces::NONE, None)? {
            Forked::Child => {
                drop(alive);
                keep(link.index, &object, &theirs)
            }
            Forked::Parent(keeper) => Raised { alive: Some(alive), keeper },
        };
        set(link.index, &object, true).with_context(|| format!("{object}: set up"))?;
        Ok(raised)
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        drop(self.alive.take());
        // The keeper ends once the interface is down again.
        let _ = rustix::process::waitpid(Some(self.keeper), rustix::process::WaitOptions::empty());
    }
}

/// Waits for the end of the first process, then sets the interface down.
fn keep(index: u32, object: &str, first: &OwnedFd) -> ! {
    // Key signals of the terminal must not reach it.
    let _ = rustix::process::setsid();
    process::set_name(netloom_plug::NAME);
    process::close_all_but(&[first.as_fd()]);
    let _ = rustix::io::read(first, &mut [0u8]);
    let code = match set(index, object, false) {
        Ok(()) => 0,
        Err(e) => crate::report(&e.context(format!("{object}: set down again"))),
    };
    process::exit_now(code)
}

fn set(index: u32, object: &str, up: bool) -> Result<()> {
    let mut batch = Batch::new();
    let change = Change::of(index);
    batch.push(object, &if up { change.up() } else { change.down() });
    Ok(Socket::open()?.run(&mut batch)?)
}

/// Frames carried and lost, by cause.
fn text(counters: &Counters) -> String {
    let carried = |c: &Carried| match c.super_frames {
        0 => amount(c.frames, c.bytes),
        many => format!("{}, {many} super", amount(c.frames, c.bytes)),
    };
    facts(&[
        ("to the switch", carried(&counters.to_switch)),
        ("to the interface", carried(&counters.to_interface)),
        ("lost", lost(&counters.lost)),
    ])
}

fn lost(lost: &Lost) -> String {
    let causes = [
        ("cut by the interface", lost.truncated),
        ("came too fast", lost.overrun.unwrap_or(0)),
        ("receiver does not read", lost.stalled),
        ("against the rules of the switch", lost.refused_by_switch),
        ("too long", lost.oversize),
        ("no room in the interface", lost.no_room),
        ("not taken by the interface", lost.refused),
        ("interface down", lost.down),
        ("not sent by the interface", lost.unsent),
    ];
    let causes: Vec<_> = causes.into_iter().filter(|(_, count)| *count > 0).collect();
    let total: u64 = causes.iter().map(|(_, count)| count).sum();
    let words: Vec<String> = causes.iter().map(|(cause, n)| format!("{cause}: {n}")).collect();
    if words.is_empty() { "0".into() } else { format!("{total} ({})", words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_is_told_with_what_was_lost() {
        let mut counters = Counters {
            to_switch: Carried { frames: 3, bytes: 2048, super_frames: 1 },
            ..Counters::default()
        };
        let expected = "\
to the switch     3 (2.0 KiB), 1 super
to the interface  0 (0 B)
lost              0
";
        assert_eq!(text(&counters), expected);
        counters.lost = Lost { overrun: Some(2), down: 1, ..Lost::default() };
        assert_eq!(lost(&counters.lost), "3 (came too fast: 2, interface down: 1)");
    }
}
