//! Every type of the language, in every place: what back ends are tested with.
//!
//! Written by `tombolo idl compile` from interfaces/everything.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "messages without fields put none")]
use rt::Encode as _;

/// Known values only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Colour {
    /// `none`.
    None = 0,
    /// `red`.
    Red = 1,
    /// After red.
    Green = 2,
}

impl Colour {
    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The value of that number.
    #[inline]
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Colour::None,
            1 => Colour::Red,
            2 => Colour::Green,
            _ => return None,
        })
    }
}

impl rt::Encode for Colour {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        self.number().put(place, at, out);
    }
}

impl rt::View<'_> for Colour {
    const BYTES: u32 = 1;
    const ALIGN: u32 = 1;

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {
        let number = u8::view(record, at)?;
        Colour::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }
}

/// Others may come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Step(
    /// Its number; it may be one without a name.
    pub i16,
);

impl Step {
    /// `back`.
    pub const BACK: Step = Step(-1);
    /// `stay`.
    pub const STAY: Step = Step(0);
    /// `forth`.
    pub const FORTH: Step = Step(1);

    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> i16 {
        self.0
    }

    /// The value of that number.
    #[inline]
    #[must_use]
    pub fn from_number(number: i16) -> Option<Self> {
        Some(Step(number))
    }
}

impl rt::Encode for Step {
    const BYTES: u32 = 2;
    const ALIGN: u32 = 2;

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        self.number().put(place, at, out);
    }
}

impl rt::View<'_> for Step {
    const BYTES: u32 = 2;
    const ALIGN: u32 = 2;

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {
        let number = i16::view(record, at)?;
        Step::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }
}

/// Known bits only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rights(
    /// Its bits.
    pub u16,
);

impl Rights {
    /// `read`.
    pub const READ: Rights = Rights(1);
    /// `write`.
    pub const WRITE: Rights = Rights(2);
    /// `grant`.
    pub const GRANT: Rights = Rights(32768);

    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The flags of that number; `None` if it has bits without a name.
    #[inline]
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        if number & !0x8003 == 0 { Some(Rights(number)) } else { None }
    }

    /// Whether it has all of those.
    #[must_use]
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl core::ops::BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Rights(self.0 | other.0)
    }
}

impl rt::Encode for Rights {
    const BYTES: u32 = 2;
    const ALIGN: u32 = 2;

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        self.number().put(place, at, out);
    }
}

impl rt::View<'_> for Rights {
    const BYTES: u32 = 2;
    const ALIGN: u32 = 2;

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {
        let number = u16::view(record, at)?;
        Rights::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }
}

/// Others may come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Hints(
    /// Its bits.
    pub u64,
);

impl Hints {
    /// `near`.
    pub const NEAR: Hints = Hints(1);
    /// `far`.
    pub const FAR: Hints = Hints(9223372036854775808);

    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// The value of that number.
    #[inline]
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        Some(Hints(number))
    }

    /// Whether it has all of those.
    #[must_use]
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl core::ops::BitOr for Hints {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Hints(self.0 | other.0)
    }
}

impl rt::Encode for Hints {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        self.number().put(place, at, out);
    }
}

impl rt::View<'_> for Hints {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {
        let number = u64::view(record, at)?;
        Hints::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }
}

/// Lies inline.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// `x`.
    pub x: f32,
    /// `y`.
    pub y: f32,
    /// `tag`.
    pub tag: u8,
}

impl rt::Body for Point {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        12
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.x.put(place, at, out);
        self.y.put(place, at + 4, out);
        self.tag.put(place, at + 8, out);
    }
}

impl rt::Encode for Point {
    const BYTES: u32 = 12;
    const ALIGN: u32 = 4;

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        rt::Body::fields(self, place, at, out);
    }
}

/// [`Point`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct PointView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for PointView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        PointView { record }
    }
}

impl<'m> PointView<'m> {
    /// `x`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn x(&self) -> Result<f32, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `y`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn y(&self) -> Result<f32, rt::Malformed> {
        rt::View::view(self.record, 4)
    }

    /// `tag`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn tag(&self) -> Result<u8, rt::Malformed> {
        rt::View::view(self.record, 8)
    }
}

impl<'m> rt::View<'m> for PointView<'m> {
    const BYTES: u32 = 12;
    const ALIGN: u32 = 4;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        Ok(record.inline(at, 12).into())
    }

    fn check(&self, _: &mut rt::Budget) -> Result<(), rt::Malformed> {
        Ok(())
    }
}

/// Can grow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Entry<'a> {
    /// `name`, up to 16 bytes.
    pub name: &'a str,
    /// `points`, up to 4.
    pub points: &'a [Point],
    /// `colour`.
    pub colour: Option<Colour>,
}

impl rt::Body for Entry<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        24
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.name.as_bytes(), 16, "Entry.name")?;
        bytes += rt::encode::measure::list(self.points, 4, 12, "Entry.points", |_| Ok(0))?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.name.put(place, at, out);
        self.points.put(place, at + 8, out);
        self.colour.put(place, at + 16, out);
    }
}

impl rt::Encode for Entry<'_> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        rt::encode::put_record(self, place, at, out);
    }
}

