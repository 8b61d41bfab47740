//! The monitor of a board without an operating system: the program that a `bare` node boots.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
tombolo_platform_bare::board_monitor!(tombolo_board::serve, tombolo_link::window::heap_offset_bytes() as u64);

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    eprintln!("tombolo-board runs on boards: build it with --target aarch64-unknown-none");
    std::process::ExitCode::from(2)
}
