//! Old and new versions of an interface talk to each other, in both directions.

use std::path::Path;
use std::time::Duration;

use tombolo_idl::compatibility::{Verdict, compare, verdict};
use tombolo_idl::compile_file;
use tombolo_interface::local::{LocalPort, pair};
use tombolo_interface::{CallError, Decline, Fault, Later, Malformed, Never};
use tombolo_interfaces::common::Stamp;
use tombolo_interfaces::{growth, growth_before};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Duration = Duration::ZERO;
const STAMP: Stamp = Stamp { at_ns: 7, node: 3 };

/// Serves the interface as it is. It writes down what it was told.
#[derive(Default)]
struct Now {
    heard: Vec<String>,
}

impl growth::GrowthHandler for Now {
    fn look<'s>(
        &'s mut self,
        _: Later<growth::GrowthLook>,
        request: growth::GrowthLookRequestView<'_>,
    ) -> Result<growth::GrowthLookReply<'s>, Decline<Never>> {
        let note = request.note()?;
        let (mood, due, tags) = (note.mood()?, note.due()?, note.tags()?.len());
        self.heard.push(format!(
            "{} {} {due:?} {tags} {}",
            note.text()?.to_string()?,
            mood.0,
            request.detail()?
        ));
        let note = growth::Note { text: "now", mood: growth::Mood::MERRY, tags: &["a", "b"], due: Some(9) };
        Ok(growth::GrowthLookReply { note, thing: growth::Thing::Name("name"), stamp: STAMP, count: Some(1) })
    }

    fn number(
        &mut self,
        _: Later<growth::GrowthNumber>,
        _: growth::GrowthNumberRequestView<'_>,
    ) -> Result<growth::GrowthNumberReply, Decline<Never>> {
        Ok(growth::GrowthNumberReply { id: 5 })
    }

    fn forget(&mut self, message: growth::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.heard.push(format!("forget {} {:?}", message.id()?, message.why()?.to_string()?));
        Ok(())
    }

    fn poke(&mut self, _: growth::GrowthPokeView<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Serves the interface as it was.
#[derive(Default)]
struct Before {
    heard: Vec<String>,
}

impl growth_before::GrowthHandler for Before {
    fn look<'s>(
        &'s mut self,
        _: Later<growth_before::GrowthLook>,
        request: growth_before::GrowthLookRequestView<'_>,
    ) -> Result<growth_before::GrowthLookReply<'s>, Decline<Never>> {
        self.heard.push(request.note()?.text()?.to_string()?);
        let note = growth_before::Note { text: "before" };
        Ok(growth_before::GrowthLookReply { note, thing: growth_before::Thing::Number(4), stamp: STAMP })
    }

    fn forget(&mut self, message: growth_before::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.heard.push(format!("forget {}", message.id()?));
        Ok(())
    }
}

/// What a client was told.
#[derive(Default)]
struct Told(Vec<String>);

impl growth::GrowthEvents for Told {
    fn seen(&mut self, event: growth::GrowthSeenView<'_>) -> Result<(), Malformed> {
        self.0.push(format!("{} {:?}", event.id()?, event.by()?.to_string()?));
        Ok(())
    }
}

impl growth_before::GrowthEvents for Told {
    fn seen(&mut self, event: growth_before::GrowthSeenView<'_>) -> Result<(), Malformed> {
        self.0.push(event.id()?.to_string());
        Ok(())
    }
}

#[test]
fn the_checker_says_that_they_can() {
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
fn a_client_of_before_talks_to_a_server_of_now() {
    let (near, far) = pair(16, 4096);
    let mut client = growth_before::GrowthClient::bind(near, Told::default()).unwrap();
    let mut server: growth::GrowthServer<LocalPort> = growth::GrowthServer::bind(far).unwrap();
    let mut now = Now::default();

    let request = growth_before::GrowthLookRequest { note: growth_before::Note { text: "hello" } };
    let call = client.start(&request, SECOND).unwrap();
    client.forget(&growth_before::GrowthForget { id: 3 }, NOW).unwrap();
    while server.serve_one(&mut now, NOW).unwrap() {}
    assert_eq!(now.heard, ["hello 0 None 0 false", "forget 3 \"\""]);

    server.seen(&growth::GrowthSeen { id: 8, by: "somebody" }, NOW).unwrap();
    server.news(&growth::GrowthNews {}, NOW).unwrap();
    client
        .wait(call, |answer| {
            let Ok(reply) = answer;
            assert!(reply.note()?.text()?.is("now"));
            assert!(matches!(reply.thing()?, growth_before::ThingView::Unknown(2)));
            assert_eq!((reply.stamp()?.at_ns()?, reply.stamp()?.node()?), (7, 3));
            Ok(())
        })
        .unwrap();
    client.poll().unwrap();
    assert_eq!(client.events().0, ["8"]);
    let counts = client.counts();
    assert_eq!((counts.unknown, counts.malformed, counts.messages), (1, 0, 1));
    assert_eq!((server.counts().unknown, server.counts().malformed), (0, 0));
}

#[test]
fn a_client_of_now_talks_to_a_server_of_before() {
    let (near, far) = pair(16, 4096);
    let mut client = growth::GrowthClient::bind(near, Told::default()).unwrap();
    let mut server: growth_before::GrowthServer<LocalPort> = growth_before::GrowthServer::bind(far).unwrap();
    let mut before = Before::default();

    let note = growth::Note { text: "hello", mood: growth::Mood::MERRY, tags: &["x"], due: Some(1) };
    let look = client.start(&growth::GrowthLookRequest { note, detail: true }, SECOND).unwrap();
    let number = client.start(&growth::GrowthNumberRequest {}, SECOND).unwrap();
    client.forget(&growth::GrowthForget { id: 3, why: "old" }, NOW).unwrap();
    client.poke(&growth::GrowthPoke {}, NOW).unwrap();
    while server.serve_one(&mut before, NOW).unwrap() {}
    assert_eq!(before.heard, ["hello", "forget 3"]);
    let counts = server.counts();
    assert_eq!((counts.unknown, counts.malformed, counts.messages), (2, 0, 1));

    server.seen(&growth_before::GrowthSeen { id: 8 }, NOW).unwrap();
    client
        .wait(look, |answer| {
            let Ok(reply) = answer;
            let note = reply.note()?;
            assert!(note.text()?.is("before"));
            assert_eq!((note.mood()?, note.due()?, note.tags()?.len()), (growth::Mood::CALM, None, 0));
            assert!(matches!(reply.thing()?, growth::ThingView::Number(4)));
            assert_eq!((reply.stamp()?.at_ns()?, reply.count()?), (7, None));
            Ok(())
        })
        .unwrap();
    assert_eq!(client.wait(number, |_| Ok(())), Err(CallError::Fault(Fault::Unknown)));
    client.poll().unwrap();
    assert_eq!(client.events().0, ["8 \"\""]);
}
