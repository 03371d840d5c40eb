//! Quotas and refusals, from files of slices.

use super::*;

#[test]
fn what_is_not_said_is_a_share_of_what_a_slicer_bears() {
    let none = SliceQuota::default();
    let of = |places| {
        let Shares { rules, groups, buckets, meters, memory } = none.shares(places);
        (rules, groups, buckets, meters, memory >> 10)
    };
    assert_eq!(of(1), (20_000, 1000, 10_000, 1000, 40_000));
    assert_eq!(of(3), of(1));
    assert_eq!(of(300), (200, 200, 2000, 200, 400));
    assert_eq!(of(5000), (60, 60, 600, 60, 120));
    // All of them together are within half of 256 MiB.
    for places in [1, 2, 3, 7, 100, 999, 1000] {
        let all = u64::try_from(places).unwrap() * none.shares(places).memory;
        assert!(all <= 120_000 << 10, "{places}");
    }
    let said = SliceQuota { rules: Some(1000), buckets: Some(7), ..none };
    let Shares { rules, groups, buckets, meters, memory } = said.shares(300);
    assert_eq!((rules, groups, buckets, meters, memory), (1000, 1000, 7, 1000, 2_048_000));
}

/// CPU time of this thread in hundredths of a second (proc_pid_stat(5)): a busy machine takes none of it away.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("own times");
    // The name of the thread may have spaces.
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let of = |at| fields.split(' ').nth(at).and_then(|field| field.parse::<u64>().ok());
    of(11).zip(of(12)).map(|(user, system)| user + system).expect("two numbers")
}

#[test]
fn as_many_slices_as_there_may_be_are_read_soon() {
    let file = |count: usize| {
        let slice = |at| format!("  s{at}: {{switches: {{s: {{vlan: {at}}}}}}}\n");
        let all: String = (1..=count).map(slice).collect();
        format!("switches: {{s: {{}}}}\nslices:\n{all}")
    };
    let before = cpu_time();
    let read = policy("p", file(MOST_SLICES).as_bytes()).expect("slices");
    assert_eq!(read.slices.len(), MOST_SLICES);
    let took = cpu_time() - before;
    assert!(took < 1000, "{took} hundredths of a second");
    let wrong = policy("p", file(MOST_SLICES + 1).as_bytes()).expect_err("one more");
    assert!(wrong.to_string().contains("more than 1000 slices"), "{wrong}");
}

#[test]
fn every_pair_that_shares_packets_is_told() {
    let text = "switches: {s: {}}\nslices:\n  a: {switches: {s: {ports: 1}}}\n  \
                b: {switches: {s: {ports: [1, 2]}}}\n  c: {switches: {s: {ports: [1, 2]}}}\n";
    let wrong = policy("p", text.as_bytes()).expect_err("they share packets").to_string();
    for pair in ["\"a\" and \"b\"", "\"a\" and \"c\"", "\"b\" and \"c\""] {
        assert!(wrong.contains(pair), "{pair}: {wrong}");
    }
}

#[test]
fn a_vlan_that_no_plan_may_have_is_refused_in_the_file() {
    let read = |vlan: &str| {
        let text =
            format!("switches: {{s: {{}}}}\nslices:\n  a: {{switches: {{s: {{vlan: {vlan}}}}}}}\n");
        policy("p", text.as_bytes()).map(|read| read.slices[0].switches["s"][0].vlans.clone())
    };
    let range = |from, to| Vlans::Range { from, to };
    for (vlan, vlans) in [("4094", range(4094, 4094)), ("10..4094", range(10, 4094))] {
        assert_eq!(read(vlan).expect(vlan), [vlans]);
    }
    for vlan in ["4095", "10..4095"] {
        let told = read(vlan).expect_err(vlan).to_string();
        assert!(told.contains("expected a VLAN like 7, a range like 10..20"), "{told}");
    }
}

#[test]
fn quotas_are_read() {
    let text = "switches: {s: {}}\nslices:\n  a: {switches: {s: {}}, rules: 5, groups: 6, buckets: 7, meters: 8, \
                memory: 16MiB}\n";
    let read = policy("p", text.as_bytes()).expect("slices");
    let quota = read.slices.first().expect("one").quota;
    let all = (quota.rules, quota.groups, quota.buckets, quota.meters, quota.memory);
    assert_eq!(all, (Some(5), Some(6), Some(7), Some(8), Some(16 << 20)));
    let small = text.replace("16MiB", "1k").replace("groups: 6", "groups: 0");
    let wrong = policy("p", small.as_bytes()).expect_err("too small").to_string();
    assert!(wrong.contains("memory") && wrong.contains("groups"), "{wrong}");
}
