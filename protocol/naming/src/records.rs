//! Records of names, and how they are looked for.
//!
//! Written by `tombolo idl compile` from interfaces/control/records.tbl.

use tombolo_interface as rt;

/// The most bytes of a name that is given. Names are shorter: who gives one that is too long is told so by the monitor.
pub const MAX_GIVEN_NAME: u64 = 1024;

/// The most bytes of a pattern that is given; again more than there can be.
pub const MAX_GIVEN_PATTERN: u64 = 4096;

/// The most bytes of a value that is given; again more than there can be.
pub const MAX_GIVEN_VALUE: u64 = 20480;

/// The most bytes of any text, bounded by the longest message.
pub const MAX_TEXT: u64 = 61440;

/// The most attributes and constraints that are given; again more than there can be.
pub const MAX_GIVEN_ATTRIBUTES: u64 = 128;

/// The most elements of a page of a list.
pub const MAX_PAGE: u64 = 256;

/// The most domains that hold something, as far as they are said, bounded by the longest message.
pub const MAX_HOLDERS: u64 = 7680;

/// The most arguments or variables of a program.
pub const MAX_ARGUMENTS: u64 = 4096;

rt::number! {
    /// How two values are compared.
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
    /// A time that passes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Duration => DurationView<'m>, inline 8 / 8;
    /// In nanoseconds.
    ns @ 0: u64 => u64,
}

rt::owned_record! {
    /// A floating-point number with a total order. Not NaN.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub struct Float => FloatView<'m>, inline 8 / 8;
    /// The number.
    value @ 0: f64 => f64,
}

rt::owned_pair! {
    Attribute => AttributeView<'m>, inline 24 / 8;
    /// Its name.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// What it holds.
    value @ 8: Value => ValueView<'m>,
}

rt::record_view! {
    TestCompare => TestCompareView<'m>, inline 24 / 8;
    /// `comparison`.
    comparison @ 0 => Comparison,
    /// With what.
    value @ 8 => ValueView<'m>,
}

rt::owned_record! {
    /// A condition on one attribute.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Constraint => ConstraintView<'m>, inline 24 / 8;
    /// `attribute`, up to 1024 bytes.
    attribute @ 0: rt::String => rt::Text<'m, 1024>,
    /// What it must be like.
    test @ 8: Test => TestView<'m>,
}

rt::owned_record! {
    /// What is looked for: names, and conditions that all hold.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Query => QueryView<'m>, inline 24 / 8;
    /// Which names.
    name @ 0: NamePattern => NamePatternView<'m>,
    /// What their attributes must be like.
    constraints @ 16: rt::Vec<Constraint> => rt::List<'m, ConstraintView<'m>, 128>,
}

rt::owned_record! {
    /// What is known under a name.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Record => RecordView<'m>, inline 48 / 8;
    /// Its name, unique in its scope.
    name @ 0: rt::String => rt::Text<'m, 1024>,
    /// What is known.
    attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
    /// Grows with every change of anything in the scope, so no two states of a record share it.
    version @ 16: u64 => u64,
    /// The domain that it goes with; nobody for one that lives as long as its scope.
    owner @ 24: Option<rt::DomainId> => Option<rt::Domain>,
    /// Domains can connect to it: it is an export of its owner.
    endpoint @ 40: bool => bool,
}

rt::owned_union! {
    /// Whose names are meant.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Scope => 'm ScopeView<'m>;
    /// The machine's: known on every node, for as long as the machine is up.
    1 => Machine,
    /// Those of the node that the caller runs on. They are served there, and go with the node.
    2 => Own,
    /// Those of the node of that name.
    3 => Node(item: rt::String => rt::Text<'m, 1024>),
}

rt::owned_union! {
    /// What an attribute holds.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Value => 'm ValueView<'m>;
    /// A number without a fraction.
    1 => Integer(item: i64 => i64),
    /// A number with one. Not NaN.
    2 => Float(item: crate::Float => FloatView<'m>),
    /// Text.
    3 => Text(item: rt::String => rt::Text<'m, 20480>),
    /// Yes or no.
    4 => Bool(item: bool => bool),
    /// Bytes without a meaning of their own.
    5 => Bytes(item: rt::Vec<u8> => rt::Blob<'m, 20480>),
}

rt::owned_union! {
    /// Which names.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum NamePattern => 'm NamePatternView<'m>;
    /// This one.
    1 => Exact(item: rt::String => rt::Text<'m, 1024>),
    /// All.
    2 => Any,
    /// Those that a glob matches: `*` is any text, `?` any character.
    3 => Glob(item: rt::String => rt::Text<'m, 4096>),
    /// Those in which a regular expression matches.
    4 => Regex(item: rt::String => rt::Text<'m, 4096>),
}

rt::owned_union! {
    /// What an attribute must be like.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Test => 'm TestView<'m>;
    /// It is there.
    1 => Present,
    /// It is there, compares with the value, and so. What does not compare (text with a number) never holds.
    2 => Compare {
        record: TestCompareView<'m>, inline 24;
        /// `comparison`.
        comparison @ 0: Comparison => Comparison,
        /// With what.
        value @ 8: Value => ValueView<'m>,
    },
    /// It is text in which a regular expression matches.
    3 => Regex(item: rt::String => rt::Text<'m, 4096>),
}
