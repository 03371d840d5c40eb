//! The agent of a host: `netloom agent --stdio` does on its host what a driver asks, and nothing by itself.
//!
//! It has no state of its own: what it makes is a lab like any other, found again by its name. Before `go` a part lives only
//! as long as the connection; the lab process waits for it and takes the part down if this process ends in any way.

use std::fs::File;
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, Result, bail};
use clap::Parser;
use netloom_digest::fnv1a;
use netloom_lab::call::Within;
use netloom_lab::calls::{ApplyPlan, Repair, SetLink, Status};
use netloom_lab::launch::{Launch, Options, Outcome, previewing};
use netloom_lab::view::{Apply, LinkSettings};
use netloom_lab::{Across, Far, Folder, PeerHost, State, runtime_dir};
use netloom_model::Plan;
use netloom_model::plan::Placement;
use netloom_netlink::Socket;
use netloom_node::ping::{self, Peer, Version};
use netloom_sys::{Unsupported, caps, namespace};
use rustix::process::{Pid, Signal};

use super::message::{Ask, Hello, PingFrom, Prepare, RUN, Row, Told};
use super::transport::{Framed, Transport, hear, say};
use crate::flags::{Cli, Exec};
use crate::labs;
use crate::verbs::{down, enter, up};

/// `netloom agent --stdio`
pub(crate) fn agent() -> Result<i32> {
    // Copies without a buffer: a program in a node reads what comes behind the messages.
    let copy = |fd: std::os::fd::BorrowedFd<'_>| -> io::Result<File> {
        Ok(File::from(rustix::io::fcntl_dupfd_cloexec(fd, 3)?))
    };
    let input = copy(rustix::stdio::stdin()).context("read standard input")?;
    let output = copy(rustix::stdio::stdout()).context("write standard output")?;
    let mut driver = Framed { input, output };
    say(&mut driver, &Hello::own(place()))?;
    let Some(hello) = hear::<Hello>(&mut driver)? else { return Ok(0) };
    let own = Hello::own(String::new());
    if !own.speaks_with(&hello) {
        bail!("this is netloom {}, and the driver is netloom {}", own.netloom, hello.netloom);
    }
    // Held until this process ends.
    let mut claims = vec![];
    let mut earlier = None;
    while let Some(asked) = hear::<Ask>(&mut driver)? {
        match asked {
            Ask::Claim { lab } => {
                let claimed = claim(&lab).map(|claim| claims.push(claim));
                answer(&mut driver, claimed.map(|()| Told::Claimed {}))?;
            }
            Ask::Prepare(part) => prepare(&mut driver, &part)?,
            Ask::Go {} | Ask::Undo {} => bail!("there is nothing that was prepared"),
            Ask::Status { lab } => answer(&mut driver, status(&lab))?,
            Ask::Down { lab } => answer(&mut driver, take_down(&lab))?,
            Ask::Abandon { lab } => answer(&mut driver, abandon(&lab))?,
            Ask::Apply { part, keep_drift, dry_run } => {
                let applied = apply(&part, keep_drift, dry_run, &mut earlier);
                answer(&mut driver, applied)?;
            }
            Ask::Revert { lab } => answer(&mut driver, revert(&lab, earlier.as_ref()))?,
            Ask::Ping(question) => answer(&mut driver, pinged(&question))?,
            Ask::SetLink { lab, link, change } => {
                answer(&mut driver, set_link(&lab, &link, change))?;
            }
            Ask::Exec { lab, node, command, no_root } => {
                if !begins(&mut driver, &lab)? {
                    continue;
                }
                drop(driver);
                return enter::exec(Some(&lab), Exec { no_root, on: None, node, command });
            }
            Ask::Run { lab, words } => {
                let cli = match command_line(&lab, &words) {
                    Ok(cli) => cli,
                    Err(error) => {
                        say(&mut driver, &failed(&error))?;
                        continue;
                    }
                };
                if !begins(&mut driver, &lab)? {
                    continue;
                }
                end_with(driver.input)?;
                return crate::verbs::run(cli);
            }
        }
    }
    Ok(0)
}

/// Says that a program begins, if there is the lab for it.
fn begins(driver: &mut dyn Transport, lab: &str) -> Result<bool> {
    let there = folder_of(lab)?.is_some();
    say(driver, &if there { Told::Entering {} } else { Told::NoLab {} })?;
    Ok(there)
}

/// What a driver may have done by its words alone.
fn command_line(lab: &str, words: &[String]) -> Result<Cli> {
    if !words.first().is_some_and(|verb| RUN.contains(&verb.as_str())) {
        bail!("no verb that the driver of a lab may ask for: {}", words.join(" "));
    }
    let own = ["netloom", "-l", lab].map(str::to_owned);
    Cli::try_parse_from(own.iter().chain(words)).map_err(|e| crate::Usage(e.to_string()).into())
}

