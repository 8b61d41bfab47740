//! Packages are reproducible: the same files give the same bytes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{deb, tarball, wheel};
use crate::workspace::Workspace;

/// Time of the package, later than any clock: the result must not contain the times at which files were
/// staged.
const TIME: u64 = 4_102_444_800;

const CONTROL: &str = "Package: small\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.invalid>\n\
                       Description: a small package\n";

/// Temporary folder of a test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tombolo-dist-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The test has reported the failure already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates the files in the given order, with the modes that a package has; `rest` replaces the default mode
/// of the others.
fn lay_out(draft: &Path, order: &[usize], rest: u32) {
    const FILES: [(&str, &str, u32); 4] = [
        ("bin/program", "#!/bin/sh\n", 0o755),
        ("lib/one", "1", 0o644),
        ("lib/two", "2", 0o644),
        ("share/a/text", "words", 0o644),
    ];
    let allow =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    for (path, text, mode) in order.iter().map(|number| FILES[*number]) {
        let path = draft.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        allow(&path, mode & rest);
    }
    symlink("one", draft.join("lib/link")).expect("a link");
    ["bin", "lib", "share/a", "share", ""].iter().for_each(|folder| allow(&draft.join(folder), rest));
}

/// Creates two drafts of the same files below `inner`: the second in another order, with another umask and at
/// another time.
fn drafts(folder: &Folder, inner: &str) -> [PathBuf; 2] {
    let drafts = ["first", "second"].map(|name| folder.0.join(name));
    lay_out(&drafts[0].join(inner), &[0, 1, 2, 3], 0o755);
    lay_out(&drafts[1].join(inner), &[3, 2, 1, 0], 0o700);
    let mut touch = Command::new("touch");
    let status = touch.args(["--date", "@1000000000"]).arg(drafts[1].join(inner).join("lib/two")).status();
    assert!(status.expect("touch runs").success());
    drafts
}

#[track_caller]
fn assert_same(files: [PathBuf; 2]) {
    let [first, second] = files.map(|file| fs::read(file).expect("a package"));
    assert!(!first.is_empty() && first == second, "{} bytes and {} bytes differ", first.len(), second.len());
}

fn has(program: &str) -> bool {
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn tarballs_of_the_same_files_are_the_same() {
    let folder = Folder::new("tarball");
    assert_same(drafts(&folder, "small-1").map(|draft| {
        let file = draft.with_extension("tar.gz");
        tarball::pack(&draft, "small-1", TIME, &file).expect("tar and gzip");
        file
    }));
}

#[test]
fn debian_packages_of_the_same_files_are_the_same() {
    if !has("dpkg-deb") {
        println!("SKIPPED: there is no dpkg-deb here");
        return;
    }
    let folder = Folder::new("deb");
    assert_same(drafts(&folder, "usr").map(|draft| {
        fs::create_dir(draft.join("DEBIAN")).expect("a folder");
        fs::write(draft.join("DEBIAN/control"), CONTROL).expect("a file");
        let file = draft.with_extension("deb");
        deb::pack(&draft, TIME, &file).expect("dpkg-deb");
        file
    }));
}

#[test]
fn wheels_of_the_same_files_are_the_same() {
    if !has("python3") {
        println!("SKIPPED: there is no python3 here");
        return;
    }
    let folder = Folder::new("wheel");
    let workspace = Workspace::load().expect("this tree");
    assert_same(drafts(&folder, "prefix").map(|draft| {
        let output = draft.with_extension("output");
        fs::create_dir(&output).expect("a folder");
        wheel::pack(&workspace, "py3-none-any", &draft, TIME, &output).expect("the packer")
    }));
}
