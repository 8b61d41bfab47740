//! Reading graphs from text: accepted formats and error messages.

use std::io::{Read, Write};
use std::path::Path;

use communities::graph::{Input, Lines, MAX_LINE_BYTES, ReadError, Weights};
use flate2::Compression;
use flate2::write::GzEncoder;

fn read_from(stream: impl Read + 'static) -> Result<Input, ReadError> {
    let mut watch = |_| ();
    Input::read_lines(&mut Lines::new("g".to_owned(), stream, None, &mut watch)?)
}

fn read(text: &str) -> Result<Input, ReadError> {
    read_from(std::io::Cursor::new(text.as_bytes().to_owned()))
}

fn edges(input: &Input) -> Vec<(String, String, u64)> {
    let mut edges = Vec::new();
    for vertex in 0..input.graph.vertices() as u32 {
        let name = |vertex| input.names.name(vertex).into_owned();
        if input.graph.loop_weight(vertex) > 0 {
            edges.push((name(vertex), name(vertex), input.graph.loop_weight(vertex)));
        }
        let up = input.graph.arcs_of(vertex).filter(|&(target, _)| target > vertex);
        edges.extend(up.map(|(target, weight)| (name(vertex), name(target), weight)));
    }
    edges
}

fn edge(source: &str, target: &str, weight: u64) -> (String, String, u64) {
    (source.to_owned(), target.to_owned(), weight)
}

#[test]
fn edge_lists() {
    let plain = read("# friends\nanna bert\r\n\n% more\n  bert\tcarl  \nbert anna\ncarl carl\n").unwrap();
    assert_eq!(edges(&plain), [edge("anna", "bert", 1), edge("bert", "carl", 1), edge("carl", "carl", 1)]);
    assert_eq!((plain.merged.duplicates, plain.merged.self_loops, plain.lines), (1, 1, 7));

    let weighted = read("1 2 3\n2 1 4\n2 3\n3 4 0\n").unwrap();
    assert_eq!(edges(&weighted), [edge("1", "2", 7), edge("2", "3", 1)]);
    assert_eq!((weighted.graph.vertices(), weighted.merged.weightless), (4, 1));

    let decimal = read("1 2 0.5\n2 3 1e-1\n3 1 2\n").unwrap();
    let millionths = [edge("1", "2", 500_000), edge("1", "3", 2_000_000), edge("2", "3", 100_000)];
    assert_eq!(edges(&decimal), millionths);
    assert_eq!(edges(&read("1 2 2.0\n2 3 1\n").unwrap()), [edge("1", "2", 2), edge("2", "3", 1)]);
    assert!(matches!(read("1 2 4294967296\n1 3 1\n").unwrap().graph.weights(), Weights::Wide(_)));
}

#[test]
fn matrix_market() {
    let pattern = "%%matrixmarket MATRIX coordinate Pattern symmetric\n% a comment\n\n3 3 2\n2 1\n3 2\n";
    assert_eq!(edges(&read(pattern).unwrap()), [edge("1", "2", 1), edge("2", "3", 1)]);
    let general = "%%MatrixMarket matrix coordinate integer general\n4 4 3\n1 2 5\n2 1 5\n4 4 2\n";
    let general = read(general).unwrap();
    assert_eq!(edges(&general), [edge("1", "2", 10), edge("4", "4", 2)]);
    assert_eq!(general.graph.vertices(), 4);
    let real = "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 2.5e-01\n";
    assert_eq!(edges(&read(real).unwrap()), [edge("1", "2", 250_000)]);
}

#[test]
fn few_entries_may_name_vertices_up_to_a_bound() {
    let matrix = |vertices: u32| {
        let banner = "%%MatrixMarket matrix coordinate pattern general";
        read(&format!("{banner}\n{vertices} {vertices} 1\n1 {vertices}\n"))
    };
    for vertices in [65_535, 65_536] {
        assert_eq!(matrix(vertices).unwrap().graph.vertices(), vertices as usize);
    }
    assert!(matches!(matrix(65_537), Err(ReadError::Line { line: 2, .. })));
}

