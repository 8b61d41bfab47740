//! Checker: turns a syntax tree into a model. Resolves names, checks bounds and lays out records.

mod interfaces;
pub(crate) mod names;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use crate::ast::{Body, Declaration, Field as Written, File, Name, Number, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::model::{self, Constant, Enum, Model, Type};
use crate::suggest;

/// Maximum nesting depth of structs, unions and aliases.
const MAX_NESTING: usize = 32;

/// Maximum number of elements of an array or list, and of bytes of a string.
const MAX_COUNT: i128 = 16 << 20;

type Checked<T> = Result<T, Diagnostic>;

/// Returns the model of a file, or all mistakes found in it.
pub(crate) fn check(file: &File) -> Result<Model, Vec<Diagnostic>> {
    let mut checker = Checker {
        declared: BTreeMap::new(),
        resolved: BTreeMap::new(),
        inside_of: Vec::new(),
        constants: BTreeMap::new(),
        used: BTreeSet::new(),
        model: Model { docs: file.docs.clone(), ..Model::default() },
        mistakes: Vec::new(),
    };
    checker.file(file);
    if checker.mistakes.is_empty() { Ok(checker.model) } else { Err(checker.mistakes) }
}

struct Checker<'a> {
    declared: BTreeMap<&'a str, &'a Declaration>,
    /// Resolved types; `None` for a type with a mistake, which has been reported.
    resolved: BTreeMap<&'a str, Option<Type>>,
    /// Types being resolved, outermost first. Detects recursion.
    inside_of: Vec<&'a str>,
    constants: BTreeMap<&'a str, i128>,
    /// Names taken by declarations and message bodies.
    used: BTreeSet<String>,
    model: Model,
    mistakes: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn file(&mut self, file: &'a File) {
        match &file.package {
            Some(name) => self.model.package = name.text.clone(),
            None => self.mistakes.push(
                Diagnostic::new(&(0..0), "the file has no package", "expected before everything else").hint(
                    "begin with a line such as `package example.kv;`: it keeps interfaces of one name apart",
                ),
            ),
        }
        for declaration in &file.declarations {
            self.declare(declaration);
            if let Some(module) = &declaration.module {
                self.model.included.insert(declaration.name.text.clone(), module.clone());
            }
        }
        for declaration in &file.declarations {
            if let Body::Const(number) = &declaration.body {
                let value = self.constant(declaration, number);
                self.note(value);
            }
        }
        for declaration in &file.declarations {
            let is_type = !matches!(declaration.body, Body::Const(_) | Body::Interface { .. });
            if is_type && self.is_first(declaration) {
                let resolved = self.resolve(&declaration.name);
                self.note(resolved);
            }
        }
        for declaration in &file.declarations {
            if let Body::Interface { version, messages } = &declaration.body {
                self.interface(declaration, version, messages);
            }
        }
    }

