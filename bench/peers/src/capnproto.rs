//! Cap'n Proto RPC over a local socket.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use capnp_rpc::rpc_twoparty_capnp::Side as Vat;
use capnp_rpc::{RpcSystem, twoparty};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tombolo_bench::rpc::FOREIGN;
use tombolo_bench::suite::content::{check, fill};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

use crate::answering::{AnswerCounter, ServerThread, TIMEOUT};
use crate::echo_capnp::echo;

const NAME: &str = FOREIGN[0];

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::of_peer(NAME, format!("{what}: {error}"))
}

fn refused(error: capnp::Error) -> Error {
    Error::of_peer(NAME, format!("call: {error}"))
}

/// Calls over a socket pair.
pub(crate) struct Calls;

impl Peer for Calls {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "capnp-rpc 0.27 for Rust, two parties over a pair of local stream sockets, each on one thread of tokio; sleeps".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::CALLS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        match meeting.side {
            Side::Near => {
                let (own, other) = UnixStream::pair().map_err(failed("make sockets"))?;
                meeting.line.give_fds(&[other.as_fd()])?;
                Ok(AnyEnd::new(Calling::over(own).map_err(failed("start a runtime"))?))
            }
            Side::Far => {
                let [stream] = meeting.line.take_fds()?;
                Ok(AnyEnd::new(ServerThread::start(NAME, stream.into(), serve)?))
            }
        }
    }
}

/// Creates one side of a connection; must be called within a tokio runtime.
fn system(
    stream: UnixStream,
    side: Vat,
    bootstrap: Option<capnp::capability::Client>,
) -> std::io::Result<RpcSystem<Vat>> {
    stream.set_nonblocking(true)?;
    let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
    let network = twoparty::VatNetwork::new(reader.compat(), writer.compat_write(), side, Default::default());
    Ok(RpcSystem::new(Box::new(network), bootstrap))
}

struct Calling {
    client: echo::Client,
    tasks: LocalSet,
    runtime: Runtime,
}

impl Calling {
    fn over(stream: UnixStream) -> std::io::Result<Calling> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let tasks = LocalSet::new();
        let client = tasks.block_on(&runtime, async {
            let mut system = system(stream, Vat::Client, None)?;
            let client = system.bootstrap(Vat::Server);
            tokio::task::spawn_local(system);
            Ok::<_, std::io::Error>(client)
        })?;
        Ok(Calling { client, tasks, runtime })
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, capnp::Error>>) -> Result<T, Error> {
        let answer = self.tasks.block_on(&self.runtime, async { tokio::time::timeout(TIMEOUT, call).await });
        answer.map_err(|_| Error::Stalled { waited: TIMEOUT })?.map_err(refused)
    }
}

impl End for Calling {
    /// Does nothing: a call includes sending.
    fn send<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        if N == 0 {
            return self.wait(self.client.null_request().send().promise).map(drop);
        }
        let mut request = self.client.echo_request();
        // Writes the data in place, in the message that is sent.
        if let Ok(data) = request.get().init_data(N as u32).try_into() {
            fill::<N>(data, sequence);
        }
        let reply = self.wait(request.send().promise)?;
        let data = reply.get().and_then(|reply| reply.get_data()).map_err(refused)?;
        check::<N>(data, sequence)
    }
}

fn serve(stream: UnixStream, answered: AnswerCounter, stopped: oneshot::Receiver<()>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    let serve = async {
        let client: echo::Client = capnp_rpc::new_client(Echoing(answered));
        let Ok(system) = system(stream, Vat::Server, Some(client.client)) else { return };
        tokio::select! {
            _ = system => {}
            _ = stopped => {}
        }
    };
    LocalSet::new().block_on(&runtime, serve);
}

struct Echoing(AnswerCounter);

impl echo::Server for Echoing {
    async fn null(self: Rc<Self>, _: echo::NullParams, _: echo::NullResults) -> Result<(), capnp::Error> {
        self.0.one();
        Ok(())
    }

    async fn echo(
        self: Rc<Self>,
        params: echo::EchoParams,
        mut results: echo::EchoResults,
    ) -> Result<(), capnp::Error> {
        results.get().set_data(params.get()?.get_data()?);
        self.0.one();
        Ok(())
    }
}
