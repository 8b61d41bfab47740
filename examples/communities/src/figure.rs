//! Figure of the result: the largest communities as circles, joined by lines. The layout is computed here, so
//! that a file and a page show the same.

mod layout;
mod svg;

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use crate::graph::Input;
use crate::report::{Ranking, Report};
use crate::search::{Communities, SearchError, contract};

/// Maximum number of communities drawn.
const DRAWN: usize = 40;

/// Maximum number of lines drawn, heaviest first.
const MAX_LINES: usize = 160;

/// Number of central vertices that name a community.
const NAMES: usize = 3;

/// Maximum length of such a name in bytes: a figure has to fit a record.
const NAME_BYTES: usize = 32;

/// Side of the figure's square, in arbitrary units.
pub const SIDE: f64 = 1000.0;

/// Drawing of a clustered graph. The fields are the keys of the JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The kind of figure, for programs that draw several kinds.
    pub kind: &'static str,
    /// The title of the graph.
    pub title: String,
    /// Vertices of the graph.
    pub vertices: usize,
    /// Edges of the graph.
    pub edges: u64,
    /// Modularity of the communities.
    pub modularity: f64,
    /// Number of communities, drawn or not.
    pub communities: usize,
    /// Communities that are drawn, largest first.
    pub circles: Vec<Circle>,
    /// Lines between them, heaviest first: two indices of `circles`, and the weight of the edges between
    /// them.
    pub lines: Vec<(usize, usize, u64)>,
    /// Nodes that computed the result: name, instruction set, and share of the work from 0 to 1.
    pub nodes: Vec<(String, String, f64)>,
}

/// A community as a circle.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Circle {
    /// Horizontal position of the centre, from 0 to [`SIDE`].
    pub x: f64,
    /// Vertical position of the centre, downwards.
    pub y: f64,
    /// Radius; areas are proportional to sizes.
    pub r: f64,
    /// Number of its vertices.
    pub size: usize,
    /// Names of the vertices with the most edges within it.
    pub names: Vec<String>,
}

impl Figure {
    /// Lays out the result. `report` must describe at least the communities that are drawn, see
    /// [`described`].
    ///
    /// # Errors
    /// None for the result of a search within its limits.
    pub fn new(
        input: &Input,
        found: &Communities,
        ranking: &Ranking,
        report: &Report,
    ) -> Result<Figure, SearchError> {
        let drawn = DRAWN.min(found.count).min(report.largest.len());
        let whole = contract(&input.graph, &found.members, found.count)?;
        let mut lines = Vec::new();
        for (rank, &community) in ranking.order.iter().take(drawn).enumerate() {
            for (other, weight) in whole.arcs_of(community) {
                let other = ranking.rank_of[other as usize] as usize;
                if rank < other && other < drawn {
                    lines.push((rank, other, weight));
                }
            }
        }
        lines.sort_by_key(|&(a, b, weight)| (std::cmp::Reverse(weight), a, b));
        lines.truncate(MAX_LINES);
        let sizes = &ranking.sizes[..drawn];
        let circles = layout::lay_out(sizes, &lines).into_iter().zip(&report.largest);
        let circles = circles.map(|((x, y, r), community)| Circle {
            x: tenths(x),
            y: tenths(y),
            r: tenths(r),
            size: community.size,
            names: community.central.iter().take(NAMES).map(|name| shortened(name)).collect(),
        });
        let mut shares: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for worker in &report.workers {
            *shares.entry((&worker.node, &worker.isa)).or_default() += worker.share;
        }
        Ok(Figure {
            kind: "clustered-graph",
            title: input.origin.clone(),
            vertices: report.vertices,
            edges: report.edges,
            modularity: report.modularity,
            communities: report.communities,
            circles: circles.collect(),
            lines,
            nodes: shares
                .into_iter()
                .map(|((node, isa), share)| (node.to_owned(), isa.to_owned(), (share * 1e4).round() / 1e4))
                .collect(),
        })
    }

    /// Writes the figure as SVG, for dark and light screens.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn write_svg(&self, output: &mut impl io::Write) -> io::Result<()> {
        svg::write(self, output)
    }
}

/// Returns the number of communities that a report has to describe for a figure.
#[must_use]
pub fn described(top: usize) -> usize {
    top.max(DRAWN)
}

fn tenths(length: f64) -> f64 {
    (length * 10.0).round() / 10.0
}

/// Truncates a name to [`NAME_BYTES`].
fn shortened(name: &str) -> String {
    if name.len() <= NAME_BYTES {
        return name.to_owned();
    }
    let mut end = NAME_BYTES - '…'.len_utf8();
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &name[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(shortened("libc6"), "libc6");
        let long = shortened(&"ä".repeat(40));
        assert!(long.len() <= NAME_BYTES && long.ends_with('…'), "{long}");
    }
}
