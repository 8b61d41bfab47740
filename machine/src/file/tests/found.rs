//! `[[found]]` tables.

use std::path::Path;

use proptest::prelude::*;
use tombolo_base::{Isa, NodeId};
use tombolo_link::TransportKind;

use crate::{FoundCost, FoundMemory, Machine, Order};

const NODES: &str = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"arm0\"\n\
                     kind = \"vm\"\nisa = \"aarch64\"\n[[node]]\nname = \"arm1\"\nkind = \"vm\"\n\
                     isa = \"aarch64\"\ncoherence = \"flush\"\n";
const FOUND: &str = "[[found]]\nbetween = [\"arm0\", \"host\"]\ntransport = \"window\"\n\
                     memory = { coherence = \"coherent\", order = \"sequential\", widest_store_bytes = 16, \
                     atomics = true, on = 2026-11-27, by = \"0.1.0\" }\n\
                     cost = { round_trip_ns = 900, latency_ns = [[8, 450], [64, 480]], \
                     bytes_per_s = 2_000_000_000, bytes_per_s_back = 1_000_000_000, on = 2026-11-27 }\n";

fn parse(text: &str) -> Result<Machine, String> {
    Machine::parse(text, Path::new("m.toml"), Isa::X86_64).map_err(|report| report.to_string())
}

fn with(from: &str, to: &str) -> Result<Machine, String> {
    assert!(FOUND.contains(from), "{from}");
    parse(&format!("{NODES}{}", FOUND.replacen(from, to, 1)))
}

#[test]
fn found_tables_are_parsed() {
    let machine = parse(&format!("{NODES}{FOUND}")).unwrap();
    let found = machine.found_between(NodeId(1), NodeId(0)).unwrap();
    assert_eq!((found.a, found.b, found.transport), (NodeId(0), NodeId(1), TransportKind::Window));
    let memory =
        FoundMemory { coherent: true, order: Order::Sequential, widest_store_bytes: 16, atomics: true };
    assert_eq!((found.memory.as_ref(), memory.fault()), (Some(&memory), None));
    let cost = FoundCost {
        round_trip_ns: 900,
        latency_ns: vec![(8, 450), (64, 480)],
        bytes_per_s: 2_000_000_000,
        bytes_per_s_back: 1_000_000_000,
    };
    assert_eq!(found.cost, Some(cost));
    assert_eq!(machine.found_between(NodeId(0), NodeId(2)), None);
    assert_eq!(machine.found_between(NodeId(0), NodeId(0)), None);
}

#[test]
fn unsuitable_memory_is_reported() {
    for (from, to, fault) in [
        ("\"sequential\"", "\"release\"", Some("wake-ups can be lost")),
        ("\"sequential\"", "\"none\"", Some("messages can be torn")),
        ("widest_store_bytes = 16", "widest_store_bytes = 4", Some("stores of 8 bytes were seen in parts")),
        ("widest_store_bytes = 16", "widest_store_bytes = 8", None),
        ("atomics = true", "atomics = false", None),
    ] {
        let machine = with(from, to).unwrap();
        let found = machine.found()[0].memory.as_ref().unwrap().fault();
        let said = found.as_deref().unwrap_or_default();
        assert!(
            found.is_some() == fault.is_some() && said.contains(fault.unwrap_or_default()),
            "{to}: {said}"
        );
    }
}

