//! The far side of bulk data between nodes: a program on the node that is measured.

use tombolo::{Arrival, Buffer, BulkChannel, BulkOptions, Channel, ChannelOptions, Domain, Pool};

use super::command::{self, Command, PATIENCE};
use super::copies;
use crate::ring::Error;
use crate::suite::peers::bare;

/// The name of the bulk channel beside the channel of that name.
pub(super) fn bulk_name(name: &str) -> String {
    format!("{name}/bulk")
}

/// Opens the channels to whoever started this program, and does what it says to the end.
///
/// # Errors
/// When a channel cannot be opened or fails, or something else than was sent arrives.
pub fn run(name: &str) -> Result<(), Error> {
    let domain = Domain::attach()?;
    let control = domain.connect(name, &ChannelOptions::default(), PATIENCE)?;
    let bulk = domain.connect_bulk(&bulk_name(name), &BulkOptions::default(), PATIENCE)?;
    Far { control, bulk, pool: None, metadata: Vec::new() }.serve()
}

struct Far {
    control: Channel,
    bulk: BulkChannel,
    pool: Option<Pool>,
    metadata: Vec<u8>,
}

impl Far {
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            let mut took_ns = 0;
            match command::hear(&mut self.control)? {
                Command::Join => self.pool = Some(self.bulk.recv_pool(PATIENCE)?),
                Command::Leave => self.leave()?,
                Command::Take { count } => (0..count).try_for_each(|sequence| self.take(sequence))?,
                Command::Give { count } => (0..count).try_for_each(|sequence| self.give(sequence))?,
                Command::Return { count } => (0..count).try_for_each(|_| {
                    let buffer = self.recv()?;
                    self.pass(buffer)
                })?,
                Command::Copy { way, length_ns } => {
                    let buffer = self.recv()?;
                    took_ns = copies::median_ns(way, &memory(&buffer)?, length_ns)?;
                    self.pass(buffer)?;
                }
                Command::Bye => return command::answer(&mut self.control, 0),
            }
            command::answer(&mut self.control, took_ns)?;
        }
    }

    fn recv(&mut self) -> Result<Buffer, Error> {
        Ok(self.bulk.recv_moved(&mut self.metadata, PATIENCE)?)
    }

    fn pass(&mut self, buffer: Buffer) -> Result<(), Error> {
        Ok(self.bulk.pass(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?)
    }

    fn take(&mut self, sequence: u64) -> Result<(), Error> {
        let buffer = self.recv()?;
        check(&buffer, sequence)?;
        self.pass(buffer)
    }

    fn give(&mut self, sequence: u64) -> Result<(), Error> {
        let pool = self.pool.as_ref().ok_or(Error::Unexpected { length_bytes: 0 })?;
        let buffer = self.bulk.take(pool, PATIENCE)?;
        fill(&buffer, sequence)?;
        Ok(self.bulk.move_to(buffer, &[], PATIENCE).map_err(tombolo::Error::from)?)
    }

    /// The other side takes the pool off the channel.
    fn leave(&mut self) -> Result<(), Error> {
        self.pool = None;
        while !matches!(self.bulk.recv(&mut self.metadata, PATIENCE)?, Arrival::PoolGone(_)) {}
        Ok(())
    }
}

/// The memory of a whole buffer.
pub(super) fn memory(buffer: &Buffer) -> Result<tombolo_base::SharedMemory, Error> {
    buffer.memory().ok_or(Error::Unexpected { length_bytes: 0 })
}

/// Writes every byte.
pub(super) fn fill(buffer: &Buffer, sequence: u64) -> Result<(), Error> {
    bare::fill(memory(buffer)?.words(), sequence);
    Ok(())
}

/// Reads every byte.
pub(super) fn check(buffer: &Buffer, sequence: u64) -> Result<(), Error> {
    bare::check(memory(buffer)?.words(), sequence).map_err(|_| Error::Corrupt { message: sequence })
}
