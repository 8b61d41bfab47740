//! Generated C clients and servers.

use super::names::Names;
use super::{CError, Text};
use crate::model::{Interface, Message, MessageKind, Model, Type};

/// Call with the records of its results and its error, as indices into the model.
struct Call<'m> {
    message: &'m Message,
    output: usize,
    error: Option<usize>,
}

fn calls(interface: &Interface) -> impl Iterator<Item = Call<'_>> {
    interface.messages.iter().filter_map(|message| match message.kind {
        MessageKind::Call { output, error, .. } => Some(Call { message, output, error }),
        _ => None,
    })
}

fn of_kind<'m>(interface: &'m Interface, kind: &'m MessageKind) -> impl Iterator<Item = &'m Message> {
    interface.messages.iter().filter(move |message| message.kind == *kind)
}

/// Passes every name that an interface defines to `add`.
pub(super) fn names(
    names: &Names<'_>,
    interface: &Interface,
    add: &mut dyn FnMut(String, String) -> Result<(), CError>,
) -> Result<(), CError> {
    let own = names.lower(&interface.name);
    let what = format!("interface `{}`", interface.name);
    let parts = ["client", "client_bind", "client_memory", "client_poll", "client_event", "events"];
    for part in
        parts.into_iter().chain(["server", "server_bind", "server_memory", "serve", "handler", "options"])
    {
        add(format!("{own}_{part}"), what.clone())?;
    }
    for message in &interface.messages {
        let what = format!("`{}` of `{}`", message.name, interface.name);
        let verbs: &[&str] =
            if matches!(message.kind, MessageKind::Call { .. }) { &["call", "answer"] } else { &["send"] };
        for verb in verbs {
            add(format!("{own}_{verb}_{}", message.name), what.clone())?;
        }
    }
    let macros = ["HASH", "FINGERPRINT", "VERSION", "LIST_BYTES"];
    macros.into_iter().try_for_each(|name| add(names.value(&interface.name, name), what.clone()))
}

pub(super) fn interface(text: &mut Text, model: &Model, names: &Names<'_>, interface: &Interface) {
    let writer = &mut InterfaceWriter { text, model, names, interface, own: names.lower(&interface.name) };
    writer.write_constants();
    writer.write_client();
    writer.write_server();
}

struct InterfaceWriter<'a, 'm> {
    text: &'a mut Text,
    model: &'m Model,
    names: &'a Names<'m>,
    interface: &'m Interface,
    /// Prefix of the interface's names.
    own: String,
}

impl InterfaceWriter<'_, '_> {
    fn write_section(&mut self, title: &str) {
        self.text.blank();
        let line = format!("/* --- {title} ");
        self.text.line(0, &format!("{line}{} */", "-".repeat(100_usize.saturating_sub(line.len()))));
    }

    /// Returns the C type of a record; `None` for a record without fields.
    fn record_type(&self, record: usize) -> Option<String> {
        self.names.has_fields(record).then(|| self.names.lower(&self.model.records[record].name))
    }

    /// Returns the size of a record's fields on the wire, as a C expression.
    fn record_bytes(&self, record: usize) -> String {
        let named = self.names.has_fields(record);
        if named { self.names.value(&self.model.records[record].name, "BYTES") } else { "0".to_owned() }
    }

    /// Joins the parameters that are present.
    fn join_parameters(list: &[Option<String>]) -> String {
        list.iter().flatten().cloned().collect::<Vec<_>>().join(", ")
    }

    /// Writes the head and the opening brace of a function. Breaks a long head into two lines.
    fn write_function_head(&mut self, result: &str, name: &str, parameters: &str) {
        let head = format!("static inline {result} {name}(");
        if head.len() + parameters.len() < 110 {
            self.text.line(0, &format!("{head}{parameters})\n{{"));
        } else {
            self.text.line(0, &head);
            self.text.line(1, &format!("{parameters})\n{{"));
        }
    }

