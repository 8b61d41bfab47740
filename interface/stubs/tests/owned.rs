//! Owned types: they encode and decode the same bytes as stubs.

use proptest::prelude::*;
use tombolo_interface::owned::request;
use tombolo_interface::{Envelope, Header, Kind, Malformed, Outgoing, Unsendable};
use tombolo_stubs::everything;
use tombolo_stubs::everything::{Colour as SentColour, EverythingPartsRequest};
use tombolo_stubs::everything_owned::{
    Colour, Entry, EverythingReply, EverythingRequest, Failure, Point, Shape,
};

const MAX_BYTES: usize = 1 << 16;

fn entry() -> Entry {
    let points = vec![Point { x: 1.0, y: -2.0, tag: 9 }];
    Entry { name: "entry".into(), points, colour: Some(Colour::Green) }
}

fn parts() -> EverythingRequest {
    EverythingRequest::Parts {
        text: "text".into(),
        blob: vec![1, 2, 3],
        numbers: vec![4, 5],
        fixed: [6, -7, 8],
        flags: vec![true, false],
        entry: entry(),
        entries: vec![entry(), entry()],
        shape: Shape::Entry(entry()),
        shapes: vec![Shape::Nothing, Shape::Number(9), Shape::Names(vec!["a".into(), "bc".into()])],
        maybe: Some(10),
        maybe_text: Some("maybe".into()),
        maybe_point: None,
        maybe_entry: Some(entry()),
        matrix: [[1, 2], [3, 4], [5, 6]],
        nested: vec![vec![1], vec![], vec![2, 3]],
    }
}

/// Returns the same message as a stub encodes it.
fn sent() -> Vec<u8> {
    let points = [everything::Point { x: 1.0, y: -2.0, tag: 9 }];
    let entry = everything::Entry { name: "entry", points: &points, colour: Some(SentColour::Green) };
    let body = EverythingPartsRequest {
        text: "text",
        blob: &[1, 2, 3],
        numbers: &[4, 5],
        fixed: [6, -7, 8],
        flags: &[true, false],
        entry,
        entries: &[entry, entry],
        shape: everything::Shape::Entry(entry),
        shapes: &[
            everything::Shape::Nothing,
            everything::Shape::Number(9),
            everything::Shape::Names(&["a", "bc"]),
        ],
        maybe: Some(10),
        maybe_text: Some("maybe"),
        maybe_point: None,
        maybe_entry: Some(entry),
        matrix: [[1, 2], [3, 4], [5, 6]],
        nested: &[&[1], &[], &[2, 3]],
    };
    let message = Outgoing::new(Header::new(2, Kind::Call, 5), &body).unwrap();
    let mut bytes = vec![0; message.length_bytes()];
    message.write(&mut *bytes);
    bytes
}

#[test]
fn owned_types_encode_like_stubs() {
    let message = Envelope { request: request(2, 5), body: parts() };
    assert_eq!(message.encode(MAX_BYTES), Ok(sent()));
    assert_eq!(Envelope::decode(&sent()), Ok(message));
}

#[test]
fn replies_identify_their_call() {
    let failed = EverythingReply::Failed { failure: Failure::Because("so".into()) };
    let answers = [
        (request(2, 7), failed.clone()),
        (request(3, 8), EverythingReply::Done),
        (0, EverythingReply::Drawn { shape: Shape::Point(Point { x: 0.5, y: 0.25, tag: 1 }) }),
    ];
    for (request, body) in answers {
        let message = Envelope { request, body };
        assert_eq!(Envelope::decode(&message.encode(MAX_BYTES).unwrap()), Ok(message));
    }
    // Only `parts` declares an error.
    let message = Envelope { request: request(3, 8), body: failed };
    assert_eq!(message.encode(MAX_BYTES), Err(Unsendable::Answer { ordinal: 3 }));
}

#[test]
fn limits_are_named() {
    let with_text = |bytes: usize| {
        let mut body = parts();
        if let EverythingRequest::Parts { text, .. } = &mut body {
            *text = "x".repeat(bytes);
        }
        Envelope { request: 1, body }.encode(MAX_BYTES)
    };
    assert!(with_text(31).is_ok() && with_text(32).is_ok());
    let error = with_text(33).unwrap_err();
    assert_eq!(error.to_string(), "`Parts.text` has 33 elements or bytes; the interface allows 32");
    let length_bytes = sent().len();
    let message = Envelope { request: 1, body: parts() };
    assert!(message.encode(length_bytes).is_ok());
    let max_bytes = length_bytes - 1;
    assert_eq!(message.encode(max_bytes), Err(Unsendable::TooLong { length_bytes, max_bytes }));
}

#[test]
fn unknown_cases_are_refused() {
    let drawn = Envelope { request: 0, body: EverythingReply::Drawn { shape: Shape::Nothing } };
    let mut bytes = drawn.encode(MAX_BYTES).unwrap();
    bytes[8] = 77;
    let error = Envelope::<EverythingReply>::decode(&bytes);
    assert_eq!(error, Err(Malformed::Meaning { what: "Shape" }));
}

proptest! {
    #[test]
    fn decoded_messages_round_trip(index in any::<usize>(), value in any::<u8>()) {
        let mut bytes = sent();
        let index = index % bytes.len();
        bytes[index] = value;
        // Floats may have become NaN, which is not equal to itself, so bytes are compared.
        if let Ok(message) = Envelope::<EverythingRequest>::decode(&bytes) {
            let again = message.encode(MAX_BYTES).unwrap();
            let read = Envelope::<EverythingRequest>::decode(&again).unwrap();
            prop_assert_eq!(read.encode(MAX_BYTES).unwrap(), again);
        }
    }
}
