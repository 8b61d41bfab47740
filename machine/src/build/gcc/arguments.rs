//! Parses a compiler's command line, as far as needed to compile it several times.

use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use super::super::Language;
use super::CompileError;

/// Options of gcc whose value is the next argument.
const OPTIONS_WITH_VALUE: [&str; 29] = [
    "-o",
    "-I",
    "-D",
    "-U",
    "-L",
    "-l",
    "-x",
    "-T",
    "-u",
    "-z",
    "-A",
    "-B",
    "-e",
    "-G",
    "-MF",
    "-MT",
    "-MQ",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-isysroot",
    "-aux-info",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "--param",
];

/// Prefixes of options that make a compiler write files beside its output: make dependencies and intermediate
/// files. Only one compiler may write each file.
const SIDE_FILES: [&str; 7] = ["-MF", "-MT", "-MQ", "-MD", "-MMD", "-MP", "-save-temps"];

/// Options that select the processor of this host.
const HOST_CPU_OPTIONS: [&str; 4] = ["-m64", "-march=native", "-mtune=native", "-mcpu=native"];

/// Prefix of an option for the compiler of a single instruction set.
const ISA_OPTION_PREFIX: &str = "-Xarch_";

/// Error for a command line that cannot be compiled several times.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommandLineError {
    /// The last option lacks its value.
    #[error("{option} needs a value")]
    NoValue {
        /// The option.
        option: String,
    },
    /// `-Xarch_` is followed by an unknown instruction set.
    #[error("{word} names no known instruction set; write -Xarch_x86_64 or -Xarch_aarch64")]
    UnknownIsa {
        /// The argument.
        word: String,
    },
}

/// Stage at which the compiler stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A program.
    Program,
    /// Objects: `-c`.
    Objects,
    /// Text, for people or make: `-E`, `-S`, `-M`, or information about the compiler. The output for one
    /// instruction set suffices.
    Text,
}

/// Argument of the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// An option, with its value if that is a separate argument.
    Option(Vec<String>),
    /// An option for one instruction set.
    For(Isa, String),
    /// A source to compile.
    Source(PathBuf),
    /// An object or a library to link with.
    Object(PathBuf),
}

/// Parsed command line of a compiler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandLine {
    /// Stage at which the compiler stops.
    pub goal: Goal,
    /// Path given by `-o`.
    pub output: Option<PathBuf>,
    /// All other arguments, in order.
    pub words: Vec<Word>,
    /// Language: C++ if the caller requests it or a source is C++.
    pub language: Language,
}