    fn write_constants(&mut self) {
        let (interface, own) = (self.interface, self.own.clone());
        self.write_section(&format!("interface {}", interface.name));
        self.text.blank();
        self.text.comment(0, &interface.docs);
        let value = |name: &str| self.names.value(&interface.name, name);
        let lines = [
            format!("#define {} {}", value("VERSION"), interface.version),
            "/* Hash of its package, name and version, which must be the same on both sides. */".to_owned(),
            format!("#define {} UINT64_C({:#018x})", value("HASH"), interface.hash),
            "/* Hash of all declarations that affect peers; distinguishes builds. */".to_owned(),
            format!("#define {} UINT64_C({:#018x})", value("FINGERPRINT"), interface.fingerprint),
            "/* Maximum memory for the lists of a message, in bytes. */".to_owned(),
            format!("#define {} ({})", value("LIST_BYTES"), self.list_bytes()),
        ];
        lines.iter().for_each(|line| self.text.line(0, line));
        self.text.blank();
        self.text
            .line(0, "/* Returns the options of its channels, for tombolo_connect and tombolo_export. */");
        self.write_function_head("tombolo_options", &format!("{own}_options"), "void");
        self.text.line(1, "tombolo_options options = {0, 0, 0, 0, 0, 0};");
        self.text
            .line(1, &format!("options.interface_hash = {};", self.names.value(&interface.name, "HASH")));
        self.text.lines(0, "    return options;\n}");
    }

    /// Returns the maximum memory that the lists of one message need, as a C expression.
    fn list_bytes(&self) -> String {
        let records = self.interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let mut longest: Vec<String> = Vec::new();
        for record in records {
            let mut terms = Vec::new();
            let fields = &self.model.records[record].fields;
            fields.iter().for_each(|field| self.add_list_bytes(&field.of, 1, &mut terms));
            let sum = terms.join(" + ");
            if !sum.is_empty() && !longest.contains(&sum) {
                longest.push(sum);
            }
        }
        longest
            .into_iter()
            .reduce(|a, b| format!("({a}) > ({b}) ? ({a}) : ({b})"))
            .unwrap_or_else(|| "0".into())
    }

    /// Appends the memory that the lists in `times` values of the type `of` need to `terms`, as C
    /// expressions.
    fn add_list_bytes(&self, of: &Type, times: u64, terms: &mut Vec<String>) {
        match of {
            Type::List { of: inner, max } => {
                let times_max = times.saturating_mul(u64::from(*max));
                terms.push(format!(
                    "{times_max} * sizeof({}) + {}",
                    self.names.type_name(inner),
                    times.saturating_mul(8)
                ));
                self.add_list_bytes(inner, times_max, terms);
            }
            Type::Array { of, count } => {
                self.add_list_bytes(of, times.saturating_mul(u64::from(*count)), terms);
            }
            Type::Optional(of) => self.add_list_bytes(of, times, terms),
            Type::Record(index) => {
                self.model.records[*index]
                    .fields
                    .iter()
                    .for_each(|field| self.add_list_bytes(&field.of, times, terms));
            }
            Type::Union(index) => {
                let cases = self.model.unions[*index].cases.iter().filter_map(|case| case.of.as_ref());
                cases.for_each(|of| self.add_list_bytes(of, times, terms));
            }
            _ => {}
        }
    }

    /// Returns the requirements on the link, as a C initializer: whether it must carry capabilities and
    /// buffers, and the message length that it must at least support.
    fn needs_initializer(&self) -> String {
        let records = self.interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let fixed =
            records.map(|record| self.model.records[record].bytes + u64::from(crate::model::HEADER_BYTES));
        let needs = self.interface.needs;
        format!("{{{}, {}, {}}}", needs.capabilities, needs.buffers, fixed.max().unwrap_or(8))
    }

    fn write_memory(&mut self, side: &str) {
        let own = self.own.clone();
        self.text.blank();
        self.text
            .line(0, &format!("/* Returns the memory that a {side} of this channel needs, in bytes. */"));
        self.write_function_head("size_t", &format!("{own}_{side}_memory"), "const tombolo_channel *channel");
        let bytes = self.names.value(&self.interface.name, "LIST_BYTES");
        self.text.line(1, &format!("return tombolo_port_memory(channel, {bytes});"));
        self.text.line(0, "}");
    }

