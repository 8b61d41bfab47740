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
        comparison.record_change("package", what, Verdict::Breaking);
    }
    for before in &old.interfaces {
        match new.interfaces.iter().find(|now| now.name == before.name) {
            Some(now) => comparison.compare_interface(before, now),
            None => {
                comparison.record_change(&before.name, "the interface was removed".into(), Verdict::Breaking);
            }
        }
    }
    for now in &new.interfaces {
        if !old.interfaces.iter().any(|before| before.name == now.name) {
            comparison.record_change(&now.name, "the interface is new".into(), Verdict::Compatible);
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
    fn record_change(&mut self, place: &str, what: String, verdict: Verdict) {
        self.changes.push(Change { place: place.to_owned(), what, verdict });
    }

    fn record_breaking(&mut self, place: &str, what: impl Into<String>) {
        self.record_change(place, what.into(), Verdict::Breaking);
    }

    fn compare_interface(&mut self, before: &'a Interface, now: &'a Interface) {
        let first = self.changes.len();
        self.compared.clear();
        if now.version < before.version {
            self.record_breaking(&before.name, format!("version {} became {}", before.version, now.version));
        }
        for message in &before.messages {
            let place = format!("{}.{}", before.name, message.name);
            match now.messages.iter().find(|other| other.ordinal == message.ordinal) {
                Some(other) => self.compare_message(&place, message, other),
                None => self.record_breaking(&place, format!("ordinal {} was removed", message.ordinal)),
            }
        }
        for message in &now.messages {
            if !before.messages.iter().any(|other| other.ordinal == message.ordinal) {
                let place = format!("{}.{}", now.name, message.name);
                self.record_change(&place, "is new: older peers do not know it".into(), Verdict::Compatible);
            }
        }
        if now.needs != before.needs {
            let what = "has other requirements on the link than before".to_owned();
            self.record_breaking(&now.name, what);
        }
        if now.version > before.version {
            for change in &mut self.changes[first..] {
                change.verdict = change.verdict.min(Verdict::Versioned);
            }
            let what = format!("version {} became {}", before.version, now.version);
            self.record_change(&now.name, what, Verdict::Versioned);
        }
    }

    fn compare_message(&mut self, place: &str, before: &'a Message, now: &'a Message) {
        if before.name != now.name {
            let what = format!("is now called `{}`: unchanged on the wire, different in programs", now.name);
            self.record_change(place, what, Verdict::Compatible);
        }
        match (&before.kind, &now.kind) {
            (MessageKind::Message, MessageKind::Message) | (MessageKind::Event, MessageKind::Event) => {}
            (
                MessageKind::Call { idempotent, output, error },
                MessageKind::Call { idempotent: still, output: results, error: errors },
            ) => {
                if *idempotent && !still {
                    self.record_breaking(place, "is no longer idempotent: clients may still repeat it");
                }
                self.compare_record(place, &self.old.records[*output], &self.new.records[*results]);
                match (error, errors) {
                    (None, None) => {}
                    (Some(error), Some(errors)) => {
                        self.compare_record(place, &self.old.records[*error], &self.new.records[*errors]);
                    }
                    (None, Some(_)) => self.record_breaking(place, "can now fail: clients expect no error"),
                    (Some(_), None) => {
                        self.record_change(place, "can no longer fail".into(), Verdict::Compatible);
                    }
                }
            }
            _ => self.record_breaking(place, "is another kind of message"),
        }
        self.compare_record(place, &self.old.records[before.input], &self.new.records[now.input]);
    }

    fn compare_record(&mut self, place: &str, before: &'a Record, now: &'a Record) {
        if before.frozen != now.frozen {
            self.record_breaking(place, "was made frozen, or is no longer frozen");
            return;
        }
        for (field, other) in before.fields.iter().zip(&now.fields) {
            let place = format!("{place}.{}", field.name);
            if field.name != other.name {
                let what =
                    format!("is now called `{}`: unchanged on the wire, different in programs", other.name);
                self.record_change(&place, what, Verdict::Compatible);
            }
            self.compare_types(&place, &field.of, &other.of);
        }
        for field in before.fields.iter().skip(now.fields.len()) {
            self.record_breaking(&format!("{place}.{}", field.name), "was removed");
        }
        for field in now.fields.iter().skip(before.fields.len()) {
            self.check_added_field(place, before, field);
        }
    }

    fn check_added_field(&mut self, place: &str, record: &Record, field: &Field) {
        let place = format!("{place}.{}", field.name);
        if record.frozen {
            self.record_breaking(&place, "is new in a frozen struct, whose size is fixed");
        } else if self.new.has_default(&field.of) {
            let what = "is new: older peers do not send it, so it is absent, zero or empty";
            self.record_change(&place, what.into(), Verdict::Compatible);
        } else {
            self.record_breaking(&place, "is new and has no default: make it optional");
        }
    }

    fn compare_types(&mut self, place: &str, before: &Type, now: &Type) {
        let pair = (before.clone(), now.clone());
        if self.compared.contains(&pair) {
            return;
        }
        self.compared.push(pair);
        match (before, now) {
            (Type::Text { max }, Type::Text { max: limit })
            | (Type::Bytes { max }, Type::Bytes { max: limit }) => self.compare_limit(place, *max, *limit),
            (Type::List { of, max }, Type::List { of: other, max: limit }) => {
                self.compare_limit(place, *max, *limit);
                self.compare_types(place, of, other);
            }
            (Type::Array { of, count }, Type::Array { of: other, count: number }) => {
                if count != number {
                    self.record_breaking(place, format!("had {count} elements and has {number}"));
                }
                self.compare_types(place, of, other);
            }
            (Type::Optional(of), Type::Optional(other)) => self.compare_types(place, of, other),
            (Type::Enum(before), Type::Enum(now)) => {
                self.compare_enumeration(place, &self.old.enums[*before], &self.new.enums[*now]);
            }
            (Type::Record(before), Type::Record(now)) => {
                self.compare_record(place, &self.old.records[*before], &self.new.records[*now]);
            }
            (Type::Union(before), Type::Union(now)) => {
                self.compare_union(place, &self.old.unions[*before], &self.new.unions[*now]);
            }
            (before, now) if before == now => {}
            _ => self.record_breaking(place, "has another type"),
        }
    }

    fn compare_limit(&mut self, place: &str, before: u32, now: u32) {
        if before != now {
            let what =
                format!("its maximum was {before} and is {now}: one side refuses what the other sends");
            self.record_breaking(place, what);
        }
    }

    fn compare_enumeration(&mut self, place: &str, before: &Enum, now: &Enum) {
        if before.repr != now.repr || before.flags != now.flags {
            self.record_breaking(place, "is stored differently");
        }
        if before.open && !now.open {
            self.record_breaking(place, "is no longer open: other values may be refused");
        }
        for value in &before.values {
            if !now.values.iter().any(|other| other.value == value.value) {
                self.record_breaking(place, format!("`{}` was removed", value.name));
            }
        }
        for value in &now.values {
            if before.values.iter().any(|other| other.value == value.value) {
                continue;
            }
            if before.open {
                self.record_change(place, format!("`{}` is new", value.name), Verdict::Compatible);
            } else {
                let what = format!("`{}` is new and the type is not open: older peers refuse it", value.name);
                self.record_breaking(place, what);
            }
        }
    }

    fn compare_union(&mut self, place: &str, before: &'a Union, now: &'a Union) {
        for case in &before.cases {
            let inner = format!("{place}.{}", case.name);
            match now.cases.iter().find(|other| other.ordinal == case.ordinal) {
                None => self.record_breaking(&inner, "was removed"),
                Some(Case { of: other, .. }) => match (&case.of, other) {
                    (Some(of), Some(other)) => self.compare_types(&inner, of, other),
                    (None, None) => {}
                    _ => self.record_breaking(&inner, "carries another type than before"),
                },
            }
        }
        for case in now.cases.iter().skip(before.cases.len()) {
            let what = "is new: older peers see an unknown case";
            self.record_change(&format!("{place}.{}", case.name), what.into(), Verdict::Compatible);
        }
    }
}
