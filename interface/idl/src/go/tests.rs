use super::*;
use crate::compile;

fn go(text: &str, options: &GoOptions) -> Result<String, GoError> {
    generate(&compile(text).expect("an interface file"), options)
}

const GREETER: &str = "package example.greeter;
    struct Unused { @1 a: u8 }
    enum Tone : u8 { calm = 0, loud = 1 }
    interface Greeter version 1 {
        @1 call greet(name: string<16>, tone: Tone) -> (text: string<32>);
        @2 message wave();
    }";

#[test]
fn conflicting_names_are_refused() {
    let taken = |text: &str| match go(text, &GoOptions::default()) {
        Err(GoError::NameTaken { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(taken("package p; const RED = 1; struct Red { @1 a: u8 }"), "Red");
    assert_eq!(taken("package p; struct ToneLoud { @1 a: u8 } enum Tone : u8 { loud = 1 }"), "ToneLoud");
    assert_eq!(
        taken("package p; struct EchoClient { @1 a: u8 } interface Echo version 1 { @1 message say(); }"),
        "EchoClient"
    );
}

#[test]
fn package_name_comes_from_the_file_or_the_options() {
    let options = |package: &str| GoOptions { package: Some(package.to_owned()), ..GoOptions::default() };
    assert!(go(GREETER, &GoOptions::default()).unwrap().contains("\npackage greeter\n"));
    assert!(go(GREETER, &options("hello2")).unwrap().contains("\npackage hello2\n"));
    for name in ["", "Hello", "a-b", "func", "2a", "a_b"] {
        assert_eq!(go(GREETER, &options(name)), Err(GoError::BadPackage(name.to_owned())));
    }
}

#[test]
fn selected_messages_include_only_needed_types() {
    let options = GoOptions { only: Some(vec!["greet".to_owned()]), ..GoOptions::default() };
    let text = go(GREETER, &options).unwrap();
    for part in
        ["type Tone uint8", "type GreeterGreetRequest struct", "var GreeterGreetMessage =", "Fingerprint: 0x"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["Unused", "GreeterWave", "GreeterClient", "\"context\""] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_file_of_constants_imports_nothing() {
    let text = go("package p; const MAX_NAME = 16;", &GoOptions::default()).unwrap();
    assert!(text.ends_with("\npackage p\n\nconst MaxName = 16\n"), "{text}");
}

#[test]
fn go_keywords_are_not_parameter_names() {
    let text = "package p; interface Odd version 1 { @1 message odd(type: u8, ctx: u8, range: u8, u8_: u8, x: u8); }";
    let text = text.replace("u8_: u8, ", "");
    let text = go(&text, &GoOptions::default()).unwrap();
    assert!(
        text.contains("Odd(ctx context.Context, type_ uint8, ctx_ uint8, range_ uint8, x uint8)"),
        "{text}"
    );
}

#[test]
fn a_server_that_gets_no_messages_declares_no_context() {
    let text = "package p; interface OnlyEvents version 1 { @1 event tick(x: u8); }";
    let text = go(text, &GoOptions::default()).unwrap();
    let server = text.split("func NewOnlyEventsServer").nth(1).unwrap();
    assert!(!server.split("\n}").next().unwrap().contains("ctx :="), "{text}");
}
