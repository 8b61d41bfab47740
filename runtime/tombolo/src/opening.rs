//! Channels that are opened with a request: the listener reads it, and accepts the channel or refuses it with
//! a reason.
//!
//! ```no_run
//! use tombolo::{ChannelOptions, Domain, Error};
//!
//! const SESSION: u64 = 0x5e55_1000; // stands for what the bytes mean
//!
//! fn serve(domain: &Domain) -> Result<(), Error> {
//!     let listener = ChannelOptions::default().export_for_requests(domain, "store", SESSION)?;
//!     let opening = listener.accept()?;
//!     if opening.request() == b"read-only" {
//!         let channel = opening.accept()?;
//!         # let _ = channel;
//!         // …
//!     } else {
//!         opening.refuse("this store is read-only")?;
//!     }
//!     Ok(())
//! }
//!
//! fn connect(domain: &Domain) -> Result<(), Error> {
//!     let channel = ChannelOptions::default().request(SESSION, b"read-only")?.connect(domain, "store")?;
//!     # let _ = channel;
//!     Ok(())
//! }
//! ```
//!
//! Request and answer are the first message each way over the channel, so this works over every transport.
//! What the request is takes part in the hash of the interface, so a program that connects without a request,
//! or with one of another kind, is refused when the channel opens. `docs/specs/channel.md` has the bytes.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_platform::Deadline;

use crate::address::Address;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Listener, sealed};
use crate::options::ChannelOptions;

/// The longest request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 1024;

/// The longest reason of a refusal, in bytes; longer ones are cut.
pub const MAX_REASON_BYTES: usize = 512;

/// "TMBLOPEN" and "TMBLANSW" read as little-endian bytes: the first words of request and answer.
const REQUEST: u64 = u64::from_le_bytes(*b"TMBLOPEN");
const ANSWER: u64 = u64::from_le_bytes(*b"TMBLANSW");

/// The bytes of a request or answer before its text.
const HEAD_BYTES: usize = 16;

const ACCEPTED: u64 = 0;
const REFUSED: u64 = 1;

/// How long a program that has connected may take to send its request: other programs wait meanwhile.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// What a program asks for when it opens a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OpenRequest {
    kind: u64,
    bytes: Vec<u8>,
}

/// The hash of the interface of a channel that is opened by requests of a kind: never that of one without.
fn hash_with(interface_hash: u64, kind: u64) -> u64 {
    // Multiplied by odd numbers, so that no two kinds have one hash.
    let mixed = kind.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ REQUEST;
    interface_hash.rotate_left(17) ^ mixed
}

fn message(first: u64, second: u64, text: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + text.len());
    message.extend_from_slice(&first.to_le_bytes());
    message.extend_from_slice(&second.to_le_bytes());
    message.extend_from_slice(text);
    message
}

/// The second word and the text of a message that begins with `first`.
fn parts(message: &[u8], first: u64) -> Option<(u64, &[u8])> {
    let (head, text) = message.split_first_chunk::<8>()?;
    let (second, text) = text.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*head) == first).then_some((u64::from_le_bytes(*second), text))
}

impl ChannelOptions {
    /// Connects with a request of these bytes, up to [`MAX_REQUEST_BYTES`], on which the listener decides.
    /// `kind` stands for what they mean, such as the `HASH` of an interface; the listener must have been
    /// [exported](Self::export_for_requests) with the same.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn request(mut self, kind: u64, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_REQUEST_BYTES {
            return Err(Error::TooLong { length_bytes: bytes.len(), max_bytes: MAX_REQUEST_BYTES });
        }
        self.request = Some(OpenRequest { kind, bytes: bytes.to_vec() });
        Ok(self)
    }

    /// Takes up a name under which programs connect with [requests](Self::request) of a kind.
    ///
    /// # Errors
    /// As [`Domain::export`].
    pub fn export_for_requests(
        &self,
        domain: &Domain,
        name: &str,
        kind: u64,
    ) -> Result<Listener<Opening>, Error> {
        let options = self.clone().interface_hash(hash_with(self.interface_hash, kind));
        domain.listen_as(name, options, kind)
    }

    /// These options, with the interface that a request makes of theirs.
    pub(crate) fn asking(&self) -> ChannelOptions {
        let hash = match &self.request {
            Some(request) => hash_with(self.interface_hash, request.kind),
            None => self.interface_hash,
        };
        self.clone().interface_hash(hash)
    }
}

pub(crate) fn ask(
    channel: &mut Channel,
    to: &Address,
    request: &OpenRequest,
    deadline: Deadline,
) -> Result<(), Error> {
    channel.within(deadline.remaining()).send(&message(REQUEST, request.kind, &request.bytes))?;
    let answer = receive(channel, deadline.remaining())?;
    match parts(&answer, ANSWER) {
        Some((ACCEPTED, _)) => Ok(()),
        Some((REFUSED, reason)) => Err(Error::OpeningRefused {
            name: to.to_string(),
            peer: channel.peer(),
            node: channel.peer_node().to_owned(),
            reason: printable(reason),
        }),
        _ => Err(channel.violation(format!("{} bytes that are no answer to a request", answer.len()))),
    }
}

fn receive(channel: &mut Channel, timeout: Duration) -> Result<Vec<u8>, Error> {
    let mut message = Vec::new();
    channel.within(timeout).recv_into(&mut message)?;
    Ok(message)
}

