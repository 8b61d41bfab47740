use super::*;
use tombolo::names::Record;

fn record(text: &str) -> Record {
    let (name, attributes) = tombolo_naming::parse_record(text).unwrap();
    Record { name, attributes, version: 0, owner: None, endpoint: false }
}

/// Creates a host with 2 processors, of which 1.5 are idle; a virtual machine; an emulated node; one that is
/// down.
fn facts(more: &str) -> Facts {
    let text = "\
node/host { node: 'host', number: 0, kind: 'host', isa: 'x86_64', system: 'linux', kernel: 'host', up: true, domains: 1, processors: 2, free_permille: 1500, rounds_per_ms: 4000, memory_bytes: 8589934592 }
node/arm0 { node: 'arm0', number: 1, kind: 'vm', isa: 'aarch64', system: 'linux', kernel: 'arm0', up: true, domains: 0, processors: 1, free_permille: 1000, rounds_per_ms: 500, memory_bytes: 268435456 }
node/riscv { node: 'riscv', number: 2, kind: 'user', isa: 'riscv64', system: 'linux', kernel: 'host', up: true, domains: 0, processors: 2, free_permille: 1500 }
node/arm1 { node: 'arm1', number: 3, kind: 'vm', isa: 'aarch64', system: 'linux', kernel: 'arm1', up: false, domains: 0 }
node/board { node: 'board', number: 4, kind: 'bare', isa: 'aarch64', system: 'none', kernel: 'board', up: true, domains: 0, processors: 1 }
link/host/arm0 { from: 'host', to: 'arm0', hops: 1, round_trip_ns: 40000, bytes_per_s: 1073741824 }
link/host/riscv { from: 'host', to: 'riscv', hops: 1, round_trip_ns: 9000 }
link/host/board { from: 'host', to: 'board', hops: 1 }
link/arm0/riscv { from: 'arm0', to: 'riscv', hops: 1, round_trip_ns: 24500 }
link/arm0/board { from: 'arm0', to: 'board', hops: 2 }";
    Facts::from_records(text.lines().chain(more.lines()).map(record))
}

fn chosen(needs: &str) -> Choice {
    choose(&facts(""), &needs.parse().unwrap(), None).unwrap()
}

fn names(needs: &str) -> Vec<String> {
    chosen(needs).candidates.into_iter().map(|candidate| candidate.node).collect()
}

fn reason(needs: &str, node: &str) -> String {
    let choice = chosen(needs);
    choice
        .rejected
        .into_iter()
        .find(|rejected| rejected.node == node)
        .map_or(String::new(), |it| it.reasons.join("; "))
}

#[test]
fn nodes_are_ordered_by_their_free_speed() {
    assert_eq!(names(""), ["host", "arm0", "riscv", "board"]);
    assert_eq!(reason("", "arm1"), "it is down");
    let explanations: Vec<String> =
        chosen("").candidates.into_iter().map(|candidate| candidate.why).collect();
    assert_eq!(explanations[0], "1.5 of its 2 processors are free, and none here is faster");
    assert_eq!(
        explanations[1],
        "100 % of its one processor is free; each does 12 % of what the fastest here does"
    );
    assert!(explanations[2].contains("under an emulator on host's processors"), "{explanations:?}");
    assert_eq!(explanations[3], "nothing is known of its processors yet");
}

#[test]
fn all_needs_must_be_met_by_known_values() {
    assert_eq!(names("isa=aarch64"), ["arm0", "board"]);
    assert_eq!(names("isa=aarch64,memory>=256M"), ["arm0"]);
    assert_eq!(reason("memory>=256M", "board"), "memory>=256M: it has no known value");
    assert_eq!(reason("memory>=1G", "arm0"), "memory>=1G: it has 256M");
    assert_eq!(names("isa=x86_64|riscv64"), ["host", "riscv"]);
    assert_eq!(names("isa!=x86_64|riscv64,system=linux"), ["arm0"]);
    assert_eq!(names("idle>1"), ["host", "riscv"]);
    assert_eq!(names("kernel=host,speed>=1"), ["host"]);
    assert!(names("memory!=1,system=none").is_empty(), "an unknown value is not unequal either");
}

