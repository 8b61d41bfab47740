//! Common interface of benchmark reports.

/// Report of a benchmark.
pub trait BenchReport: serde::Serialize {
    /// Returns the report as aligned tables.
    #[must_use]
    fn table(&self) -> String;

    /// Returns the requested measurements that failed, each with the reason on one line.
    #[must_use]
    fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the report as one indented JSON object with a trailing newline.
    #[must_use]
    fn to_json(&self) -> String {
        // Reports contain only numbers and text: serialization cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
