//! Files that were granted to the program's job: `tombolo/files.h`.

use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use tombolo_files::{File, FileError, FileFault, FileKind, FileMap, Files, FilesOptions, OpenOptions};

use crate::boundary::{
    Exclusive, bytes, bytes_mut, check_not_null, deref, from_handle, guard, guard_value, into_handle, text,
    write_result,
};
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};

/// `tombolo_files`.
#[derive(Debug)]
pub struct FilesHandle {
    files: Files,
}

/// `tombolo_file`.
#[derive(Debug)]
pub struct FileHandle {
    file: File,
}

/// `tombolo_file_map`.
#[derive(Debug)]
pub struct FileMapHandle {
    map: Exclusive<FileMap>,
    length: usize,
}

/// `tombolo_files_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    name: *const c_char,
    buffer_bytes: u64,
    timeout_ns: u64,
    buffers: u32,
    reserved: u32,
}

impl Options {
    fn read(&self) -> Result<FilesOptions, Failure> {
        if self.reserved != 0 {
            return Err(Failure::invalid(
                "files were to be reached in a way that this library does not know",
            ));
        }
        let mut options = FilesOptions::default();
        if self.buffer_bytes != 0 || self.buffers != 0 {
            let or = |value: u64, usual| if value == 0 { usual } else { value };
            let buffers = if self.buffers == 0 { 8 } else { self.buffers };
            options = options.buffers(or(self.buffer_bytes, 256 << 10), buffers)?;
        }
        Ok(match self.timeout_ns {
            0 => options,
            nanoseconds => options.timeout(Duration::from_nanos(nanoseconds)),
        })
    }
}

/// `tombolo_file_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Info {
    length: u64,
    modified_ns: u64,
    is_folder: bool,
    writable: bool,
    reserved: [u8; 6],
}

/// `tombolo_visit_file`.
type Visit = unsafe extern "C" fn(*mut c_void, *const c_char, bool) -> i32;

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        match error {
            FileError::Tombolo(error) => error.into(),
            error => Failure::new(status_of(&error), error.to_string()),
        }
    }
}

fn status_of(error: &FileError) -> Status {
    let fault = match error {
        FileError::NoneGranted | FileError::NotServed { .. } => return Status::NotGranted,
        FileError::Ended { .. } => return Status::FileEnded,
        FileError::Buffers { .. } => return Status::InvalidArgument,
        FileError::Fault { fault, .. } => fault,
        _ => return Status::FileFault,
    };
    match fault {
        FileFault::NotGranted
        | FileFault::ReadOnly
        | FileFault::Outside
        | FileFault::Denied
        | FileFault::OpenedReadOnly => Status::NotGranted,
        FileFault::NotFound => Status::NoSuchFile,
        FileFault::Exists => Status::FileExists,
        FileFault::IsFolder => Status::IsFolder,
        FileFault::NotAFolder => Status::NotFolder,
        FileFault::BadMode => Status::InvalidArgument,
        FileFault::OutOfRange => Status::OutOfRange,
        _ => Status::FileFault,
    }
}

/// `tombolo_files_reach`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_files_reach(
    domain: *const DomainHandle,
    options: *const Options,
    result: *mut *mut FilesHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the files")?;
        // SAFETY: a live handle, and options or null, by the contract.
        let (domain, how) = unsafe { (&deref(domain, "the domain")?.domain, options.as_ref()) };
        let mut options = how.map_or(Ok(FilesOptions::default()), Options::read)?;
        if let Some(name) = how.map(|how| how.name).filter(|name| !name.is_null()) {
            // SAFETY: a C string, by the contract.
            options = options.server(unsafe { text(name, "the name") }?);
        }
        let files = Files::connect_with(domain, &options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(FilesHandle { files }), "where to put the files") }
    })
}

/// `tombolo_files_drop`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_files_drop(files: *mut FilesHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(files) });
        Ok(())
    });
}

/// Returns the files of a handle, and a path.
///
/// # Safety
/// `files` is null, or a live handle; `path` is null, or a C string.
unsafe fn files_and_path<'a>(
    files: *const FilesHandle,
    path: *const c_char,
) -> Result<(&'a Files, &'a str), Failure> {
    // SAFETY: this function's safety condition; `Files` is `Sync`.
    unsafe { Ok((&deref(files, "the files")?.files, text(path, "the path")?)) }
}

/// `tombolo_files_stat`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_files_stat(
    files: *const FilesHandle,
    path: *const c_char,
    info: *mut Info,
) -> Status {
    guard(|| {
        check_not_null(info, "where to put what is known")?;
        // SAFETY: a live handle and a C string, by the contract.
        let (files, path) = unsafe { files_and_path(files, path) }?;
        let found = files.stat(path)?;
        let file_info = Info {
            length: found.length_bytes,
            modified_ns: found.modified_ns,
            is_folder: found.kind == FileKind::Folder,
            writable: found.writable,
            reserved: [0; 6],
        };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(info, file_info, "where to put what is known") }
    })
}

