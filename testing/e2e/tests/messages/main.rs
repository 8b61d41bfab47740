//! Communication between nodes: messages, bulk data, regions, files, and the names by which they are found.

mod bulk;
mod channels;
mod copies;
mod crosstalk;
mod engines;
mod files;
mod given;
mod groups;
mod hubs;
mod incoherent;
mod names;
mod names_async;
mod objects;
mod regions;
mod tasks;
mod waitset;
mod xipx;
