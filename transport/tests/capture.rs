//! Captures: the bytes match the specification and are read back, damage is reported, and replays repeat the
//! recording.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tombolo_link::{ChannelConfig, Hello, Side, TransportKind};
use tombolo_platform::socket::{SocketKind, pair};
use tombolo_platform::time::Deadline;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::wrap::capture::{
    Capture, CaptureError, CaptureHeader, CutPosition, Defect, Event, HEADER_BYTES, Pace, Reader, Record,
    Replay, Writer,
};
use tombolo_transport::{ChannelError, EndError, StreamChannel, Transport, TransportExt};

const MAX_WAIT: Duration = Duration::from_secs(30);

fn header() -> CaptureHeader {
    CaptureHeader {
        transport: TransportKind::Window,
        side: Some(Side::B),
        channel: 0x0102_0304_0506_0708,
        own: 0x0002_0001_0000_0003,
        peer: 0x0000_0001_0000_0009,
        max_message_bytes: 3_584,
        began_unix_ns: 1_790_000_000_123_456_789,
    }
}

fn events() -> Vec<(u64, Event)> {
    vec![
        (10, Event::Sent(b"question".to_vec())),
        (1_500, Event::Received(b"answer".to_vec())),
        (1_501, Event::Received(Vec::new())),
        (2_000_000_000, Event::ClosedByPeer),
    ]
}

fn encode(events: &[(u64, Event)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), header()).unwrap();
    events.iter().for_each(|(time_ns, event)| writer.event(*time_ns, event).unwrap());
    writer.finish(2_000_000_001).unwrap()
}

fn decode(bytes: &[u8]) -> Result<Vec<Record>, CaptureError> {
    Reader::new(bytes)?.collect()
}

/// Returns the bytes shown in `docs/specs/capture.md`.
fn specified_bytes() -> Vec<u8> {
    let specification = include_str!("../../docs/specs/capture.md");
    let dump = specification.split("```").nth(1).unwrap();
    let hex = |line: &str| -> Vec<u8> {
        line.split_whitespace().skip(1).map_while(|word| u8::from_str_radix(word, 16).ok()).collect()
    };
    dump.lines().flat_map(hex).collect()
}

#[test]
fn a_capture_matches_the_specification() {
    assert_eq!(encode(&events()), specified_bytes());
}

#[test]
fn what_is_written_is_read() {
    let mut all = events();
    all.push((3, Event::Failed("the peer broke the protocol: a frame of 4 GiB".into())));
    all.push((4, Event::PeerDied));
    all.push((5, Event::ClosedHere));
    let bytes = encode(&all);
    assert_eq!(Reader::new(&bytes[..]).unwrap().header(), header());
    let records = decode(&bytes).unwrap();
    all.push((2_000_000_001, Event::End { sent: 1, received: 2 }));
    assert_eq!(records.iter().map(|record| (record.time_ns, record.event.clone())).collect::<Vec<_>>(), all);
    assert_eq!(records[0].offset_bytes, HEADER_BYTES as u64);
    assert_eq!(records[1].offset_bytes, HEADER_BYTES as u64 + 16 + 8 + 4);
}

#[test]
fn truncation_at_any_byte_is_located() {
    let bytes = encode(&events());
    let offsets: Vec<u64> = decode(&bytes).unwrap().iter().map(|record| record.offset_bytes).collect();
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).unwrap_err();
        if length < HEADER_BYTES {
            assert!(
                matches!(error, CaptureError::CutShort { offset_bytes: 0, cut: CutPosition::Header }),
                "{length}: {error}"
            );
        } else {
            let begun = *offsets.iter().rfind(|offset| **offset <= length as u64).unwrap();
            let expected = if begun == length as u64 { CutPosition::End } else { CutPosition::Record };
            let CaptureError::CutShort { offset_bytes, cut } = error else { panic!("{length}: {error}") };
            assert_eq!((offset_bytes, cut), (begun, expected), "cut after {length} bytes");
        }
    }
}

