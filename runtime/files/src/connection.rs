//! Connection of a program to its file server: calls, each with a buffer, and their answers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tombolo::bulk::{Arrival, Buffer, BulkChannel, BulkError, Pool, PoolOptions, Veto};
use tombolo::error::Fault;
use tombolo::{Domain, Error};
use tombolo_interface::Envelope;
use tombolo_interface::owned::{NUMBER_MASK, request};
use tombolo_platform::Deadline;

use crate::error::FileError;
use crate::messages::{FILES_FINGERPRINT, FilesReply, FilesRequest};
use crate::{FilesOptions, server};

/// Channel to the server, with the calls in flight.
#[derive(Debug)]
pub(crate) struct Connection {
    bulk: BulkChannel,
    pool: Pool,
    timeout: Duration,
    /// Number of the last call.
    last_number: u32,
    calls: HashMap<u32, Call>,
    /// Files to close with the next free buffer.
    files_to_close: Vec<u32>,
    metadata: Vec<u8>,
    /// Cloned once per reader or writer that keeps a buffer.
    permits: Arc<()>,
}

/// Permit to keep a buffer between calls.
#[derive(Debug)]
pub(crate) struct BufferPermit {
    _permits: Arc<()>,
}

/// Call in flight, or answered.
#[derive(Debug)]
struct Call {
    /// Read-ahead: its answer may be discarded if buffers run short.
    read_ahead: bool,
    /// The answer is discarded when it arrives.
    discarded: bool,
    answer: Option<Answer>,
}

/// Reply, with its buffer if that has contents.
pub(crate) type Answer = (FilesReply, Option<Buffer>);

/// Buffer that is sent with a call.
pub(crate) enum CallBuffer {
    /// Empty buffer.
    Empty,
    /// Buffer with contents for the server.
    Filled(Buffer),
}

/// Operation that was attempted, and the path of its file.
pub(crate) type Attempt<'a> = (&'static str, &'a Path);

impl Connection {
    pub(crate) fn open(domain: &Domain, name: &str, options: &FilesOptions) -> Result<Connection, FileError> {
        let timeout = options.timeout;
        let not_served = |error: Error| {
            let is_rejected = error.is_peer_gone()
                || matches!(
                    error,
                    Error::Bulk(BulkError::Vetoed(Veto::TooLarge)) | Error::Monitor(Fault::NoSuchName { .. })
                );
            if is_rejected { FileError::NotServed { name: name.to_owned() } } else { error.into() }
        };
        let mut bulk = server::bulk_options()?.connect(&domain.within(timeout), name).map_err(not_served)?;
        let pool = bulk.create_unassigned_pool(&PoolOptions::new(options.buffer_bytes, options.buffers))?;
        bulk.within(timeout).assign_here_only(&pool).map_err(not_served)?;
        let mut connection = Connection {
            bulk,
            pool,
            timeout,
            last_number: 0,
            calls: HashMap::new(),
            files_to_close: Vec::new(),
            metadata: Vec::new(),
            permits: Arc::new(()),
        };
        let begin = FilesRequest::Begin { fingerprint: FILES_FINGERPRINT };
        connection.call(("reach", Path::new(name)), begin, CallBuffer::Empty).map_err(
            |error| match error {
                FileError::Tombolo(error) => not_served(error),
                other => other,
            },
        )?;
        Ok(connection)
    }

    /// Size of a buffer in bytes: the maximum for one read or write call.
    pub(crate) fn buffer_bytes(&self) -> usize {
        usize::try_from(self.pool.buffer_bytes()).unwrap_or(usize::MAX)
    }

    /// Maximum number of calls in flight per reader or writer, which leaves room for another one.
    pub(crate) fn depth(&self) -> usize {
        (self.pool.count() as usize / 2).max(1)
    }

