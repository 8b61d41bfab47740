//! Capabilities of the provider: `fi_getinfo`.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use tombolo::Domain;
use tombolo_mpi_fabric::{ADDRESS_BYTES, Address, INJECT_BYTES};

use crate::abi::*;

/// The provider's name.
pub(crate) const NAME: &CStr = c"tombolo";

/// The version of the provider, as libfabric writes versions.
pub(crate) const VERSION: u32 = 1;

/// API version, higher than that of any known libfabric: a provider must not be older than the version that
/// its users request.
pub(crate) const API_VERSION: u32 = 2 << 16 | 99;

/// Address format, unique to this provider.
pub(crate) const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x746f;

/// Endpoint protocol, unique to this provider.
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x746f;

const KINDS: u64 = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC;
const DIRECTIONS: u64 = FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE;
const COMM_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// All capabilities of the provider.
pub(crate) const CAPS: u64 = KINDS | DIRECTIONS | COMM_CAPS | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV;

/// Capabilities of the transmit and receive sides.
const TX_CAPS: u64 = KINDS | FI_READ | FI_WRITE | FI_SEND;
const RX_CAPS: u64 =
    KINDS | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV;

/// Supported default flags of operations.
const TX_FLAGS: u64 =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MORE;
const RX_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV;

/// Supported ordering. A read is not ordered before a later write: its bytes are copied when they are sent.
const ORDER: u64 = FI_ORDER_RAR
    | FI_ORDER_RAW
    | FI_ORDER_WAW
    | FI_ORDER_SAW
    | FI_ORDER_SAS
    | FI_ORDER_RMA_RAR
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAW
    | FI_ORDER_ATOMIC;

/// Maximum message length in bytes: that of any memory object.
pub(crate) const MAX_MESSAGE_BYTES: usize = isize::MAX as usize;

/// Maximum number of memory ranges per message.
pub(crate) const IOV_LIMIT: usize = 8;

/// Approximate number of operations in flight before one is refused.
const QUEUE_SIZE: usize = 4096;

/// Reported limit of objects of each kind per domain. There is no actual limit.
const MAX_OBJECTS: usize = 65536;

/// Generic tag format (`FI_TAG_GENERIC`), which all programs accept.
const TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Zeroed space behind a structure for fields of later libfabric versions.
const SLACK_BYTES: usize = 512;

// SAFETY: declared as in the C library.
unsafe extern "C" {
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
}

/// Domain of this process, once attached.
static ATTACHED: Mutex<Option<Domain>> = Mutex::new(None);

/// Returns the domain of this process, attaching it on first use.
///
/// # Errors
/// As [`Domain::attach`].
pub(crate) fn attach_once() -> Result<Domain, tombolo::Error> {
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(domain) = &*attached {
        return Ok(domain.clone());
    }
    let domain = Domain::attach()?;
    *attached = Some(domain.clone());
    Ok(domain)
}

/// Prints why nothing is offered if libfabric's log level is set.
fn log(error: &tombolo::Error) {
    // Reads libfabric's variable instead of calling its log function, which is not found if libfabric was
    // loaded with local scope.
    if std::env::var_os("FI_LOG_LEVEL").is_some() {
        eprintln!("libfabric:{}:tombolo:core: {error}", std::process::id());
    }
}

/// The relevant hints of a program. Fields that it left out are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) caps: u64,
    pub(crate) addr_format: u32,
    pub(crate) dest: Option<[u8; ADDRESS_BYTES]>,
    pub(crate) ep_type: c_int,
    pub(crate) protocol: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) contexts: usize,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) domain_caps: u64,
    pub(crate) tx_caps: u64,
    pub(crate) tx_flags: u64,
    pub(crate) tx_order: u64,
    pub(crate) tx_comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) tx_iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) rx_caps: u64,
    pub(crate) rx_flags: u64,
    pub(crate) rx_order: u64,
    pub(crate) rx_comp_order: u64,
    pub(crate) rx_iov_limit: usize,
}

/// Attributes offered to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) caps: u64,
    pub(crate) threading: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) tx_flags: u64,
    pub(crate) rx_flags: u64,
    pub(crate) dest: Option<[u8; ADDRESS_BYTES]>,
    pub(crate) source: [u8; ADDRESS_BYTES],
}

