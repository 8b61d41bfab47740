//! Tombolo's channels through the façade that programs use.

use std::collections::VecDeque;
use std::sync::OnceLock;

use tombolo::channel::{Batch, NotAdded};
use tombolo::{Channel, ChannelOptions, Domain};
use tombolo_base::SharedMemory;
use tombolo_bench_far::content::{check_words, fill_words, wrong_words};

use super::bare;
use crate::SpinTimeout;
use crate::suite::content::{Aligned, check, corrupt, fill, word};
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

/// Name in tables and plots.
pub const NAME: &str = "Tombolo";
/// Name of the variant with deeper rings.
pub const DEEP: &str = "Tombolo with 1024 slots";
/// Name of the variant with longer slots.
pub const WIDE: &str = "Tombolo with 128 B slots";

/// Maximum number of messages in a batch; a batch must fit in the ring.
pub(crate) const BATCH: u64 = 32;

/// Channel with default options.
#[derive(Debug, Default)]
pub struct Facade {
    domain: OnceLock<Domain>,
}

/// Channel for streams, with deeper rings.
#[derive(Debug, Default)]
pub struct Deep {
    domain: OnceLock<Domain>,
}

/// Channel whose slots hold 64 bytes of payload.
#[derive(Debug, Default)]
pub struct Wide {
    domain: OnceLock<Domain>,
}

impl Peer for Facade {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "a channel opened through the monitors with default options: rings of 64 slots of 64 bytes, of which 56 are \
         payload; polls for 50 µs, then sleeps. Bulk data lies in shared buffers, which messages hand over"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.extend([48, 56].map(|bytes| Metric::RoundTrip { bytes }));
        metrics.push(Metric::WakeUp);
        metrics.extend([48, 56, 64].map(|bytes| Metric::Rate { bytes, batch: 1 }));
        metrics.extend([48, 56, 64].map(|bytes| Metric::Rate { bytes, batch: BATCH }));
        metrics.extend(Metric::BANDWIDTHS);
        metrics.extend(Metric::STANDING);
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        open(&self.domain, meeting, metric, ChannelOptions::default())
    }
}

impl Peer for Wide {
    fn name(&self) -> &'static str {
        WIDE
    }

    fn about(&self) -> String {
        "the same with slots of 128 bytes, of which 120 are payload: 64 bytes fit in one".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.extend([1, BATCH].map(|batch| Metric::Rate { bytes: 64, batch }));
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        open(&self.domain, meeting, metric, ChannelOptions::default().slot_bytes(128)?)
    }
}

impl Peer for Deep {
    fn name(&self) -> &'static str {
        DEEP
    }

    fn about(&self) -> String {
        "the same with rings of 1024 slots of 64 bytes, as programs that stream ask for".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        let rates = |bytes| [1, BATCH].map(|batch| Metric::Rate { bytes, batch });
        [56, 64].into_iter().flat_map(rates).collect()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        open(&self.domain, meeting, metric, ChannelOptions::default().slots(1024)?)
    }
}

fn open(
    domain: &OnceLock<Domain>,
    meeting: &Meeting<'_>,
    metric: Metric,
    options: ChannelOptions,
) -> Result<AnyEnd, Error> {
    let options = if metric == Metric::WakeUp { options.spin_ns(0) } else { options };
    let channel = channel(domain, meeting, &options)?;
    Ok(end(channel, meeting))
}

/// Returns this program's domain, attaching it on first use.
pub(crate) fn attach(domain: &OnceLock<Domain>) -> Result<&Domain, Error> {
    match domain.get() {
        Some(domain) => Ok(domain),
        None => {
            let attached = Domain::attach()?;
            Ok(domain.get_or_init(|| attached))
        }
    }
}

/// Opens this side's end of a channel between both programs through the monitors.
pub(crate) fn channel(
    domain: &OnceLock<Domain>,
    meeting: &Meeting<'_>,
    options: &ChannelOptions,
) -> Result<Channel, Error> {
    let domain = attach(domain)?;
    Ok(match meeting.side {
        Side::Near => options.export(domain, meeting.name)?.accept()?,
        Side::Far => options.connect(domain, meeting.name)?,
    })
}

/// Wraps an end of such a channel, for messages of any length.
pub(crate) fn end(channel: Channel, meeting: &Meeting<'_>) -> AnyEnd {
    AnyEnd::new(ChannelEnd { channel, pool: meeting.pool(), free: Free::default() })
}

