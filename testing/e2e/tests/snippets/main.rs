//! Every block of README and the book is compiled outside the workspace, run, or says why not.
//!
//! What is done with a block follows from its language and its marks ([`extract`]):
//!
//! | language | check |
//! |---|---|
//! | `rust` | compiled by cargo in a project that depends on the crate `tombolo`; a fragment as the body of a function |
//! | `c` | compiled by gcc with the headers that are installed |
//! | `python` | parsed; names, and what is taken from the package, have to be there |
//! | `tbl`, `toml`, `json` | read by the compiler of interfaces, the reader of machine files, a JSON parser |
//! | `sh`, `console` | every command parsed by its program; with the mark `run`, run |
//! | others | need the mark `output`, `from` or `unchecked` |

mod extract;
mod links;
mod outside;
mod session;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tombolo::Isa;
use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, tombolo};

use extract::{Mark, Snippet, snippets};
use outside::{Project, check_c, check_python};
use shell::Programs;

/// Pages that `cargo xtask codegen` writes; tidy and `codegen --check` refuse stale ones.
const GENERATED: [&str; 2] = ["docs/book/src/cli.md", "docs/book/src/reference/"];

/// What is quoted has to be a file that is compiled outside the workspace, or by another test.
const QUOTED: [&str; 4] = ["examples/", "interfaces/", "machines/", "bench/"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn is_generated(page: &str) -> bool {
    GENERATED.iter().any(|start| page.starts_with(start))
}

/// README and the pages of the book, from the root of the tree.
fn pages() -> Vec<String> {
    let mut folders = vec![PathBuf::from("docs/book/src")];
    let mut pages = vec!["README.md".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(tree().join(&folder)).expect("a folder of the book") {
            let entry = entry.expect("an entry of the book");
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path.to_string_lossy().into_owned());
            }
        }
    }
    pages.sort();
    pages
}

/// All code blocks of the documentation.
fn blocks() -> Vec<Snippet> {
    let written = pages().into_iter().filter(|page| !is_generated(page));
    let of_page = |page: String| {
        let text = fs::read_to_string(tree().join(&page)).expect("a page");
        snippets(&page, &text).unwrap_or_else(|error| panic!("{error}"))
    };
    written.flat_map(of_page).collect()
}

/// Those in a language that are to be checked.
fn in_language<'a>(blocks: &'a [Snippet], language: &str) -> Vec<&'a Snippet> {
    blocks.iter().filter(|block| block.language == language && block.unchecked().is_none()).collect()
}

/// Checks what needs neither cargo nor a machine.
fn check(block: &Snippet, programs: &mut Programs, folder: &Path) -> Result<(), String> {
    if block.unchecked().is_some() {
        return Ok(());
    }
    if let Some(path) = block.from() {
        return check_quoted(block, path);
    }
    match &*block.language {
        // They are compiled together, see below.
        "rust" | "python" => Ok(()),
        "c" => check_c(block, folder),
        "tbl" => {
            tombolo_idl::compile(&block.text).map(drop).map_err(|mistakes| format!("{block}: {mistakes:?}"))
        }
        "toml" => check_toml(block),
        "json" => serde_json::from_str::<serde_json::Value>(&block.text)
            .map(drop)
            .map_err(|error| format!("{block}: {error}")),
        "sh" | "console" => {
            for words in shell::commands(block)? {
                programs.check(&words).map_err(|error| format!("{block}: {error}"))?;
            }
            Ok(())
        }
        _ if block.marks.contains(&Mark::Output) => Ok(()),
        language => {
            Err(format!("{block}: how to check `{language}`? Mark it as `output`, `from` or `unchecked`"))
        }
    }
}

