//! Interface files, and messages received by stubs.

use tombolo_interface::local::pair;
use tombolo_interface::{Budget, Header, Kind, Outgoing, Source, View};
use tombolo_stubs::everything::{
    Colour, Entry, EverythingPartsReply, EverythingPartsReplyView, EverythingPartsRequestView, Point, Shape,
};
use tombolo_stubs::kv::{KvClient, KvGetRequest};

const KV: &str = include_str!("../../../../interfaces/kv.tbl");
const EVERYTHING: &str = include_str!("../../../../interfaces/everything.tbl");

/// Checks that formatting keeps the meaning of a valid interface file, and that it is idempotent.
pub(super) fn file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(formatted) = tombolo_idl::format(text) else {
        assert!(tombolo_idl::compile(text).is_err(), "compiled, but not formatted");
        return;
    };
    assert_eq!(tombolo_idl::format(&formatted).as_ref(), Ok(&formatted));
    assert_eq!(tombolo_idl::compile(text).ok(), tombolo_idl::compile(&formatted).ok());
}

pub(super) fn file_seeds() -> Vec<Vec<u8>> {
    [KV, EVERYTHING].map(|text| text.as_bytes().to_vec()).into()
}

/// Reads all parts of a message with views, and delivers it to a client as a reply.
pub(super) fn message(input: &[u8]) {
    let source = Source::Bytes(input);
    if let Ok((_, body)) = Header::read(source) {
        let _ = EverythingPartsRequestView::from(body).check(&mut Budget::of(source));
        let _ = EverythingPartsReplyView::from(body).check(&mut Budget::of(source));
    }
    let (client, mut server) = pair(4, 4096);
    let Ok(mut client) = KvClient::bind(client, ()) else { return };
    let call = client.start(&KvGetRequest { key: "k" }).expect("room for a call");
    server.send_bytes(input);
    if let Ok(value) = client.wait(call).map(|reply| reply.value()) {
        assert!(value.map_or(0, |value| value.to_vec().len()) <= 2048);
    }
}

pub(super) fn message_seeds() -> Vec<Vec<u8>> {
    let points = [Point { x: 1.0, y: 2.0, tag: 3 }; 2];
    let entry = Entry { name: "name", points: &points, colour: Some(Colour::Red) };
    let shapes = [
        Shape::Nothing,
        Shape::Number(7),
        Shape::Point(points[0]),
        Shape::Entry(entry),
        Shape::Names(&["a", "b"]),
    ];
    let seed = |shape| {
        let reply = EverythingPartsReply { entry, shape, maybe_shape: Some(shape) };
        // 0x100 is the number of a client's first call.
        let header = Header::new(1, Kind::Reply, 0x100);
        let message = Outgoing::new(header, &reply).expect("within the limits");
        let mut bytes = vec![0; message.length_bytes()];
        message.write(&mut *bytes);
        bytes
    };
    shapes.into_iter().map(seed).collect()
}
