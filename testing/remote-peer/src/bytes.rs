//! Encoding of messages: numbers as little-endian words, then the remaining bytes.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::Malformed;

const WORD_BYTES: usize = 8;

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(kind: u64) -> Writer {
        Writer(Vec::new()).number(kind)
    }

    pub(crate) fn number(mut self, number: u64) -> Writer {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn rest(mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend(bytes);
        self.0
    }
}

pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<(u64, Reader<'a>), Malformed> {
        let mut reader = Reader(bytes);
        Ok((reader.number()?, reader))
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let (word, rest) = self.0.split_first_chunk::<WORD_BYTES>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*word))
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        Ok(core::str::from_utf8(self.rest()).map_err(|_| Malformed)?.to_string())
    }
}
