//! Performance targets and their verdicts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::table::{align, none, significant};

/// Bound that a figure must meet.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure must not be larger.
    AtMost(f64),
    /// The figure must not be smaller.
    AtLeast(f64),
}

impl Bound {
    /// Checks a figure against the bound. `found` is `None` if it was not measured; a disturbed figure is
    /// inconclusive.
    #[must_use]
    pub fn judge(self, found: Option<f64>, disturbed: bool) -> Verdict {
        let holds = |found| match self {
            Bound::AtMost(limit) => found <= limit,
            Bound::AtLeast(limit) => found >= limit,
        };
        match found {
            None => Verdict::NotMeasured,
            Some(_) if disturbed => Verdict::Doubtful,
            Some(found) if holds(found) => Verdict::Met,
            Some(_) => Verdict::Missed,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(limit) => write!(f, "at most {limit}"),
            Bound::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

/// Verdict on a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figure meets the target.
    Met,
    /// The figure misses the target.
    Missed,
    /// The figure was disturbed too often to be conclusive.
    Doubtful,
    /// The figure was not measured.
    NotMeasured,
}

impl Verdict {
    /// Returns the verdict as shown in tables.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::Doubtful => "doubtful: disturbed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// Target with its measured figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Name of the figure.
    pub what: String,
    /// Bound on the figure.
    #[serde(flatten)]
    pub bound: Bound,
    /// Measured value, if any.
    pub found: Option<f64>,
    /// Verdict on the measured value.
    pub verdict: Verdict,
}

impl Target {
    pub(crate) fn new(what: String, bound: Bound, found: Option<f64>, disturbed: bool) -> Target {
        Target { what, bound, found, verdict: bound.judge(found, disturbed) }
    }

    fn cells(&self) -> Vec<String> {
        let found = self.found.map_or_else(none, significant);
        vec![self.what.clone(), found, self.bound.to_string(), self.verdict.words().to_owned()]
    }
}

/// Formats a line for each target: figure, measured value, bound and verdict.
pub(crate) fn table(targets: &[Target]) -> String {
    align(&targets.iter().map(Target::cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_judged_by_its_bound_unless_it_was_disturbed() {
        for (bound, found, disturbed, verdict) in [
            (Bound::AtMost(1.5), Some(1.5), false, Verdict::Met),
            (Bound::AtMost(1.5), Some(1.51), false, Verdict::Missed),
            (Bound::AtLeast(1.5), Some(1.5), false, Verdict::Met),
            (Bound::AtLeast(1.5), Some(1.49), false, Verdict::Missed),
            (Bound::AtLeast(1.5), Some(9.0), true, Verdict::Doubtful),
            (Bound::AtMost(1.5), None, true, Verdict::NotMeasured),
        ] {
            assert_eq!(bound.judge(found, disturbed), verdict, "{bound}: {found:?}");
        }
    }

    #[test]
    fn files_have_the_bound_by_its_name() {
        let target = Target::new("a call".into(), Bound::AtMost(1.5), Some(2.0), false);
        let text = serde_json::to_string(&target).expect("JSON");
        assert_eq!(text, r#"{"what":"a call","at_most":1.5,"found":2.0,"verdict":"missed"}"#);
        assert_eq!(serde_json::from_str::<Target>(&text).expect("a target"), target);
        assert_eq!(target.cells(), ["a call", "2.00", "at most 1.5", "MISSED"]);
    }
}
