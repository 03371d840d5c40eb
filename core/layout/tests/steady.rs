//! Adding a box moves the others little.

use netloom_layout::{Graph, Layout, Role, lay_out};

use super::support::*;

/// How far the boxes of the first network have moved in the second, at the median and as a share of the page's diagonal; a move of
/// the whole picture does not count.
fn moved(before: &Layout, after: &Layout) -> f64 {
    let count = before.centres.len();
    let mean = |layout: &Layout, axis: usize| {
        layout.centres[..count].iter().map(|at| at[axis]).sum::<f64>()
            / f64::from(u32::try_from(count).unwrap())
    };
    let means = [0, 1].map(|axis| mean(after, axis) - mean(before, axis));
    let way = |v: usize| {
        let by = [0, 1].map(|axis| after.centres[v][axis] - before.centres[v][axis] - means[axis]);
        by[0].hypot(by[1])
    };
    let mut ways: Vec<f64> = (0..count).map(way).collect();
    ways.sort_by(f64::total_cmp);
    ways[count / 2] / before.size[0].hypot(before.size[1])
}

fn with_host(graph: &Graph, at: usize) -> Graph {
    let mut graph = graph.clone();
    let host = graph.vertices.iter().find(|v| v.role == Role::Host).expect("a host").clone();
    graph.vertices.push(host);
    graph.edges.push([at, graph.vertices.len() - 1]);
    graph
}

#[test]
fn a_host_more_moves_others_little() {
    let mut mesh = Network::new();
    let routers: Vec<usize> = (0..12).map(|_| mesh.router()).collect();
    for at in 0..12 {
        mesh.link(routers[at], routers[(at * 5 + 3) % 12]);
        mesh.link(routers[at], routers[(at + 1) % 12]);
        mesh.hosts(routers[at], 2);
    }
    for (what, graph, at) in [
        ("fat tree", fat_tree(4), 14),
        ("ring", ring(10, 3), 4),
        ("tree", tree(3, 2, 4), 7),
        ("star", star(30), 0),
        ("leaf and spine", leaf_spine(2, 6, 5), 4),
        ("mesh", mesh.0, routers[5]),
    ] {
        let (before, after) = (lay_out(&graph), lay_out(&with_host(&graph, at)));
        let moved = moved(&before, &after);
        println!("{what}: {:.2} %", moved * 100.0);
        assert!(moved < 0.05, "{what}: half of all boxes moved by more than {moved} of the page");
    }
}
