//! The choice of an engine for an interface.
//!
//! [`choose`] decides; [`Machine::probe`] queries once what the machine allows. The reason is for
//! the user, in words.

use netloom_ebpf::capture::Where;
use netloom_ebpf::feature::capture_supported;
use netloom_sys::Unsupported;
use serde::{Deserialize, Serialize};

use super::EngineKind;

/// The kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// An end of a veth pair.
    Veth,
    /// A card, or a virtual one.
    Card,
    /// The loopback interface: it shows each frame both as sent and as received.
    Loopback,
    /// Any other kernel interface.
    Other,
    /// A switch in shared memory: no kernel interface.
    Switch,
}

/// The direction of wanted frames, as seen by the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// Received frames.
    In,
    /// Sent frames.
    Out,
}

impl Direction {
    /// Whether a frame of this direction is wanted.
    pub(crate) fn takes(self, outgoing: bool) -> bool {
        match self {
            Direction::Both => true,
            Direction::In => !outgoing,
            Direction::Out => outgoing,
        }
    }
}

/// The user's wishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Use this engine, at any cost; else the best is chosen.
    pub engine: Option<EngineKind>,
    /// The fastest engine, even if it changes the interface's behaviour (XDP turns off a veth's
    /// segmentation offload). Every frame continues as without the capture.
    pub fast: bool,
    /// Incoming frames for other stations end at the capture, unless something above the interface
    /// takes them. Only XDP can end them, so this also implies `fast`.
    pub sink: bool,
    /// The wanted directions.
    pub direction: Direction,
}

/// For each mechanism, whether the machine allows it, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// BPF programs at the tc hooks.
    pub tc: Result<(), Unsupported>,
    /// BPF programs at the XDP hook.
    pub xdp: Result<(), Unsupported>,
    /// libpcap.
    pub libpcap: Result<(), Unsupported>,
}

impl Machine {
    /// Probes what this machine allows this user. Programs are loaded and unloaded.
    pub fn probe() -> Machine {
        Machine {
            tc: capture_supported(Where::Tc),
            xdp: capture_supported(Where::Xdp),
            libpcap: netloom_libpcap::version().map(drop),
        }
    }
}

/// Why an engine is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// It does not suit the interface or the request.
    #[error("{0}")]
    Unfit(String),
    /// The machine or the user lacks something.
    #[error("{0}")]
    Unsupported(#[from] Unsupported),
}

/// An engine, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: EngineKind,
    /// The directions to take: those wished, except on loopback if both were.
    pub direction: Direction,
    /// The reason, in words.
    pub reason: String,
}

/// Chooses the engine for an interface.
///
/// # Errors
/// The reason for which the requested engine is impossible.
pub fn choose(kind: InterfaceKind, machine: &Machine, wish: &Wish) -> Result<Choice, Impossible> {
    let mut choice = match wish.engine {
        Some(engine) => {
            may(engine, kind, machine, wish)?;
            let sink = if wish.sink { "; frames for other stations end here" } else { "" };
            because(engine, &format!("it was asked for{sink}"))
        }
        None => automatic(kind, machine, wish)?,
    };
    choice.direction = wish.direction;
    // There a packet socket sees a frame as sent and, again, as received.
    let twice = kind == InterfaceKind::Loopback && wish.direction == Direction::Both;
    if twice && choice.engine == EngineKind::Tpacket {
        choice.direction = Direction::In;
    }
    Ok(choice)
}

/// The requirement of a sink.
const SINK: &str = "--sink ends frames at XDP only, as the interface receives them";

/// Whether an engine is possible.
fn may(
    engine: EngineKind,
    kind: InterfaceKind,
    machine: &Machine,
    wish: &Wish,
) -> Result<(), Impossible> {
    let of_switch = kind == InterfaceKind::Switch;
    let unfit = |why: &str| Err(Impossible::Unfit(why.to_owned()));
    match engine {
        _ if wish.sink && of_switch => {
            unfit(&format!("{SINK}; a mirror port of a switch gets copies"))
        }
        _ if wish.sink && engine != EngineKind::XdpRing => {
            unfit(&format!("{SINK}; leave out --sink, or --engine {engine}"))
        }
        EngineKind::Switch if !of_switch => unfit("it is not on a switch in shared memory"),
        EngineKind::Switch => Ok(()),
        _ if of_switch => unfit("a switch in shared memory has no interface of the kernel"),
        EngineKind::XdpRing if wish.direction != Direction::In => {
            unfit("XDP sees only the frames that an interface receives")
        }
        EngineKind::XdpRing => Ok(machine.xdp.clone()?),
        EngineKind::TcRing => Ok(machine.tc.clone()?),
        EngineKind::Pcap => Ok(machine.libpcap.clone()?),
        EngineKind::Tpacket => Ok(()),
    }
}

fn automatic(kind: InterfaceKind, machine: &Machine, wish: &Wish) -> Result<Choice, Impossible> {
    let can = |engine| may(engine, kind, machine, wish);
    if kind == InterfaceKind::Switch && !wish.sink {
        return Ok(because(EngineKind::Switch, "frames of the switch come by a mirror port"));
    }
    if wish.sink {
        can(EngineKind::XdpRing)?;
    }
    if (wish.fast || wish.sink) && can(EngineKind::XdpRing).is_ok() {
        return Ok(because(EngineKind::XdpRing, &fastest(kind, wish.sink)));
    }
    // On loopback a packet socket can omit the copy of each sent frame.
    if kind == InterfaceKind::Loopback {
        return Ok(because(EngineKind::Tpacket, "loopback shows each frame twice but to this one"));
    }
    Ok(match can(EngineKind::TcRing) {
        Ok(()) => because(EngineKind::TcRing, "nothing is turned off, and every frame passes"),
        Err(reason) => because(EngineKind::Tpacket, &format!("no BPF ring here: {reason}")),
    })
}

