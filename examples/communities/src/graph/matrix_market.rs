//! Matrix Market exchange format, coordinate matrices: entry (i, j) is an edge between i and j.
//!
//! <https://math.nist.gov/MatrixMarket/formats.html>

use super::text::{Lines, fields, quote};
use super::weight::EdgeList;
use super::{Input, MAX_ARCS, MAX_VERTICES, Names, ReadError};

/// First bytes of every such file, case-insensitive.
pub(super) const BANNER: &[u8] = b"%%MatrixMarket";

const HEADER: &str = "`%%MatrixMarket matrix coordinate pattern|integer|real general|symmetric` (the values of other kinds \
     of matrix are no edge weights)";

/// Number of vertices that a matrix may have regardless of its number of entries.
const FREE_VERTICES: u64 = 1 << 16;

/// Maximum number of further vertices per entry. Isolated vertices take memory, so that without a bound one
/// line of a small file could exhaust it.
const VERTICES_PER_ENTRY: u64 = 8;

/// Reads `lines`, the current one of which is the banner.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Input, ReadError> {
    let has_values = read_banner(lines)?;
    let (vertices, entries) = read_size(lines)?;
    let mut edges = EdgeList::default();
    let mut seen = 0u64;
    while lines.advance()? {
        if is_blank(lines.line()) {
            continue;
        }
        if seen == entries {
            return Err(lines.malformed("no more entries than the size line says", quote(lines.line())));
        }
        take(lines, vertices, has_values, &mut edges)?;
        seen += 1;
    }
    if seen < entries {
        let found = format!("{seen} of {entries}: is the file cut off?");
        return Err(lines.malformed("as many entries as the size line says", found));
    }
    let (edges, duplicates) = edges.finish();
    Input::build(lines, vertices, &edges, duplicates, Names::Numbered { first: 1 }, "Matrix Market")
}

fn is_blank(line: &[u8]) -> bool {
    fields(line).next().is_none_or(|field| field[0] == b'%')
}

/// Returns whether entries have a value.
fn read_banner(lines: &Lines<'_>) -> Result<bool, ReadError> {
    let banner = lines.line();
    let lower = banner.to_ascii_lowercase();
    let words: Vec<&[u8]> = fields(&lower).collect();
    match words[..] {
        [_, b"matrix", b"coordinate", kind, b"general" | b"symmetric"] => match kind {
            b"pattern" => Ok(false),
            b"integer" | b"real" => Ok(true),
            _ => Err(lines.malformed(HEADER, quote(banner))),
        },
        _ => Err(lines.malformed(HEADER, quote(banner))),
    }
}

/// Reads the size line and returns the numbers of vertices and entries.
fn read_size(lines: &mut Lines<'_>) -> Result<(usize, u64), ReadError> {
    const EXPECTED: &str = "the size line, `rows columns entries`";
    loop {
        if !lines.advance()? {
            return Err(lines.malformed(EXPECTED, "the end of the file"));
        }
        let line = lines.line();
        if is_blank(line) {
            continue;
        }
        let numbers: Option<Vec<u64>> = fields(line).map(number).collect();
        let Some(&[rows, columns, entries]) = numbers.as_deref() else {
            return Err(lines.malformed(EXPECTED, quote(line)));
        };
        if rows != columns {
            return Err(
                lines.malformed("a square matrix: rows and columns are both the vertices", quote(line))
            );
        }
        if rows > MAX_VERTICES as u64 || entries > MAX_ARCS as u64 / 2 {
            return Err(lines.malformed("at most 2^32 - 2 vertices and 2^31 - 1 entries", quote(line)));
        }
        if rows > FREE_VERTICES.max(entries * VERTICES_PER_ENTRY) {
            return Err(lines.malformed("at most 65,536 vertices, or 8 for each entry", quote(line)));
        }
        return Ok((rows as usize, entries));
    }
}

fn take(lines: &Lines<'_>, vertices: usize, has_values: bool, edges: &mut EdgeList) -> Result<(), ReadError> {
    let line = lines.line();
    let expected = if has_values { "`row column value`" } else { "`row column`" };
    let mut fields = fields(line);
    let ends = (fields.next().and_then(number), fields.next().and_then(number));
    let weight = fields.next();
    let (Some(row), Some(column)) = ends else {
        return Err(lines.malformed(expected, quote(line)));
    };
    if fields.next().is_some() || weight.is_some() != has_values {
        return Err(lines.malformed(expected, quote(line)));
    }
    let inside = 1..=vertices as u64;
    if !inside.contains(&row) || !inside.contains(&column) {
        return Err(lines.malformed("a row and a column from 1 to the size of the matrix", quote(line)));
    }
    if !edges.push((row - 1) as u32, (column - 1) as u32, weight) {
        return Err(lines.malformed("a value from 0 to 10^12 (it is the weight of the edge)", quote(line)));
    }
    Ok(())
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}
