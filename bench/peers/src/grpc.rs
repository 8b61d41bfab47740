//! gRPC over a local socket.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use hyper_util::rt::TokioIo;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_stream::StreamExt;
use tombolo_bench::rpc::FOREIGN;
use tombolo_bench::suite::content::{check, fill};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

use crate::answering::{AnswerCounter, ServerThread, TIMEOUT};
use crate::echo_grpc::echo_client::EchoClient;
use crate::echo_grpc::echo_server::{Echo, EchoServer};
use crate::echo_grpc::{Data, Nothing};

const NAME: &str = FOREIGN[1];

fn failed<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::of_peer(NAME, format!("{what}: {error}"))
}

/// Calls over a socket pair.
pub(crate) struct Calls;

impl Peer for Calls {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "tonic 0.14 with prost, HTTP/2 over a pair of local stream sockets without TLS, each side on one thread of tokio; \
         sleeps"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::CALLS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        match meeting.side {
            Side::Near => {
                let (own, other) = UnixStream::pair().map_err(failed("make sockets"))?;
                meeting.line.give_fds(&[other.as_fd()])?;
                Ok(AnyEnd::new(Calling::over(own)?))
            }
            Side::Far => {
                let [stream] = meeting.line.take_fds()?;
                Ok(AnyEnd::new(ServerThread::start(NAME, stream.into(), serve)?))
            }
        }
    }
}

/// Converts a stream for tokio; must be called within a tokio runtime.
fn taken(stream: UnixStream) -> std::io::Result<tokio::net::UnixStream> {
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

struct Calling {
    client: EchoClient<Channel>,
    runtime: Runtime,
}

impl Calling {
    fn over(stream: UnixStream) -> Result<Calling, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed("start a runtime"))?;
        let client =
            runtime.block_on(async {
                let mut stream = Some(taken(stream).map_err(failed("use a socket"))?);
                // There is only one connection: a second one is refused.
                let connect = tower::service_fn(move |_| {
                    let stream = stream.take().map(TokioIo::new);
                    async move {
                        stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
                    }
                });
                // An address is required, but is not used.
                let endpoint = Endpoint::from_static("http://localhost");
                let channel = endpoint.connect_with_connector(connect).await.map_err(failed("connect"))?;
                Ok::<_, Error>(EchoClient::new(channel))
            })?;
        Ok(Calling { client, runtime })
    }
}

fn wait<T>(runtime: &Runtime, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Error> {
    let answer = runtime.block_on(async { tokio::time::timeout(TIMEOUT, call).await });
    let answer = answer.map_err(|_| Error::Stalled { waited: TIMEOUT })?;
    Ok(answer.map_err(failed("call"))?.into_inner())
}

impl End for Calling {
    /// Does nothing: a call includes sending.
    fn send<const N: usize>(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let Calling { client, runtime } = self;
        if N == 0 {
            return wait(runtime, client.null(Nothing {})).map(drop);
        }
        let mut data = vec![0; N];
        if let Ok(data) = data.as_mut_slice().try_into() {
            fill::<N>(data, sequence);
        }
        check::<N>(&wait(runtime, client.echo(Data { data }))?.data, sequence)
    }
}

fn serve(stream: UnixStream, answered: AnswerCounter, stopped: oneshot::Receiver<()>) {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        // The only connection, followed by a pending one: a server would exit after the last one.
        let connections = tokio_stream::once(taken(stream)).chain(tokio_stream::pending());
        let server = Server::builder().add_service(EchoServer::new(Echoing(answered)));
        tokio::select! {
            _ = server.serve_with_incoming(connections) => {}
            _ = stopped => {}
        }
    });
}

struct Echoing(AnswerCounter);

#[tonic::async_trait]
impl Echo for Echoing {
    async fn null(&self, request: Request<Nothing>) -> Result<Response<Nothing>, Status> {
        self.0.one();
        Ok(Response::new(request.into_inner()))
    }

    async fn echo(&self, request: Request<Data>) -> Result<Response<Data>, Status> {
        self.0.one();
        Ok(Response::new(request.into_inner()))
    }
}
