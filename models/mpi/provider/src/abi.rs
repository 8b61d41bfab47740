//! Declarations from libfabric's headers, as far as they are needed: layouts and numbers that have not
//! changed from 1.17 to 2.5, and fields appended to structures since.
//!
//! Of structures made by a program or by libfabric only the fields of 1.17 are read. Structures made here are
//! followed by zeroed space for fields of later versions.
#![allow(non_camel_case_types, reason = "the names are those of the headers")]

use core::ffi::{c_char, c_int, c_void};

pub(crate) const FI_MSG: u64 = 1 << 1;
pub(crate) const FI_RMA: u64 = 1 << 2;
pub(crate) const FI_TAGGED: u64 = 1 << 3;
pub(crate) const FI_ATOMIC: u64 = 1 << 4;
pub(crate) const FI_READ: u64 = 1 << 8;
pub(crate) const FI_WRITE: u64 = 1 << 9;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_REMOTE_READ: u64 = 1 << 12;
pub(crate) const FI_REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const FI_MULTI_RECV: u64 = 1 << 16;
pub(crate) const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub(crate) const FI_MORE: u64 = 1 << 18;
pub(crate) const FI_PEEK: u64 = 1 << 19;
pub(crate) const FI_COMPLETION: u64 = 1 << 24;
pub(crate) const FI_INJECT: u64 = 1 << 25;
pub(crate) const FI_INJECT_COMPLETE: u64 = 1 << 26;
pub(crate) const FI_TRANSMIT_COMPLETE: u64 = 1 << 27;
pub(crate) const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub(crate) const FI_LOCAL_COMM: u64 = 1 << 51;
pub(crate) const FI_REMOTE_COMM: u64 = 1 << 52;
pub(crate) const FI_SOURCE: u64 = 1 << 57;
pub(crate) const FI_DIRECTED_RECV: u64 = 1 << 59;
pub(crate) const FI_CLAIM: u64 = 1 << 59;
pub(crate) const FI_DISCARD: u64 = 1 << 58;
pub(crate) const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
pub(crate) const FI_FETCH_ATOMIC: u64 = 1 << 58;
pub(crate) const FI_COMPARE_ATOMIC: u64 = 1 << 59;

pub(crate) const FI_ORDER_RAR: u64 = 1;
pub(crate) const FI_ORDER_RAW: u64 = 1 << 1;
pub(crate) const FI_ORDER_WAW: u64 = 1 << 4;
pub(crate) const FI_ORDER_SAW: u64 = 1 << 7;
pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;
pub(crate) const FI_ORDER_RMA_RAR: u64 = 1 << 32;
pub(crate) const FI_ORDER_RMA_RAW: u64 = 1 << 33;
pub(crate) const FI_ORDER_RMA_WAW: u64 = 1 << 35;
pub(crate) const FI_ORDER_ATOMIC: u64 = 0xf << 36;

pub(crate) const FI_PROV_SPECIFIC: u32 = 1 << 31;

pub(crate) const FI_AV_MAP: c_int = 1;
pub(crate) const FI_AV_TABLE: c_int = 2;
pub(crate) const FI_MR_BASIC: c_int = 1;
pub(crate) const FI_MR_SCALABLE: c_int = 1 << 1;
pub(crate) const FI_PROGRESS_AUTO: c_int = 1;
pub(crate) const FI_PROGRESS_MANUAL: c_int = 2;
pub(crate) const FI_THREAD_UNSPEC: c_int = 0;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_RM_ENABLED: c_int = 2;
pub(crate) const FI_EP_UNSPEC: c_int = 0;
pub(crate) const FI_EP_RDM: c_int = 3;

pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_UNSPEC: c_int = 1;
pub(crate) const FI_WAIT_FD: c_int = 3;
pub(crate) const FI_WAIT_YIELD: c_int = 5;

pub(crate) const FI_CQ_FORMAT_UNSPEC: c_int = 0;
pub(crate) const FI_CQ_FORMAT_CONTEXT: c_int = 1;
pub(crate) const FI_CQ_FORMAT_MSG: c_int = 2;
pub(crate) const FI_CQ_FORMAT_DATA: c_int = 3;
pub(crate) const FI_CQ_FORMAT_TAGGED: c_int = 4;

