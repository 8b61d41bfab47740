//! The suite that every transport passes, with its remote peer on a board without an operating system and
//! in a big-endian program: `remote-peer` runs there and does to its channel what the suite says over
//! another. Virtual machines of x86-64 and RISC-V, and programs of 32 bits, take part where the kit has
//! what they need (`cargo xtask kit --vm ISA`, `--also ISA`). Each place takes both sides, the one that
//! accepts and, as `-first`, the one that connects.

mod carrier;
mod fleet;
mod remote;

use std::process::ExitCode;

use carrier::Remote;
use fleet::{ArmBoard, RiscvBoard, S390x};
use tombolo_conformance::{Entry, run_one_by_one};

fn main() -> ExitCode {
    let mut entries = vec![
        Entry::new::<Remote<ArmBoard, false>>(),
        Entry::new::<Remote<ArmBoard, true>>(),
        Entry::new::<Remote<RiscvBoard, false>>(),
        Entry::new::<Remote<RiscvBoard, true>>(),
        Entry::new::<Remote<S390x, false>>(),
        Entry::new::<Remote<S390x, true>>(),
    ];
    entries.extend(fleet::optional_entries());
    let outcome = run_one_by_one(entries);
    fleet::down();
    outcome
}
