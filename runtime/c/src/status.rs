//! Status of a function: a number with a name, and a text with the details of the error.

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
        /// Status that a function returns, with the numbers of `tombolo.h`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(i32)]
        pub enum Status {
            $($(#[$doc])* $name = $number,)*
        }

        impl Status {
            /// All statuses, in order.
            pub const ALL: &'static [Status] = &[$(Status::$name),*];

            /// Name of the status in `tombolo.h`.
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
    /// The function succeeded.
    Ok = 0, c"TOMBOLO_OK";
    /// There is no room, or no message, at the moment.
    WouldBlock = 1, c"TOMBOLO_WOULD_BLOCK";
    /// The deadline passed.
    TimedOut = 2, c"TOMBOLO_TIMED_OUT";
    /// The peer closed the channel.
    Closed = 3, c"TOMBOLO_CLOSED";
    /// The peer died, or its node was lost.
    PeerDied = 4, c"TOMBOLO_PEER_DIED";
    /// The message exceeds the maximum length of the channel.
    TooLong = 5, c"TOMBOLO_TOO_LONG";
    /// The two sides of the channel are incompatible.
    Refused = 6, c"TOMBOLO_REFUSED";
    /// The peer broke the protocol.
    Violation = 7, c"TOMBOLO_VIOLATION";
    /// The name does not exist.
    NoSuchName = 8, c"TOMBOLO_NO_SUCH_NAME";
    /// Another program has claimed the name.
    NameTaken = 9, c"TOMBOLO_NAME_TAKEN";
    /// The name is invalid.
    BadName = 10, c"TOMBOLO_BAD_NAME";
    /// The node does not exist.
    NoSuchNode = 11, c"TOMBOLO_NO_SUCH_NODE";
    /// The node is not running.
    NodeDown = 12, c"TOMBOLO_NODE_DOWN";
    /// There is no live domain with that id.
    NoSuchDomain = 13, c"TOMBOLO_NO_SUCH_DOMAIN";
    /// The image cannot be used on that node.
    BadImage = 14, c"TOMBOLO_BAD_IMAGE";
    /// The program did not start.
    StartFailed = 15, c"TOMBOLO_START_FAILED";
    /// The nodes cannot reach each other.
    NoLink = 16, c"TOMBOLO_NO_LINK";
    /// A limit of the machine is exceeded.
    Limit = 17, c"TOMBOLO_LIMIT";
    /// The monitor refused the request.
    Denied = 18, c"TOMBOLO_DENIED";
    /// The monitor is gone.
    MonitorLost = 19, c"TOMBOLO_MONITOR_LOST";
    /// There is no machine.
    NoMachine = 20, c"TOMBOLO_NO_MACHINE";
    /// The monitor broke the protocol.
    MonitorProtocol = 21, c"TOMBOLO_MONITOR_PROTOCOL";
    /// The text of a query has a syntax error.
    BadText = 22, c"TOMBOLO_BAD_TEXT";
    /// The operating system returned an error.
    System = 23, c"TOMBOLO_SYSTEM";
    /// An argument is null, not UTF-8, or out of range.
    InvalidArgument = 24, c"TOMBOLO_INVALID_ARGUMENT";
    /// The caller's buffer is too short.
    BufferTooShort = 25, c"TOMBOLO_BUFFER_TOO_SHORT";
    /// The handle is in use.
    Busy = 26, c"TOMBOLO_BUSY";
    /// There is a defect in the library.
    Internal = 27, c"TOMBOLO_INTERNAL";
    /// The right was revoked.
    Revoked = 28, c"TOMBOLO_REVOKED";
    /// The range is not within the memory.
    OutOfRange = 29, c"TOMBOLO_OUT_OF_RANGE";
    /// The capability no longer exists, or belongs to another domain.
    NoSuchCapability = 30, c"TOMBOLO_NO_SUCH_CAPABILITY";
    /// The capability lacks the right.
    LacksRight = 31, c"TOMBOLO_LACKS_RIGHT";
    /// The bytes cannot be reached from that node.
    NotReachable = 32, c"TOMBOLO_NOT_REACHABLE";
    /// The capability was revoked, but some domains have not released the memory.
    StillHeld = 33, c"TOMBOLO_STILL_HELD";
    /// A seal of the region prevents the operation, or something prevents the seal.
    Sealed = 34, c"TOMBOLO_SEALED";
    /// All buffers of the pool are in use.
    NoBuffer = 35, c"TOMBOLO_NO_BUFFER";
    /// The state of the buffer does not allow the operation.
    BufferState = 36, c"TOMBOLO_BUFFER_STATE";
    /// The pool is not on the channel, or cannot be.
    PoolRefused = 37, c"TOMBOLO_POOL_REFUSED";
    /// The contents of a transfer were lost.
    ContentLost = 38, c"TOMBOLO_CONTENT_LOST";
    /// The server answered with the error that the interface declares.
    Declined = 40, c"TOMBOLO_DECLINED";
    /// A value is longer than the interface allows.
    OverLimit = 41, c"TOMBOLO_OVER_LIMIT";
    /// A message of the peer does not conform to its interface.
    Malformed = 42, c"TOMBOLO_MALFORMED";
    /// The server does not implement the call.
    UnknownCall = 43, c"TOMBOLO_UNKNOWN_CALL";
    /// The server refused the request as malformed.
    RequestRefused = 44, c"TOMBOLO_REQUEST_REFUSED";
    /// The server does not serve the call.
    Unserved = 45, c"TOMBOLO_UNSERVED";
    /// The answer exceeds the limits of the interface or the channel.
    AnswerTooLong = 46, c"TOMBOLO_ANSWER_TOO_LONG";
    /// Too many calls are outstanding.
    ServerBusy = 47, c"TOMBOLO_SERVER_BUSY";
    /// The server reported a reason that is unknown here.
    Fault = 48, c"TOMBOLO_FAULT";
    /// The memory given to a client or server is too small.
    NoMemory = 49, c"TOMBOLO_NO_MEMORY";
    /// The handler will answer later.
    Later = 50, c"TOMBOLO_LATER";
    /// The client no longer waits for that answer.
    NotOutstanding = 51, c"TOMBOLO_NOT_OUTSTANDING";
    /// The link does not support what the interface passes.
    CannotCarry = 52, c"TOMBOLO_CANNOT_CARRY";
    /// There was no room for a message in time.
    NoRoom = 53, c"TOMBOLO_NO_ROOM";
    /// The ordinal of a one-way message is unknown.
    UnknownMessage = 54, c"TOMBOLO_UNKNOWN_MESSAGE";
    /// A right or a buffer in a message cannot be taken up by the receiver.
    RightRefused = 55, c"TOMBOLO_RIGHT_REFUSED";
    /// The file was not granted, or not for this operation.
    NotGranted = 56, c"TOMBOLO_NOT_GRANTED";
    /// The file does not exist.
    NoSuchFile = 57, c"TOMBOLO_NO_SUCH_FILE";
    /// The file already exists.
    FileExists = 58, c"TOMBOLO_FILE_EXISTS";
    /// The path is a folder.
    IsFolder = 59, c"TOMBOLO_IS_FOLDER";
    /// The path, or a part of it, is not a folder.
    NotFolder = 60, c"TOMBOLO_NOT_FOLDER";
    /// The file ended before everything was read.
    FileEnded = 61, c"TOMBOLO_FILE_ENDED";
    /// The operation on the file failed for another reason.
    FileFault = 62, c"TOMBOLO_FILE_FAULT";
    /// The program is not part of a job, or the rank does not exist.
    NotInJob = 63, c"TOMBOLO_NOT_IN_JOB";
    /// A relay between the two ends died.
    RelayDied = 64, c"TOMBOLO_RELAY_DIED";
    /// The listener refused the request to open a channel.
    OpeningRefused = 65, c"TOMBOLO_OPENING_REFUSED";
    /// The hub is closed, and empty in the case of a get; or it was closed before.
    HubClosed = 66, c"TOMBOLO_HUB_CLOSED";
    /// A lock or block is not held by the task; or it is, and was to be taken again.
    HubHeld = 67, c"TOMBOLO_HUB_HELD";
    /// The hub is of another kind or type, or does not support the operation.
    HubRefused = 68, c"TOMBOLO_HUB_REFUSED";
    /// The other members of a group considered this one dead.
    Expelled = 69, c"TOMBOLO_EXPELLED";
    /// The bytes belong to a part that was split off, or are mapped.
    InUse = 70, c"TOMBOLO_IN_USE";
    /// The capability refers to an object of another kind.
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

/// Error of a function that did nothing.
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
            // Frequent when polling, so no text is formatted for it.
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

/// Text of the last failure on a thread.
pub(crate) enum LastError {
    Fixed(&'static CStr),
    Own(CString),
}

impl LastError {
    /// Text for a thread on which nothing has failed.
    pub(crate) const NONE: LastError = LastError::Fixed(c"nothing has failed in this thread");

    fn text(&self) -> &CStr {
        match self {
            LastError::Fixed(text) => text,
            LastError::Own(text) => text,
        }
    }
}

/// Stores a failure for `tombolo_last_error`.
pub(crate) fn record_failure(failure: Failure) -> Status {
    if failure.status == Status::WouldBlock {
        set_last_error(LastError::Fixed(c"not ready: try again or wait"));
    } else {
        store_text(&failure.text);
    }
    failure.status
}

fn store_text(text: &str) {
    set_last_error(LastError::Own(c_text(text)));
}

fn set_last_error(last: LastError) {
    // A thread that is ending makes no further calls.
    let _ = system::with_last_error(|kept| *kept = last);
}

/// Returns the text that `tombolo_last_error` would return.
#[cfg(not(target_os = "none"))]
pub(crate) fn last_error_text() -> String {
    system::with_last_error(|last| last.text().to_string_lossy().into_owned()).unwrap_or_default()
}

/// `tombolo_last_error`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_last_error() -> *const c_char {
    let text = system::with_last_error(|last| last.text().as_ptr());
    text.unwrap_or(c"the thread is ending".as_ptr())
}

/// `tombolo_explain`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_explain(status: i32, what: *const c_char) -> i32 {
    guard(|| {
        // SAFETY: a C string, by the contract.
        let what = unsafe { text(what, "the text") }?.to_owned();
        store_text(&what);
        Ok(())
    });
    status
}

/// `tombolo_error_name`: see `tombolo.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_error_name(status: i32) -> *const c_char {
    name_of(status).as_ptr()
}

/// Returns the name of a status number.
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
