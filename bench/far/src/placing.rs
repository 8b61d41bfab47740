//! Rings between two nodes, with slots and credit in windows of either node, and the modelled costs of a
//! window.
//!
//! An emulated window is memory of the host, which every node accesses at the same cost. A machine file
//! states whose memory a window represents, and what a PCIe device would cost the other nodes: the time of a
//! read, for which a processor stalls, and that of writing a line, which is posted. The two programs wait
//! that long at each access that would cross the bus. The result is a model, and reports say so.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use tombolo::region::{Capability, CapabilityId, Mapping, RegionOptions, Rights};
use tombolo::{Channel, Domain};
use tombolo_base::SharedMemory;
use tombolo_ring::{SendError, Variant};

use crate::content::{check, corrupt, fill};
use crate::placement::{BYTES, MESSAGE_BYTES, Rings, RingsEnd, no_memory};
use crate::{Error, Side, SpinTimeout};

/// Timeout of either side for the other.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Number of warm-up round trips.
const WARM: u64 = 200;

/// Modelled costs of a node's access to a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Time to read a line, in nanoseconds.
    pub read_ns: u64,
    /// Time to write a line, in nanoseconds.
    pub line_ns: u64,
}

impl Costs {
    fn read(self) {
        wait_ns(self.read_ns);
    }

    fn write(self) {
        wait_ns(self.line_ns);
    }
}

fn wait_ns(duration_ns: u64) {
    if duration_ns > 0 {
        let since = Instant::now();
        while (since.elapsed().as_nanos() as u64) < duration_ns {
            spin_loop();
        }
    }
}

/// Parameters of one measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Index of the placement, see [`Rings::at`].
    pub rings: u64,
    /// Number of counted round trips.
    pub rounds: u64,
    /// Windows that are the memory of the near and of the far side, as indices into the arguments.
    pub memories: [u64; 2],
    /// Costs of the near and the far side, each for the memory of the near side and for that of the far side.
    pub costs: [[Costs; 2]; 2],
}

/// Number of words in an encoded plan.
const WORDS: usize = 4 + 8;

impl Plan {
    /// Encodes the plan as a message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let costs = self.costs.iter().flatten().flat_map(|costs| [costs.read_ns, costs.line_ns]);
        let words = [self.rings, self.rounds].into_iter().chain(self.memories).chain(costs);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes a plan from a message.
    ///
    /// # Errors
    /// [`Error::Unexpected`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Plan, Error> {
        let words = words(bytes);
        let Ok([rings, rounds, near, far, costs @ ..]) = <[u64; WORDS]>::try_from(words) else {
            return Err(Error::Unexpected { length_bytes: bytes.len() });
        };
        let at = |index: usize| Costs { read_ns: costs[2 * index], line_ns: costs[2 * index + 1] };
        let costs = [[at(0), at(1)], [at(2), at(3)]];
        Ok(Plan { rings, rounds, memories: [near, far], costs })
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
}

/// End of placed rings on a node that pays modelled costs for remote memory.
struct PayingEnd {
    rings: RingsEnd,
    variant: Variant,
    /// Costs of slots and credit of the ring on which this side sends.
    out: [Costs; 2],
    /// Costs of slots and credit of the other ring.
    back: [Costs; 2],
}

impl PayingEnd {
    fn new(plan: &Plan, side: Side, memories: &[SharedMemory; 2]) -> Result<Self, Error> {
        let rings = Rings::at(plan.rings).ok_or(Error::Unexpected { length_bytes: 8 * WORDS })?;
        let own = plan.costs[usize::from(side == Side::Far)];
        let of = |sender: Side| {
            let place = |at_receiver: bool| own[usize::from((sender == Side::Far) != at_receiver)];
            [place(rings.slots_at_receiver), place(rings.credit_at_receiver)]
        };
        let there = if side == Side::Near { Side::Far } else { Side::Near };
        let (out, back) = (of(side), of(there));
        Ok(PayingEnd { variant: rings.variant, rings: rings.end(side, memories)?, out, back })
    }

