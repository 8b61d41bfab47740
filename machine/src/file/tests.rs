use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tombolo_base::coherence::{Caches, Evictions};
use tombolo_base::{Isa, NodeId, Target};
use tombolo_link::TransportKind;

mod found;
mod windows;

use crate::file::MAX_NODES;
use crate::limits::{Limit, Limits};
use crate::model::{Accelerator, BareNode, Boot, Folder, Machine, VmJoin, VmNode};

fn parse(text: &str) -> Result<Machine, String> {
    Machine::parse(text, Path::new("m.toml"), Isa::X86_64).map_err(|report| report.to_string())
}

/// Returns the report on a machine of a host and `rest`, which begins in line 5.
fn parse_error(rest: &str) -> String {
    let text = format!("name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n{rest}");
    parse(&text).expect_err("the file has a mistake")
}

/// Returns the report on a machine of a host and a vm node with `line`, which is line 9.
fn vm_parse_error(line: &str) -> String {
    parse_error(&format!("[[node]]\nname = \"arm0\"\nkind = \"vm\"\nisa = \"aarch64\"\n{line}\n"))
}

#[test]
fn machine_files_of_the_project_are_valid() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machines");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let machine = Machine::parse(&text, &path, Isa::X86_64).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(
            path.file_stem().unwrap().to_str(),
            Some(machine.name()),
            "a file is called like its machine"
        );
        names.push(machine.name().to_owned());
    }
    names.sort();
    assert_eq!(
        names,
        [
            "boards",
            "default",
            "host",
            "mpi",
            "mpi-farm",
            "mpi-python",
            "narrow",
            "placement",
            "riscv-vm",
            "streams",
            "two-arms",
            "users",
            "x86-vm",
            "zoo"
        ]
    );
}

#[test]
fn example_in_the_specification_is_valid() {
    let specification = include_str!("../../../docs/specs/machine-file.md");
    let example = specification.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let machine = parse(example).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(machine.link_between(NodeId(0), NodeId(2)), Some(TransportKind::Socket));
}

#[test]
fn built_in_machine_needs_no_file() {
    let machine = Machine::built_in().unwrap();
    assert_eq!(machine.node_named("arm0").map(|node| node.isa), Some(Isa::Aarch64));
}

#[test]
fn machine_file_is_parsed_completely() {
    let machine = parse(
        r#"
        name = "duo"
        [[node]]
        name = "s390x-user"
        kind = "user"
        isa = "s390x"
        emulator = "bin/qemu-s390x"
        [[node]]
        name = "front"
        kind = "host"
        [[node]]
        name = "arm0"
        kind = "vm"
        isa = "aarch64"
        memory_mib = 65_536
        processors = 8
        window_mib = 16384
        doorbells = 0x40
        cpu = "max,pauth-impdef=on"
        files = ["root", "/srv/more", "kit:mpi/aarch64", "./kit:x"]
        emulator = "qemu-system-aarch64"
        kernel = "Image"
        modules = "lib/modules"
        root = "root.img"
        disks = ["/srv/data.img", "more.img"]
        [[link]]
        between = ["s390x-user", "front"]
        transport = "socket"
        "#,
    )
    .unwrap();
    assert_eq!((machine.host().name.as_str(), machine.host().isa), ("front", Isa::X86_64));
    let user = machine.node_named("s390x-user").unwrap();
    assert_eq!((user.id, user.isa), (NodeId(1), Isa::S390x));
    assert_eq!(user.as_user().unwrap().emulator.as_deref(), Some(Path::new("bin/qemu-s390x")));
    let expected = VmNode {
        join: VmJoin::Window,
        memory_mib: 65_536,
        processors: 8,
        window_mib: 16384,
        doorbells: 64,
        caches: None,
        accelerator: Accelerator::Tcg,
        cpu: Some("max,pauth-impdef=on".to_owned()),
        files: vec![
            Folder::At("root".into()),
            Folder::At("/srv/more".into()),
            Folder::InKit("mpi/aarch64".into()),
            Folder::At("./kit:x".into()),
        ],
        emulator: Some("qemu-system-aarch64".into()),
        boot: Boot {
            kernel: Some("Image".into()),
            modules: Some("lib/modules".into()),
            root: Some("root.img".into()),
            disks: vec!["/srv/data.img".into(), "more.img".into()],
        },
    };
    let images = ["root.img", "/srv/data.img", "more.img"].map(PathBuf::from);
    assert_eq!(expected.boot.images(), images, "that of the root is the first disk");
    assert_eq!(machine.node(NodeId(2)).unwrap().as_vm(), Some(&expected));
    assert_eq!(machine.link_between(NodeId(0), NodeId(1)), Some(TransportKind::Socket));
    assert_eq!(machine.link_between(NodeId(2), NodeId(1)), Some(TransportKind::Window));
}

