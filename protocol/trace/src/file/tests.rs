//! Files: golden bytes, and every way in which one can be damaged.

use proptest::prelude::*;

use super::*;
use crate::event::{Event, EventKind};
use crate::page::{Identity, RowState};
use crate::snapshot::{Losses, RowInfo};

fn chunks() -> Vec<Chunk> {
    let identity = Identity {
        domain: 0x1_0000_0001,
        pid: 42,
        isa: 1,
        ticks_per_s: 0,
        clock: 5,
        ticks: 6,
        monotonic_ns: 7,
    };
    let event = Event {
        ticks: 9,
        kind: EventKind::Send,
        accepting: false,
        thread: 1,
        size: 64,
        subject: 3,
        value: 1,
    };
    let row = RowInfo {
        channel: 3,
        state: RowState::Open,
        accepting: false,
        transport: 0,
        peer: 0x1_0000_0002,
        opened_ns: 8,
        messages_sent: 1,
        bytes_sent: 64,
        messages_received: 0,
        bytes_received: 0,
        rings: 0,
        sleeps: 0,
        max_message_bytes: 3584,
        stalls: 0,
        slots: 0,
        free_slots: 0,
    };
    let node = NodeHead { id: 0, name: "host".into(), kind: "host".into(), isa: "x86_64".into() };
    vec![
        Chunk::Machine { name: "duo".into(), nodes: vec![node] },
        Chunk::Domain(DomainHead { identity, node: "host".into(), program: "ping".into() }),
        Chunk::Texts { domain: 0, texts: vec![(1, "sort".into())] },
        Chunk::Events { domain: 0, lane: 2, missed: 4, events: vec![event, Event { value: 2, ..event }] },
        Chunk::Events { domain: 0, lane: 2, missed: 1, events: vec![Event { value: 4, ..event }] },
        Chunk::Rows { domain: 0, rows: vec![row] },
        Chunk::FinalState {
            domain: 0,
            final_state: FinalState {
                alive: true,
                losses: Losses { events_without_lane: 1, channels_without_row: 2, texts: 3 },
            },
        },
        Chunk::End { chunks: 7 },
    ]
}

fn file(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = header(1_700_000_000_000_000_000).to_vec();
    chunks.iter().for_each(|chunk| bytes.extend(chunk.to_bytes()));
    bytes
}

#[test]
fn written_chunks_are_read_back() {
    let recording = read(&file(&chunks())).unwrap();
    assert_eq!((recording.created_ns, recording.machine.as_str()), (1_700_000_000_000_000_000, "duo"));
    assert_eq!(recording.nodes[0].name, "host");
    let [domain] = &recording.domains[..] else { panic!() };
    assert_eq!((domain.head.program.as_str(), domain.texts[&1].as_str()), ("ping", "sort"));
    assert_eq!((domain.lanes[&2].events.len(), domain.lanes[&2].missed), (3, 5));
    assert_eq!(domain.rows[0].max_message_bytes, 3584);
    assert!(domain.final_state.alive);
    assert_eq!((recording.event_count(), recording.missed_count()), (3, 6));
}

#[test]
fn bytes_are_golden() {
    let golden_header = "544254524143450a 01000000 00000000 00002a36fe9c9717".replace(' ', "");
    assert_eq!(hex(&header(1_700_000_000_000_000_000)[..24]), golden_header);
    let end = Chunk::End { chunks: 7 }.to_bytes();
    assert_eq!(hex(&end[..16]), "07000000000000000800000000000000");
    assert_eq!(hex(&end[24..]), "0700000000000000");
    let [.., event, _, _, final_state, _] = &chunks()[..] else { panic!() };
    let event = event.to_bytes();
    assert_eq!(hex(&event[..16]), "04000000000000005000000000000000");
    assert_eq!(
        hex(&event[24..24 + 48]),
        "00000000020000000400000000000000\
         09000000000000000200010040000000\
         03000000000000000100000000000000"
            .replace(char::is_whitespace, "")
    );
    assert_eq!(
        hex(&final_state.to_bytes()[24..]),
        "0000000001000000010000000000000002000000000000000300000000000000"
    );
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn truncation_at_any_byte_is_reported_with_its_position() {
    let whole = file(&chunks());
    let mut starts = vec![0, HEADER_BYTES];
    for chunk in chunks() {
        starts.push(starts[starts.len() - 1] + chunk.to_bytes().len());
    }
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        let start = starts.iter().rev().find(|start| **start <= length).unwrap();
        assert_eq!(error.offset, *start as u64, "{length}: {error}");
        let expected = match length {
            _ if length < HEADER_BYTES => matches!(error.problem, Problem::Truncated { .. }),
            _ if length == *start => error.problem == Problem::MissingEnd,
            _ => matches!(
                error.problem,
                Problem::Truncated { available_bytes, .. } if available_bytes == (length - start) as u64
            ),
        };
        assert!(expected, "{length}: {error}");
        // Earlier chunks are still read.
        let (recording, _) = salvage(&whole[..length]);
        assert_eq!(recording.domains.len(), usize::from(length >= starts[3]));
    }
}

