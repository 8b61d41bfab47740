//! Every type of the language in every position, for tests of the back ends.
//!
//! Written by `tombolo idl compile` from interfaces/everything.tbl.

use tombolo_interface as rt;

rt::number! {
    /// An enumeration without unknown values.
    pub enum Colour: u8;
    /// `none`.
    None = 0,
    /// `red`.
    Red = 1,
    /// The value after red.
    Green = 2,
}

rt::number! {
    /// An enumeration that may get further values.
    pub open Step: i16;
    /// `back`.
    BACK = -1,
    /// `stay`.
    STAY = 0,
    /// `forth`.
    FORTH = 1,
}

rt::number! {
    /// Flags without unknown bits.
    pub flags Rights: u16 in 0x8003;
    /// `read`.
    READ = 1,
    /// `write`.
    WRITE = 2,
    /// `grant`.
    GRANT = 32768,
}

rt::number! {
    /// Flags that may get further bits.
    pub flags Hints: u64 in 0xffffffffffffffff;
    /// `near`.
    NEAR = 1,
    /// `far`.
    FAR = 9223372036854775808,
}

rt::record! {
    /// A structure that is encoded inline.
    pub struct Point => PointView<'m>, inline 12 / 4;
    /// `x`.
    x @ 0: f32 => f32,
    /// `y`.
    y @ 4: f32 => f32,
    /// `tag`.
    tag @ 8: u8 => u8,
}

rt::record! {
    /// A structure that may get further fields.
    pub struct Entry<'a> => EntryView<'m>, apart 24 / 8;
    /// `name`, up to 16 bytes.
    name @ 0: &'a str => rt::Text<'m, 16>,
    /// `points`, up to 4.
    points @ 8: &'a [Point] => rt::List<'m, PointView<'m>, 4>,
    /// `colour`.
    colour @ 16: Option<Colour> => Option<Colour>,
}

rt::record! {
    /// The parameters of a message: everything numbers request.
    pub struct EverythingNumbersRequest => EverythingNumbersRequestView<'m>, apart 72 / 8;
    /// `a`.
    a @ 0: bool => bool,
    /// `b`.
    b @ 1: u8 => u8,
    /// `c`.
    c @ 2: u16 => u16,
    /// `d`.
    d @ 4: u32 => u32,
    /// `e`.
    e @ 8: u64 => u64,
    /// `f`.
    f @ 16: i8 => i8,
    /// `g`.
    g @ 18: i16 => i16,
    /// `h`.
    h @ 20: i32 => i32,
    /// `i`.
    i @ 24: i64 => i64,
    /// `j`.
    j @ 32: f32 => f32,
    /// `k`.
    k @ 40: f64 => f64,
    /// `colour`.
    colour @ 48: Colour => Colour,
    /// `step`.
    step @ 50: Step => Step,
    /// `rights`.
    rights @ 52: Rights => Rights,
    /// `hints`.
    hints @ 56: Hints => Hints,
    /// `domain`.
    domain @ 64: rt::Domain => rt::Domain,
}

rt::record! {
    /// The results of a call: everything numbers reply.
    pub struct EverythingNumbersReply => EverythingNumbersReplyView<'m>, apart 72 / 8;
    /// `a`.
    a @ 0: bool => bool,
    /// `b`.
    b @ 1: u8 => u8,
    /// `c`.
    c @ 2: u16 => u16,
    /// `d`.
    d @ 4: u32 => u32,
    /// `e`.
    e @ 8: u64 => u64,
    /// `f`.
    f @ 16: i8 => i8,
    /// `g`.
    g @ 18: i16 => i16,
    /// `h`.
    h @ 20: i32 => i32,
    /// `i`.
    i @ 24: i64 => i64,
    /// `j`.
    j @ 32: f32 => f32,
    /// `k`.
    k @ 40: f64 => f64,
    /// `colour`.
    colour @ 48: Colour => Colour,
    /// `step`.
    step @ 50: Step => Step,
    /// `rights`.
    rights @ 52: Rights => Rights,
    /// `hints`.
    hints @ 56: Hints => Hints,
    /// `domain`.
    domain @ 64: rt::Domain => rt::Domain,
}

