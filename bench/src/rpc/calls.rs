//! Typed calls over a channel, and the same bytes as messages.

use std::sync::OnceLock;
use std::time::Duration;

use tombolo::interface::{Call, Decline, Never, Response};
use tombolo::{Channel, ChannelOptions, Domain};
use tombolo_stubs::echo::{
    Echo, EchoClient, EchoEcho, EchoEchoReply, EchoEchoRequest, EchoHandler, EchoNull, EchoNullReply,
    EchoNullRequest, EchoServer, MAX_DATA,
};

use super::slots;
use crate::suite::content::{check, corrupt, fill};
use crate::suite::peers::tombolo as channels;
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

/// The name of typed calls in tables.
pub const CALLS: &str = "Tombolo calls";
/// The name of messages in tables.
pub const MESSAGES: &str = "Tombolo messages";

const PATIENCE: Duration = Duration::from_secs(20);

/// Calls of the stubs that `tombolo idl` writes.
#[derive(Debug, Default)]
pub(super) struct Calls {
    domain: OnceLock<Domain>,
}

/// Messages over the same channel.
#[derive(Debug, Default)]
pub(super) struct Messages {
    domain: OnceLock<Domain>,
}

fn options(metric: Metric) -> Result<ChannelOptions, Error> {
    Ok(ChannelOptions::default().slots(slots(metric))?)
}

impl Peer for Messages {
    fn name(&self) -> &'static str {
        MESSAGES
    }

    fn about(&self) -> String {
        "a channel with default options (for 64 KiB with 4096 slots): a message there and one back".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::CALLS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        Ok(channels::end(channels::channel(&self.domain, meeting, &options(metric)?)?, meeting))
    }
}

impl Peer for Calls {
    fn name(&self) -> &'static str {
        CALLS
    }

    fn about(&self) -> String {
        "typed calls over the same channel: the request is written where it is sent from, the answer copied once"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::CALLS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let options = options(metric)?.interface_hash(Echo::HASH);
        let channel = channels::channel(&self.domain, meeting, &options)?;
        let wrong = |error| Error::of_peer(CALLS, error);
        Ok(match meeting.side {
            Side::Near => {
                let client = EchoClient::bind(channel, ()).map_err(wrong)?;
                AnyEnd::new(Calling { client })
            }
            Side::Far => {
                let server = EchoServer::bind(channel).map_err(wrong)?;
                AnyEnd::new(Serving { server, data: Data { bytes: vec![0; MAX_DATA as usize] } })
            }
        })
    }
}

/// Makes calls; what is sent for one is part of it.
struct Calling {
    client: EchoClient<Channel>,
}

impl End for Calling {
    #[inline(always)]
    fn send<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        if N == 0 {
            return self.client.null(&EchoNullRequest {}).map(|_| ()).map_err(failed);
        }
        let mut data = [0; N];
        fill(&mut data, sequence);
        let reply = self.client.echo(&EchoEchoRequest { data: &data }).map_err(failed)?;
        let mut data = [0; N];
        let whole = reply.data().map_err(failed)?.copy_to(&mut data).is_some_and(|data| data.len() == N);
        if whole && check::<N>(&data, sequence).is_ok() { Ok(()) } else { Err(corrupt(sequence)) }
    }
}

#[cold]
fn failed(error: impl std::fmt::Display) -> Error {
    Error::of_peer(CALLS, error)
}

/// Serves them: receiving a request is to answer it.
struct Serving {
    server: EchoServer<Channel>,
    data: Data,
}

struct Data {
    bytes: Vec<u8>,
}

impl EchoHandler for Data {
    #[inline]
    fn null(&mut self, _: Call<'_, EchoNull>) -> Result<Response<EchoNullReply>, Decline<Never>> {
        Ok(EchoNullReply {}.into())
    }

    #[inline]
    fn echo<'s>(
        &'s mut self,
        request: Call<'_, EchoEcho>,
    ) -> Result<Response<EchoEchoReply<'s>>, Decline<Never>> {
        // It has room for the longest.
        Ok(EchoEchoReply { data: request.data()?.copy_to(&mut self.bytes).unwrap_or_default() }.into())
    }
}

impl End for Serving {
    /// The answer was sent when the call was received.
    #[inline(always)]
    fn send<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        match self.server.serve_one(&mut self.data) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Stalled { waited: PATIENCE }),
            Err(error) => Err(failed(error)),
        }
    }
}
