//! Needs of a program: the language of `--needs`.
//!
//! ```text
//! needs     = [ need { "," need } ]
//! need      = "near" "=" word                     one of the order, not a condition
//!           | key ( "=" | "!=" ) value { "|" value }
//!           | key ( "<" | "<=" | ">" | ">=" ) value
//! key       = a name of KEYS
//! value     = word | number [ unit ]
//! word      = one or more characters other than space, ",", "|", "=", "<", ">", "!"
//! ```
//!
//! Spaces around keys, operators, values and commas are ignored. All needs must hold. A need for which a node
//! has no known value does not hold, for any operator.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use tombolo::Isa;
use tombolo::nodes::NodeKind;

/// Maximum length of a text of needs, in bytes.
pub const MAX_BYTES: usize = 4096;

/// Type and unit of a key's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// One of these words; any word if the list is empty.
    Word(&'static [&'static str]),
    /// A whole number.
    Count,
    /// Number of bytes, with binary prefixes.
    Bytes,
    /// Number of processors, with up to three decimals; stored in thousandths.
    Processors,
    /// Duration; stored in ns.
    Time,
    /// Bytes per second, with binary prefixes.
    Rate,
}

/// Subject of a key's fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The node itself.
    Node,
    /// The link from the node to the nodes to be near; to the host if there are none.
    Link,
}

/// Property of nodes that a need can refer to.
#[derive(PartialEq, Eq, Debug)]
pub struct Key {
    /// Name in a text of needs.
    pub name: &'static str,
    /// Attribute of the fact, as in `docs/specs/facts.md`.
    pub attribute: &'static str,
    /// Subject of the fact: the node, or the link to others.
    pub subject: Subject,
    /// Type and unit of the values.
    pub unit: Unit,
    /// Description in one line.
    pub description: &'static str,
}

const fn key(
    name: &'static str,
    attribute: &'static str,
    subject: Subject,
    unit: Unit,
    description: &'static str,
) -> Key {
    Key { name, attribute, subject, unit, description }
}

const ISAS: &[&str] = &{
    let mut names = [""; Isa::ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = Isa::ALL[index].name();
        index += 1;
    }
    names
};

/// All keys, in the order of the help text.
pub const KEYS: [Key; 17] = [
    key("isa", "isa", Subject::Node, Unit::Word(ISAS), "instruction set"),
    key("kind", "kind", Subject::Node, Unit::Word(&[]), "what the node is made of: host, user, vm, …"),
    key("node", "node", Subject::Node, Unit::Word(&[]), "name"),
    key(
        "system",
        "system",
        Subject::Node,
        Unit::Word(&["linux", "none"]),
        "operating system; none on a board",
    ),
    key("kernel", "kernel", Subject::Node, Unit::Word(&[]), "the node whose kernel runs its programs"),
    key("processors", "processors", Subject::Node, Unit::Count, "processors"),
    key("idle", "free_permille", Subject::Node, Unit::Processors, "processors that are idle, such as 0.5"),
    key("load", "load_permille", Subject::Node, Unit::Processors, "processors that are busy"),
    key(
        "speed",
        "rounds_per_ms",
        Subject::Node,
        Unit::Count,
        "speed of one processor, in loop rounds per ms",
    ),
    key("memory", "memory_bytes", Subject::Node, Unit::Bytes, "memory of its kernel"),
    key("free", "memory_free_bytes", Subject::Node, Unit::Bytes, "memory that is not in use"),
    key("window", "window_free_bytes", Subject::Node, Unit::Bytes, "free bytes of its window to the host"),
    key("domains", "domains", Subject::Node, Unit::Count, "live domains"),
    key("round-trip", "round_trip_ns", Subject::Link, Unit::Time, "round trip of the monitors, such as 50us"),
    key(
        "message-round-trip",
        "message_round_trip_ns",
        Subject::Link,
        Unit::Time,
        "round trip of 8 bytes between programs, as `tombolo bench link` found it",
    ),
    key("rate", "bytes_per_s", Subject::Link, Unit::Rate, "measured rate of copies, per second"),
    key("hops", "hops", Subject::Link, Unit::Count, "links on the way"),
];

/// Word that names a node to be near.
const NEAR: &str = "near";

/// Value in a need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NeedValue {
    /// A word.
    Word(String),
    /// A number, in the unit of the fact.
    Number(u64),
}

