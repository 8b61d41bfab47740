//! Parser: turns tokens into a syntax tree. After a mistake it resumes at the next declaration, so that one
//! run finds most mistakes.

use crate::ast::{
    Body, Declaration, Field, File, Message, MessageKind, Name, Number, TypeExpr, TypeKind, Value,
};
use crate::diagnostic::{Diagnostic, Span};
use crate::lexer::{self, Kind, Token};
use crate::suggest;

/// Maximum nesting depth of a type expression.
const MAX_DEPTH: u32 = 16;

/// Keywords, which cannot be names of declarations. Fields and messages may have them as names.
pub(crate) const KEYWORDS: [&str; 18] = [
    "package",
    "use",
    "const",
    "type",
    "enum",
    "flags",
    "struct",
    "union",
    "interface",
    "open",
    "frozen",
    "version",
    "call",
    "message",
    "event",
    "idempotent",
    "copy",
    "move",
];

/// Keywords that start a declaration.
const DECLARATION_KEYWORDS: [&str; 9] =
    ["const", "type", "enum", "flags", "struct", "union", "interface", "open", "frozen"];

type ParseResult<T> = Result<T, Diagnostic>;

/// Parses a file. Returns its syntax tree, or all mistakes found.
pub(crate) fn parse(text: &str) -> Result<File, Vec<Diagnostic>> {
    parse_at(text, 0)
}

/// Like [`parse`], for a text that starts at offset `base` in the concatenation of all sources.
pub(crate) fn parse_at(text: &str, base: usize) -> Result<File, Vec<Diagnostic>> {
    let tokens = lexer::tokens(text).map_err(|mistake| vec![mistake.shift_spans(base)])?;
    let tokens = tokens.into_iter().filter(|token| token.kind != Kind::Comment);
    let tokens = tokens.map(|token| Token { start: token.start + base, ..token }).collect();
    let mut parser = Parser { tokens, at: 0 };
    let mut file = File::default();
    let mut mistakes = Vec::new();
    if let Err(mistake) = parser.parse_package(&mut file) {
        mistakes.push(mistake);
        parser.recover();
    }
    while parser.is("use") {
        match parser.parse_include() {
            Ok(path) => file.uses.push(path),
            Err(mistake) => {
                mistakes.push(mistake);
                parser.recover();
            }
        }
    }
    while parser.peek().kind != Kind::End {
        match parser.parse_declaration() {
            Ok(declaration) => file.declarations.push(declaration),
            Err(mistake) => {
                mistakes.push(mistake);
                parser.recover();
            }
        }
    }
    if mistakes.is_empty() { Ok(file) } else { Err(mistakes) }
}

