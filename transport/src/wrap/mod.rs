//! Wrappers around transports: each adds one thing to any transport and forwards the rest.
//!
//! A wrapper is a file here, generic over `T: Transport`, and itself a [`Transport`](crate::Transport), so
//! that wrappers nest. It implements the operations that it changes and lists the others in `forward!`.
//! Operations in place and in batches that it neither implements nor lists come from the contract, on top
//! of the wrapper's own `try_send` and `try_recv_in_place`.

/// Forwards operations to the transport in the field named first.
macro_rules! forward {
    ($inner:ident: $($operation:ident)*) => {
        $(forward!(@$operation $inner);)*
    };
    (@describe $inner:ident) => {
        fn describe(&self) -> $crate::contract::Description {
            $crate::contract::Transport::describe(&self.$inner)
        }
    };
    (@stats $inner:ident) => {
        #[inline]
        fn stats(&self) -> $crate::contract::Stats {
            $crate::contract::Transport::stats(&self.$inner)
        }
    };
    (@failure $inner:ident) => {
        fn failure(&self) -> Option<$crate::error::ChannelError> {
            $crate::contract::Transport::failure(&self.$inner)
        }
    };
    (@is_ready $inner:ident) => {
        #[inline]
        fn is_ready(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
            $crate::contract::Transport::is_ready(&mut self.$inner, awaited)
        }
    };
    (@announce_sleep $inner:ident) => {
        fn announce_sleep(
            &mut self,
            awaited: ::tombolo_platform::event::Interest,
        ) -> $crate::contract::Announced {
            $crate::contract::Transport::announce_sleep(&mut self.$inner, awaited)
        }
    };
    (@may_sleep $inner:ident) => {
        fn may_sleep(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
            $crate::contract::Transport::may_sleep(&mut self.$inner, awaited)
        }
    };
    (@sources $inner:ident) => {
        fn sources<'a>(
            &'a self,
            awaited: ::tombolo_platform::event::Interest,
            sources: &mut Vec<(::std::os::fd::BorrowedFd<'a>, ::tombolo_platform::event::Interest)>,
        ) {
            $crate::contract::Transport::sources(&self.$inner, awaited, sources);
        }
    };
    (@park $inner:ident) => {
        fn park(&mut self, deadline: ::tombolo_platform::time::Deadline) -> Option<bool> {
            $crate::contract::Transport::park(&mut self.$inner, deadline)
        }
    };
    (@woken $inner:ident) => {
        fn woken(&mut self, rung: bool) {
            $crate::contract::Transport::woken(&mut self.$inner, rung);
        }
    };
    (@close $inner:ident) => {
        fn close(&mut self) {
            $crate::contract::Transport::close(&mut self.$inner);
        }
    };
}

pub mod capture;
mod checked;
mod faulty;
pub mod traced;

pub use checked::{Checked, Guarded, guarded, unguarded};
pub use faulty::{Ending, Faults, Faulty, Injected};