#[test]
fn near_orders_by_round_trip_and_bounds_apply_to_links() {
    assert_eq!(names("near=arm0"), ["arm0", "riscv", "host", "board"]);
    assert_eq!(names("near=riscv,near=host"), ["host", "riscv", "arm0", "board"]);
    assert_eq!(names("near=arm0,hops<2"), ["arm0", "riscv", "host"]);
    assert_eq!(names("round-trip<10us"), ["host", "riscv"], "to the host where no other is named");
    assert_eq!(names("near=host,rate>=1G"), ["arm0"]);
    let candidates = chosen("near=arm0").candidates;
    assert_eq!(candidates[1].cost.distance_ns(), Some(24_500));
    assert_eq!(candidates[3].cost.distance_ns(), None);
    let error = choose(&facts(""), &"near=mars".parse().unwrap(), None).unwrap_err().to_string();
    assert_eq!(error, "this machine has no node 'mars'; it has host, arm0, riscv, arm1 and board");
}

/// `tombolo bench link` measured a shorter round trip to arm0 than the monitors did.
#[test]
fn measured_round_trips_are_used_if_known_for_all_candidates() {
    let link = |to: &str, monitors_ns: u32, found: &str| {
        format!("link/m/{to} {{ from: 'm', to: '{to}', hops: 1, round_trip_ns: {monitors_ns}{found} }}")
    };
    let node =
        |name: &str| format!("node/{name} {{ node: '{name}', number: 9, kernel: '{name}', up: true }}");
    let order = |near_found: &str, needs: &str| {
        let lines = [
            node("m"),
            node("near"),
            node("far"),
            link("near", 50_000, near_found),
            link("far", 9000, ", message_round_trip_ns: 4000"),
        ];
        let facts = Facts::from_records(lines.iter().map(|line| record(line)));
        let choice = choose(&facts, &needs.parse().unwrap(), None).unwrap();
        choice.candidates.into_iter().map(|it| it.node).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(", message_round_trip_ns: 900", "near=m"), "m near far");
    assert_eq!(order("", "near=m"), "m far near", "unlike figures are not compared");
    assert_eq!(order("", "near=m,node=far"), "far");
    assert_eq!(order(", message_round_trip_ns: 900", "message-round-trip<1us,near=m"), "m near");
}

#[test]
fn image_runs_where_it_has_a_build() {
    let targets = [Target::linux(tombolo::Isa::Aarch64)];
    let choice = choose(&facts(""), &Needs::default(), Some(&targets)).unwrap();
    assert_eq!(choice.candidates.len(), 1);
    let board = choice.rejected.iter().find(|rejected| rejected.node == "board").unwrap();
    assert_eq!(board.reasons, ["it runs aarch64-none, and the image is built for aarch64"]);
}

#[test]
fn ranks_use_free_processors_first() {
    let assign = |needs: &str, count| {
        let mut auto = Auto::new(facts(""), needs.parse().unwrap(), None);
        auto.assign(count).unwrap().join(" ")
    };
    assert_eq!(assign("system=linux", 1), "host");
    assert_eq!(assign("system=linux", 3), "host host arm0");
    assert_eq!(assign("isa=x86_64|aarch64,system=linux", 6), "host host arm0 host host arm0");
    assert_eq!(assign("near=arm0,system=linux", 2), "arm0 riscv");
    let mut auto = Auto::new(facts(""), "memory>=1T".parse().unwrap(), None);
    let error = auto.assign(1).unwrap_err().to_string();
    assert!(error.starts_with("no node fits: host: memory>=1T: it has 8G; arm0: "), "{error}");
}

#[test]
fn busy_processors_are_ordered_by_speed() {
    let busy = "\
node/slow { node: 'slow', number: 5, kernel: 'slow', up: true, processors: 1, free_permille: 0, rounds_per_ms: 100 }
node/fast { node: 'fast', number: 6, kernel: 'fast', up: true, processors: 1, free_permille: 0, rounds_per_ms: 200 }";
    let choice = choose(&facts(busy), &"node=slow|fast".parse().unwrap(), None).unwrap();
    let order: Vec<(&str, u64)> =
        choice.candidates.iter().map(|it| (it.node.as_str(), it.cost.free_speed())).collect();
    assert_eq!(order, [("fast", 2), ("slow", 1)]);
}
