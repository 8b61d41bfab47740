//! The output is read back by an independent reader of protocol buffers.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::merge::merge;
use crate::merge::tests::{ping_pong, recording_of};

/// A field on the wire.
#[derive(Clone, PartialEq, Debug)]
enum Value {
    Number(u64),
    Block(Vec<u8>),
}

impl Value {
    fn number(&self) -> u64 {
        match self {
            Value::Number(number) => *number,
            Value::Block(_) => panic!("a block where a number should be"),
        }
    }

    fn fields(&self) -> BTreeMap<u32, Vec<Value>> {
        match self {
            Value::Block(bytes) => decode(bytes),
            Value::Number(_) => panic!("a number where a message should be"),
        }
    }

    fn text(&self) -> String {
        match self {
            Value::Block(bytes) => String::from_utf8(bytes.clone()).unwrap(),
            Value::Number(_) => panic!("a number where a text should be"),
        }
    }
}

fn varint(input: &mut &[u8]) -> u64 {
    let length = input.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    assert!(length <= 10);
    let (bytes, rest) = input.split_at(length);
    *input = rest;
    bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

fn decode(mut input: &[u8]) -> BTreeMap<u32, Vec<Value>> {
    let mut fields: BTreeMap<u32, Vec<Value>> = BTreeMap::new();
    while !input.is_empty() {
        let tag = varint(&mut input);
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut input)),
            1 => {
                let (bytes, rest) = input.split_first_chunk::<8>().unwrap();
                input = rest;
                Value::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = varint(&mut input) as usize;
                let (bytes, rest) = input.split_at(length);
                input = rest;
                Value::Block(bytes.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.entry((tag >> 3) as u32).or_default().push(value);
    }
    fields
}

fn export(recording: &Recording) -> Vec<BTreeMap<u32, Vec<Value>>> {
    let timeline = merge(recording).unwrap();
    let mut export = Export::new(recording, &timeline);
    let mut bytes = export.tracks();
    while let Some(piece) = export.next_chunk() {
        bytes.extend(piece);
    }
    let trace = decode(&bytes);
    assert_eq!(trace.keys().collect::<Vec<_>>(), [&field::PACKET]);
    trace[&field::PACKET].iter().map(Value::fields).collect()
}

#[test]
fn every_send_has_an_arrow_to_its_receive() {
    let packets = export(&ping_pong(50));
    let (mut out, mut into) = (BTreeMap::new(), BTreeMap::new());
    let mut tracks = BTreeSet::new();
    for packet in &packets {
        if let Some(track) = packet.get(&field::TRACK_DESCRIPTOR) {
            assert!(tracks.insert(track[0].fields()[&field::UUID][0].number()), "a track twice");
            continue;
        }
        let time = packet[&field::TIMESTAMP][0].number();
        let event = packet[&field::TRACK_EVENT][0].fields();
        assert!(tracks.contains(&event[&field::TRACK][0].number()), "an event on no track");
        for (of, flows) in [(field::FLOW, &mut out), (field::FLOW_END, &mut into)] {
            for flow in event.get(&of).into_iter().flatten() {
                assert!(flows.insert(flow.number(), time).is_none(), "a flow twice");
            }
        }
    }
    assert_eq!(out.len(), 100);
    assert_eq!(out.keys().collect::<Vec<_>>(), into.keys().collect::<Vec<_>>());
    assert!(out.iter().all(|(flow, sent)| sent <= &into[flow]));
}

#[test]
fn times_ascend_and_slices_end() {
    let packets = export(&ping_pong(20));
    let mut last = 0;
    let mut open: BTreeMap<u64, i32> = BTreeMap::new();
    let mut depths: BTreeMap<u64, u64> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.contains_key(&field::TRACK_EVENT)) {
        let time = packet[&field::TIMESTAMP][0].number();
        assert!(time >= last);
        last = time;
        let event = packet[&field::TRACK_EVENT][0].fields();
        let track = event[&field::TRACK][0].number();
        match event[&field::TYPE][0].number() {
            1 => *open.entry(track).or_default() += 1,
            2 => {
                *open.entry(track).or_default() -= 1;
                assert!(open[&track] >= 0, "an end without a beginning");
            }
            4 => drop(depths.insert(track, event[&field::COUNTER_VALUE][0].number())),
            _ => assert!(!event[&field::NAME][0].text().is_empty()),
        }
    }
    assert!(!open.is_empty() && open.values().all(|depth| *depth == 0));
    assert_eq!(depths.values().collect::<Vec<_>>(), [&0, &0], "everything was received");
}

#[test]
fn names_are_those_of_the_program() {
    let mut recording = recording_of(&[&[
        (10, EventKind::SpanBegin, false, 1, 0),
        (20, EventKind::Marker, false, 2, 7),
        (25, EventKind::Value, false, 3, 9),
        (30, EventKind::SpanEnd, false, 1, 0),
    ]]);
    recording.domains[0].texts =
        [(1, "sort".to_owned()), (2, "half".to_owned()), (3, "queue".to_owned())].into_iter().collect();
    let packets = export(&recording);
    let events: Vec<_> = packets.iter().filter_map(|packet| packet.get(&field::TRACK_EVENT)).collect();
    let name = |index: usize| events[index][0].fields()[&field::NAME][0].text();
    assert_eq!((name(0), name(1)), ("sort".to_owned(), "half".to_owned()));
    assert_eq!(events[2][0].fields()[&field::COUNTER_VALUE][0].number(), 9);
    let titles: Vec<String> = packets
        .iter()
        .filter_map(|packet| {
            packet.get(&field::TRACK_DESCRIPTOR)?[0].fields().get(&field::TRACK_NAME).cloned()
        })
        .map(|name| name[0].text())
        .collect();
    assert_eq!(titles, ["queue"]);
}
