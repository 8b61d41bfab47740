//! Binary file formats and text formats.

use std::io::{Cursor, Write};
use std::path::Path;

use communities::graph::{Input, Lines, debian as debian_lists};
use communities::wire as crew;
use tombolo_base::{Isa, SharedMemory};
use tombolo_bench::BenchReport as _;
use tombolo_bench::suite::Results;
use tombolo_link::TransportKind;
use tombolo_machine::image::{Image, ImageBuilder, elf as elf_format};
use tombolo_machine::{Machine, Node};
use tombolo_trace::file::{self as trace_file, Chunk};
use tombolo_trace::page::{self, Page};
use tombolo_trace::{Event, EventKind, Shape, layout, perfetto, snapshot};
use tombolo_transport::wrap::capture::{CaptureHeader, Reader, Writer};

pub(super) fn machine_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Machine::parse(text, Path::new("fuzz.toml"), Isa::X86_64) {
        Ok(machine) => {
            assert_eq!(machine.host().settings.name(), "host");
            let named = |node: &Node| machine.node_named(&node.name).is_some_and(|found| found == node);
            assert!(machine.nodes().iter().all(named), "a name that is not its node's");
            for found in machine.found() {
                assert_eq!(machine.link_between(found.a, found.b), Some(found.transport));
                assert!(found.a < found.b && (found.memory.is_some() || found.cost.is_some()));
            }
        }
        Err(report) => assert!(report.to_string().contains("fuzz.toml")),
    }
}

pub(super) fn machine_file_seeds() -> Vec<Vec<u8>> {
    let text = "name = \"zoo\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"arm0\"\nkind = \"vm\"\n\
                isa = \"aarch64\"\nmemory_mib = 512\n[[node]]\nname = \"s390x-user\"\nkind = \"user\"\n\
                isa = \"s390x\"\n[[link]]\nbetween = [\"host\", \"s390x-user\"]\ntransport = \"socket\"\n\
                [limits]\nbacklog = 5\n";
    let found = "[[found]]\nbetween = [\"host\", \"arm0\"]\ntransport = \"window\"\nmemory = { coherence = \
                 \"coherent\", order = \"sequential\", widest_store_bytes = 8, atomics = true, on = 2026-11-27 }\n\
                 cost = { round_trip_ns = 900, latency_ns = [[8, 450], [64, 480]], bytes_per_s = 7, \
                 bytes_per_s_back = 9, by = \"0.1.0\" }\n";
    vec![text.into(), format!("{text}{found}").into(), tombolo_machine::file::DEFAULT_MACHINE_FILE.into()]
}

pub(super) fn image(input: &[u8]) {
    let Ok(image) = Image::from_bytes("fuzz", input.to_vec()) else { return };
    for program in image.programs() {
        assert!(program.bytes.len() <= input.len());
        // Each program has the instruction set that it is listed for.
        let inspected = elf_format::inspect(program.bytes).map(|executable| executable.target);
        assert_eq!(inspected.ok(), Some(program.target));
    }
    assert!(image.programs().next().is_some() && !image.name().contains('/'));
}

pub(super) fn image_seeds() -> Vec<Vec<u8>> {
    let built = [Isa::X86_64, Isa::S390x]
        .into_iter()
        .try_fold(ImageBuilder::new("fuzz"), |image, isa| image.with_program(elf_format::smallest(isa)));
    let image = built.ok().and_then(|builder| builder.finish().ok());
    let mut seeds = vec![elf_format::smallest(Isa::Aarch64)];
    seeds.extend(image.map(|image| image.as_bytes().to_vec()));
    seeds
}