rt::record! {
    /// The parameters of a message: everything parts request.
    pub struct EverythingPartsRequest<'a> => EverythingPartsRequestView<'m>, apart 168 / 8;
    /// `text`, up to 32 bytes.
    text @ 0: &'a str => rt::Text<'m, 32>,
    /// `blob`, up to 32 bytes.
    blob @ 8: &'a [u8] => rt::Blob<'m, 32>,
    /// `numbers`, up to 8.
    numbers @ 16: &'a [u16] => rt::List<'m, u16, 8>,
    /// `fixed`.
    fixed @ 24: [i32; 3] => rt::Array<'m, i32, 3>,
    /// `flags`, up to 9.
    flags @ 40: &'a [bool] => rt::List<'m, bool, 9>,
    /// `entry`.
    entry @ 48: Entry<'a> => EntryView<'m>,
    /// `entries`, up to 3.
    entries @ 56: &'a [Entry<'a>] => rt::List<'m, EntryView<'m>, 3>,
    /// `shape`.
    shape @ 64: Shape<'a> => ShapeView<'m>,
    /// `shapes`, up to 3.
    shapes @ 80: &'a [Shape<'a>] => rt::List<'m, ShapeView<'m>, 3>,
    /// `maybe`.
    maybe @ 88: Option<u64> => Option<u64>,
    /// `maybe_text`.
    maybe_text @ 104: Option<&'a str> => Option<rt::Text<'m, 8>>,
    /// `maybe_point`.
    maybe_point @ 120: Option<Point> => Option<PointView<'m>>,
    /// `maybe_entry`.
    maybe_entry @ 136: Option<Entry<'a>> => Option<EntryView<'m>>,
    /// `matrix`.
    matrix @ 152: [[u8; 2]; 3] => rt::Array<'m, rt::Array<'m, u8, 2>, 3>,
    /// `nested`, up to 3.
    nested @ 160: &'a [&'a [u32]] => rt::List<'m, rt::List<'m, u32, 2>, 3>,
}

rt::record! {
    /// The results of a call: everything parts reply.
    pub struct EverythingPartsReply<'a> => EverythingPartsReplyView<'m>, apart 48 / 8;
    /// `entry`.
    entry @ 0: Entry<'a> => EntryView<'m>,
    /// `shape`.
    shape @ 8: Shape<'a> => ShapeView<'m>,
    /// `maybe_shape`.
    maybe_shape @ 24: Option<Shape<'a>> => Option<ShapeView<'m>>,
}

rt::record! {
    /// The parameters of a message: everything null request.
    pub struct EverythingNullRequest => EverythingNullRequestView<'m>, apart 0 / 8;
}

rt::record! {
    /// The results of a call: everything null reply.
    pub struct EverythingNullReply => EverythingNullReplyView<'m>, apart 0 / 8;
}

rt::record! {
    /// The parameters of a message: everything poke.
    pub struct EverythingPoke => EverythingPokeView<'m>, apart 0 / 8;
}

rt::record! {
    /// The parameters of a message: everything drawn.
    pub struct EverythingDrawn<'a> => EverythingDrawnView<'m>, apart 16 / 8;
    /// `shape`.
    shape @ 0: Shape<'a> => ShapeView<'m>,
}

rt::union! {
    /// A union with cases of several types.
    pub enum Shape<'a> => 'm ShapeView<'m>;
    /// `nothing`.
    1 => Nothing,
    /// `number`.
    2 => Number(item: u64 => u64),
    /// `point`.
    3 => Point(item: Point => PointView<'m>),
    /// `entry`.
    4 => Entry(item: Entry<'a> => EntryView<'m>),
    /// `names`.
    5 => Names(item: &'a [&'a str] => rt::List<'m, rt::Text<'m, 8>, 3>),
}

rt::union! {
    /// Why a call failed.
    pub enum Failure<'a> => 'm FailureView<'m>;
    /// `refused`.
    1 => Refused,
    /// `retry`.
    2 => Retry(item: u32 => u32),
    /// `because`.
    3 => Because(item: &'a str => rt::Text<'m, 32>),
}

rt::interface! {
    /// Messages with every type of the language.
    pub struct Everything = "tombolo.testing.Everything" version 1;
    hash 0x0b1c7ef0df4148c5, fingerprint 0xc59ebf719ba11b2f;
    capabilities false, buffers false, message_bytes 176;
    client EverythingClient<EverythingEvents>, server EverythingServer;
}

rt::method! {
    /// Returns the numbers unchanged.
    pub struct EverythingNumbers of Everything @ 1, idempotent true;
    EverythingNumbersRequest => EverythingNumbersRequestView;
    EverythingNumbersReply => EverythingNumbersReplyView;
    error rt::Never => rt::Never;
}

rt::method! {
    /// Exchanges text, bytes and composite types.
    pub struct EverythingParts of Everything @ 2, idempotent false;
    EverythingPartsRequest<'_> => EverythingPartsRequestView;
    EverythingPartsReply<'a> => EverythingPartsReplyView;
    error Failure<'a> => FailureView<'m>;
}

