//! A remote peer: its control channel, and the channel under test.

use core::time::Duration;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::error::Fault;
use tombolo::{Channel, Domain, Error};
use tombolo_remote_peer::{Answer, Awaited, Counts, Failure, Opening, Order};

use crate::{Outcome, place};

/// Result of a poll for orders.
pub(crate) enum PollResult {
    /// An order was executed.
    Orders,
    /// No order was pending.
    Nothing,
    /// The suite closed the control channel or died.
    End,
}

pub(crate) struct PeerStation {
    pub(crate) control: Channel,
    /// Channel under test, once it is open.
    pub(crate) end: Option<Channel>,
    /// Event for which a sleep was announced.
    pub(crate) announced: Option<Awaited>,
    /// Event that the current sleep waits for.
    pub(crate) asleep: Option<Awaited>,
    /// Set when the doorbell or a hang-up ended the sleep.
    pub(crate) rung: bool,
    order: Vec<u8>,
    message: Vec<u8>,
}

impl PeerStation {
    pub(crate) fn new(control: Channel) -> PeerStation {
        let (order, message) = (Vec::new(), Vec::new());
        PeerStation { control, end: None, announced: None, asleep: None, rung: false, order, message }
    }

    /// Executes an order and answers it, if one is pending.
    pub(crate) fn serve(&mut self, domain: &Domain) -> Outcome<PollResult> {
        let mut order = core::mem::take(&mut self.order);
        let served = match self.control.try_recv_into(&mut order) {
            Ok(None) => PollResult::Nothing,
            Ok(Some(_)) => {
                let answer = self.execute(domain, Order::from_bytes(&order)?);
                self.control.send(&answer)?;
                PollResult::Orders
            }
            Err(Error::Closed { .. } | Error::PeerDied { .. } | Error::RelayDied { .. }) => PollResult::End,
            Err(error) => return Err(error.into()),
        };
        self.order = order;
        Ok(served)
    }

    /// Reports the end of the sleep to the suite, if it has ended.
    pub(crate) fn report_rung(&mut self) -> Outcome<()> {
        if core::mem::take(&mut self.rung) {
            self.asleep = None;
            self.control.send(&Answer::Rung.to_bytes(self.counts()))?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        let stats = self.end.as_ref().map(Channel::stats).unwrap_or_default();
        let (sent, received) =
            ((stats.messages_sent, stats.bytes_sent), (stats.messages_received, stats.bytes_received));
        Counts { numbers: [sent.0, sent.1, received.0, received.1, stats.rings, stats.sleeps] }
    }

    fn execute(&mut self, domain: &Domain, order: Order<'_>) -> Vec<u8> {
        let mut message = core::mem::take(&mut self.message);
        let done = self.try_execute(domain, order, &mut message);
        let answer = match done {
            Ok(Some(number)) => Answer::Done(number),
            Ok(None) => Answer::Message(&message),
            Err(failure) => Answer::Failed(failure),
        };
        let bytes = answer.to_bytes(self.counts());
        self.message = message;
        bytes
    }

    /// Executes an order. Returns the number to answer, or `None` if a message was received.
    fn try_execute(
        &mut self,
        domain: &Domain,
        order: Order<'_>,
        message: &mut Vec<u8>,
    ) -> Result<Option<u64>, Failure> {
        if let Order::Open(opening) = &order {
            let end = open(domain, opening).map_err(failure)?;
            let max_bytes = end.max_message_bytes() as u64;
            (self.end, self.announced, self.asleep) = (Some(end), None, None);
            return Ok(Some(max_bytes));
        }
        let end = self.end.as_mut().ok_or_else(|| Failure::Other("there is no channel".to_string()))?;
        let mut truth = true;
        match order {
            Order::Open(_) => {}
            Order::Send(bytes) => end.try_send(bytes).map_err(failure)?,
            Order::SendZeros(length) => end.try_send(&vec![0; length as usize]).map_err(failure)?,
            Order::Recv => {
                if end.try_recv_into(message).map_err(failure)?.is_some() {
                    return Ok(None);
                }
                truth = false;
            }
            Order::Readable => truth = place::readable(end),
            Order::Announce(awaited) => {
                place::announce(end, awaited);
                self.announced = Some(awaited);
            }
            Order::MaySleep(awaited) => {
                truth = place::may_sleep(end, awaited);
                self.asleep = self.announced.filter(|_| truth);
            }
            Order::Awake(rung) => {
                (self.announced, self.asleep) = (None, None);
                place::finish_sleep(end, rung);
            }
            Order::Close => place::close(end),
            Order::Drop => (self.end, self.announced, self.asleep) = (None, None, None),
        }
        Ok(Some(truth.into()))
    }
}

fn open(domain: &Domain, opening: &Opening) -> Result<Channel, Error> {
    let options = place::options(opening.config, opening.interface_hash)?;
    let timeout = Duration::from_nanos(opening.timeout_ns);
    if opening.accepts {
        options.export(domain, &opening.name)?.within(timeout).accept()
    } else {
        options.connect(&domain.within(timeout), &opening.name)
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::WouldBlock => Failure::WouldBlock,
        Error::TimedOut { .. } | Error::Monitor(Fault::NoSuchName { .. }) => Failure::TimedOut,
        Error::Closed { .. } => Failure::Closed,
        Error::PeerDied { .. } => Failure::PeerDied,
        Error::TooLong { length_bytes, max_bytes } => Failure::TooLong(length_bytes as u64, max_bytes as u64),
        Error::Violation { what, .. } => Failure::Violation(what),
        error => Failure::Other(error.to_string()),
    }
}
