//! The command as seen by shells: exit statuses, and the output on each stream. Tests with whole machines are
//! in `testing/e2e`.

use std::process::{Command, Output, Stdio};

fn tombolo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    command.args(arguments).stdin(Stdio::null()).env_remove("TOMBOLO_MACHINE");
    command
}

/// Returns exit status, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = tombolo(arguments).output().expect("it is built");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_wrong_command_line_ends_with_2_and_shows_the_right_one() {
    let (status, output, errors) = run(&["kill", "arm0"]);
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains("a domain id is NODE.GENERATION.INDEX, for example 1.1.4"), "{errors}");
    let (status, _, errors) = run(&["frobnicate"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("Usage: tombolo"), "{errors}");
    for (wrong, meant) in [(&["rnu", "x.tbi"][..], "run"), (&["trace", "shwo"], "show")] {
        let (status, _, errors) = run(wrong);
        assert_eq!(status, Some(2));
        assert!(errors.contains(&format!("a similar subcommand exists: '{meant}'")), "{errors}");
    }
}

#[test]
fn the_usage_line_has_no_option_that_the_environment_sets() {
    for (words, usage) in [
        (["kill"].as_slice(), "tombolo kill <DOMAIN>..."),
        (&["image", "inspect"], "tombolo image inspect <FILE>"),
    ] {
        let output = tombolo(words).env("TOMBOLO_MACHINE", "lab").output().expect("it is built");
        let errors = String::from_utf8(output.stderr).expect("it is text");
        assert!(errors.contains(&format!("\nUsage: {usage}\n")), "{errors}");
    }
}

#[test]
fn a_file_that_cannot_be_read_ends_with_2_and_one_sentence() {
    const WHY: &str = "No such file or directory (os error 2)";
    for (words, what) in [
        (&["image", "inspect", "no/such.tbi"][..], "image no/such.tbi"),
        (&["run", "no/such.tbi"], "image no/such.tbi"),
        (&["place", "no/such.tbi"], "image no/such.tbi"),
        (&["litmus", "--image", "no/such.tbi"], "image no/such.tbi"),
        (&["up", "no/such.toml"], "machine file no/such.toml"),
        (&["build", "--machine-file", "no/such.toml", "."], "machine file no/such.toml"),
        (&["idl", "compile", "--lang", "c", "no/such.tbl"], "no/such.tbl"),
        (&["idl", "fmt", "no/such.tbl"], "no/such.tbl"),
        (&["trace", "show", "no/such.tbt"], "no/such.tbt"),
        (&["capture", "show", "no/such.tbc"], "no/such.tbc"),
        (&["hubs", "run", "no/such.toml", "--on", "host"], "no/such.toml"),
    ] {
        let (status, output, errors) = run(words);
        assert_eq!((status, output.as_str()), (Some(2), ""), "{words:?}: {errors}");
        assert_eq!(errors.lines().next(), Some(&*format!("error: cannot read {what}: {WHY}")), "{words:?}");
    }
    // The same for one that is there and is something else.
    for words in [&["image", "inspect", "Cargo.toml"][..], &["trace", "show", "Cargo.toml"], &["up", "src"]] {
        let (status, _, errors) = run(words);
        assert!(status == Some(2) && errors.starts_with("error: "), "{words:?}: {errors}");
    }
}

#[test]
fn mistakes_in_a_machine_file_are_shown_before_anything_starts() {
    let file = std::env::temp_dir().join(format!("tombolo-cli-{}.toml", std::process::id()));
    std::fs::write(&file, "name = \"x\"\n[[node]]\nname = \"host\"\nkind = \"hots\"\n").expect("a file");
    let path = file.to_str().expect("a path");
    let (status, output, errors) = run(&["up", path]);
    let coloured = run(&["--color", "always", "up", path]).2;
    std::fs::remove_file(&file).expect("it is ours");
    assert_eq!((status, output.as_str()), (Some(2), ""));
    assert!(errors.contains(&format!("--> {path}:4:8")), "{errors}");
    assert!(errors.contains("did you mean \"host\"?") && !errors.contains('\x1b'), "{errors}");
    assert!(coloured.contains("\x1b["), "{coloured}");
}

