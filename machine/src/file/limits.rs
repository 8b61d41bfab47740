//! The `[limits]` table of a machine file.

use toml::de::{DeTable, DeValue};

use super::report::Problem;
use super::values::{Reader, with_article};
use crate::limits::{Limit, Limits};

/// Reads `[limits]`; missing keys have their defaults.
pub(super) fn read(reader: &mut Reader, root: &DeTable<'_>) -> Limits {
    let mut limits = Limits::default();
    let Some(value) = reader.value(root, "limits") else { return limits };
    let DeValue::Table(table) = value.get_ref() else {
        let found = with_article(value.get_ref().type_str());
        reader.report(
            Problem::new(value.span(), format!("`limits` must be a table, not {found}"))
                .note("limits are a table of their own, headed [limits]"),
        );
        return limits;
    };
    reader.refuse_unknown_keys(table, &Limit::ALL.map(Limit::key), "[limits]");
    for limit in Limit::ALL {
        if let Some(value) = reader.value(table, limit.key())
            && let Some(number) = reader.number(limit.key(), value, (1, limit.max_value()), limit.meaning())
        {
            limits = limits.with(limit, number);
        }
    }
    limits
}
