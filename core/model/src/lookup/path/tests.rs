//! Paths through plans, with the plan's routes or a test's.

use super::*;

fn plan(text: &str) -> Plan {
    let lab = crate::parse("t.yaml", text.as_bytes(), "t").unwrap();
    crate::plan::plan(&lab).unwrap()
}

/// Answers like a kernel with the plan's addresses and routes.
fn planned(plan: &Plan) -> impl FnMut(&Question<'_>) -> Result<Answer> + '_ {
    |question| {
        let node = &plan.nodes[plan.node(question.node).unwrap()];
        if question.forwarded.is_some() && !node.forwarding.any() {
            return Ok(Err(Stop::NotForwarding));
        }
        let to = question.to;
        let on_link = node.interfaces.iter().find_map(|i| {
            let own = i.addresses.iter().find(|a| a.contains(&to))?;
            Some((i, None, own.addr()))
        });
        let routed = || {
            let fitting = node.routes.iter().filter(|r| r.to.contains(&to));
            let best = fitting.max_by_key(|r| r.to.prefix_len())?;
            let interface = &node.interfaces[best.interface];
            let own = interface.addresses.iter().find(|a| a.addr().is_ipv4() == to.is_ipv4())?;
            Some((interface, best.via, own.addr()))
        };
        let found = on_link.or_else(routed);
        let next = found.map(|(interface, via, source)| Next {
            interface: interface.name.clone(),
            via,
            source: question.forwarded.is_none().then_some(source),
        });
        Ok(next.ok_or(Stop::NoRoute))
    }
}

fn address(plan: &Plan, node: &str) -> IpAddr {
    plan.nodes[plan.node(node).unwrap()].ipv4().unwrap().into()
}

fn names(way: &PacketPath) -> Vec<String> {
    let word = |p: &Passage| format!("{} {}", p.name, if p.out { "out" } else { "in" });
    way.points.iter().map(word).collect()
}

const TWO_SITES: &str = "name: t\nnodes: {h1: {}, h2: {}, r1: {forwarding: true}, r2: {forwarding: true}, web: {}}\n\
    switches: {s1: {}}\n\
    links: [[h1, s1], [h2, s1], [s1, r1], ['r1:eth1', r2], [r2, web]]\n";

#[test]
fn a_guest_s_next_hop_is_the_plan_s() {
    let plan = plan(TWO_SITES);
    let finder = Finder::new(&plan, []);
    for (from, to) in [("h1", "web"), ("web", "h1"), ("h1", "h2"), ("h2", "r2")] {
        let ends = (None, address(&plan, to));
        let own = finder.find((from, to), ends, &mut planned(&plan)).unwrap();
        let guest = &mut |question: &Question<'_>| by_plan(&plan, question);
        assert_eq!(finder.find::<LookupError>((from, to), ends, guest).unwrap(), own);
    }
    let nowhere = Question { node: "h1", to: "192.0.2.1".parse().unwrap(), forwarded: None };
    assert!(
        by_plan(&plan, &nowhere)
            .unwrap()
            .map_or_else(|stop| stop == Stop::NoRoute, |next| next.via.is_some())
    );
    assert!(by_plan(&plan, &Question { node: "x", ..nowhere }).is_err());
}

#[test]
fn every_interface_on_the_way_is_a_point() {
    let plan = plan(TWO_SITES);
    let finder = Finder::new(&plan, []);
    let to = address(&plan, "web");
    let way = finder.find(("h1", "web"), (None, to), &mut planned(&plan)).unwrap();
    assert_eq!((way.source, way.destination), (address(&plan, "h1"), to));
    assert_eq!(
        names(&way),
        [
            "h1:eth0 out",
            "s1/h1:eth0 in",
            "s1/r1:eth0 out",
            "r1:eth0 in",
            "r1:eth1 out",
            "r2:eth0 in",
            "r2:eth1 out",
            "web:eth0 in"
        ]
    );
    assert_eq!(
        way.hops,
        [
            "link h1:eth0--s1",
            "switch s1",
            "link s1--r1:eth0",
            "node r1",
            "link r1:eth1--r2:eth0",
            "node r2",
            "link r2:eth1--web:eth0"
        ]
    );
    let back = finder.find(("web", "h1"), (Some(to), way.source), &mut planned(&plan)).unwrap();
    let mut mirrored = names(&way);
    mirrored.reverse();
    let turned = |name: &String| match name.split_once(' ').unwrap() {
        (name, "in") => format!("{name} out"),
        (name, _) => format!("{name} in"),
    };
    assert_eq!(names(&back), mirrored.iter().map(turned).collect::<Vec<_>>());
    assert!(back.points.iter().filter(|p| p.space == Space::Core).all(|p| !p.interface.is_empty()));
}

#[test]
fn a_wire_where_frames_leave_a_bridge_is_met_at_its_tap() {
    let plan = plan(TWO_SITES);
    let to = address(&plan, "web");
    let link = plan.links.iter().find(|l| l.name == "s1--r1:eth0").unwrap();
    let PlannedEnd::Port { name: port, .. } = &link.ends[0] else { panic!("a port") };
    let at = |wired: Vec<(&'static str, usize)>| {
        let finder = Finder::new(&plan, wired);
        let way = finder.find(("h1", "web"), (None, to), &mut planned(&plan)).unwrap();
        way.points[2].interface.clone()
    };
    assert_eq!(at(vec![]), *port);
    assert_eq!(at(vec![("s1--r1:eth0", 1), ("h1:eth0--s1", 0)]), *port);
    assert_eq!(at(vec![("s1--r1:eth0", 0)]), link.hidden_name(0));
}

#[test]
fn switches_in_a_row_and_of_shared_memory_are_passed() {
    let plan = plan(
        "name: t\nnodes: {a: {}, b: {}, c: {}}\nswitches: {s1: {}, s2: {}, s3: {}, m: {kind: shm}}\n\
         links: [[a, s1], [s1, s2], [s1, s3], [b, s3], [b, m], [c, m]]\n",
    );
    let finder = Finder::new(&plan, []);
    let way = finder.find(("a", "b"), (None, address(&plan, "b")), &mut planned(&plan)).unwrap();
    assert_eq!(
        names(&way),
        ["a:eth0 out", "s1/a:eth0 in", "s1/s3 out", "s3/s1 in", "s3/b:eth0 out", "b:eth0 in"]
    );
    assert_eq!(way.hops[1..4], ["switch s1", "link s1--s3", "switch s3"]);
    let way = finder.find(("b", "c"), (None, address(&plan, "c")), &mut planned(&plan)).unwrap();
    assert_eq!(names(&way), ["b:eth1 out", "c:eth0 in"]);
    assert_eq!(way.hops, ["link b:eth1--m + switch m + link c:eth0--m"]);
}

#[test]
fn what_ends_a_way_is_named() {
    let plan = plan(TWO_SITES);
    let finder = Finder::new(&plan, []);
    let to = address(&plan, "web");
    let refused = |routes: &mut Routes<'_, LookupError>| {
        finder.find(("h1", "web"), (None, to), routes).unwrap_err().to_string()
    };
    let none = refused(&mut |_| Ok(Err(Stop::NoRoute)));
    assert_eq!(none, format!("way from h1 to web: node \"h1\" has no route to {to}"));
    for (stop, why) in [
        (Stop::NoRoute, "node \"r1\" has no route to"),
        (Stop::NotForwarding, "come by \"eth0\": it does not forward"),
        (Stop::ReversePath, "by another interface, and rp_filter is on"),
        (Stop::Unknown, "it has a route, and does not tell why"),
    ] {
        let mut kernel = planned(&plan);
        let cut = refused(&mut |q| if q.node == "r1" { Ok(Err(stop)) } else { kernel(q) });
        assert!(cut.contains(why), "{cut}");
    }
    let next = |interface: &str, via: Option<&str>| Next {
        interface: interface.into(),
        via: via.map(|via| via.parse().unwrap()),
        source: Some(address(&plan, "h1")),
    };
    let odd = refused(&mut |_| Ok(Ok(next("tun0", None))));
    assert!(odd.contains("by interface \"tun0\", which is of no link"), "{odd}");
    let nobody = refused(&mut |_| Ok(Ok(next("eth0", Some("192.0.2.1")))));
    assert!(
        nobody.contains("hands packets to 192.0.2.1, which no node of the lab's plan has"),
        "{nobody}"
    );
    let unlinked = refused(&mut |_| Ok(Ok(next("eth0", None))));
    assert!(unlinked.contains(&format!("no link leads from h1:eth0 to {to}")), "{unlinked}");
    let (h2, h1) = (address(&plan, "h2"), address(&plan, "h1"));
    let circle = refused(&mut |q| {
        let via = if q.node == "h1" { h2 } else { h1 };
        Ok(Ok(Next { via: Some(via), ..next("eth0", None) }))
    });
    assert!(circle.contains("come to node \"h1\" again"), "{circle}");
    for (from, to) in [("h9", "web"), ("h1", "h9")] {
        let error =
            finder.find((from, to), (None, h1), &mut |_| Ok(Err(Stop::NoRoute))).unwrap_err();
        assert!(matches!(&error, LookupError::NoNode { node, .. } if node == "h9"), "{error}");
    }
    // A way to the node itself has no interface, with or without a source.
    for source in [None, Some(h1)] {
        let ends = (source, h1);
        let error = finder.find::<LookupError>(("h1", "h1"), ends, &mut planned(&plan));
        assert_eq!(
            error.unwrap_err().to_string(),
            "way from h1 to h1: a node sends nothing to itself"
        );
    }
}

#[test]
fn a_node_with_several_next_hops_is_told() {
    let links = "[[h1, r1], [r1, r2], [r1, r3], [r2, r4], [r3, r4], [r4, web]]";
    let text = |more: &str| {
        let routers = "r1, r2, r3, r4".replace(',', ": {forwarding: true},");
        format!(
            "name: t\n{more}nodes: {{h1: {{}}, web: {{}}, {routers}: {{forwarding: true}}}}\nlinks: {links}\n"
        )
    };
    for (more, expected) in [("", Some(("r1", 2))), ("routing: {ecmp: false}\n", None)] {
        let plan = plan(&text(more));
        let to = address(&plan, "web");
        let finder = Finder::new(&plan, []);
        let way = finder.find(("h1", "web"), (None, to), &mut planned(&plan)).unwrap();
        assert_eq!(branch(&plan, &way), expected);
    }
}