/// [`Entry`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EntryView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EntryView { record }
    }
}

impl<'m> EntryView<'m> {
    /// `name`, up to 16 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn name(&self) -> Result<rt::Text<'m, 16>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `points`, up to 4.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn points(&self) -> Result<rt::List<'m, PointView<'m>, 4>, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `colour`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn colour(&self) -> Result<Option<Colour>, rt::Malformed> {
        rt::View::view(self.record, 16)
    }
}

impl<'m> rt::View<'m> for EntryView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.name()?.check(budget)?;
        self.points()?.check(budget)?;
        self.colour()?.check(budget)?;
        Ok(())
    }
}

/// What is sent: everything numbers request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingNumbersRequest {
    /// `a`.
    pub a: bool,
    /// `b`.
    pub b: u8,
    /// `c`.
    pub c: u16,
    /// `d`.
    pub d: u32,
    /// `e`.
    pub e: u64,
    /// `f`.
    pub f: i8,
    /// `g`.
    pub g: i16,
    /// `h`.
    pub h: i32,
    /// `i`.
    pub i: i64,
    /// `j`.
    pub j: f32,
    /// `k`.
    pub k: f64,
    /// `colour`.
    pub colour: Colour,
    /// `step`.
    pub step: Step,
    /// `rights`.
    pub rights: Rights,
    /// `hints`.
    pub hints: Hints,
    /// `domain`.
    pub domain: rt::Domain,
}

impl rt::Body for EverythingNumbersRequest {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        72
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.a.put(place, at, out);
        self.b.put(place, at + 1, out);
        self.c.put(place, at + 2, out);
        self.d.put(place, at + 4, out);
        self.e.put(place, at + 8, out);
        self.f.put(place, at + 16, out);
        self.g.put(place, at + 18, out);
        self.h.put(place, at + 20, out);
        self.i.put(place, at + 24, out);
        self.j.put(place, at + 32, out);
        self.k.put(place, at + 40, out);
        self.colour.put(place, at + 48, out);
        self.step.put(place, at + 50, out);
        self.rights.put(place, at + 52, out);
        self.hints.put(place, at + 56, out);
        self.domain.put(place, at + 64, out);
    }
}

/// [`EverythingNumbersRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNumbersRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingNumbersRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingNumbersRequestView { record }
    }
}

impl<'m> EverythingNumbersRequestView<'m> {
    /// `a`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn a(&self) -> Result<bool, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `b`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn b(&self) -> Result<u8, rt::Malformed> {
        rt::View::view(self.record, 1)
    }

    /// `c`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn c(&self) -> Result<u16, rt::Malformed> {
        rt::View::view(self.record, 2)
    }

    /// `d`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn d(&self) -> Result<u32, rt::Malformed> {
        rt::View::view(self.record, 4)
    }

    /// `e`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn e(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `f`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn f(&self) -> Result<i8, rt::Malformed> {
        rt::View::view(self.record, 16)
    }

    /// `g`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn g(&self) -> Result<i16, rt::Malformed> {
        rt::View::view(self.record, 18)
    }

    /// `h`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn h(&self) -> Result<i32, rt::Malformed> {
        rt::View::view(self.record, 20)
    }

    /// `i`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn i(&self) -> Result<i64, rt::Malformed> {
        rt::View::view(self.record, 24)
    }

    /// `j`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn j(&self) -> Result<f32, rt::Malformed> {
        rt::View::view(self.record, 32)
    }

    /// `k`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn k(&self) -> Result<f64, rt::Malformed> {
        rt::View::view(self.record, 40)
    }

    /// `colour`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn colour(&self) -> Result<Colour, rt::Malformed> {
        rt::View::view(self.record, 48)
    }

    /// `step`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn step(&self) -> Result<Step, rt::Malformed> {
        rt::View::view(self.record, 50)
    }

    /// `rights`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn rights(&self) -> Result<Rights, rt::Malformed> {
        rt::View::view(self.record, 52)
    }

    /// `hints`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn hints(&self) -> Result<Hints, rt::Malformed> {
        rt::View::view(self.record, 56)
    }

    /// `domain`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn domain(&self) -> Result<rt::Domain, rt::Malformed> {
        rt::View::view(self.record, 64)
    }
}

impl<'m> rt::View<'m> for EverythingNumbersRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.a()?;
        self.colour()?;
        self.step()?;
        self.rights()?;
        self.hints()?;
        Ok(())
    }
}

/// What answers: everything numbers reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingNumbersReply {
    /// `a`.
    pub a: bool,
    /// `b`.
    pub b: u8,
    /// `c`.
    pub c: u16,
    /// `d`.
    pub d: u32,
    /// `e`.
    pub e: u64,
    /// `f`.
    pub f: i8,
    /// `g`.
    pub g: i16,
    /// `h`.
    pub h: i32,
    /// `i`.
    pub i: i64,
    /// `j`.
    pub j: f32,
    /// `k`.
    pub k: f64,
    /// `colour`.
    pub colour: Colour,
    /// `step`.
    pub step: Step,
    /// `rights`.
    pub rights: Rights,
    /// `hints`.
    pub hints: Hints,
    /// `domain`.
    pub domain: rt::Domain,
}

