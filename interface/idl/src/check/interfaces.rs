//! Checks of interfaces and their messages.

use std::collections::BTreeMap;

use super::types::empty_record;
use super::{CheckResult, Checker, names};
use crate::ast::{self, Declaration, Field as Written, Name, TypeExpr};
use crate::diagnostic::{Diagnostic, Span};
use crate::fingerprint;
use crate::model::{Field, Interface, MAX_MESSAGE_BYTES, Message, MessageKind, Needs, Origin};

/// Largest ordinal of a message.
const MAX_ORDINAL: i128 = 65_535;

impl<'a> Checker<'a> {
    pub(super) fn check_interface(
        &mut self,
        declaration: &'a Declaration,
        version: &(i128, Span),
        messages: &'a [ast::Message],
    ) {
        let name = &declaration.name;
        let version = self.record_mistake(
            u32::try_from(version.0).ok().filter(|version| *version > 0).ok_or_else(|| {
                Diagnostic::new(&version.1, format!("{} is not a valid version", version.0), "out of range")
                    .hint("versions are 1, 2, 3 and so on; increase it with every change that breaks peers")
            }),
        );
        if messages.is_empty() {
            self.mistakes.push(names::empty_error(name, "message", "@1 call ping();"));
        }
        let mut order: BTreeMap<i128, &Span> = BTreeMap::new();
        let mut seen = names::Distinct::default();
        let mut checked = Vec::new();
        for message in messages {
            let (ordinal, span) = &message.ordinal;
            if !(1..=MAX_ORDINAL).contains(ordinal) {
                self.mistakes.push(
                    Diagnostic::new(span, format!("{ordinal} is not a valid ordinal"), "out of range")
                        .hint(format!("ordinals of messages are from 1 to {MAX_ORDINAL}")),
                );
            } else if let Some(first) = order.insert(*ordinal, span) {
                let free =
                    (1..=MAX_ORDINAL).find(|free| messages.iter().all(|other| other.ordinal.0 != *free));
                self.mistakes.push(
                    Diagnostic::new(span, format!("ordinal {ordinal} is already used"), "used again here")
                        .related(first, "first used here")
                        .hint(format!("{} is free", free.unwrap_or(0))),
                );
            }
            let distinct = seen.add(&message.name, "message");
            self.record_mistake(distinct);
            let message = self.check_message(name, message);
            checked.extend(self.record_mistake(message));
        }
        checked.sort_by_key(|message| message.ordinal);
        let needs = checked.iter().flat_map(|message| self.model.records_of(message));
        let needs = needs.fold(Needs::default(), |needs, record| needs.and(self.model.records[record].needs));
        let mut interface = Interface {
            docs: declaration.docs.clone(),
            name: name.text.clone(),
            version: version.unwrap_or_default(),
            messages: checked,
            hash: 0,
            fingerprint: 0,
            needs,
        };
        interface.hash = fingerprint::identity(&self.model.package, &interface);
        interface.fingerprint = fingerprint::of(&self.model, &interface);
        self.model.interfaces.push(interface);
    }

    fn check_message(&mut self, interface: &Name, message: &'a ast::Message) -> CheckResult<Message> {
        let (input, output) = match message.kind {
            ast::MessageKind::Call => ("Request", "Reply"),
            ast::MessageKind::Message | ast::MessageKind::Event => ("", ""),
        };
        let input = self.add_body(interface, message, input, Origin::Input, &message.input)?;
        let kind = match message.kind {
            ast::MessageKind::Message => MessageKind::Message,
            ast::MessageKind::Event => MessageKind::Event,
            ast::MessageKind::Call => {
                let results = self.add_body(interface, message, output, Origin::Output, &message.output)?;
                let error =
                    message.error.as_ref().map(|of| self.add_error(interface, message, of)).transpose()?;
                MessageKind::Call { idempotent: message.idempotent.is_some(), output: results, error }
            }
        };
        let ordinal = u16::try_from(message.ordinal.0).unwrap_or_default();
        Ok(Message { docs: message.docs.clone(), ordinal, name: message.name.text.clone(), kind, input })
    }

    /// Returns the type name of a message's body. Fails if the name is taken.
    fn body_name(&mut self, interface: &Name, message: &Name, ending: &str) -> CheckResult<String> {
        let name = format!("{}{}{ending}", interface.text, names::camel(&message.text));
        if self.used.insert(name.clone()) {
            return Ok(name);
        }
        Err(Diagnostic::new(&message.span, format!("`{name}` exists already"), "would get this name")
            .hint("the type of its parameters is named after interface and message: rename the other type"))
    }

    fn add_body(
        &mut self,
        interface: &Name,
        message: &'a ast::Message,
        ending: &str,
        origin: Origin,
        fields: &'a [Written],
    ) -> CheckResult<usize> {
        let mut distinct = names::Distinct::default();
        fields.iter().try_for_each(|field| distinct.add(&field.name, "parameter"))?;
        let name = self.body_name(interface, &message.name, ending)?;
        let fields: Vec<_> = (1_u32..).zip(fields).collect();
        let record =
            self.add_record(empty_record(Vec::new(), name, origin, false), &message.name, &fields)?;
        self.check_message_size(&message.name, record)
    }

    fn add_error(
        &mut self,
        interface: &Name,
        message: &ast::Message,
        written: &TypeExpr,
    ) -> CheckResult<usize> {
        let of = self.type_of(written)?;
        if !matches!(of, crate::model::Type::Enum(_) | crate::model::Type::Union(_)) {
            return Err(Diagnostic::new(&written.span, "an error is an enum or a union", "neither of them")
                .hint("`enum KvError : u8 { not_found = 1 }` lets the caller tell errors apart"));
        }
        let name = self.body_name(interface, &message.name, "Error")?;
        let mut record = empty_record(Vec::new(), name, Origin::Error, false);
        let layout = self.model.layout(&of);
        record.bytes = crate::model::round_up(layout.bytes, 8);
        record.outside_bytes = layout.outside_bytes;
        record.needs = self.model.needs(&of);
        record.has_default = self.model.has_default(&of);
        record.fields.push(Field { docs: Vec::new(), name: "error".to_owned(), of, offset: 0 });
        self.model.records.push(record);
        self.check_message_size(&message.name, self.model.records.len() - 1)
    }

    fn check_message_size(&self, name: &Name, record: usize) -> CheckResult<usize> {
        let longest = self.model.max_message_bytes(record);
        if longest <= MAX_MESSAGE_BYTES {
            return Ok(record);
        }
        let message = format!("`{}` can have {longest} bytes", name.text);
        Err(Diagnostic::new(&name.span, message, format!("more than {MAX_MESSAGE_BYTES}"))
            .hint("lower the maxima, or pass a buffer"))
    }
}
