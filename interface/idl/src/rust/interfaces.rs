//! Generated Rust clients, servers and handlers.

use super::Text;
use super::names::{borrows, camel, lower, value, view};
use crate::model::{HEADER_BYTES, Interface, Message, MessageKind, Model, Type};

pub(super) fn is_call(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Call { .. })
}

/// Returns the name of the marker type of a call.
pub(super) fn marker(interface: &Interface, message: &Message) -> String {
    format!("{}{}", interface.name, camel(&message.name))
}

/// Returns the name of a message's method. `bind`, `connect` and `within` are methods of every client or
/// server, so they get an underscore.
fn function(name: &str) -> String {
    if matches!(name, "bind" | "connect" | "within") { format!("{name}_") } else { lower(name) }
}

/// Names and types of a message in the generated code.
struct MessageNames<'a> {
    message: &'a Message,
    /// Name of its methods.
    name: String,
    /// Name of its enum variants.
    variant: String,
    marker: String,
    /// Type that is sent, with the lifetime `'_`.
    input: String,
    /// Type that is received, with the lifetime `'_`.
    input_view: String,
}

struct InterfaceWriter<'a> {
    model: &'a Model,
    interface: &'a Interface,
    messages: Vec<MessageNames<'a>>,
}

pub(super) fn interface<'a>(text: &mut Text, model: &'a Model, interface: &'a Interface) {
    let message_names = |message: &'a Message| {
        let input = Type::Record(message.input);
        MessageNames {
            message,
            name: function(&message.name),
            variant: camel(&message.name),
            marker: marker(interface, message),
            input: value(model, &input, "'_"),
            input_view: view(model, &input, "'_"),
        }
    };
    let messages = interface.messages.iter().map(message_names).collect();
    let writer = InterfaceWriter { model, interface, messages };
    writer.write_identity(text);
    writer.write_messages(text);
    writer.write_client(text);
    writer.write_events(text);
    writer.write_handler(text);
    writer.write_answers(text);
    writer.write_dispatch(text);
    writer.write_server(text);
}