impl rt::Body for EverythingNumbersReply {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        72
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.a.put(place, at, out);
        self.b.put(place, at + 1, out);
        self.c.put(place, at + 2, out);
        self.d.put(place, at + 4, out);
        self.e.put(place, at + 8, out);
        self.f.put(place, at + 16, out);
        self.g.put(place, at + 18, out);
        self.h.put(place, at + 20, out);
        self.i.put(place, at + 24, out);
        self.j.put(place, at + 32, out);
        self.k.put(place, at + 40, out);
        self.colour.put(place, at + 48, out);
        self.step.put(place, at + 50, out);
        self.rights.put(place, at + 52, out);
        self.hints.put(place, at + 56, out);
        self.domain.put(place, at + 64, out);
    }
}

/// [`EverythingNumbersReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNumbersReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingNumbersReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingNumbersReplyView { record }
    }
}

impl<'m> EverythingNumbersReplyView<'m> {
    /// `a`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn a(&self) -> Result<bool, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `b`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn b(&self) -> Result<u8, rt::Malformed> {
        rt::View::view(self.record, 1)
    }

    /// `c`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn c(&self) -> Result<u16, rt::Malformed> {
        rt::View::view(self.record, 2)
    }

    /// `d`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn d(&self) -> Result<u32, rt::Malformed> {
        rt::View::view(self.record, 4)
    }

    /// `e`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn e(&self) -> Result<u64, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `f`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn f(&self) -> Result<i8, rt::Malformed> {
        rt::View::view(self.record, 16)
    }

    /// `g`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn g(&self) -> Result<i16, rt::Malformed> {
        rt::View::view(self.record, 18)
    }

    /// `h`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn h(&self) -> Result<i32, rt::Malformed> {
        rt::View::view(self.record, 20)
    }

    /// `i`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn i(&self) -> Result<i64, rt::Malformed> {
        rt::View::view(self.record, 24)
    }

    /// `j`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn j(&self) -> Result<f32, rt::Malformed> {
        rt::View::view(self.record, 32)
    }

    /// `k`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn k(&self) -> Result<f64, rt::Malformed> {
        rt::View::view(self.record, 40)
    }

    /// `colour`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn colour(&self) -> Result<Colour, rt::Malformed> {
        rt::View::view(self.record, 48)
    }

    /// `step`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn step(&self) -> Result<Step, rt::Malformed> {
        rt::View::view(self.record, 50)
    }

    /// `rights`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn rights(&self) -> Result<Rights, rt::Malformed> {
        rt::View::view(self.record, 52)
    }

    /// `hints`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn hints(&self) -> Result<Hints, rt::Malformed> {
        rt::View::view(self.record, 56)
    }

    /// `domain`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn domain(&self) -> Result<rt::Domain, rt::Malformed> {
        rt::View::view(self.record, 64)
    }
}

impl<'m> rt::View<'m> for EverythingNumbersReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.a()?;
        self.colour()?;
        self.step()?;
        self.rights()?;
        self.hints()?;
        Ok(())
    }
}

/// What is sent: everything parts request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingPartsRequest<'a> {
    /// `text`, up to 32 bytes.
    pub text: &'a str,
    /// `blob`, up to 32 bytes.
    pub blob: &'a [u8],
    /// `numbers`, up to 8.
    pub numbers: &'a [u16],
    /// `fixed`.
    pub fixed: [i32; 3],
    /// `flags`, up to 9.
    pub flags: &'a [bool],
    /// `entry`.
    pub entry: Entry<'a>,
    /// `entries`, up to 3.
    pub entries: &'a [Entry<'a>],
    /// `shape`.
    pub shape: Shape<'a>,
    /// `shapes`, up to 3.
    pub shapes: &'a [Shape<'a>],
    /// `maybe`.
    pub maybe: Option<u64>,
    /// `maybe_text`.
    pub maybe_text: Option<&'a str>,
    /// `maybe_point`.
    pub maybe_point: Option<Point>,
    /// `maybe_entry`.
    pub maybe_entry: Option<Entry<'a>>,
    /// `matrix`.
    pub matrix: [[u8; 2]; 3],
    /// `nested`, up to 3.
    pub nested: &'a [&'a [u32]],
}

