//! Trace files as arguments of the commands that show them.

use std::path::PathBuf;

use clap::Args;
use tombolo_trace::file::{Recording, salvage};
use tombolo_trace::merge::{Timeline, merge};

use crate::context::Context;
use crate::failure::Failure;

/// The trace file to read.
#[derive(Args, Debug)]
pub(super) struct Source {
    /// A trace file of `tombolo trace record` or `tombolo trace dump`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Use a damaged file up to the damage
    #[arg(long)]
    salvage: bool,
}

impl Source {
    /// Reads the file and sorts its events causally.
    pub(super) fn load(&self, context: &Context) -> Result<(Recording, Timeline), Failure> {
        let path = &self.file;
        let bytes = std::fs::read(path).map_err(Failure::unreadable(path))?;
        let (recording, error) = salvage(&bytes);
        match error {
            Some(source) if !self.salvage => {
                let path = path.clone();
                return Err(Failure::TraceFile { path, source, usable: recording.event_count() > 0 });
            }
            Some(error) => context.info(format!("warning: {}: {error}", path.display())),
            None => {}
        }
        let timeline =
            merge(&recording).map_err(|source| Failure::TraceOrder { path: path.clone(), source })?;
        Ok((recording, timeline))
    }
}
