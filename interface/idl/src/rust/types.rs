//! Enums, structs and unions.

use super::Text;
use super::names::{borrows, lower, value, variant as variant_name, view, view_borrows};
use crate::check::names::snake;
use crate::model::{Enum, Field, Model, Origin, Record, Type, Union, round_up};

pub(super) fn enumeration(text: &mut Text, of: &Enum) {
    text.line(0, "");
    text.docs(0, &of.docs, &format!("`{}`.", of.name));
    if of.open || of.flags {
        open(text, of);
    } else {
        closed(text, of);
    }
    let (name, repr) = (&of.name, of.repr.name());
    text.lines(
        0,
        &format!(
            "
impl rt::Encode for {name} {{
    const BYTES: u32 = {bytes};
    const ALIGN: u32 = {bytes};

    #[inline(always)]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {{
        self.number().put(place, at, out);
    }}
}}

impl rt::View<'_> for {name} {{
    const BYTES: u32 = {bytes};
    const ALIGN: u32 = {bytes};

    #[inline]
    fn view(record: rt::Record<'_>, at: u32) -> Result<Self, rt::Malformed> {{
        let number = {repr}::view(record, at)?;
        {name}::from_number(number).ok_or_else(|| record.unnamed(at, number))
    }}
}}",
            bytes = of.repr.bits / 8,
        ),
    );
}

fn closed(text: &mut Text, of: &Enum) {
    let (name, repr) = (&of.name, of.repr.name());
    text.lines(
        0,
        &format!("#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]\n#[repr({repr})]\npub enum {name} {{"),
    );
    for known in &of.values {
        text.docs(1, &known.docs, &format!("`{}`.", known.name));
        text.line(1, &format!("{} = {},", variant_name(&known.name), known.value));
    }
    let arms: String = of
        .values
        .iter()
        .map(|known| format!("            {} => {name}::{},\n", known.value, variant_name(&known.name)))
        .collect();
    text.lines(
        0,
        &format!(
            "}}

impl {name} {{
    /// Its number on the wire.
    #[inline]
    #[must_use]
    pub fn number(self) -> {repr} {{
        self as {repr}
    }}

    /// The value of that number.
    #[inline]
    #[must_use]
    pub fn from_number(number: {repr}) -> Option<Self> {{
        Some(match number {{
{arms}            _ => return None,
        }})
    }}
}}"
        ),
    );
}

/// An enum that may have values without a name, or flags.
fn open(text: &mut Text, of: &Enum) {
    let (name, repr) = (&of.name, of.repr.name());
    let what = if of.flags { "Its bits." } else { "Its number; it may be one without a name." };
    text.lines(
        0,
        &format!(
            "#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]\npub struct {name}(\n    /// {what}\n    \
             pub {repr},\n);\n\nimpl {name} {{"
        ),
    );
    for known in &of.values {
        text.docs(1, &known.docs, &format!("`{}`.", known.name));
        let constant = known.name.to_uppercase();
        text.line(1, &format!("pub const {constant}: {name} = {name}({});", known.value));
    }
    let all = of.values.iter().fold(0, |all, known| all | known.value);
    let accepted = if of.flags && !of.open {
        format!("if number & !{all:#x} == 0 {{ Some({name}(number)) }} else {{ None }}")
    } else {
        format!("Some({name}(number))")
    };
    let refused = if of.flags && !of.open {
        "The flags of that number; `None` if it has bits without a name."
    } else {
        "The value of that number."
    };
    text.lines(
        1,
        &format!(
            "
/// Its number on the wire.
#[inline]
#[must_use]
pub fn number(self) -> {repr} {{
    self.0
}}

/// {refused}
#[inline]
#[must_use]
pub fn from_number(number: {repr}) -> Option<Self> {{
    {accepted}
}}"
        ),
    );
    if of.flags {
        text.lines(
            1,
            "
/// Whether it has all of those.
#[must_use]
pub fn contains(self, others: Self) -> bool {
    self.0 & others.0 == others.0
}",
        );
    }
    text.line(0, "}");
    if of.flags {
        text.lines(
            0,
            &format!(
                "
impl core::ops::BitOr for {name} {{
    type Output = Self;

    fn bitor(self, other: Self) -> Self {{
        {name}(self.0 | other.0)
    }}
}}"
            ),
        );
    }
}

