//! Decodes the output of programs for pages.

/// Incremental decoder of UTF-8.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Incomplete character at the end of the last piece.
    begun: Vec<u8>,
    /// Whether some bytes were not UTF-8.
    pub binary: bool,
}

impl Decoder {
    /// Decodes a piece; invalid UTF-8 becomes U+FFFD.
    pub fn decode(&mut self, piece: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let error = match std::str::from_utf8(rest) {
                Ok(good) => {
                    text.push_str(good);
                    break;
                }
                Err(error) => error,
            };
            let (good, bad) = rest.split_at(error.valid_up_to());
            text.push_str(&String::from_utf8_lossy(good));
            let Some(length) = error.error_len() else {
                self.begun = bad.to_vec();
                break;
            };
            self.binary = true;
            text.push('\u{fffd}');
            rest = &bad[length..];
        }
        text
    }

    /// Ends the stream: returns U+FFFD if it ended within a character.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.begun).is_empty() {
            return "";
        }
        self.binary = true;
        "\u{fffd}"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn characters_may_be_cut_by_pieces() {
        let mut decoder = Decoder::default();
        let bytes = "grün ✓".as_bytes();
        let text: String = bytes.iter().map(|byte| decoder.decode(&[*byte])).collect();
        assert_eq!((text.as_str(), decoder.finish(), decoder.binary), ("grün ✓", "", false));
    }

    #[test]
    fn binary_output_is_marked() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(b"\x7fELF\xff\xfe\x00x"), "\x7fELF\u{fffd}\u{fffd}\0x");
        assert!(decoder.binary);
        let mut decoder = Decoder::default();
        assert_eq!((decoder.decode(b"a\xe2\x9c").as_str(), decoder.binary), ("a", false));
        assert_eq!((decoder.finish(), decoder.binary), ("\u{fffd}", true));
    }

    proptest! {
        #[test]
        fn cutting_changes_nothing(bytes: Vec<u8>, cut in 0_usize..64) {
            let mut whole = Decoder::default();
            let mut cutting = Decoder::default();
            let all = whole.decode(&bytes) + whole.finish();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let mut pieces = cutting.decode(first) + &cutting.decode(second);
            pieces.push_str(cutting.finish());
            prop_assert_eq!(&all, &pieces);
            prop_assert_eq!(&all, &String::from_utf8_lossy(&bytes));
        }
    }
}
