//! Access to files of one node for programs on nodes that do not have them.
//!
//! These are not messages on their own: each is the metadata of a transfer of exactly one buffer over a bulk
//! channel, whose pool the client has assigned. A call passes or moves a buffer to the server, and its answer
//! returns one, so a client has at most as many calls in flight as its pool has buffers, and neither side
//! waits for room. File contents are in the buffers.
//!
//! Written by `tombolo idl compile` from interfaces/files.tbl.

use tombolo_interface as rt;

/// The longest path, in bytes.
pub const MAX_PATH: u64 = 1024;

rt::number! {
    /// The kind of a file.
    pub enum FileKind: u8;
    /// A regular file.
    File = 1,
    /// A folder.
    Folder = 2,
}

rt::number! {
    /// How a file is opened. It can always be read.
    pub flags OpenMode: u8 in 0xf;
    /// The file can also be written.
    WRITE = 1,
    /// Create the file if it does not exist; requires `write`.
    CREATE = 2,
    /// Create the file, which must not exist; requires `write`.
    CREATE_NEW = 4,
    /// Truncate the file to length 0; requires `write`.
    TRUNCATE = 8,
}

rt::owned_record! {
    /// Metadata of a file or folder.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FileInfo => FileInfoView<'m>, inline 24 / 8;
    /// The kind.
    kind @ 0: FileKind => FileKind,
    /// Whether it was granted for writing.
    writable @ 1: bool => bool,
    /// The length, in bytes; 0 for a folder.
    length_bytes @ 8: u64 => u64,
    /// The time of its last modification, in nanoseconds since 1970.
    modified_ns @ 16: u64 => u64,
}

rt::owned_union! {
    /// Why an operation on files failed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FileFault => 'm FileFaultView;
    /// No grant includes the path.
    1 => NotGranted,
    /// The path was granted for reading only.
    2 => ReadOnly,
    /// The path leads out of the grant, by `..` or a link.
    3 => Outside,
    /// The file does not exist.
    4 => NotFound,
    /// The file exists already.
    5 => Exists,
    /// The path names a folder.
    6 => IsFolder,
    /// A component of the path is not a folder.
    7 => NotAFolder,
    /// The path names neither a file nor a folder: a pipe, a device or a socket.
    8 => NotAFile,
    /// The user that serves the files lacks the permission.
    9 => Denied,
    /// The file system is full, or the user's quota is exhausted.
    10 => NoSpace,
    /// The client has this many files open, which is the limit.
    11 => TooManyOpen(item: u32 => u32),
    /// No open file has this number.
    12 => NotOpen(item: u32 => u32),
    /// The file was opened for reading only.
    13 => OpenedReadOnly,
    /// The request exceeds the buffer or the largest offset of a file.
    14 => OutOfRange,
    /// The mode is invalid: it requires `write`.
    15 => BadMode,
    /// Client and server have different versions of this interface.
    16 => Version,
    /// The operating system returned this error number.
    17 => System(item: i32 => i32),
}

/// Fingerprint of `tombolo.files.Files`: a hash of all declarations that affect its peers.
pub const FILES_FINGERPRINT: u64 = 0x2ab0dbc6c895299e;

