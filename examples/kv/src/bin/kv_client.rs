//! A client of the key-value service in Rust: `kv_client [NAME]`. See the guide in the book.

use std::time::Duration;

use kv::{
    Kv, KvAwaitChangeRequest, KvChangedView, KvClient, KvError, KvEvents, KvForget, KvGetRequest,
    KvListRequest, KvPutRequest, MAX_VALUE,
};
use tombolo::interface::{CallError, Malformed};
use tombolo::{Channel, ChannelOptions, Domain, Error};

type Failed = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(60);

/// Adds up what the server tells.
#[derive(Default)]
struct Versions(u64);

impl KvEvents for Versions {
    fn changed(&mut self, event: KvChangedView<'_>) -> Result<(), Malformed> {
        self.0 += event.version()?;
        Ok(())
    }
}

type Client = KvClient<Channel, Versions>;

/// Sets a key that is new; the error that the interface declares, if the server declined.
fn put(client: &mut Client, key: &str, value: &[u8]) -> Result<Option<KvError>, CallError<Error>> {
    let request = KvPutRequest { key, value, expected: Some(0) };
    client.put(&request, PATIENCE, |answer| Ok(answer.err()))
}

fn main() -> Result<(), Failed> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "kv".into());
    let domain = Domain::attach()?;
    let options = ChannelOptions::default().interface_hash(Kv::HASH);
    let mut client = KvClient::bind(domain.connect(&name, &options, PATIENCE)?, Versions::default())?;

    let longest = vec![0xa5; MAX_VALUE as usize];
    assert_eq!(put(&mut client, "isle", b"sand")?, None);
    assert_eq!(put(&mut client, "isle", b"rock")?, Some(KvError::CONFLICT));
    assert_eq!(put(&mut client, "größte Insel: 島", &longest)?, None);
    // Nothing is sent that the interface does not allow.
    let longer = put(&mut client, "more", &[&longest[..], b"!"].concat());
    assert!(matches!(longer, Err(CallError::OverLimit(_))));

    // Two calls in flight.
    let there = client.start(&KvGetRequest { key: "größte Insel: 島" }, PATIENCE)?;
    let missing = client.start(&KvGetRequest { key: "more" }, PATIENCE)?;
    let declined = client.wait(missing, |answer| Ok(answer.err()))?;
    if declined == Some(KvError::NOT_FOUND) {
        println!("declined: not_found");
    }
    let value =
        client.wait(there, |answer| answer.expect("it was put").value().map(|value| value.to_vec()))?;
    assert_eq!(value, longest);

    client.forget(&KvForget { key: "isle" }, PATIENCE)?;
    let keys = client.list(&KvListRequest { prefix: "" }, PATIENCE, |answer| {
        let Ok(reply) = answer;
        reply.keys()?.iter().map(|key| key?.to_string()).collect::<Result<Vec<_>, _>>()
    })?;
    for key in keys {
        println!("key: {key}");
    }
    let waited =
        client.await_change(&KvAwaitChangeRequest { key: "isle" }, PATIENCE, |answer| Ok(answer.err()));
    match waited {
        Err(CallError::Fault(fault)) => println!("await_change: {fault}"),
        other => println!("await_change: {other:?}"),
    }
    Ok(())
}
