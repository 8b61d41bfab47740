//! Model of an interface file: names resolved, records laid out. Input of the back ends.

/// Bytes before the parameters of every message.
pub const HEADER_BYTES: u32 = 8;

/// The largest inline part of a record, in bytes.
pub const MAX_RECORD_BYTES: u64 = 65_528;

/// The longest message, in bytes.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 30;

/// The content of an interface file that has no mistakes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    /// Documentation of the file.
    pub docs: Vec<String>,
    /// The name that interfaces' identities begin with.
    pub package: String,
    /// Constants.
    pub constants: Vec<Constant>,
    /// Enums and flags.
    pub enums: Vec<Enum>,
    /// Structs, parameters and results, each after those that it has inside.
    pub records: Vec<Record>,
    /// Unions, each after those that it has inside.
    pub unions: Vec<Union>,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
    /// Types and constants that are declared in other files, and those files' names without folder and
    /// ending: back ends that write a module for each file leave them out.
    pub included: std::collections::BTreeMap<String, String>,
    /// The packages of those files, by the same names.
    pub packages: std::collections::BTreeMap<String, String>,
}

/// A constant of an interface file: a named integer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: i128,
}

/// A type with its place in the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// One byte, 0 or 1.
    Bool,
    /// An integer.
    Int(Int),
    /// An IEEE 754 number of 32 or 64 bits.
    Float {
        /// 32 or 64.
        bits: u32,
    },
    /// UTF-8.
    Text {
        /// The most bytes.
        max: u32,
    },
    /// Bytes.
    Bytes {
        /// The most.
        max: u32,
    },
    /// A fixed number of elements.
    Array {
        /// What they are.
        of: Box<Type>,
        /// How many.
        count: u32,
    },
    /// Any number of elements up to a limit.
    List {
        /// What they are.
        of: Box<Type>,
        /// The most.
        max: u32,
    },
    /// An optional value of the inner type.
    Optional(Box<Type>),
    /// By its place in [`Model::enums`].
    Enum(usize),
    /// By its place in [`Model::records`].
    Record(usize),
    /// By its place in [`Model::unions`].
    Union(usize),
    /// The id of a domain, which gives no right.
    Domain,
    /// The right to something.
    Handle {
        /// To what.
        kind: HandleKind,
        /// Whether the sender gives it away.
        moved: bool,
    },
}

/// Kind of object that a capability refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleKind {
    /// An endpoint, to connect to.
    Endpoint,
    /// Memory.
    Region,
    /// Anything.
    Capability,
    /// Bulk memory out of a pool.
    Buffer,
}

impl HandleKind {
    /// Its number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            HandleKind::Endpoint => 1,
            HandleKind::Region => 2,
            HandleKind::Capability => 3,
            HandleKind::Buffer => 4,
        }
    }

    /// The word of the language.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HandleKind::Endpoint => "endpoint",
            HandleKind::Region => "region",
            HandleKind::Capability => "capability",
            HandleKind::Buffer => "buffer",
        }
    }
}

/// An integer type, by its sign and width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Int {
    /// Whether it has a sign.
    pub signed: bool,
    /// 8, 16, 32 or 64.
    pub bits: u32,
}

impl Int {
    /// The type of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Int> {
        let (signed, bits) = match name.split_at_checked(1)? {
            ("u", bits) => (false, bits),
            ("i", bits) => (true, bits),
            _ => return None,
        };
        let bits = ["8", "16", "32", "64"].contains(&bits).then(|| bits.parse().ok())??;
        Some(Int { signed, bits })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits)
    }

    /// Whether it has that value.
    #[must_use]
    pub fn holds(self, value: i128) -> bool {
        let magnitude = 1_i128 << (self.bits - u32::from(self.signed));
        value < magnitude && value >= if self.signed { -magnitude } else { 0 }
    }
}

/// An enum, or flags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enum {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Whether its values are bits.
    pub flags: bool,
    /// Whether values without a name are accepted.
    pub open: bool,
    /// How it is stored.
    pub repr: Int,
    /// Its values; of flags the masks.
    pub values: Vec<Constant>,
}

/// Size and alignment of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Of its inline form.
    pub bytes: u64,
    /// Of its inline form.
    pub align: u64,
    /// The most bytes out of line that come with it.
    pub outside_bytes: u64,
}

/// Fields, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether it lies inline and can get no more fields.
    pub frozen: bool,
    /// In the order of their ordinals.
    pub fields: Vec<Field>,
    /// Of the fields, up to a multiple of the alignment.
    pub bytes: u64,
    /// The largest of the fields; 8 if it is not frozen.
    pub align: u64,
    /// The most bytes out of line that come with it.
    pub outside_bytes: u64,
    /// Whether all of its fields have a value that stands for "not said".
    pub has_default: bool,
    /// What a link must be able to carry for it.
    pub needs: Needs,
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Declared.
    Struct,
    /// What a message carries.
    Input,
    /// What answers a call.
    Output,
    /// What declines a call.
    Error,
}

/// A part of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// What it is.
    pub of: Type,
    /// Where it is in the record, in bytes.
    pub offset: u64,
}

/// A tagged union: each value is of one of the cases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Union {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// In the order of their ordinals.
    pub cases: Vec<Case>,
    /// The most bytes out of line that come with it.
    pub outside_bytes: u64,
    /// What a link must be able to carry for it.
    pub needs: Needs,
}

/// What a union can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its ordinal.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// What it carries.
    pub of: Option<Type>,
}

