//! Every type of the interface language, in both directions.

use std::error::Error;
use std::time::{Duration, Instant};

use tombolo::Channel;
use tombolo::interface::{
    Body, Call, CallError, Decline, Domain, Header, Kind, Malformed, Never, Outgoing, Response, ServeError,
    Source,
};
use tombolo_stubs::everything::{
    Colour, Entry, Everything, EverythingClient, EverythingDrawn, EverythingDrawnView, EverythingEvents,
    EverythingHandler, EverythingNull, EverythingNullReply, EverythingNullRequest, EverythingNumbers,
    EverythingNumbersReply, EverythingNumbersRequest, EverythingNumbersRequestView, EverythingParts,
    EverythingPartsReply, EverythingPartsRequest, EverythingPartsRequestView, EverythingPoke,
    EverythingPokeView, EverythingServer, Failure, FailureView, Hints, Point, Rights, Shape, ShapeView, Step,
};

use super::digest::{Digest, numbers};
use super::expect;
use crate::{Outcome, PATIENCE};

pub(super) const HASH: u64 = Everything::HASH;

/// Names sent after a poke and in answers with a list of names.
const NAMES: [&str; 3] = ["ä", "", "𝄞𝄞"];

/// Shape of a request, kept until it is returned.
enum Kept {
    Nothing,
    Number(u64),
    Point(Point),
    Entry,
    Names,
}

/// The server, which keeps a request's parts until it has sent them back.
#[derive(Default)]
struct Mirror {
    name: String,
    points: Vec<Point>,
    inner_name: String,
    inner_points: Vec<Point>,
    poked: bool,
}

fn keep(
    entry: tombolo_stubs::everything::EntryView<'_>,
    name: &mut String,
    points: &mut Vec<Point>,
) -> Result<Option<Colour>, Malformed> {
    *name = entry.name()?.to_string()?;
    points.clear();
    for point in entry.points()?.iter() {
        let point = point?;
        points.push(Point { x: point.x()?, y: point.y()?, tag: point.tag()? });
    }
    entry.colour()
}

impl EverythingHandler for Mirror {
    fn numbers(
        &mut self,
        request: Call<'_, EverythingNumbers>,
    ) -> Result<Response<EverythingNumbersReply>, Decline<Never>> {
        Ok(EverythingNumbersReply {
            a: request.a()?,
            b: request.b()?,
            c: request.c()?,
            d: request.d()?,
            e: request.e()?,
            f: request.f()?,
            g: request.g()?,
            h: request.h()?,
            i: request.i()?,
            j: request.j()?,
            k: request.k()?,
            colour: request.colour()?,
            step: request.step()?,
            rights: request.rights()?,
            hints: request.hints()?,
            domain: request.domain()?,
        }
        .into())
    }

    fn parts<'s>(
        &'s mut self,
        request: Call<'_, EverythingParts>,
    ) -> Result<Response<EverythingPartsReply<'s>>, Decline<Failure<'s>>> {
        let text = request.text()?;
        if text.is("refused") {
            return Err(Decline::Error(Failure::Refused));
        } else if text.is("retry") {
            return Err(Decline::Error(Failure::Retry(u32::MAX)));
        } else if text.is("because") {
            return Err(Decline::Error(Failure::Because("größte Insel: 島")));
        }
        let mut digest = Digest::default();
        digest.parts(&request)?;
        let colour = keep(request.entry()?, &mut self.name, &mut self.points)?;
        let mut inner_colour = None;
        let kept = match request.shape()? {
            ShapeView::Nothing | ShapeView::Unknown(_) => Kept::Nothing,
            ShapeView::Number(number) => Kept::Number(number),
            ShapeView::Point(point) => Kept::Point(Point { x: point.x()?, y: point.y()?, tag: point.tag()? }),
            ShapeView::Entry(entry) => {
                inner_colour = keep(entry, &mut self.inner_name, &mut self.inner_points)?;
                Kept::Entry
            }
            ShapeView::Names(_) => Kept::Names,
        };
        let maybe_shape = match kept {
            Kept::Nothing => None,
            Kept::Number(number) => Some(Shape::Number(number)),
            Kept::Point(point) => Some(Shape::Point(point)),
            Kept::Entry => Some(Shape::Entry(Entry {
                name: &self.inner_name,
                points: &self.inner_points,
                colour: inner_colour,
            })),
            Kept::Names => Some(Shape::Names(&NAMES)),
        };
        Ok(EverythingPartsReply {
            entry: Entry { name: &self.name, points: &self.points, colour },
            shape: Shape::Number(digest.value()),
            maybe_shape,
        }
        .into())
    }

    fn null(&mut self, _: Call<'_, EverythingNull>) -> Result<Response<EverythingNullReply>, Decline<Never>> {
        Ok(EverythingNullReply {}.into())
    }

    fn poke(&mut self, _: EverythingPokeView<'_>) -> Result<(), Malformed> {
        self.poked = true;
        Ok(())
    }
}

