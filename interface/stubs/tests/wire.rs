//! Wire format: golden bytes, round trips, and messages from hostile peers.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tombolo_interface::{Body, Budget, Domain, Header, Kind, Malformed, Outgoing, OverLimit, Source, View};
use tombolo_stubs::everything::*;
use tombolo_stubs::kv::{KvListReply, KvPutRequest, KvPutRequestView};

const HEADER: Header = Header::new(2, Kind::Call, 0x0102_0304 & 0x00ff_ffff);

fn bytes(body: &impl Body) -> Result<Vec<u8>, OverLimit> {
    let message = Outgoing::new(HEADER, body)?;
    // Filled with 0xee, so that bytes that are not written are detected.
    let mut bytes = vec![0xee; message.length_bytes()];
    message.write(&mut *bytes);
    Ok(bytes)
}

fn hex(bytes: &[u8]) -> Vec<String> {
    bytes.chunks(8).map(|word| word.iter().map(|byte| format!("{byte:02x}")).collect()).collect()
}

/// The example of docs/specs/interface.md.
#[test]
fn golden_bytes_of_a_call() {
    let request = KvPutRequest { key: "isle", value: &[1, 2, 3, 4, 5, 6, 7, 8, 9], expected: Some(7) };
    assert_eq!(
        hex(&bytes(&request).unwrap()),
        [
            "0200040002040302", // ordinal 2, four words, a call, number 0x020304
            "2800000004000000", // key: 4 bytes at 40
            "3000000009000000", // value: 9 bytes at 48
            "0100000000000000", // expected: there
            "0700000000000000",
            "69736c6500000000", // isle
            "0102030405060708",
            "0900000000000000",
        ]
    );
}

#[test]
fn golden_bytes_of_every_shape() {
    let point = Point { x: 1.0, y: -2.0, tag: 9 };
    let entry = Entry { name: "a", points: &[point], colour: Some(Colour::Green) };
    let reply =
        EverythingPartsReply { entry, shape: Shape::Names(&["b", ""]), maybe_shape: Some(Shape::Nothing) };
    assert_eq!(
        hex(&bytes(&reply).unwrap()),
        [
            "0200060002040302", // six words
            "3800000018000000", // entry: 24 bytes at 56
            "0500000008000000", // shape: case 5, 8 bytes
            "6800000000000000", // at 104
            "0100000000000000", // maybe_shape: there
            "0100000000000000", // case 1, nothing
            "0000000000000000",
            "5000000001000000", // entry.name: 1 byte at 80
            "5800000001000000", // entry.points: 1 at 88
            "0102000000000000", // entry.colour: there, 2
            "6100000000000000", // a
            "0000803f000000c0", // 1.0, -2.0
            "0900000000000000", // 9
            "7000000002000000", // names: 2 at 112
            "8000000001000000", // b, at 128
            "0000000000000000", // empty
            "6200000000000000",
        ]
    );
}

/// Decodes a `parts` request completely, within the budget of its size.
fn check_parts(bytes: &[u8]) -> Result<(), Malformed> {
    let source = Source::Bytes(bytes);
    let (_, body) = Header::read(source)?;
    let view = EverythingPartsRequestView::from(body);
    body.spend(&mut Budget::of(source))?;
    view.check(&mut Budget::of(source))
}

/// Owned values that requests borrow from.
#[derive(Clone, Debug)]
struct Owned {
    text: String,
    blob: Vec<u8>,
    numbers: Vec<u16>,
    fixed: [i32; 3],
    flags: Vec<bool>,
    names: Vec<String>,
    points: Vec<(f32, f32, u8)>,
    colour: Option<Colour>,
    case: u8,
    number: Option<u64>,
    matrix: [[u8; 2]; 3],
    nested: Vec<Vec<u32>>,
}

fn owned() -> impl Strategy<Value = Owned> {
    let colour = prop::option::of(prop::sample::select(&[Colour::None, Colour::Red, Colour::Green][..]));
    let first =
        ("\\PC{0,8}", prop::collection::vec(any::<u8>(), 0..=32), prop::collection::vec(any::<u16>(), 0..=8));
    let second = (
        any::<[i32; 3]>(),
        prop::collection::vec(any::<bool>(), 0..=9),
        prop::collection::vec("\\PC{0,2}", 0..=3),
    );
    let third = (prop::collection::vec((-9f32..9.0, -9f32..9.0, any::<u8>()), 0..=4), colour, 0u8..5);
    let nested = prop::collection::vec(prop::collection::vec(any::<u32>(), 0..=2), 0..=3);
    let fourth = (any::<Option<u64>>(), any::<[[u8; 2]; 3]>(), nested);
    (first, second, third, fourth).prop_map(|(first, second, third, fourth)| Owned {
        text: first.0,
        blob: first.1,
        numbers: first.2,
        fixed: second.0,
        flags: second.1,
        names: second.2,
        points: third.0,
        colour: third.1,
        case: third.2,
        number: fourth.0,
        matrix: fourth.1,
        nested: fourth.2,
    })
}

