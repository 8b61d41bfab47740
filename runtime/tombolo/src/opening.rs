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
//! Request and answer are the first message in each direction on the channel, so this works over every
//! transport. The kind of the request is part of the hash of the interface, so a program that connects
//! without a request, or with one of another kind, is refused when the channel opens. `docs/specs/channel.md`
//! specifies the encoding.

use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_platform::Deadline;

use crate::address::Address;
use crate::channel::Channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::{Listener, sealed};
use crate::options::ChannelOptions;

/// Maximum length of a request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 1024;

/// Maximum length of the reason of a refusal, in bytes; longer ones are truncated.
pub const MAX_REASON_BYTES: usize = 512;

/// First words of a request and an answer: "TMBLOPEN" and "TMBLANSW" as little-endian bytes.
const REQUEST: u64 = u64::from_le_bytes(*b"TMBLOPEN");
const ANSWER: u64 = u64::from_le_bytes(*b"TMBLANSW");

/// Bytes before the text of a request or answer.
const HEAD_BYTES: usize = 16;

const ACCEPTED: u64 = 0;
const REFUSED: u64 = 1;

/// Timeout for the request of a program that has connected: other programs wait meanwhile.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Request that a program sends when it opens a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OpenRequest {
    kind: u64,
    bytes: Vec<u8>,
}

/// Returns the interface hash of a channel opened with requests of a kind; it differs from that of one
/// without.
fn hash_with(interface_hash: u64, kind: u64) -> u64 {
    // Multiplication by an odd number, so that no two kinds have the same hash.
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

/// Returns the second word and the text of a message whose first word is `first`.
fn parts(message: &[u8], first: u64) -> Option<(u64, &[u8])> {
    let (head, text) = message.split_first_chunk::<8>()?;
    let (second, text) = text.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*head) == first).then_some((u64::from_le_bytes(*second), text))
}

impl ChannelOptions {
    /// Connects with a request of up to [`MAX_REQUEST_BYTES`] bytes, on which the listener decides. `kind`
    /// identifies the meaning of the bytes, for example the `HASH` of an interface; the listener must have
    /// been [exported](Self::export_for_requests) with the same kind.
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

    /// Claims a name under which programs connect with [requests](Self::request) of a kind.
    ///
    /// # Errors
    /// Same as [`Domain::export`].
    pub fn export_for_requests(
        &self,
        domain: &Domain,
        name: &str,
        kind: u64,
    ) -> Result<Listener<Opening>, Error> {
        let options = self.clone().interface_hash(hash_with(self.interface_hash, kind));
        domain.export_name(name, options, kind)
    }

    /// Returns these options with the interface hash that includes the kind of the request.
    pub(crate) fn with_request_hash(&self) -> ChannelOptions {
        let hash = match &self.request {
            Some(request) => hash_with(self.interface_hash, request.kind),
            None => self.interface_hash,
        };
        self.clone().interface_hash(hash)
    }
}

pub(crate) fn send_request(
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

/// Converts an untrusted reason to text: truncates it and replaces control characters, which a terminal would
/// interpret.
fn printable(reason: &[u8]) -> String {
    let reason = &reason[..reason.len().min(MAX_REASON_BYTES)];
    String::from_utf8_lossy(reason).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

impl sealed::Accepted for Opening {
    /// Kind of the requests.
    type Terms = u64;

    fn over(mut channel: Channel, _: &Domain, kind: &u64, _: Duration) -> Result<Opening, Error> {
        let message = receive(&mut channel, REQUEST_TIMEOUT)?;
        match parts(&message, REQUEST) {
            Some((asked, bytes)) if asked == *kind && bytes.len() <= MAX_REQUEST_BYTES => {
                let request = bytes.to_vec();
                Ok(Opening { channel: Some(channel), request })
            }
            _ => Err(channel.violation(format!("{} bytes that are no request", message.len()))),
        }
    }
}

/// Program that has connected with a request and waits for the decision. Dropping it refuses the channel.
#[derive(Debug)]
pub struct Opening {
    /// Taken when the decision is made.
    channel: Option<Channel>,
    request: Vec<u8>,
}

impl Opening {
    /// Returns the bytes of the request. They come from the connecting program and are untrusted.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Domain that sent the request.
    #[must_use]
    pub fn peer(&self) -> Option<DomainId> {
        self.channel.as_ref().map(Channel::peer)
    }

    /// Accepts the request and returns the open channel.
    ///
    /// # Errors
    /// The end of the program that sent the request.
    pub fn accept(mut self) -> Result<Channel, Error> {
        match self.channel.take() {
            Some(mut channel) => {
                channel.send(&message(ANSWER, ACCEPTED, &[]))?;
                Ok(channel)
            }
            None => Err(Error::WouldBlock),
        }
    }

    /// Refuses the request and closes the channel. At most [`MAX_REASON_BYTES`] of the reason are sent.
    ///
    /// # Errors
    /// The end of the program that sent the request.
    pub fn refuse(mut self, reason: &str) -> Result<(), Error> {
        match self.channel.take() {
            Some(channel) => refuse(channel, reason),
            None => Ok(()),
        }
    }
}

fn refuse(mut channel: Channel, reason: &str) -> Result<(), Error> {
    let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
    // The other side receives the answer before the end of the channel.
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
        let result = send_request(&mut near, &Address::from("store"), &request, Deadline::after(LONG));
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
    fn invalid_answer_is_a_violation() {
        for answer in [&b""[..], b"TMBLANS", &message(ANSWER, 7, b""), &message(REQUEST, 0, b"")] {
            let (mut near, mut far) = pair_over(TransportKind::Shm);
            far.send(answer).unwrap();
            let request = OpenRequest { kind: 9, bytes: Vec::new() };
            let result = send_request(&mut near, &Address::from("store"), &request, Deadline::after(LONG));
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
