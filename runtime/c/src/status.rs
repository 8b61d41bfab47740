//! What a function came to: a number with a name, and a text that says what happened to whom.

use alloc::borrow::Cow;
use alloc::ffi::CString;
use core::ffi::{CStr, c_char};

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::Error;
use tombolo::error::Fault;
use tombolo::names::NameFault;
use tombolo::region::CapabilityFault;

use crate::boundary::{c_text, guard, text};
use crate::system;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// What a function came to; the numbers of `tombolo.h`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub enum Status {
            $($(#[$doc])* $name = $number,)*
        }

        impl Status {
            /// All of them, in order.
            pub const ALL: &'static [Status] = &[$(Status::$name),*];

            /// Its name in `tombolo.h`.
            #[must_use]
            pub fn name(self) -> &'static CStr {
                match self {
                    $(Status::$name => $text,)*
                }
            }
        }
    };
}

statuses! {
    /// It was done.
    Ok = 0, c"TOMBOLO_OK";
    /// No room, or nothing there, right now.
    WouldBlock = 1, c"TOMBOLO_WOULD_BLOCK";
    /// The deadline passed.
    TimedOut = 2, c"TOMBOLO_TIMED_OUT";
    /// The peer closed the channel.
    Closed = 3, c"TOMBOLO_CLOSED";
    /// The peer died, or its node was lost.
    PeerDied = 4, c"TOMBOLO_PEER_DIED";
    /// The message is longer than the channel carries.
    TooLong = 5, c"TOMBOLO_TOO_LONG";
    /// The two sides do not fit.
    Refused = 6, c"TOMBOLO_REFUSED";
    /// The peer broke the protocol.
    Violation = 7, c"TOMBOLO_VIOLATION";
    /// There is no such name.
    NoSuchName = 8, c"TOMBOLO_NO_SUCH_NAME";
    /// Another program has it already.
    NameTaken = 9, c"TOMBOLO_NAME_TAKEN";
    /// It is no name.
    BadName = 10, c"TOMBOLO_BAD_NAME";
    /// No node of that name.
    NoSuchNode = 11, c"TOMBOLO_NO_SUCH_NODE";
    /// The node is not running.
    NodeDown = 12, c"TOMBOLO_NODE_DOWN";
    /// No live domain with that id.
    NoSuchDomain = 13, c"TOMBOLO_NO_SUCH_DOMAIN";
    /// The image cannot be used there.
    BadImage = 14, c"TOMBOLO_BAD_IMAGE";
    /// The program did not start.
    StartFailed = 15, c"TOMBOLO_START_FAILED";
    /// The nodes cannot reach each other.
    NoLink = 16, c"TOMBOLO_NO_LINK";
    /// A limit of the machine was met.
    Limit = 17, c"TOMBOLO_LIMIT";
    /// The monitor declined.
    Denied = 18, c"TOMBOLO_DENIED";
    /// The monitor is gone.
    MonitorLost = 19, c"TOMBOLO_MONITOR_LOST";
    /// There is no machine.
    NoMachine = 20, c"TOMBOLO_NO_MACHINE";
    /// The monitor broke the protocol.
    MonitorProtocol = 21, c"TOMBOLO_MONITOR_PROTOCOL";
    /// A query as it was written cannot be understood.
    BadText = 22, c"TOMBOLO_BAD_TEXT";
    /// The operating system refused something.
    System = 23, c"TOMBOLO_SYSTEM";
    /// An argument is null, or no UTF-8, or out of range.
    InvalidArgument = 24, c"TOMBOLO_INVALID_ARGUMENT";
    /// The caller's buffer is too short.
    BufferTooShort = 25, c"TOMBOLO_BUFFER_TOO_SHORT";
    /// The handle is in use.
    Busy = 26, c"TOMBOLO_BUSY";
    /// A defect of the library.
    Internal = 27, c"TOMBOLO_INTERNAL";
    /// The right was taken back.
    Revoked = 28, c"TOMBOLO_REVOKED";
    /// Bytes that do not lie in the memory.
    OutOfRange = 29, c"TOMBOLO_OUT_OF_RANGE";
    /// The capability is gone, or another domain's.
    NoSuchCapability = 30, c"TOMBOLO_NO_SUCH_CAPABILITY";
    /// The capability does not give the right.
    LacksRight = 31, c"TOMBOLO_LACKS_RIGHT";
    /// The bytes cannot be reached from there.
    NotReachable = 32, c"TOMBOLO_NOT_REACHABLE";
    /// Revoked, but some have not let go.
    StillHeld = 33, c"TOMBOLO_STILL_HELD";
    /// A seal of the region is in the way, or something is in the way of a seal.
    Sealed = 34, c"TOMBOLO_SEALED";
    /// All buffers of the pool are in use.
    NoBuffer = 35, c"TOMBOLO_NO_BUFFER";
    /// The buffer's state does not allow it.
    BufferState = 36, c"TOMBOLO_BUFFER_STATE";
    /// The pool is not, or cannot be, on the channel.
    PoolRefused = 37, c"TOMBOLO_POOL_REFUSED";
    /// What was sent did not arrive.
    ContentLost = 38, c"TOMBOLO_CONTENT_LOST";
    /// The server answered with the error that the interface declares.
    Declined = 40, c"TOMBOLO_DECLINED";
    /// A value is longer than the interface allows.
    OverLimit = 41, c"TOMBOLO_OVER_LIMIT";
    /// What the peer sent was refused.
    Malformed = 42, c"TOMBOLO_MALFORMED";
    /// The server does not know the call.
    UnknownCall = 43, c"TOMBOLO_UNKNOWN_CALL";
    /// The server refused the request as malformed.
    RequestRefused = 44, c"TOMBOLO_REQUEST_REFUSED";
    /// The server does not serve the call.
    Unserved = 45, c"TOMBOLO_UNSERVED";
    /// The answer is longer than the interface or the channel allows.
    AnswerTooLong = 46, c"TOMBOLO_ANSWER_TOO_LONG";
    /// Too many calls wait for their answers.
    ServerBusy = 47, c"TOMBOLO_SERVER_BUSY";
    /// The server gave a reason that is unknown here.
    Fault = 48, c"TOMBOLO_FAULT";
    /// The memory given to a client or server is too small.
    NoMemory = 49, c"TOMBOLO_NO_MEMORY";
    /// A handler answers later.
    Later = 50, c"TOMBOLO_LATER";
    /// The client does not wait for that answer any more.
    NotOutstanding = 51, c"TOMBOLO_NOT_OUTSTANDING";
    /// The link cannot carry what the interface passes.
    CannotCarry = 52, c"TOMBOLO_CANNOT_CARRY";
    /// There was no room for a message in time.
    NoRoom = 53, c"TOMBOLO_NO_ROOM";
    /// A one-way message with an ordinal that is unknown.
    UnknownMessage = 54, c"TOMBOLO_UNKNOWN_MESSAGE";
    /// A right or a buffer that came with a message is not its receiver's to take.
    RightRefused = 55, c"TOMBOLO_RIGHT_REFUSED";
    /// The file was not granted, or not for that.
    NotGranted = 56, c"TOMBOLO_NOT_GRANTED";
    /// There is no such file.
    NoSuchFile = 57, c"TOMBOLO_NO_SUCH_FILE";
    /// The file is there already.
    FileExists = 58, c"TOMBOLO_FILE_EXISTS";
    /// It is a folder.
    IsFolder = 59, c"TOMBOLO_IS_FOLDER";
    /// It, or something on the way to it, is no folder.
    NotFolder = 60, c"TOMBOLO_NOT_FOLDER";
    /// The file ended before all was read.
    FileEnded = 61, c"TOMBOLO_FILE_ENDED";
    /// It cannot be done to that file for another reason.
    FileFault = 62, c"TOMBOLO_FILE_FAULT";
    /// The program has no place in a job, or there is no such rank.
    NotInJob = 63, c"TOMBOLO_NOT_IN_JOB";
    /// A relay between the two ends died.
    RelayDied = 64, c"TOMBOLO_RELAY_DIED";
    /// The listener refused the request with which a channel was to be opened.
    OpeningRefused = 65, c"TOMBOLO_OPENING_REFUSED";
    /// The hub is closed, and for one that gets it is empty; or it was closed before.
    HubClosed = 66, c"TOMBOLO_HUB_CLOSED";
    /// A lock or block is not held by the task; or it is, and was to be taken again.
    HubHeld = 67, c"TOMBOLO_HUB_HELD";
    /// The hub is of another kind or type, or has no such operation.
    HubRefused = 68, c"TOMBOLO_HUB_REFUSED";
    /// The other members of a group took this one for dead.
    Expelled = 69, c"TOMBOLO_EXPELLED";
    /// The bytes are those of a part that was split off, or are mapped.
    InUse = 70, c"TOMBOLO_IN_USE";
    /// The capability is to something of another kind.
    WrongKind = 71, c"TOMBOLO_WRONG_KIND";
    /// A task ended with an error.
    TaskFailed = 72, c"TOMBOLO_TASK_FAILED";
    /// The worker of a task died.
    TaskLost = 73, c"TOMBOLO_TASK_LOST";
    /// A task was not started, or its worker refused it.
    TaskRefused = 74, c"TOMBOLO_TASK_REFUSED";
    /// The task was cancelled.
    Cancelled = 75, c"TOMBOLO_TASK_CANCELLED";
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<Cow<'static, str>>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(Status::InvalidArgument, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            // Who polls meets it more often than a message: no text is made for it.
            Error::WouldBlock => Failure::new(Status::WouldBlock, "not ready: try again or wait"),
            error => Failure::new(status_of(&error), error.to_string()),
        }
    }
}

