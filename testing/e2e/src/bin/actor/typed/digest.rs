//! Digest of values that depends on every bit of them, but not on their layout in memory or on the wire.

use tombolo::interface::{Blob, List, Malformed, Text, View};
use tombolo_stubs::everything::{EntryView, EverythingPartsRequestView, PointView, ShapeView};

type Read = Result<(), Malformed>;

/// FNV-1a hash of the values.
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    pub(super) fn value(&self) -> u64 {
        self.0
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }

    pub(super) fn word(&mut self, word: u64) {
        word.to_le_bytes().iter().for_each(|byte| self.byte(*byte));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn text<const MAX: u32>(&mut self, text: Text<'_, MAX>) -> Read {
        self.bytes(text.to_string()?.as_bytes());
        Ok(())
    }

    fn blob<const MAX: u32>(&mut self, blob: Blob<'_, MAX>) {
        self.bytes(&blob.to_vec());
    }

    fn list<'m, T: View<'m>, const MAX: u32>(
        &mut self,
        list: List<'m, T, MAX>,
        each: impl Fn(&mut Self, T) -> Read,
    ) -> Read {
        self.word(list.len() as u64);
        list.iter().try_for_each(|item| each(self, item?))
    }

    fn maybe<T>(&mut self, value: Option<T>, each: impl Fn(&mut Self, T) -> Read) -> Read {
        self.word(u64::from(value.is_some()));
        value.map_or(Ok(()), |value| each(self, value))
    }

    fn point(&mut self, point: PointView<'_>) -> Read {
        self.word(u64::from(point.x()?.to_bits()));
        self.word(u64::from(point.y()?.to_bits()));
        self.word(u64::from(point.tag()?));
        Ok(())
    }

    pub(super) fn entry(&mut self, entry: EntryView<'_>) -> Read {
        self.text(entry.name()?)?;
        self.list(entry.points()?, Self::point)?;
        self.maybe(entry.colour()?, |digest, colour| {
            digest.word(colour as u64);
            Ok(())
        })
    }

    pub(super) fn shape(&mut self, shape: ShapeView<'_>) -> Read {
        match shape {
            ShapeView::Nothing => self.word(1),
            ShapeView::Number(number) => {
                self.word(2);
                self.word(number);
            }
            ShapeView::Point(point) => {
                self.word(3);
                self.point(point)?;
            }
            ShapeView::Entry(entry) => {
                self.word(4);
                self.entry(entry)?;
            }
            ShapeView::Names(names) => {
                self.word(5);
                self.list(names, Self::text)?;
            }
            ShapeView::Unknown(case) => self.word(u64::from(case)),
        }
        Ok(())
    }

    pub(super) fn parts(&mut self, parts: &EverythingPartsRequestView<'_>) -> Read {
        let word = |digest: &mut Self, word: u64| {
            digest.word(word);
            Ok(())
        };
        self.text(parts.text()?)?;
        self.blob(parts.blob()?);
        self.list(parts.numbers()?, |digest, number| word(digest, number.into()))?;
        parts.fixed()?.iter().try_for_each(|number| word(self, i64::from(number?) as u64))?;
        self.list(parts.flags()?, |digest, flag| word(digest, flag.into()))?;
        self.entry(parts.entry()?)?;
        self.list(parts.entries()?, Self::entry)?;
        self.shape(parts.shape()?)?;
        self.list(parts.shapes()?, Self::shape)?;
        self.maybe(parts.maybe()?, word)?;
        self.maybe(parts.maybe_text()?, Self::text)?;
        self.maybe(parts.maybe_point()?, Self::point)?;
        self.maybe(parts.maybe_entry()?, Self::entry)?;
        for row in parts.matrix()?.iter() {
            row?.iter().try_for_each(|number| word(self, number?.into()))?;
        }
        self.list(parts.nested()?, |digest, inner| {
            digest.list(inner, |digest, number| word(digest, number.into()))
        })
    }
}

/// Collects the numbers of a request or reply as 64-bit words.
macro_rules! numbers {
    ($view:expr) => {{
        let view = $view;
        [
            u64::from(view.a()?),
            view.b()?.into(),
            view.c()?.into(),
            view.d()?.into(),
            view.e()?,
            i64::from(view.f()?) as u64,
            i64::from(view.g()?) as u64,
            i64::from(view.h()?) as u64,
            view.i()? as u64,
            view.j()?.to_bits().into(),
            view.k()?.to_bits(),
            view.colour()? as u64,
            i64::from(view.step()?.0) as u64,
            view.rights()?.0.into(),
            view.hints()?.0,
            view.domain()?.0,
        ]
    }};
}

pub(super) use numbers;