#[test]
fn malformed_lines_are_named_with_what_was_expected() {
    let banner = "%%MatrixMarket matrix coordinate pattern general\n";
    let valued = "%%MatrixMarket matrix coordinate real general\n";
    for (text, said) in [
        ("a b\nc\n", "g:2: expected `source target [weight]`, found `c`"),
        ("a b 1 2\n", "g:1: expected `source target [weight]`, found more than three fields"),
        ("a b x\n", "g:1: expected a weight from 0 to 10^12, found `x`"),
        ("a b -1\n", "found `-1`"),
        ("a b NaN\n", "found `NaN`"),
        ("a b inf\n", "found `inf`"),
        ("a b 1000000000001\n", "from 0 to 10^12"),
        ("a b 1e13\n", "from 0 to 10^12"),
        ("a b \u{1}\n", "found `\\x01`"),
        ("", "no edge"),
        ("# nothing\n", "no edge"),
        ("a b 0\n", "no edge"),
        ("%%MatrixMarket matrix array real general\n", "g:1: expected `%%MatrixMarket matrix coordinate"),
        ("%%MatrixMarket matrix coordinate complex general\n", "g:1: expected"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n", "g:1: expected"),
        ("%%MatrixMarket\n", "g:1: expected"),
        (banner, "expected the size line, `rows columns entries`, found the end of the file"),
        (&format!("{banner}3 3\n"), "g:2: expected the size line"),
        (&format!("{banner}3 4 1\n"), "g:2: expected a square matrix"),
        (&format!("{banner}4294967295 4294967295 1\n"), "at most 2^32 - 2 vertices"),
        (
            &format!("{banner}4294967294 4294967294 1\n1 2\n"),
            "g:2: expected at most 65,536 vertices, or 8 for",
        ),
        (&format!("{banner}65537 65537 8192\n1 2\n"), "g:2: expected at most 65,536 vertices"),
        (&format!("{banner}65537 65537 8193\n1 2\n"), "found 1 of 8193: is the file cut off?"),
        (&format!("{banner}3 3 1\n0 1\n"), "g:3: expected a row and a column from 1"),
        (&format!("{banner}3 3 1\n1 4\n"), "g:3: expected a row and a column from 1"),
        (&format!("{banner}3 3 1\n1 2 3\n"), "g:3: expected `row column`, found `1 2 3`"),
        (&format!("{valued}3 3 1\n1 2\n"), "g:3: expected `row column value`"),
        (&format!("{valued}3 3 1\n1 2 -3\n"), "g:3: expected a value from 0 to 10^12"),
        (&format!("{banner}3 3 2\n1 2\n"), "found 1 of 2: is the file cut off?"),
        (&format!("{banner}3 3 1\n1 2\n1 3\n"), "g:4: expected no more entries"),
        (&"x".repeat(MAX_LINE_BYTES + 1), "is this a text file?"),
    ] {
        let shown: String = text.chars().take(80).collect();
        let error = read(text).map(|input| edges(&input)).expect_err(&shown).to_string();
        assert!(error.contains(said), "{shown}: {error}");
    }
    let longest = format!("a b {}", " ".repeat(MAX_LINE_BYTES - 4));
    assert!(read(&longest).is_ok());
}

#[test]
fn gzip_is_known_by_its_first_bytes_and_checked_to_the_end() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all("a b\nb c\n".repeat(1000).as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let cut = packed[..packed.len() - 9].to_owned();
    assert_eq!(edges(&read_from(std::io::Cursor::new(packed)).unwrap()).len(), 2);
    assert!(matches!(read_from(std::io::Cursor::new(cut)), Err(ReadError::Io { .. })));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    for path in ["/nonexistent/graph.txt", "/"] {
        let error = Input::read(Path::new(path), &mut |_| ()).map(|input| edges(&input)).expect_err(path);
        assert!(error.to_string().contains(&format!("cannot read {path}: ")), "{error}");
    }
}

#[test]
fn progress_is_shown_on_long_files() {
    let mut seen = Vec::new();
    let text = "a b\n".repeat(1 << 18);
    let mut watch = |progress| seen.push(progress);
    let mut lines =
        Lines::new("g".to_owned(), std::io::Cursor::new(text), Some(1 << 20), &mut watch).unwrap();
    Input::read_lines(&mut lines).unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[1].lines, seen[1].bytes, seen[1].file_bytes), (1 << 18, 1 << 20, Some(1 << 20)));
}
