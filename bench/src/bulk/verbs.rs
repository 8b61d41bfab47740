//! The operations of pools, through the façade that programs use.

use std::sync::OnceLock;

use tombolo::{Buffer, BulkChannel, BulkOptions, Domain, Pool, PoolOptions, Shared, Trust};
use tombolo_bench_far::content::{check_words, fill_words};

use crate::suite::content::{check_sum, corrupt, fill_bulk, sum};
use crate::suite::peers::tombolo::attach;
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

/// Name of moved buffers between programs that trust each other.
pub const MOVED: &str = "pool: move";
/// Name of shared buffers between programs that trust each other.
pub const SHARED: &str = "pool: share";
/// Name of moved buffers with half trust.
pub const MOVED_WITH_HALF_TRUST: &str = "pool: move, half trust";
/// Name of shared buffers with half trust.
pub const SHARED_WITH_HALF_TRUST: &str = "pool: share, half trust";
/// Name of moved buffers without trust.
pub const MOVED_WITHOUT_TRUST: &str = "pool: move without trust";
/// Name of shared buffers without trust.
pub const SHARED_WITHOUT_TRUST: &str = "pool: share without trust";

/// Operation that transfers buffers to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    /// Moved, and passed back.
    Move,
    /// Shared, and released.
    Share,
}

/// Peer with the buffers of a pool.
#[derive(Debug)]
pub(super) struct Pools {
    verb: Verb,
    trust: Trust,
    domain: OnceLock<Domain>,
}

impl Pools {
    pub(super) fn new(verb: Verb, trust: Trust) -> Pools {
        Pools { verb, trust, domain: OnceLock::new() }
    }
}

impl Peer for Pools {
    fn name(&self) -> &'static str {
        match (self.verb, self.trust) {
            (Verb::Move, Trust::Full) => MOVED,
            (Verb::Share, Trust::Full) => SHARED,
            (Verb::Move, Trust::Half) => MOVED_WITH_HALF_TRUST,
            (Verb::Share, Trust::Half) => SHARED_WITH_HALF_TRUST,
            (Verb::Move, Trust::None) => MOVED_WITHOUT_TRUST,
            (Verb::Share, Trust::None) => SHARED_WITHOUT_TRUST,
        }
    }

    fn about(&self) -> String {
        let verb = match self.verb {
            Verb::Move => "moved there and passed back",
            Verb::Share => "shared and released",
        };
        let memory = match self.trust {
            Trust::Full => "of a pool that both map",
            Trust::Half => "each memory of its own, which the receiver maps once",
            Trust::None => "each memory of its own, which the kernel seals and the receiver maps",
        };
        format!("a bulk channel opened through the monitors with default options; buffers {memory}, {verb}")
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::BANDWIDTHS.to_vec();
        metrics.extend(Metric::TRANSFERS);
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let (bytes, count) = match metric {
            Metric::Bandwidth { bytes } => (bytes, buffers(bytes)),
            Metric::Transfer { bytes } => (bytes, 1),
            _ => return Err(Error::Unsupported),
        };
        let domain = attach(&self.domain)?;
        let options = BulkOptions::default().trust(self.trust);
        let (bulk, pool) = match meeting.side {
            Side::Near => {
                let listener = options.export(domain, meeting.name)?;
                let mut bulk = listener.accept()?;
                let pool =
                    domain.create_pool(&PoolOptions::new(bytes as u64, count as u32).trust(self.trust))?;
                bulk.assign(&pool)?;
                (bulk, pool)
            }
            Side::Far => {
                let mut bulk = options.connect(domain, meeting.name)?;
                let pool = bulk.recv_pool()?;
                (bulk, pool)
            }
        };
        Ok(AnyEnd::new(PoolEnd { verb: self.verb, bulk, pool, metadata: Vec::new(), back: None }))
    }
}

struct PoolEnd {
    verb: Verb,
    bulk: BulkChannel,
    pool: Pool,
    metadata: Vec<u8>,
    /// Returned buffer, which is sent again.
    back: Option<Buffer>,
}

/// Writes every byte of a buffer.
fn fill(buffer: &mut Buffer, sequence: u64) -> Result<(), Error> {
    if let Some(memory) = buffer.memory() {
        fill_words(memory.words(), sequence);
        return Ok(());
    }
    fill_bulk(buffer.bytes_mut()?, sequence);
    Ok(())
}

impl PoolEnd {
    fn hand_over(&mut self, buffer: Buffer) -> Result<(), Error> {
        match self.verb {
            Verb::Move => self.bulk.move_to(buffer, &[]).map_err(tombolo::Error::from)?,
            // After the drop, the buffer is free once the other side has released it.
            Verb::Share => drop(self.bulk.share(buffer, &[]).map_err(tombolo::Error::from)?),
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Held, Error> {
        Ok(match self.verb {
            Verb::Move => Held::Own(self.bulk.recv_moved(&mut self.metadata)?),
            Verb::Share => Held::Lent(self.bulk.recv_shared(&mut self.metadata)?),
        })
    }

    fn return_it(&mut self, held: Held) -> Result<(), Error> {
        match held {
            Held::Own(buffer) => self.bulk.pass(buffer, &[]).map_err(tombolo::Error::from)?,
            Held::Lent(shared) => self.bulk.release(shared, &[]).map_err(tombolo::Error::from)?,
        }
        Ok(())
    }
}

/// Received buffer, owned or shared.
enum Held {
    Own(Buffer),
    Lent(Shared),
}

impl Held {
    /// Reads and checks every byte.
    fn check(&self, sequence: u64) -> Result<(), Error> {
        let memory = match self {
            Held::Own(buffer) => buffer.memory(),
            Held::Lent(shared) => shared.memory(),
        };
        if let Some(memory) = memory {
            return Ok(check_words(memory.words(), sequence)?);
        }
        let bytes = match self {
            Held::Own(buffer) => buffer.bytes()?,
            Held::Lent(shared) => shared.bytes()?,
        };
        check_sum(sum(bytes), bytes.len(), sequence)
    }
}

impl End for PoolEnd {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let mut buffer = self.bulk.take(&self.pool)?;
        if buffer.len_bytes() != bytes as u64 {
            return Err(corrupt(sequence));
        }
        fill(&mut buffer, sequence)?;
        self.hand_over(buffer)
    }

    fn recv_bulk(&mut self, _bytes: usize, sequence: u64) -> Result<(), Error> {
        let held = self.receive()?;
        held.check(sequence)?;
        self.return_it(held)
    }

    fn lend(&mut self) -> Result<(), Error> {
        let buffer = match self.back.take() {
            Some(buffer) => buffer,
            None => self.bulk.take(&self.pool)?,
        };
        self.hand_over(buffer)?;
        // The pool has one buffer: taking it means that it is back.
        self.back = Some(self.bulk.take(&self.pool)?);
        Ok(())
    }

    fn give_back(&mut self) -> Result<(), Error> {
        let held = self.receive()?;
        self.return_it(held)
    }
}