/// Calls `with` with a request made of `owned`.
fn request<R>(owned: &Owned, with: impl FnOnce(&EverythingPartsRequest<'_>) -> R) -> R {
    let points: Vec<Point> = owned.points.iter().map(|&(x, y, tag)| Point { x, y, tag }).collect();
    let names: Vec<&str> = owned.names.iter().map(String::as_str).collect();
    let nested: Vec<&[u32]> = owned.nested.iter().map(Vec::as_slice).collect();
    let entry = Entry { name: &owned.text[..0], points: &points, colour: owned.colour };
    let shape = match owned.case {
        0 => Shape::Nothing,
        1 => Shape::Number(owned.number.unwrap_or(3)),
        2 => Shape::Point(Point { x: 1.0, y: 2.0, tag: 3 }),
        3 => Shape::Entry(entry),
        _ => Shape::Names(&names),
    };
    with(&EverythingPartsRequest {
        text: &owned.text,
        blob: &owned.blob,
        numbers: &owned.numbers,
        fixed: owned.fixed,
        flags: &owned.flags,
        entry,
        entries: &[entry, entry],
        shape,
        shapes: &[shape, Shape::Nothing, shape],
        maybe: owned.number,
        maybe_text: owned.names.first().map(String::as_str),
        maybe_point: points.first().copied(),
        maybe_entry: owned.colour.map(|_| entry),
        matrix: owned.matrix,
        nested: &nested,
    })
}

fn compare_entry(view: EntryView<'_>, owned: &Owned) -> Result<(), Malformed> {
    assert!(view.name()?.is_empty());
    let points = view.points()?.iter().map(|point| {
        let point = point?;
        Ok((point.x()?, point.y()?, point.tag()?))
    });
    assert_eq!(points.collect::<Result<Vec<_>, Malformed>>()?, owned.points);
    assert_eq!(view.colour()?, owned.colour);
    Ok(())
}

fn compare_shape(view: ShapeView<'_>, owned: &Owned) -> Result<(), Malformed> {
    match (owned.case, view) {
        (0, ShapeView::Nothing) => {}
        (1, ShapeView::Number(number)) => assert_eq!(number, owned.number.unwrap_or(3)),
        (2, ShapeView::Point(point)) => assert_eq!((point.x()?, point.y()?, point.tag()?), (1.0, 2.0, 3)),
        (3, ShapeView::Entry(entry)) => compare_entry(entry, owned)?,
        (4, ShapeView::Names(names)) => compare_names(names, &owned.names)?,
        (case, other) => panic!("case {case} came back as {other:?}"),
    }
    Ok(())
}

fn compare_names<const MAX: u32, const EACH: u32>(
    view: tombolo_interface::List<'_, tombolo_interface::Text<'_, EACH>, MAX>,
    names: &[String],
) -> Result<(), Malformed> {
    let read = view.iter().map(|name| name?.to_string()).collect::<Result<Vec<_>, _>>()?;
    assert_eq!(read, names);
    Ok(())
}

fn compare(view: &EverythingPartsRequestView<'_>, owned: &Owned) -> Result<(), Malformed> {
    assert_eq!(view.text()?.to_string()?, owned.text);
    assert!(view.text()?.is(&owned.text));
    assert_eq!(view.blob()?.to_vec(), owned.blob);
    assert_eq!(view.numbers()?.iter().collect::<Result<Vec<_>, _>>()?, owned.numbers);
    assert_eq!(view.fixed()?.iter().collect::<Result<Vec<_>, _>>()?, owned.fixed);
    assert_eq!(view.flags()?.iter().collect::<Result<Vec<_>, _>>()?, owned.flags);
    compare_entry(view.entry()?, owned)?;
    assert_eq!(view.entries()?.len(), 2);
    view.entries()?.iter().try_for_each(|entry| compare_entry(entry?, owned))?;
    compare_shape(view.shape()?, owned)?;
    compare_shape(view.shapes()?.get(2).unwrap()?, owned)?;
    assert!(matches!(view.shapes()?.get(1), Some(Ok(ShapeView::Nothing))));
    assert!(view.shapes()?.get(3).is_none());
    assert_eq!(view.maybe()?, owned.number);
    let text = view.maybe_text()?.map(|text| text.to_string()).transpose()?;
    assert_eq!(text.as_ref(), owned.names.first());
    let point = view.maybe_point()?.map(|point| Ok((point.x()?, point.y()?, point.tag()?))).transpose()?;
    assert_eq!(point.as_ref(), owned.points.first());
    assert_eq!(view.maybe_entry()?.is_some(), owned.colour.is_some());
    for (row, expected) in view.matrix()?.iter().zip(owned.matrix) {
        assert_eq!(row?.iter().collect::<Result<Vec<_>, _>>()?, expected);
    }
    let nested = view.nested()?.iter().map(|inner| inner?.iter().collect::<Result<Vec<_>, _>>());
    assert_eq!(nested.collect::<Result<Vec<_>, _>>()?, owned.nested);
    Ok(())
}

/// Returns a configuration with at most `cases` cases; `PROPTEST_CASES` can lower the number, as for
/// emulators.
fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.min(cases),
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..default
    }
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn messages_round_trip(owned in owned()) {
        let bytes = request(&owned, |request| bytes(request)).unwrap();
        prop_assert!(bytes.len().is_multiple_of(8));
        check_parts(&bytes).unwrap();
        let source = Source::Bytes(&bytes);
        let (header, body) = Header::read(source).unwrap();
        prop_assert_eq!(header, HEADER);
        compare(&body.into(), &owned).unwrap();
    }

    /// An older peer sends fewer fields: missing ones read as zero, empty or absent, without an error.
    #[test]
    fn a_shorter_record_reads_as_defaults(owned in owned(), words in 0_u16..30) {
        let mut bytes = request(&owned, |request| bytes(request)).unwrap();
        let full = u16::from_le_bytes([bytes[2], bytes[3]]);
        bytes[2..4].copy_from_slice(&words.min(full).to_le_bytes());
        let source = Source::Bytes(&bytes);
        let view = EverythingPartsRequestView::from(Header::read(source).unwrap().1);
        if words < 12 {
            prop_assert_eq!(view.maybe().unwrap(), None);
            prop_assert!(view.nested().unwrap().is_empty());
        }
        if words == 0 {
            prop_assert!(view.text().unwrap().is_empty());
            prop_assert!(view.entry().unwrap().points().unwrap().is_empty());
        }
    }

    #[test]
    fn flipped_bits_never_panic(owned in owned(), flips in prop::collection::vec((any::<u16>(), 0_u8..8), 1..8)) {
        let mut bytes = request(&owned, |request| bytes(request)).unwrap();
        for (at, bit) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        let _ = check_parts(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..400), small in any::<bool>()) {
        if small {
            // Keeps only small values, so that most references are inside the message.
            bytes.iter_mut().enumerate().filter(|(at, _)| at % 4 != 0).for_each(|(_, byte)| *byte = 0);
        }
        let _ = check_parts(&bytes);
    }
}

