//! Compatibility check: whether peers built from an old version of an interface work with a new one.

use crate::model::{Case, Enum, Field, Interface, Message, MessageKind, Model, Record, Type, Union};

/// A difference between two versions of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Path of what changed, such as `Kv.get.key`.
    pub place: String,
    /// Description of the change.
    pub what: String,
    /// Effect on peers built from the old version.
    pub verdict: Verdict,
}

/// Effect of a change on peers built from the old version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// Older peers continue to work.
    Compatible,
    /// Older peers do not work, but the version number is larger, so they are refused on connect.
    Versioned,
    /// Older peers would misinterpret messages.
    Breaking,
}

/// Returns the changes from `old` to `new`, in the order of `old`; new interfaces come last.
#[must_use]
pub fn compare(old: &Model, new: &Model) -> Vec<Change> {
    let mut comparison = Comparison { old, new, changes: Vec::new(), compared: Vec::new() };
    if old.package != new.package {
        let what = format!("the package was `{}` and is `{}`", old.package, new.package);
        comparison.note("package", what, Verdict::Breaking);
    }
    for before in &old.interfaces {
        match new.interfaces.iter().find(|now| now.name == before.name) {
            Some(now) => comparison.interface(before, now),
            None => comparison.note(&before.name, "the interface is gone".into(), Verdict::Breaking),
        }
    }
    for now in &new.interfaces {
        if !old.interfaces.iter().any(|before| before.name == now.name) {
            comparison.note(&now.name, "the interface is new".into(), Verdict::Compatible);
        }
    }
    comparison.changes
}

/// Returns the worst verdict among `changes`; without changes, [`Verdict::Compatible`].
#[must_use]
pub fn verdict(changes: &[Change]) -> Verdict {
    changes.iter().map(|change| change.verdict).max().unwrap_or(Verdict::Compatible)
}

struct Comparison<'a> {
    old: &'a Model,
    new: &'a Model,
    changes: Vec<Change>,
    /// Pairs of types already compared in this interface, so that each difference is reported once.
    compared: Vec<(Type, Type)>,
}

impl<'a> Comparison<'a> {
    fn note(&mut self, place: &str, what: String, verdict: Verdict) {
        self.changes.push(Change { place: place.to_owned(), what, verdict });
    }

    fn breaking(&mut self, place: &str, what: impl Into<String>) {
        self.note(place, what.into(), Verdict::Breaking);
    }

    fn interface(&mut self, before: &'a Interface, now: &'a Interface) {
        let first = self.changes.len();
        self.compared.clear();
        if now.version < before.version {
            self.breaking(&before.name, format!("version {} became {}", before.version, now.version));
        }
        for message in &before.messages {
            let place = format!("{}.{}", before.name, message.name);
            match now.messages.iter().find(|other| other.ordinal == message.ordinal) {
                Some(other) => self.message(&place, message, other),
                None => self.breaking(&place, format!("ordinal {} is gone", message.ordinal)),
            }
        }
        for message in &now.messages {
            if !before.messages.iter().any(|other| other.ordinal == message.ordinal) {
                let place = format!("{}.{}", now.name, message.name);
                self.note(&place, "is new: peers of before do not know it".into(), Verdict::Compatible);
            }
        }
        if now.needs != before.needs {
            let what = "needs a link that carries other things than before".to_owned();
            self.breaking(&now.name, what);
        }
        if now.version > before.version {
            for change in &mut self.changes[first..] {
                change.verdict = change.verdict.min(Verdict::Versioned);
            }
            let what = format!("version {} became {}", before.version, now.version);
            self.note(&now.name, what, Verdict::Versioned);
        }
    }

    fn message(&mut self, place: &str, before: &'a Message, now: &'a Message) {
        if before.name != now.name {
            let what = format!("is called `{}` now: the same on the wire, other in programs", now.name);
            self.note(place, what, Verdict::Compatible);
        }
        match (&before.kind, &now.kind) {
            (MessageKind::Message, MessageKind::Message) | (MessageKind::Event, MessageKind::Event) => {}
            (
                MessageKind::Call { idempotent, output, error },
                MessageKind::Call { idempotent: still, output: results, error: errors },
            ) => {
                if *idempotent && !still {
                    self.breaking(place, "is not idempotent any more: clients may still repeat it");
                }
                self.record(place, &self.old.records[*output], &self.new.records[*results]);
                match (error, errors) {
                    (None, None) => {}
                    (Some(error), Some(errors)) => {
                        self.record(place, &self.old.records[*error], &self.new.records[*errors]);
                    }
                    (None, Some(_)) => self.breaking(place, "can fail now: clients expect no error"),
                    (Some(_), None) => {
                        self.note(place, "cannot fail any more".into(), Verdict::Compatible);
                    }
                }
            }
            _ => self.breaking(place, "is another kind of message"),
        }
        self.record(place, &self.old.records[before.input], &self.new.records[now.input]);
    }