/// `tombolo_files_list`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_files_list(
    files: *const FilesHandle,
    path: *const c_char,
    visit: Option<Visit>,
    context: *mut c_void,
) -> i32 {
    let mut visit_result = 0;
    let status = guard(|| {
        let visit = visit.ok_or_else(|| Failure::invalid("the function to visit with is null"))?;
        // SAFETY: a live handle and a C string, by the contract.
        let (files, path) = unsafe { files_and_path(files, path) }?;
        let entries: Vec<(Vec<u8>, bool)> = if path.is_empty() {
            let granted = files.granted()?.into_iter();
            granted.map(|path| (path.as_os_str().as_bytes().to_vec(), false)).collect()
        } else {
            let entries = files.list(path)?.into_iter();
            entries.map(|entry| (entry.name.as_bytes().to_vec(), entry.is_folder)).collect()
        };
        for (name, is_folder) in entries {
            // Names contain no zero bytes: they were split there.
            let name = CString::new(name).unwrap_or_default();
            // SAFETY: the caller's callback with its own context, by the contract; the name lives during the
            // call.
            visit_result = unsafe { visit(context, name.as_ptr(), is_folder) };
            if visit_result != 0 {
                break;
            }
        }
        Ok(())
    });
    if status == Status::Ok { visit_result } else { status as i32 }
}

/// `tombolo_file_open`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_open(
    files: *const FilesHandle,
    path: *const c_char,
    flags: u32,
    result: *mut *mut FileHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the file")?;
        // SAFETY: a live handle and a C string, by the contract.
        let (files, path) = unsafe { files_and_path(files, path) }?;
        let ways = [OpenOptions::write, OpenOptions::create, OpenOptions::create_new, OpenOptions::truncate];
        if flags >> ways.len() != 0 {
            return Err(Failure::invalid(
                "a file was to be opened with flags that this library does not know",
            ));
        }
        let requested = ways.iter().enumerate().filter(|(bit, _)| flags & (1 << bit) != 0);
        let options = requested.fold(OpenOptions::new(), |options, (_, with)| with(options));
        let file = files.open_with(path, options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(FileHandle { file }), "where to put the file") }
    })
}

/// `tombolo_file_close`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_close(file: *mut FileHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(file) });
        Ok(())
    });
}

/// Returns the file of a handle.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn file_of<'a>(file: *const FileHandle) -> Result<&'a File, Failure> {
    // SAFETY: this function's safety condition; `File` is `Sync`.
    Ok(&unsafe { deref(file, "the file") }?.file)
}

/// `tombolo_file_length`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_length(file: *const FileHandle, length: *mut u64) -> Status {
    guard(|| {
        check_not_null(length, "where to put the length")?;
        // SAFETY: a live handle, by the contract.
        let found = unsafe { file_of(file) }?.len_bytes()?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(length, found, "where to put the length") }
    })
}

/// `tombolo_file_set_length`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_set_length(file: *const FileHandle, length: u64) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| Ok(unsafe { file_of(file) }?.set_len(length)?))
}

/// `tombolo_file_read`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_read(
    file: *const FileHandle,
    offset: u64,
    target: *mut u8,
    length: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, and `length` bytes of the caller, by the contract.
        let (file, target) = unsafe { (file_of(file)?, bytes_mut(target, length, "the target")?) };
        if count.is_null() {
            return Ok(file.read_exact_at(offset, target)?);
        }
        let read = file.read_at(offset, target)?;
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(count, read, "where to put the count") }
    })
}

/// `tombolo_file_write`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_write(
    file: *const FileHandle,
    offset: u64,
    source: *const u8,
    length: usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, and `length` bytes of the caller, by the contract.
        let (file, source) = unsafe { (file_of(file)?, bytes(source, length, "the source")?) };
        Ok(file.write_at(offset, source)?)
    })
}

/// `tombolo_file_sync`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_sync(file: *const FileHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| Ok(unsafe { file_of(file) }?.sync()?))
}

/// `tombolo_file_bring`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_bring(
    file: *const FileHandle,
    offset: u64,
    length: u64,
    result: *mut *mut FileMapHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the map")?;
        // SAFETY: a live handle, by the contract.
        let file = unsafe { file_of(file) }?;
        let length = match length {
            u64::MAX => file.len_bytes()?.saturating_sub(offset),
            length => length,
        };
        let map = file.map_range(offset, length)?;
        let handle = FileMapHandle { length: map.len(), map: Exclusive::new(map) };
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, into_handle(handle), "where to put the map") }
    })
}

/// Returns the map of a handle.
///
/// # Safety
/// The pointer is null, or a live handle.
unsafe fn map_of<'a>(map: *const FileMapHandle) -> Result<&'a FileMapHandle, Failure> {
    // SAFETY: this function's safety condition.
    unsafe { deref(map, "the map") }
}

/// `tombolo_file_map_data`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_map_data(map: *const FileMapHandle) -> *const c_void {
    // SAFETY: a live handle, by the contract. The bytes do not move: a map never grows.
    guard_value(std::ptr::null(), || unsafe { map_of(map) }?.map.with(|map| Ok(map.as_ptr().cast())))
}

/// `tombolo_file_map_length`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_map_length(map: *const FileMapHandle) -> usize {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { map_of(map) }?.length))
}

/// `tombolo_file_map_change`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_map_change(
    map: *mut FileMapHandle,
    offset: usize,
    length: usize,
    place: *mut *mut c_void,
) -> Status {
    guard(|| {
        check_not_null(place, "where to put the place")?;
        // SAFETY: a live handle, by the contract.
        let handle = unsafe { map_of(map) }?;
        let at = handle.map.with(|map| {
            let end = offset.saturating_add(length);
            Ok(map.range_mut(offset..end)?.as_mut_ptr())
        })?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(place, at.cast(), "where to put the place") }
    })
}

/// `tombolo_file_map_flush`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_map_flush(map: *mut FileMapHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| unsafe { map_of(map) }?.map.with(|map| Ok(map.flush()?)))
}

/// `tombolo_file_map_drop`: see `tombolo/files.h`.
///
/// # Safety
/// As documented in `tombolo/files.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_file_map_drop(map: *mut FileMapHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(map) });
        Ok(())
    });
}
