//! Regions that one domain lends and another borrows.

use tombolo::error::Fault;
use tombolo::region::{
    Capability, CapabilityFault, CapabilityId, Extent, MapOptions, Mapping, RegionOptions, Rights,
};
use tombolo::{Channel, Domain, Error};
use tombolo_admin::Machine;

use crate::{Outcome, PATIENCE};

pub(crate) const PAGE_BYTES: u64 = 4096;
const PAGES: u64 = 4;
const ALIGNMENT_BYTES: usize = 1 << 18;

/// Options of a region at a place: `memory:NODE` or `window:NODE`.
pub(crate) fn options(place: &str) -> Result<RegionOptions, Box<dyn std::error::Error>> {
    let options = RegionOptions::new(PAGES * PAGE_BYTES - 100);
    match place.split_once(':') {
        Some(("memory", node)) => Ok(options.on(node)),
        Some(("window", node)) => {
            Ok(options.in_window_of(node).alignment_bytes(ALIGNMENT_BYTES as u64).coherent())
        }
        _ => Err(format!("no such place: {place}").into()),
    }
}

pub(crate) fn send_number(channel: &mut Channel, number: u64) -> Outcome {
    Ok(channel.send(&number.to_le_bytes())?)
}

pub(crate) fn receive_number(channel: &mut Channel) -> Result<u64, Box<dyn std::error::Error>> {
    let mut message = Vec::new();
    channel.recv_into(&mut message)?;
    Ok(u64::from_le_bytes(message.as_slice().try_into()?))
}

