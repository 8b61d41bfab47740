//! What a thread holds, released at its end.

use super::fault;
use crate::device::migrate;
use crate::team::thread::Thread;
use crate::team::thread_status::Role;

/// Releases what a thread holds that ends.
pub(super) fn release_state(thread: &'static Thread) {
    // SAFETY: the program registered them with their destructors.
    unsafe { thread.objects.destroy(thread.store()) };
    if let Some(values) = thread.values.get() {
        thread.root().keys.destroy(values);
    }
    thread.node_load().remove_running();
    migrate::reset(thread);
    thread.status.set_role(Role::None);
    thread.cancellation.reset();
    fault::unwatch_stack(thread);
}
