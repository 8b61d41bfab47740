//! Macros behind the declarations of stubs. Everything follows from the types of the fields and their
//! offsets.

/// Declares a struct or the contents of a message, together with its view in a received message.
///
/// Each field has its offset in bytes, its encoded type and its decoded type. The form is `apart` for structs
/// that lie out of line and can grow, or `inline` for a frozen struct; it is followed by the size of the
/// fields and their alignment, in bytes.
#[macro_export]
macro_rules! record {
    (
        $(#[$docs:meta])*
        pub struct $name:ident $(<$a:lifetime>)? => $view:ident<$m:lifetime>, $form:ident $bytes:literal / $align:literal;
        $($(#[$field_docs:meta])* $field:ident @ $at:literal: $value:ty => $read:ty,)*
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $name $(<$a>)? {
            $($(#[$field_docs])* pub $field: $value,)*
        }

        impl<$m, $($a)?> $crate::Body for $name $(<$a>)? {
            #[inline(always)]
            fn record_bytes(&self) -> u32 {
                $bytes
            }

            #[inline]
            fn measure(&self) -> Result<usize, $crate::OverLimit> {
                let bytes = 0;
                $(
                    let name = concat!(stringify!($name), ".", stringify!($field));
                    let bytes = bytes + <$read as $crate::Fits<$value>>::outside(&self.$field, name)?;
                )*
                Ok(bytes)
            }

            #[inline]
            #[allow(unused_variables, reason = "one without fields writes none")]
            fn fields<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $($crate::Encode::put(&self.$field, place, at + $at, out);)*
            }
        }

        impl<$m, $($a)?> $crate::Encode for $name $(<$a>)? {
            const BYTES: u32 = $crate::record!(@bytes $form $bytes);
            const ALIGN: u32 = $align;

            #[inline]
            fn put<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $crate::record!(@put $form self place at out);
            }
        }

        impl<$m, $($a)?> $crate::Fits<$name $(<$a>)?> for $view<$m> {
            #[inline]
            fn outside(value: &$name $(<$a>)?, _: &'static str) -> Result<usize, $crate::OverLimit> {
                let inside = $crate::Body::measure(value)?;
                Ok($crate::record!(@outside $form $bytes) + inside)
            }
        }

        $crate::record_view! {
            $name => $view<$m>, $form $bytes / $align;
            $($(#[$field_docs])* $field @ $at => $read,)*
        }
    };

    (@bytes apart $bytes:literal) => { 8 };
    (@bytes inline $bytes:literal) => { $bytes };
    (@outside apart $bytes:literal) => { $bytes };
    (@outside inline $bytes:literal) => { 0 };
    (@put apart $this:ident $place:ident $at:ident $out:ident) => {
        $crate::encode::put_record($this, $place, $at, $out)
    };
    (@put inline $this:ident $place:ident $at:ident $out:ident) => {
        $crate::Body::fields($this, $place, $at, $out)
    };
}

/// Declares the view of a struct or of a message's contents.
#[macro_export]
macro_rules! record_view {
    (
        $name:ident => $view:ident<$m:lifetime>, $form:ident $bytes:literal / $align:literal;
        $($(#[$field_docs:meta])* $field:ident @ $at:literal => $read:ty,)*
    ) => {
        #[doc = concat!("[`", stringify!($name), "`] where it lies in a message.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $view<$m> {
            record: $crate::Record<$m>,
        }

        impl<$m> From<$crate::Record<$m>> for $view<$m> {
            #[inline]
            fn from(record: $crate::Record<$m>) -> Self {
                $view { record }
            }
        }

        impl<$m> $view<$m> {
            $(
                $(#[$field_docs])*
                #[doc = ""]
                /// # Errors
                /// The peer wrote a value that the interface does not define.
                #[inline]
                pub fn $field(&self) -> Result<$read, $crate::Malformed> {
                    $crate::View::view(self.record, $at)
                }
            )*
        }

        impl<$m> $crate::View<$m> for $view<$m> {
            const BYTES: u32 = $crate::record!(@bytes $form $bytes);
            const ALIGN: u32 = $align;

            #[inline]
            fn view(record: $crate::Record<$m>, at: u32) -> Result<Self, $crate::Malformed> {
                $crate::record_view!(@view $form $bytes record at)
            }

            #[allow(unused_variables, reason = "one without fields has nothing inside")]
            fn check(&self, budget: &mut $crate::Budget) -> Result<(), $crate::Malformed> {
                $crate::record_view!(@spend $form self budget);
                $($crate::View::check(&self.$field()?, budget)?;)*
                Ok(())
            }
        }
    };

    (@view apart $bytes:literal $record:ident $at:ident) => { $record.record($at).map(<Self as ::core::convert::From<_>>::from) };
    (@view inline $bytes:literal $record:ident $at:ident) => { Ok($record.inline($at, $bytes).into()) };
    (@spend apart $this:ident $budget:ident) => { $this.record.spend($budget)? };
    (@spend inline $this:ident $budget:ident) => {};
}

/// Declares a union and its view. Each case has its ordinal, and its contents' encoded and decoded types.
#[macro_export]
macro_rules! union {
    (
        $(#[$docs:meta])*
        pub enum $name:ident $(<$a:lifetime>)? => $m:lifetime $view:ident $(<$of:lifetime>)?;
        $($(#[$case_docs:meta])* $ordinal:literal => $case:ident $(($item:ident: $value:ty => $read:ty))?,)*
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum $name $(<$a>)? {
            $($(#[$case_docs])* $case $(($value))?,)*
        }

        impl<$m, $($a)?> $crate::Encode for $name $(<$a>)? {
            const BYTES: u32 = 16;
            const ALIGN: u32 = 8;

            #[inline]
            fn put<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                match self {
                    $($name::$case { $(0: $item)? } => {
                        $crate::union!(@put $ordinal place at out $($item)?)
                    })*
                }
            }
        }

        impl<$m, $($a)?> $crate::Fits<$name $(<$a>)?> for $view $(<$of>)? {
            #[inline]
            #[allow(unused_variables, reason = "cases that carry nothing have no field")]
            fn outside(value: &$name $(<$a>)?, field: &'static str) -> Result<usize, $crate::OverLimit> {
                match value {
                    $($name::$case { $(0: $item)? } => {
                        let bytes = 0;
                        $(
                            let name = concat!(stringify!($name), ".", stringify!($case));
                            let bytes = $crate::encode::case_bytes::<$value>()
                                + <$read as $crate::Fits<$value>>::outside($item, name)?;
                        )?
                        Ok(bytes)
                    })*
                }
            }
        }

        $crate::union_view! {
            $name => $m $view $(<$of>)?;
            $($(#[$case_docs])* $ordinal => $case $((item: $read))?,)*
        }
    };

    (@put $ordinal:literal $place:ident $at:ident $out:ident) => { $place.bits($out, $at, $ordinal) };
    (@put $ordinal:literal $place:ident $at:ident $out:ident $item:ident) => {
        $crate::encode::put_case($ordinal, $item, $place, $at, $out)
    };
}

/// Declares the view of a union.
#[macro_export]
macro_rules! union_view {
    (
        $name:ident => $m:lifetime $view:ident $(<$of:lifetime>)?;
        $($(#[$case_docs:meta])* $ordinal:literal => $case:ident $(($item:ident: $read:ty))?,)*
    ) => {
        #[doc = concat!("[`", stringify!($name), "`] where it lies in a message.")]
        #[derive(Clone, Copy, Debug)]
        pub enum $view $(<$of>)? {
            $($(#[$case_docs])* $case $(($read))?,)*
            /// A case unknown to this side, sent by a newer peer.
            Unknown(u32),
        }

        impl<$m> $crate::View<$m> for $view $(<$of>)? {
            const BYTES: u32 = 16;
            const ALIGN: u32 = 8;

            #[inline]
            fn view(record: $crate::Record<$m>, at: u32) -> Result<Self, $crate::Malformed> {
                let (ordinal, inside) = record.case(at)?;
                Ok(match ordinal {
                    $($ordinal => $crate::union_view!(@view $view $case inside $($read)?),)*
                    other => $view::Unknown(other),
                })
            }

            #[allow(unused_variables, reason = "cases that carry nothing have nothing inside")]
            fn check(&self, budget: &mut $crate::Budget) -> Result<(), $crate::Malformed> {
                match self {
                    $($view::$case { $(0: $item)? } => {
                        $(
                            budget.spend($crate::encode::round_up(<$read as $crate::View>::BYTES))?;
                            $crate::View::check($item, budget)?;
                        )?
                        Ok(())
                    })*
                    $view::Unknown(_) => Ok(()),
                }
            }
        }
    };

    (@view $view:ident $case:ident $inside:ident) => { $inside.exactly(0)?.stands_for($view::$case) };
    (@view $view:ident $case:ident $inside:ident $read:ty) => {
        $view::$case(<$read as $crate::View>::view(
            $inside.exactly($crate::encode::round_up(<$read as $crate::View>::BYTES))?,
            0,
        )?)
    };
}

/// Declares an enum or flags: a number with named values.
///
/// `enum` has only the named values; `open` may have values without a name; `flags` is a set of bits, of
/// which those in the mask may be set.
#[macro_export]
macro_rules! number {
    (
        $(#[$docs:meta])*
        pub enum $name:ident: $repr:ident;
        $($(#[$value_docs:meta])* $value:ident = $number:literal,)*
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr($repr)]
        pub enum $name {
            $($(#[$value_docs])* $value = $number,)*
        }

        impl $name {
            /// Returns the number on the wire.
            #[inline]
            #[must_use]
            pub fn number(self) -> $repr {
                self as $repr
            }

            /// Returns the value of a number.
            #[inline]
            #[must_use]
            pub fn from_number(number: $repr) -> Option<Self> {
                Some(match number {
                    $($number => $name::$value,)*
                    _ => return None,
                })
            }
        }

        $crate::number!(@field $name $repr);
    };

    (
        $(#[$docs:meta])*
        pub open $name:ident: $repr:ident;
        $($(#[$value_docs:meta])* $value:ident = $number:literal,)*
    ) => {
        $crate::number!(@named $(#[$docs])* #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
            $name $repr "Its number; it may be one without a name.";
            $($(#[$value_docs])* $value = $number,)*);

        impl $name {
            /// Returns the value of a number.
            #[inline]
            #[must_use]
            pub fn from_number(number: $repr) -> Option<Self> {
                Some($name(number))
            }
        }

        /// Formats the name as in the interface: `not_found`; `Name(7)` for a number without a name.
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.0 {
                    $($number => $crate::lower_case(f, stringify!($value)),)*
                    number => write!(f, "{}({number})", stringify!($name)),
                }
            }
        }

        /// Formats the name of the constant: `NOT_FOUND`; `Name(7)` for a number without a name.
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.0 {
                    $($number => f.write_str(stringify!($value)),)*
                    number => write!(f, "{}({number})", stringify!($name)),
                }
            }
        }
    };

    (
        $(#[$docs:meta])*
        pub flags $name:ident: $repr:ident in $mask:literal;
        $($(#[$value_docs:meta])* $value:ident = $number:literal,)*
    ) => {
        $crate::number!(@named $(#[$docs])* #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
            $name $repr "Its bits.";
            $($(#[$value_docs])* $value = $number,)*);

        impl $name {
            /// Returns the flags of a number; `None` if it has undefined bits.
            #[inline]
            #[must_use]
            pub fn from_number(number: $repr) -> Option<Self> {
                if number & !$mask == 0 { Some($name(number)) } else { None }
            }

            /// Whether the set contains all of `others`.
            #[must_use]
            pub fn contains(self, others: Self) -> bool {
                self.0 & others.0 == others.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                $name(self.0 | other.0)
            }
        }
    };

    (
        @named $(#[$docs:meta])* $name:ident $repr:ident $what:literal;
        $($(#[$value_docs:meta])* $value:ident = $number:literal,)*
    ) => {
        $(#[$docs])*
        pub struct $name(
            #[doc = $what]
            pub $repr,
        );

        impl $name {
            $($(#[$value_docs])* pub const $value: $name = $name($number);)*

            /// Returns the number on the wire.
            #[inline]
            #[must_use]
            pub fn number(self) -> $repr {
                self.0
            }
        }

        $crate::number!(@field $name $repr);
    };

    (@field $name:ident $repr:ident) => {
        impl $crate::Encode for $name {
            const BYTES: u32 = size_of::<$repr>() as u32;
            const ALIGN: u32 = size_of::<$repr>() as u32;

            #[inline(always)]
            fn put<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                $crate::Encode::put(&self.number(), place, at, out);
            }
        }

        impl $crate::View<'_> for $name {
            const BYTES: u32 = size_of::<$repr>() as u32;
            const ALIGN: u32 = size_of::<$repr>() as u32;

            #[inline]
            fn view(record: $crate::Record<'_>, at: u32) -> Result<Self, $crate::Malformed> {
                let number = <$repr as $crate::View>::view(record, at)?;
                $name::from_number(number).ok_or_else(|| record.unnamed(at, number))
            }
        }

        impl $crate::Fits<$name> for $name {}
        $crate::holds_itself!($name);
    };
}

/// Declares an interface as a type, with the types for both ends of a channel.
#[macro_export]
macro_rules! interface {
    (
        $(#[$docs:meta])*
        pub struct $name:ident = $identity:literal version $version:literal;
        hash $hash:literal, fingerprint $fingerprint:literal;
        capabilities $capabilities:literal, buffers $buffers:literal, message_bytes $bytes:literal;
        client $client:ident<$events:ident>, server $server:ident;
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl $name {
            /// Package and name of the interface.
            pub const NAME: &'static str = $identity;
            /// Version, which increases when older peers can no longer be served.
            pub const VERSION: u32 = $version;
            /// Hash of package, name and version, which must match on both sides of a channel.
            pub const HASH: u64 = $hash;
            /// Hash of everything that peers can observe.
            pub const FINGERPRINT: u64 = $fingerprint;
        }

        impl $crate::Interface for $name {
            const NAME: &'static str = $identity;
            const VERSION: u32 = $version;
            const HASH: u64 = $hash;
            const FINGERPRINT: u64 = $fingerprint;
            const NEEDS: $crate::client::Needs = $crate::client::Needs {
                carries: $crate::Carries { capabilities: $capabilities, buffers: $buffers },
                message_bytes: $bytes,
            };
        }

        #[doc = concat!("The calling side of [`", stringify!($name), "`]: a client with the calls by name.")]
        /// Client of the interface; `E` receives the events.
        #[derive(Debug)]
        pub struct $client<P, E = ()>($crate::Client<$name, P, E>);

        impl<P: $crate::Port, E: $events> $client<P, E> {
            /// Creates a client over a channel that was opened with the hash of the interface.
            ///
            /// # Errors
            /// The link does not satisfy the interface's requirements.
            pub fn bind(port: P, events: E) -> Result<Self, $crate::BindError> {
                $crate::Client::bind(port, events).map($client)
            }

            $crate::interface!(@within "call");
        }

        impl<P: $crate::Port> $client<P> {
            /// Opens a channel to the domain that exports `name` for this interface. Its events are counted
            /// and dropped.
            ///
            /// # Errors
            /// Errors of the domain's `connect`, or a link that does not satisfy the interface's
            /// requirements.
            pub fn connect<D: $crate::Connect<Port = P>>(domain: &D, name: &str) -> Result<Self, D::Error> {
                Ok(Self::bind(domain.connect_for(name, $name::HASH)?, ())?)
            }
        }

        $crate::interface!(@wraps $client<P, E>, $crate::Client<$name, P, E>);

        #[doc = concat!("The serving side of [`", stringify!($name), "`]: a server with the events by name.")]
        #[derive(Debug)]
        pub struct $server<P>($crate::Server<$name, P>);

        impl<P: $crate::Port> $server<P> {
            /// Creates a server over a channel that was opened with the hash of the interface.
            ///
            /// # Errors
            /// The link does not satisfy the interface's requirements.
            pub fn bind(port: P) -> Result<Self, $crate::BindError> {
                $crate::Server::bind(port).map($server)
            }

            $crate::interface!(@within "operation");
        }

        $crate::interface!(@wraps $server<P>, $crate::Server<$name, P>);
    };

    (@within $what:literal) => {
        #[doc = concat!("Has the next ", $what, " wait up to `timeout`.")]
        #[inline]
        #[must_use = "it is the next one that waits so long"]
        pub fn within(&mut self, timeout: core::time::Duration) -> &mut Self {
            let _ = self.0.within(timeout);
            self
        }
    };

    (@wraps $wrapper:ident<$($of:ident),*>, $inner:ty) => {
        impl<$($of),*> core::ops::Deref for $wrapper<$($of),*> {
            type Target = $inner;

            #[inline]
            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl<$($of),*> core::ops::DerefMut for $wrapper<$($of),*> {
            #[inline]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }

        impl<$($of),*> $crate::Waited for $wrapper<$($of),*> {
            type End = P;

            #[inline]
            fn end(&self) -> &P {
                self.0.end()
            }

            #[inline]
            fn end_mut(&mut self) -> &mut P {
                self.0.end_mut()
            }
        }

        impl<$($of),*> From<$wrapper<$($of),*>> for $inner {
            fn from(wrapper: $wrapper<$($of),*>) -> Self {
                wrapper.0
            }
        }
    };
}

/// Declares a call as a type: its ordinal, parameters, results and error.
#[macro_export]
macro_rules! method {
    (
        $(#[$docs:meta])*
        pub struct $name:ident of $interface:ident @ $ordinal:literal, idempotent $idempotent:literal;
        $request:ty => $request_view:ident;
        $reply:ident $(<$a:lifetime>)? => $reply_view:ident;
        error $error:ty => $error_view:ty;
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name;

        impl $crate::Method for $name {
            type Interface = $interface;
            const ORDINAL: u16 = $ordinal;
            const IDEMPOTENT: bool = $idempotent;
            type RequestView<'m> = $request_view<'m>;
            type Reply<'a> = $reply $(<$a>)?;
            type ReplyView<'m> = $reply_view<'m>;
            type Error<'a> = $error;
            type ErrorView<'m> = $error_view;
        }

        impl $crate::Request for $request {
            type Method = $name;
        }
    };
}

/// Declares a one-way message of an interface, to the server (`OneWay`) or to the client (`Event`).
#[macro_export]
macro_rules! one_way {
    ($kind:ident $body:ty, of $interface:ident @ $ordinal:literal) => {
        impl $crate::$kind for $body {
            type Interface = $interface;
            const ORDINAL: u16 = $ordinal;
        }
    };
}

/// Declares the bodies that a server may send back.
#[macro_export]
macro_rules! answers {
    (
        $(#[$docs:meta])*
        pub enum $name:ident $(<$s:lifetime>)?;
        $($case:ident($of:ty),)*
    ) => {
        $(#[$docs])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[allow(missing_docs, reason = "each is what its type is")]
        pub enum $name $(<$s>)? {
            $($case($of),)*
        }

        impl $(<$s>)? $crate::Body for $name $(<$s>)? {
            #[inline]
            fn record_bytes(&self) -> u32 {
                match self {
                    $($name::$case(body) => $crate::Body::record_bytes(body),)*
                }
            }

            #[inline]
            fn measure(&self) -> Result<usize, $crate::OverLimit> {
                match self {
                    $($name::$case(body) => $crate::Body::measure(body),)*
                }
            }

            #[inline]
            fn fields<K: $crate::Sink + ?Sized>(
                &self,
                place: &mut $crate::encode::Place,
                at: u32,
                out: &mut $crate::encode::Out<'_, K>,
            ) {
                match self {
                    $($name::$case(body) => $crate::Body::fields(body, place, at, out),)*
                }
            }
        }
    };
}

/// Writes the name of a constant as in the interface, in lower case.
///
/// # Errors
/// Error of the formatter.
#[doc(hidden)]
pub fn lower_case(f: &mut core::fmt::Formatter<'_>, name: &str) -> core::fmt::Result {
    use core::fmt::Write;
    name.chars().try_for_each(|letter| f.write_char(letter.to_ascii_lowercase()))
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "what is declared is public wherever it stands")]
mod tests {
    use alloc::format;

    crate::number! {
        /// Reason why a call was declined.
        pub open Refusal: u8;
        /// There is no such key.
        NOT_FOUND = 1,
    }

    #[test]
    fn values_of_open_enums_are_shown_by_name() {
        let unnamed = Refusal(7);
        assert_eq!(format!("{} {}", Refusal::NOT_FOUND, unnamed), "not_found Refusal(7)");
        assert_eq!(format!("{:?} {:?}", Refusal::NOT_FOUND, unnamed), "NOT_FOUND Refusal(7)");
    }
}
