//! The doors of an ordinary user's lab: a network namespace outside the lab, and a program that passes packets between it
//! and sockets of the user's own.
//!
//! All doors end there. It routes between them and the program's tap, with the same NAT that doors of root have on the
//! host: the program sees one address. The namespace lives as long as this process or that of
//! [`netloom_uplink`] does; the latter is found by the lock that it holds, ended by a lab process that adopts the lab, and
//! started again when it ends. Nothing of the host is changed.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use netloom_model::Plan;
use netloom_model::plan::{LinkSlot, PlannedEnd, PlannedLink, WayBack};
use netloom_netlink::{Address, Batch, Change, EndSpec, Family, Route, Socket, VethSpec, nat};
use netloom_sys::namespace;
use netloom_uplink::{INTERFACE, NETWORK, Spec, Tool, tool};

use super::following::Following;
use super::{DoorTraffic, FIRST_INDEX, lab_prefixes};
use crate::build::keeper::Ground;
use crate::build::links::end;
use crate::stage::host;
use crate::stage::role::{self, Pause, Process, Role};
use crate::stage::spaces::{LOOPBACK, inside, on_a_thread, run};
use crate::store::host_change::settings::FORWARDING;
use crate::store::state::{Folder, State};
use crate::{Error, Result};

/// Time limit for the program's tap to have its addresses, and the interval between looks.
const START: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(2);

/// The object of failures.
const OUTSIDE: &str = "internet";

/// The name of the NAT table, which is alone in its namespace.
const TABLE: &str = "netloom-outside";

/// Bytes shown of what the program printed.
const SHOWN: usize = 400;

/// The namespace, and the process that passes what leaves it.
pub(super) struct Outside {
    space: OwnedFd,
    /// Not while a pause lasts after its end.
    process: Option<Process>,
    pause: Pause,
}

/// Whether a lab has doors that lead there.
pub(super) fn is_wanted(state: &State) -> bool {
    let is_door = |link: &PlannedLink| state.form(link).is_door();
    state.user && state.plan.links.iter().any(is_door)
}

impl Outside {
    /// Makes the namespace with the outer ends of these links, and starts the process.
    pub(super) fn open(ground: &Ground<'_>, links: &[LinkSlot]) -> Result<Outside> {
        let (folder, plan) = (ground.folder, &ground.state.plan);
        check_prefixes(plan)?;
        // That of an earlier lab process has another namespace.
        end_process(folder)?;
        // A thread's namespace of its own: this process stays where it is.
        let space = on_a_thread(|| {
            namespace::new_network().map_err(Error::of(OUTSIDE, "make a network namespace"))?;
            namespace::current_network().map_err(Error::of(OUTSIDE, "open its network namespace"))
        })?;
        inside(space.as_fd(), OUTSIDE, |socket| furnish(socket, ground, links))?;
        let process = Some(start(folder, plan, &space)?);
        Ok(Outside { space, process, pause: Pause::default() })
    }