    fn send(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = [0; MESSAGE_BYTES];
        fill(&mut message, sequence);
        let mut spin_timeout = SpinTimeout::default();
        let [slots, credit] = self.out;
        loop {
            match self.variant {
                // The sender reads the slot to check whether the receiver has cleared it.
                Variant::UsedFlag => slots.read(),
                Variant::EpochCredit if self.rings.producer.known_free_slots() == 0 => credit.read(),
                Variant::EpochCredit => {}
            }
            match self.rings.producer.try_send(&message) {
                Ok(()) => {
                    slots.write();
                    return Ok(());
                }
                Err(SendError::Full) => spin_timeout.wait()?,
                Err(error) => return Err(Error::of_placement(error)),
            }
        }
    }

    fn recv(&mut self, sequence: u64) -> Result<(), Error> {
        let mut spin_timeout = SpinTimeout::default();
        let mut buffer = [0; MESSAGE_BYTES];
        let [slots, credit] = self.back;
        let credits = self.rings.consumer.credit_stores();
        loop {
            // The message is one line, so copying out of it costs no further read.
            slots.read();
            let received = match self.rings.consumer.try_recv() {
                Ok(Some(message)) => Some(message.copy_to(&mut buffer).map_err(|_| corrupt(sequence))?),
                Ok(None) => None,
                Err(error) => return Err(Error::of_placement(error)),
            };
            if self.rings.consumer.credit_stores() != credits {
                credit.write();
            }
            match received {
                Some(length) => {
                    if self.variant == Variant::UsedFlag {
                        slots.write();
                    }
                    return check::<MESSAGE_BYTES>(&buffer[..length], sequence);
                }
                None => spin_timeout.wait()?,
            }
        }
    }
}

/// Runs one of the two programs: the near side receives plans over the channel `name`, and forwards them to
/// the far side over `pair`. `windows` are the names of the windows that both reach.
///
/// # Errors
/// A channel or a window fails, or received data differs from what was sent.
pub fn run(side: Side, name: &str, pair: &str, windows: &[&str]) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    match side {
        Side::Near => near(&domain, name, pair, windows),
        Side::Far => far(&domain, pair, windows.len()),
    }
}

fn near(domain: &Domain, name: &str, pair: &str, windows: &[&str]) -> Result<(), Error> {
    let listener = domain.export(pair)?;
    let mut control = domain.connect(name)?;
    let mut peer = listener.accept()?;
    let mut held = Vec::new();
    for window in windows {
        let region = domain.create_region(&RegionOptions::new(BYTES as u64).in_window_of(window))?;
        let granted = region.grant(peer.peer(), Rights::READ_WRITE)?;
        peer.send(&granted.id.0.to_le_bytes())?;
        let mapping = region.map(Rights::READ_WRITE)?;
        held.push((region, mapping));
    }
    let mut bytes = Vec::new();
    loop {
        match control.recv_into(&mut bytes) {
            Err(tombolo::Error::Closed { .. }) => return Ok(()),
            received => received?,
        };
        let plan = Plan::from_bytes(&bytes)?;
        let memories = memories(&plan, held.iter().map(|(_, mapping)| mapping))?;
        memories.iter().for_each(SharedMemory::clear);
        peer.send(&bytes)?;
        let times_ns = round_trips(&plan, &memories)?;
        await_end(&mut peer, &mut bytes)?;
        let answer: Vec<u8> = times_ns.iter().flat_map(|time_ns| time_ns.to_le_bytes()).collect();
        control.send(&answer)?;
    }
}

fn await_end(peer: &mut Channel, bytes: &mut Vec<u8>) -> Result<(), Error> {
    peer.recv_into(bytes)?;
    if bytes.is_empty() { Ok(()) } else { Err(Error::Unexpected { length_bytes: bytes.len() }) }
}

/// Measures round trips and returns their 50th, 99th and 99.9th percentiles, mean and number.
fn round_trips(plan: &Plan, memories: &[SharedMemory; 2]) -> Result<[u64; 5], Error> {
    let mut end = PayingEnd::new(plan, Side::Near, memories)?;
    let mut times_ns = Vec::with_capacity(usize::try_from(plan.rounds).unwrap_or(0).min(1 << 20));
    for sequence in 0..WARM + plan.rounds {
        let since = Instant::now();
        end.send(sequence)?;
        end.recv(sequence)?;
        if sequence >= WARM {
            times_ns.push(since.elapsed().as_nanos() as u64);
        }
    }
    times_ns.sort_unstable();
    let count = times_ns.len().max(1);
    let at = |per_mille: usize| times_ns.get((count * per_mille / 1000).min(count - 1)).copied().unwrap_or(0);
    let mean_ns = times_ns.iter().sum::<u64>() / count as u64;
    Ok([at(500), at(990), at(999), mean_ns, times_ns.len() as u64])
}