impl rt::Body for EverythingPartsRequest<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        168
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::bytes(self.text.as_bytes(), 32, "EverythingPartsRequest.text")?;
        bytes += rt::encode::measure::bytes(self.blob, 32, "EverythingPartsRequest.blob")?;
        bytes += rt::encode::measure::list(self.numbers, 8, 2, "EverythingPartsRequest.numbers", |_| Ok(0))?;
        bytes += rt::encode::measure::list(self.flags, 9, 1, "EverythingPartsRequest.flags", |_| Ok(0))?;
        bytes += rt::encode::measure::record(&self.entry)?;
        bytes += rt::encode::measure::list(self.entries, 3, 8, "EverythingPartsRequest.entries", rt::encode::measure::record)?;
        bytes += self.shape.measure()?;
        bytes += rt::encode::measure::list(self.shapes, 3, 16, "EverythingPartsRequest.shapes", |item| item.measure())?;
        bytes += rt::encode::measure::optional(self.maybe_text.as_ref(), |item| rt::encode::measure::bytes(item.as_bytes(), 8, "EverythingPartsRequest.maybe_text"))?;
        bytes += rt::encode::measure::optional(self.maybe_entry.as_ref(), rt::encode::measure::record)?;
        bytes += rt::encode::measure::list(self.nested, 3, 8, "EverythingPartsRequest.nested", |item| rt::encode::measure::list(item, 2, 4, "EverythingPartsRequest.nested", |_| Ok(0)))?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.text.put(place, at, out);
        self.blob.put(place, at + 8, out);
        self.numbers.put(place, at + 16, out);
        self.fixed.put(place, at + 24, out);
        self.flags.put(place, at + 40, out);
        self.entry.put(place, at + 48, out);
        self.entries.put(place, at + 56, out);
        self.shape.put(place, at + 64, out);
        self.shapes.put(place, at + 80, out);
        self.maybe.put(place, at + 88, out);
        self.maybe_text.put(place, at + 104, out);
        self.maybe_point.put(place, at + 120, out);
        self.maybe_entry.put(place, at + 136, out);
        self.matrix.put(place, at + 152, out);
        self.nested.put(place, at + 160, out);
    }
}

/// [`EverythingPartsRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingPartsRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingPartsRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingPartsRequestView { record }
    }
}

impl<'m> EverythingPartsRequestView<'m> {
    /// `text`, up to 32 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn text(&self) -> Result<rt::Text<'m, 32>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `blob`, up to 32 bytes.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn blob(&self) -> Result<rt::Blob<'m, 32>, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `numbers`, up to 8.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn numbers(&self) -> Result<rt::List<'m, u16, 8>, rt::Malformed> {
        rt::View::view(self.record, 16)
    }

    /// `fixed`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn fixed(&self) -> Result<rt::Array<'m, i32, 3>, rt::Malformed> {
        rt::View::view(self.record, 24)
    }

    /// `flags`, up to 9.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn flags(&self) -> Result<rt::List<'m, bool, 9>, rt::Malformed> {
        rt::View::view(self.record, 40)
    }

    /// `entry`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn entry(&self) -> Result<EntryView<'m>, rt::Malformed> {
        rt::View::view(self.record, 48)
    }

    /// `entries`, up to 3.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn entries(&self) -> Result<rt::List<'m, EntryView<'m>, 3>, rt::Malformed> {
        rt::View::view(self.record, 56)
    }

    /// `shape`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn shape(&self) -> Result<ShapeView<'m>, rt::Malformed> {
        rt::View::view(self.record, 64)
    }

    /// `shapes`, up to 3.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn shapes(&self) -> Result<rt::List<'m, ShapeView<'m>, 3>, rt::Malformed> {
        rt::View::view(self.record, 80)
    }

    /// `maybe`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn maybe(&self) -> Result<Option<u64>, rt::Malformed> {
        rt::View::view(self.record, 88)
    }

    /// `maybe_text`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn maybe_text(&self) -> Result<Option<rt::Text<'m, 8>>, rt::Malformed> {
        rt::View::view(self.record, 104)
    }

    /// `maybe_point`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn maybe_point(&self) -> Result<Option<PointView<'m>>, rt::Malformed> {
        rt::View::view(self.record, 120)
    }

    /// `maybe_entry`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn maybe_entry(&self) -> Result<Option<EntryView<'m>>, rt::Malformed> {
        rt::View::view(self.record, 136)
    }

    /// `matrix`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn matrix(&self) -> Result<rt::Array<'m, rt::Array<'m, u8, 2>, 3>, rt::Malformed> {
        rt::View::view(self.record, 152)
    }

    /// `nested`, up to 3.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn nested(&self) -> Result<rt::List<'m, rt::List<'m, u32, 2>, 3>, rt::Malformed> {
        rt::View::view(self.record, 160)
    }
}

impl<'m> rt::View<'m> for EverythingPartsRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.text()?.check(budget)?;
        self.blob()?.check(budget)?;
        self.numbers()?.check(budget)?;
        self.fixed()?.check(budget)?;
        self.flags()?.check(budget)?;
        self.entry()?.check(budget)?;
        self.entries()?.check(budget)?;
        self.shape()?.check(budget)?;
        self.shapes()?.check(budget)?;
        self.maybe()?.check(budget)?;
        self.maybe_text()?.check(budget)?;
        self.maybe_point()?.check(budget)?;
        self.maybe_entry()?.check(budget)?;
        self.matrix()?.check(budget)?;
        self.nested()?.check(budget)?;
        Ok(())
    }
}

/// What answers: everything parts reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingPartsReply<'a> {
    /// `entry`.
    pub entry: Entry<'a>,
    /// `shape`.
    pub shape: Shape<'a>,
    /// `maybe_shape`.
    pub maybe_shape: Option<Shape<'a>>,
}

