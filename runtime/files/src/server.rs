//! File server: decides who may connect, and runs a thread for each client.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo::bulk::{Arrival, BulkChannel, BulkOptions, Pool};
use tombolo::waitset::{Ready, WaitSet, Waker};
use tombolo::{ChannelOptions, Domain, Error, Incoming, Listener};
use tombolo_interface::Envelope;
use tombolo_platform::error::Context;

use crate::error::FileError;
use crate::grant::{FileGrant, Grants};
use crate::messages::{FilesReply, FilesRequest};
use crate::session::{BufferState, Session};

/// Timeout for a client to open its end of the channel.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of the event loop's wait, which is repeated.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Limits of a file server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServeFilesOptions {
    max_clients: u32,
    max_open: u32,
    max_pool_bytes: u64,
}

impl Default for ServeFilesOptions {
    /// 256 clients, each with up to 256 open files and 64 MiB of memory for transfers.
    fn default() -> Self {
        ServeFilesOptions { max_clients: 256, max_open: 256, max_pool_bytes: 64 << 20 }
    }
}

impl ServeFilesOptions {
    /// Sets the maximum number of clients served at a time; others are refused.
    #[must_use]
    pub fn max_clients(mut self, clients: u32) -> Self {
        self.max_clients = clients;
        self
    }

    /// Sets the maximum number of open files per client.
    #[must_use]
    pub fn max_open(mut self, files: u32) -> Self {
        self.max_open = files;
        self
    }

    /// Sets the maximum size of a client's memory for transfers, in bytes.
    #[must_use]
    pub fn max_pool_bytes(mut self, bytes: u64) -> Self {
        self.max_pool_bytes = bytes;
        self
    }
}

/// Channel options of both sides.
pub(crate) fn bulk_options() -> Result<BulkOptions, Error> {
    let channel = ChannelOptions::default().slots(SLOTS)?;
    BulkOptions::default().channel(channel).max_pools(1)
}

/// Room for the maximum number of calls in flight, with four slots each.
const SLOTS: u32 = 256;

/// Maximum length of a request or answer: the default limit for a transfer's metadata.
pub(crate) const MAX_MESSAGE_BYTES: usize = 2048;

