//! The client lends frames, several at a time. Those without an answer when a server ends go to the next one.

use std::collections::VecDeque;
use std::time::Duration;

use edges::{EdgesClient, EdgesError, EdgesFind, EdgesFindRequest, FRAME_BYTES};
use tombolo::bulk::Transfers;
use tombolo::interface::{CallError, Pending};
use tombolo::{Buffer, BulkOptions, Channel, Domain, Error, Pool, Shared, wait_any};

use crate::{NAME, Outcome};

/// Calls at a time.
const IN_FLIGHT: usize = 3;
/// The client reports a missing answer after this time.
const NOTICE: Duration = Duration::from_secs(1);

type Failed = Box<dyn std::error::Error>;

/// Frames, which outlive any server.
struct Frames {
    pool: Pool,
    /// To be sent before any new one.
    again: VecDeque<(u64, Buffer)>,
    /// Lent to the server, which has not answered yet: the oldest first.
    lent: VecDeque<(u64, Shared)>,
    /// The number of the next new frame.
    next: u64,
    count: u64,
    answered: u64,
}

pub(crate) fn send(domain: &Domain, count: u64) -> Outcome {
    let mut frames: Option<Frames> = None;
    let mut recovered = 0;
    loop {
        // Waits for a server, and after the death of one for the next.
        let channel = crate::options().connect(domain, NAME)?;
        let frames = match &mut frames {
            Some(frames) => frames,
            None => frames.insert(Frames::new(domain, &channel, count)?),
        };
        match frames.send_to_one(domain, channel) {
            Ok(()) => {
                println!("{} frames answered, {recovered} of them sent again", frames.answered);
                return Ok(());
            }
            Err(error) if is_gone(&*error) => {
                recovered += frames.again.len();
                println!("{error}; {} frames in flight are recovered", frames.again.len());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether an error means that the server closed the channel or died.
fn is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    let unsent = error.downcast_ref().and_then(CallError::<Error>::end);
    let unanswered = error.downcast_ref().and_then(CallError::<Error, EdgesError>::end);
    unsent.or(unanswered).or(error.downcast_ref()).is_some_and(Error::is_peer_gone)
}

impl Frames {
    fn new(domain: &Domain, channel: &Channel, count: u64) -> Result<Frames, Error> {
        let pool = domain.create_pool(&edges::pool_between(domain, channel)?)?;
        let (again, lent) = (VecDeque::new(), VecDeque::new());
        Ok(Frames { pool, again, lent, next: 0, count, answered: 0 })
    }

    /// Sends frames until all are answered or the server is gone. Then those without an answer are in
    /// `again`.
    fn send_to_one(&mut self, domain: &Domain, mut channel: Channel) -> Result<(), Failed> {
        let options = BulkOptions::default();
        let pools = std::slice::from_ref(&self.pool);
        let transfers = channel.open_bulk(domain, &options, pools)?;
        let mut client = EdgesClient::bind(channel, ())?;
        let ended = self.exchange(&mut client, &transfers);
        if ended.as_ref().is_err_and(|error| is_gone(&**error)) {
            // What the server had is this program's again: unchanged, as it was lent to be read.
            transfers.recover()?;
            while let Some((number, lent)) = self.lent.pop_back() {
                self.again.push_front((number, lent.reclaim().map_err(Error::from)?));
            }
        }
        ended
    }

    fn exchange(
        &mut self,
        client: &mut EdgesClient<Channel, ()>,
        transfers: &Transfers,
    ) -> Result<(), Failed> {
        let mut calls = VecDeque::new();
        while self.answered < self.count {
            while calls.len() < IN_FLIGHT
                && let Some((number, frame)) = self.next_frame()?
            {
                let (frame, lent) = match transfers.share(frame) {
                    Ok(shared) => shared,
                    Err(not_sent) => {
                        self.again.push_front((number, not_sent.kept));
                        return Err(not_sent.error.into());
                    }
                };
                self.lent.push_back((number, lent));
                calls.push_back(client.start(&EdgesFindRequest { frame })?);
            }
            if let Some(call) = calls.pop_front() {
                self.take_answer(client, transfers, call)?;
            }
        }
        Ok(())
    }

    /// The next frame to be sent, in a buffer.
    fn next_frame(&mut self) -> Result<Option<(u64, Buffer)>, Error> {
        if let Some(recovered) = self.again.pop_front() {
            return Ok(Some(recovered));
        }
        if self.next == self.count {
            return Ok(None);
        }
        let mut frame = self.pool.take()?;
        frame.write(0, &edges::frame(self.next))?;
        self.next += 1;
        Ok(Some((self.next - 1, frame)))
    }

    /// Waits for the answer to the oldest call, and checks it.
    fn take_answer(
        &mut self,
        client: &mut EdgesClient<Channel, ()>,
        transfers: &Transfers,
        call: Pending<EdgesFind>,
    ) -> Result<(), Failed> {
        while !client.is_ready(&call) {
            match wait_any(&mut [client.port_mut()], NOTICE) {
                Err(Error::TimedOut { .. }) => {
                    println!("no answer for {NOTICE:?}, {} frames in flight", self.lent.len());
                }
                waited => drop(waited?),
            }
            client.poll()?;
        }
        let reply = client.wait(call)?;
        let (count, answer) = (reply.count()?, reply.edges()?);
        let mut edges = vec![0; FRAME_BYTES];
        transfers.within(Duration::ZERO).claim(answer)?.read(0, &mut edges)?;
        // The frame's buffer is free again.
        let number = self.lent.pop_front().map_or(0, |(number, _)| number);
        let mut expected = edges::frame(number);
        if count != edges::find_edges(&mut expected) || edges != expected {
            return Err(format!("frame {number} came back wrong").into());
        }
        self.answered += 1;
        if self.answered.is_multiple_of(100) {
            println!("{} frames answered", self.answered);
        }
        Ok(())
    }
}