    fn write_client(&mut self) {
        let (interface, own) = (self.interface, self.own.clone());
        self.write_section(&format!("client of {}", interface.name));
        let events: Vec<&Message> = of_kind(interface, &MessageKind::Event).collect();
        if !events.is_empty() {
            self.text.blank();
            self.text.line(0, "/* Handlers of the server's one-way messages; null to ignore a message. */");
            self.text.line(0, &format!("typedef struct {own}_events {{"));
            for event in &events {
                self.text.comment(1, &event.docs);
                let input = self.record_type(event.input).map(|of| format!("const {of} *event"));
                let parameters = Self::join_parameters(&[Some("void *context".to_owned()), input]);
                self.text.line(1, &format!("void (*{})({parameters});", super::names::field(&event.name)));
            }
            self.text.line(0, &format!("}} {own}_events;"));
        }
        self.text.blank();
        self.text.line(0, "/* The calling end of a channel. */");
        self.text.line(0, &format!("typedef struct {own}_client {{"));
        self.text.line(1, "tombolo_client base; /* base.port.counts has the counters */");
        if !events.is_empty() {
            self.text.lines(1, &format!("const {own}_events *events;\nvoid *context;"));
        }
        self.text.line(0, &format!("}} {own}_client;"));
        self.write_client_event(&events);
        self.write_memory("client");
        self.write_bind("client", !events.is_empty());
        self.text.blank();
        self.text.line(0, "/* Waits for a one-way message and handles all that have arrived. Returns TOMBOLO_TIMED_OUT if there was none. */");
        self.write_function_head(
            "tombolo_status",
            &format!("{own}_client_poll"),
            &format!("{own}_client *client, uint64_t timeout_ns"),
        );
        self.text.lines(0, "    return tombolo_client_poll(&client->base, timeout_ns);\n}");
        calls(interface).for_each(|call| self.write_call(&call));
        of_kind(interface, &MessageKind::Message).for_each(|message| self.write_send(message, "client"));
    }

    fn write_client_event(&mut self, events: &[&Message]) {
        let own = self.own.clone();
        self.text.blank();
        self.text.line(0, "/* Handles a one-way message. Returns false if its ordinal is unknown. */");
        let parameters = "tombolo_client *base, uint16_t ordinal, tombolo_reader *r, tombolo_record body";
        self.write_function_head("bool", &format!("{own}_client_event"), parameters);
        if events.is_empty() {
            self.text.lines(
                0,
                "    (void)base;\n    (void)ordinal;\n    (void)r;\n    (void)body;\n    return false;\n}",
            );
            return;
        }
        // `base` is the first member of the client, so the cast is valid.
        self.text.line(1, &format!("{own}_client *client = ({own}_client *)(void *)base;"));
        if events.iter().all(|event| self.record_type(event.input).is_none()) {
            self.text.lines(1, "(void)r;\n(void)body;");
        }
        self.text.line(1, "switch (ordinal) {");
        for event in events {
            let field = super::names::field(&event.name);
            self.text.line(1, &format!("case {}: {{", event.ordinal));
            let mut arguments = "client->context".to_owned();
            let mut ready = format!("client->events != NULL && client->events->{field} != NULL");
            if let Some(of) = self.record_type(event.input) {
                self.text.lines(2, &format!("{of} event;\nmemset(&event, 0, sizeof event);\n{of}_get(r, body, body.start, &event);"));
                arguments.push_str(", &event");
                ready = format!("tombolo_is_reading(r) && {ready}");
            }
            self.text.line(2, &format!("if ({ready}) {{"));
            self.text.line(3, &format!("client->events->{field}({arguments});"));
            self.text.lines(2, "}\nreturn true;");
            self.text.line(1, "}");
        }
        self.text.lines(1, "default:\n    return false;\n}");
        self.text.line(0, "}");
    }

