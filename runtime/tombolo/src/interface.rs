//! Typed interfaces over channels: what generated stubs stand on.
//!
//! Stubs are written by `tombolo idl compile` from files `*.tbl`, or in a build script by `tombolo_idl::build`. A
//! [`Channel`] is a [`Port`]: give it to the stubs' `bind`. Open it with the interface's `HASH`
//! ([`ChannelOptions::interface_hash`](crate::ChannelOptions::interface_hash)), so that peers of other interfaces are
//! refused when they connect.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use tombolo_interface::*;

use crate::channel::Channel;
use crate::error::Error;
use crate::{Draft, Message, TransportKind};

/// A message where it lies.
struct Received<'a, 'm>(&'a Message<'m>);

impl Source for Received<'_, '_> {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.0.len()
    }

    #[inline]
    fn word(&self, at: u32) -> Option<u64> {
        self.0.read_u64_le(at as usize).ok()
    }

    fn copy(&self, at: u32, target: &mut [u8]) -> bool {
        self.0.read_at(at as usize, target).is_ok()
    }
}

/// Room in a ring.
struct Room<'a, 'd>(&'a mut Draft<'d>);

impl Sink for Room<'_, '_> {
    #[inline]
    fn word(&mut self, at: u32, value: u64) {
        // Whoever writes has measured; what would lie outside is dropped, as the trait says.
        let _ = self.0.write_u64_le(at as usize, value);
    }
}

impl Port for Channel {
    type Error = Error;

    fn now_ns(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let passed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX)
    }

    fn max_message_bytes(&self) -> usize {
        Channel::max_message_bytes(self)
    }

    /// No transport carries capabilities or buffers yet.
    fn carries(&self) -> Carries {
        Carries::BYTES
    }

    #[inline]
    fn send<B: Body>(&mut self, message: &Outgoing<'_, B>, timeout: Duration) -> Result<Sent, Error> {
        // On a stream nothing is in place, and sending waits until the kernel has all of it.
        if self.transport() != TransportKind::Socket {
            let written =
                self.try_send_in_place(message.length_bytes(), |draft| message.write(&mut Room(draft)));
            match written {
                Ok(()) => return Ok(Sent::Accepted),
                Err(Error::WouldBlock) if timeout.is_zero() => return Ok(Sent::NoRoom),
                Err(Error::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
        send_when_there_is_room(self, message, timeout)
    }

    #[inline]
    fn recv<R>(
        &mut self,
        timeout: Duration,
        read: impl FnOnce(&dyn Source) -> R,
    ) -> Result<Option<R>, Error> {
        if timeout.is_zero() {
            return self.try_recv_in_place(|message| read(&Received(message)));
        }
        match self.recv_in_place(timeout, |message| read(&Received(message))) {
            Ok(read) => Ok(Some(read)),
            Err(Error::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cold]
fn send_when_there_is_room<B: Body>(
    channel: &mut Channel,
    message: &Outgoing<'_, B>,
    timeout: Duration,
) -> Result<Sent, Error> {
    let mut bytes = vec![0; message.length_bytes()];
    message.write(&mut *bytes);
    match channel.send(&bytes, timeout) {
        Ok(()) => Ok(Sent::Accepted),
        Err(Error::TimedOut { .. } | Error::WouldBlock) => Ok(Sent::NoRoom),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use tombolo_interfaces::kv::{
        KvAwaitChangeReply, KvAwaitChangeRequestView, KvClient, KvError, KvForgetView, KvGetReply,
        KvGetRequest, KvGetRequestView, KvHandler, KvListReply, KvListRequestView, KvPutReply, KvPutRequest,
        KvPutRequestView, KvServer,
    };

    use super::*;
    use crate::testing::{LONG, pair_over};

    /// Holds one value.
    #[derive(Default)]
    struct One {
        value: Vec<u8>,
        version: u64,
    }

    impl KvHandler for One {
        fn get<'s>(
            &'s mut self,
            _: Later,
            _: KvGetRequestView<'_>,
        ) -> Result<KvGetReply<'s>, Decline<KvError>> {
            Ok(KvGetReply { value: &self.value, version: self.version })
        }

        fn put(&mut self, _: Later, request: KvPutRequestView<'_>) -> Result<KvPutReply, Decline<KvError>> {
            self.value = request.value()?.to_vec();
            self.version += 1;
            Ok(KvPutReply { version: self.version })
        }

        fn list<'s>(
            &'s mut self,
            _: Later,
            _: KvListRequestView<'_>,
        ) -> Result<KvListReply<'s>, Decline<Never>> {
            Err(Decline::Unserved)
        }

        fn await_change(
            &mut self,
            _: Later,
            _: KvAwaitChangeRequestView<'_>,
        ) -> Result<KvAwaitChangeReply, Decline<KvError>> {
            Err(Decline::Error(KvError::FULL))
        }

        fn forget(&mut self, _: KvForgetView<'_>) -> Result<(), Malformed> {
            Ok(())
        }
    }

    /// Serves until the client is gone.
    fn serve(channel: Channel) -> u64 {
        let mut server = KvServer::bind(channel).unwrap();
        let mut one = One::default();
        while server.serve_one(&mut one, LONG).is_ok_and(|came| came) {}
        one.version
    }

    #[test]
    fn calls_pass_over_every_kind_of_channel() {
        for transport in [TransportKind::Shm, TransportKind::Socket] {
            let (a, b) = pair_over(transport);
            let serving = std::thread::spawn(move || serve(b));
            let mut client = KvClient::bind(a, ()).unwrap();
            for round in 1..=100_u64 {
                // Lengths that end within words and slots.
                let value = vec![round as u8; (round * 19) as usize];
                let put = KvPutRequest { key: "k", value: &value, expected: None };
                let version = client.put(&put, LONG, |answer| answer.expect("no error").version());
                assert_eq!(version.unwrap(), round);
                let read = client.get(&KvGetRequest { key: "k" }, LONG, |answer| {
                    let reply = answer.expect("no error");
                    Ok((reply.value()?.to_vec(), reply.version()?))
                });
                assert_eq!(read.unwrap(), (value, round));
            }
            drop(client);
            assert_eq!(serving.join().unwrap(), 100);
        }
    }

    #[test]
    fn the_end_of_the_server_is_the_end_of_a_call() {
        let (a, b) = pair_over(TransportKind::Shm);
        let mut client = KvClient::bind(a, ()).unwrap();
        let call = client.start_get(&KvGetRequest { key: "k" }, LONG).unwrap();
        drop(b);
        let ended = client.wait_get(call, |_| Ok(()));
        assert!(
            matches!(ended, Err(CallError::Ended { ref error, may_repeat: true }) if error.is_peer_gone()),
            "{ended:?}"
        );
    }
}