impl InterfaceWriter<'_> {
    fn of_kind(&self, kind: &MessageKind) -> impl Iterator<Item = &MessageNames<'_>> {
        self.messages.iter().filter(move |message| message.message.kind == *kind)
    }

    /// Returns the calls, with the types of their results and declared errors.
    fn calls(&self) -> impl Iterator<Item = (&MessageNames<'_>, Type, Option<Type>)> {
        self.messages.iter().filter_map(|message| {
            let MessageKind::Call { output, error, .. } = message.message.kind else { return None };
            let declared = |index: usize| {
                let inner = self.model.records[index].fields.first().map(|field| field.of.clone());
                inner.unwrap_or(Type::Bool)
            };
            Some((message, Type::Record(output), error.map(declared)))
        })
    }

    /// Returns the type of a call's error as sent.
    fn sent_error(&self, error: Option<&Type>, life: &str) -> String {
        error.map_or("rt::Never".to_owned(), |declared| value(self.model, declared, life))
    }

    /// Returns the type of a call's error as received.
    fn read_error(&self, error: Option<&Type>, life: &str) -> String {
        error.map_or("rt::Never".to_owned(), |declared| view(self.model, declared, life))
    }

    fn write_identity(&self, text: &mut Text) {
        let Interface { name, version, hash, fingerprint, needs, .. } = self.interface;
        let bytes = |record: usize| u64::from(HEADER_BYTES) + self.model.records[record].bytes;
        let records = self.interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let needed = records.map(bytes).max().unwrap_or(u64::from(HEADER_BYTES));
        text.line(0, "");
        text.line(0, "rt::interface! {");
        text.docs(1, &self.interface.docs, &format!("Interface `{name}`."));
        text.lines(
            1,
            &format!(
                "pub struct {name} = \"{package}.{name}\" version {version};
hash {hash:#018x}, fingerprint {fingerprint:#018x};
capabilities {capabilities}, buffers {buffers}, message_bytes {needed};
client {name}Client<{name}Events>, server {name}Server;",
                package = self.model.package,
                capabilities = needs.capabilities,
                buffers = needs.buffers,
            ),
        );
        text.line(0, "}");
    }

    /// Writes the types that associate each message with its ordinal.
    fn write_messages(&self, text: &mut Text) {
        let name = &self.interface.name;
        for (call, reply, error) in self.calls() {
            let MessageKind::Call { idempotent, .. } = call.message.kind else { continue };
            text.line(0, "");
            text.line(0, "rt::method! {");
            text.docs(1, &call.message.docs, &format!("The call `{}`.", call.message.name));
            text.lines(
                1,
                &format!(
                    "pub struct {} of {name} @ {}, idempotent {idempotent};
{} => {};
{} => {};
error {} => {};",
                    call.marker,
                    call.message.ordinal,
                    call.input,
                    call.input_view.replace("<'_>", ""),
                    value(self.model, &reply, "'a"),
                    view(self.model, &reply, "'m").replace("<'m>", ""),
                    self.sent_error(error.as_ref(), "'a"),
                    self.read_error(error.as_ref(), "'m"),
                ),
            );
            text.line(0, "}");
        }
        for (kind, word) in [(MessageKind::Message, "OneWay"), (MessageKind::Event, "Event")] {
            for message in self.of_kind(&kind) {
                let ordinal = message.message.ordinal;
                text.line(0, "");
                text.line(0, &format!("rt::one_way! {{ {word} {}, of {name} @ {ordinal} }}", message.input));
            }
        }
    }

    fn write_client(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.line(0, "");
        text.line(0, &format!("impl<P: rt::Port, E: {name}Events> {name}Client<P, E> {{"));
        let mut first = true;
        for (call, _, _) in self.calls() {
            if !std::mem::take(&mut first) {
                text.line(0, "");
            }
            text.docs(1, &call.message.docs, &format!("Calls `{}`.", call.message.name));
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// [`rt::CallError`]. An error that the interface declares is in [`Declined`](rt::CallError::Declined).
#[inline]
pub fn {}(&mut self, request: &{}) -> rt::Called<'_, {}, P::Error> {{
    self.0.call(request)
}}",
                    call.name, call.input, call.marker,
                ),
            );
        }
        for message in self.of_kind(&MessageKind::Message) {
            if !std::mem::take(&mut first) {
                text.line(0, "");
            }
            self.write_one_way(text, message);
        }
        text.line(0, "}");
    }

    /// Writes the method that sends a one-way message, of a client or a server.
    fn write_one_way(&self, text: &mut Text, message: &MessageNames<'_>) {
        text.docs(1, &message.message.docs, &format!("Sends `{}`.", message.message.name));
        text.lines(
            1,
            &format!(
                "///
/// # Errors
/// [`rt::CallError`] if the message was not sent.
pub fn {}(&mut self, message: &{}) -> Result<(), rt::CallError<P::Error>> {{
    self.0.tell(message)
}}",
                message.name, message.input
            ),
        );
    }

    fn write_events(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.line(0, "");
        text.line(0, &format!("/// Handles the events of [`{name}`]; `()` ignores them."));
        text.line(0, &format!("pub trait {name}Events {{"));
        let mut arms = String::new();
        for (index, event) in self.of_kind(&MessageKind::Event).enumerate() {
            if index > 0 {
                text.line(0, "");
            }
            text.docs(1, &event.message.docs, &format!("Handles `{}`.", event.message.name));
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// [`rt::Malformed`] if the event cannot be decoded. Such events are counted.
fn {}(&mut self, event: {}) -> Result<(), rt::Malformed> {{
    let _ = event;
    Ok(())
}}",
                    event.name, event.input_view
                ),
            );
            let ordinal = event.message.ordinal;
            arms.push_str(&format!(
                "            {ordinal} => events.{}(body.into()).map(|()| true),\n",
                event.name
            ));
        }
        let (arguments, hear) = if arms.is_empty() {
            ("_: &mut E, _: u16, _: rt::Record<'_>", "        Ok(false)\n".to_owned())
        } else {
            let hear = format!("        match ordinal {{\n{arms}            _ => Ok(false),\n        }}\n");
            ("events: &mut E, ordinal: u16, body: rt::Record<'_>", hear)
        };
        text.lines(
            0,
            &format!(
                "}}

impl {name}Events for () {{}}

impl<E: {name}Events + ?Sized> rt::Hears<E> for {name} {{
    #[inline]
    fn hear({arguments}) -> Result<bool, rt::Malformed> {{
{hear}    }}
}}"
            ),
        );
    }

    fn write_handler(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.lines(
            0,
            &format!("\n/// Handles the calls and messages of [`{name}`].\npub trait {name}Handler {{"),
        );
        let mut first = true;
        for (call, reply, error) in self.calls() {
            if !std::mem::take(&mut first) {
                text.line(0, "");
            }
            text.docs(1, &call.message.docs, &format!("Handles `{}`.", call.message.name));
            let borrowed = borrows(self.model, &reply)
                || error.as_ref().is_some_and(|declared| borrows(self.model, declared));
            let (generic, this) = if borrowed { ("<'s>", "&'s mut self") } else { ("", "&mut self") };
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// The call is declined with the error.
fn {}{generic}({this}, call: rt::Call<'_, {}>) -> Result<rt::Response<{}>, rt::Decline<{}>>;",
                    call.name,
                    call.marker,
                    value(self.model, &reply, "'s"),
                    self.sent_error(error.as_ref(), "'s"),
                ),
            );
        }
        for message in self.of_kind(&MessageKind::Message) {
            if !std::mem::take(&mut first) {
                text.line(0, "");
            }
            text.docs(1, &message.message.docs, &format!("Handles `{}`.", message.message.name));
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// [`rt::Malformed`] if the message cannot be decoded. Such messages are counted.
fn {}(&mut self, message: {}) -> Result<(), rt::Malformed>;",
                    message.name, message.input_view
                ),
            );
        }
        text.line(0, "}");
    }

    /// Returns the type of a server's replies, with the lifetime `life` if a reply borrows.
    fn answer_type(&self, life: &str) -> String {
        let borrowed = |of: &Type| borrows(self.model, of);
        if self.calls().next().is_none() {
            return "rt::Never".to_owned();
        }
        let any =
            self.calls().any(|(_, reply, error)| borrowed(&reply) || error.as_ref().is_some_and(borrowed));
        let life = if any { format!("<{life}>") } else { String::new() };
        format!("{}Answer{life}", self.interface.name)
    }

    fn write_answers(&self, text: &mut Text) {
        if self.calls().next().is_none() {
            return;
        }
        text.line(0, "");
        text.line(0, "rt::answers! {");
        text.line(1, &format!("/// Answers of a server of [`{}`].", self.interface.name));
        text.line(1, &format!("pub enum {};", self.answer_type("'s")));
        for (call, reply, error) in self.calls() {
            text.line(1, &format!("{}Reply({}),", call.variant, value(self.model, &reply, "'s")));
            if error.is_some() {
                let declared = self.sent_error(error.as_ref(), "'s");
                text.line(
                    1,
                    &format!("{}Declined(rt::Declined<{}, {declared}>),", call.variant, call.marker),
                );
            }
        }
        text.line(0, "}");
    }

    /// Writes the server's dispatch of messages to handler methods by ordinal.
    fn write_dispatch(&self, text: &mut Text) {
        let name = &self.interface.name;
        let mut arms = String::new();
        for (call, _, error) in self.calls() {
            let (ordinal, variant) = (call.message.ordinal, &call.variant);
            let (of, declined) = match error {
                None => ("of_sure", String::new()),
                Some(_) => ("of", format!(", {name}Answer::{variant}Declined")),
            };
            arms.push_str(&format!(
                "            (rt::Kind::Call, {ordinal}) => {{
                let result = handler.{}(request.call());
                rt::Outcome::{of}(result, {name}Answer::{variant}Reply{declined})
            }}\n",
                call.name,
            ));
        }
        for message in self.of_kind(&MessageKind::Message) {
            arms.push_str(&format!(
                "            (rt::Kind::Message, {}) => rt::Outcome::of_message(handler.{}(request.view())),\n",
                message.message.ordinal, message.name
            ));
        }
        let handler = if arms.is_empty() { "_" } else { "handler" };
        text.lines(
            0,
            &format!(
                "
impl<H: {name}Handler + ?Sized> rt::Serves<H> for {name} {{
    type Answers<'s>
        = {answers}
    where
        H: 's;

    #[inline]
    fn dispatch<'s>({handler}: &'s mut H, request: &rt::Incoming<'_>) -> rt::Outcome<Self::Answers<'s>> {{
        match request.what() {{
{arms}            _ => request.unknown(),
        }}
    }}
}}",
                answers = self.answer_type("'s"),
            ),
        );
    }

    fn write_server(&self, text: &mut Text) {
        let name = &self.interface.name;
        let mut events = self.of_kind(&MessageKind::Event).peekable();
        if events.peek().is_none() {
            return;
        }
        text.line(0, "");
        text.line(0, &format!("impl<P: rt::Port> {name}Server<P> {{"));
        for (index, event) in events.enumerate() {
            if index > 0 {
                text.line(0, "");
            }
            self.write_one_way(text, event);
        }
        text.line(0, "}");
    }
}
