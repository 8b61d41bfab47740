//! Clients of copy services.

use std::time::Duration;

use tombolo::Domain;
use tombolo::region::{Extent, Kind, Mapping, Region, RegionOptions, Rights};
use tombolo_copies::{Copies, CopiesError, Copy, CopyFault, Fill, MAX_DESCRIPTORS, Memory};

use crate::regions::{PAGE_BYTES, pattern, require};
use crate::{Outcome, PATIENCE};

/// Length of a copy that the server splits into several pieces.
const LONG_BYTES: u64 = 9 << 20;

fn region(domain: &Domain, place: &str, bytes: u64) -> Result<Region, Box<dyn std::error::Error>> {
    let options = RegionOptions::new(bytes);
    Ok(domain.create_region(&match place.split_once(':') {
        Some(("memory", node)) => options.on(node),
        Some(("window", node)) => options.in_window_of(node).coherent(),
        _ => return Err(format!("no such place: {place}").into()),
    })?)
}

/// Memory that this program fills and checks and that the service copies.
struct Shared {
    region: Region,
    mapping: Mapping,
    memory: Memory,
}

impl Shared {
    fn make(
        domain: &Domain,
        copies: &mut Copies,
        (place, rights): (&str, Rights),
        bytes: u64,
    ) -> Result<Shared, Box<dyn std::error::Error>> {
        let region = region(domain, place, bytes)?;
        let mapping = region.map(Rights::READ_WRITE)?;
        let memory = copies.register(&region, rights)?;
        require(memory.length_bytes() == region.length_bytes(), "all of it is registered")?;
        require(memory.is_writable() == rights.contains(Rights::WRITE), "with these rights")?;
        Ok(Shared { region, mapping, memory })
    }

    fn holds(&self, offset: u64, expected: &[u8], what: &str) -> Outcome {
        let mut found = vec![0; expected.len()];
        self.mapping.read(offset as usize, &mut found)?;
        require(found == expected, what)
    }
}

fn fault<T>(outcome: Result<T, CopiesError>) -> Result<CopyFault, Box<dyn std::error::Error>> {
    match outcome {
        Err(error) => error.fault().ok_or_else(|| format!("refused in another way: {error}").into()),
        Ok(_) => Err("not refused".into()),
    }
}

/// Runs a copy and waits for its completion.
fn ended(copies: &mut Copies, copy: &Copy) -> Result<(), CopiesError> {
    let descriptor = copies.enqueue(copy)?;
    copies.wait(descriptor, PATIENCE)
}

fn refused(copies: &mut Copies, copy: &Copy, expected: CopyFault, what: &str) -> Outcome {
    let found = fault(ended(copies, copy))?;
    require(found == expected, &format!("{what}: {found:?}"))
}

/// Copies between memories of a place with the service of a node, and tests all limits.
pub(crate) fn work(node: &str, place: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut copies = Copies::connect(&domain, node)?;
    require(copies.node() == node, "it is the service of that node")?;
    let from = Shared::make(&domain, &mut copies, (place, Rights::READ), LONG_BYTES)?;
    let to = Shared::make(&domain, &mut copies, (place, Rights::READ_WRITE), LONG_BYTES)?;
    let whole = pattern(3, LONG_BYTES as usize);
    from.mapping.write(0, &whole)?;
    ended(&mut copies, &Copy::new(from.memory.at(0), to.memory.at(0), LONG_BYTES))?;
    to.holds(0, &whole, "a long copy arrives whole")?;
    ended(&mut copies, &Copy::new(from.memory.at(3), to.memory.at(8), 77))?;
    to.holds(8, &whole[3..80], "and a short one where it should be")?;
    to.holds(85, &whole[85..200], "with nothing behind it")?;
    faults(&mut copies, &from, &to)?;
    in_order(&mut copies, &from, &to, &whole)?;
    many(&mut copies, &from, &to, &whole)?;
    parts(&domain, &mut copies, place)?;
    // Withdrawn memory is unknown to the service.
    copies.withdraw(from.memory)?;
    let gone = Copy::new(from.memory.at(0), to.memory.at(0), 8);
    refused(&mut copies, &gone, CopyFault::UNKNOWN_MEMORY, "it was withdrawn")?;
    // Revoked memory is not accessed.
    let revoked = to.region.revoke(PATIENCE)?;
    require(revoked.removed >= 1, "the service had a right")?;
    let descriptor = copies.enqueue_fill(&Fill::new(to.memory.at(0), 1, 64))?;
    let found = fault(copies.wait(descriptor, PATIENCE))?;
    require(found == CopyFault::REVOKED, &format!("it was revoked: {found:?}"))?;
    println!("copied");
    Ok(())
}

