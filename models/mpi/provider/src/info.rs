//! What there is to be had: `fi_getinfo`.

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

/// Higher than that of any libfabric that is known: a provider must not be older than what its users ask for.
pub(crate) const API_VERSION: u32 = 2 << 16 | 99;

/// The format of addresses, which no other provider uses.
pub(crate) const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x746f;

/// The protocol of endpoints, which no other provider uses.
const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x746f;

const KINDS: u64 = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC;
const DIRECTIONS: u64 = FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE;
const REACH: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// All that it can do.
pub(crate) const CAPS: u64 = KINDS | DIRECTIONS | REACH | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV;

/// Capabilities of sending and of receiving.
const TX_CAPS: u64 = KINDS | FI_READ | FI_WRITE | FI_SEND;
const RX_CAPS: u64 =
    KINDS | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_SOURCE | FI_DIRECTED_RECV;

/// Flags that operations may have from the start.
const TX_FLAGS: u64 =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MORE;
const RX_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV;

/// What is kept in order. A read is not ordered before a later write: its bytes are taken as they are sent.
const ORDER: u64 = FI_ORDER_RAR
    | FI_ORDER_RAW
    | FI_ORDER_WAW
    | FI_ORDER_SAW
    | FI_ORDER_SAS
    | FI_ORDER_RMA_RAR
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAW
    | FI_ORDER_ATOMIC;

/// The longest message, in bytes: as long as memory can be.
pub(crate) const MAX_MESSAGE_BYTES: usize = isize::MAX as usize;

/// Ranges that a message may be in.
pub(crate) const IOV_LIMIT: usize = 8;

/// Operations that may be under way before one is refused, about.
const QUEUE: usize = 4096;

/// Objects of a kind that a domain may have. Nothing here knows a limit.
const OBJECTS: usize = 65536;

/// How many bytes the tag format that everybody accepts has marked.
const TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Room behind a structure for what later versions of libfabric look at.
const SLACK_BYTES: usize = 512;

// SAFETY: these are the C library's, as it declares them.
unsafe extern "C" {
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
    fn strdup(text: *const c_char) -> *mut c_char;
}

/// The domain that this process is, from its first use on.
static ATTACHED: Mutex<Option<Domain>> = Mutex::new(None);

/// The domain that this process is, attached if it is not yet.
///
/// # Errors
/// As [`Domain::attach`].
pub(crate) fn attached() -> Result<Domain, tombolo::Error> {
    let mut attached = ATTACHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(domain) = &*attached {
        return Ok(domain.clone());
    }
    let domain = Domain::attach()?;
    *attached = Some(domain.clone());
    Ok(domain)
}

/// Prints why nothing is offered, where libfabric's log level asks for it.
fn log(error: &tombolo::Error) {
    // By libfabric's own variable, not by its function: where it was loaded for itself alone that is not
    // found.
    if std::env::var_os("FI_LOG_LEVEL").is_some() {
        eprintln!("libfabric:{}:tombolo:core: {error}", std::process::id());
    }
}

/// What a program asked for, as far as it is looked at. What it left out is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
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

/// What is given.
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

/// Whether what is asked for can be had, and what is given then.
pub(crate) fn offer(version: u32, wish: &Wish) -> Option<Offer> {
    let nothing_else = |asked: u64, there: u64| asked & !there == 0;
    let manual = |progress: c_int| progress != FI_PROGRESS_AUTO;
    let fits = nothing_else(wish.caps, CAPS)
        && nothing_else(wish.domain_caps, REACH)
        && nothing_else(wish.tx_caps, CAPS)
        && nothing_else(wish.rx_caps, CAPS)
        && nothing_else(wish.tx_flags, TX_FLAGS)
        && nothing_else(wish.rx_flags, RX_FLAGS)
        && nothing_else(wish.tx_order, ORDER)
        && nothing_else(wish.rx_order, ORDER)
        && wish.tx_comp_order == 0
        && wish.rx_comp_order == 0
        && matches!(wish.addr_format, 0 | ADDRESS_FORMAT)
        && matches!(wish.ep_type, FI_EP_UNSPEC | FI_EP_RDM)
        && matches!(wish.protocol, 0 | PROTOCOL)
        && wish.max_msg_size <= MAX_MESSAGE_BYTES
        && wish.contexts <= 1
        && matches!(wish.threading, FI_THREAD_UNSPEC | FI_THREAD_DOMAIN)
        && manual(wish.control_progress)
        && manual(wish.data_progress)
        && wish.mr_key_size <= 8
        && wish.cq_data_size <= 8
        && wish.inject_size <= INJECT_BYTES
        && wish.tx_iov_limit <= IOV_LIMIT
        && wish.rx_iov_limit <= IOV_LIMIT
        && wish.rma_iov_limit <= 1;
    if !fits {
        return None;
    }
    // Kinds without directions mean all of them.
    let caps = match wish.caps {
        0 => CAPS,
        caps => {
            let of = |kinds: u64, directions: u64| if caps & kinds != 0 { directions } else { 0 };
            let implied =
                if caps & (FI_SEND | FI_RECV) == 0 { of(FI_MSG | FI_TAGGED, FI_SEND | FI_RECV) } else { 0 }
                    | if caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE) == 0 {
                        of(FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
                    } else {
                        0
                    };
            caps | implied | REACH
        }
    };
    // What was called basic has the program's addresses, and keys that are given out; what was called
    // scalable is all others.
    let mr_mode = match wish.mr_mode {
        FI_MR_BASIC | FI_MR_SCALABLE => wish.mr_mode,
        0 if version < (1 << 16 | 5) => FI_MR_SCALABLE,
        _ => 0,
    };
    Some(Offer {
        caps,
        threading: FI_THREAD_DOMAIN,
        av_type: if wish.av_type == FI_AV_MAP { FI_AV_MAP } else { FI_AV_TABLE },
        mr_mode,
        tx_flags: wish.tx_flags,
        rx_flags: wish.rx_flags,
        dest: wish.dest,
        source: [0; ADDRESS_BYTES],
    })
}

