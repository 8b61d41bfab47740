//! Model of an interface file: names resolved, records laid out. Input of the back ends.

/// Size of the header before the body of every message, in bytes.
pub const HEADER_BYTES: u32 = 8;

/// Maximum size of the inline part of a record, in bytes.
pub const MAX_RECORD_BYTES: u64 = 65_528;

/// Maximum size of a message with its header, in bytes.
pub const MAX_MESSAGE_BYTES: u64 = 1 << 30;

/// Content of a valid interface file, with the types and constants that it includes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    /// Documentation of the file.
    pub docs: Vec<String>,
    /// Package of the file; part of the identity of its interfaces.
    pub package: String,
    /// Constants, in declaration order.
    pub constants: Vec<Constant>,
    /// Enums and flags.
    pub enums: Vec<Enum>,
    /// Structs and message bodies (parameters, results, errors), each after the records that it contains.
    pub records: Vec<Record>,
    /// Unions, each after the unions that it contains.
    pub unions: Vec<Union>,
    /// Interfaces that the file itself declares; interfaces of included files are left out.
    pub interfaces: Vec<Interface>,
    /// Stem of the declaring file for each type and constant from an included file. Back ends that generate
    /// one module per file skip these names.
    pub included: std::collections::BTreeMap<String, String>,
    /// Package of each included file, by file stem.
    pub packages: std::collections::BTreeMap<String, String>,
}

/// A constant of an interface file: a named integer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Documentation of the constant, by line.
    pub docs: Vec<String>,
    /// Name of the constant.
    pub name: String,
    /// Value of the constant.
    pub value: i128,
}

/// Resolved type of a field, parameter, element or case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// One byte, 0 or 1.
    Bool,
    /// Integer of the given sign and width.
    Int(Int),
    /// An IEEE 754 number of 32 or 64 bits.
    Float {
        /// 32 or 64.
        bits: u32,
    },
    /// UTF-8 text of variable length.
    Text {
        /// Maximum length in bytes.
        max: u32,
    },
    /// Byte string of variable length.
    Bytes {
        /// Maximum length in bytes.
        max: u32,
    },
    /// Fixed number of elements.
    Array {
        /// Type of the elements.
        of: Box<Type>,
        /// Number of elements.
        count: u32,
    },
    /// Variable number of elements, up to a limit.
    List {
        /// Type of the elements.
        of: Box<Type>,
        /// Maximum number of elements.
        max: u32,
    },
    /// An optional value of the inner type.
    Optional(Box<Type>),
    /// Enum or flags, as an index into [`Model::enums`].
    Enum(usize),
    /// Struct, as an index into [`Model::records`].
    Record(usize),
    /// Union, as an index into [`Model::unions`].
    Union(usize),
    /// Id of a domain. It conveys no right.
    Domain,
    /// Capability or buffer that is passed with the message.
    Handle {
        /// Kind of the object.
        kind: HandleKind,
        /// Whether the sender loses the right (`move`) or keeps it (`copy`).
        moved: bool,
    },
}

/// Kind of object that a [`Type::Handle`] refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleKind {
    /// Endpoint that the receiver can connect to.
    Endpoint,
    /// Region of memory, or a part of one.
    Region,
    /// Capability to any kind of object.
    Capability,
    /// Buffer of a pool, passed on a bulk channel.
    Buffer,
}

impl HandleKind {
    /// Returns the number of the kind on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            HandleKind::Endpoint => 1,
            HandleKind::Region => 2,
            HandleKind::Capability => 3,
            HandleKind::Buffer => 4,
        }
    }

    /// Returns the keyword of the kind in the language.
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
    /// Whether the integer is signed.
    pub signed: bool,
    /// Width: 8, 16, 32 or 64.
    pub bits: u32,
}

impl Int {
    /// Returns the type called `name`, such as `u16`, or `None` for any other name.
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

    /// Returns the name of the type, such as `u16`.
    #[must_use]
    pub fn name(self) -> String {
        format!("{}{}", if self.signed { 'i' } else { 'u' }, self.bits)
    }

    /// Returns whether the type can represent `value`.
    #[must_use]
    pub fn holds(self, value: i128) -> bool {
        let magnitude = 1_i128 << (self.bits - u32::from(self.signed));
        value < magnitude && value >= if self.signed { -magnitude } else { 0 }
    }
}

/// Declared enum or flags type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Enum {
    /// Documentation of the type, by line.
    pub docs: Vec<String>,
    /// Name of the type.
    pub name: String,
    /// Whether the type is a set of flags: its values are bit masks.
    pub flags: bool,
    /// Whether receivers accept values without a name.
    pub open: bool,
    /// Integer type of the values on the wire.
    pub repr: Int,
    /// Named values; of flags, the masks and not the bit numbers.
    pub values: Vec<Constant>,
}