fn check_quoted(block: &Snippet, path: &str) -> Result<(), String> {
    if !QUOTED.iter().any(|folder| path.starts_with(folder)) {
        return Err(format!("{block}: {path} is compiled by no test"));
    }
    let file = fs::read_to_string(tree().join(path)).map_err(|error| format!("{block}: {path}: {error}"))?;
    // Whole lines of it, with whatever between them where there is a line of `…`.
    let mut rest = format!("\n{file}");
    for part in block.text.split("…\n") {
        let part = format!("\n{}\n", part.trim_matches('\n'));
        let at = rest.find(&part).ok_or_else(|| format!("{block}: {path} has no lines{part}"))?;
        rest = rest.split_off(at);
    }
    Ok(())
}

/// A machine file, or a part of one.
fn check_toml(block: &Snippet) -> Result<(), String> {
    let mut text = block.text.clone();
    if !text.contains("kind = \"host\"") {
        text.push_str("\n[[node]]\nname = \"host\"\nkind = \"host\"\n");
    }
    if !text.starts_with("name") {
        text.insert_str(0, "name = \"part\"\n");
    }
    let path = tree().join("machines/part.toml");
    let machine = tombolo_machine::Machine::parse(&text, &path, Isa::current());
    machine.map(drop).map_err(|report| format!("{block}: {}", report.render(false)))
}

/// What `tombolo` parses is the command of the kit; it runs where no machine is.
fn programs() -> Programs {
    let makefile = fs::read_to_string(tree().join("Makefile")).expect("the Makefile");
    let command = || {
        let mut command = std::process::Command::new(tombolo());
        command.current_dir(std::env::temp_dir()).env_remove("TOMBOLO_MACHINE");
        command
    };
    Programs::new(command, makefile)
}

fn fail_for(problems: &[String]) {
    assert!(problems.is_empty(), "{} blocks:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_block_is_checked_or_says_why_not() {
    let machine = Machine::new(&MachineFile::host());
    let mut programs = programs();
    let all = blocks();
    assert!(all.len() > 100, "{} blocks", all.len());
    let checked = all.iter().map(|block| check(block, &mut programs, machine.folder()));
    let mut problems: Vec<String> = checked.filter_map(Result::err).collect();
    let python: Vec<&Snippet> =
        in_language(&all, "python").into_iter().filter(|block| block.from().is_none()).collect();
    if let Some(interpreter) = Python::of(&machine) {
        problems.extend(check_python(&python, &interpreter, &machine).err());
    }
    fail_for(&problems);
}

/// Compiles all blocks of Rust, once for all tests.
fn compile_rust() {
    static COMPILED: OnceLock<Result<(), String>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let machine = Machine::new(&MachineFile::host());
        let project = Project::new(&machine.folder().join("project"));
        let all = blocks();
        let rust = in_language(&all, "rust");
        assert!(rust.len() > 20, "{} blocks", rust.len());
        project.add(&rust);
        project.check()
    });
    compiled.as_ref().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn rust_compiles_in_a_project_outside_the_workspace() {
    compile_rust();
}

#[test]
fn what_pages_say_to_run_runs() {
    compile_rust();
    let all = blocks();
    let mut sessions = 0;
    for page in pages() {
        let steps: Vec<&Snippet> = all.iter().filter(|block| block.page == page).collect();
        if !steps.iter().any(|block| block.marks.contains(&Mark::Run)) {
            continue;
        }
        let is_run = |block: &&&Snippet| block.marks.contains(&Mark::Run);
        let brings_up = steps.iter().filter(is_run).any(|block| block.text.contains("tombolo up"));
        let mut session = session::Session::new(!brings_up);
        for step in steps {
            session.step(step).unwrap_or_else(|error| panic!("{error}"));
        }
        session.end();
        sessions += 1;
    }
    assert!(sessions > 0, "no page is run");
}

