//! Generated Go clients, handlers and servers.

use std::collections::BTreeMap;

use super::names::{go_type, lower, uncapitalised, upper};
use super::{GoError, Text};
use crate::check::names::camel;
use crate::model::{Field, HEADER_BYTES, Interface, Message, MessageKind, Model, Record, Type};

/// Passes every name that an interface defines to `add`.
pub(super) fn names(
    interface: &Interface,
    add: &mut dyn FnMut(String, String) -> Result<(), GoError>,
) -> Result<(), GoError> {
    let name = &interface.name;
    let what = format!("interface `{name}`");
    let parts = ["Interface", "Client", "Server", "Handler", "Events"].map(|part| format!("{name}{part}"));
    let functions = ["Client", "Server"].map(|part| format!("New{name}{part}"));
    for part in parts.into_iter().chain(functions) {
        add(part, what.clone())?;
    }
    let mut methods: BTreeMap<String, &str> = BTreeMap::new();
    for message in &interface.messages {
        add(variable(interface, message), format!("`{}` of {what}", message.name))?;
        let method = upper(&message.name);
        if let Some(first) = methods.insert(method.clone(), &message.name) {
            let (first, second) = (format!("`{first}`"), format!("`{}` of {what}", message.name));
            return Err(GoError::NameTaken { name: method, first, second });
        }
    }
    Ok(())
}

/// Returns the name of the variable that describes a message.
fn variable(interface: &Interface, message: &Message) -> String {
    format!("{}{}", uncapitalised(&interface.name), camel(&message.name))
}

/// Writes only the descriptions of an interface and of the messages in `only`, for programs that implement
/// their own client.
pub(super) fn messages(text: &mut Text, model: &Model, interface: &Interface, only: &[String]) {
    let writer = &mut InterfaceWriter { text, model, interface };
    writer.write_declaration();
    for message in interface.messages.iter().filter(|message| only.contains(&message.name)) {
        writer.text.blank();
        let name = format!("{}{}Message", interface.name, camel(&message.name));
        writer.text.line(0, &format!("// {name} is the message `{}`.", message.name));
        writer.write_message(message, &name);
    }
}

pub(super) fn interface(text: &mut Text, model: &Model, interface: &Interface) {
    let writer = &mut InterfaceWriter { text, model, interface };
    writer.write_declaration();
    for message in &interface.messages {
        writer.text.blank();
        writer.write_message(message, &variable(interface, message));
    }
    writer.write_client();
    writer.write_handler();
    writer.write_server();
}

struct InterfaceWriter<'a> {
    text: &'a mut Text,
    model: &'a Model,
    interface: &'a Interface,
}

