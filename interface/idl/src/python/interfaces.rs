//! Generated Python clients, handlers and servers.

use std::collections::BTreeMap;

use super::names::{class, layout, lower, parameter, private, python_bool};
use super::types::fields;
use super::{PythonNameTaken, Text};
use crate::model::{HEADER_BYTES, Interface, Message, MessageKind, Model, Record, Type};

/// Results, declared error and idempotence of a call.
struct Call<'m> {
    output: &'m Record,
    error: Option<&'m Type>,
    idempotent: bool,
}

fn call<'m>(model: &'m Model, message: &Message) -> Option<Call<'m>> {
    let MessageKind::Call { idempotent, output, error } = message.kind else { return None };
    let error = error.and_then(|error| model.records[error].fields.first()).map(|field| &field.of);
    Some(Call { output: &model.records[output], error, idempotent })
}

/// Returns the name of the exception class for a declared error.
fn exception_name(model: &Model, error: &Type) -> String {
    let name = match error {
        Type::Enum(index) => &model.enums[*index].name,
        Type::Union(index) => &model.unions[*index].name,
        Type::Record(index) => &model.records[*index].name,
        // Unreachable: the checker accepts only enums and unions.
        _ => "Error",
    };
    format!("{name}Declined")
}

/// Returns the exception classes that calls of an interface raise, by name, with their error types.
fn exceptions(model: &Model, interface: &Interface) -> BTreeMap<String, Type> {
    let calls = interface.messages.iter().filter_map(|message| call(model, message));
    calls.filter_map(|call| call.error).map(|error| (exception_name(model, error), error.clone())).collect()
}

/// Passes every name that an interface defines to `add`.
pub(super) fn names(
    model: &Model,
    interface: &Interface,
    add: &mut dyn FnMut(String, String) -> Result<(), PythonNameTaken>,
) -> Result<(), PythonNameTaken> {
    let what = format!("interface `{}`", interface.name);
    let parts = ["", "Events", "Client", "AsyncClient", "Handler", "AsyncHandler", "Server", "AsyncServer"];
    for part in parts {
        add(class(&format!("{}{part}", interface.name)), what.clone())?;
    }
    for (name, error) in exceptions(model, interface) {
        add(name, format!("the exception of `{}`", parameter(model, &error)))?;
    }
    let mut methods: BTreeMap<String, &str> = BTreeMap::new();
    for message in &interface.messages {
        let starts =
            matches!(message.kind, MessageKind::Call { .. }).then(|| format!("start_{}", message.name));
        for name in [Some(lower(&message.name)), starts].into_iter().flatten() {
            if let Some(first) = methods.insert(name.clone(), &message.name) {
                let (first, second) = (format!("`{first}`"), format!("`{}` of {what}", message.name));
                return Err(PythonNameTaken { name, first, second });
            }
        }
    }
    Ok(())
}

pub(super) fn interface(text: &mut Text, model: &Model, interface: &Interface) {
    let writer = &mut InterfaceWriter { text, model, interface };
    writer.write_exceptions();
    interface.messages.iter().for_each(|message| writer.write_message(message));
    writer.write_declaration();
    writer.write_events();
    writer.write_client(false);
    writer.write_client(true);
    writer.write_handler(false);
    writer.write_handler(true);
    writer.write_server(false);
    writer.write_server(true);
}

struct InterfaceWriter<'a> {
    text: &'a mut Text,
    model: &'a Model,
    interface: &'a Interface,
}

impl<'a> InterfaceWriter<'a> {
    fn client_messages(&self) -> impl Iterator<Item = &'a Message> + use<'a> {
        self.interface.messages.iter().filter(|message| message.kind == MessageKind::Event)
    }

    fn server_messages(&self) -> impl Iterator<Item = &'a Message> + use<'a> {
        self.interface.messages.iter().filter(|message| message.kind != MessageKind::Event)
    }

    fn write_class(&mut self, name: &str, base: Option<&str>, docs: &[String], otherwise: &str) {
        self.text.gap();
        let base = base.map_or_else(String::new, |base| format!("({base})"));
        self.text.line(0, &format!("class {}{name}{base}:", self.interface.name));
        let otherwise = [otherwise.to_owned()];
        self.text.docstring(1, if docs.is_empty() { &otherwise } else { docs });
    }

    fn write_exceptions(&mut self) {
        for (name, error) in exceptions(self.model, self.interface) {
            // Another interface of the file may have defined it already.
            let head = format!("class {name}(_stubs.Declined):");
            if self.text.contains(&head) {
                continue;
            }
            let hint = super::names::hint(self.model, &error);
            self.text.gap();
            self.text.line(0, &head);
            self.text.docstring(
                1,
                &[format!("The server declined a call; `error` is a {}.", hint.replace("_typing.", ""))],
            );
            self.text.lines(1, &format!("\nerror: {hint}"));
        }
    }

    /// Returns the name of the variable that holds a message's layout.
    fn layout_variable(&self, message: &Message) -> String {
        private(&format!("{}_{}", self.interface.name, message.name))
    }

