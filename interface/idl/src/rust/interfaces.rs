//! Clients, servers and handlers.

use super::Text;
use super::names::{borrows, camel, lower, value, view};
use crate::model::{HEADER_BYTES, Interface, Message, MessageKind, Model, Type};

pub(super) fn is_call(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Call { .. })
}

/// The type that stands for a call.
pub(super) fn marker(interface: &Interface, message: &Message) -> String {
    format!("{}{}", interface.name, camel(&message.name))
}

/// What calls send, by their names as variants.
type Cases<'a> = Vec<(&'a str, Type)>;

/// What back-end code says about a message.
struct Spelled<'a> {
    message: &'a Message,
    /// As a function.
    name: String,
    /// As a variant.
    variant: String,
    marker: String,
    /// What is sent, with the lifetime `'_`.
    input: String,
    /// What is read, with the lifetime `'_`.
    input_view: String,
}

struct Spelling<'a> {
    model: &'a Model,
    interface: &'a Interface,
    messages: Vec<Spelled<'a>>,
}

pub(super) fn interface<'a>(text: &mut Text, model: &'a Model, interface: &'a Interface) {
    let spelled = |message: &'a Message| {
        let input = Type::Record(message.input);
        Spelled {
            message,
            name: lower(&message.name),
            variant: camel(&message.name),
            marker: marker(interface, message),
            input: value(model, &input, "'_"),
            input_view: view(model, &input, "'_"),
        }
    };
    let messages = interface.messages.iter().map(spelled).collect();
    let spelling = Spelling { model, interface, messages };
    spelling.identity(text);
    spelling.markers(text);
    spelling.client(text);
    spelling.events(text);
    spelling.handler(text);
    spelling.answers(text);
    spelling.server(text);
}

