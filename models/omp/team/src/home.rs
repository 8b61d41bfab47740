//! Where a thread can be woken from.
//!
//! Threads of one kernel that share memory wake each other by futexes, whatever processes they are of. A process whose memory the
//! kernel knows no pages of, as that of a window into another computer, can only wake its own threads; everybody else has to tell it
//! to. So each such process is a *home* of its own, and all others of the kernel that the job began on are one, number 0. Every
//! [dock](crate::dock) has the number of the home that its thread is of.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::dock::Dock;

/// Tells the home of a dock to wake whoever sleeps there.
pub type Post = fn(&Dock);

static HERE: AtomicU32 = AtomicU32::new(0);
static SEVERAL: AtomicBool = AtomicBool::new(false);
static POST: OnceLock<Post> = OnceLock::new();

/// Says that this job has threads of several homes, that this process is of the home `here`, and how others are told to wake
/// their threads. Called before the first region begins; what is said first stays.
pub fn settle(here: u32, post: Post) {
    HERE.store(here, Ordering::Relaxed);
    let _ = POST.set(post);
    SEVERAL.store(true, Ordering::Release);
}

/// The home that this process is of.
pub fn here() -> u32 {
    HERE.load(Ordering::Relaxed)
}

/// Whether the job has threads of several homes, so that no word but a dock may be slept on.
#[inline]
pub fn are_several() -> bool {
    SEVERAL.load(Ordering::Relaxed)
}

/// Tells the home of a dock to wake whoever sleeps there.
#[cfg_attr(loom, expect(dead_code, reason = "a model has one home"))]
#[cold]
pub(crate) fn tell(dock: &Dock) {
    if let Some(post) = POST.get() {
        post(dock);
    }
}