    fn write_bind(&mut self, side: &str, with_table: bool) {
        let own = self.own.clone();
        let table = if side == "client" { "events" } else { "handler" };
        self.text.blank();
        self.text.line(0, &format!("/* Creates a {side} on an open channel, in memory of the caller. Both must outlive it. Less memory than"));
        self.text.line(
            0,
            &format!(
                " * {own}_{side}_memory() returns suffices as long as the lists of every message fit. */"
            ),
        );
        let tables = with_table.then(|| format!("const {own}_{table} *{table}, void *context"));
        let channel = format!("{own}_{side} *{side}, tombolo_channel *channel, void *memory, size_t bytes");
        self.write_function_head(
            "tombolo_status",
            &format!("{own}_{side}_bind"),
            &Self::join_parameters(&[Some(channel), tables]),
        );
        self.text.line(1, &format!("const tombolo_needs needs = {};", self.needs_initializer()));
        self.text.line(1, &format!("memset({side}, 0, sizeof *{side});"));
        if side == "client" {
            self.text.line(1, &format!("client->base.on_event = {own}_client_event;"));
        }
        if with_table {
            self.text.lines(1, &format!("{side}->{table} = {table};\n{side}->context = context;"));
        }
        self.text.line(
            1,
            &format!("return tombolo_port_bind(&{side}->base.port, channel, memory, bytes, needs);"),
        );
        self.text.line(0, "}");
    }

    fn write_call(&mut self, call: &Call<'_>) {
        let (own, message) = (self.own.clone(), call.message);
        let (input, output) = (self.record_type(message.input), self.record_type(call.output));
        let error = call.error.map(|error| self.error_type(error));
        self.text.blank();
        self.text.comment(0, &message.docs);
        let idempotent = matches!(message.kind, MessageKind::Call { idempotent: true, .. });
        if idempotent {
            self.text.line(0, "/* Idempotent: it may be repeated if it is unknown whether it was served. */");
        }
        if error.is_some() {
            self.text
                .line(0, "/* Returns TOMBOLO_DECLINED if the server declined it; `error` has the reason. */");
        }
        let parameters = Self::join_parameters(&[
            Some(format!("{own}_client *client")),
            input.as_ref().map(|of| format!("const {of} *request")),
            output.as_ref().map(|of| format!("{of} *reply")),
            error.as_ref().map(|of| format!("{of} *error")),
            Some("uint64_t timeout_ns".to_owned()),
        ]);
        self.write_function_head("tombolo_status", &format!("{own}_call_{}", message.name), &parameters);
        let bytes = self.record_bytes(message.input);
        self.text.lines(1, "tombolo_reader r;\ntombolo_record body;\ntombolo_status status;");
        self.text.line(
            1,
            &format!(
                "tombolo_writer w = tombolo_client_begin(&client->base, {}, TOMBOLO_CALL, {bytes});",
                message.ordinal
            ),
        );
        if let Some(of) = &input {
            self.text.line(1, &format!("{of}_put(&w, TOMBOLO_HEADER_BYTES, request);"));
        }
        self.text.line(
            1,
            &format!(
                "status = tombolo_client_call(&client->base, &w, {}, {}, timeout_ns, &r, &body);",
                message.ordinal,
                error.is_some()
            ),
        );
        if let Some(of) = &output {
            self.text.line(1, "if (status == TOMBOLO_OK) {");
            self.text.lines(
                2,
                &format!("memset(reply, 0, sizeof *reply);\n{of}_get(&r, body, body.start, reply);"),
            );
            self.text.line(1, "}");
        }
        if let Some(record) = call.error {
            self.text.line(1, "if (status == TOMBOLO_DECLINED) {");
            self.write_error_get(record);
            self.text.line(1, "}");
        }
        self.text.lines(0, "    return tombolo_client_read(&client->base, &r, status);\n}");
    }

    /// Returns the C type of a call's declared error, the only field of its error record.
    fn error_type(&self, record: usize) -> String {
        self.model.records[record]
            .fields
            .first()
            .map_or_else(String::new, |field| self.names.type_name(&field.of))
    }