#[test]
fn limits_hold_at_their_borders() {
    let (longest, more) = ("k".repeat(64), "k".repeat(65));
    let put = |key: &str, value: &[u8]| {
        bytes(&KvPutRequest { key, value, expected: None }).map(|bytes| bytes.len())
    };
    assert_eq!(put(&longest[..63], &[0; 2047]), Ok(8 + 32 + 64 + 2048));
    assert_eq!(put(&longest, &[0; 2048]), Ok(8 + 32 + 64 + 2048));
    assert_eq!(put(&more, &[]), Err(OverLimit { field: "KvPutRequest.key", count: 65, max: 64 }));
    assert_eq!(put("", &[0; 2049]), Err(OverLimit { field: "KvPutRequest.value", count: 2049, max: 2048 }));
    let keys = vec![&*longest; 65];
    assert!(bytes(&KvListReply { keys: &keys[..64] }).is_ok());
    assert_eq!(
        bytes(&KvListReply { keys: &keys }).unwrap_err(),
        OverLimit { field: "KvListReply.keys", count: 65, max: 64 }
    );
    let inner = [&*more];
    assert!(bytes(&KvListReply { keys: &inner }).is_err(), "an element that is too long");
}

/// Returns the error of decoding a put request with one word replaced.
fn replaced(word: usize, value: u64) -> Malformed {
    let mut bytes = bytes(&KvPutRequest { key: "isle", value: &[1, 2, 3], expected: Some(7) }).unwrap();
    bytes[8 * word..][..8].copy_from_slice(&value.to_le_bytes());
    let source = Source::Bytes(&bytes);
    let read = Header::read(source)
        .and_then(|(_, body)| KvPutRequestView::from(body).check(&mut Budget::of(source)));
    read.expect_err("a message that is wrong")
}

