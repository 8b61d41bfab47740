//! Old and new versions of an interface talk to each other, in both directions.

use std::path::Path;
use std::time::Duration;

use tombolo_idl::compatibility::{Verdict, compare, verdict};
use tombolo_idl::compile_file;
use tombolo_interface::local::{LocalPort, pair};
use tombolo_interface::{Call, CallError, Decline, Fault, Malformed, Never, Response};
use tombolo_stubs::common::Stamp;
use tombolo_stubs::{growth, growth_before};

const NOW: Duration = Duration::ZERO;
const STAMP: Stamp = Stamp { at_ns: 7, node: 3 };

/// Server of the new version. Records the messages it receives.
#[derive(Default)]
struct NewServer {
    heard: Vec<String>,
}

impl growth::GrowthHandler for NewServer {
    fn look<'s>(
        &'s mut self,
        request: Call<'_, growth::GrowthLook>,
    ) -> Result<Response<growth::GrowthLookReply<'s>>, Decline<Never>> {
        let note = request.note()?;
        let (mood, due, tags) = (note.mood()?, note.due()?, note.tags()?.len());
        self.heard.push(format!(
            "{} {} {due:?} {tags} {}",
            note.text()?.to_string()?,
            mood.0,
            request.detail()?
        ));
        let note = growth::Note { text: "now", mood: growth::Mood::MERRY, tags: &["a", "b"], due: Some(9) };
        Ok(growth::GrowthLookReply { note, thing: growth::Thing::Name("name"), stamp: STAMP, count: Some(1) }
            .into())
    }

    fn number(
        &mut self,
        _: Call<'_, growth::GrowthNumber>,
    ) -> Result<Response<growth::GrowthNumberReply>, Decline<Never>> {
        Ok(growth::GrowthNumberReply { id: 5 }.into())
    }

    fn forget(&mut self, message: growth::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.heard.push(format!("forget {} {:?}", message.id()?, message.why()?.to_string()?));
        Ok(())
    }

    fn poke(&mut self, _: growth::GrowthPokeView<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Server of the old version. Records the messages it receives.
#[derive(Default)]
struct OldServer {
    heard: Vec<String>,
}

impl growth_before::GrowthHandler for OldServer {
    fn look<'s>(
        &'s mut self,
        request: Call<'_, growth_before::GrowthLook>,
    ) -> Result<Response<growth_before::GrowthLookReply<'s>>, Decline<Never>> {
        self.heard.push(request.note()?.text()?.to_string()?);
        let note = growth_before::Note { text: "before" };
        Ok(growth_before::GrowthLookReply { note, thing: growth_before::Thing::Number(4), stamp: STAMP }
            .into())
    }

    fn forget(&mut self, message: growth_before::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.heard.push(format!("forget {}", message.id()?));
        Ok(())
    }
}

/// Events that a client received.
#[derive(Default)]
struct ReceivedEvents(Vec<String>);

impl growth::GrowthEvents for ReceivedEvents {
    fn seen(&mut self, event: growth::GrowthSeenView<'_>) -> Result<(), Malformed> {
        self.0.push(format!("{} {:?}", event.id()?, event.by()?.to_string()?));
        Ok(())
    }
}

impl growth_before::GrowthEvents for ReceivedEvents {
    fn seen(&mut self, event: growth_before::GrowthSeenView<'_>) -> Result<(), Malformed> {
        self.0.push(event.id()?.to_string());
        Ok(())
    }
}

#[test]
fn compatibility_checker_accepts_the_growth() {
    let model = |file: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interfaces");
        compile_file(folder.join(file)).unwrap().model
    };
    let (before, now) = (model("growth_before.tbl"), model("growth.tbl"));
    assert_eq!(verdict(&compare(&before, &now)), Verdict::Compatible);
    assert_eq!(verdict(&compare(&now, &before)), Verdict::Breaking, "what is gone is missed");
    assert_eq!(growth::Growth::HASH, growth_before::Growth::HASH);
    assert_ne!(growth::Growth::FINGERPRINT, growth_before::Growth::FINGERPRINT);
}

#[test]
fn old_client_talks_to_new_server() {
    let (near, far) = pair(16, 4096);
    let mut client = growth_before::GrowthClient::bind(near, ReceivedEvents::default()).unwrap();
    let mut server: growth::GrowthServer<LocalPort> = growth::GrowthServer::bind(far).unwrap();
    let mut now = NewServer::default();

    let request = growth_before::GrowthLookRequest { note: growth_before::Note { text: "hello" } };
    let call = client.start(&request).unwrap();
    client.within(NOW).forget(&growth_before::GrowthForget { id: 3 }).unwrap();
    while server.within(NOW).serve_one(&mut now).unwrap() {}
    assert_eq!(now.heard, ["hello 0 None 0 false", "forget 3 \"\""]);

    server.within(NOW).seen(&growth::GrowthSeen { id: 8, by: "somebody" }).unwrap();
    server.within(NOW).news(&growth::GrowthNews {}).unwrap();
    let reply = client.wait(call).unwrap();
    assert!(reply.note().unwrap().text().unwrap().is("now"));
    assert!(matches!(reply.thing(), Ok(growth_before::ThingView::Unknown(2))));
    let stamp = reply.stamp().unwrap();
    assert_eq!((stamp.at_ns(), stamp.node()), (Ok(7), Ok(3)));
    client.poll().unwrap();
    assert_eq!(client.events().0, ["8"]);
    let counts = client.counts();
    assert_eq!((counts.unknown, counts.malformed, counts.messages), (1, 0, 1));
    assert_eq!((server.counts().unknown, server.counts().malformed), (0, 0));
}

#[test]
fn new_client_talks_to_old_server() {
    let (near, far) = pair(16, 4096);
    let mut client = growth::GrowthClient::bind(near, ReceivedEvents::default()).unwrap();
    let mut server: growth_before::GrowthServer<LocalPort> = growth_before::GrowthServer::bind(far).unwrap();
    let mut before = OldServer::default();

    let note = growth::Note { text: "hello", mood: growth::Mood::MERRY, tags: &["x"], due: Some(1) };
    let look = client.start(&growth::GrowthLookRequest { note, detail: true }).unwrap();
    let number = client.start(&growth::GrowthNumberRequest {}).unwrap();
    client.within(NOW).forget(&growth::GrowthForget { id: 3, why: "old" }).unwrap();
    client.within(NOW).poke(&growth::GrowthPoke {}).unwrap();
    while server.within(NOW).serve_one(&mut before).unwrap() {}
    assert_eq!(before.heard, ["hello", "forget 3"]);
    let counts = server.counts();
    assert_eq!((counts.unknown, counts.malformed, counts.messages), (2, 0, 1));

    server.within(NOW).seen(&growth_before::GrowthSeen { id: 8 }).unwrap();
    let reply = client.wait(look).unwrap();
    let note = reply.note().unwrap();
    assert!(note.text().unwrap().is("before"));
    assert_eq!((note.mood(), note.due()), (Ok(growth::Mood::CALM), Ok(None)));
    assert_eq!(note.tags().unwrap().len(), 0);
    assert!(matches!(reply.thing(), Ok(growth::ThingView::Number(4))));
    assert_eq!((reply.stamp().unwrap().at_ns(), reply.count()), (Ok(7), Ok(None)));
    assert_eq!(client.wait(number).map(|_| ()), Err(CallError::Fault(Fault::Unknown)));
    client.poll().unwrap();
    assert_eq!(client.events().0, ["8 \"\""]);
}
