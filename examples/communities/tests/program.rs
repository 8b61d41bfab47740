//! The program as started by users, with threads as workers: no machine is needed.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output};

use common::KARATE;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_communities")).args(arguments).output().expect("the program")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Creates a file in cargo's temporary folder for tests.
fn file(name: &str, text: &str) -> String {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a writable folder");
    path.display().to_string()
}

fn karate(name: &str) -> String {
    file(name, &KARATE.map(|(source, target)| format!("{source} {target}\n")).concat())
}

#[test]
fn a_search_is_reported_verified_and_written() {
    let (graph, labels) = (karate("karate.txt"), file("labels.tsv", ""));
    let output = run(&["--threads", "2", "--verify", "--top", "2", "--output", &labels, &graph]);
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.contains("34 vertices, 78 edges") && text.contains("modularity   0.4"), "{text}");
    assert!(text.contains("verified     one thread gives the same labels"), "{text}");
    let labels = std::fs::read_to_string(labels).unwrap();
    assert_eq!(labels.lines().count(), 34);
    assert!(labels.lines().all(|line| line.split('\t').all(|field| field.parse::<u32>().is_ok())));
}

#[test]
fn the_result_can_be_drawn() {
    let (graph, drawing) = (karate("karate-svg.txt"), file("karate.svg", ""));
    let output = run(&["--workers", "none", "--top", "1", "--svg", &drawing, &graph]);
    assert!(output.status.success(), "{}", stderr(&output));
    let svg = std::fs::read_to_string(drawing).unwrap();
    let communities = stdout(&output);
    let line = communities.lines().find(|line| line.starts_with("communities")).unwrap();
    let count: usize = line.split_whitespace().nth(1).unwrap().trim_end_matches(':').parse().unwrap();
    assert_eq!(svg.matches("<circle").count(), count, "one for each, however few the text shows\n{svg}");
    assert!(svg.contains("34 vertices, 78 edges") && svg.trim_end().ends_with("</svg>"), "{svg}");
    let nowhere = run(&["--workers", "none", "--svg", "/nonexistent/a.svg", &graph]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("cannot write /nonexistent/a.svg"), "{}", stderr(&nowhere));
}

#[test]
fn the_seed_alone_decides_and_json_has_the_figures() {
    let graph = karate("karate-json.txt");
    let report = |staff: &[&str]| -> serde_json::Value {
        let output = run(&[staff, &["--seed", "5", "--json", &graph]].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let (alone, three) = (report(&["--workers", "none"]), report(&["--threads", "3"]));
    assert_eq!(alone["modularity_numerator"], three["modularity_numerator"]);
    assert_eq!(alone["largest"], three["largest"]);
    assert_eq!(three["workers"].as_array().map(Vec::len), Some(3));
    assert_eq!(three["total_weight"], 156);
    assert!(three.get("verified").is_none());
}

#[test]
fn a_generated_graph_that_was_written_is_the_same_graph() {
    let edges = file("lfr.txt", "");
    let report = |graph: &[&str]| -> serde_json::Value {
        let output = run(&[&["--workers", "none", "--json"], graph].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("JSON: {}", stderr(&output)))
    };
    let (made, read) = (report(&["--lfr", "8", "--edges", &edges]), report(&[&edges]));
    assert_eq!(made["source"], "LFR of scale 8");
    assert_eq!(made["edges"], read["edges"]);
    // Three in ten edges leave their community: the planted communities reach nearly 0.7, minus what is
    // expected by chance.
    assert!(made["modularity"].as_f64() > Some(0.35), "{made}");
    assert!(made.get("emulation").is_none(), "{made}");
}

#[test]
fn failures_have_their_exit_codes_and_say_why() {
    let bad = file("bad.txt", "a b\nlonely\n");
    for (arguments, code, said) in [
        (&["--frobnicate"][..], 2, "unexpected argument '--frobnicate'"),
        (&["worker"], 2, "--connect <CONNECT>"),
        (&["--threads", "1", "/nonexistent"], 1, "cannot read /nonexistent"),
        (&["--threads", "1", &bad], 1, "bad.txt:2: expected `source target [weight]`, found `lonely`"),
        (&["--threads", "1", "--output", "/nonexistent/labels", &bad], 1, "cannot write /nonexistent/labels"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn help_teaches() {
    let output = run(&["--help"]);
    assert!(output.status.success());
    let text = stdout(&output);
    for part in ["Usage:", "Examples:", "--workers host:1,arm0:1", "Matrix Market", "Exit status", "Memory:"]
    {
        assert!(text.contains(part), "{part}");
    }
}