/// Layout of a type inside a record: the inline form and the bytes out of line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Size of the inline form, in bytes.
    pub bytes: u64,
    /// Alignment of the inline form, in bytes.
    pub align: u64,
    /// Maximum number of bytes out of line that belong to one value.
    pub outside_bytes: u64,
}

/// Struct or message body: a sequence of fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Documentation of the record, by line.
    pub docs: Vec<String>,
    /// Name of the record; generated for message bodies.
    pub name: String,
    /// Role of the record: a declared struct or a part of a message.
    pub origin: Origin,
    /// Whether the record is stored inline and can never gain fields.
    pub frozen: bool,
    /// Fields, by ordinal.
    pub fields: Vec<Field>,
    /// Size of the fields in bytes, rounded up to a multiple of `align`.
    pub bytes: u64,
    /// Alignment in bytes: the largest among the fields if frozen, otherwise 8.
    pub align: u64,
    /// Maximum number of bytes out of line that belong to one value.
    pub outside_bytes: u64,
    /// Whether all fields have a default; see [`Model::has_default`].
    pub has_default: bool,
    /// Link features that it needs.
    pub needs: Needs,
}

/// Role of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Struct that the file declares.
    Struct,
    /// Parameters of a call, message or event.
    Input,
    /// Results of a call.
    Output,
    /// Error of a call; the record has one field.
    Error,
}

/// Field of a record, with its offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Documentation of the field, by line.
    pub docs: Vec<String>,
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub of: Type,
    /// Offset in the record, in bytes.
    pub offset: u64,
}

/// A tagged union: each value is of one of the cases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Union {
    /// Documentation of the union, by line.
    pub docs: Vec<String>,
    /// Name of the union.
    pub name: String,
    /// Cases, by ordinal.
    pub cases: Vec<Case>,
    /// Maximum number of bytes out of line that belong to one value.
    pub outside_bytes: u64,
    /// Link features that it needs.
    pub needs: Needs,
}

/// Case of a union, with or without a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Documentation of the case, by line.
    pub docs: Vec<String>,
    /// Ordinal of the case.
    pub ordinal: u32,
    /// Name of the case.
    pub name: String,
    /// Type of the case's value; `None` for a case without a value.
    pub of: Option<Type>,
}

/// Interface: the messages between a client and a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Documentation of the interface, by line.
    pub docs: Vec<String>,
    /// Name of the interface.
    pub name: String,
    /// Version; incremented when older peers can no longer be served.
    pub version: u32,
    /// Messages, by ordinal.
    pub messages: Vec<Message>,
    /// Hash of package, name and version. Client and server must have the same one to connect; see the
    /// specification.
    pub hash: u64,
    /// Hash of everything that affects compatibility: it differs after any change that a peer can notice.
    pub fingerprint: u64,
    /// Link features that it needs.
    pub needs: Needs,
}

/// Features that a link must support besides carrying bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Passing capabilities: rights to endpoints, regions and other objects.
    pub capabilities: bool,
    /// Passing buffers of a pool.
    pub buffers: bool,
}

impl Needs {
    /// Returns the union of the needs of `self` and `other`.
    #[must_use]
    pub fn and(self, other: Needs) -> Needs {
        Needs {
            capabilities: self.capabilities || other.capabilities,
            buffers: self.buffers || other.buffers,
        }
    }
}

/// Message of an interface: a call with its replies, or a one-way message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// Documentation of the message, by line.
    pub docs: Vec<String>,
    /// Ordinal of the message.
    pub ordinal: u16,
    /// Name of the message.
    pub name: String,
    /// Direction of the message, and its reply if it is a call.
    pub kind: MessageKind,
    /// Index of its parameters in [`Model::records`].
    pub input: usize,
}

/// Direction of a message, and the reply of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageKind {
    /// Client to server, with a reply.
    Call {
        /// Whether a client may repeat the call if it does not know whether the server executed it.
        idempotent: bool,
        /// Index of its results in [`Model::records`].
        output: usize,
        /// Index of its error in [`Model::records`], a record with one field; `None` if no error is declared.
        error: Option<usize>,
    },
    /// Client to server, one-way.
    Message,
    /// Server to client, one-way.
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

    /// Returns the maximum size of a message whose body is the record at index `record`, header included, in
    /// bytes.
    #[must_use]
    pub fn max_message_bytes(&self, record: usize) -> u64 {
        let record = &self.records[record];
        u64::from(HEADER_BYTES).saturating_add(record.bytes).saturating_add(record.outside_bytes)
    }

    /// Returns whether the type has a default, which is what all-zero bytes decode to: zero, empty or absent.
    /// It is read in place of a field that an older peer does not send.
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

    /// Returns the link features that values of the type need.
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

    /// Returns the records of a message: its parameters, and the results and error of a call.
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