    /// Records the mistake of a failed check, unless it is recorded already.
    fn note<T>(&mut self, result: Checked<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(mistake) => {
                if !self.mistakes.contains(&mistake) {
                    self.mistakes.push(mistake);
                }
                None
            }
        }
    }

    fn is_first(&self, declaration: &Declaration) -> bool {
        let first = self.declared.get(&*declaration.name.text);
        first.is_some_and(|first| first.name.span == declaration.name.span)
    }

    fn declare(&mut self, declaration: &'a Declaration) {
        let name = &declaration.name;
        let spelled = names::declaration(name, matches!(declaration.body, Body::Const(_)));
        self.note(spelled);
        if let Some(first) = self.declared.get(&*name.text) {
            let mistake =
                Diagnostic::new(&name.span, format!("`{}` is declared twice", name.text), "the second time")
                    .related(&first.name.span, "the first time")
                    .hint("rename or remove one of them");
            self.mistakes.push(mistake);
            return;
        }
        self.used.insert(name.text.clone());
        self.declared.insert(&name.text, declaration);
    }

    fn constant(&mut self, declaration: &'a Declaration, number: &Number) -> Checked<()> {
        let value = self.number(number)?;
        if self.is_first(declaration) {
            self.constants.insert(&declaration.name.text, value);
            self.model.constants.push(Constant {
                docs: declaration.docs.clone(),
                name: declaration.name.text.clone(),
                value,
            });
        }
        Ok(())
    }

    fn number(&self, number: &Number) -> Checked<i128> {
        let name = match number {
            Number::Literal(value, _) => return Ok(*value),
            Number::Constant(name) => name,
        };
        if let Some(value) = self.constants.get(&*name.text) {
            return Ok(*value);
        }
        let mistake =
            Diagnostic::new(&name.span, format!("there is no constant `{}`", name.text), "not declared");
        Err(match self.declared.get(&*name.text) {
            Some(other) => mistake.related(&other.name.span, "this is no constant declared before").hint(
                "a number is written as digits, or as the name of a constant that is declared further up",
            ),
            None => mistake.hint(
                suggest::hint(&name.text, self.constants.keys().copied())
                    .unwrap_or_else(|| format!("declare it further up: `const {} = 64;`", name.text)),
            ),
        })
    }

    /// Evaluates a number of elements or bytes: from 1 to [`MAX_COUNT`].
    fn count(&self, number: &Number) -> Checked<u32> {
        let value = self.number(number)?;
        match u32::try_from(value) {
            Ok(count) if value > 0 && value <= MAX_COUNT => Ok(count),
            _ => Err(Diagnostic::new(
                &span_of(number),
                format!("{value} is no size"),
                format!("must be from 1 to {MAX_COUNT}"),
            )
            .hint("every message has a longest form, so that no peer can ask for memory without bound")),
        }
    }

    /// Returns the type that `name` declares. Resolves the declaration on first use.
    fn resolve(&mut self, name: &Name) -> Checked<Type> {
        if let Some(done) = self.resolved.get(&*name.text) {
            return done.clone().ok_or_else(|| Diagnostic::consequence(&name.span));
        }
        let Some(declaration) = self.declared.get(&*name.text).copied() else {
            return Err(names::unknown_type(name, self.declared.keys().copied()));
        };
        self.nesting(name, declaration)?;
        self.inside_of.push(&declaration.name.text);
        let of = self.define(declaration);
        self.inside_of.pop();
        let of = self.note(of);
        self.resolved.insert(&declaration.name.text, of.clone());
        of.ok_or_else(|| Diagnostic::consequence(&name.span))
    }

    fn nesting(&self, name: &Name, declaration: &Declaration) -> Checked<()> {
        let wrong = |message: String, label: &str| {
            Diagnostic::new(&name.span, message, label).related(&declaration.name.span, "declared here")
        };
        if self.inside_of.contains(&&*name.text) {
            return Err(wrong(format!("`{}` contains itself", name.text), "here it is inside of itself")
                .hint("messages have a longest form: use a list of nodes that name each other by index"));
        }
        if self.inside_of.len() >= MAX_NESTING {
            return Err(wrong(
                format!("`{}` is nested more than {MAX_NESTING} deep", name.text),
                "this is one level too many",
            )
            .hint("flatten the structs"));
        }
        Ok(())
    }

    fn define(&mut self, declaration: &'a Declaration) -> Checked<Type> {
        match &declaration.body {
            Body::Alias(of) => self.type_of(of),
            Body::Enum { flags, open, repr, values } => self.enumeration(
                declaration,
                Enum {
                    docs: declaration.docs.clone(),
                    name: declaration.name.text.clone(),
                    flags: *flags,
                    open: *open,
                    repr: names::repr(repr, *flags)?,
                    values: Vec::new(),
                },
                values,
            ),
            Body::Struct { frozen, fields } => self.structure(declaration, *frozen, fields),
            Body::Union { cases } => self.union(declaration, cases),
            Body::Const(_) | Body::Interface { .. } => {
                let name = &declaration.name;
                Err(Diagnostic::new(&name.span, format!("`{}` is no type", name.text), "declared here")
                    .hint("fields have the type of an enum, flags, a struct, a union or an alias"))
            }
        }
    }

    fn enumeration(&mut self, declaration: &Declaration, mut of: Enum, values: &'a [Value]) -> Checked<Type> {
        if values.is_empty() {
            return Err(names::empty(&declaration.name, "value", "red = 0"));
        }
        let mut names = names::Distinct::default();
        let mut numbers: BTreeMap<i128, &Span> = BTreeMap::new();
        for value in values {
            names.add(&value.name, "value")?;
            let written = self.number(&value.number)?;
            let span = span_of(&value.number);
            let limit = i128::from(of.repr.bits);
            if of.flags && !(0..limit).contains(&written) {
                return Err(Diagnostic::new(
                    &span,
                    format!("`{}` has no bit {written}", of.repr.name()),
                    "too large",
                )
                .hint(format!("the values of flags are numbers of bits, from 0 to {}", limit - 1)));
            }
            if !of.flags && !of.repr.holds(written) {
                let message = format!("{written} does not fit into `{}`", of.repr.name());
                return Err(Diagnostic::new(&span, message, "out of range").hint("choose a wider type"));
            }
            if let Some(first) = numbers.insert(written, &value.name.span) {
                return Err(Diagnostic::new(&span, format!("{written} is taken"), "the second time")
                    .related(first, "the first time")
                    .hint("each value needs a number of its own"));
            }
            let number = if of.flags { 1 << written } else { written };
            of.values.push(Constant {
                docs: value.docs.clone(),
                name: value.name.text.clone(),
                value: number,
            });
        }
        self.model.enums.push(of);
        Ok(Type::Enum(self.model.enums.len() - 1))
    }

    /// Returns the fields or cases sorted by ordinal. Ordinals must be 1, 2, 3 and so on, without gaps.
    fn in_order(&self, fields: &'a [Written], what: &str) -> Checked<Vec<(u32, &'a Written)>> {
        let mut names = names::Distinct::default();
        let mut order: BTreeMap<i128, &'a Written> = BTreeMap::new();
        for field in fields {
            names.add(&field.name, what)?;
            let Some((ordinal, span)) = &field.ordinal else { continue };
            if !(1..=1024).contains(ordinal) {
                return Err(Diagnostic::new(span, format!("{ordinal} is no ordinal"), "out of range")
                    .hint("ordinals are 1, 2, 3 and so on, up to 1024"));
            }
            if let Some(first) = order.insert(*ordinal, field) {
                let first = first.ordinal.as_ref().map_or(0..0, |(_, span)| span.clone());
                return Err(Diagnostic::new(span, format!("ordinal {ordinal} is taken"), "the second time")
                    .related(&first, "the first time")
                    .hint(format!("the next free one is {}", fields.len())));
            }
        }
        for (expected, (ordinal, field)) in (1_i128..).zip(&order) {
            if *ordinal != expected {
                let span = field.ordinal.as_ref().map_or(field.name.span.clone(), |(_, span)| span.clone());
                return Err(Diagnostic::new(
                    &span,
                    format!("ordinal {expected} is missing"),
                    "comes too early",
                )
                .hint("ordinals have no gaps: a field that is not used any more stays where it is"));
            }
        }
        Ok((1_u32..).zip(order.into_values()).collect())
    }
}

fn span_of(number: &Number) -> Span {
    match number {
        Number::Literal(_, span) => span.clone(),
        Number::Constant(name) => name.span.clone(),
    }
}

/// Returns a field of the model whose offset is still to be assigned.
fn unplaced(field: &Written, of: Type) -> model::Field {
    model::Field { docs: field.docs.clone(), name: field.name.text.clone(), of, offset: 0 }
}
