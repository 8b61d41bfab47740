//! The quick start shows this program, and nothing else: the page cannot go stale.

const PROGRAM: &str = include_str!("../src/main.rs");
const IN_C: &str = include_str!("../../../cli/templates/c/plain/main.c");
const IN_PYTHON: &str = include_str!("../../../cli/templates/python/plain/main.py");
const PAGE: &str = include_str!("../../../docs/book/src/quick-start.md");

/// The blocks of the page in that language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in PAGE.lines() {
        match &mut open {
            None if line == format!("```{language}") => open = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

#[test]
fn the_page_shows_the_program_as_it_is() {
    let rust = blocks("rust");
    assert_eq!(rust, [PROGRAM], "copy examples/pingpong/src/main.rs into docs/book/src/quick-start.md");
}

/// Project made by `tombolo new`, with the name of its image.
#[test]
fn the_page_shows_the_programs_in_c_and_python_as_they_are() {
    for (language, program) in [("c", IN_C), ("python", IN_PYTHON)] {
        assert_eq!(
            blocks(language),
            [program.replace("@name@", "main")],
            "copy it into docs/book/src/quick-start.md"
        );
    }
}

#[test]
fn the_page_says_what_the_program_prints() {
    assert!(PAGE.contains("x86_64 on host -> aarch64 on arm0: 10000 round trips, median "));
    assert!(!blocks("sh").is_empty());
}