#[test]
fn a_relative_emulator_starts_at_the_machine_file() {
    let text = "name='m'\n[[node]]\nname='host'\nkind='host'\n[[node]]\nname='a'\nkind='user'\nisa='aarch64'\nemulator='bin/q'";
    let machine = Machine::parse(text, Path::new("/etc/machines/m.toml"), Isa::X86_64).unwrap();
    let user = machine.nodes()[1].as_user().unwrap();
    assert_eq!(user.emulator.as_deref(), Some(Path::new("/etc/machines/bin/q")));
}

#[test]
fn a_user_node_has_files_of_one_folder() {
    let read = |files: &str| {
        let text = format!(
            "name='m'\n[[node]]\nname='h'\nkind='host'\n[[node]]\nname='a'\nkind='user'\nisa='aarch64'\nfiles={files}"
        );
        let machine = Machine::parse(&text, Path::new("/etc/m.toml"), Isa::X86_64);
        machine.map(|machine| machine.nodes()[1].as_user().unwrap().files.clone())
    };
    assert_eq!(read("['root']").unwrap(), Some(Folder::At("/etc/root".into())));
    assert_eq!(read("['kit:a/b']").unwrap(), Some(Folder::InKit("a/b".into())));
    assert_eq!(read("[]").unwrap(), None);
    let refused = read("['a', 'b']").unwrap_err().to_string();
    assert!(refused.contains("`files` names 2 folders") && refused.contains("at most 1"), "{refused}");
    for path in ["kit:", "kit:/mpi", "kit:../x", "kit:a/../../x", "kit:./a"] {
        let refused = read(&format!("['{path}']")).unwrap_err().to_string();
        assert!(refused.contains("a path in `files` is not in the kit"), "{path}: {refused}");
    }
}

#[test]
fn settings_are_checked_at_their_limits() {
    let read = |line: &str| {
        let text = format!(
            "name='m'\n[[node]]\nname='h'\nkind='host'\n[[node]]\nname='v'\nkind='vm'\nisa='aarch64'\n{line}"
        );
        parse(&text).map_err(|report| report.lines().next().unwrap_or_default().to_owned())
    };
    for (key, low, high) in
        [("memory_mib", 64, 65_536), ("window_mib", 1, 16384), ("doorbells", 2, 64), ("processors", 1, 8)]
    {
        let out_of_range = Err(format!("error: `{key}` is out of range"));
        for value in [low, high] {
            assert!(read(&format!("{key} = {value}")).is_ok(), "{key} = {value}");
        }
        for value in [i128::MIN, -1, low - 1, high + 1, i128::MAX] {
            assert_eq!(read(&format!("{key} = {value}")), out_of_range, "{key} = {value}");
        }
    }
    let node = |index: usize| format!("[[node]]\nname='n{index}'\nkind='user'\nisa='s390x'\n");
    let machine = |users: usize| {
        parse(&format!(
            "name='m'\n[[node]]\nname='h'\nkind='host'\n{}",
            (0..users).map(node).collect::<String>()
        ))
    };
    assert_eq!(machine(MAX_NODES - 1).unwrap().nodes().len(), MAX_NODES);
    assert!(machine(MAX_NODES).unwrap_err().contains("a machine has 1024 nodes at most"));
}

#[test]
fn limits_are_parsed_and_range_checked() {
    let read = |lines: &str| parse(&format!("name='m'\n[[node]]\nname='h'\nkind='host'\n{lines}"));
    assert_eq!(*read("").unwrap().limits(), Limits::default());
    let two = read("[limits]\nbacklog = 5\nnames_per_domain = 6").unwrap();
    let expected = Limits::default().with(Limit::Backlog, 5).with(Limit::NamesPerDomain, 6);
    assert_eq!(*two.limits(), expected);
    for limit in Limit::ALL {
        let key = limit.key();
        for value in [1, limit.max_value()] {
            let machine = read(&format!("[limits]\n{key} = {value}")).unwrap();
            assert_eq!(machine.limits().of(limit), value, "{key}");
        }
        for value in [i64::MIN, 0, i64::from(limit.max_value()) + 1] {
            let report = read(&format!("[limits]\n{key} = {value}")).unwrap_err();
            assert!(report.contains(&format!("`{key}` is out of range")), "{report}");
        }
    }
    assert!(read("[limits]\nbaklog = 3").unwrap_err().contains("did you mean `backlog`?"));
    assert!(read("[[limits]]\nbacklog = 3").unwrap_err().contains("headed [limits]"));
}