/// Ends this process as by SIGTERM when the driver has ended: it then has nobody to show anything to.
fn end_with(mut driver: File) -> Result<()> {
    let watch = move || {
        let mut rest = [0; 64];
        while matches!(driver.read(&mut rest), Ok(1..)) {}
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
    };
    let thread = std::thread::Builder::new().name("netloom-driver".into());
    thread.spawn(watch).map(drop).context("watch the driver")
}

fn set_link(lab: &str, link: &str, change: LinkSettings) -> Result<Told> {
    let Some(folder) = folder_of(lab)? else { return Ok(Told::NoLab {}) };
    labs::connect_to(&folder)?.call(&SetLink { link: link.to_owned().into(), change })?;
    Ok(Told::Changed {})
}

/// What tells this network from others: the machine's start and the namespace.
fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::metadata("/proc/self/ns/net").map(|found| found.ino()).unwrap_or_default();
    format!("{} {space}", boot.trim())
}

/// Says what came of it.
fn answer(driver: &mut dyn Transport, done: Result<Told>) -> io::Result<()> {
    say(driver, &done.unwrap_or_else(|error| failed(&error)))
}

fn failed(error: &anyhow::Error) -> Told {
    let unsupported = crate::exit_code(error) == 3;
    Told::Failed { reason: netloom_sys::describe(&**error), unsupported }
}

fn folder_of(lab: &str) -> Result<Option<Folder>> {
    if let Some(problem) = netloom_model::lab_name_problem(lab) {
        return Err(crate::Usage(problem).into());
    }
    let folder = Folder::new(&runtime_dir()?, lab);
    Ok(folder.exists()?.then_some(folder))
}

fn status(lab: &str) -> Result<Told> {
    let Some(folder) = folder_of(lab)? else { return Ok(Told::NoLab {}) };
    Ok(Told::Status(Box::new(labs::connect_to(&folder)?.call(&Status::whole())?)))
}

fn take_down(lab: &str) -> Result<Told> {
    let Some(folder) = folder_of(lab)? else { return Ok(Told::NoLab {}) };
    // In a process of its own: an ordinary user's lab without a process is entered for that.
    match down::in_own_process(&folder) {
        0 => Ok(Told::Down {}),
        // Its own process was faster.
        _ if !folder.exists()? => Ok(Told::Down {}),
        _ => {
            bail!("lab {lab:?} could not be taken down; `netloom down {lab}` on that host says why")
        }
    }
}

/// Takes a lab down that has not come up.
fn abandon(lab: &str) -> Result<Told> {
    match folder_of(lab)? {
        Some(folder) if !folder.is_up() => take_down(lab),
        _ => Ok(Told::NoLab {}),
    }
}

/// Claims a lab: an address of this network that only one socket can have, and that goes with this process.
fn claim(lab: &str) -> Result<UnixListener> {
    folder_of(lab)?;
    let whose = format!("{} {lab}", runtime_dir()?.display());
    let name = format!("netloom-driver-{:016x}", fnv1a::hash(whose.as_bytes()));
    let address = SocketAddr::from_abstract_name(name).context("claim the lab")?;
    UnixListener::bind_addr(&address).map_err(|e| {
        if e.kind() != io::ErrorKind::AddrInUse {
            return anyhow::Error::new(e).context("claim the lab");
        }
        let other = UnixStream::connect_addr(&address).ok();
        let pid = other.and_then(|to| rustix::net::sockopt::socket_peercred(&to).ok());
        let who = pid.map_or_else(String::new, |of| {
            format!(", by an agent that is process {} here", of.pid.as_raw_nonzero())
        });
        anyhow::anyhow!("lab {lab:?} is being brought up over its hosts already{who}")
    })
}

/// Makes a part, waits for the driver's word, and goes on or takes it down.
fn prepare(driver: &mut dyn Transport, part: &Prepare) -> Result<()> {
    let mut word = Word::Unasked;
    let made = make(driver, part, &mut word);
    match (made, word) {
        (_, Word::Lost) => Ok(()),
        // What it made is down again: its refusal says so, or names what is left.
        (Err(error), Word::Undo) => match folder_of(&part.lab) {
            Ok(None) => Ok(say(driver, &Told::Undone {})?),
            _ => Ok(say(driver, &failed(&error))?),
        },
        (Err(error), _) => Ok(say(driver, &failed(&error))?),
        (Ok(Outcome::Up { adopted: false, troubles, notes, .. }), _) => {
            say(driver, &Told::Up { already: false, troubles, notes })?;
            match hear::<Ask>(driver)? {
                Some(Ask::Undo {}) => {
                    let undone = take_down(&part.lab).map(|_| Told::Undone {});
                    Ok(answer(driver, undone)?)
                }
                None => Ok(()),
                Some(_) => bail!("the driver asks for something else than it may by now"),
            }
        }
        // Another driver makes it, and waits for others.
        (Ok(Outcome::Runs { .. }), _) if !is_up(&part.lab)? => {
            let reason = format!("lab {:?} is being brought up already", part.lab);
            Ok(say(driver, &Told::Failed { reason, unsupported: false })?)
        }
        // It was up before, and stays whatever happens to the others.
        (Ok(outcome), _) => {
            say(driver, &Told::Prepared { already: true })?;
            match hear::<Ask>(driver)? {
                Some(Ask::Go {}) => Ok(answer(driver, mend(part, outcome))?),
                Some(Ask::Undo {}) => Ok(say(driver, &Told::Undone {})?),
                _ => Ok(()),
            }
        }
    }
}

