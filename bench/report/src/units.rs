//! Formatting of numbers and lists.

use tombolo_bench::significant;
use tombolo_bench::suite::{Row, Unit};

/// Formats a round time for an axis.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{} µs", ns / 1e3),
        ns => format!("{ns} ns"),
    }
}

/// Formats a measured time with three digits.
pub(crate) fn exact_time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e6 => format!("{} ms", significant(ns / 1e6)),
        ns if ns >= 1e3 => format!("{} µs", significant(ns / 1e3)),
        ns => format!("{} ns", significant(ns)),
    }
}

/// Formats a round number for an axis.
pub(crate) fn count(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{} G", value / 1e9),
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e3 => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}

/// Formats the typical value of a row with its unit, or a dash if it was not measured.
pub(crate) fn typical(row: &Row) -> String {
    let Some(value) = row.typical() else { return "–".into() };
    match row.metric.unit() {
        Unit::Nanoseconds => exact_time(value),
        of => format!("{} {}", significant(value / of.divisor()), of.name()),
    }
}

/// Returns the distinct values, in order of first occurrence.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    values.for_each(|value| {
        if !found.contains(&value) {
            found.push(value);
        }
    });
    found
}