rt::method! {
    /// Sends nothing and returns nothing.
    pub struct EverythingNull of Everything @ 3, idempotent true;
    EverythingNullRequest => EverythingNullRequestView;
    EverythingNullReply => EverythingNullReplyView;
    error rt::Never => rt::Never;
}

rt::one_way! { OneWay EverythingPoke, of Everything @ 7 }

rt::one_way! { Event EverythingDrawn<'_>, of Everything @ 8 }

impl<P: rt::Port, E: EverythingEvents> EverythingClient<P, E> {
    /// Returns the numbers unchanged.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn numbers(&mut self, request: &EverythingNumbersRequest) -> rt::Called<'_, EverythingNumbers, P::Error> {
        self.0.call(request)
    }

    /// Exchanges text, bytes and composite types.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn parts(&mut self, request: &EverythingPartsRequest<'_>) -> rt::Called<'_, EverythingParts, P::Error> {
        self.0.call(request)
    }

    /// Sends nothing and returns nothing.
    ///
    /// # Errors
    /// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
    #[inline]
    pub fn null(&mut self, request: &EverythingNullRequest) -> rt::Called<'_, EverythingNull, P::Error> {
        self.0.call(request)
    }

    /// A message without content.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn poke(&mut self, message: &EverythingPoke) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}

/// Handles the events of [`Everything`]; `()` ignores them.
pub trait EverythingEvents {
    /// An event with a shape.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
    fn drawn(&mut self, event: EverythingDrawnView<'_>) -> Result<(), rt::Malformed> {
        let _ = event;
        Ok(())
    }
}

impl EverythingEvents for () {}

impl<E: EverythingEvents + ?Sized> rt::Hears<E> for Everything {
    #[inline]
    fn hear(events: &mut E, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {
        match ordinal {
            8 => events.drawn(body.into()).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Handles the calls and messages of [`Everything`].
pub trait EverythingHandler {
    /// Returns the numbers unchanged.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn numbers(&mut self, call: rt::Call<'_, EverythingNumbers>) -> Result<rt::Response<EverythingNumbersReply>, rt::Decline<rt::Never>>;

    /// Exchanges text, bytes and composite types.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn parts<'s>(&'s mut self, call: rt::Call<'_, EverythingParts>) -> Result<rt::Response<EverythingPartsReply<'s>>, rt::Decline<Failure<'s>>>;

    /// Sends nothing and returns nothing.
    ///
    /// # Errors
    /// The call is declined with the error.
    fn null(&mut self, call: rt::Call<'_, EverythingNull>) -> Result<rt::Response<EverythingNullReply>, rt::Decline<rt::Never>>;

    /// A message without content.
    ///
    /// # Errors
    /// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
    fn poke(&mut self, message: EverythingPokeView<'_>) -> Result<(), rt::Malformed>;
}

rt::answers! {
    /// Answers of a server of [`Everything`].
    pub enum EverythingAnswer<'s>;
    NumbersReply(EverythingNumbersReply),
    PartsReply(EverythingPartsReply<'s>),
    PartsDeclined(rt::Declined<EverythingParts, Failure<'s>>),
    NullReply(EverythingNullReply),
}

impl<H: EverythingHandler + ?Sized> rt::Serves<H> for Everything {
    type Answers<'s>
        = EverythingAnswer<'s>
    where
        H: 's;

    #[inline]
    fn dispatch<'s>(handler: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {
        match request.what() {
            (rt::Kind::Call, 1) => {
                let result = handler.numbers(request.call());
                rt::Outcome::of_sure(result, EverythingAnswer::NumbersReply)
            }
            (rt::Kind::Call, 2) => {
                let result = handler.parts(request.call());
                rt::Outcome::of(result, EverythingAnswer::PartsReply, EverythingAnswer::PartsDeclined)
            }
            (rt::Kind::Call, 3) => {
                let result = handler.null(request.call());
                rt::Outcome::of_sure(result, EverythingAnswer::NullReply)
            }
            (rt::Kind::Message, 7) => rt::Outcome::of_message(handler.poke(request.view())),
            _ => request.unknown(),
        }
    }
}

impl<P: rt::Port> EverythingServer<P> {
    /// An event with a shape.
    ///
    /// # Errors
    /// [`rt::CallError`] if the message was not sent.
    pub fn drawn(&mut self, message: &EverythingDrawn<'_>) -> Result<(), rt::CallError<P::Error>> {
        self.0.tell(message)
    }
}
