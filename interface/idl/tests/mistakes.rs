//! Every mistake has a location and a hint: one snapshot per mistake.

use tombolo_idl::{Source, compile};

/// Compiles an invalid file and returns the rendered mistakes. Asserts that each has a hint.
fn shown(body: &str) -> String {
    let text = if body.contains("package") { body.to_owned() } else { format!("package p;\n{body}\n") };
    let mistakes = compile(&text).expect_err(body);
    assert!(mistakes.0.iter().all(|mistake| !mistake.advice().is_empty()), "no hint: {mistakes:?}");
    mistakes.render(&Source { path: "kv.tbl", text: &text }, false)
}

macro_rules! mistakes {
    ($($name:ident: $text:expr,)*) => {
        $(#[test]
        fn $name() {
            insta::assert_snapshot!(stringify!($name), shown($text));
        })*
    };
}

mistakes! {
    unexpected_character: "struct A { @1 a: u8 # }",
    literal_text: "const A = \"a\";",
    no_package: "//package\nstruct A { @1 a: u8 }",
    no_declaration: "sturct A { @1 a: u8 }",
    word_as_a_name: "struct interface { @1 a: u8 }",
    declared_twice: "struct A { @1 a: u8 }\nenum A : u8 { a = 1 }",
    lower_case_type: "struct my_type { @1 a: u8 }",
    camel_case_field: "struct A { @1 theField: u8 }",
    lower_case_constant: "const max = 1;",
    built_in_name: "type string = u8;",
    missing_ordinal: "struct A { a: u8 }",
    ordinal_taken: "struct A { @1 a: u8, @1 b: u8 }",
    ordinal_gap: "struct A { @1 a: u8, @3 b: u8 }",
    ordinal_zero: "struct A { @0 a: u8 }",
    two_fields: "struct A { @1 a: u8, @2 a: u8 }",
    no_field: "struct A { }",
    missing_comma: "struct A { @1 a: u8 @2 b: u8 }",
    unknown_type: "struct A { @1 b: Enty }\nstruct Entry { @1 a: u8 }",
    unsized_integer: "struct A { @1 a: int }",
    unbounded_string: "struct A { @1 a: string }",
    sized_integer: "struct A { @1 a: u8<4> }",
    zero_size: "struct A { @1 a: string<0> }",
    huge_size: "struct A { @1 a: string<99999999999> }",
    unknown_constant: "const LIMIT = 3;\nstruct A { @1 a: string<LIMT> }",
    no_constant: "struct B { @1 a: u8 }\nstruct A { @1 a: string<B> }",
    array_without_length: "struct A { @1 a: [u8] }",
    optional_twice: "struct A { @1 a: u8?? }",
    optional_alias_twice: "type B = u8?;\nstruct A { @1 a: B? }",
    recursion: "struct A { @1 b: B }\nstruct B { @1 a: [A; ..4] }",
    inline_too_large: "struct A { @1 a: [u64; 10000] }",
    copied_or_moved: "struct A { @1 a: region }",
    moved_number: "struct A { @1 a: move u8 }",
    misspelt_capability: "struct A { @1 a: move bufer }",
    misspelt_move: "struct A { @1 a: mvoe buffer }",
    misspelt_message_kind: "interface A version 1 { @1 clal get(); }",
    swapped_type: "struct A { @1 a: bolo }",
    enum_without_type: "enum A { a = 1 }",
    enum_of_bool: "enum A : bool { a = 1 }",
    signed_flags: "flags A : i8 { a = 1 }",
    value_out_of_range: "enum A : u8 { a = 256 }",
    value_taken: "enum A : u8 { a = 1, b = 1 }",
    value_missing: "enum A : u8 { a, b }",
    no_such_bit: "flags A : u8 { a = 8 }",
    open_struct: "open struct A { @1 a: u8 }",
    frozen_union: "frozen union A { @1 a: u8 }",
    empty_union: "union A { }",
    interface_without_version: "interface A { @1 call a(); }",
    version_zero: "interface A version 0 { @1 call a(); }",
    empty_interface: "interface A version 1 { }",
    message_without_kind: "interface A version 1 { @1 get(); }",
    message_ordinal_taken: "interface A version 1 { @1 call a(); @1 call b(); }",
    message_ordinal_too_large: "interface A version 1 { @65536 call a(); }",
    one_way_with_result: "interface A version 1 { @1 message a() -> (b: u8); }",
    one_way_with_error: "enum E : u8 { a = 1 }\ninterface A version 1 { @1 event a() error E; }",
    idempotent_event: "interface A version 1 { @1 idempotent event a(); }",
    error_is_a_number: "interface A version 1 { @1 call a() error u8; }",
    body_name_taken: "struct AGetRequest { @1 a: u8 }\ninterface A version 1 { @1 call get(); }",
    message_too_long: "interface A version 1 { @1 call a(a: [[bytes<16000000>; 100]; ..100]); }",
    interface_as_a_type: "interface A version 1 { @1 call a(); }\nstruct B { @1 a: A }",
    file_ends: "struct A { @1 a: u8",
    documentation_of_nothing: "struct A { @1 a: /// what?\n u8 }",
    bad_number: "const A = 0xfg;",
    not_ascii: "struct Ä { @1 a: u8 }",
    several_at_once: "struct A { @1 a: u88 }\nstruct B { @1 b string }\nenum C : u8 { c = 999 }",
}

#[test]
fn nesting_is_bounded() {
    let deep = format!("struct A {{ @1 a: {}u8{} }}", "[".repeat(40), "; 1]".repeat(40));
    assert!(shown(&deep).contains("nested too deeply"));
    let chain: String =
        (0..40).map(|level| format!("struct A{level} {{ @1 a: A{} }}\n", level + 1)).collect();
    assert!(shown(&format!("{chain}struct A40 {{ @1 a: u8 }}")).contains("nested more than 32 deep"));
}