/// Records before the cut are delivered too.
#[test]
fn records_before_a_cut_are_read() {
    let bytes = encode(&events());
    let mut reader = Reader::new(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(reader.by_ref().take_while(Result::is_ok).count(), 4);
    assert!(reader.next().is_none());
}

#[test]
fn any_bit_that_changes_is_noticed() {
    let bytes = encode(&events());
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << bit;
            let error = decode(&damaged).unwrap_err();
            match error {
                CaptureError::NotACapture { .. } => assert!(index < 8),
                CaptureError::Version { .. } => assert!((8..12).contains(&index)),
                CaptureError::Corrupt { offset_bytes, .. } | CaptureError::CutShort { offset_bytes, .. } => {
                    assert!(offset_bytes <= index as u64, "byte {index}: {error}");
                }
                CaptureError::Io { .. } => panic!("{error}"),
            }
        }
    }
}

/// The checksum continues from record to record.
#[test]
fn a_record_that_is_missing_moved_or_repeated_is_noticed() {
    let all = events();
    let bytes = encode(&all);
    let offsets: Vec<usize> =
        decode(&bytes).unwrap().iter().map(|record| record.offset_bytes as usize).collect();
    let part = |index: usize| &bytes[offsets[index]..offsets.get(index + 1).copied().unwrap_or(bytes.len())];
    let head = &bytes[..HEADER_BYTES];
    for order in [&[1_usize, 2, 3, 4][..], &[0, 2, 1, 3, 4], &[0, 1, 1, 2, 3, 4], &[0, 1, 2, 4]] {
        let records: Vec<&[u8]> = order.iter().map(|index| part(*index)).collect();
        let error = decode(&[head, &records.concat()].concat()).unwrap_err();
        assert!(
            matches!(error, CaptureError::Corrupt { defect: Defect::Checksum, .. }),
            "{order:?}: {error}"
        );
    }
}

#[test]
fn other_files_are_recognised() {
    let says = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(
        says(b"#!/bin/sh\necho a file\n"),
        "not a capture: it begins with \"#!/bin/s\" instead of \"TMBLCAPT\""
    );
    assert_eq!(says(b""), "the capture is cut short in its header, at byte 0");
    let mut later = encode(&[]);
    later[8] = 2;
    assert_eq!(says(&later), "the capture has format version 2; this program reads version 1");
    let bytes = encode(&events());
    assert_eq!(
        says(&bytes[..100]),
        format!("the capture is cut short in a record, at byte {}", HEADER_BYTES + 28)
    );
    assert_eq!(
        says(&[&bytes[..], b"x"].concat()),
        format!("the capture is corrupt at byte {}: bytes follow the final record", bytes.len())
    );
}

/// A length of almost 4 GiB costs an error, not memory.
#[test]
fn a_false_length_is_refused() {
    let mut bytes = encode(&events());
    bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = decode(&bytes).unwrap_err();
    assert!(matches!(error, CaptureError::Corrupt { offset_bytes: 64, defect: Defect::Length }), "{error}");
    bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(1_u32 << 25).to_le_bytes());
    let error = decode(&bytes).unwrap_err();
    assert!(
        matches!(error, CaptureError::CutShort { offset_bytes: 64, cut: CutPosition::Record }),
        "{error}"
    );
}

fn open(socket: OwnedFd) -> StreamChannel {
    StreamChannel::open(socket, Hello::new(ChannelConfig::default(), 0, None), Deadline::after(MAX_WAIT))
        .unwrap()
}

fn channel() -> (StreamChannel, StreamChannel) {
    let (a, b) = pair(SocketKind::Stream).unwrap();
    std::thread::scope(|scope| {
        let a = scope.spawn(|| open(a));
        let b = open(b);
        (a.join().unwrap(), b)
    })
}

/// Doubles every received number, until the channel ends.
fn double<T: Transport>(channel: &mut T) -> ChannelError {
    let (mut spin, mut buffer) = (Spin::new(0), Vec::new());
    loop {
        match wait::recv_into(channel, &mut spin, &mut buffer, MAX_WAIT) {
            Ok(_) => {
                buffer.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(2));
                if let Err(error) = wait::send(channel, &mut spin, &buffer, MAX_WAIT) {
                    return error;
                }
            }
            Err(error) => return error,
        }
    }
}

