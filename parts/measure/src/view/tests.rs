//! Records written and restored.

use netloom_marking::Counters;

use super::*;

fn block(completeness: Completeness) -> FlowBlock {
    let schedule = Schedule::new(1_800_000_000_000_000_000, 200_000_000, 50_000_000).unwrap();
    let mut counters = Counters { bytes: 300, unhashable: 1, ..Counters::default() };
    counters.all.add(100_000_000, 1);
    counters.all.add(100_000_501, 2);
    counters.double.add(100_000_501, 1);
    let mut record = Record::new(&schedule, 3, &[counters], 0, u64::MAX);
    record.completeness = completeness;
    FlowBlock { id: 7, record, sampled: None }
}

#[test]
fn a_record_comes_back_from_json() {
    let none = Completeness::default();
    for completeness in [
        none,
        Completeness { started_within: true, late: true, ..none },
        Completeness { ended_within: true, table_full: true, clock_stepped: true, ..none },
        Completeness {
            interface_gone: true,
            sum_passed: true,
            overwritten: true,
            rerouted: true,
            ..none
        },
    ] {
        let flow = block(completeness);
        let text = serde_json::to_string(&Block::from(&flow)).unwrap();
        let back: Block = serde_json::from_str(&text).unwrap();
        assert_eq!(back, Block::from(&flow));
        assert_eq!(back.record(), Some(flow.record));
        assert_eq!(back.complete, completeness.is_complete());
    }
}

#[test]
fn times_are_absolute_and_sums_are_text() {
    let value = serde_json::to_value(Block::from(&block(Completeness::default()))).unwrap();
    assert_eq!(value["begin"], 1_800_000_000_600_000_000u64);
    assert_eq!(value["origin"], 1_800_000_000_500_000_000u64);
    assert_eq!(value["colour"], "next");
    let all = serde_json::json!({
        "packets": 3,
        "sum": "300001002",
        "mean": 1_800_000_000_600_000_334u64,
        "first": 1_800_000_000_600_000_000u64,
        "last": 1_800_000_000_600_000_501u64,
    });
    assert_eq!(value["all"], all);
}

#[test]
fn what_is_not_known_is_no_record() {
    let mut view = Block::from(&block(Completeness::default()));
    view.reasons.push("the moon was full".to_owned());
    assert_eq!(view.record(), None);
}

#[test]
fn words_are_read_as_they_are_written() {
    let spot = SpotView {
        netif: "eth0".to_owned(),
        direction: Direction::Egress,
        marking: Marking::Double,
        counts: Counts { overflow: 3, ..Counts::default() },
    };
    let text = serde_json::to_string(&spot).unwrap();
    assert!(text.contains(r#""direction":"egress","marking":"double""#), "{text}");
    assert_eq!(serde_json::from_str::<SpotView>(&text).unwrap(), spot);
    assert!(serde_json::from_str::<SpotView>(&text.replace("egress", "out")).is_err());
}
