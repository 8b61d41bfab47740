//! Implementation of [`Transport`](crate::Transport) for an enum of transports.

/// Implements [`Transport`](crate::Transport) for an enum whose variants hold boxed transports, by delegating
/// to the variant. Only the first may be a channel [in memory](crate::Transport::as_memory_channel).
///
/// An enum rather than a trait object, because sending takes only a few nanoseconds.
#[macro_export]
macro_rules! transport_of_variants {
    ($name:ident { $first:ident $(, $variant:ident)+ $(,)? }) => {
        $crate::transport_of_variants!(@impl $name, $first, [$first $($variant)+]);
    };
    (@impl $name:ident, $first:ident, [$($variant:ident)+]) => {
        impl $crate::Transport for $name {
            fn describe(&self) -> $crate::Description {
                match self { $($name::$variant(channel) => $crate::Transport::describe(&**channel),)+ }
            }

            #[inline(always)]
            fn stats(&self) -> $crate::Stats {
                match self { $($name::$variant(channel) => $crate::Transport::stats(&**channel),)+ }
            }

            fn failure(&self) -> Option<$crate::ChannelError> {
                match self { $($name::$variant(channel) => $crate::Transport::failure(&**channel),)+ }
            }

            #[inline(always)]
            fn try_send(&mut self, message: &[u8]) -> Result<(), $crate::EndError> {
                match self {
                    $($name::$variant(channel) => $crate::Transport::try_send(&mut **channel, message),)+
                }
            }

            #[inline(always)]
            fn as_memory_channel(&mut self) -> Option<&mut $crate::MemoryChannel> {
                match self {
                    $name::$first(channel) => $crate::Transport::as_memory_channel(&mut **channel),
                    _ => None,
                }
            }

            #[inline(never)]
            fn try_recv_in_place<R>(
                &mut self,
                read: impl FnOnce(&$crate::Message<'_>) -> R,
            ) -> Result<Option<R>, $crate::EndError> {
                match self {
                    $($name::$variant(channel) => $crate::Transport::try_recv_in_place(&mut **channel, read),)+
                }
            }

            #[inline(never)]
            fn try_recv_batch(
                &mut self,
                max: usize,
                mut read: impl FnMut(&$crate::Message<'_>),
            ) -> Result<usize, $crate::EndError> {
                // By reference, so that there is one loop per carrier rather than per carrier and caller.
                let read: &mut dyn FnMut(&$crate::Message<'_>) = &mut read;
                match self {
                    $($name::$variant(channel) => {
                        $crate::Transport::try_recv_batch(&mut **channel, max, |message| read(message))
                    })+
                }
            }

            #[inline(always)]
            fn try_send_in_place(
                &mut self,
                length_bytes: usize,
                write: impl FnOnce(&mut $crate::Draft<'_>),
            ) -> Result<(), $crate::EndError> {
                match self {
                    $($name::$variant(channel) => {
                        $crate::Transport::try_send_in_place(&mut **channel, length_bytes, write)
                    })+
                }
            }

            #[inline(always)]
            fn try_send_batch(
                &mut self,
                fill: impl FnOnce(&mut $crate::Batch<'_>),
            ) -> Result<u64, $crate::EndError> {
                match self {
                    $($name::$variant(channel) => $crate::Transport::try_send_batch(&mut **channel, fill),)+
                }
            }

            fn is_ready(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
                match self {
                    $($name::$variant(channel) => $crate::Transport::is_ready(&mut **channel, awaited),)+
                }
            }

            fn announce_sleep(&mut self, awaited: ::tombolo_platform::event::Interest) -> $crate::contract::Announced {
                match self {
                    $($name::$variant(channel) => $crate::Transport::announce_sleep(&mut **channel, awaited),)+
                }
            }

            fn may_sleep(&mut self, awaited: ::tombolo_platform::event::Interest) -> bool {
                match self {
                    $($name::$variant(channel) => $crate::Transport::may_sleep(&mut **channel, awaited),)+
                }
            }

            fn sources<'a>(
                &'a self,
                awaited: ::tombolo_platform::event::Interest,
                sources: &mut Vec<(std::os::fd::BorrowedFd<'a>, ::tombolo_platform::event::Interest)>,
            ) {
                match self {
                    $($name::$variant(channel) => $crate::Transport::sources(&**channel, awaited, sources),)+
                }
            }

            fn park(&mut self, deadline: ::tombolo_platform::time::Deadline) -> Option<bool> {
                match self {
                    $($name::$variant(channel) => $crate::Transport::park(&mut **channel, deadline),)+
                }
            }

            fn finish_sleep(&mut self, rung: bool) {
                match self { $($name::$variant(channel) => $crate::Transport::finish_sleep(&mut **channel, rung),)+ }
            }

            fn close(&mut self) {
                match self { $($name::$variant(channel) => $crate::Transport::close(&mut **channel),)+ }
            }
        }
    };
}
