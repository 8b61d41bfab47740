//! Aeron over IPC: the C client, and the C media driver on threads of the near side.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use rusteron_media_driver::bindings as c;
use tombolo_bench::SpinTimeout;
use tombolo_bench::suite::content::{Aligned, check, corrupt, fill};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

const NAME: &str = "Aeron IPC";
const TIMEOUT: Duration = Duration::from_secs(20);

/// Stream ids from near to far and back.
const STREAMS: [i32; 2] = [1001, 1002];

/// The C client with its own media driver.
pub(crate) struct Ipc;

impl Peer for Ipc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        "the C client and media driver that rusteron 0.1.168 brings; exclusive publications, polls. The driver runs \
         as threads of the near side, with the idle strategy of its own choice; messages are not claimed but offered"
            .into()
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.push(Metric::Rate { bytes: 64, batch: 1 });
        metrics.extend([Metric::Idle, Metric::Open]);
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let folder = format!("/dev/shm/{}", meeting.name);
        let driver = match meeting.side {
            Side::Near => Some(Driver::start(&folder)?),
            Side::Far => None,
        };
        let client = Client::start(&folder, driver)?;
        let [send, recv] = match meeting.side {
            Side::Near => STREAMS,
            Side::Far => [STREAMS[1], STREAMS[0]],
        };
        Ok(AnyEnd::new(IpcEnd::open(client, send, recv)?))
    }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error::of_peer(NAME, error))
}

/// Converts a return code of the library into a result.
fn checked(code: i32, what: &str) -> Result<i32, Error> {
    if code >= 0 {
        return Ok(code);
    }
    // SAFETY: the library returns a NUL-terminated string owned by the calling thread, which is copied
    // immediately.
    let why = unsafe { CStr::from_ptr(c::aeron_errmsg()) }.to_string_lossy().into_owned();
    Err(Error::of_peer(NAME, format!("{what}: {why}")))
}

