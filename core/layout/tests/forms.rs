//! Networks of known forms look as a person would draw them.

use netloom_layout::{Course, Graph, Layout, Role, Shape, lay_out};

use super::support::*;

fn drawn(what: &str, graph: &Graph) -> Layout {
    let layout = lay_out(graph);
    check(what, graph, &layout);
    layout
}

#[test]
fn no_links_cross_where_none_must() {
    for (what, graph) in [
        ("chain", chain(5)),
        ("long chain", chain(300)),
        ("star", star(7)),
        ("large star", star(290)),
        ("ring", ring(12, 0)),
        ("ring with hosts", ring(10, 3)),
        ("large ring with hosts", ring(30, 9)),
        ("tree", tree(3, 2, 4)),
        ("large tree", tree(4, 2, 17)),
        ("two switches", tree(2, 1, 30)),
    ] {
        let layout = drawn(what, &graph);
        assert_eq!(crossings(&graph, &layout), 0, "{what}");
        assert_eq!(hidden(&graph, &layout), 0, "{what}");
    }
}

#[test]
fn a_chain_is_a_line() {
    let layout = drawn("chain", &chain(6));
    assert!(layout.centres.windows(2).all(|pair| pair[0][0] < pair[1][0]), "{layout:?}");
    assert!(
        layout.centres.iter().all(|at| (at[1] - layout.centres[0][1]).abs() < 1e-6),
        "{layout:?}"
    );
}

#[test]
fn links_of_two_boxes_fit_a_page() {
    let many = |count: usize| {
        let mut net = Network::new();
        let [a, b] = [net.router(), net.router()];
        (0..count).for_each(|_| net.link(a, b));
        net.0
    };
    let layout = drawn("some links", &many(9));
    let middle = |course: &Course| course.via.first().map_or(layout.centres[0][1], |via| via[1]);
    let middles: Vec<f64> = layout.courses.iter().map(middle).collect();
    // A curve goes half as far aside as its control point.
    assert!(middles.windows(2).all(|pair| (pair[1] - pair[0]).abs() > 39.0), "{middles:?}");
    let layout = drawn("many links", &many(5000));
    assert!(layout.size[1] < 2500.0, "{:?}", layout.size);
}

#[test]
fn a_long_chain_fits_a_page() {
    let layout = drawn("chain", &chain(300));
    let ratio = layout.size[0] / layout.size[1];
    assert!((0.8..3.5).contains(&ratio), "{:?}", layout.size);
}

#[test]
fn a_ring_is_an_ellipse() {
    let layout = drawn("ring", &ring(9, 0));
    let count = 9.0;
    let middle = [0, 1].map(|axis| layout.centres.iter().map(|at| at[axis]).sum::<f64>() / count);
    let far: Vec<f64> = layout
        .centres
        .iter()
        .map(|at| ((at[0] - middle[0]) / 1.25).hypot(at[1] - middle[1]))
        .collect();
    assert!(far.iter().all(|r| (r - far[0]).abs() < 1e-6), "{far:?}");
}

#[test]
fn a_star_has_its_hub_in_the_middle() {
    let graph = star(8);
    let layout = drawn("star", &graph);
    let mean = [0, 1].map(|axis| layout.centres[1..].iter().map(|at| at[axis]).sum::<f64>() / 8.0);
    assert!(
        (mean[0] - layout.centres[0][0]).abs() < 1e-6
            && (mean[1] - layout.centres[0][1]).abs() < 1e-6
    );
}

#[test]
fn a_fat_tree_has_tiers() {
    for k in [4, 8] {
        let graph = fat_tree(k);
        let layout = drawn("fat tree", &graph);
        let (core, half) = (k * k / 4, k / 2);
        let y = |v: usize| layout.centres[v][1];
        let tier = |v: usize| match v {
            v if v < core => 0,
            v if v < core + k * k => 1 + (v - core) % k / half,
            _ => 3,
        };
        let means: Vec<f64> = (0..4)
            .map(|of| {
                let all: Vec<f64> =
                    (0..graph.vertices.len()).filter(|v| tier(*v) == of).map(y).collect();
                if of < 3 {
                    assert!(all.iter().all(|other| (other - all[0]).abs() < 1e-6), "tier {of}");
                }
                all[0]
            })
            .collect();
        assert!(means.is_sorted(), "{means:?}");
        // The pods stand side by side: their hosts do not mix.
        let pods: Vec<[f64; 2]> = (0..k)
            .map(|pod| {
                let first = core + k * k + pod * half * half;
                let xs = (first..first + half * half).map(|v| layout.centres[v][0]);
                [xs.clone().fold(f64::INFINITY, f64::min), xs.fold(0.0, f64::max)]
            })
            .collect();
        let mut sorted = pods.clone();
        sorted.sort_by(|a, b| a[0].total_cmp(&b[0]));
        assert!(sorted.windows(2).all(|pair| pair[0][1] < pair[1][0]), "{pods:?}");
        // In the natural order of pods, each pair of pods crosses as often as its bundles to the core.
        assert_eq!(crossings(&graph, &layout), natural_crossings(&graph, k), "k = {k}");
    }
}

