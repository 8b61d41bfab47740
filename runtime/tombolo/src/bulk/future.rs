//! Futures for the operations of a bulk channel, for any executor; [`crate::future`] implements the waiting.
//!
//! The future waits for the peer without blocking. Assigning and accepting a pool also send requests to this
//! node's monitor, and these block.

use std::future::Future;
use std::time::Duration;

use tombolo_platform::Deadline;
use tombolo_platform::event::Interest;
use tombolo_transport::error::Awaited;

use crate::address::Address;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::future::{Attempt, HasChannel, Operation, offload};

use super::arrival::Arrival;
use super::buffer::{Buffer, NotSent, Shared};
use super::channel::BulkChannel;
use super::incoming::TimeBudget;
use super::options::BulkOptions;
use super::pool::Pool;

impl HasChannel for BulkChannel {
    #[inline]
    fn channel(&self) -> &Channel {
        &self.channel
    }

    #[inline]
    fn channel_mut(&mut self) -> &mut Channel {
        &mut self.channel
    }
}

/// Returns `None` if the operation would block.
fn unless_blocked<T>(result: Result<T, Error>) -> Option<Result<T, Error>> {
    match result {
        Err(Error::WouldBlock) => None,
        result => Some(result),
    }
}

/// Operation that waits for a message from the peer: the blocking operation with a timeout of zero.
struct ReceiveOperation<F>(F);

impl<T, F: FnMut(&mut BulkChannel) -> Result<T, Error> + Unpin> Attempt<BulkChannel> for ReceiveOperation<F> {
    type Output = Result<T, Error>;
    const AWAITED: (Interest, Awaited) = (Interest::Read, Awaited::Message);

    fn attempt(&mut self, bulk: &mut BulkChannel) -> Option<Self::Output> {
        unless_blocked((self.0)(bulk))
    }

    fn stop(&mut self, error: Error) -> Self::Output {
        Err(error)
    }
}

/// Operation that waits for room in the channel.
struct SendOperation<F>(F);

impl<F: FnMut(&mut BulkChannel) -> Result<(), Error> + Unpin> Attempt<BulkChannel> for SendOperation<F> {
    type Output = Result<(), Error>;
    const AWAITED: (Interest, Awaited) = (Interest::Write, Awaited::Room);

    fn attempt(&mut self, bulk: &mut BulkChannel) -> Option<Self::Output> {
        unless_blocked((self.0)(bulk))
    }

    fn stop(&mut self, error: Error) -> Self::Output {
        Err(error)
    }
}

/// Transfer that waits for room; `kept` holds what is transferred until it is sent. Without full trust, if
/// the socket that carries descriptors is full while the channel is not, the transfer is retried on every
/// poll.
struct Transfer<T, F> {
    kept: Option<T>,
    send: F,
}

impl<T, R, F> Attempt<BulkChannel> for Transfer<T, F>
where
    T: Unpin,
    F: FnMut(&mut BulkChannel, T) -> Result<R, Box<NotSent<T>>> + Unpin,
{
    type Output = Result<R, Box<NotSent<T>>>;
    const AWAITED: (Interest, Awaited) = (Interest::Write, Awaited::Room);

    fn attempt(&mut self, bulk: &mut BulkChannel) -> Option<Self::Output> {
        match (self.send)(bulk, take(&mut self.kept)) {
            Err(not_sent) if matches!(not_sent.error, Error::WouldBlock) => {
                self.kept = Some(not_sent.kept);
                None
            }
            result => Some(result),
        }
    }

    fn stop(&mut self, error: Error) -> Self::Output {
        Err(NotSent::new(error, take(&mut self.kept)))
    }
}

/// # Panics
/// If a future is polled after completion, as for `async` blocks.
fn take<T>(kept: &mut Option<T>) -> T {
    kept.take().expect("a future is not polled after it was ready")
}