struct ChannelEnd {
    channel: Channel,
    pool: SharedMemory,
    free: Free,
}

/// Buffers that this side may fill, in FIFO order. The most recently returned one would still be in the
/// peer's own cache, from which a line is fetched more slowly than from a cache shared by both; see ADR 0026.
#[derive(Default)]
struct Free {
    bytes: usize,
    queue: VecDeque<usize>,
}

impl ChannelEnd {
    /// Takes back the buffers that were read, waiting until at least one is free.
    fn take_back(&mut self, bytes: usize) -> Result<usize, Error> {
        if self.free.bytes != bytes {
            self.free = Free { bytes, queue: (0..buffers(bytes)).collect() };
        }
        let queue = &mut self.free.queue;
        self.channel.try_recv_batch(usize::MAX, |message| {
            queue.extend(message.read_u64_le(0).ok().map(|index| index as usize));
        })?;
        if let Some(index) = queue.pop_front() {
            return Ok(index);
        }
        let index = self.channel.recv_in_place(|message| message.read_u64_le(0))?;
        index.map(|index| index as usize).map_err(|_| corrupt(0))
    }
}

impl End for ChannelEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.channel.try_send(&message.0) {
                Ok(()) => return Ok(()),
                Err(tombolo::Error::WouldBlock) => spin_timeout.wait()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let wrong = self.channel.recv_in_place(|message| wrong::<N>(message, sequence))?;
        if wrong == 0 { Ok(()) } else { Err(corrupt(sequence)) }
    }

    #[inline(always)]
    fn send_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut spin_timeout = SpinTimeout::default();
        while sequence < end {
            let sent = self.channel.try_send_batch(|batch| {
                for sequence in sequence..end {
                    if push::<N>(batch, sequence).is_err() {
                        break;
                    }
                }
            })?;
            sequence += sent;
            if sent == 0 {
                spin_timeout.wait()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn recv_batch<const N: usize>(&mut self, first: u64, count: u64) -> Result<(), Error> {
        let (mut sequence, end) = (first, first + count);
        let mut spin_timeout = SpinTimeout::default();
        let mut bad = 0;
        while sequence < end {
            let most = BATCH.min(end - sequence) as usize;
            let received = self.channel.try_recv_batch(most, |message| {
                bad |= wrong::<N>(message, sequence);
                sequence += 1;
            })?;
            if bad != 0 {
                return Err(corrupt(sequence));
            }
            if received == 0 {
                spin_timeout.wait()?;
            }
        }
        Ok(())
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let index = self.take_back(bytes)?;
        fill_words(bare::place(&self.pool, bytes, index)?, sequence);
        Ok(self.channel.send(&(index as u64).to_le_bytes())?)
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let index = self.channel.recv_in_place(|message| message.read_u64_le(0))?;
        let index = index.map_err(|_| corrupt(sequence))?;
        // An index out of range is rejected like any other invalid index from a peer.
        check_words(bare::place(&self.pool, bytes, index as usize)?, sequence)?;
        Ok(self.channel.send(&index.to_le_bytes())?)
    }

    fn rings(&self) -> u64 {
        self.channel.stats().rings
    }
}

/// Adds a message to a batch. Lengths that are compared with the ring in C are passed as numbers, which it
/// has in registers as well.
#[inline(always)]
pub(crate) fn push<const N: usize>(batch: &mut Batch<'_>, sequence: u64) -> Result<(), NotAdded> {
    let word = |index| word(sequence, index);
    match N {
        48 => batch.push_words([word(0), word(1), word(2), word(3), word(4), word(5)]),
        56 => batch.push_words([word(0), word(1), word(2), word(3), word(4), word(5), word(6)]),
        64 => batch.push_words([word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)]),
        _ => {
            let mut message = [0; N];
            fill(&mut message, sequence);
            batch.push(&message)
        }
    }
}

/// Returns zero if every byte is correct; compares numbers for the lengths for which [`push`] passes them.
#[inline(always)]
pub(crate) fn wrong<const N: usize>(message: &tombolo::Message<'_>, sequence: u64) -> u64 {
    match N {
        48 => wrong_words(message.to_words::<6>(), sequence),
        56 => wrong_words(message.to_words::<7>(), sequence),
        64 => wrong_words(message.to_words::<8>(), sequence),
        _ => {
            let mut bytes = [0; N];
            let copied = message.copy_to(&mut bytes) == Ok(N);
            u64::from(!copied || check::<N>(&bytes, sequence).is_err())
        }
    }
}
