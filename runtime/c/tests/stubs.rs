//! What C reads and writes is, byte by byte, what Rust does; and what Rust refuses C refuses.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_idl::build;
use tombolo_idl::c::COptions;
use tombolo_interface::{Body, Budget, Header, Kind, Malformed, Outgoing, Record, View};
use tombolo_interfaces::everything::{
    Colour, Entry, EverythingNumbersRequest, EverythingNumbersRequestView, EverythingPartsReply,
    EverythingPartsReplyView, EverythingPartsRequest, EverythingPartsRequestView, Hints, Point, Rights,
    Shape, Step,
};
use tombolo_interfaces::kv::{KvListReply, KvListReplyView, KvPutRequest, KvPutRequestView};

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
fn compilers_take_generated_headers_without_a_word() {
    let compilers = [("gcc", "-std=c11", "c"), ("g++", "-std=c++11", "c++")];
    for (compiler, standard, language) in compilers {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("SKIPPED {language}: there is no {compiler}");
            continue;
        }
        // Each by itself, and all in one file, twice: what they include and what they have in common is there once.
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

/// A program that reads messages and writes them again.
struct Again {
    folder: PathBuf,
}

impl Again {
    fn built(name: &str) -> Again {
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
        Again { folder }
    }

    /// What it says of each message: a status, and what it wrote.
    fn of(&self, messages: &[(u8, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
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

impl Drop for Again {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

const HEADER: Header = Header { ordinal: 2, kind: Kind::Call, call: 0x0002_0304 };

fn bytes(body: &impl Body) -> Vec<u8> {
    let message = Outgoing::new(HEADER, body).unwrap();
    let mut bytes = vec![0; message.length_bytes()];
    message.write(&mut *bytes);
    bytes
}

/// Messages with every type, at limits and in the middle.
fn samples() -> Vec<(u8, Vec<u8>)> {
    let points = [Point { x: 1.5, y: -2.0, tag: 7 }, Point { x: f32::MIN, y: f32::MAX, tag: 255 }];
    let entry = Entry { name: "sixteen bytes ok", points: &points, colour: Some(Colour::Green) };
    let small = Entry { name: "", points: &[], colour: None };
    let shapes = [Shape::Number(u64::MAX), Shape::Names(&["ä", "", "𝄞"]), Shape::Point(points[0])];
    let entries = [entry, small, entry];
    let parts = |shape, full: bool| EverythingPartsRequest {
        text: if full { "zwölf Boxkämpfer … 日本" } else { "" },
        blob: if full { &[0xff; 32] } else { &[] },
        numbers: if full { &[0, 1, u16::MAX, 4, 5, 6, 7, 8] } else { &[9] },
        fixed: [i32::MIN, -1, i32::MAX],
        flags: if full { &[true, false, true, true, false, true, false, false, true] } else { &[] },
        entry,
        entries: if full { &entries } else { &[] },
        shape,
        shapes: if full { &shapes } else { &[] },
        maybe: full.then_some(3),
        maybe_text: full.then_some("12345678"),
        maybe_point: full.then_some(points[1]),
        maybe_entry: full.then_some(small),
        matrix: [[1, 2], [3, 4], [5, 6]],
        nested: if full { &[&[1, 2], &[], &[u32::MAX]] } else { &[] },
    };
    let numbers = EverythingNumbersRequest {
        a: true,
        b: u8::MAX,
        c: u16::MAX,
        d: u32::MAX,
        e: u64::MAX,
        f: i8::MIN,
        g: i16::MIN,
        h: i32::MIN,
        i: i64::MIN,
        j: -0.0,
        k: f64::MIN_POSITIVE,
        colour: Colour::Red,
        step: Step(77),
        rights: Rights::READ | Rights::GRANT,
        hints: Hints(1 << 63),
        domain: tombolo_interface::Domain(u64::MAX - 1),
    };
    let reply = EverythingPartsReply { entry, shape: Shape::Entry(entry), maybe_shape: Some(Shape::Nothing) };
    let put = KvPutRequest { key: &"k".repeat(64), value: &[7; 2048], expected: Some(0) };
    let keys = ["k"; 64];
    vec![
        (0, bytes(&parts(Shape::Nothing, true))),
        (0, bytes(&parts(Shape::Entry(small), false))),
        (1, bytes(&reply)),
        (2, bytes(&numbers)),
        (3, bytes(&put)),
        (3, bytes(&KvPutRequest { key: "isle", value: &[1, 2, 3, 4, 5, 6, 7, 8, 9], expected: Some(7) })),
        (4, bytes(&KvListReply { keys: &keys })),
        (4, bytes(&KvListReply { keys: &[] })),
    ]
}

/// Whether all of a message can be read in Rust.
fn check(which: u8, message: &[u8]) -> Result<(), Malformed> {
    fn all<'m, V: View<'m> + From<Record<'m>>>(
        body: Record<'m>,
        budget: &mut Budget,
    ) -> Result<(), Malformed> {
        V::from(body).check(budget)
    }
    let source = &message;
    let (_, body) = Header::read(source)?;
    let budget = &mut Budget::of(source);
    match which {
        0 => all::<EverythingPartsRequestView<'_>>(body, budget),
        1 => all::<EverythingPartsReplyView<'_>>(body, budget),
        2 => all::<EverythingNumbersRequestView<'_>>(body, budget),
        3 => all::<KvPutRequestView<'_>>(body, budget),
        _ => all::<KvListReplyView<'_>>(body, budget),
    }
}

#[test]
fn what_rust_writes_c_reads_and_writes_again() {
    let samples = samples();
    for ((which, message), (status, again)) in samples.iter().zip(Again::built("golden").of(&samples)) {
        assert_eq!(status, 0, "record {which}");
        assert_eq!(&again, message, "record {which}");
    }
    // The example of the specification, as it stands there.
    let written: String = samples[5].1.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(written.starts_with("02000400020403022800000004000000"), "{written}");
}

/// The same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// A message with something wrong in it, most likely.
fn mutated(message: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at & !7] = (random.below(32) * 8) as u8,
            3 => bytes[at & !3] = random.below(10) as u8,
            4 if bytes.len() > 16 => bytes.truncate(bytes.len() - 1 - random.below(9)),
            _ => {
                let from = random.below(bytes.len()) & !7;
                let word: Vec<u8> = bytes.iter().skip(from).take(8).copied().collect();
                let to = at & !7;
                bytes.iter_mut().skip(to).zip(word).for_each(|(byte, value)| *byte = value);
            }
        }
    }
    bytes
}

/// Under sanitizers: `TOMBOLO_C_FUZZ` says how many messages.
#[test]
fn c_refuses_what_rust_refuses_and_touches_nothing_else() {
    let count = std::env::var("TOMBOLO_C_FUZZ").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let (samples, mut random) = (samples(), Random(1));
    let messages: Vec<(u8, Vec<u8>)> = (0..count)
        .map(|_| {
            let (which, message) = &samples[random.below(samples.len())];
            (*which, mutated(message, &mut random))
        })
        .collect();
    let (mut refused, mut taken) = (0, 0);
    for ((which, message), (status, _)) in messages.iter().zip(Again::built("fuzz").of(&messages)) {
        let rust = check(*which, message);
        // 41: it was read, and has a case of a union that this side does not know and cannot write.
        assert_eq!(
            rust.is_ok(),
            status == 0 || status == 41,
            "record {which}: {rust:?}, C says {status}\n{message:02x?}"
        );
        if status == 0 { taken += 1 } else { refused += 1 }
    }
    assert!(refused > count / 10 && taken > count / 50, "{refused} refused, {taken} taken");
}
