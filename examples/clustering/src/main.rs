//! Clusters a graph with all ranks of a job, and checks the result against one thread's.
//!
//! ```text
//! clustering GRAPH [CONTROLLER] [MAPS]
//! ```
//!
//! GRAPH is `dense:N`, `sparse:N` or a file with an edge list; CONTROLLER `broadcast`, `overlapped` or
//! `timestamp`; MAPS `cached`, `uncached`, `write-through` or `mix`.

use std::process::ExitCode;

use clustering::graph::Graph;
use clustering::search::{Maps, alone, modularity, together};
use tombolo::Domain;
use tombolo_objects::{Consistency, Job, JoinOptions};

const USAGE: &str = "clustering GRAPH [broadcast|overlapped|timestamp] [cached|uncached|write-through|mix]";

const CONTROLLERS: [(&str, Consistency); 3] = [
    ("broadcast", Consistency::Broadcast),
    ("overlapped", Consistency::Overlapped),
    ("timestamp", Consistency::Timestamp),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((graph, consistency, maps)) = choices(&words) else {
        eprintln!("usage: {USAGE}");
        return ExitCode::from(2);
    };
    match run(graph, consistency, maps) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn choices(words: &[String]) -> Option<(&str, Consistency, Maps)> {
    let [graph, rest @ ..] = words else { return None };
    let [controller, maps] = [(0, "timestamp"), (1, "mix")]
        .map(|(index, otherwise)| rest.get(index).map_or(otherwise, String::as_str));
    let consistency = CONTROLLERS.iter().find(|(name, _)| *name == controller)?.1;
    let maps = Maps::ALL.iter().find(|(name, _)| *name == maps)?.1;
    (rest.len() <= 2).then_some((graph, consistency, maps))
}

fn run(graph: &str, consistency: Consistency, maps: Maps) -> Result<(), Box<dyn std::error::Error>> {
    let domain = Domain::attach()?;
    let is_first = domain.job()?.rank() == 0;
    let graph = if is_first { Graph::named(graph)? } else { Graph::default() };
    // Room for the mappings and their metadata.
    let memory_bytes = graph.arcs.len() * 8 + graph.vertices() * 24 + (1 << 20);
    let options =
        JoinOptions { memory_bytes: if is_first { memory_bytes } else { 0 }, ..JoinOptions::default() };
    let mut job = Job::join(&domain, options)?;
    let outcome = together(&mut job, &graph, maps, consistency, u64::MAX)?;
    if is_first {
        let mut communities = outcome.labels.clone();
        communities.sort_unstable();
        communities.dedup();
        println!("graph        {} vertices, {} edges", graph.vertices(), graph.arcs.len() / 2);
        println!(
            "modularity   {:.6}, {} communities",
            modularity(&graph, &outcome.labels),
            communities.len()
        );
        println!(
            "search       {} steps with {} ranks in {:.3} s, of which {:.3} s writing and {:.3} s acquiring",
            outcome.steps,
            job.size(),
            outcome.time.as_secs_f64(),
            outcome.writing.as_secs_f64(),
            outcome.acquiring.as_secs_f64()
        );
        if alone(&graph, u64::MAX) != (outcome.labels, outcome.steps) {
            return Err("one thread gets other labels".into());
        }
        println!("verified     one thread gets the same labels");
    }
    Ok(())
}