/// Matches hints against the provider's capabilities. Returns `None` if they cannot be satisfied.
pub(crate) fn match_hints(version: u32, requested: &Hints) -> Option<Offer> {
    let is_subset = |requested: u64, supported: u64| requested & !supported == 0;
    let manual = |progress: c_int| progress != FI_PROGRESS_AUTO;
    let supported = is_subset(requested.caps, CAPS)
        && is_subset(requested.domain_caps, COMM_CAPS)
        && is_subset(requested.tx_caps, CAPS)
        && is_subset(requested.rx_caps, CAPS)
        && is_subset(requested.tx_flags, TX_FLAGS)
        && is_subset(requested.rx_flags, RX_FLAGS)
        && is_subset(requested.tx_order, ORDER)
        && is_subset(requested.rx_order, ORDER)
        && requested.tx_comp_order == 0
        && requested.rx_comp_order == 0
        && matches!(requested.addr_format, 0 | ADDRESS_FORMAT)
        && matches!(requested.ep_type, FI_EP_UNSPEC | FI_EP_RDM)
        && matches!(requested.protocol, 0 | PROTOCOL)
        && requested.max_msg_size <= MAX_MESSAGE_BYTES
        && requested.contexts <= 1
        && matches!(requested.threading, FI_THREAD_UNSPEC | FI_THREAD_DOMAIN)
        && manual(requested.control_progress)
        && manual(requested.data_progress)
        && requested.mr_key_size <= 8
        && requested.cq_data_size <= 8
        && requested.inject_size <= INJECT_BYTES
        && requested.tx_iov_limit <= IOV_LIMIT
        && requested.rx_iov_limit <= IOV_LIMIT
        && requested.rma_iov_limit <= 1;
    if !supported {
        return None;
    }
    // Kinds without directions mean all of them.
    let caps = match requested.caps {
        0 => CAPS,
        caps => {
            let directions_of = |kinds: u64, directions: u64| if caps & kinds != 0 { directions } else { 0 };
            let implied = if caps & (FI_SEND | FI_RECV) == 0 {
                directions_of(FI_MSG | FI_TAGGED, FI_SEND | FI_RECV)
            } else {
                0
            } | if caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE) == 0 {
                directions_of(FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
            } else {
                0
            };
            caps | implied | COMM_CAPS
        }
    };
    // The old "basic" mode means virtual addresses and keys chosen by the provider; "scalable" is the
    // opposite.
    let mr_mode = match requested.mr_mode {
        FI_MR_BASIC | FI_MR_SCALABLE => requested.mr_mode,
        0 if version < (1 << 16 | 5) => FI_MR_SCALABLE,
        _ => 0,
    };
    Some(Offer {
        caps,
        threading: FI_THREAD_DOMAIN,
        av_type: if requested.av_type == FI_AV_MAP { FI_AV_MAP } else { FI_AV_TABLE },
        mr_mode,
        tx_flags: requested.tx_flags,
        rx_flags: requested.rx_flags,
        dest: requested.dest,
        source: [0; ADDRESS_BYTES],
    })
}

/// Reads the hints of a program.
///
/// # Safety
/// `hints` is null or points to a structure as made by `fi_allocinfo`, with valid pointers.
unsafe fn read_hints(hints: *const fi_info) -> Hints {
    let mut requested = Hints::default();
    // SAFETY: as the caller guarantees, each pointer is null or points to its structure; only fields of
    // version 1.17 are read.
    unsafe {
        let Some(hints) = hints.as_ref() else { return requested };
        requested.caps = hints.caps;
        requested.addr_format = hints.addr_format;
        if !hints.dest_addr.is_null() && hints.dest_addrlen == ADDRESS_BYTES {
            requested.dest = Some(hints.dest_addr.cast::<[u8; ADDRESS_BYTES]>().read_unaligned());
        }
        if let Some(attr) = hints.ep_attr.as_ref() {
            requested.ep_type = attr.type_;
            requested.protocol = attr.protocol;
            requested.max_msg_size = attr.max_msg_size;
            requested.contexts = attr.tx_ctx_cnt.max(attr.rx_ctx_cnt);
        }
        if !hints.domain_attr.is_null() {
            // Not by reference, as the fields that 2.0 added may be missing.
            let attr = hints.domain_attr;
            requested.threading = (&raw const (*attr).threading).read();
            requested.control_progress = (&raw const (*attr).control_progress).read();
            requested.data_progress = (&raw const (*attr).data_progress).read();
            requested.av_type = (&raw const (*attr).av_type).read();
            requested.mr_mode = (&raw const (*attr).mr_mode).read();
            requested.mr_key_size = (&raw const (*attr).mr_key_size).read();
            requested.cq_data_size = (&raw const (*attr).cq_data_size).read();
            requested.domain_caps = (&raw const (*attr).caps).read();
        }
        if let Some(attr) = hints.tx_attr.as_ref() {
            requested.tx_caps = attr.caps;
            requested.tx_flags = attr.op_flags;
            requested.tx_order = attr.msg_order;
            requested.tx_comp_order = attr.comp_order;
            requested.inject_size = attr.inject_size;
            requested.tx_iov_limit = attr.iov_limit;
            requested.rma_iov_limit = attr.rma_iov_limit;
        }
        if let Some(attr) = hints.rx_attr.as_ref() {
            requested.rx_caps = attr.caps;
            requested.rx_flags = attr.op_flags;
            requested.rx_order = attr.msg_order;
            requested.rx_comp_order = attr.comp_order;
            requested.rx_iov_limit = attr.iov_limit;
        }
    }
    requested
}

