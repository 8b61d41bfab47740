//! Accepts connections, with limits on their number and time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::guard::{Peer, owner};
use crate::server::ended;

/// Maximum number of simultaneous connections, including WebSockets.
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// Timeout for receiving a request's headers, also between requests of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum length of a request's headers, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Size of the kernel's send buffer, in bytes: bounds the stale data queued for a page that reads slowly.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Pause after `accept` failed because the process ran out of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Counts a connection until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Accepts and serves connections until `shutdown` becomes true.
pub(crate) async fn serve(listener: TcpListener, router: Router, shutdown: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut stop = std::pin::pin!(ended(shutdown.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => {
                let permit = ConnectionPermit { _permit: Arc::new(permit) };
                tokio::spawn(answer(stream, address, router.clone(), permit, shutdown.clone()));
            }
            Err(_) => drop(tokio::spawn(reject_overload(stream))),
        }
    }
    // Requests in flight get one second: each task has been told to stop.
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(Duration::from_secs(1), permits.acquire_many(all)).await;
}

async fn answer(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    permit: ConnectionPermit,
    shutdown: watch::Receiver<bool>,
) {
    // Errors are harmless: the connection is slower, or already closed.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
    let user = stream.local_addr().ok().and_then(|local| owner(address, local));
    let peer = Peer { address, user };
    let inner = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(permit.clone());
        inner.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // Ignore the result: the client closed the connection or was too slow.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ended(shutdown) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Answers with status 503 when the connection limit is reached.
async fn reject_overload(stream: TcpStream) {
    let text = "too many connections: close a page\n";
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nRetry-After: 1\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
    // The send buffer of a new connection has room for it, unless the connection is closed.
    let _ = stream.try_write(answer.as_bytes());
}
