use proptest::prelude::*;

use crate::wire::{MAX_TEXT_BYTES, MAX_VALUE_BYTES, function_number};
use crate::{End, Failure, FailureKind, Message};

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn messages_have_the_same_bytes_everywhere() {
    let start = Message::Start { task: 2, node: Some(1), function: 3, argument: b"ab" };
    assert_eq!(encoded(&start), [2, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, b'a', b'b']);
    let want = Message::Want { more: 5, released: 4 };
    assert_eq!(encoded(&want), [1, 0, 255, 255, 5, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&Message::Cancel(5)), [3, 0, 255, 255, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let failure = Failure { kind: FailureKind::Panicked, node: "n".into(), text: "t".into() };
    let ended = Message::Ended(6, End::Failed(failure));
    assert_eq!(encoded(&ended), [4, 1, 255, 255, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, b'n', b't']);
}

#[test]
fn functions_are_identified_by_name_and_types() {
    assert_eq!(function_number("", "", ""), 0xcd02_bfb8_1f3a_f2bf);
    assert_ne!(function_number("f", "u8", "u8"), function_number("f", "u16", "u8"));
}

#[test]
fn value_size_is_limited() {
    for (bytes, fits) in [(MAX_VALUE_BYTES - 1, true), (MAX_VALUE_BYTES, true), (MAX_VALUE_BYTES + 1, false)]
    {
        let value = vec![1; bytes];
        let start = Message::Start { task: 0, node: None, function: 0, argument: &value };
        assert_eq!(Message::decode(&encoded(&start)).is_ok(), fits);
        let ended = Message::Ended(0, End::Done(value.clone().into()));
        assert_eq!(Message::decode(&encoded(&ended)).is_ok(), fits);
    }
}

#[test]
fn long_text_is_truncated_between_characters() {
    let failure = Failure::new(FailureKind::Panicked).with_text("ü".repeat(MAX_TEXT_BYTES) + "x");
    let bytes = encoded(&Message::Ended(0, End::Failed(failure)));
    let Ok(Message::Ended(_, End::Failed(read))) = Message::decode(&bytes) else { panic!("it is read") };
    assert_eq!(read.text, "ü".repeat(MAX_TEXT_BYTES / 2));
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn arbitrary_bytes_are_refused_or_canonical(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(encoded(&message), bytes);
        }
    }
}