fn far(domain: &Domain, pair: &str, windows: usize) -> Result<(), Error> {
    let mut peer = domain.connect(pair)?;
    let mut bytes = Vec::new();
    let mut held: Vec<(Capability, Mapping)> = Vec::new();
    for _ in 0..windows {
        peer.recv_into(&mut bytes)?;
        let [id] = words(&bytes)[..] else { return Err(Error::Unexpected { length_bytes: bytes.len() }) };
        let capability = domain.capability(CapabilityId(id))?;
        let mapping = capability.map(Rights::READ_WRITE)?;
        held.push((capability, mapping));
    }
    loop {
        match peer.recv_into(&mut bytes) {
            Err(tombolo::Error::Closed { .. }) => return Ok(()),
            received => received?,
        };
        let plan = Plan::from_bytes(&bytes)?;
        let memories = memories(&plan, held.iter().map(|(_, mapping)| mapping))?;
        let mut end = PayingEnd::new(&plan, Side::Far, &memories)?;
        for sequence in 0..WARM + plan.rounds {
            end.recv(sequence)?;
            end.send(sequence)?;
        }
        peer.send(&[])?;
    }
}

/// Returns the memories of the near and of the far side.
fn memories<'a>(
    plan: &Plan,
    mappings: impl Iterator<Item = &'a Mapping> + Clone,
) -> Result<[SharedMemory; 2], Error> {
    let of = |window: u64| {
        let index = usize::try_from(window).map_err(|_| no_memory())?;
        mappings.clone().nth(index).and_then(Mapping::memory).ok_or_else(no_memory)
    };
    Ok([of(plan.memories[0])?, of(plan.memories[1])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rings: Rings) -> Plan {
        let costs = |read_ns, line_ns| Costs { read_ns, line_ns };
        let costs = [[costs(0, 0), costs(30, 2)], [costs(40, 3), costs(0, 0)]];
        Plan { rings: rings.index(), rounds: 100, memories: [0, 1], costs }
    }

    #[test]
    fn placement_plans_round_trip() {
        for rings in Rings::all() {
            assert_eq!(Plan::from_bytes(&plan(rings).to_bytes()).unwrap(), plan(rings));
        }
        assert!(Plan::from_bytes(&[0; 8 * WORDS - 1]).is_err());
        assert!(Plan::from_bytes(&[0; 8 * WORDS + 8]).is_err());
    }

    #[test]
    fn each_side_pays_for_remote_memory() {
        let memories = [(); 2].map(|()| SharedMemory::zeroed(BYTES));
        for rings in Rings::all() {
            let end = |side| PayingEnd::new(&plan(rings), side, &memories).unwrap();
            let (near, far) = (end(Side::Near), end(Side::Far));
            let none = Costs::default();
            assert_eq!(near.out[0] == none, !rings.slots_at_receiver, "{rings:?}");
            assert_eq!(near.back[0] == none, rings.slots_at_receiver, "{rings:?}");
            assert_eq!(near.out[1] == none, !rings.credit_at_receiver, "{rings:?}");
            assert_eq!(far.out[0] == none, !rings.slots_at_receiver, "{rings:?}");
            assert_eq!(far.back[1] == none, rings.credit_at_receiver, "{rings:?}");
        }
    }

    #[test]
    fn paying_rings_deliver_every_message() {
        for rings in Rings::all() {
            let memories = [(); 2].map(|()| SharedMemory::zeroed(BYTES));
            let plan = plan(rings);
            std::thread::scope(|scope| {
                let far = scope.spawn(|| {
                    let mut end = PayingEnd::new(&plan, Side::Far, &memories)?;
                    (0..WARM + plan.rounds).try_for_each(|sequence| {
                        end.recv(sequence)?;
                        end.send(sequence)
                    })
                });
                let [p50, p99, p999, _, rounds] = round_trips(&plan, &memories).unwrap();
                assert!(p50 <= p99 && p99 <= p999 && rounds == plan.rounds);
                far.join().unwrap().unwrap();
            });
        }
    }
}
