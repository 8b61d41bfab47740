//! What every benchmark's report can do.

/// What a benchmark measured.
pub trait BenchReport: serde::Serialize {
    /// For people: aligned tables.
    #[must_use]
    fn table(&self) -> String;

    /// What was asked for and not measured: each with the reason, on a line.
    #[must_use]
    fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    /// For programs: one JSON object, indented, with an end of line.
    #[must_use]
    fn to_json(&self) -> String {
        // Reports are numbers and text: nothing that could not be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
