//! `tombolo-bench-report`: see the help text.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tombolo_bench::suite::Results;

/// Write a page with plots from files of `tombolo bench all --json` and `tombolo bench bulk --json`
#[derive(Parser, Debug)]
#[command(after_help = "\
Examples:
  tombolo-bench-report docs/results/*.json -o docs/results")]
struct Options {
    /// Results, one file per host
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The folder for the page and its plots
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tombolo-bench-report: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let results: Result<Vec<Results>, _> = options.files.iter().map(|path| Results::read(path)).collect();
    Ok(tombolo_bench_report::write(&results?, &options.output)?)
}
