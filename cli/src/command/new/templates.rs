//! Contents of projects: the files in `cli/templates`, with the project's values in place of `@word@`.

use tombolo_idl::go::{GoOptions, generate};

use super::{Flavour, Language};
use crate::failure::Failure;

/// Files of a template: path in the project, and text.
type Files = &'static [(&'static str, &'static str)];

macro_rules! files {
    ($folder:literal: $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../templates/", $folder, "/", $file)))),+]
    };
}

/// Returns the files that a program consists of.
pub(super) fn files(language: Language, flavour: Flavour) -> Files {
    match (language, flavour) {
        (Language::Rust, Flavour::Plain) => files!("rust/plain": "Cargo.toml", "src/main.rs"),
        (Language::Rust, Flavour::Typed) => {
            files!("rust/typed": "Cargo.toml", "build.rs", "greeter.tbl", "src/main.rs")
        }
        (Language::Rust, Flavour::Pipeline) => files!("rust/pipeline": "Cargo.toml", "src/main.rs"),
        (Language::C, Flavour::Plain) => files!("c/plain": "main.c"),
        (Language::C, Flavour::Typed) => files!("c/typed": "greeter.tbl", "main.c"),
        (Language::C, Flavour::Pipeline) => files!("c/pipeline": "main.c"),
        (Language::Go, Flavour::Plain) => files!("go/plain": "go.mod", "main.go"),
        (Language::Go, Flavour::Typed) => files!("go/typed": "go.mod", "greeter.tbl", "main.go"),
        // Refused earlier: the package for Go has no buffers.
        (Language::Go, Flavour::Pipeline) => &[],
        (Language::Python, Flavour::Plain) => files!("python/plain": "main.py"),
        (Language::Python, Flavour::Typed) => files!("python/typed": "greeter.tbl", "main.py"),
        (Language::Python, Flavour::Pipeline) => files!("python/pipeline": "main.py"),
    }
}

/// Values that differ between projects.
pub(super) struct Values<'a> {
    /// Name of the project.
    pub(super) name: &'a str,
    /// Folder of the crates and the module for Go.
    pub(super) rust: &'a str,
    /// Argument for pip to install.
    pub(super) python: &'a str,
    /// Commands that build and run it.
    pub(super) steps: &'a [String],
}

/// Returns the text of a file in this project.
pub(super) fn fill_template(template: &str, values: &Values<'_>) -> String {
    // In manifests, module files and program texts the path is in quotes.
    let rust = values.rust.replace('\\', "\\\\").replace('"', "\\\"");
    template.replace("@name@", values.name).replace("@rust@", &rust)
}

const README: &str = include_str!("../../../templates/README.md");

/// Returns the readme of a project.
pub(super) fn readme(language: Language, flavour: Flavour, values: &Values<'_>) -> String {
    let what = match flavour {
        Flavour::Plain => "A message goes back and forth between two domains",
        Flavour::Typed => "Clients call a service over the typed interface of `greeter.tbl`",
        Flavour::Pipeline => "Buffers go through three domains, and none of them is copied",
    };
    let more = match language {
        Language::Rust => "The crates of Tombolo are those of the command that made this project: `Cargo.toml` says where they lie.".to_owned(),
        Language::C => "`tombolo build` finds `tombolo.h` and the library for each processor, and writes the headers of interface files \
                        (`.tbl`). `tombolo build -- -lm` adds options for the compiler.".to_owned(),
        Language::Go => "The module of Tombolo is that of the command that made this project: `go.mod` says where it lies. `go generate` writes the \
                        stubs of an interface file (`.tbl`) anew.".to_owned(),
        Language::Python => format!(
            "The package is installed by `pip install {}`. A node that is not this host needs a Python of its own: see the book's chapter \
             on Python.",
            values.python
        ),
    };
    let readme =
        README.replace("@what@", what).replace("@steps@", &values.steps.join("\n")).replace("@more@", &more);
    fill_template(&readme, values)
}

/// Returns the stubs of the interface of typed projects in Go, as `tombolo idl compile` writes them.
pub(super) fn stubs_in_go() -> Result<String, Failure> {
    let text = include_str!("../../../templates/go/typed/greeter.tbl");
    let mistake = |_| Failure::Other("the interface of the template has a mistake".into());
    let model = tombolo_idl::compile(text).map_err(mistake)?;
    let options = GoOptions { origin: "greeter.tbl".to_owned(), ..GoOptions::default() };
    generate(&model, &options).map_err(|error| Failure::Other(error.into()))
}

/// Returns the content of `.gitignore`.
pub(super) fn gitignore(language: Language) -> &'static str {
    match language {
        Language::Rust => "/target\n*.tbi\n",
        Language::C | Language::Go => "*.tbi\n",
        Language::Python => "__pycache__\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(Language, Flavour); 11] = [
        (Language::Rust, Flavour::Plain),
        (Language::Rust, Flavour::Typed),
        (Language::Rust, Flavour::Pipeline),
        (Language::C, Flavour::Plain),
        (Language::C, Flavour::Typed),
        (Language::C, Flavour::Pipeline),
        (Language::Go, Flavour::Plain),
        (Language::Go, Flavour::Typed),
        (Language::Python, Flavour::Plain),
        (Language::Python, Flavour::Typed),
        (Language::Python, Flavour::Pipeline),
    ];

    #[test]
    fn no_placeholder_is_left() {
        for (language, flavour) in ALL {
            let steps = language.steps(flavour, "hello");
            let values = Values { name: "hello", rust: "/tree", python: "/tree/python", steps: &steps };
            let texts = files(language, flavour).iter().map(|(_, text)| fill_template(text, &values));
            for text in texts.chain([readme(language, flavour, &values)]) {
                for word in ["name", "rust", "python", "what", "steps", "more"] {
                    assert!(!text.contains(&format!("@{word}@")), "@{word}@ in\n{text}");
                }
            }
        }
    }

    #[test]
    fn the_plain_program_in_rust_is_the_example() {
        let example = include_str!("../../../../examples/pingpong/src/main.rs");
        let values = Values { name: "pingpong", rust: "", python: "", steps: &[] };
        let (_, program) = files(Language::Rust, Flavour::Plain)[1];
        assert_eq!(
            fill_template(program, &values),
            example,
            "copy it to cli/templates/rust/plain/src/main.rs"
        );
    }

    #[test]
    fn the_plain_program_in_go_is_the_example() {
        let example = include_str!("../../../../examples/go/pingpong/main.go");
        let values = Values { name: "pingpong", rust: "", python: "", steps: &[] };
        let (_, program) = files(Language::Go, Flavour::Plain)[1];
        assert_eq!(fill_template(program, &values), example, "copy it to cli/templates/go/plain/main.go");
    }

    #[test]
    fn the_interface_is_the_same_in_every_language() {
        let interface = |language| {
            let files = files(language, Flavour::Typed);
            files.iter().find(|(path, _)| *path == "greeter.tbl").map(|(_, text)| *text)
        };
        let rust = interface(Language::Rust);
        assert!(rust.is_some_and(|text| tombolo_idl::format(text).is_ok_and(|tidy| tidy == text)));
        assert!(
            [Language::C, Language::Go, Language::Python]
                .into_iter()
                .all(|language| interface(language) == rust)
        );
    }
}