/// The reason for XDP.
fn fastest(kind: InterfaceKind, sink: bool) -> String {
    let veth = match kind {
        InterfaceKind::Veth => "; segmentation offload of this veth is off meanwhile",
        _ => "",
    };
    let frames = match sink {
        true => "frames for other stations end here",
        false => "every frame passes (--sink ends those for other stations here)",
    };
    format!("the fastest{veth}; {frames}")
}

fn because(engine: EngineKind, reason: &str) -> Choice {
    Choice { engine, direction: Direction::Both, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Machine {
        Machine { tc: Ok(()), xdp: Ok(()), libpcap: Ok(()) }
    }

    fn none() -> Machine {
        let missing = Unsupported {
            feature: "capture",
            reason: "not root".to_owned(),
            needs: "run as root".to_owned(),
        };
        let no = || Err(missing.clone());
        Machine { tc: no(), xdp: no(), libpcap: no() }
    }

    #[test]
    fn a_veth_gets_xdp_only_when_the_fastest_is_asked_for() {
        let kind = InterfaceKind::Veth;
        let engine = |machine: &Machine, wish| choose(kind, machine, &wish).unwrap().engine;
        for direction in [Direction::Both, Direction::In, Direction::Out] {
            let wish = Wish { direction, ..Wish::default() };
            assert_eq!(engine(&all(), wish), EngineKind::TcRing);
            assert_eq!(engine(&none(), wish), EngineKind::Tpacket);
            assert_eq!(engine(&none(), Wish { fast: true, ..wish }), EngineKind::Tpacket);
        }
        let fast = Wish { fast: true, direction: Direction::In, ..Wish::default() };
        assert_eq!(engine(&all(), fast), EngineKind::XdpRing);
        let both = Wish { direction: Direction::Both, ..fast };
        assert_eq!(engine(&all(), both), EngineKind::TcRing, "XDP does not see what goes out");
        let told = choose(kind, &none(), &Wish::default()).unwrap();
        assert!(told.reason.contains("not root"), "{}", told.reason);
    }

    #[test]
    fn a_sink_is_at_xdp_or_refused() {
        let sink = Wish { sink: true, direction: Direction::In, ..Wish::default() };
        let veth = |machine: &Machine, wish| choose(InterfaceKind::Veth, machine, &wish);
        let chosen = veth(&all(), sink).unwrap();
        assert_eq!(chosen.engine, EngineKind::XdpRing);
        assert!(chosen.reason.contains("end here"), "{}", chosen.reason);
        let passing = veth(&all(), Wish { fast: true, sink: false, ..sink }).unwrap();
        assert_eq!(passing.engine, EngineKind::XdpRing);
        assert!(passing.reason.contains("every frame passes"), "{}", passing.reason);
        assert!(veth(&none(), sink).unwrap_err().to_string().contains("not root"));
        for engine in [EngineKind::TcRing, EngineKind::Tpacket, EngineKind::Pcap] {
            let refused =
                veth(&all(), Wish { engine: Some(engine), ..sink }).unwrap_err().to_string();
            assert!(refused.contains("leave out --sink"), "{refused}");
        }
        let outgoing = veth(&all(), Wish { direction: Direction::Out, ..sink });
        assert!(outgoing.unwrap_err().to_string().contains("receives"));
        let switch = choose(InterfaceKind::Switch, &all(), &sink);
        assert!(switch.unwrap_err().to_string().contains("copies"));
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_the_reason() {
        let asked = |kind, machine: &Machine, engine| {
            let wish = Wish { engine: Some(engine), ..Wish::default() };
            choose(kind, machine, &wish).map(|choice| choice.engine)
        };
        for engine in [EngineKind::Tpacket, EngineKind::TcRing, EngineKind::Pcap] {
            assert_eq!(asked(InterfaceKind::Card, &all(), engine), Ok(engine));
            assert!(asked(InterfaceKind::Switch, &all(), engine).is_err());
        }
        assert_eq!(
            asked(InterfaceKind::Other, &none(), EngineKind::TcRing),
            Err(none().tc.unwrap_err().into())
        );
        assert!(asked(InterfaceKind::Veth, &all(), EngineKind::XdpRing).is_err());
        assert!(asked(InterfaceKind::Veth, &all(), EngineKind::Switch).is_err());
    }

    #[test]
    fn loopback_and_switches_have_their_own() {
        let chosen = |kind| choose(kind, &all(), &Wish::default()).unwrap().engine;
        let loopback = choose(InterfaceKind::Loopback, &all(), &Wish::default()).unwrap();
        assert_eq!(loopback.direction, Direction::In, "each frame once");
        assert_eq!(chosen(InterfaceKind::Loopback), EngineKind::Tpacket);
        assert_eq!(chosen(InterfaceKind::Switch), EngineKind::Switch);
        assert_eq!(chosen(InterfaceKind::Card), EngineKind::TcRing);
    }
}
