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

/// Sets a key that is new.
fn put(client: &mut Client, key: &str, value: &[u8]) -> Result<(), CallError<Error, KvError>> {
    client.put(&KvPutRequest { key, value, expected: Some(0) }).map(|_| ())
}

fn main() -> Result<(), Failed> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "kv".into());
    let domain = Domain::attach()?.with_timeout(PATIENCE);
    let options = ChannelOptions::default().interface_hash(Kv::HASH);
    let mut client = KvClient::bind(options.connect(&domain, &name)?, Versions::default())?;

    let longest = vec![0xa5; MAX_VALUE as usize];
    put(&mut client, "isle", b"sand")?;
    let conflict = put(&mut client, "isle", b"rock");
    assert!(matches!(conflict, Err(CallError::Declined(KvError::CONFLICT))));
    put(&mut client, "größte Insel: 島", &longest)?;
    // Nothing is sent that the interface does not allow.
    let longer = put(&mut client, "more", &[&longest[..], b"!"].concat());
    assert!(matches!(longer, Err(CallError::OverLimit(_))));

    // Two calls in flight.
    let there = client.start(&KvGetRequest { key: "größte Insel: 島" })?;
    let missing = client.start(&KvGetRequest { key: "more" })?;
    if let Err(CallError::Declined(KvError::NOT_FOUND)) = client.wait(missing) {
        println!("declined: not_found");
    }
    assert_eq!(client.wait(there)?.value()?.to_vec(), longest);

    client.forget(&KvForget { key: "isle" })?;
    for key in client.list(&KvListRequest { prefix: "" })?.keys()?.iter() {
        println!("key: {}", key?.to_string()?);
    }
    match client.await_change(&KvAwaitChangeRequest { key: "isle" }) {
        Err(CallError::Fault(fault)) => println!("await_change: {fault}"),
        other => println!("await_change: {other:?}"),
    }
    Ok(())
}