pub(crate) const FI_GETOPSFLAG: c_int = 2;
pub(crate) const FI_SETOPSFLAG: c_int = 3;
pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;
pub(crate) const FI_GETWAITOBJ: c_int = 16;

pub(crate) const FI_OPT_ENDPOINT: c_int = 0;
pub(crate) const FI_OPT_MIN_MULTI_RECV: c_int = 0;

pub(crate) const FI_CLASS_FABRIC: usize = 1;
pub(crate) const FI_CLASS_DOMAIN: usize = 2;
pub(crate) const FI_CLASS_EP: usize = 3;
pub(crate) const FI_CLASS_AV: usize = 11;
pub(crate) const FI_CLASS_MR: usize = 12;
pub(crate) const FI_CLASS_EQ: usize = 13;
pub(crate) const FI_CLASS_CQ: usize = 14;
pub(crate) const FI_CLASS_CNTR: usize = 15;

pub(crate) const FI_ADDR_NOTAVAIL: u64 = u64::MAX;
pub(crate) const FI_KEY_NOTAVAIL: u64 = u64::MAX;

pub(crate) const FI_ENOENT: c_int = 2;
pub(crate) const FI_EIO: c_int = 5;
pub(crate) const FI_EAGAIN: c_int = 11;
pub(crate) const FI_ENOMEM: c_int = 12;
pub(crate) const FI_EACCES: c_int = 13;
pub(crate) const FI_EBUSY: c_int = 16;
pub(crate) const FI_EINVAL: c_int = 22;
pub(crate) const FI_ENOSYS: c_int = 38;
pub(crate) const FI_ENOMSG: c_int = 42;
pub(crate) const FI_ENODATA: c_int = 61;
pub(crate) const FI_EMSGSIZE: c_int = 90;
pub(crate) const FI_ENOPROTOOPT: c_int = 92;
pub(crate) const FI_EOPNOTSUPP: c_int = 95;
pub(crate) const FI_ECONNRESET: c_int = 104;
pub(crate) const FI_ETIMEDOUT: c_int = 110;
pub(crate) const FI_EHOSTUNREACH: c_int = 113;
pub(crate) const FI_ECANCELED: c_int = 125;
pub(crate) const FI_ETOOSMALL: c_int = 257;
pub(crate) const FI_EAVAIL: c_int = 259;
pub(crate) const FI_EBADFLAGS: c_int = 260;
pub(crate) const FI_ETRUNC: c_int = 265;
pub(crate) const FI_ENOKEY: c_int = 266;
pub(crate) const FI_ENOAV: c_int = 267;

/// Table entry for a call that `fi_getinfo` does not offer. It ignores its arguments, so it fits any
/// signature.
pub(crate) type Unsupported = unsafe extern "C" fn() -> isize;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct iovec {
    pub(crate) base: *mut c_void,
    pub(crate) len: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct fi_ioc {
    pub(crate) addr: *mut c_void,
    pub(crate) count: usize,
}

#[repr(C)]
pub(crate) struct fid {
    pub(crate) fclass: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const fi_ops,
}

#[repr(C)]
pub(crate) struct fi_ops {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
    pub(crate) ops_open: Unsupported,
    pub(crate) tostr: Unsupported,
    pub(crate) ops_set: Unsupported,
}

#[repr(C)]
pub(crate) struct fi_tx_attr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
    pub(crate) rma_iov_limit: usize,
    pub(crate) tclass: u32,
}

#[repr(C)]
pub(crate) struct fi_rx_attr {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) comp_order: u64,
    pub(crate) total_buffered_recv: usize,
    pub(crate) size: usize,
    pub(crate) iov_limit: usize,
}