    fn write_message(&mut self, message: &Message) {
        let (model, name) = (self.model, self.layout_variable(message));
        let input = &model.records[message.input];
        let call = call(model, message);
        self.text.gap();
        self.write_record_layout(input);
        let empty = call.as_ref().map(|call| call.output).filter(|output| output.fields.is_empty());
        if let Some(output) = empty {
            self.write_record_layout(output);
        }
        let kind = if call.is_some() { "call" } else { "message" };
        let mut words = vec![message.ordinal.to_string(), format!("\"{}\"", lower(&message.name))];
        words.push(private(&input.name));
        if let Some(Call { output, error, idempotent }) = call {
            words.push(private(&output.name));
            words.extend(
                error.map(|error| format!("({}, {})", layout(model, error), exception_name(model, error))),
            );
            words.extend(idempotent.then(|| "idempotent=True".to_owned()));
        }
        let line = format!("{name} = _stubs.{kind}({})", words.join(", "));
        if line.len() < 110 {
            return self.text.line(0, &line);
        }
        self.text.line(0, &format!("{name} = _stubs.{kind}("));
        words.iter().for_each(|word| self.text.line(1, &format!("{word},")));
        self.text.line(0, ")");
    }

    /// Declares the layout of a record without a class: its fields are separate parameters.
    fn write_record_layout(&mut self, record: &Record) {
        let name = private(&record.name);
        if record.fields.is_empty() {
            return self.text.line(0, &format!("{name} = _stubs.parameters(\"{}\", 0, [])", record.name));
        }
        self.text.line(0, &format!("{name} = _stubs.parameters("));
        self.text.line(1, &format!("\"{}\",", record.name));
        self.text.line(1, &format!("{},", record.bytes));
        fields(self.text, self.model, record, ")");
    }

    fn write_declaration(&mut self) {
        let interface = self.interface;
        let records = interface.messages.iter().flat_map(|message| self.model.records_of(message));
        let fixed = records.map(|record| self.model.records[record].bytes + u64::from(HEADER_BYTES)).max();
        let list = |messages: Vec<&Message>| {
            let names: Vec<String> =
                messages.into_iter().map(|message| self.layout_variable(message)).collect();
            names.join(", ")
        };
        let (served, heard) =
            (list(self.server_messages().collect()), list(self.client_messages().collect()));
        let needs = interface.needs;
        self.text.gap();
        self.text.notes(0, &interface.docs);
        self.text.line(0, &format!("{} = _stubs.Interface(", class(&interface.name)));
        let name = format!("{}.{}", self.model.package, interface.name);
        self.text.line(1, &format!("\"{name}\", {},", interface.version));
        self.text.line(1, &format!("hash={:#018x},", interface.hash));
        self.text.line(1, &format!("fingerprint={:#018x},", interface.fingerprint));
        self.text.line(1, &format!("capabilities={},", python_bool(needs.capabilities)));
        self.text.line(1, &format!("buffers={},", python_bool(needs.buffers)));
        self.text.line(1, &format!("message_bytes={},", fixed.unwrap_or(8)));
        self.text.line(1, &format!("served=[{served}],"));
        self.text.lines(0, &format!("    heard=[{heard}],\n)"));
    }

    /// Returns the parameters of a client's method, with types. Trailing optional parameters default to
    /// `None`.
    fn client_parameters(&self, message: &Message) -> Vec<String> {
        let fields = &self.model.records[message.input].fields;
        let optional = fields.iter().rev().take_while(|field| matches!(field.of, Type::Optional(_)));
        let required = fields.len() - optional.count();
        let parameter = |(index, field): (usize, &crate::model::Field)| {
            let default = if index < required { "" } else { " = None" };
            format!("{}: {}{default}", lower(&field.name), parameter(self.model, &field.of))
        };
        fields.iter().enumerate().map(parameter).collect()
    }

    /// Returns the parameters of a handler's method, with their types as received.
    fn handler_parameters(&self, message: &Message) -> Vec<String> {
        let fields = &self.model.records[message.input].fields;
        let hint = |field: &crate::model::Field| {
            format!("{}: {}", lower(&field.name), super::names::hint(self.model, &field.of))
        };
        fields.iter().map(hint).collect()
    }

    /// Returns the values of a message, as a Python tuple.
    fn value_tuple(&self, message: &Message) -> String {
        let fields = &self.model.records[message.input].fields;
        let values: Vec<String> = fields.iter().map(|field| lower(&field.name)).collect();
        match &values[..] {
            [one] => format!("({one},)"),
            several => format!("({})", several.join(", ")),
        }
    }

    /// Writes the head of a method. Breaks a long head into several lines.
    fn write_method_head(&mut self, name: &str, parameters: &[String], result: &str, is_async: bool) {
        let word = if is_async { "async def" } else { "def" };
        let line = format!("{word} {name}({}) -> {result}:", parameters.join(", "));
        self.text.blank();
        if line.len() < 110 {
            return self.text.line(1, &line);
        }
        self.text.line(1, &format!("{word} {name}("));
        parameters.iter().for_each(|parameter| self.text.line(2, &format!("{parameter},")));
        self.text.line(1, &format!(") -> {result}:"));
    }