#[test]
fn malformed_messages_are_refused_with_the_reason() {
    let at_48 = 48;
    assert_eq!(replaced(0, 2 | 100 << 16 | 2 << 32), Malformed::Short);
    assert_eq!(replaced(0, 2 | 4 << 16 | 7 << 32), Malformed::Kind { kind: 7 });
    assert_eq!(replaced(1, 40 | 65 << 32), Malformed::TooMany { at: 8, count: 65, max: 64 });
    assert_eq!(replaced(1, 41 | 4 << 32), Malformed::Reference { at: 8 }, "not aligned");
    assert_eq!(replaced(1, 40), Malformed::Reference { at: 8 }, "empty, and somewhere");
    assert_eq!(replaced(1, 4 << 32), Malformed::Reference { at: 8 }, "in the header");
    assert_eq!(replaced(2, at_48 | 9 << 32), Malformed::Reference { at: 16 }, "past the end");
    assert_eq!(replaced(2, 0xffff_fff8 | 9 << 32), Malformed::Reference { at: 16 }, "wraps");
    assert_eq!(replaced(3, 2), Malformed::Bool { at: 24, value: 2 });
    assert_eq!(replaced(5, 0xff), Malformed::Utf8 { at: 8 });
}

#[test]
fn values_without_a_name_are_refused_unless_the_type_is_open() {
    let numbers = EverythingNumbersRequest {
        a: true,
        b: 1,
        c: 2,
        d: 3,
        e: u64::MAX,
        f: -1,
        g: i16::MIN,
        h: -3,
        i: i64::MIN,
        j: 1.5,
        k: -2.5,
        colour: Colour::Green,
        step: Step(77),
        rights: Rights::READ | Rights::GRANT,
        hints: Hints(6),
        domain: Domain(5),
    };
    let bytes = bytes(&numbers).unwrap();
    let source = Source::Bytes(&bytes);
    let view = EverythingNumbersRequestView::from(Header::read(source).unwrap().1);
    assert_eq!((view.a(), view.e(), view.f(), view.g()), (Ok(true), Ok(u64::MAX), Ok(-1), Ok(i16::MIN)));
    assert_eq!((view.i(), view.j(), view.k()), (Ok(i64::MIN), Ok(1.5), Ok(-2.5)));
    assert_eq!((view.step(), view.hints(), view.domain()), (Ok(Step(77)), Ok(Hints(6)), Ok(Domain(5))));
    assert!(view.rights().unwrap().contains(Rights::GRANT));
    for (byte, value) in (8..bytes.len()).flat_map(|byte| [(byte, 0), (byte, 0xff)]) {
        let mut changed = bytes.clone();
        changed[byte] = value;
        let source = Source::Bytes(&changed);
        let view = EverythingNumbersRequestView::from(Header::read(source).unwrap().1);
        // Open types accept any value. Only closed types and booleans reject values.
        assert!(view.step().is_ok() && view.hints().is_ok());
        match (view.colour(), view.rights(), view.a()) {
            (Err(Malformed::Value { value, .. }), _, _) => assert_eq!(value, 0xff),
            (_, Err(Malformed::Value { value, .. }), _) => assert_ne!(value & !0x8003, 0),
            (_, _, Err(Malformed::Bool { value, .. })) => assert_eq!(value, 0xff),
            (Ok(_), Ok(_), Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Many references to one object make a short message that is expensive to read. The budget bounds the cost.
#[test]
fn parts_that_overlap_cannot_make_a_short_message_expensive() {
    let entry = Entry { name: "", points: &[Point { x: 0.0, y: 0.0, tag: 0 }; 4], colour: None };
    let reply =
        EverythingPartsReply { entry, shape: Shape::Entry(entry), maybe_shape: Some(Shape::Entry(entry)) };
    let mut bytes = bytes(&reply).unwrap();
    let whole = bytes.len();
    // All three entries refer to the first one; the objects of the others are cut off.
    let first: [u8; 8] = bytes[8..16].try_into().unwrap();
    let read = |bytes: &[u8]| {
        let source = Source::Bytes(bytes);
        let (_, body) = Header::read(source)?;
        EverythingPartsReplyView::from(body).check(&mut Budget::of(source))
    };
    assert_eq!(read(&bytes), Ok(()));
    let (shape, maybe) = (word(&bytes, 24), word(&bytes, 48));
    for case in [shape, maybe] {
        let at = usize::try_from(case).unwrap();
        bytes[at..at + 8].copy_from_slice(&first);
    }
    bytes.truncate(whole - 64);
    assert_eq!(read(&bytes), Err(Malformed::Overlap));
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}