fn is_up(lab: &str) -> Result<bool> {
    Ok(folder_of(lab)?.is_some_and(|folder| folder.is_up()))
}

/// What a driver said to a part that was made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Unasked,
    Go,
    Undo,
    /// It has ended.
    Lost,
}

fn make(driver: &mut dyn Transport, part: &Prepare, word: &mut Word) -> Result<Outcome> {
    let (plan, across) = own_part(part)?;
    check_underlay(&across, part)?;
    let launch = Launch::begin()?;
    let options = Options {
        runtime: runtime_dir()?,
        base: part.base.clone(),
        file: part.file.clone(),
        foreground: false,
        ignore_limits: part.ignore_limits,
        keep: false,
        progress: false,
        tell: labs::tell,
        across: Some(across),
    };
    let mut go = || {
        *word = match say(driver, &Told::Prepared { already: false }) {
            Err(_) => Word::Lost,
            Ok(()) => match hear::<Ask>(driver) {
                Ok(Some(Ask::Go {})) => Word::Go,
                Ok(Some(_)) => Word::Undo,
                Ok(None) | Err(_) => Word::Lost,
            },
        };
        *word == Word::Go
    };
    Ok(launch.up_with(plan, &options, up::serve, &mut |_| {}, &mut go)?)
}

/// The part of a lab as a lab of its own.
fn own_part(part: &Prepare) -> Result<(Plan, Across)> {
    let mut lab = netloom_model::parse(&part.shown, part.text.as_bytes(), &part.lab)?;
    lab.name.clone_from(&part.lab);
    let whole = netloom_model::plan::plan(&lab)?;
    if whole.digest != part.digest {
        bail!("it makes another plan of the lab file than the driver; both must be the same build");
    }
    let names = part.hosts.iter().map(|host| host.name.clone()).collect();
    let placement = Placement::new(&whole, names, part.nodes.clone(), part.switches.clone());
    let placement = placement.map_err(anyhow::Error::msg)?;
    let Some(own) = part.hosts.get(part.host) else { bail!("it is none of the lab's hosts") };
    let (mut plan, ends) = whole.part(&placement, part.host).into_lab();
    let names = whole.hosts_beyond(&plan);
    let mut far = Vec::with_capacity(ends.len());
    for end in ends {
        let Some(peer) = part.hosts.iter().find(|host| host.name == end.peer) else {
            bail!("host {:?} is none of the lab's hosts", end.peer);
        };
        let (number, side, link) = (end.number, end.side, end.link);
        far.push(Far { link, side, number, peer: end.peer, address: peer.underlay, end: end.end });
    }
    let mut peers: Vec<PeerHost> = vec![];
    for (place, host) in (0..).zip(&part.hosts) {
        if far.iter().any(|far| far.peer == host.name) {
            peers.push(PeerHost { name: host.name.clone(), place, address: host.underlay });
        }
    }
    let (host, underlay, port) = (own.name.clone(), own.underlay, Across::port_of(&part.lab));
    let place = u16::try_from(part.host).context("there are too many hosts")?;
    let across = Across { host, underlay, port, place, peers, far, names };
    plan.digest = across.digest(&plan.digest);
    Ok((plan, across))
}

/// Turns the part that is up here into another one. Keeps what it was before the first time.
fn apply(
    part: &Prepare,
    keep_drift: bool,
    dry_run: bool,
    earlier: &mut Option<State>,
) -> Result<Told> {
    let Some(folder) = folder_of(&part.lab)? else { return Ok(Told::NoLab {}) };
    let (mut plan, across) = own_part(part)?;
    check_underlay(&across, part)?;
    previewing::absolute(&mut plan, &part.base, &runtime_dir()?)?;
    if !dry_run && earlier.is_none() {
        *earlier = folder.read_state()?;
    }
    let (file, across) = (part.file.clone(), Some(across));
    let request = Apply { plan: Some(plan), file, expected: None, keep_drift, dry_run, across };
    let applied = labs::connect_to(&folder)?.without_timeout().call(&ApplyPlan { request })?;
    Ok(Told::Applied(Box::new(applied)))
}

