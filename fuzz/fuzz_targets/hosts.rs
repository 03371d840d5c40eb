//! Any bytes to a hosts file, and a lab on its hosts: no panic, a reason where there are no hosts, and parts that are
//! together the lab. The same bytes as an earlier placement.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use netloom_model::{Lab, Plan, parse, parse_hosts, plan};
use netloom_placement::{Earlier, account, place};

const LAB: &[u8] = b"nodes: {\"n{i}\": {for: {i: 9}, limits: {memory: 64MiB, cpu: 50%}}, m: {children: {nodes: {c: {}}}}}
switches: {s1: {}, s2: {}}
links: [{ends: [\"n{i}\", s1], for: {i: 9}}, [n0, n1], [n1, m], [m, s2], [m/c, n3], [n5, 'host:eth1']]
place: {s1: {split: true}}
";

fn lab() -> &'static (Lab, Plan) {
    static LAB_AND_PLAN: OnceLock<(Lab, Plan)> = OnceLock::new();
    LAB_AND_PLAN.get_or_init(|| {
        let lab = parse("lab", LAB, "lab").expect("a lab");
        let plan = plan::plan(&lab).expect("a plan");
        (lab, plan)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (lab, plan) = lab();
    let earlier = Earlier::read("fuzz", bytes, "lab");
    let hosts = match parse_hosts("fuzz", bytes) {
        Ok(hosts) => hosts,
        Err(errors) => {
            assert!(errors.count() > 0);
            assert!(
                errors.list.iter().all(|d| d.line > 0 && d.column > 0 && !d.message.contains('\n'))
            );
            return;
        }
    };
    assert!(!hosts.list.is_empty());
    // More take their time and show nothing new.
    if hosts.list.len() > 64 {
        return;
    }
    let Ok(placement) = place(plan, &lab.place, &hosts, earlier.ok().as_ref()) else { return };
    let found = account(plan, &lab.place, &hosts, &placement);
    let nodes: usize = found.hosts.iter().map(|host| host.nodes).sum();
    let whole: usize = found.hosts.iter().map(|host| host.links).sum();
    let halves: usize = found.hosts.iter().map(|host| host.across).sum();
    let trunks = found.across.iter().filter(|link| link.link.contains('@')).count();
    assert_eq!(nodes, plan.nodes.len());
    assert_eq!(whole + halves / 2 - trunks, plan.links.len());
    // What was placed stays.
    let kept = place(plan, &lab.place, &hosts, Some(&Earlier::of(&found)));
    assert_eq!(kept.as_ref(), Ok(&placement));
});
