//! A key-value service in Rust: `kv_server [NAME]`. See the guide in the book.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kv::{
    Kv, KvAwaitChange, KvAwaitChangeReply, KvChanged, KvError, KvForgetView, KvGet, KvGetReply, KvHandler,
    KvList, KvListReply, KvPut, KvPutReply, KvServer,
};
use tombolo::interface::{Call, Decline, Malformed, Never, Responder, Response};
use tombolo::{Channel, ChannelOptions, Domain, Error};

type Failed = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(60);

/// Values and their versions by name.
type Entries = BTreeMap<String, (Vec<u8>, u64)>;

/// State of the server for one client.
struct Session {
    entries: Arc<Mutex<Entries>>,
    /// The value that was asked for last: an answer may borrow from its session.
    value: Vec<u8>,
    /// Changes not yet sent to the client.
    changed: Option<(String, u64)>,
    listing: Option<(Responder<KvList>, String)>,
}

impl Session {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KvHandler for Session {
    fn get<'s>(&'s mut self, request: Call<'_, KvGet>) -> Result<Response<KvGetReply<'s>>, Decline<KvError>> {
        let key = request.key()?.to_string()?;
        let found = self.entries().get(&key).cloned();
        let (value, version) = found.ok_or(Decline::Error(KvError::NOT_FOUND))?;
        self.value = value;
        Ok(KvGetReply { value: &self.value, version }.into())
    }

    fn put(&mut self, request: Call<'_, KvPut>) -> Result<Response<KvPutReply>, Decline<KvError>> {
        let (key, value) = (request.key()?.to_string()?, request.value()?.to_vec());
        let expected = request.expected()?;
        let mut entries = self.entries();
        let version = entries.get(&key).map_or(0, |(_, version)| *version);
        if expected.is_some_and(|expected| expected != version) {
            return Err(Decline::Error(KvError::CONFLICT));
        }
        let version = version + 1;
        entries.insert(key.clone(), (value, version));
        drop(entries);
        self.changed = Some((key, version));
        Ok(KvPutReply { version }.into())
    }

    fn list<'s>(&'s mut self, call: Call<'_, KvList>) -> Result<Response<KvListReply<'s>>, Decline<Never>> {
        let prefix = call.prefix()?.to_string()?;
        let (responder, response) = call.defer();
        self.listing = Some((responder, prefix));
        Ok(response)
    }

    fn await_change(
        &mut self,
        _: Call<'_, KvAwaitChange>,
    ) -> Result<Response<KvAwaitChangeReply>, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn forget(&mut self, message: KvForgetView<'_>) -> Result<(), Malformed> {
        let key = message.key()?.to_string()?;
        self.entries().remove(&key);
        Ok(())
    }
}

fn serve(channel: Channel, entries: Arc<Mutex<Entries>>) -> Result<(), Failed> {
    let mut server = KvServer::bind(channel)?;
    let mut session = Session { entries, value: Vec::new(), changed: None, listing: None };
    // Until the client is gone.
    loop {
        server.serve_one(&mut session)?;
        if let Some((key, version)) = session.changed.take() {
            server.changed(&KvChanged { key: &key, version })?;
        }
        if let Some((responder, prefix)) = session.listing.take() {
            let entries = session.entries();
            let found = entries.keys().filter(|key| key.starts_with(&prefix)).take(64);
            let keys: Vec<&str> = found.map(String::as_str).collect();
            server.reply(responder, Ok(KvListReply { keys: &keys }))?;
        }
    }
}

fn main() -> Result<(), Failed> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "kv".into());
    let domain = Domain::attach()?.with_timeout(PATIENCE);
    let listener = ChannelOptions::default().interface_hash(Kv::HASH).export(&domain, &name)?;
    writeln!(std::io::stdout(), "serving {name} on {}", domain.node_name())?;
    let entries = Arc::new(Mutex::new(Entries::new()));
    loop {
        match listener.accept() {
            Ok(channel) => {
                let entries = Arc::clone(&entries);
                std::thread::spawn(move || {
                    let end = serve(channel, entries);
                    eprintln!("a client left: {}", end.err().map_or_else(String::new, |end| end.to_string()));
                });
            }
            Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
