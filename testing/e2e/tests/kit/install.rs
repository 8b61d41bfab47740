//! An installation suffices to build C and C++ programs outside the tree, with pkg-config, make and CMake.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A temporary folder with an installation.
struct Installed {
    folder: PathBuf,
    prefix: PathBuf,
}

impl Installed {
    fn new(name: &str) -> Installed {
        let folder = std::env::temp_dir().join(format!("tombolo-install-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let installed = Installed { prefix: folder.join("image/opt/tombolo"), folder };
        installed.xtask(&[]);
        installed
    }

    fn xtask(&self, more: &[&str]) {
        let exe = std::env::current_exe().expect("a program knows its own path");
        let target = exe.ancestors().nth(3).expect("<target>/<profile>/deps/<program>");
        let mut command = Command::new("cargo");
        command.current_dir(tree()).env("CARGO_TARGET_DIR", target).args(["xtask", "install"]);
        command.args(["--prefix", "/opt/tombolo", "--libdir", "lib/multi", "--destdir"]);
        run(command.arg(self.folder.join("image")).args(more));
    }

    /// Returns the words that pkg-config prints.
    fn pkg_config(&self, words: &[&str]) -> Vec<String> {
        let folder = self.prefix.join("lib/multi/pkgconfig");
        let mut command = Command::new("pkg-config");
        let said = run(command.env("PKG_CONFIG_PATH", folder).args(words).arg("tombolo"));
        said.split_whitespace().map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Runs a program with the installed shared library.
    fn runs(&self, program: &Path) {
        let said = run(Command::new(program).env("LD_LIBRARY_PATH", self.prefix.join("lib/multi")));
        assert_eq!(said, format!("{} TOMBOLO_NO_MACHINE key 4\n", env!("CARGO_PKG_VERSION")));
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs a program that must succeed and returns its output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn is_here(program: &str) -> bool {
    let here = Command::new(program).arg("--version").output().is_ok();
    if !here {
        tombolo_e2e::skipped(&format!("{program}: it is not installed"));
    }
    here
}

/// Valid C and C++. It includes two interfaces that use a third file, calls the library, and encodes and
/// decodes a message.
const PROGRAM: &str = r#"
#include <stdio.h>
#include "growth.h"
#include "growth_before.h"

int main(void)
{
    uint8_t message[64];
    tombolo_domain *domain;
    tombolo_header header = {2, TOMBOLO_MESSAGE, 0};
    tombolo_memory memory = {NULL, 0, 0};
    tombolo_record body;
    tombolo_reader r;
    before_growth_forget forget;
    testing_growth_forget heard;
    tombolo_writer w = tombolo_write(message, sizeof message, header, BEFORE_GROWTH_FORGET_BYTES);
    const tombolo_status status = tombolo_attach_to_machine("no-such-machine", &domain);
    forget.id = 4;
    before_growth_forget_put(&w, TOMBOLO_HEADER_BYTES, &forget);
    r = tombolo_read(message, w.next, &memory, &header, &body);
    testing_growth_forget_get(&r, body, body.start, &heard);
    printf("%s %s key %u\n", tombolo_version(), tombolo_error_name(status), tombolo_is_reading(&r) ? heard.id : 0);
    return 0;
}
"#;

const MAKEFILE: &str = "
include $(shell pkg-config --variable=makefile tombolo)
CFLAGS = -std=c11 -Wall -Wextra -Werror -Igenerated $(shell pkg-config --cflags tombolo)

program: program.c generated/growth.h generated/growth_before.h generated/common.h
\t$(CC) $(CFLAGS) $< -o $@ $(shell pkg-config --libs tombolo)

$(eval $(call tombolo_interface,generated/common.h,interfaces/common.tbl))
$(eval $(call tombolo_interface,generated/growth.h,interfaces/growth.tbl))
$(eval $(call tombolo_interface,generated/growth_before.h,interfaces/growth_before.tbl,--prefix before_))
";

const CMAKE: &str = r#"
cmake_minimum_required(VERSION 3.20)
project(outside C CXX)
find_package(Tombolo 0.1 REQUIRED)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 11)
foreach(language c cpp)
    add_executable(shared_${language} program.${language})
    add_executable(static_${language} program.${language})
    target_link_libraries(shared_${language} Tombolo::tombolo)
    target_link_libraries(static_${language} Tombolo::tombolo_static)
    foreach(target shared_${language} static_${language})
        tombolo_stubs(${target} FILES interfaces/growth.tbl interfaces/common.tbl)
        tombolo_stubs(${target} PREFIX before_ FILES interfaces/growth_before.tbl)
    endforeach()
endforeach()
"#;

/// Creates a user's project.
fn project(installed: &Installed) -> PathBuf {
    let project = installed.path("project");
    fs::create_dir_all(&project).expect("a folder");
    let files =
        [("program.c", PROGRAM), ("program.cpp", PROGRAM), ("Makefile", MAKEFILE), ("CMakeLists.txt", CMAKE)];
    for (name, text) in files {
        fs::write(project.join(name), text).expect("a file");
    }
    fs::create_dir(project.join("interfaces")).expect("a folder");
    for name in ["common", "growth", "growth_before"] {
        let file = format!("interfaces/{name}.tbl");
        fs::copy(tree().join(&file), project.join(&file)).expect("a file");
    }
    project
}

fn with_make(installed: &Installed, project: &Path) {
    if !(is_here("pkg-config") && is_here("make")) {
        return;
    }
    let pkg_config_path: OsString = installed.prefix.join("lib/multi/pkgconfig").into();
    let make = || {
        let mut command = Command::new("make");
        run(command.current_dir(project).env("PKG_CONFIG_PATH", &pkg_config_path))
    };
    make();
    installed.runs(&project.join("program"));
    assert!(make().contains("up to date"), "nothing has changed");
    // This file is used by the other one, so both headers become stale.
    let common = project.join("interfaces/common.tbl");
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().append(true).open(&common).and_then(|file| file.set_modified(later)).expect("a time");
    let said = make();
    for name in ["common", "growth", "growth_before"] {
        assert!(said.contains(&format!("--output generated/{name}.h ")), "{name}.h in\n{said}");
    }
    let mut command = Command::new("gcc");
    command.current_dir(project).args(["program.c", "-Igenerated", "-static", "-o", "alone"]);
    run(command.args(installed.pkg_config(&["--cflags", "--libs", "--static"])));
    installed.runs(&project.join("alone"));
    assert_eq!(installed.pkg_config(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
}

fn with_cmake(installed: &Installed, project: &Path) {
    if !(is_here("cmake") && is_here("g++") && is_here("make")) {
        return;
    }
    // The build folder is a symlink, so that paths which are only right by accident fail.
    let build = installed.path("build");
    fs::create_dir(installed.path("elsewhere")).expect("a folder");
    symlink(installed.path("elsewhere"), &build).expect("a link");
    let mut configure = Command::new("cmake");
    configure.args(["-G", "Unix Makefiles"]).arg("-S").arg(project).arg("-B").arg(&build);
    // CMake's default search path depends on the compiler; the folder below `lib/` is the distribution's
    // choice.
    let config = installed.prefix.join("lib/multi/cmake/Tombolo");
    run(configure.arg(format!("-DTombolo_DIR={}", config.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    for name in ["shared_c", "static_c", "shared_cpp", "static_cpp"] {
        installed.runs(&build.join(name));
    }
}

/// Projects of `tombolo new` depend on the installed sources and on nothing in the tree.
fn new_projects_find_the_crate(installed: &Installed) {
    let tombolo = installed.prefix.join("bin/tombolo");
    run(Command::new(tombolo).current_dir(&installed.folder).args(["new", "fresh", "--typed"]));
    let sources = installed.prefix.join("share/tombolo/rust");
    // The other crates of the book are added beside the one that is there.
    let others = ["runtime/files", "runtime/copies", "runtime/hubs", "runtime/group", "runtime/tasks"];
    let others = others.into_iter().chain(["runtime/placement", "models/objects", "models/pages"]);
    let others: Vec<&str> = others.chain(["models/realtime", "runtime/admin"]).collect();
    let manifest = installed.path("fresh/Cargo.toml");
    let mut text = fs::read_to_string(&manifest).expect("a manifest");
    for folder in &others {
        let name = folder.split_once('/').expect("a folder in another").1;
        text.push_str(&format!("[dependencies.tombolo-{name}]\npath = {:?}\n", sources.join(folder)));
    }
    fs::write(&manifest, text).expect("a manifest");
    let mut metadata = Command::new("cargo");
    // Dependencies of other platforms and of the model checker may not have been downloaded.
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    metadata
        .args(["metadata", "--offline", "--format-version=1", "--filter-platform", &here])
        .env("CARGO_TARGET_DIR", installed.path("target"));
    let said = run(metadata.current_dir(installed.path("fresh")));
    for package in ["runtime/tombolo", "transport", "interface/idl"].into_iter().chain(others) {
        let manifest = sources.join(package).join("Cargo.toml");
        assert!(
            said.contains(&format!("{:?}", manifest.display().to_string())),
            "{} in\n{said}",
            manifest.display()
        );
    }
    assert!(!said.contains(&format!("\"{}/", tree().canonicalize().expect("the tree").display())), "{said}");
}

/// Single-word wrapper commands, for build systems that cannot use a command of two words.
fn commands_of_one_word(installed: &Installed) {
    // Through a symlink elsewhere, as users may have under a name that a makefile expects.
    let link = installed.path("ompcxx");
    symlink(installed.prefix.join("bin/tombolo-ompcxx"), &link).expect("a link");
    assert!(run(Command::new(&link).arg("--help")).contains("tombolo ompcc"));
    let mpirun = installed.prefix.join("bin/tombolo-mpirun");
    assert!(run(Command::new(mpirun).arg("--help")).contains("tombolo mpirun"));
}

/// The Python package contains no crates, which only Rust projects need.
fn new_projects_without_the_crate(installed: &Installed) {
    let bin = installed.path("python/bin");
    fs::create_dir_all(&bin).expect("a folder");
    fs::copy(installed.prefix.join("bin/tombolo"), bin.join("tombolo")).expect("a copy");
    let new = |words: &[&str]| {
        let mut new = Command::new(bin.join("tombolo"));
        new.current_dir(&installed.folder).arg("new").args(words).output().expect("it runs")
    };
    for language in ["python", "c"] {
        let made = new(&[&format!("in-{language}"), "--lang", language]);
        assert!(made.status.success(), "{language}: {}", String::from_utf8_lossy(&made.stderr));
    }
    let refused = new(&["in-rust"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("which projects in Rust depend on"), "{said}");
}

#[test]
fn programs_are_built_out_of_the_tree() {
    let installed = Installed::new("build");
    let project = project(&installed);
    with_make(&installed, &project);
    with_cmake(&installed, &project);
    new_projects_find_the_crate(&installed);
    new_projects_without_the_crate(&installed);
    commands_of_one_word(&installed);
    installed.xtask(&["--remove"]);
    let mut left = Vec::new();
    files(&installed.path("image"), &mut left);
    assert_eq!(left, [] as [PathBuf; 0], "after --remove");
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.is_symlink() { files(&path, found) } else { found.push(path) }
    }
}