#[test]
fn unknown_key() {
    assert_eq!(
        vm_parse_error("memroy_mib = 512"),
        "\
error: unknown key `memroy_mib` in a vm node
 --> m.toml:9:1
  |
9 | memroy_mib = 512
  | ^^^^^^^^^^ did you mean `memory_mib`?
  |
  = note: a vm node may have: name, kind, isa, memory_mib, processors, window_mib, doorbells, coherence, cache_seed, evict_one_in, accelerator, cpu, files, kernel, modules, root, disks, emulator"
    );
}

#[test]
fn wrong_type() {
    assert_eq!(
        vm_parse_error("memory_mib = \"512\""),
        "\
error: `memory_mib` must be an integer, not a string
 --> m.toml:9:14
  |
9 | memory_mib = \"512\"
  |              ^^^^^ write 512 without quotes
  |
  = note: memory_mib: the node's own memory; 64 to 65536"
    );
    assert_eq!(
        vm_parse_error("cpu = 72"),
        "\
error: `cpu` must be a string, not an integer
 --> m.toml:9:7
  |
9 | cpu = 72
  |       ^^ put it in quotes
  |
  = note: cpu: the emulator's processor model, for example \"cortex-a72\""
    );
}

#[test]
fn window_of_a_wrong_size() {
    assert_eq!(
        vm_parse_error("window_mib = 0"),
        "\
error: `window_mib` is out of range
 --> m.toml:9:14
  |
9 | window_mib = 0
  |              ^ too small: at least 1
  |
  = note: window_mib: the memory shared with the host, a power of two; 1 to 16384"
    );
    assert_eq!(
        vm_parse_error("window_mib = 48"),
        "\
error: `window_mib` must be a power of two; 48 is not
 --> m.toml:9:14
  |
9 | window_mib = 48
  |              ^^ the nearest are 32 and 64
  |
  = note: a window is a PCI memory region, which has no other sizes"
    );
}

#[test]
fn invalid_program_argument() {
    assert_eq!(
        vm_parse_error("cpu = \"\""),
        "\
error: `cpu` is not usable
 --> m.toml:9:7
  |
9 | cpu = \"\"
  |       ^^ must be 1 to 255 bytes, without control characters, not starting with `-`
  |
  = note: cpu: the emulator's processor model, for example \"cortex-a72\""
    );
}

#[test]
fn unknown_kind() {
    assert_eq!(
        parse_error("[[node]]\nname = \"arm0\"\nkind = \"VM\"\n"),
        "\
error: unknown kind of node `VM`
 --> m.toml:7:8
  |
7 | kind = \"VM\"
  |        ^^^^ did you mean \"vm\"?
  |
  = note: kind: one of `host`, `user`, `vm`, `bare` or `attached`"
    );
}

#[test]
fn a_virtual_machine_of_the_hosts_kind_may_have_kvm() {
    let parsed = |isa: &str, accelerator: &str| {
        let text = format!(
            "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"vm0\"\n\
             kind = \"vm\"\nisa = \"{isa}\"\naccelerator = \"{accelerator}\"\n"
        );
        let machine = Machine::parse(&text, Path::new("m.toml"), Isa::X86_64);
        machine.map(|machine| machine.node_named("vm0").unwrap().as_vm().unwrap().accelerator)
    };
    assert_eq!(parsed("x86_64", "kvm").unwrap(), Accelerator::Kvm);
    assert_eq!(parsed("aarch64", "tcg").unwrap(), Accelerator::Tcg);
    for (isa, accelerator, said) in [
        ("aarch64", "kvm", "KVM executes no aarch64: this host is x86_64"),
        ("x86_64", "kvn", "did you mean \"kvm\"?"),
    ] {
        let error = parsed(isa, accelerator).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("m.toml:9:"), "{error}");
    }
}