impl Spelling<'_> {
    fn calls(&self) -> impl Iterator<Item = &Spelled<'_>> {
        self.messages.iter().filter(|message| is_call(message.message))
    }

    fn of_kind(&self, kind: &MessageKind) -> impl Iterator<Item = &Spelled<'_>> {
        self.messages.iter().filter(move |message| message.message.kind == *kind)
    }

    /// The results of a call; what it is declined with, as declared; the record of that.
    fn answers_of(&self, message: &Message) -> (Type, Option<(Type, Type)>) {
        let MessageKind::Call { output, error, .. } = message.kind else {
            return (Type::Record(message.input), None);
        };
        let declared = |index: usize| {
            let inner = self.model.records[index].fields.first().map(|field| field.of.clone());
            (inner.unwrap_or(Type::Bool), Type::Record(index))
        };
        (Type::Record(output), error.map(declared))
    }

    fn identity(&self, text: &mut Text) {
        let Interface { name, version, hash, fingerprint, needs, .. } = self.interface;
        let bytes = |record: usize| u64::from(HEADER_BYTES) + self.model.records[record].bytes;
        let records = self.interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let needed = records.map(bytes).max().unwrap_or(u64::from(HEADER_BYTES));
        text.line(0, "");
        text.docs(0, &self.interface.docs, &format!("Interface `{name}`."));
        text.lines(
            0,
            &format!(
                "#[derive(Clone, Copy, Debug)]
pub struct {name};

impl {name} {{
    /// Package and name.
    pub const NAME: &'static str = \"{package}.{name}\";
    /// Grows when peers of before cannot be served.
    pub const VERSION: u32 = {version};
    /// What both sides of a channel must have in common, of package, name and version.
    pub const HASH: u64 = {hash:#018x};
    /// Of everything that peers can notice.
    pub const FINGERPRINT: u64 = {fingerprint:#018x};
    /// What the link must be able to carry.
    pub const NEEDS: rt::client::Needs = rt::client::Needs {{
        carries: rt::Carries {{ capabilities: {capabilities}, buffers: {buffers} }},
        message_bytes: {needed},
    }};
}}",
                package = self.model.package,
                capabilities = needs.capabilities,
                buffers = needs.buffers,
            ),
        );
    }

    fn markers(&self, text: &mut Text) {
        for call in self.calls() {
            let MessageKind::Call { idempotent, .. } = call.message.kind else { continue };
            let (reply, error) = self.answers_of(call.message);
            let error =
                error.map_or("rt::Never".to_owned(), |(declared, _)| view(self.model, &declared, "'m"));
            text.lines(
                0,
                &format!(
                    "
/// The call `{}`, as a type.
#[derive(Clone, Copy, Debug)]
pub struct {};

impl rt::Method for {} {{
    const ORDINAL: u16 = {};
    const IDEMPOTENT: bool = {idempotent};
    type Reply<'m> = {};
    type Error<'m> = {error};
}}",
                    call.message.name,
                    call.marker,
                    call.marker,
                    call.message.ordinal,
                    view(self.model, &reply, "'m"),
                ),
            );
        }
    }

    fn client(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.lines(
            0,
            &format!(
                "
/// The calling side of [`{name}`]. `E` takes its events.
#[derive(Debug)]
pub struct {name}Client<P, E = ()> {{
    client: rt::Client<P>,
    events: E,
}}

impl<P: rt::Port, E: {name}Events> {name}Client<P, E> {{
    /// A client over a channel that was opened with [`{name}::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P, events: E) -> Result<Self, rt::BindError> {{
        let client = rt::Client::bind(port, {name}::NEEDS, rt::client::MAX_IN_FLIGHT)?;
        Ok({name}Client {{ client, events }})
    }}

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {{
        self.client.counts()
    }}

    /// The channel.
    pub fn port(&mut self) -> &mut P {{
        self.client.port()
    }}

    /// What takes the events.
    pub fn events(&mut self) -> &mut E {{
        &mut self.events
    }}

    /// Takes what has arrived, without waiting.
    ///
    /// # Errors
    /// The channel has ended; answers that arrived before can still be waited for.
    pub fn poll(&mut self) -> Result<(), P::Error> {{
        let Self {{ client, events }} = self;
        client.poll(&mut |ordinal, body| events.dispatch(ordinal, body))
    }}

    /// Whether waiting for a call would return at once.
    #[must_use]
    pub fn is_ready<M>(&self, call: &rt::Pending<M>) -> bool {{
        self.client.is_ready(call)
    }}

    /// Gives a call up; the server is told.
    pub fn cancel<M>(&mut self, call: rt::Pending<M>) {{
        self.client.cancel(call);
    }}"
            ),
        );
        for message in &self.messages {
            match message.message.kind {
                MessageKind::Call { .. } => self.call(text, message),
                MessageKind::Message => self.told(text, message, "client"),
                MessageKind::Event => {}
            }
        }
        text.line(0, "}");
    }

    fn call(&self, text: &mut Text, call: &Spelled<'_>) {
        let (reply, error) = self.answers_of(call.message);
        let reply = view(self.model, &reply, "'_");
        let error = error.map_or("rt::Never".to_owned(), |(declared, _)| view(self.model, &declared, "'_"));
        let bare = &call.message.name;
        text.line(0, "");
        text.docs(1, &call.message.docs, &format!("Calls `{bare}`."));
        text.lines(
            1,
            &format!(
                "///
/// The answer is read where it lies.
///
/// # Errors
/// [`rt::CallError`]; an error that the interface declares is given to `read`.
#[inline]
pub fn {function}<R>(
    &mut self,
    request: &{input},
    timeout: core::time::Duration,
    read: impl FnOnce(Result<{reply}, {error}>) -> Result<R, rt::Malformed>,
) -> Result<R, rt::CallError<P::Error>> {{
    let call = self.start_{bare}(request, timeout)?;
    self.wait_{bare}(call, read)
}}

/// Calls `{bare}` without waiting for its answer.
///
/// # Errors
/// [`rt::CallError`]: nothing was sent.
#[inline]
pub fn start_{bare}(
    &mut self,
    request: &{input},
    timeout: core::time::Duration,
) -> Result<rt::Pending<{marker}>, rt::CallError<P::Error>> {{
    self.client.start::<{marker}>(request, timeout)
}}

/// Waits for the answer to `{bare}`.
///
/// # Errors
/// [`rt::CallError`]; an error that the interface declares is given to `read`.
#[inline]
pub fn wait_{bare}<R>(
    &mut self,
    call: rt::Pending<{marker}>,
    read: impl FnOnce(Result<{reply}, {error}>) -> Result<R, rt::Malformed>,
) -> Result<R, rt::CallError<P::Error>> {{
    let Self {{ client, events }} = self;
    client.wait::<{marker}, R>(call, &mut |ordinal, body| events.dispatch(ordinal, body), read)
}}",
                function = call.name,
                input = call.input,
                marker = call.marker,
            ),
        );
    }

    /// Sends a one-way message, from either side.
    fn told(&self, text: &mut Text, message: &Spelled<'_>, side: &str) {
        text.line(0, "");
        text.docs(1, &message.message.docs, &format!("Sends `{}`.", message.message.name));
        text.lines(
            1,
            &format!(
                "///
/// # Errors
/// [`rt::CallError`]: it was not sent.
pub fn {}(
    &mut self,
    message: &{},
    timeout: core::time::Duration,
) -> Result<(), rt::CallError<P::Error>> {{
    self.{side}.tell({}, message, timeout)
}}",
                message.name, message.input, message.message.ordinal
            ),
        );
    }

    fn events(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.lines(
            0,
            &format!("\n/// Takes the events of [`{name}`]; `()` takes none.\npub trait {name}Events {{"),
        );
        let mut arms = String::new();
        for event in self.of_kind(&MessageKind::Event) {
            text.docs(1, &event.message.docs, &format!("Takes `{}`.", event.message.name));
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// It could not be read; it is counted.
fn {}(&mut self, event: {}) -> Result<(), rt::Malformed> {{
    let _ = event;
    Ok(())
}}
",
                    event.name, event.input_view
                ),
            );
            arms.push_str(&format!(
                "        {} => self.{}(body.into()).map(|()| true),\n",
                event.message.ordinal, event.name
            ));
        }
        let body = if arms.is_empty() {
            "    let _ = (ordinal, body);\n    Ok(false)\n".to_owned()
        } else {
            format!("    match ordinal {{\n{arms}        _ => Ok(false),\n    }}\n")
        };
        text.lines(
            1,
            &format!(
                "/// Passes an event on; false if its ordinal is unknown.
///
/// # Errors
/// It could not be read.
fn dispatch(&mut self, ordinal: u16, body: rt::Record<'_>) -> Result<bool, rt::Malformed> {{
{body}}}"
            ),
        );
        text.lines(0, &format!("}}\n\nimpl {name}Events for () {{}}"));
    }

    fn handler(&self, text: &mut Text) {
        let name = &self.interface.name;
        text.lines(0, &format!("\n/// Serves [`{name}`].\npub trait {name}Handler {{"));
        let served = self.messages.iter().filter(|message| message.message.kind != MessageKind::Event);
        for (index, message) in served.enumerate() {
            if index > 0 {
                text.line(0, "");
            }
            text.docs(1, &message.message.docs, &format!("Serves `{}`.", message.message.name));
            if !is_call(message.message) {
                text.lines(
                    1,
                    &format!(
                        "///
/// # Errors
/// It could not be read; it is counted.
fn {}(&mut self, message: {}) -> Result<(), rt::Malformed>;",
                        message.name, message.input_view
                    ),
                );
                continue;
            }
            let (reply, error) = self.answers_of(message.message);
            let error = error.map(|(declared, _)| declared);
            let borrowed = borrows(self.model, &reply)
                || error.as_ref().is_some_and(|declared| borrows(self.model, declared));
            let (generic, this) = if borrowed { ("<'s>", "&'s mut self") } else { ("", "&mut self") };
            let error = error.map_or("rt::Never".to_owned(), |declared| value(self.model, &declared, "'s"));
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// What declines it, or that it is answered later.
fn {}{generic}(
    {this},
    call: rt::Later,
    request: {},
) -> Result<{}, rt::Decline<{error}>>;",
                    message.name,
                    message.input_view,
                    value(self.model, &reply, "'s"),
                ),
            );
        }
        text.line(0, "}");
    }

    /// The types of what is sent for all calls: results, and declared errors.
    fn answer_types(&self) -> (Cases<'_>, Cases<'_>) {
        let reply = |call: &Spelled<'_>| self.answers_of(call.message).0;
        let error = |call: &Spelled<'_>| self.answers_of(call.message).1.map(|(_, record)| record);
        let (mut replies, mut errors) = (Vec::new(), Vec::new());
        for call in self.messages.iter().filter(|message| is_call(message.message)) {
            replies.push((&*call.variant, reply(call)));
            errors.extend(error(call).map(|record| (&*call.variant, record)));
        }
        (replies, errors)
    }

    /// The name of one of them, with that lifetime.
    fn answer_name(&self, cases: &[(&str, Type)], ending: &str, life: &str) -> String {
        if cases.is_empty() {
            return "rt::Never".to_owned();
        }
        let borrowed = cases.iter().any(|(_, of)| borrows(self.model, of));
        let life = if borrowed { format!("<{life}>") } else { String::new() };
        format!("{}{ending}{life}", self.interface.name)
    }

    fn answers(&self, text: &mut Text) {
        let (replies, errors) = self.answer_types();
        for (cases, ending) in [(replies, "Reply"), (errors, "Failure")] {
            if cases.is_empty() {
                continue;
            }
            let name = format!("{}{ending}", self.interface.name);
            text.line(0, "");
            text.line(0, &format!("enum {} {{", self.answer_name(&cases, ending, "'s")));
            for (variant, of) in &cases {
                text.line(1, &format!("{variant}({}),", value(self.model, of, "'s")));
            }
            let arms = |what: &str| -> String {
                cases
                    .iter()
                    .map(|(variant, _)| format!("            {name}::{variant}(body) => {what},\n"))
                    .collect()
            };
            text.lines(
                0,
                &format!(
                    "}}

impl rt::Body for {} {{
    #[inline]
    fn record_bytes(&self) -> u32 {{
        match self {{
{}        }}
    }}

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {{
        match self {{
{}        }}
    }}

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        place: &mut rt::encode::Place,
        at: u32,
        out: &mut rt::encode::Out<'_, K>,
    ) {{
        match self {{
{}        }}
    }}
}}",
                    self.answer_name(&cases, ending, "'_"),
                    arms("body.record_bytes()"),
                    arms("body.measure()"),
                    arms("body.fields(place, at, out)"),
                ),
            );
        }
    }

    /// What a server does with each ordinal.
    fn arms(&self) -> String {
        let name = &self.interface.name;
        let mut arms = String::new();
        for message in &self.messages {
            let (ordinal, function) = (message.message.ordinal, &message.name);
            match &message.message.kind {
                MessageKind::Event => {}
                MessageKind::Message => arms.push_str(&format!(
                    "            (rt::Kind::Message, {ordinal}) => rt::server::Answer::of_message(handler.{function}(body.into())),\n"
                )),
                MessageKind::Call { .. } => {
                    let variant = &message.variant;
                    let failure = match self.answers_of(message.message).1 {
                        None => "|never| match never {}".to_owned(),
                        Some((_, record)) => {
                            let body = value(self.model, &record, "'_").replace("<'_>", "");
                            format!("|error| {name}Failure::{variant}({body} {{ error }})")
                        }
                    };
                    arms.push_str(&format!(
                        "            (rt::Kind::Call, {ordinal}) => rt::server::Answer::of(\n                \
                         handler.{function}(call, body.into()),\n                {name}Reply::{variant},\n                \
                         {failure},\n            ),\n"
                    ));
                }
            }
        }
        arms
    }

    fn server(&self, text: &mut Text) {
        let name = &self.interface.name;
        let (replies, errors) = self.answer_types();
        let (reply, failure) =
            (self.answer_name(&replies, "Reply", "'_"), self.answer_name(&errors, "Failure", "'_"));
        text.lines(
            0,
            &format!(
                "
/// The serving side of [`{name}`].
#[derive(Debug)]
pub struct {name}Server<P> {{
    server: rt::Server<P>,
}}

impl<P: rt::Port> {name}Server<P> {{
    /// A server over a channel that was opened with [`{name}::HASH`].
    ///
    /// # Errors
    /// The link lacks what the interface needs.
    pub fn bind(port: P) -> Result<Self, rt::BindError> {{
        rt::Server::bind(port, {name}::NEEDS).map(|server| {name}Server {{ server }})
    }}

    /// What has passed.
    #[must_use]
    pub fn counts(&self) -> rt::client::Counts {{
        self.server.counts()
    }}

    /// The channel.
    pub fn port(&mut self) -> &mut P {{
        self.server.port()
    }}

    /// Whether somebody still waits for the answer to a call.
    #[must_use]
    pub fn is_outstanding(&self, call: rt::Later) -> bool {{
        self.server.is_outstanding(call)
    }}

    /// Takes one message, waiting for it up to `timeout`, and answers it if it is a call. Says whether one came.
    ///
    /// # Errors
    /// [`rt::ServeError`]: the channel is of no use any more.
    #[inline]
    pub fn serve_one(
        &mut self,
        handler: &mut impl {name}Handler,
        timeout: core::time::Duration,
    ) -> Result<bool, rt::ServeError<P::Error>> {{
        self.server.serve::<{reply}, {failure}>(timeout, |header, call, body| match (header.kind, header.ordinal) {{
{arms}            (rt::Kind::Call, _) => rt::server::Answer::Fault(rt::Fault::Unknown),
            _ => rt::server::Answer::Unknown,
        }})
    }}",
                arms = self.arms(),
            ),
        );
        for message in &self.messages {
            match message.message.kind {
                MessageKind::Event => self.told(text, message, "server"),
                MessageKind::Call { .. } => self.later(text, message),
                MessageKind::Message => {}
            }
        }
        text.line(0, "}");
    }

    /// Answers a call later.
    fn later(&self, text: &mut Text, call: &Spelled<'_>) {
        let (reply, error) = self.answers_of(call.message);
        let reply = value(self.model, &reply, "'_");
        let (declared, sent) = match &error {
            None => ("rt::Never".to_owned(), "result".to_owned()),
            Some((declared, record)) => {
                let body = value(self.model, record, "'_").replace("<'_>", "");
                (value(self.model, declared, "'_"), format!("result.map_err(|error| {body} {{ error }})"))
            }
        };
        text.lines(
            1,
            &format!(
                "
/// Answers a call of `{}` later.
///
/// # Errors
/// [`rt::ReplyError`]: it was not sent.
pub fn reply_{}(
    &mut self,
    call: rt::Later,
    result: Result<{reply}, {declared}>,
    timeout: core::time::Duration,
) -> Result<(), rt::ReplyError<P::Error>> {{
    self.server.reply(call, {}, {sent}, timeout)
}}",
                call.message.name, call.message.name, call.message.ordinal
            ),
        );
    }
}
