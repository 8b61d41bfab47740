//! Setup of the memory shared by the ranks of a job.
//!
//! Rank 0 exports a name of the job, and every other rank connects to it and sends what it was built for.
//! Then rank 0 creates a region that all of them can map and grants it to each. The channels stay open:
//! through them ranks learn that one has ended ([`Liveness`]).

mod create;
mod liveness;
mod wire;

use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::region::{Capability, CapabilityId, Mapping};
use tombolo::{Channel, ChannelOptions, Domain, Error};
use tombolo_base::SharedMemory;
use tombolo_base::coherence::Flushed;

pub use liveness::{Backoff, Liveness};
pub(crate) use wire::Hello;

use crate::failure::Failure;
use crate::layout::{BUFFER_UNIT_BYTES, Layout, MAX_BUFFER_BYTES, MAX_RANKS, MAX_SHARED_BYTES};
use crate::system;
use wire::Message;

/// Startup timeout for other ranks: emulated nodes are slow to start programs.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Name within the job under which rank 0 listens for the others.
const NAME: &str = "rcce";

/// Environment variable with the length of message buffers, in bytes, to make them longer than the program
/// was built for.
pub const BUFFER_VARIABLE: &str = "TOMBOLO_RCCE_BUFFER";

/// Environment variable with the length of the memory for `RCCE_shmalloc`, in bytes.
pub const SHARED_VARIABLE: &str = "TOMBOLO_RCCE_SHARED";

/// Default length of the memory for `RCCE_shmalloc`, in bytes.
const DEFAULT_SHARED_BYTES: usize = 1 << 20;

/// The memory of a job.
#[derive(Debug)]
pub enum Memory {
    /// Memory that is coherent for all ranks.
    Coherent(SharedMemory),
    /// Memory that some of the ranks access through a non-coherent window.
    Flushed(SharedMemory<Flushed>),
}

/// A rank that has joined its job.
#[derive(Debug)]
pub struct Joined {
    /// Domain of this program.
    pub domain: Domain,
    /// Prefix of names that is unique to the job.
    pub job: String,
    /// Number of this rank.
    pub rank: usize,
    /// The memory of the job.
    pub memory: Memory,
    /// Layout of the memory.
    pub layout: Layout,
    /// Channels to other ranks.
    pub liveness: Liveness,
    /// Capability for the region at rank 0, kept while the job runs.
    pub region: Option<Capability>,
}

/// Joins the job that this program was started in. It was built for message buffers of `built_for_bytes`.
///
/// # Errors
/// [`Failure`], always a fatal one.
pub fn join(built_for_bytes: usize) -> Result<Joined, Failure> {
    let domain = system::attach().map_err(fatal_error)?.within(JOIN_TIMEOUT);
    let job = domain
        .job()
        .map_err(|error| Failure::fatal(format!("{error}, or `tombolo rccerun -nue COUNT PROGRAM`")))?;
    let (rank, ranks) = (job.rank() as usize, job.size() as usize);
    if ranks > MAX_RANKS {
        return Err(Failure::fatal(format!("a job has at most {MAX_RANKS} ranks; this one has {ranks}")));
    }
    let layout = Layout {
        ranks,
        buffer_bytes: buffer_bytes(built_for_bytes, variable(BUFFER_VARIABLE)?)?,
        shared_bytes: variable(SHARED_VARIABLE)?.unwrap_or(DEFAULT_SHARED_BYTES).next_multiple_of(128),
    };
    if !layout.is_valid() {
        return Err(Failure::fatal(format!("{SHARED_VARIABLE} is too large: {} bytes", layout.shared_bytes)));
    }
    let name = job.name(NAME);
    let hello = Hello { rank, built_for_bytes, layout };
    let (mapping, region, liveness) =
        if rank == 0 { create::create_job(&domain, &name, hello)? } else { join_job(&domain, &name, hello)? };
    let memory = mapping.memory().filter(|memory| memory.len_bytes() >= layout.total_bytes());
    let memory = memory.ok_or_else(|| Failure::fatal("the job's region is shorter than its layout"))?;
    let memory = match mapping.flushed_memory().map_err(fatal_error)? {
        Some(view) => Memory::Flushed(view),
        None => Memory::Coherent(memory),
    };
    Ok(Joined { job: job.id().to_owned(), domain, rank, memory, layout, liveness, region })
}