#[repr(C)]
pub(crate) struct fi_ep_attr {
    pub(crate) type_: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) msg_prefix_size: usize,
    pub(crate) max_order_raw_size: usize,
    pub(crate) max_order_war_size: usize,
    pub(crate) max_order_waw_size: usize,
    pub(crate) mem_tag_format: u64,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct fi_domain_attr {
    pub(crate) domain: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) cq_data_size: usize,
    pub(crate) cq_cnt: usize,
    pub(crate) ep_cnt: usize,
    pub(crate) tx_ctx_cnt: usize,
    pub(crate) rx_ctx_cnt: usize,
    pub(crate) max_ep_tx_ctx: usize,
    pub(crate) max_ep_rx_ctx: usize,
    pub(crate) max_ep_stx_ctx: usize,
    pub(crate) max_ep_srx_ctx: usize,
    pub(crate) cntr_cnt: usize,
    pub(crate) mr_iov_limit: usize,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) auth_key: *mut u8,
    pub(crate) auth_key_size: usize,
    pub(crate) max_err_data: usize,
    pub(crate) mr_cnt: usize,
    pub(crate) tclass: u32,
    /// Since 2.0, like all that follow: must not be read from a program's structure.
    pub(crate) max_ep_auth_key: usize,
    pub(crate) max_group_id: u32,
    pub(crate) max_cntr_value: u64,
    pub(crate) max_err_cntr_value: u64,
}

#[repr(C)]
pub(crate) struct fi_fabric_attr {
    pub(crate) fabric: *mut c_void,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct fi_info {
    pub(crate) next: *mut fi_info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut fid,
    pub(crate) tx_attr: *mut fi_tx_attr,
    pub(crate) rx_attr: *mut fi_rx_attr,
    pub(crate) ep_attr: *mut fi_ep_attr,
    pub(crate) domain_attr: *mut fi_domain_attr,
    pub(crate) fabric_attr: *mut fi_fabric_attr,
    pub(crate) nic: *mut c_void,
}

#[repr(C)]
pub(crate) struct fi_provider {
    pub(crate) version: u32,
    pub(crate) fi_version: u32,
    /// Reserved for libfabric.
    pub(crate) context: [*mut c_void; 4],
    pub(crate) name: *const c_char,
    pub(crate) getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const fi_info,
        *mut *mut fi_info,
    ) -> c_int,
    pub(crate) fabric:
        unsafe extern "C" fn(*const fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    pub(crate) cleanup: unsafe extern "C" fn(),
}

#[repr(C)]
pub(crate) struct fid_fabric {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_fabric,
    pub(crate) api_version: u32,
}

#[repr(C)]
pub(crate) struct fi_ops_fabric {
    pub(crate) size: usize,
    pub(crate) domain:
        unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
    pub(crate) passive_ep: Unsupported,
    pub(crate) eq_open:
        unsafe extern "C" fn(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int,
    pub(crate) wait_open: Unsupported,
    pub(crate) trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
    pub(crate) domain2: Unsupported,
}

#[repr(C)]
pub(crate) struct fid_domain {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_domain,
    pub(crate) mr: *const fi_ops_mr,
}

#[repr(C)]
pub(crate) struct fi_ops_domain {
    pub(crate) size: usize,
    pub(crate) av_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
    pub(crate) cq_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    pub(crate) scalable_ep: Unsupported,
    pub(crate) cntr_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void) -> c_int,
    pub(crate) poll_open: Unsupported,
    pub(crate) stx_ctx: Unsupported,
    pub(crate) srx_ctx: Unsupported,
    pub(crate) query_atomic:
        unsafe extern "C" fn(*mut fid_domain, c_int, c_int, *mut fi_atomic_attr, u64) -> c_int,
    pub(crate) query_collective: Unsupported,
    pub(crate) endpoint2: Unsupported,
}

#[repr(C)]
pub(crate) struct fi_atomic_attr {
    pub(crate) count: usize,
    pub(crate) size: usize,
}

#[repr(C)]
pub(crate) struct fi_ops_mr {
    pub(crate) size: usize,
    pub(crate) reg: unsafe extern "C" fn(
        *mut fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub(crate) regv: unsafe extern "C" fn(
        *mut fid,
        *const iovec,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut fid_mr,
        *mut c_void,
    ) -> c_int,
    pub(crate) regattr: unsafe extern "C" fn(*mut fid, *const fi_mr_attr, u64, *mut *mut fid_mr) -> c_int,
}

#[repr(C)]
pub(crate) struct fid_mr {
    pub(crate) fid: fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct fi_mr_attr {
    pub(crate) mr_iov: *const iovec,
    pub(crate) iov_count: usize,
    pub(crate) access: u64,
    pub(crate) offset: u64,
    pub(crate) requested_key: u64,
    pub(crate) context: *mut c_void,
    pub(crate) auth_key_size: usize,
    pub(crate) auth_key: *mut u8,
    pub(crate) iface: c_int,
}

#[repr(C)]
pub(crate) struct fi_av_attr {
    pub(crate) type_: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fid_av {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_av,
}

#[repr(C)]
pub(crate) struct fi_ops_av {
    pub(crate) size: usize,
    pub(crate) insert:
        unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
    pub(crate) insertsvc: Unsupported,
    pub(crate) insertsym: Unsupported,
    pub(crate) remove: unsafe extern "C" fn(*mut fid_av, *mut u64, usize, u64) -> c_int,
    pub(crate) lookup: unsafe extern "C" fn(*mut fid_av, u64, *mut c_void, *mut usize) -> c_int,
    pub(crate) straddr:
        unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    pub(crate) av_set: Unsupported,
    /// Since 2.0, like all that follow.
    pub(crate) insert_auth_key: Unsupported,
    pub(crate) lookup_auth_key: Unsupported,
    pub(crate) set_user_id: Unsupported,
}

#[repr(C)]
pub(crate) struct fi_cq_attr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct fid_cq {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_cq,
}

#[repr(C)]
pub(crate) struct fi_ops_cq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
    pub(crate) readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut u64) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
    pub(crate) sread: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> isize,
    pub(crate) sreadfrom:
        unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut u64, *const c_void, c_int) -> isize,
    pub(crate) signal: unsafe extern "C" fn(*mut fid_cq) -> c_int,
    pub(crate) strerror:
        unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

/// Completion queue entry in the longest format; the shorter formats are prefixes of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct fi_cq_tagged_entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
}

#[repr(C)]
pub(crate) struct fi_cq_err_entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buf: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) err: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct fi_cntr_attr {
    pub(crate) events: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) wait_set: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct fid_cntr {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_cntr,
}

