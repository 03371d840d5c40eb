//! Networks of known forms, and what is measured in their pictures.

use netloom_layout::{Course, Graph, Layout, Point, Rect, Role, Shape, Vertex};

/// A network that grows.
#[derive(Default)]
pub(super) struct Network(pub(super) Graph);

impl Network {
    pub(super) fn new() -> Network {
        Network(Graph { link: 100.0, ..Graph::default() })
    }

    pub(super) fn add(&mut self, role: Role) -> usize {
        let size = if role == Role::Host { [84.0, 36.0] } else { [92.0, 26.0] };
        self.0.vertices.push(Vertex { size, role, parent: None, fixed: None });
        self.0.vertices.len() - 1
    }

    pub(super) fn router(&mut self) -> usize {
        self.add(Role::Router)
    }

    pub(super) fn switch(&mut self) -> usize {
        self.add(Role::Switch)
    }

    pub(super) fn link(&mut self, a: usize, b: usize) {
        self.0.edges.push([a, b]);
    }

    /// New hosts that hang at a box.
    pub(super) fn hosts(&mut self, at: usize, count: usize) -> Vec<usize> {
        (0..count)
            .map(|_| {
                let host = self.add(Role::Host);
                self.link(at, host);
                host
            })
            .collect()
    }
}

pub(super) fn chain(count: usize) -> Graph {
    let mut net = Network::new();
    let all: Vec<usize> = (0..count).map(|_| net.router()).collect();
    all.windows(2).for_each(|pair| net.link(pair[0], pair[1]));
    net.0
}

pub(super) fn star(count: usize) -> Graph {
    let mut net = Network::new();
    let hub = net.switch();
    net.hosts(hub, count);
    net.0
}

/// Routers in a ring, each with hosts.
pub(super) fn ring(count: usize, hosts: usize) -> Graph {
    let mut net = Network::new();
    let all: Vec<usize> = (0..count).map(|_| net.router()).collect();
    (0..count).for_each(|at| net.link(all[at], all[(at + 1) % count]));
    all.iter().for_each(|router| {
        net.hosts(*router, hosts);
    });
    net.0
}

/// A tree of switches with `fan` below each, `depth` levels, hosts at the lowest ones.
pub(super) fn tree(fan: usize, depth: usize, hosts: usize) -> Graph {
    let mut net = Network::new();
    let mut level = vec![net.router()];
    for _ in 0..depth {
        let mut next = Vec::new();
        for above in level {
            for _ in 0..fan {
                let below = net.switch();
                net.link(above, below);
                next.push(below);
            }
        }
        level = next;
    }
    level.iter().for_each(|switch| {
        net.hosts(*switch, hosts);
    });
    net.0
}

/// A fat tree with `k` pods.
pub(super) fn fat_tree(k: usize) -> Graph {
    let mut net = Network::new();
    let half = k / 2;
    let core: Vec<usize> = (0..half * half).map(|_| net.router()).collect();
    let pods: Vec<[Vec<usize>; 2]> = (0..k)
        .map(|_| {
            [(0..half).map(|_| net.router()).collect(), (0..half).map(|_| net.router()).collect()]
        })
        .collect();
    for [upper, lower] in &pods {
        for (at, upper) in upper.iter().enumerate() {
            (0..half).for_each(|other| net.link(*upper, core[at * half + other]));
            lower.iter().for_each(|lower| net.link(*lower, *upper));
        }
    }
    for [_, lower] in &pods {
        lower.iter().for_each(|lower| {
            net.hosts(*lower, half);
        });
    }
    net.0
}

/// Every leaf linked with every spine.
pub(super) fn leaf_spine(spines: usize, leaves: usize, hosts: usize) -> Graph {
    let mut net = Network::new();
    let spines: Vec<usize> = (0..spines).map(|_| net.router()).collect();
    let leaves: Vec<usize> = (0..leaves).map(|_| net.switch()).collect();
    for leaf in &leaves {
        spines.iter().for_each(|spine| net.link(*leaf, *spine));
        net.hosts(*leaf, hosts);
    }
    net.0
}

