//! Headers and library agree, and compilers accept the headers without warnings.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_c::Status;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> String {
    [
        "tombolo.h",
        "tombolo/capabilities.h",
        "tombolo/files.h",
        "tombolo/group.h",
        "tombolo/hubs.h",
        "tombolo/opening.h",
        "tombolo/tasks.h",
    ]
    .map(|name| fs::read_to_string(folder().join("include").join(name)).unwrap())
    .concat()
}

/// Returns the texts of all files in a folder and its subfolders.
fn sources(folder: &Path) -> Vec<String> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.map(|path| match path.is_dir() {
        true => sources(&path),
        false => vec![fs::read_to_string(path).unwrap()],
    });
    texts.flatten().collect()
}

/// Returns the texts between each `start` and the following `end`.
fn between<'a>(text: &'a str, start: &str, end: char) -> Vec<&'a str> {
    text.split(start).skip(1).filter_map(|rest| rest.split_once(end)).map(|(found, _)| found.trim()).collect()
}

#[test]
fn every_function_is_declared_and_every_declaration_is_one() {
    let mut defined = BTreeSet::new();
    for text in sources(&folder().join("src")) {
        defined.extend(between(&text, "extern \"C\" fn ", '(').into_iter().map(str::to_owned));
    }
    let header = header();
    let code: String =
        header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, rest)| rest)).collect();
    let words = code.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    let followed = |word: &str| code.contains(&format!("{word}("));
    let declared: BTreeSet<String> =
        words.filter(|word| word.starts_with("tombolo_") && followed(word)).map(str::to_owned).collect();
    assert!(defined.len() > 30, "{defined:?}");
    assert_eq!(declared, defined);
}

#[test]
fn statuses_have_the_numbers_and_names_of_the_header() {
    let header = header();
    let list = header.split("enum {").nth(1).and_then(|rest| rest.split_once("};")).unwrap().0;
    let line = |line: &str| {
        let (name, rest) = line.trim().split_once(" = ")?;
        let number = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    let listed: Vec<(String, i32)> = list.lines().filter_map(line).collect();
    let known = Status::ALL.iter().map(|status| (status.name().to_str().unwrap().to_owned(), *status as i32));
    assert_eq!(listed, known.collect::<Vec<_>>());
}

fn compiles(compiler: &str, standard: &str, extra: &[&str]) {
    let source = std::env::temp_dir().join(format!("tombolo-header-{}-{compiler}", std::process::id()));
    let language = if compiler == "g++" { "c++" } else { "c" };
    let file = source.with_extension(language);
    let includes: String = extra.iter().map(|header| format!("#include <{header}>\n")).collect();
    fs::write(&file, includes + "int main(void) { return 0; }\n").unwrap();
    let output = Command::new(compiler)
        .args([
            standard,
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-Wconversion",
            "-Wshadow",
            "-fsyntax-only",
            "-I",
        ])
        .args([&folder().join("include"), Path::new(&file)])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{compiler} {standard}:\n{}", String::from_utf8_lossy(&output.stderr));
}

const HEADERS: &[&str] = &[
    "tombolo/wire.h",
    "tombolo/interface.h",
    "tombolo/files.h",
    "tombolo/group.h",
    "tombolo/hubs.h",
    "tombolo/hub_names.h",
    "tombolo/opening.h",
    "tombolo.h",
];

#[test]
fn headers_compile_without_warnings() {
    compiles("gcc", "-std=c11", HEADERS);
    compiles("gcc", "-std=c17", HEADERS);
    if Command::new("g++").arg("--version").output().is_ok() {
        compiles("g++", "-std=c++11", HEADERS);
        compiles("g++", "-std=c++20", HEADERS);
    } else {
        // Past the test harness, which hides the output of passing tests.
        let _ = writeln!(std::io::stdout(), "\nSKIPPED C++: there is no g++");
    }
}