    /// Returns a permit if one more reader or writer may keep a buffer between calls. At most a quarter of
    /// the buffers may be kept: the others are in flight and return, so that a call that waits for one gets
    /// it.
    pub(crate) fn try_buffer_permit(&self) -> Option<BufferPermit> {
        let kept = Arc::strong_count(&self.permits) - 1;
        (kept < self.pool.count() as usize / 4).then(|| BufferPermit { _permits: Arc::clone(&self.permits) })
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.timeout)
    }

    pub(crate) fn unexpected(&self, reply: &FilesReply) -> FileError {
        self.violation(format!("an answer to something else: {reply:?}"))
    }

    pub(crate) fn violation(&self, what: String) -> FileError {
        let channel = self.bulk.channel();
        let (peer, node, channel) = (channel.peer(), channel.peer_node().to_owned(), channel.id());
        Error::Violation { peer, node, channel, what }.into()
    }

    /// Makes a call and waits for its answer.
    pub(crate) fn call(
        &mut self,
        attempt: Attempt<'_>,
        request: FilesRequest,
        call_buffer: CallBuffer,
    ) -> Result<Answer, FileError> {
        let deadline = self.deadline();
        let number = self.submit(request, call_buffer, deadline)?;
        self.wait(number, attempt, deadline)
    }

    /// Makes a call, waiting for a buffer if none is free.
    pub(crate) fn submit(
        &mut self,
        request: FilesRequest,
        call_buffer: CallBuffer,
        deadline: Deadline,
    ) -> Result<u32, FileError> {
        self.close_pending()?;
        let call_buffer = match call_buffer {
            CallBuffer::Empty => (self.take(deadline)?, false),
            CallBuffer::Filled(buffer) => (buffer, true),
        };
        self.send(request, call_buffer, false, deadline)
    }

    /// Makes a read-ahead call, if a buffer is free.
    pub(crate) fn submit_read_ahead(&mut self, request: FilesRequest) -> Result<Option<u32>, FileError> {
        let Ok(buffer) = self.pool.take() else { return Ok(None) };
        let deadline = self.deadline();
        self.send(request, (buffer, false), true, deadline).map(Some)
    }

    fn send(
        &mut self,
        body: FilesRequest,
        (buffer, filled): (Buffer, bool),
        read_ahead: bool,
        deadline: Deadline,
    ) -> Result<u32, FileError> {
        let number = self.next_number();
        let message = Envelope { request: request(0, number), body }.encode(server::MAX_MESSAGE_BYTES);
        let message = message.map_err(Error::from)?;
        let timeout = deadline.remaining();
        let sent = if filled {
            self.bulk.within(timeout).move_to(buffer, &message)
        } else {
            self.bulk.within(timeout).pass(buffer, &message)
        };
        sent?;
        self.calls.insert(number, Call { read_ahead, discarded: false, answer: None });
        Ok(number)
    }

    fn next_number(&mut self) -> u32 {
        loop {
            self.last_number = (self.last_number + 1) & NUMBER_MASK;
            if self.last_number != 0 && !self.calls.contains_key(&self.last_number) {
                return self.last_number;
            }
        }
    }

    /// Takes a buffer to fill or to pass.
    pub(crate) fn take(&mut self, deadline: Deadline) -> Result<Buffer, FileError> {
        loop {
            match self.pool.take() {
                Err(Error::Bulk(BulkError::NoBuffer { .. })) => {}
                taken => return Ok(taken?),
            }
            if self.calls.values().any(|call| call.answer.is_none()) {
                self.receive_answer(deadline)?;
            } else if !self.discard_read_ahead() {
                // The program holds all buffers.
                return Ok(self.pool.take()?);
            }
        }
    }

    /// Discards a read-ahead answer that was not requested yet.
    fn discard_read_ahead(&mut self) -> bool {
        let ahead = self.calls.iter().find(|(_, call)| call.read_ahead && call.answer.is_some());
        let Some(number) = ahead.map(|(number, _)| *number) else { return false };
        self.calls.remove(&number);
        true
    }

    /// Waits for the answer to a call; a fault is returned as an error.
    pub(crate) fn wait(
        &mut self,
        number: u32,
        attempt: Attempt<'_>,
        deadline: Deadline,
    ) -> Result<Answer, FileError> {
        match self.wait_unless_discarded(number, attempt, deadline)? {
            Some(answer) => Ok(answer),
            None => Err(self.violation("a call was answered twice".into())),
        }
    }

    /// Like [`wait`](Self::wait); `None` if the answer was discarded.
    pub(crate) fn wait_unless_discarded(
        &mut self,
        number: u32,
        (operation, path): Attempt<'_>,
        deadline: Deadline,
    ) -> Result<Option<Answer>, FileError> {
        loop {
            let Some(call) = self.calls.get_mut(&number) else { return Ok(None) };
            // It is required from now on.
            call.read_ahead = false;
            if let Some(answer) = call.answer.take() {
                self.calls.remove(&number);
                return match answer {
                    (FilesReply::Failed { file_fault: fault }, _) => {
                        let path = path.to_owned();
                        Err(FileError::Fault { operation, path, fault })
                    }
                    answer => Ok(Some(answer)),
                };
            }
            if let Err(error) = self.receive_answer(deadline) {
                self.discard(number);
                return Err(error);
            }
        }
    }

    /// Discards the answer to this call when it arrives.
    pub(crate) fn discard(&mut self, number: u32) {
        match self.calls.get_mut(&number) {
            Some(call) if call.answer.is_none() => call.discarded = true,
            _ => drop(self.calls.remove(&number)),
        }
    }

    /// Receives one answer.
    fn receive_answer(&mut self, deadline: Deadline) -> Result<(), FileError> {
        let mut metadata = std::mem::take(&mut self.metadata);
        let received = self.bulk.within(deadline.remaining()).recv(&mut metadata);
        let taken = match received {
            Ok(arrival) => self.store_answer(arrival, &metadata),
            Err(Error::WouldBlock | Error::TimedOut { .. }) => {
                let what = format!("an answer about files from domain {}", self.bulk.channel().peer());
                Err(Error::TimedOut { what, timeout: self.timeout }.into())
            }
            Err(error) => Err(error.into()),
        };
        self.metadata = metadata;
        taken
    }

    fn store_answer(&mut self, arrival: Arrival, metadata: &[u8]) -> Result<(), FileError> {
        let buffer = match arrival {
            Arrival::Moved(received) if received.pieces() == 1 => Some(received.into_first()),
            Arrival::Passed(1) => None,
            other => return Err(self.violation(format!("no answer: {other:?}"))),
        };
        let answer = Envelope::<FilesReply>::decode(metadata);
        let answer = answer.map_err(|error| self.violation(error.to_string()))?;
        let number = answer.number();
        match self.calls.get_mut(&number) {
            Some(Call { discarded: true, .. }) => drop(self.calls.remove(&number)),
            Some(call) if call.answer.is_none() => call.answer = Some((answer.body, buffer)),
            _ => return Err(self.violation(format!("an answer to call {number}, which was not made"))),
        }
        Ok(())
    }

    /// Closes a file without waiting for the answer; later, if no buffer is free now.
    pub(crate) fn close(&mut self, file: u32) {
        self.files_to_close.push(file);
        // If the server is gone, so is the file.
        let _ = self.close_pending();
    }

    fn close_pending(&mut self) -> Result<(), FileError> {
        while let Some(&file) = self.files_to_close.last() {
            let Some(number) = self.submit_read_ahead(FilesRequest::Close { file })? else { break };
            self.files_to_close.pop();
            self.discard(number);
        }
        Ok(())
    }
}
