//! Patterns, records and queries written by users and programs.

use tombolo_naming::pattern::Pattern;
use tombolo_naming::{parse_query, parse_record};

/// Maximum number of matching steps before a match gives up.
const STEPS: u64 = 100_000;

/// Compiles the first line as a pattern and matches the rest against it.
pub(super) fn pattern(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (pattern, subject) = text.split_once('\n').unwrap_or((text, "a/b.c"));
    for compiled in [Pattern::regex(pattern), Pattern::glob(pattern)] {
        match compiled {
            Ok(compiled) => {
                let mut steps = STEPS;
                let _ = compiled.matches(subject, &mut steps);
                assert!(steps <= STEPS);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

pub(super) fn pattern_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "a*b?c\nabbc",
        "^(a|b)+c$\nababc",
        "[a-z0-9]{2,5}\nxyz",
        "(a*)*b\naaaaaaaaaaaaaaaaaaaa",
        "**/x\na/b/x",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}

pub(super) fn text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = parse_record(text).map_err(|error| error.to_string());
    let _ = parse_query(text).map_err(|error| error.to_string());
}

pub(super) fn text_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "name { weight: 10, kind: 'disk', ready: true }",
        "_ { weight > 3, kind: r'^d.*' }",
        "r'spawn.*' { value: 3.5 }",
        "a.b.c",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}
