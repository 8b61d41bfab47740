//! Connections: how many, from whom, and how long they may take.

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

/// The most connections at a time, WebSockets included.
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// How long the head of a request may take, and the next one be waited for.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How much the kernel keeps for a page that does not take it, in bytes. What is newer is sent when it does.
const SEND_BUFFER_BYTES: usize = 256 << 10;

/// A pause after the system could not give a connection: it ran out of descriptors.
const BREATH: Duration = Duration::from_millis(100);

/// Counts a connection for as long as a clone lives.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPermit {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Serves until it is over.
pub(crate) async fn serve(listener: TcpListener, router: Router, over: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut stop = std::pin::pin!(ended(over.clone()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let Ok((stream, address)) = accepted else {
            tokio::time::sleep(BREATH).await;
            continue;
        };
        match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => {
                let permit = ConnectionPermit { _permit: Arc::new(permit) };
                tokio::spawn(answer(stream, address, router.clone(), permit, over.clone()));
            }
            Err(_) => drop(tokio::spawn(turn_away(stream))),
        }
    }
    // Requests under way have a moment: each task is told to stop.
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(Duration::from_secs(1), permits.acquire_many(all)).await;
}

async fn answer(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    permit: ConnectionPermit,
    over: watch::Receiver<bool>,
) {
    // Neither matters when it fails: the connection is then slower, or gone.
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
    // The result does not matter: the client has closed the connection, or was too slow.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = ended(over) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Answers a client for which there is no room with status 503.
async fn turn_away(stream: TcpStream) {
    let text = "too many connections: close a page\n";
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nRetry-After: 1\r\n";
    let answer = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
    // A new connection takes so little at once, or is gone.
    let _ = stream.try_write(answer.as_bytes());
}
