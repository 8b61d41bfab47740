//! Old and new version of an interface: each talks to the other.

use std::time::{Duration, Instant};

use tombolo::Channel;
use tombolo::interface::{Call, CallError, Decline, Fault, Malformed, Never, Response, ServeError};
use tombolo_stubs::common::Stamp;
use tombolo_stubs::{growth, growth_before};

use super::expect;
use crate::{Outcome, PATIENCE};

pub(super) const HASH: u64 = growth::Growth::HASH;

const STAMP: Stamp = Stamp { at_ns: 0x0102_0304_0506_0708, node: 0x0102 };

/// The version of a server's interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Now,
    Before,
}

/// Server of the new version.
#[derive(Default)]
struct Now {
    text: String,
    told: bool,
}

impl growth::GrowthHandler for Now {
    fn look<'s>(
        &'s mut self,
        request: Call<'_, growth::GrowthLook>,
    ) -> Result<Response<growth::GrowthLookReply<'s>>, Decline<Never>> {
        let note = request.note()?;
        self.text = note.text()?.to_string()?;
        let (mood, due, count) = (note.mood()?, note.due()?, note.tags()?.len() as u32);
        let note = growth::Note { text: &self.text, mood, tags: &["a", "ü"], due };
        // A client of the old version does not know `detail`.
        let thing = if request.detail()? { growth::Thing::Number(4) } else { growth::Thing::Name("name") };
        Ok(growth::GrowthLookReply { note, thing, stamp: STAMP, count: Some(count) }.into())
    }

    fn number(
        &mut self,
        _: Call<'_, growth::GrowthNumber>,
    ) -> Result<Response<growth::GrowthNumberReply>, Decline<Never>> {
        Ok(growth::GrowthNumberReply { id: 5 }.into())
    }

    fn forget(&mut self, message: growth::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.told =
            message.id()? == 3 && ["", "old"].iter().any(|why| message.why().is_ok_and(|said| said.is(why)));
        Ok(())
    }

    fn poke(&mut self, _: growth::GrowthPokeView<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Server of the old version.
#[derive(Default)]
struct Before {
    text: String,
    told: bool,
}

impl growth_before::GrowthHandler for Before {
    fn look<'s>(
        &'s mut self,
        request: Call<'_, growth_before::GrowthLook>,
    ) -> Result<Response<growth_before::GrowthLookReply<'s>>, Decline<Never>> {
        self.text = request.note()?.text()?.to_string()?;
        let note = growth_before::Note { text: &self.text };
        let thing = growth_before::Thing::Number(4);
        Ok(growth_before::GrowthLookReply { note, thing, stamp: STAMP }.into())
    }

    fn forget(&mut self, message: growth_before::GrowthForgetView<'_>) -> Result<(), Malformed> {
        self.told = message.id()? == 3;
        Ok(())
    }
}

/// Serves until the client leaves. The versions of both ends only matter for fields that the older one lacks.
macro_rules! serve {
    ($server:ty, $handler:ty, $channel:expr, |$bound:ident| $tell:expr) => {{
        let mut $bound = <$server>::bind($channel)?;
        let mut handler = <$handler>::default();
        loop {
            match $bound.serve_one(&mut handler) {
                Ok(true) => {}
                Ok(false) => return Err("the client fell silent".into()),
                Err(ServeError::Ended(tombolo::Error::Closed { .. })) => break,
                Err(error) => return Err(error.into()),
            }
            if std::mem::take(&mut handler.told) {
                $tell;
            }
        }
        expect("messages that were refused", $bound.counts().malformed, 0)
    }};
}

pub(super) fn serve_now(channel: Channel) -> Outcome {
    serve!(growth::GrowthServer<Channel>, Now, channel, |server| {
        server.news(&growth::GrowthNews {})?;
        server.seen(&growth::GrowthSeen { id: 8, by: "somebody" })?;
    })
}

pub(super) fn serve_before(channel: Channel) -> Outcome {
    serve!(growth_before::GrowthServer<Channel>, Before, channel, |server| {
        server.seen(&growth_before::GrowthSeen { id: 8 })?;
    })
}

/// Events that a client received.
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

/// Waits until a client received an event.
macro_rules! listen {
    ($client:expr) => {{
        let until = Instant::now() + PATIENCE;
        while $client.events().0.is_empty() && Instant::now() < until {
            $client.poll()?;
            std::thread::sleep(Duration::from_millis(1));
        }
    }};
}

pub(super) fn call_as_now(channel: Channel, peer: Peer) -> Outcome {
    let mut client = growth::GrowthClient::bind(channel, Told::default())?;
    let note =
        growth::Note { text: "größte Insel: 島", mood: growth::Mood(77), tags: &["x"; 4], due: Some(1) };
    let look = growth::GrowthLookRequest { note, detail: true };
    let reply = client.look(&look)?;
    let (note, stamp) = (reply.note()?, reply.stamp()?);
    let thing = matches!(reply.thing()?, growth::ThingView::Number(4));
    let text = note.text()?.to_string()?;
    let grown = (note.mood()?.0, note.tags()?.len(), note.due()?, reply.count()?);
    let got = (text, thing, grown, stamp.at_ns()?, stamp.node()?);
    // Fields that an older server does not send are zero or absent.
    let grown = if peer == Peer::Now { (77, 2, Some(1), Some(4)) } else { (0, 0, None, None) };
    let expected = ("größte Insel: 島".to_owned(), true, grown, STAMP.at_ns, STAMP.node);
    expect("look, now", got, expected)?;
    match (client.number(&growth::GrowthNumberRequest {}), peer) {
        (Ok(reply), Peer::Now) if reply.id() == Ok(5) => {}
        (Err(CallError::Fault(Fault::Unknown)), Peer::Before) => {}
        (other, _) => return Err(format!("number: {other:?}").into()),
    }
    client.poke(&growth::GrowthPoke {})?;
    client.forget(&growth::GrowthForget { id: 3, why: "old" })?;
    listen!(client);
    let told = if peer == Peer::Now { "8 \"somebody\"" } else { "8 \"\"" };
    expect("told", &client.events().0, &vec![told.to_owned()])
}

pub(super) fn call_as_before(channel: Channel, peer: Peer) -> Outcome {
    let mut client = growth_before::GrowthClient::bind(channel, Told::default())?;
    let look = growth_before::GrowthLookRequest { note: growth_before::Note { text: "hello" } };
    let reply = client.look(&look)?;
    let thing = match reply.thing()? {
        growth_before::ThingView::Number(number) => (1, number),
        growth_before::ThingView::Unknown(case) => (case, 0),
    };
    let got = (reply.note()?.text()?.to_string()?, thing, reply.stamp()?.node()?);
    let thing = if peer == Peer::Now { (2, 0) } else { (1, 4) };
    expect("look, before", got, ("hello".to_owned(), thing, STAMP.node))?;
    client.forget(&growth_before::GrowthForget { id: 3 })?;
    listen!(client);
    expect("told", &client.events().0, &vec!["8".to_owned()])?;
    // The old version does not know the event.
    let unknown = u64::from(peer == Peer::Now);
    expect("unknown events", client.counts().unknown, unknown)
}
