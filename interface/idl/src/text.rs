//! Output buffer of the back ends.

/// Text that is written line by line. Each back end adds methods for comments in its language.
#[derive(Default)]
pub(crate) struct Text {
    text: String,
}

impl Text {
    pub(crate) fn line(&mut self, depth: usize, line: &str) {
        if !line.is_empty() {
            self.text.push_str(&"    ".repeat(depth));
            self.text.push_str(line);
        }
        self.text.push('\n');
    }

    /// Appends several lines, keeping their indentation relative to `depth`.
    pub(crate) fn lines(&mut self, depth: usize, lines: &str) {
        lines.lines().for_each(|line| self.line(depth, line));
    }

    /// Appends an empty line, unless the text ends with one.
    pub(crate) fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Returns whether the text contains `part` already.
    pub(crate) fn contains(&self, part: &str) -> bool {
        self.text.contains(part)
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }
}
