//! Messages to bytes and back. What the bytes are is said by the interfaces and `docs/specs/interface.md`.

use alloc::format;
use alloc::vec::Vec;

use tombolo_interface::message::Header;
use tombolo_interface::view::View;
use tombolo_interface::{Envelope, Holds, Malformed, Messages, OverLimit, Unsendable, owned};

use crate::agent::{AgentReply, AgentRequest};
use crate::machine::Fault;
use crate::monitor::{MonitorReply, MonitorRequest};
use crate::observation::{Observation, ObservationView};

/// The longest encoded control message. What may be long (output, arguments) is cut or refused before.
pub const MAX_MESSAGE_BYTES: usize = 60 * 1024;

/// The longest encoded order or report, which may hold a control message.
pub const MAX_ORDER_BYTES: usize = MAX_MESSAGE_BYTES + 2048;

/// What a domain sends. The number of the request is not 0 if it is to be answered, and has 24 bits.
pub type ClientMessage = Envelope<MonitorRequest>;

/// What a monitor sends. The request is that of the [`ClientMessage`], as it was received; 0 for an event.
pub type MonitorMessage = Envelope<MonitorReply>;

/// A message with an encoding.
pub trait Wire: Sized {
    /// The encoding, of up to [`MAX_MESSAGE_BYTES`] or [`MAX_ORDER_BYTES`].
    ///
    /// # Errors
    /// [`Unsendable`]: it is too long, and which field if it is one.
    fn to_bytes(&self) -> Result<Vec<u8>, Unsendable>;

    /// Decodes a whole message.
    ///
    /// # Errors
    /// [`Malformed`].
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

macro_rules! without_calls {
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
without_calls!(AgentRequest, AgentReply);

/// The bytes of what a monitor says to a client. In place of an answer that is too long to be sent the client hears why it
/// gets none; in place of an event, that the monitor does not serve it any more.
#[must_use]
pub fn told(message: &MonitorMessage) -> Vec<u8> {
    message.to_bytes().unwrap_or_else(|error| {
        let fault = Fault::Limit { what: format!("what the monitor has to say cannot be sent: {error}") };
        let body = match message.request {
            0 => MonitorReply::TurnedAway { fault },
            _ => MonitorReply::Failed { fault },
        };
        // Short, so only the number of a call that the interface does not have is left as a reason.
        Envelope { request: message.request, body }.to_bytes().unwrap_or_default()
    })
}

/// What an observation takes of a message that tells of several, in bytes.
///
/// # Errors
/// Something in it is longer than the interface allows.
pub fn observation_bytes(observation: &Observation) -> Result<usize, OverLimit> {
    let outside = <ObservationView<'_> as Holds<Observation>>::outside(observation, "observations")?;
    Ok(ObservationView::BYTES as usize + outside)
}

/// Whether the bytes of a [`ClientMessage`] may be something for the names of the node, as far as their header says.
#[must_use]
pub fn is_about_names(bytes: &[u8]) -> bool {
    let about = [MonitorRequest::EXPORT, MonitorRequest::WITHDRAW, MonitorRequest::NAMES];
    Header::read(&bytes).is_ok_and(|(header, _)| about.contains(&header.ordinal()))
}

#[cfg(test)]
mod tests {
    use tombolo_base::NodeId;

    use super::*;
    use crate::observation::Part;

    #[test]
    fn an_observation_takes_what_an_answer_grows_by() {
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
    fn an_order_has_room_around_a_whole_control_message() {
        assert_eq!(MAX_ORDER_BYTES - MAX_MESSAGE_BYTES, 2048);
    }
}
