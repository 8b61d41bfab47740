//! Decisions of monitors, without I/O: the [`root`] for a machine, an [`agent`] for its node, and both for
//! [`names`].
//!
//! Events are inputs, and actions are outputs. `tombolod` carries them out under Linux; the simulator, the
//! synthetic machine and fuzz targets run the same code.
#![forbid(unsafe_code)]

pub mod agent;
pub mod names;
pub mod root;