impl rt::Body for EverythingPartsReply<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        48
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += rt::encode::measure::record(&self.entry)?;
        bytes += self.shape.measure()?;
        bytes += rt::encode::measure::optional(self.maybe_shape.as_ref(), |item| item.measure())?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.entry.put(place, at, out);
        self.shape.put(place, at + 8, out);
        self.maybe_shape.put(place, at + 24, out);
    }
}

/// [`EverythingPartsReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingPartsReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingPartsReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingPartsReplyView { record }
    }
}

impl<'m> EverythingPartsReplyView<'m> {
    /// `entry`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn entry(&self) -> Result<EntryView<'m>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }

    /// `shape`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn shape(&self) -> Result<ShapeView<'m>, rt::Malformed> {
        rt::View::view(self.record, 8)
    }

    /// `maybe_shape`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn maybe_shape(&self) -> Result<Option<ShapeView<'m>>, rt::Malformed> {
        rt::View::view(self.record, 24)
    }
}

impl<'m> rt::View<'m> for EverythingPartsReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.entry()?.check(budget)?;
        self.shape()?.check(budget)?;
        self.maybe_shape()?.check(budget)?;
        Ok(())
    }
}

/// What declines: everything parts error.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingPartsError<'a> {
    /// `error`.
    pub error: Failure<'a>,
}

impl rt::Body for EverythingPartsError<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        16
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += self.error.measure()?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.error.put(place, at, out);
    }
}

/// What is sent: everything null request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingNullRequest;

impl rt::Body for EverythingNullRequest {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        0
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        _: &mut rt::encode::Place,
        _: u32,
        _: &mut rt::encode::Out<'_, K>,
    ) {
    }
}

/// [`EverythingNullRequest`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNullRequestView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingNullRequestView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingNullRequestView { record }
    }
}

impl<'m> rt::View<'m> for EverythingNullRequestView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// What answers: everything null reply.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingNullReply;

impl rt::Body for EverythingNullReply {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        0
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        _: &mut rt::encode::Place,
        _: u32,
        _: &mut rt::encode::Out<'_, K>,
    ) {
    }
}

/// [`EverythingNullReply`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNullReplyView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingNullReplyView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingNullReplyView { record }
    }
}

impl<'m> rt::View<'m> for EverythingNullReplyView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// What is sent: everything poke.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingPoke;

impl rt::Body for EverythingPoke {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        0
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        Ok(0)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        _: &mut rt::encode::Place,
        _: u32,
        _: &mut rt::encode::Out<'_, K>,
    ) {
    }
}

/// [`EverythingPoke`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingPokeView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingPokeView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingPokeView { record }
    }
}

impl<'m> rt::View<'m> for EverythingPokeView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        Ok(())
    }
}

/// What is sent: everything drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EverythingDrawn<'a> {
    /// `shape`.
    pub shape: Shape<'a>,
}

impl rt::Body for EverythingDrawn<'_> {
    #[inline(always)]
    fn record_bytes(&self) -> u32 {
        16
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        let mut bytes = 0;
        bytes += self.shape.measure()?;
        Ok(bytes)
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        self.shape.put(place, at, out);
    }
}

/// [`EverythingDrawn`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub struct EverythingDrawnView<'m> {
    record: rt::Record<'m>,
}

impl<'m> From<rt::Record<'m>> for EverythingDrawnView<'m> {
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {
        EverythingDrawnView { record }
    }
}

impl<'m> EverythingDrawnView<'m> {
    /// `shape`.
    ///
    /// # Errors
    /// [`rt::Malformed`]: the peer wrote something that the interface does not have.
    #[inline]
    pub fn shape(&self) -> Result<ShapeView<'m>, rt::Malformed> {
        rt::View::view(self.record, 0)
    }
}

impl<'m> rt::View<'m> for EverythingDrawnView<'m> {
    const BYTES: u32 = 8;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        record.record(at).map(Self::from)
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        self.record.spend(budget)?;
        self.shape()?.check(budget)?;
        Ok(())
    }
}

/// One of several.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Shape<'a> {
    /// `nothing`.
    Nothing,
    /// `number`.
    Number(u64),
    /// `point`.
    Point(Point),
    /// `entry`.
    Entry(Entry<'a>),
    /// `names`.
    Names(&'a [&'a str]),
}

impl Shape<'_> {
    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            Shape::Nothing => Ok(0),
            Shape::Number(_) => Ok(8),
            Shape::Point(_) => Ok(16),
            Shape::Entry(item) => Ok(8 + rt::encode::measure::record(item)?),
            Shape::Names(item) => Ok(8 + rt::encode::measure::list(item, 3, 8, "Shape.names", |item| rt::encode::measure::bytes(item.as_bytes(), 8, "Shape.names"))?),
        }
    }
}

impl rt::Encode for Shape<'_> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        match self {
            Shape::Nothing => place.bits(out, at, 1),
            Shape::Number(item) => rt::encode::put_case(2, item, place, at, out),
            Shape::Point(item) => rt::encode::put_case(3, item, place, at, out),
            Shape::Entry(item) => rt::encode::put_case(4, item, place, at, out),
            Shape::Names(item) => rt::encode::put_case(5, item, place, at, out),
        }
    }
}

