//! Tests of a server's session without a channel: requests that a hostile client may send.

use std::path::PathBuf;
use std::sync::Arc;

use tombolo_interface::Envelope;
use tombolo_interface::owned::request;

use super::grant::{FileGrant, Grants};
use super::local::{Bytes, Content};
use super::session::{BufferState, ProtocolViolation, Session};
use crate::messages::{FILES_FINGERPRINT, FileFault, FileKind, FilesReply, FilesRequest, OpenMode};

/// Folder with one part to read, and one to write.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("tombolo-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("read/below")).unwrap();
        std::fs::create_dir_all(path.join("write")).unwrap();
        std::fs::write(path.join("read/file"), "0123456789").unwrap();
        TestFolder(path)
    }

    fn session(&self, max_open: u32) -> Session {
        let grants = [FileGrant::read_only(self.0.join("read")), FileGrant::read_write(self.0.join("write"))];
        let mut session = Session::new(Arc::new(Grants::new(&grants).unwrap()), max_open);
        let begin = FilesRequest::Begin { fingerprint: FILES_FINGERPRINT };
        assert_eq!(
            session.handle_request(begin, BufferState::Empty, &mut buffer()),
            Ok((FilesReply::Done, false))
        );
        session
    }

    fn path(&self, name: &str) -> Vec<u8> {
        self.0.join(name).into_os_string().into_encoded_bytes()
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn buffer() -> Bytes {
    Bytes::new(128)
}

fn fault(answer: Result<(FilesReply, bool), ProtocolViolation>) -> FileFault {
    match answer {
        Ok((FilesReply::Failed { file_fault }, false)) => file_fault,
        other => panic!("no fault: {other:?}"),
    }
}

fn open(session: &mut Session, path: Vec<u8>, mode: OpenMode) -> Result<u32, FileFault> {
    match session.handle_request(FilesRequest::Open { path, mode }, BufferState::Empty, &mut buffer()) {
        Ok((FilesReply::Open { file, .. }, false)) => Ok(file),
        other => Err(fault(other)),
    }
}

#[test]
fn protocol_violations_end_the_connection() {
    let place = TestFolder::new("order");
    let grants = Arc::new(Grants::new(&[FileGrant::read_only(&place.0)]).unwrap());
    let mut session = Session::new(grants, 1);
    let begin = |fingerprint| FilesRequest::Begin { fingerprint };
    let stat = || FilesRequest::Stat { path: place.path("read") };
    let mut send = |request, buffer_state| session.handle_request(request, buffer_state, &mut buffer());
    assert_eq!(send(stat(), BufferState::Empty), Err(ProtocolViolation), "before it has begun");
    assert_eq!(fault(send(begin(1), BufferState::Empty)), FileFault::Version);
    assert_eq!(send(stat(), BufferState::Empty), Err(ProtocolViolation), "after it was refused");
    assert!(send(begin(FILES_FINGERPRINT), BufferState::Empty).is_ok());
    assert_eq!(send(begin(FILES_FINGERPRINT), BufferState::Empty), Err(ProtocolViolation), "twice");
    assert_eq!(
        send(stat(), BufferState::Filled),
        Err(ProtocolViolation),
        "with a buffer that says something"
    );
    let write = FilesRequest::Write { file: 1, offset_bytes: 0 };
    assert_eq!(send(write, BufferState::Empty), Err(ProtocolViolation), "with one that says nothing");
    assert!(send(stat(), BufferState::Empty).is_ok());
}

#[test]
fn invalid_requests_are_refused_without_effect() {
    let place = TestFolder::new("lies");
    let mut session = place.session(8);
    let file = open(&mut session, place.path("read/file"), OpenMode::default()).unwrap();
    let mut buffer = buffer();
    let mut send = |request, buffer_state| session.handle_request(request, buffer_state, &mut buffer);
    let read = |file, offset_bytes, length_bytes| FilesRequest::Read { file, offset_bytes, length_bytes };
    for (request, expected) in [
        (read(file + 1, 0, 1), FileFault::NotOpen(file + 1)),
        (read(0, 0, 1), FileFault::NotOpen(0)),
        (read(file, 0, 129), FileFault::OutOfRange),
        (read(file, 0, u64::MAX), FileFault::OutOfRange),
        (read(file, u64::MAX, 1), FileFault::OutOfRange),
        (read(file, i64::MAX as u64 + 1, 1), FileFault::OutOfRange),
        (FilesRequest::SetLength { file, length_bytes: 1 }, FileFault::OpenedReadOnly),
        (FilesRequest::Close { file: 77 }, FileFault::NotOpen(77)),
        (FilesRequest::Length { file: 77 }, FileFault::NotOpen(77)),
        (FilesRequest::Sync { file: 77 }, FileFault::NotOpen(77)),
        (FilesRequest::List { path: place.path("read"), from: 3 }, FileFault::OutOfRange),
        (FilesRequest::Stat { path: b"/etc/passwd".to_vec() }, FileFault::NotGranted),
        (FilesRequest::Stat { path: b"a\0b".to_vec() }, FileFault::NotGranted),
    ] {
        assert_eq!(fault(send(request.clone(), BufferState::Empty)), expected, "{request:?}");
    }
    let mut inside = place.path("read/x");
    inside.push(0);
    let refused = send(FilesRequest::Stat { path: inside }, BufferState::Empty);
    assert!(matches!(fault(refused), FileFault::System(_)), "a zero byte in a name");
    let write = FilesRequest::Write { file, offset_bytes: 0 };
    assert_eq!(fault(send(write, BufferState::Filled)), FileFault::OpenedReadOnly);
    // A closed file stays closed, and its number is not reused.
    assert!(send(FilesRequest::Close { file }, BufferState::Empty).is_ok());
    assert_eq!(fault(send(read(file, 0, 1), BufferState::Empty)), FileFault::NotOpen(file));
    assert_ne!(open(&mut session, place.path("read/file"), OpenMode::default()), Ok(file));
    assert_eq!(std::fs::read(place.0.join("read/file")).unwrap(), b"0123456789");
}

#[test]
fn files_are_read_and_written() {
    let place = TestFolder::new("bytes");
    let mut session = place.session(8);
    let create = OpenMode::WRITE | OpenMode::CREATE_NEW;
    let file = open(&mut session, place.path("write/new"), create).unwrap();
    let again = open(&mut session, place.path("write/new"), create);
    assert_eq!(again, Err(FileFault::Exists));
    assert_eq!(open(&mut session, place.path("read/new"), create), Err(FileFault::ReadOnly));
    assert_eq!(open(&mut session, place.path("write/x"), OpenMode::CREATE), Err(FileFault::BadMode));
    let mut buffer = buffer();
    buffer.write(0, b"written").unwrap();
    buffer.set_part(0, 7).unwrap();
    let write = |offset_bytes| FilesRequest::Write { file, offset_bytes };
    assert_eq!(
        session.handle_request(write(3), BufferState::Filled, &mut buffer),
        Ok((FilesReply::Done, false))
    );
    assert_eq!(
        fault(session.handle_request(write(u64::MAX - 3), BufferState::Filled, &mut buffer)),
        FileFault::OutOfRange
    );
    assert_eq!(std::fs::read(place.0.join("write/new")).unwrap(), b"\0\0\0written");
    let mut buffer = self::buffer();
    let read = FilesRequest::Read { file, offset_bytes: 5, length_bytes: 100 };
    assert_eq!(session.handle_request(read, BufferState::Empty, &mut buffer), Ok((FilesReply::Done, true)));
    assert_eq!((buffer.len_bytes(), &buffer.bytes()[..5]), (5, &b"itten"[..]));
    let length = |session: &mut Session| {
        session.handle_request(FilesRequest::Length { file }, BufferState::Empty, &mut self::buffer())
    };
    assert_eq!(length(&mut session), Ok((FilesReply::Length { length_bytes: 10 }, false)));
    let cut = FilesRequest::SetLength { file, length_bytes: 4 };
    assert_eq!(
        session.handle_request(cut, BufferState::Empty, &mut self::buffer()),
        Ok((FilesReply::Done, false))
    );
    assert_eq!(length(&mut session), Ok((FilesReply::Length { length_bytes: 4 }, false)));
    let stat = FilesRequest::Stat { path: place.path("write/new") };
    let Ok((FilesReply::Stat { info }, false)) =
        session.handle_request(stat, BufferState::Empty, &mut self::buffer())
    else {
        panic!("nothing is known of it");
    };
    assert_eq!((info.kind, info.writable, info.length_bytes), (FileKind::File, true, 4));
    assert!(info.modified_ns > 1_600_000_000_000_000_000);
}

#[test]
fn open_files_are_limited() {
    let place = TestFolder::new("limit");
    let mut session = place.session(3);
    let path = place.path("read/file");
    let files: Vec<_> =
        (0..3).map(|_| open(&mut session, path.clone(), OpenMode::default()).unwrap()).collect();
    assert_eq!(open(&mut session, path.clone(), OpenMode::default()), Err(FileFault::TooManyOpen(3)));
    assert!(
        session
            .handle_request(FilesRequest::Close { file: files[1] }, BufferState::Empty, &mut buffer())
            .is_ok()
    );
    assert!(open(&mut session, path.clone(), OpenMode::default()).is_ok());
    assert_eq!(open(&mut session, path, OpenMode::default()), Err(FileFault::TooManyOpen(3)));
}

#[test]
fn long_folder_list_is_paged() {
    let place = TestFolder::new("pages");
    for number in 0..50 {
        std::fs::write(place.0.join(format!("read/below/{number:02}-{}", "x".repeat(20))), "").unwrap();
    }
    let mut session = place.session(1);
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let list = FilesRequest::List { path: place.path("read/below"), from: found.len() as u64 };
        let mut buffer = buffer();
        let Ok((FilesReply::List { names, more }, true)) =
            session.handle_request(list, BufferState::Empty, &mut buffer)
        else {
            panic!("no list");
        };
        let page = buffer.bytes();
        let listed: Vec<_> = page.split_inclusive(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(listed.len() as u64, names);
        found.extend(listed);
        pages += 1;
        // Files created meanwhile are not part of the list.
        std::fs::write(place.0.join("read/below/00"), "").unwrap();
        if !more {
            break;
        }
    }
    assert_eq!((found.len(), pages), (50, 10));
    assert!(found[0].starts_with(b"00-x") && found[49].starts_with(b"49-x"));
    let all = FilesRequest::List { path: Vec::new(), from: 0 };
    let long = session.handle_request(all, BufferState::Empty, &mut buffer());
    assert!(matches!(long, Ok((FilesReply::List { names: 1 | 2, .. }, true))), "{long:?}");
}

#[test]
fn golden_bytes() {
    let read = FilesRequest::Read { file: 7, offset_bytes: 0x0102_0304_0506, length_bytes: 4096 };
    let bytes = Envelope { request: request(0, 9), body: read }.encode(2048).unwrap();
    let expected =
        [3, 0, 1, 0, 9, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 6, 5, 4, 3, 2, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes[bytes.len() - 24..], expected[8..]);
    assert_eq!(Envelope::<FilesRequest>::decode(&bytes).unwrap().number(), 9);
}
