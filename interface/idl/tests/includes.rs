//! Compilation of files that include other files.

use std::fs;
use std::path::{Path, PathBuf};

use tombolo_idl::rust::{RustOptions, generate};
use tombolo_idl::{FileError, Model, compile_file};

/// Temporary folder with interface files. Removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn with(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("includes-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Folder(folder)
    }

    fn model(&self, file: &str) -> Model {
        compile_file(self.0.join(file)).unwrap().model
    }

    /// Compiles an invalid file and returns the rendered mistakes, with paths relative to the folder.
    fn shown(&self, file: &str) -> String {
        let Err(FileError::Mistakes(mistakes)) = compile_file(self.0.join(file)) else {
            panic!("no mistakes")
        };
        mistakes.render(false).replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const COMMON: &str =
    "package p;\nconst MAX = 4;\nstruct Point { @1 x: u32 }\ninterface Unseen version 1 { @1 call a(); }\n";

#[test]
fn types_and_constants_of_other_files_are_used() {
    let folder = Folder::with(
        "used",
        &[
            ("common.tbl", COMMON),
            ("sub/more.tbl", "package p;\nuse \"../common.tbl\";\nenum Way : u8 { up = 0 }\n"),
            (
                "main.tbl",
                "package p;\nuse \"common.tbl\";\nuse \"sub/more.tbl\";\n\
                 interface Main version 1 { @1 call go(to: [Point; ..MAX], way: Way); }\n",
            ),
        ],
    );
    let compiled = compile_file(folder.0.join("main.tbl")).unwrap();
    assert_eq!(compiled.files.len(), 3);
    let model = compiled.model;
    // Each file is included once, without its interfaces.
    assert_eq!(model.interfaces.iter().map(|interface| &*interface.name).collect::<Vec<_>>(), ["Main"]);
    let included: Vec<_> = model.included.iter().map(|(name, file)| (&**name, &**file)).collect();
    assert_eq!(included, [("MAX", "common"), ("Point", "common"), ("Way", "more")]);
    let rust = generate(&model, &RustOptions::default()).unwrap();
    assert!(rust.contains("use super::common::*;") && rust.contains("use super::more::*;"), "{rust}");
    assert!(rust.contains("rt::List<'m, PointView<'m>, 4>") && !rust.contains("pub struct Point "), "{rust}");
    // The result is the same as with all declarations in one file.
    let whole = tombolo_idl::compile(
        "package p;\nconst MAX = 4;\nstruct Point { @1 x: u32 }\nenum Way : u8 { up = 0 }\n\
         interface Main version 1 { @1 call go(to: [Point; ..MAX], way: Way); }\n",
    );
    assert_eq!(whole.unwrap().interfaces, model.interfaces);
}

#[test]
fn mistakes_name_the_file_and_the_line_that_they_are_in() {
    let folder = Folder::with(
        "mistakes",
        &[
            ("common.tbl", COMMON),
            ("broken.tbl", "package p;\nstruct Broken { @1 a: u9 }\n"),
            ("syntax.tbl", "package p;\nstruct Broken { @1 a u8 }\n"),
            ("uses_broken.tbl", "package p;\nuse \"broken.tbl\";\nstruct A { @1 b: Broken }\n"),
            ("uses_syntax.tbl", "package p;\nuse \"syntax.tbl\";\n"),
            ("twice.tbl", "package p;\nuse \"common.tbl\";\n\nstruct Point { @1 x: u8 }\n"),
            ("missing.tbl", "package p;\nuse \"nowhere.tbl\";\n"),
            ("one.tbl", "package p;\nuse \"two.tbl\";\n"),
            ("two.tbl", "package p;\nuse \"./one.tbl\";\n"),
        ],
    );
    let broken = folder.shown("uses_broken.tbl");
    assert!(broken.contains("--> broken.tbl:2:23"), "{broken}");
    assert!(
        folder.shown("uses_syntax.tbl").contains("--> syntax.tbl:2:"),
        "{}",
        folder.shown("uses_syntax.tbl")
    );
    let twice = folder.shown("twice.tbl");
    assert!(twice.contains("declared twice") && twice.contains("common.tbl:3:8"), "{twice}");
    assert!(twice.contains("twice.tbl:4:8"), "{twice}");
    let missing = folder.shown("missing.tbl");
    assert!(missing.contains("--> missing.tbl:2:5") && missing.contains("nowhere.tbl"), "{missing}");
    let circle = folder.shown("one.tbl");
    assert!(circle.contains("includes itself") && circle.contains("--> two.tbl:2:5"), "{circle}");
}

#[test]
fn a_file_may_change_as_far_as_those_that_it_includes() {
    let main = "package p;\nuse \"common.tbl\";\ninterface Main version 1 { @1 call go(to: Point); }\n";
    let old = Folder::with("old", &[("common.tbl", COMMON), ("main.tbl", main)]);
    let grown = COMMON.replace("@1 x: u32", "@1 x: u32, @2 y: u32?");
    let new = Folder::with("new", &[("common.tbl", &grown), ("main.tbl", main)]);
    let changes = tombolo_idl::compatibility::compare(&old.model("main.tbl"), &new.model("main.tbl"));
    assert!(!changes.is_empty());
    assert_eq!(
        tombolo_idl::compatibility::verdict(&changes),
        tombolo_idl::compatibility::Verdict::Compatible
    );
}

#[test]
fn paths_are_formatted_and_refused_where_there_is_no_folder() {
    let text = "package p;\nuse   \"common.tbl\" ;\nstruct A { @1 a: u8 }\n";
    assert_eq!(
        tombolo_idl::format(text).unwrap(),
        "package p;\nuse \"common.tbl\";\nstruct A {\n    @1 a: u8,\n}\n"
    );
    let refused = tombolo_idl::compile(text).unwrap_err();
    assert!(refused.to_string().contains("includes no files"), "{refused}");
}
