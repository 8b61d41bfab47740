//! Queries, and their evaluation against records.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::limits::Limits;
use crate::name::{is_attribute, is_name};
use crate::name_faults::NameFault;
use crate::pattern::{Exhausted, Pattern, PatternError};
use crate::records::{Comparison, Constraint, NamePattern, Query, Test, Value};
use crate::value::Attributes;

impl Comparison {
    /// All comparisons, in the order of their codes.
    pub const ALL: [Comparison; 6] = [
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];

    fn satisfies(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Returns the operator in the text form.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

impl Query {
    /// Matches only the record with this name.
    #[must_use]
    pub fn exact(name: &str) -> Query {
        Query { name: NamePattern::Exact(name.into()), constraints: Vec::new() }
    }

    /// Matches every record, regardless of its name and attributes.
    #[must_use]
    pub fn any() -> Query {
        Query { name: NamePattern::Any, constraints: Vec::new() }
    }

    /// Matches records whose names match a glob.
    #[must_use]
    pub fn glob(glob: &str) -> Query {
        Query { name: NamePattern::Glob(glob.into()), constraints: Vec::new() }
    }

    /// Matches records whose names match a regular expression.
    #[must_use]
    pub fn regex(regex: &str) -> Query {
        Query { name: NamePattern::Regex(regex.into()), constraints: Vec::new() }
    }

    /// Requires the attribute to exist.
    #[must_use]
    pub fn has(mut self, attribute: &str) -> Query {
        self.constraints.push(Constraint { attribute: attribute.into(), test: Test::Present });
        self
    }

    /// Requires the comparison of the attribute with `value` to hold.
    #[must_use]
    pub fn compare(mut self, attribute: &str, comparison: Comparison, value: impl Into<Value>) -> Query {
        let test = Test::Compare { comparison, value: value.into() };
        self.constraints.push(Constraint { attribute: attribute.into(), test });
        self
    }

    /// Requires the attribute to be text that matches a regular expression.
    #[must_use]
    pub fn matching(mut self, attribute: &str, regex: &str) -> Query {
        let test = Test::Regex(regex.into());
        self.constraints.push(Constraint { attribute: attribute.into(), test });
        self
    }

    /// Compiles the query for matching many records.
    ///
    /// # Errors
    /// [`NameFault`] for an invalid name or pattern, or too many constraints.
    pub fn compile(&self, limits: &Limits) -> Result<Matcher, NameFault> {
        let name = match &self.name {
            NamePattern::Exact(name) if is_name(name) => NameMatcher::Exact(name.clone()),
            NamePattern::Exact(name) => return Err(NameFault::BadName { name: truncated(name) }),
            NamePattern::Any => NameMatcher::Any,
            NamePattern::Glob(glob) => NameMatcher::Pattern(map_pattern_error(glob, Pattern::glob(glob))?),
            NamePattern::Regex(regex) => {
                NameMatcher::Pattern(map_pattern_error(regex, Pattern::regex(regex))?)
            }
        };
        if self.constraints.len() > limits.constraints {
            let what = "constraints in a query".into();
            return Err(NameFault::Limit { what, limit: limits.constraints as u64 });
        }
        let constraints = self.constraints.iter().map(CompiledConstraint::new).collect::<Result<_, _>>()?;
        Ok(Matcher { name, constraints })
    }
}

fn map_pattern_error(text: &str, result: Result<Pattern, PatternError>) -> Result<Pattern, NameFault> {
    result.map_err(|error| NameFault::BadPattern {
        pattern: truncated(text),
        offset: error.offset as u32,
        why: error.why,
    })
}

/// Truncates text from a client to fit in an answer.
pub(crate) fn truncated(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Prints the text form; see [`crate::parse_query`].
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            NamePattern::Exact(name) => f.write_str(name)?,
            NamePattern::Any => f.write_str("_")?,
            NamePattern::Glob(glob) => f.write_str(glob)?,
            NamePattern::Regex(regex) => write!(f, "r{}", Value::Text(regex.clone()))?,
        }
        for (index, Constraint { attribute, test }) in self.constraints.iter().enumerate() {
            f.write_str(if index == 0 { " { " } else { ", " })?;
            match test {
                Test::Present => write!(f, "{attribute}: _")?,
                Test::Compare { comparison, value } => {
                    write!(f, "{attribute} {} {value}", comparison.symbol())?;
                }
                Test::Regex(regex) => write!(f, "{attribute}: r{}", Value::Text(regex.clone()))?,
            }
        }
        f.write_str(if self.constraints.is_empty() { "" } else { " }" })
    }
}

#[derive(Clone, Debug)]
enum NameMatcher {
    Exact(String),
    Any,
    Pattern(Pattern),
}

#[derive(Clone, Debug)]
struct CompiledConstraint {
    attribute: String,
    test: CompiledTest,
}

#[derive(Clone, Debug)]
enum CompiledTest {
    Present,
    Compare(Comparison, Value),
    Regex(Pattern),
}

impl CompiledConstraint {
    fn new(constraint: &Constraint) -> Result<Self, NameFault> {
        let attribute = constraint.attribute.clone();
        if !is_attribute(&attribute) {
            return Err(NameFault::BadAttribute { attribute: truncated(&attribute) });
        }
        let test = match &constraint.test {
            Test::Present => CompiledTest::Present,
            Test::Compare { comparison, value } => CompiledTest::Compare(*comparison, value.clone()),
            Test::Regex(regex) => CompiledTest::Regex(map_pattern_error(regex, Pattern::regex(regex))?),
        };
        Ok(CompiledConstraint { attribute, test })
    }

    fn satisfies(&self, attributes: &Attributes, steps: &mut u64) -> Result<bool, Exhausted> {
        *steps = steps.checked_sub(1).ok_or(Exhausted)?;
        let Some(value) = attributes.get(&self.attribute) else { return Ok(false) };
        match &self.test {
            CompiledTest::Present => Ok(true),
            CompiledTest::Compare(comparison, wanted) => {
                Ok(value.compare(wanted).is_some_and(|ordering| comparison.satisfies(ordering)))
            }
            CompiledTest::Regex(pattern) => match value {
                Value::Text(text) => pattern.matches(text, steps),
                _ => Ok(false),
            },
        }
    }
}

/// Query with compiled patterns.
#[derive(Clone, Debug)]
pub struct Matcher {
    name: NameMatcher,
    constraints: Vec<CompiledConstraint>,
}

impl Matcher {
    /// Returns the only name that can match, if there is exactly one.
    #[must_use]
    pub fn exact(&self) -> Option<&str> {
        match &self.name {
            NameMatcher::Exact(name) => Some(name),
            _ => None,
        }
    }

    /// Whether a record or event matches. Decrements `steps` for each step.
    ///
    /// # Errors
    /// [`Exhausted`] when no steps are left.
    pub fn matches(&self, name: &str, attributes: &Attributes, steps: &mut u64) -> Result<bool, Exhausted> {
        *steps = steps.checked_sub(1).ok_or(Exhausted)?;
        let named = match &self.name {
            NameMatcher::Exact(exact) => exact == name,
            NameMatcher::Any => true,
            NameMatcher::Pattern(pattern) => pattern.matches(name, steps)?,
        };
        if !named {
            return Ok(false);
        }
        // In the client's order, so that clients can put cheap constraints first.
        for constraint in &self.constraints {
            if !constraint.satisfies(attributes, steps)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