/// Returns a capture of [`double`], and how it ended.
fn capture_doubling() -> (Vec<u8>, ChannelError) {
    let (mut requester, responder) = channel();
    std::thread::scope(|scope| {
        let doubles = scope.spawn(move || {
            let mut capture = Capture::new(responder, Vec::new(), header()).unwrap();
            let end = double(&mut capture);
            (capture.finish().unwrap().unwrap(), end)
        });
        for number in 1..20 {
            wait::send(&mut requester, &mut Spin::new(0), &[number], MAX_WAIT).unwrap();
            let mut buffer = Vec::new();
            wait::recv_into(&mut requester, &mut Spin::new(0), &mut buffer, MAX_WAIT).unwrap();
            assert_eq!(buffer, [2 * number]);
        }
        drop(requester);
        doubles.join().unwrap()
    })
}

#[test]
fn identical_program_replays_identically() {
    let (bytes, end) = capture_doubling();
    assert_eq!(end, ChannelError::Closed);
    for pace in [Pace::AtOnce, Pace::AsRecorded] {
        let mut replay = Replay::new(&bytes[..], pace).unwrap();
        // The transport kind is taken from the wrapped channel, regardless of the caller.
        assert_eq!((replay.describe().kind, replay.header().side), (TransportKind::Socket, Some(Side::B)));
        assert_eq!(replay.max_message_bytes(), 3_584);
        assert_eq!(replay.remaining(), 38);
        assert_eq!(double(&mut replay), ChannelError::Closed);
        assert_eq!(replay.remaining(), 0);
        let stats = replay.stats();
        assert_eq!((stats.messages_sent, stats.messages_received), (19, 19));
    }
}

#[test]
fn divergence_from_a_capture_is_located() {
    let (bytes, _) = capture_doubling();
    let mut replay = Replay::new(&bytes[..], Pace::AtOnce).unwrap();
    assert_eq!(replay.try_recv_into(&mut Vec::new()), Ok(Some(1)));
    // It arrives only after this end has sent what it sent in the recording.
    assert_eq!(replay.try_recv_into(&mut Vec::new()), Ok(None));
    assert_eq!(replay.try_send(b"\x03"), Err(EndError::Broken));
    assert_eq!(
        replay.failure().unwrap().to_string(),
        "the program diverged from the replayed capture: the capture has 1 bytes \"\\x02\" at byte 85, the program \
         sends 1 bytes \"\\x03\""
    );
    assert_eq!(replay.try_recv_into(&mut Vec::new()), Err(EndError::Broken));
    assert_eq!(replay.try_send(b"\x02"), Err(EndError::Broken));
}

/// Sink that accepts this many bytes and no more.
struct LimitedSink(usize);

impl Write for LimitedSink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| std::io::Error::other("full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn capture_write_failure_spares_the_channel() {
    let (a, mut b) = channel();
    let mut a = Capture::new(a, LimitedSink(150), header()).unwrap();
    for number in 0..10 {
        a.try_send(&[number; 20]).unwrap();
        let mut buffer = Vec::new();
        wait::recv_into(&mut b, &mut Spin::new(0), &mut buffer, MAX_WAIT).unwrap();
        assert_eq!(buffer, [number; 20]);
    }
    // The header, two records of forty bytes, and eight that did not fit.
    assert_eq!((a.missed(), a.write_error().unwrap().to_string()), (8, "full".to_owned()));
    assert_eq!(a.finish().map(|_| ()).unwrap_err().to_string(), "full");
    assert_eq!(Capture::new(b, LimitedSink(63), header()).map(|_| ()).unwrap_err().to_string(), "full");
}

#[test]
fn a_file_is_never_overwritten_and_ends_with_the_channel() {
    let folder = std::env::temp_dir().join(format!("tombolo-capture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("one.capture");
    let (a, b) = channel();
    let mut a = Capture::to_file(a, &path, header()).unwrap();
    a.try_send(b"one").unwrap();
    let again = Capture::to_file(b, &path, header()).map(|_| ()).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    drop(a);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let events: Vec<Event> = decode(&bytes).unwrap().into_iter().map(|record| record.event).collect();
    let end = Event::End { sent: 1, received: 0 };
    assert_eq!(events, [Event::Sent(b"one".to_vec()), Event::ClosedHere, end]);
}
