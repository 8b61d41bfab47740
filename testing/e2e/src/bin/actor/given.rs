//! Programs started with capabilities to parts of memory, to memory for a pool, and to a service.

use std::time::{Duration, Instant};

use tombolo::error::Fault;
use tombolo::region::{Capability, CapabilityFault, Extent, Kind, Rights};
use tombolo::{Channel, Domain, Error, Exit, Listener, PoolOptions, SpawnOptions};
use tombolo_admin::Machine;

use crate::regions::{PAGE_BYTES, options, pattern, receive_number, refused, require, send_number};
use crate::{Outcome, PATIENCE};

const BUFFER_BYTES: u64 = 512;

/// Capabilities given to a child, and the objects behind them.
struct Gifts {
    memory: Capability,
    frame: Capability,
    pool: Capability,
    listener: Listener,
    service: Capability,
}

fn pages(offset: u64, length: u64) -> Extent {
    Extent::new(offset * PAGE_BYTES, length * PAGE_BYTES)
}

impl Gifts {
    fn make(domain: &Domain, place: &str) -> Result<Gifts, Box<dyn std::error::Error>> {
        let memory = domain.create_region(&options(place)?)?.into_capability();
        let [frame] = <[Capability; 1]>::try_from(memory.split(Kind::Frame, &[pages(0, 1)])?)
            .map_err(|_| "one part was asked for")?;
        let [pool] = <[Capability; 1]>::try_from(memory.split(Kind::Pool, &[pages(2, 2)])?)
            .map_err(|_| "one part was asked for")?;
        let (listener, service) = domain.serve()?;
        require((frame.kind(), pool.kind()) == (Kind::Frame, Kind::Pool), "parts have kinds")?;
        require(listener.name().is_empty(), "a service without a name")?;
        Ok(Gifts { memory, frame, pool, listener, service })
    }

    fn child(&self, node: &str, does: &str) -> SpawnOptions {
        SpawnOptions::this_image()
            .on(node)
            .args(["given-take", does])
            .give("frame", &self.frame, Rights::READ_WRITE)
            .give("look", &self.frame, Rights::READ)
            .give_part("rest", &self.memory, pages(1, 1), Rights::READ_WRITE)
            .give("buffers", &self.pool, Rights::ALL)
            .give("service", &self.service, Rights::CONNECT)
    }

    /// Counts the existing capabilities to the memory and the service, of all holders.
    fn capabilities(&self, domain: &Domain) -> Result<u32, Error> {
        let regions = Machine::of(domain).regions()?;
        let ours = [self.memory.region(), self.service.region()];
        Ok(regions.iter().filter(|region| ours.contains(&region.id)).map(|region| region.capabilities).sum())
    }

