//! Lists of requests.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::{c_int, c_void};

use super::nonblocking::{Request, pause, test};
use super::{PENDING, SUCCESS, store};
use crate::failure::{Code, Failure};
use crate::world::{World, call, guard};

/// `iRCCE_WAIT_LIST`
#[derive(Debug)]
#[repr(C)]
pub struct WaitList {
    first: *mut Element,
    last: *mut Element,
}

/// `iRCCE_WAIT_LISTELEM`: allocated and freed by this module.
#[derive(Debug)]
#[repr(C)]
pub struct Element {
    kind: c_int,
    next: *mut Element,
    request: *mut c_void,
}

/// `iRCCE_WAIT_LIST_RECV_TYPE` and `iRCCE_WAIT_LIST_SEND_TYPE`
const RECEIVE: c_int = 0;
const SEND: c_int = 1;

/// `iRCCE_init_wait_list`
///
/// # Safety
/// `list` has room for a list, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_init_wait_list(list: *mut WaitList) {
    let empty = WaitList { first: core::ptr::null_mut(), last: core::ptr::null_mut() };
    // SAFETY: the caller passes a valid pointer or null. Later calls report null.
    let _ = unsafe { store(list, empty) };
}

/// `iRCCE_add_to_wait_list`: adds each request that is given.
///
/// # Safety
/// `list` was initialised; the requests were started and stay where they are while they are in it; or they
/// are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_add_to_wait_list(
    list: *mut WaitList,
    send: *mut Request,
    receive: *mut Request,
) {
    guard(
        "iRCCE_add_to_wait_list",
        |_| (),
        || {
            // SAFETY: the caller passes an initialized list or null, by the contract.
            let list = unsafe { list.as_mut() }.ok_or(Code::ValUndefined)?;
            for (kind, request) in [(SEND, send), (RECEIVE, receive)] {
                if !request.is_null() {
                    list.add(kind, request);
                }
            }
            Ok(())
        },
    );
}

impl WaitList {
    fn add(&mut self, kind: c_int, request: *mut Request) {
        let element = Element { kind, next: core::ptr::null_mut(), request: request.cast() };
        let element = Box::into_raw(Box::new(element));
        if self.last.is_null() {
            self.first = element;
        } else {
            // SAFETY: the last element, which `add` made and nothing has freed.
            unsafe { (*self.last).next = element };
        }
        self.last = element;
    }

    /// Removes the first element for which `take` returns true, and returns its kind and request.
    fn take(
        &mut self,
        mut take: impl FnMut(&mut Request) -> Result<bool, Failure>,
    ) -> Result<Option<(c_int, *mut Request)>, Failure> {
        let (mut before, mut at) = (core::ptr::null_mut::<Element>(), self.first);
        while !at.is_null() {
            // SAFETY: an element that `add` made and nothing has freed.
            let (next, kind, request) = unsafe { ((*at).next, (*at).kind, (*at).request.cast::<Request>()) };
            // SAFETY: the caller keeps requests in place while they are in the list.
            if take(unsafe { &mut *request })? {
                if before.is_null() {
                    self.first = next;
                } else {
                    // SAFETY: as above.
                    unsafe { (*before).next = next };
                }
                if next.is_null() {
                    self.last = before;
                }
                // SAFETY: made by `Box::into_raw` in `add`, and out of the list now.
                drop(unsafe { Box::from_raw(at) });
                return Ok(Some((kind, request)));
            }
            (before, at) = (at, next);
        }
        Ok(None)
    }

    /// Returns whether all requests are complete, and empties the list if so.
    fn all_complete(&mut self, world: &mut World) -> Result<bool, Failure> {
        let mut missing = false;
        // Returns false, so all elements are visited.
        self.take(|request| {
            missing |= !test(world, request)?;
            Ok(false)
        })?;
        while !missing && self.take(|_| Ok(true))?.is_some() {}
        Ok(!missing)
    }
}