    fn write_error_get(&mut self, record: usize) {
        let of = self.names.lower(&self.model.records[record].name);
        let field = self.model.records[record].fields.first().map(|field| super::names::field(&field.name));
        let field = field.unwrap_or_default();
        self.text.lines(2, &format!("{of} declined;\nmemset(&declined, 0, sizeof declined);"));
        self.text
            .lines(2, &format!("{of}_get(&r, body, body.start, &declined);\n*error = declined.{field};"));
    }

    fn write_send(&mut self, message: &Message, side: &str) {
        let own = self.own.clone();
        let input = self.record_type(message.input);
        self.text.blank();
        self.text.comment(0, &message.docs);
        self.text.line(0, "/* One-way. Returns TOMBOLO_NO_ROOM if it was not sent. */");
        let parameters = Self::join_parameters(&[
            Some(format!("{own}_{side} *{side}")),
            input.as_ref().map(|of| format!("const {of} *message")),
            Some("uint64_t timeout_ns".to_owned()),
        ]);
        self.write_function_head("tombolo_status", &format!("{own}_send_{}", message.name), &parameters);
        let bytes = self.record_bytes(message.input);
        if side == "client" {
            self.text.line(
                1,
                &format!(
                    "tombolo_writer w = tombolo_client_begin(&client->base, {}, TOMBOLO_MESSAGE, {bytes});",
                    message.ordinal
                ),
            );
        } else {
            self.text.line(1, &format!("const tombolo_pending none = {{0, {}}};", message.ordinal));
            self.text.line(
                1,
                &format!(
                    "tombolo_writer w = tombolo_server_begin(&server->base, none, TOMBOLO_MESSAGE, {bytes});"
                ),
            );
        }
        if let Some(of) = &input {
            self.text.line(1, &format!("{of}_put(&w, TOMBOLO_HEADER_BYTES, message);"));
        }
        self.text.line(1, &format!("return tombolo_port_send(&{side}->base.port, &w, timeout_ns);"));
        self.text.line(0, "}");
    }

    fn write_server(&mut self) {
        let (interface, own) = (self.interface, self.own.clone());
        self.write_section(&format!("server of {}", interface.name));
        self.text.blank();
        self.text.line(0, "/* Handlers. That of a call fills in the reply and returns TOMBOLO_OK, or fills in the error and returns TOMBOLO_DECLINED,");
        self.text.line(0, " * or keeps `pending` for an answer later and returns TOMBOLO_LATER. With any other status, or a null handler, it is not");
        self.text.line(0, " * served. The request and its texts are valid until the handler returns; what the reply refers to, until it is sent. */");
        self.text.line(0, &format!("typedef struct {own}_handler {{"));
        for message in &interface.messages {
            self.write_handler(message);
        }
        self.text.line(0, &format!("}} {own}_handler;"));
        self.text.blank();
        self.text.line(0, "/* The serving end of a channel. */");
        self.text.line(0, &format!("typedef struct {own}_server {{"));
        self.text.line(1, "tombolo_server base; /* base.port.counts has the counters */");
        self.text.lines(1, &format!("const {own}_handler *handler;\nvoid *context;"));
        self.text.line(0, &format!("}} {own}_server;"));
        self.write_memory("server");
        self.write_bind("server", true);
        calls(interface).for_each(|call| self.write_answer(&call));
        of_kind(interface, &MessageKind::Event).for_each(|event| self.write_send(event, "server"));
        self.write_serve();
    }

    fn write_handler(&mut self, message: &Message) {
        let input = self.record_type(message.input).map(|of| format!("const {of} *request"));
        let context = Some("void *context".to_owned());
        let field = super::names::field(&message.name);
        match message.kind {
            MessageKind::Call { output, error, .. } => {
                self.text.comment(1, &message.docs);
                let parameters = Self::join_parameters(&[
                    context,
                    Some("tombolo_pending pending".to_owned()),
                    input,
                    self.record_type(output).map(|of| format!("{of} *reply")),
                    error.map(|error| format!("{} *error", self.error_type(error))),
                ]);
                self.text.line(1, &format!("tombolo_status (*{field})({parameters});"));
            }
            MessageKind::Message => {
                self.text.comment(1, &message.docs);
                let input = input.map(|input| input.replace("*request", "*message"));
                self.text.line(1, &format!("void (*{field})({});", Self::join_parameters(&[context, input])));
            }
            MessageKind::Event => {}
        }
    }