/// A torus of routers.
pub(super) fn torus(side: usize) -> Graph {
    let mut net = Network::new();
    (0..side * side).for_each(|_| {
        net.router();
    });
    for at in 0..side * side {
        let (x, y) = (at / side, at % side);
        net.link(at, (x + 1) % side * side + y);
        net.link(at, x * side + (y + 1) % side);
    }
    net.0
}

pub(super) fn boxes(graph: &Graph, layout: &Layout) -> Vec<Rect> {
    graph.vertices.iter().zip(&layout.centres).map(|(v, at)| Rect::around(*at, v.size)).collect()
}

/// The course of each link as straight pieces; a curve as eight.
pub(super) fn lines(graph: &Graph, layout: &Layout) -> Vec<Vec<Point>> {
    let line = |(edge, course): (&[usize; 2], &Course)| {
        let [from, to] = edge.map(|end| layout.centres[end]);
        if let (Shape::Bent, [control]) = (course.shape, course.via.as_slice()) {
            let at = |t: f64| {
                [0, 1].map(|axis| {
                    from[axis] * (1.0 - t) * (1.0 - t)
                        + control[axis] * 2.0 * t * (1.0 - t)
                        + to[axis] * t * t
                })
            };
            return (0..=8).map(|step| at(f64::from(step) / 8.0)).collect();
        }
        [from].into_iter().chain(course.via.iter().copied()).chain([to]).collect()
    };
    graph.edges.iter().zip(&layout.courses).map(line).collect()
}

fn side(a: Point, b: Point, c: Point) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

fn cross(a: &[Point], b: &[Point]) -> bool {
    let apart = |p: f64, q: f64| p > 1e-6 && q < -1e-6 || p < -1e-6 && q > 1e-6;
    apart(side(a[0], a[1], b[0]), side(a[0], a[1], b[1]))
        && apart(side(b[0], b[1], a[0]), side(b[0], b[1], a[1]))
}

/// Pairs of links that cross.
pub(super) fn crossings(graph: &Graph, layout: &Layout) -> usize {
    let lines = lines(graph, layout);
    let crosses = |a: &Vec<Point>, b: &Vec<Point>| {
        a.windows(2).any(|one| b.windows(2).any(|other| cross(one, other)))
    };
    (0..lines.len())
        .map(|at| (0..at).filter(|before| crosses(&lines[at], &lines[*before])).count())
        .sum()
}

/// Links that pass through boxes in which they do not end.
pub(super) fn hidden(graph: &Graph, layout: &Layout) -> usize {
    let (boxes, lines) = (boxes(graph, layout), lines(graph, layout));
    let hits = |(edge, line): (&[usize; 2], &Vec<Point>)| {
        let others = boxes.iter().enumerate().filter(|(v, _)| !edge.contains(v));
        others
            .filter(|(_, area)| line.windows(2).any(|piece| area.is_crossed(piece[0], piece[1])))
            .count()
    };
    graph.edges.iter().zip(&lines).map(hits).sum()
}

/// What holds for any picture.
pub(super) fn check(what: &str, graph: &Graph, layout: &Layout) {
    let boxes = boxes(graph, layout);
    assert_eq!(layout.centres.len(), graph.vertices.len());
    assert_eq!(layout.courses.len(), graph.edges.len());
    let page = Rect { min: [0.0, 0.0], max: layout.size };
    for (v, area) in boxes.iter().enumerate() {
        let inside = area.min.iter().all(|x| *x >= 0.0)
            && area.max[0] <= page.max[0]
            && area.max[1] <= page.max[1];
        assert!(inside, "{what}: box {v} at {area:?} leaves the page {page:?}");
    }
    for at in lines(graph, layout).iter().flatten() {
        assert!(at.iter().all(|x| x.is_finite()), "{what}: {at:?}");
    }
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|a, b| boxes[*a].min[0].total_cmp(&boxes[*b].min[0]));
    for (at, a) in order.iter().enumerate() {
        for b in order[at + 1..].iter().take_while(|b| boxes[**b].min[0] < boxes[*a].max[0]) {
            assert!(
                !boxes[*a].overlaps(boxes[*b]),
                "{what}: boxes {a} and {b} overlap: {:?}",
                (boxes[*a], boxes[*b])
            );
        }
    }
}