/// Serves until the client leaves.
pub(super) fn serve(channel: Channel) -> Outcome {
    let mut server = EverythingServer::bind(channel)?;
    let mut mirror = Mirror::default();
    loop {
        match server.serve_one(&mut mirror) {
            Ok(true) => {}
            Ok(false) => return Err("the client fell silent".into()),
            Err(ServeError::Ended(tombolo::Error::Closed { .. })) => break,
            Err(error) => return Err(error.into()),
        }
        if std::mem::take(&mut mirror.poked) {
            server.drawn(&EverythingDrawn { shape: Shape::Names(&NAMES) })?;
        }
    }
    let counts = server.counts();
    expect("messages that were refused", (counts.unknown, counts.malformed), (0, 0))
}

/// Digests of the events that the server sent.
#[derive(Default)]
struct Drawn(Vec<u64>);

impl EverythingEvents for Drawn {
    fn drawn(&mut self, event: EverythingDrawnView<'_>) -> Result<(), Malformed> {
        self.0.push(shape_digest(event.shape()?)?);
        Ok(())
    }
}

fn shape_digest(shape: ShapeView<'_>) -> Result<u64, Malformed> {
    let mut digest = Digest::default();
    digest.shape(shape)?;
    Ok(digest.value())
}

/// Decodes a message of this program as its receiver would.
fn read_own<R>(
    body: &impl Body,
    read: impl FnOnce(tombolo::interface::Record<'_>) -> Result<R, Malformed>,
) -> Result<R, Box<dyn Error>> {
    let message = Outgoing::new(Header::new(1, Kind::Message, 0), body)?;
    let mut bytes = vec![0_u8; message.length_bytes()];
    message.write(&mut bytes[..]);
    Ok(read(Header::read(Source::Bytes(&bytes))?.1)?)
}

/// Calls every method with values at and between their limits.
pub(super) fn call(channel: Channel) -> Outcome {
    let mut client = EverythingClient::bind(channel, Drawn::default())?;
    for request in &all_numbers() {
        let sent = read_own(request, |body| {
            let view = EverythingNumbersRequestView::from(body);
            Ok(numbers!(view))
        })?;
        let reply = client.numbers(request)?;
        expect("numbers", numbers!(reply), sent)?;
    }
    client.null(&EverythingNullRequest {})?;
    for number in 0..5 {
        with_parts(number, |request| call_parts(&mut client, request))?;
    }
    limits(&mut client)?;
    declined(&mut client)?;
    client.poke(&EverythingPoke {})?;
    let until = Instant::now() + PATIENCE;
    while client.events().0.is_empty() && Instant::now() < until {
        client.poll()?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let drawn = read_own(&EverythingDrawn { shape: Shape::Names(&NAMES) }, |body| {
        shape_digest(EverythingDrawnView::from(body).shape()?)
    })?;
    expect("what was drawn", &client.events().0, &vec![drawn])
}

fn all_numbers() -> [EverythingNumbersRequest; 3] {
    let highest = EverythingNumbersRequest {
        a: true,
        b: u8::MAX,
        c: u16::MAX,
        d: u32::MAX,
        e: u64::MAX,
        f: i8::MAX,
        g: i16::MAX,
        h: i32::MAX,
        i: i64::MAX,
        j: f32::MAX,
        k: f64::INFINITY,
        colour: Colour::Green,
        step: Step(i16::MAX),
        rights: Rights::READ | Rights::WRITE | Rights::GRANT,
        hints: Hints(u64::MAX),
        domain: Domain(u64::MAX),
    };
    let lowest = EverythingNumbersRequest {
        a: false,
        b: 1,
        c: 0x0102,
        d: 0x0102_0304,
        e: 0x0102_0304_0506_0708,
        f: i8::MIN,
        g: i16::MIN,
        h: i32::MIN,
        i: i64::MIN,
        j: -0.0,
        k: f64::MIN_POSITIVE,
        colour: Colour::Red,
        step: Step::BACK,
        rights: Rights::WRITE,
        hints: Hints::FAR,
        domain: Domain(1),
    };
    let zero = EverythingNumbersRequest {
        b: 0,
        c: 0,
        d: 0,
        e: 0,
        f: 0,
        g: 0,
        h: 0,
        i: 0,
        j: 0.0,
        k: 0.0,
        colour: Colour::None,
        step: Step::STAY,
        rights: Rights(0),
        hints: Hints(0),
        domain: Domain(0),
        ..lowest
    };
    [highest, lowest, zero]
}

/// Builds messages with every type: empty, at the limits, and with each shape.
fn with_parts<R>(number: u32, then: impl FnOnce(&EverythingPartsRequest<'_>) -> R) -> R {
    let points = [Point { x: 1.5, y: -2.0, tag: 7 }, Point { x: f32::MIN, y: f32::MAX, tag: 255 }];
    let full_points = [points[0], points[1], points[0], points[1]];
    let entry = Entry { name: "島島島島島x", points: &full_points, colour: Some(Colour::Green) };
    let small = Entry { name: "", points: &[], colour: None };
    let shapes = [Shape::Number(u64::MAX), Shape::Names(&NAMES), Shape::Point(points[0])];
    let entries = [entry, small, entry];
    let full = EverythingPartsRequest {
        text: "🏝🏝🏝🏝🏝🏝🏝🏝",
        blob: &[0xff; 32],
        numbers: &[0, 1, u16::MAX, 0x0102, 5, 6, 7, 8],
        fixed: [i32::MIN, -1, i32::MAX],
        flags: &[true, false, true, true, false, true, false, false, true],
        entry,
        entries: &entries,
        shape: Shape::Entry(entry),
        shapes: &shapes,
        maybe: Some(u64::MAX),
        maybe_text: Some("12345678"),
        maybe_point: Some(points[1]),
        maybe_entry: Some(small),
        matrix: [[1, 2], [3, 4], [5, 255]],
        nested: &[&[1, u32::MAX], &[], &[0x0102_0304]],
    };
    let empty = EverythingPartsRequest {
        text: "",
        blob: &[],
        numbers: &[],
        fixed: [0; 3],
        flags: &[],
        entry: small,
        entries: &[],
        shape: Shape::Nothing,
        shapes: &[],
        maybe: None,
        maybe_text: None,
        maybe_point: None,
        maybe_entry: None,
        matrix: [[0; 2]; 3],
        nested: &[],
    };
    then(&match number {
        0 => full,
        1 => EverythingPartsRequest { shape: Shape::Number(0x0102_0304_0506_0708), ..full },
        2 => EverythingPartsRequest { shape: Shape::Point(points[1]), maybe: Some(0), ..empty },
        3 => EverythingPartsRequest { shape: Shape::Names(&[]), maybe_text: Some(""), ..empty },
        _ => empty,
    })
}

fn call_parts(
    client: &mut EverythingClient<Channel, Drawn>,
    request: &EverythingPartsRequest<'_>,
) -> Outcome {
    type Digests = (u64, u64, Option<u64>);
    let sent: Digests = read_own(request, |body| {
        let parts = EverythingPartsRequestView::from(body);
        let (mut all, mut entry) = (Digest::default(), Digest::default());
        all.parts(&parts)?;
        entry.entry(parts.entry()?)?;
        let maybe_shape = match parts.shape()? {
            ShapeView::Nothing => None,
            ShapeView::Names(_) => Some(None),
            shape => Some(Some(shape_digest(shape)?)),
        };
        Ok((all.value(), entry.value(), maybe_shape.map(|shape| shape.unwrap_or(0))))
    })?;
    let reply = client.parts(request).map_err(|error| error.to_string())?;
    let mut entry = Digest::default();
    entry.entry(reply.entry()?)?;
    let ShapeView::Number(all) = reply.shape()? else { return Err("the shape is no number".into()) };
    let maybe_shape = match reply.maybe_shape()? {
        None => None,
        Some(ShapeView::Names(names)) => {
            let said = names.iter().map(|name| name?.to_string()).collect::<Result<Vec<_>, _>>()?;
            Some(if said == NAMES { 0 } else { 1 })
        }
        Some(shape) => Some(shape_digest(shape)?),
    };
    expect("parts", (all, entry.value(), maybe_shape), sent)
}

/// Checks that messages at a limit arrive and messages above it are not sent.
fn limits(client: &mut EverythingClient<Channel, Drawn>) -> Outcome {
    let texts = ["x".repeat(31), "x".repeat(32), "x".repeat(33), "é".repeat(16), "é".repeat(17)];
    for (text, allowed) in texts.iter().zip([true, true, false, true, false]) {
        with_parts(4, |request| {
            let request = EverythingPartsRequest { text, ..*request };
            is_allowed(client, &request, allowed)
        })?;
    }
    for (count, allowed) in [(7, true), (8, true), (9, false)] {
        with_parts(4, |request| {
            let request = EverythingPartsRequest { numbers: &[7; 9][..count], ..*request };
            is_allowed(client, &request, allowed)
        })?;
    }
    Ok(())
}

fn is_allowed(
    client: &mut EverythingClient<Channel, Drawn>,
    request: &EverythingPartsRequest<'_>,
    allowed: bool,
) -> Outcome {
    if allowed {
        return call_parts(client, request);
    }
    match client.parts(request) {
        Err(CallError::OverLimit(_)) => Ok(()),
        other => Err(format!("over a limit: {other:?}").into()),
    }
}

fn declined(client: &mut EverythingClient<Channel, Drawn>) -> Outcome {
    let expected = ["refused", "retry", "because"].map(str::to_owned);
    for text in &expected {
        let why = with_parts(4, |request| {
            let request = EverythingPartsRequest { text, ..*request };
            match client.parts(&request) {
                Err(CallError::Declined(FailureView::Refused)) => "refused",
                Err(CallError::Declined(FailureView::Retry(u32::MAX))) => "retry",
                Err(CallError::Declined(FailureView::Because(why))) if why.is("größte Insel: 島") => {
                    "because"
                }
                _ => "something else",
            }
        });
        expect("declined", why, text)?;
    }
    Ok(())
}
