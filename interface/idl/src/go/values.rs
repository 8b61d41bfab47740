//! Generated Go encoders and decoders.

use super::Text;
use super::names::go_type;
use crate::model::{Int, Layout, Model, Type};

/// Returns the Go expression of the offset `base + plus`.
fn place(base: &str, plus: u64) -> String {
    if plus == 0 { base.to_owned() } else { format!("{base}+{plus}") }
}

/// Returns the Go expression of an element of a list or array. `value` may dereference a pointer.
fn element(value: &str, index: usize) -> String {
    if value.starts_with('*') { format!("({value})[i{index}]") } else { format!("{value}[i{index}]") }
}

/// Returns the receiver expression for a method call. Go dereferences pointers there implicitly.
fn receiver(value: &str) -> &str {
    value.strip_prefix('*').unwrap_or(value)
}

/// Writer of the statements of one function. Numbers the local variables.
pub(super) struct ValueWriter<'a> {
    text: &'a mut Text,
    model: &'a Model,
    /// Name of the field in error messages.
    label: String,
    variables: usize,
}

impl<'a> ValueWriter<'a> {
    pub(super) fn new(text: &'a mut Text, model: &'a Model) -> Self {
        ValueWriter { text, model, label: String::new(), variables: 0 }
    }

    pub(super) fn with_label(&mut self, label: String) -> &mut Self {
        self.label = label;
        self
    }

    pub(super) fn line(&mut self, depth: usize, line: &str) {
        self.text.line(depth, line);
    }

    pub(super) fn layout(&self, of: &Type) -> Layout {
        self.model.layout(of)
    }

    fn next_variable(&mut self) -> usize {
        self.variables += 1;
        self.variables - 1
    }

    /// Writes statements that encode a value at offset `plus` from the variable `base`.
    pub(super) fn put(&mut self, depth: usize, of: &Type, value: &str, base: &str, plus: u64) {
        let (at, label) = (place(base, plus), self.label.clone());
        let line = match of {
            Type::Bool => format!("w.Bool({at}, {value})"),
            Type::Int(int) => format!("w.U{}({at}, {})", int.bits, unsigned(*int, value)),
            Type::Float { bits } => format!("w.F{bits}({at}, {value})"),
            Type::Text { max } => format!("w.Text({at}, {value}, {max}, \"{label}\")"),
            Type::Bytes { max } => format!("w.Bytes({at}, {value}, {max}, \"{label}\")"),
            Type::Domain => format!("w.U64({at}, uint64({value}))"),
            Type::Handle { kind, moved } => format!("w.Right({at}, {value}, {}, {moved})", kind.number()),
            Type::Enum(index) => {
                let of = &self.model.enums[*index];
                if !of.open {
                    self.text.line(depth, &format!("w.Known({}.Known(), \"{label}\")", receiver(value)));
                }
                format!("w.U{}({at}, uint{}({value}))", of.repr.bits, of.repr.bits)
            }
            Type::Record(index) if self.model.records[*index].frozen => {
                format!("{}.EncodeWire(w, {at})", receiver(value))
            }
            Type::Record(index) => {
                let bytes = self.model.records[*index].bytes;
                format!("{}.EncodeWire(w, w.Object({at}, {bytes}))", receiver(value))
            }
            Type::Union(_) => format!("{}.EncodeWire(w, {at})", receiver(value)),
            Type::Array { of, .. } => {
                let (index, each) = (self.next_variable(), self.model.layout(of).bytes);
                self.text.line(depth, &format!("for i{index} := range {value} {{"));
                self.put(depth + 1, of, &element(value, index), &format!("{at}+i{index}*{each}"), 0);
                "}".to_owned()
            }
            Type::List { of, max } => {
                let (index, each) = (self.next_variable(), self.model.layout(of).bytes);
                let list = format!("w.List({at}, len({value}), {each}, {max}, \"{label}\")");
                self.text.line(depth, &format!("l{index}, n{index} := {list}"));
                self.text.line(depth, &format!("for i{index} := 0; i{index} < n{index}; i{index}++ {{"));
                self.put(depth + 1, of, &element(value, index), &format!("l{index}+i{index}*{each}"), 0);
                "}".to_owned()
            }
            Type::Optional(of) => {
                let (index, align) = (self.next_variable(), self.model.layout(of).align);
                self.text.line(depth, &format!("if p{index} := {value}; p{index} != nil {{"));
                self.text.line(depth + 1, &format!("w.Bool({at}, true)"));
                self.put(depth + 1, of, &format!("*p{index}"), base, plus + align);
                "}".to_owned()
            }
        };
        self.text.line(depth, &line);
    }