#[test]
fn a_board_has_its_settings() {
    let text = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"bare0\"\n\
                kind = \"bare\"\nisa = \"riscv64\"\nmemory_mib = 12\nwindow_mib = 1\ndoorbells = 2\n";
    let machine = Machine::parse(text, Path::new("m.toml"), Isa::X86_64).unwrap();
    let board = machine.node_named("bare0").unwrap();
    let expected = BareNode { memory_mib: 12, window_mib: 1, doorbells: 2, ..BareNode::default() };
    assert_eq!(board.as_bare(), Some(&expected));
    assert_eq!(board.target(), Target::bare(Isa::Riscv64));
    let counting = text.replace("doorbells = 2", "instruction_clock = 4");
    let machine = Machine::parse(&counting, Path::new("m.toml"), Isa::X86_64).unwrap();
    assert_eq!(machine.node_named("bare0").unwrap().as_bare().unwrap().instruction_clock, Some(4));
    let refused = |from: &str, to: &str| {
        let text = text.replace(from, to);
        Machine::parse(&text, Path::new("m.toml"), Isa::X86_64).unwrap_err().to_string()
    };
    for (from, to, said) in [
        ("memory_mib = 12", "memory_mib = 11", "m.toml:9:"),
        ("memory_mib = 12", "memory_mib = 1025", "m.toml:9:"),
        ("doorbells = 2", "instruction_clock = 11", "m.toml:11:"),
        ("window_mib = 1", "window_mib = 3", "must be a power of two"),
        ("window_mib = 1", "window_mib = 0", "m.toml:10:"),
        ("doorbells = 2", "doorbells = 1", "m.toml:11:"),
        ("doorbells = 2", "processors = 2", "a bare node has no `processors`"),
        ("riscv64", "s390x", "there is no board of it yet"),
    ] {
        let error = refused(from, to);
        assert!(error.contains(said), "{to}: {error}");
    }
    assert!(Machine::parse(&text.replace("= 12", "= 1024"), Path::new("m.toml"), Isa::X86_64).is_ok());
}

#[test]
fn setting_of_another_node_kind() {
    assert_eq!(
        parse_error("isa = \"x86_64\"\n"),
        "\
error: a host node has no `isa`
 --> m.toml:5:1
  |
5 | isa = \"x86_64\"
  | ^^^ the host's instruction set is detected: x86_64 here
  |
  = note: a host node may have: name, kind"
    );
    assert_eq!(
        parse_error("window_mib = 64\n"),
        "\
error: a host node has no `window_mib`
 --> m.toml:5:1
  |
5 | window_mib = 64
  | ^^^^^^^^^^ only vm, bare and attached nodes have it
  |
  = note: a host node may have: name, kind"
    );
}

#[test]
fn what_a_virtual_machine_boots_is_checked() {
    let of = |line: &str| {
        parse_error(&format!("[[node]]\nname = \"a\"\nkind = \"vm\"\nisa = \"x86_64\"\n{line}\n"))
    };
    for (line, expected) in [
        ("modules = \"m\"", "error: `modules` without `kernel`"),
        ("kernel = \"\"", "error: a path in `kernel` is not usable"),
        ("root = 1", "error: `root` must be a string, not an integer"),
        ("disks = \"one\"", "error: `disks` must be a list of files, not a string"),
        ("disks = [1]", "error: `disks` must be a string, not an integer"),
        ("disks = [\"\", \"b\"]", "error: a path in `disks` is not usable"),
        ("disks = [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]", "error: `disks` names 9 files"),
    ] {
        let said = of(line);
        assert!(said.starts_with(expected), "{line}: {said}");
    }
}