/// Returns whether the hints name something other than `own`.
///
/// # Safety
/// `name` is null or a string.
unsafe fn has_other_name(name: *const c_char, own: &CStr) -> bool {
    // SAFETY: the caller guarantees a valid string.
    !name.is_null() && unsafe { CStr::from_ptr(name) } != own
}

/// Allocates a zeroed structure for libfabric to free, with [`SLACK_BYTES`] behind it.
///
/// # Safety
/// All zero bytes must be a valid value of `T`.
unsafe fn zeroed<T>() -> *mut T {
    // SAFETY: a plain allocation, larger than the structure.
    unsafe { calloc(1, size_of::<T>() + SLACK_BYTES) }.cast()
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: libfabric passes on the program's hints.
    let mut requested = unsafe { read_hints(hints) };
    if !node.is_null() && flags & FI_SOURCE == 0 {
        // SAFETY: libfabric passes on a string.
        let text = unsafe { CStr::from_ptr(node) };
        match text.to_str().ok().and_then(Address::parse) {
            Some(address) => requested.dest = Some(address.to_bytes()),
            // Host names do not identify an endpoint.
            None => return -FI_ENODATA,
        }
    }
    let Some(mut offer) = match_hints(version, &requested) else { return -FI_ENODATA };
    let domain = match attach_once() {
        Ok(domain) => domain,
        Err(error) => {
            log(&error);
            return -FI_ENODATA;
        }
    };
    offer.source = Address { endpoint: 0, domain: domain.id().to_bits() }.to_bytes();
    let fabric_name = CString::new(domain.machine_name()).unwrap_or_default();
    let domain_name = CString::new(domain.node_name()).unwrap_or_default();
    // SAFETY: as above; names are null or strings.
    let other = unsafe {
        match hints.as_ref() {
            None => false,
            Some(hints) => {
                (!hints.fabric_attr.is_null() && has_other_name((*hints.fabric_attr).name, &fabric_name))
                    || (!hints.domain_attr.is_null()
                        && has_other_name((&raw const (*hints.domain_attr).name).read(), &domain_name))
            }
        }
    };
    if other {
        return -FI_ENODATA;
    }
    // SAFETY: `info` takes a pointer; the structures are libfabric's to free.
    unsafe {
        match build(&offer, &fabric_name, &domain_name) {
            Some(built) => {
                *info = built;
                0
            }
            None => -FI_ENOMEM,
        }
    }
}

/// Builds the structures that describe an offer; `None` if out of memory.
///
/// # Safety
/// The caller frees them, as `fi_freeinfo` does.
unsafe fn build(offer: &Offer, fabric_name: &CStr, domain_name: &CStr) -> Option<*mut fi_info> {
    // SAFETY: the structures consist of numbers and pointers, for which zero is valid; they are written only
    // after the null checks.
    unsafe {
        let info = zeroed::<fi_info>();
        if info.is_null() {
            return None;
        }
        let i = &mut *info;
        i.tx_attr = zeroed();
        i.rx_attr = zeroed();
        i.ep_attr = zeroed();
        i.domain_attr = zeroed();
        i.fabric_attr = zeroed();
        let attrs = [
            i.tx_attr.cast::<c_void>(),
            i.rx_attr.cast(),
            i.ep_attr.cast(),
            i.domain_attr.cast(),
            i.fabric_attr.cast(),
        ];
        if attrs.iter().any(|attr| attr.is_null()) {
            // `free` takes null.
            attrs.iter().for_each(|attr| free(*attr));
            free(info.cast());
            return None;
        }
        i.caps = offer.caps;
        i.addr_format = ADDRESS_FORMAT;
        // Names the domain, but no endpoint: each gets its number when it is opened.
        i.src_addr = calloc(1, ADDRESS_BYTES);
        if !i.src_addr.is_null() {
            i.src_addr.cast::<[u8; ADDRESS_BYTES]>().write_unaligned(offer.source);
            i.src_addrlen = ADDRESS_BYTES;
        }
        if let Some(bytes) = offer.dest {
            i.dest_addr = calloc(1, ADDRESS_BYTES);
            if !i.dest_addr.is_null() {
                i.dest_addr.cast::<[u8; ADDRESS_BYTES]>().write_unaligned(bytes);
                i.dest_addrlen = ADDRESS_BYTES;
            }
        }
        fill_endpoint(&mut *i.tx_attr, &mut *i.rx_attr, &mut *i.ep_attr, offer);
        fill_domain(&mut *i.domain_attr, offer);
        (*i.domain_attr).name = strdup(domain_name.as_ptr());
        let fabric = &mut *i.fabric_attr;
        fabric.name = strdup(fabric_name.as_ptr());
        // libfabric fills in the provider's name.
        fabric.prov_version = VERSION;
        Some(info)
    }
}