/// Reads what a program asked for.
///
/// # Safety
/// `hints` is null or a structure as `fi_allocinfo` makes it, with what it points to.
unsafe fn read_wish(hints: *const fi_info) -> Wish {
    let mut wish = Wish::default();
    // SAFETY: the caller's: each is null or points to its structure, read as far as 1.17 has it.
    unsafe {
        let Some(hints) = hints.as_ref() else { return wish };
        wish.caps = hints.caps;
        wish.addr_format = hints.addr_format;
        if !hints.dest_addr.is_null() && hints.dest_addrlen == ADDRESS_BYTES {
            wish.dest = Some(hints.dest_addr.cast::<[u8; ADDRESS_BYTES]>().read_unaligned());
        }
        if let Some(attr) = hints.ep_attr.as_ref() {
            wish.ep_type = attr.type_;
            wish.protocol = attr.protocol;
            wish.max_msg_size = attr.max_msg_size;
            wish.contexts = attr.tx_ctx_cnt.max(attr.rx_ctx_cnt);
        }
        if !hints.domain_attr.is_null() {
            // Not by reference: what 2.0 added may not be there.
            let attr = hints.domain_attr;
            wish.threading = (&raw const (*attr).threading).read();
            wish.control_progress = (&raw const (*attr).control_progress).read();
            wish.data_progress = (&raw const (*attr).data_progress).read();
            wish.av_type = (&raw const (*attr).av_type).read();
            wish.mr_mode = (&raw const (*attr).mr_mode).read();
            wish.mr_key_size = (&raw const (*attr).mr_key_size).read();
            wish.cq_data_size = (&raw const (*attr).cq_data_size).read();
            wish.domain_caps = (&raw const (*attr).caps).read();
        }
        if let Some(attr) = hints.tx_attr.as_ref() {
            wish.tx_caps = attr.caps;
            wish.tx_flags = attr.op_flags;
            wish.tx_order = attr.msg_order;
            wish.tx_comp_order = attr.comp_order;
            wish.inject_size = attr.inject_size;
            wish.tx_iov_limit = attr.iov_limit;
            wish.rma_iov_limit = attr.rma_iov_limit;
        }
        if let Some(attr) = hints.rx_attr.as_ref() {
            wish.rx_caps = attr.caps;
            wish.rx_flags = attr.op_flags;
            wish.rx_order = attr.msg_order;
            wish.rx_comp_order = attr.comp_order;
            wish.rx_iov_limit = attr.iov_limit;
        }
    }
    wish
}

/// Whether a name was asked for that is another.
///
/// # Safety
/// `name` is null or a string.
unsafe fn is_other(name: *const c_char, own: &CStr) -> bool {
    // SAFETY: the caller's.
    !name.is_null() && unsafe { CStr::from_ptr(name) } != own
}

/// A zeroed structure that libfabric frees, with room behind it.
///
/// # Safety
/// All zero bytes are a value of it.
unsafe fn zeroed<T>() -> *mut T {
    // SAFETY: a plain allocation, of more than the structure takes.
    unsafe { calloc(1, size_of::<T>() + SLACK_BYTES) }.cast()
}

