//! Limits, with numbers.

use netloom_ebpf::Direction;
use netloom_ebpf::measure::{Clock, Marking};
use netloom_marking::{Filter, Marks, Precedence};

use super::*;
use crate::Spot;

const MS: u64 = 1_000_000;
const TICK: u64 = 4 * MS;

fn setup(program: Program, period: u64, guard: u64, flows: u32, spots: usize) -> Setup {
    let named = |id| netloom_marking::session::NamedFilter { id, filter: Filter::default() };
    let sampled = matches!(program, Program::Fixed | Program::Dynamic);
    let function = netloom_marking::HashFunction::Bob;
    let sampling = sampled.then(|| Sampling {
        hasher: netloom_marking::Hasher {
            function,
            profile: Default::default(),
            seed: 0,
            payload: Default::default(),
        },
        selection: netloom_marking::Selection::new(function, 0, 0).unwrap(),
        npkts: (program == Program::Dynamic).then_some(1000),
    });
    let spot =
        |n| Spot { netif: format!("eth{n}"), direction: Direction::Ingress, marking: Marking::Off };
    let configuration = Configuration {
        program,
        period,
        duration: 10 * period,
        guard,
        marks: Marks::new(8, 16, 63, 0).unwrap(),
        filters: (0..flows).map(named).collect(),
        precedence: Precedence::First,
        sampling,
        netifs: Vec::new(),
        marking: Vec::new(),
    };
    let spots = (0..spots).map(spot).collect();
    Setup { configuration, spots, clock: Clock::Tai, keep: 1, cache: 0, flows: 0 }
}

fn least(setup: &Setup) -> Option<u64> {
    let room = room(setup, 2).unwrap();
    match check_period(setup, room, 2, TICK) {
        Ok(()) => None,
        Err(Error::Period { least, .. }) => Some(least),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn the_least_period_is_the_least() {
    let all = [
        (Program::All, 20 * MS, 10 * MS, 1, 2),
        (Program::Fixed, 10 * MS, MS, 1, 2),
        (Program::Empty, 10 * MS, 4 * MS, 1, 2),
        (Program::All, 100 * MS, MS, 1000, 200),
        (Program::Dynamic, 10 * MS, MS, 1000, 4),
    ];
    for (program, period, guard, flows, spots) in all {
        let asked = setup(program, period, guard, flows, spots);
        let least = least(&asked).unwrap_or_else(|| panic!("{program:?}: {period} is enough"));
        assert!(least > period);
        for (period, fits) in [(least - 1, false), (least, true)] {
            let setup = setup(program, period, guard, flows, spots);
            let room = room(&setup, 2).unwrap();
            assert_eq!(check_period(&setup, room, 2, TICK).is_ok(), fits, "{program:?} {period}");
        }
    }
}

#[test]
fn the_least_period_is_named() {
    let setup = setup(Program::Fixed, 10 * MS, MS, 1, 2);
    let error = check_period(&setup, room(&setup, 2).unwrap(), 2, TICK).unwrap_err();
    assert_eq!(
        error.to_string(),
        "period of 10000000 ns: too short: packets may come a guard of 1000000 ns and a tick of the \
         coarse clock late and must still be nearer to their own block than to another; take a period \
         of 12000001 ns or more, or a smaller guard"
    );
}

#[test]
fn memory_is_bounded() {
    let second = 1000 * MS;
    let few = room(&setup(Program::All, second, MS, 10, 4), 2).unwrap();
    assert_eq!(few, Room { cache: 65_536, samples: 0 });
    let many = room(&setup(Program::Fixed, second, MS, 100, 64), 2).unwrap();
    assert_eq!(many.cache, 16_384);
    assert!((16..4096).contains(&many.samples), "{many:?}");
    assert!(room(&setup(Program::All, second, MS, 65_536, 100), 2).is_err());
    let error = room(&setup(Program::Dynamic, second, MS, 1000, 20), 2).unwrap_err();
    assert!(error.to_string().contains("more than 1 GiB"), "{error}");
}

#[test]
fn what_is_kept_is_bounded() {
    let one = setup(Program::All, MS, 1, 1, 2);
    assert_eq!(keep(&one.configuration, 2), 4096);
    let many = setup(Program::Fixed, MS, 1, 1000, 2);
    assert_eq!(keep(&many.configuration, 10), 4);
}

#[test]
fn emptying_a_cache_takes_but_a_part_of_a_period() {
    assert_eq!(patience(1000 * MS, 65_536), Some(65_536));
    assert_eq!(patience(100 * MS, 65_536), None);
    assert_eq!(patience(100 * MS, 8), Some(8));
}

#[test]
fn there_is_a_cpu() {
    assert!(cpus() >= 1);
}

#[test]
fn what_a_session_takes_is_its_tables_and_what_is_kept() {
    let mut setup = setup(Program::Dynamic, 100 * MS, MS, 3, 2);
    setup.keep = 0;
    // Two points, three flows, two CPUs: a flow has 4 banks of counts and of 1,000 samples.
    let tables = 2 * 3 * 2 * 4 * (128 + 1000 * 16);
    assert_eq!(takes(&setup, 2).unwrap(), tables + 2 * 65_536 * FOUND);
    setup.keep = 10;
    let kept = takes(&setup, 2).unwrap() - tables - 2 * 65_536 * FOUND;
    assert_eq!(kept, 10 * 2 * 3 * (number(size_of::<FlowBlock>()) + 16_000));
}
