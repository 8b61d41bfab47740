//! The suite that every transport passes, with its remote peer on a board without an operating system, on one
//! whose window is not coherent, and in a big-endian program: `remote-peer` runs there and does to its
//! channel what the suite says over another. Virtual machines of x86-64 and RISC-V, and programs of 32 bits,
//! take part where the kit has what they need (`cargo xtask kit --vm ISA`, `--also ISA`). Each place takes
//! both sides, the one that accepts and, as `-first`, the one that connects.

mod carrier;
mod fleet;
mod remote;

use std::process::ExitCode;

use carrier::Remote;
use fleet::{ArmBoard, EvictingBoard, EvictingJoiner, RiscvBoard, S390x};
use tombolo_conformance::{Subject, run_one_by_one};

fn main() -> ExitCode {
    let mut subjects = vec![
        Subject::of::<Remote<ArmBoard, false>>(),
        Subject::of::<Remote<ArmBoard, true>>(),
        Subject::of::<Remote<EvictingBoard, false>>(),
        Subject::of::<Remote<EvictingBoard, true>>(),
        Subject::of::<Remote<EvictingJoiner, false>>(),
        Subject::of::<Remote<EvictingJoiner, true>>(),
        Subject::of::<Remote<RiscvBoard, false>>(),
        Subject::of::<Remote<RiscvBoard, true>>(),
        Subject::of::<Remote<S390x, false>>(),
        Subject::of::<Remote<S390x, true>>(),
    ];
    subjects.extend(fleet::optional_subjects());
    let outcome = run_one_by_one(&subjects);
    fleet::down();
    outcome
}
