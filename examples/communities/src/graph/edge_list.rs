//! Edge lists: `source target [weight]` per line, `#` and `%` start a comment.

use super::text::{Lines, fields, quote};
use super::weight::EdgeList;
use super::{Input, NameTable, Names, ReadError};

const EXPECTED: &str = "`source target [weight]`";

/// Reads `lines` from the current line on.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Input, ReadError> {
    let mut names = NameTable::default();
    let mut edges = EdgeList::default();
    take(lines, &mut names, &mut edges)?;
    while lines.advance()? {
        take(lines, &mut names, &mut edges)?;
    }
    let vertices = names.len();
    let (edges, duplicates) = edges.finish();
    Input::build(lines, vertices, &edges, duplicates, Names::Listed(names), "edge list")
}

fn take(lines: &Lines<'_>, names: &mut NameTable, edges: &mut EdgeList) -> Result<(), ReadError> {
    let line = lines.line();
    let mut fields = fields(line);
    let Some(source) = fields.next().filter(|field| !matches!(field[0], b'#' | b'%')) else {
        return Ok(());
    };
    let Some(target) = fields.next() else {
        return Err(lines.malformed(EXPECTED, quote(line)));
    };
    let weight = fields.next();
    if fields.next().is_some() {
        return Err(lines.malformed(EXPECTED, format!("more than three fields: {}", quote(line))));
    }
    let (Some(source), Some(target)) = (names.intern(source), names.intern(target)) else {
        return Err(lines.malformed("at most 2^32 - 2 vertices", "one more"));
    };
    if !edges.push(source, target, weight) {
        let found = quote(weight.unwrap_or_default());
        return Err(lines.malformed("a weight from 0 to 10^12", found));
    }
    Ok(())
}
