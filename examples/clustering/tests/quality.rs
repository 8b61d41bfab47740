//! The greedy search compared with `communities`, on the same graphs.

use clustering::graph::{Graph, dense, sparse};
use clustering::search::{alone, modularity};
use communities::graph::{Csr, Duplicates, Edge};
use communities::search::{Alone, Modularity, Partition, Search};

fn same_graph(graph: &Graph) -> Csr {
    let mut edges = Vec::new();
    for source in 0..graph.vertices() {
        let row = graph.starts[source] as usize..graph.starts[source + 1] as usize;
        for &(target, weight) in graph.arcs[row].iter().filter(|(target, _)| *target as usize > source) {
            edges.push(Edge { source: source as u32, target, weight: weight.into() });
        }
    }
    Csr::from_edges(graph.vertices(), &edges, Duplicates::Add).expect("a graph").0
}

#[test]
fn the_main_job_finds_nothing_much_better_in_a_dense_graph() {
    // Vertices move one at a time and never back: on a sparse graph the search ends early, which the levels
    // of `communities` prevent.
    for (graph, part) in [(dense(66), 0.99), (sparse(400), 0.7)] {
        let (labels, steps) = alone(&graph, u64::MAX);
        assert!(steps as usize > graph.vertices() / 2, "{steps} steps");
        let same = same_graph(&graph);
        let partition = Partition::from_labels(&same, labels.clone()).expect("labels");
        let exact = Modularity::of(&same, &partition).value();
        assert!((exact - modularity(&graph, &labels)).abs() < 1e-9, "{exact}");
        let main = Search::new(1).run(&same, &mut Alone::default()).expect("a search").modularity.value();
        println!("{} vertices: {exact:.4}, the main job {main:.4}", graph.vertices());
        assert!(exact > part * main && exact < main + 0.02, "{exact}, the main job {main}");
    }
}

#[test]
fn a_search_that_is_cut_off_has_gained_in_every_step() {
    let graph = sparse(120);
    let mut last = f64::MIN;
    for steps in 0..40 {
        let now = modularity(&graph, &alone(&graph, steps).0);
        assert!(now > last, "{now} after {steps} steps, {last} before");
        last = now;
    }
}
