//! Tests of the whole plan: named labs here, what must hold for every lab in `property`, packets
//! that walk through a plan in `simulator`.

mod build_lab;

use build_lab::two_sites;

use super::*;

#[test]
fn two_sites_has_the_names_of_the_file() {
    let plan = plan(&two_sites()).unwrap();
    let links: Vec<&str> = plan.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(
        links,
        ["h1:eth0--s1", "h2:eth0--s1", "s1--r1:eth0", "r1:eth1--r2:eth0", "r2:eth1--web:eth0"]
    );
    assert_eq!(plan.switches[0].bridge, "s1");
}