/// Crossings of a fat tree that is drawn pod by pod, in its own order.
fn natural_crossings(graph: &Graph, k: usize) -> usize {
    let (core, half) = (k * k / 4, k / 2);
    let place = |v: usize| -> [f64; 2] {
        let wide = |at: usize, of: usize| {
            (f64::from(u32::try_from(at).unwrap()) + 0.5) / f64::from(u32::try_from(of).unwrap())
        };
        match v {
            v if v < core => [wide(v, core), 0.0],
            v if v < core + k * k => {
                let (pod, at) = ((v - core) / k, (v - core) % k);
                [wide(pod * half + at % half, k * half), if at < half { 1.0 } else { 2.0 }]
            }
            v => [wide(v - core - k * k, k * half * half), 3.0],
        }
    };
    let centres: Vec<[f64; 2]> = (0..graph.vertices.len()).map(place).collect();
    let straight = netloom_layout::Course { shape: Shape::Straight, via: vec![] };
    let courses = vec![straight; graph.edges.len()];
    crossings(graph, &Layout { centres, courses, frames: vec![], size: [1.0, 3.0] })
}

#[test]
fn a_server_at_a_spine_does_not_undo_the_tiers() {
    let mut net = Network(fat_tree(4));
    net.hosts(5, 1);
    let layout = drawn("fat tree", &net.0);
    let tier = |range: std::ops::Range<usize>| {
        let ys: Vec<f64> = range.clone().map(|v| layout.centres[v][1]).collect();
        assert!(ys.iter().all(|y| (y - ys[0]).abs() < 1e-6), "{range:?}: {ys:?}");
        ys[0]
    };
    assert!(tier(0..4) < tier(4..6) && tier(4..6) < tier(6..8));
    assert_eq!(hidden(&net.0, &layout), 0);
}

#[test]
fn leaves_stand_below_spines() {
    let graph = leaf_spine(2, 2, 3);
    let layout = drawn("leaf and spine", &graph);
    assert!(
        layout.centres[0][1] < layout.centres[2][1] && layout.centres[2][1] < layout.centres[4][1]
    );
    let graph = leaf_spine(4, 12, 20);
    let layout = drawn("leaf and spine", &graph);
    assert_eq!(hidden(&graph, &layout), 0);
    // Two spines and three leaves cross 3 * C(2, 2) times; so do four and twelve in any order.
    assert_eq!(crossings(&graph, &layout), 6 * 66);
}

#[test]
fn a_door_is_on_top_and_hosts_are_outside() {
    let mut net = Network::new();
    let door = net.add(Role::Door);
    let router = net.router();
    net.link(door, router);
    for _ in 0..3 {
        let switch = net.switch();
        net.link(router, switch);
        net.hosts(switch, 2);
    }
    let layout = drawn("site", &net.0);
    let y = |v: usize| layout.centres[v][1];
    assert!(y(door) < y(router) && y(router) < y(2) && y(2) < y(3), "{layout:?}");
}

#[test]
fn routers_of_a_mesh_are_inside_and_their_hosts_outside() {
    let mut net = Network::new();
    let routers: Vec<usize> = (0..5).map(|_| net.router()).collect();
    for a in 0..5 {
        (0..a).for_each(|b| net.link(routers[a], routers[b]));
    }
    let hosts: Vec<usize> = routers.iter().flat_map(|router| net.hosts(*router, 2)).collect();
    let layout = drawn("mesh", &net.0);
    let middle =
        [0, 1].map(|axis| routers.iter().map(|v| layout.centres[*v][axis]).sum::<f64>() / 5.0);
    let far = |v: usize| (layout.centres[v][0] - middle[0]).hypot(layout.centres[v][1] - middle[1]);
    for (at, host) in hosts.iter().enumerate() {
        assert!(far(*host) > far(routers[at / 2]), "host {at}");
    }
    // Five boxes that are all linked cross at most five times by straight lines: once for each four on a circle.
    let mut mesh = net.0.clone();
    mesh.edges.truncate(10);
    let straight = netloom_layout::Course { shape: Shape::Straight, via: vec![] };
    let layout = Layout { courses: vec![straight; 10], ..layout };
    assert!(crossings(&mesh, &layout) <= 5, "{}", crossings(&mesh, &layout));
}

#[test]
fn boxes_inside_of_others_stand_beside_them_in_a_frame() {
    let mut net = Network::new();
    let switch = net.switch();
    let tenant = net.hosts(switch, 1)[0];
    for _ in 0..5 {
        let inside = net.add(Role::Host);
        net.0.vertices[inside].parent = Some(tenant);
        net.link(switch, inside);
    }
    net.hosts(switch, 3);
    let layout = drawn("tenants", &net.0);
    let (owner, frame) = layout.frames[0];
    assert_eq!((owner, layout.frames.len()), (tenant, 1));
    let areas = boxes(&net.0, &layout);
    for (v, area) in areas.iter().enumerate() {
        let inside = net.0.vertices[v].parent == Some(tenant) || v == tenant;
        assert_eq!(area.overlaps(frame), inside, "box {v}");
    }
}

#[test]
fn links_of_the_same_two_boxes_are_side_by_side() {
    let mut net = Network::new();
    let (a, b) = (net.router(), net.router());
    (0..3).for_each(|at| if at == 1 { net.link(b, a) } else { net.link(a, b) });
    net.link(a, a);
    let layout = drawn("pair", &net.0);
    let middle = |at: usize| layout.courses[at].via.first().copied();
    assert!(
        middle(0) != middle(1) && middle(1) != middle(2) && middle(0) != middle(2),
        "{layout:?}"
    );
    assert_eq!(layout.courses[3].shape, Shape::Loop);
}
