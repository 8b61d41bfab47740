//! Address vectors, which map indices to addresses.

use core::ffi::{c_char, c_int, c_void};
use core::{ptr, slice};
use std::collections::HashMap;

use tombolo_mpi_fabric::{ADDRESS_BYTES, Address};

use crate::abi::*;
use crate::domain::Domain;
use crate::endpoint::{Binding, Endpoint, write_address};
use crate::entry::{fid_ops, object, unsupported};

/// An open address vector. An address has one index, no matter how often it was inserted.
#[repr(C)]
pub(crate) struct Vector {
    fid: fid_av,
    domain: *mut Domain,
    entries: Vec<Option<(Address, usize)>>,
    by_address: HashMap<Address, u64>,
    endpoints: Vec<*mut Endpoint>,
}

static FID_OPS: fi_ops = fi_ops { bind, ..fid_ops(close) };

static OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert,
    insertsvc: unsupported,
    insertsym: unsupported,
    remove,
    lookup,
    straddr,
    av_set: unsupported,
    insert_auth_key: unsupported,
    lookup_auth_key: unsupported,
    set_user_id: unsupported,
};

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a valid structure or null, and a valid output pointer.
    unsafe {
        if let Some(attr) = attr.as_mut() {
            // Named vectors shared by processes are not supported.
            if !attr.name.is_null() {
                return -FI_ENOSYS;
            }
            if attr.type_ == 0 {
                attr.type_ = FI_AV_TABLE;
            }
        }
    }
    let domain = domain.cast::<Domain>();
    object!(domain, Domain).users += 1;
    let fid = fid { fclass: FI_CLASS_AV, context, ops: ptr::from_ref(&FID_OPS) };
    let opened = Box::new(Vector {
        fid: fid_av { fid, ops: ptr::from_ref(&OPS) },
        domain,
        entries: Vec::new(),
        by_address: HashMap::new(),
        endpoints: Vec::new(),
    });
    // SAFETY: as above.
    unsafe { *av = Box::into_raw(opened).cast() };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let closing = object!(fid, Vector);
    if !closing.endpoints.is_empty() {
        return -FI_EBUSY;
    }
    object!(closing.domain, Domain).users -= 1;
    // SAFETY: allocated by `open` and not used afterwards.
    drop(unsafe { Box::from_raw(fid.cast::<Vector>()) });
    0
}

/// Accepts binding to an event queue and ignores it: no operation here is asynchronous.
// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    0
}

impl Binding for Vector {
    fn remove_endpoint(&mut self, removed: *mut Endpoint) {
        self.endpoints.retain(|endpoint| *endpoint != removed);
    }
}

impl Vector {
    /// Adds all addresses to a new endpoint.
    pub(crate) fn add_endpoint(&mut self, added: *mut Endpoint) {
        let engine = &mut object!(added, Endpoint).engine;
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some((address, _)) = entry {
                engine.set_route(index as u64, Some(*address));
            }
        }
        self.endpoints.push(added);
    }

    fn update_routes(&self, index: u64, address: Option<Address>) {
        for endpoint in &self.endpoints {
            object!(*endpoint, Endpoint).engine.set_route(index, address);
        }
    }

    fn insert(&mut self, address: Address) -> u64 {
        if let Some(&index) = self.by_address.get(&address) {
            if let Some(Some((_, uses))) = self.entries.get_mut(index as usize) {
                *uses += 1;
            }
            return index;
        }
        let free = self.entries.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[index] = Some((address, 1));
        self.by_address.insert(address, index as u64);
        self.update_routes(index as u64, Some(address));
        index as u64
    }

    fn remove(&mut self, index: u64) -> bool {
        let entry = usize::try_from(index).ok().and_then(|at| self.entries.get_mut(at));
        let Some(entry) = entry else { return false };
        let Some((address, uses)) = entry else { return false };
        *uses -= 1;
        if *uses == 0 {
            let address = *address;
            *entry = None;
            self.by_address.remove(&address);
            self.update_routes(index, None);
        }
        true
    }
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut u64,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    /// Flag that requests an array with the error of each address.
    const FI_SYNC_ERR: u64 = 1 << 58;
    let vector = object!(av, Vector);
    let errors = if flags & FI_SYNC_ERR != 0 { context.cast::<c_int>() } else { ptr::null_mut() };
    let mut inserted = 0;
    for index in 0..count {
        // SAFETY: the program passes `count` addresses of this length.
        let bytes =
            unsafe { slice::from_raw_parts(addr.cast::<u8>().add(index * ADDRESS_BYTES), ADDRESS_BYTES) };
        let found = Address::from_bytes(bytes).map(|address| vector.insert(address));
        inserted += c_int::from(found.is_some());
        // SAFETY: an array that is not null has `count` entries.
        unsafe {
            if !fi_addr.is_null() {
                *fi_addr.add(index) = found.unwrap_or(FI_ADDR_NOTAVAIL);
            }
            if !errors.is_null() {
                *errors.add(index) = if found.is_some() { 0 } else { FI_EINVAL };
            }
        }
    }
    inserted
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn remove(av: *mut fid_av, fi_addr: *mut u64, count: usize, _: u64) -> c_int {
    let vector = object!(av, Vector);
    // In reverse, so that the indices in use stay contiguous.
    for index in (0..count).rev() {
        // SAFETY: the program passes `count` indices.
        if !vector.remove(unsafe { *fi_addr.add(index) }) {
            return -FI_EINVAL;
        }
    }
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn lookup(av: *mut fid_av, fi_addr: u64, addr: *mut c_void, addrlen: *mut usize) -> c_int {
    let vector = object!(av, Vector);
    let entry = usize::try_from(fi_addr).ok().and_then(|at| vector.entries.get(at).copied().flatten());
    let Some((address, _)) = entry else { return -FI_EINVAL };
    // SAFETY: the program passes a buffer and its length.
    unsafe { write_address(address, addr, addrlen) };
    0
}

// SAFETY: callers uphold the contract that libfabric's manual documents for the call.
unsafe extern "C" fn straddr(
    _: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the program passes an address of this length.
    let bytes = unsafe { slice::from_raw_parts(addr.cast::<u8>(), ADDRESS_BYTES) };
    let text =
        Address::from_bytes(bytes).map_or_else(|| "no address".to_owned(), |address| address.to_string());
    // SAFETY: the program passes a buffer and its length; the text is truncated to it and zero-terminated.
    unsafe {
        if *len > 0 {
            let copied = text.len().min(*len - 1);
            ptr::copy_nonoverlapping(text.as_ptr(), buf.cast(), copied);
            *buf.add(copied) = 0;
        }
        *len = text.len() + 1;
    }
    buf
}
