//! Commands in `sh` and `console` blocks: each is parsed by its program.
//!
//! `tombolo` parses its own command line: the page's words, with `--help` inserted before the first word for
//! another program. That detects unknown subcommands, options and values, and runs nothing.

use std::collections::BTreeMap;
use std::process::Command;

use crate::extract::Snippet;

/// Permitted programs besides `tombolo`, `make` and `cargo`. Only the shell syntax of their commands is
/// checked.
const OTHERS: &str = "cat cd cp curl done echo export for gcc git head jq mkdir mpiexec mpirun pip pkg-config printf python \
                      python3 rm rustup ssh sudo umask wait";

/// A command after shell parsing: words without quotes, without variable assignments and redirections.
pub(crate) type Words = Vec<String>;

/// Returns the commands of a block. In a console block they follow `$ `.
///
/// # Errors
/// Fails for an unterminated quote or console block.
pub(crate) fn commands(snippet: &Snippet) -> Result<Vec<Words>, String> {
    script(snippet).and_then(|script| split(&script)).map_err(|error| format!("{snippet}: {error}"))
}

/// Returns the block as a shell script.
pub(crate) fn script(snippet: &Snippet) -> Result<String, String> {
    if snippet.language != "console" {
        return Ok(snippet.text.clone());
    }
    let typed: Vec<&str> = snippet.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    if typed.is_empty() {
        Err("a console block has commands, after `$ `".to_owned())
    } else {
        Ok(typed.join("\n"))
    }
}

/// Splits a script into its simple commands.
fn split(script: &str) -> Result<Vec<Words>, String> {
    let (mut all, mut words, mut word) = (Vec::new(), Words::new(), None::<String>);
    let mut characters = script.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') => {}
                Some(escaped) => word.get_or_insert_default().push(escaped),
                None => return Err("a backslash at the end".to_owned()),
            },
            quote @ ('\'' | '"') => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some(end) if end == quote => break,
                        Some(inner) => word.push(inner),
                        None => return Err("a quote without an end".to_owned()),
                    }
                }
            }
            '$' if characters.peek() == Some(&'(') => {
                // A command substitution counts as one word; the command in it is checked like others.
                let inner: String = characters.by_ref().take_while(|character| *character != ')').collect();
                all.extend(split(inner.trim_start_matches('('))?);
                word.get_or_insert_default().push_str("SUBSTITUTED");
            }
            '#' if word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            '\n' | ';' | '|' | '&' | '(' | ')' => {
                words.extend(word.take());
                all.extend(finish(&mut words));
            }
            ' ' | '\t' => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.take());
    all.extend(finish(&mut words));
    Ok(all)
}

/// Takes the command out of the collected words, without leading variables and redirections.
fn finish(words: &mut Words) -> Option<Words> {
    let is_variable = |word: &String| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        })
    };
    let all = std::mem::take(words);
    let mut own: Words = all.into_iter().skip_while(is_variable).collect();
    if let Some(at) = own.iter().position(|word| word.starts_with('>') || word.starts_with("2>")) {
        own.truncate(at);
    }
    (!own.is_empty()).then_some(own)
}

/// Programs that parse command lines, with cached help texts.
pub(crate) struct Programs {
    /// Creates a `tombolo` command.
    tombolo: Box<dyn Fn() -> Command>,
    makefile: String,
    help: BTreeMap<Words, String>,
}

impl Programs {
    pub(crate) fn new(tombolo: impl Fn() -> Command + 'static, makefile: String) -> Programs {
        Programs { tombolo: Box::new(tombolo), makefile, help: BTreeMap::new() }
    }

    /// Checks one command.
    ///
    /// # Errors
    /// The error message of the program.
    pub(crate) fn check(&mut self, words: &[String]) -> Result<(), String> {
        let rest = &words[1..];
        match &*words[0] {
            "tombolo" => self.check_tombolo(rest),
            "make" => self.check_make(rest),
            "cargo" => Ok(()),
            program if program.contains('/') || program.ends_with("-gcc") => Ok(()),
            program if OTHERS.split_whitespace().any(|other| other == program) => Ok(()),
            program => Err(format!("`{program}` is not a program that this test knows")),
        }
    }

    fn check_make(&self, words: &[String]) -> Result<(), String> {
        for word in words.iter().filter(|word| !word.contains('=')) {
            let rule = format!("\n{word}:");
            if !self.makefile.contains(&rule) {
                return Err(format!("the Makefile has no target `{word}`"));
            }
        }
        Ok(())
    }

