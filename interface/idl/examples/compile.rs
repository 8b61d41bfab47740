//! Prints the stubs of an interface file: `cargo run --example compile interfaces/kv.tbl`, with `--c` those in C.

use std::process::ExitCode;

use tombolo_idl::build;
use tombolo_idl::c::COptions;
use tombolo_idl::rust::RustOptions;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let in_c = arguments.first().is_some_and(|first| first == "--c");
    arguments.drain(..usize::from(in_c));
    let [path] = &arguments[..] else {
        eprintln!("usage: compile [--c] FILE.tbl");
        return ExitCode::from(2);
    };
    let text = if in_c {
        build::c(path, &COptions { origin: path.clone(), ..COptions::default() })
    } else {
        build::rust(path, &RustOptions { origin: path.clone(), ..RustOptions::default() })
    };
    match text {
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
