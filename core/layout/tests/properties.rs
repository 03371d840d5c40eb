//! What holds for any network: seeds are fixed, so a failure repeats.

use netloom_digest::splitmix::SplitMix64;
use netloom_layout::{Graph, Role, Vertex, lay_out};

use super::support::*;

/// Any network of up to this many boxes: of any size and role, some inside of others, with any links.
fn any(seed: u64, most: usize) -> Graph {
    let mut random = SplitMix64::new(seed);
    let mut below = |bound: usize| {
        usize::try_from(random.next_u64() % u64::try_from(bound.max(1)).unwrap()).unwrap()
    };
    let count = 1 + below(most);
    let roles = [Role::Host, Role::Host, Role::Router, Role::Switch, Role::Door];
    let real = |whole: usize| f64::from(u32::try_from(whole).unwrap());
    let vertices = (0..count)
        .map(|v| Vertex {
            size: [30.0 + real(below(160)), 20.0 + real(below(30))],
            role: roles[below(5)],
            parent: (v > 0 && below(12) == 0).then(|| below(v)),
            fixed: None,
        })
        .collect();
    // From forests to dense networks.
    let dense = 1 + below(4);
    let links = below(count * dense + 1);
    let edges = (0..links).map(|_| [below(count), below(count)]).collect();
    Graph { vertices, edges, link: 60.0 }
}

#[test]
fn boxes_do_not_overlap_and_stay_on_the_page() {
    for seed in 0..600 {
        let graph = any(seed, 60);
        check(&format!("seed {seed}"), &graph, &lay_out(&graph));
    }
    for seed in 1000..1010 {
        let graph = any(seed, 700);
        check(&format!("seed {seed}"), &graph, &lay_out(&graph));
    }
}

#[test]
fn the_same_network_gives_the_same_picture() {
    for seed in 0..60 {
        let graph = any(seed, 80);
        assert_eq!(lay_out(&graph), lay_out(&graph.clone()), "seed {seed}");
    }
}

#[test]
fn positions_by_hand_are_kept_and_others_find_room() {
    for seed in 0..200 {
        let mut graph = any(seed, 50);
        let whole = lay_out(&graph);
        // All boxes but every fourth where they were: as a file is that was saved before boxes were added.
        for (v, vertex) in graph.vertices.iter_mut().enumerate() {
            vertex.fixed = (v % 4 != 3).then(|| whole.centres[v]);
        }
        let layout = lay_out(&graph);
        check(&format!("seed {seed}"), &graph, &layout);
        let by = [0, 1].map(|axis| layout.centres[0][axis] - whole.centres[0][axis]);
        for (v, vertex) in graph.vertices.iter().enumerate() {
            let Some(fixed) = vertex.fixed else { continue };
            let now = layout.centres[v];
            assert!(
                (now[0] - fixed[0] - by[0]).abs() < 1e-6
                    && (now[1] - fixed[1] - by[1]).abs() < 1e-6,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn positions_that_make_no_picture_are_survived() {
    let mut graph = ring(8, 2);
    for vertex in &mut graph.vertices {
        vertex.fixed = Some([100.0, 100.0]);
    }
    graph.vertices[0].fixed = Some([f64::NAN, 3.0]);
    graph.vertices[1].fixed = Some([30_000.0, 0.0]);
    graph.vertices[2].fixed = None;
    let layout = lay_out(&graph);
    assert!(
        layout.centres.iter().chain([&layout.size]).flatten().all(|x| x.is_finite()),
        "{layout:?}"
    );
}

#[test]
fn an_empty_network_has_a_page() {
    let layout = lay_out(&Graph::default());
    assert!(layout.centres.is_empty() && layout.size[0] > 0.0);
}

/// Tells how long it takes; whether it is fast enough is for the bench.
#[test]
fn a_thousand_boxes_are_placed() {
    for (what, graph) in [
        ("torus", torus(32)),
        ("fat tree", fat_tree(16)),
        ("ring", ring(100, 9)),
        ("star", star(1000)),
        ("tree", tree(10, 2, 9)),
        ("any", any(77, 1000)),
    ] {
        let start = std::time::Instant::now();
        let layout = lay_out(&graph);
        println!(
            "{what}: {} boxes, {} links, {:?}",
            graph.vertices.len(),
            graph.edges.len(),
            start.elapsed()
        );
        check(what, &graph, &layout);
    }
}
