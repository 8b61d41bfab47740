//! Prints the Rust of an interface file: `cargo run --example compile interfaces/kv.tbl`.

use std::process::ExitCode;

use tombolo_idl::build;
use tombolo_idl::rust::RustOptions;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: compile FILE.tbl");
        return ExitCode::from(2);
    };
    match build::rust(&path, &RustOptions { origin: path.clone(), ..RustOptions::default() }) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
