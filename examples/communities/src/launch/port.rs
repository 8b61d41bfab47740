//! [`Port`] over a channel of a domain, with a pool for data that is too long for a message.
//!
//! The master writes long data to a buffer of the pool, moves the buffer over the bulk channel, and sends a
//! one-byte message in its place, so that the order of messages is preserved.

use std::time::Duration;

use tombolo::bulk::BulkError;
use tombolo::{BulkChannel, Channel, Domain, Error, Pool, PoolOptions, TransportKind};

use crate::port::{Port, PortError};

/// Length of the buffers for the graph. They take 2 MiB per worker, in the window to its node if it has one.
const BUFFER_BYTES: u64 = 512 << 10;
const BUFFERS: u32 = 4;

/// Minimum length of data that is sent in a buffer; messages are faster for shorter data.
const BULK_FROM_BYTES: usize = 8 << 10;

/// Message that announces one in a buffer.
const IN_A_BUFFER: [u8; 1] = [0];

/// Timeout for moving a buffer, for which there is always room.
const SOON: Duration = Duration::from_secs(60);

/// Port over a channel of a domain.
#[derive(Debug)]
pub struct DomainPort {
    channel: Channel,
    beside: Option<Beside>,
    uses_bulk: bool,
}

/// Bulk channel that accompanies the channel.
#[derive(Debug)]
enum Beside {
    /// To a worker, with the pool.
    Out(BulkChannel, Pool),
    /// From the master.
    In(BulkChannel),
}

impl DomainPort {
    /// Creates the port to a worker. The error is the reason why it has no pool: then everything is sent by
    /// messages.
    pub(super) fn of_master(
        domain: &Domain,
        channel: Channel,
        mut bulk: BulkChannel,
    ) -> (DomainPort, Result<(), Error>) {
        let pool = make_pool(domain, &channel).and_then(|pool| {
            bulk.within(SOON).assign_here_only(&pool)?;
            Ok(pool)
        });
        let (beside, result) = match pool {
            Ok(pool) => (Some(Beside::Out(bulk, pool)), Ok(())),
            // The worker notices that the bulk channel was closed.
            Err(error) => (None, Err(error)),
        };
        (DomainPort { channel, beside, uses_bulk: true }, result)
    }

    /// Creates the port to the master.
    pub(super) fn of_worker(channel: Channel, mut bulk: BulkChannel, timeout: Duration) -> DomainPort {
        // Without a pool, the master does not use one or is gone, which the channel reports.
        let beside = bulk.within(timeout).recv_pool().ok().map(|_| Beside::In(bulk));
        DomainPort { channel, beside, uses_bulk: true }
    }

    /// Puts a message into a buffer; returns `false` if no buffer is free.
    fn try_send_beside(&mut self, message: &[u8]) -> Result<bool, Error> {
        let Some(Beside::Out(bulk, pool)) = &mut self.beside else { return Ok(false) };
        bulk.settle()?;
        let mut buffer = match pool.take() {
            Ok(buffer) => buffer,
            Err(Error::Bulk(BulkError::NoBuffer { .. })) => return Ok(false),
            Err(error) => return Err(error),
        };
        buffer.set_part(0, message.len() as u64)?;
        buffer.write(0, message)?;
        match self.channel.try_send(&IN_A_BUFFER) {
            Ok(()) => {}
            Err(Error::WouldBlock) => return Ok(false),
            Err(error) => return Err(error),
        }
        // There is room for the rights to all buffers.
        bulk.within(SOON).move_to(buffer, &[])?;
        Ok(true)
    }

    /// If a message announces a buffer, replaces it with the buffer's content.
    fn receive_beside(&mut self, message: &mut Vec<u8>) -> Result<(), Error> {
        let Some(Beside::In(bulk)) = &mut self.beside else { return Ok(()) };
        if *message != IN_A_BUFFER {
            return Ok(());
        }
        let buffer = bulk.within(SOON).recv_moved(&mut Vec::new())?;
        message.resize(buffer.len_bytes() as usize, 0);
        buffer.read(0, message)?;
        drop(buffer);
        // Return the buffer at once: the master waits for it.
        bulk.settle()
    }
}

/// Creates a pool that both ends of a channel can access.
fn make_pool(domain: &Domain, channel: &Channel) -> Result<Pool, Error> {
    let mut options = PoolOptions::new(BUFFER_BYTES, BUFFERS);
    if channel.transport() == TransportKind::Window {
        let nodes = domain.nodes()?;
        let behind = |name: &str| nodes.iter().any(|node| node.name == name && node.window_bytes.1 > 0);
        let own = domain.node_name();
        options = options.reachable_from(if behind(own) { own } else { channel.peer_node() });
    }
    domain.create_pool(&options)
}

fn port_error(error: Error) -> PortError {
    match error {
        Error::TimedOut { timeout, .. } => PortError::TimedOut(timeout),
        error => PortError::Lost(error.to_string()),
    }
}

impl Port for DomainPort {
    fn max_message_bytes(&self) -> usize {
        self.channel.max_message_bytes()
    }

    fn max_bulk_bytes(&self) -> usize {
        match &self.beside {
            Some(Beside::Out(_, pool)) if self.uses_bulk => pool.buffer_bytes() as usize,
            _ => self.max_message_bytes(),
        }
    }

    fn use_bulk(&mut self, use_it: bool) {
        self.uses_bulk = use_it;
    }

    fn try_send(&mut self, message: &[u8]) -> Result<bool, PortError> {
        let is_bulk = self.uses_bulk && message.len() >= BULK_FROM_BYTES;
        if is_bulk && matches!(self.beside, Some(Beside::Out(..))) {
            return self.try_send_beside(message).map_err(port_error);
        }
        match self.channel.try_send(message) {
            Ok(()) => Ok(true),
            Err(Error::WouldBlock) => Ok(false),
            Err(error) => Err(port_error(error)),
        }
    }

    fn try_recv(&mut self, buffer: &mut Vec<u8>) -> Result<bool, PortError> {
        if self.channel.try_recv_into(buffer).map_err(port_error)?.is_none() {
            return Ok(false);
        }
        self.receive_beside(buffer).map_err(port_error)?;
        Ok(true)
    }

    fn send(&mut self, message: &[u8], timeout: Duration) -> Result<(), PortError> {
        self.channel.within(timeout).send(message).map_err(port_error)
    }

    fn recv(&mut self, buffer: &mut Vec<u8>, timeout: Duration) -> Result<(), PortError> {
        self.channel.within(timeout).recv_into(buffer).map_err(port_error)?;
        self.receive_beside(buffer).map_err(port_error)
    }

    fn wait_any(ports: &mut [&mut Self], timeout: Duration) {
        let mut channels: Vec<&mut Channel> = ports.iter_mut().map(|port| &mut port.channel).collect();
        // Errors are reported by the next receive.
        let _ = tombolo::wait_any(&mut channels, timeout);
    }
}
