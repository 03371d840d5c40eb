//! The thread's reaction to clock steps, without points.

use netloom_ebpf::measure::Clock;
use netloom_marking::session::Configuration;
use netloom_sys::clock::monotonic;

use super::*;
use crate::limits::Room;
use crate::{Host, Session, Setup, State};

const PERIOD: u64 = 100_000_000;

/// A session of `blocks` blocks, the first of which began `behind` periods ago (or begins that much later).
/// Keep `behind` small: the clock starts when the machine does.
fn shared(blocks: u64, behind: i64) -> Arc<Shared> {
    let body = br#"{"prog_id": 1, "mp": 0.1, "mpc": 1, "guard": 0.001, "starter_mark": 8,
        "next_mark": 16, "filters": [{"id": 1}]}"#;
    let mut configuration = Configuration::read(body).unwrap();
    configuration.duration = blocks * PERIOD;
    let ago = behind * i64::try_from(PERIOD).unwrap();
    let schedule = configuration.schedule(monotonic().saturating_add_signed(-ago)).unwrap();
    let clock = Clock::Monotonic;
    let setup = Setup { configuration, spots: Vec::new(), clock, keep: 100, cache: 0, flows: 0 };
    let shared = Shared::new(Arc::new(Host), setup, Room { cache: 1, samples: 0 });
    shared.set_running(schedule, Vec::new());
    Arc::new(shared)
}

fn numbers(session: &Session) -> Vec<u64> {
    let told = session.blocks(0, std::time::Duration::ZERO);
    told.iter().map(|told| told.block).collect()
}

/// The session after its thread has ended.
fn ended(shared: Arc<Shared>) -> Session {
    let session = Session::from(Arc::clone(&shared));
    spawn(shared).unwrap();
    let _ = session.blocks(u64::MAX, std::time::Duration::from_secs(20));
    assert_eq!(session.state(), State::Ended);
    session
}

#[test]
fn blocks_are_told_one_by_one_to_the_last() {
    let session = ended(shared(4, 0));
    assert_eq!((numbers(&session), session.trouble()), (vec![0, 1, 2, 3], None));
}

#[test]
fn a_clock_that_went_ahead_leaves_out_what_cannot_be_read_and_says_so() {
    let session = ended(shared(33, 30));
    let told = numbers(&session);
    assert_eq!((told[0], told.last()), (0, Some(&32)));
    assert!(told[1] >= 28 && told.len() < 8, "{told:?}");
    let trouble = session.trouble().unwrap();
    assert!(trouble.starts_with("blocks 1 to ") && trouble.contains("stepped ahead"), "{trouble}");
}

#[test]
fn a_clock_that_went_far_past_the_last_block_ends_a_session() {
    let session = ended(shared(10, 30));
    assert_eq!(numbers(&session), [0, 7, 8, 9]);
}

#[test]
fn a_clock_that_went_back_far_ends_a_session() {
    let shared = shared(10, -1000);
    // A maximum wait below the wait for block 0.
    let schedule = shared.schedule().unwrap();
    let mut reader = Reader {
        shared: &shared,
        schedule,
        last: Some(9),
        next: 3,
        unmarked: true,
        farthest: 4 * PERIOD,
    };
    assert!(!reader.step());
    shared.set_ended();
    let session = Session::from(Arc::clone(&shared));
    assert!(numbers(&session).is_empty());
    assert!(session.trouble().unwrap().contains("stepped back"));
}

#[test]
fn what_lasts_is_told_when_it_is_stopped() {
    let shared = shared(0, 2);
    let session = Session::from(Arc::clone(&shared));
    spawn(shared).unwrap();
    session.blocks(2, std::time::Duration::from_secs(20));
    session.stop();
    let told = numbers(&session);
    assert!(told.len() >= 4 && told.iter().copied().eq(0..told.len() as u64), "{told:?}");
}