#[repr(C)]
pub(crate) struct fi_ops_cntr {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_cntr) -> u64,
    pub(crate) add: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) set: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) wait: unsafe extern "C" fn(*mut fid_cntr, u64, c_int) -> c_int,
    pub(crate) adderr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
    pub(crate) seterr: unsafe extern "C" fn(*mut fid_cntr, u64) -> c_int,
}

#[repr(C)]
pub(crate) struct fi_eq_attr {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_set: *mut c_void,
}

#[repr(C)]
pub(crate) struct fid_eq {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_eq,
}

#[repr(C)]
pub(crate) struct fi_ops_eq {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, u64) -> isize,
    pub(crate) readerr: unsafe extern "C" fn(*mut fid_eq, *mut c_void, u64) -> isize,
    pub(crate) write: unsafe extern "C" fn(*mut fid_eq, u32, *const c_void, usize, u64) -> isize,
    pub(crate) sread: unsafe extern "C" fn(*mut fid_eq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
    pub(crate) strerror:
        unsafe extern "C" fn(*mut fid_eq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
}

#[repr(C)]
pub(crate) struct fid_ep {
    pub(crate) fid: fid,
    pub(crate) ops: *const fi_ops_ep,
    pub(crate) cm: *const fi_ops_cm,
    pub(crate) msg: *const fi_ops_msg,
    pub(crate) rma: *const fi_ops_rma,
    pub(crate) tagged: *const fi_ops_tagged,
    pub(crate) atomic: *const fi_ops_atomic,
    pub(crate) collective: *const c_void,
}

#[repr(C)]
pub(crate) struct fi_ops_ep {
    pub(crate) size: usize,
    pub(crate) cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> isize,
    pub(crate) getopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
    pub(crate) setopt: unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int,
    pub(crate) tx_ctx: Unsupported,
    pub(crate) rx_ctx: Unsupported,
    pub(crate) rx_size_left: Unsupported,
    pub(crate) tx_size_left: Unsupported,
}

#[repr(C)]
pub(crate) struct fi_ops_cm {
    pub(crate) size: usize,
    pub(crate) setname: Unsupported,
    pub(crate) getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
    pub(crate) getpeer: Unsupported,
    pub(crate) connect: Unsupported,
    pub(crate) listen: Unsupported,
    pub(crate) accept: Unsupported,
    pub(crate) reject: Unsupported,
    pub(crate) shutdown: Unsupported,
    pub(crate) join: Unsupported,
}

/// Untagged message; a tagged one has `tag` and `ignore` before `context` and `data`.
#[repr(C)]
pub(crate) struct fi_msg {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_tagged {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

type Buf = *const c_void;
type Ctx = *mut c_void;

#[repr(C)]
pub(crate) struct fi_ops_msg {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(*mut fid_ep, Ctx, usize, Ctx, u64, Ctx) -> isize,
    pub(crate) recvv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, Ctx) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, Ctx) -> isize,
    pub(crate) sendv: unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, Ctx) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, Ctx) -> isize,
    pub(crate) injectdata: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64) -> isize,
}

