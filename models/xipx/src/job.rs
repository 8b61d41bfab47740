//! Setup of a job's shared memory and of the channels that carry interrupts.
//!
//! There are two channels between any two nodes, one for the interrupts of each. Every node sends the length
//! of its FIFOs over the channel that it interrupts with. Then node 0 creates a region that all of them can
//! map, and sends each a capability over the same channels. They stay open: a channel ends with its node.

use std::time::Duration;

use tombolo::region::{CapabilityId, Flushed, MapOptions, Mapping, Region, RegionOptions, Rights};
use tombolo::{Channel, ChannelOptions, Domain};
use tombolo_base::SharedMemory;
use tombolo_placement::Kernels;

use crate::error::XipxError;
use crate::layout::{DEFAULT_FIFO_BYTES, Layout, MAX_NODES};

/// Startup timeout for other nodes: emulated nodes are slow to start programs.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// First number of a hello, which identifies the version of the format.
const VERSION: u64 = 0x5849_5058_0000_0001;

/// Slots of an interrupt channel: at most two interrupts are pending.
const SLOTS: u32 = 16;

const MAP: MapOptions = MapOptions { address: None, alignment_bytes: 0, populate: true };

/// Options of a node that joins a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinOptions {
    /// Length of the FIFO from each node to each other, in bytes, a multiple of 128; a message takes at most
    /// half of it. Must be the same on all nodes.
    pub fifo_bytes: usize,
    /// Node 0 only: the window for the memory, by its name or that of its node. By default the first one
    /// that all nodes can map; no window if they run on one kernel.
    pub window: Option<String>,
    /// How long an operation polls before it sleeps.
    pub spin: Duration,
}

impl Default for JoinOptions {
    /// 16 KiB, 50 µs: about the cost of being woken.
    fn default() -> Self {
        JoinOptions { fifo_bytes: DEFAULT_FIFO_BYTES, window: None, spin: Duration::from_micros(50) }
    }
}

/// The memory of a job.
pub(crate) enum Memory {
    Coherent(SharedMemory),
    Flushed(SharedMemory<Flushed>),
}

/// The channels to another node.
pub(crate) struct Doorbells {
    /// Carries interrupts to the other node.
    pub(crate) outgoing: Channel,
    /// Carries interrupts from it.
    pub(crate) incoming: Channel,
}

/// A node that has joined its job.
pub(crate) struct Joined {
    pub(crate) layout: Layout,
    pub(crate) own: u16,
    pub(crate) memory: Memory,
    /// Channels by node number; `None` for this node.
    pub(crate) doorbells: Vec<Option<Doorbells>>,
    /// The names of the nodes.
    pub(crate) names: Vec<String>,
    /// The region at node 0, kept alive while the node runs.
    pub(crate) region: Option<Region>,
}

pub(crate) fn join(domain: &Domain, options: &JoinOptions) -> Result<Joined, XipxError> {
    let domain = domain.within(JOIN_TIMEOUT);
    let job = domain.job()?.within(JOIN_TIMEOUT);
    let (own, size) = (job.rank(), job.size());
    if size as usize > MAX_NODES {
        return Err(XipxError::too_many(size));
    }
    let layout = Layout::new(size as usize, options.fifo_bytes).ok_or_else(|| {
        XipxError::refused(format!(
            "FIFOs of {} bytes; use a multiple of 128 from 256 to 67108864",
            options.fifo_bytes
        ))
    })?;
    let mut doorbells = Vec::new();
    for other in 0..size {
        doorbells.push(if other == own { None } else { Some(open_doorbells(&domain, &job, other)?) });
    }
    let hello = SetupMessage::Hello { fifo_bytes: options.fifo_bytes as u64 };
    for doorbells in doorbells.iter_mut().flatten() {
        doorbells.outgoing.send(&hello.to_bytes()).map_err(XipxError::from)?;
    }
    let name = |doorbells: &Option<Doorbells>| {
        doorbells.as_ref().map_or(domain.node_name(), |doorbells| doorbells.outgoing.peer_node()).to_owned()
    };
    let names: Vec<String> = doorbells.iter().map(name).collect();
    let found = check_hellos(&mut doorbells, &names, options.fifo_bytes as u64);
    let (mapping, region) = if own == 0 {
        let created = found.and_then(|()| create_memory(&domain, &names, layout, options.window.clone()));
        distribute_memory(&mut doorbells, created)?
    } else {
        (map_memory(&domain, &mut doorbells)?, None)
    };
    let memory = match (mapping.flushed_memory()?, mapping.memory()) {
        (Some(view), _) => Memory::Flushed(view),
        (None, Some(memory)) => Memory::Coherent(memory),
        (None, None) => return Err(XipxError::refused("the memory cannot be mapped")),
    };
    Ok(Joined { layout, own: own as u16, memory, doorbells, names, region })
}

