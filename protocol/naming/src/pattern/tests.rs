use alloc::format;

use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::regex(pattern).unwrap().matches(text, &mut 1_000_000).unwrap()
}

#[test]
fn regex_matches_anywhere_unless_anchored() {
    assert!(matches("obj.$", "obj1") && matches("b", "abc") && matches("", "x") && matches("^$", ""));
    assert!(!matches("^b", "abc") && !matches("obj.$", "obj123") && !matches("^$", "x"));
    assert!(matches("^msg_(6|7)$", "msg_7") && !matches("^msg_(6|7)$", "msg_67"));
    assert!(matches(r"^[\w.-]{2,3}$", "a-b") && !matches(r"^[\w.-]{2,3}$", "abcd"));
    assert!(matches("^(a|b)*?c+$", "ababcc") && matches("[]x]", "]") && matches("[^]x]", "y"));
}

#[test]
fn octopus_date_regex_is_supported() {
    let pattern = concat!(
        r"^(((((((0?[13578])|(1[02]))[\.\-/]?((0?[1-9])|([12]\d)|(3[01])))|(((0?[469])|(11))[\.\-/]?((0?[1-9])|",
        r"([12]\d)|(30)))|((0?2)[\.\-/]?((0?[1-9])|(1\d)|(2[0-8]))))[\.\-/]?(((19)|(20))?([\d][\d]))))|((0?2)",
        r"[\.\-/]?(29)[\.\-/]?(((19)|(20))?(([02468][048])|([13579][26])))))$"
    );
    assert!(matches(pattern, "10-10-2010"));
    assert!(!matches(pattern, "21-00-2900"));
}

#[test]
fn pattern_errors_have_a_position() {
    let cases = [
        ("a(b", 1),
        ("a)", 1),
        ("*a", 0),
        ("[a", 0),
        ("a{2,1}", 1),
        ("a{x}", 2),
        ("(?=a)", 2),
        ("\\", 1),
        ("[z-a]", 4),
        (r"\1", 2),
        ("a{9999}", 2),
        ("a{2", 3),
    ];
    for (pattern, offset) in cases {
        let error = Pattern::regex(pattern).unwrap_err();
        assert_eq!(error.offset, offset, "{pattern}: {error}");
    }
}

#[test]
fn length_program_and_depth_are_bounded() {
    for (length, fits) in
        [(MAX_PATTERN_BYTES - 1, true), (MAX_PATTERN_BYTES, true), (MAX_PATTERN_BYTES + 1, false)]
    {
        assert_eq!(Pattern::regex(&"a".repeat(length)).is_ok(), fits, "{length}");
        assert_eq!(Pattern::glob(&"a".repeat(length)).is_ok(), fits, "{length}");
    }
    // The program ends with one more instruction.
    for (length, fits) in [(MAX_PROGRAM - 2, true), (MAX_PROGRAM - 1, true), (MAX_PROGRAM, false)] {
        assert_eq!(Pattern::regex(&format!("a{{{length}}}")).is_ok(), fits, "{length}");
    }
    assert!(Pattern::regex("((((a{1000}){1000}){1000}){1000}){1000}").is_err());
    assert!(Pattern::regex("(((){4096}){4096}){4096}").is_ok());
    assert!(Pattern::regex(&"(".repeat(500)).is_err());
    assert!(Pattern::regex(&format!("a{}", "*".repeat(500))).is_err());
}

#[test]
fn pathological_patterns_take_bounded_steps() {
    let pattern = Pattern::regex("^(a+)+$").unwrap();
    let text = format!("{}b", "a".repeat(1000));
    let mut steps = 100_000;
    assert_eq!(pattern.matches(&text, &mut steps), Ok(false));
    let needed = 100_000 - steps;
    for (allowed, result) in [(needed - 1, Err(Exhausted)), (needed, Ok(false)), (needed + 1, Ok(false))] {
        assert_eq!(pattern.matches(&text, &mut { allowed }), result);
    }
}

#[test]
fn glob_matches_whole_names() {
    let glob =
        |pattern: &str, text: &str| Pattern::glob(pattern).unwrap().matches(text, &mut 10_000).unwrap();
    assert!(glob("*", "") && glob("svc/*", "svc/a/b") && glob("a?c", "abc") && glob("a.c", "a.c"));
    assert!(!glob("svc/*", "xsvc/a") && !glob("a?c", "ac") && !glob("a.c", "abc") && !glob("", "a"));
}

/// Generates patterns that both this crate and the `regex` crate support.
fn pattern() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        "[abc]",
        Just(".".to_owned()),
        Just(r"\d".to_owned()),
        Just(r"\W".to_owned()),
        Just("[^ab]".to_owned()),
        Just("[a-c1]".to_owned()),
        Just("^".to_owned()),
        Just("$".to_owned()),
    ];
    atom.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("({})", parts.join("|"))),
            (
                inner,
                prop_oneof![
                    "[*+?]",
                    Just("{2}".to_owned()),
                    Just("{0,2}".to_owned()),
                    Just("{1,}".to_owned())
                ]
            )
                .prop_map(|(part, times)| format!("(?:{part}){times}")),
        ]
    })
}

proptest! {
    #[test]
    fn matches_agree_with_the_regex_crate(pattern in pattern(), text in "[abc1 ]{0,8}") {
        // Its classes cover all of Unicode; the texts are ASCII, so that makes no difference.
        let expected = regex::Regex::new(&pattern).unwrap().is_match(&text);
        prop_assert_eq!(matches(&pattern, &text), expected, "{} {:?}", pattern, text);
    }

    #[test]
    fn arbitrary_patterns_never_panic(pattern in any::<String>(), text in any::<String>()) {
        if let Ok(pattern) = Pattern::regex(&pattern) {
            let _ = pattern.matches(&text, &mut 10_000);
        }
        if let Ok(pattern) = Pattern::glob(&pattern) {
            let _ = pattern.matches(&text, &mut 10_000);
        }
    }

    #[test]
    fn matching_steps_are_bounded_by_program_times_text(pattern in "[a.*+?|()]{0,12}", text in "[ab]{0,64}") {
        if let Ok(pattern) = Pattern::regex(&pattern) {
            let bound = 3 * (pattern.program.len() * (text.len() + 1)) as u64;
            let result = pattern.matches(&text, &mut { bound });
            prop_assert!(result.is_ok());
        }
    }
}