    /// Writes statements that decode a value at offset `at` of a view.
    pub(super) fn get(&mut self, depth: usize, of: &Type, value: &str, view: &str, at: u64) {
        let model = self.model;
        let line = match of {
            Type::Bool => format!("{value} = {view}.Bool({at})"),
            Type::Int(int) if int.signed => format!("{value} = int{0}({view}.U{0}({at}))", int.bits),
            Type::Int(int) => format!("{value} = {view}.U{}({at})", int.bits),
            Type::Float { bits } => format!("{value} = {view}.F{bits}({at})"),
            Type::Text { max } => format!("{value} = {view}.Text({at}, {max})"),
            Type::Bytes { max } => format!("{value} = {view}.Bytes({at}, {max})"),
            Type::Domain => format!("{value} = stubs.DomainID({view}.U64({at}))"),
            Type::Handle { kind, moved } => {
                format!("{value} = {view}.Right({at}, {}, {moved})", kind.number())
            }
            Type::Enum(index) => {
                let of = &model.enums[*index];
                let read = format!("{value} = {}({view}.U{}({at}))", of.name, of.repr.bits);
                if of.open {
                    read
                } else {
                    self.text.line(depth, &read);
                    format!("{view}.Known({at}, {}.Known())", receiver(value))
                }
            }
            Type::Record(index) if model.records[*index].frozen => {
                let bytes = model.records[*index].bytes;
                format!("{}.DecodeWire({view}.Inline({at}, {bytes}))", receiver(value))
            }
            Type::Record(_) => format!("{}.DecodeWire({view}.Object({at}))", receiver(value)),
            Type::Union(_) => format!("{}.DecodeWire({view}.Inline({at}, 16))", receiver(value)),
            Type::Array { of, .. } => {
                let (index, each) = (self.next_variable(), model.layout(of).bytes);
                self.text.line(depth, &format!("for i{index} := range {value} {{"));
                let from = if at == 0 { String::new() } else { format!("{at}+") };
                let inline = format!("{view}.Inline({from}i{index}*{each}, {each})");
                self.text.line(depth + 1, &format!("e{index} := {inline}"));
                self.get(depth + 1, of, &element(value, index), &format!("e{index}"), 0);
                "}".to_owned()
            }
            Type::List { of, max } => {
                let (index, each, go) = (self.next_variable(), model.layout(of).bytes, go_type(model, of));
                self.text.line(depth, &format!("l{index}, n{index} := {view}.List({at}, {each}, {max})"));
                self.text.line(depth, &format!("{value} = make([]{go}, n{index})"));
                self.text.line(depth, &format!("for i{index} := range {value} {{"));
                let inline = format!("l{index}.Inline(i{index}*{each}, {each})");
                self.text.line(depth + 1, &format!("e{index} := {inline}"));
                self.get(depth + 1, of, &element(value, index), &format!("e{index}"), 0);
                "}".to_owned()
            }
            Type::Optional(of) => {
                let (index, align) = (self.next_variable(), model.layout(of).align);
                self.text.line(depth, &format!("if {view}.Bool({at}) {{"));
                self.text.line(depth + 1, &format!("p{index} := new({})", go_type(model, of)));
                self.get(depth + 1, of, &format!("*p{index}"), view, at + align);
                self.text.line(depth + 1, &format!("{value} = p{index}"));
                "}".to_owned()
            }
        };
        self.text.line(depth, &line);
    }
}

fn unsigned(int: Int, value: &str) -> String {
    if int.signed { format!("uint{}({value})", int.bits) } else { value.to_owned() }
}
