//! Answers about sessions, except their results.

use netloom_ebpf::measure::Marking;
use netloom_measure::{Session, SessionId, Spot, State, Summary};
use serde::Serialize;
use utoipa::ToSchema;

/// A session by its number.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Created {
    /// The number.
    #[schema(value_type = u64)]
    pub(super) id: SessionId,
}

/// A session and its state.
pub(super) fn summary(id: SessionId, session: &Session) -> Summary {
    Summary { id, state: session.state() }
}

/// All about a session except its results.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct SessionStatus {
    /// Its number.
    #[schema(value_type = u64)]
    id: SessionId,
    /// Its state.
    state: State,
    /// The length of a block in nanoseconds.
    period: u64,
    /// How long after its end a block is still counted, in nanoseconds.
    guard: u64,
    /// Total number of its blocks.
    blocks: u64,
    /// Begin of block 0, in nanoseconds of the session's clock; `null` before the start.
    #[serde(with = "netloom_form::exact")]
    #[schema(value_type = Option<netloom_form::schema::Exact>)]
    start: Option<u64>,
    /// The ids of its filters.
    flows: Vec<u32>,
    /// Where it measures.
    points: Vec<Point>,
}

/// A direction of an interface.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Point {
    /// The interface.
    netif: String,
    /// `ingress` or `egress`, as the interface sees it.
    direction: &'static str,
    /// Whether packets are marked there.
    marking: bool,
}

impl SessionStatus {
    pub(super) fn of(id: SessionId, session: &Session) -> SessionStatus {
        let setup = session.setup();
        let configuration = &setup.configuration;
        SessionStatus {
            id,
            state: session.state(),
            period: configuration.period,
            guard: configuration.guard,
            blocks: configuration.blocks(),
            start: session.schedule().map(|schedule| schedule.start()),
            flows: configuration.filters.iter().map(|filter| filter.id).collect(),
            points: setup.spots.iter().map(Point::from).collect(),
        }
    }
}

impl From<&Spot> for Point {
    fn from(spot: &Spot) -> Point {
        let direction = spot.direction.name();
        Point { netif: spot.netif.clone(), direction, marking: spot.marking != Marking::Off }
    }
}
