//! Writes the seeds and the kept inputs of each target into a folder of its own, as the initial corpus of
//! libFuzzer.

use std::path::PathBuf;
use std::process::ExitCode;

fn write(folder: &std::path::Path) -> std::io::Result<()> {
    for target in tombolo_fuzz::TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        let inputs = (target.seeds)().into_iter().chain(tombolo_fuzz::corpus_inputs(target));
        for (number, input) in inputs.enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), input)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: fuzz-corpus FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz-corpus: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}
