//! Placement of slots and credit across a link: one ring per direction, in memory of either side.

use tombolo_bench_far::Side;
use tombolo_bench_far::placement::{MESSAGE_BYTES, Rings, end, memories, no_memory};
use tombolo_bench_far::ring::command::{Command, parse_answer};
use tombolo_bench_far::ring::end::{STALL, recv_polling};

use super::near::limit;
use super::{End, Ends, Error, Schedule};
use crate::sample::{CYCLE_ROUNDS, Clock, Samples, median, sorted};
use crate::suite::placement::{Placed, placed};

/// Number of warm-up round trips.
const WARM: u64 = 500;

/// Figures of one placement.
pub(super) struct PlacedFigures {
    rings: Rings,
    limit: Samples,
    found: Samples,
    ratios: Vec<f64>,
}

impl PlacedFigures {
    /// Converts them into a row of the link `link`; `one_memory` names the memory that holds everything if
    /// there is no choice.
    pub(super) fn to_row(&self, link: &str, one_memory: Option<&str>) -> Placed {
        let ratio = median(&sorted(self.ratios.clone())).unwrap_or(0.0);
        let limit_ns = self.limit.summary().map_or(0.0, |limit| limit.p50);
        let ratio = super::report::thousandths(ratio);
        let mut row = placed(self.rings, link, limit_ns, self.found.summary(), ratio);
        if let Some(memory) = one_memory {
            (row.slots, row.credit) = (memory.to_owned(), memory.to_owned());
        }
        row
    }
}

/// Measures every placement that the link supports; none if no memory is shared.
pub(super) fn measure<E: End>(
    ends: &mut Ends<E>,
    clock: Clock,
    schedule: &Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<PlacedFigures>, Error> {
    if ends.raw.is_none() {
        return Ok(Vec::new());
    }
    let all = if ends.own.is_some() { Rings::all() } else { Rings::in_one_memory() };
    let mut figures: Vec<PlacedFigures> = Vec::with_capacity(all.len());
    for rings in all {
        let (limit, found) = (Samples::new(), Samples::new());
        figures.push(PlacedFigures { rings, limit, found, ratios: Vec::new() });
    }
    let slices = schedule.slices.div_ceil(4);
    for slice in 1..=slices {
        progress(&format!("placement, slice {slice} of {slices}"));
        let mut before = bare(ends, clock, schedule)?;
        for placed in &mut figures {
            let cycles = schedule.slice.as_nanos() as f64 / (2.0 * before.p50_ns().max(1.0));
            let cycles = (cycles as u64 / CYCLE_ROUNDS).max(1);
            let found = round_trips(ends, placed.rings, clock, cycles)?;
            let after = bare(ends, clock, schedule)?;
            let limit_ns = f64::midpoint(before.p50_ns(), after.p50_ns());
            if limit_ns > 0.0 {
                placed.ratios.push(found.p50_ns() / limit_ns);
            }
            placed.found.add(&found);
            placed.limit.add(&before);
            before = after;
        }
    }
    Ok(figures)
}

/// Samples the bare lines in the memory of the link, then zeroes it.
fn bare<E: End>(ends: &mut Ends<E>, clock: Clock, schedule: &Schedule) -> Result<Samples, Error> {
    for memory in memories(ends)? {
        memory.clear();
    }
    let samples = limit(ends, clock, schedule.slice / 4)?.ok_or_else(no_memory)?;
    for memory in memories(ends)? {
        memory.clear();
    }
    Ok(samples)
}

fn round_trips<E: End>(
    ends: &mut Ends<E>,
    rings: Rings,
    clock: Clock,
    cycles: u64,
) -> Result<Samples, Error> {
    let rounds = WARM + cycles * CYCLE_ROUNDS;
    ends.ring.send(&Command::Place { rings: rings.index(), rounds }.to_bytes(), STALL)?;
    let mut answer = Vec::with_capacity(64);
    recv_polling(&mut ends.ring, &mut answer)?;
    parse_answer(&answer)?;
    let mut end = end(ends, Side::Near, rings.index())?;
    let mut sequence = 0;
    let mut round = || {
        end.send::<MESSAGE_BYTES>(sequence)?;
        end.recv::<MESSAGE_BYTES>(sequence)?;
        sequence += 1;
        Ok::<(), Error>(())
    };
    (0..WARM).try_for_each(|_| round())?;
    Samples::take_cycles(clock, cycles, &mut round)
}
