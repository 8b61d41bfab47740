//! Encoding of messages.

use alloc::vec::Vec;

use proptest::prelude::*;

use crate::{
    Answer, BatchBuf, Description, Fault, Kind, MAX_BATCH, Operation, Outcome, Request, Status, Taken,
    Waiting,
};

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    request.encode(&mut message);
    message
}

fn encoded_answer(answer: &Answer) -> Vec<u8> {
    let mut message = Vec::new();
    answer.encode(&mut message);
    message
}

#[test]
fn golden_bytes() {
    let operation = Operation::Put { value: b"value" };
    let request =
        Request { number: 0x0102, hub: 3, priority: 200, tentative: true, timeout_us: 1_000_000, operation };
    let expected = b"\x02\xc8\x01\x00\x02\x01\x00\x00\x03\x00\x00\x00\x40\x42\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00value";
    assert_eq!(encoded(&request), expected);
    let operation =
        Operation::Open { name: "jobs", kind: Some(Kind::Fifo), value_type: 0x1122_3344_5566_7788 };
    let request = Request { number: 1, hub: 0, priority: 0, tentative: false, timeout_us: 0, operation };
    let expected = b"\x01\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x88\x77\x66\x55\x44\x33\x22\x11jobs";
    assert_eq!(encoded(&request), expected);
    let answer = Answer::Outcome(7, Outcome::Done(Taken::Block { number: 2, token: 9, abandoned: true }));
    assert_eq!(
        encoded_answer(&answer),
        b"\x05\x01\x00\x00\x07\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"
    );
    let answer = Answer::Outcome(7, Outcome::Failed(Fault::TooLong(256)));
    assert_eq!(encoded_answer(&answer), b"\x0a\x08\x00\x00\x07\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00");
    assert_eq!(
        encoded_answer(&Answer::Outcome(7, Outcome::Partial { put: 3, fault: Some(Fault::Closed) })),
        b"\x0e\x03\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"
    );
    assert_eq!(
        encoded_answer(&Answer::Inherits(9)),
        b"\x01\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    );
}

#[test]
fn golden_bytes_of_batches() {
    let mut batch = BatchBuf::new();
    assert!(batch.push(b"ab") && batch.push(b"c"));
    let operation = Operation::PutMany { values: batch.batch().unwrap() };
    let request = Request { number: 1, hub: 3, priority: 0, tentative: false, timeout_us: 0, operation };
    let expected = b"\x0b\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00ab\x01\x00c";
    assert_eq!(encoded(&request), expected);
    let get_many = Request { operation: Operation::GetMany { max_values: 256 }, ..request };
    let expected =
        b"\x0c\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00";
    assert_eq!(encoded(&get_many), expected);
    let tentative = Request { tentative: true, ..get_many };
    assert!(Request::decode(&encoded(&tentative)).is_err(), "a select takes one value");
    let get_many = Request { operation: Operation::GetMany { max_values: 257 }, ..request };
    assert!(Request::decode(&encoded(&get_many)).is_err());
    let answer = Answer::Outcome(7, Outcome::Done(Taken::Values(batch)));
    let expected = b"\x0d\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00ab\x01\x00c";
    assert_eq!(encoded_answer(&answer), expected);
}

fn faults() -> impl Strategy<Value = Fault> {
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        Just(Fault::WouldBlock),
        Just(Fault::TimedOut),
        Just(Fault::Closed),
        Just(Fault::AlreadyClosed),
        Just(Fault::NoSuchHub),
        Just(Fault::OtherType),
        Just(Fault::NotHeld),
        Just(Fault::AlreadyHeld),
        kind.clone().prop_map(Fault::OtherKind),
        kind.prop_map(Fault::WrongOperation),
        any::<u32>().prop_map(Fault::TooLong),
        any::<u32>().prop_map(Fault::TooManyRequests),
    ]
}

