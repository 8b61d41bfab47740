//! One end of a bulk channel: sends rights to buffers.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use tombolo_bulk::wire::{CONTENT_HEAD_BYTES, MAX_CONTENT_BYTES, PIECE_WORDS};
use tombolo_bulk::{Segment, TableError, Verb};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, Errno, OsError, socket};
use tombolo_transport::Transport as _;

use crate::error::Error;

use super::buffer::{Buffer, Handle, NotSent, Shared};
use super::channel::{Assignment, BulkChannel};
use super::content::Content;
use crate::error::BulkError;

/// Longest wait for room before incoming messages are handled: the peer may itself be waiting for room.
const SLICE: Duration = Duration::from_millis(1);

impl BulkChannel {
    /// Moves a buffer to the peer: the right to read and write it, with its contents.
    ///
    /// # Errors
    /// Returns the buffer with the reason: [`Error::TimedOut`] if the peer did not make room in time,
    /// [`Error::WouldBlock`] if the timeout is zero; [`BulkError::NotOnChannel`]; or the end of the peer.
    pub fn move_to(&mut self, mut buffer: Buffer, metadata: &[u8]) -> Result<(), Box<NotSent<Buffer>>> {
        let timeout = self.channel.timeout.take();
        match self.transfer_one(Verb::Move, &mut buffer.handle, metadata, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotSent::new(error, buffer)),
        }
    }

    /// Moves several buffers, or their selected parts, in one transfer: all of them or none.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to);
    /// [`BulkSendError::Segments`](crate::bulk::BulkSendError::Segments) for more pieces than both sides
    /// agreed on.
    pub fn move_all(
        &mut self,
        buffers: Vec<Buffer>,
        metadata: &[u8],
    ) -> Result<(), Box<NotSent<Vec<Buffer>>>> {
        let timeout = self.channel.timeout.take();
        let mut handles: Vec<Handle> = buffers.into_iter().map(|buffer| buffer.handle).collect();
        match self.transfer(Verb::Move, &mut handles, metadata, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotSent::new(error, handles.into_iter().map(Buffer::new).collect())),
        }
    }

    /// Shares a buffer: the peer may read it until it releases it. The buffer is read-only here meanwhile.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to).
    pub fn share(&mut self, mut buffer: Buffer, metadata: &[u8]) -> Result<Shared, Box<NotSent<Buffer>>> {
        let timeout = self.channel.timeout.take();
        match self.transfer_one(Verb::Share, &mut buffer.handle, metadata, timeout) {
            Ok(()) => Ok(Shared::new(buffer.handle)),
            Err(error) => Err(NotSent::new(error, buffer)),
        }
    }

    /// Shares a shared buffer with the peer of this channel as well; the buffer may belong to this domain or
    /// to another one.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to); [`TableError::TowardsOwner`] for a buffer that arrived over this
    /// channel.
    pub fn share_again(&mut self, shared: &mut Shared, metadata: &[u8]) -> Result<(), Error> {
        let timeout = self.channel.timeout.take();
        self.transfer_one(Verb::Share, &mut shared.handle, metadata, timeout)
    }

    /// Shares several buffers, or their selected parts, in one transfer: all of them or none.
    ///
    /// # Errors
    /// Same as [`move_all`](Self::move_all).
    pub fn share_all(
        &mut self,
        buffers: Vec<Buffer>,
        metadata: &[u8],
    ) -> Result<Vec<Shared>, Box<NotSent<Vec<Buffer>>>> {
        let timeout = self.channel.timeout.take();
        let mut handles: Vec<Handle> = buffers.into_iter().map(|buffer| buffer.handle).collect();
        match self.transfer(Verb::Share, &mut handles, metadata, timeout) {
            Ok(()) => Ok(handles.into_iter().map(Shared::new).collect()),
            Err(error) => Err(NotSent::new(error, handles.into_iter().map(Buffer::new).collect())),
        }
    }

    /// Passes a buffer to the peer for filling: its contents are undefined from then on.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to).
    pub fn pass(&mut self, mut buffer: Buffer, metadata: &[u8]) -> Result<(), Box<NotSent<Buffer>>> {
        let timeout = self.channel.timeout.take();
        match self.transfer_one(Verb::Pass, &mut buffer.handle, metadata, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotSent::new(error, buffer)),
        }
    }

    /// Releases a buffer that the peer shared.
    ///
    /// # Errors
    /// Same as [`move_to`](Self::move_to); [`TableError::Shared`] while other domains hold shares of it that
    /// this domain gave out.
    pub fn release(&mut self, mut shared: Shared, metadata: &[u8]) -> Result<(), Box<NotSent<Shared>>> {
        let timeout = self.channel.timeout.take();
        match self.transfer_one(Verb::Release, &mut shared.handle, metadata, timeout) {
            Ok(()) => Ok(()),
            Err(error) => Err(NotSent::new(error, shared)),
        }
    }

    /// Like [`transfer`](Self::transfer), with the fast path where it applies. The handle stays in place:
    /// moving a new one takes longer than sending it.
    #[inline]
    fn transfer_one(
        &mut self,
        verb: Verb,
        handle: &mut Handle,
        metadata: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        if metadata.is_empty() && self.transfer_piece(verb, handle)? {
            return Ok(());
        }
        self.transfer(verb, std::slice::from_mut(handle), metadata, timeout)
    }

    /// Sends the rights to these buffers, all or none. Handles whose right was given away are marked as
    /// spent.
    fn transfer(
        &mut self,
        verb: Verb,
        handles: &mut [Handle],
        metadata: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        self.segments.clear();
        for index in 0..handles.len() {
            if let Err(error) = self.begin(verb, &mut handles[index]) {
                self.abort(&handles[..index]);
                return Err(error);
            }
        }
        if let Err(error) = self.send_transfer(verb, handles, metadata, timeout) {
            self.abort(handles);
            return Err(error);
        }
        for handle in handles {
            if let Some(at) = self.position(&handle.pool) {
                handle.pool.lock().table.commit(verb, handle.buffer, self.assigned[at].link);
            }
            handle.is_spent = verb != Verb::Share;
        }
        Ok(())
    }

    /// Sends the right to one buffer, if it is mapped or its contents are not transferred. Returns false,
    /// with no state changed, if the fast path does not apply.
    #[inline]
    fn transfer_piece(&mut self, verb: Verb, handle: &mut Handle) -> Result<bool, Error> {
        if self.trust.has_own_memory() && verb.carries_content() {
            return Ok(false);
        }
        let at = self.position(&handle.pool).ok_or(BulkError::NotOnChannel)?;
        let Assignment { pool, link, pool_index, .. } = &self.assigned[at];
        if self.session.is_copied(*pool_index) && verb.carries_content() {
            return Ok(false);
        }
        let Handle { buffer, offset_bytes, length_bytes, .. } = *handle;
        let segment = Segment { pool_index: *pool_index, buffer, offset_bytes, length_bytes };
        let words = self.session.prepare_piece(verb, segment).map_err(BulkError::from)?;
        let mut message = [0; 8 * PIECE_WORDS];
        for (bytes, word) in message.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        let mut state = pool.lock();
        if let Err(error) = state.table.begin(verb, buffer, *link) {
            drop(state);
            return Err(self.table_error(error));
        }
        pool.write_back(buffer);
        if self.channel.carrier.try_send(&message).is_err() {
            state.table.abort(buffer);
            return Ok(false);
        }
        state.table.commit(verb, buffer, *link);
        self.session.record_transfer_sent();
        handle.is_spent = verb != Verb::Share;
        Ok(true)
    }

    fn begin(&mut self, verb: Verb, handle: &mut Handle) -> Result<(), Error> {
        let at = self.position(&handle.pool).ok_or(BulkError::NotOnChannel)?;
        let Assignment { link, pool_index, .. } = self.assigned[at];
        if self.trust.has_own_memory() && verb.carries_content() {
            handle.content.seal()?;
        }
        let begun = handle.pool.lock().table.begin(verb, handle.buffer, link);
        begun.map_err(|error| self.table_error(error))?;
        handle.pool.write_back(handle.buffer);
        let Handle { buffer, offset_bytes, length_bytes, .. } = *handle;
        self.segments.push(Segment { pool_index, buffer, offset_bytes, length_bytes });
        Ok(())
    }

    /// Converts an error of a pool's table. A channel that has ended takes its pools with it, so its end is
    /// the error then.
    #[cold]
    fn table_error(&mut self, error: TableError) -> Error {
        if error == TableError::NotOnChannel
            && let Err(end) = self.channel.try_send_batch(|_| ())
        {
            return end;
        }
        BulkError::from(error).into()
    }

    fn abort(&self, handles: &[Handle]) {
        for handle in handles {
            handle.pool.lock().table.abort(handle.buffer);
        }
    }

    fn send_transfer(
        &mut self,
        verb: Verb,
        handles: &[Handle],
        metadata: &[u8],
        timeout: Duration,
    ) -> Result<(), Error> {
        let prepared = self.session.prepare_transfer(verb, &self.segments, metadata, &mut self.outbox);
        prepared.map_err(BulkError::from)?;
        let mut remaining = timeout;
        if self.trust.has_own_memory() && verb.carries_content() {
            let deadline = Deadline::after(timeout);
            self.send_contents(handles, deadline)?;
            remaining = deadline.remaining();
        } else if verb.carries_content()
            && self.segments.iter().any(|piece| self.session.is_copied(piece.pool_index))
        {
            remaining = self.copy_contents(handles, timeout)?;
            // Encode again: messages sent in the meantime have used up the earlier message number.
            let prepared = self.session.prepare_transfer(verb, &self.segments, metadata, &mut self.outbox);
            prepared.map_err(BulkError::from)?;
        }
        let sent = if remaining.is_zero() {
            self.channel.try_send(&self.outbox)
        } else {
            self.channel.within(remaining).send(&self.outbox)
        };
        self.is_full = sent.is_err();
        sent?;
        self.session.record_transfer_sent();
        Ok(())
    }

    /// Sends the memory of buffers ahead of the transfer message. If that message is not sent, the peer drops
    /// the memory.
    fn send_contents(&mut self, handles: &[Handle], deadline: Deadline) -> Result<(), Error> {
        if self.is_full && !self.channel.has_room() && deadline.passed() {
            return Err(Error::WouldBlock);
        }
        let Some(companion) = &self.companion else {
            return Err(BulkError::NotOneKernel(self.channel.transport()).into());
        };
        let mut fds: Vec<BorrowedFd<'_>> = Vec::with_capacity(handles.len());
        for handle in handles {
            match &handle.content {
                Content::Sealed(sealed) => fds.push(sealed.descriptor()),
                Content::Open(open) => fds.push(open.descriptor()),
                _ => return Err(OsError::new("send a buffer that lost its memory", Errno::NOMEM).into()),
            }
        }
        let number = self.session.next_number().to_le_bytes();
        loop {
            match socket::send(companion, &number, &fds) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) if deadline.passed() => return Err(Error::WouldBlock),
                Err(Errno::AGAIN) => {
                    poll(&[(companion.as_fd(), Interest::Write)], Some(deadline))?;
                }
                // The channel reports the reason.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(errno) => return Err(OsError::new("send the memory of buffers", errno).into()),
            }
        }
    }

    /// Sends the contents of buffers ahead of the transfer message, if the ends share no memory. If that
    /// message is not sent, the next attempt sends the contents again. Returns the remaining timeout.
    ///
    /// With a timeout of zero the first message is attempted once. If it was sent, the others follow within
    /// the domain's timeout; otherwise contents that exceed the ring could never be sent.
    fn copy_contents(&mut self, handles: &[Handle], timeout: Duration) -> Result<Duration, Error> {
        let room = self.channel.max_message_bytes().saturating_sub(CONTENT_HEAD_BYTES).min(MAX_CONTENT_BYTES);
        // Whole cache lines, if at least one fits.
        let chunk = if room < 64 { room } else { room & !63 } as u64;
        let (mut limit, mut deadline) = (timeout, Deadline::after(timeout));
        let mut is_first = true;
        for (index, handle) in handles.iter().enumerate() {
            let piece = self.segments[index];
            if !self.session.is_copied(piece.pool_index) {
                continue;
            }
            let mut done = 0;
            while done < piece.length_bytes {
                let length_bytes = chunk.min(piece.length_bytes - done);
                let part = Segment { offset_bytes: piece.offset_bytes + done, length_bytes, ..piece };
                self.copy_part(handle, done, part, deadline).map_err(|error| match error {
                    Error::TimedOut { .. } => self.contents_not_taken(part, limit),
                    error => error,
                })?;
                if std::mem::take(&mut is_first) && timeout.is_zero() {
                    limit = self.domain.timeout();
                    deadline = Deadline::after(limit);
                }
                done += length_bytes;
            }
        }
        Ok(deadline.remaining())
    }

    /// Sends a part of a buffer, `from` bytes after the beginning of the handle's part. Handles incoming
    /// messages while there is no room, so that two ends that send to each other do not deadlock.
    fn copy_part(
        &mut self,
        handle: &Handle,
        from: u64,
        part: Segment,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let mut slice = Duration::ZERO;
        loop {
            // Encode again for each attempt: an answer sent in between may have used this message number.
            let mut outbox = std::mem::take(&mut self.outbox);
            let prepared = match self.session.prepare_content(part, &mut outbox) {
                Ok(bytes) => handle.read(from, bytes),
                Err(error) => Err(BulkError::from(error).into()),
            };
            let sent = prepared.and_then(|()| match slice {
                Duration::ZERO => self.channel.try_send(&outbox),
                slice => self.channel.within(slice).send(&outbox),
            });
            self.outbox = outbox;
            match sent {
                Ok(()) => {
                    self.session.record_transfer_sent();
                    return Ok(());
                }
                Err(Error::WouldBlock | Error::TimedOut { .. }) if !deadline.passed() => {}
                Err(error) => return Err(error),
            }
            while self.try_process_message()? {}
            slice = SLICE.min(deadline.remaining());
        }
    }

    /// Returns the error for contents for which the peer made no room within `timeout`.
    fn contents_not_taken(&self, part: Segment, timeout: Duration) -> Error {
        let (peer, node) = (self.channel.peer(), self.channel.peer_node());
        let what = format!(
            "domain {peer} on {node} to take the contents of buffer {}, which it does while it uses its end of the \
             bulk channel; a pool created with `reachable_from` needs no copies",
            part.buffer
        );
        Error::TimedOut { what, timeout }
    }
}
