//! What back ends write into.

/// Text that grows by lines. Each back end adds how comments are written in its language.
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

    /// Several lines, indented as they are relative to each other.
    pub(crate) fn lines(&mut self, depth: usize, lines: &str) {
        lines.lines().for_each(|line| self.line(depth, line));
    }

    /// An empty line, unless there is one.
    pub(crate) fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Whether that was written already.
    pub(crate) fn contains(&self, part: &str) -> bool {
        self.text.contains(part)
    }

    pub(crate) fn into_string(self) -> String {
        self.text
    }
}