fn status_of(error: &Error) -> Status {
    match error {
        Error::WouldBlock => Status::WouldBlock,
        Error::TimedOut { .. } => Status::TimedOut,
        Error::Closed { .. } => Status::Closed,
        Error::PeerDied { .. } => Status::PeerDied,
        Error::RelayDied { .. } => Status::RelayDied,
        Error::TooLong { .. } => Status::TooLong,
        Error::Refused { .. } => Status::Refused,
        Error::Violation { .. } => Status::Violation,
        Error::Monitor(fault) => status_of_fault(fault),
        Error::Job(_) => Status::NotInJob,
        Error::MonitorProtocol(_) => Status::MonitorProtocol,
        Error::BadOption { .. } => Status::InvalidArgument,
        Error::Revoked { .. } => Status::Revoked,
        Error::OutOfRange(_) => Status::OutOfRange,
        other => system::status_of(other),
    }
}

fn status_of_capability(fault: &CapabilityFault) -> Status {
    match fault {
        CapabilityFault::Gone { .. }
        | CapabilityFault::NotYours { .. }
        | CapabilityFault::TakenUp { .. }
        | CapabilityFault::NotFrom { .. } => Status::NoSuchCapability,
        CapabilityFault::Revoked { .. } => Status::Revoked,
        CapabilityFault::Lacks { .. } => Status::LacksRight,
        CapabilityFault::BadExtent { .. } | CapabilityFault::Unaligned { .. } => Status::OutOfRange,
        CapabilityFault::NotReachable { .. } => Status::NotReachable,
        CapabilityFault::Mapped { .. }
        | CapabilityFault::Sealed { .. }
        | CapabilityFault::CannotSeal { .. } => Status::Sealed,
        CapabilityFault::Split { .. } | CapabilityFault::InUse { .. } => Status::InUse,
        CapabilityFault::WrongKind { .. } | CapabilityFault::CannotSplit { .. } => Status::WrongKind,
        CapabilityFault::StillHeld { .. } => Status::StillHeld,
    }
}

