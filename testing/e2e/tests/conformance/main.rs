//! The suite that every transport passes, with its far end on a board without an operating system and in a big-endian
//! program: `far-end` runs there and does to its channel what the suite says over another. Each place takes both sides,
//! the one that accepts and, as `-first`, the one that connects.

mod carrier;
mod far;
mod fleet;

use std::process::ExitCode;

use carrier::Far;
use fleet::{ArmBoard, RiscvBoard, S390x};
use tombolo_conformance::{Entry, run_one_by_one};

fn main() -> ExitCode {
    let outcome = run_one_by_one(vec![
        Entry::new::<Far<ArmBoard, false>>(),
        Entry::new::<Far<ArmBoard, true>>(),
        Entry::new::<Far<RiscvBoard, false>>(),
        Entry::new::<Far<RiscvBoard, true>>(),
        Entry::new::<Far<S390x, false>>(),
        Entry::new::<Far<S390x, true>>(),
    ]);
    fleet::down();
    outcome
}