    /// That of an earlier lab process, if its process lives.
    pub(super) fn find(folder: &Folder) -> Result<Option<Outside>> {
        let Some(process) = Process::holding(Role::Uplink, &folder.uplink("lock"))? else {
            return Ok(None);
        };
        let pid = netloom_sys::process::pid_of(process.pidfd.as_fd())
            .map_err(Error::of(OUTSIDE, "find its process"))?;
        // It has the namespace at a place of its own mounts.
        let place = folder.uplink("net");
        let beneath = place.strip_prefix("/").unwrap_or(&place);
        let path = Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("root");
        let space = fs::File::open(path.join(beneath));
        match space {
            // Looked at after opening: the pid may be another process's by then.
            Ok(space) if process.lives() => {
                let (space, process) = (space.into(), Some(process));
                Ok(Some(Outside { space, process, pause: Pause::default() }))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn lives(&self) -> bool {
        self.process.as_ref().is_some_and(Process::lives)
    }

    pub(super) fn watched(&self) -> Option<OwnedFd> {
        self.process.as_ref()?.pidfd.try_clone().ok()
    }

    /// The counts of these doors.
    pub(super) fn traffic(&self, doors: &[&PlannedLink]) -> Result<DoorTraffic> {
        let all = inside(self.space.as_fd(), OUTSIDE, |socket| {
            socket.links().map_err(Error::of(OUTSIDE, "read its interfaces"))
        })?;
        let of = |name: &str| all.iter().find(|link| link.name == name).map(|link| link.traffic);
        let ends = doors.iter().filter_map(|link| Some((link.id, of(&outer(link))?))).collect();
        Ok(DoorTraffic { ends, way_out: of(INTERFACE) })
    }

    /// Takes the routes and the prefixes of a changed plan.
    pub(super) fn follow(&self, plan: &Plan, change: &Following) -> Result<()> {
        inside(self.space.as_fd(), OUTSIDE, |socket| {
            change.routes(socket, plan, outer)?;
            if !change.prefixes {
                return Ok(());
            }
            forward(plan)?;
            let doors = plan.links.iter().filter(|link| link.leads_to_internet());
            translate(plan, &doors.map(outer).collect::<Vec<_>>())
        })
    }

    /// Starts the process again if it has ended; returns when to try again.
    pub(super) fn tend(&mut self, folder: &Folder, plan: &Plan) -> Option<Duration> {
        if self.lives() {
            return None;
        }
        let lived = self.process.take().map(|process| process.since.elapsed());
        self.pause.restart(lived, OUTSIDE, || {
            self.process = Some(start(folder, plan, &self.space)?);
            Ok(())
        })
    }
}

/// Ends the process of a lab, also one that an earlier lab process started.
pub(super) fn end_process(folder: &Folder) -> Result<()> {
    if let Some(process) = Process::holding(Role::Uplink, &folder.uplink("lock"))? {
        process.end();
    }
    Ok(())
}

/// Makes and configures what is in the namespace, where `socket` is; the tap comes with the program.
fn furnish(socket: &mut Socket, ground: &Ground<'_>, links: &[LinkSlot]) -> Result<()> {
    let plan = &ground.state.plan;
    let mut batch = Batch::new();
    batch.push(OUTSIDE, &Change::of(LOOPBACK).up());
    run(socket, &mut batch, OUTSIDE, "raise its loopback interface")?;
    forward(plan)?;
    // A namespace that forwards would not hear of the program's IPv6 router; and nobody else has its addresses, which for
    // the time of a search for duplicates could not be used.
    set("net/ipv6/conf/default/accept_ra", "2", false)?;
    set("net/ipv6/conf/default/accept_dad", "0", false)?;
    let (mut names, back) = (Vec::new(), plan.ways_back());
    for &link in links {
        names.push(door(socket, ground, link, &back)?);
    }
    translate(plan, &names)
}

/// Lets the namespace forward, in the families of the lab.
fn forward(plan: &Plan) -> Result<()> {
    let ipv6 = lab_prefixes(plan).iter().any(|prefix| prefix.addr().is_ipv6());
    FORWARDING.into_iter().try_for_each(|path| set(path, "1", ipv6))
}

/// NAT for the lab's prefixes behind these ends of doors.
fn translate(plan: &Plan, outers: &[String]) -> Result<()> {
    let inside: Vec<&str> = outers.iter().map(String::as_str).collect();
    let prefixes = lab_prefixes(plan);
    let spec = nat::NatSpec {
        table: TABLE,
        inside: &inside,
        uplink: Some(INTERFACE),
        prefixes: &prefixes,
        block_other_forwarding: false,
        bridges: "",
        siblings: "",
        // The pasta of Debian 12 ends such a connection, or passes nothing any more (ADR 0066).
        hold_repeated: true,
    };
    match nat::install(&spec) {
        // What it passes then is as good as its version; one that hangs is started again.
        Err(netloom_netlink::Error::Unsupported(lacks)) if lacks.feature == nat::MARKS => {
            nat::install(&nat::NatSpec { hold_repeated: false, ..spec })
        }
        outcome => outcome,
    }
    .map_err(Error::of(OUTSIDE, "install NAT"))
}

/// The name of a door's outer end.
fn outer(link: &PlannedLink) -> String {
    format!("door{}", link.id)
}

/// Makes the pair of a door's link, its outer end here; returns that end's name.
fn door(
    socket: &mut Socket,
    ground: &Ground<'_>,
    link: LinkSlot,
    back: &[WayBack],
) -> Result<String> {
    let plan = &ground.state.plan;
    let planned = &plan.links[link];
    let object = format!("link {:?}", planned.name);
    let is_outer = |end: &PlannedEnd| matches!(end, PlannedEnd::Internet { .. });
    let Some(side) = planned.ends.iter().position(is_outer) else {
        let reason = "its door is an interface of the host's, which belongs to root".to_owned();
        return Err(Error::Invalid { object: object.into(), reason });
    };
    let name = outer(planned);
    // The kernel uses the inner end's index only if the outer end has one, too.
    // The namespace is the lab's own: no hash is needed to keep labs apart.
    let index = FIRST_INDEX + u32::try_from(link.get() % 4096).unwrap_or(0);
    let own = EndSpec { mtu: Some(planned.mtu), index: Some(index), ..EndSpec::new(&name) };
    let near = ground.spaces.near(plan, &[link])?;
    let mut spec = VethSpec::new(own, end(plan, &near, link, 1 - side)?);
    spec.a_up = true;
    let mut batch = Batch::new();
    batch.push(object.as_str(), &spec);
    run(socket, &mut batch, &object, "make its end outside")?;
    batch.clear();
    if let PlannedEnd::Internet { addresses } = &planned.ends[side] {
        for address in addresses {
            batch.push(object.as_str(), &Address::new(index, *address));
        }
    }
    for way in back.iter().filter(|way| way.door == link) {
        batch.push(object.as_str(), &Route::new(way.to, Some(way.via), index));
    }
    run(socket, &mut batch, &object, "give its end outside addresses and routes")?;
    Ok(name)
}

/// Sets a sysctl of the calling thread's network namespace; what is not `needed` may be missing.
fn set(path: &str, value: &str, needed: bool) -> Result<()> {
    let full = format!("/proc/sys/{path}");
    match fs::write(&full, value) {
        Err(e) if needed || e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::at(full, "set sysctl")(e))
        }
        _ => Ok(()),
    }
}

/// The tap's network must be none of the lab's.
pub(super) fn check_prefixes(plan: &Plan) -> Result<()> {
    let taken = IpNet::new_assert(NETWORK.into(), 24);
    let overlap = |prefix: &IpNet| prefix.contains(&taken) || taken.contains(prefix);
    match lab_prefixes(plan).into_iter().find(overlap) {
        None => Ok(()),
        Some(prefix) => Err(Error::Conflict {
            lab: plan.lab.clone(),
            reason: format!(
                "internet: the prefix {prefix} of the lab holds {taken}, through which packets leave an ordinary \
                 user's lab; give the lab another `pool:`"
            ),
        }),
    }
}

/// Starts the process with the first program that works; the reasons of all if none does.
fn start(folder: &Folder, plan: &Plan, space: &OwnedFd) -> Result<Process> {
    let mut failures = Vec::new();
    for tool in host::ways_out()? {
        match start_with(folder, plan, space, tool) {
            Ok(process) => return Ok(process),
            Err(e) => failures.push(e),
        }
    }
    Error::of_all(failures)?;
    // There was none to try.
    Err(tool::none_installed().into())
}

/// Starts the process with a program, and waits for its tap.
fn start_with(folder: &Folder, plan: &Plan, space: &OwnedFd, tool: Tool) -> Result<Process> {
    let object = tool.program.display().to_string();
    let (lock, log) = (folder.uplink("lock"), folder.uplink("log"));
    let spec = Spec {
        lab: plan.lab.clone(),
        tool,
        place: folder.uplink("net"),
        log: log.clone(),
        home: folder.path(),
    };
    let text = serde_json::to_string(&spec)
        .map_err(|e| Error::of(&object, "describe it")(std::io::Error::from(e)))?;
    // What an earlier program printed is not this one's.
    let _ = fs::remove_file(&log);
    let words = [lock.as_os_str(), OsStr::new(&text)];
    let input = space.try_clone().map_err(Error::of(&object, "copy a descriptor"))?;
    let process = role::start(Role::Uplink, &words, Some(input), "pass packets", || {
        Process::holding(Role::Uplink, &lock)
    })?;
    let until = Instant::now() + START;
    loop {
        // Made by the program: when, only a look tells.
        if inside(space.as_fd(), OUTSIDE, prepare_tap)? {
            return Ok(process);
        }
        if !process.lives() || Instant::now() > until {
            // One without a working tap must not stay.
            process.end();
            return Err(Error::of(&object, "pass what leaves the lab")(printed(&log)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Gives the tap its queue when it is there, up, and the way out, which programs configure last of IPv4; returns whether
/// it is. Later a change of the queue would lose what is on its way.
fn prepare_tap(socket: &mut Socket) -> Result<bool> {
    let found = socket.link(INTERFACE).map_err(Error::of(OUTSIDE, "look for its tap"))?;
    let Some(tap) = found.filter(|link| link.up) else { return Ok(false) };
    let routes = socket.routes(Family::V4).map_err(Error::of(OUTSIDE, "read routes"))?;
    let leads_out = routes.iter().any(|one| one.to.prefix_len() == 0 && one.links == [tap.index]);
    if leads_out {
        netloom_uplink::give_room(socket, tap.index)
            .map_err(Error::of(OUTSIDE, "give its tap room"))?;
    }
    Ok(leads_out)
}

/// The end of what a program printed, as the reason why it does not work.
fn printed(log: &Path) -> std::io::Error {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN)..]).into_owned();
    // Without a system log pasta complains of that in every other line.
    let lines = text.lines().filter(|line| !line.ends_with("to syslog") && !line.trim().is_empty());
    match lines.collect::<Vec<_>>().join("; ") {
        nothing if nothing.is_empty() => std::io::Error::other("it printed no reason"),
        reason => std::io::Error::other(reason),
    }
}