/// [`Shape`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub enum ShapeView<'m> {
    /// `nothing`.
    Nothing,
    /// `number`.
    Number(u64),
    /// `point`.
    Point(PointView<'m>),
    /// `entry`.
    Entry(EntryView<'m>),
    /// `names`.
    Names(rt::List<'m, rt::Text<'m, 8>, 3>),
    /// A case that this side does not know: the peer is newer.
    Unknown(u32),
}

impl<'m> rt::View<'m> for ShapeView<'m> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        let (ordinal, inside) = record.case(at)?;
        Ok(match ordinal {
            1 => inside.exactly(0)?.stands_for(ShapeView::Nothing),
            2 => ShapeView::Number(rt::View::view(inside.exactly(8)?, 0)?),
            3 => ShapeView::Point(rt::View::view(inside.exactly(16)?, 0)?),
            4 => ShapeView::Entry(rt::View::view(inside.exactly(8)?, 0)?),
            5 => ShapeView::Names(rt::View::view(inside.exactly(8)?, 0)?),
            other => ShapeView::Unknown(other),
        })
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        match self {
            ShapeView::Nothing => Ok(()),
            ShapeView::Number(item) => {
                budget.spend(8)?;
                item.check(budget)
            }
            ShapeView::Point(item) => {
                budget.spend(16)?;
                item.check(budget)
            }
            ShapeView::Entry(item) => {
                budget.spend(8)?;
                item.check(budget)
            }
            ShapeView::Names(item) => {
                budget.spend(8)?;
                item.check(budget)
            }
            ShapeView::Unknown(_) => Ok(()),
        }
    }
}

/// Why a call failed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Failure<'a> {
    /// `refused`.
    Refused,
    /// `retry`.
    Retry(u32),
    /// `because`.
    Because(&'a str),
}

impl Failure<'_> {
    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            Failure::Refused => Ok(0),
            Failure::Retry(_) => Ok(8),
            Failure::Because(item) => Ok(8 + rt::encode::measure::bytes(item.as_bytes(), 32, "Failure.because")?),
        }
    }
}

impl rt::Encode for Failure<'_> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {
        match self {
            Failure::Refused => place.bits(out, at, 1),
            Failure::Retry(item) => rt::encode::put_case(2, item, place, at, out),
            Failure::Because(item) => rt::encode::put_case(3, item, place, at, out),
        }
    }
}

/// [`Failure`] where it lies in a message.
#[derive(Clone, Copy, Debug)]
pub enum FailureView<'m> {
    /// `refused`.
    Refused,
    /// `retry`.
    Retry(u32),
    /// `because`.
    Because(rt::Text<'m, 32>),
    /// A case that this side does not know: the peer is newer.
    Unknown(u32),
}

impl<'m> rt::View<'m> for FailureView<'m> {
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {
        let (ordinal, inside) = record.case(at)?;
        Ok(match ordinal {
            1 => inside.exactly(0)?.stands_for(FailureView::Refused),
            2 => FailureView::Retry(rt::View::view(inside.exactly(8)?, 0)?),
            3 => FailureView::Because(rt::View::view(inside.exactly(8)?, 0)?),
            other => FailureView::Unknown(other),
        })
    }

    fn check(&self, budget: &mut rt::Budget) -> Result<(), rt::Malformed> {
        match self {
            FailureView::Refused => Ok(()),
            FailureView::Retry(item) => {
                budget.spend(8)?;
                item.check(budget)
            }
            FailureView::Because(item) => {
                budget.spend(8)?;
                item.check(budget)
            }
            FailureView::Unknown(_) => Ok(()),
        }
    }
}

/// Every type of the language.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Everything {
    /// Package and name.
    pub const NAME: &'static str = "tombolo.testing.Everything";
    /// Grows when peers of before cannot be served.
    pub const VERSION: u32 = 1;
    /// What both sides of a channel must have in common, of package, name and version.
    pub const HASH: u64 = 0x0b1c7ef0df4148c5;
    /// Of everything that peers can notice.
    pub const FINGERPRINT: u64 = 0xc59ebf719ba11b2f;
    /// What the link must be able to carry.
    pub const NEEDS: rt::client::Needs = rt::client::Needs {
        carries: rt::Carries { capabilities: false, buffers: false },
        message_bytes: 176,
    };
}

/// The call `numbers`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNumbers;

impl rt::Method for EverythingNumbers {
    const ORDINAL: u16 = 1;
    const IDEMPOTENT: bool = true;
    type Reply<'m> = EverythingNumbersReplyView<'m>;
    type Error<'m> = rt::Never;
}

/// The call `parts`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct EverythingParts;

impl rt::Method for EverythingParts {
    const ORDINAL: u16 = 2;
    const IDEMPOTENT: bool = false;
    type Reply<'m> = EverythingPartsReplyView<'m>;
    type Error<'m> = FailureView<'m>;
}

/// The call `null`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct EverythingNull;

