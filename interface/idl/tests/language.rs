//! Valid files: the model, the formatter, compatibility.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tombolo_idl::compatibility::{Verdict, compare, verdict};
use tombolo_idl::model::{Model, Type};
use tombolo_idl::{compile, format};

fn model(body: &str) -> Model {
    let text = format!("package p;\n{body}");
    compile(&text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"))
}

fn offsets(model: &Model, record: &str) -> (Vec<u64>, u64) {
    let record = model.records.iter().find(|known| known.name == record).unwrap();
    (record.fields.iter().map(|field| field.offset).collect(), record.bytes)
}

#[test]
fn everything_is_naturally_aligned_and_in_the_order_of_ordinals() {
    let model = model(
        "frozen struct Point { @1 x: u8, @2 y: u16 }
         union Shape { @1 point: Point, @2 nothing }
         struct A { @2 b: u32, @1 a: bool, @3 c: u64?, @4 d: u8?, @5 e: string<9>, @6 f: [Point; 3],
                    @7 g: Shape, @8 h: copy region, @9 i: [u16; ..3] }",
    );
    assert_eq!(offsets(&model, "Point"), (vec![0, 2], 4));
    assert_eq!(offsets(&model, "A"), (vec![0, 4, 8, 24, 32, 40, 56, 72, 88], 96));
    let record = model.records.iter().find(|known| known.name == "A").unwrap();
    assert_eq!(record.outside_bytes, 16 + 8 + 8);
    assert!(record.needs.capabilities && !record.needs.buffers);
}

#[test]
fn a_list_of_bytes_is_bytes() {
    let model = model("struct A { @1 a: [u8; ..4], @2 b: [u8; 4] }");
    assert_eq!(model.records[0].fields[0].of, Type::Bytes { max: 4 });
    assert!(matches!(model.records[0].fields[1].of, Type::Array { count: 4, .. }));
}

#[test]
fn hashes_cover_what_affects_peers() {
    let of = |body: &str| {
        let interface = model(body).interfaces.remove(0);
        (interface.hash, interface.fingerprint)
    };
    let base = of("interface A version 1 { @1 call a(b: u8); }");
    let documented = of("/// Says more.\ninterface A version 1 {\n /// So does this.\n @1 call a(b: u8); }");
    assert_eq!(base, documented);
    let grown = of("interface A version 1 { @1 call a(b: u8, c: u8); }");
    assert_eq!(base.0, grown.0);
    assert_ne!(base.1, grown.1);
    assert_ne!(base.0, of("interface A version 2 { @1 call a(b: u8); }").0);
    assert_ne!(base.0, of("interface B version 1 { @1 call a(b: u8); }").0);
}

/// Returns the verdict on a change from `old` to `new`.
fn changed(old: &str, new: &str) -> Verdict {
    verdict(&compare(&model(old), &model(new)))
}

#[test]
fn addition_with_a_default_is_compatible() {
    let base = "struct S { @1 a: u8 } interface A version 1 { @1 call a(s: S) -> (b: u8); }";
    for new in [
        base,
        "struct S { @1 a: u8, @2 b: u64? } interface A version 1 { @1 call a(s: S) -> (b: u8); }",
        "struct S { @1 a: u8, @2 b: string<4> } interface A version 1 { @1 call a(s: S) -> (b: u8); }",
        "struct S { @1 a: u8 } interface A version 1 { @1 call a(s: S, t: S) -> (b: u8, c: bool); }",
        "struct S { @1 a: u8 } interface A version 1 { @1 call a(s: S) -> (b: u8); @2 event b(); }",
        "struct S { @1 other: u8 } interface A version 1 { @1 call renamed(s: S) -> (b: u8); }",
    ] {
        assert_eq!(changed(base, new), Verdict::Compatible, "{new}");
    }
}

#[test]
fn incompatible_change_is_breaking_unless_versioned() {
    let wrap =
        |of: &str, rest: &str| format!("{rest} interface A version 1 {{ @1 call a(s: {of}) -> (b: u8); }}");
    let base = "interface A version 1 { @1 idempotent call a(s: u8) -> (b: u8); @2 event b(); }";
    for new in [
        "interface A version 1 { @1 idempotent call a(s: u8) -> (b: u8); }",
        "interface A version 1 { @1 idempotent call a(s: u16) -> (b: u8); @2 event b(); }",
        "interface A version 1 { @1 idempotent call a() -> (b: u8); @2 event b(); }",
        "interface A version 1 { @1 call a(s: u8) -> (b: u8); @2 event b(); }",
        "interface A version 1 { @1 idempotent call a(s: u8) -> (b: u8); @2 message b(); }",
        "interface A version 1 { @1 idempotent call a(s: u8, t: domain) -> (b: u8); @2 event b(); }",
        "interface B version 1 { @1 call a(); }",
        "enum E : u8 { a = 1 } interface A version 1 { @1 idempotent call a(s: u8) -> (b: u8) error E; @2 event b(); }",
        "interface A version 1 { @1 idempotent call a(s: u8, t: copy region?) -> (b: u8); @2 event b(); }",
    ] {
        assert_eq!(changed(base, new), Verdict::Breaking, "{new}");
        let versioned = new.replace("interface A version 1", "interface A version 2");
        if versioned.contains("version 2") {
            assert_eq!(changed(base, &versioned), Verdict::Versioned, "{versioned}");
        }
    }
    let pairs = [
        ("string<4>", "string<5>", ""),
        ("[u16; 4]", "[u16; 5]", ""),
        ("[u16; ..4]", "[u32; ..4]", ""),
        ("u8", "u8?", ""),
    ];
    for (old, new, rest) in pairs {
        assert_eq!(changed(&wrap(old, rest), &wrap(new, rest)), Verdict::Breaking, "{old} {new}");
    }
    let types = [
        ("enum T : u8 { a = 1 }", "enum T : u8 { a = 1, b = 2 }", Verdict::Breaking),
        ("open enum T : u8 { a = 1 }", "open enum T : u8 { a = 1, b = 2 }", Verdict::Compatible),
        ("open enum T : u8 { a = 1 }", "enum T : u8 { a = 1 }", Verdict::Breaking),
        ("enum T : u8 { a = 1, b = 2 }", "enum T : u8 { a = 1 }", Verdict::Breaking),
        ("enum T : u8 { a = 1 }", "enum T : u16 { a = 1 }", Verdict::Breaking),
        ("union T { @1 a }", "union T { @1 a, @2 b: u8 }", Verdict::Compatible),
        ("union T { @1 a, @2 b: u8 }", "union T { @1 a }", Verdict::Breaking),
        ("union T { @1 a }", "union T { @1 a: u8 }", Verdict::Breaking),
        ("frozen struct T { @1 a: u8 }", "frozen struct T { @1 a: u8, @2 b: u8 }", Verdict::Breaking),
        ("frozen struct T { @1 a: u8 }", "struct T { @1 a: u8 }", Verdict::Breaking),
    ];
    for (old, new, expected) in types {
        assert_eq!(changed(&wrap("T", old), &wrap("T", new)), expected, "{old} {new}");
    }
}

const UNTIDY: &str = "// About this.\npackage  p ;\n\n\nconst A=3 ; // three\n/// Doc.\nstruct B{@1 a:[ u8;..A ]? , @2 b : move  region // last\n}\nopen enum C:u8{a=1,b=2,}\ninterface D version 1{\n/// Gets.\n@1 idempotent call get(key:string<64>,another_parameter:bytes<4096>,and_a_third:[u64;..128])->(value:u8)error C;\n\n\n@2 event gone();}\n";

#[test]
fn formatter_output_is_canonical() {
    insta::assert_snapshot!("formatted", format(UNTIDY).unwrap());
}

#[test]
fn formatting_twice_changes_nothing_and_keeps_the_meaning() {
    let once = format(UNTIDY).unwrap();
    assert_eq!(format(&once).unwrap(), once);
    assert_eq!(compile(&once).unwrap(), compile(UNTIDY).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(512) })]

    #[test]
    fn no_text_makes_the_compiler_panic(text in ".{0,200}") {
        let _ = compile(&text);
        let _ = format(&text);
    }

    #[test]
    fn no_sequence_of_tokens_makes_the_compiler_panic(
        words in prop::collection::vec(prop::sample::select(&[
            "package", "p", ";", "struct", "A", "B", "{", "}", "@", "1", "2", "a", ":", "u8", "string", "<", ">",
            "[", "]", "..", ",", "?", "enum", "flags", "=", "interface", "version", "call", "(", ")", "->",
            "event", "error", "move", "region", "frozen", "open", "union", "/// d\n", "// c\n", "-1", "const",
        ][..]), 0..60)
    ) {
        let text = format!("package p; {}", words.join(" "));
        if let Ok(once) = format(&text) {
            prop_assert_eq!(format(&once).unwrap(), once.clone());
            prop_assert_eq!(compile(&once).ok(), compile(&text).ok());
        }
    }
}

#[test]
fn documented_parameters_are_on_separate_lines() {
    let written = "package p;

interface A version 1 {
    /// Says what it does.
    @1 call a(
        /// The first.
        b: u8,
        // And that.
        c: u8,
    ) -> (
        /// Both.
        d: u16,
    ) error E;
    @2 message f(g: u8);
}

enum E : u8 {
    none = 0,
}
";
    assert_eq!(format(written).unwrap(), written);
    let crammed = written.replace("c: u8,\n    )", "c: u8)").replace("d: u16,\n    )", "d: u16)");
    assert_eq!(format(&crammed).unwrap(), written);
}

#[test]
fn names_that_generated_rust_uses_itself_are_refused() {
    use tombolo_idl::rust::{RustOptions, generate};
    for text in [
        "struct Result { @1 a: u8 }",
        "enum Option : u8 { a = 1 }",
        "interface P version 1 { @1 message say(); }",
    ] {
        let refused = generate(&model(text), &RustOptions::default()).unwrap_err().to_string();
        assert!(refused.contains("which generated code uses, and"), "{refused}");
    }
    assert!(generate(&model("struct Results { @1 from: u8 }"), &RustOptions::default()).is_ok());
}