    fn wait_for_own_capabilities(&self, domain: &Domain, what: &str) -> Outcome {
        let until = Instant::now() + PATIENCE;
        while self.capabilities(domain)? > 4 {
            require(Instant::now() < until, what)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Starts children on a node with capabilities to memory of a place, and checks that they leave nothing
/// behind.
pub(crate) fn give(node: &str, place: &str) -> Outcome {
    let domain = crate::attach()?;
    let gifts = Gifts::make(&domain, place)?;
    check_conflict_errors(&gifts)?;
    // A refused child.
    let nowhere = domain.spawn(&gifts.child("nowhere", "use"));
    require(matches!(nowhere, Err(Error::Monitor(Fault::NoSuchNode { .. }))), "there is no such node")?;
    let more = gifts.child(node, "use").give("more", &gifts.service, Rights::READ);
    let more = refused(domain.spawn(&more).map(|_| ()))?;
    require(matches!(more, CapabilityFault::Lacks { .. }), "rights do not grow")?;
    gifts.wait_for_own_capabilities(&domain, "a refused start leaves nothing")?;
    // A child that uses everything until it is revoked.
    let child = domain.spawn(&gifts.child(node, "use"))?;
    let mut channel = gifts.listener.accept()?;
    require(channel.peer() == child.id(), "the child came")?;
    require(receive_number(&mut channel)? == 1, "it has written")?;
    let mut found = vec![0; PAGE_BYTES as usize];
    gifts.frame.map(Rights::READ)?.read(0, &mut found)?;
    require(found == pattern(7, found.len()), "what the child wrote is there")?;
    let revoked = gifts.memory.revoke(PATIENCE)?;
    let service = gifts.service.revoke(PATIENCE)?;
    require((revoked.removed, service.removed) == (6, 1), "parts and what was given of them")?;
    send_number(&mut channel, 1)?;
    require(receive_number(&mut channel)? == 2, "the child has lost all of it")?;
    let ended = child.wait(PATIENCE)?;
    require(ended == Exit::Exited { status: 0 }, &format!("the child ended well: {ended:?}"))?;
    let whole = gifts.memory.map(Rights::READ)?;
    require(whole.length_bytes() as u64 == 4 * PAGE_BYTES, "all of the memory can be mapped again")?;
    drop((whole, gifts));
    check_killed_child(&domain, node, place)?;
    println!("given and taken back");
    Ok(())
}

/// Checks that memory can be neither mapped nor split where it already has parts, and that the error names
/// them.
fn check_conflict_errors(gifts: &Gifts) -> Outcome {
    let mapped = refused(gifts.memory.map(Rights::READ).map(|_| ()))?;
    let named =
        matches!(mapped, CapabilityFault::Split { part, kind: Kind::Pool, .. } if part == pages(2, 2));
    require(named, &format!("the part in the way is named: {mapped}"))?;
    let split = refused(gifts.memory.split(Kind::Frame, &[pages(1, 1), pages(3, 1)]).map(|_| ()))?;
    let named = matches!(split, CapabilityFault::Split { extent, .. } if extent == pages(3, 1));
    require(named, &format!("and the bytes that were asked for: {split}"))?;
    let raw = refused(gifts.pool.map(Rights::READ).map(|_| ()))?;
    require(matches!(raw, CapabilityFault::WrongKind { .. }), "a pool's memory is mapped by pools")
}

fn check_killed_child(domain: &Domain, node: &str, place: &str) -> Outcome {
    let gifts = Gifts::make(domain, place)?;
    let child = domain.spawn(&gifts.child(node, "hold"))?;
    let mut channel = gifts.listener.accept()?;
    require(receive_number(&mut channel)? == 1, "it holds")?;
    child.kill()?;
    child.wait(PATIENCE)?;
    gifts.wait_for_own_capabilities(domain, "a dead child leaves nothing")?;
    // A part merges back once its last capability is gone and the monitor knows that it is not mapped.
    let Gifts { memory, frame, pool, .. } = gifts;
    drop((frame, pool));
    let until = Instant::now() + PATIENCE;
    while let Err(error) = memory.map(Rights::READ_WRITE) {
        require(Instant::now() < until, &format!("the parts are given back: {error}"))?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs the child's side.
pub(crate) fn take(does: &str) -> Outcome {
    let domain = crate::attach()?;
    let frame = domain.given("frame")?;
    let (look, rest, service) = (domain.given("look")?, domain.given("rest")?, domain.given("service")?);
    require(matches!(domain.given("more"), Err(Error::Monitor(Fault::NotGiven { .. }))), "and nothing else")?;
    let lacks = refused(look.map(Rights::READ_WRITE).map(|_| ()))?;
    require(matches!(lacks, CapabilityFault::Lacks { .. }), "it may only look")?;
    let lacks = refused(service.grant(domain.id(), Rights::CONNECT | Rights::GRANT).map(|_| ()))?;
    require(matches!(lacks, CapabilityFault::Lacks { .. }), "the service is not its to pass on")?;
    let mapping = frame.map(Rights::READ_WRITE)?;
    mapping.write(0, &pattern(7, PAGE_BYTES as usize))?;
    let beside = rest.map(Rights::READ_WRITE)?;
    beside.write(0, b"what no part has")?;
    let buffers = domain.given("buffers")?;
    let pool = domain.create_pool_in(&buffers, &PoolOptions::new(BUFFER_BYTES, 16))?;
    require(pool.take()?.len_bytes() == BUFFER_BYTES, "it has a pool there")?;
    let too_long = domain.create_pool_in(&buffers, &PoolOptions::new(BUFFER_BYTES, 17));
    require(matches!(too_long, Err(Error::Os { .. })), "and no more of it than there is")?;
    let mut channel: Channel = domain.connect(&service)?;
    send_number(&mut channel, 1)?;
    if does == "hold" {
        std::thread::sleep(PATIENCE);
        return Err("nobody killed it".into());
    }
    receive_number(&mut channel)?;
    require(matches!(mapping.check(), Err(Error::Revoked { .. })), "its mapping is gone")?;
    require(pool.is_revoked(), "and its pool")?;
    let gone = refused(domain.connect(&service).map(|_| ()))?;
    require(matches!(gone, CapabilityFault::Gone { .. }), "and its way to the service")?;
    let gone = refused(domain.given("frame").map(|_| ()))?;
    require(matches!(gone, CapabilityFault::Gone { .. }), "and what it was started with")?;
    send_number(&mut channel, 2)
}
