//! Startup of rank 0, which waits for the others and creates the memory.

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::region::{Capability, Mapping, RegionOptions, Rights};
use tombolo::{Channel, Domain, Error};
use tombolo_placement::{Kernels, NoCommonWindow};

use super::wire::{Hello, Message};
use super::{
    BUFFER_VARIABLE, JOIN_TIMEOUT, Liveness, Parts, SHARED_VARIABLE, channel_options, fatal_error, receive,
};
use crate::failure::Failure;
use crate::layout::Layout;
use crate::system;

impl From<NoCommonWindow> for Failure {
    fn from(error: NoCommonWindow) -> Failure {
        Failure::fatal(error.to_string())
    }
}

/// Waits for all ranks and creates the memory; called by rank 0.
pub(super) fn create_job(domain: &Domain, name: &str, own: Hello) -> Result<Parts, Failure> {
    let mut others = accept_ranks(domain, name, own.layout.ranks)?;
    let made = check_equal(&own, &others).and_then(|()| make_region(domain, &others, own.layout));
    let (region, mapping, places) = match made {
        Ok(made) => made,
        Err(failure) => {
            let refusal = Message::Refusal(failure.text.clone()).to_bytes();
            // The others end like this rank. Errors are ignored: one may be gone already.
            others.iter_mut().for_each(|(channel, _)| drop(channel.send(&refusal)));
            return Err(failure);
        }
    };
    for (channel, _) in &mut others {
        let capability = region.grant(channel.peer(), Rights::READ_WRITE).map_err(fatal_error)?.id.0;
        let ranks_on_kernel = places.ranks_on_kernel(channel.peer_node());
        channel.send(&Message::Welcome { capability, ranks_on_kernel }.to_bytes()).map_err(fatal_error)?;
    }
    let ranks_on_kernel = places.ranks_on_kernel(domain.node_name());
    let channels = others.into_iter().map(|(channel, hello)| (hello.rank, channel)).collect();
    Ok((mapping, Some(region), Liveness::new(0, channels, ranks_on_kernel)))
}

/// Waits until every other rank has connected and sent its hello.
fn accept_ranks(domain: &Domain, name: &str, ranks: usize) -> Result<Vec<(Channel, Hello)>, Failure> {
    let mut others: Vec<(Channel, Hello)> = Vec::new();
    if ranks == 1 {
        return Ok(others);
    }
    let listener = channel_options()?.export(domain, name).map_err(fatal_error)?.within(JOIN_TIMEOUT);
    while others.len() + 1 < ranks {
        let mut channel = listener.accept().map_err(|error| missing_ranks(&error, &others, ranks))?;
        let Message::Hello(hello) = receive(&mut channel)? else {
            return Err(Failure::fatal("a rank did not start with what it was built for"));
        };
        if hello.rank == 0 || hello.rank >= ranks || others.iter().any(|(_, other)| other.rank == hello.rank)
        {
            return Err(Failure::fatal(format!("a program joined the job twice, or as rank {}", hello.rank)));
        }
        others.push((channel, hello));
    }
    others.sort_by_key(|(_, hello)| hello.rank);
    Ok(others)
}

/// Returns an error that names the missing ranks.
fn missing_ranks(error: &Error, others: &[(Channel, Hello)], ranks: usize) -> Failure {
    let absent = |rank: &usize| !others.iter().any(|(_, hello)| hello.rank == *rank);
    let absent: Vec<String> = (1..ranks).filter(absent).map(|rank| rank.to_string()).collect();
    Failure::fatal(format!("ranks that did not call RCCE_init: {}; {error}", absent.join(", ")))
}

/// Refuses ranks whose build or configuration differs from that of rank 0.
fn check_equal(own: &Hello, others: &[(Channel, Hello)]) -> Result<(), Failure> {
    for (channel, other) in others {
        let Hello { rank, built_for_bytes, layout } = *other;
        let node = channel.peer_node();
        if built_for_bytes != own.built_for_bytes {
            return Err(Failure::fatal(format!(
                "rank {rank} on {node} was built for message buffers of {built_for_bytes} bytes, rank 0 for {}; \
                 build all with the same RCCE_BUFF_SIZE_MAX",
                own.built_for_bytes
            )));
        }
        if layout != own.layout {
            return Err(Failure::fatal(format!(
                "rank {rank} on {node} has other lengths of buffers than rank 0 ({layout:?}, {:?}); set \
                 {BUFFER_VARIABLE} and {SHARED_VARIABLE} for all ranks",
                own.layout
            )));
        }
    }
    Ok(())
}

/// Creates the memory in a place that all ranks can map.
fn make_region(
    domain: &Domain,
    others: &[(Channel, Hello)],
    layout: Layout,
) -> Result<(Capability, Mapping, Kernels), Failure> {
    let nodes = others.iter().map(|(channel, _)| channel.peer_node().to_owned());
    let nodes: Vec<String> = core::iter::once(domain.node_name().to_owned()).chain(nodes).collect();
    let places = Kernels::new(&domain.nodes().map_err(fatal_error)?, nodes);
    let length = layout.total_bytes() as u64;
    let options = match places.window(&domain.windows().map_err(fatal_error)?)? {
        Some(window) => RegionOptions::new(length).in_window_of(&window),
        None => RegionOptions::new(length),
    };
    let region = system::create_region(domain, &options).map_err(|error| {
        Failure::fatal(format!(
            "{} ranks with message buffers of {} bytes need {length} bytes of shared memory: {error}",
            layout.ranks, layout.buffer_bytes
        ))
    })?;
    let mapping = system::map(&region)?;
    Ok((region, mapping, places))
}
