//! The conformance suite of transports, with its remote peer on a board without an operating system, on a
//! board with a non-coherent window, and in a big-endian program: `remote-peer` runs there and executes the
//! suite's orders, which arrive over a second channel. Virtual machines of x86-64 and RISC-V and 32-bit
//! programs take part if the kit supports them (`cargo xtask kit --vm ISA`, `--also ISA`). Each location is
//! tested in both roles: as the accepting side and, with the suffix `-first`, as the connecting side.

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