#[test]
fn a_machine_that_is_not_up_is_not_started() {
    let name = format!("no-such-{}", std::process::id());
    for command in ["ps", "names", "down", "status"] {
        let (status, output, errors) = run(&["--machine", &name, command]);
        assert_eq!((status, output.as_str()), (Some(1), ""), "{command}");
        assert!(errors.starts_with(&format!("error: machine '{name}' is not up\nhint: ")), "{errors}");
    }
}

#[test]
fn status_of_a_machine_that_is_not_up_says_how_to_bring_it_up() {
    let name = format!("no-such-{}", std::process::id());
    let (_, _, errors) = run(&["--machine", &name, "status"]);
    assert!(errors.ends_with("\nhint: `tombolo up` with its machine file brings it up\n"), "{errors}");
}

#[test]
fn help_is_also_a_command() {
    for (command, option) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "run"], &["run", "--help"]),
        (&["help", "trace", "show"], &["trace", "show", "--help"]),
    ] {
        let (status, output, errors) = run(command);
        assert_eq!((status, errors.as_str()), (Some(0), ""), "{command:?}");
        assert_eq!(output, run(option).1, "{command:?}");
    }
    let (status, _, errors) = run(&["help", "rnu"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("a similar subcommand exists: 'run'"), "{errors}");
}

#[test]
fn invalid_seconds_are_refused_with_the_name_of_the_option() {
    for (option, line) in [
        (
            "--restart-delay <SECONDS>",
            &["run", "--restart", "on-failure", "--restart-delay", "WRONG", "x"][..],
        ),
        ("--grace <SECONDS>", &["kill", "1.1.4", "--grace", "WRONG"]),
        ("--for <SECONDS>", &["console", "arm0", "--for", "WRONG"]),
    ] {
        for wrong in ["nan", "inf", "-1", "1e300"] {
            let line: Vec<&str> =
                line.iter().map(|word| if *word == "WRONG" { wrong } else { word }).collect();
            let (status, _, errors) = run(&line);
            assert_eq!(status, Some(2), "{errors}");
            let expected = "give a number of seconds from 0 to 1e9, such as 2 or 0.5";
            assert!(errors.contains(option) && errors.contains(expected), "{errors}");
        }
    }
}

#[test]
fn options_without_effect_are_refused() {
    let (status, _, errors) = run(&["run", "--restart-delay", "2", "x.tbi"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("--restart <no|on-failure[:MAX]>"), "{errors}");
    for (line, meant) in [
        ("--prefix store_", "--prefix has no effect on stubs in this language; it is for --lang c"),
        ("--lang c --package kv", "--package has no effect on stubs in this language; it is for --lang go"),
        ("--hold Time=pair", "--hold has no effect on stubs in this language; it is for --lang rust-owned"),
        ("--lang go --runtime x", "--runtime has no effect on stubs in this language; it is for --lang rust"),
    ] {
        let (status, _, errors) =
            run(&[&["idl", "compile", "x.tbl"][..], &line.split(' ').collect::<Vec<_>>()].concat());
        assert_eq!((status, errors), (Some(2), format!("error: {meant}\n")), "{line}");
    }
}

#[test]
fn json_is_json_and_nothing_else() {
    let (status, output, errors) = run(&["image", "inspect", "/bin/sh", "--json"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let image: serde_json::Value = serde_json::from_str(&output).expect("it is JSON");
    assert_eq!(image["name"], "sh");
    assert_eq!(image["programs"][0]["sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn closed_reader_is_no_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = tombolo(&["image", "inspect", "/bin/sh"]);
    let output = command.stdout(writer).output().expect("it is built");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
}