/// Takes back what [`apply`] did, in whole or in part.
fn revert(lab: &str, earlier: Option<&State>) -> Result<Told> {
    let Some(folder) = folder_of(lab)? else { return Ok(Told::NoLab {}) };
    let Some(state) = earlier else { return Ok(Told::Undone {}) };
    let request = Apply {
        plan: Some(state.plan.clone()),
        file: state.file.clone(),
        expected: None,
        keep_drift: false,
        dry_run: false,
        across: state.across.clone(),
    };
    labs::connect_to(&folder)?.without_timeout().call(&ApplyPlan { request })?;
    Ok(Told::Undone {})
}

/// Whether this host and user can have links to other hosts: before anything is made.
fn check_underlay(across: &Across, part: &Prepare) -> Result<()> {
    if across.far.is_empty() {
        return Ok(());
    }
    let at = across.underlay;
    if !caps::is_privileged() {
        let unsupported = Unsupported {
            feature: "links to other hosts",
            reason: format!("the network with {at} is not this user's own"),
            needs: "start the agent as root, or as root of a user namespace that owns a network with that address".into(),
        };
        return Err(unsupported.into());
    }
    let mut socket = Socket::open_to_ask().context("look at this host's addresses")?;
    let found = socket.addresses().context("look at this host's addresses")?;
    if let Some(info) = found.iter().find(|info| info.address.addr() == at) {
        let links = socket.links().context("look at this host's interfaces")?;
        let own = links.iter().find(|link| link.index == info.link);
        let said = part.hosts.get(part.host).map_or(0, |host| host.mtu);
        // The way to other hosts may take less than the interface, never more.
        if let Some(link) = own.filter(|link| link.mtu < said) {
            let (name, mtu) = (&link.name, link.mtu);
            bail!(
                "the interface {name:?} of its underlay address {at} has an MTU of {mtu}, and the hosts file says {said}; write \
                 `mtu: {mtu}` there, or give the interface {said}"
            );
        }
        return Ok(());
    }
    let global = |info: &&netloom_netlink::AddressInfo| {
        let own = info.address.addr();
        !own.is_loopback() && own.is_ipv4() == at.is_ipv4()
    };
    let has: Vec<String> =
        found.iter().filter(global).map(|info| info.address.addr().to_string()).collect();
    let has = if has.is_empty() { "none of that family".to_owned() } else { has.join(", ") };
    bail!("its network does not have the underlay address {at}; it has {has}")
}

/// A lab that was up before: what is missing of it is made.
fn mend(part: &Prepare, outcome: Outcome) -> Result<Told> {
    let (troubles, notes) = match outcome {
        Outcome::Up { troubles, notes, .. } => (troubles, notes),
        Outcome::Runs { .. } => {
            let folder = Folder::new(&runtime_dir()?, &part.lab);
            let repair = Repair { keep_drift: false, from: Within::ALL };
            let repaired = labs::connect_to(&folder)?.call(&repair)?;
            (repaired.troubles, repaired.notes)
        }
    };
    Ok(Told::Up { already: true, troubles, notes })
}

/// Pings from the nodes that are here.
fn pinged(question: &PingFrom) -> Result<Told> {
    let Some(folder) = folder_of(&question.lab)? else { return Ok(Told::NoLab {}) };
    let status = labs::connect_to(&folder)?.call(&Status::whole())?;
    let pid = |name: &str| {
        let node = status.nodes.iter().find(|node| node.name == name)?;
        node.pid.and_then(Pid::from_raw)
    };
    let pids: Vec<Option<Pid>> = question.nodes.iter().map(|node| pid(&node.name)).collect();
    if let (true, Some(first)) = (status.user, pids.iter().flatten().next()) {
        namespace::enter_user(namespace::user_of(*first)?)?;
    }
    let spaces: Vec<Option<std::os::fd::OwnedFd>> =
        pids.iter().map(|pid| namespace::network_of((*pid)?).ok()).collect();
    let timeout = std::time::Duration::from_millis(question.timeout_ms);
    let mut found: Vec<Vec<Row>> = Vec::new();
    for family in &question.families {
        let Some(version) = Version::from_number(*family) else {
            bail!("there is no IP version {family}");
        };
        let peers: Vec<Peer<'_>> = question
            .nodes
            .iter()
            .zip(&spaces)
            .map(|(node, space)| Peer {
                name: &node.name,
                netns: space.as_ref().map(std::os::fd::AsFd::as_fd),
                address: node.address(*family),
            })
            .collect();
        found.push(ping::all_from_here(&peers, version, timeout)?);
    }
    Ok(Told::Pinged(found))
}