/// Messages between a client and a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Version; incremented when older peers can no longer be served.
    pub version: u32,
    /// In the order of their ordinals.
    pub messages: Vec<Message>,
    /// What both sides must have in common to talk at all; see the specification.
    pub hash: u64,
    /// Of everything that the interface means: differs after any change that peers can notice.
    pub fingerprint: u64,
    /// What a link must be able to carry for it.
    pub needs: Needs,
}

/// What a link must be able to carry besides bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Rights to endpoints, regions and the like.
    pub capabilities: bool,
    /// Bulk memory.
    pub buffers: bool,
}

impl Needs {
    /// The needs of `self` and `other` together.
    #[must_use]
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            capabilities: self.capabilities || other.capabilities,
            buffers: self.buffers || other.buffers,
        }
    }
}

/// A message, or a call with its answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its documentation.
    pub docs: Vec<String>,
    /// Its ordinal.
    pub ordinal: u16,
    /// Its name.
    pub name: String,
    /// Who sends it, and whether it is answered.
    pub kind: MessageKind,
    /// Place of what it carries in [`Model::records`].
    pub input: usize,
}

/// Who sends a message, and whether it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// Client to server, and answered.
    Call {
        /// Whether it may be sent again when it is unknown whether it was served.
        idempotent: bool,
        /// Place of its results in [`Model::records`].
        output: usize,
        /// Place of its error in [`Model::records`], a record with one field.
        error: Option<usize>,
    },
    /// Client to server.
    Message,
    /// Server to client.
    Event,
}

impl Model {
    /// Returns the layout of a type inside a record.
    #[must_use]
    pub fn layout(&self, of: &Type) -> Layout {
        let plain = |bytes| Layout { bytes, align: bytes, outside_bytes: 0 };
        let outside = |outside_bytes| Layout { bytes: 8, align: 8, outside_bytes };
        match of {
            Type::Bool => plain(1),
            Type::Int(int) => plain(u64::from(int.bits) / 8),
            Type::Float { bits } => plain(u64::from(*bits) / 8),
            Type::Enum(index) => plain(u64::from(self.enums[*index].repr.bits) / 8),
            Type::Domain => plain(8),
            Type::Handle { .. } => Layout { bytes: 16, align: 8, outside_bytes: 0 },
            Type::Text { max } | Type::Bytes { max } => outside(round_up(u64::from(*max), 8)),
            Type::List { of, max } => {
                let (of, max) = (self.layout(of), u64::from(*max));
                let elements = round_up(max.saturating_mul(of.bytes), 8);
                outside(elements.saturating_add(max.saturating_mul(of.outside_bytes)))
            }
            Type::Array { of, count } => {
                let (of, count) = (self.layout(of), u64::from(*count));
                Layout {
                    bytes: of.bytes.saturating_mul(count),
                    outside_bytes: of.outside_bytes.saturating_mul(count),
                    ..of
                }
            }
            Type::Optional(of) => {
                let of = self.layout(of);
                Layout { bytes: of.bytes.saturating_add(of.align), ..of }
            }
            Type::Record(index) => {
                let record = &self.records[*index];
                if record.frozen {
                    let Record { bytes, align, outside_bytes, .. } = *record;
                    return Layout { bytes, align, outside_bytes };
                }
                outside(record.bytes.saturating_add(record.outside_bytes))
            }
            Type::Union(index) => {
                Layout { bytes: 16, align: 8, outside_bytes: self.unions[*index].outside_bytes }
            }
        }
    }

    /// The longest message with that record as its body, header included, in bytes.
    #[must_use]
    pub fn max_message_bytes(&self, record: usize) -> u64 {
        let record = &self.records[record];
        u64::from(HEADER_BYTES).saturating_add(record.bytes).saturating_add(record.outside_bytes)
    }

    /// Whether the type has a value that stands for "not said": what a peer of before the field was added
    /// means.
    #[must_use]
    pub fn has_default(&self, of: &Type) -> bool {
        match of {
            Type::Enum(index) => {
                let of = &self.enums[*index];
                of.open || of.flags || of.values.iter().any(|value| value.value == 0)
            }
            Type::Array { of, .. } => self.has_default(of),
            Type::Record(index) => self.records[*index].has_default,
            Type::Union(_) | Type::Domain | Type::Handle { .. } => false,
            Type::Bool
            | Type::Int(_)
            | Type::Float { .. }
            | Type::Text { .. }
            | Type::Bytes { .. }
            | Type::List { .. }
            | Type::Optional(_) => true,
        }
    }

    /// What a link must be able to carry for a type.
    #[must_use]
    pub fn needs(&self, of: &Type) -> Needs {
        match of {
            Type::Array { of, .. } | Type::List { of, .. } | Type::Optional(of) => self.needs(of),
            Type::Record(index) => self.records[*index].needs,
            Type::Union(index) => self.unions[*index].needs,
            Type::Handle { kind: HandleKind::Buffer, .. } => Needs { capabilities: false, buffers: true },
            Type::Handle { .. } => Needs { capabilities: true, buffers: false },
            _ => Needs::default(),
        }
    }

    /// The records of a message: what it carries, its results, its error.
    pub fn records_of(&self, message: &Message) -> impl Iterator<Item = usize> {
        let (output, error) = match message.kind {
            MessageKind::Call { output, error, .. } => (Some(output), error),
            MessageKind::Message | MessageKind::Event => (None, None),
        };
        [Some(message.input), output, error].into_iter().flatten()
    }
}

/// Rounds up to a multiple of `align`.
#[must_use]
pub fn round_up(value: u64, align: u64) -> u64 {
    value.div_ceil(align.max(1)).saturating_mul(align.max(1))
}