/// Polls until `ready` returns a value.
fn until<T>(what: &str, mut ready: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        if let Some(found) = ready()? {
            return Ok(found);
        }
        if start.elapsed() > TIMEOUT {
            return Err(Error::of_peer(NAME, format!("{what} in {TIMEOUT:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

struct Driver {
    driver: *mut c::aeron_driver_t,
    context: *mut c::aeron_driver_context_t,
    folder: String,
}

impl Driver {
    fn start(folder: &str) -> Result<Driver, Error> {
        let path = text(folder)?;
        let mut made = Driver { driver: null_mut(), context: null_mut(), folder: folder.to_owned() };
        // SAFETY: each call gets pointers that the previous one initialized, and the path outlives the call
        // that copies it.
        unsafe {
            checked(c::aeron_driver_context_init(&raw mut made.context), "make a driver's context")?;
            checked(c::aeron_driver_context_set_dir(made.context, path.as_ptr()), "set the folder")?;
            c::aeron_driver_context_set_dir_delete_on_start(made.context, true);
            c::aeron_driver_context_set_dir_delete_on_shutdown(made.context, true);
            let mode = c::aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED;
            checked(c::aeron_driver_context_set_threading_mode(made.context, mode), "share a thread")?;
            checked(c::aeron_driver_init(&raw mut made.driver, made.context), "make a driver")?;
            checked(c::aeron_driver_start(made.driver, false), "start the driver")?;
        }
        Ok(made)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: both are what `start` made, or null, which the library lets pass; nothing uses them
        // afterwards.
        unsafe {
            c::aeron_driver_close(self.driver);
            c::aeron_driver_context_close(self.context);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

struct Client {
    client: *mut c::aeron_t,
    context: *mut c::aeron_context_t,
    /// Closed after the client: fields are dropped after `Drop::drop` of this type.
    _driver: Option<Driver>,
}

impl Client {
    fn start(folder: &str, driver: Option<Driver>) -> Result<Client, Error> {
        let path = text(folder)?;
        until("no driver came up", || {
            Ok(std::fs::exists(format!("{folder}/cnc.dat")).unwrap_or(false).then_some(()))
        })?;
        let mut made = Client { client: null_mut(), context: null_mut(), _driver: driver };
        // SAFETY: as in `Driver::start`.
        unsafe {
            checked(c::aeron_context_init(&raw mut made.context), "make a context")?;
            checked(c::aeron_context_set_dir(made.context, path.as_ptr()), "set the folder")?;
            checked(c::aeron_init(&raw mut made.client, made.context), "make a client")?;
            checked(c::aeron_start(made.client), "start the client")?;
        }
        Ok(made)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: both are what `start` made, or null, which the library lets pass; nothing uses them
        // afterwards.
        unsafe {
            c::aeron_close(self.client);
            c::aeron_context_close(self.context);
        }
    }
}

struct IpcEnd {
    publication: *mut c::aeron_exclusive_publication_t,
    subscription: *mut c::aeron_subscription_t,
    /// Closing the client closes the publication and the subscription.
    _client: Client,
}

impl IpcEnd {
    fn open(client: Client, send: i32, recv: i32) -> Result<IpcEnd, Error> {
        let channel = text("aeron:ipc?term-length=64k")?;
        let (mut adding_send, mut adding_recv) = (null_mut(), null_mut());
        // SAFETY: the client is running, the results are written before they are read, and the channel's name
        // is copied.
        unsafe {
            let added = c::aeron_async_add_exclusive_publication(
                &raw mut adding_send,
                client.client,
                channel.as_ptr(),
                send,
            );
            checked(added, "add a publication")?;
            let added = c::aeron_async_add_subscription(
                &raw mut adding_recv,
                client.client,
                channel.as_ptr(),
                recv,
                None,
                null_mut(),
                None,
                null_mut(),
            );
            checked(added, "add a subscription")?;
        }
        let publication = until("no publication came", || {
            let mut publication = null_mut();
            // SAFETY: it polls the operation started above until it completes or fails, and not afterwards.
            let code =
                unsafe { c::aeron_async_add_exclusive_publication_poll(&raw mut publication, adding_send) };
            Ok((checked(code, "add a publication")? > 0).then_some(publication))
        })?;
        let subscription = until("no subscription came", || {
            let mut subscription = null_mut();
            // SAFETY: as above.
            let code = unsafe { c::aeron_async_add_subscription_poll(&raw mut subscription, adding_recv) };
            Ok((checked(code, "add a subscription")? > 0).then_some(subscription))
        })?;
        until("the two sides did not meet", || {
            // SAFETY: both exist, as the polls above have returned them.
            let met = unsafe {
                c::aeron_exclusive_publication_is_connected(publication)
                    && c::aeron_subscription_is_connected(subscription)
            };
            Ok(met.then_some(()))
        })?;
        Ok(IpcEnd { publication, subscription, _client: client })
    }
}

/// Expected message, and the result of the check.
struct Expected {
    sequence: u64,
    right: Option<bool>,
}

/// Checks a message in place.
// SAFETY: only the library calls it, from within the poll to which it was passed, with that poll's argument.
unsafe extern "C" fn take<const N: usize>(
    expected: *mut c_void,
    buffer: *const u8,
    length: usize,
    _header: *mut c::aeron_header_t,
) {
    // SAFETY: `recv` passes a pointer to its own `Expected` and waits until the poll returns.
    let expected = unsafe { &mut *expected.cast::<Expected>() };
    // SAFETY: the library passes a message of that length, which is not modified until the poll returns.
    let message = unsafe { std::slice::from_raw_parts(buffer, length) };
    expected.right = Some(check::<N>(message, expected.sequence).is_ok());
}

impl End for IpcEnd {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        let mut spin_timeout = SpinTimeout::default();
        loop {
            // SAFETY: the publication is open while the client is, and the message is copied before the call
            // returns.
            let position = unsafe {
                c::aeron_exclusive_publication_offer(
                    self.publication,
                    message.0.as_ptr(),
                    N,
                    None,
                    null_mut(),
                )
            };
            if position > 0 {
                return Ok(());
            }
            // Back pressure, or an administrative action that is complete at the next attempt.
            spin_timeout.wait()?;
        }
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut expected = Expected { sequence, right: None };
        let mut spin_timeout = SpinTimeout::default();
        loop {
            // SAFETY: the subscription is open while the client is; the argument is the `Expected` that
            // `take` requires.
            let polled = unsafe {
                c::aeron_subscription_poll(self.subscription, Some(take::<N>), (&raw mut expected).cast(), 1)
            };
            match expected.right {
                Some(true) => return Ok(()),
                Some(false) => return Err(corrupt(sequence)),
                None => {
                    checked(polled, "poll")?;
                    spin_timeout.wait()?;
                }
            }
        }
    }
}