fn fill_endpoint(tx: &mut fi_tx_attr, rx: &mut fi_rx_attr, ep: &mut fi_ep_attr, offer: &Offer) {
    tx.caps = offer.caps & TX_CAPS;
    tx.op_flags = offer.tx_flags;
    tx.msg_order = ORDER;
    tx.inject_size = INJECT_BYTES;
    tx.size = QUEUE_SIZE;
    tx.iov_limit = IOV_LIMIT;
    tx.rma_iov_limit = 1;
    rx.caps = offer.caps & RX_CAPS;
    rx.op_flags = offer.rx_flags;
    rx.msg_order = ORDER;
    rx.size = QUEUE_SIZE;
    rx.iov_limit = IOV_LIMIT;
    ep.type_ = FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = 1;
    ep.max_msg_size = MAX_MESSAGE_BYTES;
    ep.max_order_raw_size = MAX_MESSAGE_BYTES;
    ep.max_order_waw_size = MAX_MESSAGE_BYTES;
    ep.mem_tag_format = TAG_FORMAT;
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(domain: &mut fi_domain_attr, offer: &Offer) {
    domain.threading = offer.threading;
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = offer.av_type;
    domain.mr_mode = offer.mr_mode;
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = MAX_OBJECTS;
    domain.ep_cnt = MAX_OBJECTS;
    domain.tx_ctx_cnt = MAX_OBJECTS;
    domain.rx_ctx_cnt = MAX_OBJECTS;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.cntr_cnt = MAX_OBJECTS;
    domain.mr_iov_limit = IOV_LIMIT;
    domain.caps = offer.caps & COMM_CAPS;
    domain.mr_cnt = MAX_OBJECTS;
    domain.max_cntr_value = u64::MAX;
    domain.max_err_cntr_value = u64::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_17: u32 = 1 << 16 | 17;

    #[test]
    fn no_hints_get_all_capabilities() {
        let offer = match_hints(V1_17, &Hints::default()).unwrap();
        assert_eq!((offer.caps, offer.mr_mode, offer.av_type), (CAPS, 0, FI_AV_TABLE));
    }

    #[test]
    fn unsupported_hints_get_no_offer() {
        let unsupported_hints = [
            Hints { caps: 1 << 5, ..Hints::default() },
            Hints { ep_type: 1, ..Hints::default() },
            Hints { addr_format: 2, ..Hints::default() },
            Hints { threading: 1, ..Hints::default() },
            Hints { data_progress: FI_PROGRESS_AUTO, ..Hints::default() },
            Hints { contexts: 2, ..Hints::default() },
            Hints { inject_size: INJECT_BYTES + 1, ..Hints::default() },
            Hints { tx_iov_limit: IOV_LIMIT + 1, ..Hints::default() },
            Hints { cq_data_size: 9, ..Hints::default() },
            // A write after a read is not ordered.
            Hints { tx_order: 1 << 3, ..Hints::default() },
            Hints { tx_flags: 1 << 30, ..Hints::default() },
        ];
        for requested in unsupported_hints {
            assert_eq!(match_hints(V1_17, &requested), None, "{requested:?}");
        }
        let limit =
            Hints { inject_size: INJECT_BYTES, tx_iov_limit: IOV_LIMIT, cq_data_size: 8, ..Hints::default() };
        assert!(match_hints(V1_17, &limit).is_some());
    }

    #[test]
    fn kinds_imply_directions() {
        let offered_caps =
            |caps| match_hints(V1_17, &Hints { caps, ..Hints::default() }).unwrap().caps & !COMM_CAPS;
        assert_eq!(offered_caps(FI_MSG), FI_MSG | FI_SEND | FI_RECV);
        assert_eq!(offered_caps(FI_TAGGED | FI_SEND), FI_TAGGED | FI_SEND);
        assert_eq!(offered_caps(FI_RMA), FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
    }

    #[test]
    fn old_programs_register_memory_by_its_address() {
        let basic = Hints { mr_mode: FI_MR_BASIC, ..Hints::default() };
        assert_eq!(match_hints(1 << 16 | 4, &basic).unwrap().mr_mode, FI_MR_BASIC);
        assert_eq!(match_hints(V1_17, &basic).unwrap().mr_mode, FI_MR_BASIC);
        assert_eq!(match_hints(1 << 16, &Hints::default()).unwrap().mr_mode, FI_MR_SCALABLE);
    }
}