impl BulkChannel {
    /// Async [`recv`](Self::recv). Dropping the future loses no message.
    ///
    /// # Errors
    /// Same as [`recv`](Self::recv).
    pub fn recv_async<'a>(
        &'a mut self,
        metadata: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Arrival, Error>> + Send + 'a {
        self.operation(ReceiveOperation(|bulk: &mut BulkChannel| bulk.within(Duration::ZERO).recv(metadata)))
    }

    /// Async [`recv_moved`](Self::recv_moved). Dropping the future loses no buffer.
    ///
    /// # Errors
    /// Same as [`recv_moved`](Self::recv_moved).
    pub fn recv_moved_async<'a>(
        &'a mut self,
        metadata: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Buffer, Error>> + Send + 'a {
        self.operation(ReceiveOperation(|bulk: &mut BulkChannel| {
            bulk.within(Duration::ZERO).recv_moved(metadata)
        }))
    }

    /// Async [`recv_shared`](Self::recv_shared). Dropping the future loses no buffer.
    ///
    /// # Errors
    /// Same as [`recv_shared`](Self::recv_shared).
    pub fn recv_shared_async<'a>(
        &'a mut self,
        metadata: &'a mut Vec<u8>,
    ) -> impl Future<Output = Result<Shared, Error>> + Send + 'a {
        self.operation(ReceiveOperation(|bulk: &mut BulkChannel| {
            bulk.within(Duration::ZERO).recv_shared(metadata)
        }))
    }

    /// Async version of [`recv_pool`](Self::recv_pool).
    ///
    /// # Errors
    /// Same as [`recv_pool`](Self::recv_pool).
    pub fn recv_pool_async(&mut self) -> impl Future<Output = Result<Pool, Error>> + Send + '_ {
        self.operation(ReceiveOperation(|bulk: &mut BulkChannel| bulk.within(Duration::ZERO).recv_pool()))
    }

    /// Async version of [`take`](Self::take).
    ///
    /// # Errors
    /// Same as [`take`](Self::take).
    pub fn take_async<'a>(
        &'a mut self,
        pool: &'a Pool,
    ) -> impl Future<Output = Result<Buffer, Error>> + Send + 'a {
        self.operation(ReceiveOperation(|bulk: &mut BulkChannel| bulk.within(Duration::ZERO).take(pool)))
    }

    /// Async [`assign`](Self::assign). If the future is dropped, assigning again resumes the wait for the
    /// answer.
    ///
    /// # Errors
    /// Same as [`assign`](Self::assign).
    pub fn assign_async<'a>(
        &'a mut self,
        pool: &'a Pool,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
        let timeout = self.channel.timeout.take();
        async move {
            let deadline = Deadline::after(timeout);
            let request =
                SendOperation(|bulk: &mut BulkChannel| bulk.begin_assign(pool, true, Duration::ZERO));
            Operation::new(self, timeout, request).await?;
            let finish =
                |bulk: &mut BulkChannel| bulk.finish_assign(pool, &mut TimeBudget::of(Duration::ZERO));
            Operation::new(self, deadline.remaining(), ReceiveOperation(finish)).await
        }
    }

    /// Async [`unassign`](Self::unassign). If the future is dropped, unassigning again resumes the wait for
    /// the answer.
    ///
    /// # Errors
    /// Same as [`unassign`](Self::unassign).
    pub fn unassign_async<'a>(
        &'a mut self,
        pool: &'a Pool,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'a {
        let timeout = self.channel.timeout.take();
        async move {
            let deadline = Deadline::after(timeout);
            let request = SendOperation(|bulk: &mut BulkChannel| bulk.begin_unassign(pool, Duration::ZERO));
            Operation::new(self, timeout, request).await?;
            let finish =
                |bulk: &mut BulkChannel| bulk.finish_unassign(pool, &mut TimeBudget::of(Duration::ZERO));
            Operation::new(self, deadline.remaining(), ReceiveOperation(finish)).await
        }
    }

    /// Async [`move_to`](Self::move_to). Dropping the future before it is ready sends nothing and frees the
    /// buffer.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to).
    pub fn move_to_async<'a>(
        &'a mut self,
        buffer: Buffer,
        metadata: &'a [u8],
    ) -> impl Future<Output = Result<(), Box<NotSent<Buffer>>>> + Send + 'a {
        self.transfer_async(buffer, |bulk, buffer| bulk.within(Duration::ZERO).move_to(buffer, metadata))
    }

    /// Async [`share`](Self::share). Dropping the future before it is ready sends nothing and frees the
    /// buffer.
    ///
    /// # Errors
    /// Same as [`share`](Self::share).
    pub fn share_async<'a>(
        &'a mut self,
        buffer: Buffer,
        metadata: &'a [u8],
    ) -> impl Future<Output = Result<Shared, Box<NotSent<Buffer>>>> + Send + 'a {
        self.transfer_async(buffer, |bulk, buffer| bulk.within(Duration::ZERO).share(buffer, metadata))
    }

    /// Async [`pass`](Self::pass). Dropping the future before it is ready sends nothing and frees the buffer.
    ///
    /// # Errors
    /// Same as [`pass`](Self::pass).
    pub fn pass_async<'a>(
        &'a mut self,
        buffer: Buffer,
        metadata: &'a [u8],
    ) -> impl Future<Output = Result<(), Box<NotSent<Buffer>>>> + Send + 'a {
        self.transfer_async(buffer, |bulk, buffer| bulk.within(Duration::ZERO).pass(buffer, metadata))
    }

    /// Async [`release`](Self::release). If the future is dropped, the buffer is released as soon as there is
    /// room.
    ///
    /// # Errors
    /// Same as [`release`](Self::release).
    pub fn release_async<'a>(
        &'a mut self,
        shared: Shared,
        metadata: &'a [u8],
    ) -> impl Future<Output = Result<(), Box<NotSent<Shared>>>> + Send + 'a {
        self.transfer_async(shared, |bulk, shared| bulk.within(Duration::ZERO).release(shared, metadata))
    }

    fn transfer_async<'a, T, R, F>(
        &'a mut self,
        kept: T,
        send: F,
    ) -> Operation<'a, BulkChannel, Transfer<T, F>>
    where
        T: Unpin,
        F: FnMut(&mut BulkChannel, T) -> Result<R, Box<NotSent<T>>> + Unpin,
    {
        self.operation(Transfer { kept: Some(kept), send })
    }

    fn operation<A: Attempt<BulkChannel>>(&mut self, attempt: A) -> Operation<'_, BulkChannel, A> {
        let timeout = self.channel.timeout.take();
        Operation::new(self, timeout, attempt)
    }
}

impl BulkOptions {
    /// Async [`connect`](Self::connect). Dropping the future leaves no channel open.
    ///
    /// # Errors
    /// Same as [`Domain::connect_bulk`].
    pub fn connect_async<A: Into<Address>>(
        &self,
        domain: &Domain,
        to: A,
    ) -> impl Future<Output = Result<BulkChannel, Error>> + Send + 'static + use<A> {
        let (domain, options) = (domain.clone(), self.clone());
        let channel = options.underneath().connect_async(&domain, to);
        async move {
            let channel = channel.await?;
            // Negotiates terms on a separate thread, because the peer may take any time to answer.
            offload(move || BulkChannel::over(&domain, channel, &options, domain.timeout())).await?
        }
    }
}
