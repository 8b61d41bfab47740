//! Virtual machine nodes and boards: their boot files, and the window that joins them to their host.
//!
//! A virtual machine is started in four steps: [`VmKit::locate`] finds its parts, [`initramfs`] packs its
//! boot image (cached by content) with the [`Files`] of the node, [`Server`] creates the shared memory and
//! the doorbells of its windows, and [`Qemu::launch`] returns the command with its descriptors. A board boots
//! one file of the kit unchanged, by [`Board::launch`]. Only the cached boot image has a path in the file
//! system, so a machine that is killed leaves no files behind.

pub mod architecture;
pub mod board;
pub mod files;
mod hardware;
pub mod initramfs;
pub mod ivshmem;
pub mod kit;
pub mod qemu;

pub use architecture::{ARCHITECTURES, Architecture};
pub use board::Board;
pub use files::{Files, FilesError};
pub use hardware::{Hardware, Launch};
pub use initramfs::{Archive, InitramfsError};
pub use ivshmem::{Server, WindowError};
pub use kit::{KitError, VmKit};
pub use qemu::{Qemu, QemuError};
