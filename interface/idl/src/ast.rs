//! Syntax tree of an interface file: names are not resolved yet.

use crate::diagnostic::Span;

/// Identifier with its position in the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// Number literal, or the name of a constant.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    Literal(i128, Span),
    Constant(Name),
}

/// Type expression, not resolved yet.
#[derive(Clone, Debug)]
pub(crate) struct TypeExpr {
    pub(crate) kind: TypeKind,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeKind {
    Named(Name),
    /// `string<N>`, `bytes<N>`, `buffer<N>`
    Sized(Name, Number),
    /// `[T; N]`
    Array(Box<TypeExpr>, Number),
    /// `[T; ..N]`
    List(Box<TypeExpr>, Number),
    Optional(Box<TypeExpr>),
    /// `copy region`, `move endpoint`
    Handle {
        moved: bool,
        name: Name,
    },
}

/// Field, parameter, or case of a union. Only a case may lack a type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) docs: Vec<String>,
    /// `None` for parameters, which are ordered by position.
    pub(crate) ordinal: Option<(i128, Span)>,
    pub(crate) name: Name,
    pub(crate) of: Option<TypeExpr>,
}

/// `name = number`
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) docs: Vec<String>,
    pub(crate) name: Name,
    pub(crate) number: Number,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageKind {
    Call,
    Message,
    Event,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) docs: Vec<String>,
    pub(crate) ordinal: (i128, Span),
    pub(crate) idempotent: Option<Span>,
    pub(crate) kind: MessageKind,
    pub(crate) name: Name,
    pub(crate) input: Vec<Field>,
    pub(crate) output: Vec<Field>,
    pub(crate) error: Option<TypeExpr>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Const(Number),
    Alias(TypeExpr),
    Enum { flags: bool, open: bool, repr: Name, values: Vec<Value> },
    Struct { frozen: bool, fields: Vec<Field> },
    Union { cases: Vec<Field> },
    Interface { version: (i128, Span), messages: Vec<Message> },
}

#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) docs: Vec<String>,
    pub(crate) name: Name,
    pub(crate) body: Body,
    /// Stem of the included file that declares it; `None` for the compiled file itself.
    pub(crate) module: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) docs: Vec<String>,
    pub(crate) package: Option<Name>,
    /// Paths of the included files, relative to the folder of this file.
    pub(crate) uses: Vec<Name>,
    pub(crate) declarations: Vec<Declaration>,
}
