//! Windows of several nodes, and mistakes in them.

use super::*;

/// Returns a machine with nodes `arm0` to `arm3`, and a window of some with additional lines.
fn arms(window: &str) -> String {
    let nodes = (0..4).map(|id| format!("[[node]]\nname = \"arm{id}\"\nkind = \"vm\"\nisa = \"aarch64\"\n"));
    nodes.chain([window.to_owned()]).collect()
}

#[test]
fn a_window_joins_its_nodes() {
    let text = arms(
        "[[window]]\nname = \"arms\"\nnodes = [\"arm2\", \"arm0\"]\nsize_mib = 4\n\
         home = \"arm2\"\nread_ns = 700\nline_ns = 60\n\
         [[window]]\nname = \"all\"\nnodes = [\"arm2\", \"host\", \"arm0\", \"arm3\"]\ndoorbells = 4\n",
    );
    let text =
        |links: &str| format!("name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n{text}{links}");
    let machine = parse(&text("")).unwrap_or_else(|report| panic!("{report}"));
    let between = |machine: &Machine, a, b| {
        machine.window_between(NodeId(a), NodeId(b)).map(|window| window.name.clone())
    };
    for (ends, name) in [((0, 1), "arm0"), ((3, 1), "arms"), ((1, 4), "all"), ((4, 0), "arm3")] {
        assert_eq!(between(&machine, ends.0, ends.1).as_deref(), Some(name), "{ends:?}");
    }
    assert_eq!(between(&machine, 1, 2), None);
    assert_eq!(machine.link_between(NodeId(3), NodeId(4)), Some(TransportKind::Window));
    let window = machine.window_named("all").unwrap();
    assert_eq!(window.members, [0, 1, 3, 4].map(NodeId));
    assert_eq!((window.id.0, window.size_mib, window.doorbells, window.private_to), (5, 64, 4, None));
    assert_eq!((window.home, window.read_ns, window.line_ns), (NodeId(0), 0, 0));
    let window = machine.window_named("arms").unwrap();
    assert_eq!((window.home, window.read_ns, window.line_ns), (NodeId(3), 700, 60));
    let names: Vec<&str> = machine.windows_of(NodeId(1)).map(|window| window.name.as_str()).collect();
    assert_eq!(names, ["arm0", "arms", "all"]);
    let link = "[[link]]\nbetween = [\"arm0\", \"arm2\"]\ntransport = \"window\"\nwindow = \"all\"\n";
    assert_eq!(between(&parse(&text(link)).unwrap(), 1, 3).as_deref(), Some("all"));
    for (from, to, said) in [
        ("\"all\"", "\"al\"", "error: unknown window `al`"),
        ("\"all\"", "\"arm0\"", "error: window `arm0` does not join `arm0` and `arm2`"),
        ("\"arm2\"", "\"arm1\"", "error: `window` cannot join `arm0` (vm) and `arm1` (vm)"),
    ] {
        let report = parse(&text(&link.replace(from, to))).unwrap_err();
        assert!(report.starts_with(said), "{report}");
    }
}

#[test]
fn impossible_windows() {
    let window = |lines: &str| parse_error(&arms(&format!("[[window]]\nname = \"arms\"\n{lines}\n")));
    assert_eq!(
        window("nodes = [\"arm0\", \"amr1\"]"),
        "\
error: unknown node `amr1`
  --> m.toml:23:18
   |
23 | nodes = [\"arm0\", \"amr1\"]
   |                  ^^^^^^ did you mean \"arm1\"?
   |
   = note: nodes of this machine: `host`, `arm0`, `arm1`, `arm2` or `arm3`"
    );
    assert_eq!(
        window("nodes = [\"arm0\", \"arm1\", \"arm2\"]\nsize_mib = 2"),
        "\
error: window `arms` is too small for its 3 nodes
  --> m.toml:24:12
   |
24 | size_mib = 2
   |            ^ at least 4
   |
   = note: size_mib: a MiB or more for each node"
    );
    let first = |lines: &str| window(lines).lines().next().unwrap_or_default().to_owned();
    let two = "nodes = [\"arm0\", \"arm1\"]";
    for (lines, said) in [
        ("", "this window has no `nodes`"),
        ("nodes = \"arm0\"", "`nodes` must be an array of names of nodes"),
        ("nodes = [\"arm0\"]", "a window has 2 to 8 nodes, not 1"),
        ("nodes = [\"arm0\", 3]", "`nodes` must be a string, not an integer"),
        ("nodes = [\"arm0\", \"arm0\"]", "`arm0` is in this window twice"),
        (&format!("{two}\nsize_mib = 3"), "`size_mib` must be a power of two; 3 is not"),
        (&format!("{two}\nsize_mib = 0"), "`size_mib` is out of range"),
        (&format!("{two}\ndoorbells = 1"), "`doorbells` is out of range"),
        (&format!("{two}\ndoorbells = 33"), "the windows of node `arm0` have too many doorbells: 65"),
        (&format!("{two}\nbells = 3"), "unknown key `bells` in a window"),
        (&format!("{two}\ntrust = 3"), "`trust` must be a string, not an integer"),
        (&format!("{two}\nhome = \"arm2\""), "`home` is not a node of the window: `arm2`"),
        (&format!("{two}\nhome = \"mars\""), "unknown node `mars`"),
        (&format!("{two}\nread_ns = 1000001"), "`read_ns` is out of range"),
        (&format!("{two}\nline_ns = -1"), "`line_ns` is out of range"),
    ] {
        assert_eq!(first(lines), format!("error: {said}"));
    }
    assert!(
        first("nodes = [\"host\", \"arm0\", \"arm1\", \"arm2\", \"arm3\"]\ndoorbells = 26")
            .starts_with("error: window `arms` has too many doorbells for 5 nodes")
    );
}

#[test]
fn conflicting_windows() {
    let windows = |windows: &[(&str, &str)]| {
        let tables = windows
            .iter()
            .map(|(name, rest)| format!("[[window]]\nname = \"{name}\"\ndoorbells = 2\n{rest}\n"));
        parse_error(&arms(&tables.collect::<String>()))
    };
    let two = "nodes = [\"arm0\", \"arm1\"]";
    let report = windows(&[("arm3", two)]);
    assert!(report.starts_with("error: two windows are called `arm3`"), "{report}");
    let report = windows(&[("a", two), ("a", "nodes = [\"arm2\", \"arm3\"]")]);
    assert!(report.contains("another window has this name"), "{report}");
    let other = "nodes = [\"arm0\", \"arm2\"]\ntrust = \"other\"";
    let report = windows(&[("a", two), ("b", other)]);
    assert!(
        report.contains("node `arm0` is in windows of two trust domains, `machine` and `other`"),
        "{report}"
    );
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, two));
    assert!(windows(&names).contains("node `arm1` is in too many windows"));
    let nodes = "[[node]]\nname = \"b\"\nkind = \"bare\"\nisa = \"riscv64\"\nwindow_mib = 8192\n\
                 [[node]]\nname = \"u\"\nkind = \"user\"\nisa = \"riscv64\"\n\
                 [[window]]\nname = \"w\"\nnodes = [\"host\", \"b\"]\nsize_mib = 8192\n";
    let report = parse_error(&nodes.replace("\"host\"", "\"u\""));
    assert!(report.contains("`u` (user) cannot be in a window"), "{report}");
    let report = parse_error(&format!("{nodes}[[window]]\nname = \"x\"\nnodes = [\"host\", \"b\"]\n"));
    assert!(report.starts_with("error: the windows of board `b` are too large together"), "{report}");
    assert!(report.contains("17 GiB with this one"), "{report}");
}
