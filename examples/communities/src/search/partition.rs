//! Assignment of vertices to communities, with the weight of each community.

use super::SearchError;
use crate::graph::Csr;

/// Labels of all vertices and the weights of all labels. Every worker holds a replica of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    labels: Vec<u32>,
    weights: Vec<u64>,
    /// Communities that the labels subdivide, during refinement.
    bounds: Option<Vec<u32>>,
}

impl Partition {
    /// Creates the partition with every vertex alone.
    #[must_use]
    pub fn singletons(graph: &Csr) -> Self {
        let vertices = 0..graph.vertices() as u32;
        Self {
            weights: vertices.clone().map(|vertex| graph.degree(vertex)).collect(),
            labels: vertices.collect(),
            bounds: None,
        }
    }

    /// Creates the partition with every vertex alone, to be joined only with vertices of the same label in
    /// `bounds`, which has one label per vertex.
    #[must_use]
    pub fn singletons_within(graph: &Csr, bounds: Vec<u32>) -> Self {
        Self { bounds: Some(bounds), ..Self::singletons(graph) }
    }

    /// Creates the partition that `labels` describe.
    ///
    /// # Errors
    /// Not one label per vertex, or a label that is not below the number of vertices.
    pub fn from_labels(graph: &Csr, labels: Vec<u32>) -> Result<Self, SearchError> {
        if labels.len() != graph.vertices() {
            return Err(SearchError::LabelCount { labels: labels.len(), vertices: graph.vertices() });
        }
        let mut weights = vec![0; graph.vertices()];
        for (vertex, &label) in labels.iter().enumerate() {
            let weight: &mut u64 = weights
                .get_mut(label as usize)
                .ok_or(SearchError::NoSuchLabel { label, vertices: graph.vertices() })?;
            *weight += graph.degree(vertex as u32);
        }
        Ok(Self { labels, weights, bounds: None })
    }

    /// Returns the label of `vertex`.
    #[must_use]
    pub fn label(&self, vertex: u32) -> u32 {
        self.labels[vertex as usize]
    }

    /// Returns the labels of all vertices.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the communities that no move may cross, if there are any.
    #[must_use]
    pub fn bounds(&self) -> Option<&[u32]> {
        self.bounds.as_deref()
    }

    /// Returns whether `vertex`, which has edges, is the only one of its label.
    #[must_use]
    pub fn is_alone(&self, graph: &Csr, vertex: u32) -> bool {
        self.weight(self.label(vertex)) == graph.degree(vertex)
    }

    /// Returns the sum of the degrees of the vertices with `label`.
    #[must_use]
    pub fn weight(&self, label: u32) -> u64 {
        self.weights[label as usize]
    }

    /// Moves `vertex` to `label` and returns the label it had.
    pub fn relabel(&mut self, graph: &Csr, vertex: u32, label: u32) -> u32 {
        let degree = graph.degree(vertex);
        let before = std::mem::replace(&mut self.labels[vertex as usize], label);
        self.weights[before as usize] -= degree;
        self.weights[label as usize] += degree;
        before
    }

    /// Returns the labels, dropping the weights.
    #[must_use]
    pub fn into_labels(self) -> Vec<u32> {
        self.labels
    }
}