pub(super) fn elf(input: &[u8]) {
    match elf_format::inspect(input) {
        Ok(_) => assert!(elf_format::is_elf(input)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(linked) = elf_format::read_dynamic_links(input) {
        assert!(linked.needed.iter().chain(&linked.run_path).all(|text| text.len() <= input.len()));
    }
}

pub(super) fn elf_seeds() -> Vec<Vec<u8>> {
    Isa::ALL.map(elf_format::smallest).into()
}

pub(super) fn graph(input: &[u8]) {
    let mut ignore = |_| {};
    let lines = Lines::new("fuzz".into(), Cursor::new(input.to_vec()), None, &mut ignore);
    match lines.and_then(|mut lines| Input::read_lines(&mut lines)) {
        Ok(read) => {
            let vertices = read.graph.vertices() as u32;
            for vertex in 0..vertices {
                assert!(read.graph.arcs_of(vertex).all(|(target, weight)| target < vertices && weight > 0));
            }
        }
        Err(error) => assert!(error.to_string().contains("fuzz")),
    }
}

pub(super) fn graph_seeds() -> Vec<Vec<u8>> {
    let list = b"# a comment\n1 2\n2 3 0.5\na b 7\nb c\n".to_vec();
    let matrix = b"%%MatrixMarket matrix coordinate integer symmetric\n% c\n3 3 2\n2 1 5\n3 1 6\n".to_vec();
    let real = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1.5e0\n".to_vec();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let compressed = gzip.write_all(&list).and_then(|()| gzip.finish());
    let mut seeds = vec![list, matrix, real];
    seeds.extend(compressed.ok());
    seeds
}

pub(super) fn debian(input: &[u8]) {
    let mut ignore = |_| {};
    let lines = Lines::new("fuzz".into(), Cursor::new(input.to_vec()), None, &mut ignore);
    if let Err(error) = lines.and_then(|mut lines| debian_lists::parse(&mut lines)) {
        assert!(!error.to_string().is_empty());
    }
}

pub(super) fn debian_seeds() -> Vec<Vec<u8>> {
    let text = "Package: a\nVersion: 1\nDepends: b (>= 1), c | d:any,\n e\nProvides: x (= 1)\n\n\
                Package: b\nPre-Depends: x\nRecommends: a\n";
    vec![text.into()]
}

pub(super) fn wire(input: &[u8]) {
    use crew::{Answer, Order};
    let (mut vertices, mut moves) = (Vec::new(), Vec::new());
    match crew::read_order(input) {
        Ok(Order::Work { vertices: read, .. }) => {
            let _ = read.vertices(100, &mut vertices);
        }
        Ok(Order::Moves(read)) => {
            let _ = read.moves(100, &mut moves);
        }
        Ok(_) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(Answer::Found { moves: read, .. }) = crew::read_answer(input) {
        let _ = read.moves(100, &mut moves);
    }
    assert!(vertices.iter().all(|vertex| *vertex < 100));
    assert!(vertices.len() + moves.len() <= input.len());
}

pub(super) fn wire_seeds() -> Vec<Vec<u8>> {
    let shape = crew::Shape { depth: 1, vertices: 10, arcs: 20, weight_bytes: 4, loops: false };
    vec![
        crew::graph(shape),
        crew::enter(1, true),
        crew::refine(),
        crew::work(0, &[1, 2, 3]),
        crew::finish(),
        crew::hello(1, "x86_64"),
        crew::found(0, 7, 9, &[]),
        crew::give_up("tired"),
    ]
}

pub(super) fn trace(input: &[u8]) {
    let (recording, error) = trace_file::salvage(input);
    assert!(recording.event_count() <= input.len(), "more events than bytes");
    let _ = recording.missed_count();
    if let Some(error) = error {
        assert!(error.offset <= input.len() as u64, "{error}");
    }
    let Ok(timeline) = tombolo_trace::merge::merge(&recording) else { return };
    let mut export = perfetto::Export::new(&recording, &timeline);
    let _ = export.tracks();
    let mut pieces = 0;
    while export.next_chunk().is_some() {
        pieces += 1;
        assert!(pieces <= input.len(), "an export without end");
    }
}

pub(super) fn trace_seeds() -> Vec<Vec<u8>> {
    let mut file = trace_file::header(7).to_vec();
    file.extend(Chunk::Machine { name: "fuzz".into(), nodes: Vec::new() }.to_bytes());
    file.extend(Chunk::End { chunks: 1 }.to_bytes());
    vec![trace_file::header(7).to_vec(), file]
}

/// Maximum number of words of the page head taken from the input. The head is too large to fuzz whole, so the
/// other words are zero.
const FED_HEAD_WORDS: usize = 48;

/// Feeds the readers a trace page as a malicious domain may leave it.
pub(super) fn trace_page(input: &[u8]) {
    let (fed, rest) = input.split_at(input.len().min(FED_HEAD_WORDS * 9));
    let mut bytes = vec![0; layout::HEAD_BYTES];
    // Each word is preceded by its place, so that mutations reach the whole head.
    for (number, place) in fed.chunks_exact(9).enumerate() {
        let word =
            if number < 6 { number } else { 16 + 2 * usize::from(place[0]) % (layout::HEAD_BYTES / 8 - 16) };
        bytes[8 * word..8 * word + 8].copy_from_slice(&place[1..]);
    }
    bytes.extend(rest);
    let Ok(head) = snapshot::Head::from_bytes(&bytes) else { return };
    let length_bytes = head.shape.length_bytes();
    assert!(head.rows_used <= head.shape.rows && head.text_used_bytes <= head.shape.text_bytes);
    for lane in 0..=head.lanes.len() {
        let readable = head.readable(lane, 0);
        let (offset, count) = head.contiguous(lane, readable.first, readable.count, 4096);
        assert!(count * layout::EVENT_BYTES <= 4096);
        assert!(lane == head.lanes.len() || offset + count * layout::EVENT_BYTES <= length_bytes);
        let _ = head.first_complete(lane);
    }
    let (events, invalid_events) = snapshot::events(rest);
    assert_eq!(events.len() + invalid_events as usize, rest.len() / layout::EVENT_BYTES);
    assert!(snapshot::rows(rest).len() <= rest.len() / layout::ROW_BYTES);
    assert!(snapshot::texts(rest).len() <= rest.len());
    // Opens the page as the domain itself does.
    let memory = SharedMemory::zeroed(bytes.len().next_multiple_of(8));
    if memory.copy_in(0, &bytes).is_ok() && Page::open(memory).is_ok() {
        assert!(length_bytes <= bytes.len().next_multiple_of(8));
    }
}

pub(super) fn trace_page_seeds() -> Vec<Vec<u8>> {
    let shape = Shape { lanes: 2, lane_events: 16, rows: 2, text_bytes: 64 };
    let memory = SharedMemory::zeroed(shape.length_bytes());
    page::init_page(&memory, &shape);
    let Ok(page) = Page::open(memory.clone()) else { return Vec::new() };
    let mut used_bytes = 0;
    let _ = page.write_text(&mut used_bytes, "fuzz");
    let event =
        Event { ticks: 1, kind: EventKind::Send, accepting: false, thread: 1, size: 8, subject: 3, value: 4 };
    if let Some(mut lane) = page.lane(0) {
        (0..20).for_each(|_| lane.write(&event));
    }
    let mut bytes = vec![0; shape.length_bytes()];
    if memory.copy_out(0, &mut bytes).is_err() {
        return Vec::new();
    }
    let (head, rest) = bytes.split_at(layout::HEAD_BYTES);
    let mut seed = Vec::new();
    let used = head
        .chunks_exact(8)
        .enumerate()
        .filter(|(word, value)| *word < 6 || value.iter().any(|byte| *byte != 0));
    for (word, value) in used.take(FED_HEAD_WORDS) {
        seed.push((word.saturating_sub(16) / 2) as u8);
        seed.extend(value);
    }
    seed.resize(FED_HEAD_WORDS * 9, 0);
    seed.extend(rest);
    vec![seed]
}

/// Parses a results file. A report must be possible from any valid one.
pub(super) fn results(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match Results::parse(text) {
        Ok(results) => {
            let files =
                tombolo_bench_report::files(std::slice::from_ref(&results)).expect("plots of any results");
            assert!(!files.is_empty());
            if let Ok(again) = Results::parse(&results.to_json()) {
                assert_eq!(again.label, results.label);
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

pub(super) fn results_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../seeds/results.json").to_vec()]
}

pub(super) fn capture(input: &[u8]) {
    let Ok(reader) = Reader::new(Cursor::new(input)) else { return };
    let mut bytes = 0;
    for record in reader {
        match record {
            Ok(_) => bytes += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(bytes <= input.len(), "more records than bytes");
}

pub(super) fn capture_seeds() -> Vec<Vec<u8>> {
    let about = CaptureHeader {
        transport: TransportKind::Shm,
        side: None,
        channel: 1,
        own: 2,
        peer: 3,
        max_message_bytes: 100,
        began_unix_ns: 0,
    };
    let write = || -> std::io::Result<Vec<u8>> {
        let mut writer = Writer::new(Vec::new(), about)?;
        writer.sent(1, b"hello")?;
        writer.received(2, b"world")?;
        writer.finish(3)
    };
    write().into_iter().collect()
}