fn status_of_fault(fault: &Fault) -> Status {
    match fault {
        Fault::NoSuchNode { .. } => Status::NoSuchNode,
        Fault::NodeDown { .. } => Status::NodeDown,
        Fault::NoSuchName { .. } => Status::NoSuchName,
        Fault::NameTaken { .. } => Status::NameTaken,
        Fault::BadName { .. } => Status::BadName,
        Fault::NoSuchDomain { .. } => Status::NoSuchDomain,
        Fault::NoBuildForIsa { .. } | Fault::BadImage { .. } => Status::BadImage,
        Fault::StartFailed { .. } => Status::StartFailed,
        Fault::NoLink { .. } => Status::NoLink,
        Fault::Limit { .. } => Status::Limit,
        Fault::System { .. } => Status::System,
        Fault::Name { fault: NameFault::NoSuchName { .. } } => Status::NoSuchName,
        Fault::Name { fault: NameFault::Exists { .. } } => Status::NameTaken,
        Fault::Name { fault: NameFault::BadName { .. } } => Status::BadName,
        Fault::Capability { fault } => status_of_capability(fault),
        Fault::NotGiven { .. } => Status::NoSuchCapability,
        _ => Status::Denied,
    }
}

/// The text of the last failure of a thread.
pub(crate) enum Last {
    Fixed(&'static CStr),
    Own(CString),
}

impl Last {
    /// That of a thread in which nothing has failed.
    pub(crate) const NONE: Last = Last::Fixed(c"nothing has failed in this thread");

    fn text(&self) -> &CStr {
        match self {
            Last::Fixed(text) => text,
            Last::Own(text) => text,
        }
    }
}

/// Keeps what happened for `tombolo_last_error`.
pub(crate) fn remember(failure: Failure) -> Status {
    if failure.status == Status::WouldBlock {
        replace(Last::Fixed(c"not ready: try again or wait"));
    } else {
        keep(&failure.text);
    }
    failure.status
}

fn keep(text: &str) {
    replace(Last::Own(c_text(text)));
}

fn replace(last: Last) {
    // A thread that is ending does not ask any more.
    let _ = system::with_last(|kept| *kept = last);
}

/// What `tombolo_last_error` would say.
#[cfg(not(target_os = "none"))]
pub(crate) fn last_text() -> String {
    system::with_last(|last| last.text().to_string_lossy().into_owned()).unwrap_or_default()
}

/// `tombolo_last_error`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_last_error() -> *const c_char {
    let text = system::with_last(|last| last.text().as_ptr());
    text.unwrap_or(c"the thread is ending".as_ptr())
}

/// `tombolo_explain`: see `tombolo.h`.
///
/// # Safety
/// As `tombolo.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_explain(status: i32, what: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: a text, by the contract.
        let what = unsafe { text(what, "the text") }?.to_owned();
        keep(&what);
        Ok(())
    });
    status
}

/// `tombolo_error_name`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_error_name(status: i32) -> *const c_char {
    name_of(status).as_ptr()
}

/// The name of a status by its number.
pub(crate) fn name_of(status: i32) -> &'static CStr {
    let found = Status::ALL.iter().find(|known| **known as i32 == status);
    found.map_or(c"TOMBOLO_UNKNOWN_STATUS", |status| status.name())
}

/// `tombolo_now_ns`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_now_ns() -> u64 {
    system::now_ns()
}

/// `tombolo_version`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
