//! Quotas: what a slice may use, and that others do not feel it.

use netloom_openflow::flow::FlowCommand;
use netloom_openflow::{Message, Reason, Version};
use netloom_slicing::{Quota, Rate};

use crate::integration::lab::{A, B, Lab, SECOND, at, frame, slice, with_quota};

fn lab(version: Version, quota: Quota) -> Lab {
    let red = with_quota(slice("red", vec![at(&[1, 2])]), quota);
    Lab::new(version, vec![red, slice("blue", vec![at(&[3, 4])])])
}

#[test]
fn rules_count_as_the_entries_that_they_take() {
    for version in [Version::V10, Version::V13] {
        let mut lab = lab(version, Quota { rules: Some(3), ..Quota::default() });
        lab.add(A, "actions=FLOOD");
        let more = lab.flow(FlowCommand::Add, "priority=2,actions=FLOOD");
        assert_eq!(lab.refused(A, more).reason, Reason::FlowModFailedTableFull);
        lab.add(A, "in_port=1,priority=2,actions=drop");
        // The same again does not count twice.
        lab.add(A, "actions=drop");
        assert_eq!(lab.entries(), 3);
        let all = lab.flow(FlowCommand::Delete, "");
        lab.ask(A, all);
        lab.add(A, "priority=2,actions=FLOOD");
        lab.add(B, "actions=FLOOD");
        lab.add(B, "priority=3,actions=FLOOD");
    }
}

#[test]
fn packets_above_the_quota_are_dropped_and_counted() {
    let rate = Rate { per_second: 10, burst: 5 };
    let mut lab = lab(Version::V10, Quota { packet_ins: Some(rate), ..Quota::default() });
    for _ in 0..20 {
        lab.frame(1, &frame("ip"));
        lab.frame(3, &frame("ip"));
    }
    assert_eq!(lab.told(A).len(), 5);
    assert_eq!(lab.told(B).len(), 20);
    let counters = lab.slicer.counters(A);
    assert_eq!((counters.packet_ins, counters.packet_ins_dropped), (5, 15));
    lab.now += SECOND;
    for _ in 0..20 {
        lab.frame(1, &frame("ip"));
    }
    assert_eq!(lab.told(A).len(), 5);
}

#[test]
fn messages_above_the_quota_wait() {
    let rate = Rate { per_second: 100, burst: 2 };
    let mut lab = lab(Version::V13, Quota { messages: Some(rate), ..Quota::default() });
    for _ in 0..2 {
        assert_eq!(lab.slicer.wait(lab.now, A), None);
        assert_eq!(lab.ask(A, Message::BarrierRequest), [Message::BarrierReply]);
    }
    assert_eq!(lab.slicer.wait(lab.now, A), Some(lab.now + SECOND / 100));
    assert_eq!(lab.refused(A, Message::BarrierRequest).reason, Reason::BadRequestEperm);
    assert_eq!(lab.slicer.wait(lab.now, B), None);
    lab.now += SECOND / 100;
    assert_eq!(lab.slicer.wait(lab.now, A), None);
    assert_eq!(lab.ask(A, Message::BarrierRequest), [Message::BarrierReply]);
}

/// A message that becomes many for the switch counts as these.
#[test]
fn what_a_message_becomes_counts() {
    let rate = Rate { per_second: 100, burst: 5 };
    let space = netloom_slicing::Space {
        protocol: Some(6),
        ethertype: Some(0x0800),
        port_destination: Some(80..=89),
        ..at(&[1])
    };
    let quota = Quota { messages: Some(rate), ..Quota::default() };
    let mut lab = Lab::new(Version::V13, vec![with_quota(slice("red", vec![space]), quota)]);
    lab.add(A, "actions=drop");
    assert_eq!(lab.entries(), 10);
    // Ten orders: five at once, five in 50 ms, and then the next message has to come in.
    let until = lab.slicer.wait(lab.now, A);
    assert_eq!(until, Some(lab.now + 6 * SECOND / 100));
    lab.now += 5 * SECOND / 100;
    lab.refused(A, Message::BarrierRequest);
    lab.now += SECOND / 100;
    assert_eq!(lab.slicer.wait(lab.now, A), None);
    assert_eq!(lab.ask(A, Message::BarrierRequest), [Message::BarrierReply]);
}

#[test]
fn a_rate_is_a_meter_of_all_packets() {
    let mut lab = lab(Version::V13, Quota { kilobits: Some(2_400), ..Quota::default() });
    lab.add(A, "actions=FLOOD");
    lab.add(B, "actions=FLOOD");
    let large = vec![0x5a; 1500];
    let through =
        |lab: &mut Lab, port| (0..100).map(|_| lab.ports(port, &large).len()).sum::<usize>();
    // 120 kilobits at once: ten frames.
    assert_eq!(through(&mut lab, 1), 10);
    assert_eq!(through(&mut lab, 3), 100);
    lab.now += SECOND / 20;
    assert_eq!(through(&mut lab, 1), 10);
}

#[test]
fn a_queue_is_that_of_all_packets() {
    for version in [Version::V10, Version::V13] {
        let mut lab = lab(version, Quota { queue: Some(2), ..Quota::default() });
        lab.add(A, "actions=output:2");
        lab.add(B, "actions=FLOOD");
        lab.ports(1, &frame("ip"));
        assert_eq!(lab.frames[0].queue, Some(2), "{version}");
        lab.ports(3, &frame("ip"));
        assert_eq!(lab.frames[0].queue, None);
    }
}

/// Answers that others wait for are not forgotten because a slice asks for many.
#[test]
fn one_that_waits_for_many_answers_is_to_wait() {
    let mut lab = lab(Version::V13, Quota::default());
    let mut orders = vec![];
    let ask = |lab: &mut Lab, whose, xid| {
        lab.slicer.from_controller(lab.now, whose, xid, Message::BarrierRequest)
    };
    orders.extend(ask(&mut lab, B, 7));
    let mut asked = 0;
    while lab.slicer.may_ask(A) {
        orders.extend(ask(&mut lab, A, 1));
        asked += 1;
    }
    assert!((100..10_000).contains(&asked) && lab.slicer.may_ask(B), "{asked}");
    lab.run(orders);
    assert!(lab.slicer.may_ask(A));
    assert_eq!(lab.told(A).len(), asked);
    assert_eq!(lab.told(B), [Message::BarrierReply]);
}
