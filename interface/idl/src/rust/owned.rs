//! Rust message types that own their content instead of borrowing it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::names::{lower, variant, view, view_borrows};
use super::{NameTaken, head, types};
use crate::check::names::camel;
use crate::model::{Case, Field, Interface, Message, MessageKind, Model, Origin, Record, Type, Union};
use crate::text::Text;

/// Substitute for a declared type in owned messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// Another type, by its path. The runtime's `stands_for!` defines the conversions between the two.
    As(String),
    /// Tuple of two elements, for a struct with two fields.
    Pair,
    /// Like `Pair`; a list of the structs becomes a map from the first field to the second.
    Map,
}

impl std::str::FromStr for Held {
    type Err = std::convert::Infallible;

    /// Parses `pair`, `map`, or the path of a type.
    fn from_str(how: &str) -> Result<Self, Self::Err> {
        Ok(match how {
            "pair" => Held::Pair,
            "map" => Held::Map,
            path => Held::As(path.to_owned()),
        })
    }
}

/// Options of the back end for owned Rust types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnedOptions {
    /// Path of the runtime in the crate that contains the generated code, as in
    /// [`RustOptions`](super::RustOptions).
    pub runtime: String,
    /// Source that the header comment of the generated text names.
    pub origin: String,
    /// Substitutes of declared types, by the types' names.
    pub held: BTreeMap<String, Held>,
}

impl Default for OwnedOptions {
    fn default() -> Self {
        OwnedOptions {
            runtime: super::RUNTIME.to_owned(),
            origin: "an interface file".to_owned(),
            held: BTreeMap::new(),
        }
    }
}

/// Error of generating owned Rust types.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OwnedError {
    /// Two items would have the same name.
    #[error(transparent)]
    NameTaken(#[from] NameTaken),
    /// Calls of one interface declare different error types.
    #[error(
        "calls of {interface} decline with different errors: owned types need one error type for all calls"
    )]
    Errors {
        /// Name of the interface.
        interface: String,
    },
    /// The ordinal of a call exceeds 255, the maximum for owned types.
    #[error(
        "call `{call}` of {interface} has ordinal {ordinal}: calls of types that own have ordinals up to 255"
    )]
    Ordinal {
        /// Name of the interface.
        interface: String,
        /// Name of the call.
        call: String,
        /// Ordinal of the call.
        ordinal: u16,
    },
    /// An interface passes capabilities or buffers, which owned types do not support.
    #[error("{interface} passes capabilities or buffers, which types that own do not")]
    Needs {
        /// Name of the interface.
        interface: String,
    },
    /// A type with a substitute is not declared, or cannot have that substitute.
    #[error("there is no {what} `{name}` to be held otherwise")]
    Held {
        /// Kind of type that the substitute requires.
        what: &'static str,
        /// Name of the type.
        name: String,
    },
}

/// Generates the Rust module with owned types for a model.
///
/// # Errors
/// [`OwnedError`] if names collide, or if owned types cannot represent the model.
pub fn generate(model: &Model, options: &OwnedOptions) -> Result<String, OwnedError> {
    let writer = OwnedWriter { model, held: &options.held };
    writer.check()?;
    let mut text = Text::default();
    head(&mut text, model, &options.runtime, &options.origin);
    let own = |name: &str| !model.included.contains_key(name);
    model.enums.iter().filter(|of| own(&of.name)).for_each(|of| types::enumeration(&mut text, of));
    let structs = model.records.iter().filter(|record| record.origin == Origin::Struct && own(&record.name));
    structs.for_each(|record| writer.write_record(&mut text, record));
    model
        .unions
        .iter()
        .filter(|union| own(&union.name))
        .for_each(|union| writer.write_union(&mut text, union));
    model.interfaces.iter().for_each(|interface| writer.write_interface(&mut text, interface));
    Ok(text.into_string())
}

struct OwnedWriter<'a> {
    model: &'a Model,
    held: &'a BTreeMap<String, Held>,
}

