//! Which engine an interface gets.
//!
//! [`choose`] decides; what the machine allows is asked once by [`Machine::probe`]. The reason is for
//! the user, in words.

use netloom_ebpf::capture::Where;
use netloom_ebpf::feature::capture_supported;
use serde::{Deserialize, Serialize};

use super::EngineKind;

/// What an interface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceKind {
    /// An end of a veth pair.
    Veth,
    /// A card, or what stands for one.
    Card,
    /// The loopback interface: it shows each frame going out and coming in.
    Loopback,
    /// Anything else that is an interface of the kernel.
    Other,
    /// A switch in shared memory: no interface of the kernel.
    Switch,
}

/// Frames of which direction are wanted, as the interface sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Both.
    #[default]
    Both,
    /// Those that it receives.
    In,
    /// Those that it sends.
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

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// This engine, whatever it costs; else the best is looked for.
    pub engine: Option<EngineKind>,
    /// The fastest, also where it changes how the interface works (XDP turns segmentation offload of
    /// a veth off) and where frames are seen that the kernel drops anyway.
    pub fast: bool,
    /// The directions.
    pub direction: Direction,
}

/// What a machine allows: nothing, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// BPF programs at the tc hooks.
    pub tc: Result<(), String>,
    /// BPF programs at the XDP hook.
    pub xdp: Result<(), String>,
    /// libpcap.
    pub libpcap: Result<(), String>,
}

impl Machine {
    /// Asks what this machine allows this user. Programs are loaded, and let go of.
    pub fn probe() -> Machine {
        let bpf = |at| capture_supported(at).map_err(|unsupported| unsupported.to_string());
        Machine {
            tc: bpf(Where::Tc),
            xdp: bpf(Where::Xdp),
            libpcap: netloom_libpcap::version().map(drop).map_err(|error| error.to_string()),
        }
    }
}

/// An engine, and why this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: EngineKind,
    /// The directions that it is to take: those wished, but on loopback where both were.
    pub direction: Direction,
    /// Why, in words.
    pub reason: String,
}

/// The engine for an interface.
///
/// # Errors
/// Why the one asked for cannot be.
pub fn choose(kind: InterfaceKind, machine: &Machine, wish: &Wish) -> Result<Choice, String> {
    let mut choice = match wish.engine {
        Some(engine) => {
            may(engine, kind, machine, wish)?;
            because(engine, "it was asked for")
        }
        None => automatic(kind, machine, wish),
    };
    choice.direction = wish.direction;
    // The packet socket sees there what goes out and, as a second frame, that it comes in.
    let twice = kind == InterfaceKind::Loopback && wish.direction == Direction::Both;
    if twice && choice.engine == EngineKind::Tpacket {
        choice.direction = Direction::In;
    }
    Ok(choice)
}

/// Whether an engine can be.
fn may(
    engine: EngineKind,
    kind: InterfaceKind,
    machine: &Machine,
    wish: &Wish,
) -> Result<(), String> {
    let of_switch = kind == InterfaceKind::Switch;
    match engine {
        EngineKind::Switch if !of_switch => {
            Err("it is not on a switch in shared memory".to_owned())
        }
        EngineKind::Switch => Ok(()),
        _ if of_switch => {
            Err("a switch in shared memory has no interface of the kernel".to_owned())
        }
        EngineKind::XdpRing if wish.direction != Direction::In => {
            Err("XDP sees only the frames that an interface receives".to_owned())
        }
        EngineKind::XdpRing => machine.xdp.clone(),
        EngineKind::TcRing => machine.tc.clone(),
        EngineKind::Pcap => machine.libpcap.clone(),
        EngineKind::Tpacket => Ok(()),
    }
}

fn automatic(kind: InterfaceKind, machine: &Machine, wish: &Wish) -> Choice {
    let can = |engine| may(engine, kind, machine, wish);
    if kind == InterfaceKind::Switch {
        return because(EngineKind::Switch, "frames of the switch come by a mirror port");
    }
    if wish.fast && can(EngineKind::XdpRing).is_ok() {
        let reason = match kind {
            InterfaceKind::Veth => {
                "the fastest; segmentation offload of this veth is off meanwhile, and frames \
                 for other stations end here"
            }
            _ => "the fastest; frames for other stations end here",
        };
        return because(EngineKind::XdpRing, reason);
    }
    // On loopback the packet socket can leave out the copy of each frame that goes out.
    if kind == InterfaceKind::Loopback {
        return because(EngineKind::Tpacket, "loopback shows each frame twice but to this one");
    }
    match can(EngineKind::TcRing) {
        Ok(()) => because(EngineKind::TcRing, "frames are copied once, and nothing is turned off"),
        Err(reason) => because(EngineKind::Tpacket, &format!("no BPF ring here: {reason}")),
    }
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
        let no = || Err("not root".to_owned());
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
        let fast = Wish { fast: true, direction: Direction::In, engine: None };
        assert_eq!(engine(&all(), fast), EngineKind::XdpRing);
        let both = Wish { direction: Direction::Both, ..fast };
        assert_eq!(engine(&all(), both), EngineKind::TcRing, "XDP does not see what goes out");
        let told = choose(kind, &none(), &Wish::default()).unwrap();
        assert!(told.reason.contains("not root"), "{}", told.reason);
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
            Err("not root".into())
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