/// Opens the channels to another node. The one with the lower number waits for the other.
fn open_doorbells(domain: &Domain, job: &tombolo::Job, other: u32) -> Result<Doorbells, XipxError> {
    let options = ChannelOptions::default().slots(SLOTS)?.spin_ns(0).timeout(JOIN_TIMEOUT);
    let name = |kind| job.name_between(kind, other).map_err(tombolo::Error::from);
    let (low, high) = (name("xipx/low")?, name("xipx/high")?);
    if job.rank() < other {
        let (low, high) = (options.export(domain, &low)?, options.export(domain, &high)?);
        let accept = |listener: tombolo::Listener| listener.within(JOIN_TIMEOUT).accept();
        Ok(Doorbells { outgoing: accept(low)?, incoming: accept(high)? })
    } else {
        let (low, high) = (options.connect(domain, &low)?, options.connect(domain, &high)?);
        Ok(Doorbells { outgoing: high, incoming: low })
    }
}

/// Receives and checks the hello of every other node.
fn check_hellos(
    doorbells: &mut [Option<Doorbells>],
    names: &[String],
    fifo_bytes: u64,
) -> Result<(), XipxError> {
    for (node, doorbells) in doorbells.iter_mut().enumerate() {
        let Some(doorbells) = doorbells else { continue };
        let place = || format!("node {node} ({})", names[node]);
        match receive(&mut doorbells.incoming)? {
            Some(SetupMessage::Hello { fifo_bytes: other }) if other == fifo_bytes => {}
            Some(SetupMessage::Hello { fifo_bytes: other }) => {
                return Err(XipxError::refused(format!(
                    "{} has FIFOs of {other} bytes, this node of {fifo_bytes}; start all with the same",
                    place()
                )));
            }
            _ => return Err(XipxError::refused(format!("{} is of another version", place()))),
        }
    }
    Ok(())
}

/// Creates the memory in a place that all nodes can map.
fn create_memory(
    domain: &Domain,
    names: &[String],
    layout: Layout,
    window: Option<String>,
) -> Result<(Mapping, Region), XipxError> {
    let kernels = Kernels::new(&domain.nodes()?, names.to_vec());
    let window = match window {
        Some(window) => Some(window),
        None => kernels.window(&domain.windows()?)?,
    };
    let options = RegionOptions::new(layout.total_bytes() as u64);
    let options = match &window {
        Some(window) => options.in_window_of(window),
        None => options,
    };
    let region = domain.create_region(&options)?;
    Ok((region.map_with(Rights::READ_WRITE, MAP)?, region))
}

