//! Memory that is revoked while others use it.

use std::time::{Duration, Instant};

use tombolo::error::Fault;
use tombolo::region::{CapabilityFault, CapabilityId, Mapping, RegionOptions, Rights};
use tombolo::{Channel, Error};

use crate::regions::{PAGE_BYTES, options, pattern, receive_number, refused, require, send_number};
use crate::{Outcome, PATIENCE};

/// Lends a region to `holders` clients. On a line of input, revokes it from all, prints the outcome, and
/// overwrites the memory. Ends at the end of input.
pub(crate) fn take_back(name: &str, place: &str, holders: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = domain.export(name)?;
    println!("serving");
    let region = domain.create_region(&options(place)?)?;
    let mapping = region.map(Rights::READ_WRITE)?;
    let length = mapping.length_bytes();
    mapping.write(0, &pattern(1, length))?;
    let mut channels: Vec<Channel> = Vec::new();
    for _ in 0..holders.parse::<usize>()? {
        let mut channel = listener.accept()?;
        let granted = region.grant(channel.peer(), Rights::READ | Rights::GRANT)?;
        send_number(&mut channel, granted.id.0)?;
        receive_number(&mut channel)?;
        channels.push(channel);
    }
    println!("lent");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    match region.revoke(PATIENCE) {
        Ok(revoked) => println!("took back {}, killed {}", revoked.removed, revoked.killed.len()),
        Err(Error::Monitor(Fault::Capability { fault: CapabilityFault::StillHeld { holders, .. } })) => {
            println!("still held by {}", holders.len());
        }
        Err(other) => return Err(other.into()),
    }
    // Holders must get an error, not these bytes. The window may be gone with its node.
    match mapping.write(0, &pattern(9, length)) {
        Ok(()) | Err(Error::Revoked { .. }) => println!("written anew"),
        Err(other) => return Err(other.into()),
    }
    while std::io::stdin().read_line(&mut line)? > 0 {}
    Ok(())
}

/// Borrows a region until it is revoked: `busy` reads all of it continuously, `idle` does not touch it, and
/// `deep` maps it by a capability derived from the granted one.
pub(crate) fn hold(name: &str, how: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut channel = domain.connect(name)?;
    let granted = domain.capability(CapabilityId(receive_number(&mut channel)?))?;
    let used = if how == "deep" { granted.derive(None, Rights::READ)? } else { granted.clone() };
    let mapping = used.map(Rights::READ)?;
    let read_before = check(&mapping)?;
    println!("holding");
    send_number(&mut channel, 1)?;
    let until = Instant::now() + PATIENCE;
    loop {
        require(Instant::now() < until, "it was never taken back")?;
        match how {
            "busy" | "deep" => match check(&mapping) {
                Ok(_) => {}
                Err(Error::Revoked { region }) => {
                    require(region == granted.region(), "another region was taken back")?;
                    break;
                }
                Err(other) => return Err(other.into()),
            },
            _ if mapping.is_revoked() => break,
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    }
    require(read_before == mapping.length_bytes(), "all of it was read before")?;
    // A revoked mapping refuses reads without a fault. Capabilities end as soon as all holders have unmapped
    // the region.
    require(matches!(check(&mapping), Err(Error::Revoked { .. })), "it is not given back")?;
    let gone = |fault: &CapabilityFault| {
        matches!(fault, CapabilityFault::Revoked { .. } | CapabilityFault::Gone { .. })
    };
    require(gone(&refused(used.map(Rights::READ))?), "nor mapped again")?;
    require(gone(&refused(granted.derive(None, Rights::READ))?), "nor is anything derived from it")?;
    println!("it was taken back");
    Ok(())
}

/// Reads the whole mapping. A read without an error must return the lender's data.
fn check(mapping: &Mapping) -> Result<usize, Error> {
    let mut found = vec![0; mapping.length_bytes()];
    mapping.read(0, &mut found)?;
    let expected = pattern(1, found.len());
    if found != expected {
        return Err(Error::NoMachine("what was read is not what was lent".into()));
    }
    Ok(found.len())
}

/// Seals regions in all ways, and creates a region of a file that is then truncated.
pub(crate) fn seal(path: &str) -> Outcome {
    let domain = crate::attach()?;
    let region = domain.create_region(&RegionOptions::new(2 * PAGE_BYTES))?;
    let writer = region.map(Rights::READ_WRITE)?;
    writer.write(0, b"before")?;
    require(matches!(refused(region.freeze())?, CapabilityFault::Mapped { .. }), "frozen under its writer")?;
    region.seal_to_sole_writer()?;
    require(
        matches!(refused(region.map(Rights::READ_WRITE))?, CapabilityFault::Sealed { .. }),
        "a second writer",
    )?;
    writer.write(0, b"during")?;
    drop(writer);
    let until = Instant::now() + PATIENCE;
    while let Err(error) = region.freeze() {
        // The monitor learns of the unmapping a moment later.
        let mapped =
            matches!(&error, Error::Monitor(Fault::Capability { fault: CapabilityFault::Mapped { .. } }));
        require(mapped && Instant::now() < until, &format!("not frozen: {error}"))?;
        std::thread::sleep(Duration::from_millis(2));
    }
    let reader = region.map(Rights::READ)?;
    let mut found = [0; 6];
    reader.read(0, &mut found)?;
    require(found == *b"during", "what was frozen is what was written")?;

    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    file.set_len(8192)?;
    let of_file = domain.region_of_file(&file, 8192)?;
    require(domain.region_of_file(&file, 8193).is_err(), "a region is not longer than its file")?;
    let mapping = of_file.map(Rights::READ_WRITE)?;
    mapping.write(8190, b"xy")?;
    require(std::fs::read(path)?[8190..] == *b"xy", "what is written is in the file")?;
    let to_read = domain.region_of_file(std::fs::File::open(path)?, 4096)?;
    require(to_read.rights() == Rights::READ | Rights::GRANT, "what is open for reading is not written")?;
    file.set_len(4096)?;
    require(mapping.read(8000, &mut found).is_err(), "a file that is shorter is an error, and no fault")?;
    require(
        matches!(refused(of_file.freeze())?, CapabilityFault::CannotSeal { .. }),
        "a file is not frozen",
    )?;

    let own = [7_u8; 100];
    let registered = domain.register_memory(own.as_ptr(), 100)?;
    require(
        matches!(refused(registered.map(Rights::READ))?, CapabilityFault::NotReachable { .. }),
        "it is copied",
    )?;
    let part = registered.derive(Some(tombolo::region::Extent::new(10, 50)), Rights::READ)?;
    let place = part.show()?.foreign.ok_or("nobody says where it is")?;
    let expected = (std::process::id() as i32, own.as_ptr().addr() as u64 + 10);
    require((place.pid, place.address) == expected, "it is said to be elsewhere")?;
    println!("sealed");
    Ok(())
}
