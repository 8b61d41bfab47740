//! Virtual machine nodes and boards: what boots them, and the window that joins them to their host.
//!
//! A board is started like a virtual machine, by [`Board::launch`], but boots one file of the kit as it is.
//!
//! A node is started in four steps: [`VmKit::locate`] finds what it is made of, [`initramfs`] packs its boot
//! image (cached by content), with the [`Files`] that the node is to have, [`Window::new`] makes the shared memory and the doorbells, and [`Qemu::launch`]
//! says which program to run with which descriptors. Nothing of it has a path in the file system except the
//! cached boot image, so a machine that is killed leaves nothing behind.

pub mod board;
pub mod files;
pub mod initramfs;
pub mod ivshmem;
pub mod kit;
pub mod qemu;

pub use board::Board;
pub use files::{Files, FilesError};
pub use initramfs::{Archive, InitramfsError};
pub use ivshmem::{HOST_PEER, VM_PEER, Window, WindowError};
pub use kit::{KitError, VmKit};
pub use qemu::{Launch, Qemu, QemuError};
