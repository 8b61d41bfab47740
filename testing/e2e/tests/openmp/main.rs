//! OpenMP: on the host, and with teams over unlike nodes.

mod nodes;
mod ompcc;
mod programs;
mod skew;
mod target;
