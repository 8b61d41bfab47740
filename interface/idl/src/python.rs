//! Back end for Python: one module per interface file, which imports `tombolo.stubs`.

mod interfaces;
mod names;
mod types;

use std::collections::BTreeMap;

use crate::model::Model;
use crate::text::Text;

/// Options of the Python back end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonOptions {
    /// Source that the module's docstring names.
    pub origin: String,
}

impl Default for PythonOptions {
    fn default() -> Self {
        PythonOptions { origin: "an interface file".to_owned() }
    }
}

/// Two items of an interface file would have the same name in Python.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{first} and {second} would both be called `{name}` in Python: rename one of them")]
pub struct PythonNameTaken {
    /// Name of both items.
    pub name: String,
    /// Description of the first item.
    pub first: String,
    /// Description of the second item.
    pub second: String,
}

/// Generates the Python module for a model.
///
/// # Errors
/// [`PythonNameTaken`] if two items would have the same name.
pub fn generate(model: &Model, options: &PythonOptions) -> Result<String, PythonNameTaken> {
    check_distinct_names(model)?;
    let mut text = Text::default();
    let mut docs = model.docs.clone();
    if !docs.is_empty() {
        docs.push(String::new());
    }
    docs.push(format!("Written by `tombolo idl compile --lang python` from {}.", options.origin));
    text.docstring(0, &docs);
    let head = "\nfrom __future__ import annotations\n\nimport dataclasses as _dataclasses\nimport enum as _enum\n\
                import typing as _typing\n\nfrom tombolo import stubs as _stubs\n";
    text.lines(0, head);
    for constant in &model.constants {
        text.blank();
        text.notes(0, &constant.docs);
        text.line(0, &format!("{} = {}", names::constant(&constant.name), constant.value));
    }
    types::all(&mut text, model);
    for interface in &model.interfaces {
        interfaces::interface(&mut text, model, interface);
    }
    Ok(text.into_string())
}

/// Checks that all names in the module are distinct.
fn check_distinct_names(model: &Model) -> Result<(), PythonNameTaken> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut add = |name: String, what: String| match taken.insert(name.clone(), what.clone()) {
        Some(first) if first != what => Err(PythonNameTaken { name, first, second: what }),
        _ => Ok(()),
    };
    for constant in &model.constants {
        add(names::constant(&constant.name), format!("constant `{}`", constant.name))?;
    }
    let types = model.enums.iter().map(|of| &of.name);
    let types =
        types.chain(model.records.iter().map(|of| &of.name)).chain(model.unions.iter().map(|of| &of.name));
    for name in types {
        add(names::class(name), format!("`{name}`"))?;
    }
    for union in &model.unions {
        for case in &union.cases {
            add(names::case(union, case), format!("case `{}` of `{}`", case.name, union.name))?;
        }
    }
    for of in &model.enums {
        let mut members: BTreeMap<String, &str> = BTreeMap::new();
        for value in &of.values {
            if let Some(first) = members.insert(names::constant(&value.name), &value.name) {
                return Err(PythonNameTaken {
                    name: names::constant(&value.name),
                    first: format!("`{first}` of `{}`", of.name),
                    second: format!("`{}`", value.name),
                });
            }
        }
    }
    for interface in &model.interfaces {
        interfaces::names(model, interface, &mut add)?;
    }
    Ok(())
}

impl Text {
    /// Writes the docstring of a module, class or function.
    fn docstring(&mut self, depth: usize, docs: &[String]) {
        let docs: Vec<String> = docs.iter().map(|line| names::documentation(line)).collect();
        match &docs[..] {
            [] => {}
            [one] => self.line(depth, &format!("\"\"\"{one}\"\"\"")),
            [first, rest @ ..] => {
                self.line(depth, &format!("\"\"\"{first}"));
                rest.iter().for_each(|line| self.line(depth, line));
                self.line(depth, "\"\"\"");
            }
        }
    }

    /// Writes `#:` comments, which documentation tools read for constants and fields.
    fn notes(&mut self, depth: usize, docs: &[String]) {
        docs.iter().for_each(|line| self.line(depth, format!("#: {line}").trim_end()));
    }

    /// Writes two empty lines, as between classes.
    fn gap(&mut self) {
        self.blank();
        self.line(0, "");
    }
}