    /// Writes the function that replies to a call, immediately or later.
    fn write_answer(&mut self, call: &Call<'_>) {
        let (own, message) = (self.own.clone(), call.message);
        let output = self.record_type(call.output);
        let error = call.error.map(|error| self.error_type(error));
        self.text.blank();
        self.text.line(0, &format!("/* Answers a kept call of `{}`: with the reply for TOMBOLO_OK,{} otherwise as not served or refused.", message.name, if error.is_some() { " with the error for TOMBOLO_DECLINED," } else { "" }));
        self.text.line(0, " * Returns TOMBOLO_NOT_OUTSTANDING if the client no longer waits for it. */");
        let parameters = Self::join_parameters(&[
            Some(format!("{own}_server *server, tombolo_pending pending, tombolo_status result")),
            output.as_ref().map(|of| format!("const {of} *reply")),
            error.as_ref().map(|of| format!("const {of} *error")),
        ]);
        self.write_function_head("tombolo_status", &format!("{own}_answer_{}", message.name), &parameters);
        self.text.line(
            1,
            &format!(
                "if (pending.ordinal != {} || !tombolo_server_forget(&server->base, pending)) {{",
                message.ordinal
            ),
        );
        self.text.line(
            2,
            "return tombolo_explain(TOMBOLO_NOT_OUTSTANDING, \"the client no longer waits for the answer\");",
        );
        self.text.line(1, "}");
        self.text.line(1, "if (result == TOMBOLO_OK) {");
        let bytes = self.record_bytes(call.output);
        self.text.line(
            2,
            &format!(
                "tombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_REPLY, {bytes});"
            ),
        );
        if let Some(of) = &output {
            self.text.line(2, &format!("{of}_put(&w, TOMBOLO_HEADER_BYTES, reply);"));
        }
        self.text.line(2, "return tombolo_server_answer(&server->base, pending, &w);");
        self.text.line(1, "}");
        if let Some(record) = call.error {
            let of = self.names.lower(&self.model.records[record].name);
            let bytes = self.record_bytes(record);
            let field =
                self.model.records[record].fields.first().map(|field| super::names::field(&field.name));
            self.text.line(1, "if (result == TOMBOLO_DECLINED) {");
            self.text.lines(2, &format!("{of} declined;\ntombolo_writer w = tombolo_server_begin(&server->base, pending, TOMBOLO_ERROR, {bytes});"));
            self.text.line(2, &format!("declined.{} = *error;", field.unwrap_or_default()));
            self.text.line(2, &format!("{of}_put(&w, TOMBOLO_HEADER_BYTES, &declined);"));
            self.text.line(2, "return tombolo_server_answer(&server->base, pending, &w);");
            self.text.line(1, "}");
        }
        self.text.lines(
            0,
            "    return tombolo_server_fault(&server->base, pending, tombolo_server_why(result));\n}",
        );
    }