#[test]
fn mistakes_are_shown_at_their_line() {
    let twice = format!("memory = {{}}\n{FOUND}");
    for (from, to, said) in [
        ("\"arm0\"", "\"arm7\"", "unknown node `arm7`"),
        ("\"arm0\"", "\"host\"", "needs no link to itself"),
        ("[\"arm0\", \"host\"]", "[\"arm0\", \"arm1\"]", "nothing joins `arm0` and `arm1`"),
        ("[\"arm0\", \"host\"]", "[\"arm1\", \"host\"]", "memory that is `coherent`, and that of `arm1`"),
        ("between = [\"arm0\", \"host\"]\n", "", "this [[found]] has no `between`"),
        ("\"window\"", "\"shm\"", "this was found of `shm`, and the link is `window` now"),
        ("transport = \"window\"\n", "", "this [[found]] has no `transport`"),
        ("\"coherent\"", "\"copy\"", "unknown coherence"),
        ("\"sequential\"", "\"sequentail\"", "did you mean \"sequential\"?"),
        ("widest_store_bytes = 16", "widest_store_bytes = 12", "`widest_store_bytes` is out of range"),
        ("widest_store_bytes = 16", "widest_store_bytes = -8", "`widest_store_bytes` is out of range"),
        ("atomics = true", "atomics = 1", "`atomics` must be true or false"),
        ("atomics = true, ", "", "`memory` has no `atomics`"),
        ("atomics = true", "atomic = true", "did you mean `atomics`?"),
        ("on = 2026-11-27, by", "on = \"today\", by", "`on` must be a date, not a string"),
        ("round_trip_ns = 900", "round_trip_ns = 0", "`round_trip_ns` is out of range"),
        ("round_trip_ns = 900", "round_trip_ns = -900", "`round_trip_ns` is out of range"),
        ("round_trip_ns = 900", "round_trip_ns = 0.9", "`round_trip_ns` must be an integer, not a float"),
        ("round_trip_ns = 900, ", "", "`cost` has no `round_trip_ns`"),
        (
            "bytes_per_s = 2_000_000_000",
            "bytes_per_s = 99999999999999999999999",
            "`bytes_per_s` is out of range",
        ),
        ("[[8, 450], [64, 480]]", "[]", "1 to 64 pairs, not 0"),
        ("[[8, 450], [64, 480]]", "[[8, 450], [8, 480]]", "the lengths do not ascend"),
        ("[[8, 450], [64, 480]]", "[[8, 450], [64]]", "not a pair of a length and a time"),
        ("[[8, 450], [64, 480]]", "[[0, 450]]", "`the length` is out of range"),
        ("[[8, 450], [64, 480]]", "8", "`latency_ns` must be an array"),
        ("transport", "kind = 1\ntransport", "unknown key `kind` in a [[found]]"),
        (
            "[[found]]",
            "[[found]]\nbetween = [\"host\", \"arm0\"]\ntransport = \"window\"\nmemory = 3\n[[found]]",
            "`memory` must be a table, not an integer",
        ),
    ] {
        let error = with(from, to).unwrap_err();
        assert!(error.contains(said) && error.contains("m.toml:"), "{to}: {error}");
    }
    let error = parse(&format!("{NODES}{FOUND}{FOUND}")).unwrap_err();
    assert!(error.contains("there is a [[found]] for these two nodes already"), "{error}");
    let error = parse(&format!("{NODES}{twice}")).unwrap_err();
    assert!(error.contains("unknown key `memory`"), "{error}");
    let bare = FOUND.lines().take(3).collect::<Vec<_>>().join("\n");
    let error = parse(&format!("{NODES}{bare}\n")).unwrap_err();
    assert!(error.contains("has neither `memory` nor `cost`"), "{error}");
    let socket = "[[node]]\nname = \"rv\"\nkind = \"user\"\nisa = \"riscv64\"\n[[link]]\n\
                  between = [\"host\", \"rv\"]\ntransport = \"socket\"\n";
    let of = FOUND.replace("arm0", "rv").replace("\"window\"", "\"socket\"");
    let error = parse(&format!("{NODES}{socket}{of}")).unwrap_err();
    assert!(error.contains("`memory` has no meaning for a link that shares none"), "{error}");
}

/// An outdated file is reported with the remedy.
#[test]
fn outdated_found_table_names_the_remedy() {
    for (from, to) in [("\"arm0\"", "\"gone\""), ("\"window\"", "\"shm\""), ("\"coherent\"", "\"flush\"")] {
        let error = with(from, to).unwrap_err();
        for part in
            ["delete this [[found]]", "tombolo litmus --write FILE", "tombolo bench link --write FILE"]
        {
            assert!(error.contains(part), "{to}: no '{part}' in {error}");
        }
    }
}

proptest! {
    #[test]
    fn any_numbers_are_read_or_refused(
        time in any::<i64>(),
        rate in any::<i64>(),
        curve in prop::collection::vec((any::<i64>(), any::<i64>()), 0..70),
        width in any::<i64>(),
    ) {
        let pairs: Vec<String> = curve.iter().map(|(bytes, time)| format!("[{bytes}, {time}]")).collect();
        let text = format!(
            "{NODES}[[found]]\nbetween = [\"arm0\", \"host\"]\ntransport = \"window\"\nmemory = {{ \
             coherence = \"coherent\", order = \"none\", widest_store_bytes = {width}, atomics = false }}\n\
             cost = {{ round_trip_ns = {time}, latency_ns = [{}], bytes_per_s = {rate}, bytes_per_s_back = 1 }}\n",
            pairs.join(", ")
        );
        if let Ok(machine) = parse(&text) {
            let found = &machine.found()[0];
            let cost = found.cost.as_ref().unwrap();
            prop_assert!(cost.latency_ns.is_sorted() && FoundCost::TIME_NS.contains(&cost.round_trip_ns));
            let width = found.memory.as_ref().unwrap().widest_store_bytes;
            prop_assert!(FoundMemory::STORE_BYTES.contains(&width));
        }
    }
}
