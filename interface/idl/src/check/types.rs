//! Checks of types, structs and unions.

use super::{CheckResult, Checker, field_without_offset, names};
use crate::ast::{Declaration, Field as Written, Name, Number, TypeExpr, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::model::{Case, HandleKind, Int, MAX_RECORD_BYTES, Needs, Origin, Record, Type, Union, round_up};
use crate::suggest;

impl<'a> Checker<'a> {
    pub(super) fn type_of(&mut self, written: &TypeExpr) -> CheckResult<Type> {
        match &written.kind {
            TypeKind::Named(name) => self.resolve_name(name),
            TypeKind::Sized(name, number) => self.resolve_sized(name, number),
            TypeKind::Array(of, number) => {
                let (of, count) = (Box::new(self.type_of(of)?), self.evaluate_count(number)?);
                Ok(Type::Array { of, count })
            }
            TypeKind::List(of, number) => {
                let (of, max) = (self.type_of(of)?, self.evaluate_count(number)?);
                let byte = Type::Int(Int { signed: false, bits: 8 });
                // `[u8; ..N]` has the same wire format as `bytes<N>`, which is easier to use.
                Ok(if of == byte { Type::Bytes { max } } else { Type::List { of: Box::new(of), max } })
            }
            TypeKind::Optional(of) => {
                let of = self.type_of(of)?;
                if matches!(of, Type::Optional(_)) {
                    return Err(Diagnostic::new(&written.span, "optional twice", "already optional")
                        .hint("the alias is optional: remove the `?`"));
                }
                Ok(Type::Optional(Box::new(of)))
            }
            TypeKind::Handle { moved, name } => {
                let kind = handle(&name.text).ok_or_else(|| {
                    let word = if *moved { "moved" } else { "copied" };
                    let hint =
                        suggest::hint(&name.text, HANDLES.map(|(name, _)| name)).unwrap_or_else(|| {
                            "`copy` and `move` precede endpoint, region, capability or buffer".to_owned()
                        });
                    Diagnostic::new(
                        &name.span,
                        format!("`{}` cannot be {word}", name.text),
                        "not a capability",
                    )
                    .hint(hint)
                })?;
                Ok(Type::Handle { kind, moved: *moved })
            }
        }
    }

    fn resolve_name(&mut self, name: &Name) -> CheckResult<Type> {
        if let Some(int) = Int::named(&name.text) {
            return Ok(Type::Int(int));
        }
        let wrong =
            |message: &str, hint: String| Err(Diagnostic::new(&name.span, message, "here").hint(hint));
        match &*name.text {
            "bool" => Ok(Type::Bool),
            "f32" => Ok(Type::Float { bits: 32 }),
            "f64" => Ok(Type::Float { bits: 64 }),
            "domain" => Ok(Type::Domain),
            word @ ("string" | "bytes") => {
                let message = format!("a {word} needs a maximum length");
                wrong(&message, format!("write its maximum length in bytes, as in `{word}<64>`"))
            }
            word if handle(word).is_some() => wrong(
                "it is not specified whether the sender keeps it",
                format!("write `copy {word}` or `move {word}`"),
            ),
            _ => self.resolve(name),
        }
    }

    fn resolve_sized(&mut self, name: &Name, number: &Number) -> CheckResult<Type> {
        let max = self.evaluate_count(number)?;
        match &*name.text {
            "string" => Ok(Type::Text { max }),
            "bytes" => Ok(Type::Bytes { max }),
            other => {
                let message = format!("`{other}` does not take a size");
                let hint = suggest::hint(other, ["string", "bytes"])
                    .unwrap_or_else(|| format!("an array is `[{other}; 4]`, a list `[{other}; ..4]`"));
                Err(Diagnostic::new(&name.span, message, "only string and bytes do").hint(hint))
            }
        }
    }

    /// Assigns the fields' offsets in the given order and adds the record to the model. Returns its index.
    pub(super) fn add_record(
        &mut self,
        mut record: Record,
        name: &Name,
        fields: &[(u32, &'a Written)],
    ) -> CheckResult<usize> {
        let mut align = 1;
        record.has_default = true;
        for (_, field) in fields {
            let Some(written) = &field.of else { continue };
            let of = self.type_of(written)?;
            let layout = self.model.layout(&of);
            let mut placed = field_without_offset(field, of);
            placed.offset = round_up(record.bytes, layout.align);
            record.bytes = placed.offset.saturating_add(layout.bytes);
            record.outside_bytes = record.outside_bytes.saturating_add(layout.outside_bytes);
            record.has_default &= self.model.has_default(&placed.of);
            record.needs = record.needs.and(self.model.needs(&placed.of));
            align = align.max(layout.align);
            if record.bytes > MAX_RECORD_BYTES {
                let message = format!("`{}` has {} bytes inline", name.text, record.bytes);
                return Err(Diagnostic::new(&written.span, message, "too large")
                    .related(&name.span, format!("the maximum is {MAX_RECORD_BYTES}"))
                    .hint("make the array a list: `[T; ..N]` is stored out of line"));
            }
            record.fields.push(placed);
        }
        record.align = if record.frozen { align } else { 8 };
        record.bytes = round_up(record.bytes, record.align);
        self.model.records.push(record);
        Ok(self.model.records.len() - 1)
    }

    pub(super) fn define_struct(
        &mut self,
        declaration: &'a Declaration,
        frozen: bool,
        fields: &'a [Written],
    ) -> CheckResult<Type> {
        let name = &declaration.name;
        if fields.is_empty() {
            return Err(names::empty_error(name, "field", "@1 id: u64"));
        }
        let fields = self.sort_by_ordinal(fields, "field")?;
        let record = empty_record(declaration.docs.clone(), name.text.clone(), Origin::Struct, frozen);
        self.add_record(record, name, &fields).map(Type::Record)
    }

    pub(super) fn define_union(
        &mut self,
        declaration: &'a Declaration,
        cases: &'a [Written],
    ) -> CheckResult<Type> {
        let name = &declaration.name;
        if cases.is_empty() {
            return Err(names::empty_error(name, "case", "@1 none"));
        }
        let mut union = Union {
            docs: declaration.docs.clone(),
            name: name.text.clone(),
            cases: Vec::new(),
            outside_bytes: 0,
            needs: Needs::default(),
        };
        for (ordinal, case) in self.sort_by_ordinal(cases, "case")? {
            let of = case.of.as_ref().map(|of| self.type_of(of)).transpose()?;
            if let Some(of) = &of {
                let layout = self.model.layout(of);
                if layout.bytes > MAX_RECORD_BYTES {
                    let message = format!("`{}` has {} bytes inline", case.name.text, layout.bytes);
                    return Err(Diagnostic::new(&case.name.span, message, "too large")
                        .hint("make the array a list: `[T; ..N]` is stored out of line"));
                }
                let bytes = round_up(layout.bytes, 8).saturating_add(layout.outside_bytes);
                union.outside_bytes = union.outside_bytes.max(bytes);
                union.needs = union.needs.and(self.model.needs(of));
            }
            union.cases.push(Case { docs: case.docs.clone(), ordinal, name: case.name.text.clone(), of });
        }
        self.model.unions.push(union);
        Ok(Type::Union(self.model.unions.len() - 1))
    }
}

/// Returns a record without fields.
pub(super) fn empty_record(docs: Vec<String>, name: String, origin: Origin, frozen: bool) -> Record {
    Record {
        docs,
        name,
        origin,
        frozen,
        fields: Vec::new(),
        bytes: 0,
        align: 8,
        outside_bytes: 0,
        has_default: true,
        needs: Needs::default(),
    }
}

/// Kinds of handles, by their keywords in the language.
const HANDLES: [(&str, HandleKind); 4] = [
    ("endpoint", HandleKind::Endpoint),
    ("region", HandleKind::Region),
    ("capability", HandleKind::Capability),
    ("buffer", HandleKind::Buffer),
];

fn handle(word: &str) -> Option<HandleKind> {
    HANDLES.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}
