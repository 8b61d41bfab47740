//! C encodes and decodes exactly the same bytes as Rust, and refuses what Rust refuses.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_base::Random;
use tombolo_idl::build;
use tombolo_idl::c::COptions;

mod samples;

use samples::{check, mutated, samples};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const HEADERS: &[&str] = &["common", "everything", "growth", "growth_before", "kv", "rights"];

#[test]
fn headers_are_what_the_compiler_writes() {
    for stem in HEADERS {
        let origin = format!("interfaces/{stem}.tbl");
        let prefix = (*stem == "growth_before").then(|| "before_".to_owned());
        let options = COptions { origin: origin.clone(), prefix };
        let text = build::c(root().join(&origin), &options).unwrap();
        let committed = fs::read_to_string(root().join(format!("interface/c/{stem}.h"))).unwrap_or_default();
        assert!(committed == text, "{stem}.h is stale; `cargo xtask codegen` writes it anew");
    }
}

#[test]
fn generated_headers_compile_without_warnings() {
    let compilers = [("gcc", "-std=c11", "c"), ("g++", "-std=c++11", "c++")];
    for (compiler, standard, language) in compilers {
        if Command::new(compiler).arg("--version").output().is_err() {
            // Past the test harness, which hides the output of passing tests.
            let _ = writeln!(std::io::stdout(), "\nSKIPPED {language}: there is no {compiler}");
            continue;
        }
        // Each header by itself, and all twice in one file: include guards must protect headers and shared
        // definitions.
        let together = [HEADERS, HEADERS].concat();
        for stems in HEADERS.chunks(1).chain([&together[..]]) {
            let includes = stems.iter().flat_map(|stem| ["-include".to_owned(), format!("{stem}.h")]);
            let output = Command::new(compiler)
                .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion", "-Wshadow"])
                .args(["-x", language, "-fsyntax-only", "-I"])
                .arg(root().join("runtime/c/include"))
                .arg("-I")
                .arg(root().join("interface/c"))
                .args(includes)
                .arg("/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// A program that decodes and re-encodes messages.
struct RoundTripProgram {
    folder: PathBuf,
}

impl RoundTripProgram {
    fn build(name: &str) -> RoundTripProgram {
        let folder = std::env::temp_dir().join(format!("tombolo-c-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let output = Command::new("gcc")
            .args([
                "-std=c11",
                "-O1",
                "-g",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=all",
                "-I",
            ])
            .arg(root().join("runtime/c/include"))
            .arg("-I")
            .arg(root().join("interface/c"))
            .arg(root().join("runtime/c/tests/again.c"))
            .arg("-o")
            .arg(folder.join("again"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        RoundTripProgram { folder }
    }

    /// Returns the status and the re-encoded bytes for each message.
    fn run(&self, messages: &[(u8, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
        let mut child = Command::new(self.folder.join("again"))
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut input = Vec::new();
        for (which, message) in messages {
            input.push(*which);
            input.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
            input.extend(message);
        }
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "a sanitizer says more above");
        writer.join().unwrap().unwrap();
        let mut rest = &output[..];
        let mut number = |bytes: usize| {
            let (first, more) = rest.split_at(bytes);
            rest = more;
            first.to_vec()
        };
        messages
            .iter()
            .map(|_| {
                let word = |bytes: Vec<u8>| u32::from_le_bytes(bytes.try_into().unwrap());
                let (status, length) = (word(number(4)), word(number(4)));
                (status, number(length as usize))
            })
            .collect()
    }
}

impl Drop for RoundTripProgram {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn messages_round_trip_through_c() {
    let samples = samples();
    for ((which, message), (status, again)) in
        samples.iter().zip(RoundTripProgram::build("golden").run(&samples))
    {
        assert_eq!(status, 0, "record {which}");
        assert_eq!(&again, message, "record {which}");
    }
    // The example in the specification.
    let written: String = samples[5].1.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(written.starts_with("02000400020403022800000004000000"), "{written}");
}

/// Runs under sanitizers; `TOMBOLO_C_FUZZ` sets the number of messages.
#[test]
fn c_refuses_what_rust_refuses_and_touches_nothing_else() {
    let count = std::env::var("TOMBOLO_C_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let (samples, mut random) = (samples(), Random::new(1));
    let messages: Vec<(u8, Vec<u8>)> = (0..count)
        .map(|_| {
            let (which, message) = &samples[random.index(samples.len())];
            (*which, mutated(message, &mut random))
        })
        .collect();
    let (mut refused, mut taken) = (0, 0);
    for ((which, message), (status, _)) in messages.iter().zip(RoundTripProgram::build("fuzz").run(&messages))
    {
        let rust = check(*which, message);
        // Status 41: the message was decoded, but has a union case unknown to this side, which it cannot
        // encode.
        assert_eq!(
            rust.is_ok(),
            status == 0 || status == 41,
            "record {which}: {rust:?}, C says {status}\n{message:02x?}"
        );
        if status == 0 { taken += 1 } else { refused += 1 }
    }
    assert!(refused > count / 10 && taken > count / 50, "{refused} refused, {taken} taken");
}