#[repr(C)]
pub(crate) struct fi_ops_tagged {
    pub(crate) size: usize,
    pub(crate) recv: unsafe extern "C" fn(*mut fid_ep, Ctx, usize, Ctx, u64, u64, u64, Ctx) -> isize,
    pub(crate) recvv:
        unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, u64, u64, Ctx) -> isize,
    pub(crate) recvmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> isize,
    pub(crate) send: unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, Ctx) -> isize,
    pub(crate) sendv:
        unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, u64, Ctx) -> isize,
    pub(crate) sendmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64) -> isize,
    pub(crate) senddata: unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, u64, Ctx) -> isize,
    pub(crate) injectdata: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64, u64) -> isize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct fi_rma_iov {
    pub(crate) addr: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

#[repr(C)]
pub(crate) struct fi_msg_rma {
    pub(crate) msg_iov: *const iovec,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    pub(crate) rma_iov: *const fi_rma_iov,
    pub(crate) rma_iov_count: usize,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

#[repr(C)]
pub(crate) struct fi_ops_rma {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut fid_ep, Ctx, usize, Ctx, u64, u64, u64, Ctx) -> isize,
    pub(crate) readv:
        unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, u64, u64, Ctx) -> isize,
    pub(crate) readmsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
    pub(crate) write: unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, u64, Ctx) -> isize,
    pub(crate) writev:
        unsafe extern "C" fn(*mut fid_ep, *const iovec, *mut Ctx, usize, u64, u64, u64, Ctx) -> isize,
    pub(crate) writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64, u64) -> isize,
    pub(crate) writedata:
        unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, u64, u64, Ctx) -> isize,
    pub(crate) injectdata: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64, u64, u64) -> isize,
}

#[repr(C)]
pub(crate) struct fi_msg_atomic {
    pub(crate) msg_iov: *const fi_ioc,
    pub(crate) desc: *mut *mut c_void,
    pub(crate) iov_count: usize,
    pub(crate) addr: u64,
    /// Address, count, key: laid out as [`fi_rma_iov`].
    pub(crate) rma_iov: *const fi_rma_iov,
    pub(crate) rma_iov_count: usize,
    pub(crate) datatype: c_int,
    pub(crate) op: c_int,
    pub(crate) context: *mut c_void,
    pub(crate) data: u64,
}

type Ioc = *const fi_ioc;
type Descs = *mut *mut c_void;