impl rt::Method for EverythingNull {
    const ORDINAL: u16 = 3;
    const IDEMPOTENT: bool = true;
    type Reply<'m> = EverythingNullReplyView<'m>;
    type Error<'m> = rt::Never;
}

/// The calling side of [`Everything`]. `E` takes its events.
#[derive(Debug)]
pub struct EverythingClient<P, E = ()> {
    client: rt::Client<P>,
    events: E,
}

impl<P: rt::Port, E: EverythingEvents> EverythingClient<P, E> {
    /// A client over a channel that was opened with [`Everything::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, events: E) -> Result<Self, rt::BindError> {
        let client = rt::Client::bind(port, Everything::NEEDS, rt::client::MAX_IN_FLIGHT)?;
        Ok(EverythingClient { client, events })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.client.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.client.port()
    }

    /// What takes the events.
    pub fn events(&mut self) -> &mut E {
        &mut self.events
    }

    /// Takes what has arrived, without waiting.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<(), P::Error> {
        let Self { client, events } = self;
        client.poll(&mut |ordinal, body| events.dispatch(ordinal, body))
    }

    /// Whether waiting for a call would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &rt::Pending<M>) -> bool {
        self.client.is_ready(call)
    }

    /// Gives a call up; the server is told.
    pub fn cancel<M>(&mut self, call: rt::Pending<M>) {
        self.client.cancel(call);
    }

    /// Numbers come back as they are.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn numbers<R>(
        &mut self,
        request: &EverythingNumbersRequest,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<EverythingNumbersReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_numbers(request, timeout)?;
        self.wait_numbers(call, read)
    }

    /// Calls `numbers` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_numbers(
        &mut self,
        request: &EverythingNumbersRequest,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<EverythingNumbers>, rt::CallError<P::Error>> {
        self.client.start::<EverythingNumbers>(request, timeout)
    }

    /// Waits for the answer to `numbers`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_numbers<R>(
        &mut self,
        call: rt::Pending<EverythingNumbers>,
        read: impl FnOnce(Result<EverythingNumbersReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<EverythingNumbers, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Text, bytes and what is made of them.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn parts<R>(
        &mut self,
        request: &EverythingPartsRequest<'_>,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<EverythingPartsReplyView<'_>, FailureView<'_>>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_parts(request, timeout)?;
        self.wait_parts(call, read)
    }

    /// Calls `parts` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_parts(
        &mut self,
        request: &EverythingPartsRequest<'_>,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<EverythingParts>, rt::CallError<P::Error>> {
        self.client.start::<EverythingParts>(request, timeout)
    }

    /// Waits for the answer to `parts`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_parts<R>(
        &mut self,
        call: rt::Pending<EverythingParts>,
        read: impl FnOnce(Result<EverythingPartsReplyView<'_>, FailureView<'_>>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<EverythingParts, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Nothing, both ways.
    ///
    /// The answer is read where it lies.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn null<R>(
        &mut self,
        request: &EverythingNullRequest,
        timeout: core::time::Duration,
        read: impl FnOnce(Result<EverythingNullReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let call = self.start_null(request, timeout)?;
        self.wait_null(call, read)
    }

    /// Calls `null` without waiting for its answer.
    ///
    /// # Errors
    /// [`rt::CallError`]: nothing was sent.
    #[inline]
    pub fn start_null(
        &mut self,
        request: &EverythingNullRequest,
        timeout: core::time::Duration,
    ) -> Result<rt::Pending<EverythingNull>, rt::CallError<P::Error>> {
        self.client.start::<EverythingNull>(request, timeout)
    }

    /// Waits for the answer to `null`.
    ///
    /// # Errors
    /// [`rt::CallError`]; an error that the interface declares is given to `read`.
    #[inline]
    pub fn wait_null<R>(
        &mut self,
        call: rt::Pending<EverythingNull>,
        read: impl FnOnce(Result<EverythingNullReplyView<'_>, rt::Never>) -> Result<R, rt::Malformed>,
    ) -> Result<R, rt::CallError<P::Error>> {
        let Self { client, events } = self;
        client.wait::<EverythingNull, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
    }

    /// Nothing, one way.
    ///
    /// # Errors
    /// [`rt::CallError`]: it was not sent.
    pub fn poke(
        &mut self,
        message: &EverythingPoke,
        timeout: core::time::Duration,
    ) -> Result<(), rt::CallError<P::Error>> {
        self.client.tell(7, message, timeout)
    }
}

/// Takes the events of [`Everything`]; `()` takes none.
pub trait EverythingEvents {
    /// A shape, the other way.
    ///
    /// # Errors
    /// It could not be read; it is counted.
    fn drawn(&mut self, event: EverythingDrawnView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
    /// Passes an event on; false if its ordinal is unknown.
    ///
    /// # Errors
    /// It could not be read.
    fn dispatch(&mut self, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            8 => self.drawn(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

impl EverythingEvents for () {}

/// Serves [`Everything`].
pub trait EverythingHandler {
    /// Numbers come back as they are.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn numbers(
        &mut self,
        call: rt::Later,
        request: EverythingNumbersRequestView<'_>,
    ) -> Result<EverythingNumbersReply, rt::Decline<rt::Never>>;

    /// Text, bytes and what is made of them.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn parts<'s>(
        &'s mut self,
        call: rt::Later,
        request: EverythingPartsRequestView<'_>,
    ) -> Result<EverythingPartsReply<'s>, rt::Decline<Failure<'s>>>;

    /// Nothing, both ways.
    ///
    /// # Errors
    /// What declines it, or that it is answered later.
    fn null(
        &mut self,
        call: rt::Later,
        request: EverythingNullRequestView<'_>,
    ) -> Result<EverythingNullReply, rt::Decline<rt::Never>>;

    /// Nothing, one way.
    ///
    /// # Errors
    /// It could not be read; it is counted.
    fn poke(&mut self, message: EverythingPokeView<'_>) -> Result<(), rt::Malformed>;
}

enum EverythingReply<'s> {
    Numbers(EverythingNumbersReply),
    Parts(EverythingPartsReply<'s>),
    Null(EverythingNullReply),
}

impl rt::Body for EverythingReply<'_> {
    #[inline]
    fn record_bytes(&self) -> u32 {
        match self {
            EverythingReply::Numbers(body) => body.record_bytes(),
            EverythingReply::Parts(body) => body.record_bytes(),
            EverythingReply::Null(body) => body.record_bytes(),
        }
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            EverythingReply::Numbers(body) => body.measure(),
            EverythingReply::Parts(body) => body.measure(),
            EverythingReply::Null(body) => body.measure(),
        }
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        match self {
            EverythingReply::Numbers(body) => body.fields(place, at, out),
            EverythingReply::Parts(body) => body.fields(place, at, out),
            EverythingReply::Null(body) => body.fields(place, at, out),
        }
    }
}

enum EverythingFailure<'s> {
    Parts(EverythingPartsError<'s>),
}

impl rt::Body for EverythingFailure<'_> {
    #[inline]
    fn record_bytes(&self) -> u32 {
        match self {
            EverythingFailure::Parts(body) => body.record_bytes(),
        }
    }

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {
        match self {
            EverythingFailure::Parts(body) => body.measure(),
        }
    }

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {
        match self {
            EverythingFailure::Parts(body) => body.fields(place, at, out),
        }
    }
}

/// The serving side of [`Everything`].
#[derive(Debug)]
pub struct EverythingServer<P> {
    server: rt::Server<P>,
}

impl<P: rt::Port> EverythingServer<P> {
    /// A server over a channel that was opened with [`Everything::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P) -> Result<Self, rt::BindError> {
        rt::Server::bind(port, Everything::NEEDS).map(|server| EverythingServer { server })
    }

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {
        self.server.counts()
    }

    /// The channel.
    pub fn port(&mut self) -> &mut P {
        self.server.port()
    }

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding(&self, call: rt::Later) -> bool {
        self.server.is_outstanding(call)
    }

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`rt::ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve_one(
        &mut self,
        handler: &mut impl EverythingHandler,
        timeout: core::time::Duration,
    ) -> Result<bool, rt::ServeError<P::Error>> {
        self.server.serve::<EverythingReply<'_>, EverythingFailure<'_>>(timeout, |header, call, body| match (header.kind, header.ordinal) {
            (rt::Kind::Call, 1) => rt::server::Answer::of(
                handler.numbers(call, body.into()),
                EverythingReply::Numbers,
                |never| match never {},
            ),
            (rt::Kind::Call, 2) => rt::server::Answer::of(
                handler.parts(call, body.into()),
                EverythingReply::Parts,
                |error| EverythingFailure::Parts(EverythingPartsError { error }),
            ),
            (rt::Kind::Call, 3) => rt::server::Answer::of(
                handler.null(call, body.into()),
                EverythingReply::Null,
                |never| match never {},
            ),
            (rt::Kind::Message, 7) => rt::server::Answer::of_message(handler.poke(body.into())),
            (rt::Kind::Call, _) => rt::server::Answer::Fault(rt::Fault::Unknown),
            _ => rt::server::Answer::Unknown,
        })
    }

    /// Answers a call of `numbers` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_numbers(
        &mut self,
        call: rt::Later,
        result: Result<EverythingNumbersReply, rt::Never>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 1, result, timeout)
    }

    /// Answers a call of `parts` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_parts(
        &mut self,
        call: rt::Later,
        result: Result<EverythingPartsReply<'_>, Failure<'_>>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 2, result.map_err(|error| EverythingPartsError { error }), timeout)
    }

    /// Answers a call of `null` later.
    ///
    /// # Errors
    /// [`rt::ReplyError`]: it was not sent.
    pub fn reply_null(
        &mut self,
        call: rt::Later,
        result: Result<EverythingNullReply, rt::Never>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::ReplyError<P::Error>> {
        self.server.reply(call, 3, result, timeout)
    }

    /// A shape, the other way.
    ///
    /// # Errors
    /// [`rt::CallError`]: it was not sent.
    pub fn drawn(
        &mut self,
        message: &EverythingDrawn<'_>,
        timeout: core::time::Duration,
    ) -> Result<(), rt::CallError<P::Error>> {
        self.server.tell(8, message, timeout)
    }
}