rt::owned_messages! {
    /// Messages from client to server in the interface `Files`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FilesRequest, 'm;
    /// Starts a session; must be the first call. As with all calls that do not state otherwise, the request
    /// passes an empty buffer, and the answer passes it back.
    Call 1 => Begin, 8 {
        /// The fingerprint of this interface that the client was built with.
        fingerprint @ 0: u64 => u64,
    };
    /// Opens a file.
    Call 2 => Open, 16 {
        /// A path as it was granted, or one below a granted folder.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
        /// `mode`.
        mode @ 8: OpenMode => OpenMode,
    };
    /// Reads from a file. The answer moves a buffer back, whose selected part is the data: shorter than
    /// requested at the end of the file, and empty beyond it.
    Call 3 => Read, 24 {
        /// `file`.
        file @ 0: u32 => u32,
        /// The offset to read from, in bytes.
        offset_bytes @ 8: u64 => u64,
        /// The most bytes to read, up to the length of a buffer.
        length_bytes @ 16: u64 => u64,
    };
    /// Writes to a file. The request moves a buffer, whose selected part is the data.
    Call 4 => Write, 16 {
        /// `file`.
        file @ 0: u32 => u32,
        /// The offset to write at, in bytes.
        offset_bytes @ 8: u64 => u64,
    };
    /// Returns the metadata of a path.
    Call 5 => Stat, 8 {
        /// `path`, up to 1024 bytes.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
    };
    /// Lists a folder. The answer moves a buffer back, whose selected part has the names in byte order, each
    /// followed by a zero byte, those of folders with a `/` before it.
    Call 6 => List, 16 {
        /// The folder; if empty, the granted paths are listed as they were granted.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
        /// The number of names to skip: those of previous answers.
        from @ 8: u64 => u64,
    };
    /// Returns the length of a file.
    Call 7 => Length, 8 {
        /// `file`.
        file @ 0: u32 => u32,
    };
    /// Truncates a file, or extends it by zeros.
    Call 8 => SetLength, 16 {
        /// `file`.
        file @ 0: u32 => u32,
        /// The new length, in bytes.
        length_bytes @ 8: u64 => u64,
    };
    /// Writes a file to the disk; answered when it is there.
    Call 9 => Sync, 8 {
        /// `file`.
        file @ 0: u32 => u32,
    };
    /// Closes a file. Files that are open when the channel ends are closed as well.
    Call 10 => Close, 8 {
        /// `file`.
        file @ 0: u32 => u32,
    };
}

impl FilesRequest {
    /// The ordinal of `begin`.
    pub const BEGIN: u16 = 1;
    /// The ordinal of `open`.
    pub const OPEN: u16 = 2;
    /// The ordinal of `read`.
    pub const READ: u16 = 3;
    /// The ordinal of `write`.
    pub const WRITE: u16 = 4;
    /// The ordinal of `stat`.
    pub const STAT: u16 = 5;
    /// The ordinal of `list`.
    pub const LIST: u16 = 6;
    /// The ordinal of `length`.
    pub const LENGTH: u16 = 7;
    /// The ordinal of `set_length`.
    pub const SET_LENGTH: u16 = 8;
    /// The ordinal of `sync`.
    pub const SYNC: u16 = 9;
    /// The ordinal of `close`.
    pub const CLOSE: u16 = 10;
}

rt::owned_messages! {
    /// Messages from server to client in the interface `Files`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FilesReply, 'm;
    /// Reply to [`FilesRequest::Open`].
    Reply 2 => Open, 16 {
        /// The number of the open file, valid on this channel.
        file @ 0: u32 => u32,
        /// Its length, in bytes.
        length_bytes @ 8: u64 => u64,
    };
    /// Reply to [`FilesRequest::Stat`].
    Reply 5 => Stat, 24 {
        /// The metadata.
        info @ 0: FileInfo => FileInfoView<'m>,
    };
    /// Reply to [`FilesRequest::List`].
    Reply 6 => List, 16 {
        /// The number of names in the buffer.
        names @ 0: u64 => u64,
        /// Whether more names follow.
        more @ 8: bool => bool,
    };
    /// Reply to [`FilesRequest::Length`].
    Reply 7 => Length, 8 {
        /// The length, in bytes.
        length_bytes @ 0: u64 => u64,
    };
    /// Reply to a call without results.
    Reply 1 | 3 | 4 | 8 | 9 | 10 => Done;
    /// Reply to a call that was declined.
    Error 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 => Failed, 16 {
        /// `file_fault`.
        file_fault @ 0: FileFault => FileFaultView,
    };
}
