//! A C client checks the answers of its server: an invalid answer only fails its call. `refusals.c` has the
//! cases; it runs under sanitizers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_client_refuses_wrong_answers_and_goes_on() {
    let folder = std::env::temp_dir().join(format!("tombolo-c-refusals-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("refusals");
    let output = Command::new("gcc")
        .args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I"])
        .arg(root().join("runtime/c/include"))
        .arg("-I")
        .arg(root().join("interface/c"))
        .arg(root().join("runtime/c/tests/refusals.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "30 calls, 15 refused\n");
}
