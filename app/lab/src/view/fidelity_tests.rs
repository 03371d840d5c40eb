//! Two readings show what was late between them, in figures and in words.

use super::*;

fn link(name: &str, values: &[u64]) -> LatenessView {
    let mut lateness = Lateness::default();
    values.iter().for_each(|ns| lateness.add(*ns));
    LatenessView {
        link: name.into(),
        from: "a:eth0".into(),
        sum_ns: lateness.sum_ns,
        max_ns: lateness.max_ns,
        counts: lateness.counts().to_vec(),
        ..LatenessView::default()
    }
}

fn reading(links: Vec<LatenessView>) -> FidelityView {
    FidelityView { links, ..FidelityView::default() }
}

#[test]
fn a_link_is_judged_by_what_left_between_two_readings() {
    let before = reading(vec![link("l", &[900_000_000, 10])]);
    let after = reading(vec![link("l", &[900_000_000, 10, 70_000_000, 20]), link("m", &[5])]);
    let found = after.since(&before, 1_000_000);
    let [late] = &found[..] else { panic!("one is late") };
    // Not the maximum before: at most a quarter too large.
    assert!((70_000_000..=87_500_000).contains(&late.late_ns.unwrap()), "{late:?}");
    assert_eq!((late.name.as_str(), late.cause, late.count), ("l", BehindCause::Late, 2));
    assert!(after.since(&after, 0).is_empty());
    let words = late.words();
    assert!(words.starts_with("link l from a:eth0 was ") && words.contains(" ms late (99 % of 2"));
}

#[test]
fn a_frame_that_is_held_too_long_and_lost_ones_count() {
    let mut now = link("l", &[]);
    (now.overdue_ns, now.overruns) = (3_000_000, 4);
    let found = reading(vec![now]).since(&reading(vec![link("l", &[])]), 1_000_000);
    let words: Vec<String> = found.iter().map(BehindView::words).collect();
    assert_eq!(
        words,
        [
            "link l from a:eth0 was 3.0 ms late",
            "link l from a:eth0 lost 4 frames because its wire came too late",
        ]
    );
    assert!(found.iter().all(BehindView::is_over));
}

#[test]
fn a_recreated_wire_counts_from_nothing() {
    let mut before = link("l", &[5_000_000, 5_000_000, 5_000_000]);
    before.overruns = 9;
    let mut after = link("l", &[2_000_000]);
    after.overruns = 1;
    let found = reading(vec![after]).since(&reading(vec![before]), 1_000_000);
    let figures: Vec<_> = found.iter().map(|b| (b.cause, b.late_ns, b.count)).collect();
    let late = (BehindCause::Late, Some(2_000_000), 1);
    assert_eq!(figures, [late, (BehindCause::Overrun, None, 1)]);
}

#[test]
fn waits_are_means_and_only_of_what_was_seen_before() {
    let waits = |name: &str, wait_ns, turns| WaitsView {
        kind: BehindKind::Node,
        name: name.into(),
        wait_ns,
        turns,
    };
    let with = |waits| FidelityView { waits, ..FidelityView::default() };
    let before = with(vec![waits("a", 1_000_000_000, 10), waits("b", 0, 0)]);
    let all = vec![waits("a", 1_090_000_000, 13), waits("b", 9, 3), waits("c", 1 << 40, 1)];
    let found = with(all).since(&before, 10_000_000);
    let [a] = &found[..] else { panic!("only a waited") };
    assert_eq!(a.words(), "node a waited 30.0 ms for a processor on average (3 turns)");
}

#[test]
fn what_the_machine_took_is_told_and_stolen_time_breaks_no_bound() {
    let at = |drops, all, stolen| FidelityView {
        backlog_drops: Some(drops),
        ticks: Some([all, stolen]),
        ..FidelityView::default()
    };
    let found = at(8, 1000, 50).since(&at(7, 0, 0), 1_000_000);
    let words: Vec<String> = found.iter().map(BehindView::words).collect();
    assert_eq!(
        words,
        [
            "the machine had 500 ms of its processors stolen",
            "the machine lost 1 frame for which its backlog had no room",
        ]
    );
    assert_eq!(found.iter().map(BehindView::is_over).collect::<Vec<_>>(), [false, true]);
    let unknown = FidelityView::default();
    assert!(
        at(8, 1000, 50).since(&unknown, 0).is_empty() && unknown.since(&at(1, 1, 1), 0).is_empty()
    );
}

#[test]
fn the_latest_comes_first() {
    let before = reading(vec![]);
    let after = reading(vec![link("l", &[20_000_000]), link("m", &[400_000_000])]);
    let names: Vec<_> = after.since(&before, 1).into_iter().map(|b| b.name).collect();
    assert_eq!(names, ["m", "l"]);
}

#[test]
fn figures_have_three_digits() {
    assert_eq!(
        [ms(1), ms(999_000), ms(1_250_000), ms(312_400_000)],
        ["0.000", "0.999", "1.2", "312"]
    );
}
