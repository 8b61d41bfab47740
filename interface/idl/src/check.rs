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

type CheckResult<T> = Result<T, Diagnostic>;

/// Returns the model of a file, or all mistakes found in it.
pub(crate) fn check(file: &File) -> Result<Model, Vec<Diagnostic>> {
    let mut checker = Checker {
        declared: BTreeMap::new(),
        resolved: BTreeMap::new(),
        resolving: Vec::new(),
        constants: BTreeMap::new(),
        used: BTreeSet::new(),
        model: Model { docs: file.docs.clone(), ..Model::default() },
        mistakes: Vec::new(),
    };
    checker.check_file(file);
    if checker.mistakes.is_empty() { Ok(checker.model) } else { Err(checker.mistakes) }
}

struct Checker<'a> {
    declared: BTreeMap<&'a str, &'a Declaration>,
    /// Resolved types; `None` for a type with a mistake, which has been reported.
    resolved: BTreeMap<&'a str, Option<Type>>,
    /// Types being resolved, outermost first. Detects recursion.
    resolving: Vec<&'a str>,
    constants: BTreeMap<&'a str, i128>,
    /// Names taken by declarations and message bodies.
    used: BTreeSet<String>,
    model: Model,
    mistakes: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    fn check_file(&mut self, file: &'a File) {
        match &file.package {
            Some(name) => self.model.package = name.text.clone(),
            None => self.mistakes.push(
                Diagnostic::new(&(0..0), "the file has no package", "expected before everything else").hint(
                    "begin with a line such as `package example.kv;`: it distinguishes interfaces with the same name",
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
                let value = self.define_constant(declaration, number);
                self.record_mistake(value);
            }
        }
        for declaration in &file.declarations {
            let is_type = !matches!(declaration.body, Body::Const(_) | Body::Interface { .. });
            if is_type && self.is_first_declaration(declaration) {
                let resolved = self.resolve(&declaration.name);
                self.record_mistake(resolved);
            }
        }
        for declaration in &file.declarations {
            if let Body::Interface { version, messages } = &declaration.body {
                self.check_interface(declaration, version, messages);
            }
        }
    }

    /// Records the mistake of a failed check, unless it is recorded already.
    fn record_mistake<T>(&mut self, result: CheckResult<T>) -> Option<T> {
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

    fn is_first_declaration(&self, declaration: &Declaration) -> bool {
        let first = self.declared.get(&*declaration.name.text);
        first.is_some_and(|first| first.name.span == declaration.name.span)
    }

    fn declare(&mut self, declaration: &'a Declaration) {
        let name = &declaration.name;
        let spelled = names::check_declaration_name(name, matches!(declaration.body, Body::Const(_)));
        self.record_mistake(spelled);
        if let Some(first) = self.declared.get(&*name.text) {
            let mistake = Diagnostic::new(
                &name.span,
                format!("`{}` is declared twice", name.text),
                "second declaration",
            )
            .related(&first.name.span, "first declaration")
            .hint("rename or remove one of them");
            self.mistakes.push(mistake);
            return;
        }
        self.used.insert(name.text.clone());
        self.declared.insert(&name.text, declaration);
    }

    fn define_constant(&mut self, declaration: &'a Declaration, number: &Number) -> CheckResult<()> {
        let value = self.evaluate(number)?;
        if self.is_first_declaration(declaration) {
            self.constants.insert(&declaration.name.text, value);
            self.model.constants.push(Constant {
                docs: declaration.docs.clone(),
                name: declaration.name.text.clone(),
                value,
            });
        }
        Ok(())
    }

    fn evaluate(&self, number: &Number) -> CheckResult<i128> {
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
            Some(other) => mistake
                .related(&other.name.span, "not a constant that is declared above")
                .hint("write a number as digits, or as the name of a constant that is declared above"),
            None => mistake.hint(
                suggest::hint(&name.text, self.constants.keys().copied())
                    .unwrap_or_else(|| format!("declare it above: `const {} = 64;`", name.text)),
            ),
        })
    }

    /// Evaluates a number of elements or bytes: from 1 to [`MAX_COUNT`].
    fn evaluate_count(&self, number: &Number) -> CheckResult<u32> {
        let value = self.evaluate(number)?;
        match u32::try_from(value) {
            Ok(count) if value > 0 && value <= MAX_COUNT => Ok(count),
            _ => Err(Diagnostic::new(
                &span_of(number),
                format!("{value} is not a valid size"),
                format!("must be from 1 to {MAX_COUNT}"),
            )
            .hint("every message has a maximum length, so that no peer can request unbounded memory")),
        }
    }

    /// Returns the type that `name` declares. Resolves the declaration on first use.
    fn resolve(&mut self, name: &Name) -> CheckResult<Type> {
        if let Some(done) = self.resolved.get(&*name.text) {
            return done.clone().ok_or_else(|| Diagnostic::secondary(&name.span));
        }
        let Some(declaration) = self.declared.get(&*name.text).copied() else {
            return Err(names::unknown_type_error(name, self.declared.keys().copied()));
        };
        self.check_nesting(name, declaration)?;
        self.resolving.push(&declaration.name.text);
        let of = self.define_type(declaration);
        self.resolving.pop();
        let of = self.record_mistake(of);
        self.resolved.insert(&declaration.name.text, of.clone());
        of.ok_or_else(|| Diagnostic::secondary(&name.span))
    }

    fn check_nesting(&self, name: &Name, declaration: &Declaration) -> CheckResult<()> {
        let wrong = |message: String, label: &str| {
            Diagnostic::new(&name.span, message, label).related(&declaration.name.span, "declared here")
        };
        if self.resolving.contains(&&*name.text) {
            return Err(wrong(format!("`{}` contains itself", name.text), "contains itself here").hint(
                "messages have a maximum length: use a list of nodes that refer to each other by index",
            ));
        }
        if self.resolving.len() >= MAX_NESTING {
            return Err(wrong(
                format!("`{}` is nested more than {MAX_NESTING} deep", name.text),
                "one level too many",
            )
            .hint("flatten the structs"));
        }
        Ok(())
    }

    fn define_type(&mut self, declaration: &'a Declaration) -> CheckResult<Type> {
        match &declaration.body {
            Body::Alias(of) => self.type_of(of),
            Body::Enum { flags, open, repr, values } => self.define_enum(
                declaration,
                Enum {
                    docs: declaration.docs.clone(),
                    name: declaration.name.text.clone(),
                    flags: *flags,
                    open: *open,
                    repr: names::parse_repr(repr, *flags)?,
                    values: Vec::new(),
                },
                values,
            ),
            Body::Struct { frozen, fields } => self.define_struct(declaration, *frozen, fields),
            Body::Union { cases } => self.define_union(declaration, cases),
            Body::Const(_) | Body::Interface { .. } => {
                let name = &declaration.name;
                Err(Diagnostic::new(&name.span, format!("`{}` is not a type", name.text), "declared here")
                    .hint("fields have the type of an enum, flags, a struct, a union or an alias"))
            }
        }
    }

    fn define_enum(
        &mut self,
        declaration: &Declaration,
        mut of: Enum,
        values: &'a [Value],
    ) -> CheckResult<Type> {
        if values.is_empty() {
            return Err(names::empty_error(&declaration.name, "value", "red = 0"));
        }
        let mut names = names::Distinct::default();
        let mut numbers: BTreeMap<i128, &Span> = BTreeMap::new();
        for value in values {
            names.add(&value.name, "value")?;
            let written = self.evaluate(&value.number)?;
            let span = span_of(&value.number);
            let limit = i128::from(of.repr.bits);
            if of.flags && !(0..limit).contains(&written) {
                return Err(Diagnostic::new(
                    &span,
                    format!("`{}` has no bit {written}", of.repr.name()),
                    "too large",
                )
                .hint(format!("the values of flags are bit numbers, from 0 to {}", limit - 1)));
            }
            if !of.flags && !of.repr.holds(written) {
                let message = format!("{written} does not fit into `{}`", of.repr.name());
                return Err(Diagnostic::new(&span, message, "out of range").hint("choose a wider type"));
            }
            if let Some(first) = numbers.insert(written, &value.name.span) {
                return Err(Diagnostic::new(&span, format!("{written} is already used"), "used again here")
                    .related(first, "first used here")
                    .hint("each value needs its own number"));
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
    fn sort_by_ordinal(&self, fields: &'a [Written], what: &str) -> CheckResult<Vec<(u32, &'a Written)>> {
        let mut names = names::Distinct::default();
        let mut order: BTreeMap<i128, &'a Written> = BTreeMap::new();
        for field in fields {
            names.add(&field.name, what)?;
            let Some((ordinal, span)) = &field.ordinal else { continue };
            if !(1..=1024).contains(ordinal) {
                return Err(Diagnostic::new(
                    span,
                    format!("{ordinal} is not a valid ordinal"),
                    "out of range",
                )
                .hint("ordinals are 1, 2, 3 and so on, up to 1024"));
            }
            if let Some(first) = order.insert(*ordinal, field) {
                let first = first.ordinal.as_ref().map_or(0..0, |(_, span)| span.clone());
                return Err(Diagnostic::new(
                    span,
                    format!("ordinal {ordinal} is already used"),
                    "used again here",
                )
                .related(&first, "first used here")
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
                .hint("ordinals have no gaps: keep a field that is no longer used"));
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
fn field_without_offset(field: &Written, of: Type) -> model::Field {
    model::Field { docs: field.docs.clone(), name: field.name.text.clone(), of, offset: 0 }
}
