//! Reference page of an interface file, in Markdown.

use crate::model::{Enum, Field, Interface, Message, MessageKind, Model, Origin, Record, Type, Union};

/// Returns a Markdown page that documents everything the file declares; it names `origin` as its source.
#[must_use]
pub fn markdown(model: &Model, origin: &str) -> String {
    let mut page = Page { model, text: String::new() };
    let title = model.interfaces.first().map_or(&model.package, |interface| &interface.name);
    page.line(&format!("# {title}\n"));
    page.paragraph(&model.docs);
    page.line(&format!("Package `{}`. Written by `tombolo idl doc` from `{origin}`.\n", model.package));
    for interface in &model.interfaces {
        page.interface(interface);
    }
    page.types();
    while page.text.ends_with("\n\n") {
        page.text.pop();
    }
    page.text
}

struct Page<'m> {
    model: &'m Model,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn paragraph(&mut self, docs: &[String]) {
        if !docs.is_empty() {
            let text: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
            self.line(&format!("{}\n", text.join("\n")));
        }
    }

    fn own(&self, name: &str) -> bool {
        !self.model.included.contains_key(name)
    }

    fn interface(&mut self, interface: &Interface) {
        self.line(&format!("## Interface {}, version {}\n", interface.name, interface.version));
        self.paragraph(&interface.docs);
        self.line(&format!("Its hash is `{:#018x}`.\n", interface.hash));
        for message in &interface.messages {
            self.message(message);
        }
    }

    fn message(&mut self, message: &Message) {
        let (what, results, error) = match message.kind {
            MessageKind::Call { idempotent, output, error } => {
                (if idempotent { "idempotent call" } else { "call" }, Some(output), error)
            }
            MessageKind::Message => ("message", None, None),
            MessageKind::Event => ("event", None, None),
        };
        self.line(&format!("### {}\n", message.name));
        let mut signature =
            format!("@{} {what} {}{}", message.ordinal, message.name, self.fields(message.input));
        if let Some(results) = results.filter(|results| !self.model.records[*results].fields.is_empty()) {
            signature.push_str(&format!("\n    -> {}", self.fields(results)));
        }
        let error = error.and_then(|error| self.model.records[error].fields.first());
        if let Some(field) = error {
            signature.push_str(&format!("\n    error {}", self.of(&field.of)));
        }
        self.line(&format!("```text\n{signature};\n```\n"));
        self.paragraph(&message.docs);
        let mut notes = vec![
            match message.kind {
                MessageKind::Call { .. } => "From client to server, which answers.",
                MessageKind::Message => "From client to server, without an answer.",
                MessageKind::Event => "From server to client.",
            }
            .to_owned(),
        ];
        if what == "idempotent call" {
            notes.push("It may be called again when it is unknown whether it was served.".to_owned());
        }
        notes.push(format!("Up to {} bytes", self.model.max_message_bytes(message.input)));
        if let Some(results) = results {
            notes.push(format!("there and {} back.", self.model.max_message_bytes(results)));
            let back = notes.pop().unwrap_or_default();
            if let Some(there) = notes.last_mut() {
                there.push_str(&format!(" {back}"));
            }
        } else if let Some(there) = notes.last_mut() {
            there.push('.');
        }
        self.line(&format!("{}\n", notes.join(" ")));
    }

    /// Formats the fields of a record as parameters or results, in parentheses.
    fn fields(&self, record: usize) -> String {
        let fields = self.model.records[record].fields.iter();
        let fields: Vec<String> =
            fields.map(|field| format!("{}: {}", field.name, self.of(&field.of))).collect();
        format!("({})", fields.join(", "))
    }

    /// Formats a type in the syntax of the language.
    fn of(&self, of: &Type) -> String {
        match of {
            Type::Bool => "bool".to_owned(),
            Type::Int(int) => int.name(),
            Type::Float { bits } => format!("f{bits}"),
            Type::Text { max } => format!("string<{max}>"),
            Type::Bytes { max } => format!("bytes<{max}>"),
            Type::Array { of, count } => format!("[{}; {count}]", self.of(of)),
            Type::List { of, max } => format!("[{}; ..{max}]", self.of(of)),
            Type::Optional(of) => format!("{}?", self.of(of)),
            Type::Enum(index) => self.model.enums[*index].name.clone(),
            Type::Record(index) => self.model.records[*index].name.clone(),
            Type::Union(index) => self.model.unions[*index].name.clone(),
            Type::Domain => "domain".to_owned(),
            Type::Handle { kind, moved } => {
                format!("{} {}", if *moved { "move" } else { "copy" }, kind.word())
            }
        }
    }

    fn types(&mut self) {
        let model = self.model;
        let constants: Vec<_> = model.constants.iter().filter(|of| self.own(&of.name)).collect();
        if !constants.is_empty() {
            self.line("## Constants\n");
            self.line("| name | value | |\n|---|---|---|");
            for constant in constants {
                self.row(&[&constant.name, &constant.value.to_string()], &constant.docs);
            }
            self.line("");
        }
        let structs = |record: &&Record| record.origin == Origin::Struct && self.own(&record.name);
        let records: Vec<&Record> = model.records.iter().filter(structs).collect();
        let enums: Vec<&Enum> = model.enums.iter().filter(|of| self.own(&of.name)).collect();
        let unions: Vec<&Union> = model.unions.iter().filter(|of| self.own(&of.name)).collect();
        if records.is_empty() && enums.is_empty() && unions.is_empty() {
            return;
        }
        self.line("## Types\n");
        enums.into_iter().for_each(|of| self.enumeration(of));
        records.into_iter().for_each(|record| self.record(record));
        unions.into_iter().for_each(|union| self.union(union));
    }

    fn row(&mut self, cells: &[&str], docs: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| format!("`{}`", cell.replace('|', "\\|"))).collect();
        let docs = docs.join(" ").replace('|', "\\|");
        self.line(format!("| {} | {} |", cells.join(" | "), docs.trim()).replace("|  |", "| |").trim_end());
    }

    fn enumeration(&mut self, of: &Enum) {
        let open = if of.open { "open " } else { "" };
        let what = if of.flags { "flags" } else { "enum" };
        self.line(&format!("### {}\n\n`{open}{what} {}: {}`\n", of.name, of.name, of.repr.name()));
        self.paragraph(&of.docs);
        self.line(if of.open {
            "Values without a name may come.\n"
        } else {
            "Values without a name are refused.\n"
        });
        self.line("| name | value | |\n|---|---|---|");
        for value in &of.values {
            let number = if of.flags { format!("{:#x}", value.value) } else { value.value.to_string() };
            self.row(&[&value.name, &number], &value.docs);
        }
        self.line("");
    }

    fn record(&mut self, record: &Record) {
        let frozen = if record.frozen { "frozen " } else { "" };
        self.line(&format!("### {}\n\n`{frozen}struct`, {} bytes of fields\n", record.name, record.bytes));
        self.paragraph(&record.docs);
        self.line("| field | type | at byte | |\n|---|---|---|---|");
        for Field { docs, name, of, offset } in &record.fields {
            self.row(&[name, &self.of(of), &offset.to_string()], docs);
        }
        self.line("");
    }

    fn union(&mut self, union: &Union) {
        self.line(&format!("### {}\n\n`union`\n", union.name));
        self.paragraph(&union.docs);
        self.line("| case | number | carries | |\n|---|---|---|---|");
        for case in &union.cases {
            let of = case.of.as_ref().map_or_else(|| "nothing".to_owned(), |of| self.of(of));
            self.row(&[&case.name, &case.ordinal.to_string(), &of], &case.docs);
        }
        self.line("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_what_the_file_says() {
        let model = crate::compile(
            "/// A page.\npackage a.b;\n/// Most.\nconst MAX = 4;\n\
             /// Why.\nopen enum Why: u8 { no = 1 }\n\
             /// Asks.\ninterface Ask version 2 {\n/// Is it so?\n@3 idempotent call so(what: string<MAX>) -> (yes: bool?) error Why;\n\
             @4 event news(); }",
        )
        .unwrap();
        let page = markdown(&model, "ask.tbl");
        for part in [
            "# Ask\n\nA page.\n",
            "## Interface Ask, version 2\n\nAsks.\n",
            "```text\n@3 idempotent call so(what: string<4>)\n    -> (yes: bool?)\n    error Why;\n```\n\nIs it so?\n",
            "Up to 24 bytes there and 16 back.",
            "@4 event news();",
            "| `MAX` | `4` | Most. |",
            "| `no` | `1` | |",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }
}