pub(super) fn record(text: &mut Text, model: &Model, record: &Record) {
    let words = snake(&record.name).replace('_', " ");
    let what = match record.origin {
        Origin::Struct => format!("`{}`.", record.name),
        Origin::Input => format!("What is sent: {words}."),
        Origin::Output => format!("What answers: {words}."),
        Origin::Error => format!("What declines: {words}."),
    };
    text.line(0, "");
    text.docs(0, &record.docs, &what);
    let borrowed = record.fields.iter().any(|field| borrows(model, &field.of));
    let life = if borrowed { "<'a>" } else { "" };
    text.line(0, "#[derive(Clone, Copy, PartialEq, Debug)]");
    if record.fields.is_empty() {
        text.line(0, &format!("pub struct {};", record.name));
    } else {
        text.line(0, &format!("pub struct {}{life} {{", record.name));
        for field in &record.fields {
            text.docs(1, &field.docs, &field_docs(field));
            text.line(1, &format!("pub {}: {},", lower(&field.name), value(model, &field.of, "'a")));
        }
        text.line(0, "}");
    }
    body(text, model, record, borrowed);
    if record.origin != Origin::Error {
        record_view(text, model, record);
    }
}

fn field_docs(field: &Field) -> String {
    let limit = match &field.of {
        Type::Text { max } | Type::Bytes { max } => format!(", up to {max} bytes"),
        Type::List { max, .. } => format!(", up to {max}"),
        _ => String::new(),
    };
    format!("`{}`{limit}.", field.name)
}

/// How it is sent.
fn body(text: &mut Text, model: &Model, record: &Record, borrowed: bool) {
    let name = format!("{}{}", record.name, if borrowed { "<'_>" } else { "" });
    let measured: Vec<String> =
        record.fields.iter().filter_map(|field| measure_field(model, record, field)).collect();
    let measured = if measured.is_empty() {
        "        Ok(0)".to_owned()
    } else {
        let sum: String = measured.iter().map(|part| format!("        bytes += {part}?;\n")).collect();
        format!("        let mut bytes = 0;\n{sum}        Ok(bytes)")
    };
    let put: String = record
        .fields
        .iter()
        .map(|field| {
            let at = if field.offset == 0 { "at".to_owned() } else { format!("at + {}", field.offset) };
            format!("        self.{}.put(place, {at}, out);\n", lower(&field.name))
        })
        .collect();
    let (place, at, out) = if put.is_empty() { ("_", "_", "_") } else { ("place", "at", "out") };
    text.lines(
        0,
        &format!(
            "
impl rt::Body for {name} {{
    #[inline(always)]
    fn record_bytes(&self) -> u32 {{
        {bytes}
    }}

    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {{
{measured}
    }}

    #[inline]
    fn fields<K: rt::Sink + ?Sized>(
        &self,
        {place}: &mut rt::encode::Place,
        {at}: u32,
        {out}: &mut rt::encode::Out<'_, K>,
    ) {{
{put}    }}
}}",
            bytes = record.bytes,
        ),
    );
    if record.origin == Origin::Struct {
        let (bytes, write) = if record.frozen {
            (record.bytes, "rt::Body::fields(self, place, at, out);")
        } else {
            (8, "rt::encode::put_record(self, place, at, out);")
        };
        text.lines(
            0,
            &format!(
                "
impl rt::Encode for {name} {{
    const BYTES: u32 = {bytes};
    const ALIGN: u32 = {align};

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {{
        {write}
    }}
}}",
                align = record.align,
            ),
        );
    }
}

fn measure_field(model: &Model, record: &Record, field: &Field) -> Option<String> {
    let name = format!("{}.{}", record.name, field.name);
    measure(model, &field.of, &format!("self.{}", lower(&field.name)), &name)
}