#[test]
fn isa_not_supported_by_the_kind() {
    let node = |kind: &str, isa: &str| {
        parse_error(&format!("[[node]]\nname = \"n\"\nkind = \"{kind}\"\nisa = \"{isa}\"\n"))
    };
    assert_eq!(
        node("vm", "s390x"),
        "\
error: a vm node cannot be s390x
 --> m.toml:8:7
  |
8 | isa = \"s390x\"
  |       ^^^^^^^ there is no virtual machine of it yet
  |
  = note: isa of a vm node: `x86_64`, `aarch64` or `riscv64`"
    );
    assert_eq!(
        node("user", "x86_64"),
        "\
error: a user node cannot be x86_64
 --> m.toml:8:7
  |
8 | isa = \"x86_64\"
  |       ^^^^^^^^ the host runs such programs itself
  |
  = note: isa of a user node: `aarch64`, `riscv64`, `s390x`, `i386` or `armv7`"
    );
    assert_eq!(
        node("user", "arm64"),
        "\
error: unknown instruction set `arm64`
 --> m.toml:8:7
  |
8 | isa = \"arm64\"
  |       ^^^^^^^ it is called \"aarch64\" here
  |
  = note: isa of a user node: `aarch64`, `riscv64`, `s390x`, `i386` or `armv7`"
    );
    assert_eq!(
        node("user", "aarch46"),
        "\
error: unknown instruction set `aarch46`
 --> m.toml:8:7
  |
8 | isa = \"aarch46\"
  |       ^^^^^^^^^ did you mean \"aarch64\"?
  |
  = note: isa of a user node: `aarch64`, `riscv64`, `s390x`, `i386` or `armv7`"
    );
}

#[test]
fn names() {
    assert_eq!(
        parse_error("[[node]]\nname = \"host\"\nkind = \"user\"\nisa = \"s390x\"\n"),
        "\
error: there is a node `host` already
 --> m.toml:6:8
  |
6 | name = \"host\"
  |        ^^^^^^ give this one another name
  |
  = note: names of nodes are unique in a machine"
    );
    let named = |name: &str| {
        let report = parse_error(&format!("[[node]]\nname = \"{name}\"\nkind = \"user\"\nisa = \"s390x\"\n"));
        report.lines().nth(4).unwrap_or_default().to_owned()
    };
    assert_eq!(named(""), "  |        ^^ a name cannot be empty");
    assert_eq!(named("Arm"), "  |        ^^^^^ write it as \"arm\"");
    assert_eq!(named("a b"), "  |        ^^^^^ ' ' cannot be in a name");
    assert_eq!(named("auto"), "  |        ^^^^^^ give this one another name");
    assert_eq!(named("-a"), "  |        ^^^^ a name cannot start with `-`");
    let long = "n".repeat(33);
    assert_eq!(named(&long), format!("  |        {} 33 characters are too many", "^".repeat(35)));
    assert!(parse(&format!("name = \"{}\"\n[[node]]\nname=\"h\"\nkind=\"host\"", &long[1..])).is_ok());
}