    fn write_serve(&mut self) {
        let (interface, own) = (self.interface, self.own.clone());
        self.text.blank();
        self.text.line(0, "/* Waits for one message and serves it. Returns TOMBOLO_TIMED_OUT if there was none, TOMBOLO_CLOSED or TOMBOLO_PEER_DIED");
        self.text.line(0, " * if the client is gone, and TOMBOLO_NO_ROOM if it does not take its answers: close the channel then. */");
        self.write_function_head(
            "tombolo_status",
            &format!("{own}_serve"),
            &format!("{own}_server *server, uint64_t timeout_ns"),
        );
        self.text.lines(
            1,
            "tombolo_pending pending = {0, 0};\ntombolo_reader r;\ntombolo_record body;\nuint8_t kind;",
        );
        self.text.line(1, "tombolo_status status = tombolo_server_receive(&server->base, timeout_ns, &kind, &pending, &r, &body);");
        self.text.lines(1, "if (status != TOMBOLO_OK || kind == 0) {\n    return status;\n}");
        self.text.line(1, "status = TOMBOLO_UNSERVED; /* unless a handler serves it */");
        self.text.line(1, "if (kind == TOMBOLO_MESSAGE) {");
        self.text.line(2, "switch (pending.ordinal) {");
        for message in of_kind(interface, &MessageKind::Message) {
            self.write_serve_message(message);
        }
        self.text.lines(2, "default:\n    return tombolo_server_took(&server->base, &r, false);\n}");
        self.text.line(1, "}");
        self.text.line(1, "switch (pending.ordinal) {");
        calls(interface).for_each(|call| self.write_serve_call(&call));
        self.text.lines(1, "default:\n    return tombolo_server_fault(&server->base, pending, 1);\n}");
        self.text.line(0, "}");
    }

    fn write_serve_message(&mut self, message: &Message) {
        let field = super::names::field(&message.name);
        self.text.line(2, &format!("case {}: {{", message.ordinal));
        let mut arguments = "server->context".to_owned();
        let mut ready = format!("server->handler->{field} != NULL");
        if let Some(of) = self.record_type(message.input) {
            self.text.lines(3, &format!("{of} message;\nmemset(&message, 0, sizeof message);\n{of}_get(&r, body, body.start, &message);"));
            arguments.push_str(", &message");
            ready = format!("tombolo_is_reading(&r) && {ready}");
        }
        self.text.line(3, &format!("if ({ready}) {{"));
        self.text.line(4, &format!("server->handler->{field}({arguments});"));
        self.text.lines(3, "}\nreturn tombolo_server_took(&server->base, &r, true);");
        self.text.line(2, "}");
    }

    fn write_serve_call(&mut self, call: &Call<'_>) {
        let (own, message) = (self.own.clone(), call.message);
        let field = super::names::field(&message.name);
        let (input, output) = (self.record_type(message.input), self.record_type(call.output));
        let error = call.error.map(|error| self.error_type(error));
        self.text.line(1, &format!("case {}: {{", message.ordinal));
        let locals = [(&input, "request"), (&output, "reply"), (&error, "error")];
        for (of, name) in locals {
            if let Some(of) = of {
                self.text.line(2, &format!("{of} {name};"));
            }
        }
        for (of, name) in locals {
            if of.is_some() {
                self.text.line(2, &format!("memset(&{name}, 0, sizeof {name});"));
            }
        }
        if let Some(of) = &input {
            self.text.line(2, &format!("{of}_get(&r, body, body.start, &request);"));
            self.text.lines(2, "if (!tombolo_is_reading(&r)) {\n    return tombolo_server_fault(&server->base, pending, 2);\n}");
        }
        let given = |of: &Option<String>, text: &str| of.as_ref().map(|_| text.to_owned());
        let arguments = Self::join_parameters(&[
            Some("server->context, pending".to_owned()),
            given(&input, "&request"),
            given(&output, "&reply"),
            given(&error, "&error"),
        ]);
        // Keep the call first: the handler may answer it before it returns.
        self.text.line(2, "(void)tombolo_server_keep(&server->base, pending);");
        self.text.line(2, &format!("if (server->handler->{field} != NULL) {{"));
        self.text.line(3, &format!("status = server->handler->{field}({arguments});"));
        self.text.line(2, "}");
        self.text.lines(2, "if (status == TOMBOLO_LATER) {\n    return TOMBOLO_OK;\n}");
        let arguments = Self::join_parameters(&[
            Some("server, pending, status".to_owned()),
            given(&output, "&reply"),
            given(&error, "&error"),
        ]);
        self.text.line(2, &format!("return {own}_answer_{}({arguments});", message.name));
        self.text.line(1, "}");
    }
}