/// How long something is out of line; `None` if it never has anything there.
fn measure(model: &Model, of: &Type, place: &str, name: &str) -> Option<String> {
    let inner = |of: &Type| measure(model, of, "item", name);
    let reference = if place == "item" { place.to_owned() } else { format!("&{place}") };
    Some(match of {
        Type::Text { max } => format!("rt::encode::measure::bytes({place}.as_bytes(), {max}, {name:?})"),
        Type::Bytes { max } => format!("rt::encode::measure::bytes({place}, {max}, {name:?})"),
        Type::List { of, max } => {
            let each = model.layout(of).bytes;
            let outside = inner(of).map_or("|_| Ok(0)".to_owned(), |inside| closure(&inside));
            format!("rt::encode::measure::list({place}, {max}, {each}, {name:?}, {outside})")
        }
        Type::Array { of, .. } => {
            format!("rt::encode::measure::array({reference}, {})", closure(&inner(of)?))
        }
        Type::Optional(of) => {
            format!("rt::encode::measure::optional({place}.as_ref(), {})", closure(&inner(of)?))
        }
        Type::Record(index) if model.records[*index].frozen => {
            if model.records[*index].outside_bytes == 0 {
                return None;
            }
            format!("rt::Body::measure({reference})")
        }
        Type::Record(_) => format!("rt::encode::measure::record({reference})"),
        Type::Union(_) => format!("{place}.measure()"),
        _ => return None,
    })
}

/// What measures the elements of something.
fn closure(inside: &str) -> String {
    match inside.strip_suffix("(item)") {
        Some(function) if function.starts_with("rt::") => function.to_owned(),
        _ => format!("|item| {inside}"),
    }
}

/// How it is read.
fn record_view(text: &mut Text, model: &Model, record: &Record) {
    let name = &record.name;
    let derive = "#[derive(Clone, Copy, Debug)]";
    text.lines(
        0,
        &format!(
            "
/// [`{name}`] where it lies in a message.
{derive}
pub struct {name}View<'m> {{
    record: rt::Record<'m>,
}}

impl<'m> From<rt::Record<'m>> for {name}View<'m> {{
    #[inline]
    fn from(record: rt::Record<'m>) -> Self {{
        {name}View {{ record }}
    }}
}}"
        ),
    );
    if !record.fields.is_empty() {
        text.line(0, "");
        text.line(0, &format!("impl<'m> {name}View<'m> {{"));
        for (index, field) in record.fields.iter().enumerate() {
            if index > 0 {
                text.line(0, "");
            }
            text.docs(1, &field.docs, &field_docs(field));
            let of = view(model, &field.of, "'m");
            text.lines(
                1,
                &format!(
                    "///
/// # Errors
/// [`rt::Malformed`]: the peer wrote something that the interface does not have.
#[inline]
pub fn {}(&self) -> Result<{of}, rt::Malformed> {{
    rt::View::view(self.record, {})
}}",
                    lower(&field.name),
                    field.offset
                ),
            );
        }
        text.line(0, "}");
    }
    let (bytes, read) = if record.frozen {
        (record.bytes, format!("Ok(record.inline(at, {}).into())", record.bytes))
    } else {
        (8, "record.record(at).map(Self::from)".to_owned())
    };
    let spend = if record.frozen { "" } else { "        self.record.spend(budget)?;\n" };
    let checks: String = record.fields.iter().filter_map(check_field).collect();
    let budget = if spend.is_empty() && !checks.contains("budget") { "_" } else { "budget" };
    text.lines(
        0,
        &format!(
            "
impl<'m> rt::View<'m> for {name}View<'m> {{
    const BYTES: u32 = {bytes};
    const ALIGN: u32 = {align};

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {{
        {read}
    }}

    fn check(&self, {budget}: &mut rt::Budget) -> Result<(), rt::Malformed> {{
{spend}{checks}        Ok(())
    }}
}}",
            align = record.align,
        ),
    );
}

fn check_field(field: &Field) -> Option<String> {
    let name = lower(&field.name);
    match &field.of {
        Type::Int(_) | Type::Float { .. } | Type::Domain => None,
        Type::Bool | Type::Enum(_) | Type::Handle { .. } => Some(format!("        self.{name}()?;\n")),
        _ => Some(format!("        self.{name}()?.check(budget)?;\n")),
    }
}

