//! The HTTP server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tombolo::Domain;

use crate::api::{self, Images, Problem};
use crate::cache::StateCache;
use crate::guard::{Admission, Guard, Peer, Refusal, Token};
use crate::{assets, connection, live};

/// Default port, used if none is given and it is free.
pub(crate) const DEFAULT_PORT: u16 = 7420;

/// Maximum number of open consoles of all pages together.
const MAX_CONSOLES: usize = 8;

/// Maximum number of blocking threads.
const MAX_THREADS: usize = 64;

/// Time limit for requests in flight when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src \
         'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // A window opened by the page, such as Perfetto, can send messages back; a window that opens the page
    // cannot reach it.
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin-allow-popups"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Loopback address to listen on.
    pub address: IpAddr,
    /// Port to listen on. By default 7420 if it is free, otherwise any.
    pub port: Option<u16>,
    /// Whether pages may change the machine.
    pub steer: bool,
    /// Images, and folders of images, that pages can start.
    pub images: Vec<PathBuf>,
    /// Path of the program `tombolo`, which starts jobs.
    pub command: PathBuf,
    /// Folder with results of `tombolo bench`.
    pub results: Option<PathBuf>,
}

/// Error of starting or running a server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is reachable from other computers.
    #[error(
        "{0} is not a loopback address, so others could reach the page; use 127.0.0.1 or ::1, and `ssh -L` from another computer"
    )]
    NotLoopback(IpAddr),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}

/// State shared by all request handlers.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) cache: StateCache,
    pub(crate) options: Options,
    pub(crate) images: Images,
    /// Permits for open consoles, each of which occupies a thread.
    pub(crate) consoles: Arc<Semaphore>,
    /// True once the server is stopping.
    pub(crate) shutdown: watch::Receiver<bool>,
}

/// Server of the page of one machine, bound to its address.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: Token,
    cache: StateCache,
    options: Options,
    shutdown: watch::Sender<bool>,
}

/// Handle that stops a server from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Tells the server to stop; returns at once.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Starts a server for the machine of `domain`.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn bind(domain: &Domain, options: Options) -> Result<Server, ServeError> {
        if !options.address.is_loopback() {
            return Err(ServeError::NotLoopback(options.address));
        }
        let listener = listen(&options)?;
        let address = listener.local_addr().map_err(system("ask for the port"))?;
        listener.set_nonblocking(true).map_err(system("set up the socket"))?;
        let token = Token::new().map_err(system("get random bytes"))?;
        let cache = StateCache::start(domain).map_err(system("start a thread"))?;
        Ok(Server { listener, address, token, cache, options, shutdown: watch::Sender::new(false) })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of the page, including the token.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.as_str())
    }

    /// Returns the token, which other clients send as `Authorization: Bearer`.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.as_str()
    }

    /// Returns a handle that stops this server.
    #[must_use]
    pub fn stopper(&self) -> StopHandle {
        StopHandle(self.shutdown.clone())
    }

    /// Serves requests until it is stopped. Domains that it started end when this process does.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn run(self) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(MAX_THREADS)
            .build();
        let runtime = runtime.map_err(system("start to serve"))?;
        let shutdown = self.shutdown.subscribe();
        let site = Arc::new(Site {
            guard: Guard::new(self.token, self.address.port(), self.options.steer),
            cache: self.cache,
            options: self.options,
            images: Images::default(),
            consoles: Arc::new(Semaphore::new(MAX_CONSOLES)),
            shutdown: shutdown.clone(),
        });
        let listener = self.listener;
        let served = runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).map_err(system("listen"))?;
            connection::serve(listener, router(site), shutdown).await;
            Ok(())
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        served
    }
}

fn listen(options: &Options) -> Result<std::net::TcpListener, ServeError> {
    let bind = |port: u16| {
        let address = SocketAddr::new(options.address, port);
        std::net::TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })
    };
    match options.port {
        Some(port) => bind(port),
        None => bind(DEFAULT_PORT).or_else(|_| bind(0)),
    }
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/live", get(live::live))
        .merge(api::routes())
        .fallback(not_found_handler)
        .layer(from_fn_with_state(Arc::clone(&site), guard_middleware))
        .with_state(site)
}

async fn not_found_handler() -> Problem {
    Problem::not_found("there is nothing of that name")
}

/// Middleware that checks requests and adds the security headers to responses.
async fn guard_middleware(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&site, &request) {
        Ok(Admission::Granted) => next.run(request).await,
        Ok(Admission::Login) => {
            ([(header::SET_COOKIE, site.guard.cookie())], Redirect::to("/")).into_response()
        }
        Err(refusal) => refuse(refusal, request.uri().path()),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn admit(site: &Site, request: &Request) -> Result<Admission, Refusal> {
    let peer = request.extensions().get::<Peer>().ok_or(Refusal::Stranger)?;
    site.guard.admit(*peer, request.method(), request.uri(), request.headers())
}

fn refuse(refusal: Refusal, path: &str) -> Response {
    let text = refusal.text();
    if path == "/" {
        let page = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Tombolo</title>\n<p>This is not shown to \
             you: {text}.\n"
        );
        return (refusal.status(), Html(page)).into_response();
    }
    Problem::new(refusal.status(), text).into_response()
}

/// Waits until the server is stopping.
pub(crate) async fn ended(mut shutdown: watch::Receiver<bool>) {
    // A dropped sender also means that the server is stopping.
    drop(shutdown.wait_for(|shutdown| *shutdown).await);
}