/// Server of files, which runs until it is dropped.
#[derive(Debug)]
pub struct FileServer {
    name: String,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the threads of a server.
#[derive(Debug)]
struct Shared {
    domain: Domain,
    grants: Arc<Grants>,
    options: ServeFilesOptions,
    stopping: AtomicBool,
    clients: Mutex<Vec<Client>>,
}

#[derive(Debug)]
struct Client {
    waker: Waker,
    thread: JoinHandle<()>,
}

impl FileServer {
    /// Serves files to the domains that `domain` started, directly or indirectly, until the returned value is
    /// dropped. Relative paths are resolved against the current working folder.
    /// [`FilesOptions::server`](crate::FilesOptions::server) takes the server's [name](Self::name); pass it
    /// to a domain in its environment variable [`FILES_VARIABLE`](crate::FILES_VARIABLE).
    ///
    /// # Errors
    /// [`FileError::Grant`]; [`Error::Monitor`] if the name cannot be claimed.
    pub fn start(
        domain: &Domain,
        grants: &[FileGrant],
        options: &ServeFilesOptions,
    ) -> Result<FileServer, FileError> {
        let grants = Arc::new(Grants::new(grants)?);
        let name = format!("files-{}", domain.id());
        let listener = bulk_options()?.max_pool_bytes(options.max_pool_bytes).export(domain, &name)?;
        let mut set = WaitSet::new()?;
        set.add_listener(&listener)?;
        let waker = set.waker();
        let shared = Arc::new(Shared {
            domain: domain.clone(),
            grants,
            options: options.clone(),
            stopping: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        let thread = spawn_thread("files", move || accepting.accept(&listener, set))?;
        Ok(FileServer { name, shared, waker, thread: Some(thread) })
    }

    /// Name under which the files are served.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, FileError> {
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    Ok(started.context("start a thread that serves files")?)
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for client in std::mem::take(&mut *self.shared.clients()) {
            client.waker.wake();
            let _ = client.thread.join();
        }
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn accept(self: &Arc<Self>, listener: &Listener<BulkChannel>, mut set: WaitSet) {
        while !self.is_stopping() {
            match set.wait(MAX_WAIT) {
                // A connection is waiting, which nothing else takes: the timeout is for opening its end.
                Ok(Ready::Listener(_)) => match listener.within(OPEN_TIMEOUT).incoming() {
                    // A client that is not admitted sees its channel end.
                    Ok(incoming) => drop(self.admit(incoming)),
                    Err(Error::MonitorLost { .. }) => return,
                    Err(_) => {}
                },
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(_) => return,
            }
        }
    }

    /// Serves a client if this server's domain started it.
    fn admit(self: &Arc<Self>, incoming: Incoming<BulkChannel>) -> Result<(), FileError> {
        if !self.domain.has_started(incoming.peer())? {
            return Ok(());
        }
        let mut clients = self.clients();
        clients.retain(|client| !client.thread.is_finished());
        if clients.len() >= self.options.max_clients as usize {
            return Ok(());
        }
        let set = WaitSet::new()?;
        let waker = set.waker();
        let shared = Arc::clone(self);
        let thread = spawn_thread("files-client", move || shared.serve(incoming, set))?;
        clients.push(Client { waker, thread });
        Ok(())
    }

    /// Serves a client until its channel ends or it breaks the protocol. Other clients are not affected.
    fn serve(&self, incoming: Incoming<BulkChannel>, mut set: WaitSet<BulkChannel>) {
        let Ok(bulk) = incoming.open() else { return };
        let Ok(token) = set.add(bulk) else { return };
        let mut client = ClientSession {
            session: Session::new(Arc::clone(&self.grants), self.options.max_open),
            pool: None,
            metadata: Vec::new(),
        };
        while !self.is_stopping() {
            match set.wait(MAX_WAIT) {
                Ok(Ready::Channel(_)) => {
                    if client.serve_all(&mut set[token]).is_none() {
                        return;
                    }
                }
                Ok(_) | Err(Error::TimedOut { .. }) => {}
                Err(_) => return,
            }
        }
    }
}

/// Client that is being served.
struct ClientSession {
    session: Session,
    pool: Option<Pool>,
    metadata: Vec<u8>,
}

impl ClientSession {
    /// Answers the requests that have arrived; `None` if this client is no longer served.
    fn serve_all(&mut self, bulk: &mut BulkChannel) -> Option<()> {
        loop {
            match bulk.within(Duration::ZERO).recv(&mut self.metadata) {
                Ok(arrival) => self.serve_one(bulk, arrival)?,
                Err(Error::WouldBlock) => return Some(()),
                Err(_) => return None,
            }
        }
    }

    fn serve_one(&mut self, bulk: &mut BulkChannel, arrival: Arrival) -> Option<()> {
        let (mut buffer, buffer_state) = match arrival {
            Arrival::Pool(pool) => {
                self.pool = Some(pool);
                return Some(());
            }
            // The passed buffer is free here now; any free buffer will do.
            Arrival::Passed(1) => (self.pool.as_ref()?.take().ok()?, BufferState::Empty),
            Arrival::Moved(received) if received.pieces() == 1 => {
                (received.into_first(), BufferState::Filled)
            }
            _ => return None,
        };
        let request = Envelope::<FilesRequest>::decode(&self.metadata).ok()?;
        let (reply, is_content) =
            self.session.handle_request(request.body, buffer_state, &mut buffer).ok()?;
        let answer = Envelope { request: request.request, body: reply };
        let answer: Result<Vec<u8>, _> = Envelope::<FilesReply>::encode(&answer, MAX_MESSAGE_BYTES);
        let sent =
            if is_content { bulk.move_to(buffer, &answer.ok()?) } else { bulk.pass(buffer, &answer.ok()?) };
        sent.is_ok().then_some(())
    }
}