pub(super) fn union(text: &mut Text, model: &Model, union: &Union) {
    let name = &union.name;
    let of = || union.cases.iter().filter_map(|case| case.of.as_ref());
    let (life, some_life) = if of().any(|of| borrows(model, of)) { ("<'a>", "<'_>") } else { ("", "") };
    text.line(0, "");
    text.docs(0, &union.docs, &format!("`{name}`."));
    text.line(0, "#[derive(Clone, Copy, PartialEq, Debug)]");
    text.line(0, &format!("pub enum {name}{life} {{"));
    for case in &union.cases {
        text.docs(1, &case.docs, &format!("`{}`.", case.name));
        let carries = case.of.as_ref().map_or(String::new(), |of| format!("({})", value(model, of, "'a")));
        text.line(1, &format!("{}{carries},", variant_name(&case.name)));
    }
    let (mut measures, mut puts) = (String::new(), String::new());
    for case in &union.cases {
        let variant = variant_name(&case.name);
        let Some(of) = &case.of else {
            measures.push_str(&format!("            {name}::{variant} => Ok(0),\n"));
            puts.push_str(&format!(
                "            {name}::{variant} => place.bits(out, at, {}),\n",
                case.ordinal
            ));
            continue;
        };
        let inline = round_up(model.layout(of).bytes, 8);
        let arm = match measure(model, of, "item", &format!("{name}.{}", case.name)) {
            Some(outside) => format!("{name}::{variant}(item) => Ok({inline} + {outside}?),"),
            None => format!("{name}::{variant}(_) => Ok({inline}),"),
        };
        measures.push_str(&format!("            {arm}\n"));
        puts.push_str(&format!(
            "            {name}::{variant}(item) => rt::encode::put_case({}, item, place, at, out),\n",
            case.ordinal
        ));
    }
    text.lines(
        0,
        &format!(
            "}}

impl {name}{some_life} {{
    #[inline]
    fn measure(&self) -> Result<usize, rt::OverLimit> {{
        match self {{
{measures}        }}
    }}
}}

impl rt::Encode for {name}{some_life} {{
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn put<K: rt::Sink + ?Sized>(&self, place: &mut rt::encode::Place, at: u32, out: &mut rt::encode::Out<'_, K>) {{
        match self {{
{puts}        }}
    }}
}}"
        ),
    );
    union_view(text, model, union);
}

fn union_view(text: &mut Text, model: &Model, union: &Union) {
    let name = &union.name;
    let of = || union.cases.iter().filter_map(|case| case.of.as_ref());
    let life = if of().any(|of| view_borrows(model, of)) { "<'m>" } else { "" };
    text.lines(
        0,
        &format!(
            "\n/// [`{name}`] where it lies in a message.\n#[derive(Clone, Copy, Debug)]\npub enum \
             {name}View{life} {{"
        ),
    );
    let (mut reads, mut checks) = (String::new(), String::new());
    for case in &union.cases {
        text.docs(1, &case.docs, &format!("`{}`.", case.name));
        let (variant, ordinal) = (variant_name(&case.name), case.ordinal);
        let carries = case.of.as_ref().map_or(String::new(), |of| format!("({})", view(model, of, "'m")));
        text.line(1, &format!("{variant}{carries},"));
        let bytes = case.of.as_ref().map_or(0, |of| round_up(model.layout(of).bytes, 8));
        let inside = format!("inside.exactly({bytes})?");
        if case.of.is_some() {
            let read = format!("{name}View::{variant}(rt::View::view({inside}, 0)?)");
            reads.push_str(&format!("            {ordinal} => {read},\n"));
            checks.push_str(&format!("            {name}View::{variant}(item) => {{\n"));
            checks.push_str(&format!("                budget.spend({bytes})?;\n"));
            checks.push_str("                item.check(budget)\n            }\n");
        } else {
            reads
                .push_str(&format!("            {ordinal} => {inside}.stands_for({name}View::{variant}),\n"));
            checks.push_str(&format!("            {name}View::{variant} => Ok(()),\n"));
        }
    }
    let budget = if of().next().is_some() { "budget" } else { "_" };
    text.lines(
        0,
        &format!(
            "    /// A case that this side does not know: the peer is newer.
    Unknown(u32),
}}

impl<'m> rt::View<'m> for {name}View{life} {{
    const BYTES: u32 = 16;
    const ALIGN: u32 = 8;

    #[inline]
    fn view(record: rt::Record<'m>, at: u32) -> Result<Self, rt::Malformed> {{
        let (ordinal, inside) = record.case(at)?;
        Ok(match ordinal {{
{reads}            other => {name}View::Unknown(other),
        }})
    }}

    fn check(&self, {budget}: &mut rt::Budget) -> Result<(), rt::Malformed> {{
        match self {{
{checks}            {name}View::Unknown(_) => Ok(()),
        }}
    }}
}}"
        ),
    );
}
