//! Programs built for every instruction set, packed, unpacked and run. Needs the tools that `make setup`
//! installs: the Rust targets, Debian's cross compilers and qemu-user; a missing one fails the test by name.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_base::{Isa, NodeId, Target};
use tombolo_machine::build::{BuildError, Progress, Request, RustProgram, Source, build};
use tombolo_machine::{Image, Node, NodeSettings, UserNode, kit};

/// A temporary folder, removed after the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the test");
        fs::write(&path, text).expect("a file for the test");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the output of the build for `isa`, run on this host or under the emulator.
fn run(image: &Image, isa: Isa, folder: &Path) -> String {
    let path = folder.join(format!("program-{isa}"));
    fs::write(&path, image.program(isa).expect("a build").bytes).expect("the program is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the program is executable");
    let mut command = if isa == Isa::current() {
        Command::new(path)
    } else {
        let settings = NodeSettings::User(UserNode::default());
        let node = Node { id: NodeId(1), name: "user".to_owned(), isa, settings };
        let emulator = kit::emulator(&node).unwrap_or_else(|error| panic!("{error}"));
        let mut command = Command::new(emulator.expect("a user node has an emulator"));
        command.arg(path);
        command
    };
    let output = command.arg("one").output().expect("the program runs");
    assert!(output.status.success(), "{isa}: {:?}", output);
    String::from_utf8(output.stdout).expect("the program prints text")
}

/// Builds for every instruction set. Returns the image, read back from its file.
fn build_for_all(request: &Request) -> Image {
    let mut steps = Vec::new();
    let built = build(request, &mut |progress| match progress {
        Progress::Building { target, index, total, .. } => steps.push(format!("{target} {index}/{total}")),
        Progress::Built { target: isa, bytes, .. } => {
            assert!(bytes > 0);
            steps.push(format!("{isa} done"));
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let begun = Isa::ALL_64_BIT.iter().enumerate().map(|(index, isa)| format!("{isa} {index}/4"));
    let expected: Vec<String> =
        begun.chain(Isa::ALL_64_BIT.iter().map(|isa| format!("{isa} done"))).collect();
    assert_eq!(steps, expected);
    let image = Image::open(&built.path).expect("the image is right");
    assert_eq!(image.id(), built.image.id());
    assert_eq!(image.targets(), Isa::ALL_64_BIT.map(Target::from));
    for program in image.programs().filter(|program| program.target.isa != Isa::current()) {
        assert_eq!(program.interpreter, None, "{} must be static", program.target.isa);
    }
    image
}

fn byte_order(isa: Isa) -> &'static str {
    if isa.big_endian() { "big" } else { "little" }
}

#[test]
fn a_c_program_runs_on_every_isa() {
    let scratch = Scratch::new("build-c");
    let main = scratch.write(
        "hello.c",
        "#include <stdio.h>\nconst char *order(void);\n\
         int main(int argc, char **argv) { printf(\"%s %s-endian\\n\", argv[argc - 1], order()); return 0; }\n",
    );
    let order = scratch.write(
        "order.c",
        "const char *order(void) { union { int number; char first; } one = { 1 }; \
         return one.first ? \"little\" : \"big\"; }\n",
    );
    let source = Source::detect(&[main, order], RustProgram::Default).expect("C files");
    let mut request = Request::new(source, &Isa::ALL_64_BIT.map(Target::from));
    request.output = Some(scratch.0.join("out.tbi"));
    let image = build_for_all(&request);
    assert_eq!(image.name(), "hello");
    for isa in Isa::ALL_64_BIT {
        assert_eq!(run(&image, isa, &scratch.0), format!("one {}-endian\n", byte_order(isa)));
    }
}

#[test]
fn a_rust_package_of_its_own_runs_on_every_isa() {
    let scratch = Scratch::new("build-rust");
    scratch.write(
        "Cargo.toml",
        "[package]\nname = \"greeting\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    scratch.write(
        "src/main.rs",
        "fn main() {\n    let order = if cfg!(target_endian = \"big\") { \"big\" } else { \"little\" };\n    \
         let word = std::env::args().last().unwrap();\n    \
         println!(\"{word} {} {order}-endian\", std::env::consts::ARCH);\n}\n",
    );
    let source = Source::detect(std::slice::from_ref(&scratch.0), RustProgram::Default).expect("a package");
    let mut request = Request::new(source, &Isa::ALL_64_BIT.map(Target::from));
    request.profile = "dev".to_owned();
    let target = scratch.0.join("target");
    request.arguments = vec!["--target-dir".to_owned(), target.display().to_string()];
    request.output = Some(scratch.0.join("greeting.tbi"));
    let image = build_for_all(&request);
    assert_eq!(image.name(), "greeting");
    for isa in Isa::ALL_64_BIT {
        assert_eq!(run(&image, isa, &scratch.0), format!("one {isa} {}-endian\n", byte_order(isa)));
    }
}

fn c(file: PathBuf) -> Source {
    Source::detect(&[file], RustProgram::Default).expect("a C file")
}

#[test]
fn failed_build_is_reported_and_writes_nothing() {
    let scratch = Scratch::new("build-fails");
    let source = c(scratch.write("broken.c", "int main(void) { return }\n"));
    let mut request = Request::new(source, &[Isa::current().into()]);
    let output = scratch.0.join("broken.tbi");
    request.output = Some(output.clone());
    let error = build(&request, &mut |_| {}).expect_err("the program is broken");
    assert!(matches!(&error, BuildError::Compiler { tool, .. } if tool == "gcc"), "{error}");
    assert!(!output.exists());
    request.targets.clear();
    assert!(matches!(build(&request, &mut |_| {}), Err(BuildError::NoIsa)));
}

#[test]
fn an_image_that_cannot_be_written_is_an_error_with_its_path() {
    let scratch = Scratch::new("build-write");
    let source = c(scratch.write("ok.c", "int main(void) { return 0; }\n"));
    let mut request = Request::new(source, &[Isa::current().into()]);
    let output = scratch.0.join("missing/ok.tbi");
    request.output = Some(output.clone());
    let error = build(&request, &mut |_| {}).expect_err("there is no such folder").to_string();
    assert!(error.starts_with(&format!("cannot write {}: ", output.display())), "{error}");
}

#[test]
fn cargo_manifest_error_is_shown() {
    let scratch = Scratch::new("build-manifest");
    let manifest = scratch.write("Cargo.toml", "[package\n");
    let source = Source::Rust { manifest: manifest.clone(), program: RustProgram::Default };
    let error =
        build(&Request::new(source, &[Isa::current().into()]), &mut |_| {}).expect_err("no TOML").to_string();
    assert!(error.starts_with("cargo cannot read "), "{error}");
    assert!(error.contains("unclosed table"), "{error}");
}
