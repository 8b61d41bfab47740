//! Files of one node for programs of others that do not have them.
//!
//! Nothing here is a message of its own: each is the metadata of a transfer of exactly one buffer over a bulk channel, whose
//! pool the client has assigned. A call lends a buffer, its answer brings one back, so a client has as many calls
//! under way as its pool has buffers, and nobody has to wait for room. Data are in the buffers.
//!
//! Written by `tombolo idl compile` from interfaces/files.tbl.

use tombolo_interface as rt;

/// The longest path, in bytes.
pub const MAX_PATH: u64 = 1024;

rt::number! {
    /// What a path names.
    pub enum FileKind: u8;
    /// A file: bytes that have an offset.
    File = 1,
    /// A folder.
    Folder = 2,
}

rt::number! {
    /// How a file is opened; to read it always.
    pub flags OpenMode: u8 in 0xf;
    /// To write as well.
    WRITE = 1,
    /// Made if it is not there; takes `write`.
    CREATE = 2,
    /// Made, and it must not be there; takes `write`.
    CREATE_NEW = 4,
    /// Of length 0 from then on; takes `write`.
    TRUNCATE = 8,
}

rt::owned_record! {
    /// What is known of a file or folder.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct FileInfo => FileInfoView<'m>, inline 24 / 8;
    /// Which of the two.
    kind @ 0: FileKind => FileKind,
    /// Whether it was granted for writing.
    writable @ 1: bool => bool,
    /// Its length, in bytes; of a folder 0.
    length_bytes @ 8: u64 => u64,
    /// When its content last changed, in nanoseconds since 1970.
    modified_ns @ 16: u64 => u64,
}

rt::owned_union! {
    /// Why something about files could not be done. Nothing has changed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FileFault => 'm FileFaultView;
    /// Nothing that was granted holds that path.
    1 => NotGranted,
    /// It was granted for reading only.
    2 => ReadOnly,
    /// It leads out of what was granted, by `..` or a link.
    3 => Outside,
    /// There is nothing there.
    4 => NotFound,
    /// There is something already.
    5 => Exists,
    /// It is a folder.
    6 => IsFolder,
    /// It, or something on the way there, is no folder.
    7 => NotAFolder,
    /// It is neither file nor folder: a pipe, a device, a socket.
    8 => NotAFile,
    /// The user that the files are served as may not do that.
    9 => Denied,
    /// The file system is full, or the user's share of it.
    10 => NoSpace,
    /// That many files are open already.
    11 => TooManyOpen(item: u32 => u32),
    /// There is no open file of that number.
    12 => NotOpen(item: u32 => u32),
    /// The file was opened for reading only.
    13 => OpenedReadOnly,
    /// More bytes than the buffer has, or an offset that no file has.
    14 => OutOfRange,
    /// The mode makes no sense.
    15 => BadMode,
    /// The two sides do not speak the same version.
    16 => Version,
    /// The operating system refused something; its number for that.
    17 => System(item: i32 => i32),
}

/// Of everything that peers of `tombolo.files.Files` can notice.
pub const FILES_FINGERPRINT: u64 = 0x2ab0dbc6c895299e;

rt::owned_messages! {
    /// What a client sends of the interface `Files`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FilesRequest, 'm;
    /// First of all. Passes a buffer; it is passed back, as it is with every other call of which nothing else is said.
    Call 1 => Begin, 8 {
        /// Of this interface, as the caller knows it.
        fingerprint @ 0: u64 => u64,
    };
    /// Opens a file.
    Call 2 => Open, 16 {
        /// As the program was told it, or under a folder that was granted.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
        /// `mode`.
        mode @ 8: OpenMode => OpenMode,
    };
    /// Reads. A buffer is moved back, of which the part that is meant is what was read: less than asked for at the end of
    /// the file, nothing beyond it.
    Call 3 => Read, 24 {
        /// `file`.
        file @ 0: u32 => u32,
        /// From where on.
        offset_bytes @ 8: u64 => u64,
        /// How much, at most: up to a buffer.
        length_bytes @ 16: u64 => u64,
    };
    /// Writes. A buffer is moved there, of which the part that is meant is written.
    Call 4 => Write, 16 {
        /// `file`.
        file @ 0: u32 => u32,
        /// From where on.
        offset_bytes @ 8: u64 => u64,
    };
    /// What there is.
    Call 5 => Stat, 8 {
        /// `path`, up to 1024 bytes.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
    };
    /// What is in a folder. A buffer is moved back, of which the part that is meant is names in the order of their bytes,
    /// those of folders with `/` after them, each followed by a zero byte.
    Call 6 => List, 16 {
        /// Which; if empty, all that was granted, as it was granted.
        path @ 0: rt::Vec<u8> => rt::Blob<'m, 1024>,
        /// How many names to leave away: those that came before.
        from @ 8: u64 => u64,
    };
    /// The length of a file.
    Call 7 => Length, 8 {
        /// `file`.
        file @ 0: u32 => u32,
    };
    /// Cuts a file, or makes it longer by zeros.
    Call 8 => SetLength, 16 {
        /// `file`.
        file @ 0: u32 => u32,
        /// In bytes.
        length_bytes @ 8: u64 => u64,
    };
    /// What was written is on the disk when the answer comes.
    Call 9 => Sync, 8 {
        /// `file`.
        file @ 0: u32 => u32,
    };
    /// Closes a file. Those that are open when the channel ends are closed then.
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
    /// What a server sends of the interface `Files`.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum FilesReply, 'm;
    /// Answers [`FilesRequest::Open`].
    Reply 2 => Open, 16 {
        /// Its number, on this channel.
        file @ 0: u32 => u32,
        /// Its length, in bytes.
        length_bytes @ 8: u64 => u64,
    };
    /// Answers [`FilesRequest::Stat`].
    Reply 5 => Stat, 24 {
        /// What is known of it.
        info @ 0: FileInfo => FileInfoView<'m>,
    };
    /// Answers [`FilesRequest::List`].
    Reply 6 => List, 16 {
        /// How many these are.
        names @ 0: u64 => u64,
        /// There are others.
        more @ 8: bool => bool,
    };
    /// Answers [`FilesRequest::Length`].
    Reply 7 => Length, 8 {
        /// In bytes.
        length_bytes @ 0: u64 => u64,
    };
    /// Answers a call without results: it is done.
    Reply 1 | 3 | 4 | 8 | 9 | 10 => Done;
    /// Answers a call that was declined.
    Error 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 => Failed, 16 {
        /// `file_fault`.
        file_fault @ 0: FileFault => FileFaultView,
    };
}