    fn result_type(&self, message: &Message) -> String {
        let output = call(self.model, message).map(|call| call.output);
        match output.filter(|output| !output.fields.is_empty()) {
            Some(output) => class(&output.name),
            None => "None".to_owned(),
        }
    }

    /// Writes the docstring of a method, with the exception for its declared error.
    fn write_docstring(&mut self, message: &Message) {
        let mut docs = message.docs.clone();
        let error = call(self.model, message).and_then(|call| call.error);
        if let Some(error) = error {
            if !docs.is_empty() {
                docs.push(String::new());
            }
            docs.push(format!("Raises :class:`{}`.", exception_name(self.model, error)));
        }
        self.text.docstring(2, &docs);
    }

    fn write_events(&mut self) {
        if self.client_messages().next().is_none() {
            return;
        }
        let docs = "Handles the one-way messages of the server: override the methods that are needed.";
        self.write_class("Events", None, &[], docs);
        for message in self.client_messages() {
            let parameters = [&["self".to_owned()][..], &self.handler_parameters(message)].concat();
            self.write_method_head(&lower(&message.name), &parameters, "None", false);
            if message.docs.is_empty() {
                self.text.line(2, "return None");
            }
            self.text.docstring(2, &message.docs);
        }
    }

    fn write_client(&mut self, is_async: bool) {
        let (name, base) =
            if is_async { ("AsyncClient", "_stubs.AsyncClient") } else { ("Client", "_stubs.Client") };
        let docs = self.interface.docs.clone();
        self.write_class(name, Some(base), &docs, "The calling end of a channel.");
        self.text.lines(1, &format!("\nINTERFACE = {}", class(&self.interface.name)));
        let wait = if is_async { "await " } else { "" };
        for message in self.server_messages() {
            let (values, private, result) =
                (self.value_tuple(message), self.layout_variable(message), self.result_type(message));
            let mut parameters = [&["self".to_owned()][..], &self.client_parameters(message)].concat();
            parameters.extend(["*".to_owned(), "timeout: _typing.Optional[float] = None".to_owned()]);
            self.write_method_head(&lower(&message.name), &parameters, &result, is_async);
            self.write_docstring(message);
            if call(self.model, message).is_none() {
                self.text.line(2, &format!("{wait}self._tell({private}, {values}, timeout)"));
                continue;
            }
            // Type checkers reject the use of a call's value if its result type is `None`.
            let given = if result == "None" { "" } else { "return " };
            self.text.line(2, &format!("{given}{wait}self._call({private}, {values}, timeout)"));
            if !is_async {
                let result = format!("_stubs.Pending[{result}]");
                self.write_method_head(&format!("start_{}", message.name), &parameters, &result, false);
                let docs =
                    format!("Starts the call :meth:`{}`, to be waited for later.", lower(&message.name));
                self.text.docstring(2, &[docs]);
                self.text.line(2, &format!("return _stubs.Pending(self, {private}, {values}, timeout)"));
            }
        }
    }

    fn write_handler(&mut self, is_async: bool) {
        let name = if is_async { "AsyncHandler" } else { "Handler" };
        let docs =
            "Handles requests: override the methods that are served, and raise errors to decline calls.";
        self.write_class(name, None, &[], docs);
        for message in self.server_messages() {
            let is_call = call(self.model, message).is_some();
            let result = match self.result_type(message) {
                result if is_call && !is_async => format!("_typing.Union[{result}, _stubs.Later]"),
                result => result,
            };
            let parameters = [&["self".to_owned()][..], &self.handler_parameters(message)].concat();
            self.write_method_head(&lower(&message.name), &parameters, &result, is_async);
            self.write_docstring(message);
            if is_call {
                let text = format!("{}.{}", self.interface.name, message.name);
                self.text.line(2, &format!("raise _stubs.Unserved(\"{text} is not served here\")"));
            } else if message.docs.is_empty() {
                self.text.line(2, "return None");
            }
        }
    }

    fn write_server(&mut self, is_async: bool) {
        let (name, base) =
            if is_async { ("AsyncServer", "_stubs.AsyncServer") } else { ("Server", "_stubs.Server") };
        let docs = "The serving end of a channel: passes requests to a handler.";
        self.write_class(name, Some(base), &[], docs);
        self.text.lines(1, &format!("\nINTERFACE = {}", class(&self.interface.name)));
        let (wait, timeout) = if is_async { ("await ", "10.0") } else { ("", "10.0") };
        for message in self.client_messages() {
            let (values, private) = (self.value_tuple(message), self.layout_variable(message));
            let mut parameters = [&["self".to_owned()][..], &self.client_parameters(message)].concat();
            parameters.extend(["*".to_owned(), format!("timeout: float = {timeout}")]);
            self.write_method_head(&lower(&message.name), &parameters, "None", is_async);
            self.text.docstring(2, &message.docs);
            self.text.line(2, &format!("{wait}self._tell({private}, {values}, timeout)"));
        }
    }
}