struct Parser<'a> {
    /// Tokens without comments; the last one is [`Kind::End`].
    tokens: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Token<'a> {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn is(&self, text: &str) -> bool {
        self.peek().text == text && matches!(self.peek().kind, Kind::Punctuation | Kind::Word)
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.is(text);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, text: &str, after: &str) -> ParseResult<Span> {
        let token = self.peek();
        if self.accept(text) {
            return Ok(token.span());
        }
        let hint = format!("{after} is followed by `{text}`");
        Err(unexpected(token, &format!("`{text}`")).hint(hint))
    }

    /// Skips to what looks like the start of the next declaration.
    fn recover(&mut self) {
        loop {
            let token = self.peek();
            let docs = token.kind == Kind::Doc;
            let starts_one = token.kind == Kind::Word && DECLARATION_KEYWORDS.contains(&token.text);
            let closed = self.at > 0 && ["}", ";"].contains(&self.tokens[self.at - 1].text);
            if token.kind == Kind::End || (closed && (starts_one || docs) && self.is_at_declaration()) {
                return;
            }
            self.at += 1;
        }
    }

    /// Returns whether a declaration starts here, after its documentation.
    fn is_at_declaration(&self) -> bool {
        let after = (0..).map(|ahead| self.peek_at(ahead)).find(|token| token.kind != Kind::Doc);
        after.is_some_and(|token| DECLARATION_KEYWORDS.contains(&token.text))
    }

    fn parse_docs(&mut self) -> Vec<String> {
        let mut docs = Vec::new();
        while self.peek().kind == Kind::Doc {
            let line = &self.next().text[3..];
            docs.push(line.strip_prefix(' ').unwrap_or(line).to_owned());
        }
        docs
    }

    fn parse_package(&mut self, file: &mut File) -> ParseResult<()> {
        let ahead = (0..).find(|ahead| self.peek_at(*ahead).kind != Kind::Doc).unwrap_or(0);
        if self.peek_at(ahead).text != "package" {
            return Ok(());
        }
        file.docs = self.parse_docs();
        self.at += 1;
        let mut name = self.parse_name("the package")?;
        while self.accept(".") {
            let part = self.parse_name("the package")?;
            name.text = format!("{}.{}", name.text, part.text);
            name.span.end = part.span.end;
        }
        self.expect(";", "the name of the package")?;
        file.package = Some(name);
        Ok(())
    }

    /// Parses `use "path";`.
    fn parse_include(&mut self) -> ParseResult<Name> {
        self.at += 1;
        let token = self.next();
        if token.kind != Kind::Path {
            let hint = "name the file from the folder of this one, as in `use \"common.tbl\";`";
            return Err(unexpected(token, "a path").hint(hint));
        }
        self.expect(";", "the path of a file")?;
        Ok(Name { text: token.text.trim_matches('"').to_owned(), span: token.span() })
    }

    fn parse_declaration(&mut self) -> ParseResult<Declaration> {
        let docs = self.parse_docs();
        let open = self.accept("open");
        let frozen = !open && self.accept("frozen");
        let token = self.next();
        let wrong_mark = |mark: &str, allowed: &str| {
            Diagnostic::new(
                &token.span(),
                format!("`{}` cannot be {mark}", token.text),
                format!("not {allowed}"),
            )
            .hint(format!("`{mark}` precedes {allowed}"))
        };
        if open && !["enum", "flags"].contains(&token.text) {
            return Err(wrong_mark("open", "an enum or flags"));
        }
        if frozen && token.text != "struct" {
            return Err(wrong_mark("frozen", "a struct"));
        }
        let (name, body) = match token.text {
            "const" => {
                let name = self.parse_declared_name("a constant")?;
                self.expect("=", "the name of a constant")?;
                let number = self.parse_number()?;
                self.expect(";", "the value of a constant")?;
                (name, Body::Const(number))
            }
            "type" => {
                let name = self.parse_declared_name("a type")?;
                self.expect("=", "the name of a type")?;
                let of = self.parse_type(0)?;
                self.expect(";", "a type's definition")?;
                (name, Body::Alias(of))
            }
            "enum" | "flags" => {
                let name =
                    self.parse_declared_name(if token.text == "enum" { "an enum" } else { "flags" })?;
                self.expect(":", "its name")
                    .map_err(|mistake| mistake.hint("give its integer type, as in `enum Colour : u8`"))?;
                let repr = self.parse_name("an integer type")?;
                let values = self.parse_braced(Parser::parse_value)?;
                (name, Body::Enum { flags: token.text == "flags", open, repr, values })
            }
            "struct" => (
                self.parse_declared_name("a struct")?,
                Body::Struct { frozen, fields: self.parse_braced(Parser::parse_field)? },
            ),
            "union" => (
                self.parse_declared_name("a union")?,
                Body::Union { cases: self.parse_braced(Parser::parse_case)? },
            ),
            "interface" => {
                let name = self.parse_declared_name("an interface")?;
                self.expect("version", "the name of an interface")
                    .map_err(|mistake| mistake.hint("give it a version, as in `interface Kv version 1 {`"))?;
                let version = self.parse_literal()?;
                (name, Body::Interface { version, messages: self.parse_messages()? })
            }
            "use" => {
                return Err(unexpected(token, "a declaration")
                    .hint("files are included before everything else but the package: move it there"));
            }
            _ => {
                let hint = "a declaration starts with const, type, enum, flags, struct, union or interface";
                return Err(unexpected_keyword(token, "a declaration", DECLARATION_KEYWORDS, hint));
            }
        };
        Ok(Declaration { docs, name, body, module: None })
    }

    /// Parses `{ item, item, }`.
    fn parse_braced<T>(&mut self, item: fn(&mut Self) -> ParseResult<T>) -> ParseResult<Vec<T>> {
        self.expect("{", "the name")?;
        let mut items = Vec::new();
        loop {
            if self.accept("}") {
                return Ok(items);
            }
            items.push(item(self)?);
            if !self.accept(",") && !self.is("}") {
                let hint = "fields and values are separated by commas";
                return Err(unexpected(self.peek(), "`,` or `}`").hint(hint));
            }
        }
    }

    fn parse_value(&mut self) -> ParseResult<Value> {
        let docs = self.parse_docs();
        let name = self.parse_name("a value")?;
        self.expect("=", "the name of a value")
            .map_err(|mistake| mistake.hint("values are explicit, as in `red = 0`"))?;
        Ok(Value { docs, name, number: self.parse_number()? })
    }

    fn parse_ordinal(&mut self, what: &str) -> ParseResult<(i128, Span)> {
        if !self.is("@") {
            let hint = format!("each {what} starts with its ordinal, as in `@1`");
            return Err(unexpected(self.peek(), "an ordinal").hint(hint));
        }
        self.at += 1;
        self.parse_literal()
    }

    fn parse_field(&mut self) -> ParseResult<Field> {
        let docs = self.parse_docs();
        let ordinal = Some(self.parse_ordinal("field")?);
        let name = self.parse_name("a field")?;
        self.expect(":", "the name of a field")?;
        Ok(Field { docs, ordinal, name, of: Some(self.parse_type(0)?) })
    }

    fn parse_case(&mut self) -> ParseResult<Field> {
        let docs = self.parse_docs();
        let ordinal = Some(self.parse_ordinal("case")?);
        let name = self.parse_name("a case")?;
        let of = if self.accept(":") { Some(self.parse_type(0)?) } else { None };
        Ok(Field { docs, ordinal, name, of })
    }

    fn parse_messages(&mut self) -> ParseResult<Vec<Message>> {
        self.expect("{", "the version of an interface")?;
        let mut messages = Vec::new();
        while !self.accept("}") {
            messages.push(self.parse_message()?);
        }
        Ok(messages)
    }

    fn parse_message(&mut self) -> ParseResult<Message> {
        let docs = self.parse_docs();
        let ordinal = self.parse_ordinal("message")?;
        let mark = self.peek().span();
        let idempotent = self.accept("idempotent").then_some(mark);
        let token = self.next();
        let kind = match token.text {
            "call" => MessageKind::Call,
            "message" => MessageKind::Message,
            "event" => MessageKind::Event,
            _ => {
                let hint = "`call` has a reply; `message` goes to the server and `event` to the client";
                let kinds = ["call", "message", "event", "idempotent"];
                return Err(unexpected_keyword(token, "`call`, `message` or `event`", kinds, hint));
            }
        };
        let name = self.parse_name("a message")?;
        let input = self.parse_parameters()?;
        let output = if self.accept("->") { self.parse_parameters()? } else { Vec::new() };
        let error = if self.accept("error") { Some(self.parse_type(0)?) } else { None };
        self.expect(";", "a message")?;
        if kind != MessageKind::Call {
            let wrong = if error.is_some() { "an error" } else { "results" };
            if error.is_some() || !output.is_empty() {
                let span = name.span.clone();
                let message = format!("`{}` is one-way, but has {wrong}", name.text);
                return Err(Diagnostic::new(&span, message, "it has no reply").hint("make it a `call`"));
            }
            if let Some(span) = &idempotent {
                return Err(Diagnostic::new(span, "only calls are idempotent", "not a call")
                    .hint("a one-way message is never repeated: remove `idempotent`"));
            }
        }
        Ok(Message { docs, ordinal, idempotent, kind, name, input, output, error })
    }

    fn parse_parameters(&mut self) -> ParseResult<Vec<Field>> {
        self.expect("(", "a name or `->`")?;
        let mut parameters = Vec::new();
        loop {
            if self.accept(")") {
                return Ok(parameters);
            }
            let docs = self.parse_docs();
            let name = self.parse_name("a parameter")?;
            self.expect(":", "the name of a parameter")?;
            parameters.push(Field { docs, ordinal: None, name, of: Some(self.parse_type(0)?) });
            if !self.accept(",") && !self.is(")") {
                let hint = "parameters are separated by commas";
                return Err(unexpected(self.peek(), "`,` or `)`").hint(hint));
            }
        }
    }

    fn parse_type(&mut self, depth: u32) -> ParseResult<TypeExpr> {
        let start = self.peek();
        if depth > MAX_DEPTH {
            return Err(Diagnostic::new(&start.span(), "types are nested too deeply", "here")
                .hint(format!("at most {MAX_DEPTH} can be nested: name some with `type`")));
        }
        let kind = if self.accept("[") {
            let of = Box::new(self.parse_type(depth + 1)?);
            self.expect(";", "the type of the elements")
                .map_err(|mistake| mistake.hint("write `[T; 4]` for four of T, `[T; ..4]` for up to four"))?;
            let list = self.accept("..");
            let number = self.parse_number()?;
            self.expect("]", "the number of elements")?;
            if list { TypeKind::List(of, number) } else { TypeKind::Array(of, number) }
        } else if self.is("copy") || self.is("move") {
            let moved = self.next().text == "move";
            TypeKind::Handle { moved, name: self.parse_name("a capability type")? }
        } else {
            let name = self.parse_name("a type")?;
            // Only `copy` and `move` are followed by a word, so the name is probably one of them misspelt.
            if self.peek().kind == Kind::Word
                && let Some(hint) = suggest::hint(&name.text, ["copy", "move"])
            {
                return Err(unexpected(start, "a type").hint(hint));
            }
            if self.accept("<") {
                let number = self.parse_number()?;
                self.expect(">", "a size")?;
                TypeKind::Sized(name, number)
            } else {
                TypeKind::Named(name)
            }
        };
        let mut of = TypeExpr { kind, span: start.start..self.end() };
        if self.accept("?") {
            of = TypeExpr { kind: TypeKind::Optional(Box::new(of)), span: start.start..self.end() };
        }
        if self.is("?") {
            return Err(Diagnostic::new(&self.peek().span(), "optional twice", "one `?` too many")
                .hint("a value is either present or absent: remove one"));
        }
        Ok(of)
    }

    /// Returns the offset of the end of the previous token.
    fn end(&self) -> usize {
        self.tokens[self.at.saturating_sub(1).min(self.tokens.len() - 1)].span().end
    }

    fn parse_name(&mut self, what: &str) -> ParseResult<Name> {
        let token = self.next();
        if token.kind != Kind::Word {
            return Err(unexpected(token, &format!("the name of {what}")));
        }
        Ok(Name { text: token.text.to_owned(), span: token.span() })
    }

    /// Parses the name of a declaration, which must not be a keyword.
    fn parse_declared_name(&mut self, what: &str) -> ParseResult<Name> {
        let name = self.parse_name(what)?;
        if KEYWORDS.contains(&&*name.text) {
            let message = format!("`{}` is a keyword", name.text);
            return Err(Diagnostic::new(&name.span, message, format!("expected the name of {what}"))
                .hint(format!("choose another name, such as `{}_`", name.text)));
        }
        Ok(name)
    }

    fn parse_number(&mut self) -> ParseResult<Number> {
        if self.peek().kind == Kind::Word {
            return Ok(Number::Constant(self.parse_name("a constant")?));
        }
        let (value, span) = self.parse_literal()?;
        Ok(Number::Literal(value, span))
    }

    fn parse_literal(&mut self) -> ParseResult<(i128, Span)> {
        let token = self.next();
        if token.kind != Kind::Number {
            return Err(unexpected(token, "a number"));
        }
        let digits = token.text.replace('_', "");
        let (negative, digits) = digits.strip_prefix('-').map_or((false, &*digits), |rest| (true, rest));
        let value = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => digits.parse::<u64>(),
        };
        let value = value.map_err(|_| {
            Diagnostic::new(&token.span(), format!("`{}` is not a number", token.text), "here")
                .hint("numbers are decimal, or hexadecimal after `0x`, and have up to 64 bits")
        })?;
        let value = i128::from(value);
        Ok((if negative { -value } else { value }, token.span()))
    }
}

fn unexpected(token: Token<'_>, expected: &str) -> Diagnostic {
    let found = match token.kind {
        Kind::End => "the file ends".to_owned(),
        Kind::Doc => "found a documentation comment".to_owned(),
        _ => format!("found `{}`", token.text),
    };
    let mistake = Diagnostic::new(&token.span(), format!("expected {expected}, {found}"), "here");
    match token.kind {
        Kind::End => mistake.hint("a `}` or `;` may be missing above"),
        Kind::Path => mistake.hint("the language has no string literals; paths follow `use`"),
        Kind::Doc => mistake.hint("`///` precedes what it documents; elsewhere use `//`"),
        _ => mistake.hint(format!("write {expected} here")),
    }
}

/// Like [`unexpected`], at a place where only a few keywords are valid: suggests the closest of `known`, or
/// falls back to `hint`.
fn unexpected_keyword<const N: usize>(
    token: Token<'_>,
    expected: &str,
    known: [&'static str; N],
    hint: &str,
) -> Diagnostic {
    let meant = if token.kind == Kind::Word { suggest::hint(token.text, known) } else { None };
    unexpected(token, expected).hint(meant.unwrap_or_else(|| hint.to_owned()))
}
