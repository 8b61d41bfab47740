//! Encoding and decoding of messages. The interfaces and `docs/specs/interface.md` specify the format.

use alloc::format;
use alloc::vec::Vec;

use tombolo_interface::message::Header;
use tombolo_interface::view::View;
use tombolo_interface::{Envelope, Holds, Malformed, Messages, OverLimit, Source, Unsendable, owned};

use crate::agent::{AgentReply, AgentRequest};
use crate::machine::Fault;
use crate::monitor::{MonitorReply, MonitorRequest};
use crate::observation::{Observation, ObservationView};

/// Maximum length of an encoded control message, in bytes. Fields that can be long (output, arguments) are
/// limited before.
pub const MAX_MESSAGE_BYTES: usize = 60 * 1024;

/// Maximum length of an encoded order or report, which may contain a control message, in bytes.
pub const MAX_ORDER_BYTES: usize = MAX_MESSAGE_BYTES + 2048;

/// Message from a domain. The request number has 24 bits; 0 requests no answer.
pub type ClientMessage = Envelope<MonitorRequest>;

/// Message from a monitor. The request number is that of the [`ClientMessage`]; 0 for an event.
pub type MonitorMessage = Envelope<MonitorReply>;

/// Message with an encoding.
pub trait Wire: Sized {
    /// Encodes the message, in up to [`MAX_MESSAGE_BYTES`] or [`MAX_ORDER_BYTES`].
    ///
    /// # Errors
    /// [`Unsendable`] when it is too long, with the name of the field if a single field is the cause.
    fn to_bytes(&self) -> Result<Vec<u8>, Unsendable>;

    /// Decodes a whole message.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not exactly one valid message.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed>;
}

impl<B: Messages> Wire for Envelope<B> {
    fn to_bytes(&self) -> Result<Vec<u8>, Unsendable> {
        self.encode(MAX_MESSAGE_BYTES)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        Envelope::decode(bytes)
    }
}

macro_rules! impl_wire {
    ($($messages:ty),*) => {$(
        impl Wire for $messages {
            fn to_bytes(&self) -> Result<Vec<u8>, Unsendable> {
                owned::encode(0, self, MAX_ORDER_BYTES)
            }

            fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
                Envelope::decode(bytes).map(|message| message.body)
            }
        }
    )*};
}
impl_wire!(AgentRequest, AgentReply);

/// Encodes a monitor's message to a client. An answer that is too long is replaced by a fault with the
/// reason, an event by a notice that the monitor no longer serves the client.
#[must_use]
pub fn encode_or_fault(message: &MonitorMessage) -> Vec<u8> {
    message.to_bytes().unwrap_or_else(|error| {
        let fault = Fault::Limit { what: format!("the monitor's answer cannot be sent: {error}") };
        let body = match message.request {
            0 => MonitorReply::TurnedAway { fault },
            _ => MonitorReply::Failed { fault },
        };
        // Short, so the only remaining cause is a call number that the interface does not define.
        Envelope { request: message.request, body }.to_bytes().unwrap_or_default()
    })
}

/// Returns the size of an observation inside a message with several, in bytes.
///
/// # Errors
/// A field exceeds its limit in the interface.
pub fn observation_bytes(observation: &Observation) -> Result<usize, OverLimit> {
    let outside = <ObservationView<'_> as Holds<Observation>>::outside(observation, "observations")?;
    Ok(ObservationView::BYTES as usize + outside)
}

/// Whether the header of an encoded [`ClientMessage`] indicates that it may concern the names of the node.
#[must_use]
pub fn is_naming_request(bytes: &[u8]) -> bool {
    let naming = [MonitorRequest::EXPORT, MonitorRequest::WITHDRAW, MonitorRequest::NAMES];
    Header::read(Source::Bytes(bytes)).is_ok_and(|(header, _)| naming.contains(&header.ordinal()))
}

#[cfg(test)]
mod tests {
    use tombolo_base::NodeId;

    use super::*;
    use crate::observation::Part;

    #[test]
    fn observation_size_is_what_it_adds_to_a_reply() {
        let gone = Observation::Gone { part: Part::Node(NodeId(1)) };
        let answer = |observations| MonitorMessage {
            request: 1,
            body: MonitorReply::Observe {
                observations,
                until: 1,
                more: false,
                anew: false,
                now_ns: 1,
                wall_ns: 1,
            },
        };
        let length = |observations| answer(observations).to_bytes().unwrap().len();
        let one = length(alloc::vec![gone.clone()]);
        let three = length(alloc::vec![gone.clone(), gone.clone(), gone.clone()]);
        assert_eq!(observation_bytes(&gone).unwrap(), (three - one) / 2);
    }

    #[test]
    fn order_fits_a_whole_control_message() {
        assert_eq!(MAX_ORDER_BYTES - MAX_MESSAGE_BYTES, 2048);
    }
}