/// Comparison operator of a need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Operator {
    /// Longer ones first, because `<=` begins with `<`.
    const ALL: [(Operator, &'static str); 6] = [
        (Operator::NotEqual, "!="),
        (Operator::AtMost, "<="),
        (Operator::AtLeast, ">="),
        (Operator::Equal, "="),
        (Operator::Less, "<"),
        (Operator::Greater, ">"),
    ];

    fn symbol(self) -> &'static str {
        Self::ALL.iter().find(|(operator, _)| *operator == self).map_or("", |(_, symbol)| symbol)
    }

    pub(crate) fn matches(self, ordering: Ordering) -> bool {
        match self {
            Operator::Equal => ordering.is_eq(),
            Operator::NotEqual => ordering.is_ne(),
            Operator::Less => ordering.is_lt(),
            Operator::AtMost => ordering.is_le(),
            Operator::Greater => ordering.is_gt(),
            Operator::AtLeast => ordering.is_ge(),
        }
    }
}

/// Condition on a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Key whose value is compared.
    pub key: &'static Key,
    /// Comparison operator.
    pub operator: Operator,
    /// Values to compare with: one of them must match for `=`, none for `!=`.
    pub values: Vec<NeedValue>,
}

/// Needs of a program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// Conditions that must all hold.
    pub conditions: Vec<Need>,
    /// Nodes that the chosen one should be near.
    pub near: Vec<String>,
}

/// Error in a text of needs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid needs '{text}', at '{at}': {why}")]
pub struct NeedsError {
    /// Whole text, truncated if it is long.
    pub text: String,
    /// Need with the error.
    pub at: String,
    /// Kind of the error.
    pub why: NeedsErrorKind,
}

/// Kind of an error in a need.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NeedsErrorKind {
    /// The key does not exist.
    #[error("unknown key '{word}'; there are {}", key_names())]
    UnknownKey {
        /// Word that was written.
        word: String,
    },
    /// The operator is missing, or everything.
    #[error("expected KEY=VALUE, KEY>=VALUE or near=NODE")]
    NoOperator,
    /// The key's values have no order.
    #[error("'{key}' compares with = and != only")]
    Unordered {
        /// Name of the key.
        key: &'static str,
    },
    /// Several values were given where only one can be compared.
    #[error("alternatives with | need = or !=")]
    Alternatives,
    /// The word is not one of the key's values.
    #[error("'{key}' has no value '{value}'; there are {}", known.join(", "))]
    UnknownWord {
        /// Name of the key.
        key: &'static str,
        /// Word that was written.
        value: String,
        /// Words that are allowed.
        known: &'static [&'static str],
    },
    /// The value is not a number of the unit.
    #[error("'{value}' is not {expected}")]
    BadValue {
        /// Text that was written.
        value: String,
        /// Expected format.
        expected: &'static str,
    },
    /// The text exceeds the maximum length.
    #[error("needs have at most {MAX_BYTES} bytes")]
    TooLong,
}

impl NeedsError {
    /// Returns the word that may be misspelt, and the words that exist, for suggestions.
    #[must_use]
    pub fn misspelt(&self) -> Option<(&str, Vec<&'static str>)> {
        match &self.why {
            NeedsErrorKind::UnknownKey { word } => {
                Some((word, KEYS.iter().map(|key| key.name).chain([NEAR]).collect()))
            }
            NeedsErrorKind::UnknownWord { value, known, .. } => Some((value, known.to_vec())),
            _ => None,
        }
    }
}

fn key_names() -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).chain([NEAR]).collect();
    names.join(", ")
}

impl FromStr for Needs {
    type Err = NeedsError;

    fn from_str(text: &str) -> Result<Self, NeedsError> {
        let shown = |part: &str| part.chars().take(200).collect::<String>();
        let wrong = |at: &str, why| NeedsError { text: shown(text), at: shown(at.trim()), why };
        if text.len() > MAX_BYTES {
            return Err(wrong("", NeedsErrorKind::TooLong));
        }
        let mut needs = Needs::default();
        if text.trim().is_empty() {
            return Ok(needs);
        }
        for part in text.split(',') {
            needs.add(part).map_err(|why| wrong(part, why))?;
        }
        Ok(needs)
    }
}