// SAFETY: callers keep to what libfabric's manual says of the call.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    _: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: libfabric passes on what the program made.
    let mut wish = unsafe { read_wish(hints) };
    if !node.is_null() && flags & FI_SOURCE == 0 {
        // SAFETY: libfabric passes on a string.
        let text = unsafe { CStr::from_ptr(node) };
        match text.to_str().ok().and_then(Address::parse) {
            Some(address) => wish.dest = Some(address.to_bytes()),
            // A host by its name has no endpoint.
            None => return -FI_ENODATA,
        }
    }
    let Some(mut offer) = offer(version, &wish) else { return -FI_ENODATA };
    let domain = match attached() {
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
                (!hints.fabric_attr.is_null() && is_other((*hints.fabric_attr).name, &fabric_name))
                    || (!hints.domain_attr.is_null()
                        && is_other((&raw const (*hints.domain_attr).name).read(), &domain_name))
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

/// The structures that say what is given; `None` when there is no memory.
///
/// # Safety
/// The caller frees them, as `fi_freeinfo` does.
unsafe fn build(offer: &Offer, fabric_name: &CStr, domain_name: &CStr) -> Option<*mut fi_info> {
    // SAFETY: all of them are numbers and pointers, of which zero is a value; they are written to only when
    // they are there.
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
        // Of this domain, but of none of its endpoints: each is given a number when it is opened.
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
        // Its name libfabric puts in itself.
        fabric.prov_version = VERSION;
        Some(info)
    }
}

fn fill_endpoint(tx: &mut fi_tx_attr, rx: &mut fi_rx_attr, ep: &mut fi_ep_attr, offer: &Offer) {
    tx.caps = offer.caps & TX_CAPS;
    tx.op_flags = offer.tx_flags;
    tx.msg_order = ORDER;
    tx.inject_size = INJECT_BYTES;
    tx.size = QUEUE;
    tx.iov_limit = IOV_LIMIT;
    tx.rma_iov_limit = 1;
    rx.caps = offer.caps & RX_CAPS;
    rx.op_flags = offer.rx_flags;
    rx.msg_order = ORDER;
    rx.size = QUEUE;
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
    domain.cq_cnt = OBJECTS;
    domain.ep_cnt = OBJECTS;
    domain.tx_ctx_cnt = OBJECTS;
    domain.rx_ctx_cnt = OBJECTS;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.cntr_cnt = OBJECTS;
    domain.mr_iov_limit = IOV_LIMIT;
    domain.caps = offer.caps & REACH;
    domain.mr_cnt = OBJECTS;
    domain.max_cntr_value = u64::MAX;
    domain.max_err_cntr_value = u64::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_17: u32 = 1 << 16 | 17;

    #[test]
    fn who_asks_for_nothing_gets_all() {
        let offer = offer(V1_17, &Wish::default()).unwrap();
        assert_eq!((offer.caps, offer.mr_mode, offer.av_type), (CAPS, 0, FI_AV_TABLE));
    }

    #[test]
    fn who_asks_for_what_there_is_not_gets_nothing() {
        let wishes = [
            Wish { caps: 1 << 5, ..Wish::default() },
            Wish { ep_type: 1, ..Wish::default() },
            Wish { addr_format: 2, ..Wish::default() },
            Wish { threading: 1, ..Wish::default() },
            Wish { data_progress: FI_PROGRESS_AUTO, ..Wish::default() },
            Wish { contexts: 2, ..Wish::default() },
            Wish { inject_size: INJECT_BYTES + 1, ..Wish::default() },
            Wish { tx_iov_limit: IOV_LIMIT + 1, ..Wish::default() },
            Wish { cq_data_size: 9, ..Wish::default() },
            // A write after a read is not kept in order.
            Wish { tx_order: 1 << 3, ..Wish::default() },
            Wish { tx_flags: 1 << 30, ..Wish::default() },
        ];
        for wish in wishes {
            assert_eq!(offer(V1_17, &wish), None, "{wish:?}");
        }
        let limit =
            Wish { inject_size: INJECT_BYTES, tx_iov_limit: IOV_LIMIT, cq_data_size: 8, ..Wish::default() };
        assert!(offer(V1_17, &limit).is_some());
    }

    #[test]
    fn kinds_imply_directions() {
        let of = |caps| offer(V1_17, &Wish { caps, ..Wish::default() }).unwrap().caps & !REACH;
        assert_eq!(of(FI_MSG), FI_MSG | FI_SEND | FI_RECV);
        assert_eq!(of(FI_TAGGED | FI_SEND), FI_TAGGED | FI_SEND);
        assert_eq!(of(FI_RMA), FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE);
    }

    #[test]
    fn old_programs_register_memory_by_its_address() {
        let basic = Wish { mr_mode: FI_MR_BASIC, ..Wish::default() };
        assert_eq!(offer(1 << 16 | 4, &basic).unwrap().mr_mode, FI_MR_BASIC);
        assert_eq!(offer(V1_17, &basic).unwrap().mr_mode, FI_MR_BASIC);
        assert_eq!(offer(1 << 16, &Wish::default()).unwrap().mr_mode, FI_MR_SCALABLE);
    }
}