impl OwnedWriter<'_> {
    fn check(&self) -> Result<(), OwnedError> {
        let model = self.model;
        for (name, held) in self.held {
            let pair = |record: &&Record| record.name == *name && record.fields.len() == 2;
            let known = match held {
                Held::As(_) => {
                    model.enums.iter().any(|of| of.name == *name)
                        || model.unions.iter().any(|of| of.name == *name)
                        || model.records.iter().any(|of| of.name == *name)
                }
                Held::Pair | Held::Map => model.records.iter().any(|record| pair(&record)),
            };
            if !known {
                let what = if matches!(held, Held::As(_)) { "type" } else { "struct of two fields" };
                return Err(OwnedError::Held { what, name: name.clone() });
            }
        }
        for interface in &model.interfaces {
            let name = || interface.name.clone();
            if interface.needs.capabilities || interface.needs.buffers {
                return Err(OwnedError::Needs { interface: name() });
            }
            let errors: Vec<&Type> = self.error_types(interface).collect();
            if errors.windows(2).any(|pair| pair[0] != pair[1]) {
                return Err(OwnedError::Errors { interface: name() });
            }
            if let Some(call) = calls(interface).find(|call| call.ordinal > 255) {
                let (call, ordinal) = (call.name.clone(), call.ordinal);
                return Err(OwnedError::Ordinal { interface: name(), call, ordinal });
            }
        }
        self.check_distinct_names()?;
        Ok(())
    }

    fn check_distinct_names(&self) -> Result<(), NameTaken> {
        for interface in &self.model.interfaces {
            let mut names: BTreeMap<String, String> = BTreeMap::new();
            for answer in self.reply_variants(interface) {
                let second = format!("an answer or event of `{}`", interface.name);
                if let Some(first) = names.insert(answer.name.clone(), second.clone()) {
                    return Err(NameTaken { name: answer.name, first, second });
                }
            }
        }
        let taken: BTreeSet<&String> = self.model.unions.iter().map(|union| &union.name).collect();
        for interface in &self.model.interfaces {
            for part in ["Request", "Reply"] {
                let name = format!("{}{part}", interface.name);
                let record = self.model.records.iter().any(|record| record.name == name);
                if record || taken.contains(&name) {
                    let (first, second) = (format!("`{name}`"), format!("a part of `{}`", interface.name));
                    return Err(NameTaken { name, first, second });
                }
            }
        }
        Ok(())
    }

    fn error_types(&self, interface: &Interface) -> impl Iterator<Item = &Type> {
        interface.messages.iter().filter_map(|message| match message.kind {
            MessageKind::Call { error: Some(error), .. } => {
                self.model.records[error].fields.first().map(|field| &field.of)
            }
            _ => None,
        })
    }

    /// Returns the owned type of a field.
    fn owned_type(&self, of: &Type) -> String {
        let model = self.model;
        let named = |name: &str| match self.held.get(name) {
            Some(Held::As(path)) => path.clone(),
            _ => name.to_owned(),
        };
        match of {
            Type::Text { .. } => "rt::String".to_owned(),
            Type::Bytes { .. } => "rt::Vec<u8>".to_owned(),
            Type::List { of, .. } => match (&**of, self.pair(of)) {
                (Type::Record(index), Some((first, second)))
                    if self.held.get(&model.records[*index].name) == Some(&Held::Map) =>
                {
                    format!("rt::BTreeMap<{first}, {second}>")
                }
                _ => format!("rt::Vec<{}>", self.owned_type(of)),
            },
            Type::Array { of, count } => format!("[{}; {count}]", self.owned_type(of)),
            Type::Optional(of) => format!("Option<{}>", self.owned_type(of)),
            Type::Record(index) => match self.pair(of) {
                Some((first, second)) => format!("({first}, {second})"),
                None => named(&model.records[*index].name),
            },
            Type::Union(index) => named(&model.unions[*index].name),
            Type::Enum(index) => named(&model.enums[*index].name),
            Type::Domain => "rt::DomainId".to_owned(),
            plain => view(model, plain, "'m"),
        }
    }

    /// Returns the element types of a struct that is replaced by a pair or map.
    fn pair(&self, of: &Type) -> Option<(String, String)> {
        let Type::Record(index) = of else { return None };
        let record = &self.model.records[*index];
        match (self.held.get(&record.name), &record.fields[..]) {
            (Some(Held::Pair | Held::Map), [first, second]) => {
                Some((self.owned_type(&first.of), self.owned_type(&second.of)))
            }
            _ => None,
        }
    }

    /// Returns whether equality of the type is reflexive, so that it can be `Eq`.
    fn has_total_equality(&self, of: &Type) -> bool {
        let held = |name: &str| matches!(self.held.get(name), Some(Held::As(_)));
        match of {
            Type::Float { .. } => false,
            Type::List { of, .. } | Type::Array { of, .. } | Type::Optional(of) => {
                self.has_total_equality(of)
            }
            Type::Record(index) => {
                let record = &self.model.records[*index];
                held(&record.name) || self.all_have_total_equality(&record.fields)
            }
            Type::Union(index) => {
                let union = &self.model.unions[*index];
                held(&union.name)
                    || union
                        .cases
                        .iter()
                        .filter_map(|case| case.of.as_ref())
                        .all(|of| self.has_total_equality(of))
            }
            _ => true,
        }
    }

    fn all_have_total_equality(&self, fields: &[Field]) -> bool {
        fields.iter().all(|field| self.has_total_equality(&field.of))
    }

    /// Returns whether a frozen struct with a field of the type can be `Copy`.
    fn is_copy(&self, of: &Type) -> bool {
        match of {
            Type::Bool | Type::Int(_) | Type::Float { .. } | Type::Domain => true,
            Type::Enum(index) => !self.held.contains_key(&self.model.enums[*index].name),
            Type::Optional(of) => self.is_copy(of),
            _ => false,
        }
    }

    fn derive_attribute(&self, total: bool, plain: bool) -> String {
        let (copy, eq) = (if plain { ", Copy" } else { "" }, if total { ", Eq" } else { "" });
        format!("#[derive(Clone{copy}, PartialEq{eq}, Debug)]")
    }

    fn write_field(&self, text: &mut Text, depth: usize, field: &Field) {
        text.docs(depth, &field.docs, &types::field_docs(field));
        let (held, read) = (self.owned_type(&field.of), view(self.model, &field.of, "'m"));
        text.line(depth, &format!("{} @ {}: {held} => {read},", lower(&field.name), field.offset));
    }

    fn write_record(&self, text: &mut Text, record: &Record) {
        let Record { name, bytes, align, .. } = record;
        let form = layout_keyword(record);
        let pair = matches!(self.held.get(name), Some(Held::Pair | Held::Map));
        let view = format!("{name}View<'m>, {form} {bytes} / {align};");
        text.line(0, "");
        if pair {
            text.line(0, "rt::owned_pair! {");
            text.line(1, &format!("{name} => {view}"));
            record.fields.iter().for_each(|field| self.write_field(text, 1, field));
        } else if self.is_inside_case(record) {
            text.line(0, "rt::record_view! {");
            text.line(1, &format!("{name} => {view}"));
            for field in &record.fields {
                text.docs(1, &field.docs, &types::field_docs(field));
                let read = super::names::view(self.model, &field.of, "'m");
                text.line(1, &format!("{} @ {} => {read},", lower(&field.name), field.offset));
            }
        } else {
            text.line(0, "rt::owned_record! {");
            text.docs(1, &record.docs, &format!("`{name}`."));
            let plain = record.frozen && record.fields.iter().all(|field| self.is_copy(&field.of));
            text.line(1, &self.derive_attribute(self.all_have_total_equality(&record.fields), plain));
            text.line(1, &format!("pub struct {name} => {view}"));
            record.fields.iter().for_each(|field| self.write_field(text, 1, field));
        }
        text.line(0, "}");
    }

    /// Returns the struct whose fields become the fields of the case's variant: its name is that of the union
    /// followed by that of the case.
    fn inside_case(&self, union: &Union, case: &Case) -> Option<&Record> {
        let Some(Type::Record(index)) = case.of else { return None };
        let record = &self.model.records[index];
        (record.name == format!("{}{}", union.name, camel(&case.name))).then_some(record)
    }

    fn is_inside_case(&self, record: &Record) -> bool {
        let mut cases =
            self.model.unions.iter().flat_map(|union| union.cases.iter().map(move |case| (union, case)));
        cases.any(|(union, case)| {
            self.inside_case(union, case).is_some_and(|inside| inside.name == record.name)
        })
    }

    fn write_union(&self, text: &mut Text, union: &Union) {
        let (model, name) = (self.model, &union.name);
        let of = || union.cases.iter().filter_map(|case| case.of.as_ref());
        let life = if of().any(|of| view_borrows(model, of)) { "<'m>" } else { "" };
        text.line(0, "");
        text.line(0, "rt::owned_union! {");
        text.docs(1, &union.docs, &format!("`{name}`."));
        text.line(1, &self.derive_attribute(of().all(|of| self.has_total_equality(of)), false));
        text.line(1, &format!("pub enum {name} => 'm {name}View{life};"));
        for case in &union.cases {
            text.docs(1, &case.docs, &format!("`{}`.", case.name));
            let head = format!("{} => {}", case.ordinal, variant(&case.name));
            match (self.inside_case(union, case), &case.of) {
                (Some(record), _) => {
                    let (struct_name, form, bytes) = (&record.name, layout_keyword(record), record.bytes);
                    text.line(1, &format!("{head} {{"));
                    text.line(2, &format!("record: {struct_name}View<'m>, {form} {bytes};"));
                    record.fields.iter().for_each(|field| self.write_field(text, 2, field));
                    text.line(1, "},");
                }
                (None, Some(of)) => {
                    let (held, read) = (self.owned_type(of), view(model, of, "'m"));
                    text.line(1, &format!("{head}(item: {held} => {read}),"));
                }
                (None, None) => text.line(1, &format!("{head},")),
            }
        }
        text.line(0, "}");
    }

    /// Writes one enum for each direction: requests and replies.
    fn write_interface(&self, text: &mut Text, interface: &Interface) {
        let name = &interface.name;
        text.line(0, "");
        text.line(
            0,
            &format!(
                "/// Fingerprint of `{}.{name}`: a hash of all declarations that affect its peers.",
                self.model.package
            ),
        );
        let constant = crate::check::names::snake(name).to_uppercase();
        text.line(0, &format!("pub const {constant}_FINGERPRINT: u64 = {:#018x};", interface.fingerprint));
        let requests: Vec<MessageVariant<'_>> = interface
            .messages
            .iter()
            .filter(|message| message.kind != MessageKind::Event)
            .map(|message| MessageVariant {
                docs: message.docs.clone(),
                kind: if matches!(message.kind, MessageKind::Call { .. }) { "Call" } else { "Message" },
                ordinals: vec![message.ordinal],
                name: variant(&message.name),
                carries: Some(Cow::Borrowed(&self.model.records[message.input])),
            })
            .collect();
        self.write_messages(
            text,
            &format!("{name}Request"),
            "Messages from client to server",
            interface,
            &requests,
        );
        write_ordinals(text, interface);
        let answers = self.reply_variants(interface);
        self.write_messages(
            text,
            &format!("{name}Reply"),
            "Messages from server to client",
            interface,
            &answers,
        );
    }

    /// Returns the variants that a server sends: the results of each call, one variant for all calls without
    /// results, one for declared errors, and the events.
    fn reply_variants<'a>(&'a self, interface: &'a Interface) -> Vec<MessageVariant<'a>> {
        let mut variants = Vec::new();
        let (mut done, mut failed, mut fault) = (Vec::new(), Vec::new(), None);
        for message in &interface.messages {
            match message.kind {
                MessageKind::Call { output, error, .. } => {
                    let results = &self.model.records[output];
                    if results.fields.is_empty() {
                        done.push(message.ordinal);
                    } else {
                        variants.push(MessageVariant {
                            docs: vec![format!(
                                "Reply to [`{}Request::{}`].",
                                interface.name,
                                variant(&message.name)
                            )],
                            kind: "Reply",
                            ordinals: vec![message.ordinal],
                            name: variant(&message.name),
                            carries: Some(Cow::Borrowed(results)),
                        });
                    }
                    if let Some(error) = error {
                        failed.push(message.ordinal);
                        fault = Some(Cow::Owned(self.error_record(error)));
                    }
                }
                MessageKind::Event => variants.push(MessageVariant {
                    docs: message.docs.clone(),
                    kind: "Message",
                    ordinals: vec![message.ordinal],
                    name: variant(&message.name),
                    carries: Some(Cow::Borrowed(&self.model.records[message.input])),
                }),
                MessageKind::Message => {}
            }
        }
        let several = |docs: &str, kind, ordinals: Vec<u16>, name: &str, carries| {
            let docs = vec![docs.to_owned()];
            (!ordinals.is_empty()).then(|| MessageVariant {
                docs,
                kind,
                ordinals,
                name: name.to_owned(),
                carries,
            })
        };
        variants.extend(several("Reply to a call without results.", "Reply", done, "Done", None));
        variants.extend(several("Reply to a call that was declined.", "Error", failed, "Failed", fault));
        variants
    }

    /// Returns a call's error record, with its field renamed after its type.
    fn error_record(&self, error: usize) -> Record {
        let mut record = self.model.records[error].clone();
        for field in &mut record.fields {
            let name = match field.of {
                Type::Union(index) => &self.model.unions[index].name,
                Type::Enum(index) => &self.model.enums[index].name,
                _ => continue,
            };
            field.name = crate::check::names::snake(name);
        }
        record
    }

    fn write_messages(
        &self,
        text: &mut Text,
        name: &str,
        what: &str,
        interface: &Interface,
        variants: &[MessageVariant<'_>],
    ) {
        if variants.is_empty() {
            return;
        }
        text.line(0, "");
        text.line(0, "rt::owned_messages! {");
        text.line(1, &format!("/// {what} in the interface `{}`.", interface.name));
        let carried = variants.iter().filter_map(|variant| variant.carries.as_deref());
        text.line(
            1,
            &self.derive_attribute(
                carried.into_iter().all(|record: &Record| self.all_have_total_equality(&record.fields)),
                false,
            ),
        );
        text.line(1, &format!("pub enum {name}, 'm;"));
        for one in variants {
            text.docs(1, &one.docs, &format!("`{}`.", one.name));
            let ordinals: Vec<String> = one.ordinals.iter().map(u16::to_string).collect();
            let head = format!("{} {} => {}", one.kind, ordinals.join(" | "), one.name);
            match &one.carries {
                Some(record) if !record.fields.is_empty() => {
                    text.line(1, &format!("{head}, {} {{", record.bytes));
                    record.fields.iter().for_each(|field| self.write_field(text, 2, field));
                    text.line(1, "};");
                }
                _ => text.line(1, &format!("{head};")),
            }
        }
        text.line(0, "}");
    }
}

/// Writes constants for the ordinals of a client's messages.
fn write_ordinals(text: &mut Text, interface: &Interface) {
    let requests: Vec<&Message> =
        interface.messages.iter().filter(|message| message.kind != MessageKind::Event).collect();
    if requests.is_empty() {
        return;
    }
    text.line(0, "");
    text.line(0, &format!("impl {}Request {{", interface.name));
    for message in requests {
        text.line(1, &format!("/// The ordinal of `{}`.", message.name));
        text.line(1, &format!("pub const {}: u16 = {};", message.name.to_uppercase(), message.ordinal));
    }
    text.line(0, "}");
}

/// Variant of the enum of requests or of replies. A reply variant may serve several calls.
struct MessageVariant<'a> {
    docs: Vec<String>,
    kind: &'static str,
    ordinals: Vec<u16>,
    name: String,
    carries: Option<Cow<'a, Record>>,
}

fn calls(interface: &Interface) -> impl Iterator<Item = &Message> {
    interface.messages.iter().filter(|message| matches!(message.kind, MessageKind::Call { .. }))
}

fn layout_keyword(record: &Record) -> &'static str {
    if record.frozen { "inline" } else { "apart" }
}