/// Runs `body` with a list.
///
/// # Safety
/// `list` was initialised, or is null.
unsafe fn with_list(
    name: &str,
    list: *mut WaitList,
    body: impl FnOnce(&mut WaitList, &mut World) -> Result<c_int, Failure>,
) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            // SAFETY: the caller passes an initialized list or null, by the contract.
            body(unsafe { list.as_mut() }.ok_or(Code::ValUndefined)?, world)
        },
    )
}

/// `iRCCE_test_all`: tests whether all requests of the list are complete, and empties it if so.
///
/// # Safety
/// `list` was initialised, or is null; `flag` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_test_all(list: *mut WaitList, flag: *mut c_int) -> c_int {
    let body = |list: &mut WaitList, world: &mut World| {
        let done = list.all_complete(world)?;
        world.liveness.check()?;
        // SAFETY: the caller passes a valid output pointer or null; if null, the return value is enough.
        let _ = unsafe { store(flag, c_int::from(done)) };
        Ok(if done { SUCCESS } else { PENDING })
    };
    // SAFETY: the callee has the same contract.
    unsafe { with_list("iRCCE_test_all", list, body) }
}

/// `iRCCE_wait_all`
///
/// # Safety
/// `list` was initialised, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_wait_all(list: *mut WaitList) -> c_int {
    let body = |list: &mut WaitList, world: &mut World| {
        let mut polls = 0_u32;
        while !list.all_complete(world)? {
            pause(world, &mut polls)?;
        }
        Ok(SUCCESS)
    };
    // SAFETY: the callee has the same contract.
    unsafe { with_list("iRCCE_wait_all", list, body) }
}

/// Stores a request that was removed from a list, or nulls.
///
/// # Safety
/// Both have room for a pointer, or are null.
unsafe fn put_any(taken: Option<(c_int, *mut Request)>, send: *mut *mut Request, receive: *mut *mut Request) {
    let null = core::ptr::null_mut();
    let (sent, received) = match taken {
        Some((SEND, request)) => (request, null),
        Some((_, request)) => (null, request),
        None => (null, null),
    };
    // SAFETY: the caller's room, by the contract. Either may be left out.
    let _ = unsafe { (store(send, sent), store(receive, received)) };
}

/// `iRCCE_test_any`: removes a complete request from the list.
///
/// # Safety
/// `list` was initialised, or is null; `send` and `receive` have room for a pointer, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_test_any(
    list: *mut WaitList,
    send: *mut *mut Request,
    receive: *mut *mut Request,
) -> c_int {
    let body = |list: &mut WaitList, world: &mut World| {
        let is_empty = list.first.is_null();
        let taken = list.take(|request| test(world, request))?;
        world.liveness.check()?;
        // SAFETY: the caller passes a valid output pointer or null, by the contract.
        unsafe { put_any(taken, send, receive) };
        Ok(if taken.is_some() || is_empty { SUCCESS } else { PENDING })
    };
    // SAFETY: the callee has the same contract.
    unsafe { with_list("iRCCE_test_any", list, body) }
}

/// `iRCCE_wait_any`: waits for one, and takes it out.
///
/// # Safety
/// As [`iRCCE_test_any`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_wait_any(
    list: *mut WaitList,
    send: *mut *mut Request,
    receive: *mut *mut Request,
) -> c_int {
    let body = |list: &mut WaitList, world: &mut World| {
        let mut polls = 0_u32;
        let mut taken = None;
        while !list.first.is_null() && taken.is_none() {
            taken = list.take(|request| test(world, request))?;
            if taken.is_none() {
                pause(world, &mut polls)?;
            }
        }
        // SAFETY: the caller passes a valid output pointer or null, by the contract.
        unsafe { put_any(taken, send, receive) };
        Ok(SUCCESS)
    };
    // SAFETY: the callee has the same contract.
    unsafe { with_list("iRCCE_wait_any", list, body) }
}
