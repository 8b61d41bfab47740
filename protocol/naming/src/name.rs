//! Syntax, order and scope of names.

use alloc::string::String;
use core::cmp::Ordering;

use crate::records::Scope;

/// Maximum length of a name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Maximum length of an attribute's name, in bytes.
pub const MAX_ATTRIBUTE_BYTES: usize = 64;

/// Whether `name` is valid: 1 to [`MAX_NAME_BYTES`] letters, digits, `.`, `_`, `-`, `/` or `:`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether `name` is valid for an attribute: 1 to [`MAX_ATTRIBUTE_BYTES`] letters, digits, `.`, `_` or `-`.
#[must_use]
pub fn is_attribute(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_ATTRIBUTE_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

/// Splits a name from user input into scope and name: `NAME` belongs to the machine, `@/NAME` to the own
/// node, `@NODE/NAME` to the node `NODE`.
///
/// ```
/// use tombolo_naming::{Scope, split_scope};
/// assert_eq!(split_scope("pong"), (Scope::Machine, "pong"));
/// assert_eq!(split_scope("@/pong"), (Scope::Own, "pong"));
/// assert_eq!(split_scope("@arm0/a/b"), (Scope::Node("arm0".into()), "a/b"));
/// ```
#[must_use]
pub fn split_scope(text: &str) -> (Scope, &str) {
    match text.strip_prefix('@') {
        None => (Scope::Machine, text),
        // A node without a slash has an empty name, which is invalid.
        Some(scoped) => match scoped.split_once('/').unwrap_or((scoped, "")) {
            ("", name) => (Scope::Own, name),
            (node, name) => (Scope::Node(node.into()), name),
        },
    }
}

/// Name with natural sort order: `job9` before `job10`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NaturalName(pub String);

impl NaturalName {
    fn compare(mut left: &[u8], mut right: &[u8]) -> Ordering {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        loop {
            let (Some(a), Some(b)) = (left.first(), right.first()) else {
                return left.len().cmp(&right.len());
            };
            let (number_a, number_b) = (digits(left), digits(right));
            if number_a == 0 || number_b == 0 {
                match a.cmp(b) {
                    Ordering::Equal => (left, right) = (&left[1..], &right[1..]),
                    unequal => return unequal,
                }
                continue;
            }
            let (run_a, run_b) = (&left[..number_a], &right[..number_b]);
            let significant = |run: &[u8]| run.iter().take_while(|byte| **byte == b'0').count();
            let (value_a, value_b) = (&run_a[significant(run_a)..], &run_b[significant(run_b)..]);
            // Without leading zeros, the longer number is the larger one.
            match value_a.len().cmp(&value_b.len()).then_with(|| value_a.cmp(value_b)) {
                Ordering::Equal => (left, right) = (&left[number_a..], &right[number_b..]),
                unequal => return unequal,
            }
        }
    }
}

impl Ord for NaturalName {
    fn cmp(&self, other: &Self) -> Ordering {
        // `a01` and `a1` have the same value but are different names.
        Self::compare(self.0.as_bytes(), other.0.as_bytes()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for NaturalName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_bounded() {
        assert!(is_name("pong") && is_name("a/b:c.d_e-9"));
        for length in [MAX_NAME_BYTES - 1, MAX_NAME_BYTES] {
            assert!(is_name(&"n".repeat(length)), "{length}");
        }
        for name in ["", "with space", "ümlaut", "new\nline", "@own", &"n".repeat(MAX_NAME_BYTES + 1)] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(is_attribute(&"a".repeat(MAX_ATTRIBUTE_BYTES)));
        for name in ["", "a:b", "a/b", &"a".repeat(MAX_ATTRIBUTE_BYTES + 1)] {
            assert!(!is_attribute(name), "{name:?}");
        }
    }

    #[test]
    fn names_sort_in_natural_order() {
        let sorted = ["a", "a1", "a01", "a2", "a2b", "a10", "a10b1", "a10b20", "b"];
        for pair in sorted.windows(2) {
            // Equal values fall back to bytes, where '0' sorts before '1'.
            let (left, right) = (NaturalName(pair[0].into()), NaturalName(pair[1].into()));
            assert_eq!(left < right, pair != ["a1", "a01"], "{pair:?}");
        }
    }

    proptest! {
        #[test]
        fn natural_order_is_total(names in proptest::collection::vec("[a-b0-2]{0,6}", 3)) {
            let [a, b, c] = [0, 1, 2].map(|index| NaturalName(names[index].clone()));
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a.0 == b.0);
            if a <= b && b <= c {
                prop_assert!(a <= c);
            }
        }
    }
}
