//! Runs the target of `tombolo-fuzz` named in `TOMBOLO_FUZZ_TARGET` under libFuzzer.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tombolo_fuzz::{Target, target};

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&'static Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("TOMBOLO_FUZZ_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| {
            eprintln!("TOMBOLO_FUZZ_TARGET names none of the targets: {name:?}");
            std::process::exit(2);
        })
    })
}

fuzz_target!(|input: &[u8]| (chosen().run)(input));