impl Needs {
    fn add(&mut self, text: &str) -> Result<(), NeedsErrorKind> {
        let at = text.find(['=', '<', '>', '!']).ok_or(NeedsErrorKind::NoOperator)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (operator, symbol) = Operator::ALL
            .into_iter()
            .find(|(_, symbol)| rest.starts_with(symbol))
            .ok_or(NeedsErrorKind::NoOperator)?;
        let value = rest[symbol.len()..].trim();
        if name == NEAR {
            if operator != Operator::Equal {
                return Err(NeedsErrorKind::Unordered { key: NEAR });
            }
            self.near.push(parse_word(value)?);
            return Ok(());
        }
        let key = KEYS.iter().find(|key| key.name == name);
        let key = key.ok_or_else(|| NeedsErrorKind::UnknownKey { word: name.to_owned() })?;
        let equality = matches!(operator, Operator::Equal | Operator::NotEqual);
        if !equality && matches!(key.unit, Unit::Word(_)) {
            return Err(NeedsErrorKind::Unordered { key: key.name });
        }
        if !equality && value.contains('|') {
            return Err(NeedsErrorKind::Alternatives);
        }
        let values = value.split('|').map(|value| key.parse_value(value.trim())).collect::<Result<_, _>>()?;
        self.conditions.push(Need { key, operator, values });
        Ok(())
    }

    /// Returns the same needs, restricted to nodes of this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: NodeKind) -> Needs {
        let values = vec![NeedValue::Word(kind.name().to_owned())];
        self.conditions.extend(KEYS.iter().find(|key| key.name == "kind").map(|key| Need {
            key,
            operator: Operator::Equal,
            values,
        }));
        self
    }
}

impl Key {
    fn parse_value(&self, text: &str) -> Result<NeedValue, NeedsErrorKind> {
        let bad = |expected| NeedsErrorKind::BadValue { value: text.to_owned(), expected };
        let number = |value: Option<u64>, expected| value.map(NeedValue::Number).ok_or_else(|| bad(expected));
        match self.unit {
            Unit::Word(known) => {
                let value = parse_word(text)?;
                if !known.is_empty() && !known.contains(&value.as_str()) {
                    return Err(NeedsErrorKind::UnknownWord { key: self.name, value, known });
                }
                Ok(NeedValue::Word(value))
            }
            Unit::Count => number(text.parse().ok(), "a whole number"),
            Unit::Bytes => number(parse_scaled(text, &BINARY), "a number of bytes such as 256M or 1.5G"),
            Unit::Processors => {
                number(parse_scaled(text, &[("", 1000.0)]), "a number of processors such as 1.5")
            }
            Unit::Time => number(parse_scaled(text, &TIMES), "a time such as 50us or 2ms"),
            Unit::Rate => {
                let text = text.strip_suffix("/s").unwrap_or(text);
                number(parse_scaled(text, &BINARY), "a rate in bytes per second such as 1G")
            }
        }
    }
}

const BINARY: [(&str, f64); 14] = [
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("T", 1_099_511_627_776.0),
    ("k", 1024.0),
    ("m", 1_048_576.0),
    ("g", 1_073_741_824.0),
    ("t", 1_099_511_627_776.0),
    ("B", 1.0),
    ("", 1.0),
];

const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Parses a number with a unit into units of the smallest; `None` if it is invalid, or too large to be exact.
fn parse_scaled(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let (suffix, factor) = units.iter().find(|(suffix, _)| text.ends_with(suffix))?;
    let number = text[..text.len() - suffix.len()].trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let value = number.parse::<f64>().ok()? * factor;
    // Up to 2^53, a float represents whole numbers exactly.
    (value <= 9_007_199_254_740_992.0).then_some(value.round() as u64)
}

fn parse_word(text: &str) -> Result<String, NeedsErrorKind> {
    if text.is_empty() || text.contains([' ', '=', '<', '>', '!', '|']) {
        return Err(NeedsErrorKind::BadValue { value: text.to_owned(), expected: "a word" });
    }
    Ok(text.to_owned())
}

impl Unit {
    /// Formats a value in this unit for users.
    #[must_use]
    pub fn format(self, value: u64) -> String {
        match self {
            Unit::Word(_) | Unit::Count => value.to_string(),
            Unit::Bytes => format_bytes(value),
            Unit::Rate => format_bytes(value) + "/s",
            Unit::Processors => format!("{}.{:03}", value / 1000, value % 1000)
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
            Unit::Time => match value {
                0..10_000 => format!("{value}ns"),
                10_000..10_000_000 => format!("{}us", value / 1000),
                _ => format!("{}ms", value / 1_000_000),
            },
        }
    }
}

