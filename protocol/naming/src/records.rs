//! Records of names, and queries for them.
//!
//! Written by `tombolo idl compile` from interfaces/control/records.tbl.

use tombolo_interface as rt;

/// The most bytes of a name in a request. Valid names are shorter; the monitor refuses longer ones with a
/// fault.
pub const MAX_GIVEN_NAME: u64 = 1024;

/// The most bytes of a pattern in a request; above the limit for valid patterns.
pub const MAX_GIVEN_PATTERN: u64 = 4096;

/// The most bytes of a value in a request; above the limit for valid values.
pub const MAX_GIVEN_VALUE: u64 = 20480;

/// The most bytes of any text; limited by the longest message.
pub const MAX_TEXT: u64 = 61440;

/// The most attributes or constraints in a request; above the limit for valid requests.
pub const MAX_GIVEN_ATTRIBUTES: u64 = 128;

/// The most elements of one page of a list.
pub const MAX_PAGE: u64 = 256;

/// The most holders that are listed; limited by the longest message.
pub const MAX_HOLDERS: u64 = 7680;

/// The most arguments or variables of a program.
pub const MAX_ARGUMENTS: u64 = 4096;

rt::number! {
    /// A comparison of two values.
    pub enum Comparison: u8;
    /// `==`, also written `:`
    Equal = 0,
    /// `!=`
    NotEqual = 1,
    /// `<`
    Less = 2,
    /// `<=`
    LessOrEqual = 3,
    /// `>`
    Greater = 4,
    /// `>=`
    GreaterOrEqual = 5,
}

rt::owned_record! {
    /// A length of time.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Duration => DurationView<'m>, inline 8 / 8;
    /// In nanoseconds.
    ns @ 0: u64 => u64,
}

rt::owned_record! {
    /// A floating-point number with a total order. Not NaN.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct Float => FloatView<'m>, inline 8 / 8;
    /// The number; not NaN.
    value @ 0: f64 => f64,
}

rt::owned_pair! {
    Attribute => AttributeView<'m>, inline 24 / 8;
    /// The name.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// The value.
    value @ 8: Value => ValueView<'m>,
}

rt::record_view! {
    TestCompare => TestCompareView<'m>, inline 24 / 8;
    /// `comparison`.
    comparison @ 0 => Comparison,
    /// The value on the right.
    value @ 8 => ValueView<'m>,
}

rt::owned_record! {
    /// A condition on one attribute.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Constraint => ConstraintView<'m>, inline 24 / 8;
    /// `attribute`, up to 1024 bytes.
    attribute @ 0: rt::String => rt::Text<'m, 1024>,
    /// The test that it must pass.
    test @ 8: Test => TestView<'m>,
}

rt::owned_record! {
    /// Selects records: by name, and by constraints that must all hold.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Query => QueryView<'m>, inline 24 / 8;
    /// The names.
    name @ 0: NamePattern => NamePatternView<'m>,
    /// The constraints on the attributes.
    constraints @ 16: rt::Vec<Constraint> => rt::List<'m, ConstraintView<'m>, 128>,
}

rt::owned_record! {
    /// A name and its attributes.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Record => RecordView<'m>, inline 48 / 8;
    /// The name, unique in its scope.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// The attributes.
    attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
    /// Increases with every change in the scope, so no two states of a record have the same version.
    version @ 16: u64 => u64,
    /// The domain whose end deletes the record; absent if it lives as long as its scope.
    owner @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// The record is an export of its owner, to which domains can connect.
    endpoint @ 40: bool => bool,
}

rt::owned_union! {
    /// The set of names that an operation is about.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Scope => 'm ScopeView<'m>;
    /// The names of the machine, visible on every node while the machine is up.
    1 => Machine,
    /// The names of the caller's node. They are served there and end with the node.
    2 => Own,
    /// The names of the node with this name.
    3 => Node(item: rt::String => rt::Text<'m, 1024>),
}

rt::owned_union! {
    /// The value of an attribute.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Value => 'm ValueView<'m>;
    /// An integer.
    1 => Integer(item: i64 => i64),
    /// A floating-point number; not NaN.
    2 => Float(item: crate::Float => FloatView<'m>),
    /// Text.
    3 => Text(item: rt::String => rt::Text<'m, 20480>),
    /// A truth value.
    4 => Bool(item: bool => bool),
    /// Uninterpreted bytes.
    5 => Bytes(item: rt::Vec<u8> => rt::Blob<'m, 20480>),
}

rt::owned_union! {
    /// A condition on a name.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum NamePattern => 'm NamePatternView<'m>;
    /// Exactly this name.
    1 => Exact(item: rt::String => rt::Text<'m, 1024>),
    /// Any name.
    2 => Any,
    /// Names that a glob matches: `*` stands for any text, `?` for any character.
    3 => Glob(item: rt::String => rt::Text<'m, 4096>),
    /// Names in which a regular expression matches.
    4 => Regex(item: rt::String => rt::Text<'m, 4096>),
}

rt::owned_union! {
    /// A test of an attribute.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Test => 'm TestView<'m>;
    /// The attribute exists.
    1 => Present,
    /// The attribute exists and the comparison holds. Values of different kinds (text and a number) never
    /// compare.
    2 => Compare {
        record: TestCompareView<'m>, inline 24;
        /// `comparison`.
        comparison @ 0: Comparison => Comparison,
        /// The value on the right.
        value @ 8: Value => ValueView<'m>,
    },
    /// The attribute is text in which a regular expression matches.
    3 => Regex(item: rt::String => rt::Text<'m, 4096>),
}
