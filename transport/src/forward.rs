//! Forwarding implementation of [`Transport`](crate::Transport) for wrappers of another transport.

/// Forwards the listed operations of [`Transport`](crate::Transport) to the transport in the field named
/// first. The `impl` provides the other operations itself, or leaves them to the contract's defaults.
#[macro_export]
macro_rules! forward_transport {
    ($inner:tt: $($operation:ident)*) => {
        $($crate::forward_transport!(@$operation $inner);)*
    };
    (@describe $inner:tt) => {
        fn describe(&self) -> $crate::contract::Description {
            $crate::contract::Transport::describe(&self.$inner)
        }
    };
    (@stats $inner:tt) => {
        #[inline]
        fn stats(&self) -> $crate::contract::Stats {
            $crate::contract::Transport::stats(&self.$inner)
        }
    };
    (@failure $inner:tt) => {
        fn failure(&self) -> Option<$crate::error::ChannelError> {
            $crate::contract::Transport::failure(&self.$inner)
        }
    };
    (@try_send $inner:tt) => {
        #[inline]
        fn try_send(&mut self, message: &[u8]) -> Result<(), $crate::EndError> {
            $crate::contract::Transport::try_send(&mut self.$inner, message)
        }
    };
    // Together with the channel in memory, whose receive path is the same.
    (@try_recv_in_place $inner:tt) => {
        #[inline(always)]
        fn as_memory_channel(&mut self) -> Option<&mut $crate::MemoryChannel> {
            $crate::contract::Transport::as_memory_channel(&mut self.$inner)
        }

        #[inline]
        fn try_recv_in_place<R>(
            &mut self,
            read: impl FnOnce(&$crate::Message<'_>) -> R,
        ) -> Result<Option<R>, $crate::EndError> {
            $crate::contract::Transport::try_recv_in_place(&mut self.$inner, read)
        }
    };
    (@try_recv_batch $inner:tt) => {
        #[inline]
        fn try_recv_batch(
            &mut self,
            max: usize,
            read: impl FnMut(&$crate::Message<'_>),
        ) -> Result<usize, $crate::EndError> {
            $crate::contract::Transport::try_recv_batch(&mut self.$inner, max, read)
        }
    };
    (@try_send_in_place $inner:tt) => {
        #[inline]
        fn try_send_in_place(
            &mut self,
            length_bytes: usize,
            write: impl FnOnce(&mut $crate::Draft<'_>),
        ) -> Result<(), $crate::EndError> {
            $crate::contract::Transport::try_send_in_place(&mut self.$inner, length_bytes, write)
        }
    };
    (@try_send_batch $inner:tt) => {
        #[inline]
        fn try_send_batch(
            &mut self,
            fill: impl FnOnce(&mut $crate::Batch<'_>),
        ) -> Result<u64, $crate::EndError> {
            $crate::contract::Transport::try_send_batch(&mut self.$inner, fill)
        }
    };
    (@is_ready $inner:tt) => {
        #[inline]
        fn is_ready(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
            $crate::contract::Transport::is_ready(&mut self.$inner, awaited)
        }
    };
    (@announce_sleep $inner:tt) => {
        fn announce_sleep(
            &mut self,
            awaited: ::tombolo_platform::event::Interest,
        ) -> $crate::contract::Announced {
            $crate::contract::Transport::announce_sleep(&mut self.$inner, awaited)
        }
    };
    (@may_sleep $inner:tt) => {
        fn may_sleep(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
            $crate::contract::Transport::may_sleep(&mut self.$inner, awaited)
        }
    };
    (@sources $inner:tt) => {
        fn sources<'a>(
            &'a self,
            awaited: ::tombolo_platform::event::Interest,
            sources: &mut Vec<(::std::os::fd::BorrowedFd<'a>, ::tombolo_platform::event::Interest)>,
        ) {
            $crate::contract::Transport::sources(&self.$inner, awaited, sources);
        }
    };
    (@park $inner:tt) => {
        fn park(&mut self, deadline: ::tombolo_platform::time::Deadline) -> Option<bool> {
            $crate::contract::Transport::park(&mut self.$inner, deadline)
        }
    };
    (@finish_sleep $inner:tt) => {
        fn finish_sleep(&mut self, rung: bool) {
            $crate::contract::Transport::finish_sleep(&mut self.$inner, rung);
        }
    };
    (@close $inner:tt) => {
        fn close(&mut self) {
            $crate::contract::Transport::close(&mut self.$inner);
        }
    };
}