/// Invalid copies complete with the matching fault.
fn faults(copies: &mut Copies, from: &Shared, to: &Shared) -> Outcome {
    let (from, to) = (from.memory, to.memory);
    let length = from.length_bytes();
    refused(copies, &Copy::new(from.at(1), to.at(0), length), CopyFault::OUT_OF_RANGE, "past the end")?;
    refused(copies, &Copy::new(from.at(u64::MAX), to.at(0), 2), CopyFault::OUT_OF_RANGE, "past all")?;
    refused(copies, &Copy::new(to.at(0), from.at(0), 8), CopyFault::READ_ONLY, "it may only be read")?;
    refused(copies, &Copy::new(to.at(0), to.at(4), 8), CopyFault::OVERLAP, "onto itself")?;
    ended(copies, &Copy::new(to.at(0), to.at(8), 8))?;
    Ok(())
}

/// Descriptors complete in the engine's order; fenced ones complete after all earlier ones.
fn in_order(copies: &mut Copies, from: &Shared, to: &Shared, whole: &[u8]) -> Outcome {
    let half = LONG_BYTES / 2;
    let fill = copies.enqueue_fill(&Fill::new(to.memory.at(0), 9, half))?;
    // The same bytes without a fence: refused while the fill is running, accepted once it has completed.
    let early = copies.enqueue(&Copy::new(from.memory.at(0), to.memory.at(0), 8))?;
    let fenced = copies.enqueue(&Copy::new(from.memory.at(0), to.memory.at(half - 100), 100).fenced())?;
    let mut order = Vec::new();
    while let Some(ended) = copies.next(PATIENCE)? {
        let may_fail = ended.descriptor == early && ended.fault == Some(CopyFault::IN_USE);
        require(ended.fault.is_none() || may_fail, &format!("{ended:?}"))?;
        order.push(ended.descriptor);
    }
    let place = |descriptor| order.iter().position(|it| *it == descriptor);
    require(order.len() == 3 && place(fill) < place(fenced), &format!("the order of ends: {order:?}"))?;
    to.holds(half - 100, &whole[..100], "the fenced copy was last")?;
    to.holds(100, &[9; 100], "and the fill before it")?;
    let taken = copies.wait(fill, Duration::ZERO);
    require(matches!(taken, Err(CopiesError::NotInProgress { .. })), "its end was taken")
}

/// Enqueues the maximum number of descriptors, and one more.
fn many(copies: &mut Copies, from: &Shared, to: &Shared, whole: &[u8]) -> Outcome {
    let length = 1000;
    for number in 0..MAX_DESCRIPTORS {
        let at = number * length;
        copies.enqueue(&Copy::new(from.memory.at(at), to.memory.at(at), length))?;
    }
    let more = copies.enqueue(&Copy::new(from.memory.at(0), to.memory.at(0), 1));
    require(matches!(more, Err(CopiesError::Full { .. })), "that is the limit")?;
    let mut count = 0;
    while let Some(ended) = copies.next(PATIENCE)? {
        require(ended.fault.is_none(), &format!("{ended:?}"))?;
        count += 1;
    }
    require(count == MAX_DESCRIPTORS && copies.in_progress() == 0, "each ended once")?;
    let bytes = (MAX_DESCRIPTORS * length) as usize;
    to.holds(0, &whole[..bytes], "and all of them arrived")
}

/// Registers two parts of a region, one of kind pool and one plain.
fn parts(domain: &Domain, copies: &mut Copies, place: &str) -> Outcome {
    let memory = region(domain, place, 4 * PAGE_BYTES)?.into_capability();
    let of = |page| Extent::new(page * PAGE_BYTES, PAGE_BYTES);
    let pool = memory.split(Kind::Pool, &[of(0)])?.remove(0);
    let frame = memory.split(Kind::Frame, &[of(2)])?.remove(0);
    let from = copies.register(&pool, Rights::READ_WRITE)?;
    let to = copies.register(&frame, Rights::READ_WRITE)?;
    let filled = copies.enqueue_fill(&Fill::new(from.at(0), 5, PAGE_BYTES))?;
    let copied = copies.enqueue(&Copy::new(from.at(0), to.at(0), PAGE_BYTES).fenced())?;
    copies.wait(copied, PATIENCE)?;
    copies.wait(filled, PATIENCE)?;
    let mut found = vec![0; PAGE_BYTES as usize];
    frame.map(Rights::READ)?.read(0, &mut found)?;
    require(found.iter().all(|byte| *byte == 5), "from a buffer of a pool to a frame")
}

/// Registers memory and keeps the service busy until this program is killed.
pub(crate) fn hold(node: &str, place: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut copies = Copies::connect(&domain, node)?;
    let from = Shared::make(&domain, &mut copies, (place, Rights::READ), LONG_BYTES)?;
    let to = Shared::make(&domain, &mut copies, (place, Rights::READ_WRITE), LONG_BYTES)?;
    let mut told = false;
    loop {
        while copies.in_progress() < 32 {
            copies.enqueue(&Copy::new(from.memory.at(0), to.memory.at(0), LONG_BYTES).fenced())?;
        }
        require(copies.next(PATIENCE)?.is_some_and(|ended| ended.fault.is_none()), "it copies")?;
        if !told {
            println!("holding");
            told = true;
        }
    }
}
