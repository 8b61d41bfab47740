//! Valid messages with every type, and mutated messages, as test data for other languages.

use tombolo_base::Random;
use tombolo_interface::{Body, Budget, Header, Kind, Malformed, Outgoing, Record, Source, View};
use tombolo_stubs::everything::{
    Colour, Entry, EverythingNumbersRequest, EverythingNumbersRequestView, EverythingPartsReply,
    EverythingPartsReplyView, EverythingPartsRequest, EverythingPartsRequestView, Hints, Point, Rights,
    Shape, Step,
};
use tombolo_stubs::kv::{KvListReply, KvListReplyView, KvPutRequest, KvPutRequestView};

const HEADER: Header = Header::new(2, Kind::Call, 0x0002_0304);

fn bytes(body: &impl Body) -> Vec<u8> {
    let message = Outgoing::new(HEADER, body).unwrap();
    let mut bytes = vec![0; message.length_bytes()];
    message.write(&mut *bytes);
    bytes
}

/// Returns messages with every type, at and between the limits.
pub(crate) fn samples() -> Vec<(u8, Vec<u8>)> {
    let points = [Point { x: 1.5, y: -2.0, tag: 7 }, Point { x: f32::MIN, y: f32::MAX, tag: 255 }];
    let entry = Entry { name: "sixteen bytes ok", points: &points, colour: Some(Colour::Green) };
    let small = Entry { name: "", points: &[], colour: None };
    let shapes = [Shape::Number(u64::MAX), Shape::Names(&["ä", "", "𝄞"]), Shape::Point(points[0])];
    let entries = [entry, small, entry];
    let parts = |shape, full: bool| EverythingPartsRequest {
        text: if full { "zwölf Boxkämpfer … 日本" } else { "" },
        blob: if full { &[0xff; 32] } else { &[] },
        numbers: if full { &[0, 1, u16::MAX, 4, 5, 6, 7, 8] } else { &[9] },
        fixed: [i32::MIN, -1, i32::MAX],
        flags: if full { &[true, false, true, true, false, true, false, false, true] } else { &[] },
        entry,
        entries: if full { &entries } else { &[] },
        shape,
        shapes: if full { &shapes } else { &[] },
        maybe: full.then_some(3),
        maybe_text: full.then_some("12345678"),
        maybe_point: full.then_some(points[1]),
        maybe_entry: full.then_some(small),
        matrix: [[1, 2], [3, 4], [5, 6]],
        nested: if full { &[&[1, 2], &[], &[u32::MAX]] } else { &[] },
    };
    let numbers = EverythingNumbersRequest {
        a: true,
        b: u8::MAX,
        c: u16::MAX,
        d: u32::MAX,
        e: u64::MAX,
        f: i8::MIN,
        g: i16::MIN,
        h: i32::MIN,
        i: i64::MIN,
        j: -0.0,
        k: f64::MIN_POSITIVE,
        colour: Colour::Red,
        step: Step(77),
        rights: Rights::READ | Rights::GRANT,
        hints: Hints(1 << 63),
        domain: tombolo_interface::Domain(u64::MAX - 1),
    };
    let reply = EverythingPartsReply { entry, shape: Shape::Entry(entry), maybe_shape: Some(Shape::Nothing) };
    let put = KvPutRequest { key: &"k".repeat(64), value: &[7; 2048], expected: Some(0) };
    let keys = ["k"; 64];
    vec![
        (0, bytes(&parts(Shape::Nothing, true))),
        (0, bytes(&parts(Shape::Entry(small), false))),
        (1, bytes(&reply)),
        (2, bytes(&numbers)),
        (3, bytes(&put)),
        (3, bytes(&KvPutRequest { key: "isle", value: &[1, 2, 3, 4, 5, 6, 7, 8, 9], expected: Some(7) })),
        (4, bytes(&KvListReply { keys: &keys })),
        (4, bytes(&KvListReply { keys: &[] })),
    ]
}

/// Decodes all of a message in Rust.
pub(crate) fn check(which: u8, message: &[u8]) -> Result<(), Malformed> {
    fn all<'m, V: View<'m> + From<Record<'m>>>(
        body: Record<'m>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        V::from(body).check(budget)
    }
    let source = Source::Bytes(message);
    let (_, body) = Header::read(source)?;
    let budget = &mut Budget::of(source);
    match which {
        0 => all::<EverythingPartsRequestView<'_>>(body, budget),
        1 => all::<EverythingPartsReplyView<'_>>(body, budget),
        2 => all::<EverythingNumbersRequestView<'_>>(body, budget),
        3 => all::<KvPutRequestView<'_>>(body, budget),
        _ => all::<KvListReplyView<'_>>(body, budget),
    }
}

/// Returns a mutated message, which most likely is invalid.
pub(crate) fn mutated(message: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.index(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at & !7] = (random.below(32) * 8) as u8,
            3 => bytes[at & !3] = random.below(10) as u8,
            4 if bytes.len() > 16 => bytes.truncate(bytes.len() - 1 - random.index(9)),
            _ => {
                let from = random.index(bytes.len()) & !7;
                let word: Vec<u8> = bytes.iter().skip(from).take(8).copied().collect();
                let to = at & !7;
                bytes.iter_mut().skip(to).zip(word).for_each(|(byte, value)| *byte = value);
            }
        }
    }
    bytes
}