impl<'a> InterfaceWriter<'a> {
    fn client_messages(&self) -> Vec<&'a Message> {
        self.interface.messages.iter().filter(|message| message.kind == MessageKind::Event).collect()
    }

    fn server_messages(&self) -> Vec<&'a Message> {
        self.interface.messages.iter().filter(|message| message.kind != MessageKind::Event).collect()
    }

    fn input_record(&self, message: &Message) -> &'a Record {
        &self.model.records[message.input]
    }

    /// Returns the results of a call, if it has any.
    fn output_record(&self, message: &Message) -> Option<&'a Record> {
        let MessageKind::Call { output, .. } = message.kind else { return None };
        Some(&self.model.records[output]).filter(|output| !output.fields.is_empty())
    }

    /// Returns the declared error of a call: its record, and the only field in it.
    fn declared_error(&self, message: &Message) -> Option<(&'a Record, &'a Field)> {
        let MessageKind::Call { error: Some(error), .. } = message.kind else { return None };
        let record = &self.model.records[error];
        record.fields.first().map(|field| (record, field))
    }

    fn write_declaration(&mut self) {
        let interface = self.interface;
        let records = interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let fixed = records.map(|record| self.model.records[record].bytes + u64::from(HEADER_BYTES)).max();
        let name = format!("{}.{}", self.model.package, interface.name);
        self.text.blank();
        self.text.line(
            0,
            &format!("// {}Interface describes the interface to both sides of a channel.", interface.name),
        );
        self.text.line(0, &format!("var {}Interface = stubs.Interface{{", interface.name));
        // Empty lines between the fields keep gofmt from aligning them.
        let fields = [
            format!("Name: \"{name}\","),
            format!("Version: {},", interface.version),
            format!("Hash: {:#018x},", interface.hash),
            format!("Fingerprint: {:#018x},", interface.fingerprint),
            format!("Capabilities: {},", interface.needs.capabilities),
            format!("Buffers: {},", interface.needs.buffers),
            format!("MessageBytes: {},", fixed.unwrap_or(8)),
        ];
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.text.blank();
            }
            self.text.line(1, field);
        }
        self.text.line(0, "}");
    }

    fn write_message(&mut self, message: &Message, name: &str) {
        let label = format!("{}.{}", self.interface.name, message.name);
        let idempotent = matches!(message.kind, MessageKind::Call { idempotent: true, .. });
        let head = format!("Ordinal: {}, Name: \"{label}\", Idempotent: {idempotent}", message.ordinal);
        let Some((record, field)) = self.declared_error(message) else {
            return self.text.line(0, &format!("var {name} = stubs.Message{{{head}}}"));
        };
        self.text
            .line(0, &format!("var {name} = stubs.Message{{{head}, Declined: func(v stubs.View) error {{"));
        self.text.line(1, &format!("var m {}", record.name));
        self.text.line(1, "m.DecodeWire(v)");
        self.text.line(1, &format!("return stubs.Decline(m.{})", upper(&field.name)));
        self.text.line(0, "}}");
    }

    /// Returns the parameter list of a method, with types.
    fn parameter_list(&self, message: &Message) -> String {
        let fields = self.input_record(message).fields.iter();
        let one = |field: &Field| format!(", {} {}", lower(&field.name), go_type(self.model, &field.of));
        format!("ctx context.Context{}", fields.map(one).collect::<String>())
    }

    /// Returns the result type of a client's or handler's method.
    fn result_type(&self, message: &Message) -> String {
        match (self.output_record(message), &message.kind) {
            (Some(output), _) => format!("({}, error)", output.name),
            _ => "error".to_owned(),
        }
    }

    /// Returns the composite literal of a message, built from the parameters.
    fn message_literal(&self, message: &Message) -> String {
        let input = self.input_record(message);
        let one = |field: &Field| format!("{}: {}", upper(&field.name), lower(&field.name));
        format!("{}{{{}}}", input.name, input.fields.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    fn write_doc_comment(&mut self, depth: usize, message: &Message, plain: &str) {
        let method = upper(&message.name);
        match &message.docs[..] {
            [] => self.text.line(depth, &format!("// {method} {plain}")),
            [first, rest @ ..] => {
                self.text.line(depth, &format!("// {method}: {first}"));
                self.text.go_comment(depth, rest);
            }
        }
        if let Some((_, field)) = self.declared_error(message) {
            self.text.line(depth, "//");
            let of = go_type(self.model, &field.of);
            self.text.line(
                depth,
                &format!("// The server can decline the call with a {of}: see stubs.DeclinedWith."),
            );
        }
    }

    fn write_events(&mut self) -> bool {
        let (name, heard) = (&self.interface.name, self.client_messages());
        if heard.is_empty() {
            return false;
        }
        self.text.blank();
        self.text.line(0, &format!("// {name}Events handles the one-way messages of a server."));
        self.text.line(0, &format!("type {name}Events interface {{"));
        self.write_methods(&heard);
        true
    }

    fn write_client(&mut self) {
        let (name, has_events) = (&self.interface.name, self.write_events());
        self.text.blank();
        self.text
            .line(0, &format!("// {name}Client is the calling end of a channel. Goroutines may share it."));
        self.text.line(0, &format!("type {name}Client struct{{ stub *stubs.Client }}"));
        self.text.blank();
        self.text.line(
            0,
            &format!("// New{name}Client creates a client, which uses the channel until it is closed."),
        );
        let parameter = if has_events { format!(", events {name}Events") } else { String::new() };
        if has_events {
            self.text.line(
                0,
                "// Events are handled in order, and must not block; if events is nil, they are dropped.",
            );
        }
        self.text
            .line(0, &format!("func New{name}Client(port stubs.Port{parameter}) (*{name}Client, error) {{"));
        if has_events {
            self.text.line(
                1,
                &format!("stub, err := stubs.NewClient(port, &{name}Interface, func(r *stubs.Request) {{"),
            );
            self.text.lines(2, "ctx := r.Context()\nif events == nil {\n    r.Ignore()\n    return\n}");
            self.write_dispatch(2, "events", &self.client_messages());
            self.text.line(1, "})");
        } else {
            self.text.line(1, &format!("stub, err := stubs.NewClient(port, &{name}Interface, nil)"));
        }
        self.text.lines(1, "if err != nil {\n    return nil, err\n}");
        self.text.line(1, &format!("return &{name}Client{{stub: stub}}, nil"));
        self.text.line(0, "}");
        self.write_stub("Client");
        for message in self.server_messages() {
            self.write_call(message);
        }
    }

    fn write_stub(&mut self, part: &str) {
        let name = &self.interface.name;
        self.text.blank();
        self.text.line(0, "// Stub returns the underlying stub, which has counters and can be closed.");
        self.text.line(0, &format!("func (c *{name}{part}) Stub() *stubs.{part} {{ return c.stub }}"));
    }

    fn write_call(&mut self, message: &Message) {
        let (name, method) = (&self.interface.name, upper(&message.name));
        self.text.blank();
        self.write_doc_comment(0, message, "is a message of the interface.");
        let (parameters, result) = (self.parameter_list(message), self.result_type(message));
        self.text.line(0, &format!("func (c *{name}Client) {method}({parameters}) {result} {{"));
        let (variable, literal) = (variable(self.interface, message), self.message_literal(message));
        if !matches!(message.kind, MessageKind::Call { .. }) {
            self.text.line(1, &format!("return c.stub.Tell(ctx, &{variable}, &{literal})"));
        } else if let Some(output) = self.output_record(message) {
            self.text.line(1, &format!("var reply {}", output.name));
            self.text.line(1, &format!("err := c.stub.Call(ctx, &{variable}, &{literal}, &reply)"));
            self.text.line(1, "return reply, err");
        } else {
            self.text.line(1, &format!("return c.stub.Call(ctx, &{variable}, &{literal}, nil)"));
        }
        self.text.line(0, "}");
    }

    fn write_methods(&mut self, messages: &[&'a Message]) {
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                self.text.blank();
            }
            self.write_doc_comment(1, message, "is a message of the interface.");
            let result = match message.kind {
                MessageKind::Call { .. } => format!(" {}", self.result_type(message)),
                _ => String::new(),
            };
            self.text.line(1, &format!("{}({}){result}", upper(&message.name), self.parameter_list(message)));
        }
        self.text.line(0, "}");
    }

    fn write_handler(&mut self) {
        let name = &self.interface.name;
        self.text.blank();
        self.text.line(
            0,
            &format!(
                "// {name}Handler handles requests. Each call runs in its own goroutine and may block; its context"
            ),
        );
        self.text.line(
            0,
            "// ends when the client cancels the call or the channel ends. One-way messages are handled in order.",
        );
        self.text.line(0, "// stubs.Decline returns an error that the interface declares; stubs.ErrUnserved refuses a call.");
        self.text.line(0, &format!("type {name}Handler interface {{"));
        self.write_methods(&self.server_messages());
    }

    fn write_server(&mut self) {
        let name = &self.interface.name;
        self.text.blank();
        self.text.line(0, &format!("// {name}Server is the serving end of a channel."));
        self.text.line(0, &format!("type {name}Server struct{{ stub *stubs.Server }}"));
        self.text.blank();
        self.text.line(
            0,
            &format!(
                "// New{name}Server creates a server, which passes requests to a handler once Serve is called."
            ),
        );
        self.text.line(
            0,
            &format!(
                "func New{name}Server(port stubs.Port, handler {name}Handler) (*{name}Server, error) {{"
            ),
        );
        self.text.line(
            1,
            &format!("stub, err := stubs.NewServer(port, &{name}Interface, func(r *stubs.Request) {{"),
        );
        if !self.server_messages().is_empty() {
            self.text.line(2, "ctx := r.Context()");
        }
        self.write_dispatch(2, "handler", &self.server_messages());
        self.text.lines(1, "})\nif err != nil {\n    return nil, err\n}");
        self.text.line(1, &format!("return &{name}Server{{stub: stub}}, nil"));
        self.text.line(0, "}");
        self.write_stub("Server");
        self.text.blank();
        self.text.line(
            0,
            "// Serve handles requests until the context ends, or until the client closes the channel: then it returns nil.",
        );
        self.text.line(
            0,
            &format!(
                "func (c *{name}Server) Serve(ctx context.Context) error {{ return c.stub.Serve(ctx) }}"
            ),
        );
        for message in self.client_messages() {
            let method = upper(&message.name);
            self.text.blank();
            self.write_doc_comment(0, message, "is a message of the interface.");
            let (parameters, literal) = (self.parameter_list(message), self.message_literal(message));
            self.text.line(0, &format!("func (c *{name}Server) {method}({parameters}) error {{"));
            let variable = variable(self.interface, message);
            self.text.line(1, &format!("return c.stub.Tell(ctx, &{variable}, &{literal})"));
            self.text.line(0, "}");
        }
    }

    /// Writes statements that dispatch a received message to a method of `to`.
    fn write_dispatch(&mut self, depth: usize, to: &str, messages: &[&'a Message]) {
        self.text.line(depth, "switch r.Ordinal() {");
        for message in messages {
            let input = self.input_record(message);
            self.text.line(depth, &format!("case {}:", message.ordinal));
            let is_call = matches!(message.kind, MessageKind::Call { .. });
            self.text.line(depth + 1, &format!("var in {}", input.name));
            self.text.line(depth + 1, &format!("if !r.Decode(&in, {is_call}) {{"));
            self.text.lines(depth + 1, "    return\n}");
            let fields = input.fields.iter().map(|field| format!(", in.{}", upper(&field.name)));
            let call = format!("{to}.{}(ctx{})", upper(&message.name), fields.collect::<String>());
            if !is_call {
                self.text.line(depth + 1, &call);
                continue;
            }
            let answer = if self.output_record(message).is_some() { "&out" } else { "nil" };
            let results = if self.output_record(message).is_some() { "out, err" } else { "err" };
            self.text.line(depth + 1, &format!("{results} := {call}"));
            if let Some((record, field)) = self.declared_error(message) {
                let of: &Type = &field.of;
                let with = format!("stubs.DeclinedWith[{}](err)", go_type(self.model, of));
                self.text.line(depth + 1, &format!("if with, ok := {with}; ok {{"));
                let literal = format!("{}{{{}: with}}", record.name, upper(&field.name));
                self.text.line(depth + 2, &format!("r.Decline(&{literal})"));
                self.text.lines(depth + 1, "    return\n}");
            }
            self.text.line(depth + 1, &format!("r.Answer({answer}, err)"));
        }
        self.text.line(depth, "default:");
        self.text.line(depth + 1, "r.Unknown()");
        self.text.line(depth, "}");
    }
}
