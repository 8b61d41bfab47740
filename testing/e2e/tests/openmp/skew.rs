//! OpenMP teams with threads on nodes of unlike speed: an x86-64 host and an emulated Arm processor on it.

use std::fs;

use serde_json::Value;
use tombolo_e2e::{Machine, MachineFile, omp};

/// Loops with known results, and the number of threads.
const PROGRAM: &str = r#"
#include <omp.h>
#include <stdio.h>
enum { COUNT = 3000 };
static long cells[COUNT];
void shared(void)
{
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < COUNT; i++) cells[i] += i;
}
void guided(void)
{
#pragma omp parallel for schedule(guided)
    for (int i = 0; i < COUNT; i++) cells[i] += i;
}
void dynamic(void)
{
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < COUNT; i++) cells[i] += i;
}
void in_place(void)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < COUNT; i++) cells[i] += i;
}
int main(void)
{
    int threads = omp_get_max_threads();
    shared();
    guided();
    dynamic();
    in_place();
    for (int i = 0; i < COUNT; i++)
        if (cells[i] != 4L * i) return 1;
    printf("%d threads: right\n", threads);
    return 0;
}
"#;

/// Output of a program and its parsed report: the nodes and the regions.
struct Ran {
    text: String,
    said: String,
    nodes: Vec<Value>,
    regions: Vec<Value>,
}

fn run(machine: &Machine, variables: &[&str]) -> Ran {
    let mut words = vec!["run", "-e", "OMP_TOMBOLO=exclusive", "-e", "OMP_TOMBOLO_REPORT=json"];
    words.extend(variables.iter().flat_map(|variable| ["-e", variable]));
    words.push("loops.tbi");
    let done = machine.tombolo(words);
    let text = done.ok();
    let lines = done.stderr.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (regions, others): (Vec<_>, Vec<_>) = lines.partition(|line| line["region"].is_string());
    let said = done.stderr.clone();
    Ran { text, said, nodes: others.into_iter().filter(|line| line["node"].is_string()).collect(), regions }
}

impl Ran {
    fn region(&self, name: &str) -> &Value {
        let region = self.regions.iter().find(|line| line["region"] == format!("{name}._omp_fn.0"));
        region.unwrap_or_else(|| panic!("{name} is not in the report: {:?}", self.regions))
    }

    /// Returns the threads of a region on each node, and their iterations.
    fn shares(&self, name: &str) -> Vec<(u64, u64)> {
        let nodes = self.region(name)["by_node"].as_array().expect("a list").iter();
        nodes.map(|node| (number(&node["threads"]), number(&node["iterations"]))).collect()
    }

    fn speed(&self, node: usize) -> u64 {
        number(&self.nodes[node]["speed"])
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn work_is_distributed_by_node_speed() {
    if !omp::can_link() {
        return;
    }
    let machine = Machine::up(&MachineFile::host().with_user("arm-user", "aarch64"));
    fs::write(machine.folder().join("loops.c"), PROGRAM).unwrap();
    machine.tombolo(["ompcc", "-O2", "-fopenmp", "loops.c", "-o", "loops.tbi"]).ok();

    let few = run(&machine, &["OMP_TOMBOLO_NODES=arm-user", "OMP_NUM_THREADS=3", "OMP_SCHEDULE=static"]);
    assert_eq!(few.text, "3 threads: right\n");
    let about = |node: &Value| (node["node"].clone(), node["isa"].clone());
    let nodes: Vec<_> = few.nodes.iter().map(about).collect();
    assert_eq!(nodes, [("host".into(), "x86_64".into()), ("arm-user".into(), "aarch64".into())]);
    let (host, arm) = (few.speed(0), few.speed(1));
    assert!(host > 0 && arm > 0);
    for name in ["shared", "guided", "dynamic"] {
        let shares = few.shares(name);
        assert_eq!(shares.iter().map(|share| share.0).collect::<Vec<_>>(), [2, 1], "{name}");
        assert_eq!(shares.iter().map(|share| share.1).sum::<u64>(), 3000, "{name}: {shares:?}");
    }
    // Proportional to the measured speeds, unless they are nearly equal.
    let fair = 3000 * arm / (2 * host + arm);
    let share = few.shares("shared")[1].1;
    let equal = arm.abs_diff(host) <= host.max(arm) / 16;
    assert!(share.abs_diff(fair) <= 2 || equal && share == 1000, "{share} of 3000 for {arm} beside {host}");

    // Without a number of workers: the default number, with some on each node.
    let many = run(&machine, &["OMP_TOMBOLO_NODES=arm-user"]);
    let threads: u64 = many.shares("in_place").iter().map(|share| share.0).sum();
    assert_eq!(many.text, format!("{threads} threads: right\n"));
    assert_eq!(many.shares("in_place").len(), 2);

    let variables = ["OMP_TOMBOLO_NODES=host, arm-user:1", "OMP_NUM_THREADS=5", "OMP_DISPLAY_ENV=verbose"];
    let limited = run(&machine, &variables);
    assert!(limited.said.contains("OMP_TOMBOLO_NODES = 'host,arm-user:1'"), "{}", limited.said);
    assert_eq!(limited.shares("in_place").iter().map(|share| share.0).collect::<Vec<_>>(), [4, 1]);
    // A single node is not measured.
    let alone = run(&machine, &["OMP_NUM_THREADS=2"]);
    assert_eq!((alone.nodes.len(), alone.speed(0)), (1, 0));
    machine.down();
}