/// A reason, which is an allegation: as much of it as is allowed, without what a terminal would obey.
fn printable(reason: &[u8]) -> String {
    let reason = &reason[..reason.len().min(MAX_REASON_BYTES)];
    String::from_utf8_lossy(reason).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl sealed::Accepted for Opening {
    /// The kind of the requests.
    type Terms = u64;

    fn over(mut channel: Channel, _: &Domain, kind: &u64, _: Duration) -> Result<Opening, Error> {
        let message = receive(&mut channel, REQUEST_PATIENCE)?;
        match parts(&message, REQUEST) {
            Some((asked, bytes)) if asked == *kind && bytes.len() <= MAX_REQUEST_BYTES => {
                let request = bytes.to_vec();
                Ok(Opening { channel: Some(channel), request })
            }
            _ => Err(channel.violation(format!("{} bytes that are no request", message.len()))),
        }
    }
}

/// A program that has connected with a request and waits for the decision. Dropped without one, it is
/// refused.
#[derive(Debug)]
pub struct Opening {
    /// Taken by the decision.
    channel: Option<Channel>,
    request: Vec<u8>,
}

impl Opening {
    /// The bytes of its request: an allegation of the program that sent it.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// The domain that asks.
    #[must_use]
    pub fn peer(&self) -> Option<DomainId> {
        self.channel.as_ref().map(Channel::peer)
    }

    /// Accepts: the channel is open.
    ///
    /// # Errors
    /// The end of the program that asked.
    pub fn accept(mut self) -> Result<Channel, Error> {
        match self.channel.take() {
            Some(mut channel) => {
                channel.send(&message(ANSWER, ACCEPTED, &[]))?;
                Ok(channel)
            }
            None => Err(Error::WouldBlock),
        }
    }

    /// Refuses, and closes the channel. Of the reason up to [`MAX_REASON_BYTES`] are sent.
    ///
    /// # Errors
    /// The end of the program that asked.
    pub fn refuse(mut self, reason: &str) -> Result<(), Error> {
        match self.channel.take() {
            Some(channel) => refuse(channel, reason),
            None => Ok(()),
        }
    }
}

fn refuse(mut channel: Channel, reason: &str) -> Result<(), Error> {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    // The other side receives what was sent before this end closes.
    channel.send(&message(ANSWER, REFUSED, reason.as_bytes()))
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            // A program that is gone needs no answer.
            let _ = refuse(channel, "the listener made no decision");
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo_link::TransportKind;

    use super::*;
    use crate::testing::{LONG, pair_over};

    fn asked(decide: impl FnOnce(Opening) + Send + 'static) -> Result<(), Error> {
        let (mut near, mut far) = pair_over(TransportKind::Shm);
        let listener = std::thread::spawn(move || {
            let message = receive(&mut far, LONG).unwrap();
            let (kind, bytes) = parts(&message, REQUEST).unwrap();
            assert_eq!((kind, bytes), (9, &b"please"[..]));
            decide(Opening { channel: Some(far), request: bytes.to_vec() });
        });
        let request = OpenRequest { kind: 9, bytes: b"please".to_vec() };
        let result = ask(&mut near, &Address::from("store"), &request, Deadline::after(LONG));
        listener.join().unwrap();
        result
    }

    #[test]
    fn a_request_is_accepted_or_refused_with_its_reason() {
        assert_eq!(asked(|opening| drop(opening.accept().unwrap())), Ok(()));
        let refused = asked(|opening| opening.refuse("no more\x1b sessions").unwrap()).unwrap_err();
        assert!(
            matches!(&refused, Error::OpeningRefused { name, reason, .. }
                if name == "store" && reason == "no more\u{fffd} sessions"),
            "{refused:?}"
        );
        assert!(refused.to_string().contains("'store'") && refused.to_string().contains("no more"));
        let dropped = asked(drop).unwrap_err().to_string();
        assert!(dropped.contains("made no decision"), "{dropped}");
        let long = asked(|opening| opening.refuse(&"é".repeat(1000)).unwrap()).unwrap_err();
        assert!(matches!(long, Error::OpeningRefused { reason, .. } if reason == "é".repeat(256)));
    }

    #[test]
    fn what_is_no_answer_is_a_violation() {
        for answer in [&b""[..], b"TMBLANS", &message(ANSWER, 7, b""), &message(REQUEST, 0, b"")] {
            let (mut near, mut far) = pair_over(TransportKind::Shm);
            far.send(answer).unwrap();
            let request = OpenRequest { kind: 9, bytes: Vec::new() };
            let result = ask(&mut near, &Address::from("store"), &request, Deadline::after(LONG));
            assert!(matches!(result, Err(Error::Violation { .. })), "{answer:?}: {result:?}");
        }
    }

    #[test]
    fn requests_are_part_of_the_interface() {
        let hashes = [hash_with(0, 0), hash_with(0, 1), hash_with(1, 0), hash_with(1, 1)];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(*hash > 1 && !hashes[..index].contains(hash));
        }
        let options = ChannelOptions::default;
        assert!(matches!(options().request(1, &[0; 1025]), Err(Error::TooLong { .. })));
        assert!(options().request(1, &[0; 1024]).is_ok());
    }
}
