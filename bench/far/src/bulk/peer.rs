//! The far side of bulk data between nodes: a program on the node that is measured.

use tombolo::{Arrival, BulkOptions, Channel, Domain, Pool, PoolOptions};

use super::command::{self, Command};
use super::copies;
use super::moving::{Mover, memory};
use crate::Error;

/// Returns the name of the bulk channel that accompanies a channel.
#[must_use]
pub fn bulk_name(name: &str) -> String {
    format!("{name}/bulk")
}

/// Opens the channels to the program that started this one, and executes its commands until it closes.
///
/// # Errors
/// A channel cannot be opened or fails, or received data differs from what was sent.
pub fn run(name: &str) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(command::TIMEOUT);
    let control = domain.connect(name)?;
    let bulk = domain.connect_bulk(bulk_name(name))?;
    Far { domain, control, mover: Mover::new(bulk), pool: None, node: None }.serve()
}

/// Runs one of two programs on different nodes with a bulk channel `pair` between them. The program with
/// `makes`, the name of the other's node, creates the channel and the pools.
///
/// # Errors
/// As [`run`].
pub fn run_of_pair(name: &str, pair: &str, makes: Option<&str>) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(command::TIMEOUT);
    let control = domain.connect(name)?;
    let options = BulkOptions::default();
    let bulk = match makes {
        Some(_) => options.export(&domain, pair)?.accept()?,
        None => options.connect(&domain, pair)?,
    };
    let node = makes.map(str::to_owned);
    Far { domain, control, mover: Mover::new(bulk), pool: None, node }.serve()
}

struct Far {
    domain: Domain,
    control: Channel,
    mover: Mover,
    pool: Option<Pool>,
    /// Node that must reach the pools, on the side that creates them.
    node: Option<String>,
}

impl Far {
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            let command = command::recv_command(&mut self.control)?;
            let took_ps = self.execute(command)?;
            command::send_answer(&mut self.control, took_ps)?;
            if command == Command::Bye {
                return Ok(());
            }
        }
    }

    /// Executes a command and returns the picoseconds of the timed operation.
    fn execute(&mut self, command: Command) -> Result<u64, Error> {
        match command {
            Command::Make { bytes, count } => self.make(bytes, count)?,
            Command::Drop => self.drop_own()?,
            Command::Join => self.pool = Some(self.mover.bulk.recv_pool()?),
            Command::Leave => self.leave()?,
            Command::Take { count } => self.mover.read(count)?,
            Command::Give { count } => self.with_pool(|mover, pool| mover.give(pool, count))?,
            Command::Fetch { count } => self.with_pool(|mover, pool| mover.fetch(pool, count))?,
            Command::Return { count } => self.mover.give_back(count)?,
            Command::Lend { count } | Command::Deliver { count } => {
                let filled = matches!(command, Command::Deliver { .. });
                let took_ns = self.with_pool(|mover, pool| mover.round_trip_ns(pool, count, filled))?;
                return Ok((took_ns * 1000.0) as u64);
            }
            Command::Copy { way, length_ns } => {
                let buffer = self.mover.recv()?;
                let took_ps = copies::median_ps(way, &memory(&buffer)?, length_ns)?;
                self.mover.pass(buffer)?;
                return Ok(took_ps);
            }
            Command::Bye => {}
        }
        Ok(0)
    }

    fn with_pool<T>(&mut self, run: impl FnOnce(&mut Mover, &Pool) -> Result<T, Error>) -> Result<T, Error> {
        run(&mut self.mover, self.pool.as_ref().ok_or(Error::Unexpected { length_bytes: 0 })?)
    }

    /// Creates a pool that the other side of the bulk channel can reach, and assigns it.
    fn make(&mut self, bytes: u64, count: u32) -> Result<(), Error> {
        let options = PoolOptions::new(bytes, count);
        let options = match self.node.as_deref() {
            None | Some("") => options,
            Some(node) => options.reachable_from(node),
        };
        let pool = self.domain.create_pool(&options)?;
        self.mover.bulk.assign(&pool)?;
        self.pool = Some(pool);
        Ok(())
    }

    fn drop_own(&mut self) -> Result<(), Error> {
        let pool = self.pool.take().ok_or(Error::Unexpected { length_bytes: 0 })?;
        Ok(self.mover.bulk.unassign(&pool)?)
    }

    /// Drops the pool; the other side removes it from the channel.
    fn leave(&mut self) -> Result<(), Error> {
        self.pool = None;
        let Mover { bulk, metadata } = &mut self.mover;
        while !matches!(bulk.recv(metadata)?, Arrival::PoolGone(_)) {}
        Ok(())
    }
}
