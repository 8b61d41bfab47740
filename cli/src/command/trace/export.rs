//! `tombolo trace export`

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use tombolo_trace::perfetto::Export;

use super::file::Source;
use crate::context::Context;
use crate::failure::Failure;

/// Writes a trace for Perfetto, to open at ui.perfetto.dev
///
/// Each domain is a process with its threads. Sleeps and the spans that the program marked are slices, arrows
/// lead from each send to its receive, and a counter for each direction of a channel shows the messages in
/// it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo trace export job.tbt --perfetto job.pftrace")]
pub(super) struct Options {
    #[command(flatten)]
    source: Source,

    /// The Perfetto file to write
    #[arg(long, value_name = "FILE")]
    perfetto: PathBuf,
}

pub(super) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let (recording, timeline) = options.source.load(context)?;
    let path = &options.perfetto;
    let operation = format!("write {}", path.display());
    let file = File::create(path).map_err(Failure::system(operation.clone()))?;
    let mut output = BufWriter::new(file);
    let mut export = Export::new(&recording, &timeline);
    let mut write = |bytes: &[u8]| output.write_all(bytes).map_err(Failure::system(operation.clone()));
    write(&export.tracks())?;
    while let Some(piece) = export.next_chunk() {
        write(&piece)?;
    }
    output.flush().map_err(Failure::system(operation))
}