    fn record(&mut self, place: &str, before: &'a Record, now: &'a Record) {
        if before.frozen != now.frozen {
            self.breaking(place, "is frozen now and was not, or the other way round");
            return;
        }
        for (field, other) in before.fields.iter().zip(&now.fields) {
            let place = format!("{place}.{}", field.name);
            if field.name != other.name {
                let what = format!("is called `{}` now: the same on the wire, other in programs", other.name);
                self.note(&place, what, Verdict::Compatible);
            }
            self.of(&place, &field.of, &other.of);
        }
        for field in before.fields.iter().skip(now.fields.len()) {
            self.breaking(&format!("{place}.{}", field.name), "is gone");
        }
        for field in now.fields.iter().skip(before.fields.len()) {
            self.added(place, before, field);
        }
    }

    fn added(&mut self, place: &str, record: &Record, field: &Field) {
        let place = format!("{place}.{}", field.name);
        if record.frozen {
            self.breaking(&place, "is new in a frozen struct, whose size is fixed");
        } else if self.new.has_default(&field.of) {
            let what = "is new: peers of before do not send it, and it reads as absent, zero or empty";
            self.note(&place, what.into(), Verdict::Compatible);
        } else {
            self.breaking(&place, "is new and has no default: make it optional");
        }
    }

    fn of(&mut self, place: &str, before: &Type, now: &Type) {
        let pair = (before.clone(), now.clone());
        if self.compared.contains(&pair) {
            return;
        }
        self.compared.push(pair);
        match (before, now) {
            (Type::Text { max }, Type::Text { max: limit })
            | (Type::Bytes { max }, Type::Bytes { max: limit }) => self.limit(place, *max, *limit),
            (Type::List { of, max }, Type::List { of: other, max: limit }) => {
                self.limit(place, *max, *limit);
                self.of(place, of, other);
            }
            (Type::Array { of, count }, Type::Array { of: other, count: number }) => {
                if count != number {
                    self.breaking(place, format!("had {count} elements and has {number}"));
                }
                self.of(place, of, other);
            }
            (Type::Optional(of), Type::Optional(other)) => self.of(place, of, other),
            (Type::Enum(before), Type::Enum(now)) => {
                self.enumeration(place, &self.old.enums[*before], &self.new.enums[*now]);
            }
            (Type::Record(before), Type::Record(now)) => {
                self.record(place, &self.old.records[*before], &self.new.records[*now]);
            }
            (Type::Union(before), Type::Union(now)) => {
                self.union(place, &self.old.unions[*before], &self.new.unions[*now]);
            }
            (before, now) if before == now => {}
            _ => self.breaking(place, "has another type"),
        }
    }

    fn limit(&mut self, place: &str, before: u32, now: u32) {
        if before != now {
            let what =
                format!("its maximum was {before} and is {now}: one side refuses what the other sends");
            self.breaking(place, what);
        }
    }

    fn enumeration(&mut self, place: &str, before: &Enum, now: &Enum) {
        if before.repr != now.repr || before.flags != now.flags {
            self.breaking(place, "is stored in another way");
        }
        if before.open && !now.open {
            self.breaking(place, "is not open any more: values of before may be refused");
        }
        for value in &before.values {
            if !now.values.iter().any(|other| other.value == value.value) {
                self.breaking(place, format!("`{}` is gone", value.name));
            }
        }
        for value in &now.values {
            if before.values.iter().any(|other| other.value == value.value) {
                continue;
            }
            if before.open {
                self.note(place, format!("`{}` is new", value.name), Verdict::Compatible);
            } else {
                let what = format!("`{}` is new and the type is not open: peers refuse it", value.name);
                self.breaking(place, what);
            }
        }
    }

    fn union(&mut self, place: &str, before: &'a Union, now: &'a Union) {
        for case in &before.cases {
            let inner = format!("{place}.{}", case.name);
            match now.cases.iter().find(|other| other.ordinal == case.ordinal) {
                None => self.breaking(&inner, "is gone"),
                Some(Case { of: other, .. }) => match (&case.of, other) {
                    (Some(of), Some(other)) => self.of(&inner, of, other),
                    (None, None) => {}
                    _ => self.breaking(&inner, "carries something other than before"),
                },
            }
        }
        for case in now.cases.iter().skip(before.cases.len()) {
            let what = "is new: peers of before see a case that they do not know";
            self.note(&format!("{place}.{}", case.name), what.into(), Verdict::Compatible);
        }
    }
}