fn statuses() -> impl Strategy<Value = Status> {
    let waiting = || {
        let one = (any::<u8>(), any::<u32>()).prop_map(|(priority, count)| Waiting { priority, count });
        proptest::collection::vec(one, 0..4)
    };
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    let numbers = (any::<[u32; 5]>(), any::<u64>(), any::<Option<(u64, u64)>>(), any::<[bool; 2]>());
    ("[a-z/]{1,20}", kind, numbers, waiting(), waiting()).prop_map(
        |(name, kind, numbers, putters, getters)| {
            let ([capacity, initial, value_bytes, depth, held], value_type, owner, [inheritance, closed]) =
                numbers;
            let description =
                Description { name, kind, capacity, initial, value_bytes, value_type, inheritance };
            Status { description, depth, held, owner, closed, putters, getters }
        },
    )
}

fn batches() -> impl Strategy<Value = BatchBuf> {
    let value = proptest::collection::vec(any::<u8>(), 0..100);
    proptest::collection::vec(value, 1..20).prop_map(|values| {
        let mut batch = BatchBuf::new();
        values.iter().for_each(|value| assert!(batch.push(value)));
        batch
    })
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..100);
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        Just(Outcome::Done(Taken::Put)),
        Just(Outcome::Done(Taken::Unit)),
        bytes.prop_map(|bytes| Outcome::Done(Taken::Value(bytes.into()))),
        batches().prop_map(|values| Outcome::Done(Taken::Values(values))),
        (1..MAX_BATCH, proptest::option::of(faults()))
            .prop_map(|(put, fault)| Outcome::Partial { put, fault }),
        any::<(u32, u64, bool)>().prop_map(|(number, token, abandoned)| Outcome::Done(Taken::Block {
            number,
            token,
            abandoned
        })),
        any::<u32>().prop_map(Outcome::Offered),
        Just(Outcome::Revoked),
        Just(Outcome::Unclaimed),
        Just(Outcome::Withdrawn),
        faults().prop_map(Outcome::Failed),
        (any::<[u32; 3]>(), kind, any::<u64>()).prop_map(|([hub, capacity, value_bytes], kind, memory)| {
            Outcome::Opened { hub, kind, capacity, value_bytes, memory }
        }),
        statuses().prop_map(|status| Outcome::Status(status.into())),
    ]
}

proptest! {
    #[test]
    fn answers_come_back(number: u32, outcome in outcomes()) {
        let answer = Answer::Outcome(number, outcome);
        prop_assert_eq!(Answer::decode(&encoded_answer(&answer)), Ok(answer));
    }

    #[test]
    fn requests_come_back(
        (number, hub, priority, tentative, timeout_us) in any::<(u32, u32, u8, bool, u32)>(),
        (code, argument) in (0_u8..12, any::<u64>()),
        value in proptest::collection::vec(any::<u8>(), 0..100),
        batch in batches(),
        name in "[a-z/]{0,20}",
    ) {
        let offer = argument as u32;
        let operation = match code {
            0 => Operation::Open { name: &name, kind: Kind::from_number(priority), value_type: argument },
            1 => Operation::Put { value: &value },
            2 => Operation::Get,
            3 => Operation::GiveBack { token: argument },
            4 => Operation::Claim { offer },
            5 => Operation::Unclaim { offer },
            6 => Operation::Withdraw,
            7 => Operation::Close,
            8 => Operation::Raise,
            9 => Operation::Status,
            10 => Operation::PutMany { values: batch.batch().unwrap() },
            _ => Operation::GetMany { max_values: offer.clamp(1, MAX_BATCH) },
        };
        let tentative = tentative && code < 10;
        let request = Request { number, hub, priority, tentative, timeout_us, operation };
        let message = encoded(&request);
        prop_assert_eq!(Request::decode(&message), Ok(request));
    }

    #[test]
    fn decoded_bytes_encode_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(encoded(&request), bytes.clone());
        }
        if let Ok(answer) = Answer::decode(&bytes) {
            prop_assert_eq!(encoded_answer(&answer), bytes);
        }
    }
}