#[repr(C)]
pub(crate) struct fi_ops_atomic {
    pub(crate) size: usize,
    pub(crate) write:
        unsafe extern "C" fn(*mut fid_ep, Buf, usize, Ctx, u64, u64, u64, c_int, c_int, Ctx) -> isize,
    pub(crate) writev:
        unsafe extern "C" fn(*mut fid_ep, Ioc, Descs, usize, u64, u64, u64, c_int, c_int, Ctx) -> isize,
    pub(crate) writemsg: unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, u64) -> isize,
    pub(crate) inject: unsafe extern "C" fn(*mut fid_ep, Buf, usize, u64, u64, u64, c_int, c_int) -> isize,
    pub(crate) readwrite: unsafe extern "C" fn(
        *mut fid_ep,
        Buf,
        usize,
        Ctx,
        Ctx,
        Ctx,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Ctx,
    ) -> isize,
    pub(crate) readwritev: unsafe extern "C" fn(
        *mut fid_ep,
        Ioc,
        Descs,
        usize,
        Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Ctx,
    ) -> isize,
    pub(crate) readwritemsg:
        unsafe extern "C" fn(*mut fid_ep, *const fi_msg_atomic, Ioc, Descs, usize, u64) -> isize,
    pub(crate) compwrite: unsafe extern "C" fn(
        *mut fid_ep,
        Buf,
        usize,
        Ctx,
        Buf,
        Ctx,
        Ctx,
        Ctx,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Ctx,
    ) -> isize,
    pub(crate) compwritev: unsafe extern "C" fn(
        *mut fid_ep,
        Ioc,
        Descs,
        usize,
        Ioc,
        Descs,
        usize,
        Ioc,
        Descs,
        usize,
        u64,
        u64,
        u64,
        c_int,
        c_int,
        Ctx,
    ) -> isize,
    pub(crate) compwritemsg: unsafe extern "C" fn(
        *mut fid_ep,
        *const fi_msg_atomic,
        Ioc,
        Descs,
        usize,
        Ioc,
        Descs,
        usize,
        u64,
    ) -> isize,
    pub(crate) writevalid: unsafe extern "C" fn(*mut fid_ep, c_int, c_int, *mut usize) -> c_int,
    pub(crate) readwritevalid: unsafe extern "C" fn(*mut fid_ep, c_int, c_int, *mut usize) -> c_int,
    pub(crate) compwritevalid: unsafe extern "C" fn(*mut fid_ep, c_int, c_int, *mut usize) -> c_int,
}

/// Checks sizes against the headers of 1.17 on 64-bit machines, and offsets of some members.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<usize>() == 8);
    assert!(size_of::<fid>() == 24);
    assert!(size_of::<fi_ops>() == 56);
    assert!(size_of::<fi_tx_attr>() == 80);
    assert!(size_of::<fi_rx_attr>() == 64);
    assert!(size_of::<fi_ep_attr>() == 96);
    assert!(offset_of!(fi_domain_attr, mr_mode) == 36);
    assert!(offset_of!(fi_domain_attr, tclass) == 184);
    assert!(size_of::<fi_domain_attr>() == 224);
    assert!(size_of::<fi_fabric_attr>() == 32);
    assert!(size_of::<fi_info>() == 120);
    assert!(size_of::<fi_provider>() == 72);
    assert!(size_of::<fid_fabric>() == 40);
    assert!(size_of::<fid_domain>() == 40);
    assert!(size_of::<fid_mr>() == 40);
    assert!(size_of::<fid_ep>() == 80);
    assert!(size_of::<fi_ops_domain>() == 96);
    assert!(size_of::<fi_ops_cm>() == 80);
    assert!(size_of::<fi_ops_atomic>() == 112);
    assert!(size_of::<fi_mr_attr>() == 72);
    assert!(size_of::<fi_cq_attr>() == 40);
    assert!(size_of::<fi_cq_tagged_entry>() == 48);
    assert!(size_of::<fi_cq_err_entry>() == 80);
    assert!(size_of::<fi_msg>() == 48);
    assert!(size_of::<fi_msg_tagged>() == 64);
    assert!(size_of::<fi_msg_rma>() == 64);
    assert!(size_of::<fi_msg_atomic>() == 72);
};
