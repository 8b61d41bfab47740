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

rt::owned_record! {
    /// A structure that is encoded inline.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct Point => PointView<'m>, inline 12 / 4;
    /// `x`.
    x @ 0: f32 => f32,
    /// `y`.
    y @ 4: f32 => f32,
    /// `tag`.
    tag @ 8: u8 => u8,
}

rt::owned_record! {
    /// A structure that may get further fields.
    #[derive(Clone, PartialEq, Debug)]
    pub struct Entry => EntryView<'m>, apart 24 / 8;
    /// `name`, up to 16 bytes.
    name @ 0: rt::String => rt::Text<'m, 16>,
    /// `points`, up to 4.
    points @ 8: rt::Vec<Point> => rt::List<'m, PointView<'m>, 4>,
    /// `colour`.
    colour @ 16: Option<Colour> => Option<Colour>,
}

rt::owned_union! {
    /// A union with cases of several types.
    #[derive(Clone, PartialEq, Debug)]
    pub enum Shape => 'm ShapeView<'m>;
    /// `nothing`.
    1 => Nothing,
    /// `number`.
    2 => Number(item: u64 => u64),
    /// `point`.
    3 => Point(item: Point => PointView<'m>),
    /// `entry`.
    4 => Entry(item: Entry => EntryView<'m>),
    /// `names`.
    5 => Names(item: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 8>, 3>),
}

rt::owned_union! {
    /// Why a call failed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Failure => 'm FailureView<'m>;
    /// `refused`.
    1 => Refused,
    /// `retry`.
    2 => Retry(item: u32 => u32),
    /// `because`.
    3 => Because(item: rt::String => rt::Text<'m, 32>),
}

/// Fingerprint of `tombolo.testing.Everything`: a hash of all declarations that affect its peers.
pub const EVERYTHING_FINGERPRINT: u64 = 0xc59ebf719ba11b2f;

rt::owned_messages! {
    /// Messages from client to server in the interface `Everything`.
    #[derive(Clone, PartialEq, Debug)]
    pub enum EverythingRequest, 'm;
    /// Returns the numbers unchanged.
    Call 1 => Numbers, 72 {
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
        domain @ 64: rt::DomainId => rt::Domain,
    };
    /// Exchanges text, bytes and composite types.
    Call 2 => Parts, 168 {
        /// `text`, up to 32 bytes.
        text @ 0: rt::String => rt::Text<'m, 32>,
        /// `blob`, up to 32 bytes.
        blob @ 8: rt::Vec<u8> => rt::Blob<'m, 32>,
        /// `numbers`, up to 8.
        numbers @ 16: rt::Vec<u16> => rt::List<'m, u16, 8>,
        /// `fixed`.
        fixed @ 24: [i32; 3] => rt::Array<'m, i32, 3>,
        /// `flags`, up to 9.
        flags @ 40: rt::Vec<bool> => rt::List<'m, bool, 9>,
        /// `entry`.
        entry @ 48: Entry => EntryView<'m>,
        /// `entries`, up to 3.
        entries @ 56: rt::Vec<Entry> => rt::List<'m, EntryView<'m>, 3>,
        /// `shape`.
        shape @ 64: Shape => ShapeView<'m>,
        /// `shapes`, up to 3.
        shapes @ 80: rt::Vec<Shape> => rt::List<'m, ShapeView<'m>, 3>,
        /// `maybe`.
        maybe @ 88: Option<u64> => Option<u64>,
        /// `maybe_text`.
        maybe_text @ 104: Option<rt::String> => Option<rt::Text<'m, 8>>,
        /// `maybe_point`.
        maybe_point @ 120: Option<Point> => Option<PointView<'m>>,
        /// `maybe_entry`.
        maybe_entry @ 136: Option<Entry> => Option<EntryView<'m>>,
        /// `matrix`.
        matrix @ 152: [[u8; 2]; 3] => rt::Array<'m, rt::Array<'m, u8, 2>, 3>,
        /// `nested`, up to 3.
        nested @ 160: rt::Vec<rt::Vec<u32>> => rt::List<'m, rt::List<'m, u32, 2>, 3>,
    };
    /// Sends nothing and returns nothing.
    Call 3 => Null;
    /// A message without content.
    Message 7 => Poke;
}

impl EverythingRequest {
    /// The ordinal of `numbers`.
    pub const NUMBERS: u16 = 1;
    /// The ordinal of `parts`.
    pub const PARTS: u16 = 2;
    /// The ordinal of `null`.
    pub const NULL: u16 = 3;
    /// The ordinal of `poke`.
    pub const POKE: u16 = 7;
}

rt::owned_messages! {
    /// Messages from server to client in the interface `Everything`.
    #[derive(Clone, PartialEq, Debug)]
    pub enum EverythingReply, 'm;
    /// Reply to [`EverythingRequest::Numbers`].
    Reply 1 => Numbers, 72 {
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
        domain @ 64: rt::DomainId => rt::Domain,
    };
    /// Reply to [`EverythingRequest::Parts`].
    Reply 2 => Parts, 48 {
        /// `entry`.
        entry @ 0: Entry => EntryView<'m>,
        /// `shape`.
        shape @ 8: Shape => ShapeView<'m>,
        /// `maybe_shape`.
        maybe_shape @ 24: Option<Shape> => Option<ShapeView<'m>>,
    };
    /// An event with a shape.
    Message 8 => Drawn, 16 {
        /// `shape`.
        shape @ 0: Shape => ShapeView<'m>,
    };
    /// Reply to a call without results.
    Reply 3 => Done;
    /// Reply to a call that was declined.
    Error 2 => Failed, 16 {
        /// `failure`.
        failure @ 0: Failure => FailureView<'m>,
    };
}