pub(crate) fn fatal_error(error: Error) -> Failure {
    Failure::fatal(error.to_string())
}

/// Returns the options of channels, which carry few small messages.
fn channel_options() -> Result<ChannelOptions, Failure> {
    ChannelOptions::default().slots(8).map_err(fatal_error)
}

/// Parses an environment variable as a number of bytes.
fn variable(name: &str) -> Result<Option<usize>, Failure> {
    let Some(text) = system::variable(name) else { return Ok(None) };
    let number = text.parse().ok().filter(|bytes| *bytes <= MAX_SHARED_BYTES);
    number.map(Some).ok_or_else(|| Failure::fatal(format!("{name} is '{text}'; write a number of bytes")))
}

/// Returns the length of message buffers: the configured one, which must not be below the built-in one.
fn buffer_bytes(built_for: usize, configured: Option<usize>) -> Result<usize, Failure> {
    let length = configured.unwrap_or(built_for);
    if length < built_for {
        return Err(Failure::fatal(format!(
            "this program was built for message buffers of {built_for} bytes (RCCE_BUFF_SIZE_MAX), and \
             {BUFFER_VARIABLE} gives it {length}; build it with -DRCCE_BUFF_SIZE_MAX={length}, or give it more"
        )));
    }
    let is_valid =
        (BUFFER_UNIT_BYTES..=MAX_BUFFER_BYTES).contains(&length) && length.is_multiple_of(BUFFER_UNIT_BYTES);
    if !is_valid {
        return Err(Failure::fatal(format!(
            "message buffers cannot have {length} bytes; choose a multiple of {BUFFER_UNIT_BYTES} up to \
             {MAX_BUFFER_BYTES}"
        )));
    }
    Ok(length)
}

/// The memory, the creator's capability for it, and the channels to other ranks.
pub(crate) type Parts = (Mapping, Option<Capability>, Liveness);

/// Connects to rank 0 and maps the memory; called by all other ranks.
fn join_job(domain: &Domain, name: &str, own: Hello) -> Result<Parts, Failure> {
    let mut channel = channel_options()?
        .connect(domain, name)
        .map_err(|error| Failure::fatal(format!("rank 0 did not call RCCE_init: {error}")))?;
    let rank = own.rank;
    channel.send(&Message::Hello(own).to_bytes()).map_err(fatal_error)?;
    match receive(&mut channel)? {
        Message::Welcome { capability, ranks_on_kernel } => {
            let capability = domain.capability(CapabilityId(capability)).map_err(fatal_error)?;
            let mapping = system::map(&capability)?;
            Ok((mapping, None, Liveness::new(rank, vec![(0, channel)], ranks_on_kernel)))
        }
        Message::Refusal(why) => Err(Failure::fatal(why)),
        _ => Err(Failure::fatal("rank 0 answered with something else than the job's memory")),
    }
}

fn receive(channel: &mut Channel) -> Result<Message, Failure> {
    let mut bytes = Vec::new();
    channel
        .within(JOIN_TIMEOUT)
        .recv_into(&mut bytes)
        .map_err(|error| Failure::fatal(format!("in RCCE_init: {error}")))?;
    let node = channel.peer_node();
    Message::from_bytes(&bytes).ok_or_else(|| {
        Failure::fatal(format!("a rank on {node} has another version of this library; build all with one"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_at_least_as_long_as_built_for() {
        assert_eq!(buffer_bytes(8192, None), Ok(8192));
        assert_eq!(buffer_bytes(8192, Some(65536)), Ok(65536));
        let text = |built, given| buffer_bytes(built, given).unwrap_err().text;
        assert!(text(16384, Some(8192)).contains("-DRCCE_BUFF_SIZE_MAX=8192"));
        assert!(text(100, None).contains("multiple of 128"));
        assert!(text(8192, Some(MAX_BUFFER_BYTES + 128)).contains("multiple of 128"));
    }
}