fn format_bytes(value: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    match units.into_iter().find(|(_, shift)| value >> shift > 0) {
        Some((unit, shift)) => {
            let tenths = (u128::from(value) * 10) >> shift;
            let (whole, tenth) = (tenths / 10, tenths % 10);
            if tenth == 0 { format!("{whole}{unit}") } else { format!("{whole}.{tenth}{unit}") }
        }
        None => value.to_string(),
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self
            .values
            .iter()
            .map(|value| match value {
                NeedValue::Word(word) => word.clone(),
                NeedValue::Number(number) => self.key.unit.format(*number),
            })
            .collect();
        write!(f, "{}{}{}", self.key.name, self.operator.symbol(), values.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(text: &str) -> Needs {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn why(text: &str) -> String {
        text.parse::<Needs>().unwrap_err().to_string()
    }

    fn number(text: &str) -> u64 {
        match &needs(text).conditions[0].values[..] {
            [NeedValue::Number(number)] => *number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn needs_are_conditions_and_nodes_to_be_near() {
        let read = needs(" isa = aarch64|riscv64 , memory >= 256M, near=arm0, near=arm1");
        assert_eq!(read.near, ["arm0", "arm1"]);
        let shown: Vec<String> = read.conditions.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["isa=aarch64|riscv64", "memory>=256M"]);
        assert_eq!(needs(""), Needs::default());
        assert_eq!(needs("  "), Needs::default());
        assert_eq!(needs("idle>0.5").of_kind(NodeKind::Host), needs("idle>0.5,kind=host"));
    }

    #[test]
    fn numbers_have_units() {
        for (text, value) in [
            ("memory>=256M", 256 << 20),
            ("memory>=1.5GiB", 3 << 29),
            ("free<4096", 4096),
            ("window>64 K", 65_536),
            ("idle>=0.5", 500),
            ("load<2", 2000),
            ("round-trip<=50us", 50_000),
            ("round-trip<1.5ms", 1_500_000),
            ("rate>1G/s", 1 << 30),
            ("processors!=4", 4),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }

    #[test]
    fn errors_name_the_expected_values() {
        assert!(why("memry>=1G").contains("unknown key 'memry'; there are isa, kind"));
        let isas = "'isa' has no value 'arm64'; there are x86_64, aarch64, riscv64, s390x, i386, armv7";
        assert!(why("isa=arm64").contains(isas));
        assert_eq!(
            why("isa<aarch64"),
            "invalid needs 'isa<aarch64', at 'isa<aarch64': 'isa' compares with = and != only"
        );
        assert!(why("near>arm0").contains("'near' compares"));
        assert!(why("memory>=1G|2G").contains("alternatives"));
        for text in ["isa", "isa=aarch64,", ",", "!", "memory!5"] {
            assert!(why(text).contains("expected KEY=VALUE"), "{text}: {}", why(text));
        }
        for text in [
            "memory>=",
            "memory>=G",
            "memory>=-1",
            "memory>=1e3",
            "memory>=1.2.3",
            "memory>=9999999999T",
            "round-trip<5",
            "processors>1.5",
        ] {
            assert!(why(text).contains("is not a"), "{text}: {}", why(text));
        }
        for text in ["near=", "node=a b", "isa==aarch64"] {
            assert!(why(text).contains("is not a word"), "{text}: {}", why(text));
        }
        assert!(why(&"x".repeat(5000)).contains("at most 4096"));
        let error = "memry>1G".parse::<Needs>().unwrap_err();
        assert!(error.misspelt().is_some_and(|(word, known)| word == "memry" && known.contains(&"memory")));
    }

    #[test]
    fn values_are_shown_as_they_are_written() {
        for (unit, value, text) in [
            (Unit::Bytes, 3 << 29, "1.5G"),
            (Unit::Bytes, 100, "100"),
            (Unit::Processors, 1500, "1.5"),
            (Unit::Processors, 2000, "2"),
            (Unit::Processors, 10, "0.01"),
            (Unit::Time, 50_000, "50us"),
            (Unit::Rate, 1 << 30, "1G/s"),
        ] {
            assert_eq!(unit.format(value), text);
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "(isa|memory|near|idle|=|!=|<|>=|,|[|]|aarch64|1G|0[.]5| |é){0,12}") {
            if let Ok(needs) = text.parse::<Needs>() {
                for need in &needs.conditions {
                    let again: Needs = need.to_string().parse().expect("what is shown can be read");
                    prop_assert_eq!(&again.conditions[0].key.name, &need.key.name);
                }
            }
        }
    }
}
