//! Parsing of weights: whole numbers, or decimal fractions as whole numbers of millionths.

use super::{Duplicates, Edge};

/// Millionths in 1.
const SCALE: u64 = 1_000_000;

/// Largest weight of one edge in a file.
pub const MAX_EDGE_WEIGHT: u64 = 1_000_000_000_000;

/// Collects the edges of a file and determines at its end how to interpret their weights.
#[derive(Debug, Default)]
pub(super) struct EdgeList {
    edges: Vec<Edge>,
    /// Whether some edge has an explicit weight.
    weighted: bool,
    /// Whether some weight is not a whole number.
    fractions: bool,
}

impl EdgeList {
    /// Adds an edge with its weight as text, `None` for 1. Returns `false` if the weight is malformed.
    pub(super) fn push(&mut self, source: u32, target: u32, weight: Option<&[u8]>) -> bool {
        let millionths = match weight {
            None => Some(SCALE),
            Some(text) => self.parse(text),
        };
        let Some(weight) = millionths else { return false };
        self.edges.push(Edge { source, target, weight });
        true
    }

    fn parse(&mut self, text: &[u8]) -> Option<u64> {
        self.weighted = true;
        let text = std::str::from_utf8(text).ok()?;
        if let Ok(whole) = text.parse::<u64>() {
            return (whole <= MAX_EDGE_WEIGHT).then(|| whole * SCALE);
        }
        let value: f64 = text.parse().ok()?;
        if !(0.0..=MAX_EDGE_WEIGHT as f64).contains(&value) {
            return None;
        }
        let millionths = (value * SCALE as f64).round() as u64;
        self.fractions |= !millionths.is_multiple_of(SCALE) || (millionths == 0 && value > 0.0);
        Some(millionths)
    }

    /// Returns the edges and the treatment of duplicates. Weights are whole numbers unless some were
    /// fractions.
    pub(super) fn finish(mut self) -> (Vec<Edge>, Duplicates) {
        if !self.fractions {
            for edge in &mut self.edges {
                edge.weight /= SCALE;
            }
        }
        (self.edges, if self.weighted { Duplicates::Add } else { Duplicates::Collapse })
    }
}
