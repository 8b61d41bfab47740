//! Files of the user that nodes have from their start.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::process::Signal;
use tombolo_e2e::c::AARCH64;
use tombolo_e2e::{Finished, Machine, MachineFile};

/// C program that prints the contents and permissions of the file at each path, or the error.
const LOOK: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int main(int count, char **words)
{
    for (int index = 1; index < count; index++) {
        char text[64] = "";
        struct stat status;
        FILE *file = fopen(words[index], "r");
        if (file == NULL || stat(words[index], &status) != 0) {
            printf("%s: %s\n", words[index], strerror(errno));
            continue;
        }
        size_t length = fread(text, 1, sizeof text - 1, file);
        printf("%s: %.*s (%o)\n", words[index], (int)length, text, (unsigned)status.st_mode & 07777);
        fclose(file);
    }
    return 0;
}
"#;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn look(machine: &Machine, words: &[&str]) -> Finished {
    let program = machine.folder().join("look");
    let head = ["run", "--on", "arm0"].map(OsStr::new).into_iter().chain([program.as_os_str()]);
    machine.tombolo(head.chain(words.iter().map(OsStr::new)))
}

/// Sends a line to the console's shell until its output contains all of `until`.
fn ask_console(machine: &Machine, line: &str, until: &[&str]) {
    let mut console = machine.start(["console", "arm0", "--for", "100"]);
    console.feed(format!("{line}\n").into_bytes());
    for text in until {
        console.wait_for(text);
    }
    console.signal(Signal::TERM);
    let _ = console.finish();
}

/// Copies the cross compiler's C library and loader to where an Arm system has them.
fn put_libraries(root: &Path) {
    fs::create_dir_all(root.join("lib")).unwrap();
    for name in ["ld-linux-aarch64.so.1", "libc.so.6"] {
        fs::copy(AARCH64.file(name), root.join("lib").join(name)).unwrap();
    }
}