    /// Returns the help text of a subcommand, or an error if there is none.
    fn help(&mut self, path: &[String]) -> Result<String, String> {
        if let Some(known) = self.help.get(path) {
            return Ok(known.clone());
        }
        let said = self.parse(&[path, &["--help".to_owned()]].concat())?;
        self.help.insert(path.to_vec(), said.clone());
        Ok(said)
    }

    /// Runs `tombolo` with words that contain `--help`, and returns its output.
    fn parse(&self, words: &[String]) -> Result<String, String> {
        let output = (self.tombolo)().args(words).output().map_err(|error| format!("tombolo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && said.contains("Usage: tombolo") {
            return Ok(said);
        }
        Err(format!("tombolo {}\n{}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    fn check_tombolo(&mut self, words: &[String]) -> Result<(), String> {
        let mut path = Words::new();
        while let Some(word) = words.get(path.len()).filter(|word| !word.starts_with('-')) {
            if !subcommands(&self.help(&path)?).contains(word) {
                break;
            }
            path.push(word.clone());
        }
        let help = self.help(&path)?;
        if path.is_empty() && !words.first().is_some_and(|word| word.starts_with('-')) {
            return Err(format!("there is no `tombolo {}`", words.join(" ")));
        }
        // Compiler options are not parsed by `tombolo`.
        if matches!(path.first().map(|word| &**word), Some("mpicc" | "ompcc")) {
            return Ok(());
        }
        let end = own_words(&help, words, path.len());
        let asked = [&words[..end], &["--help".to_owned()], &words[end..]].concat();
        self.parse(&asked)?;
        // A `tombolo` command after `--` is checked, too.
        match words.iter().position(|word| word == "--") {
            Some(at) if words.get(at + 1).is_some_and(|word| word == "tombolo") => {
                self.check(&words[at + 1..])
            }
            _ => Ok(()),
        }
    }
}

/// Returns the names under `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| !line.trim().is_empty()).filter(|line| !line.starts_with("   "));
    list.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Returns the number of words before those that belong to another program: the words after the first
/// argument of a command that passes on the rest, and all after `--`.
fn own_words(help: &str, words: &[String], path: usize) -> usize {
    let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap_or_default();
    let hands_on =
        ["[ARGS]...", "[ARGS]...]...", "<PROGRAM [ARGS]>..."].iter().any(|end| usage.ends_with(end));
    let takes_value = |option: &str| {
        help.lines().map(str::trim).any(|line| {
            let (names, value) = line.split_once(" <").unwrap_or((line, ""));
            // Also with a single dash: `-nue`, as in RCCE's launcher.
            let is_it = |name: &str| name == option || name.strip_prefix('-') == Some(option);
            !value.is_empty() && names.split(", ").any(is_it)
        })
    };
    let mut at = path;
    while let Some(word) = words.get(at) {
        if word == "--" {
            return at;
        }
        if word.starts_with('-') {
            at += 1 + usize::from(!word.contains('=') && takes_value(word));
        } else if hands_on {
            return at;
        } else {
            at += 1;
        }
    }
    words.len().min(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<Vec<String>> {
        split(script).expect("a script")
    }

    #[test]
    fn scripts_are_split_as_a_shell_does() {
        let all = words(
            "A=1 tombolo run -e 'x y' \\\n a.tbi > out # why\n\nmake kit && cd \"a b\" # c\nls $(tombolo ps)",
        );
        assert_eq!(all[0], ["tombolo", "run", "-e", "x y", "a.tbi"]);
        assert_eq!(all[1], ["make", "kit"]);
        assert_eq!(all[2], ["cd", "a b"]);
        assert_eq!(all[3], ["tombolo", "ps"]);
        assert_eq!(all[4], ["ls", "SUBSTITUTED"]);
        assert!(split("echo 'a").is_err());
    }

    #[test]
    fn arguments_of_other_programs_are_not_checked() {
        let help = "Usage: tombolo run [OPTIONS] <IMAGE> [ARGS]...\n  -n, --count <N>\n      --label\n";
        let own = |script| {
            let words = &words(script)[0];
            own_words(help, words, 1)
        };
        assert_eq!(own("run -n 3 --label a.tbi --fast"), 4);
        assert_eq!(own("run --count=3 a.tbi"), 2);
        assert_eq!(
            own_words("Usage: tombolo trace record [-- <COMMAND>...]", &words("trace record -- ls")[0], 2),
            2
        );
    }
}