/// Sends all other nodes a capability for the memory, or the reason why there is none.
fn distribute_memory(
    doorbells: &mut [Option<Doorbells>],
    created: Result<(Mapping, Region), XipxError>,
) -> Result<(Mapping, Option<Region>), XipxError> {
    let (mapping, region) = match created {
        Ok(created) => created,
        Err(error) => {
            let refusal = SetupMessage::Refusal(error.to_string()).to_bytes();
            // Errors are ignored: a node that has ended needs no reply.
            doorbells.iter_mut().flatten().for_each(|doorbells| drop(doorbells.outgoing.send(&refusal)));
            return Err(error);
        }
    };
    for doorbells in doorbells.iter_mut().flatten() {
        let capability = region.grant(doorbells.outgoing.peer(), Rights::READ_WRITE)?.id.0;
        doorbells.outgoing.send(&SetupMessage::Welcome { capability }.to_bytes())?;
    }
    Ok((mapping, Some(region)))
}

/// Waits for node 0's memory and maps it; called by the other nodes.
fn map_memory(domain: &Domain, doorbells: &mut [Option<Doorbells>]) -> Result<Mapping, XipxError> {
    let first = doorbells.first_mut().and_then(Option::as_mut);
    let first = first.ok_or_else(|| XipxError::refused("there is no node 0"))?;
    match receive(&mut first.incoming)? {
        Some(SetupMessage::Welcome { capability }) => {
            Ok(domain.capability(CapabilityId(capability))?.map_with(Rights::READ_WRITE, MAP)?)
        }
        Some(SetupMessage::Refusal(why)) => Err(XipxError::Refused { why }),
        _ => Err(XipxError::refused("node 0 is of another version")),
    }
}

/// Messages between nodes before the memory is mapped.
#[derive(Clone, PartialEq, Eq, Debug)]
enum SetupMessage {
    Hello { fifo_bytes: u64 },
    Welcome { capability: u64 },
    Refusal(String),
}

impl SetupMessage {
    fn to_bytes(&self) -> Vec<u8> {
        let (numbers, text): (&[u64], &str) = match self {
            SetupMessage::Hello { fifo_bytes } => (&[1, VERSION, *fifo_bytes], ""),
            SetupMessage::Welcome { capability } => (&[2, *capability], ""),
            SetupMessage::Refusal(why) => (&[3], why),
        };
        // Far below the maximum message length of a channel.
        let text = text.bytes().take(320);
        numbers.iter().copied().flat_map(u64::to_le_bytes).chain(text).collect()
    }

    /// Decodes a message; `None` if it is not one of this version.
    fn from_bytes(bytes: &[u8]) -> Option<SetupMessage> {
        let (words, rest) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        match (numbers.as_slice(), rest) {
            ([3, ..], _) => Some(SetupMessage::Refusal(String::from_utf8_lossy(&bytes[8..]).into_owned())),
            ([1, VERSION, fifo_bytes], []) => Some(SetupMessage::Hello { fifo_bytes: *fifo_bytes }),
            ([2, capability], []) => Some(SetupMessage::Welcome { capability: *capability }),
            _ => None,
        }
    }
}

fn receive(channel: &mut Channel) -> Result<Option<SetupMessage>, XipxError> {
    let mut bytes = Vec::new();
    channel.within(JOIN_TIMEOUT).recv_into(&mut bytes)?;
    Ok(SetupMessage::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_messages_round_trip_and_invalid_ones_are_refused() {
        let all = [
            SetupMessage::Hello { fifo_bytes: 4096 },
            SetupMessage::Welcome { capability: 7 << 40 },
            SetupMessage::Refusal("no window".to_owned()),
        ];
        for words in all {
            let mut bytes = words.to_bytes();
            assert_eq!(SetupMessage::from_bytes(&bytes), Some(words.clone()));
            if !matches!(words, SetupMessage::Refusal(_)) {
                bytes.pop();
                assert_eq!(SetupMessage::from_bytes(&bytes), None);
            }
        }
        for words in [&[][..], &[4], &[1, 9, 4096], &[2, 1, 1]] {
            let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
            assert_eq!(SetupMessage::from_bytes(&bytes), None, "{words:?}");
        }
    }
}