#[test]
fn links_lead_somewhere() {
    let root = tree();
    let more = ["ARCHITECTURE.md", "CAVEATS.md", "CONTRIBUTING.md"].map(str::to_owned);
    let pages: Vec<String> = pages().into_iter().chain(more).collect();
    fail_for(&pages.iter().flat_map(|page| links::broken(&root, page)).collect::<Vec<_>>());
    let summary = fs::read_to_string(root.join("docs/book/src/SUMMARY.md")).expect("the table of contents");
    let of_book = pages.iter().filter_map(|page| page.strip_prefix("docs/book/src/"));
    let left_out: Vec<&str> =
        of_book.filter(|page| *page != "SUMMARY.md" && !summary.contains(&format!("]({page})"))).collect();
    assert!(left_out.is_empty(), "the table of contents lacks {left_out:?}");
}

mod harness {
    //! Whether the harness would notice: a broken block in each language.

    use super::*;

    fn block(language: &str, text: &str) -> Snippet {
        let page = format!("```{language}\n{text}\n```\n");
        snippets("page.md", &page).expect("a block").remove(0)
    }

    #[test]
    fn a_broken_block_is_found_in_every_language() {
        let machine = Machine::new(&MachineFile::host());
        let mut programs = programs();
        for (language, text, part) in [
            ("c", "tombolo_channel *channel = tombolo_conect();", "page.md"),
            ("tbl", "package a;\nstruct B { @1 c: Missing }", "Missing"),
            ("toml", "[[node]]\nname = \"x\"\nkind = \"user\"\nisa = \"z80\"", "z80"),
            ("toml", "[limits]\nbackblog = 2", "backblog"),
            ("json", "{,}", "page.md:1"),
            ("sh", "tombolo rum x.tbi", "tombolo rum"),
            ("sh", "tombolo run --onn host x.tbi", "--onn"),
            ("sh", "tombolo run --count many x.tbi", "many"),
            ("sh", "tombolo trace record -o a -- tombolo rum", "tombolo rum"),
            ("sh", "make kti", "no target `kti`"),
            ("sh", "frobnicate", "not a program"),
            ("console", "no prompt", "after `$ `"),
            ("text", "some output", "how to check"),
            ("", "no language", "how to check"),
        ] {
            let error = check(&block(language, text), &mut programs, machine.folder()).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        for (language, text) in [
            ("sh", "tombolo run --on host,arm0 x.tbi --whatever # the program's"),
            ("toml", "[limits]\nbacklog = 2"),
            ("c", "static int one(void) { return 1; }"),
        ] {
            check(&block(language, text), &mut programs, machine.folder()).expect(text);
        }
    }

    #[test]
    fn a_block_that_quotes_is_compared_with_its_file() {
        let quoted = |text: &str| {
            let page = format!("<!-- snippet: from examples/edges/edges.tbl -->\n```tbl\n{text}\n```\n");
            let block = snippets("page.md", &page).expect("a block").remove(0);
            check_quoted(&block, block.from().expect("a file"))
        };
        quoted("package tombolo.example;\n…\n    /// The buffer does not have the length of a frame.")
            .expect("it is there");
        assert!(quoted("package tombolo.exampel;").is_err());
    }

    #[test]
    fn broken_python_is_found() {
        let machine = Machine::new(&MachineFile::host());
        let Some(python) = Python::of(&machine) else { return };
        let page = "```python\ndomain = tombolo.atach()\nprint(nothing)\n```\n```python\ndef broken(:\n    pass\n```\n";
        let blocks = snippets("page.md", page).expect("two blocks");
        let blocks: Vec<&Snippet> = blocks.iter().collect();
        let said = check_python(&blocks, &python, &machine).expect_err("three mistakes");
        for part in ["has no `atach`", "`nothing` is made nowhere", "invalid syntax"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn broken_rust_is_found_by_its_page_and_line() {
        let machine = Machine::new(&MachineFile::host());
        let project = Project::new(&machine.folder().join("project"));
        let blocks = [block("rust", "let domain: u8 = Domain::attach()?;")];
        project.add(&blocks.iter().collect::<Vec<_>>());
        let said = project.check().expect_err("another type");
        assert!(said.contains("page_1.rs") && said.contains("expected `u8`"), "{said}");
    }
}
