//! Tests that the headers compile as C and C++, and match the library's exports.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_rcce::abi::Comm;
use tombolo_rcce::abi::nonblocking::Request;
use tombolo_rcce::abi::waitlist::{Element, WaitList};
use tombolo_rcce::failure::{Code, MAX_ERROR_STRING};
use tombolo_rcce::layout::{DEFAULT_BUFFER_BYTES, MAX_RANKS};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Compiles a source text that includes the headers, and fails on warnings.
fn compiles(compiler: &str, standard: &str, extension: &str, text: &str) {
    let source = std::env::temp_dir().join(format!("rcce-{}-{standard}.{extension}", std::process::id()));
    fs::write(&source, text).expect("a file");
    let output = Command::new(compiler)
        .args([&format!("-std={standard}"), "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .args([&folder().join("include"), &source])
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    fs::remove_file(&source).expect("it was there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn header_types_match_the_library() {
    let sizes = [
        ("RCCE_COMM", size_of::<Comm>()),
        ("iRCCE_SEND_REQUEST", size_of::<Request>()),
        ("iRCCE_RECV_REQUEST", size_of::<Request>()),
        ("iRCCE_WAIT_LIST", size_of::<WaitList>()),
        ("iRCCE_WAIT_LISTELEM", size_of::<Element>()),
    ];
    let numbers = [
        ("RCCE_MAXNP", MAX_RANKS as i64),
        ("RCCE_BUFF_SIZE_MAX", DEFAULT_BUFFER_BYTES as i64),
        ("RCCE_MAX_ERROR_STRING", MAX_ERROR_STRING as i64),
        ("RCCE_ERROR", Code::Error as i64),
        ("RCCE_ERROR_TARGET", Code::Target as i64),
        ("RCCE_ERROR_SOURCE", Code::Source as i64),
        ("RCCE_ERROR_ID", Code::Id as i64),
        ("RCCE_ERROR_MESSAGE_LENGTH", Code::MessageLength as i64),
        ("RCCE_ERROR_FLAG_UNDEFINED", Code::FlagUndefined as i64),
        ("RCCE_ERROR_NUM_UES", Code::NumUes as i64),
        ("RCCE_ERROR_DATA_OVERLAP", Code::DataOverlap as i64),
        ("RCCE_ERROR_ALIGNMENT", Code::Alignment as i64),
        ("RCCE_ERROR_DEBUG_FLAG", Code::DebugFlag as i64),
        ("RCCE_ERROR_FLAG_NOT_IN_COMM_BUFFER", Code::FlagNotInBuffer as i64),
        ("RCCE_ERROR_FLAG_STATUS_UNDEFINED", Code::FlagStatus as i64),
        ("RCCE_ERROR_FLAG_NOT_ALLOCATED", Code::FlagNotAllocated as i64),
        ("RCCE_ERROR_VAL_UNDEFINED", Code::ValUndefined as i64),
        ("RCCE_ERROR_INVALID_ERROR_CODE", Code::InvalidErrorCode as i64),
        ("RCCE_ERROR_COMM_UNDEFINED", Code::CommUndefined as i64),
        ("RCCE_ERROR_ILLEGAL_OP", Code::IllegalOp as i64),
        ("RCCE_ERROR_ILLEGAL_TYPE", Code::IllegalType as i64),
        ("RCCE_ERROR_MALLOC", Code::Malloc as i64),
        ("RCCE_ERROR_COMM_INITIALIZED", Code::CommInitialized as i64),
        ("RCCE_ERROR_NO_POWER_MANAGEMENT", Code::NoPowerManagement as i64),
        ("iRCCE_MAX_TAGGED_LEN", tombolo_onesided::FLAG_WORDS as i64 * 8),
    ];
    let mut text = "#include <iRCCE.h>\n".to_owned();
    for (name, size) in sizes {
        text += &format!("_Static_assert(sizeof({name}) == {size}, \"{name}\");\n");
    }
    for (name, number) in numbers {
        text += &format!("_Static_assert({name} == {number}, \"{name}\");\n");
    }
    compiles("gcc", "c11", "c", &text);
}

#[test]
fn both_interfaces_compile_in_both_languages() {
    for gory in ["", "#define GORY\n"] {
        let text = format!(
            "{gory}#include <iRCCE.h>\n#include <RCCE.h>\nint RCCE_APP(int argc, char **argv) {{\n    return RCCE_init(&argc, &argv);\n}}\n"
        );
        compiles("gcc", "c99", "c", &text);
        compiles("g++", "c++11", "cc", &text);
    }
}

/// Returns the functions that a header declares: the word before a parenthesis at the start of a declaration.
fn declared(header: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(folder().join("include").join(header)).expect("the header");
    let names = text
        .lines()
        .filter(|line| ["int ", "double ", "void ", "t_vcharp "].iter().any(|kind| line.starts_with(kind)));
    names.filter_map(|line| line.split('(').next()?.split(' ').next_back()).map(str::to_owned).collect()
}

#[test]
fn every_function_of_the_headers_is_in_the_library() {
    let mut source = String::new();
    for entry in fs::read_dir(folder().join("src/abi")).expect("the folder") {
        source += &fs::read_to_string(entry.expect("an entry").path()).expect("a file");
    }
    let names: BTreeSet<String> = declared("RCCE.h").union(&declared("iRCCE.h")).cloned().collect();
    assert!(names.len() >= 80, "{}", names.len());
    for name in names {
        assert!(source.contains(&format!("extern \"C\" fn {name}(")), "{name} is declared and not there");
    }
}