impl CommandLine {
    /// Parses a compiler's command line. Unknown arguments are treated as options and passed on.
    ///
    /// # Errors
    /// [`CommandLineError`] for an invalid command line.
    pub fn read(words: &[String], cxx: bool) -> Result<CommandLine, CommandLineError> {
        let mut line = CommandLine {
            goal: Goal::Program,
            output: None,
            words: Vec::new(),
            language: if cxx { Language::Cxx } else { Language::C },
        };
        // Set once `-x` selects a language: every file is then a source.
        let mut language_given = false;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().cloned().ok_or_else(|| CommandLineError::NoValue { option: word.clone() });
            if let Some(isa) = word.strip_prefix(ISA_OPTION_PREFIX) {
                let isa =
                    Isa::from_name(isa).ok_or_else(|| CommandLineError::UnknownIsa { word: word.clone() })?;
                line.words.push(Word::For(isa, value()?));
            } else if word == "-o" {
                line.output = Some(value()?.into());
            } else if let Some(path) = word.strip_prefix("-o").filter(|path| !path.is_empty()) {
                line.output = Some(path.into());
            } else if OPTIONS_WITH_VALUE.contains(&word.as_str()) {
                let value = value()?;
                language_given = if word == "-x" { value != "none" } else { language_given };
                line.words.push(Word::Option(vec![word.clone(), value]));
            } else if word.starts_with('-') && word != "-" {
                line.goal = line.goal.advance_by(word);
                if let Some(language) = word.strip_prefix("-x") {
                    language_given = language != "none";
                }
                line.words.push(Word::Option(vec![word.clone()]));
            } else {
                line.add_file(word, language_given);
            }
        }
        if line.sources().next().is_none() && line.objects().next().is_none() {
            line.goal = Goal::Text;
        }
        Ok(line)
    }

    /// Parses a command line that will be compiled more than once.
    ///
    /// # Errors
    /// [`CompileError`]: something in it can be done only once.
    pub fn parse_multi_target(words: &[String], cxx: bool) -> Result<CommandLine, CompileError> {
        let line = CommandLine::read(&expand_response_files(words), cxx)?;
        if line.goal == Goal::Objects && line.output.is_some() && line.sources().nth(1).is_some() {
            return Err(CompileError::OneOutput);
        }
        if line.goal != Goal::Text && line.sources().chain(line.objects()).any(|path| path == Path::new("-"))
        {
            return Err(CompileError::StandardInput);
        }
        Ok(line)
    }

    /// Returns the path of a source's object, with `-c`.
    #[must_use]
    pub fn object_path_of(&self, source: &Path) -> PathBuf {
        match &self.output {
            Some(output) => output.clone(),
            None => PathBuf::from(source.file_name().unwrap_or_default()).with_extension("o"),
        }
    }

    fn add_file(&mut self, word: &str, language_given: bool) {
        let path = PathBuf::from(word);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_cxx = ["cc", "cp", "cpp", "cxx", "c++", "C", "CPP", "ii"].contains(&extension);
        if is_cxx && !language_given {
            self.language = Language::Cxx;
        }
        let is_source = language_given || is_cxx || ["c", "i", "s", "S"].contains(&extension);
        self.words.push(if is_source { Word::Source(path) } else { Word::Object(path) });
    }

    /// Returns the sources, in order.
    pub fn sources(&self) -> impl Iterator<Item = &Path> {
        self.words.iter().filter_map(|word| match word {
            Word::Source(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns objects and libraries given as files, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Path> {
        self.words.iter().filter_map(|word| match word {
            Word::Object(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Returns the values of an option that may be attached to it or in the next argument, such as `-l`, in
    /// order.
    pub fn options<'a>(&'a self, option: &'a str) -> impl Iterator<Item = &'a str> {
        self.words.iter().filter_map(move |word| match word {
            Word::Option(words) if words[0] == option => words.get(1).map(String::as_str),
            Word::Option(words) => words[0].strip_prefix(option).filter(|value| !value.is_empty()),
            _ => None,
        })
    }

    /// Returns the options that affect the meaning of a source: macro definitions.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        self.words
            .iter()
            .flat_map(|word| match word {
                Word::Option(words) if words[0].starts_with("-D") || words[0].starts_with("-U") => &words[..],
                _ => &[],
            })
            .map(String::as_str)
    }

    /// Returns the arguments for the compiler of `isa`, with sources and objects replaced by the results of
    /// `file`. Options that write files beside the output are kept for the `first` compiler only.
    #[must_use]
    pub fn words_for(
        &self,
        isa: Isa,
        first: bool,
        mut file: impl FnMut(&Word) -> Option<PathBuf>,
    ) -> Vec<String> {
        let mut words = Vec::new();
        for word in &self.words {
            match word {
                Word::For(of, word) if *of == isa => words.push(word.clone()),
                Word::For(..) => {}
                Word::Option(option) if isa != Isa::current() && HOST_CPU_OPTIONS.contains(&&*option[0]) => {}
                Word::Option(option) if !first => words.extend(without_side_files(option)),
                Word::Option(option) => words.extend(option.iter().cloned()),
                Word::Source(_) | Word::Object(_) => {
                    words.extend(file(word).map(|path| path.to_string_lossy().into_owned()));
                }
            }
        }
        words
    }
}

/// Maximum nesting depth of response files.
const MAX_RESPONSE_FILE_DEPTH: usize = 16;

/// Returns the arguments with `@file` replaced by the file's content. As in gcc, an unreadable file stays an
/// ordinary argument.
fn expand_response_files(words: &[String]) -> Vec<String> {
    fn expand(words: &[String], depth: usize, all: &mut Vec<String>) {
        for word in words {
            let file = word.strip_prefix('@').filter(|_| depth < MAX_RESPONSE_FILE_DEPTH);
            match file.and_then(|file| std::fs::read_to_string(file).ok()) {
                Some(text) => expand(&split(&text), depth + 1, all),
                None => all.push(word.clone()),
            }
        }
    }
    let mut all = Vec::new();
    expand(words, 0, &mut all);
    all
}

/// Splits a response file into arguments at white space that is neither quoted nor escaped.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(at) = characters.next() {
        match (at, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (at, Some(open)) if at == open => quote = None,
            ('\'' | '"', None) => {
                word.get_or_insert_default();
                quote = Some(at);
            }
            (at, None) if at.is_whitespace() => words.extend(word.take()),
            (at, _) => word.get_or_insert_default().push(at),
        }
    }
    words.extend(word);
    words
}

impl Goal {
    fn advance_by(self, option: &str) -> Goal {
        let text = ["-E", "-S", "-M", "-MM", "-fsyntax-only", "--version", "-dumpversion", "-dumpmachine"];
        let prints_info = option.starts_with("-print-") || option.starts_with("--help");
        match (self, option) {
            (_, option) if text.contains(&option) || prints_info => Goal::Text,
            (Goal::Program, "-c") => Goal::Objects,
            (goal, _) => goal,
        }
    }
}

/// Returns an option without the parts that make the compiler or linker write a file beside its output; empty
/// if there are no others.
fn without_side_files(option: &[String]) -> Vec<String> {
    let word = option[0].as_str();
    if SIDE_FILES.iter().any(|known| word.starts_with(known)) {
        return Vec::new();
    }
    let Some(linker) = word.strip_prefix("-Wl,") else { return option.to_vec() };
    let mut kept = String::new();
    let mut parts = linker.split(',');
    while let Some(part) = parts.next() {
        match part.trim_start_matches('-') {
            "Map" => drop(parts.next()),
            map if map.starts_with("Map=") => {}
            _ => kept = kept + "," + part,
        }
    }
    if kept.is_empty() { Vec::new() } else { vec![format!("-Wl{kept}")] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> CommandLine {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        CommandLine::read(&words, false).unwrap()
    }

    fn paths<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<String> {
        paths.map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn response_files_are_expanded() {
        assert_eq!(
            split("-c  a.c\n'-D A B' -I\"x y\" b\\ c \"\" d\\\""),
            ["-c", "a.c", "-D A B", "-Ix y", "b c", "", "d\""]
        );
        let file = std::env::temp_dir().join(format!("tombolo-words-{}", std::process::id()));
        // A file that includes itself ends at the depth limit as an ordinary argument.
        let itself = format!("@{}", file.display());
        std::fs::write(&file, format!("-O2 a.c {itself}")).unwrap();
        let words = expand_response_files(&["-c".to_owned(), itself.clone(), "@/nonexistent".to_owned()]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(
            (&words[0], &words[1], words.last().unwrap().as_str()),
            (&"-c".into(), &"-O2".into(), "@/nonexistent")
        );
        assert_eq!(words.iter().filter(|word| *word == "a.c").count(), MAX_RESPONSE_FILE_DEPTH);
        assert_eq!(words.iter().filter(|word| **word == itself).count(), 1);
    }

    #[test]
    fn files_are_distinguished_from_option_values() {
        let line = read("-O2 -I include -D X=1 main.c -include all.c util.o -L lib -lfoo libbar.a -o job");
        assert_eq!(paths(line.sources()), ["main.c"]);
        assert_eq!(paths(line.objects()), ["util.o", "libbar.a"]);
        assert_eq!(line.output.as_deref(), Some(Path::new("job")));
        assert_eq!((line.goal, line.language), (Goal::Program, Language::C));
        assert_eq!(line.definitions().collect::<Vec<_>>(), ["-D", "X=1"]);
        assert_eq!(read("-ojob a.c").output.as_deref(), Some(Path::new("job")));
        assert_eq!(paths(read("-x c data.txt -x none lib.o").sources()), ["data.txt"]);
    }

    #[test]
    fn goal_and_language_are_detected() {
        assert_eq!(read("-c a.c").goal, Goal::Objects);
        assert_eq!(read("-c -M a.c").goal, Goal::Text);
        assert_eq!(read("-E a.c").goal, Goal::Text);
        assert_eq!(read("--version").goal, Goal::Text);
        assert_eq!(read("-v").goal, Goal::Text);
        assert_eq!(read("a.cc b.c").language, Language::Cxx);
        assert_eq!(CommandLine::read(&["a.c".to_owned()], true).unwrap().language, Language::Cxx);
    }

    #[test]
    fn single_output_options_are_refused() {
        let refused = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            CommandLine::parse_multi_target(&words, false).map_err(|error| error.to_string())
        };
        assert!(refused("-c a.c b.c -o c.o").unwrap_err().contains("-o names one file"));
        assert!(refused("-x c -").unwrap_err().contains("standard input"));
        assert!(refused("-E -").is_ok());
        let line = refused("-c in/a.c in/b.c").unwrap();
        assert_eq!(line.object_path_of(Path::new("in/b.c")), Path::new("b.o"));
    }

    #[test]
    fn isa_specific_options_go_to_its_compiler_only() {
        let line = read("-O2 -Xarch_aarch64 -mcpu=neoverse-n1 -MMD -MF a.d -c a.c");
        let words = |isa, first| line.words_for(isa, first, |_| Some("there.c".into())).join(" ");
        assert_eq!(words(Isa::Aarch64, false), "-O2 -mcpu=neoverse-n1 -c there.c");
        assert_eq!(words(Isa::X86_64, true), "-O2 -MMD -MF a.d -c there.c");
        let line = read("-Wl,-Map=a.map,-s -Wl,-Map,a.map -Wl,-z,now,-Map,m -save-temps=obj -g a.c");
        assert_eq!(line.words_for(Isa::Aarch64, false, |_| None).join(" "), "-Wl,-s -Wl,-z,now -g");
        assert_eq!(line.words_for(Isa::Aarch64, true, |_| None).len(), 5);
        let other = if Isa::current() == Isa::X86_64 { Isa::Aarch64 } else { Isa::X86_64 };
        let line = read("-m64 -march=native -mtune=native -march=rv64gc a.c");
        assert_eq!(line.words_for(other, true, |_| None), ["-march=rv64gc"]);
        assert_eq!(line.words_for(Isa::current(), true, |_| None).len(), 4);
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            CommandLine::read(&words, false).unwrap_err().to_string()
        };
        assert!(refused(&["-Xarch_arm64", "-g"]).contains("-Xarch_arm64"));
        assert!(refused(&["a.c", "-o"]).contains("-o needs a value"));
    }
}