#[test]
fn a_program_that_is_linked_dynamically_runs_with_its_libraries() {
    let settings = r#"files = ["libraries", "mine"]"#;
    let mut machine = Machine::new(&MachineFile::host().with_vm("arm0", settings));
    let (libraries, mine) = (machine.folder().join("libraries"), machine.folder().join("mine"));
    put_libraries(&libraries);
    write(&libraries.join("etc/motto"), "of the first");
    write(&mine.join("etc/motto"), "of the second");
    write(&mine.join("etc/deep/er/île"), "deep");
    fs::set_permissions(mine.join("etc/deep/er/île"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("deep/er/île", mine.join("etc/link")).unwrap();
    symlink("/etc/motto", mine.join("absolute")).unwrap();
    symlink("../../../../etc/passwd", mine.join("out")).unwrap();
    write(&mine.join("tmp/hidden"), "the node mounts its own there");
    write(&machine.folder().join("look.c"), LOOK);
    AARCH64.build_dynamic(&machine.folder().join("look.c"), &machine.folder().join("look"));
    machine.bring_up();
    let paths =
        ["/etc/motto", "/etc/deep/er/île", "/etc/link", "/absolute", "/out", "/tmp/hidden", "/tombolo/none"];
    let expected = "/etc/motto: of the second (644)\n\
                    /etc/deep/er/île: deep (640)\n\
                    /etc/link: deep (640)\n\
                    /absolute: of the second (644)\n\
                    /out: No such file or directory\n\
                    /tmp/hidden: No such file or directory\n\
                    /tombolo/none: No such file or directory\n";
    assert_eq!(look(&machine, &paths).ok(), expected);
    // A restarted node has the files although the folder is gone.
    fs::remove_dir_all(&mine).unwrap();
    machine.kill(machine.pid_of("arm0"));
    tombolo_e2e::eventually(|| machine.node("arm0")["state"] == "down");
    machine.tombolo(["restart", "arm0"]).ok();
    assert_eq!(look(&machine, &paths).ok(), expected);
    // The shell of the console finds its tools, and the files.
    ask_console(&machine, "cat /absolute; ls /tombolo/modules", &["\nof the second", "vfio-pci.ko"]);
    machine.down();
}

#[test]
fn a_whole_root_file_system_may_be_given() {
    let mut machine = Machine::new(&MachineFile::host().with_vm("arm0", r#"files = ["root"]"#));
    let root = machine.folder().join("root");
    put_libraries(&root.join("usr"));
    // Merged `/usr`, as in current distributions.
    symlink("usr/lib", root.join("lib")).unwrap();
    fs::create_dir_all(root.join("usr/bin")).unwrap();
    symlink("usr/bin", root.join("bin")).unwrap();
    write(&root.join("sbin/init"), "is not what the node is started by");
    write(&root.join("dev/null"), "is a device there");
    write(&machine.folder().join("look.c"), LOOK);
    AARCH64.build_dynamic(&machine.folder().join("look.c"), &machine.folder().join("look"));
    machine.bring_up();
    let said = look(&machine, &["/sbin/init", "/dev/null"]).ok();
    assert_eq!(said, "/sbin/init: is not what the node is started by (644)\n/dev/null:  (666)\n");
    ask_console(&machine, "/bin/sh -c 'echo from $0'", &["\nfrom /bin/sh"]);
    machine.down();
}

#[test]
fn a_program_of_a_user_node_finds_its_files_before_the_hosts() {
    let file = MachineFile::host().with_user("arm-user", "aarch64").with_setting(r#"files = ["root"]"#);
    let mut machine = Machine::new(&file);
    let root = machine.folder().join("root");
    put_libraries(&root);
    write(&root.join("etc/hostname"), "of the node");
    let own = machine.folder().join("outside");
    write(&own, "of the host");
    write(&machine.folder().join("look.c"), LOOK);
    AARCH64.build_dynamic(&machine.folder().join("look.c"), &machine.folder().join("look"));
    machine.bring_up();
    let program = machine.folder().join("look");
    let words = ["run".as_ref(), "--on".as_ref(), "arm-user".as_ref(), program.as_os_str()];
    let paths = ["/etc/hostname".as_ref(), own.as_os_str()];
    let said = machine.tombolo(words.into_iter().chain(paths)).ok();
    assert_eq!(said, format!("/etc/hostname: of the node (644)\n{}: of the host (644)\n", own.display()));
    machine.down();
}

#[test]
fn invalid_folders_keep_user_node_down() {
    for (setting, words) in [
        (
            r#"files = ["none"]"#,
            ["node arm-user did not come up", "none, which the node's files are to come from"],
        ),
        (r#"files = ["kit:none"]"#, ["node arm-user did not come up", "the kit has no none in"]),
    ] {
        let file = MachineFile::host().with_user("arm-user", "aarch64").with_setting(setting);
        let machine = Machine::new(&file);
        machine.tombolo(["up".as_ref(), machine.file().as_os_str()]).fails_with(1, &words);
        machine.assert_gone();
    }
}

#[test]
fn dynamic_program_without_libraries_is_refused() {
    let mut machine = Machine::new(&MachineFile::host().with_vm("arm0", ""));
    write(&machine.folder().join("look.c"), LOOK);
    AARCH64.build_dynamic(&machine.folder().join("look.c"), &machine.folder().join("look"));
    machine.bring_up();
    let refused = look(&machine, &["/init"]);
    refused.fails_with(
        1,
        &["linked dynamically where its loader is missing", "`files` of the node in the machine file"],
    );
    machine.down();
}

/// Asserts that a machine with such files does not come up, reports why, and leaves nothing.
fn refusal(settings: &str, prepare: impl FnOnce(&Path), words: &[&str]) {
    refusal_with(1, settings, prepare, words);
}

/// Asserts the same of a machine file that is malformed, which the exit status tells.
fn malformed(settings: &str, words: &[&str]) {
    refusal_with(2, settings, |_| {}, words);
}

fn refusal_with(status: i32, settings: &str, prepare: impl FnOnce(&Path), words: &[&str]) {
    let machine = Machine::new(&MachineFile::host().with_vm("arm0", settings));
    prepare(machine.folder());
    machine.tombolo(["up".as_ref(), machine.file().as_os_str()]).fails_with(status, words);
    machine.assert_gone();
}

#[test]
fn invalid_files_keep_machine_down() {
    let root = r#"files = ["root"]"#;
    let arm0 = "node arm0 did not come up";
    refusal(root, |_| {}, &[arm0, "root, which the node's files are to come from: No such file"]);
    refusal(
        root,
        |folder| write(&folder.join("root"), ""),
        &[arm0, "root is not a folder: `files` names folders"],
    );
    refusal(
        root,
        |folder| {
            fs::create_dir_all(folder.join("root/run2")).unwrap();
            drop(UnixListener::bind(folder.join("root/run2/socket")).unwrap());
        },
        &[arm0, "root/run2/socket is a socket"],
    );
    refusal(
        root,
        |folder| write(&folder.join("root/init"), ""),
        &[arm0, "in the place of the node's own /init"],
    );
    refusal(
        r#"files = ["root", "other"]"#,
        |folder| {
            write(&folder.join("root/etc"), "a file");
            write(&folder.join("other/etc/name"), "");
        },
        &[arm0, "other/etc is a folder, and something else in another folder"],
    );
    // A node with 256 MiB has room for just under 64 MiB.
    refusal(
        root,
        |folder| {
            fs::create_dir_all(folder.join("root")).unwrap();
            fs::File::create(folder.join("root/large")).unwrap().set_len(64 << 20).unwrap();
        },
        &[arm0, "take a node with `memory_mib = 259` or more, and it has 256"],
    );
    malformed("files = \"root\"", &["`files` must be a list of folders", "write [\"root\"]"]);
    malformed("files = [7]", &["`files` must be a string"]);
    malformed("files = [\"\"]", &["a path in `files` is not usable"]);
}

#[test]
fn node_files_fill_memory_to_its_limit() {
    let mut machine = Machine::new(&MachineFile::host().with_vm("arm0", r#"files = ["root", "libraries"]"#));
    put_libraries(&machine.folder().join("libraries"));
    let libraries: u64 = fs::read_dir(machine.folder().join("libraries/lib"))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len().next_multiple_of(4096))
        .sum();
    // The rest of 64 MiB after the libraries and file names, up to the last permitted byte.
    let length = (64 << 20) - libraries - 64 * 1024;
    fs::create_dir_all(machine.folder().join("root")).unwrap();
    let large = fs::File::create(machine.folder().join("root/large")).unwrap();
    large.set_len(length).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&large, b"the end", length - 7).unwrap();
    write(&machine.folder().join("look.c"), LOOK);
    AARCH64.build_dynamic(&machine.folder().join("look.c"), &machine.folder().join("look"));
    machine.bring_up();
    ask_console(&machine, "tail -c 7 /large; echo; wc -c /large", &["the end", &format!("{length} /large")]);
    assert_eq!(look(&machine, &["/none"]).ok(), "/none: No such file or directory\n");
    machine.down();
}