/// Returns test data in which every byte depends on its position.
pub(crate) fn pattern(seed: u8, length_bytes: usize) -> Vec<u8> {
    (0..length_bytes).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

pub(crate) fn refused<T>(outcome: Result<T, Error>) -> Result<CapabilityFault, Box<dyn std::error::Error>> {
    match outcome {
        Err(Error::Monitor(Fault::Capability { fault })) => Ok(fault),
        Err(other) => Err(format!("refused in another way: {other}").into()),
        Ok(_) => Err("not refused".into()),
    }
}

pub(crate) fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Creates a region, grants a client read access to all of it and write access to a part, and checks what the
/// client wrote.
pub(crate) fn lend(name: &str, place: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = domain.export(name)?;
    println!("serving");
    let mut channel = listener.accept()?;
    let peer = channel.peer();
    let region = domain.create_region(&options(place)?)?;
    require(region.length_bytes() == PAGES * PAGE_BYTES, "the length is rounded up to pages")?;
    let mapping = region.map(Rights::READ_WRITE)?;
    let whole = pattern(1, mapping.length_bytes());
    let mut zeros = vec![9; mapping.length_bytes()];
    mapping.read(0, &mut zeros)?;
    require(zeros.iter().all(|byte| *byte == 0), "a new region is all zeros")?;
    mapping.write(0, &whole)?;
    let to_read = region.grant(peer, Rights::READ)?;
    let part = Extent::new(PAGE_BYTES, 2 * PAGE_BYTES);
    let to_write = region.grant_part(peer, part, Rights::READ_WRITE)?;
    for number in [region.id(), to_read.id, to_write.id] {
        send_number(&mut channel, number.0)?;
    }
    if receive_number(&mut channel)? == 0 {
        println!("not reachable");
        return Ok(());
    }
    let mut found = vec![0; mapping.length_bytes()];
    mapping.read(0, &mut found)?;
    let (start, end) = (PAGE_BYTES as usize, 3 * PAGE_BYTES as usize);
    require(found[..start] == whole[..start] && found[end..] == whole[end..], "the rest is as it was")?;
    require(found[start..end] == pattern(2, end - start), "what the other wrote is there")?;
    let shown = region.show()?;
    // At least: capabilities that the client derived and dropped may still be counted.
    require(shown.region.capabilities >= 3 && shown.region.mappings >= 2, "both have it")?;
    send_number(&mut channel, 1)?;
    // The client drops both; the region ends with this program's own mapping and capability.
    receive_number(&mut channel)?;
    let id = region.region();
    drop((mapping, region));
    let until = std::time::Instant::now() + PATIENCE;
    while Machine::of(&domain).regions()?.iter().any(|left| left.id == id) {
        require(std::time::Instant::now() < until, "the region goes with its last user")?;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    println!("lent and returned");
    Ok(())
}

/// Borrows the region of [`lend`] and attempts forbidden operations.
pub(crate) fn borrow(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut channel = domain.connect(name)?;
    let mut next = || receive_number(&mut channel).map(CapabilityId);
    let (theirs, to_read, to_write) = (next()?, next()?, next()?);
    require(
        matches!(refused(domain.capability(theirs))?, CapabilityFault::NotYours { .. }),
        "another's capability is of no use",
    )?;
    let never = CapabilityId(to_write.0 + 1_000_000);
    require(
        matches!(refused(domain.capability(never))?, CapabilityFault::Gone { .. }),
        "nor is one that nobody was given",
    )?;
    let (reading, writing) = (domain.capability(to_read)?, domain.capability(to_write)?);
    let mapping = match reading.map(Rights::READ) {
        Err(Error::Monitor(Fault::Capability { fault: CapabilityFault::NotReachable { .. } })) => {
            println!("not reachable");
            return send_number(&mut channel, 0);
        }
        other => other?,
    };
    let mut found = vec![0; mapping.length_bytes()];
    mapping.read(0, &mut found)?;
    require(found == pattern(1, found.len()), "what the lender wrote is there")?;
    check_limits(&domain, &channel, &reading, &writing)?;
    let aligned = MapOptions { alignment_bytes: ALIGNMENT_BYTES, ..MapOptions::default() };
    let part = writing.map_with(Rights::READ_WRITE, aligned)?;
    require(part.as_ptr().addr() % ALIGNMENT_BYTES == 0, "a mapping is aligned")?;
    check_addresses(&mapping, &part)?;
    part.write(0, &pattern(2, part.length_bytes()))?;
    require(part.write(part.length_bytes() - 3, b"four").is_err(), "nothing is written beyond the end")?;
    mapping.read(PAGE_BYTES as usize, &mut found[..8])?;
    require(found[..8] == pattern(2, 8), "both mappings are of one memory")?;
    send_number(&mut channel, 1)?;
    receive_number(&mut channel)?;
    drop((mapping, part, reading, writing));
    send_number(&mut channel, 2)?;
    println!("borrowed from {}", channel.peer_node());
    Ok(())
}

/// Checks address translation between a mapping of the whole region and one of its second and third page.
fn check_addresses(whole: &Mapping, part: &Mapping) -> Outcome {
    let page = PAGE_BYTES as usize;
    let (first, end) = (part.as_ptr(), part.as_ptr().wrapping_add(part.length_bytes()));
    require(part.offset_of(first) == Some(PAGE_BYTES), "an address is an offset in the region")?;
    require(part.offset_of(end).is_none() && part.offset_of(whole.as_ptr()).is_none(), "inside only")?;
    let there = part.offset_of(first.wrapping_add(9)).and_then(|offset| whole.address_of(offset));
    require(there == Some(whole.as_ptr().wrapping_add(page + 9)), "and an offset an address elsewhere")?;
    require(part.address_of(0).is_none() && part.address_of(3 * PAGE_BYTES).is_none(), "of this part only")
}

fn check_limits(domain: &Domain, channel: &Channel, reading: &Capability, writing: &Capability) -> Outcome {
    use CapabilityFault::{BadExtent, Lacks, Unaligned};
    let fault = |outcome: Result<Capability, Error>| refused(outcome);
    let lacks = |found: CapabilityFault, needed| matches!(found, Lacks { needed: of, .. } if of == needed);
    require(
        lacks(refused(reading.map(Rights::READ_WRITE))?, Rights::READ_WRITE),
        "what is for reading is not written",
    )?;
    require(lacks(fault(reading.derive(None, Rights::ALL))?, Rights::ALL), "rights do not grow")?;
    let granted = refused(writing.grant(channel.peer(), Rights::READ))?;
    require(lacks(granted, Rights::READ | Rights::GRANT), "to grant takes the right to grant")?;
    let all = writing.extent().length_bytes;
    for (offset, length) in [(0, all + 1), (all, 1), (PAGE_BYTES, all), (0, 0), (u64::MAX, 2)] {
        let beyond = fault(writing.derive(Some(Extent::new(offset, length)), Rights::READ))?;
        require(matches!(beyond, BadExtent { .. }), "a part lies inside")?;
    }
    for (offset, length) in [(1, PAGE_BYTES), (0, PAGE_BYTES - 1), (8, 8)] {
        let odd = fault(writing.derive(Some(Extent::new(offset, length)), Rights::READ))?;
        require(matches!(odd, Unaligned { unit_bytes: PAGE_BYTES, .. }), "a part is of whole pages")?;
    }
    let part = writing.derive(Some(Extent::new(PAGE_BYTES, PAGE_BYTES)), Rights::READ)?;
    require(
        part.extent() == Extent::new(2 * PAGE_BYTES, PAGE_BYTES),
        "parts of parts are counted from their start",
    )?;
    let mapping = part.map(Rights::READ)?;
    let refused = mapping.write(0, b"no");
    require(matches!(refused, Err(Error::Monitor(Fault::Capability { .. }))), "nor by the mapping")?;
    let ids: Vec<u64> = domain.capabilities()?.iter().map(|held| held.id.0).collect();
    require(ids == [reading.id().0, writing.id().0, part.id().0], "it holds three capabilities")
}
