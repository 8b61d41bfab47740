//! Greedy clustering by modularity, of a graph that the ranks of a job share.
//!
//! The algorithm of *Data Sharing Mechanisms for Parallel Graph Algorithms on the Intel SCC* (Rotta and
//! others, MARC 2012): in each step every rank finds the best move among its vertices, and rank 0 applies the
//! best of all. It is slow and simple, and demonstrates shared data with many readers and one writer.
#![forbid(unsafe_code)]

pub mod graph;
pub mod search;
