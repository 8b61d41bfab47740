//! One end of a bulk channel between two nodes, for both sides of the measurement.

use std::time::Instant;

use tombolo::{Buffer, BulkChannel, Pool};

use crate::Error;
use crate::content::{check_words, fill_words};

/// Bulk channel with the operations that are measured on it.
#[derive(Debug)]
pub struct Mover {
    /// Bulk channel under measurement.
    pub bulk: BulkChannel,
    /// Message that came with the last buffer.
    pub metadata: Vec<u8>,
}

impl Mover {
    /// Wraps a bulk channel.
    #[must_use]
    pub fn new(bulk: BulkChannel) -> Mover {
        Mover { bulk, metadata: Vec::new() }
    }

    /// Waits for a buffer that is moved to this side.
    ///
    /// # Errors
    /// The channel fails.
    pub fn recv(&mut self) -> Result<Buffer, Error> {
        Ok(self.bulk.recv_moved(&mut self.metadata)?)
    }

    /// Passes a buffer to the other side, to be filled.
    ///
    /// # Errors
    /// The channel fails.
    pub fn pass(&mut self, buffer: Buffer) -> Result<(), Error> {
        Ok(self.bulk.pass(buffer, &[]).map_err(tombolo::Error::from)?)
    }

    /// Moves a buffer to the other side, to be read.
    ///
    /// # Errors
    /// The channel fails.
    pub fn move_to(&mut self, buffer: Buffer) -> Result<(), Error> {
        Ok(self.bulk.move_to(buffer, &[]).map_err(tombolo::Error::from)?)
    }

    /// Waits for a buffer that may be filled.
    ///
    /// # Errors
    /// The channel fails.
    pub fn take(&mut self, pool: &Pool) -> Result<Buffer, Error> {
        Ok(self.bulk.take(pool)?)
    }

    /// Transfers a buffer without touching it.
    ///
    /// # Errors
    /// The channel fails.
    pub fn lend(&mut self, pool: &Pool) -> Result<(), Error> {
        let buffer = self.take(pool)?;
        self.move_to(buffer)
    }

    /// Fills `count` buffers and moves them.
    ///
    /// # Errors
    /// The channel fails.
    pub fn give(&mut self, pool: &Pool, count: u64) -> Result<(), Error> {
        (0..count).try_for_each(|sequence| {
            let buffer = self.take(pool)?;
            fill(&buffer, sequence)?;
            self.move_to(buffer)
        })
    }

    /// Reads `count` buffers, and passes each back.
    ///
    /// # Errors
    /// The channel fails, or received data differs from what was sent.
    pub fn read(&mut self, count: u64) -> Result<(), Error> {
        (0..count).try_for_each(|sequence| {
            let buffer = self.recv()?;
            check(&buffer, sequence)?;
            self.pass(buffer)
        })
    }

    /// Passes back `count` buffers as they arrive.
    ///
    /// # Errors
    /// The channel fails.
    pub fn give_back(&mut self, count: u64) -> Result<(), Error> {
        (0..count).try_for_each(|_| {
            let buffer = self.recv()?;
            self.pass(buffer)
        })
    }

    /// Passes empty buffers of this side's pool to the other side: the pool's capacity, but at most `count`.
    /// Returns their number.
    ///
    /// # Errors
    /// The channel fails.
    pub fn pass_empty(&mut self, pool: &Pool, count: u64) -> Result<u64, Error> {
        let ahead = u64::from(pool.count()).min(count);
        for _ in 0..ahead {
            let buffer = self.take(pool)?;
            self.pass(buffer)?;
        }
        Ok(ahead)
    }

    /// Lets the other side fill `count` buffers of this side's pool, and reads them.
    ///
    /// # Errors
    /// The channel fails, or received data differs from what was sent.
    pub fn fetch(&mut self, pool: &Pool, count: u64) -> Result<(), Error> {
        let ahead = self.pass_empty(pool, count)?;
        for sequence in 0..count {
            let buffer = self.recv()?;
            check(&buffer, sequence)?;
            if sequence + ahead < count {
                self.pass(buffer)?;
            }
        }
        Ok(())
    }

    /// Returns the nanoseconds of a buffer's round trip: the mean of `count` rounds without the first. The
    /// buffer is filled each time if `filled`, otherwise untouched.
    ///
    /// # Errors
    /// The channel fails.
    pub fn round_trip_ns(&mut self, pool: &Pool, count: u64, filled: bool) -> Result<f64, Error> {
        // Keeps all buffers but one, so that each take returns the one that came back.
        let mut kept = Vec::new();
        while kept.len() + 1 < pool.count() as usize {
            kept.push(self.take(pool)?);
        }
        // The first round wakes the other side and is not counted.
        let mut began = Instant::now();
        for sequence in 0..count {
            if sequence == 1 {
                began = Instant::now();
            }
            let buffer = self.take(pool)?;
            if filled {
                fill(&buffer, sequence)?;
            }
            self.move_to(buffer)?;
            drop(self.take(pool)?);
        }
        Ok(began.elapsed().as_nanos() as f64 / count.saturating_sub(1).max(1) as f64)
    }
}

/// Returns the memory of a whole buffer.
///
/// # Errors
/// [`Error::Unexpected`] if the buffer is not mapped in this program.
pub fn memory(buffer: &Buffer) -> Result<tombolo_base::SharedMemory, Error> {
    buffer.memory().ok_or(Error::Unexpected { length_bytes: 0 })
}

/// Writes every byte of a buffer.
fn fill(buffer: &Buffer, sequence: u64) -> Result<(), Error> {
    fill_words(memory(buffer)?.words(), sequence);
    Ok(())
}

/// Reads and checks every byte of a buffer.
fn check(buffer: &Buffer, sequence: u64) -> Result<(), Error> {
    check_words(memory(buffer)?.words(), sequence)
}
