//! What monitors decide, without I/O: the [`root`] for a machine, an [`agent`] for its node, and both for
//! [`names`].
//!
//! Whatever happens is an input, and whatever is to be done is an output. `tombolod` carries it out under
//! Linux; the simulator, the synthetic machine and fuzz targets run the same code.
#![forbid(unsafe_code)]

pub mod agent;
pub mod names;
pub mod root;