#[test]
fn parts_that_are_missing() {
    assert_eq!(
        parse_error("[[node]]\nname = \"arm0\"\n[[node]]\nname = \"arm1\"\nkind = \"vm\"\n[[link]]\n"),
        "\
error: this node has no `kind`
 --> m.toml:5:1
  |
5 | [[node]]
  | ^^^^^^^^ `kind` is missing here
  |
  = note: kind: one of `host`, `user`, `vm`, `bare` or `attached`

error: this node has no `isa`
 --> m.toml:7:1
  |
7 | [[node]]
  | ^^^^^^^^ `isa` is missing here
  |
  = note: isa of a vm node: `x86_64`, `aarch64` or `riscv64`

error: this link has no `between`
  --> m.toml:10:1
   |
10 | [[link]]
   | ^^^^^^^^ `between` is missing here
   |
   = note: for example: between = [\"host\", \"arm0\"]

error: this link has no `transport`
  --> m.toml:10:1
   |
10 | [[link]]
   | ^^^^^^^^ `transport` is missing here
   |
   = note: transport: one of `shm`, `window` or `socket`"
    );
    assert_eq!(
        parse("").unwrap_err(),
        "\
error: this machine has no `name`
 --> m.toml:1:1
  |
1 |
  | ^ `name` is missing here
  |
  = note: for example, in the first line: name = \"duo\"

error: this machine has no host
 --> m.toml:1:1
  |
1 |
  | ^ add a host before this
  |
  = note: a machine has exactly one host: [[node]] name = \"host\", kind = \"host\""
    );
}

#[test]
fn two_hosts() {
    assert_eq!(
        parse_error("[[node]]\nname = \"other\"\nkind = \"host\"\n"),
        "\
error: a second host
 --> m.toml:5:1
  |
5 | [[node]]
  | ^^^^^^^^ this is a second host
  |
  = note: a machine has exactly one host: [[node]] name = \"host\", kind = \"host\""
    );
}

#[test]
fn impossible_links() {
    let nodes = "[[node]]\nname = \"arm0\"\nkind = \"vm\"\nisa = \"aarch64\"\n\
                 [[node]]\nname = \"arm1\"\nkind = \"vm\"\nisa = \"aarch64\"\n";
    let link = |between: &str, transport: &str| {
        parse_error(&format!("{nodes}[[link]]\nbetween = {between}\ntransport = \"{transport}\"\n"))
    };
    assert_eq!(
        link("[\"host\", \"amr0\"]", "window"),
        "\
error: unknown node `amr0`
  --> m.toml:14:20
   |
14 | between = [\"host\", \"amr0\"]
   |                    ^^^^^^ did you mean \"arm0\"?
   |
   = note: nodes of this machine: `host`, `arm0` or `arm1`"
    );
    assert_eq!(
        link("[\"arm0\", \"arm1\"]", "window"),
        "\
error: `window` cannot join `arm0` (vm) and `arm1` (vm)
  --> m.toml:15:13
   |
15 | transport = \"window\"
   |             ^^^^^^^^
   |
   = note: nothing joins these two nodes: give them a [[window]] in common"
    );
    assert_eq!(
        link("[\"arm0\", \"host\"]", "windows"),
        "\
error: unknown transport `windows`
  --> m.toml:15:13
   |
15 | transport = \"windows\"
   |             ^^^^^^^^^ did you mean \"window\"?
   |
   = note: transport: one of `shm`, `window` or `socket`"
    );
    let first = |between: &str| link(between, "window").lines().next().unwrap_or_default().to_owned();
    assert_eq!(first("[\"arm0\"]"), "error: a link joins two nodes, not 1");
    assert_eq!(first("\"arm0\""), "error: `between` must be an array of two names of nodes");
    assert_eq!(first("[\"arm0\", 1]"), "error: `between` must be a string, not an integer");
    assert_eq!(first("[\"arm0\", \"arm0\"]"), "error: `arm0` needs no link to itself");
    let twice = "[[link]]\nbetween = [\"host\", \"arm0\"]\ntransport = \"window\"\n\
                 [[link]]\nbetween = [\"arm0\", \"host\"]\ntransport = \"window\"\n";
    assert!(
        parse_error(&format!("{nodes}{twice}")).starts_with("error: these two nodes have a link already")
    );
}

#[test]
fn a_virtual_machine_with_a_socket_has_no_window() {
    let text = |more: &str| {
        format!(
            "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n\
             [[node]]\nname = \"arm0\"\nkind = \"vm\"\nisa = \"aarch64\"\n{more}\
             [[node]]\nname = \"arm1\"\nkind = \"vm\"\nisa = \"aarch64\"\n\
             [[node]]\nname = \"big\"\nkind = \"user\"\nisa = \"s390x\"\n\
             [[link]]\nbetween = [\"arm0\", \"host\"]\ntransport = \"socket\"\n"
        )
    };
    let machine = parse(&text("")).unwrap();
    let between = |a, b| machine.link_between(NodeId(a), NodeId(b));
    assert_eq!(between(0, 1), Some(TransportKind::Socket));
    assert_eq!(between(1, 3), Some(TransportKind::Socket));
    assert_eq!((between(0, 2), between(1, 2)), (Some(TransportKind::Window), None));
    assert_eq!((machine.own_window(NodeId(1)), machine.windows().len()), (None, 1));
    assert_eq!((machine.kernel_of(NodeId(1)), machine.kernel_of(NodeId(3))), (NodeId(1), NodeId(0)));
    assert!(!machine.nodes()[1].is_behind_window());
    assert_eq!(
        parse(&text("window_mib = 64\n")).unwrap_err(),
        "\
error: a virtual machine without a window has no `window_mib`
 --> m.toml:9:14
  |
9 | window_mib = 64
  |              ^^ its [[link]] with the host is a `socket`
  |
  = note: leave it out, or give the two the transport `window`"
    );
    let window = text("") + "[[window]]\nname = \"arms\"\nnodes = [\"arm0\", \"arm1\"]\n";
    let report = parse(&window).unwrap_err();
    assert!(report.starts_with("error: `arm0` (vm) cannot be in a window"), "{report}");
    assert!(report.contains("it shares no memory with other nodes"), "{report}");
    let foreign = text("").replace("between = [\"arm0\", \"host\"]", "between = [\"arm0\", \"big\"]");
    let report = parse(&foreign).unwrap_err();
    assert!(report.contains("a virtual machine has a `socket` with the host"), "{report}");
}

#[test]
fn node_mistake_is_not_repeated_for_its_links() {
    let report = parse_error(
        "[[node]]\nname = \"arm0\"\nkind = \"vn\"\n[[link]]\nbetween = [\"host\", \"arm0\"]\ntransport = \"window\"\n",
    );
    assert_eq!(report.matches("error:").count(), 1, "{report}");
}

#[test]
fn text_that_is_not_toml() {
    assert_eq!(
        parse("name = \"m\n[[node]").unwrap_err(),
        "\
error: invalid basic string, expected `\"`
 --> m.toml:1:10
  |
1 | name = \"m
  |          ^
  |
  = note: machine files are TOML: key = value, strings in quotes, tables as [[node]] and [[link]]

error: unclosed array table, expected `]`
 --> m.toml:2:8
  |
2 | [[node]
  |        ^
  |
  = note: machine files are TOML: key = value, strings in quotes, tables as [[node]] and [[link]]"
    );
    assert_eq!(
        parse("name = \"m\"\nname = \"n\"\n").unwrap_err(),
        "\
error: duplicate key
 --> m.toml:2:1
  |
2 | name = \"n\"
  | ^^^^ a key is written once per table"
    );
    assert_eq!(
        parse("name = \"m\"\n[node]\nname = \"host\"\n").unwrap_err(),
        "\
error: `node` must be a list of tables, not a table
 --> m.toml:2:1
  |
2 | [node]
  | ^^^^^^ write [[node]]
  |
  = note: each node is a table of its own, headed [[node]]"
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(\\[\\[(node|link|window)\\]\\]|name|nodes|kind|isa|between|transport|=|\"(vm|host|user|a|)\"|[0-9\\[\\]{},.]|\n| ){0,60}") {
        if let Err(report) = parse(&text) {
            prop_assert!(!report.is_empty());
        }
    }
}

/// Returns the caches of the window with the host of a node of a kind with these keys, or the problems.
fn caches(kind: &str, keys: &str) -> Result<Option<Caches>, String> {
    let text = format!(
        "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"b\"\nkind = \"{kind}\"\nisa = \
         \"aarch64\"\n{keys}\n"
    );
    let machine =
        Machine::parse(&text, Path::new("m.toml"), Isa::X86_64).map_err(|error| error.to_string())?;
    Ok(machine.own_window(NodeId(1)).unwrap().caches)
}

#[test]
fn window_coherence_is_parsed() {
    let emulated =
        |seed, one_in| Some(Caches::Emulated(Evictions { seed, one_in: std::num::NonZeroU32::new(one_in) }));
    for (keys, expected) in [
        ("", None),
        ("coherence = \"coherent\"", None),
        ("coherence = \"flush\"", Some(Caches::Processor)),
        ("coherence = \"flush\"\ncache_seed = 7", emulated(7, 0)),
        ("coherence = \"flush\"\nevict_one_in = 4", emulated(0, 4)),
        ("coherence = \"flush\"\ncache_seed = 1\nevict_one_in = 64", emulated(1, 64)),
    ] {
        for kind in ["vm", "bare"] {
            assert_eq!(caches(kind, keys), Ok(expected), "{kind}: {keys}");
        }
    }
    for (keys, said) in [
        ("coherence = \"copy\"", "its nodes map one memory"),
        ("coherence = \"flsh\"", "flush"),
        ("evict_one_in = 4", "add coherence = \"flush\""),
        ("coherence = \"flush\"\nevict_one_in = -1", "out of range"),
        ("coherence = 1", "must be a string"),
    ] {
        let problems = caches("vm", keys).unwrap_err();
        assert!(problems.contains(said), "{keys}: {problems}");
    }
}

#[test]
fn a_window_of_several_nodes_may_be_incoherent() {
    let text = "name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"a\"\nkind = \"vm\"\nisa = \
                \"aarch64\"\n[[node]]\nname = \"b\"\nkind = \"vm\"\nisa = \"aarch64\"\n[[window]]\nname = \"w\"\n\
                nodes = [\"a\", \"b\"]\ncoherence = \"flush\"\nevict_one_in = 2\n";
    let machine = Machine::parse(text, Path::new("m.toml"), Isa::X86_64).unwrap();
    let window = machine.window_named("w").unwrap();
    assert!(matches!(window.caches, Some(Caches::Emulated(_))));
    assert_eq!(machine.own_window(NodeId(1)).unwrap().caches, None);
}
