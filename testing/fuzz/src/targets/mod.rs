//! All fuzz targets, grouped by the code they exercise.

mod boards;
mod bulk;
mod copies;
mod devices;
mod fabric;
mod files;
mod groups;
mod hubs;
mod interfaces;
mod links;
mod messages;
mod monitor;
mod mpi;
mod naming;
mod omp;
mod pages;
mod rings;
mod tasks;

use crate::Target;

/// All targets, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "client_message", run: messages::client, seeds: messages::client_seeds },
    Target { name: "monitor_message", run: messages::monitor, seeds: messages::monitor_seeds },
    Target { name: "order", run: messages::order, seeds: messages::order_seeds },
    Target { name: "report", run: messages::report, seeds: messages::report_seeds },
    Target { name: "monitor", run: monitor::run, seeds: monitor::seeds },
    Target { name: "hello", run: links::hello, seeds: links::hello_seeds },
    Target { name: "handshake", run: links::handshake, seeds: links::handshake_seeds },
    Target { name: "streams", run: links::streams, seeds: links::streams_seeds },
    Target { name: "window_header", run: links::window_header, seeds: links::window_header_seeds },
    Target { name: "window_allocator", run: links::allocator, seeds: links::allocator_seeds },
    Target { name: "ring", run: rings::ring, seeds: rings::ring_seeds },
    Target { name: "stream", run: rings::stream, seeds: rings::stream_seeds },
    Target { name: "machine_file", run: files::machine_file, seeds: files::machine_file_seeds },
    Target { name: "image", run: files::image, seeds: files::image_seeds },
    Target { name: "elf", run: files::elf, seeds: files::elf_seeds },
    Target { name: "board_program", run: boards::program, seeds: boards::program_seeds },
    Target { name: "device_tree", run: boards::device_tree, seeds: boards::device_tree_seeds },
    Target { name: "pci_bus", run: boards::pci_bus, seeds: boards::pci_bus_seeds },
    Target { name: "graph", run: files::graph, seeds: files::graph_seeds },
    Target { name: "debian", run: files::debian, seeds: files::debian_seeds },
    Target { name: "communities_wire", run: files::wire, seeds: files::wire_seeds },
    Target { name: "trace", run: files::trace, seeds: files::trace_seeds },
    Target { name: "trace_page", run: files::trace_page, seeds: files::trace_page_seeds },
    Target { name: "capture", run: files::capture, seeds: files::capture_seeds },
    Target { name: "results", run: files::results, seeds: files::results_seeds },
    Target { name: "interface_file", run: interfaces::file, seeds: interfaces::file_seeds },
    Target { name: "interface_message", run: interfaces::message, seeds: interfaces::message_seeds },
    Target { name: "bulk_session", run: bulk::session, seeds: bulk::session_seeds },
    Target { name: "device_queue", run: devices::queue, seeds: devices::queue_seeds },
    Target { name: "hubs", run: hubs::hubs, seeds: hubs::hubs_seeds },
    Target { name: "hub_answer", run: hubs::answer, seeds: hubs::answer_seeds },
    Target { name: "hub_files", run: hubs::files, seeds: hubs::files_seeds },
    Target { name: "tasks", run: tasks::tasks, seeds: tasks::tasks_seeds },
    Target { name: "pages", run: pages::rank, seeds: pages::rank_seeds },
    Target { name: "pages-released", run: pages::released, seeds: pages::released_seeds },
    Target { name: "group_member", run: groups::member, seeds: groups::member_seeds },
    Target { name: "copy_command", run: copies::commands, seeds: copies::commands_seeds },
    Target { name: "endpoint", run: fabric::endpoint, seeds: fabric::endpoint_seeds },
    Target { name: "pmi", run: mpi::pmi, seeds: mpi::pmi_seeds },
    Target { name: "omp_object", run: omp::object, seeds: omp::object_seeds },
    Target { name: "pattern", run: naming::pattern, seeds: naming::pattern_seeds },
    Target { name: "name_text", run: naming::text, seeds: naming::text_seeds },
];