#[test]
fn any_corrupted_byte_is_detected() {
    let whole = file(&chunks());
    for index in 0..whole.len() {
        for change in [1, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[index] ^= change;
            let error = read(&damaged).unwrap_err();
            assert!(error.offset <= index as u64, "{index}: {error}");
        }
    }
}

#[test]
fn errors_name_the_offset() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(error(b"#!/bin/sh\n"), "at byte 0: not a trace file: it does not start with TBTRACE");
    let whole = file(&chunks());
    assert_eq!(error(&whole[..40]), "at byte 32: the file is cut short: 24 more bytes are needed, 8 follow");
    let mut followed = whole.clone();
    followed.extend([0; 8]);
    assert_eq!(
        error(&followed),
        format!("at byte {}: the file is corrupt: bytes follow its last chunk", whole.len())
    );
    let mut newer = header(0);
    newer[8] = 2;
    let sum = tombolo_base::hash::fnv1a(&newer[..24]);
    newer[24..].copy_from_slice(&sum.to_le_bytes());
    assert!(error(&newer).contains("format version 2"));
}

#[test]
fn invalid_chunks_with_valid_checksum_are_refused() {
    let [machine, domain, texts, events, .., end] = &chunks()[..] else { panic!() };
    let refuse = |chunks: &[&Chunk], why: &str| {
        let chunks: Vec<Chunk> = chunks.iter().map(|chunk| (*chunk).clone()).collect();
        let error = read(&file(&chunks)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    refuse(&[domain], "first");
    refuse(&[machine, machine], "first");
    refuse(&[machine, texts], "domain number 0");
    refuse(&[machine, domain, events, end], "3 chunks instead of 7");
    let far = Chunk::Events { domain: 0, lane: 24, missed: 0, events: Vec::new() };
    refuse(&[machine, domain, &far], "lane 24");
    let error = Chunk::decode(99, &[]).unwrap_err();
    assert_eq!(error, "a chunk of the unknown kind 99");
    // An event of an undefined kind.
    let mut content = vec![0; 16];
    content.extend([0xee; 32]);
    assert_eq!(Chunk::decode(4, &content).unwrap_err(), "invalid event of kind 238 with flags 0xee");
    // A list that states a length beyond memory.
    let mut content = vec![0; 8];
    content.extend(u64::MAX.to_le_bytes());
    assert_eq!(Chunk::decode(3, &content).unwrap_err(), "a list that is longer than its chunk");
}

#[test]
fn chunk_length_is_limited() {
    let mut bytes = file(&chunks()[..1]);
    let start = bytes.len();
    bytes.extend([4, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend((MAX_CHUNK_BYTES as u64 + 1).to_le_bytes());
    bytes.extend([0; 8]);
    let error = read(&bytes).unwrap_err();
    assert_eq!(
        error,
        FileError { offset: start as u64, problem: Problem::Length(MAX_CHUNK_BYTES as u64 + 1) }
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..9_u32) {
        let _ = read(&bytes);
        let _ = Chunk::decode(kind, &bytes);
        let mut wrapped = header(1).to_vec();
        wrapped.extend(&bytes);
        let _ = salvage(&wrapped);
    }
}
