//! Reference page of an interface file, in Markdown.

use crate::model::{Enum, Field, Interface, Message, MessageKind, Model, Origin, Record, Type, Union};

/// Returns a Markdown page that documents everything the file declares; it names `origin` as its source.
#[must_use]
pub fn markdown(model: &Model, origin: &str) -> String {
    let mut page = Page { model, text: String::new() };
    let title = model.interfaces.first().map_or(&model.package, |interface| &interface.name);
    page.write_line(&format!("# {title}\n"));
    page.write_paragraph(&model.docs);
    page.write_line(&format!("Package `{}`. Written by `tombolo idl doc` from `{origin}`.\n", model.package));
    for interface in &model.interfaces {
        page.write_interface(interface);
    }
    page.write_types();
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
    fn write_line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn write_paragraph(&mut self, docs: &[String]) {
        if !docs.is_empty() {
            let text: Vec<&str> = docs.iter().map(|line| line.trim()).collect();
            self.write_line(&format!("{}\n", text.join("\n")));
        }
    }

    fn is_declared_here(&self, name: &str) -> bool {
        !self.model.included.contains_key(name)
    }

    fn write_interface(&mut self, interface: &Interface) {
        self.write_line(&format!("## Interface {}, version {}\n", interface.name, interface.version));
        self.write_paragraph(&interface.docs);
        self.write_line(&format!("Its hash is `{:#018x}`.\n", interface.hash));
        for message in &interface.messages {
            self.write_message(message);
        }
    }

    fn write_message(&mut self, message: &Message) {
        let (what, results, error) = match message.kind {
            MessageKind::Call { idempotent, output, error } => {
                (if idempotent { "idempotent call" } else { "call" }, Some(output), error)
            }
            MessageKind::Message => ("message", None, None),
            MessageKind::Event => ("event", None, None),
        };
        self.write_line(&format!("### {}\n", message.name));
        let mut signature =
            format!("@{} {what} {}{}", message.ordinal, message.name, self.field_list(message.input));
        if let Some(results) = results.filter(|results| !self.model.records[*results].fields.is_empty()) {
            signature.push_str(&format!("\n    -> {}", self.field_list(results)));
        }
        let error = error.and_then(|error| self.model.records[error].fields.first());
        if let Some(field) = error {
            signature.push_str(&format!("\n    error {}", self.type_text(&field.of)));
        }
        self.write_line(&format!("```text\n{signature};\n```\n"));
        self.write_paragraph(&message.docs);
        let mut notes = vec![
            match message.kind {
                MessageKind::Call { .. } => "From client to server, with a reply.",
                MessageKind::Message => "From client to server, without a reply.",
                MessageKind::Event => "From server to client.",
            }
            .to_owned(),
        ];
        if what == "idempotent call" {
            notes.push("It may be repeated if it is unknown whether it was served.".to_owned());
        }
        let bytes = self.model.max_message_bytes(message.input);
        notes.push(match results.map(|results| self.model.max_message_bytes(results)) {
            Some(back) => format!("Up to {bytes} bytes, and {back} in the reply."),
            None => format!("Up to {bytes} bytes."),
        });
        self.write_line(&format!("{}\n", notes.join(" ")));
    }

    /// Formats the fields of a record as parameters or results, in parentheses.
    fn field_list(&self, record: usize) -> String {
        let fields = self.model.records[record].fields.iter();
        let fields: Vec<String> =
            fields.map(|field| format!("{}: {}", field.name, self.type_text(&field.of))).collect();
        format!("({})", fields.join(", "))
    }

    /// Formats a type in the syntax of the language.
    fn type_text(&self, of: &Type) -> String {
        match of {
            Type::Bool => "bool".to_owned(),
            Type::Int(int) => int.name(),
            Type::Float { bits } => format!("f{bits}"),
            Type::Text { max } => format!("string<{max}>"),
            Type::Bytes { max } => format!("bytes<{max}>"),
            Type::Array { of, count } => format!("[{}; {count}]", self.type_text(of)),
            Type::List { of, max } => format!("[{}; ..{max}]", self.type_text(of)),
            Type::Optional(of) => format!("{}?", self.type_text(of)),
            Type::Enum(index) => self.model.enums[*index].name.clone(),
            Type::Record(index) => self.model.records[*index].name.clone(),
            Type::Union(index) => self.model.unions[*index].name.clone(),
            Type::Domain => "domain".to_owned(),
            Type::Handle { kind, moved } => {
                format!("{} {}", if *moved { "move" } else { "copy" }, kind.word())
            }
        }
    }

    fn write_types(&mut self) {
        let model = self.model;
        let constants: Vec<_> = model.constants.iter().filter(|of| self.is_declared_here(&of.name)).collect();
        if !constants.is_empty() {
            self.write_line("## Constants\n");
            self.write_line("| name | value | |\n|---|---|---|");
            for constant in constants {
                self.write_row(&[&constant.name, &constant.value.to_string()], &constant.docs);
            }
            self.write_line("");
        }
        let structs =
            |record: &&Record| record.origin == Origin::Struct && self.is_declared_here(&record.name);
        let records: Vec<&Record> = model.records.iter().filter(structs).collect();
        let enums: Vec<&Enum> = model.enums.iter().filter(|of| self.is_declared_here(&of.name)).collect();
        let unions: Vec<&Union> = model.unions.iter().filter(|of| self.is_declared_here(&of.name)).collect();
        if records.is_empty() && enums.is_empty() && unions.is_empty() {
            return;
        }
        self.write_line("## Types\n");
        enums.into_iter().for_each(|of| self.write_enumeration(of));
        records.into_iter().for_each(|record| self.write_record(record));
        unions.into_iter().for_each(|union| self.write_union(union));
    }

    fn write_row(&mut self, cells: &[&str], docs: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| format!("`{}`", cell.replace('|', "\\|"))).collect();
        let docs = docs.join(" ").replace('|', "\\|");
        self.write_line(
            format!("| {} | {} |", cells.join(" | "), docs.trim()).replace("|  |", "| |").trim_end(),
        );
    }

    fn write_enumeration(&mut self, of: &Enum) {
        let open = if of.open { "open " } else { "" };
        let what = if of.flags { "flags" } else { "enum" };
        self.write_line(&format!("### {}\n\n`{open}{what} {}: {}`\n", of.name, of.name, of.repr.name()));
        self.write_paragraph(&of.docs);
        self.write_line(if of.open {
            "Unknown values are accepted.\n"
        } else {
            "Unknown values are refused.\n"
        });
        self.write_line("| name | value | |\n|---|---|---|");
        for value in &of.values {
            let number = if of.flags { format!("{:#x}", value.value) } else { value.value.to_string() };
            self.write_row(&[&value.name, &number], &value.docs);
        }
        self.write_line("");
    }

    fn write_record(&mut self, record: &Record) {
        let frozen = if record.frozen { "frozen " } else { "" };
        self.write_line(&format!(
            "### {}\n\n`{frozen}struct`, {} bytes of fields\n",
            record.name, record.bytes
        ));
        self.write_paragraph(&record.docs);
        self.write_line("| field | type | at byte | |\n|---|---|---|---|");
        for Field { docs, name, of, offset } in &record.fields {
            self.write_row(&[name, &self.type_text(of), &offset.to_string()], docs);
        }
        self.write_line("");
    }

    fn write_union(&mut self, union: &Union) {
        self.write_line(&format!("### {}\n\n`union`\n", union.name));
        self.write_paragraph(&union.docs);
        self.write_line("| case | number | carries | |\n|---|---|---|---|");
        for case in &union.cases {
            let of = case.of.as_ref().map_or_else(|| "nothing".to_owned(), |of| self.type_text(of));
            self.write_row(&[&case.name, &case.ordinal.to_string(), &of], &case.docs);
        }
        self.write_line("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_page_matches_the_file() {
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
            "Up to 24 bytes, and 16 in the reply.",
            "@4 event news();",
            "| `MAX` | `4` | Most. |",
            "| `no` | `1` | |",
        ] {
            assert!(page.contains(part), "no {part:?} in\n{page}");
        }
    }
}
