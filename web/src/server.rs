//! Listening, and answering.

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

/// The port that is taken when none is named and it is free.
pub(crate) const USUAL_PORT: u16 = 7420;

/// The most consoles of nodes that are looked at, by all pages together.
const MAX_CONSOLES: usize = 8;

/// The most threads for what blocks.
const MAX_THREADS: usize = 64;

/// How long requests under way may take when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What is told to a browser with every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src \
         'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // A window that the page opens, as Perfetto's, can answer; one that opens the page cannot reach it.
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin-allow-popups"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// What to serve, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// An address of loopback.
    pub address: IpAddr,
    /// The port; 7420 if it is free and none is named, else any.
    pub port: Option<u16>,
    /// Pages may change something.
    pub steer: bool,
    /// Images, and folders of images, that pages can start.
    pub images: Vec<PathBuf>,
    /// The program `tombolo`, which starts jobs.
    pub command: PathBuf,
    /// A folder of results of `tombolo bench`.
    pub results: Option<PathBuf>,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could reach it.
    #[error(
        "{0} is not a loopback address, so others could reach the page; use 127.0.0.1 or ::1, and `ssh -L` from another computer"
    )]
    NotLoopback(IpAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// Something that it needs of the system.
    #[error("cannot {what}: {source}")]
    System {
        /// What is missing.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}

/// What answers are made of.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) guard: Guard,
    pub(crate) cache: StateCache,
    pub(crate) options: Options,
    pub(crate) images: Images,
    /// Those that are looked at take a thread each.
    pub(crate) consoles: Arc<Semaphore>,
    /// Is true once it is over.
    pub(crate) over: watch::Receiver<bool>,
}

/// A page about one machine, listened for.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: Token,
    cache: StateCache,
    options: Options,
    over: watch::Sender<bool>,
}

/// Ends a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Makes the server end; returns at once.
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
        Ok(Server { listener, address, token, cache, options, over: watch::Sender::new(false) })
    }

    /// Where, without the token.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link to open, with the token.
    #[must_use]
    pub fn link(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token.as_str())
    }

    /// What others show as `Authorization: Bearer`.
    #[must_use]
    pub fn token(&self) -> &str {
        self.token.as_str()
    }

    /// A handle that ends this server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.over.clone())
    }

    /// Serves until it is stopped. What it started on the machine ends when this program does.
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
        let over = self.over.subscribe();
        let site = Arc::new(Site {
            guard: Guard::new(self.token, self.address.port(), self.options.steer),
            cache: self.cache,
            options: self.options,
            images: Images::default(),
            consoles: Arc::new(Semaphore::new(MAX_CONSOLES)),
            over: over.clone(),
        });
        let listener = self.listener;
        let served = runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).map_err(system("listen"))?;
            connection::serve(listener, router(site), over).await;
            Ok(())
        });
        runtime.shutdown_timeout(LAST_ANSWERS);
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
        None => bind(USUAL_PORT).or_else(|_| bind(0)),
    }
}

fn router(site: Arc<Site>) -> Router {
    Router::new()
        .route("/", get(assets::page))
        .route("/assets/{name}", get(assets::asset))
        .route("/live", get(live::live))
        .merge(api::routes())
        .fallback(nothing_there)
        .layer(from_fn_with_state(Arc::clone(&site), guarded))
        .with_state(site)
}

async fn nothing_there() -> Problem {
    Problem::not_found("there is nothing of that name")
}

/// Lets in who is to be let in, and tells browsers what they are to know.
async fn guarded(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
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

/// Waits until it is over.
pub(crate) async fn ended(mut over: watch::Receiver<bool>) {
    // A dropped sender means the same.
    drop(over.wait_for(|over| *over).await);
}
