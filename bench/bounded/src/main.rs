//! The longest times of bounded operations and of a control loop, beside their bounds:
//! `tombolo run --on bare0 bounded.tbi 16`
//!
//! On a board whose clock counts instructions, 16 ns each (`instruction_clock = 4` in the machine file),
//! times are numbers of instructions, the same in every run, and one above its bound fails. Without an
//! argument they are in nanoseconds: interrupts and other programs are part of them, so that they are shown
//! without a verdict. On Linux the control loop also runs with threads as workers. With `interrupts` in place
//! of the length, only interrupts are measured.
#![cfg_attr(target_os = "none", no_std, no_main)]

mod fft;
mod hubs;
mod interrupts;
mod measure;
mod operations;
#[cfg(not(target_os = "none"))]
mod threads;

use core::num::NonZeroU64;
#[cfg(not(target_os = "none"))]
use std::env;

#[cfg(target_os = "none")]
use tombolo_bare::{env, prelude::*};
use tombolo_realtime::bound::{data_parallel, speed_up};

use crate::fft::Fft;
use crate::interrupts::Latencies;
use crate::measure::Clock;

/// Workers that the control loop is shared out over, at most.
const MAX_WORKERS: usize = 4;

#[cfg(target_os = "none")]
tombolo_bare::main!(report);

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    report().into()
}

/// Measures and prints; returns the exit status: 1 if an operation took longer than its bound, 2 for an
/// argument that is no length of an instruction.
fn report() -> u8 {
    let argument = env::args().nth(1);
    if argument.as_deref() == Some("interrupts") {
        println!("{}", Latencies::measure(&Clock::new(None)));
        return 0;
    }
    let instruction_ns = match argument.map(|text| text.parse::<NonZeroU64>()) {
        None => None,
        Some(Ok(ns)) => Some(ns.get()),
        Some(Err(_)) => {
            eprintln!(
                "bounded: the argument is how many nanoseconds an instruction takes, such as 16, or 'interrupts'"
            );
            return 2;
        }
    };
    let clock = Clock::new(instruction_ns);
    println!("times in {}", if instruction_ns.is_some() { "instructions" } else { "ns" });
    println!("{:<28} {:>6} {:>9} {:>9}", "operation", "steps", "longest", "bound");
    let mut exceeded = 0;
    for row in operations::rows(&clock).into_iter().chain(hubs::rows(&clock)) {
        println!("{row}");
        exceeded += u32::from(row.exceeds());
    }
    control_loop(&clock);
    println!("\n{}", Latencies::measure(&clock));
    if exceeded > 0 {
        println!("{exceeded} operations took longer than their bounds");
        return 1;
    }
    0
}

/// The bound of the control loop by the number of workers, from the longest times of its parts on this
/// processor; on Linux beside the average with as many threads.
fn control_loop(clock: &Clock) {
    let fft = Fft::new();
    let stage = clock.longest(|| (0..fft::BUTTERFLIES).for_each(|number| fft.butterfly(3, number)));
    let each = stage.div_ceil(fft::BUTTERFLIES as u64);
    // A worker may have begun to look just before the last one arrives.
    let barrier = 2 * operations::barrier(clock).longest;
    let alone = clock.longest(|| fft.respond());
    let bound = |workers: usize| {
        let stage = data_parallel(0, fft::BUTTERFLIES as u64, each, workers as u64, barrier);
        stage * fft::STAGES as u64 + alone
    };
    println!();
    println!("control loop: {} points in {} stages", fft::POINTS, fft::STAGES);
    println!("{:>7} {:>12} {:>9} {:>12} {:>9}", "workers", "worst case", "speed-up", "average", "speed-up");
    let mut average_of_one = None;
    for workers in 1..=MAX_WORKERS {
        let worst = speed_up(bound(1), bound(workers));
        let average = average(&fft, workers);
        let of_one = *average_of_one.get_or_insert(average);
        match (average, of_one) {
            (Some(average), Some(of_one)) => {
                let gain = speed_up(of_one, average);
                println!("{workers:>7} {:>12} {worst:>9.2} {average:>12} {gain:>9.2}", bound(workers));
            }
            _ => println!("{workers:>7} {:>12} {worst:>9.2} {:>12} {:>9}", bound(workers), "-", "-"),
        }
    }
}

/// The average time of the loop with as many workers, where there are threads to run them.
#[cfg(not(target_os = "none"))]
fn average(fft: &Fft, workers: usize) -> Option<u64> {
    Some(threads::average_ns(fft, workers))
}

#[cfg(target_os = "none")]
fn average(_fft: &Fft, _workers: usize) -> Option<u64> {
    None
}
